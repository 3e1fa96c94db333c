// Adapters into bases: configurations, names, dtypes and shapes from the input. Each pair is refused in words or merges
// into a sound model. Format: a length and the configuration's text; one byte numbers of tensors; records of the
// adapter (module, part, dimensions) and of the base (module, dtype, dimensions); the rest is data.
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "folder_model.h"
#include "input.h"
#include "tftf/adapter/adapter.h"

namespace {

using namespace tftf;
using tftf::fuzz::FolderModel;
using FuzzInput = tftf::fuzz::Input;

constexpr const char* kModules[] = {"model.layers.0.self_attn.q_proj",
                                    "model.layers.1.mlp.up_proj",
                                    "model.embed_tokens",
                                    "lm_head",
                                    "model.layers.0.mlp.experts",
                                    "conv"};
constexpr const char* kParts[] = {".lora_A.weight",
                                  ".lora_B.weight",
                                  ".lora_A.default.weight",
                                  ".lora_B.default.weight",
                                  ".lora_embedding_A",
                                  ".lora_embedding_B",
                                  ".lora_magnitude_vector",
                                  ".hada_w1_a",
                                  ".hada_w1_b",
                                  ".hada_w2_a",
                                  ".hada_w2_b",
                                  ".hada_t1",
                                  ".lokr_w1",
                                  ".lokr_w1_a",
                                  ".lokr_w1_b",
                                  ".lokr_w2",
                                  ".lokr_w2_a",
                                  ".lokr_w2_b",
                                  ".lokr_t2",
                                  ".ia3_l",
                                  ".vera_lambda_b",
                                  ".vera_lambda_d",
                                  ".oft_R.weight",
                                  ".boft_R",
                                  ".boft_s",
                                  ".hra_u",
                                  ".miss_block",
                                  ".modules_to_save.weight",
                                  ".base_layer.lora_A.weight",
                                  ".base_layer.lora_B.weight",
                                  ".weight",
                                  ".bias"};
constexpr const char* kConfigs[] = {
    R"({"peft_type":"LORA","r":2,"lora_alpha":4,"target_modules":["q_proj","up_proj"]})",
    R"({"peft_type":"LORA","r":2,"lora_alpha":4,"use_dora":true,"target_modules":"all-linear"})",
    R"({"peft_type":"LOHA","r":2,"alpha":4,"target_modules":["q_proj"]})",
    R"({"peft_type":"LOKR","r":2,"alpha":4,"target_modules":["q_proj","conv"]})",
    R"({"peft_type":"IA3","target_modules":["q_proj"],"feedforward_modules":["up_proj"]})",
    R"({"peft_type":"OFT","r":0,"oft_block_size":2,"target_modules":["q_proj"]})",
    R"({"peft_type":"BOFT","boft_block_size":2,"boft_n_butterfly_factor":1,"target_modules":["q_proj"]})",
    R"({"peft_type":"HRA","r":2,"target_modules":["q_proj"]})",
    R"({"peft_type":"MISS","r":2,"target_modules":["q_proj"]})"};
constexpr DType kDtypes[] = {DType::F32, DType::BF16, DType::F16, DType::F64, DType::F8_E4M3, DType::I32};

Shape any_shape(FuzzInput& input) {
  constexpr uint64_t kDimensions[] = {2, 4, 8, 2, 4, 8, 1, 3, 0, 16};
  Shape shape;
  for (uint8_t rank = 1 + input.byte() % 4; rank > 0; --rank) shape.push_back(input.pick(kDimensions));
  return shape;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4096) return 0;
  FuzzInput input(data, size);
  const uint8_t length = input.byte();
  const std::string config = length < 32 ? kConfigs[length % std::size(kConfigs)] : input.text(length);
  const uint8_t counts = input.byte();
  std::vector<NamedTensor> list;
  std::set<std::string> names;
  for (int count = 1 + counts % 8; count > 0; --count) {
    NamedTensor tensor;
    tensor.name = (input.byte() % 8 == 0 ? "" : "base_model.model.") + std::string(input.pick(kModules));
    tensor.name += input.pick(kParts);
    tensor.data.dtype = input.byte() % 4 == 0 ? DType::BF16 : DType::F32;
    tensor.data.shape = any_shape(input);
    const auto bytes = byte_count(*element_count(tensor.data.shape), tensor.data.dtype);
    if (!bytes || *bytes > 1 << 16 || !names.insert(tensor.name).second) continue;
    const std::string values = input.repeated(to_size(*bytes));
    tensor.data.bytes.assign(as_bytes(values).begin(), as_bytes(values).end());
    list.push_back(std::move(tensor));
  }
  const auto adapter = make_adapter("adapter", "adapter_model.safetensors", std::move(list),
                                    AdapterConfigText{"adapter_config.json", config}, {});
  if (!adapter.ok()) {
    tftf::fuzz::require(!adapter.error().message.empty());
    return 0;
  }
  FolderModel model;
  model.files["config.json"] =
      counts & 128 ? R"({"model_type":"gpt2"})" : R"({"model_type":"llama","tie_word_embeddings":true})";
  std::vector<OutputEntry> tensors;
  std::set<std::string> base_names;
  for (int count = 1 + counts / 8 % 8; count > 0; --count) {
    OutputEntry entry;
    entry.name = std::string(input.pick(kModules)) + (input.byte() % 8 == 0 ? ".bias" : ".weight");
    entry.dtype = input.pick(kDtypes);
    entry.shape = any_shape(input);
    if (base_names.insert(entry.name).second) tensors.push_back(std::move(entry));
  }
  if (!model.add_model(tensors, {}, input)) return 0;
  Operation operation{.id = "merge-lora", .options = {{"adapter", {"adapter"}}, {"allow-nonfinite", {}}}};
  operation.adapter = *adapter;
  tftf::fuzz::transform(model, {operation});
  return 0;
}
