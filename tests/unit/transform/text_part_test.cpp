// The text model of a wrapper by itself: tensors and configuration.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tftf/base/json_value.h"
#include "transform_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

Result<TransformResult> text_of(const std::vector<std::string>& names, const std::string& config,
                                std::vector<Operation::Given> options = {}) {
  std::vector<TestTensor> tensors;
  for (const std::string& name : names) tensors.push_back({name, DType::BF16, {2}, "abcd"});
  MemoryModel model;
  model.files["model.safetensors"] = model_file(tensors);
  model.files["config.json"] = config;
  model.files["preprocessor_config.json"] = "{}";
  model.files["tokenizer.json"] = "{}";
  options.push_back({"part", {"text"}});
  TransformRequest request{.command = "convert",
                           .operations = {{.id = "convert", .options = std::move(options)}}};
  request.folder = model.folder().files;
  return transform_in_memory(model, model.folder(), std::move(request));
}

std::vector<std::string> names_of(const TransformResult& result) {
  std::vector<std::string> names;
  for (const DeclaredTensor& tensor : result.tensors) names.push_back(tensor.name);
  return names;
}

const std::string kGemma = R"({
  "architectures": ["Gemma3ForConditionalGeneration"],
  "model_type": "gemma3",
  "image_token_index": 9,
  "text_config": {
    "hidden_size": 8,
    "intermediate_size": 16,
    "model_type": "gemma3_text",
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "rope_scaling": {
      "factor": 8.0
    }
  },
  "tie_word_embeddings": true,
  "torch_dtype": "bfloat16",
  "quantization_config": {"quant_method": "fp8", "ignore": ["vision_tower.a", "language_model.lm_head", "language_model.model.layers.0.x", "multi_modal_projector"]}
})";

}  // namespace

TEST_CASE("the text model has its names, its tensors and a configuration of its own") {
  const auto result = text_of({"language_model.model.norm.weight", "vision_tower.a.weight"}, kGemma);
  REQUIRE(result.ok());
  CHECK(names_of(*result) == std::vector<std::string>{"model.norm.weight"});
  REQUIRE(result->account.dropped.size() == 1);
  CHECK(result->account.dropped[0].reason == "not of the text model");
  CHECK(result->copied == std::vector<std::string>{"tokenizer.json"});
  CHECK(result->files.at("config.json") == R"({
  "architectures": [
    "Gemma3ForCausalLM"
  ],
  "hidden_size": 8,
  "intermediate_size": 16,
  "model_type": "gemma3_text",
  "num_attention_heads": 2,
  "num_hidden_layers": 1,
  "rope_scaling": {
    "factor": 8.0
  },
  "tie_word_embeddings": true,
  "torch_dtype": "bfloat16",
  "quantization_config": {"quant_method": "fp8", "ignore": ["lm_head", "model.layers.0.x"]}
}
)");
}

TEST_CASE("an old configuration without a member for text is cleared of the wrapper's own") {
  const auto result =
      text_of({"model.norm.weight", "visual.a.weight", "lm_head.weight"},
              R"({"model_type": "qwen2_vl", "hidden_size": 8, "vision_config": {}, "vision_start_token_id": 1,
  "rope_scaling": {"type": "mrope", "mrope_section": [1, 1]}, "torch_dtype": "bfloat16"})");
  REQUIRE(result.ok());
  CHECK(names_of(*result) == std::vector<std::string>{"lm_head.weight", "model.norm.weight"});
  const JsonDocument config = parse_json(result->files.at("config.json"), JsonDialect::kPython);
  REQUIRE_FALSE(config.error);
  CHECK(config.root.string("model_type") == "qwen2");
  CHECK(config.root.find("vision_config") == nullptr);
  CHECK(config.root.find("vision_start_token_id") == nullptr);
  CHECK(config.root.string("torch_dtype") == "bfloat16");
  const JsonValue* rope = config.root.find("rope_scaling");
  REQUIRE(rope != nullptr);
  CHECK(rope->string("type") == "default");
  CHECK(rope->find("mrope_section") == nullptr);
  // Sizes that are not told are warned of.
  CHECK(std::count_if(
            result->account.warnings.begin(), result->account.warnings.end(),
            [](const std::string& one) { return one.find("num_hidden_layers") != std::string::npos; }) == 1);
}

TEST_CASE("a text model that nothing runs alone, or that is not there, is refused") {
  const auto says = [](const Result<TransformResult>& result, const std::string& text) {
    return !result.ok() && result.error().message.find(text) != std::string::npos;
  };
  CHECK(says(text_of({"a"}, R"({"model_type": "mixtral"})"), "no wrapper"));
  CHECK(says(text_of({"language_model.model.a"}, R"({"model_type": "llava"})"), "text_config"));
  CHECK(says(text_of({"language_model.model.a"}, R"({"model_type": "llava", "text_config": {}})"),
             "model_type"));
  CHECK(says(text_of({"language_model.model.a"},
                     R"({"model_type": "llava", "text_config": {"model_type": "mixtral"}})"),
             "no class runs alone"));
  CHECK(
      says(text_of({"vision_tower.a"}, R"({"model_type": "llava", "text_config": {"model_type": "llama"}})"),
           "No tensor is below"));
}

TEST_CASE("a head that is not there and not tied is warned of") {
  const std::string config =
      R"({"model_type": "llava", "text_config": {"model_type": "llama", "hidden_size": 1, "intermediate_size": 1, "num_hidden_layers": 1, "num_attention_heads": 1}})";
  const auto without = text_of({"language_model.model.a"}, config);
  REQUIRE(without.ok());
  CHECK(without->account.warnings.size() == 1);
  const auto with = text_of({"language_model.model.a", "language_model.lm_head.weight"}, config);
  REQUIRE(with.ok());
  CHECK(with->account.warnings.empty());
}
