// Merges of every kind of adapter against values that tests/tools/merge_cases.py worked out.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "adapter_host.h"
#include "data_file.h"
#include "tftf/base/json_value.h"
#include "tftf/simd/floats.h"

using namespace tftf;
using namespace tftf::test;

namespace {

std::string unhex(const std::string& hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1]));
  return bytes;
}

std::vector<TestTensor> tensors_in(const JsonValue& list) {
  std::vector<TestTensor> tensors;
  for (const JsonValue& entry : list.elements) {
    TestTensor tensor{
        entry.get("name")->text, *find_dtype(entry.get("dtype")->text), {}, unhex(entry.get("hex")->text)};
    for (const JsonValue& n : entry.get("shape")->elements)
      tensor.shape.push_back(static_cast<uint64_t>(*n.as_integer()));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// Equal bits, or neighbours where the reference sums in another order (norms, rotations).
bool same_values(const TestTensor& a, const TestTensor& b) {
  if (a.bytes == b.bytes) return true;
  if (a.bytes.size() != b.bytes.size() || a.dtype != b.dtype) return false;
  const double step = a.dtype == DType::F64    ? 0x1p-50
                      : a.dtype == DType::F32  ? 0x1p-21
                      : a.dtype == DType::BF16 ? 0x1p-7
                                               : 0x1p-10;
  const auto *x = reinterpret_cast<const std::byte*>(a.bytes.data()),
             *y = reinterpret_cast<const std::byte*>(b.bytes.data());
  for (uint64_t i = 0; i < *element_count(a.shape); ++i) {
    const double p = element_as_f64(a.dtype, x, i), q = element_as_f64(b.dtype, y, i);
    if (std::fabs(p - q) > step * std::max(std::fabs(q), 0.01)) return false;
  }
  return true;
}

struct MergeCase {
  std::string title, config, model_config, error;
  std::vector<TestTensor> base, adapter, expected;
  std::vector<Operation::Given> options;
};

std::vector<MergeCase> merge_cases() {
  const std::string text = tftf_test::read_data("/golden/merge/cases.json");
  const JsonDocument document = parse_json(text, JsonDialect::kPython);
  REQUIRE(!document.error);
  const auto piece = [&text](const JsonValue* value) {
    return value == nullptr ? std::string() : text.substr(value->begin, value->end - value->begin);
  };
  std::vector<MergeCase> cases;
  for (const JsonValue& entry : document.root.elements) {
    MergeCase c;
    c.title = entry.get("title")->text;
    c.config = piece(entry.get("config"));
    c.model_config = piece(entry.get("model_config"));
    c.base = tensors_in(*entry.get("base"));
    c.adapter = tensors_in(*entry.get("adapter"));
    if (const JsonValue* error = entry.get("error")) {
      c.error = error->text;
    } else {
      c.expected = tensors_in(*entry.get("expected"));
    }
    for (const auto& [name, value] : entry.get("options")->members) c.options.push_back({name, {value.text}});
    cases.push_back(std::move(c));
  }
  return cases;
}

Result<TransformResult> run_case(const MergeCase& c, uint64_t tile, const KernelTable* kernels,
                                 uint32_t seed) {
  auto adapter = adapter_of(c.adapter, c.config);
  if (!adapter) return std::move(adapter).error();
  MemoryModel model;
  model.files["model.safetensors"] = model_file(c.base);
  if (!c.model_config.empty()) model.files["config.json"] = c.model_config;
  TransformRequest request{.command = "merge-lora", .operations = {merge_operation(*adapter, c.options)}};
  request.tile_bytes = tile;
  return transform_in_memory(model, model.folder(), std::move(request), {.kernels = kernels, .seed = seed});
}

std::map<std::string, TestTensor> merged_tensors(const TransformResult& result) {
  std::map<std::string, TestTensor> tensors;
  for (const auto& [name, content] : result.files) {
    if (name.size() < 12 || name.substr(name.size() - 12) != ".safetensors") continue;
    for (TestTensor& tensor : tensors_of(content)) tensors.emplace(tensor.name, std::move(tensor));
  }
  return tensors;
}

}  // namespace

TEST_CASE("every kind of adapter merges to the values of its formula, or is refused for its reason") {
  uint64_t merged = 0, refused = 0;
  for (const MergeCase& c : merge_cases()) {
    INFO(c.title);
    const auto result = run_case(c, kDefaultTileBytes, nullptr, 0);
    if (!c.error.empty()) {
      REQUIRE_FALSE(result.ok());
      CHECK(error_code_text(result.error().code) == c.error);
      INFO(result.error().message);
      ++refused;
      continue;
    }
    INFO((result.ok() ? "" : result.error().message));
    REQUIRE(result.ok());
    const auto tensors = merged_tensors(*result);
    CHECK(tensors.size() == c.expected.size());
    for (const TestTensor& expected : c.expected) {
      INFO(expected.name);
      REQUIRE(tensors.count(expected.name) == 1);
      const TestTensor& is = tensors.at(expected.name);
      CHECK(is.dtype == expected.dtype);
      CHECK(is.shape == expected.shape);
      CHECK(same_values(is, expected));
      const bool exact =
          c.title.compare(0, 6, "linear") == 0 || c.title.compare(0, 14, "fan_in_fan_out") == 0;
      if (exact) CHECK(is.bytes == expected.bytes);
    }
    ++merged;
  }
  CHECK(merged >= 45);
  CHECK(refused >= 15);
}

TEST_CASE("tiles, their order and the instruction set change no bit of a merge") {
  for (const MergeCase& c : merge_cases()) {
    if (!c.error.empty()) continue;
    INFO(c.title);
    const auto whole = run_case(c, kDefaultTileBytes, nullptr, 0);
    REQUIRE(whole.ok());
    uint32_t seed = 1;
    for (const KernelTable* kernels : available_kernels()) {
      for (const uint64_t tile : {uint64_t{16}, uint64_t{200}, uint64_t{3000}, kDefaultTileBytes}) {
        const auto other = run_case(c, tile, kernels, seed++);
        REQUIRE(other.ok());
        CHECK(other->files == whole->files);
      }
    }
  }
}

TEST_CASE("a merge counts what it met, and is named by the adapter's contents in the plan") {
  const auto cases = merge_cases();
  const auto result = run_case(cases[0], kDefaultTileBytes, nullptr, 0);
  REQUIRE(result.ok());
  REQUIRE(result->account.merges.size() == 1);
  CHECK(result->account.merges[0].modules == 1);
  CHECK(result->account.merges[0].merged == 1);
  CHECK(result->account.merges[0].tensors == 1);
  CHECK(result->account.changed == 1);
  CHECK(result->account.copied == 1);
  MergeCase other = cases[0];
  other.adapter[0].bytes[0] = static_cast<char>(other.adapter[0].bytes[0] ^ 1);
  const auto changed = run_case(other, kDefaultTileBytes, nullptr, 0);
  REQUIRE(changed.ok());
  CHECK(changed->text != result->text);
}

TEST_CASE("bases that are no floats are refused, with the way out for FP8") {
  const std::vector<TestTensor> pair = {{"q.lora_A.weight", DType::F32, {1, 4}, f32_bytes({1, 2, 3, 4})},
                                        {"q.lora_B.weight", DType::F32, {2, 1}, f32_bytes({1, 2})}};
  const auto adapter = adapter_of(pair, R"({"peft_type":"LORA","r":1,"lora_alpha":1})");
  REQUIRE(adapter.ok());
  for (const DType dtype : {DType::I8, DType::F8_E4M3}) {
    MemoryModel model;
    model.files["model.safetensors"] = model_file({{"q.weight", dtype, {2, 4}, random_bytes(8, 3)}});
    const auto result = transform_in_memory(model, {merge_operation(*adapter)});
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().code == ErrorCode::kRefusedUnsupported);
    CHECK((result.error().message.find("dequant-fp8") != std::string::npos) == (dtype == DType::F8_E4M3));
  }
}

TEST_CASE("non-finite results are refused unless they are allowed, and then counted") {
  const std::vector<TestTensor> pair = {{"q.lora_A.weight", DType::F32, {1, 2}, f32_bytes({1, 1})},
                                        {"q.lora_B.weight", DType::F32, {1, 1}, f32_bytes({70000})}};
  const auto adapter = adapter_of(pair, R"({"peft_type":"LORA","r":1,"lora_alpha":1})");
  REQUIRE(adapter.ok());
  MemoryModel model;
  model.files["model.safetensors"] =
      model_file({{"q.weight", DType::F16, {1, 2}, u16_bytes({0x3C00, 0x7C00})}});
  const auto refused = transform_in_memory(model, {merge_operation(*adapter)});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().code == ErrorCode::kRefusedValues);
  const auto allowed = transform_in_memory(model, {merge_operation(*adapter, {{"allow-nonfinite", {}}})});
  REQUIRE(allowed.ok());
  REQUIRE(allowed->account.non_finite.size() == 1);
  CHECK(allowed->account.non_finite[0].became_infinite == 1);  // the other one was infinite before
}

TEST_CASE("dequantising and merging in one pass gives the bytes of two commands") {
  const uint64_t rows = 300, cols = 260;
  std::string codes = random_bytes(rows * cols, 11);
  for (char& c : codes)
    if ((c & 0x7F) == 0x7F) c = 0x38;
  std::vector<float> scales(9), a(3 * cols), b(rows * 3);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = 0.001f * static_cast<float>(i + 1);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 17) * 0.0625f - 0.5f;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 13) * 0.03125f - 0.25f;
  const auto adapter = adapter_of({{"q.lora_A.weight", DType::F32, {3, cols}, f32_bytes(a)},
                                   {"q.lora_B.weight", DType::F32, {rows, 3}, f32_bytes(b)}},
                                  R"({"peft_type":"LORA","r":3,"lora_alpha":5})");
  REQUIRE(adapter.ok());
  MemoryModel model;
  model.files["model.safetensors"] =
      model_file({{"q.weight", DType::F8_E4M3, {rows, cols}, codes},
                  {"q.weight_scale_inv", DType::F32, {3, 3}, f32_bytes(scales)}});
  const Operation dequant{"dequant-fp8", {}};
  const auto plain = transform_in_memory(model, {dequant});
  REQUIRE(plain.ok());
  MemoryModel middle;
  for (const auto& [name, content] : plain->files) middle.files[name] = content;
  const auto second = transform_in_memory(middle, {merge_operation(*adapter)});
  REQUIRE(second.ok());
  for (const uint64_t tile : {uint64_t{512}, uint64_t{30000}, kDefaultTileBytes}) {
    TransformRequest request{.command = "run", .operations = {dequant, merge_operation(*adapter)}};
    request.tile_bytes = tile;
    const auto once = transform_in_memory(model, model.folder(), std::move(request));
    REQUIRE(once.ok());
    CHECK(merged_tensors(*once).at("q.weight").bytes == merged_tensors(*second).at("q.weight").bytes);
  }
}

TEST_CASE("merging and casting in one pass gives the bytes of two commands, whatever the merge needs whole") {
  const Operation cast{"cast", {{"dtype", {"float16"}}}};
  for (const MergeCase& c : merge_cases()) {
    if (!c.error.empty()) continue;
    INFO(c.title);
    const auto first = run_case(c, kDefaultTileBytes, nullptr, 0);
    REQUIRE(first.ok());
    MemoryModel middle;
    for (const auto& [name, content] : first->files) middle.files[name] = content;
    const auto second = transform_in_memory(middle, {cast});
    REQUIRE(second.ok());
    const auto adapter = adapter_of(c.adapter, c.config);
    REQUIRE(adapter.ok());
    MemoryModel model;
    model.files["model.safetensors"] = model_file(c.base);
    if (!c.model_config.empty()) model.files["config.json"] = c.model_config;
    for (const uint64_t tile : {uint64_t{64}, uint64_t{1000}, kDefaultTileBytes}) {
      TransformRequest request{.command = "run", .operations = {merge_operation(*adapter, c.options), cast}};
      request.tile_bytes = tile;
      const auto once = transform_in_memory(model, model.folder(), std::move(request));
      REQUIRE(once.ok());
      const auto a = merged_tensors(*once), b = merged_tensors(*second);
      REQUIRE(a.size() == b.size());
      for (const auto& [name, tensor] : b) {
        INFO(name);
        CHECK(a.at(name).bytes == tensor.bytes);
      }
    }
  }
}

TEST_CASE("experts are dequantised and merged in one pass, their scales cut between experts or not") {
  for (const uint64_t rows : {uint64_t{8}, uint64_t{6}}) {  // a multiple of the block, and none
    const uint64_t experts = 3, cols = 5, rank = 2, grid = (rows + 3) / 4 * 2;
    std::string codes = random_bytes(experts * rows * cols, 5);
    for (char& c : codes)
      if ((c & 0x7F) == 0x7F) c = 0x38;
    std::vector<float> scales(experts * grid), a(experts * rank * cols), b(rows * rank * experts);
    for (size_t i = 0; i < scales.size(); ++i) scales[i] = 0.01f * static_cast<float>(i + 1);
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 7) - 3;
    for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 5) * 0.25f - 0.5f;
    const auto adapter =
        adapter_of({{"x.experts.lora_A.weight", DType::F32, {experts * rank, cols}, f32_bytes(a)},
                    {"x.experts.lora_B.weight", DType::F32, {rows, rank * experts}, f32_bytes(b)}},
                   R"({"peft_type":"LORA","r":2,"lora_alpha":2,"target_parameters":["experts.up"]})");
    REQUIRE(adapter.ok());
    MemoryModel model;
    model.files["model.safetensors"] =
        model_file({{"x.experts.up", DType::F8_E4M3, {experts, rows, cols}, codes},
                    {"x.experts.up_scale_inv", DType::F32, {experts, (rows + 3) / 4, 2}, f32_bytes(scales)}});
    const Operation dequant{"dequant-fp8", {{"block-size", {"4"}}}};
    const auto plain = transform_in_memory(model, {dequant});
    INFO((plain.ok() ? "" : plain.error().message));
    REQUIRE(plain.ok());
    MemoryModel middle;
    for (const auto& [name, content] : plain->files) middle.files[name] = content;
    const auto second = transform_in_memory(middle, {merge_operation(*adapter)});
    REQUIRE(second.ok());
    for (const uint64_t tile : {uint64_t{16}, kDefaultTileBytes}) {
      TransformRequest request{.command = "run", .operations = {dequant, merge_operation(*adapter)}};
      request.tile_bytes = tile;
      const auto once = transform_in_memory(model, model.folder(), std::move(request));
      REQUIRE(once.ok());
      CHECK(merged_tensors(*once).at("x.experts.up").bytes ==
            merged_tensors(*second).at("x.experts.up").bytes);
    }
  }
}

TEST_CASE("numbers of options are read as Python's float reads them, finite ones only") {
  CHECK(parse_number("0.5") == 0.5);
  CHECK(parse_number(".5") == 0.5);
  CHECK(parse_number("-2.") == -2.0);
  CHECK(parse_number("+1e-3") == 0.001);
  CHECK(parse_number("007") == 7.0);
  for (const char* bad : {"", ".", "-", "1e", "nan", "inf", "1e999", "1,5", "0x1", " 1", "1 "})
    CHECK_FALSE(parse_number(bad).has_value());
}
