#include "tftf/simd/cast.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "decoded.h"
#include "pipe.h"
#include "quant/scale_names.h"
#include "quantised_tensors.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"

namespace tftf::transform {
namespace {

class Cast final : public Pipe {
 public:
  Cast(DType to, bool floats_only, bool allow_unscaled)
      : to_(to), floats_only_(floats_only), allow_unscaled_(allow_unscaled) {}

  std::string text() const override {
    return "cast dtype=" + std::string(dtype_info(to_).torch) + (floats_only_ ? " floats-only" : "") +
           (allow_unscaled_ ? " allow-unscaled" : "");
  }

  Result<void> apply(Stream& stream) const override {
    TFTF_TRY(check_moved_codes(stream, "cast"));
    const QuantisedTensors quantised(stream);
    if (!allow_unscaled_) TFTF_TRY(check_scaled(stream, quantised));
    std::set<std::string_view> kept;
    uint64_t modules = 0;
    for (StreamTensor& tensor : stream.tensors) {
      // Packed codes are no numbers: their modules stay as they are, scales and all.
      if (const QuantMatch* match = allow_unscaled_ ? nullptr : quantised.packed(tensor)) {
        kept.insert(match->layout);
        modules += quantised.is_codes(tensor) ? 1 : 0;
        continue;
      }
      if (tensor.dtype == to_) continue;
      if (floats_only_ && !is_floating(tensor.dtype)) continue;
      if (dtype_bits(tensor.dtype) < 8 || !can_cast(tensor.dtype, to_)) return unsupported(stream, tensor);
      tensor.stages.push_back({.op = &kCastStage, .from = tensor.dtype, .to = to_});
      tensor.dtype = to_;
    }
    stream.result_dtype = to_;
    if (modules > 0) {
      std::string layouts;
      for (const std::string_view layout : kept)
        layouts += (layouts.empty() ? "" : ", ") + std::string(layout);
      stream.warnings.push_back(grouped_digits(modules) + (modules == 1 ? " module" : " modules") +
                                " of packed codes (" + layouts +
                                ") stay as they are: codes are not cast. dequant makes floats of them.");
    }
    return {};
  }

 private:
  // Codes of FP8 without their scales are not the weights: somebody has to say that this is meant.
  Result<void> check_scaled(const Stream& stream, const QuantisedTensors& quantised) const {
    for (const QuantProblem& problem : stream.layouts->problems) {
      if (!still_coded(stream, problem.module)) continue;
      return Error{.code = ErrorCode::kRefusedUnsupported,
                   .message = "Module " + quote_name(problem.module) + " (" + std::string(problem.layout) +
                              ") holds codes that cannot be read: " + problem.what +
                              ". A cast would take them for values; --allow-unscaled does.",
                   .tensor = problem.module};
    }
    ScaleNames names;
    for (const StreamTensor& tensor : stream.tensors) names.add(tensor.name, tensor.dtype);
    for (const StreamTensor& tensor : stream.tensors) {
      if (!is_fp8(tensor.dtype) || tensor.dtype == to_) continue;
      const QuantMatch* match = quantised.codes(tensor);
      const std::string_view last = std::string_view(tensor.name).substr(tensor.name.rfind('.') + 1);
      if (match == nullptr && last.find("scale") != std::string_view::npos) continue;
      if (match != nullptr && !match->companions.empty()) return scaled(stream, tensor, match, "");
      if (const auto scale = names.beside(tensor.name)) return scaled(stream, tensor, nullptr, *scale);
    }
    return {};
  }

  // Whether anything of a module is in the stream as it is stored.
  static bool still_coded(const Stream& stream, std::string_view module) {
    const std::string_view owner = module.substr(0, std::min(module.rfind('.'), module.size()));
    return std::any_of(stream.tensors.begin(), stream.tensors.end(), [&](const StreamTensor& tensor) {
      if (tensor.added || !tensor.stages.empty()) return false;
      const std::string_view name = stream.checkpoint->info(tensor.source).name;
      return name == module || (name.substr(0, owner.size()) == owner && name.size() > owner.size() &&
                                name[owner.size()] == '.' && name.rfind('.') == owner.size() &&
                                (!is_floating(tensor.dtype) || is_fp8(tensor.dtype)));
    });
  }

  static Error scaled(const Stream& stream, const StreamTensor& tensor, const QuantMatch* match,
                      std::string_view scale) {
    const std::string with =
        match != nullptr ? "holds codes of the layout " + std::string(match->layout) + " and has the scale " +
                               quote_name(stream.checkpoint->info(match->companions.front().tensor).name)
                         : "has the scale " + quote_name(scale);
    return {.code = ErrorCode::kRefusedUnsupported,
            .message = "Tensor " + stream.described(tensor) + " is " + std::string(dtype_name(tensor.dtype)) +
                       " and " + with +
                       ", which a cast would not apply; dequant does, --allow-unscaled casts the codes.",
            .file = stream.file_of(tensor.source),
            .tensor = stream.checkpoint->info(tensor.source).name,
            .found = std::string(dtype_name(tensor.dtype))};
  }

  Error unsupported(const Stream& stream, const StreamTensor& tensor) const {
    return {.code = ErrorCode::kRefusedUnsupported,
            .message = "Tensor " + stream.described(tensor) + " is " + std::string(dtype_name(tensor.dtype)) +
                       ", which cannot be cast.",
            .file = stream.file_of(tensor.source),
            .tensor = stream.checkpoint->info(tensor.source).name,
            .found = std::string(dtype_name(tensor.dtype))};
  }

  DType to_;
  bool floats_only_;
  bool allow_unscaled_;
};

}  // namespace

Result<std::unique_ptr<Pipe>> make_cast(const Operation& operation) {
  return std::unique_ptr<Pipe>(std::make_unique<Cast>(*find_torch_dtype(operation.find("dtype")->front()),
                                                      operation.find("cast-floats-only") != nullptr,
                                                      operation.find("allow-unscaled") != nullptr));
}

}  // namespace tftf::transform
