// The result in the names of kohya, ComfyUI and diffusers (spec adapters 13).
#include <algorithm>
#include <set>

#include "adapter/convert_module.h"
#include "adapter/element_values.h"
#include "tftf/base/affix.h"
#include "tftf/base/escape.h"

namespace tftf::converting {
namespace {

struct Spelling {
  P part;
  std::string_view suffix;
};
constexpr Spelling kKohyaSpellings[] = {
    {P::kDown, ".lora_down.weight"}, {P::kUp, ".lora_up.weight"},     {P::kMid, ".lora_mid.weight"},
    {P::kUpBias, ".diff_b"},         {P::kHadaW1A, ".hada_w1_a"},     {P::kHadaW1B, ".hada_w1_b"},
    {P::kHadaW2A, ".hada_w2_a"},     {P::kHadaW2B, ".hada_w2_b"},     {P::kHadaT1, ".hada_t1"},
    {P::kHadaT2, ".hada_t2"},        {P::kLokrW1, ".lokr_w1"},        {P::kLokrW1A, ".lokr_w1_a"},
    {P::kLokrW1B, ".lokr_w1_b"},     {P::kLokrW2, ".lokr_w2"},        {P::kLokrW2A, ".lokr_w2_a"},
    {P::kLokrW2B, ".lokr_w2_b"},     {P::kLokrT2, ".lokr_t2"},        {P::kDiff, ".diff"},
    {P::kDiffBias, ".diff_b"},       {P::kNormWeight, ".w_norm"},     {P::kNormBias, ".b_norm"},
    {P::kSetWeight, ".set_weight"},  {P::kReshape, ".reshape_weight"}};
constexpr Spelling kComfyFactors[] = {{P::kDown, ".lora_A.weight"}, {P::kUp, ".lora_B.weight"}};

template <size_t N>
std::string_view spelling_of(const Spelling (&spellings)[N], P part) {
  for (const Spelling& spelling : spellings)
    if (spelling.part == part) return spelling.suffix;
  return "";
}

// Families that name the parts of LyCORIS' and ComfyUI's other methods as kohya does.
bool spells_like_kohya(AdapterFamily family) {
  switch (family) {
    case AdapterFamily::kKohya:
    case AdapterFamily::kOnetrainer:
    case AdapterFamily::kComfyGeneric:
    case AdapterFamily::kWanFun:
    case AdapterFamily::kHunyuanOld:
      return true;
    default:
      return false;
  }
}

bool has_text_encoders(const Work& work) {
  std::set<Component> found;
  bool pipeline = work.base_family == "sdxl" || work.base_family == "sd3" || work.base_family == "flux.1";
  for (const Module& module : work.modules) {
    if (is_text(module.component)) found.insert(module.component);
    pipeline = pipeline || (is_text(module.component) && module.component != Component::kText1) ||
               starts_with(module.stored, "lora_te1_");
  }
  return pipeline || found.size() > 1;
}

std::string_view kohya_prefix(Component component, bool several) {
  switch (component) {
    case Component::kUnet:
    case Component::kTransformer:
      return "lora_unet_";
    case Component::kText1:
      return several ? "lora_te1_" : "lora_te_";
    case Component::kText2:
      return "lora_te2_";
    case Component::kText3:
      return "lora_te3_";
    case Component::kNone:
      break;
  }
  return "";
}

std::string comfy_prefix(Component component, std::string_view base_family) {
  switch (component) {
    case Component::kUnet:
    case Component::kTransformer:
      return "diffusion_model.";
    case Component::kText1:
      return base_family == "sd2" ? "text_encoders.clip_h.transformer." : "text_encoders.clip_l.transformer.";
    case Component::kText2:
      return "text_encoders.clip_g.transformer.";
    case Component::kText3:
      return "text_encoders.t5xxl.transformer.";
    case Component::kNone:
      break;
  }
  return "";
}

// s of a LoKr whose factors are whole: its readers take 1, so it goes into the first one.
Result<void> bake_whole_lokr(const Work& work, Module& module) {
  if (!module.whole_lokr || module.scale == 1) return {};
  AdapterRecipe* first = module.find(P::kLokrW1);
  if (!can_scale(first->dtype)) {
    return convert_error(work, ErrorCode::kRefusedUnsupported,
                         "The scale of " + quote_name(module.stored) + " would have to be multiplied into " +
                             std::string(dtype_name(first->dtype)) + ", which is not scaled here.",
                         module.stored);
  }
  *first = scaled_recipe(std::move(*first), module.scale);
  module.scale = 1;
  return {};
}

bool carries_alpha(const Module& module) {
  return (module.form == "lora" || module.form == "dora" || module.form == "loha" || module.form == "lokr" ||
          module.form == "glora") &&
         !module.whole_lokr && module.rank > 0;
}

// kohya's and ComfyUI's layouts differ in names alone.
class KohyaWriter {
 public:
  KohyaWriter(Work& work, AdapterConversion& out, bool comfy) : work_(work), out_(out), comfy_(comfy) {}

  Result<void> run() {
    const bool several = has_text_encoders(work_);
    AdapterConversion::File file{
        work_.options.single_name.empty() ? "adapter.safetensors" : work_.options.single_name, {}};
    tensors_ = &file.tensors;
    for (Module& module : work_.modules) {
      const std::string prefix = comfy_ ? comfy_prefix(module.component, work_.base_family)
                                        : std::string(kohya_prefix(module.component, several));
      const std::string why = obstacle(module, prefix);
      if (!why.empty()) {
        work_.leave(module, why);
        continue;
      }
      TFTF_TRY(write(module, prefix + (comfy_ ? module.path : module.flat)));
    }
    write_wholes();
    out_.files.push_back(std::move(file));
    return {};
  }

 private:
  std::string obstacle(const Module& module, const std::string& prefix) const {
    const std::string target(adapter_target_id(work_.options.to));
    if (prefix.empty())
      return "is no module of a UNet, a diffusion transformer or a text encoder: it has no " + target +
             " form";
    if (module.experts)
      return "holds the factors of all experts of a parameter, which have no " + target + " form";
    if (module.has(P::kEmbeddingDown)) return "adapts an embedding, which has no " + target + " form";
    if (!spells_like_kohya(module.family)) {
      for (const Part& part : module.parts)
        if (part.part != P::kMagnitude && spelling_of(kKohyaSpellings, part.part).empty())
          return "is of the form " + module.form + ", whose tensors are others in " + target;
    }
    return "";
  }

  Result<void> write(Module& module, const std::string& name) {
    TFTF_TRY(bake_whole_lokr(work_, module));
    if (AdapterRecipe* bias = module.find(P::kUpBias); bias != nullptr && module.scale != 1) {
      TFTF_TRY(check_scalable(work_, module));
      *bias = scaled_recipe(std::move(*bias), module.scale);
    }
    for (const Part& part : module.parts) {
      std::string suffix(spelling_of(kKohyaSpellings, part.part));
      if (comfy_ && !module.has(P::kMid) && !spelling_of(kComfyFactors, part.part).empty())
        suffix = spelling_of(kComfyFactors, part.part);
      if (suffix.empty()) suffix = part.suffix;
      if (part.part == P::kMagnitude)
        tensors_->push_back(named(kohya_magnitude(module), name + ".dora_scale"));
      else
        tensors_->push_back(named(part.recipe, name + suffix));
    }
    write_alpha(module, name);
    if (comfy_ && module.has(P::kDown) && starts_with(module.stored, "img_in") &&
        module.family == AdapterFamily::kBflControl)
      write_reshape(module, name);
    for (const TensorRef tensor : module.tensors) work_.map(tensor);
    ++out_.modules;
    return {};
  }

  void write_alpha(const Module& module, const std::string& name) {
    const bool lost = !module.alpha && (module.scale == 1 && work_.scale_kind == AdapterScale::kImplicit);
    if (!carries_alpha(module)) {
      // An OFT's alpha is a constraint, a whole LoKr's says nothing: kept as it is.
      if (module.alpha)
        tensors_->push_back(named(stored_recipe(work_.checkpoint, *module.alpha), name + ".alpha"));
      return;
    }
    if (comfy_ && lost) return;
    tensors_->push_back(named(module.alpha ? stored_recipe(work_.checkpoint, *module.alpha)
                                           : alpha_recipe(module.scale * static_cast<double>(module.rank)),
                              name + ".alpha"));
  }

  // More input channels than the base has: it is padded to this shape first.
  void write_reshape(const Module& module, const std::string& name) {
    std::string bytes;
    for (const uint64_t size : {outputs_of(module), inputs_of(module)})
      for (int i = 0; i < 8; ++i) bytes += static_cast<char>(size >> (8 * i) & 0xFF);
    tensors_->push_back({.name = name + ".reshape_weight",
                         .dtype = DType::I64,
                         .shape = {2},
                         .rows = 2,
                         .cols = 1,
                         .literal = std::move(bytes)});
  }

  void write_wholes() {
    for (const Whole& whole : work_.wholes) {
      if (!comfy_ || work_.from != AdapterFamily::kBflControl) continue;
      tensors_->push_back(named(stored_recipe(work_.checkpoint, whole.tensor),
                                "diffusion_model." + whole.path + "." + whole.parameter + ".set_weight"));
      work_.map(whole.tensor);
    }
  }

  Work& work_;
  AdapterConversion& out_;
  bool comfy_;
  std::vector<AdapterRecipe>* tensors_ = nullptr;
};

// Why a module has no form in a family of plain pairs; empty: it has one.
std::string pair_obstacle(const Module& module, std::string_view target) {
  const std::string name(target);
  if (module.experts)
    return "holds the factors of all experts of a parameter, which have no " + name + " form";
  if (!module.has(P::kDown) || !module.has(P::kUp))
    return "is of the form " + module.form + ", which " + name + " does not have";
  for (const Part& part : module.parts) {
    switch (part.part) {
      case P::kDown:
      case P::kUp:
      case P::kMid:
      case P::kUpBias:
      case P::kMagnitude:
        break;
      default:
        return "has a tensor " + part.suffix + ", which " + name + " does not have";
    }
  }
  if (module.has(P::kMagnitude) && !magnitude_of_outputs(module))
    return "has a magnitude along its inputs, which " + name + " does not have";
  return "";
}

}  // namespace

Result<void> write_kohya(Work& work, AdapterConversion& out) { return KohyaWriter(work, out, false).run(); }
Result<void> write_comfy(Work& work, AdapterConversion& out) { return KohyaWriter(work, out, true).run(); }

Result<void> write_diffusers(Work& work, AdapterConversion& out) {
  AdapterConversion::File file{
      work.options.single_name.empty() ? "pytorch_lora_weights.safetensors" : work.options.single_name, {}};
  for (Module& module : work.modules) {
    const std::string_view component = component_folder(module.component, work.base_family);
    drop_differences(work, module);
    std::string why = pair_obstacle(module, "diffusers");
    if (component.empty())
      why = "is no module of a UNet, a diffusion transformer or a text encoder: it has no diffusers form";
    if (!why.empty()) {
      work.leave(module, why);
      continue;
    }
    TFTF_TRY(contract_mid(work, module));
    if (module.scale != 1) TFTF_TRY(check_scalable(work, module));
    fold_scale(module);
    const std::string name = std::string(component) + "." + module.path;
    file.tensors.push_back(named(*module.find(P::kDown), name + ".lora_A.weight"));
    file.tensors.push_back(named(*module.find(P::kUp), name + ".lora_B.weight"));
    if (const AdapterRecipe* bias = module.find(P::kUpBias))
      file.tensors.push_back(named(*bias, name + ".lora_B.bias"));
    if (module.has(P::kMagnitude))
      file.tensors.push_back(named(peft_magnitude(module), name + ".lora_magnitude_vector"));
    for (const TensorRef tensor : module.tensors) work.map(tensor);
    ++out.modules;
  }
  for (const Whole& whole : work.wholes) {
    if (work.from != AdapterFamily::kBflControl) continue;
    file.tensors.push_back(named(stored_recipe(work.checkpoint, whole.tensor),
                                 "transformer." + whole.path + "." + whole.parameter));
    work.map(whole.tensor);
  }
  out.files.push_back(std::move(file));
  return {};
}

}  // namespace tftf::converting
