// Every model type there and back, and what is refused.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tftf/checkpoint/layout_names.h"
#include "tftf/checkpoint/model_types.h"
#include "transform_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

constexpr uint64_t kFewExperts = 3, kF = 4, kH = 6;

Operation convert(std::vector<Operation::Given> options) {
  return {.id = "convert", .options = std::move(options)};
}

Operation to_layout(const std::string& layout) { return convert({{"to", {layout}}}); }

// The tensors of a result, in the order of their names.
std::vector<TestTensor> sorted_tensors(const TransformResult& result) {
  std::vector<TestTensor> all;
  for (const auto& [name, file] : result.files) {
    if (!name.ends_with(".safetensors")) continue;
    for (TestTensor& tensor : tensors_of(file)) all.push_back(std::move(tensor));
  }
  std::sort(all.begin(), all.end(), [](const TestTensor& a, const TestTensor& b) { return a.name < b.name; });
  return all;
}

void check_same_tensors(const std::vector<TestTensor>& a, const std::vector<TestTensor>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    INFO(a[i].name << " and " << b[i].name);
    CHECK(a[i].name == b[i].name);
    CHECK(a[i].dtype == b[i].dtype);
    CHECK(a[i].shape == b[i].shape);
    CHECK(a[i].bytes == b[i].bytes);
  }
}

MemoryModel folder_of(const std::vector<TestTensor>& tensors, const std::string& config) {
  MemoryModel model;
  model.files["model.safetensors"] = model_file(tensors);
  model.files["config.json"] = config;
  return model;
}

Result<TransformResult> converted(const std::vector<TestTensor>& tensors, const std::string& config,
                                  std::vector<Operation> operations) {
  return transform_in_memory(folder_of(tensors, config), std::move(operations));
}

// Makes tensors with bytes of their own.
class Maker {
 public:
  void add(const std::string& name, const Shape& shape, DType dtype = DType::BF16) {
    const auto bytes = byte_count(*element_count(shape), dtype);
    made_.push_back({name, dtype, shape, random_bytes(static_cast<size_t>(*bytes), ++seed_)});
  }
  void add_copy(const std::string& name, const TestTensor& of) {
    made_.push_back(of);
    made_.back().name = name;
  }
  std::vector<TestTensor> take() { return std::move(made_); }
  const TestTensor& last() const { return made_.back(); }

 private:
  std::vector<TestTensor> made_;
  uint32_t seed_ = 0;
};

std::string layer_of(const ModelType& type) {
  if (type.text != nullptr) return std::string(type.text->body.in4) + "layers.0";
  for (const NameRule& rule : type.names) {
    if (rule.inside() || rule.use != NameRule::Use::kBoth) continue;
    if (rule.side.in4 == "layers.") return "layers.0";
    if (rule.side.in4 == "backbone." || rule.side.in4 == "language_model.model.")
      return std::string(rule.side.in4) + "layers.0";
  }
  return "model.layers.0";
}

void add_experts(Maker& maker, const ModelType& type, const ExpertKind& kind, const std::string& layer) {
  const std::string path = layer + "." + std::string(kind.path.in4) + ".";
  if (kind.form.in4 == ExpertForm::kSplit) {
    const std::string split = layer + "." + std::string(kind.split_at(NameLayout::kTransformers4)) + ".";
    for (uint64_t e = 0; e < kFewExperts; ++e) {
      const std::string expert = split + std::to_string(e) + ".";
      if (kind.gated()) maker.add(expert + std::string(kind.gate) + ".weight", {kF, kH});
      maker.add(expert + std::string(kind.up) + ".weight", {kF, kH});
      maker.add(expert + std::string(kind.down) + ".weight", {kH, kF});
      if (type.suffixes.empty()) continue;
      // One value, as a released file calls it.
      maker.add(expert + std::string(kind.gate) + ".scale", {1}, DType::F32);
      maker.add_copy(expert + std::string(kind.up) + ".scale", maker.last());
      maker.add(expert + std::string(kind.down) + ".scale", {1}, DType::F32);
    }
    return;
  }
  const uint64_t up = kF * (kind.gated() ? 2 : 1);
  const bool turned = kind.axes.in4 == ExpertAxes::kInOut;
  maker.add(path + std::string(kind.fused_up),
            turned ? Shape{kFewExperts, kH, up} : Shape{kFewExperts, up, kH});
  maker.add(path + std::string(kind.fused_down),
            turned ? Shape{kFewExperts, kF, kH} : Shape{kFewExperts, kH, kF});
  if (!kind.bias) return;
  maker.add(path + std::string(kind.fused_up) + "_bias", {kFewExperts, up});
  maker.add(path + std::string(kind.fused_down) + "_bias", {kFewExperts, kH});
}

// A name for every rule, experts, joined matrices: as a released file has them.
std::vector<TestTensor> released(const ModelType& type) {
  Maker maker;
  const std::string layer = layer_of(type);
  for (const NameRule& rule : type.names) {
    if (rule.use == NameRule::Use::kTo5) continue;
    const std::string end = rule.side.in4.back() == '.' ? "some.weight" : "";
    maker.add((rule.inside() ? layer : "") + std::string(rule.side.in4) + end, {5});
  }
  if (type.names.empty()) maker.add("model.norm.weight", {5});
  for (const ExpertKind& kind : type.experts) add_experts(maker, type, kind, layer);
  // Joined matrices are named as in transformers 5.
  const LayoutNames names(ModelEntry{&type});
  const auto add = [&](std::string_view end, const Shape& shape) {
    maker.add(names.convert(layer + "." + std::string(end), NameLayout::kTransformers4).name, shape);
  };
  for (const JoinedMatrix& join : type.joins) {
    if (join.whole_in == NameLayout::kTransformers4) {
      add(join.whole, {2 * join.parts.size(), 4});
    } else {
      for (const std::string_view part : join.parts) add(part, {2, 4});
    }
  }
  return maker.take();
}

std::string config_for(std::string_view type) {
  return R"({"model_type": ")" + std::string(type) + R"(", "num_experts": 3})";
}

// Experts of the usual names, split.
std::vector<TestTensor> split_experts(uint64_t experts = kFewExperts) {
  Maker maker;
  for (uint64_t e = 0; e < experts; ++e)
    for (const char* part : {"gate_proj", "up_proj", "down_proj"})
      maker.add("model.layers.0.mlp.experts." + std::to_string(e) + "." + part + ".weight",
                part[0] == 'd' ? Shape{kH, kF} : Shape{kF, kH});
  return maker.take();
}

std::string message_of(const Result<TransformResult>& result) { return result ? "" : result.error().message; }

void check_refused(std::vector<TestTensor> tensors, const std::string& says,
                   const std::string& config = config_for("qwen3_moe")) {
  const auto result = converted(tensors, config, {to_layout("transformers-5")});
  INFO(says << " in: " << message_of(result));
  REQUIRE_FALSE(result.ok());
  CHECK(message_of(result).find(says) != std::string::npos);
}

}  // namespace

TEST_CASE("every model type goes to transformers 5 and back, bit by bit") {
  size_t types = 0;
  for (const ModelType& type : model_types()) {
    if (type.only_to5) continue;
    INFO(type.name);
    std::vector<TestTensor> before = released(type);
    const auto there = converted(before, config_for(type.name), {to_layout("transformers-5")});
    INFO(message_of(there));
    REQUIRE(there.ok());
    const std::vector<TestTensor> moved = sorted_tensors(*there);
    const auto again = converted(moved, config_for(type.name), {to_layout("transformers-5")});
    REQUIRE(again.ok());
    check_same_tensors(sorted_tensors(*again), moved);
    CHECK(again->account.changed == 0);
    const auto back = converted(moved, config_for(type.name), {to_layout("transformers-4")});
    INFO(message_of(back));
    REQUIRE(back.ok());
    std::sort(before.begin(), before.end(),
              [](const TestTensor& a, const TestTensor& b) { return a.name < b.name; });
    check_same_tensors(sorted_tensors(*back), before);
    const auto one =
        converted(before, config_for(type.name), {to_layout("transformers-5"), to_layout("transformers-4")});
    REQUIRE(one.ok());
    check_same_tensors(sorted_tensors(*one), before);
    ++types;
  }
  CHECK(types == 75);
}

TEST_CASE("experts of every type split and fuse, bit by bit") {
  for (const ModelType& type : model_types()) {
    if (type.experts.empty()) continue;
    INFO(type.name);
    const auto five = converted(released(type), config_for(type.name), {to_layout("transformers-5")});
    REQUIRE(five.ok());
    const std::vector<TestTensor> fused = sorted_tensors(*five);
    const auto split = converted(fused, config_for(type.name), {convert({{"experts", {"split"}}})});
    INFO(message_of(split));
    REQUIRE(split.ok());
    CHECK(split->account.layout_change->split == 1);
    const auto back = converted(sorted_tensors(*split), config_for(type.name),
                                {convert({{"to", {"transformers-5"}}, {"experts", {"fused"}}})});
    INFO(message_of(back));
    REQUIRE(back.ok());
    check_same_tensors(sorted_tensors(*back), fused);
  }
}

TEST_CASE("a type that has no way back is refused, and so is one that is not known") {
  const auto refused = [](const char* type, const char* layout) {
    return converted(split_experts(), config_for(type), {to_layout(layout)});
  };
  CHECK(message_of(refused("olmo_hybrid", "transformers-4")).find("only") != std::string::npos);
  CHECK(refused("olmo_hybrid", "transformers-5").ok());
  CHECK(message_of(refused("gpt2", "transformers-5")).find("gpt2") != std::string::npos);
  CHECK(
      converted(split_experts(), "{}", {convert({{"to", {"transformers-5"}}, {"model-type", {"qwen3_moe"}}})})
          .ok());
}

TEST_CASE("what is in the form asked for is copied, with a warning") {
  const auto same = converted(split_experts(), config_for("qwen3_moe"), {to_layout("transformers-4")});
  REQUIRE(same.ok());
  CHECK(same->account.changed == 0);
  CHECK(same->account.warnings.size() == 1);
}

TEST_CASE("experts that are not complete or not alike are refused") {
  const auto with = [](auto change) {
    std::vector<TestTensor> tensors = split_experts();
    change(tensors);
    return tensors;
  };
  check_refused(with([](auto& t) { t.erase(t.begin() + 4); }), "expert 1 has no up_proj.weight");
  check_refused(with([](auto& t) { t.resize(6); }), "config.json says 3");
  check_refused(with([](auto& t) { t.erase(t.begin() + 3, t.begin() + 6); }), "expert 1 has no");
  check_refused(with([](auto& t) { t[3].name.replace(t[3].name.find(".1."), 3, ".01."); }), "01");
  check_refused(with([](auto& t) { t[3].name.replace(t[3].name.find(".1."), 3, ".4000000000."); }),
                "is missing");
  check_refused(with([](auto& t) { t[0].dtype = DType::F16; }), "F16");
  check_refused(with([](auto& t) { t[3].shape = {kF * 2, kH / 2}; }), "[8,3]");
  check_refused(with([](auto& t) {
                  for (TestTensor& one : t) one.shape.insert(one.shape.begin(), 1);
                }),
                "is no matrix");
  check_refused(with([](auto& t) {
                  t.push_back({"model.layers.0.mlp.experts.gate_up_proj", DType::BF16, {1}, "xx"});
                }),
                "side by side");
  check_refused(with([](auto& t) {
                  t.push_back({"model.layers.0.mlp.experts.0.lora_A.weight", DType::BF16, {1}, "xx"});
                }),
                "0.lora_A.weight");
  check_refused(with([](auto& t) {
                  t.push_back({"model.layers.0.mlp.experts.gate_up_proj.weight", DType::BF16, {1}, "xx"});
                }),
                "passed over");
  check_refused(with([](auto& t) {
                  for (size_t i = 0; i < 3; ++i)
                    t.push_back({"model.layers.0.mlp.experts." + std::to_string(i) + ".gate_proj.bias",
                                 DType::BF16,
                                 {kF},
                                 random_bytes(2 * kF, 1)});
                }),
                "a gate and no up");
}

TEST_CASE("fused experts are told by both shapes") {
  const auto fused = [](const Shape& up, const Shape& down) {
    Maker maker;
    maker.add("model.layers.0.mlp.experts.gate_up_proj", up);
    maker.add("model.layers.0.mlp.experts.down_proj", down);
    return converted(maker.take(), config_for("qwen3_moe"), {to_layout("transformers-4")});
  };
  CHECK(fused({3, 8, 6}, {3, 6, 4}).ok());
  CHECK(fused({3, 8, 8}, {3, 8, 4}).ok());  // 2F = H
  CHECK(message_of(fused({3, 6, 8}, {3, 4, 6})).find("stores out-in") != std::string::npos);
  CHECK(message_of(fused({3, 8, 6}, {3, 6, 5})).find("fit neither") != std::string::npos);
  CHECK(message_of(fused({2, 8, 6}, {3, 6, 4})).find("equally many") != std::string::npos);
  CHECK(message_of(fused({4, 8, 6}, {4, 6, 4})).find("config.json says 3") != std::string::npos);
}

TEST_CASE("names that are not known, meet, or come back as others are refused") {
  const auto named = [](const std::vector<std::string>& names, std::vector<Operation::Given> options) {
    Maker maker;
    for (const std::string& name : names) maker.add(name, {2});
    return converted(maker.take(), config_for("llava"), {convert(std::move(options))});
  };
  const Operation::Given to{"to", {"transformers-5"}};
  CHECK(message_of(named({"language_model.model.a", "extra.thing"}, {to})).find("extra.thing") !=
        std::string::npos);
  const auto allowed = named({"language_model.model.a", "extra.thing"}, {to, {"allow-unmapped", {}}});
  REQUIRE(allowed.ok());
  CHECK(allowed->account.layout_change->unmapped == 1);
  CHECK(message_of(named({"language_model.lm_head.weight", "lm_head.weight"}, {to})).find("lm_head.weight") !=
        std::string::npos);
}

TEST_CASE("lists of modules follow names, patterns stay and are told of") {
  Maker maker;
  maker.add("model.layers.0.block_sparse_moe.gate.weight", {2});
  const auto result = converted(
      maker.take(),
      R"({"model_type": "mixtral", "quantization_config": {"ignore": ["lm_head", "model.layers.0.block_sparse_moe.gate", "re:.*gate"]}})",
      {to_layout("transformers-5")});
  REQUIRE(result.ok());
  CHECK(result->files.at("config.json")
            .find(R"("ignore": ["lm_head", "model.layers.0.mlp.gate", "re:.*gate"])") != std::string::npos);
  CHECK(std::count_if(result->account.warnings.begin(), result->account.warnings.end(),
                      [](const std::string& one) { return one.find("re:.*gate") != std::string::npos; }) ==
        1);
}

TEST_CASE("converting needs to be told what to do") {
  CHECK(converted(split_experts(), config_for("qwen3_moe"), {convert({})}).error().code == ErrorCode::kUsage);
}
