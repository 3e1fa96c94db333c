// A tensor as values: which bytes of which file a run of its elements needs, and what they are, as stored or as
// its quantised layout means them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tftf/checkpoint/checkpoint.h"
#include "tftf/quant/colibri/values.h"
#include "tftf/quant/fp8_weight.h"
#include "tftf/quant/registry.h"
#include "tftf/simd/kernels.h"

namespace tftf {

// Views and pointers live as long as the checkpoint.
class TensorValues {
 public:
  // A byte range of one of the checkpoint's files.
  struct Range {
    uint32_t shard = 0;
    ByteRange range;
  };
  struct Ranges {
    std::array<Range, 2> range;
    uint32_t count = 1;
  };

  // As stored. The tensor's shard must be kOk.
  static TensorValues stored(const Checkpoint& checkpoint, TensorRef tensor);
  // The plain weight that a module stands for; nothing when its layout cannot be read (fp8_weight(),
  // colibri::row_decoder()).
  static std::optional<TensorValues> logical(const Checkpoint& checkpoint, const QuantConfig& config,
                                             const QuantMatch& match);

  // The same by the tensor that holds the codes. Errors: kRefusedUnsupported when it is of no layout, or of one
  // that cannot be read; kRefusedInput when its file is not sound.
  static Result<TensorValues> logical(const Checkpoint& checkpoint, const LayoutReport& layouts,
                                      TensorRef tensor);

  std::string_view name() const { return info_->name; }
  TensorRef tensor() const { return tensor_; }
  DType stored_dtype() const { return info_->dtype; }
  // What the values are: the stored dtype, or the layout's own result dtype.
  DType dtype() const { return dtype_; }
  // Of the values; where a layout stores them flat, stored_shape() differs.
  const Shape& shape() const { return shape_ ? *shape_ : info_->shape; }
  const Shape& stored_shape() const { return info_->shape; }
  uint64_t elements() const { return elements_; }
  // Empty: plain.
  std::string_view layout() const { return layout_; }
  const std::optional<Fp8Weight>& fp8() const { return fp8_; }
  // Rows of another layout; null.
  const colibri::RowDecoder* rows_decoder() const { return decoder_.get(); }
  bool quantised() const { return fp8_.has_value() || decoder_ != nullptr; }
  // The tensor of scales of a quantised weight.
  TensorRef scales() const { return fp8_ ? fp8_->scales : scales_; }

  // As a matrix: the last dimension as columns, all others together as rows; a scalar is 1 x 1, a vector one
  // row.
  uint64_t rows() const;
  uint64_t columns() const;

  // What a run of at least one element needs: data, and with a layout the scales. Where elements are smaller
  // than a byte the data begin and end at whole bytes around the run; where rows are decoded as wholes, at whole rows.
  Ranges ranges(ElementRun run) const;

 private:
  friend class ValueRun;
  const Checkpoint* checkpoint_ = nullptr;
  const TensorInfo* info_ = nullptr;
  TensorRef tensor_;
  DType dtype_{};
  uint64_t elements_ = 0;
  std::string_view layout_;
  std::optional<Fp8Weight> fp8_;
  std::shared_ptr<const colibri::RowDecoder> decoder_;
  TensorRef scales_;
  std::optional<Shape> shape_;
};

// The bytes of a run in hand, to be read in parts.
class ValueRun {
 public:
  // `bytes`: those of values.ranges(run), as long as this is used. Both must outlive this.
  ValueRun(const KernelTable& kernels, const TensorValues& values, ElementRun run,
           std::span<const Bytes> bytes);

  // The stored elements from `at` (counted from the run's first) on; nothing when they are quantised or do not
  // begin at a whole byte.
  const std::byte* stored(uint64_t at) const;
  // Elements [at, at + count) of the run as `to`: F64, F32, F16, BF16 by the rules of cast(), or the values' own
  // dtype. With a layout `to` is BF16, F16, F32 (as dequantising to it gives) or F64 (the values() dtype's value
  // widened). Not for C64 unless `to` is C64.
  void read(uint64_t at, uint64_t count, DType to, std::byte* out) const;

 private:
  const KernelTable* kernels_;
  const TensorValues* values_;
  ElementRun run_;
  Bytes data_;
  uint64_t lead_ = 0;          // elements in data_ before the run
  std::vector<float> scales_;  // with a layout
  // Of a layout of rows: the one decoded last, counted from the first in data_.
  const std::vector<float>& row(uint64_t number) const;
  mutable std::vector<float> row_;
  mutable uint64_t row_number_ = UINT64_MAX;
};

}  // namespace tftf
