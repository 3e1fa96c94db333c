// Whether a weight is stored as (out, in) or (in, out), from the tensors of an adapter's module.
#include "adapter/merge_forms.h"
#include "adapter/merge_parts.h"
#include "tftf/base/escape.h"

namespace tftf::merging {
namespace {

Fits fits_of(uint64_t out, uint64_t in, const Shape& w) {
  return {.straight = w[0] == out && w[1] == in, .turned = w[0] == in && w[1] == out};
}

Fits fits_of_outputs(uint64_t out, const Shape& w) {
  return {.straight = w[0] == out, .turned = w[1] == out};
}

}  // namespace

Fits linear_fits(const FormContext& context, const ModuleParts& parts, const Shape& w) {
  using P = PeftPart;
  if (w.size() != 2) return {};
  const auto matrix = [](const TensorData* t) { return t != nullptr && t->shape.size() == 2; };
  switch (context.config().method) {
    case PeftMethod::kLora:
    case PeftMethod::kAdaLora: {
      const TensorData *a = parts.find(P::kLoraA), *b = parts.find(P::kLoraB);
      return matrix(a) && matrix(b) ? fits_of(b->shape[0], a->shape[1], w) : Fits{};
    }
    case PeftMethod::kVera: {
      const TensorData* outputs = parts.find(P::kVeraLambdaB);
      return outputs != nullptr && outputs->shape.size() == 1 ? fits_of_outputs(outputs->shape[0], w)
                                                              : Fits{};
    }
    case PeftMethod::kIa3: {
      const TensorData* l = parts.find(P::kIa3);
      if (!matrix(l) || (l->shape[0] != 1 && l->shape[1] != 1) || l->shape[0] == l->shape[1]) return {};
      if (l->shape[1] == 1) return fits_of_outputs(l->shape[0], w);
      const Fits inputs = fits_of_outputs(l->shape[1], w);
      return {.straight = inputs.turned, .turned = inputs.straight};
    }
    default:
      return {};
  }
}

Result<bool> is_turned(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                       Fits fits) {
  const bool flag = context.config().fan_in_fan_out;
  std::optional<bool> turned;
  if (fits.straight != fits.turned) {
    turned = fits.turned;
  } else {
    turned = context.axes->turned(parts.module);
    if (!turned && context.options->linear_axes) turned = *context.options->linear_axes == Axes::kInOut;
  }
  if (!turned) {
    return form_error(
        ErrorCode::kRefusedAmbiguous, context, parts.first_name(),
        "is for " + quote_name(base.name) + " of shape " + shape_text(*base.shape) +
            ", which may be stored as (out, in) or as (in, out): fan_in_fan_out is only what the last "
            "module has left behind, and the adapter's other weights and model_type do not tell; "
            "--linear-axes out-in (or in-out) does");
  }
  if (*turned != flag && context.config().present) {
    context.notices->push_back("Weight " + quote_name(base.name) + " is stored as " +
                               (*turned ? "(in, out)" : "(out, in)") + ", whatever fan_in_fan_out says; " +
                               (fits.straight != fits.turned
                                    ? "its shape decides."
                                    : "the adapter's other weights and the model decide."));
  }
  return *turned;
}

}  // namespace tftf::merging
