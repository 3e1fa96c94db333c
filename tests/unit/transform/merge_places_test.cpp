// Where an adapter's tensors go: experts, heads that are tied, names of wrappers, several adapters; and what is refused.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <vector>

#include "adapter_host.h"
#include "data_file.h"
#include "tftf/simd/kernels.h"

using namespace tftf;
using namespace tftf::test;

namespace {

using Options = std::vector<Operation::Given>;

TestTensor f32(const std::string& name, Shape shape, const std::vector<float>& values) {
  return {name, DType::F32, std::move(shape), f32_bytes(values)};
}
TestTensor ones(const std::string& name, Shape shape) {
  const std::vector<float> values(static_cast<size_t>(*element_count(shape)), 1.0f);
  return f32(name, std::move(shape), values);
}

Result<TransformResult> merged(const std::vector<TestTensor>& base, const std::string& model_config,
                               const std::vector<TestTensor>& adapter, const std::string& config,
                               Options options = {}) {
  auto read = adapter_of(adapter, config);
  if (!read) return std::move(read).error();
  MemoryModel model;
  model.files["model.safetensors"] = model_file(base);
  if (!model_config.empty()) model.files["config.json"] = model_config;
  return transform_in_memory(model, {merge_operation(*read, std::move(options))});
}

std::map<std::string, std::string> bytes_of(const Result<TransformResult>& result) {
  INFO((result.ok() ? "" : result.error().message));
  REQUIRE(result.ok());
  std::map<std::string, std::string> bytes;
  for (const auto& [name, content] : result->files)
    if (name.size() > 12 && name.substr(name.size() - 12) == ".safetensors")
      for (const TestTensor& tensor : tensors_of(content)) bytes[tensor.name] = tensor.bytes;
  return bytes;
}

bool refuses(const Result<TransformResult>& result, const std::string& part) {
  if (result.ok()) return false;
  INFO(result.error().message);
  const bool says = result.error().message.find(part) != std::string::npos;
  CHECK(says);
  return says;
}

const std::string kExperts =
    R"({"peft_type":"LORA","r":1,"lora_alpha":1,"target_modules":["q"],"target_parameters":["experts.gate_up_proj","experts.down_proj"]})";

// Two experts of 2 x 3 and 3 x 2, fused in the adapter.
std::vector<TestTensor> fused_pairs() {
  return {f32("m.experts.base_layer.lora_A.weight", {2, 3}, {1, 2, 3, 4, 5, 6}),
          f32("m.experts.base_layer.lora_B.weight", {4, 2}, {1, 5, 2, 6, 3, 7, 4, 8}),
          f32("m.experts.lora_A.weight", {2, 2}, {1, 2, 3, 4}),
          f32("m.experts.lora_B.weight", {3, 2}, {1, 4, 2, 5, 3, 6})};
}

std::vector<TestTensor> single_experts() {
  std::vector<TestTensor> base;
  for (const char* e : {"0", "1"}) {
    for (const char* part : {"gate_proj", "up_proj"})
      base.push_back(ones("m.experts." + std::string(e) + "." + part + ".weight", {2, 3}));
    base.push_back(ones("m.experts." + std::string(e) + ".down_proj.weight", {3, 2}));
  }
  return base;
}

const std::string kTied = R"({"model_type":"qwen2","vocab_size":4,"tie_word_embeddings":true})";
const std::vector<TestTensor> kTiedBase = {ones("model.embed_tokens.weight", {4, 2}),
                                           ones("model.q.weight", {2, 2})};
const std::string kHeadConfig =
    R"({"peft_type":"LORA","r":1,"lora_alpha":1,"target_modules":["lm_head","q"]})";
const std::vector<TestTensor> kHeadPair = {f32("lm_head.lora_A.weight", {1, 2}, {1, 1}),
                                           f32("lm_head.lora_B.weight", {4, 1}, {1, 2, 3, 4})};

std::string member_of(const Result<TransformResult>& result, const std::string& pointer) {
  REQUIRE(result.ok());
  for (const ConfigChange& change : result->account.config)
    if (change.pointer == pointer) return change.after.dump();
  return "unchanged";
}

}  // namespace

TEST_CASE("pairs of fused experts are refused on single ones, and split over them on demand") {
  CHECK(refuses(merged(single_experts(), "", fused_pairs(), kExperts), "--fit"));
  const auto split = bytes_of(merged(single_experts(), "", fused_pairs(), kExperts, {{"fit", {}}}));
  CHECK(split.at("m.experts.0.gate_proj.weight") == f32_bytes({2, 3, 4, 3, 5, 7}));
  CHECK(split.at("m.experts.0.up_proj.weight") == f32_bytes({4, 7, 10, 5, 9, 13}));
  CHECK(split.at("m.experts.1.gate_proj.weight") == f32_bytes({21, 26, 31, 25, 31, 37}));
  CHECK(split.at("m.experts.0.down_proj.weight") == f32_bytes({2, 3, 3, 5, 4, 7}));
  CHECK(split.at("m.experts.1.down_proj.weight") == f32_bytes({13, 17, 16, 21, 19, 25}));
  // Gate and up in turns.
  const auto woven = bytes_of(
      merged(single_experts(), R"({"model_type":"gpt_oss"})", fused_pairs(), kExperts, {{"fit", {}}}));
  CHECK(woven.at("m.experts.0.gate_proj.weight") == f32_bytes({2, 3, 4, 4, 7, 10}));
  CHECK(woven.at("m.experts.0.up_proj.weight") == f32_bytes({3, 5, 7, 5, 9, 13}));
  // An expert is missing, so that the stack has one too many.
  auto hole = single_experts();
  hole.resize(3);
  CHECK_FALSE(merged(hole, "", fused_pairs(), kExperts, {{"fit", {}}}).ok());
}

TEST_CASE("what a target names is never left out") {
  const std::vector<TestTensor> base = {ones("q.weight", {2, 2})};
  auto adapter = fused_pairs();
  adapter.push_back(f32("q.lora_A.weight", {1, 2}, {1, 1}));
  adapter.push_back(f32("q.lora_B.weight", {2, 1}, {1, 1}));
  CHECK(refuses(merged(base, "", adapter, kExperts), "have no weight in the base"));
  const std::string other =
      R"({"peft_type":"LORA","r":1,"lora_alpha":1,"target_modules":["q"],"target_parameters":["other.w"]})";
  const auto left = merged(base, "", adapter, other);
  REQUIRE(left.ok());
  CHECK(left->account.merges[0].left_out == 2);
}

TEST_CASE("stacks whose shapes fit both ways, or both parameters, are refused, or read as an option says") {
  const std::string one = R"({"peft_type":"LORA","r":1,"lora_alpha":1,"target_parameters":["e.w"])";
  const std::vector<TestTensor> square = {ones("e.w", {2, 2, 2})};
  const std::vector<TestTensor> pair = {f32("e.lora_A.weight", {2, 2}, {1, 2, 3, 4}),
                                        f32("e.lora_B.weight", {2, 2}, {1, 5, 2, 6})};
  CHECK(refuses(merged(square, "", pair, one + "}"), "--expert-axes"));
  const std::string straight = f32_bytes({2, 3, 3, 5, 16, 21, 19, 25});
  const std::string turned = f32_bytes({2, 3, 3, 5, 16, 19, 21, 25});
  CHECK(bytes_of(merged(square, "", pair, one + "}", {{"expert-axes", {"out-in"}}})).at("e.w") == straight);
  CHECK(bytes_of(merged(square, R"({"model_type":"mixtral"})", pair, one + R"(,"peft_version":"0.19.1"})"))
            .at("e.w") == straight);
  CHECK_FALSE(merged(square, R"({"model_type":"gpt_oss"})", pair, one + R"(,"peft_version":"0.19.1"})").ok());
  CHECK_FALSE(merged(square, R"({"model_type":"mixtral"})", pair, one + R"(,"peft_version":"0.19.0"})").ok());
  CHECK(bytes_of(merged(square, "", pair, one + "}", {{"expert-axes", {"in-out"}}})).at("e.w") == turned);

  const std::string two = R"({"peft_type":"LORA","r":1,"lora_alpha":1,"target_parameters":["e.b","e.a"]})";
  const std::vector<TestTensor> alike = {ones("e.a", {1, 2, 3}), ones("e.b", {1, 2, 3})};
  const std::vector<TestTensor> nested = {f32("e.lora_A.weight", {1, 3}, {1, 1, 1}),
                                          f32("e.lora_B.weight", {2, 1}, {1, 1}),
                                          f32("e.base_layer.lora_A.weight", {1, 3}, {2, 2, 2}),
                                          f32("e.base_layer.lora_B.weight", {2, 1}, {1, 1})};
  CHECK(refuses(merged(alike, "", nested, two), "--parameters-in-order"));
  const auto ordered = bytes_of(merged(alike, "", nested, two, {{"parameters-in-order", {}}}));
  CHECK(ordered.at("e.b") == f32_bytes({3, 3, 3, 3, 3, 3}));  // the innermost is the first that is listed
  CHECK(ordered.at("e.a") == f32_bytes({2, 2, 2, 2, 2, 2}));
}

TEST_CASE("a head that is tied is written apart on demand, with what config.json says of it") {
  CHECK(refuses(merged(kTiedBase, kTied, kHeadPair, kHeadConfig), "--untie-head"));
  const auto apart = merged(kTiedBase, kTied, kHeadPair, kHeadConfig, {{"untie-head", {}}});
  const auto bytes = bytes_of(apart);
  CHECK(bytes.at("lm_head.weight") == f32_bytes({2, 2, 3, 3, 4, 4, 5, 5}));
  CHECK(bytes.at("model.embed_tokens.weight") == kTiedBase[0].bytes);
  CHECK(member_of(apart, "/tie_word_embeddings") == "false");
  CHECK(member_of(apart, "/vocab_size") == "unchanged");
  // A head that is stored although it is tied: a reader would not look at it.
  auto stored = kTiedBase;
  stored.push_back(ones("lm_head.weight", {4, 2}));
  CHECK(refuses(merged(stored, kTied, kHeadPair, kHeadConfig), "--untie-head"));
  CHECK(member_of(merged(stored, kTied, kHeadPair, kHeadConfig, {{"untie-head", {}}}),
                  "/tie_word_embeddings") == "false");
  // Not tied: nothing to say.
  CHECK(member_of(merged(stored, R"({"tie_word_embeddings":false})", kHeadPair, kHeadConfig),
                  "/tie_word_embeddings") == "unchanged");
}

TEST_CASE("embeddings and head that are both saved untie where they differ; vocab_size follows") {
  const std::string config =
      R"({"peft_type":"LORA","r":1,"lora_alpha":1,"target_modules":["q"],"modules_to_save":["embed_tokens","lm_head"]})";
  const auto saved = [](float head, uint64_t rows) {
    std::vector<float> table(static_cast<size_t>(2 * rows), 7), other(static_cast<size_t>(2 * rows), head);
    return std::vector<TestTensor>{
        f32("q.lora_A.weight", {1, 2}, {1, 1}), f32("q.lora_B.weight", {2, 1}, {1, 1}),
        f32("model.embed_tokens.weight", {rows, 2}, table), f32("lm_head.weight", {rows, 2}, other)};
  };
  auto base = kTiedBase;
  base[1].name = "q.weight";
  const auto differ = merged(base, kTied, saved(8, 5), config);
  CHECK(bytes_of(differ).count("lm_head.weight") == 1);
  CHECK(member_of(differ, "/tie_word_embeddings") == "false");
  CHECK(member_of(differ, "/vocab_size") == "5");
  const auto same = merged(base, kTied, saved(7, 4), config);
  CHECK(bytes_of(same).count("lm_head.weight") == 0);
  CHECK(member_of(same, "/tie_word_embeddings") == "unchanged");
  CHECK(member_of(same, "/vocab_size") == "unchanged");
  const std::string nested =
      R"({"model_type":"a","text_config":{"vocab_size":4,"tie_word_embeddings":true}})";
  CHECK(member_of(merged(base, nested, saved(8, 5), config), "/text_config/vocab_size") == "5");
  CHECK(member_of(merged(base, nested, saved(8, 5), config), "/text_config/tie_word_embeddings") == "false");
}

TEST_CASE("modules under another prefix are named, renamed for the adapter alone, or fitted") {
  const std::vector<TestTensor> base = {ones("model.language_model.q.weight", {2, 2}),
                                        ones("model.visual.p.weight", {2, 2})};
  const std::string config = R"({"peft_type":"LORA","r":1,"lora_alpha":1,"target_modules":["model.q"]})";
  const std::vector<TestTensor> pair = {f32("model.q.lora_A.weight", {1, 2}, {1, 1}),
                                        f32("model.q.lora_B.weight", {2, 1}, {1, 1})};
  CHECK(refuses(merged(base, "", pair, config), "--rename-adapter '^model\\.' 'model.language_model.'"));
  for (const Options& options :
       {Options{{"rename-adapter", {"^model\\.", "model.language_model."}}}, Options{{"fit", {}}}}) {
    const auto bytes = bytes_of(merged(base, "", pair, config, options));
    CHECK(bytes.at("model.language_model.q.weight") == f32_bytes({2, 2, 2, 2}));
    CHECK(bytes.at("model.visual.p.weight") == base[1].bytes);
  }
}

TEST_CASE("several adapters merge one after the other, each rounded") {
  const std::string config = R"({"peft_type":"LORA","r":1,"lora_alpha":1,"target_modules":["q"]})";
  const auto adapter = [&](float b) {
    return *adapter_of({f32("q.lora_A.weight", {1, 2}, {1, 1}), f32("q.lora_B.weight", {1, 1}, {b})}, config);
  };
  MemoryModel model;
  model.files["model.safetensors"] =
      model_file({{"q.weight", DType::BF16, {1, 2}, u16_bytes({0x3F80, 0x4000})}});
  const auto once = transform_in_memory(
      model, {merge_operation(adapter(0.00390625f)), merge_operation(adapter(0.00390625f))});
  REQUIRE(once.ok());
  CHECK(once->account.merges.size() == 2);
  const auto first = transform_in_memory(model, {merge_operation(adapter(0.00390625f))});
  REQUIRE(first.ok());
  MemoryModel between;
  for (const auto& [name, content] : first->files) between.files[name] = content;
  const auto second = transform_in_memory(between, {merge_operation(adapter(0.00390625f))});
  CHECK(bytes_of(once) == bytes_of(second));
}

TEST_CASE("a whole model is no adapter; layers that were saved twice alike are taken once") {
  CHECK_FALSE(adapter_of({ones("q.weight", {2, 2})}, "").ok());
  const auto refused = adapter_of({ones("q.weight", {2, 2})}, "");
  CHECK(refused.error().code == ErrorCode::kRefusedUnmatched);
  const std::string config =
      R"({"peft_type":"LORA","r":1,"lora_alpha":1,"target_modules":["q"],"modules_to_save":["score"],"bias":"all"})";
  std::vector<TestTensor> adapter = {f32("q.lora_A.weight", {1, 2}, {1, 1}),
                                     f32("q.lora_B.weight", {2, 1}, {1, 1}), f32("score.bias", {2}, {5, 6}),
                                     f32("score.modules_to_save.bias", {2}, {5, 6}),
                                     f32("score.original_module.bias", {2}, {1, 2})};
  const std::vector<TestTensor> base = {ones("q.weight", {2, 2}), ones("score.bias", {2})};
  CHECK(bytes_of(merged(base, "", adapter, config)).at("score.bias") == f32_bytes({5, 6}));
  adapter[3] = f32("score.modules_to_save.bias", {2}, {5, 7});
  CHECK_FALSE(merged(base, "", adapter, config).ok());
}

TEST_CASE("every NaN that a merge writes has the same bits, whatever the tiles and the instruction set") {
  const float infinite = std::numeric_limits<float>::infinity();
  for (const DType dtype : {DType::F32, DType::F16, DType::BF16, DType::F64}) {
    INFO(dtype_name(dtype));
    const uint64_t cols = 16;
    std::string payloads;  // NaN with payloads of both signs, and numbers
    for (uint64_t i = 0; i < cols; ++i) {
      const uint64_t bits = dtype == DType::F64    ? 0xFFF0000000000001 + i
                            : dtype == DType::F32  ? 0xFF800001 + i
                            : dtype == DType::BF16 ? 0xFF81 + i
                                                   : 0xFC01 + i;
      const uint64_t value = i % 3 == 0 ? bits : 0;
      for (uint32_t b = 0; b < dtype_bits(dtype) / 8; ++b)
        payloads += static_cast<char>(value >> (8 * b) & 0xFF);
    }
    std::vector<TestTensor> pair = {f32("q.lora_A.weight", {1, cols}, std::vector<float>(cols, infinite)),
                                    f32("q.lora_B.weight", {1, 1}, {1})};
    for (const bool dora : {false, true}) {
      if (dora) pair.push_back(f32("q.lora_magnitude_vector", {1}, {1}));
      const auto adapter =
          adapter_of(pair, R"({"peft_type":"LORA","r":1,"lora_alpha":1,"target_modules":["q"]})");
      REQUIRE(adapter.ok());
      MemoryModel model;
      model.files["model.safetensors"] = model_file({{"q.weight", dtype, {1, cols}, payloads}});
      std::map<std::string, std::string> whole;
      for (const KernelTable* kernels : available_kernels()) {
        for (const uint64_t tile : {uint64_t{16}, uint64_t{64}, kDefaultTileBytes}) {
          TransformRequest request{.command = "merge-lora",
                                   .operations = {merge_operation(*adapter, {{"allow-nonfinite", {}}})}};
          request.tile_bytes = tile;
          const auto bytes =
              bytes_of(transform_in_memory(model, model.folder(), std::move(request), {.kernels = kernels}));
          if (whole.empty()) whole = bytes;
          CHECK(bytes == whole);
        }
      }
      const std::string& q = whole.at("q.weight");
      const uint64_t size = dtype_bits(dtype) / 8;
      const std::string nan = dtype == DType::F64    ? std::string("\0\0\0\0\0\0\xF8\x7F", 8)
                              : dtype == DType::F32  ? std::string("\0\0\xC0\x7F", 4)
                              : dtype == DType::BF16 ? std::string("\xC0\x7F", 2)
                                                     : std::string("\0\x7E", 2);
      CHECK(q.substr(0, size) == nan);
      CHECK(q.substr(3 * size, size) == nan);
    }
  }
}
