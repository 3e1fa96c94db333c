// The naming families of adapter files, and what one tensor name says (spec adapters 4, 5).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tftf {

enum class AdapterFamily : uint8_t {
  kPeft,
  kPeftNamed,
  kPeftBare,
  kDiffusersPeft,
  kDiffusersOld,
  kDiffusersMid,
  kKohya,
  kOnetrainer,
  kComfyGeneric,
  kWanFun,
  kXlabs,
  kBflControl,
  kFalKontext,
  kHunyuanOld,
  kMlx,
  kControlLora,
  kCloneofsimo,
  kRawIndexed,
};
inline constexpr size_t kAdapterFamilyCount = 18;
// "peft", "peft-named", …
std::string_view adapter_family_id(AdapterFamily family);
std::optional<AdapterFamily> find_adapter_family(std::string_view id);
// What names of the family look like, for evidence texts.
std::string_view adapter_family_names(AdapterFamily family);

// What a tensor is to its module.
enum class AdapterPart : uint8_t {
  kDown,
  kUp,
  kMid,
  kUpBias,
  kAlpha,
  kMagnitude,
  kEmbeddingDown,
  kEmbeddingUp,
  kHadaW1A,
  kHadaW1B,
  kHadaW2A,
  kHadaW2B,
  kHadaT1,
  kHadaT2,
  kLokrW1,
  kLokrW1A,
  kLokrW1B,
  kLokrW2,
  kLokrW2A,
  kLokrW2B,
  kLokrT2,
  kOft,
  kRescale,
  kGloraA1,
  kGloraA2,
  kGloraB1,
  kGloraB2,
  kIa3,
  kVera,   // vera_lambda_b, vera_lambda_d
  kOther,  // a method's own tensor that is named here but not taken apart
  kDiff,   // full difference
  kDiffBias,
  kNormWeight,  // w_norm
  kNormBias,    // b_norm
  kSetWeight,   // replaces the parameter
  kReshape,     // reshape_weight: the shape that the base weight is padded to
  kSaved,       // a plain tensor that goes with the adapter (modules_to_save, BFL's norm scales, markers)
};

struct AdapterName {
  AdapterFamily family{};
  AdapterPart part{};
  std::string_view module;  // as stored: the name without the part's suffix; empty for kSaved
};

// What decides for a whole file (steps 0, 1 and 3 of the detection order).
struct AdapterFileFacts {
  bool control_lora = false;  // the marker lora_controlnet
  bool mlx = false;           // some name ends in .lora_a or .lora_b
  bool bfl_control = false;   // query_norm.scale or key_norm.scale beside .lora_A.weight, no diffusion_model.
};
AdapterFileFacts adapter_file_facts(std::span<const std::string_view> names);

// The family and part of a name, nothing when no family explains it. A plain tensor below base_model. is
// PEFT's kSaved. `model.lora_proj.weight` is nothing: words count only as whole components.
std::optional<AdapterName> parse_adapter_name(std::string_view name, const AdapterFileFacts& facts);

// Names of a text encoder's half, which never make a file mixed.
bool is_text_encoder_name(std::string_view name);

}  // namespace tftf
