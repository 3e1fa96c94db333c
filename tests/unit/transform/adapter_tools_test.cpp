// Resizing, combining and extracting adapters, in memory: what is written, and what is refused.
#include "tftf/transform/adapter_tools.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <memory>

#include "../plan/memory_host.h"
#include "tftf/adapter/targeting.h"
#include "transform_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

constexpr const char* kAdapterName = "adapter_model.safetensors";

// An input in memory with everything that a tool asks of it.
struct ToolInput {
  MemoryModel model;
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<AdapterInput> input;

  ToolInput(const std::string& name, const std::vector<TestTensor>& tensors, const std::string& config = "",
            AdapterInput::Kind kind = AdapterInput::Kind::kAdapter) {
    model.files[name] = model_file(tensors);
    if (!config.empty()) model.files["adapter_config.json"] = config;
    auto read = read_from_memory(model, model.folder(), {.mode = ReadMode::kTransform});
    REQUIRE(read.ok());
    checkpoint = std::make_unique<Checkpoint>(*std::move(read));
    input = std::make_unique<AdapterInput>(*checkpoint, kind);
    for (auto requests = input->want(); !requests.empty(); requests = input->want())
      for (const ReadRequest& wanted : requests)
        input->supply(wanted, as_bytes(std::string_view(model.files.at(wanted.file))
                                           .substr(wanted.range.offset, wanted.range.length)));
  }
};

struct ToolResult {
  std::map<std::string, std::string> files;
  Account account;
};

ToolResult run_tool(Result<AdapterToolPlan> made, const std::vector<const ToolInput*>& sources,
                    uint32_t seed = 3) {
  if (!made.ok()) FAIL(made.error().message);
  std::vector<std::string> inputs;
  for (size_t i = 0; i < made->plan.inputs().size(); ++i)
    inputs.push_back(sources[made->input_source[i]]->model.files.at(made->plan.inputs()[i].path));
  auto run = run_in_memory(made->plan, inputs, {.kernels = nullptr, .seed = seed});
  if (!run.ok()) FAIL(run.error().message);
  for (const std::string& fault : run->faults) FAIL_CHECK(fault);
  ToolResult result;
  for (size_t i = 0; i < run->outputs.size(); ++i)
    result.files[made->plan.outputs()[i].name] = run->outputs[i];
  for (const SideOutput& side : made->plan.sides())
    if (!side.copied) result.files[side.name] = side.bytes;
  result.account = made->final_account(0, 0, false);
  return result;
}

// The refusal of a plan that is made and fails while it runs.
ErrorCode failure_of(Result<AdapterToolPlan> made, const std::vector<const ToolInput*>& sources) {
  if (!made.ok()) return made.error().code;
  std::vector<std::string> inputs;
  for (size_t i = 0; i < made->plan.inputs().size(); ++i)
    inputs.push_back(sources[made->input_source[i]]->model.files.at(made->plan.inputs()[i].path));
  auto run = run_in_memory(made->plan, inputs, {});
  REQUIRE_FALSE(run.ok());
  return run.error().code;
}

std::vector<float> values_of(const std::string& bytes) {
  std::vector<float> values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TestTensor f32_tensor(std::string name, Shape shape, const std::vector<float>& values) {
  return {std::move(name), DType::F32, std::move(shape), f32_bytes(values)};
}

std::vector<float> waves(size_t count, float step) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) values.push_back(std::sin(static_cast<float>(i + 1) * step));
  return values;
}

const TestTensor& named(const std::vector<TestTensor>& tensors, const std::string& name) {
  for (const TestTensor& tensor : tensors)
    if (tensor.name == name) return tensor;
  FAIL("no tensor " + name);
  return tensors.front();
}

// up (rows x r) * down (r x cols).
std::vector<double> delta_of(const std::vector<TestTensor>& tensors, const std::string& up,
                             const std::string& down, double scale) {
  const TestTensor &b = named(tensors, up), &a = named(tensors, down);
  const uint64_t rows = b.shape[0], rank = b.shape[1];
  const std::vector<float> left = values_of(b.bytes), right = values_of(a.bytes);
  const uint64_t cols = right.size() / rank;
  std::vector<double> delta(rows * cols, 0.0);
  for (uint64_t i = 0; i < rows; ++i)
    for (uint64_t k = 0; k < rank; ++k)
      for (uint64_t j = 0; j < cols; ++j)
        delta[i * cols + j] +=
            scale * static_cast<double>(left[i * rank + k]) * static_cast<double>(right[k * cols + j]);
  return delta;
}

double difference_of(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double squares = 0, whole = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    squares += (a[i] - b[i]) * (a[i] - b[i]);
    whole += b[i] * b[i];
  }
  return std::sqrt(squares / (whole > 0 ? whole : 1));
}

// A product of rank 2 in factors of rank 3: two of the three rows are one.
std::vector<TestTensor> kohya_pair(float alpha) {
  std::vector<float> down = waves(3 * 5, 0.7f);
  for (size_t j = 0; j < 5; ++j) down[10 + j] = down[5 + j];
  return {f32_tensor("lora_unet_mid_a.lora_down.weight", {3, 5}, down),
          f32_tensor("lora_unet_mid_a.lora_up.weight", {4, 3}, waves(12, 0.3f)),
          f32_tensor("lora_unet_mid_a.alpha", {}, {alpha})};
}

std::vector<TestTensor> peft_pair(const std::string& module, uint64_t rank, float step) {
  return {f32_tensor("base_model.model." + module + ".lora_A.weight", {rank, 5}, waves(rank * 5, step)),
          f32_tensor("base_model.model." + module + ".lora_B.weight", {4, rank}, waves(4 * rank, step / 2))};
}

AdapterToolRequest to_file() { return {.command = "adapter resize", .single_name = "out.safetensors"}; }
AdapterToolRequest to_folder() { return {.command = "adapter resize"}; }

}  // namespace

TEST_CASE("a resized pair keeps its scale, its names and what lies beside it") {
  std::vector<TestTensor> tensors = kohya_pair(1.5f);
  tensors.push_back(f32_tensor("lora_unet_mid_a.diff_b", {4}, {1, 2, 3, 4}));
  const ToolInput source("a.safetensors", tensors);
  const ToolResult result =
      run_tool(plan_resize(*source.input, {.choice = {.most = 2}}, to_file()), {&source});
  const std::vector<TestTensor> out = tensors_of(result.files.at("out.safetensors"));
  REQUIRE(out.size() == 4);
  CHECK(named(out, "lora_unet_mid_a.lora_up.weight").shape == Shape{4, 2});
  CHECK(values_of(named(out, "lora_unet_mid_a.alpha").bytes) == std::vector<float>{1});
  CHECK(named(out, "lora_unet_mid_a.diff_b").bytes == tensors.back().bytes);
  const std::string up = "lora_unet_mid_a.lora_up.weight", down = "lora_unet_mid_a.lora_down.weight";
  CHECK(difference_of(delta_of(out, up, down, 0.5), delta_of(tensors, up, down, 0.5)) < 1e-6);
  REQUIRE(result.account.ranks.size() == 1);
  CHECK(result.account.ranks[0].before == 3);
  CHECK(result.account.ranks[0].after == 2);
  CHECK(*result.account.ranks[0].retained == Approx(1));
}

TEST_CASE("a resized PEFT adapter says its ranks in its configuration") {
  std::vector<TestTensor> tensors = peft_pair("m.a", 3, 0.4f);
  for (TestTensor& tensor : peft_pair("m.b", 1, 0.9f)) tensors.push_back(std::move(tensor));
  const std::string config =
      R"({"peft_type": "LORA", "r": 3, "lora_alpha": 6, "rank_pattern": {"m.b": 1}, "use_rslora": true, "other": 1})";
  const ToolInput source(kAdapterName, tensors, config);
  const ToolResult result =
      run_tool(plan_resize(*source.input, {.choice = {.most = 2}}, to_folder()), {&source});
  const JsonDocument written = parse_json(result.files.at("adapter_config.json"), JsonDialect::kPython);
  REQUIRE_FALSE(written.error);
  const PeftConfig peft = *read_peft_config("adapter_config.json", written.root);
  const Result<Targeting> targeting = Targeting::compile(peft);
  REQUIRE(targeting.ok());
  CHECK(*targeting->scale("m.a", 2) == Approx(6 / std::sqrt(3.0)));
  CHECK(*targeting->scale("m.b", 1) == Approx(6));
  CHECK(**targeting->rank("m.b") == 1);
  CHECK(written.root.integer("other") == 1);
}

TEST_CASE("what a dynamic method keeps is said, and the same on every order of steps") {
  const ToolInput source("a.safetensors", kohya_pair(3));
  const ResizeOptions options{.choice = {.method = RankChoice::Method::kFrobenius, .most = 3, .param = 0.5}};
  const ToolResult one = run_tool(plan_resize(*source.input, options, to_file()), {&source}, 0);
  const ToolResult two = run_tool(plan_resize(*source.input, options, to_file()), {&source}, 9);
  CHECK(one.files == two.files);
  CHECK(one.account.ranks[0].after == 2);
}

TEST_CASE("adapters that cannot be resized are refused") {
  const auto refused = [](const std::vector<TestTensor>& tensors, const std::string& config = "",
                          const char* name = "a.safetensors") {
    const ToolInput source(name, tensors, config);
    return failure_of(plan_resize(*source.input, {.choice = {.most = 1}}, to_file()), {&source});
  };
  CHECK(refused({kohya_pair(1)[0]}) == ErrorCode::kRefusedMissing);
  CHECK(refused(peft_pair("m.a", 2, 0.5f), "", kAdapterName) == ErrorCode::kRefusedMissing);  // no scale
  CHECK(refused({f32_tensor("model.norm.weight", {4}, {1, 2, 3, 4})}) == ErrorCode::kRefusedInput);
  std::vector<TestTensor> wrong = kohya_pair(1);
  wrong[0] = f32_tensor(wrong[0].name, {2, 5}, waves(10, 1));
  CHECK(refused(wrong) == ErrorCode::kRefusedShape);
  std::vector<TestTensor> broken = kohya_pair(1);
  broken[1] = f32_tensor(broken[1].name, {4, 3}, std::vector<float>(12, std::nanf("")));
  CHECK(refused(broken) == ErrorCode::kRefusedValues);
  CHECK(refused(peft_pair("m.a", 2, 0.5f), R"({"peft_type": "LORA", "r": 4, "lora_alpha": 4})",
                kAdapterName) == ErrorCode::kRefusedUnsupported);
  const ToolInput source("a.safetensors", kohya_pair(1));
  CHECK(failure_of(plan_resize(*source.input,
                               {.choice = {.method = RankChoice::Method::kRatio, .most = 1, .param = 0.1}},
                               to_file()),
                   {&source}) == ErrorCode::kUsage);
}

TEST_CASE("a concatenation is the weighted sum, also of what one adapter lacks") {
  std::vector<TestTensor> first = peft_pair("m.a", 2, 0.4f), second = peft_pair("m.a", 3, 0.8f);
  for (TestTensor& tensor : peft_pair("m.b", 1, 0.2f)) second.push_back(std::move(tensor));
  const ToolInput one(kAdapterName, first, R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4})");
  const ToolInput two(kAdapterName, second,
                      R"({"peft_type": "LORA", "r": 3, "lora_alpha": 3, "rank_pattern": {"m.b": 1}})");
  const std::vector<const AdapterInput*> inputs{one.input.get(), two.input.get()};
  const std::string up = "base_model.model.m.a.lora_B.weight", down = "base_model.model.m.a.lora_A.weight";
  std::vector<double> want = delta_of(first, up, down, 2 * 0.5);
  const std::vector<double> more = delta_of(second, up, down, -1.5);
  for (size_t i = 0; i < want.size(); ++i) want[i] += more[i];
  for (const CombineOptions& options :
       {CombineOptions{.weights = {0.5, -1.5}},
        CombineOptions{.mode = CombineMode::kSvd, .weights = {0.5, -1.5}, .rank = 4}}) {
    const ToolResult result = run_tool(plan_combine(inputs, options, to_folder()), {&one, &two});
    const std::vector<TestTensor> out = tensors_of(result.files.at(kAdapterName));
    CHECK(difference_of(delta_of(out, up, down, 1), want) < 1e-6);
    const JsonDocument written = parse_json(result.files.at("adapter_config.json"), JsonDialect::kPython);
    const PeftConfig peft = *read_peft_config("adapter_config.json", written.root);
    const Result<Targeting> targeting = Targeting::compile(peft);
    CHECK(*targeting->scale("m.a", named(out, up).shape[1]) == Approx(1));
    // m.b of rank 1 alone: alpha over rank, with whatever the second said.
    CHECK(*targeting->scale("m.b", 1) == Approx(1));
  }
}

TEST_CASE("linear mode adds the factors, and needs equal ranks") {
  const std::vector<TestTensor> first = kohya_pair(3);
  const ToolInput one("a.safetensors", first), two("b.safetensors", first);
  const std::vector<const AdapterInput*> inputs{one.input.get(), two.input.get()};
  const ToolResult result = run_tool(
      plan_combine(inputs, {.mode = CombineMode::kLinear, .weights = {1, 1}}, to_file()), {&one, &two});
  const std::vector<TestTensor> out = tensors_of(result.files.at("out.safetensors"));
  const std::string up = "lora_unet_mid_a.lora_up.weight", down = "lora_unet_mid_a.lora_down.weight";
  CHECK(difference_of(delta_of(out, up, down, 1), delta_of(first, up, down, 4)) < 1e-6);
  CHECK(values_of(named(out, "lora_unet_mid_a.alpha").bytes) == std::vector<float>{3});

  const ToolInput other(kAdapterName, peft_pair("m.a", 2, 1),
                        R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4})");
  const ToolInput larger(kAdapterName, peft_pair("m.a", 3, 1),
                         R"({"peft_type": "LORA", "r": 3, "lora_alpha": 4})");
  const std::vector<const AdapterInput*> unequal{other.input.get(), larger.input.get()};
  CHECK(failure_of(plan_combine(unequal, {.mode = CombineMode::kLinear, .weights = {1, 1}}, to_folder()),
                   {&other, &larger}) == ErrorCode::kRefusedShape);
}

TEST_CASE("combinations of what has no sum are refused") {
  const ToolInput plain("a.safetensors", kohya_pair(3));
  const auto refused = [&](const std::vector<TestTensor>& tensors,
                           CombineOptions options = {.weights = {1, 1}}, const std::string& config = "",
                           const char* name = "b.safetensors") {
    const ToolInput other(name, tensors, config);
    const std::vector<const AdapterInput*> inputs{plain.input.get(), other.input.get()};
    return failure_of(plan_combine(inputs, options, to_file()), {&plain, &other});
  };
  std::vector<TestTensor> dora = kohya_pair(3);
  dora.push_back(f32_tensor("lora_unet_mid_a.dora_scale", {4, 1}, {1, 1, 1, 1}));
  CHECK(refused(dora) == ErrorCode::kRefusedUnsupported);
  std::vector<TestTensor> shape = kohya_pair(3);
  shape[1] = f32_tensor(shape[1].name, {6, 3}, waves(18, 1));
  CHECK(refused(shape) == ErrorCode::kRefusedShape);
  CHECK(refused(kohya_pair(3), {.weights = {1}}) == ErrorCode::kUsage);
  CHECK(refused(kohya_pair(3), {.mode = CombineMode::kSvd, .weights = {1, 1}}) == ErrorCode::kUsage);
  // A module of another family that the first does not have.
  CHECK(refused(peft_pair("m.other", 2, 1), {.weights = {1, 1}},
                R"({"peft_type": "LORA", "r": 2, "lora_alpha": 2})",
                kAdapterName) == ErrorCode::kRefusedUnmatched);
}

TEST_CASE("the difference of two models becomes an adapter of its rank") {
  const std::vector<float> base = waves(40, 0.21f), up = waves(8, 0.5f), down = waves(5, 0.9f);
  std::vector<float> tuned = base;
  for (size_t i = 0; i < 8; ++i)
    for (size_t j = 0; j < 5; ++j) tuned[5 * i + j] += up[i] * down[j];
  const auto model = [](const std::vector<float>& weight, float norm) {
    return std::vector<TestTensor>{f32_tensor("layers.0.a.weight", {8, 5}, weight),
                                   f32_tensor("norm.weight", {2}, {norm, 1})};
  };
  const ToolInput before("model.safetensors", model(base, 1), "", AdapterInput::Kind::kModel);
  const ToolInput after("model.safetensors", model(tuned, 1), "", AdapterInput::Kind::kModel);
  const ToolInput norms("model.safetensors", model(tuned, 2), "", AdapterInput::Kind::kModel);
  const ToolResult result =
      run_tool(plan_extract(*before.input, *after.input, {.rank = 1}, to_folder()), {&before, &after});
  const std::vector<TestTensor> out = tensors_of(result.files.at(kAdapterName));
  REQUIRE(out.size() == 2);
  std::vector<double> want;
  for (size_t i = 0; i < 40; ++i)
    want.push_back(static_cast<double>(tuned[i]) - static_cast<double>(base[i]));
  CHECK(difference_of(delta_of(out, "base_model.model.layers.0.a.lora_B.weight",
                               "base_model.model.layers.0.a.lora_A.weight", 1),
                      want) < 1e-5);
  CHECK(failure_of(plan_extract(*before.input, *before.input, {.rank = 1}, to_folder()),
                   {&before, &before}) == ErrorCode::kRefusedMissing);
  CHECK(failure_of(plan_extract(*before.input, *norms.input, {.rank = 1}, to_folder()), {&before, &norms}) ==
        ErrorCode::kRefusedUnmatched);
  CHECK(failure_of(plan_extract(*before.input, *after.input, {.rank = 1, .kohya = true}, to_file()),
                   {&before, &after}) == ErrorCode::kRefusedUnmatched);
  const ToolResult partly =
      run_tool(plan_extract(*before.input, *norms.input, {.rank = 1, .allow_partial = true}, to_folder()),
               {&before, &norms});
  CHECK(partly.files.at(kAdapterName) == result.files.at(kAdapterName));
  CHECK(partly.account.coverage->unmapped == 1);
}
