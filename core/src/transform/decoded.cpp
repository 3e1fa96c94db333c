#include "decoded.h"

#include "tftf/base/escape.h"

namespace tftf::transform {

Result<void> decode_weight(const Stream& stream, const QuantMatch& match, DType to, StreamTensor& weight) {
  if (!weight.stages.empty() || weight.provided != nullptr || weight.gather != nullptr)
    return weight_fault(ErrorCode::kRefusedUnsupported, *stream.open, match,
                        "was changed before it could be dequantised; dequantise first");
  Result<Weight> opened = open_weight(*stream.open, match);
  if (!opened) return std::move(opened).error();
  const auto shared = std::make_shared<const Weight>(*std::move(opened));
  weight.stages.push_back(decode_stage(shared, to));
  if (weight.stages.back().to != to)
    weight.stages.push_back({.op = &kCastStage, .from = weight.stages.back().to, .to = to});
  weight.dtype = to;
  weight.shape = shared->shape;
  return {};
}

Result<void> check_moved_codes(const Stream& stream, const std::string& becomes) {
  for (const StreamTensor& tensor : stream.tensors) {
    if (!tensor.moved_codes) continue;
    return Error{.code = ErrorCode::kRefusedUnsupported,
                 .message = "Tensor " + quote_name(tensor.name) +
                            " holds codes or scales that were fused or split in this run, and cannot be " +
                            becomes + " after that; dequantise before.",
                 .file = stream.file_of(tensor.source),
                 .tensor = tensor.name};
  }
  return {};
}

std::optional<DType> config_dtype(const Checkpoint& checkpoint) {
  const JsonValue* config = checkpoint.config();
  if (config == nullptr) return std::nullopt;
  for (const char* key : {"torch_dtype", "dtype"}) {
    const auto text = config->string(key);
    const auto dtype = text ? find_torch_dtype(*text) : std::nullopt;
    if (dtype == DType::F32 || dtype == DType::BF16 || dtype == DType::F16) return dtype;
  }
  return std::nullopt;
}

}  // namespace tftf::transform
