// From the survey of an adapter to its modules: one family, a scale each, complete pairs.
#include <algorithm>
#include <cmath>

#include "adapter/convert_module.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"

namespace tftf::converting {
namespace {

std::string family_list(const AdapterSurvey& survey) {
  std::string text;
  for (const AdapterFamily family : survey.families)
    text += (text.empty() ? "" : ", ") + std::string(adapter_family_id(family));
  return text;
}

Result<void> choose_family(Work& work) {
  const AdapterSurvey& survey = work.survey;
  const std::string& given = work.checkpoint.listing.given;
  if (survey.kind != AdapterKind::kAdapter || !survey.family) {
    return convert_error(
        work, ErrorCode::kRefusedInput,
        quote_name(given) + " is not an adapter (" + std::string(adapter_kind_name(survey.kind)) + ").");
  }
  if (survey.modules.empty()) {
    return convert_error(work, ErrorCode::kRefusedUnsupported,
                         quote_name(given) + " is an adapter of the method " +
                             quote_name(survey.forms.front().first) + ", which has no other form.");
  }
  if (!work.options.from && survey.ambiguous) {
    return convert_error(work, ErrorCode::kRefusedAmbiguous,
                         quote_name(given) + " mixes families (" + family_list(survey) +
                             "), which may be the same weights twice; --from says which one to convert.");
  }
  work.from = work.options.from.value_or(*survey.family);
  if (std::find(survey.families.begin(), survey.families.end(), work.from) == survey.families.end()) {
    return convert_error(work, ErrorCode::kRefusedMissing,
                         "No module of " + quote_name(given) + " is of the family " +
                             std::string(adapter_family_id(work.from)) + ", only " + family_list(survey) +
                             ".");
  }
  switch (work.from) {
    case AdapterFamily::kCloneofsimo:
    case AdapterFamily::kRawIndexed:
      return convert_error(work, ErrorCode::kRefusedUnsupported,
                           quote_name(given) + " is of the family " +
                               std::string(adapter_family_id(work.from)) +
                               ", which counts its modules instead of naming them; it cannot be converted.");
    case AdapterFamily::kControlLora:
      return convert_error(
          work, ErrorCode::kRefusedUnsupported,
          quote_name(given) +
              " is a control LoRA: parts of it are whole weights of a control network, which "
              "no other family holds.");
    default:
      return {};
  }
}

// Whether the scale that the user gives is needed, and no other is known.
Result<double> scale_of_module(const Work& work, const AdapterModule& module, std::optional<double> found,
                               uint64_t rank) {
  const bool known = found && work.scale_kind != AdapterScale::kImplicit;
  if ((work.options.scale || work.options.alpha) && known) {
    return convert_error(work, ErrorCode::kUsage,
                         "The scale of " + quote_name(module.name) + " is known (" +
                             std::string(adapter_scale_name(work.scale_kind)) +
                             "); --scale and --alpha are for adapters that do not say it.",
                         module.name);
  }
  if (work.options.scale) return *work.options.scale;
  if (work.options.alpha) return rank == 0 ? 1 : *work.options.alpha / static_cast<double>(rank);
  if (found && std::isfinite(*found)) return *found;
  if (found) {
    return convert_error(work, ErrorCode::kRefusedValues,
                         "The alpha of " + quote_name(module.name) + " is not finite.", module.name);
  }
  return convert_error(work, ErrorCode::kRefusedMissing,
                       "Nothing says by what the difference of " + quote_name(module.name) +
                           " is to be multiplied: there is no adapter_config.json with it, no alpha and no "
                           "metadata; --scale S or --alpha A gives it.",
                       module.name);
}

AdapterRecipe part_recipe(const Work& work, const AdapterModule& module, P part, TensorRef tensor) {
  AdapterRecipe recipe = stored_recipe(work.checkpoint, tensor);
  const bool turned = module.family == AdapterFamily::kMlx && (part == P::kDown || part == P::kUp);
  return turned && recipe.shape.size() == 2 ? transposed_recipe(recipe) : recipe;
}

bool has_factors(const Module& module) {
  return module.has(P::kDown) || module.has(P::kUp) || module.has(P::kEmbeddingDown) ||
         module.has(P::kEmbeddingUp);
}

// Why the module is no whole one; empty: it is.
std::string missing_part(const Module& module) {
  const auto pair = [&](P down, P up) { return module.has(down) == module.has(up); };
  if (!pair(P::kDown, P::kUp) || !pair(P::kEmbeddingDown, P::kEmbeddingUp)) return "lacks its twin";
  if (module.has(P::kMid) && !module.has(P::kDown)) return "is a middle factor without the others";
  if (module.form == "loha" || module.has(P::kHadaW1A)) {
    for (const P part : {P::kHadaW1A, P::kHadaW1B, P::kHadaW2A, P::kHadaW2B})
      if (!module.has(part)) return "lacks one of the four factors of LoHa";
  }
  if (module.form == "lokr") {
    const bool first = module.has(P::kLokrW1) || (module.has(P::kLokrW1A) && module.has(P::kLokrW1B));
    const bool second = module.has(P::kLokrW2) || (module.has(P::kLokrW2A) && module.has(P::kLokrW2B));
    if (!first || !second) return "lacks a factor of LoKr";
  }
  if (module.has(P::kMagnitude) && !has_factors(module) && module.form != "dora")
    return "is a magnitude without factors";
  return "";
}

Result<void> check_pair(const Work& work, const Module& module, P down, P up) {
  const AdapterRecipe* a = module.find(down);
  const AdapterRecipe* b = module.find(up);
  if (a == nullptr || b == nullptr) return {};
  const bool flat = a->shape.size() < 2 || b->shape.size() < 2;
  const uint64_t rank = flat ? 0 : b->shape[1];
  const bool tail =
      !flat && std::all_of(b->shape.begin() + 2, b->shape.end(), [](uint64_t n) { return n == 1; });
  if (!flat && a->rows == rank && tail && rank > 0) return {};
  return Error{.code = ErrorCode::kRefusedShape,
               .message = "The factors of " + quote_name(module.stored) + " do not fit: down " +
                          shape_text(a->shape) + " has rank " + std::to_string(a->rows) + ", up " +
                          shape_text(b->shape) + " has " + std::to_string(rank) + ".",
               .file = work.checkpoint.shards.front().name,
               .tensor = module.stored,
               .expected = std::to_string(a->rows),
               .found = std::to_string(rank)};
}

// PEFT's rank of a module against its tensors'. `configured` 0: nothing is said.
Result<void> check_configured_rank(Module& module, int64_t configured, bool parameters) {
  if (configured <= 0 || module.rank == 0) return {};
  const auto expected = static_cast<uint64_t>(configured);
  if (expected == module.rank) return {};
  if (parameters && module.rank % expected == 0) {
    module.experts = true;
    module.rank = expected;
    return {};
  }
  return Error{.code = ErrorCode::kRefusedShape,
               .message = "The factors of " + quote_name(module.stored) + " have rank " +
                          std::to_string(module.rank) + ", and adapter_config.json says " +
                          std::to_string(expected) + ".",
               .file = "adapter_config.json",
               .tensor = module.stored,
               .expected = std::to_string(expected),
               .found = std::to_string(module.rank)};
}

Result<Module> module_of(const Work& work, const AdapterModule& source) {
  Module module{.stored = std::string(source.name), .family = source.family};
  module.form = std::string(adapter_form(source, work.checkpoint));
  module.rank = adapter_rank(source, work.checkpoint).value_or(0);
  for (const auto& [part, tensor] : source.parts) {
    module.tensors.push_back(tensor);
    if (part == P::kAlpha) {
      if (!module.alpha) module.alpha = tensor;
      continue;
    }
    if (module.has(part) && part != P::kVera && part != P::kOther && part != P::kOft && part != P::kRescale) {
      return convert_error(work, ErrorCode::kRefusedCollision,
                           "Module " + quote_name(source.name) + " has a part twice, the second as " +
                               quote_name(work.info(tensor).name) + ".",
                           work.info(tensor).name);
    }
    module.parts.push_back(
        {part, part_recipe(work, source, part, tensor), work.info(tensor).name.substr(source.name.size())});
  }
  module.whole_lokr = module.has(P::kLokrW1) && module.has(P::kLokrW2);
  return module;
}

// Tensors of a form that has a factor s.
bool has_scale(const Module& module) {
  return module.form == "lora" || module.form == "dora" || module.form == "loha" || module.form == "lokr" ||
         module.form == "glora";
}

Result<void> take_wholes(Work& work) {
  for (const auto& [family, tensor] : work.survey.saved) {
    const std::string& name = work.info(tensor).name;
    const bool ours = family == work.from || (is_peft_family(family) && is_peft_family(work.from));
    if (!ours) {
      work.leave(tensor, "is explained by another family");
      continue;
    }
    const size_t dot = name.rfind('.');
    std::string path = dot == std::string::npos ? "" : name.substr(0, dot);
    if (is_peft_family(work.from)) path = std::string(peft_module_path(path));
    work.wholes.push_back({tensor, std::move(path), name.substr(dot + 1)});
    work.leave(tensor, "is a whole tensor that stands for the base's, which the target cannot hold");
  }
  return {};
}

}  // namespace

Result<void> read_modules(Work& work) {
  TFTF_TRY(choose_family(work));
  for (const TensorRef tensor : work.checkpoint.order)
    work.leave(tensor, "is of no kind that the family has");
  const AdapterScales scales =
      find_adapter_scales(work.checkpoint, work.values, work.survey.modules, work.from);
  if (scales.error) return *scales.error;
  work.scale_kind = scales.kind;
  const JsonValue* config = adapter_config_of(work.checkpoint);
  const JsonValue* parameters = config != nullptr ? config->get("target_parameters") : nullptr;
  const bool adapts_parameters = parameters != nullptr && !parameters->elements.empty();
  for (size_t m = 0; m < work.survey.modules.size(); ++m) {
    const AdapterModule& source = work.survey.modules[m];
    if (source.family != work.from) {
      for (const auto& [part, tensor] : source.parts)
        work.drop(tensor, "of the family " + std::string(adapter_family_id(source.family)));
      continue;
    }
    Result<Module> read = module_of(work, source);
    if (!read) return std::move(read).error();
    Module& module = *read;
    if (const std::string why = missing_part(module); !why.empty()) {
      work.leave(module, why);
      continue;
    }
    TFTF_TRY(check_pair(work, module, P::kDown, P::kUp));
    TFTF_TRY(check_pair(work, module, P::kEmbeddingDown, P::kEmbeddingUp));
    if (is_peft_family(work.from))
      TFTF_TRY(check_configured_rank(module, scales.ranks[m], adapts_parameters));
    if (has_scale(module)) {
      Result<double> scale = scale_of_module(work, source, scales.factors[m], module.rank);
      if (!scale) return std::move(scale).error();
      module.scale = *scale;
    }
    work.modules.push_back(std::move(module));
  }
  return take_wholes(work);
}

}  // namespace tftf::converting
