#include "tftf/inspect/tensor_values.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/simd/cast.h"

namespace tftf {
namespace {

// Elements that together fill whole bytes: F4 and F6 are smaller than one.
uint64_t byte_granule(DType dtype) {
  const uint32_t bits = dtype_bits(dtype);
  return bits == 4 ? 2 : bits == 6 ? 4 : 1;
}

size_t bytes_of_elements(DType dtype, uint64_t count) {
  return static_cast<size_t>(ceil_div(count * dtype_bits(dtype), 8));
}

// Elements that are decoded at once where a decoder works on units.
constexpr uint64_t kDecodedAtOnce = 4096;

}  // namespace

TensorValues TensorValues::stored(const Checkpoint& checkpoint, TensorRef tensor) {
  TensorValues values;
  values.checkpoint_ = &checkpoint;
  values.info_ = &checkpoint.info(tensor);
  values.tensor_ = tensor;
  values.dtype_ = values.info_->dtype;
  values.elements_ = element_count(values.info_->shape).value_or(0);
  return values;
}

Result<TensorValues> TensorValues::logical(OpenContext& context, const QuantMatch& match) {
  Result<Weight> weight = open_weight(context, match);
  if (!weight) return std::move(weight).error();
  TensorValues values = stored(context.checkpoint, match.weight);
  values.dtype_ = match.logical_dtype;
  values.layout_ = match.layout;
  values.elements_ = weight->elements;
  values.weight_ = std::make_shared<const Weight>(*std::move(weight));
  return values;
}

Result<TensorValues> TensorValues::logical(const Checkpoint& checkpoint, const LayoutReport& layouts,
                                           TensorRef tensor) {
  const TensorInfo& info = checkpoint.info(tensor);
  const std::string& file = checkpoint.shards[tensor.shard].name;
  const auto refused = [&](ErrorCode code, const std::string& what, const std::string& where) {
    return Error{.code = code,
                 .message = "Tensor " + quote_name(info.name) + " of " + quote_name(file) + " " + what + ".",
                 .file = where,
                 .tensor = info.name};
  };
  const auto sound = [&](TensorRef ref) { return checkpoint.shards[ref.shard].status == ShardStatus::kOk; };
  for (const QuantFinding& finding : layouts.findings)
    for (const QuantMatch& match : finding.matches) {
      if (match.weight.shard != tensor.shard || match.weight.tensor != tensor.tensor) continue;
      OpenContext context{checkpoint, read_quant_config(checkpoint)};
      Result<TensorValues> values = logical(context, match);
      if (!values) return std::move(values).error();
      for (const WeightPart& part : values->weight()->parts)
        if (!sound(part.tensor))
          return refused(
              ErrorCode::kRefusedInput,
              "needs " + quote_name(checkpoint.shards[part.tensor.shard].name) + ", which is not sound",
              checkpoint.shards[part.tensor.shard].name);
      return *std::move(values);
    }
  return refused(ErrorCode::kRefusedUnsupported, "is no quantised weight", file);
}

uint64_t TensorValues::columns() const { return shape().empty() ? 1 : shape().back(); }

uint64_t TensorValues::rows() const { return elements_ == 0 ? 0 : elements_ / columns(); }

ElementRange TensorValues::whole_units(ElementRange run) const {
  const uint64_t unit = std::max(weight_->unit, weight_->tile_unit);
  const uint64_t first = run.first / unit * unit;
  const uint64_t end = std::min(elements_, ceil_div(run.first + run.count, unit) * unit);
  return {first, end - first};
}

std::vector<ShardRange> TensorValues::ranges(ElementRange run) const {
  const auto begin_of = [&](TensorRef tensor) {
    return checkpoint_->shards[tensor.shard].header.data_offset() + checkpoint_->info(tensor).begin;
  };
  std::vector<ShardRange> out;
  if (weight_ != nullptr) {
    PartRanges parts;
    weight_->decoder->reads(*weight_, whole_units(run), parts);
    for (const PartRange& part : parts) {
      const TensorRef tensor = weight_->parts[part.part].tensor;
      out.push_back({.shard = tensor.shard,
                     .rows = part.rows,
                     .offset = begin_of(tensor) + part.offset,
                     .row_bytes = part.row_bytes,
                     .stride = part.stride});
    }
    return out;
  }
  const uint64_t granule = byte_granule(info_->dtype), bits = dtype_bits(info_->dtype);
  const uint64_t begin = run.first / granule * granule;
  out.push_back({.shard = tensor_.shard,
                 .offset = begin_of(tensor_) + begin * bits / 8,
                 .row_bytes = ceil_div((run.first + run.count - begin) * bits, 8)});
  return out;
}

ValueRun::ValueRun(const KernelTable& kernels, const TensorValues& values, ElementRange run,
                   std::span<const Bytes> bytes)
    : kernels_(&kernels), values_(&values), run_(run), data_(bytes[0]) {
  lead_ = run.first % byte_granule(values.stored_dtype());
  const Weight* weight = values.weight();
  if (weight == nullptr) return;
  tile_ = values.whole_units(run);
  for (const Bytes& part : bytes) parts_.push_back(part.data());
  if (weight->decoder->scratch != nullptr) {
    const uint64_t size = weight->decoder->scratch(*weight, tile_.count);
    scratch_bytes_.resize(to_size(ceil_div(size, sizeof(std::max_align_t))));
    scratch_ = reinterpret_cast<std::byte*>(scratch_bytes_.data());
  }
  if (weight->decoder->begin != nullptr) broken_ = !weight->decoder->begin(*weight, task());
}

// The block of whole units that holds element `first`, as F32.
void ValueRun::decode_block(uint64_t first) const {
  const Weight& weight = *values_->weight();
  const uint64_t block = weight.unit * ceil_div(kDecodedAtOnce, weight.unit);
  const uint64_t begin = tile_.first + (first - tile_.first) / block * block;
  held_ = {begin, std::min(block, tile_.first + tile_.count - begin)};
  block_.resize(to_size(held_.count));
  if (broken_) {
    std::fill(block_.begin(), block_.end(), std::numeric_limits<float>::quiet_NaN());
    return;
  }
  weight.decoder->decode(weight, task(), held_, DType::F32, reinterpret_cast<std::byte*>(block_.data()));
}

const std::byte* ValueRun::stored(uint64_t at) const {
  const DType dtype = values_->stored_dtype();
  if (values_->quantised() || (lead_ + at) % byte_granule(dtype) != 0) return nullptr;
  return data_.data() + bytes_of_elements(dtype, lead_ + at);
}

void ValueRun::read(uint64_t at, uint64_t count, DType to, std::byte* out) const {
  const DType from = values_->dtype();
  if (const Weight* weight = values_->weight(); weight != nullptr) {
    // Rounded once: to the layout's own dtype where wider values are asked for.
    const DType rounded = to == DType::F64 ? from : to;
    if (weight->unit == 1 && weight->decoder->rounds && !broken_) {
      const ElementRange part{run_.first + at, count};
      if (rounded == to) {
        weight->decoder->decode(*weight, task(), part, to, out);
        return;
      }
      std::vector<std::byte> narrow(bytes_of_elements(rounded, count));
      weight->decoder->decode(*weight, task(), part, rounded, narrow.data());
      cast(*kernels_, rounded, to, narrow.data(), out, count);
      return;
    }
    for (uint64_t done = 0; done < count;) {
      const uint64_t element = run_.first + at + done;
      if (element < held_.first || element >= held_.first + held_.count) decode_block(element);
      const uint64_t part = std::min(count - done, held_.first + held_.count - element);
      const auto* values = reinterpret_cast<const std::byte*>(block_.data() + to_size(element - held_.first));
      std::byte* const into = out + bytes_of_elements(to, done);
      if (rounded == to || rounded == DType::F32) {
        cast(*kernels_, DType::F32, to, values, into, part);
      } else {
        std::vector<std::byte> narrow(bytes_of_elements(rounded, part));
        cast(*kernels_, DType::F32, rounded, values, narrow.data(), part);
        cast(*kernels_, rounded, to, narrow.data(), into, part);
      }
      done += part;
    }
    return;
  }
  const std::byte* data = stored(at);
  if (to == from && data != nullptr) {
    std::memcpy(out, data, bytes_of_elements(from, count));
    return;
  }
  if (data != nullptr) {
    cast(*kernels_, from, to, data, out, count);
    return;
  }
  // Inside a byte: from the last whole one on.
  const uint64_t before = (lead_ + at) % byte_granule(from);
  std::vector<std::byte> wide(bytes_of_elements(to, before + count));
  cast(*kernels_, from, to, stored(at - before), wide.data(), before + count);
  std::memcpy(out, wide.data() + bytes_of_elements(to, before), bytes_of_elements(to, count));
}

}  // namespace tftf
