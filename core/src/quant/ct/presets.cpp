// The library's schemes by name (spec compressed-tensors 1.6).
#include <algorithm>
#include <array>

#include "quant/ct/config.h"

namespace tftf::ct {
namespace {

struct Preset {
  std::string_view name;
  uint64_t bits;  // 0: no weights
  bool is_float;
  Strategy strategy;
  int64_t group;
  bool symmetric = true;
  uint64_t input_bits = 0;  // 0: none
  bool input_float = false;
  bool input_dynamic = true;
  std::optional<DType> scale_dtype{};
};
constexpr Preset kPresets[] = {
    {"UNQUANTIZED", 0, false, Strategy::kTensor, 0},
    {"W8A8", 8, false, Strategy::kChannel, 0, true, 8},
    {"INT8", 8, false, Strategy::kChannel, 0, true, 8},
    {"W4A16_ASYM", 4, false, Strategy::kGroup, 128, false},
    {"W4AFP8", 4, false, Strategy::kGroup, 128, true, 8, true},
    {"FP8", 8, true, Strategy::kTensor, 0, true, 8, true, false},
    {"FP8_DYNAMIC", 8, true, Strategy::kChannel, 0, true, 8, true},
    {"FP8_BLOCK", 8, true, Strategy::kBlock, 0, true, 8, true},
    {"NVFP4A16", 4, true, Strategy::kTensorGroup, 16, true, 0, false, true, DType::F8_E4M3},
    {"NVFP4", 4, true, Strategy::kTensorGroup, 16, true, 4, true, true, DType::F8_E4M3},
    {"MXFP4A16", 4, true, Strategy::kGroup, 32, true, 0, false, true, DType::U8},
    {"MXFP4", 4, true, Strategy::kGroup, 32, true, 4, true, true, DType::U8},
    {"MXFP8A16", 8, true, Strategy::kGroup, 32, true, 0, false, true, DType::U8},
    {"MXFP8", 8, true, Strategy::kGroup, 32, true, 8, true, true, DType::U8},
};
// WxAy with these pairs: integers in groups of 128, activations of y bits per token.
constexpr std::array<std::string_view, 16> kWeightActivation = {
    "W2A4",  "W2A8", "W2A16", "W3A4", "W3A8",  "W3A16", "W4A4",  "W4A8",
    "W4A16", "W5A8", "W5A16", "W6A8", "W6A16", "W7A8",  "W7A16", "W8A16"};

// What follows from the rest, as for arguments that are read.
void complete(Args& args) {
  args.group_given = args.group_size != 0;
  args.zp_dtype = storage_dtype(args);
  if (args.is_float && args.scale_dtype) args.zp_dtype = args.scale_dtype;
  if (!args.dynamic) args.observer = "memoryless_minmax";
}

Group preset_group(const Preset& preset) {
  Group group;
  group.name = std::string(preset.name);
  if (preset.bits != 0) {
    Args weights;
    weights.bits = preset.bits;
    weights.is_float = preset.is_float;
    weights.symmetric = preset.symmetric;
    weights.strategy = preset.strategy;
    weights.group_size = preset.group;
    if (preset.strategy == Strategy::kBlock) weights.block[0] = weights.block[1] = 128;
    weights.scale_dtype = preset.scale_dtype;
    complete(weights);
    group.weights = weights;
  }
  if (preset.input_bits != 0) {
    Args inputs;
    inputs.bits = preset.input_bits;
    inputs.is_float = preset.input_float;
    inputs.dynamic = preset.input_dynamic;
    inputs.strategy = !preset.input_dynamic ? Strategy::kTensor : Strategy::kToken;
    if (preset.strategy == Strategy::kBlock) {
      inputs.strategy = Strategy::kGroup;
      inputs.group_size = 128;
    } else if (preset.scale_dtype) {
      inputs.strategy = preset.strategy;
      inputs.group_size = preset.group;
      inputs.scale_dtype = preset.scale_dtype;
    }
    complete(inputs);
    inputs.local = inputs.dynamic && inputs.strategy == Strategy::kTensorGroup;
    // Static scales, of tensors: a calibration finds them.
    if (!inputs.dynamic || inputs.local) inputs.observer = "static_minmax";
    group.inputs = inputs;
  }
  group.format = inferred_format(group.weights, group.inputs);
  return group;
}

}  // namespace

std::optional<Group> find_preset(std::string_view name) {
  std::string upper(name);
  for (char& c : upper)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  for (const Preset& preset : kPresets)
    if (preset.name == upper) return preset_group(preset);
  for (const std::string_view pair : kWeightActivation) {
    if (pair != upper) continue;
    const uint64_t inputs = pair == "W8A16" || pair.size() == 5 ? 0 : static_cast<uint64_t>(pair[3] - '0');
    return preset_group(
        {pair, static_cast<uint64_t>(pair[1] - '0'), false, Strategy::kGroup, 128, true, inputs});
  }
  return std::nullopt;
}

std::vector<std::string_view> preset_names() {
  std::vector<std::string_view> names(kWeightActivation.begin(), kWeightActivation.end());
  for (const Preset& preset : kPresets) names.push_back(preset.name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace tftf::ct
