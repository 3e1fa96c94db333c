// What the modules of each family are called with dots, and which model of a pipeline they belong to (spec adapters 4, 6.5).
#include <algorithm>

#include "adapter/convert_module.h"
#include "tftf/base/affix.h"
#include "tftf/base/escape.h"

namespace tftf::converting {
namespace {

struct Prefix {
  std::string_view text;
  Component component;
};
constexpr Prefix kFlatPrefixes[] = {{"lora_unet__", Component::kUnet},
                                    {"lora_unet_", Component::kUnet},
                                    {"lora_prior_", Component::kUnet},
                                    {"lycoris_", Component::kUnet},
                                    {"lora_te1_", Component::kText1},
                                    {"lora_te2_", Component::kText2},
                                    {"lora_te3_", Component::kText3},
                                    {"lora_te_", Component::kText1},
                                    {"lora_transformer_", Component::kTransformer},
                                    {"Hunyuan_video_I2V_lora_", Component::kTransformer}};
constexpr Prefix kDottedPrefixes[] = {{"unet.", Component::kUnet},
                                      {"transformer.", Component::kTransformer},
                                      {"text_encoder.", Component::kText1},
                                      {"text_encoder_2.", Component::kText2},
                                      {"text_encoder_3.", Component::kText3}};
constexpr Prefix kComfyPrefixes[] = {{"diffusion_model.", Component::kUnet},
                                     {"text_encoders.clip_l.transformer.", Component::kText1},
                                     {"text_encoders.clip_h.transformer.", Component::kText1},
                                     {"text_encoders.clip_g.transformer.", Component::kText2},
                                     {"text_encoders.t5xxl.transformer.", Component::kText3}};
// Heads of diffusion transformers whose names no table has.
constexpr std::string_view kTransformerHeads[] = {"blocks.",
                                                  "double_blocks.",
                                                  "single_blocks.",
                                                  "transformer_blocks.",
                                                  "single_transformer_blocks.",
                                                  "joint_blocks.",
                                                  "img_in",
                                                  "txt_in",
                                                  "x_embedder",
                                                  "context_embedder",
                                                  "noise_refiner.",
                                                  "context_refiner.",
                                                  "time_text_embed.",
                                                  "final_layer.",
                                                  "patch_embedding"};

template <size_t N>
const Prefix* find_prefix(const Prefix (&prefixes)[N], std::string_view name) {
  for (const Prefix& prefix : prefixes)
    if (starts_with(name, prefix.text)) return &prefix;
  return nullptr;
}

// Old attention processors: their last word names the projection.
std::string without_processor(std::string path, bool text) {
  const size_t at = path.find(".processor.");
  if (at != std::string::npos) path.erase(at, 10);
  if (ends_with(path, "_lora")) path.erase(path.size() - 5);
  const size_t dot = path.rfind('.');
  const std::string last = path.substr(dot + 1);
  if (text) {
    if (last == "to_q" || last == "to_k" || last == "to_v")
      path.replace(dot + 1, std::string::npos, last.substr(3) + "_proj");
    if (last == "to_out") path.replace(dot + 1, std::string::npos, "out_proj");
  } else if (last == "to_out") {
    path += ".0";
  }
  return path;
}

// x-labs' processors are parts of the original's layers.
std::string xlabs_path(const std::string& name) {
  struct Layer {
    std::string_view processor, path;
  };
  constexpr Layer kLayers[] = {{"qkv_lora1", "img_attn.qkv"},   {"qkv_lora2", "txt_attn.qkv"},
                               {"proj_lora1", "img_attn.proj"}, {"proj_lora2", "txt_attn.proj"},
                               {"qkv_lora", "linear1_qkv"},     {"proj_lora", "linear2"}};
  const size_t at = name.find("processor.");
  if (at == std::string::npos) return name;
  std::string head = name.substr(0, at);
  if (starts_with(head, "diffusion_model.")) head.erase(0, 16);
  for (const Layer& layer : kLayers)
    if (name.substr(at + 10) == layer.processor) return head + std::string(layer.path);
  return name;
}

// Wrappers of experts stay: each is another parameter of its module.
std::string_view with_wrappers(std::string_view name) {
  constexpr std::string_view kPeftPrefix = "base_model.model.";
  return starts_with(name, kPeftPrefix) ? name.substr(kPeftPrefix.size()) : name;
}

bool has_transformer_head(std::string_view path) {
  return std::any_of(std::begin(kTransformerHeads), std::end(kTransformerHeads),
                     [&](std::string_view head) { return starts_with(path, head); });
}

void place_dotted(Module& module, std::string path) {
  module.path = std::move(path);
  module.flat = flat_name(module.path);
}

void place(Module& module) {
  const std::string& name = module.stored;
  switch (module.family) {
    case AdapterFamily::kKohya:
    case AdapterFamily::kOnetrainer:
    case AdapterFamily::kWanFun:
    case AdapterFamily::kHunyuanOld: {
      const Prefix* prefix = find_prefix(kFlatPrefixes, name);
      module.component = prefix != nullptr ? prefix->component : Component::kUnet;
      module.flat = name.substr(prefix != nullptr ? prefix->text.size() : 0);
      if (const auto known = find_name(module.flat, true, is_text(module.component))) {
        module.path = known->path;
        module.space = known->space;
      }
      return;
    }
    case AdapterFamily::kDiffusersPeft:
    case AdapterFamily::kDiffusersOld:
    case AdapterFamily::kDiffusersMid: {
      std::string path = name;
      if (const Prefix* prefix = find_prefix(kDottedPrefixes, name)) {
        module.component = prefix->component;
        path.erase(0, prefix->text.size());
      }
      if (module.family != AdapterFamily::kDiffusersPeft)
        path = without_processor(std::move(path), is_text(module.component));
      place_dotted(module, std::move(path));
      break;
    }
    case AdapterFamily::kComfyGeneric: {
      const Prefix* prefix = find_prefix(kComfyPrefixes, name);
      if (prefix != nullptr) module.component = prefix->component;
      place_dotted(module, name.substr(prefix != nullptr ? prefix->text.size() : 0));
      break;
    }
    case AdapterFamily::kXlabs:
      module.component = Component::kTransformer;
      place_dotted(module, xlabs_path(name));
      break;
    case AdapterFamily::kBflControl:
      module.component = Component::kTransformer;
      place_dotted(module, name);
      break;
    case AdapterFamily::kMlx:
      place_dotted(module, name);
      break;
    default:
      place_dotted(module, std::string(module.experts ? with_wrappers(name) : peft_module_path(name)));
      break;
  }
  const bool text = is_text(module.component);
  auto known = find_name(module.path, false, text);
  // A CLIP tower is told by its names; a T5 may be a language model.
  if (!known && module.component == Component::kNone) {
    known = find_name(module.path, false, true);
    if (known && known->space == NameSpace::kClip)
      module.component = Component::kText1;
    else
      known.reset();
  }
  if (known) module.space = known->space;
}

// The component that a module's names tell, where its prefix leaves that open.
void choose_component(Module& module) {
  if (is_text(module.component)) {
    // Flux has its T5 as the second text encoder.
    if (module.space == NameSpace::kT5) module.component = Component::kText3;
    return;
  }
  switch (module.space) {
    case NameSpace::kUnet:
    case NameSpace::kSgm:
      module.component = Component::kUnet;
      return;
    case NameSpace::kFlux:
    case NameSpace::kFluxDiffusers:
    case NameSpace::kZImage:
    case NameSpace::kZImageDiffusers:
      module.component = Component::kTransformer;
      return;
    default:
      break;
  }
  const bool open = module.component == Component::kNone || module.component == Component::kUnet;
  if (open && has_transformer_head(module.path)) module.component = Component::kTransformer;
}

// "layers.3.feed_forward.w1" alone may be a language model's.
bool shows_z_image(const Module& module) {
  const std::string& path = module.path;
  return starts_with(path, "noise_refiner.") || starts_with(path, "context_refiner.") ||
         module.space == NameSpace::kZImage ||
         (module.space == NameSpace::kZImageDiffusers && contains(path, ".attention.to_"));
}

void decide_base_family(Work& work) {
  if (!work.options.base_family.empty()) {
    work.base_family = work.options.base_family;
    return;
  }
  work.base_family = work.survey.base_family;
  if (!work.base_family.empty()) return;
  for (const Module& module : work.modules) {
    if (module.space == NameSpace::kFlux) work.base_family = "flux.1";
    if (shows_z_image(module)) work.base_family = "z-image";
    if (!work.base_family.empty()) return;
  }
}

// A table is only that of its own model.
void forget_other_tables(Work& work) {
  for (Module& module : work.modules) {
    const bool flux = module.space == NameSpace::kFlux || module.space == NameSpace::kFluxDiffusers;
    const bool z = module.space == NameSpace::kZImage || module.space == NameSpace::kZImageDiffusers;
    if (flux && !work.base_family.empty() && work.base_family != "flux.1") module.space = NameSpace::kPlain;
    if (z && work.base_family != "z-image") module.space = NameSpace::kPlain;
  }
}

}  // namespace

Result<void> place_modules(Work& work) {
  for (Module& module : work.modules) place(module);
  decide_base_family(work);
  forget_other_tables(work);
  for (Module& module : work.modules) choose_component(module);
  for (Whole& whole : work.wholes)
    if (const auto known = find_name(whole.path, false, false)) whole.space = known->space;
  if (work.options.base == nullptr) return {};
  TFTF_TRY(settle_on_base(work, *work.options.base));
  for (Module& module : work.modules) choose_component(module);
  return {};
}

}  // namespace tftf::converting
