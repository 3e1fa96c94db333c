// The inspector: models whose names, dtypes, shapes, configurations and small values come from the input.
// Format: one byte configuration, one byte metadata, then records of one byte module, suffix, dtype, rank, the
// dimensions, one byte length and that many bytes of the tensor's data.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "input.h"
#include "tftf/inspect/info.h"
#include "tftf/lint/config_rules.h"

namespace {

using tftf::fuzz::Input;
using tftf::fuzz::require;

using namespace tftf;

constexpr const char* kModules[] = {"model.layers.0.mlp.up_proj", "model.layers.1.self_attn.q_proj",
                                    "lora_unet_down_blocks_0_proj_in", "base_model.model.a"};
constexpr const char* kSuffixes[] = {".weight",
                                     ".qweight",
                                     ".qzeros",
                                     ".scales",
                                     ".g_idx",
                                     ".biases",
                                     ".weight_scale",
                                     ".weight_scale_inv",
                                     ".weight_scale_2",
                                     ".scale",
                                     ".scale_weight",
                                     ".scale_input",
                                     ".comfy_quant",
                                     ".SCB",
                                     ".weight_packed",
                                     ".weight_shape",
                                     ".weight_global_scale",
                                     ".weight_zero_point",
                                     ".compressed",
                                     ".bitmask",
                                     ".shape",
                                     ".row_offsets",
                                     ".meta",
                                     ".scale_packed",
                                     "_blocks",
                                     "_scales",
                                     ".weight.absmax",
                                     ".weight.quant_map",
                                     ".weight.quant_state.bitsandbytes__nf4",
                                     ".weight.nested_absmax",
                                     ".weight.nested_quant_map",
                                     ".weight.qs",
                                     "._weight_qdata",
                                     "._weight_scale",
                                     ".trellis",
                                     ".suh",
                                     ".alpha",
                                     ".lora_down.weight",
                                     ".lora_up.weight",
                                     ".lora_A.weight",
                                     ".lora_B.weight",
                                     ".dora_scale",
                                     ".hada_w1_b",
                                     ".lokr_w2_b",
                                     ".diff",
                                     "scaled_fp8",
                                     ".weight_s_rel",
                                     ".weight_s_channel",
                                     ".weight_zeros"};
constexpr const char* kConfigs[] = {
    "",
    R"({"model_type":"llama"})",
    R"({"quantization_config":{"quant_method":"gptq","bits":4,"group_size":32,"checkpoint_format":"gptq_v2"}})",
    R"({"quantization_config":{"quant_method":"awq","version":"gemv","group_size":64}})",
    R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]}})",
    R"({"quantization_config":{"quant_method":"modelopt","quant_algo":"NVFP4"}})",
    R"({"quantization_config":{"quant_method":"compressed-tensors","config_groups":{"g":{"weights":{"num_bits":4,"group_size":32}}}}})",
    R"({"quantization":{"bits":4,"group_size":64}})",
    R"({"hidden_size":64,"intermediate_size":32,"first_k_dense_replace":1})",
    R"({"model_type":"qwen3_moe","vocab_size":16,"hidden_size":8,"num_attention_heads":2,"num_experts":4,
        "moe_intermediate_size":4,"num_hidden_layers":2})"};
constexpr const char* kMetadata[] = {
    R"({"_type":"Float8Tensor","_data":{},"_tensor_data_names":["qdata","scale"]})",
    R"({"_type":"NVFP4Tensor","_data":{"block_size":16},"_tensor_data_names":["qdata","scale"]})",
    R"({"format_version":"1.0","layers":{"model.layers.0.mlp.up_proj":{"format":"nvfp4"}}})",
    R"({"model.layers.0.mlp.up_proj.weight": "int4-rans256-g0"})"};
constexpr uint64_t kDimensions[] = {
    0, 1, 2, 3, 4, 8, 16, 24, 32, 64, 100, 128, 256, 4096, uint64_t{1} << 40, UINT64_MAX};

struct Model {
  Checkpoint checkpoint;
  std::string data;
};

void build(Input& input, Model& model) {
  Shard& shard = model.checkpoint.shards.emplace_back();
  shard.name = "model.safetensors";
  shard.readable = true;
  if (const std::string config = input.pick(kConfigs); !config.empty()) {
    SideFile& file = model.checkpoint.side_files.emplace_back();
    file.name = "config.json";
    file.text = config;
    file.document = parse_json(config, JsonDialect::kPython);
  }
  const uint8_t metadata = input.byte();
  if (metadata & 1) shard.header.metadata.emplace_back("tensor_names", "[]");
  if (metadata & 2)
    shard.header.metadata.emplace_back("model.layers.0.mlp.up_proj.weight", kMetadata[metadata & 4 ? 1 : 0]);
  if (metadata & 8) shard.header.metadata.emplace_back("_quantization_metadata", kMetadata[2]);
  if (metadata & 16) shard.header.metadata.emplace_back("colibri.fmt", kMetadata[3]);
  std::set<std::string> names;
  while (!input.empty() && names.size() < 64) {
    TensorInfo tensor;
    tensor.name = input.pick(kModules);
    tensor.name += input.pick(kSuffixes);
    tensor.dtype = all_dtypes()[input.byte() % all_dtypes().size()].dtype;
    for (uint8_t rank = input.byte() % 5; rank > 0; --rank) tensor.shape.push_back(input.pick(kDimensions));
    std::string bytes;
    for (uint8_t length = input.byte(); length > 0 && !input.empty(); --length)
      bytes += static_cast<char>(input.byte());
    if (!names.insert(tensor.name).second) continue;
    // Sizes need not fit shapes: the inspector also looks at broken files.
    tensor.begin = model.data.size();
    model.data += bytes;
    tensor.end = model.data.size();
    shard.header.tensors.push_back(std::move(tensor));
  }
  shard.size = shard.header.data_offset() + model.data.size();
  for (uint32_t i = 0; i < shard.header.tensors.size(); ++i) {
    model.checkpoint.order.push_back({0, i});
    model.checkpoint.by_name.emplace(shard.header.tensors[i].name, TensorRef{0, i});
  }
}

void inspect(const Model& model) {
  Inspector inspector(model.checkpoint);
  for (auto wanted = inspector.want(); !wanted.empty(); wanted = inspector.want())
    for (const ReadRequest& request : wanted) {
      const uint64_t at = request.range.offset - model.checkpoint.shards[0].header.data_offset();
      require(request.range.length > 0 && at <= model.data.size() &&
              request.range.length <= model.data.size() - at);
      inspector.supply(request, as_bytes(model.data).subspan(at, request.range.length));
    }
  const ModelInfo info = inspector.take();
  require(info.rows.size() == model.checkpoint.order.size());
  const OrderedJson document = OrderedJson::parse(info_json_text(info));
  require(document["tensors"].size() == info.rows.size());
  uint64_t modules = 0, logical = 0;
  for (const OrderedJson& layout : document["layouts"]) modules += layout["modules"].get<uint64_t>();
  for (const OrderedJson& row : document["tensors"]) logical += row["logical"].is_null() ? 0 : 1;
  require(modules == logical);
  InfoTextOptions options;
  options.width = 40;
  options.fold = true;
  require(!info_text(info, options).empty());
}

void check(const Model& model) {
  std::vector<ConfigTensor> tensors;
  for (const TensorInfo& tensor : model.checkpoint.shards[0].header.tensors)
    tensors.push_back({tensor.name, tensor.dtype, &tensor.shape, tensor.bytes()});
  ConfigInput input;
  if (!model.checkpoint.side_files.empty()) input.config_text = model.checkpoint.side_files[0].text;
  input.has_checked_file = input.has_model_file = true;
  input.tensors = tensors;
  for (const Diagnostic& finding : check_config(input)) require(!message(finding).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  Model model;
  build(input, model);
  inspect(model);
  check(model);
  return 0;
}
