#include "tftf/adapter/peft_config.h"

#include <catch2/catch.hpp>

using namespace tftf;

namespace {

Result<PeftConfig> read_config(const std::string& text) {
  const JsonDocument document = parse_json(text, JsonDialect::kPython);
  REQUIRE_FALSE(document.error);
  return read_peft_config("adapter_config.json", document.root);
}

}  // namespace

TEST_CASE("a configuration as PEFT writes it") {
  auto config = read_config(
      R"({"peft_type":"LORA","r":4,"lora_alpha":16,"use_rslora":true,"target_modules":["q_proj","v_proj"],
    "rank_pattern":{"a":2,"b":3},"alpha_pattern":{},"exclude_modules":null,"layers_to_transform":3,"loftq_config":{},
    "qalora_group_size":16,"use_qalora":false,"init_lora_weights":"pissa_niter_4","trainable_token_indices":{"embed":[1,2]}})");
  REQUIRE(config.ok());
  CHECK(config->rank == 4);
  CHECK(config->alpha == 16);
  CHECK(config->use_rslora);
  CHECK(config->target_modules.list == std::vector<std::string>{"q_proj", "v_proj"});
  CHECK(config->rank_pattern[1].second == 3);
  CHECK(config->layers_to_transform == std::vector<int64_t>{3});
  CHECK(config->residual_init == "pissa_niter_4");
  CHECK(config->trainable_tokens[0].rows == std::vector<uint64_t>{1, 2});
}

TEST_CASE("what changes a merge is understood or refused") {
  for (const char* text : {R"({"peft_type":"LORA","r":0})",
                           R"({"r":true})",
                           R"({"r":"8"})",
                           R"({"r":1.5})",
                           R"({"lora_alpha":NaN})",
                           R"({"lora_alpha":"8"})",
                           R"({"peft_type":"PROMPT_TUNING"})",
                           R"({"peft_type":7})",
                           R"({"alora_invocation_tokens":[1]})",
                           R"({"use_qalora":true})",
                           R"({"layer_replication":[[0,4]]})",
                           R"({"kasa_config":{"beta":1}})",
                           R"({"target_modules":{"a":1}})",
                           R"({"target_modules":[1]})",
                           R"({"rank_pattern":{"a":0}})",
                           R"({"rank_pattern":[]})",
                           R"({"use_dora":1})",
                           R"({"trainable_token_indices":[-1]})",
                           R"({"layers_to_transform":"x"})",
                           R"([])"}) {
    INFO(text);
    CHECK_FALSE(read_config(text).ok());
  }
  for (const char* text :
       {R"({})", R"({"peft_type":"OFT","r":0,"oft_block_size":32})", R"({"peft_type":"lora","r":8})",
        R"({"alora_invocation_tokens":null,"kasa_config":{},"use_qalora":false})"}) {
    INFO(text);
    CHECK(read_config(text).ok());
  }
}
