// The rules of the data pass as functions of statistics.
#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

#include "lint_host.h"

using namespace tftf;
using namespace tftf::test;
using Lines = std::vector<std::string>;

namespace {

// A sound file of these tensors with statistics that raise nothing.
struct Case {
  Case(const Case&) = delete;
  explicit Case(const std::vector<LintTensor>& tensors)
      : result(run_lint({{"m.safetensors", weights(tensors)}})) {
    statistics.emplace_back();
    for (size_t i = 0; i < tensors.size(); ++i) {
      TensorStatistics& one = statistics[0].tensors.emplace_back();
      one.hash[0] = i;
      one.first = 1;
    }
  }
  TensorStatistics& at(size_t i) { return statistics[0].tensors[i]; }
  Lines lines() const { return finding_lines(check_data(result, statistics)); }

  LintResult result;
  std::vector<FileStatistics> statistics;
};

}  // namespace

TEST_CASE("ST080, ST081: NaN and infinities where the dtype has them") {
  for (const char* dtype : {"F16", "BF16", "F32", "F64", "F8_E4M3", "F8_E5M2", "F8_E8M0", "C64"}) {
    INFO(dtype);
    Case one({{"w", dtype, {4}}});
    CHECK(one.lines().empty());
    one.at(0).nan_count = 2;
    one.at(0).first_nan = 1;
    CHECK(one.lines() == Lines{"ST080 m.safetensors w"});
    one.at(0).infinity_count = 1;
    CHECK(one.lines() == Lines{"ST080 m.safetensors w", "ST081 m.safetensors w"});
  }
  Case integers({{"w", "I32", {4}}});
  integers.at(0).nan_count = integers.at(0).infinity_count = 1;
  CHECK(integers.lines().empty());
}

TEST_CASE("ST082: all zeros, where that is no usual start") {
  auto zero = [](LintTensor tensor) {
    Case one({std::move(tensor)});
    one.at(0).all_zero = one.at(0).constant = true;
    return one.lines();
  };
  CHECK(zero({"w", "F32", {2, 2}}) == Lines{"ST082 m.safetensors w"});
  CHECK(zero({"w", "I8", {1, 2}}) == Lines{"ST082 m.safetensors w"});
  CHECK(zero({"w", "F32", {4}}).empty());
  CHECK(zero({"w", "F32", {1, 1}}).empty());
  CHECK(zero({"w", "BOOL", {2, 2}}).empty());
  CHECK(zero({"w", "F32", {0, 2}}).empty());
  for (const char* name : {"x.bias", "m.lora_B.weight", "m.lora_up.weight", "m.lora_embedding_A",
                           "running_mean", "qzero_point", "qzeros", "offset"}) {
    INFO(name);
    CHECK(zero({name, "F32", {2, 2}}) ==
          (std::string(name).find("lora") == std::string::npos ? Lines{} : Lines{"LO014 m.safetensors -"}));
  }
}

TEST_CASE("ST083: a tenth of subnormals") {
  for (const char* dtype : {"F16", "BF16", "F32", "F64"}) {
    INFO(dtype);
    Case one({{"w", dtype, {31}}});
    one.at(0).subnormal_count = 3;
    CHECK(one.lines().empty());
    one.at(0).subnormal_count = 4;
    CHECK(one.lines() == Lines{"ST083 m.safetensors w"});
  }
  Case tenth({{"w", "F32", {30}}});
  tenth.at(0).subnormal_count = 3;
  CHECK(tenth.lines() == Lines{"ST083 m.safetensors w"});
  Case eight({{"w", "F8_E5M2", {4}}});
  eight.at(0).subnormal_count = 4;
  CHECK(eight.lines().empty());
}

TEST_CASE("ST084: one repeated value that is not zero") {
  auto constant = [](LintTensor tensor, bool zero = false) {
    Case one({std::move(tensor)});
    one.at(0).constant = true;
    one.at(0).all_zero = zero;
    return one.lines();
  };
  CHECK(constant({"w", "F32", {2, 2}}) == Lines{"ST084 m.safetensors w"});
  CHECK(constant({"w", "F32", {1, 3}}).empty());
  CHECK(constant({"w", "F32", {4}}).empty());
  CHECK(constant({"w.bias", "F32", {2, 2}}, true).empty());
}

TEST_CASE("ST085, ST087: BOOL bytes and extreme values") {
  Case boolean({{"w", "BOOL", {4}}});
  boolean.at(0).bool_count = 1;
  CHECK(boolean.lines() == Lines{"ST085 m.safetensors w"});
  for (const auto& [dtype, fires] : std::vector<std::pair<std::string, bool>>{
           {"BF16", true}, {"F32", true}, {"F64", true}, {"F16", false}, {"F8_E8M0", false}}) {
    INFO(dtype);
    Case extreme({{"w", dtype, {4}}});
    extreme.at(0).extreme_count = 1;
    extreme.at(0).largest = 1e30;
    CHECK(extreme.lines().empty() != fires);
  }
}

TEST_CASE("ST086: equal tensors, named by the later one") {
  Case same({{"z", "F32", {8, 8}}, {"b", "F32", {8, 8}}, {"a", "F32", {64}}, {"c", "F32", {8, 8}}});
  for (size_t i = 0; i < 4; ++i) same.at(i).hash[0] = same.at(i).hash[1] = 7;
  CHECK(same.lines() == Lines{"ST086 m.safetensors c", "ST086 m.safetensors z"});
  same.at(0).hash[1] = 8;
  CHECK(same.lines() == Lines{"ST086 m.safetensors c"});
  same.at(3).constant = true;
  CHECK(same.lines() == Lines{"ST084 m.safetensors c"});
  Case small(std::vector<LintTensor>{{"a", "F32", {63}}, {"b", "F32", {63}}});
  small.at(0).hash[0] = small.at(1).hash[0];
  CHECK(small.lines().empty());
  Case dtypes({{"a", "F32", {64}}, {"b", "I32", {64}}});
  dtypes.at(0).hash[0] = dtypes.at(1).hash[0];
  CHECK(dtypes.lines().empty());
}

TEST_CASE("ST088: a zero tail of two tensors and a quarter of the data") {
  auto tail = [](const std::vector<uint64_t>& sizes, size_t zeros) {
    std::vector<LintTensor> tensors;
    for (size_t i = 0; i < sizes.size(); ++i)
      tensors.push_back({std::string(1, static_cast<char>('z' - i)), "U8", {sizes[i]}});
    Case one(tensors);
    for (size_t i = sizes.size() - zeros; i < sizes.size(); ++i)
      one.at(i).zero_bytes = one.at(i).all_zero = true;
    return one.lines();
  };
  const Lines fires = {"ST088 m.safetensors -"};
  CHECK(tail({12, 2, 2}, 2) == fires);
  CHECK(tail({13, 2, 2}, 2).empty());
  CHECK(tail({12, 4}, 1).empty());
  CHECK(tail({12, 2, 0, 2}, 3) == fires);  // empty tensors are passed over
  CHECK(tail({4, 0, 4}, 2).empty());
  CHECK(tail({4, 4}, 2) == fires);
  Case front({{"a", "U8", {4}}, {"b", "U8", {4}}, {"c", "U8", {4}}});
  front.at(0).zero_bytes = front.at(1).zero_bytes = true;
  CHECK(front.lines().empty());
}

TEST_CASE("LO007, LO014: alphas and factors that start at zero") {
  const std::vector<LintTensor> kohya = {{"lora_x.alpha", "F32", {}},
                                         {"lora_x.lora_down.weight", "F32", {2, 4}},
                                         {"lora_x.lora_up.weight", "F32", {4, 2}}};
  for (double value :
       {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Case alpha(kohya);
    alpha.at(0).first = value;
    CHECK(alpha.lines() == Lines{"LO007 m.safetensors lora_x.alpha"});
  }
  Case fine(kohya);
  fine.at(0).first = 0.5;
  CHECK(fine.lines().empty());
  fine.at(2).all_zero = true;
  CHECK(fine.lines() == Lines{"LO014 m.safetensors -"});

  Case mixed({{"a.lora_B.weight", "F32", {4, 2}},
              {"b.lora_B.weight", "F32", {4, 2}},
              {"c.lora_embedding_A", "F32", {2, 4}},
              {"a.lora_A.weight", "F32", {2, 4}},
              {"a.lora_B.bias", "F32", {4}}});
  mixed.at(0).all_zero = mixed.at(1).all_zero = true;
  CHECK(mixed.lines() == Lines{"LO033 m.safetensors a"});
  mixed.at(2).all_zero = true;
  CHECK(mixed.lines() == Lines{"LO014 m.safetensors -"});
  // Other families name the same factor otherwise.
  for (const auto& [down, up] :
       {std::pair("q.lora_a", "q.lora_b"), std::pair("double_blocks.0.processor.qkv_lora1.down.weight",
                                                     "double_blocks.0.processor.qkv_lora1.up.weight")}) {
    INFO(up);
    Case other({{down, "F32", {2, 4}}, {up, "F32", {4, 2}}});
    CHECK(other.lines().empty());
    other.at(1).all_zero = true;
    const Lines lines = other.lines();
    CHECK(std::find(lines.begin(), lines.end(), "LO014 m.safetensors -") != lines.end());
  }
  // An alpha of something else, in a file without LoRA factors.
  Case snake(std::vector<LintTensor>{{"snake.alpha"}});
  snake.at(0).first = -1;
  CHECK(snake.lines().empty());
}

TEST_CASE("CF031: a tied head that differs") {
  const std::string config =
      R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":4,"vocab_size":8,"num_hidden_layers":1,)"
      R"("num_attention_heads":2,"intermediate_size":8,"tie_word_embeddings":true})";
  auto differs = [&](const std::string& head) {
    const MemoryFiles files = {
        {"sub/config.json", config},
        {"sub/model.safetensors", weights({{"lm_head.weight", "U8", {8, 4}, head},
                                           {"model.embed_tokens.weight", "U8", {8, 4}, std::string(32, 'e')},
                                           {"model.norm.weight", "F32", {4}}})}};
    const LintResult result = run_lint(files);
    return finding_lines(check_data(result, data_statistics(result, files)), {"CF"});
  };
  CHECK(differs(std::string(32, 'e')).empty());
  CHECK(differs(std::string(31, 'e') + "f") == Lines{"CF031 sub/config.json lm_head.weight"});
}

TEST_CASE("the data pass says what it could not read, and skips what is not sound") {
  Case one({{"w", "F32", {4}}});
  one.at(0).nan_count = 1;
  one.statistics[0].unreadable = "input/output error";
  CHECK(one.lines() == Lines{"ST009 m.safetensors -"});
  Case broken({{"w", "F32", {4}}});
  broken.at(0).nan_count = 1;
  broken.result.files[0].scan.sound = false;
  CHECK(broken.lines().empty());
}

TEST_CASE("LO033: some of the factors that start at zero are still zero") {
  Case one({{"base_model.model.a.lora_B.weight", "F32", {4, 2}},
            {"base_model.model.a.lora_A.weight", "F32", {2, 4}},
            {"base_model.model.b.lora_B.weight", "F32", {4, 2}},
            {"base_model.model.b.lora_A.weight", "F32", {2, 4}}});
  CHECK(one.lines().empty());
  one.at(2).all_zero = true;
  CHECK(one.lines() == Lines{"LO033 m.safetensors base_model.model.b"});
  one.at(0).all_zero = true;
  CHECK(one.lines() == Lines{"LO014 m.safetensors -"});
}
