// What the steps of a conversion share: finding parts, magnitudes, scales.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "adapter/convert_module.h"
#include "adapter/element_values.h"
#include "tftf/base/escape.h"

namespace tftf::converting {

const AdapterRecipe* Module::find(AdapterPart part) const {
  for (const Part& own : parts)
    if (own.part == part) return &own.recipe;
  return nullptr;
}
AdapterRecipe* Module::find(AdapterPart part) {
  return const_cast<AdapterRecipe*>(static_cast<const Module*>(this)->find(part));
}
void Module::erase(AdapterPart part) {
  parts.erase(std::remove_if(parts.begin(), parts.end(), [&](const Part& own) { return own.part == part; }),
              parts.end());
}

void Work::leave(const Module& module, const std::string& reason) {
  for (const TensorRef tensor : module.tensors) leave(tensor, reason);
}

bool Work::all_zero(const AdapterRecipe& recipe) {
  bool zero = true;
  for (const AdapterPiece& piece : recipe.pieces) {
    const std::optional<bool> answer = scans.all_zero(piece.source);
    if (!answer) pending = true;
    zero = zero && answer.value_or(true);
  }
  return zero;
}

Error convert_error(const Work& work, ErrorCode code, std::string what, std::string_view tensor) {
  return {.code = code,
          .message = std::move(what),
          .file = work.checkpoint.shards.empty() ? "" : work.checkpoint.shards.front().name,
          .tensor = std::string(tensor)};
}

uint64_t outputs_of(const Module& module) {
  const AdapterRecipe* up = module.find(P::kUp);
  return up == nullptr ? 0 : up->rows;
}
uint64_t inputs_of(const Module& module) {
  const AdapterRecipe* down = module.find(P::kDown);
  return down == nullptr || down->shape.size() < 2 ? 0 : down->shape[1];
}

bool magnitude_of_outputs(const Module& module) {
  const AdapterRecipe* magnitude = module.find(P::kMagnitude);
  if (magnitude == nullptr || magnitude->shape.size() < 2) return true;
  const uint64_t elements = magnitude->rows * magnitude->cols;
  const bool peft = is_peft_family(module.family) || module.family == AdapterFamily::kDiffusersPeft;
  if (peft) return outputs_of(module) == 0 || elements == outputs_of(module);
  // Two dimensions decide, whatever the sizes: [out, 1] or [1, in].
  return magnitude->shape[0] != 1 || elements == 1;
}

std::string_view component_folder(Component component, std::string_view base_family) {
  switch (component) {
    case Component::kUnet:
      return "unet";
    case Component::kTransformer:
      return "transformer";
    case Component::kText1:
      return "text_encoder";
    case Component::kText2:
      return "text_encoder_2";
    case Component::kText3:
      return base_family == "flux.1" ? "text_encoder_2" : "text_encoder_3";
    case Component::kNone:
      break;
  }
  return "";
}

AdapterRecipe named(AdapterRecipe recipe, std::string name) {
  recipe.name = std::move(name);
  return recipe;
}

AdapterRecipe alpha_recipe(double alpha) {
  const auto value = static_cast<float>(alpha);
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return {.dtype = DType::F32, .shape = {}, .rows = 1, .cols = 1, .literal = std::move(bytes)};
}

namespace {

// A line of values in another shape: rows and columns follow it.
AdapterRecipe reshaped_line(AdapterRecipe line, Shape shape) {
  // Pieces of a line lie in rows; a column of them is the same bytes turned.
  const bool standing = line.cols == 1;
  const bool wanted = !shape.empty() && shape[0] != 1;
  if (standing != wanted && line.rows * line.cols > 1) line = transposed_recipe(line);
  line.shape = std::move(shape);
  return line;
}

bool is_convolution(const Module& module) {
  const AdapterRecipe* down = module.find(P::kDown);
  return down != nullptr && down->shape.size() > 2;
}

}  // namespace

AdapterRecipe peft_magnitude(const Module& module) {
  AdapterRecipe magnitude = *module.find(P::kMagnitude);
  const uint64_t count = magnitude.rows * magnitude.cols;
  if (!is_convolution(module)) return reshaped_line(std::move(magnitude), {count});
  Shape shape(module.find(P::kDown)->shape.size(), 1);
  shape[1] = count;
  return reshaped_line(std::move(magnitude), std::move(shape));
}

AdapterRecipe kohya_magnitude(const Module& module) {
  AdapterRecipe magnitude = *module.find(P::kMagnitude);
  const uint64_t count = magnitude.rows * magnitude.cols;
  const bool outputs = magnitude_of_outputs(module);
  const AdapterRecipe* down = module.find(P::kDown);
  const size_t dims =
      down != nullptr ? std::max<size_t>(2, down->shape.size()) : std::max<size_t>(2, magnitude.shape.size());
  if (!outputs) return magnitude;
  Shape shape(dims, 1);
  shape[0] = count;
  return reshaped_line(std::move(magnitude), std::move(shape));
}

void fold_scale(Module& module) {
  if (module.scale == 1) return;
  double down = module.scale, up = 1;
  while (down * 2 < up) {
    down *= 2;
    up /= 2;
  }
  if (AdapterRecipe* factor = module.find(P::kDown)) *factor = scaled_recipe(std::move(*factor), down);
  if (AdapterRecipe* factor = module.find(P::kUp)) *factor = scaled_recipe(std::move(*factor), up);
  if (AdapterRecipe* bias = module.find(P::kUpBias)) *bias = scaled_recipe(std::move(*bias), module.scale);
  module.scale = 1;
  module.alpha.reset();
}

Result<void> check_scalable(const Work& work, const Module& module) {
  for (const Part& part : module.parts) {
    if (part.part != P::kDown && part.part != P::kUp && part.part != P::kUpBias) continue;
    if (can_scale(part.recipe.dtype)) continue;
    return Error{.code = ErrorCode::kRefusedUnsupported,
                 .message = "The scale of " + quote_name(module.stored) +
                            " would have to be multiplied into factors of " +
                            std::string(dtype_name(part.recipe.dtype)) + ", which are not scaled here.",
                 .file = work.checkpoint.shards.front().name,
                 .tensor = module.stored,
                 .found = std::string(dtype_name(part.recipe.dtype))};
  }
  return {};
}

Result<void> contract_mid(Work& work, Module& module) {
  const AdapterRecipe* mid = module.find(P::kMid);
  if (mid == nullptr) return {};
  AdapterRecipe* down = module.find(P::kDown);
  const auto stored = mid->copy_of(work.checkpoint);
  const bool fits = down != nullptr && down->cols > 0 && stored && down->copy_of(work.checkpoint) &&
                    mid->shape.size() >= 3 && mid->shape[1] == down->rows && can_scale(down->dtype) &&
                    can_scale(mid->dtype) && module.find(P::kUp)->shape[1] == mid->shape[0];
  if (!fits) {
    return convert_error(work, ErrorCode::kRefusedShape,
                         "The middle factor of " + quote_name(module.stored) + ", " + shape_text(mid->shape) +
                             ", does not fit its other factors.",
                         module.stored);
  }
  AdapterRecipe made = *down;
  made.mid = stored;
  made.mid_dtype = mid->dtype;
  made.shape = {mid->shape[0], down->cols};
  made.shape.insert(made.shape.end(), mid->shape.begin() + 2, mid->shape.end());
  made.rows = made.shape[0];
  made.cols = down->cols * (mid->cols / mid->shape[1]);
  *down = std::move(made);
  module.erase(P::kMid);
  return {};
}

void drop_differences(Work& work, Module& module) {
  for (const P part : {P::kDiffBias, P::kNormWeight, P::kNormBias}) {
    const AdapterRecipe* recipe = module.find(part);
    if (recipe == nullptr) continue;
    const bool zero = work.all_zero(*recipe);
    for (const AdapterPiece& piece : recipe->pieces) {
      module.tensors.erase(
          std::remove_if(module.tensors.begin(), module.tensors.end(),
                         [&](TensorRef own) { return Work::key(own) == Work::key(piece.source); }),
          module.tensors.end());
      if (zero)
        work.drop(piece.source, "all zero");
      else
        work.leave(piece.source, "is a difference of a bias or a norm, which the target cannot hold");
    }
    module.erase(part);
  }
}

}  // namespace tftf::converting
