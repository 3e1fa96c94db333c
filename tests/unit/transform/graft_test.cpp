// Tensors of another model: what is taken, under which names and in which form, what configuration and folder say then.
#include <catch2/catch.hpp>

#include "tftf/base/json_value.h"
#include "transform_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

constexpr const char* kGraftShard = "model-00001-of-00001.safetensors";
constexpr const char* kGraftPlace = "source";

using Texts = std::vector<std::string>;

TestTensor bf16(const std::string& name, Shape shape, uint32_t seed) {
  return {name, DType::BF16, shape, random_bytes(static_cast<size_t>(2 * *element_count(shape)), seed)};
}

MemoryModel graft_folder(const std::string& config, const std::vector<TestTensor>& tensors) {
  MemoryModel model;
  if (!config.empty()) model.files["config.json"] = config;
  model.files["model.safetensors"] = model_file(tensors);
  return model;
}

Operation graft_operation(const Texts& words) {
  Operation operation{"graft", {}};
  for (size_t i = 0; i < words.size(); ++i) {
    const OptionInfo* option = find_operation("graft")->option(words[i]);
    REQUIRE(option != nullptr);
    Operation::Given given{words[i], {}};
    if (option->values() == 1) given.values.push_back(words[++i]);
    operation.options.push_back(std::move(given));
  }
  return operation;
}

Result<TransformResult> graft(MemoryModel model, const MemoryModel& source, const Texts& words,
                              std::vector<Operation> before = {}, std::vector<Operation> behind = {}) {
  auto other = read_from_memory(source, source.folder(), {.mode = ReadMode::kTransform});
  REQUIRE(other.ok());
  Operation operation = graft_operation(words);
  operation.options.push_back({"from", {kGraftPlace}});
  operation.other = other_model(*std::move(other), kGraftPlace, source.folder().files);
  for (const auto& [name, bytes] : source.files) model.files[std::string(kGraftPlace) + "//" + name] = bytes;
  std::vector<Operation> chain = std::move(before);
  chain.push_back(std::move(operation));
  for (Operation& one : behind) chain.push_back(std::move(one));
  return transform_in_memory(model, std::move(chain));
}

TransformResult grafted(Result<TransformResult> result) {
  INFO((result ? "" : result.error().message));
  REQUIRE(result.ok());
  return *std::move(result);
}

Texts grafted_names(const TransformResult& result) {
  Texts names;
  for (const TestTensor& tensor : tensors_of(result.files.at(kGraftShard))) names.push_back(tensor.name);
  return names;
}

std::string grafted_bytes(const TransformResult& result, const std::string& name) {
  for (const TestTensor& tensor : tensors_of(result.files.at(kGraftShard)))
    if (tensor.name == name) return tensor.bytes;
  return "none";
}

JsonValue config_in(const TransformResult& result) {
  return parse_json(result.files.at("config.json"), JsonDialect::kPython).root;
}

void check_graft_refused(const Result<TransformResult>& result, ErrorCode code, const std::string& says) {
  REQUIRE_FALSE(result.ok());
  INFO(result.error().message);
  CHECK(result.error().code == code);
  CHECK(result.error().message.find(says) != std::string::npos);
}

const std::string kPlainType = R"({"model_type": "deepseek_v3", "num_hidden_layers": 1})";
const TestTensor kEmbed = bf16("model.embed_tokens.weight", {4, 4}, 1);
const TestTensor kHead = bf16("lm_head.weight", {4, 4}, 2);
const TestTensor kMtp = bf16("model.layers.1.eh_proj.weight", {4, 8}, 3);
const TestTensor kNorm = bf16("model.layers.1.enorm.weight", {4}, 4);

MemoryModel whole_source() {
  return graft_folder(
      R"({"model_type": "deepseek_v3", "num_hidden_layers": 1, "num_nextn_predict_layers": 1})",
      {kEmbed, kHead, kMtp, kNorm});
}

}  // namespace

TEST_CASE("graft takes what the model lacks, behind its own tensors, and says where it is from") {
  const TransformResult result =
      grafted(graft(graft_folder(kPlainType, {kEmbed}), whole_source(), {"missing"}));
  CHECK(grafted_names(result) == Texts{kEmbed.name, kHead.name, kMtp.name, kNorm.name});
  CHECK(grafted_bytes(result, kMtp.name) == kMtp.bytes);
  CHECK(config_in(result).integer("num_nextn_predict_layers") == 1);
  REQUIRE(result.account.grafts.size() == 1);
  const Account::Graft& told = result.account.grafts[0];
  CHECK(told.source.size() > 0);
  CHECK(told.taken == 3);
  CHECK(told.bytes == 32 + 64 + 8);
  CHECK(told.names == Texts{kHead.name, kMtp.name, kNorm.name});
  CHECK(result.account.to_text().find("taken from") != std::string::npos);
  CHECK(result.account.to_json()["grafts"][0]["taken"] == 3);
  CHECK(result.text.find("source//model.safetensors") != std::string::npos);
}

TEST_CASE("graft copies exactly, with a warning, where nothing is missing") {
  const TransformResult result = grafted(graft(whole_source(), whole_source(), {"missing"}));
  CHECK(grafted_names(result).size() == 4);
  CHECK(result.account.warnings.size() == 1);
  CHECK(result.account.grafts[0].taken == 0);
}

TEST_CASE("graft by name: exclude takes away, replace removes, other names are refused") {
  const MemoryModel model = graft_folder(kPlainType, {kEmbed, bf16(kHead.name, {4, 4}, 9)});
  const TransformResult some =
      grafted(graft(model, whole_source(), {"include", "model.layers.1.*", "exclude", "*.enorm.*"}));
  CHECK(grafted_names(some).back() == kMtp.name);
  CHECK(some.account.grafts[0].skipped.size() == 1);
  const TransformResult replaced = grafted(graft(model, whole_source(), {"include", kHead.name, "replace"}));
  CHECK(grafted_bytes(replaced, kHead.name) == kHead.bytes);
  CHECK(replaced.account.grafts[0].replaced == 1);
  CHECK(replaced.account.dropped[0].reason == "replaced");
  check_graft_refused(graft(model, whole_source(), {"include", kHead.name}), ErrorCode::kRefusedCollision,
                      "--replace");
  check_graft_refused(graft(model, whole_source(), {"include", "mtp.*"}), ErrorCode::kRefusedMissing,
                      "no tensor");
  check_graft_refused(graft(model, whole_source(), {}), ErrorCode::kUsage, "--missing");
  check_graft_refused(graft(model, whole_source(), {"missing", "include", "a"}), ErrorCode::kUsage,
                      "--include");
  check_graft_refused(graft(model, whole_source(), {"missing", "replace"}), ErrorCode::kUsage, "--replace");
}

TEST_CASE("graft leaves a tied head, and unties it when it is named") {
  const std::string tied =
      R"({"model_type": "deepseek_v3", "num_hidden_layers": 1, "tie_word_embeddings": true})";
  const MemoryModel model = graft_folder(tied, {kEmbed, kMtp, kNorm});
  const TransformResult left = grafted(graft(model, whole_source(), {"missing"}));
  CHECK(left.account.grafts[0].taken == 0);
  CHECK(left.account.grafts[0].skipped[0].names == Texts{kHead.name});
  const TransformResult named = grafted(graft(model, whole_source(), {"include", "lm_head.*"}));
  CHECK(grafted_bytes(named, kHead.name) == kHead.bytes);
  CHECK_FALSE(config_in(named).find("tie_word_embeddings")->is_true());
}

TEST_CASE("graft casts floats, and nothing else") {
  MemoryModel source = graft_folder(
      kPlainType,
      {kEmbed, {"a", DType::F32, {2}, f32_bytes({1.0f, -2.5f})}, {"n", DType::I64, {1}, random_bytes(8, 1)}});
  const TransformResult result =
      grafted(graft(graft_folder(kPlainType, {kEmbed}), source, {"missing", "dtype", "bfloat16"}));
  CHECK(grafted_bytes(result, "a") == u16_bytes({0x3F80, 0xC020}));
  CHECK(grafted_bytes(result, "n") == random_bytes(8, 1));
  CHECK(result.account.grafts[0].converted == 1);
}

namespace {

const std::string kFp8Part = R"("quantization_config": {"quant_method": "fp8", "weight_block_size": [4, 4]})";
const std::string kFp8Type = R"({"model_type": "deepseek_v3", "num_hidden_layers": 1, )" + kFp8Part + "}";

std::vector<TestTensor> fp8_weight(const std::string& module, uint32_t seed) {
  return {{module + ".weight", DType::F8_E4M3, {4, 4}, std::string(16, static_cast<char>(0x38 + seed))},
          {module + ".weight_scale_inv", DType::F32, {1, 1}, f32_bytes({2.0f})}};
}

MemoryModel fp8_folder(const std::string& config, std::vector<TestTensor> more) {
  std::vector<TestTensor> tensors = fp8_weight("model.layers.0.self_attn.o_proj", 0);
  tensors.insert(tensors.end(), more.begin(), more.end());
  return graft_folder(config, tensors);
}

}  // namespace

TEST_CASE("graft keeps codes where the model's configuration reads them, else dequantises or refuses") {
  const MemoryModel source = fp8_folder(kFp8Type, fp8_weight("model.layers.1.eh_proj", 8));
  const std::string module = "model.layers.1.eh_proj.weight";
  const MemoryModel plain =
      graft_folder(kPlainType, {bf16("model.layers.0.self_attn.o_proj.weight", {4, 4}, 1)});
  check_graft_refused(graft(plain, source, {"missing"}), ErrorCode::kRefusedUnsupported, "--dtype");
  check_graft_refused(graft(plain, source, {"include", module, "dtype", "bfloat16"}),
                      ErrorCode::kRefusedMissing, "part");
  const TransformResult floats = grafted(graft(plain, source, {"missing", "dtype", "bfloat16"}));
  CHECK(grafted_names(floats).back() == module);
  CHECK(grafted_bytes(floats, module) == u16_bytes(std::vector<uint16_t>(16, 0x4080)));  // 2 * 2
  CHECK(floats.files.count("config.json") == 0);

  const MemoryModel quantised = fp8_folder(kFp8Type, {});
  const TransformResult kept = grafted(graft(quantised, source, {"missing"}));
  CHECK(grafted_bytes(kept, module) == std::string(16, 0x40));
  CHECK(kept.account.left_quantised == 2);
  const TransformResult both =
      grafted(graft(quantised, source, {"missing"}, {}, {{"dequant", {{"dtype", {"bfloat16"}}}}}));
  CHECK(grafted_bytes(both, module) == grafted_bytes(floats, module));
  CHECK(config_in(both).find("quantization_config") == nullptr);
  const std::string other = R"({"model_type": "deepseek_v3", "num_hidden_layers": 1,
      "quantization_config": {"quant_method": "fp8", "weight_block_size": [2, 4]}})";
  check_graft_refused(graft(fp8_folder(other, {}), source, {"missing"}), ErrorCode::kRefusedUnsupported,
                      "weight_block_size");
}

TEST_CASE("graft names plain weights in the quantised model's list, or refuses where there is none") {
  const MemoryModel source = graft_folder(kPlainType, {kMtp, kNorm, kHead});
  const std::string listed = R"({"model_type": "deepseek_v3", "num_hidden_layers": 1, "quantization_config":
      {"quant_method": "fp8", "weight_block_size": [4, 4], "modules_to_not_convert": ["lm_head"]}})";
  const TransformResult result = grafted(graft(fp8_folder(listed, {}), source, {"missing"}));
  const JsonValue config = config_in(result);
  const JsonValue* list = config.find("quantization_config")->find("modules_to_not_convert");
  REQUIRE(list->elements.size() == 2);
  CHECK(list->elements[0].text == "lm_head");
  CHECK(list->elements[1].text == "model.layers.1.eh_proj");
  const std::string gptq =
      R"({"model_type": "deepseek_v3", "quantization_config": {"quant_method": "gptq", "bits": 4}})";
  check_graft_refused(graft(graft_folder(gptq, {kEmbed}), source, {"missing"}),
                      ErrorCode::kRefusedUnsupported, "gptq");
  // A vector needs no entry.
  const TransformResult norm = grafted(graft(graft_folder(gptq, {kEmbed}), source, {"include", kNorm.name}));
  CHECK(grafted_names(norm).back() == kNorm.name);
}

TEST_CASE("graft takes the files of a tower along where the model has none") {
  MemoryModel source = whole_source();
  source.files["preprocessor_config.json"] = "{}";
  source.files["tokenizer.json"] = "{}";
  MemoryModel model = graft_folder(kPlainType, {kEmbed});
  const TransformResult result = grafted(graft(model, source, {"missing"}));
  CHECK(std::count(result.copied.begin(), result.copied.end(), "source//preprocessor_config.json") == 1);
  CHECK(std::count(result.copied.begin(), result.copied.end(), "source//tokenizer.json") == 0);
  model.files["preprocessor_config.json"] = "[]";
  const TransformResult own = grafted(graft(model, source, {"missing"}));
  CHECK(std::count(own.copied.begin(), own.copied.end(), "preprocessor_config.json") == 1);
  CHECK(std::count(own.copied.begin(), own.copied.end(), "source//preprocessor_config.json") == 0);
  // One that the source has and that cannot be read is not left out in silence.
  model.files.erase("preprocessor_config.json");
  MemoryModel broken = source;
  broken.unlistable["preprocessor_config.json"] = "no such luck";
  check_graft_refused(graft(model, broken, {"missing"}), ErrorCode::kIoRead, "no such luck");
  broken = source;
  broken.files.erase("preprocessor_config.json");
  broken.fifos = {"chat_template.jinja"};
  check_graft_refused(graft(model, broken, {"missing"}), ErrorCode::kIoRead, "chat_template.jinja");
}

TEST_CASE("graft refuses unrelated models, and takes names as they are for types without layouts") {
  const MemoryModel llama = graft_folder(R"({"model_type": "llama"})", {kEmbed});
  check_graft_refused(graft(llama, whole_source(), {"missing"}), ErrorCode::kRefusedUnsupported, "llama");
  const MemoryModel same = graft_folder(R"({"model_type": "llama"})", {kEmbed, kHead});
  CHECK(grafted_names(grafted(graft(llama, same, {"missing"}))) == Texts{kEmbed.name, kHead.name});
  check_graft_refused(graft(graft_folder("", {kEmbed}), graft_folder("", {kHead}), {"missing"}),
                      ErrorCode::kRefusedMissing, "--model-type");
  CHECK(grafted(graft(graft_folder("", {kEmbed}), graft_folder("", {kHead}),
                      {"missing", "model-type", "qwen3_moe"}))
            .account.grafts[0]
            .taken == 1);
}

TEST_CASE("graft brings names and experts to those of the model") {
  const std::string type = R"({"model_type": "mixtral", "num_local_experts": 2})";
  const std::string p4 = "model.layers.0.block_sparse_moe.", p5 = "model.layers.1.mlp.";
  std::vector<TestTensor> split;
  for (const std::string expert : {"0", "1"})
    for (const std::string part : {"w1", "w2", "w3"})
      split.push_back(bf16(p4 + "experts." + expert + "." + part + ".weight",
                           part == "w2" ? Shape{4, 2} : Shape{2, 4}, static_cast<uint32_t>(split.size())));
  split.push_back(bf16(p4 + "gate.weight", {2, 4}, 20));
  const std::vector<TestTensor> fused = {bf16(p5 + "experts.down_proj", {2, 4, 2}, 30),
                                         bf16(p5 + "experts.gate_up_proj", {2, 4, 4}, 31),
                                         bf16(p5 + "gate.weight", {2, 4}, 32)};
  const TransformResult result =
      grafted(graft(graft_folder(type, split), graft_folder(type, fused), {"missing"}));
  const std::string to = "model.layers.1.block_sparse_moe.";
  CHECK(grafted_names(result).size() == 14);
  CHECK(grafted_bytes(result, to + "gate.weight") == fused[2].bytes);
  CHECK(grafted_bytes(result, to + "experts.1.w2.weight") == fused[0].bytes.substr(16));
  CHECK(grafted_bytes(result, to + "experts.1.w3.weight") == fused[1].bytes.substr(32 + 16));
  const TransformResult other =
      grafted(graft(graft_folder(type, fused), graft_folder(type, split), {"missing"}));
  CHECK(grafted_names(other).size() == 6);
  CHECK(grafted_bytes(other, "model.layers.0.mlp.experts.down_proj") == split[1].bytes + split[4].bytes);
}

TEST_CASE("graft puts a text model back into its wrapper") {
  const std::string wrapper = R"({"architectures": ["LlavaForConditionalGeneration"], "model_type": "llava",
      "dtype": "float32", "text_config": {"model_type": "llama", "rope_theta": 1.0, "hidden_size": 4},
      "vision_config": {"hidden_size": 2}})";
  const std::string text =
      R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "rope_theta": 5.0,
      "dtype": "bfloat16", "hidden_size": 4})";
  const MemoryModel source = graft_folder(
      wrapper, {bf16("language_model.lm_head.weight", {4, 4}, 1),
                bf16("language_model.model.norm.weight", {4}, 2), bf16("vision_tower.a.weight", {2, 2}, 3)});
  const std::vector<TestTensor> tuned = {bf16("lm_head.weight", {4, 4}, 4),
                                         bf16("model.norm.weight", {4}, 5)};
  const TransformResult result = grafted(graft(graft_folder(text, tuned), source, {"missing"}));
  CHECK(grafted_names(result) ==
        Texts{"language_model.lm_head.weight", "language_model.model.norm.weight", "vision_tower.a.weight"});
  CHECK(grafted_bytes(result, "language_model.model.norm.weight") == tuned[1].bytes);
  const JsonValue config = config_in(result);
  CHECK(config.string("model_type") == "llava");
  CHECK(config.string("dtype") == "bfloat16");
  CHECK(config.find("text_config")->number("rope_theta") == 5.0);
  CHECK(config.find("text_config")->string("model_type") == "llama");
  check_graft_refused(graft(graft_folder(text, {bf16("classifier.weight", {2, 2}, 1)}), source, {"missing"}),
                      ErrorCode::kRefusedMissing, "classifier");
}

TEST_CASE("graft stands in a chain") {
  const TransformResult result = grafted(graft(
      graft_folder(kPlainType, {kEmbed}), whole_source(), {"missing"}, {{"filter", {{"include", {"x"}}}}},
      {{"rename", {{"rule", {"^model\\.", ""}}}}, {"cast", {{"dtype", {"float32"}}}}}));
  CHECK(grafted_names(result) ==
        Texts{"lm_head.weight", "embed_tokens.weight", "layers.1.eh_proj.weight", "layers.1.enorm.weight"});
}
