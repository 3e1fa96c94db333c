#include "tftf/simd/cast.h"

#include <algorithm>

#include "pipe.h"
#include "tftf/base/escape.h"
#include "tftf/quant/fp8.h"

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
    if (!allow_unscaled_) TFTF_TRY(check_scaled(stream));
    for (StreamTensor& tensor : stream.tensors) {
      if (tensor.dtype == to_) continue;
      if (floats_only_ && !is_floating(tensor.dtype)) continue;
      if (dtype_bits(tensor.dtype) < 8 || !can_cast(tensor.dtype, to_)) return unsupported(stream, tensor);
      tensor.stages.push_back({.op = &kCastStage, .from = tensor.dtype, .to = to_});
      tensor.dtype = to_;
    }
    stream.result_dtype = to_;
    return {};
  }

 private:
  // Codes of FP8 without their scales are not the weights: somebody has to say that this is meant.
  Result<void> check_scaled(const Stream& stream) const {
    std::vector<TensorView> views;
    for (const StreamTensor& tensor : stream.tensors)
      views.push_back({tensor.name, tensor.dtype, &tensor.shape});
    const Fp8Pairing pairing = pair_fp8(views);
    const auto scaled = std::find_if(pairing.scales.begin(), pairing.scales.end(),
                                     [&](const Fp8Scale& s) { return is_fp8(views[s.weight].dtype); });
    if (scaled == pairing.scales.end()) return {};
    const StreamTensor& weight = stream.tensors[scaled->weight];
    return Error{
        .code = ErrorCode::kRefusedUnsupported,
        .message = "Tensor " + stream.described(weight) + " is FP8 and has the scale " +
                   quote_name(views[scaled->scale].name) +
                   ", which a cast would not apply; dequant-fp8 does, --allow-unscaled casts the codes.",
        .file = stream.file_of(weight.source),
        .tensor = stream.checkpoint->info(weight.source).name,
        .found = std::string(dtype_name(weight.dtype))};
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
