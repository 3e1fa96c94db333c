#include <algorithm>
#include <unordered_set>

#include "pipe.h"
#include "quant/fp8_grid.h"
#include "tftf/base/affix.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"
#include "tftf/quant/fp8.h"

namespace tftf::transform {
namespace {

class DequantFp8 final : public Pipe {
 public:
  DequantFp8(DType to, std::optional<uint64_t> block, bool allow_unscaled)
      : to_(to), block_(block), allow_unscaled_(allow_unscaled) {}

  std::string text() const override {
    return "dequant-fp8 dtype=" + std::string(dtype_info(to_).torch) +
           (block_ ? " block-size=" + std::to_string(*block_) : "") +
           (allow_unscaled_ ? " allow-unscaled" : "");
  }

  Result<void> apply(Stream& stream) const override {
    std::vector<TensorView> views;
    views.reserve(stream.tensors.size());
    for (const StreamTensor& tensor : stream.tensors)
      views.push_back({tensor.name, tensor.dtype, &tensor.shape});
    const Fp8Pairing pairing = pair_fp8(views);
    const QuantConfig config = read_quant_config(*stream.checkpoint);
    TFTF_TRY(check_pairing(stream, pairing, config));
    stream.dequantises = true;

    Fp8Block block;
    if (block_) {
      block = {*block_, *block_};
    } else if (!pairing.scales.empty()) {
      auto from_config = fp8_config_block(config);
      if (!from_config) return std::move(from_config).error();
      block = from_config->value_or(block);
    }
    std::vector<bool> is_scale(stream.tensors.size());
    for (const Fp8Scale& pair : pairing.scales) {
      TFTF_TRY(dequantise(stream, pair, block));
      is_scale[pair.scale] = true;
    }
    for (const uint32_t i : pairing.unscaled) {
      StreamTensor& weight = stream.tensors[i];
      weight.stages.push_back({.op = &kCastStage, .from = weight.dtype, .to = to_});
      weight.dtype = to_;
    }
    const auto divided =
        std::count_if(pairing.scales.begin(), pairing.scales.end(),
                      [](const Fp8Scale& pair) { return pair.name == Fp8ScaleName::kPlain; });
    if (divided > 0)
      stream.warnings.push_back("Nothing says what weight_scale means in this model: " +
                                grouped_digits(static_cast<uint64_t>(divided)) +
                                (divided == 1 ? " weight is" : " weights are") +
                                " divided by it. A configuration that names its method decides otherwise.");
    if (!pairing.scales.empty() || !pairing.unscaled.empty()) stream.result_dtype = to_;
    drop(stream, is_scale);
    return {};
  }

 private:
  static Error refusal(ErrorCode code, const Stream& stream, const StreamTensor& tensor,
                       const std::string& what, std::string expected = "", std::string found = "") {
    return {.code = code,
            .message = "Tensor " + stream.described(tensor) + " " + what + ".",
            .file = stream.file_of(tensor.source),
            .tensor = stream.checkpoint->info(tensor.source).name,
            .expected = std::move(expected),
            .found = std::move(found)};
  }

  Result<void> check_pairing(const Stream& stream, const Fp8Pairing& pairing,
                             const QuantConfig& config) const {
    const auto& tensors = stream.tensors;
    if (!pairing.orphans.empty()) {
      return refusal(ErrorCode::kRefusedMissing, stream, tensors[pairing.orphans[0]],
                     "is a scale and the weight that it belongs to is not there");
    }
    std::vector<const Fp8Scale*> scale_of(tensors.size());
    for (const Fp8Scale& pair : pairing.scales) {
      const StreamTensor &weight = tensors[pair.weight], &scale = tensors[pair.scale];
      if (const Fp8Scale* other = scale_of[pair.weight]) {
        return refusal(
            ErrorCode::kRefusedAmbiguous, stream, weight,
            "has two scales, " + quote_name(tensors[other->scale].name) + " and " + quote_name(scale.name));
      }
      scale_of[pair.weight] = &pair;
      if (!is_fp8(weight.dtype)) {
        return refusal(ErrorCode::kRefusedUnsupported, stream, weight,
                       "has the scale " + quote_name(scale.name) + " and is " +
                           std::string(dtype_name(weight.dtype)) + ", not FP8",
                       "an FP8 dtype", std::string(dtype_name(weight.dtype)));
      }
      if (!is_fp8_scale_dtype(scale.dtype) || !scale.stages.empty()) {
        return refusal(ErrorCode::kRefusedUnsupported, stream, scale,
                       scale.stages.empty()
                           ? "is " + std::string(dtype_name(scale.dtype)) + ", which is no dtype of a scale"
                           : "is a scale and was changed before it could be applied; dequantise first",
                       "F32, BF16, F16, F64 or F8_E8M0", std::string(dtype_name(scale.dtype)));
      }
      TFTF_TRY(pair.name == Fp8ScaleName::kPlain ? check_divisor(stream, scale, config)
                                                 : check_multiplier(stream, scale, config));
    }
    TFTF_TRY(check_foreign_scales(stream, pairing));
    if (!pairing.unscaled.empty() && !allow_unscaled_) {
      return refusal(ErrorCode::kRefusedMissing, stream, tensors[pairing.unscaled[0]],
                     "is " + std::string(dtype_name(tensors[pairing.unscaled[0]].dtype)) +
                         " and has no scale; --allow-unscaled takes its codes as they are" +
                         (pairing.unscaled.size() > 1
                              ? " (" + std::to_string(pairing.unscaled.size() - 1) + " more are like it)"
                              : ""),
                     "a scale");
    }
    return {};
  }

  // A scale under a name that is not applied here is a scale all the same: codes without it would be wrong.
  static Result<void> check_foreign_scales(const Stream& stream, const Fp8Pairing& pairing) {
    if (pairing.unscaled.empty()) return {};
    std::unordered_set<std::string_view> names;
    for (const StreamTensor& tensor : stream.tensors) names.insert(tensor.name);
    for (const uint32_t i : pairing.unscaled) {
      const StreamTensor& weight = stream.tensors[i];
      if (!ends_with(weight.name, "weight")) continue;
      const std::string stem = weight.name.substr(0, weight.name.size() - 6);
      for (const std::string_view other : {"scale_weight", "weight_scale_2", "scale"}) {
        const std::string name = stem + std::string(other);
        if (names.count(name) == 0) continue;
        return refusal(ErrorCode::kRefusedUnsupported, stream, weight,
                       "is " + std::string(dtype_name(weight.dtype)) + " with the scale " + quote_name(name) +
                           ", of a layout that dequant-fp8 does not read",
                       "weight_scale_inv or weight_scale", name);
      }
    }
    return {};
  }

  // The original divides by weight_scale; every producer that says who it is means a multiplier by it.
  static Result<void> check_divisor(const Stream& stream, const StreamTensor& scale,
                                    const QuantConfig& config) {
    if (config.method.empty()) return {};
    return refusal(
        ErrorCode::kRefusedAmbiguous, stream, scale,
        "is a weight_scale by which dequant-fp8 would divide, but the configuration names the method " +
            quote_name(config.method) + " (" + config.method_place + "), which multiplies by it",
        "", config.method);
  }

  static Result<void> check_multiplier(const Stream& stream, const StreamTensor& scale,
                                       const QuantConfig& config) {
    const JsonValue* semantics = config.get("weight_scale_semantics");
    if (semantics == nullptr || !semantics->is_string() || semantics->text != "inverse") return {};
    return refusal(ErrorCode::kRefusedUnsupported, stream, scale,
                   "would be multiplied with, but the configuration says weight_scale_semantics \"inverse\"",
                   "", "inverse");
  }

  Result<void> dequantise(Stream& stream, const Fp8Scale& pair, Fp8Block block) const {
    StreamTensor& weight = stream.tensors[pair.weight];
    const StreamTensor& scale = stream.tensors[pair.scale];
    const auto geometry = fp8_geometry(weight.shape, scale.shape, block);
    if (!geometry) {
      return refusal(ErrorCode::kRefusedShape, stream, weight,
                     "has the shape " + shape_text(weight.shape) + ", to which the scale " +
                         quote_name(scale.name) + " of shape " + shape_text(scale.shape) +
                         " does not fit: expected " + fp8_expected_grid(weight.shape, block) +
                         ", or one scale per tensor, row or column" + hint(weight.shape, scale.shape),
                     fp8_expected_grid(weight.shape, block), shape_text(scale.shape));
    }
    const bool divides = pair.name == Fp8ScaleName::kPlain;
    Result<Weight> opened = fp8_grid_weight({*geometry, weight.dtype, scale.dtype, divides}, weight.shape,
                                            weight.source, scale.source);
    if (!opened) return refusal(ErrorCode::kRefusedUnsupported, stream, weight, opened.error().message);
    if (divides) stream.divisors.push_back(scale.source);
    weight.stages.push_back(decode_stage(std::make_shared<const Weight>(*std::move(opened)), to_));
    weight.dtype = to_;
    return {};
  }

  static std::string hint(const Shape& weight, const Shape& scale) {
    for (const uint64_t size : {128, 64, 256, 32, 16, 8, 4}) {
      if (fp8_geometry(weight, scale, {size, size})) {
        return "; --block-size " + std::to_string(size) + " would fit";
      }
    }
    return "";
  }

  static void drop(Stream& stream, const std::vector<bool>& is_scale) {
    std::vector<StreamTensor> kept;
    kept.reserve(stream.tensors.size());
    for (size_t i = 0; i < stream.tensors.size(); ++i) {
      if (is_scale[i]) {
        stream.dropped.push_back({stream.checkpoint->info(stream.tensors[i].source).name, "companion"});
      } else {
        kept.push_back(std::move(stream.tensors[i]));
      }
    }
    stream.tensors = std::move(kept);
  }

  DType to_;
  std::optional<uint64_t> block_;
  bool allow_unscaled_;
};

}  // namespace

Result<std::unique_ptr<Pipe>> make_dequant_fp8(const Operation& operation) {
  std::optional<uint64_t> block;
  if (const auto* size = operation.find("block-size")) block = json_unsigned(size->front());
  const auto* dtype = operation.find("dtype");
  return std::unique_ptr<Pipe>(
      std::make_unique<DequantFp8>(dtype != nullptr ? *find_torch_dtype(dtype->front()) : DType::BF16, block,
                                   operation.find("allow-unscaled") != nullptr));
}

std::string dequant_fp8_obstacle(const Checkpoint& checkpoint) {
  for (const TensorRef ref : checkpoint.order) {
    if (is_fp8(checkpoint.info(ref).dtype)) return "";
  }
  return "It holds no FP8 tensor.";
}

}  // namespace tftf::transform
