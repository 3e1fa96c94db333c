// One tensor's values for people: decoded runs, statistics with a histogram, a heat map. A host reads the bytes
// and hands them over in runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tftf/base/json_text.h"
#include "tftf/simd/kernels.h"
#include "tftf/simd/scan.h"

namespace tftf {

// Elements of a run that begins at a byte: a multiple of this many of any dtype does.
inline constexpr uint64_t kWholeByteElements = 8;

// Any dtype but C64 can be looked at.
bool can_view(DType dtype);

// `count` elements as F64, NaN as NaN; integers beyond 2^53 are rounded.
void decode_values(const KernelTable& kernels, DType dtype, const std::byte* data, uint64_t count,
                   double* out);

// Counts, extremes, mean and deviation in a first pass, the histogram in a second.
class RunStatistics {
 public:
  RunStatistics(const KernelTable& kernels, DType dtype) : kernels_(&kernels), dtype_(dtype) {}

  // Runs in order, together the whole tensor. Each begins at a byte.
  void add(const std::byte* data, uint64_t count);
  // After the first pass: bins of equal width between the extremes of the finite values, whose last edge
  // belongs to the last bin. At most 4096 bins. Without finite values the histogram stays empty.
  void begin_histogram(uint32_t bins);
  // The same runs again, in any order.
  void add_histogram(const std::byte* data, uint64_t count);

  // {"count", "nan", "infinite", "zero", "subnormal", "negative", "min", "max", "mean", "std", "histogram":
  // {"low", "high", "counts"}}; what there is not is null.
  OrderedJson to_json() const;

 private:
  const KernelTable* kernels_;
  DType dtype_;
  uint64_t seen_ = 0;
  Scan scan_;
  Moments block_;
  uint64_t in_block_ = 0;
  MeanSpread spread_;
  double low_ = 0, high_ = 0;
  std::vector<uint64_t> bins_;
  std::vector<double> buffer_;
};

// A matrix seen from afar: each cell stands for some rows and columns and keeps mean, least and largest of the
// finite values (F32; NaN where there are none) and whether there were
// others.
class HeatMap {
 public:
  // `cols`: of the part that is looked at; at most 4096 cells each way, what lies beyond is left out.
  HeatMap(const KernelTable& kernels, DType dtype, uint64_t cols, uint64_t cell_cols, uint32_t height);

  uint32_t width() const { return width_; }
  // Values `begin`.. of a row that belongs to the cells of row `cell_row`.
  void add(uint32_t cell_row, uint64_t begin, const std::byte* data, uint64_t count);
  // Once, after everything was added.
  void finish();

  const std::vector<float>& mean() const { return mean_; }
  const std::vector<float>& low() const { return low_; }
  const std::vector<float>& high() const { return high_; }
  const std::vector<uint8_t>& non_finite() const { return non_finite_; }

 private:
  const KernelTable* kernels_;
  DType dtype_;
  uint64_t cell_cols_;
  uint32_t width_;
  std::vector<double> sum_;
  std::vector<uint64_t> finite_;
  std::vector<float> mean_, low_, high_;
  std::vector<uint8_t> non_finite_;
  std::vector<double> buffer_;
};

}  // namespace tftf
