// Chains of operations over models whose names, dtypes, shapes, values and quantisation sections come from the input:
// each is refused in words or writes a sound model. Format: one byte operations, two bytes each; one byte configuration, or a
// length and its text; records of module, suffix, dtype, rank and dimensions; the rest is data.
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "folder_model.h"
#include "input.h"

namespace {

using namespace tftf;
using tftf::fuzz::FolderModel;
using tftf::fuzz::require;
using FuzzInput = tftf::fuzz::Input;

constexpr const char* kModules[] = {"model.layers.0.mlp.up_proj", "model.layers.1.self_attn.q_proj",
                                    "lm_head", "model.layers.0.mlp.experts.0.up_proj"};
constexpr const char* kSuffixes[] = {".weight",
                                     ".qweight",
                                     ".qzeros",
                                     ".scales",
                                     ".g_idx",
                                     ".biases",
                                     ".weight_scale",
                                     ".weight_scale_inv",
                                     ".weight_scale_2",
                                     ".scale_weight",
                                     ".comfy_quant",
                                     ".weight_packed",
                                     ".weight_shape",
                                     ".weight_global_scale",
                                     ".weight_zero_point",
                                     ".weight_g_idx",
                                     ".compressed",
                                     ".bitmask",
                                     ".row_offsets",
                                     ".input_scale",
                                     "_blocks",
                                     "_scales",
                                     ".weight.absmax",
                                     ".weight.quant_map",
                                     ".weight.nested_absmax",
                                     ".weight.nested_quant_map",
                                     ".weight.quant_state.bitsandbytes__nf4",
                                     ".SCB",
                                     ".meta",
                                     ".scale_packed",
                                     ".weight.qs",
                                     ".bias"};
constexpr const char* kConfigs[] = {
    "{}",
    R"({"quantization_config":{"quant_method":"gptq","bits":4,"group_size":8,"desc_act":true,"checkpoint_format":"gptq_v2"}})",
    R"({"quantization_config":{"quant_method":"awq","version":"gemm","bits":4,"group_size":8,"zero_point":true}})",
    R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[4,8]}})",
    R"({"quantization_config":{"quant_method":"modelopt","quant_algo":"NVFP4"}})",
    R"({"quantization_config":{"quant_method":"bitsandbytes","load_in_4bit":true,"bnb_4bit_quant_type":"nf4"}})",
    R"({"quantization_config":{"quant_method":"mxfp4"}})",
    R"({"quantization_config":{"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"g":{"targets":["Linear"],"weights":{"num_bits":4,"type":"int","symmetric":true,"strategy":"group","group_size":8}}}}})",
    R"({"quantization":{"bits":4,"group_size":32}})"};

Operation any_operation(FuzzInput& input) {
  const auto operations = all_operations();
  const OperationInfo& info = operations[input.byte() % operations.size()];
  Operation operation{.id = std::string(info.id)};
  uint8_t which = input.byte();
  for (const OptionInfo& option : info.options) {
    if (!option.required && which % 4 != 0) {
      which = static_cast<uint8_t>(which / 4);
      continue;
    }
    Operation::Given given{.name = std::string(option.name), .values = {}};
    if (option.kind == OptionKind::kChoice)
      given.values = {std::string(option.choices[input.byte() % option.choices.size()])};
    if (option.kind == OptionKind::kInteger) given.values = {std::to_string(1 + input.byte())};
    if (option.kind == OptionKind::kSize) given.values = {std::to_string(1 + input.byte())};
    if (option.kind == OptionKind::kGlob) given.values = {"*" + input.text(2) + "*"};
    if (option.kind == OptionKind::kRule) given.values = {"model", input.text(2)};
    if (option.kind == OptionKind::kNumber) given.values = {"0.5"};
    if (option.kind == OptionKind::kText || option.kind == OptionKind::kPath) continue;
    operation.options.push_back(std::move(given));
    which = static_cast<uint8_t>(which / 4);
  }
  return operation;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4096) return 0;
  FuzzInput input(data, size);
  std::vector<Operation> operations;
  for (int count = 1 + input.byte() % 2; count > 0; --count) operations.push_back(any_operation(input));
  FolderModel model;
  const uint8_t config = input.byte();
  model.files["config.json"] =
      config < 128 ? kConfigs[config % std::size(kConfigs)] : input.text(input.byte());
  std::vector<OutputEntry> tensors;
  std::set<std::string> names;
  for (int count = 1 + input.byte() % 8; count > 0; --count) {
    OutputEntry entry;
    entry.name = input.pick(kModules);
    entry.name += input.pick(kSuffixes);
    entry.dtype = all_dtypes()[input.byte() % all_dtypes().size()].dtype;
    for (uint8_t rank = input.byte() % 4; rank > 0; --rank) entry.shape.push_back(input.byte() % 70);
    if (names.insert(entry.name).second) tensors.push_back(std::move(entry));
  }
  if (!model.add_model(tensors, {{"format", "pt"}}, input)) return 0;
  tftf::fuzz::transform(model, std::move(operations));
  return 0;
}
