// LO001 to LO020: for each an adapter where it is reported and one where it is not.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "lint/adapter/lora_names.h"
#include "lint/adapter/module_pattern.h"
#include "lint_host.h"

using namespace tftf;
using namespace tftf::test;
using Lines = std::vector<std::string>;
using nlohmann::json;

namespace {

const std::string kConfig = "adapter_config.json";
const std::string kWeights = "adapter_model.safetensors";
const std::string kPrefix = "base_model.model.";

json sound_config() {
  return {{"peft_type", "LORA"},
          {"r", 2},
          {"lora_alpha", 4},
          {"base_model_name_or_path", "x/y"},
          {"target_modules", {"q", "v"}},
          {"modules_to_save", nullptr},
          {"rank_pattern", json::object()},
          {"alpha_pattern", json::object()}};
}

// A and B of one module of a linear layer.
std::vector<LintTensor> pair(const std::string& module, uint64_t rank = 2, uint64_t in = 4,
                             uint64_t out = 6) {
  return {{module + ".lora_A.weight", "F32", {rank, in}}, {module + ".lora_B.weight", "F32", {out, rank}}};
}

std::vector<LintTensor> join(std::initializer_list<std::vector<LintTensor>> lists) {
  std::vector<LintTensor> out;
  for (const auto& list : lists) out.insert(out.end(), list.begin(), list.end());
  return out;
}

const std::vector<LintTensor> kTwo = join({pair(kPrefix + "h.0.q"), pair(kPrefix + "h.0.v")});

Lines lo(const json& config, const std::vector<LintTensor>& tensors, const MemoryFiles* base = nullptr) {
  const MemoryFiles files = {{kConfig, config.dump()}, {kWeights, weights(tensors)}};
  return finding_lines(run_lint(files, {}, base).findings, {"LO"});
}

Lines with(const std::string& key, const json& value, const std::vector<LintTensor>& tensors = kTwo) {
  json config = sound_config();
  config[key] = value;
  return lo(config, tensors);
}

std::string weight_line(const std::string& rule, const std::string& module) {
  return rule + " " + kWeights + " " + kPrefix + module;
}
std::string config_line(const std::string& rule, const std::string& subject) {
  return rule + " " + kConfig + " " + subject;
}

}  // namespace

TEST_CASE("a sound adapter gives no finding") { CHECK(lo(sound_config(), kTwo).empty()); }

TEST_CASE("names of LoRA factors") {
  struct Row {
    const char* tensor;
    const char* module;
    LoraPart part;
    const char* adapter;
  };
  for (const Row& row :
       {Row{"a.b.lora_A.weight", "a.b", LoraPart::kA, ""}, Row{"a.lora_B", "a", LoraPart::kB, ""},
        Row{"a.lora_A.default.weight", "a", LoraPart::kA, "default"},
        Row{"a.lora_embedding_A", "a", LoraPart::kEmbeddingA, ""},
        Row{"a.lora_embedding_B.x", "a", LoraPart::kEmbeddingB, "x"},
        Row{"lora_te_a.lora_down.weight", "lora_te_a", LoraPart::kDown, ""},
        Row{"lora_te_a.lora_up.weight", "lora_te_a", LoraPart::kUp, ""},
        Row{"a.lora_magnitude_vector", "a", LoraPart::kMagnitude, ""},
        Row{"a.lora_magnitude_vector.weight", "a", LoraPart::kMagnitude, ""},
        Row{"a.lora_A.b.lora_B.weight", "a.lora_A.b", LoraPart::kB, ""}}) {
    INFO(row.tensor);
    const auto name = parse_lora_name(row.tensor);
    REQUIRE(name);
    CHECK(name->module == row.module);
    CHECK(name->part == row.part);
    CHECK(name->adapter == row.adapter);
    CHECK_FALSE(name->bias);
  }
  CHECK(parse_lora_name("a.lora_B.bias")->bias);
  CHECK(parse_lora_name("a.lora_B.default.bias")->bias);
  for (const char* other : {"lora_A.weight", ".lora_A.weight", "a.lora_AB.weight", "a.lora_mid.weight",
                            "a.lora_A.x.y.weight", "a.lora_a", "a.lora_proj.weight", "a.lora_A..weight"}) {
    INFO(other);
    CHECK_FALSE(parse_lora_name(other));
  }
}

TEST_CASE("LO001, LO003: both halves of an adapter") {
  auto files = [](const MemoryFiles& all) { return finding_lines(run_lint(all).findings, {"LO"}); };
  CHECK(files({{kWeights, weights(kTwo)}}) == Lines{"LO001 . -"});
  CHECK(files({{"x/" + kWeights, "junk"}}) == Lines{"LO001 x/ -"});
  const std::string config = sound_config().dump();
  CHECK(files({{kConfig, config}}) == Lines{"LO003 . -"});
  CHECK(files({{kConfig, config}, {"adapter_model.bin", "x"}}).empty());
  CHECK(files({{kConfig, config}, {kWeights, "version https://git-lfs.github.com/spec/v1\n"}}).empty());
  // MLX's own kind: no rule but LO003.
  for (const char* mlx : {R"({"fine_tune_type":"lora","lora_parameters":{"rank":8}})",
                          R"({"lora_parameters":{}})", R"({"fine_tune_type":"dora","peft_type":null})"}) {
    INFO(mlx);
    CHECK(files({{kConfig, mlx}, {"adapters.safetensors", weights({{"a.lora_A.weight", "F32", {1, 1}}}, "")}})
              .empty());
    CHECK(files({{kConfig, mlx}, {"adapters.npz", "x"}}).empty());
    CHECK(files({{kConfig, mlx}, {kWeights, weights(kTwo)}}) == Lines{"LO003 . -"});
  }
}

TEST_CASE("LO002: a configuration that peft can use") {
  const Lines bad = {config_line("LO002", "-")};
  auto text = [](const std::string& config) {
    return finding_lines(run_lint({{kConfig, config}, {kWeights, weights(kTwo)}}).findings, {"LO"});
  };
  for (const char* config :
       {"", "[]", "{", "<html>", "{}", R"({"peft_type":null})", R"({"peft_type":3,"r":2})"}) {
    INFO(config);
    CHECK(text(config) == bad);
  }
  for (const json& r : {json(0), json(-1), json(2.0), json("2"), json(true), json(nullptr), json::array()}) {
    INFO(r.dump());
    CHECK(with("r", r) == bad);
  }
  // Other kinds have no r, and no further rule.
  CHECK(text(R"({"peft_type":"IA3"})").empty());
  CHECK(text(R"({"peft_type":"lora"})").empty());
}

TEST_CASE("LO004: the rank of a pair, rank_pattern applied") {
  CHECK(with("r", 4) == Lines{weight_line("LO004", "h.0.q"), weight_line("LO004", "h.0.v")});
  const auto tensors = join({pair(kPrefix + "h.0.q", 3), pair(kPrefix + "h.0.v")});
  CHECK(lo(sound_config(), tensors) == Lines{weight_line("LO004", "h.0.q")});
  for (const char* key :
       {"q", "0.q", "h.0.q", "h.0.q$", "h\\.0\\.q", ".*q", "[q]", "^h.0.q", "h.\\d+.(q|k)"}) {
    INFO(key);
    CHECK(with("rank_pattern", {{key, 3}}, tensors).empty());
  }
  // Matched from a dot on, and to the end.
  for (const char* key : {".q", "h.0", "0.q.", "^0.q"}) {
    INFO(key);
    CHECK(with("rank_pattern", {{key, 3}}, tensors) ==
          Lines{config_line("LO019", key), weight_line("LO004", "h.0.q")});
  }
  // The first key that matches counts, in the file's order.
  auto in_order = [&](const std::string& patterns) {
    std::string text = sound_config().dump();
    const std::string key = "\"rank_pattern\":{}";
    text.replace(text.find(key), key.size(), "\"rank_pattern\":" + patterns);
    return finding_lines(run_lint({{kConfig, text}, {kWeights, weights(tensors)}}).findings, {"LO"});
  };
  CHECK(in_order(R"({"q":3,"h.0.q":5})").empty());
  CHECK(in_order(R"({"h.0.q":5,"q":3})") == Lines{weight_line("LO004", "h.0.q")});
  CHECK(in_order(R"({"q":5,"q":3})").empty());
  CHECK(with("rank_pattern", {{"q", "3"}}, tensors) == Lines{weight_line("LO004", "h.0.q")});
  // A key that cannot be understood decides nothing.
  CHECK(with("rank_pattern", {{"(", 3}}, tensors).empty());
  // Stacked experts hold all their ranks in one tensor.
  json config = sound_config();
  config["target_modules"] = json::array();
  config["target_parameters"] = {"experts.gate_up_proj", "experts.down_proj"};
  const auto experts =
      join({pair(kPrefix + "h.0.experts", 8, 3, 4), pair(kPrefix + "h.0.experts.base_layer", 8)});
  CHECK(lo(config, experts) == Lines{config_line("LO034", "-")});
  config["r"] = 3;
  CHECK(lo(config, experts).size() == 3);
}

TEST_CASE("LO005, LO006: both factors, of one rank") {
  std::vector<LintTensor> tensors = kTwo;
  tensors[0].shape = {3, 4};
  // LO005 replaces LO004.
  CHECK(lo(sound_config(), tensors) == Lines{weight_line("LO005", "h.0.q")});
  tensors[0].shape = {2, 4};
  tensors[1].shape = {12};  // flattened
  CHECK(lo(sound_config(), tensors) == Lines{weight_line("LO005", "h.0.q")});
  tensors.erase(tensors.begin() + 1);
  CHECK(lo(sound_config(), tensors) == Lines{weight_line("LO006", "h.0.q")});
  const LintResult result = run_lint({{kConfig, sound_config().dump()}, {kWeights, weights(tensors)}});
  for (const Diagnostic& finding : result.findings)
    if (finding.rule == Rule::LO006)
      CHECK(message(finding) == kWeights + ": \"h.0.q\" has lora_A but no lora_B.");
  // Each kind of factor for itself.
  CHECK(
      with("target_modules", {"e"},
           {{kPrefix + "e.lora_embedding_A", "F32", {2, 9}}, {kPrefix + "e.lora_embedding_B", "F32", {4, 2}}})
          .empty());
  CHECK(
      with("target_modules", {"e"},
           {{kPrefix + "e.lora_embedding_A", "F32", {2, 9}}, {kPrefix + "e.lora_B.weight", "F32", {4, 2}}}) ==
      Lines{weight_line("LO006", "e"), weight_line("LO006", "e")});
  // A bias is no factor.
  CHECK(lo(sound_config(), join({kTwo, {{kPrefix + "h.0.q.lora_B.bias", "F32", {6}}}})).empty());
}

TEST_CASE("LO007: alpha") {
  const Lines bad = {config_line("LO007", "lora_alpha")};
  for (const json& alpha : {json(0), json(-2), json("4"), json(nullptr), json(true), json(-0.5)}) {
    INFO(alpha.dump());
    CHECK(with("lora_alpha", alpha) == bad);
  }
  CHECK(with("lora_alpha", 0.25).empty());
  auto raw = [](const std::string& literal) {
    std::string text = sound_config().dump();
    text.replace(text.find("\"lora_alpha\":4"), 14, "\"lora_alpha\":" + literal);
    return finding_lines(run_lint({{kConfig, text}, {kWeights, weights(kTwo)}}).findings, {"LO"});
  };
  CHECK(raw("NaN") == bad);
  CHECK(raw("Infinity") == bad);
  CHECK(raw("1e2").empty());
  // Tensors: one element each.
  auto flat = [](const std::vector<uint64_t>& shape) {
    const MemoryFiles files = {{"x.safetensors", weights({{"lora_a.alpha", "F32", shape},
                                                          {"lora_a.lora_down.weight", "F32", {2, 4}},
                                                          {"lora_a.lora_up.weight", "F32", {4, 2}}})}};
    return finding_lines(run_lint(files).findings, {"LO"});
  };
  CHECK(flat({}).empty());
  CHECK(flat({1}).empty());
  CHECK(flat({1, 1}).empty());
  CHECK(flat({2}) == Lines{"LO007 x.safetensors lora_a.alpha"});
  CHECK(flat({0}) == Lines{"LO007 x.safetensors lora_a.alpha"});
}

TEST_CASE("LO008, LO009: target_modules and the modules that are there") {
  CHECK(with("target_modules", {"q", "v", "k"}) == Lines{config_line("LO008", "k")});
  CHECK(with("target_modules", {"q"}) == Lines{weight_line("LO009", "h.0.v")});
  CHECK(with("target_modules", {"h.0.q", "0.v"}).empty());
  CHECK(with("target_modules", {"uq", ".q", "base_model.model.h.0.q", "v"}) ==
        Lines{config_line("LO008", "uq"), config_line("LO008", ".q"),
              config_line("LO008", "base_model.model.h.0.q"), weight_line("LO009", "h.0.q")});
  CHECK(with("target_modules", "all-linear").empty());
  CHECK(with("target_modules", nullptr).empty());
  // A string is one regular expression for the whole path.
  CHECK(with("target_modules", "h\\.0\\.(q|v)").empty());
  CHECK(with("target_modules", ".*\\.q") == Lines{weight_line("LO009", "h.0.v")});
  CHECK(with("target_modules", "q|v") ==
        Lines{config_line("LO008", "q|v"), weight_line("LO009", "h.0.q"), weight_line("LO009", "h.0.v")});
  CHECK(with("target_modules", "(").empty());
}

TEST_CASE("an expression without end decides nothing, and soon") {
  std::string path = kPrefix;
  for (int i = 0; i < 40; ++i) path += "a";
  std::vector<LintTensor> tensors;
  for (int i = 0; i < 200; ++i)
    for (const LintTensor& tensor : pair(path + std::to_string(i) + "!")) tensors.push_back(tensor);
  CHECK(with("target_modules", "(a|a)*\\d\\d", tensors).empty());
  // Only that no entry of target_modules, q and v, is there.
  CHECK(with("rank_pattern", {{"(a|a)*\\d\\d", 9}}, tensors).size() == 202);
}

TEST_CASE("LO010, LO011: against the base") {
  const MemoryFiles base = {{"model.safetensors", weights({{"h.0.q.weight", "F32", {6, 4}},
                                                           {"h.0.v.weight", "F32", {6, 4}},
                                                           {"h.0.v.bias", "F32", {6}},
                                                           {"h.0.gone", "F32", {6}},
                                                           {"wte.weight", "BF16", {9, 4}},
                                                           {"conv.weight", "F32", {6, 4, 3, 3}},
                                                           {"packed.weight", "I32", {6, 1}},
                                                           {"gptq.qweight", "I32", {6, 1}}})}};
  CHECK(lo(sound_config(), kTwo, &base).empty());
  auto target = [&](const std::string& module, const std::vector<LintTensor>& tensors,
                    json more = json::object()) {
    json config = sound_config();
    config["target_modules"] = {module};
    config.update(more);
    return lo(config, tensors, &base);
  };
  CHECK(target("k", pair(kPrefix + "h.0.k")) == Lines{weight_line("LO010", "h.0.k")});
  // A path that begins a name is a module, a leaf is none.
  CHECK(target("0", pair(kPrefix + "h.0")).empty());
  CHECK(target("gone", pair(kPrefix + "h.0.gone")) == Lines{weight_line("LO010", "h.0.gone")});
  // The first component may be missing in the base.
  CHECK(target("q", pair(kPrefix + "transformer.h.0.q")).empty());
  CHECK(target("q", pair(kPrefix + "transformer.h.0.q", 2, 5)) ==
        Lines{weight_line("LO011", "transformer.h.0.q")});
  CHECK(target("q", pair(kPrefix + "a.b.h.0.q")) == Lines{weight_line("LO010", "a.b.h.0.q")});

  CHECK(target("q", pair(kPrefix + "h.0.q", 2, 6, 4)) == Lines{weight_line("LO011", "h.0.q")});
  CHECK(target("q", pair(kPrefix + "h.0.q", 2, 6, 4), {{"fan_in_fan_out", true}}).empty());
  CHECK(target("q", pair(kPrefix + "h.0.q"), {{"fan_in_fan_out", true}}) ==
        Lines{weight_line("LO011", "h.0.q")});
  const std::vector<LintTensor> embedding = {{kPrefix + "wte.lora_embedding_A", "F32", {2, 9}},
                                             {kPrefix + "wte.lora_embedding_B", "F32", {4, 2}}};
  CHECK(target("wte", embedding).empty());
  std::vector<LintTensor> wrong = embedding;
  wrong[0].shape = {2, 4};
  CHECK(target("wte", wrong) == Lines{weight_line("LO011", "wte")});
  const std::vector<LintTensor> conv = {{kPrefix + "conv.lora_A.weight", "F32", {2, 4, 3, 3}},
                                        {kPrefix + "conv.lora_B.weight", "F32", {6, 2, 1, 1}}};
  CHECK(target("conv", conv).empty());
  CHECK(target("packed", pair(kPrefix + "packed")).empty());
  CHECK(target("gptq", pair(kPrefix + "gptq")).empty());
}

TEST_CASE("a base that is incomplete, sharded, or none at all") {
  const MemoryFiles files = {{kConfig, sound_config().dump()}, {kWeights, weights(kTwo)}};
  const std::string q = weights({{"h.0.q.weight", "F32", {6, 4}}});
  auto against = [&](const MemoryFiles& base) {
    return finding_lines(run_lint(files, {}, &base).findings, {"LO"});
  };
  const Lines missing = {weight_line("LO010", "h.0.v")};
  CHECK(against({{"model.safetensors", q}}) == missing);
  // A file that cannot be read may hold it.
  CHECK(against({{"model-1.safetensors", q}, {"model-2.safetensors", "junk"}}).empty());
  // The index knows the names, even of shards that are not there.
  const std::string index =
      R"({"metadata":{},"weight_map":{"h.0.q.weight":"a.safetensors","h.0.v.weight":"b.safetensors"}})";
  CHECK(against({{"model.safetensors.index.json", index}, {"a.safetensors", q}}).empty());
  CHECK(against({{"model.safetensors.index.json", R"({"weight_map":{"h.0.q.weight":"sub/a.safetensors"}})"},
                 {"sub/a.safetensors", q}}) == missing);
  // consolidated* and subfolders are other things.
  CHECK(against({{"model.safetensors", q},
                 {"consolidated.safetensors", weights({{"h.0.v.weight", "F32", {6, 4}}})},
                 {"sub/model.safetensors", weights({{"h.0.v.weight", "F32", {6, 4}}})}}) == missing);
  const MemoryFiles nothing = {{"readme.md", "x"}};
  const LintResult result = run_lint(files, {}, &nothing);
  CHECK(result.base_problem);
  CHECK(finding_lines(result.findings, {"LO"}).empty());
}

TEST_CASE("LO012: an adapter without data, and nothing after it") {
  json config = sound_config();
  config["modules_to_save"] = {"x"};
  config["rank_pattern"] = {{"x", 2}};
  const Lines empty = {weight_line("LO012", "").substr(0, 6 + kWeights.size()) + " -"};
  CHECK(lo(config, {}) == empty);
  CHECK(lo(config, {{kPrefix + "h.0.q.lora_A.weight", "F32", {0}}}) == empty);
  CHECK(lo(config, {{"other.weight", "F32", {4}}}) == empty);
  // What only the configuration says is said all the same.
  config["base_model_name_or_path"] = "";
  CHECK(lo(config, {}) == Lines{config_line("LO017", "-"), empty[0]});
}

TEST_CASE("LO013: names as peft stores them, once per file") {
  const auto bare = join({pair("h.0.q"), pair(kPrefix + "h.0.v")});
  CHECK(lo(sound_config(), bare) == Lines{"LO013 " + kWeights + " h.0.q.lora_A.weight"});
  for (const char* name : {"h.0.q.lora_A.default.weight", "h.0.q.lora_B.default.weight"}) {
    std::vector<LintTensor> tensors = {{kPrefix + "h.0.q.lora_A.default.weight", "F32", {2, 4}},
                                       {kPrefix + "h.0.q.lora_B.default.weight", "F32", {6, 2}}};
    INFO(name);
    CHECK(with("target_modules", {"q"}, tensors) ==
          Lines{"LO013 " + kWeights + " " + kPrefix + "h.0.q.lora_A.default.weight"});
  }
  json config = sound_config();
  config["use_dora"] = true;
  config["target_modules"] = {"q"};
  CHECK(lo(config, join({pair(kPrefix + "h.0.q"), {{"h.0.q.lora_magnitude_vector", "F32", {6}}}})) ==
        Lines{"LO013 " + kWeights + " h.0.q.lora_magnitude_vector", weight_line("LO018", "h.0.q")});
}

TEST_CASE("LO015: modules_to_save have tensors") {
  auto saved = [](const json& entries, const std::string& tensor) {
    return with("modules_to_save", entries, join({kTwo, {{tensor, "F32", {3}}}}));
  };
  CHECK(saved({"score"}, kPrefix + "score.weight").empty());
  CHECK(saved({"score"}, kPrefix + "score.modules_to_save.default.weight").empty());
  CHECK(saved({"a.score"}, kPrefix + "a.score.weight").empty());
  for (const char* tensor : {"other.weight", "a.score", "xscore.weight", "score_x.weight", "a.b.score"}) {
    INFO(tensor);
    CHECK(saved({"score"}, kPrefix + tensor) == Lines{config_line("LO015", "score")});
  }
  CHECK(saved({"b.score"}, kPrefix + "ab.score.weight") == Lines{config_line("LO015", "b.score")});
  CHECK(saved({"score", "score"}, kPrefix + "x.weight") == Lines{config_line("LO015", "score")});
  // LoRA parts of that module do not count.
  CHECK(with("modules_to_save", {"q"}) == Lines{config_line("LO015", "q")});
}

TEST_CASE("LO016: PEFT's and flat names in one file, in any place") {
  const std::vector<LintTensor> flat = {{"lora_u.lora_down.weight", "F32", {2, 4}},
                                        {"lora_u.lora_up.weight", "F32", {4, 2}}};
  auto file = [](const std::vector<LintTensor>& tensors) {
    return finding_lines(run_lint({{"x.safetensors", weights(tensors)}}).findings, {"LO"});
  };
  CHECK(file(flat).empty());
  CHECK(file(pair("unet.a")).empty());
  CHECK(file(join({flat, pair("unet.a")})) == Lines{"LO016 x.safetensors -"});
  // In an adapter folder, other files are not looked at.
  const MemoryFiles folder = {{kConfig, sound_config().dump()},
                              {kWeights, weights(kTwo)},
                              {"x.safetensors", weights(join({flat, pair("unet.a")}))}};
  CHECK(finding_lines(run_lint(folder).findings, {"LO"}).empty());
  CHECK(finding_lines(run_lint(folder, "x.safetensors").findings, {"LO"}) == Lines{"LO016 x.safetensors -"});
  // Not when the file is not sound.
  MemoryFiles broken = {{"x.safetensors", weights(join({flat, pair("unet.a")})) + "x"}};
  CHECK(finding_lines(run_lint(broken).findings, {"LO"}).empty());
}

TEST_CASE("LO017: the base is named") {
  for (const json& name : {json(nullptr), json(""), json(3)})
    CHECK(with("base_model_name_or_path", name) == Lines{config_line("LO017", "-")});
  json config = sound_config();
  config.erase("base_model_name_or_path");
  CHECK(lo(config, kTwo) == Lines{config_line("LO017", "-")});
}

TEST_CASE("LO018, LO020: DoRA's magnitudes") {
  const std::vector<LintTensor> both =
      join({kTwo,
            {{kPrefix + "h.0.q.lora_magnitude_vector", "F32", {6}},
             {kPrefix + "h.0.v.lora_magnitude_vector.weight", "F32", {1, 6, 1, 1}}}});
  CHECK(with("use_dora", true, both).empty());
  CHECK(with("use_dora", true) == Lines{weight_line("LO018", "h.0.q"), weight_line("LO018", "h.0.v")});
  std::vector<LintTensor> wrong = both;
  wrong[4].shape = {4};
  CHECK(with("use_dora", true, wrong) == Lines{weight_line("LO018", "h.0.q")});
  CHECK(with("use_dora", false, both) == Lines{"LO020 " + kWeights + " -"});
  CHECK(lo(sound_config(), both) == Lines{"LO020 " + kWeights + " -"});
}

TEST_CASE("LO019: pattern keys match a module") {
  CHECK(with("alpha_pattern", {{"q", 1}, {"k", 1}, {"h.1.q", 1}, {"h.0.[qv]", 1}}) ==
        Lines{config_line("LO019", "h.1.q"), config_line("LO019", "k")});
  CHECK(with("rank_pattern", {{"x", 2}}) == Lines{config_line("LO019", "x")});
  const LintResult result =
      run_lint({{kConfig, R"({"peft_type":"LORA","r":2,"lora_alpha":1,"base_model_name_or_path":"x",)"
                          R"("rank_pattern":{"a/b~c":2}})"},
                {kWeights, weights(kTwo)}});
  REQUIRE(result.findings.size() == 1);
  CHECK(result.findings[0].pointer == "/rank_pattern/a~1b~0c");
  CHECK(result.findings[0].line == 1);
}

TEST_CASE("LO010, LO030: where else the base holds the modules") {
  const auto said = [](const std::vector<LintTensor>& tensors, const std::vector<LintTensor>& stored) {
    const MemoryFiles base = {{"model.safetensors", weights(stored)}};
    Lines out;
    const MemoryFiles files = {{kConfig, sound_config().dump()}, {kWeights, weights(tensors)}};
    for (const Diagnostic& finding : run_lint(files, {}, &base).findings)
      if (finding.rule == Rule::LO010 || finding.rule == Rule::LO030) out.push_back(message(finding));
    return out;
  };
  const std::string wrapped = "model.language_model.layers.0.";
  const std::vector<LintTensor> adapter =
      join({pair(kPrefix + "model.layers.0.q"), pair(kPrefix + "model.layers.0.v")});
  const std::vector<LintTensor> base = {{wrapped + "q.weight", "F32", {6, 4}},
                                        {wrapped + "v.weight", "F32", {6, 4}}};
  const Lines both = said(adapter, base);
  REQUIRE(both.size() == 3);
  CHECK(both[2] == kWeights + ": none of the 2 modules is in the base under its stored name; \"" + wrapped +
                       "q\" would be. Loaders skip unmatched modules without a word.");
  CHECK(both[0] == kWeights + ": base model has no \"model.layers.0.q.weight\". It has \"" + wrapped +
                       "q\"; the adapter was made for another wrapping of this model. `tftf adapter convert "
                       "--to peft --base BASE` moves it.");
  // The only path that ends in the same layer.
  const Lines tail = said(adapter, {{"thinker.x.layers.0.q.weight", "F32", {6, 4}},
                                    {"a.layers.0.v.weight", "F32", {6, 4}},
                                    {"b.layers.0.v.weight", "F32", {6, 4}}});
  REQUIRE(tail.size() == 2);
  CHECK(tail[0].find("It has \"thinker.x.layers.0.q\"") != std::string::npos);
  CHECK(tail[1] == kWeights + ": base model has no \"model.layers.0.v.weight\".");
}

TEST_CASE("LO031: a checkpoint under an adapter's name") {
  const std::vector<LintTensor> model = {{"model.layers.0.q.weight", "F32", {6, 4}},
                                         {"model.norm.weight", "F32", {4}}};
  CHECK(lo(sound_config(), model) == Lines{"LO031 " + kWeights + " model.layers.0.q.weight"});
  json other = sound_config();
  other["peft_type"] = "LN_TUNING";
  CHECK(lo(other, model).empty());
  CHECK(lo(sound_config(), {{"model.embed.weight", "F32", {6, 4}}}) == Lines{"LO012 " + kWeights + " -"});
}

TEST_CASE("LO034: parameters as targets") {
  json config = sound_config();
  config["target_parameters"] = {"mlp.experts.down_proj"};
  const Lines found = lo(config, kTwo);
  CHECK(std::count(found.begin(), found.end(), config_line("LO034", "-")) == 1);
  config["target_parameters"] = json::array();
  CHECK(lo(config, kTwo).empty());
}

TEST_CASE("plain keys and the engine agree") {
  const std::vector<std::string> keys = {"q",  "0.q", "h.0.q", "h\\.0\\.q", "h\\.0\\.q$", "^h.0.q", "^q",
                                         ".q", "h.0", "",      "$",         "^",          "q_proj", "a-b"};
  const std::vector<std::string> paths = {"h.0.q",  "q",        "hx0.q", "h.00.q", "x.h.0.q", "xh.0.q",
                                          "q_proj", "a.q_proj", "a-b",   "",       ".q",      "h.0.q."};
  for (const std::string& key : keys) {
    ModulePattern pattern(key);
    const Result<Regex> regex = Regex::compile("(.*\\.)?(" + key + ")");
    REQUIRE(regex.ok());
    for (const std::string& path : paths) {
      INFO(key << " on " << path);
      CHECK(pattern.matches(path) == regex->fullmatch(path).value());
    }
  }
}

TEST_CASE("LO035: factors of experts that fit their parameters in no way") {
  const std::string module = "model.layers.0.mlp.experts";
  json config = sound_config();
  config["target_modules"] = nullptr;
  config["target_parameters"] = {"mlp.experts.gate_up_proj", "mlp.experts.down_proj"};
  const auto flat = [&](uint64_t up_rows, uint64_t inner) {
    return join(
        {pair(kPrefix + module + ".base_layer", up_rows, 8, 2 * inner), pair(kPrefix + module, 6, inner, 8)});
  };
  const auto found = [&](const std::vector<LintTensor>& tensors) {
    Lines lines;
    for (const std::string& line : lo(config, tensors))
      if (line.substr(0, 5) == "LO035") lines.push_back(line);
    return lines;
  };
  CHECK(found(flat(6, 4)).empty());
  const Lines fired = {"LO035 " + kWeights + " " + module};
  CHECK(found(flat(4, 4)) == fired);  // two experts against three
  CHECK(found(join({pair(kPrefix + module + ".base_layer", 6, 8, 10), pair(kPrefix + module, 6, 4, 8)})) ==
        fired);
  // One pair alone tells nothing without the base.
  CHECK(found(pair(kPrefix + module, 6, 4, 9)).empty());
}

TEST_CASE("LO010: the base has the module under another layout's name") {
  const MemoryFiles base = {
      {"config.json", json{{"model_type", "mixtral"}}.dump()},
      {"model.safetensors", weights({{"model.layers.0.block_sparse_moe.gate.weight", "F32", {4, 4}},
                                     {"model.layers.0.self_attn.q.weight", "F32", {6, 4}}})}};
  const MemoryFiles files = {{kConfig, sound_config().dump()},
                             {kWeights, weights(join({pair(kPrefix + "model.layers.0.mlp.gate", 2, 4, 4),
                                                      pair(kPrefix + "model.layers.0.self_attn.q")}))}};
  std::string said;
  for (const Diagnostic& finding : run_lint(files, {}, &base).findings)
    if (finding.rule == Rule::LO010) said += message(finding);
  CHECK(said.find("block_sparse_moe.gate") != std::string::npos);
  CHECK(said.find("adapter convert") != std::string::npos);
}
