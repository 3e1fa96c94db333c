#include "tftf/inspect/value_view.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tftf/simd/cast.h"

namespace tftf {
namespace {

constexpr uint32_t kMostBins = 4096;
// Values decoded at a time: the buffer stays in the cache.
constexpr uint64_t kDecodedRun = 4096;

uint64_t byte_length(DType dtype, uint64_t count) { return count * dtype_bits(dtype) / 8; }

OrderedJson number_or_null(bool there, double value) { return there ? json_float(value) : OrderedJson(); }

}  // namespace

bool can_view(DType dtype) { return can_cast(dtype, DType::F64); }

void decode_values(const KernelTable& kernels, DType dtype, const std::byte* data, uint64_t count,
                   double* out) {
  cast(kernels, dtype, DType::F64, data, reinterpret_cast<std::byte*>(out), count);
}

void RunStatistics::add(const std::byte* data, uint64_t count) {
  kernels_->scan(dtype_, data, seen_, count, scan_);
  seen_ += count;
  // Blocks are whole bytes in any dtype.
  while (count > 0) {
    const uint64_t run = std::min(count, kMomentBlock - in_block_);
    kernels_->moments(dtype_, data, in_block_, run, block_);
    in_block_ += run;
    if (in_block_ == kMomentBlock) {
      append(spread_, block_result(block_));
      block_ = Moments{};
      in_block_ = 0;
    }
    data += byte_length(dtype_, run);
    count -= run;
  }
}

void RunStatistics::begin_histogram(uint32_t bins) {
  if (in_block_ > 0) append(spread_, block_result(block_));
  in_block_ = 0;
  if (!scan_.has_range()) return;
  low_ = scan_value(dtype_, scan_.min_key);
  high_ = scan_value(dtype_, scan_.max_key);
  bins_.assign(std::clamp<uint32_t>(bins, 1, kMostBins), 0);
  buffer_.resize(kDecodedRun);
}

void RunStatistics::add_histogram(const std::byte* data, uint64_t count) {
  if (bins_.empty()) return;
  // Halves, so that the width of the widest F64 range is finite, too.
  const double half_width = high_ / 2 - low_ / 2;
  const auto bins = static_cast<double>(bins_.size());
  while (count > 0) {
    const uint64_t run = std::min(count, kDecodedRun);
    decode_values(*kernels_, dtype_, data, run, buffer_.data());
    for (uint64_t i = 0; i < run; ++i) {
      const double value = buffer_[static_cast<size_t>(i)];
      if (!std::isfinite(value)) continue;
      const double at = half_width > 0 ? (value / 2 - low_ / 2) / half_width * bins : 0;
      const auto bin = static_cast<size_t>(std::max(0.0, at));
      ++bins_[std::min(bin, bins_.size() - 1)];
    }
    data += byte_length(dtype_, run);
    count -= run;
  }
}

OrderedJson RunStatistics::to_json() const {
  const bool some = scan_.has_range();
  OrderedJson out;
  out["count"] = json_integer(scan_.count);
  out["nan"] = json_integer(scan_.nan);
  out["infinite"] = json_integer(scan_.inf);
  out["zero"] = json_integer(scan_.zero);
  out["subnormal"] = json_integer(scan_.subnormal);
  out["negative"] = json_integer(scan_.negative);
  out["min"] = number_or_null(some, some ? scan_value(dtype_, scan_.min_key) : 0);
  out["max"] = number_or_null(some, some ? scan_value(dtype_, scan_.max_key) : 0);
  out["mean"] = number_or_null(spread_.count > 0, spread_.mean);
  out["std"] =
      number_or_null(spread_.count > 0,
                     spread_.count > 0 ? std::sqrt(spread_.spread / static_cast<double>(spread_.count)) : 0);
  out["histogram"] = nullptr;
  if (!bins_.empty()) {
    OrderedJson histogram;
    histogram["low"] = json_float(low_);
    histogram["high"] = json_float(high_);
    histogram["counts"] = OrderedJson::array();
    for (const uint64_t bin : bins_) histogram["counts"].push_back(json_integer(bin));
    out["histogram"] = std::move(histogram);
  }
  return out;
}

HeatMap::HeatMap(const KernelTable& kernels, DType dtype, uint64_t cols, uint64_t cell_cols, uint32_t height)
    : kernels_(&kernels), dtype_(dtype), cell_cols_(std::max<uint64_t>(cell_cols, 1)) {
  constexpr uint64_t kMostCells = 4096;
  width_ = static_cast<uint32_t>(std::min(kMostCells, (cols + cell_cols_ - 1) / cell_cols_));
  const size_t cells = static_cast<size_t>(width_) * std::min<size_t>(height, kMostCells);
  sum_.assign(cells, 0);
  finite_.assign(cells, 0);
  low_.assign(cells, std::numeric_limits<float>::infinity());
  high_.assign(cells, -std::numeric_limits<float>::infinity());
  non_finite_.assign(cells, 0);
  buffer_.resize(kDecodedRun);
}

void HeatMap::add(uint32_t cell_row, uint64_t begin, const std::byte* data, uint64_t count) {
  const size_t first = static_cast<size_t>(cell_row) * width_;
  while (count > 0) {
    const uint64_t run = std::min(count, kDecodedRun);
    decode_values(*kernels_, dtype_, data, run, buffer_.data());
    for (uint64_t i = 0; i < run; ++i) {
      const uint64_t column = (begin + i) / cell_cols_;
      if (column >= width_) return;
      const size_t cell = first + static_cast<size_t>(column);
      if (cell >= sum_.size()) return;
      const double value = buffer_[static_cast<size_t>(i)];
      if (!std::isfinite(value)) {
        non_finite_[cell] = 1;
        continue;
      }
      sum_[cell] += value;
      ++finite_[cell];
      const auto rounded = static_cast<float>(value);
      low_[cell] = std::min(low_[cell], rounded);
      high_[cell] = std::max(high_[cell], rounded);
    }
    begin += run;
    data += byte_length(dtype_, run);
    count -= run;
  }
}

void HeatMap::finish() {
  mean_.resize(sum_.size());
  for (size_t cell = 0; cell < sum_.size(); ++cell) {
    if (finite_[cell] > 0) {
      mean_[cell] = static_cast<float>(sum_[cell] / static_cast<double>(finite_[cell]));
    } else {
      mean_[cell] = low_[cell] = high_[cell] = std::numeric_limits<float>::quiet_NaN();
    }
  }
}

}  // namespace tftf
