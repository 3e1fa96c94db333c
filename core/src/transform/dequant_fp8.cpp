// `dequant-fp8`: FP8 weights become plain floats.
#include <algorithm>
#include <unordered_map>

#include "decoded.h"
#include "pipe.h"
#include "quant/fp8_grid.h"
#include "quant/scale_names.h"
#include "quantised_tensors.h"
#include "tftf/base/escape.h"
#include "tftf/quant/fp8.h"
#include "tftf/quant/registry.h"

namespace tftf::transform {
namespace {

// What --weight-scale says of scales called weight_scale.
enum class PlainScale : uint8_t { kNotSaid, kMultiply, kDivide };

struct DequantFp8Options {
  DType to = DType::BF16;
  std::optional<uint64_t> block{};
  bool allow_unscaled = false;
  PlainScale plain = PlainScale::kNotSaid;
};

class DequantFp8 final : public Pipe {
 public:
  explicit DequantFp8(const DequantFp8Options& options) : options_(options) {}

  std::string text() const override {
    return "dequant-fp8 dtype=" + std::string(dtype_info(options_.to).torch) +
           (options_.block ? " block-size=" + std::to_string(*options_.block) : "") +
           (options_.allow_unscaled ? " allow-unscaled" : "") +
           (options_.plain == PlainScale::kNotSaid  ? ""
            : options_.plain == PlainScale::kDivide ? " weight-scale=divide"
                                                    : " weight-scale=multiply");
  }

  Result<void> apply(Stream& stream) const override {
    TFTF_TRY(check_moved_codes(stream, "dequantised"));
    Work work{stream, QuantisedTensors(stream)};
    work.consumed.resize(stream.tensors.size());
    TFTF_TRY(check_problems(stream));
    TFTF_TRY(take_layouts(work));
    const Fp8Pairing pairing = pair(work);
    TFTF_TRY(check_pairing(work, pairing));
    stream.dequantises = true;

    Fp8Block block;
    if (options_.block) {
      block = {*options_.block, *options_.block};
    } else if (!pairing.scales.empty()) {
      auto from_config = fp8_config_block(stream.open->config);
      if (!from_config) return std::move(from_config).error();
      block = from_config->value_or(block);
    }
    for (const Fp8Scale& one : pairing.scales) {
      TFTF_TRY(dequantise(work, one, block));
      work.consumed[one.scale] = true;
    }
    for (const uint32_t i : pairing.unscaled) {
      StreamTensor& weight = stream.tensors[i];
      weight.stages.push_back({.op = &kCastStage, .from = weight.dtype, .to = options_.to});
      weight.dtype = options_.to;
    }
    if (!pairing.scales.empty() || !pairing.unscaled.empty() || work.taken > 0)
      stream.result_dtype = options_.to;
    drop(work);
    return {};
  }

 private:
  struct Work {
    Stream& stream;
    QuantisedTensors quantised;
    std::vector<bool> consumed{};  // scales, by their place in the stream
    std::vector<bool> done{};      // weights that a layout has told
    uint64_t taken = 0;
  };

  static Error refusal(ErrorCode code, const Stream& stream, const StreamTensor& tensor,
                       const std::string& what, std::string expected = "", std::string found = "") {
    return {.code = code,
            .message = "Tensor " + stream.described(tensor) + " " + what + ".",
            .file = stream.file_of(tensor.source),
            .tensor = stream.checkpoint->info(tensor.source).name,
            .expected = std::move(expected),
            .found = std::move(found)};
  }

  // FP8 whose layout a marker, a configuration or its names tell is what that layout says, whatever its scales are called.
  // Not fp8-block, whose blocks --block-size may replace, nor what only has a scale of no producer.
  Result<void> take_layouts(Work& work) const {
    Stream& stream = work.stream;
    work.done.resize(stream.tensors.size());
    std::unordered_map<const QuantMatch*, bool> taken;
    for (size_t i = 0; i < stream.tensors.size(); ++i) {
      StreamTensor& tensor = stream.tensors[i];
      const QuantMatch* match = work.quantised.codes(tensor);
      if (match == nullptr || !is_fp8(tensor.dtype)) continue;
      const bool own = match->layout == "fp8-block" || match->layout == "fp8-unscaled" ||
                       (match->layout == "fp8-scaled" && match->find("qscale_weight") == nullptr);
      taken.emplace(match, !own);
      if (own) continue;
      TFTF_TRY(decode_weight(stream, *match, options_.to, tensor));
      work.done[i] = true;
      ++work.taken;
    }
    // Scales of activations go with every weight; those of weights are taken below where no layout tells them.
    for (size_t i = 0; i < stream.tensors.size(); ++i) {
      const QuantMatch* match = work.quantised.companion(stream.tensors[i]);
      const auto at = match == nullptr ? taken.end() : taken.find(match);
      if (at == taken.end()) continue;
      if (at->second || is_activation_scale(stream.tensors[i].name)) work.consumed[i] = true;
    }
    for (const QuantFinding& finding : stream.layouts->findings) {
      const bool any =
          std::any_of(finding.matches.begin(), finding.matches.end(), [&](const QuantMatch& match) {
            const auto at = taken.find(&match);
            return at != taken.end() && at->second;
          });
      for (const TensorRef extra : finding.extras)
        for (size_t i = 0; any && i < stream.tensors.size(); ++i)
          if (stream.tensors[i].source.shard == extra.shard &&
              stream.tensors[i].source.tensor == extra.tensor)
            work.consumed[i] = true;
    }
    return {};
  }

  // Codes of another kind that cannot be read; broken FP8 is told of where its scales are paired.
  static Result<void> check_problems(const Stream& stream) {
    for (const QuantProblem& problem : stream.layouts->problems) {
      const auto module = stream.checkpoint->find(problem.module);
      if (module && is_fp8(stream.checkpoint->info(*module).dtype)) continue;
      return Error{.code = ErrorCode::kRefusedUnsupported,
                   .message = "Module " + quote_name(problem.module) + " (" + std::string(problem.layout) +
                              ") cannot be dequantised: " + problem.what + ".",
                   .tensor = problem.module};
    }
    return {};
  }

  static bool is_activation_scale(std::string_view name) {
    const std::string_view last = name.substr(name.rfind('.') + 1);
    return last == "input_scale" || last == "activation_scale" || last == "qscale_act";
  }

  // Of what no layout has told.
  static Fp8Pairing pair(const Work& work) {
    std::vector<TensorView> views;
    std::vector<uint32_t> places;
    for (uint32_t i = 0; i < work.stream.tensors.size(); ++i) {
      if (work.done[i] || work.consumed[i]) continue;
      const StreamTensor& tensor = work.stream.tensors[i];
      views.push_back({tensor.name, tensor.dtype, &tensor.shape});
      places.push_back(i);
    }
    Fp8Pairing pairing = pair_fp8(views);
    for (Fp8Scale& one : pairing.scales) one.weight = places[one.weight], one.scale = places[one.scale];
    for (uint32_t& i : pairing.orphans) i = places[i];
    for (uint32_t& i : pairing.unscaled) i = places[i];
    return pairing;
  }

  // What reads codes that are not FP8.
  static std::string reader_of(const Work& work, const StreamTensor& tensor) {
    const QuantMatch* match = work.quantised.codes(tensor);
    const QuantFormat* format = match == nullptr ? nullptr : find_quant_format(match->layout);
    if (format == nullptr || !format->read()) return "";
    return "; dequant reads it (" + std::string(format->id) + ")";
  }

  Result<void> check_pairing(const Work& work, const Fp8Pairing& pairing) const {
    const Stream& stream = work.stream;
    const auto& tensors = stream.tensors;
    if (!pairing.orphans.empty()) {
      return refusal(ErrorCode::kRefusedMissing, stream, tensors[pairing.orphans[0]],
                     "is a scale and the weight that it belongs to is not there");
    }
    std::vector<const Fp8Scale*> scale_of(tensors.size());
    for (const Fp8Scale& one : pairing.scales) {
      const StreamTensor &weight = tensors[one.weight], &scale = tensors[one.scale];
      if (const Fp8Scale* other = scale_of[one.weight]) {
        return refusal(
            ErrorCode::kRefusedAmbiguous, stream, weight,
            "has two scales, " + quote_name(tensors[other->scale].name) + " and " + quote_name(scale.name));
      }
      scale_of[one.weight] = &one;
      if (!is_fp8(weight.dtype)) {
        return refusal(ErrorCode::kRefusedUnsupported, stream, weight,
                       "has the scale " + quote_name(scale.name) + " and is " +
                           std::string(dtype_name(weight.dtype)) + ", not FP8" + reader_of(work, weight),
                       "an FP8 dtype", std::string(dtype_name(weight.dtype)));
      }
      if (!is_fp8_scale_dtype(scale.dtype) || !scale.stages.empty()) {
        return refusal(ErrorCode::kRefusedUnsupported, stream, scale,
                       scale.stages.empty()
                           ? "is " + std::string(dtype_name(scale.dtype)) + ", which is no dtype of a scale"
                           : "is a scale and was changed before it could be applied; dequantise first",
                       "F32, BF16, F16, F64 or F8_E8M0", std::string(dtype_name(scale.dtype)));
      }
      TFTF_TRY(one.name == Fp8ScaleName::kPlain ? check_plain(stream, scale)
                                                : check_multiplier(stream, scale));
    }
    if (pairing.unscaled.empty()) return {};
    TFTF_TRY(check_foreign_scales(stream, pairing));
    if (options_.allow_unscaled) return {};
    const StreamTensor& first = tensors[pairing.unscaled[0]];
    return refusal(ErrorCode::kRefusedMissing, stream, first,
                   "is " + std::string(dtype_name(first.dtype)) +
                       " and has no scale; --allow-unscaled takes its codes as they are" +
                       (pairing.unscaled.size() > 1
                            ? " (" + std::to_string(pairing.unscaled.size() - 1) + " more are like it)"
                            : ""),
                   "a scale");
  }

  // A scale under a name that is not applied here is a scale all the same: codes without it would be wrong.
  static Result<void> check_foreign_scales(const Stream& stream, const Fp8Pairing& pairing) {
    ScaleNames names;
    for (const StreamTensor& tensor : stream.tensors) names.add(tensor.name, tensor.dtype);
    for (const uint32_t i : pairing.unscaled) {
      const StreamTensor& weight = stream.tensors[i];
      const auto scale = names.beside(weight.name);
      if (!scale) continue;
      return refusal(ErrorCode::kRefusedUnsupported, stream, weight,
                     "is " + std::string(dtype_name(weight.dtype)) + " with the scale " + quote_name(*scale) +
                         " beside it, of a layout that is not known",
                     "weight_scale_inv or weight_scale", std::string(*scale));
    }
    return {};
  }

  // The original divides by weight_scale; every producer that says who it is means a multiplier by it.
  Result<void> check_plain(const Stream& stream, const StreamTensor& scale) const {
    const QuantConfig& config = stream.open->config;
    if (options_.plain == PlainScale::kNotSaid) {
      return refusal(ErrorCode::kRefusedAmbiguous, stream, scale,
                     "is a weight_scale, and nothing tells whether it multiplies or divides; --weight-scale "
                     "multiply or --weight-scale divide decides (every known producer multiplies by it)",
                     "--weight-scale multiply|divide");
    }
    if (options_.plain == PlainScale::kDivide && !config.method.empty()) {
      return refusal(
          ErrorCode::kRefusedAmbiguous, stream, scale,
          "is a weight_scale by which --weight-scale divide would divide, but the configuration names the "
          "method " +
              quote_name(config.method) + " (" + config.method_place + "), which multiplies by it",
          "", config.method);
    }
    return {};
  }

  static Result<void> check_multiplier(const Stream& stream, const StreamTensor& scale) {
    const JsonValue* semantics = stream.open->config.get("weight_scale_semantics");
    if (semantics == nullptr || !semantics->is_string() || semantics->text != "inverse") return {};
    return refusal(ErrorCode::kRefusedUnsupported, stream, scale,
                   "would be multiplied with, but the configuration says weight_scale_semantics \"inverse\"",
                   "", "inverse");
  }

  Result<void> dequantise(Work& work, const Fp8Scale& one, Fp8Block block) const {
    Stream& stream = work.stream;
    StreamTensor& weight = stream.tensors[one.weight];
    const StreamTensor& scale = stream.tensors[one.scale];
    // A block size that fits without being said: the layout has found it.
    if (const QuantMatch* match = work.quantised.codes(weight);
        match != nullptr && !options_.block && match->layout == "fp8-block")
      return decode_weight(stream, *match, options_.to, weight);
    for (const QuantProblem& problem : stream.layouts->problems) {
      if (options_.block || problem.module != stream.checkpoint->info(weight.source).name) continue;
      return refusal(ErrorCode::kRefusedShape, stream, weight,
                     "cannot be dequantised: " + problem.what + hint(weight.shape, scale.shape));
    }
    const auto geometry = fp8_geometry(weight.shape, scale.shape, block);
    if (!geometry) {
      return refusal(ErrorCode::kRefusedShape, stream, weight,
                     "has the shape " + shape_text(weight.shape) + ", to which the scale " +
                         quote_name(scale.name) + " of shape " + shape_text(scale.shape) +
                         " does not fit: expected " + fp8_expected_grid(weight.shape, block) +
                         ", or one scale per tensor, row or column" + hint(weight.shape, scale.shape),
                     fp8_expected_grid(weight.shape, block), shape_text(scale.shape));
    }
    const bool divides = one.name == Fp8ScaleName::kPlain && options_.plain == PlainScale::kDivide;
    Result<Weight> opened = fp8_grid_weight({*geometry, weight.dtype, scale.dtype, divides}, weight.shape,
                                            weight.source, scale.source);
    if (!opened) return refusal(ErrorCode::kRefusedUnsupported, stream, weight, opened.error().message);
    if (divides) stream.divisors.push_back(scale.source);
    weight.stages.push_back(decode_stage(std::make_shared<const Weight>(*std::move(opened)), options_.to));
    weight.dtype = options_.to;
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

  static void drop(Work& work) {
    Stream& stream = work.stream;
    std::vector<StreamTensor> kept;
    kept.reserve(stream.tensors.size());
    for (size_t i = 0; i < stream.tensors.size(); ++i) {
      if (work.consumed[i]) {
        stream.dropped.push_back({stream.checkpoint->info(stream.tensors[i].source).name, "companion"});
      } else {
        kept.push_back(std::move(stream.tensors[i]));
      }
    }
    stream.tensors = std::move(kept);
  }

  DequantFp8Options options_;
};

}  // namespace

Result<std::unique_ptr<Pipe>> make_dequant_fp8(const Operation& operation) {
  DequantFp8Options options;
  if (const auto* size = operation.find("block-size")) options.block = json_unsigned(size->front());
  if (const auto* dtype = operation.find("dtype")) options.to = *find_torch_dtype(dtype->front());
  options.allow_unscaled = operation.find("allow-unscaled") != nullptr;
  if (const auto* plain = operation.find("weight-scale"))
    options.plain = plain->front() == "divide" ? PlainScale::kDivide : PlainScale::kMultiply;
  return std::unique_ptr<Pipe>(std::make_unique<DequantFp8>(options));
}

std::string dequant_fp8_obstacle(const Checkpoint& checkpoint) {
  for (const TensorRef ref : checkpoint.order) {
    if (is_fp8(checkpoint.info(ref).dtype)) return "";
  }
  return "It holds no FP8 tensor.";
}

}  // namespace tftf::transform
