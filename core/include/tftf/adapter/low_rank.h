// The best approximation of lower rank to a product of two factors, without ever making the product (spec adapters 10).
//
// A product M = up * down, of `rows` x `cols`, has up as rows x R and down as R x cols. Both are seen here as a factor of R
// rows: of up its columns are the rows. All arithmetic is in F64, in an order that depends on the shapes alone: the same bits
// for every kernel table and host. What is neglected is about 1e-8 of |up| * |down|, the rounding of F32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tftf/base/dtype.h"
#include "tftf/base/result.h"
#include "tftf/simd/kernels.h"

namespace tftf {

// Some rows of a factor, as they are stored: rank x length, or length x rank when `rank_last`. Any dtype that casts to F64.
struct FactorPart {
  const std::byte* data = nullptr;
  DType dtype = DType::F32;
  uint64_t rank = 0;
  bool rank_last = false;
  double scale = 1;  // multiplies every element
};

// Parts one below the other.
struct FactorStack {
  std::span<const FactorPart> parts{};
  uint64_t length = 0;
  uint64_t rank() const;
};

// The largest rank that is decomposed: the work is its cube, the memory its square.
inline constexpr uint64_t kMaxDecomposedRank = 4096;

// What decompose() finds: M is nearest to the sum over i < n of values[i] * u_i * v_i, where u_i = sum over k of
// left[i][k] * (column k of up) and values[i] * v_i = sum over k of right[i][k] * (row k of down); u_i and v_i have length 1.
// Signs are chosen so that the largest coefficient of u_i in its basis is positive.
struct LowRank {
  std::span<double> values{};  // R of them, falling; 0 beyond the true rank
  std::span<double> left{};    // most x R
  std::span<double> right{};   // most x R
};

// Bytes of scratch that decompose() needs for R = rank, and that write_factor() needs: a multiple of 64. Nothing for a rank
// beyond kMaxDecomposedRank.
std::optional<uint64_t> low_rank_scratch(uint64_t rank);

// `most` = left.size() / R vectors are made. False: something is NaN or infinite, or too large for its square to be told.
bool decompose(const KernelTable& kernels, const FactorStack& up, const FactorStack& down,
               std::span<std::byte> scratch, const LowRank& into) noexcept;

// Row i of the new factor: factors[i] * sum over k of transform[i][k] * (row k of the stack), stored as count x length, or
// length x count when `rank_last`. `to`: F64, F32, F16 or BF16; one rounding (of F64 to F16 and BF16 that of `cast`).
// Returns how many elements became infinite.
uint64_t write_factor(const KernelTable& kernels, const FactorStack& from, std::span<const double> transform,
                      std::span<const double> factors, DType to, bool rank_last, std::span<std::byte> scratch,
                      std::byte* out) noexcept;

// The stack as it is (`sum`: its parts, which then have one rank, added in their order), stored likewise. Elements of scale 1
// keep their bits. Returns how many became infinite.
uint64_t write_stack(const KernelTable& kernels, const FactorStack& from, bool sum, DType to, bool rank_last,
                     std::span<std::byte> scratch, std::byte* out) noexcept;

// How many singular values are kept (spec adapters 10).
struct RankChoice {
  enum class Method : uint8_t { kFixed, kRatio, kCumulative, kFrobenius };
  Method method = Method::kFixed;
  uint64_t most = 1;  // --rank
  double param = 0;   // p
};

// "sv_ratio", "sv_cumulative", "sv_fro"; nothing for other words.
std::optional<RankChoice::Method> find_rank_method(std::string_view word);
// kUsage for a parameter that means nothing: sv_ratio takes p >= 1, the others 0 < p <= 1.
Result<void> check_rank_choice(const RankChoice& choice);

// n of `values`, those of a matrix whose smaller side is `side`: at least 1 and at most choice.most, the rank so far
// (values.size()) and `side`. A product whose largest value is no more than 1e-6 keeps 1.
uint64_t choose_rank(const RankChoice& choice, std::span<const double> values, uint64_t side) noexcept;

// sqrt of the share of the sum of squares that the first n values hold; 1 when all are 0.
double retained_norm(std::span<const double> values, uint64_t n) noexcept;

}  // namespace tftf
