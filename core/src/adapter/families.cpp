#include "tftf/adapter/families.h"
#include "tftf/base/affix.h"

#include <algorithm>
#include <array>

namespace tftf {
namespace {

struct FamilyInfo {
  std::string_view id;
  std::string_view names;
};
constexpr FamilyInfo kFamilies[kAdapterFamilyCount] = {
    {"peft", "base_model.model.<module>.lora_A.weight"},
    {"peft-named", "<module>.lora_A.<adapter>.weight"},
    {"peft-bare", "<module>.lora_A.weight"},
    {"diffusers-peft", "unet./transformer./text_encoder. <module>.lora_A.weight"},
    {"diffusers-old", "<attention>.processor.to_q_lora.down.weight"},
    {"diffusers-mid", "<module>.lora.down.weight"},
    {"kohya", "lora_unet_<module>, lora_te_<module>"},
    {"onetrainer", "lora_transformer_<module>"},
    {"comfy-generic", "diffusion_model.<module>, text_encoders.<module>"},
    {"wan-fun", "lora_unet__<module>"},
    {"xlabs", "<block>.processor.qkv_lora.down.weight"},
    {"bfl-control", "<block>.lora_A.weight beside query_norm.scale"},
    {"fal-kontext", "base_model.model.double_blocks.<module>"},
    {"hunyuan-old", "Hunyuan_video_I2V_lora_<module>"},
    {"mlx", "<module>.lora_a"},
    {"control-lora", "<module>.down, marked lora_controlnet"},
    {"cloneofsimo", "unet:<number>:down"},
    {"raw-indexed", "w_a_<number>, w_b_<number>"},
};

bool ends_within(std::string_view text, std::string_view end) {
  return text.size() > end.size() && text.substr(text.size() - end.size()) == end;
}
bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

struct Suffix {
  std::string_view text;
  AdapterPart part;
};

// Spellings of PEFT, with or without an adapter's name; the parts of LyCORIS methods have none.
constexpr Suffix kPeftSuffixes[] = {
    {".lora_A.weight", AdapterPart::kDown},
    {".lora_B.weight", AdapterPart::kUp},
    {".lora_A", AdapterPart::kDown},
    {".lora_B", AdapterPart::kUp},
    {".lora_B.bias", AdapterPart::kUpBias},
    {".lora_embedding_A", AdapterPart::kEmbeddingDown},
    {".lora_embedding_B", AdapterPart::kEmbeddingUp},
    {".lora_magnitude_vector", AdapterPart::kMagnitude},
    {".lora_magnitude_vector.weight", AdapterPart::kMagnitude},
    {".magnitude", AdapterPart::kMagnitude},
};
// Words that may stand before an adapter's name: ".lora_A.default.weight".
constexpr Suffix kNamedWords[] = {
    {".lora_A.", AdapterPart::kDown},
    {".lora_B.", AdapterPart::kUp},
    {".lora_embedding_A.", AdapterPart::kEmbeddingDown},
    {".lora_embedding_B.", AdapterPart::kEmbeddingUp},
    {".lora_magnitude_vector.", AdapterPart::kMagnitude},
};
constexpr Suffix kMethodSuffixes[] = {
    {".hada_w1_a", AdapterPart::kHadaW1A},  {".hada_w1_b", AdapterPart::kHadaW1B},
    {".hada_w2_a", AdapterPart::kHadaW2A},  {".hada_w2_b", AdapterPart::kHadaW2B},
    {".hada_t1", AdapterPart::kHadaT1},     {".hada_t2", AdapterPart::kHadaT2},
    {".lokr_w1", AdapterPart::kLokrW1},     {".lokr_w1_a", AdapterPart::kLokrW1A},
    {".lokr_w1_b", AdapterPart::kLokrW1B},  {".lokr_w2", AdapterPart::kLokrW2},
    {".lokr_w2_a", AdapterPart::kLokrW2A},  {".lokr_w2_b", AdapterPart::kLokrW2B},
    {".lokr_t2", AdapterPart::kLokrT2},     {".oft_blocks", AdapterPart::kOft},
    {".oft_diag", AdapterPart::kOft},       {".oft_r", AdapterPart::kOft},
    {".oft_R.weight", AdapterPart::kOft},   {".boft_R", AdapterPart::kOft},
    {".boft_s", AdapterPart::kRescale},     {".ia3_l", AdapterPart::kIa3},
    {".vera_lambda_b", AdapterPart::kVera}, {".vera_lambda_d", AdapterPart::kVera},
};
// Spellings of kohya, LyCORIS and ComfyUI.
constexpr Suffix kKohyaSuffixes[] = {
    {".lora_down.weight", AdapterPart::kDown},
    {".lora_up.weight", AdapterPart::kUp},
    {".lora_mid.weight", AdapterPart::kMid},
    {".lora_A.weight", AdapterPart::kDown},
    {".lora_B.weight", AdapterPart::kUp},
    {".lora_B.bias", AdapterPart::kUpBias},
    {".lora_magnitude_vector", AdapterPart::kMagnitude},
    {".alpha", AdapterPart::kAlpha},
    {".dora_scale", AdapterPart::kMagnitude},
    {".rescale", AdapterPart::kRescale},
    {".a1.weight", AdapterPart::kGloraA1},
    {".a2.weight", AdapterPart::kGloraA2},
    {".b1.weight", AdapterPart::kGloraB1},
    {".b2.weight", AdapterPart::kGloraB2},
    {".on_input", AdapterPart::kIa3},
    {".diff", AdapterPart::kDiff},
    {".diff_b", AdapterPart::kDiffBias},
    {".w_norm", AdapterPart::kNormWeight},
    {".b_norm", AdapterPart::kNormBias},
    {".set_weight", AdapterPart::kSetWeight},
    {".reshape_weight", AdapterPart::kReshape},
};
constexpr Suffix kDownUp[] = {{".down.weight", AdapterPart::kDown}, {".up.weight", AdapterPart::kUp}};

template <size_t N>
std::optional<AdapterName> match(std::string_view name, const Suffix (&suffixes)[N], AdapterFamily family) {
  for (const Suffix& suffix : suffixes)
    if (ends_within(name, suffix.text))
      return AdapterName{family, suffix.part, name.substr(0, name.size() - suffix.text.size())};
  return std::nullopt;
}

std::optional<AdapterName> match_peft(std::string_view name, AdapterFamily family) {
  if (auto found = match(name, kPeftSuffixes, family)) return found;
  return match(name, kMethodSuffixes, family);
}

// ".lora_A.<adapter>.weight", ".lora_embedding_A.<adapter>": one component that is not "weight" or "bias".
std::optional<AdapterName> match_named(std::string_view name) {
  for (const Suffix& word : kNamedWords) {
    const size_t at = name.rfind(word.text);
    if (at == std::string_view::npos || at == 0) continue;
    std::string_view rest = name.substr(at + word.text.size());
    const bool weight = ends_within(rest, ".weight"), bias = ends_within(rest, ".bias");
    if (weight) rest.remove_suffix(7);
    if (bias) rest.remove_suffix(5);
    if (rest.empty() || rest == "weight" || rest == "bias" || contains(rest, ".")) continue;
    const AdapterPart part = bias && word.part == AdapterPart::kUp ? AdapterPart::kUpBias : word.part;
    return AdapterName{AdapterFamily::kPeftNamed, part, name.substr(0, at)};
  }
  return std::nullopt;
}

// "unet:12:down" and learned tokens ("<s1>") are cloneofsimo's; "w_a_003" that of home-made files.
std::optional<AdapterName> match_positional(std::string_view name) {
  const size_t first = name.find(':'), last = name.rfind(':');
  if (first != std::string_view::npos && first != last &&
      is_number(name.substr(first + 1, last - first - 1))) {
    const std::string_view end = name.substr(last + 1);
    if (end == "up") return AdapterName{AdapterFamily::kCloneofsimo, AdapterPart::kUp, name.substr(0, last)};
    if (end == "down")
      return AdapterName{AdapterFamily::kCloneofsimo, AdapterPart::kDown, name.substr(0, last)};
  }
  if (name.size() > 2 && name.front() == '<' && name.back() == '>')
    return AdapterName{AdapterFamily::kCloneofsimo, AdapterPart::kSaved, {}};
  const bool a = starts_with(name, "w_a_"), b = starts_with(name, "w_b_");
  if ((a || b) && is_number(name.substr(4)))
    return AdapterName{AdapterFamily::kRawIndexed, a ? AdapterPart::kDown : AdapterPart::kUp, name.substr(4)};
  return std::nullopt;
}

struct Prefix {
  std::string_view text;
  AdapterFamily family;
};
constexpr Prefix kKohyaPrefixes[] = {
    {"lora_unet__", AdapterFamily::kWanFun},
    {"lora_unet_", AdapterFamily::kKohya},
    {"lora_te_", AdapterFamily::kKohya},
    {"lora_te1_", AdapterFamily::kKohya},
    {"lora_te2_", AdapterFamily::kKohya},
    {"lora_te3_", AdapterFamily::kKohya},
    {"lora_prior_", AdapterFamily::kKohya},
    {"lycoris_", AdapterFamily::kKohya},
    {"lora_transformer_", AdapterFamily::kOnetrainer},
    {"Hunyuan_video_I2V_lora_", AdapterFamily::kHunyuanOld},
};

std::optional<AdapterName> match_kohya(std::string_view name, AdapterFamily family) {
  if (auto found = match(name, kKohyaSuffixes, family)) return found;
  return match(name, kMethodSuffixes, family);
}

std::optional<AdapterName> parse_peft(std::string_view name) {
  constexpr std::string_view kPrefix = "base_model.";
  const std::string_view rest = name.substr(kPrefix.size());
  const std::string_view path = starts_with(rest, "model.") ? rest.substr(6) : rest;
  const bool blocks = starts_with(path, "double_blocks.") || starts_with(path, "single_blocks.");
  if (!blocks)
    if (auto named = match_named(name)) return named;
  const AdapterFamily family = blocks ? AdapterFamily::kFalKontext : AdapterFamily::kPeft;
  if (auto found = match_peft(name, family)) return found;
  return AdapterName{family, AdapterPart::kSaved, {}};
}

}  // namespace

std::string_view adapter_family_id(AdapterFamily family) { return kFamilies[static_cast<size_t>(family)].id; }

std::string_view adapter_family_names(AdapterFamily family) {
  return kFamilies[static_cast<size_t>(family)].names;
}

std::optional<AdapterFamily> find_adapter_family(std::string_view id) {
  for (size_t i = 0; i < kAdapterFamilyCount; ++i)
    if (kFamilies[i].id == id) return static_cast<AdapterFamily>(i);
  return std::nullopt;
}

AdapterFileFacts adapter_file_facts(std::span<const std::string_view> names) {
  AdapterFileFacts facts;
  bool norm_scale = false, lora = false, prefixed = false;
  for (std::string_view name : names) {
    facts.control_lora = facts.control_lora || name == "lora_controlnet";
    facts.mlx = facts.mlx || ends_within(name, ".lora_a") || ends_within(name, ".lora_b");
    norm_scale = norm_scale || ends_within(name, "query_norm.scale") || ends_within(name, "key_norm.scale");
    lora = lora || ends_within(name, ".lora_A.weight");
    prefixed = prefixed || starts_with(name, "diffusion_model.") || starts_with(name, "base_model.model.");
  }
  facts.bfl_control = norm_scale && lora && !prefixed;
  return facts;
}

std::optional<AdapterName> parse_adapter_name(std::string_view name, const AdapterFileFacts& facts) {
  if (facts.control_lora) {
    constexpr Suffix kParts[] = {{".down", AdapterPart::kDown}, {".up", AdapterPart::kUp}};
    if (auto found = match(name, kParts, AdapterFamily::kControlLora)) return found;
    return AdapterName{AdapterFamily::kControlLora, AdapterPart::kSaved, {}};
  }
  if (facts.mlx) {
    constexpr Suffix kParts[] = {
        {".lora_a", AdapterPart::kDown}, {".lora_b", AdapterPart::kUp}, {".m", AdapterPart::kMagnitude}};
    if (auto found = match(name, kParts, AdapterFamily::kMlx)) return found;
  }
  if (contains(name, "processor.") && (contains(name, "qkv_lora") || contains(name, "proj_lora")))
    if (auto found = match(name, kDownUp, AdapterFamily::kXlabs)) return found;
  if (facts.bfl_control) {
    if (auto found = match_peft(name, AdapterFamily::kBflControl)) return found;
    if (ends_within(name, "_norm.scale"))
      return AdapterName{AdapterFamily::kBflControl, AdapterPart::kSaved, {}};
  }
  if (auto found = match_positional(name)) return found;
  if (starts_with(name, "base_model.")) return parse_peft(name);
  if (auto named = match_named(name)) return named;
  for (const Prefix& prefix : kKohyaPrefixes)
    if (starts_with(name, prefix.text)) return match_kohya(name, prefix.family);
  if (contains(name, ".processor.")) {
    constexpr Suffix kParts[] = {{"_lora.down.weight", AdapterPart::kDown},
                                 {"_lora.up.weight", AdapterPart::kUp}};
    if (auto found = match(name, kParts, AdapterFamily::kDiffusersOld)) return found;
  }
  constexpr Suffix kMid[] = {{".lora_linear_layer.down.weight", AdapterPart::kDown},
                             {".lora_linear_layer.up.weight", AdapterPart::kUp},
                             {".lora.down.weight", AdapterPart::kDown},
                             {".lora.up.weight", AdapterPart::kUp}};
  if (auto found = match(name, kMid, AdapterFamily::kDiffusersMid)) return found;
  if (starts_with(name, "diffusion_model.") || starts_with(name, "text_encoders."))
    return match_kohya(name, AdapterFamily::kComfyGeneric);
  if (starts_with(name, "unet.") || starts_with(name, "transformer.") || starts_with(name, "text_encoder")) {
    if (auto found = match_peft(name, AdapterFamily::kDiffusersPeft)) return found;
    // An alpha per module; a plain tensor of that name would have no twin.
    if (ends_within(name, ".alpha"))
      return AdapterName{AdapterFamily::kDiffusersPeft, AdapterPart::kAlpha, name.substr(0, name.size() - 6)};
    return std::nullopt;
  }
  if (auto found = match_peft(name, AdapterFamily::kPeftBare);
      found && found->part != AdapterPart::kMagnitude)
    return found;
  if (ends_within(name, ".lora_magnitude_vector")) return match_peft(name, AdapterFamily::kPeftBare);
  return std::nullopt;
}

bool is_text_encoder_name(std::string_view name) {
  return starts_with(name, "lora_te") || starts_with(name, "text_encoder");
}

}  // namespace tftf
