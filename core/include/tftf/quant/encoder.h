// What turns elements into the codes of a layout: every layout that is written has one Encoder.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/base/dtype.h"
#include "tftf/base/result.h"
#include "tftf/quant/weight.h"
#include "tftf/simd/kernels.h"

namespace tftf {

// What the user chose beside the layout; 0 and nothing: the layout's own.
struct EncodeOptions {
  uint32_t bits = 0;
  uint64_t group_size = 0;
  bool whole_rows = false;  // a group is a row, whatever its length
  bool asymmetric = false;  // zero points of the values' own
  bool nested = false;      // scales that are quantised themselves, for an Encoder that `nests`
  bool strict = false;      // warnings about what a reader would misread are refusals
};

struct EncodeRequest {
  const std::string& name;  // of the weight
  uint64_t rows = 0;        // at least 1, as columns
  uint64_t columns = 0;
  DType from = DType::F32;  // of the elements: F32, BF16 or F16
  const EncodeOptions& options;
  // The elements are read from a tensor as they lie there (or are only cast), so that strips of columns can be read.
  bool plain = false;
  std::optional<std::string> stamp{};  // what a reader of colibri containers will find
};

struct Encoder;

// A tensor that stands for a part of the weight.
struct EncodedPart {
  std::string name;
  DType dtype{};
  Shape shape;
  std::optional<std::string> literal{};  // its bytes, when planning knows them
  // Its bytes are those that measured() gives, from this offset on.
  std::optional<uint64_t> measured{};
  bool is_output() const { return !literal && !measured; }
};

// Immutable. Equal `word`, `key` and `from` encode alike; only the parts differ.
struct Encoded {
  const Encoder* encoder = nullptr;
  std::string word{};  // in the plan's text: "fp8-block"
  std::string key{};
  uint64_t elements = 0;
  std::vector<EncodedPart> parts{};  // the codes first
  std::string warning{};
  // Weights of the same name here are measured as one; empty: each by itself.
  std::string measured_with{};
  // What the values are that have no code: "more than two of four"; empty: NaN, infinite or too large to be quantised.
  std::string unfit{};
  // As in Weight. `bits`: that a tile writes per element, rounded up.
  uint64_t unit = 1;
  uint64_t tile_unit = 0;
  uint64_t piece = 0;
  uint32_t bits = 8;
  // Not 0: tiles are strips of so many columns (the last may be narrower) of all `rows` rows of `columns`, each a
  // row-major matrix of its own: tile t begins at element t * strip * rows. `strip` == `columns`: the whole matrix.
  uint64_t strip = 0;
  uint64_t rows = 0;
  uint64_t columns = 0;
  std::shared_ptr<const void> state{};

  template <class T>
  const T& as() const {
    return *static_cast<const T*>(state.get());
  }
};

// Counts and maxima over all elements of a weight, merged in any order: sums of `n` (which may wrap) and `lost`, the largest
// `largest` and `second`, both finite and not below 0.
struct Measure {
  std::array<uint64_t, 3> n{};
  uint64_t lost = 0;  // elements that have no code: the run ends
  double largest = 0;
  double second = 0;
};

struct EncodeTask {
  const KernelTable& kernels;
  ElementRange tile;
  DType from;                           // of the elements
  std::span<std::byte* const> out;      // of the tile's ranges, in their order
  std::byte* scratch = nullptr;         // scratch() bytes
  const std::byte* measured = nullptr;  // what measured() gave
};

// What config.json is to say of a model in the layout.
struct ConfigRequest {
  const std::vector<std::string>& plain_modules;  // that stay floats
  const EncodeOptions& options;
  DType dtype = DType::BF16;  // of the elements: that of the first matrix
};

struct Encoder {
  // kUsage for options that the layout has not, or not with such values. Null: it has none.
  Result<void> (*check)(std::string_view layout, const EncodeOptions& options) = nullptr;
  // The tensors that will stand for a weight; a refusal says what of the weight does not fit.
  Result<Encoded> (*plan)(const EncodeRequest& request) = nullptr;
  // What a tile writes of each part that is an output, in order: each continues where the tile before ended.
  void (*writes)(const Encoded& encoded, ElementRange tile, PartRanges& ranges) = nullptr;
  // Elements of a piece of the tile, as task.from, to codes and scales. Returns how many have no code (not finite).
  uint64_t (*encode)(const Encoded& encoded, const EncodeTask& task, ElementRange piece,
                     const std::byte* in) noexcept = nullptr;
  uint64_t (*scratch)(const Encoded& encoded, uint64_t units) = nullptr;
  // A first pass over all elements, in pieces like those of encode(), and what it gives: bytes for encode() and for the
  // parts that are `measured`. Null: none.
  void (*measure)(const Encoded& encoded, const EncodeTask& task, ElementRange piece, const std::byte* in,
                  Measure& into) noexcept = nullptr;
  std::string (*measured)(const Encoded& encoded, const Measure& all) = nullptr;
  // The quantisation section of config.json: a JSON object. Null: none.
  std::string (*config)(const ConfigRequest& request) = nullptr;
  bool config_twice = false;  // under `quantization` too, where MLX looks
  bool nests = false;         // takes EncodeOptions::nested
  bool stamped = false;       // a colibri container, whose metadata names its formats
};

// A unit (a row, 128 rows, a matrix) is worked on at once: past this many bytes of F32 it is refused while planning.
inline constexpr uint64_t kLargestUnitBytes = uint64_t{256} << 20;
// kRefusedUnsupported when `rows_at_once` rows are more than that.
Result<void> check_encoded_unit(const EncodeRequest& request, uint64_t rows_at_once);
// "Tensor NAME of shape [r,c] WHAT."
Error cannot_encode(const EncodeRequest& request, const std::string& what);
// kUsage for any of --bits and --group-size.
Result<void> check_no_encode_options(std::string_view layout, const EncodeOptions& options);

}  // namespace tftf
