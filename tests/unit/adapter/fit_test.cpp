// Adapters fitted to a base: names, experts from one pair each to one pair for all and back, what is refused.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "tftf/adapter/fit.h"
#include "transform_host.h"

using namespace tftf;
using namespace tftf::test;
using Json = nlohmann::json;

namespace {

constexpr const char* kWeightsFile = "adapter_model.safetensors";
const std::string kStart = "base_model.model.";

struct Fitted {
  std::map<std::string, TestTensor> tensors;  // without the start and ".weight"
  Json config;
  std::vector<std::string> notes;
};

// All tensors by name; factors are F32.
using Factors = std::map<std::string, std::pair<Shape, std::vector<float>>>;

MemoryModel adapter_folder(const Factors& factors, const Json& config) {
  MemoryModel model;
  std::vector<TestTensor> tensors;
  for (const auto& [name, factor] : factors)
    tensors.push_back({kStart + name + ".weight", DType::F32, factor.first, f32_bytes(factor.second)});
  model.files[kWeightsFile] = model_file(tensors);
  model.files["adapter_config.json"] = config.dump();
  return model;
}

Json lora_config(int rank, const Json& more = Json::object()) {
  Json config = {{"peft_type", "LORA"}, {"r", rank}, {"lora_alpha", 2 * rank}, {"peft_version", "0.20.0"}};
  config.update(more);
  return config;
}

Result<Fitted> fit(const MemoryModel& model, const Checkpoint* base, FitOptions options = {}) {
  auto adapter = read_from_memory(model, model.file(kWeightsFile), {.mode = ReadMode::kTransform});
  REQUIRE(adapter.ok());
  options.base = base;
  ValueScans scans(*adapter);
  for (int round = 0; round < 1000; ++round) {
    auto made = fit_adapter(*adapter, scans, options);
    if (!made) return std::move(made).error();
    if (*made) {
      Fitted fitted;
      REQUIRE((*made)->files.size() == 1);
      for (AdapterRecipe& recipe : (*made)->files[0].tensors) {
        number_sources(recipe);
        std::vector<std::string> data;
        for (const TensorRef source : recipe_sources(recipe)) {
          const TensorInfo& info = adapter->info(source);
          data.push_back(
              model.files.at(kWeightsFile)
                  .substr(static_cast<size_t>(adapter->shards[0].header.data_offset() + info.begin),
                          static_cast<size_t>(info.bytes())));
        }
        std::vector<Bytes> sources;
        for (const std::string& bytes : data) sources.push_back(as_bytes(std::string_view(bytes)));
        TestTensor out{recipe.name, recipe.dtype, recipe.shape,
                       std::string(static_cast<size_t>(recipe.rows * recipe.cols * 4), 'x')};
        // In two goes, as tiles do.
        const uint64_t half = recipe.rows / 2;
        auto* to = reinterpret_cast<std::byte*>(out.bytes.data());
        cook_rows(recipe, sources, 0, half, to);
        cook_rows(recipe, sources, half, recipe.rows - half, to + half * recipe.cols * 4);
        fitted.tensors[recipe.name.substr(kStart.size(), recipe.name.size() - kStart.size() - 7)] =
            std::move(out);
      }
      for (const auto& [name, text] : (*made)->sides) fitted.config = Json::parse(text);
      fitted.notes = (*made)->notes;
      return fitted;
    }
    for (const ReadRequest& wanted : scans.want())
      scans.supply(wanted, as_bytes(std::string_view(model.files.at(wanted.file))
                                        .substr(static_cast<size_t>(wanted.range.offset),
                                                static_cast<size_t>(wanted.range.length))));
  }
  FAIL("it never ends");
  return Error{};
}

Fitted must_fit(Result<Fitted> result) {
  INFO((result ? "" : result.error().message));
  REQUIRE(result.ok());
  return *std::move(result);
}

void must_refuse(const Result<Fitted>& result, ErrorCode code, const std::string& says) {
  REQUIRE_FALSE(result.ok());
  INFO(result.error().message);
  CHECK(result.error().code == code);
  CHECK(result.error().message.find(says) != std::string::npos);
}

Checkpoint base_of(const std::string& type, const std::vector<std::pair<std::string, Shape>>& tensors) {
  MemoryModel model;
  model.files["config.json"] = Json{{"model_type", type}}.dump();
  std::vector<TestTensor> made;
  for (const auto& [name, shape] : tensors)
    made.push_back(
        {name, DType::BF16, shape, std::string(static_cast<size_t>(2 * *element_count(shape)), '\0')});
  model.files["model.safetensors"] = model_file(made);
  auto checkpoint = read_from_memory(model, model.folder(), {.mode = ReadMode::kTransform});
  REQUIRE(checkpoint.ok());
  return *std::move(checkpoint);
}

std::vector<float> numbers(size_t count, float first) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) values.push_back(first + static_cast<float>(i));
  return values;
}

// Two experts of F = 3 and H = 4 in names of `container`, rank 2.
constexpr uint64_t kExperts = 2, kInner = 3, kOuter = 4, kRank = 2;
Factors split_factors(const std::string& container, const std::array<const char*, 3>& parts,
                      bool shared_first) {
  Factors factors;
  float first = 1;
  for (uint64_t e = 0; e < kExperts; ++e)
    for (size_t p = 0; p < 3; ++p) {
      const uint64_t in = p == 2 ? kInner : kOuter, out = p == 2 ? kOuter : kInner;
      const std::string module = container + "." + std::to_string(e) + "." + parts[p];
      if (p != 1 || !shared_first) first += 100;
      factors[module + ".lora_A"] = {{kRank, in}, numbers(kRank * in, first)};
      factors[module + ".lora_B"] = {{out, kRank}, numbers(out * kRank, first + 50 + static_cast<float>(p))};
    }
  return factors;
}

std::string path_of(const std::string& rest) { return "model.layers.0.mlp.experts" + rest; }
constexpr std::array<const char*, 3> kProjections = {"gate_proj", "up_proj", "down_proj"};

Checkpoint fused_base(const std::string& type = "qwen3_moe") {
  const bool turned = type == "gpt_oss";
  return base_of(type, {{path_of(".gate_up_proj"),
                         turned ? Shape{kExperts, kOuter, 2 * kInner} : Shape{kExperts, 2 * kInner, kOuter}},
                        {path_of(".down_proj"),
                         turned ? Shape{kExperts, kInner, kOuter} : Shape{kExperts, kOuter, kInner}}});
}

Checkpoint split_base(const std::string& type = "qwen3_moe") {
  std::vector<std::pair<std::string, Shape>> tensors;
  for (const char* e : {"0", "1"})
    for (const char* part : kProjections)
      tensors.emplace_back(path_of("." + std::string(e) + "." + part + ".weight"),
                           std::string(part) == "down_proj" ? Shape{kOuter, kInner} : Shape{kInner, kOuter});
  return base_of(type, tensors);
}

void check_same(const Fitted& fitted, const Factors& wanted) {
  CHECK(fitted.tensors.size() == wanted.size());
  for (const auto& [name, factor] : wanted) {
    INFO(name);
    const auto found = fitted.tensors.find(name);
    REQUIRE(found != fitted.tensors.end());
    CHECK(found->second.shape == factor.first);
    CHECK(found->second.bytes == f32_bytes(factor.second));
  }
}

// What was fitted as an adapter of its own.
MemoryModel folder_of(const Fitted& fitted) {
  MemoryModel model;
  std::vector<TestTensor> tensors;
  for (const auto& [name, tensor] : fitted.tensors) tensors.push_back(tensor);
  model.files[kWeightsFile] = model_file(tensors);
  model.files["adapter_config.json"] = fitted.config.dump();
  return model;
}

}  // namespace

TEST_CASE("experts of an adapter are fused for a fused base, and come back") {
  for (const std::string type : {"qwen3_moe", "gpt_oss"})
    for (const bool shared : {false, true}) {
      INFO(type << shared);
      const Checkpoint base = fused_base(type);
      const Factors factors = split_factors(path_of(""), kProjections, shared);
      const MemoryModel model = adapter_folder(factors, lora_config(2));
      const Fitted fused = must_fit(fit(model, &base));
      const uint64_t rank = shared ? kRank : 2 * kRank;
      REQUIRE(fused.tensors.size() == 4);
      CHECK(fused.tensors.at(path_of(".base_layer.lora_A")).shape == Shape{kExperts * rank, kOuter});
      CHECK(fused.tensors.at(path_of(".base_layer.lora_B")).shape == Shape{2 * kInner, kExperts * rank});
      CHECK(fused.tensors.at(path_of(".lora_A")).shape == Shape{kExperts * kRank, kInner});
      CHECK(fused.config["target_parameters"].size() == 2);
      CHECK(fused.config["target_modules"].is_null());
      const Checkpoint single = split_base(type);
      FitOptions to_split;
      to_split.experts = ExpertForm::kSplit;
      const Fitted back = must_fit(fit(folder_of(fused), &base, to_split));
      check_same(back, factors);
      CHECK(back.config["r"] == 2);
      CHECK(back.config["lora_alpha"] == 4);
      CHECK(back.config["target_modules"].size() == 6);
    }
}

TEST_CASE("one element of fused factors, in both orders of gate and up") {
  const Factors factors = split_factors(path_of(""), kProjections, false);
  const auto element = [](const Fitted& fitted, const std::string& name, uint64_t row, uint64_t col) {
    const TestTensor& tensor = fitted.tensors.at(name);
    float value = 0;
    std::memcpy(&value, tensor.bytes.data() + (row * tensor.shape[1] + col) * 4, 4);
    return value;
  };
  const auto& up = factors.at(path_of(".1.up_proj.lora_B")).second;
  const Checkpoint halves = fused_base(), turns = fused_base("gpt_oss");
  const Fitted one = must_fit(fit(adapter_folder(factors, lora_config(2)), &halves));
  // Row 2 of up, rank 1 of expert 1: below gate's rows, behind gate's ranks, the expert innermost.
  CHECK(element(one, path_of(".base_layer.lora_B"), kInner + 2, (kRank + 1) * kExperts + 1) ==
        up[2 * kRank + 1]);
  CHECK(element(one, path_of(".base_layer.lora_B"), 2, (kRank + 1) * kExperts + 1) == 0);
  const Fitted two = must_fit(fit(adapter_folder(factors, lora_config(2)), &turns));
  CHECK(element(two, path_of(".base_layer.lora_B"), 2 * 2 + 1, (kRank + 1) * kExperts + 1) ==
        up[2 * kRank + 1]);
}

TEST_CASE("factors that lie crosswise are turned") {
  // As PEFT before 0.19.1 has made them for parameters of (E, out, in).
  Factors flat;
  flat[path_of(".base_layer.lora_A")] = {{kExperts * 1, 2 * kInner}, numbers(12, 1)};
  flat[path_of(".base_layer.lora_B")] = {{kOuter, kExperts * 1}, numbers(8, 100)};
  flat[path_of(".lora_A")] = {{kExperts * 1, kOuter}, numbers(8, 200)};
  flat[path_of(".lora_B")] = {{kInner, kExperts * 1}, numbers(6, 300)};
  const Json config =
      lora_config(1, {{"peft_version", "0.18.1"},
                      {"target_parameters", {"mlp.experts.gate_up_proj", "mlp.experts.down_proj"}}});
  const Checkpoint base = split_base();
  const Fitted fitted = must_fit(fit(adapter_folder(flat, config), &base));
  REQUIRE(fitted.tensors.size() == 12);
  // Expert 1: A' is B's column of it, B' of up the second half of A's row.
  CHECK(fitted.tensors.at(path_of(".1.up_proj.lora_A")).bytes == f32_bytes({101, 103, 105, 107}));
  CHECK(fitted.tensors.at(path_of(".1.up_proj.lora_B")).bytes == f32_bytes({10, 11, 12}));
  CHECK(fitted.tensors.at(path_of(".1.down_proj.lora_A")).bytes == f32_bytes({301, 303, 305}));
}

TEST_CASE("what cannot be told is refused") {
  const Checkpoint split = split_base(), fused = fused_base();
  const Json parameters = {"mlp.experts.gate_up_proj", "mlp.experts.down_proj"};
  Factors flat;
  flat[path_of(".base_layer.lora_A")] = {{4, kOuter}, numbers(16, 1)};
  flat[path_of(".base_layer.lora_B")] = {{2 * kInner, 4}, numbers(24, 1)};
  flat[path_of(".lora_A")] = {{4, kInner}, numbers(12, 1)};
  flat[path_of(".lora_B")] = {{kOuter, 4}, numbers(16, 1)};
  CHECK(fit(adapter_folder(flat, lora_config(2, {{"target_parameters", parameters}})), &split).ok());
  must_refuse(fit(adapter_folder(flat, lora_config(3, {{"target_parameters", parameters}})), &split),
              ErrorCode::kRefusedShape, "fit");
  // A single square one: 2F = H, and nothing says which version has made it.
  const Checkpoint square =
      base_of("qwen3_moe", {{path_of(".gate_up_proj"), {2, 4, 4}}, {path_of(".down_proj"), {2, 4, 2}}});
  Factors one;
  one[path_of(".lora_A")] = {{4, 4}, numbers(16, 1)};
  one[path_of(".lora_B")] = {{4, 4}, numbers(16, 1)};
  Json config = lora_config(2, {{"target_parameters", {"mlp.experts.gate_up_proj"}}});
  CHECK(fit(adapter_folder(one, config), &square).ok());
  config.erase("peft_version");
  must_refuse(fit(adapter_folder(one, config), &square), ErrorCode::kRefusedAmbiguous, "told");

  Factors fewer = split_factors(path_of(""), kProjections, false);
  for (const char* part : kProjections)
    for (const char* factor : {".lora_A", ".lora_B"})
      fewer.erase(path_of(".1." + std::string(part) + factor));
  must_refuse(fit(adapter_folder(fewer, lora_config(2)), &fused), ErrorCode::kRefusedMissing, "2");
  Factors half = split_factors(path_of(""), kProjections, false);
  half.erase(path_of(".0.up_proj.lora_B"));
  must_refuse(fit(adapter_folder(half, lora_config(2)), &fused), ErrorCode::kRefusedMissing, "lora_B");
  const Factors whole = split_factors(path_of(""), kProjections, false);
  must_refuse(fit(adapter_folder(whole, lora_config(2, {{"alpha_pattern", {{".*1.up_proj", 8}}}})), &fused),
              ErrorCode::kRefusedShape, "scale");
  must_refuse(fit(adapter_folder(whole, lora_config(2, {{"use_dora", true}})), &fused),
              ErrorCode::kRefusedUnsupported, "DoRA");
  Factors saved = whole;
  saved["lm_head"] = {{1, 1}, {1}};
  must_refuse(fit(adapter_folder(saved, lora_config(2)), &fused), ErrorCode::kRefusedUnsupported, "lm_head");
  FitOptions options;
  options.experts = ExpertForm::kFused;
  options.model_type = "qwen3_moe";
  Factors attention;
  attention["model.layers.0.self_attn.q_proj.lora_A"] = {{2, 4}, numbers(8, 1)};
  attention["model.layers.0.self_attn.q_proj.lora_B"] = {{4, 2}, numbers(8, 1)};
  must_refuse(fit(adapter_folder(attention, lora_config(2)), nullptr, options), ErrorCode::kRefusedMissing,
              "experts");
}

TEST_CASE("names of an adapter are moved to those of the base") {
  Factors factors;
  const auto add = [&](const std::string& module) {
    factors[module + ".lora_A"] = {{2, 4}, numbers(8, 1)};
    factors[module + ".lora_B"] = {{4, 2}, numbers(8, 1)};
  };
  add("model.layers.0.self_attn.q_proj");
  const MemoryModel text = adapter_folder(factors, lora_config(2));
  const Checkpoint in4 =
      base_of("llava", {{"language_model.model.layers.0.self_attn.q_proj.weight", {4, 4}}});
  const Checkpoint in5 =
      base_of("llava", {{"model.language_model.layers.0.self_attn.q_proj.weight", {4, 4}}});
  CHECK(must_fit(fit(text, &in4)).tensors.count("language_model.model.layers.0.self_attn.q_proj.lora_A") ==
        1);
  const Fitted moved = must_fit(fit(text, &in5));
  CHECK(moved.tensors.count("model.language_model.layers.0.self_attn.q_proj.lora_A") == 1);
  CHECK(moved.notes.size() == 1);
  const Fitted back = must_fit(fit(folder_of(moved), &in4));
  CHECK(back.tensors.count("language_model.model.layers.0.self_attn.q_proj.lora_A") == 1);
  // A type outside of the table, where the text model is alone.
  const Checkpoint alone = base_of("llama", {{"model.layers.0.self_attn.q_proj.weight", {4, 4}}});
  const Fitted out = must_fit(fit(folder_of(moved), &alone));
  CHECK(out.tensors.count("model.layers.0.self_attn.q_proj.lora_A") == 1);
  CHECK(out.config["target_modules"] == Json{"model.layers.0.self_attn.q_proj"});
  add("model.layers.0.self_attn.other");
  must_refuse(fit(adapter_folder(factors, lora_config(2)), &in4), ErrorCode::kRefusedUnmatched, "other");
}

TEST_CASE("ranks and scales keep their meaning in the configuration") {
  Factors factors;
  for (const char* name : {"a", "b", "c"}) {
    const uint64_t rank = std::string(name) == "c" ? 4 : 2;
    const std::string module = "model.layers.0." + std::string(name);
    factors[module + ".lora_A"] = {{rank, 4}, numbers(rank * 4, 1)};
    factors[module + ".lora_B"] = {{4, rank}, numbers(4 * rank, 1)};
  }
  const Checkpoint base = base_of("llama", {{"model.layers.0.a.weight", {4, 4}},
                                            {"model.layers.0.b.weight", {4, 4}},
                                            {"model.layers.0.c.weight", {4, 4}}});
  const Json config = lora_config(2, {{"use_rslora", true},
                                      {"rank_pattern", {{"c", 4}}},
                                      {"base_model_name_or_path", "x/y"},
                                      {"exclude_modules", {"z"}}});
  const Fitted fitted = must_fit(fit(adapter_folder(factors, config), &base));
  CHECK(fitted.config["use_rslora"] == false);
  CHECK(fitted.config["base_model_name_or_path"] == "x/y");
  CHECK(fitted.config["exclude_modules"].is_null());
  CHECK(fitted.config["r"] == 2);
  CHECK(fitted.config["rank_pattern"] == Json{{"model\\.layers\\.0\\.c$", 4}});
  // 4 over the root of 2, times 2; 4 over the root of 4, times 4.
  CHECK(fitted.config["lora_alpha"].get<double>() == Approx(4 / std::sqrt(2.0) * 2));
  CHECK(fitted.config["alpha_pattern"]["model\\.layers\\.0\\.c$"] == 8);
}
