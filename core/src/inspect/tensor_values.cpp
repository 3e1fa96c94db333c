#include "tftf/inspect/tensor_values.h"

#include <algorithm>
#include <cstring>

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

constexpr std::string_view kColibriBlocks = "colibri-fp8-e4m3-b128";

// FP8 codes kept as U8, with a flat grid of 128 x 128.
std::optional<Fp8Weight> colibri_blocks(const QuantMatch& match) {
  const TensorRef* scales = match.find("qs");
  if (scales == nullptr || !match.logical_shape || match.logical_shape->size() != 2) return std::nullopt;
  Fp8Weight weight;
  weight.codes = match.weight;
  weight.scales = *scales;
  weight.code_dtype = DType::F8_E4M3;
  weight.scale_dtype = DType::F32;
  weight.rows = (*match.logical_shape)[0];
  weight.cols = (*match.logical_shape)[1];
  if (weight.rows == 0 || weight.cols == 0) return std::nullopt;
  weight.block_rows = weight.block_cols = 128;
  weight.grid_rows = colibri::blocks128(weight.rows);
  weight.grid_cols = colibri::blocks128(weight.cols);
  return weight;
}

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

std::optional<TensorValues> TensorValues::logical(const Checkpoint& checkpoint, const QuantConfig& config,
                                                  const QuantMatch& match) {
  TensorValues values = stored(checkpoint, match.weight);
  values.dtype_ = match.logical_dtype;
  values.layout_ = match.layout;
  values.fp8_ =
      match.layout == kColibriBlocks ? colibri_blocks(match) : fp8_weight(checkpoint, config, match);
  if (!values.fp8_) {
    std::optional<colibri::RowDecoder> decoder = colibri::row_decoder(match);
    const TensorRef* scales = match.find("qs");
    if (!decoder || scales == nullptr) return std::nullopt;
    values.decoder_ = std::make_shared<const colibri::RowDecoder>(*std::move(decoder));
    values.scales_ = *scales;
  }
  if (match.find("qs") != nullptr) {
    values.shape_ = match.logical_shape;
    values.elements_ = element_count(*match.logical_shape).value_or(0);
  }
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
      std::optional<TensorValues> values = logical(checkpoint, read_quant_config(checkpoint), match);
      if (!values)
        return refused(ErrorCode::kRefusedUnsupported,
                       "is of the layout " + std::string(match.layout) + ", whose values cannot be read",
                       file);
      for (const TensorRef part : {values->tensor(), values->scales()})
        if (!sound(part))
          return refused(ErrorCode::kRefusedInput,
                         "needs " + quote_name(checkpoint.shards[part.shard].name) + ", which is not sound",
                         checkpoint.shards[part.shard].name);
      return *std::move(values);
    }
  return refused(ErrorCode::kRefusedUnsupported, "is no quantised weight", file);
}

uint64_t TensorValues::columns() const { return shape().empty() ? 1 : shape().back(); }

uint64_t TensorValues::rows() const { return elements_ == 0 ? 0 : elements_ / columns(); }

TensorValues::Ranges TensorValues::ranges(ElementRun run) const {
  const auto range_of = [&](TensorRef tensor, uint64_t first, uint64_t count) {
    const TensorInfo& info = checkpoint_->info(tensor);
    const uint64_t granule = byte_granule(info.dtype), bits = dtype_bits(info.dtype);
    const uint64_t begin = first / granule * granule;
    const uint64_t offset = checkpoint_->shards[tensor.shard].header.data_offset() + info.begin;
    return Range{tensor.shard, {offset + begin * bits / 8, ceil_div((first + count - begin) * bits, 8)}};
  };
  Ranges out;
  if (decoder_) {
    const uint64_t first = run.first / decoder_->columns;
    const uint64_t rows = (run.first + run.count - 1) / decoder_->columns - first + 1;
    const uint64_t scales = decoder_->row_scales;
    out.range[0] = range_of(tensor_, first * decoder_->row_bytes, rows * decoder_->row_bytes);
    out.range[1] = scales == 0 ? range_of(scales_, 0, 1) : range_of(scales_, first * scales, rows * scales);
    out.count = 2;
    return out;
  }
  out.range[0] = range_of(tensor_, run.first, run.count);
  if (fp8_) {
    const ElementRun scales = fp8_scales_of(*fp8_, run);
    out.range[1] = range_of(fp8_->scales, scales.first, scales.count);
    out.count = 2;
  }
  return out;
}

ValueRun::ValueRun(const KernelTable& kernels, const TensorValues& values, ElementRun run,
                   std::span<const Bytes> bytes)
    : kernels_(&kernels), values_(&values), run_(run), data_(bytes[0]) {
  lead_ = run.first % byte_granule(values.stored_dtype());
  if (values.decoder_) {
    lead_ = run.first % values.decoder_->columns;
    scales_.resize(bytes[1].size() / sizeof(float));
    std::memcpy(scales_.data(), bytes[1].data(), scales_.size() * sizeof(float));
  }
  if (!values.fp8_) return;
  scales_.resize(static_cast<size_t>(fp8_scales_of(*values.fp8_, run).count));
  cast(kernels, values.fp8_->scale_dtype, DType::F32, bytes[1].data(),
       reinterpret_cast<std::byte*>(scales_.data()), scales_.size());
}

const std::byte* ValueRun::stored(uint64_t at) const {
  const DType dtype = values_->stored_dtype();
  if (values_->quantised() || (lead_ + at) % byte_granule(dtype) != 0) return nullptr;
  return data_.data() + bytes_of_elements(dtype, lead_ + at);
}

const std::vector<float>& ValueRun::row(uint64_t number) const {
  if (row_number_ == number) return row_;
  const colibri::RowDecoder& decoder = *values_->decoder_;
  row_.resize(to_size(decoder.columns));
  const Bytes codes = data_.subspan(to_size(number * decoder.row_bytes), to_size(decoder.row_bytes));
  const std::span<const float> scales(scales_);
  decoder.decode(codes, scales.subspan(to_size(number * decoder.row_scales), to_size(decoder.row_scales)),
                 row_);
  row_number_ = number;
  return row_;
}

void ValueRun::read(uint64_t at, uint64_t count, DType to, std::byte* out) const {
  const DType from = values_->dtype();
  if (values_->decoder_) {
    const uint64_t columns = values_->decoder_->columns;
    for (uint64_t done = 0; done < count;) {
      const uint64_t place = lead_ + at + done;
      const uint64_t part = std::min(count - done, columns - place % columns);
      const float* from_row = row(place / columns).data() + to_size(place % columns);
      cast(*kernels_, from, to, reinterpret_cast<const std::byte*>(from_row),
           out + bytes_of_elements(to, done), part);
      done += part;
    }
    return;
  }
  if (values_->fp8_) {
    const std::byte* codes = data_.data() + static_cast<size_t>(at);
    const ElementRun part = {run_.first + at, count};
    const DType rounded = to == DType::F64 ? from : to;
    if (rounded == to)
      return dequantize_fp8_run(*kernels_, *values_->fp8_, run_, scales_, part, codes, to, out);
    std::vector<std::byte> narrow(bytes_of_elements(rounded, count));
    dequantize_fp8_run(*kernels_, *values_->fp8_, run_, scales_, part, codes, rounded, narrow.data());
    cast(*kernels_, rounded, to, narrow.data(), out, count);
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
