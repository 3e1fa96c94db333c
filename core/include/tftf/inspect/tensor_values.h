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
#include "tftf/inspect/value_pass.h"
#include "tftf/quant/registry.h"
#include "tftf/quant/weight.h"
#include "tftf/simd/kernels.h"

namespace tftf {

// Views and pointers live as long as the checkpoint.
class TensorValues {
 public:
  // As stored. The tensor's shard must be kOk.
  static TensorValues stored(const Checkpoint& checkpoint, TensorRef tensor);
  // The plain weight that a module stands for. Errors: those of open_weight().
  static Result<TensorValues> logical(OpenContext& context, const QuantMatch& match);

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
  const Shape& shape() const { return weight_ != nullptr ? weight_->shape : info_->shape; }
  const Shape& stored_shape() const { return info_->shape; }
  uint64_t elements() const { return elements_; }
  // Empty: plain.
  std::string_view layout() const { return layout_; }
  bool quantised() const { return weight_ != nullptr; }
  // Null: plain.
  const Weight* weight() const { return weight_.get(); }

  // As a matrix: the last dimension as columns, all others together as rows; a scalar is 1 x 1, a vector one
  // row.
  uint64_t rows() const;
  uint64_t columns() const;

  // What a run of at least one element needs. Where elements are smaller than a byte the data begin and end at whole bytes
  // around the run; of a layout they are what Decoder::reads() gives for the units around it. Always as many ranges as
  // range_count().
  std::vector<ShardRange> ranges(ElementRange run) const;
  size_t range_count() const { return weight_ == nullptr ? 1 : weight_->reads; }

 private:
  friend class ValueRun;
  const Checkpoint* checkpoint_ = nullptr;
  const TensorInfo* info_ = nullptr;
  TensorRef tensor_;
  DType dtype_{};
  uint64_t elements_ = 0;
  std::string_view layout_;
  // The units around a run of a quantised weight.
  ElementRange whole_units(ElementRange run) const;

  std::shared_ptr<const Weight> weight_;
};

// The bytes of a run in hand, to be read in parts.
class ValueRun {
 public:
  // `bytes`: those of values.ranges(run), as long as this is used. Both must outlive this.
  ValueRun(const KernelTable& kernels, const TensorValues& values, ElementRange run,
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
  ElementRange run_;
  Bytes data_;
  uint64_t lead_ = 0;  // elements in data_ before the run
  // With a layout: the units in hand, and the block of them that was decoded last.
  DecodeTask task() const { return {*kernels_, tile_, parts_, scratch_}; }
  void decode_block(uint64_t first) const;
  ElementRange tile_;
  std::vector<const std::byte*> parts_;
  std::vector<std::max_align_t> scratch_bytes_;
  std::byte* scratch_ = nullptr;
  bool broken_ = false;  // then every value is NaN
  mutable std::vector<float> block_;
  mutable ElementRange held_;
};

}  // namespace tftf
