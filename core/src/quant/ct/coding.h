// How a weight becomes the tensors of a compressed-tensors module: decided while planning, from its scheme and what is given
// for it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "quant/ct/layout.h"
#include "quant/ct/qparams.h"
#include "tftf/container/tensor_file.h"
#include "tftf/quant/encoder.h"

namespace tftf::ct {

// What differs between releases of the library that write the same format.
struct Release {
  bool padded = false;        // fields of 3, 5, 6 and 7 bits do not cross words (before 0.18)
  bool plain_zeros = false;   // zero points of packed codes are I8 (before 0.9.4)
  bool weight_names = false;  // sparse: M.weight.shape instead of M.shape (before 0.9)
};
Release release_of(std::optional<uint64_t> version);

// What a file has for a weight; a part that it has not is computed.
struct GivenParams {
  std::optional<TensorFile::Tensor> scale{}, zero{}, global{}, order{};
};

// Nonzero elements of each row, counted beforehand.
using RowCounts = std::vector<uint32_t>;

struct CodingRequest {
  const std::string& module;  // without ".weight"
  uint64_t rows = 0, columns = 0;
  DType type = DType::F32;  // of the elements
  std::string format{};     // "pack-quantized"; empty: no scheme, sparse alone
  const Args* args = nullptr;
  Sparse sparse = Sparse::kNo;
  Release release{};
  GivenParams given{};
  std::string shared{};               // modules of that name have one global scale
  const RowCounts* counts = nullptr;  // of kBitmask
  bool plain = false;                 // as EncodeRequest::plain
};

// The parts' names are module + "." + …; a refusal names the tensor.
Result<Encoded> plan_coding(const CodingRequest& request);
// The same for Marlin 2:4 (marlin_encoder.cpp).
Result<Encoded> plan_marlin(const CodingRequest& request);

// "Tensor MODULE.weight of shape [r,c] WHAT."
Error cannot_code(const CodingRequest& request, const std::string& what);
// Scales and zero points that are given, as numbers; checked against the grid. Zero points: none where the scheme is
// symmetric.
struct GivenGrid {
  std::vector<float> scales{}, zeros{};
};
Result<GivenGrid> read_given(const CodingRequest& request, const Layout& layout);

// "Of module M WHAT."
Error bad_given(const CodingRequest& request, const std::string& what);

enum class Target : uint8_t {
  kWords,  // fields of `bits` bits in I32 words
  kI8,
  kI16,
  kF8,
  kPairs,   // E2M1, two to a byte
  kValues,  // the elements themselves
};

// What a first phase finds of a weight: bytes from these offsets on, and whole.
inline constexpr uint64_t kMeasuredScale = 8, kMeasuredZero = 12, kMeasuredGlobal = 16;

// The state of an encoder.
struct Coding {
  Target target = Target::kI8;
  uint32_t bits = 8;
  bool padded = false;
  DType type = DType::BF16;        // of the elements
  DType arithmetic = DType::BF16;  // of quotients
  uint64_t rows = 0, columns = 0;
  uint64_t code_row_bytes = 0;  // of a stored row that is not sparse
  uint64_t scale_rows = 1, scale_columns = 1, grid_columns = 1;
  ScaleRule rule{};
  bool quantises = true;
  bool one = false;       // one scale for all
  bool computes = true;   // scales come from the values that they cover
  bool measures = false;  // one scale, or the global one, comes from all values
  bool divides = false;   // by a global scale …
  float global = 1.0f;    // … that is given
  DType scale_dtype = DType::BF16;
  Zeros zeros = Zeros::kNone;
  DType zero_dtype = DType::I8;
  uint64_t zero_rows = 32;  // packed: rows whose zero points fill words
  GivenGrid given{};
  std::vector<uint32_t> order{};  // group of each column; empty: in order
  Sparse sparse = Sparse::kNo;
  std::vector<uint64_t> begins{};  // kBitmask: of each row among the stored elements, and their number

  bool writes_scales() const { return computes && !one; }
  uint64_t row_unit() const;       // rows that are coded together
  uint64_t element_bytes() const;  // of a stored element that is one by itself
};

// The scales that are given, as the format stores them; coding.given holds their numbers.
Result<EncodedPart> scale_part(const CodingRequest& request, const Coding& coding);
// Zero points of a grid as bytes: fields down the rows of each column, or one number each.
std::string packed_zeros(const Coding& coding, const std::vector<float>& zeros);
std::string plain_zeros(const Coding& coding, const std::vector<float>& zeros);
std::string literal_bytes(Bytes bytes);

// The codes of the first `width` columns of a row of F32 `values`, which are spent, under the scales of its grid row.
void code_row(const Coding& coding, const KernelTable& kernels, float* values, uint64_t width,
              const float* scales, const float* zeros, std::byte* out) noexcept;
// Fields of codes into words: `codes` less than 2^(bits-1) to both sides; the words have to be zero.
void pack_row(const int8_t* codes, uint64_t count, uint32_t bits, bool padded, std::byte* words) noexcept;
// Whether an element of so many bytes is not zero; of floats -0 is.
bool is_nonzero(const std::byte* element, uint64_t size, bool floats) noexcept;
uint64_t mask_bytes(const Coding& coding) noexcept;  // of a row
// Two of every four elements of `count`, whole rows, and their bits, which have to be zero. Returns how many fours have more
// than two.
uint64_t thin_out(const Coding& coding, const std::byte* codes, uint64_t count, std::byte* stored,
                  std::byte* mask) noexcept;
// The nonzero elements of a row, `expected` of them, and their bits. Returns how many there are too many or too few.
uint64_t keep_nonzero(const Coding& coding, const std::byte* codes, uint64_t expected, std::byte* stored,
                      std::byte* mask) noexcept;
// Which two of four elements are kept when at most two are nonzero (a bit each): as the library's search for the two largest
// has it, which with ties keeps certain zeros. 0: more than two.
uint32_t kept_of_four(uint32_t nonzero) noexcept;

extern const Encoder kCodingEncoder, kMeasuredCodingEncoder;

}  // namespace tftf::ct
