// GPTQ and AWQ: writing against the formula, tiles and sources that leave no trace, what readers are told, refusals.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "qweight_models.h"
#include "tftf/base/json_text.h"
#include "tftf/simd/floats.h"

using namespace tftf;
using namespace tftf::test;

namespace {

using Given = std::vector<Operation::Given>;

Operation quantize(const std::string& to, Given more = {}) {
  Operation operation{.id = "quantize", .options = {{"to", {to}}}};
  for (auto& option : more) operation.options.push_back(std::move(option));
  return operation;
}

// Values around zero, rows of one sign, a row and a group of zeros.
std::vector<float> values_of(uint64_t rows, uint64_t columns, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values;
  for (uint64_t n = 0; n < rows; ++n) {
    for (uint64_t k = 0; k < columns; ++k) {
      float value = (static_cast<float>(random() % 20001) - 10000.0f) / 65536.0f;
      if (n == 1) value = std::abs(value) + 0.25f;
      if (n == 2) value = -std::abs(value);
      if (n == 3 || (n == 4 && k < 16)) value = 0.0f;
      values.push_back(f32_from_bf16(bf16_from_f32(value)));
    }
  }
  return values;
}

MemoryModel plain_model(uint64_t rows, uint64_t columns, const std::vector<float>& values, DType dtype) {
  std::string bytes = f32_bytes(values);
  if (dtype != DType::F32) {
    std::vector<uint16_t> halves;
    for (const float value : values)
      halves.push_back(dtype == DType::BF16 ? bf16_from_f32(value) : f16_from_f32(value));
    bytes = u16_bytes(halves);
  }
  MemoryModel model;
  model.files["model.safetensors"] = model_file({{"l.0.q.weight", dtype, {rows, columns}, bytes}});
  model.files["config.json"] = R"({"model_type": "llama"})";
  return model;
}

Result<TransformResult> run(const MemoryModel& model, std::vector<Operation> operations,
                            uint64_t tile = kDefaultTileBytes, const KernelTable* kernels = nullptr) {
  TransformRequest request{.command = "run", .operations = std::move(operations), .tile_bytes = tile};
  return transform_in_memory(model, model.folder(), std::move(request), {.kernels = kernels, .seed = 4});
}

struct Wanted {
  float scale = 0;
  int zero = 0;
};

// The formula once more, in other words.
Wanted wanted_scale(const std::vector<float>& group, uint32_t bits, bool asymmetric, bool v1) {
  const float most = static_cast<float>((1 << bits) - 1);
  float low = std::min(0.0f, *std::min_element(group.begin(), group.end()));
  float high = std::max(0.0f, *std::max_element(group.begin(), group.end()));
  if (!asymmetric) low = -(high = std::max(high, -low));
  if (low == 0.0f && high == 0.0f) {
    low = -1.0f;
    high = 1.0f;
  }
  if (!asymmetric) return {(high - low) / most, 1 << (bits - 1)};
  const float scale = (high - low) / most;
  const int zero = static_cast<int>(std::lrint(-low / scale));
  if (zero == 0 && v1) return {(high - low) / (most - 1.0f), 1};
  return {scale, zero};
}

}  // namespace

TEST_CASE("codes, zero points and scales are those of the formula, for every layout, width and group") {
  struct Form {
    const char* to;
    uint32_t bits;
    uint64_t group;  // 0: whole rows
    uint64_t rows, columns;
  };
  for (const Form& form :
       {Form{"gptq-v1", 4, 32, 40, 96}, Form{"gptq-v1", 4, 64, 32, 96}, Form{"gptq-v2", 4, 0, 16, 72},
        Form{"gptq-v1", 2, 16, 48, 80}, Form{"gptq-v2", 3, 32, 32, 160}, Form{"gptq-v1", 8, 24, 12, 100},
        Form{"awq-gemm", 4, 32, 24, 64}, Form{"awq-gemm", 4, 0, 8, 52}}) {
    for (const bool asymmetric : {false, true}) {
      for (const DType dtype : {DType::F32, DType::BF16}) {
        INFO(form.to << " b" << form.bits << " g" << form.group << (asymmetric ? " asymmetric" : ""));
        const auto values = values_of(form.rows, form.columns, 7);
        const MemoryModel model = plain_model(form.rows, form.columns, values, dtype);
        Given options = {{"bits", {std::to_string(form.bits)}},
                         {"group-size", {form.group == 0 ? "-1" : std::to_string(form.group)}}};
        if (asymmetric) options.push_back({"asymmetric", {}});
        const auto result = run(model, {quantize(form.to, options)});
        INFO((result ? "" : result.error().message));
        REQUIRE(result.ok());
        const auto tensors = result_tensors(*result);
        const uint64_t group = form.group == 0 ? form.columns : form.group;
        const QweightModule got =
            read_module(tensors, "l.0.q", form.to, form.bits, form.rows, form.columns, group);
        CHECK(tensors.at("l.0.q.scales").dtype == (dtype == DType::BF16 ? DType::BF16 : DType::F16));
        CHECK(tensors.size() == (got.index.empty() ? 3 : 4));
        const bool v1 = std::string(form.to) == "gptq-v1";
        uint64_t wrong = 0;
        for (uint64_t n = 0; n < form.rows; ++n) {
          for (uint64_t i = 0; i < got.groups(); ++i) {
            const auto begin = values.begin() + static_cast<ptrdiff_t>(n * form.columns + i * group);
            const std::vector<float> of_group(
                begin, begin + static_cast<ptrdiff_t>(std::min(group, form.columns - i * group)));
            const Wanted want = wanted_scale(of_group, form.bits, asymmetric, v1);
            const float stored = dtype == DType::BF16 ? f32_from_bf16(bf16_from_f32(want.scale))
                                                      : f32_from_f16(f16_from_f32(want.scale));
            wrong += got.scales[i][n] != stored;
            wrong += got.zeros[i][n] != static_cast<uint32_t>(want.zero);
            for (uint64_t k = 0; k < of_group.size(); ++k) {
              const long code =
                  std::clamp<long>(std::lrint(of_group[k] / want.scale) + want.zero, 0, (1 << form.bits) - 1);
              wrong += got.codes[i * group + k][n] != static_cast<uint32_t>(code);
            }
          }
        }
        CHECK(wrong == 0);
        for (uint64_t k = 0; k < got.index.size(); ++k) wrong += got.index[k] != k / group;
        CHECK(wrong == 0);

        // Read again, no value is further away than half a step and what the scale's dtype rounds off.
        MemoryModel again;
        again.files = result->files;
        const auto back = run(again, {{"dequant", {{"dtype", {"float32"}}}}});
        INFO((back ? "" : back.error().message));
        REQUIRE(back.ok());
        const std::vector<float> read = weight_of(got);
        CHECK((result_tensors(*back).at("l.0.q.weight").bytes == f32_bytes(read)));
        const float rounding = dtype == DType::BF16 ? 0x1p-8f : 0x1p-11f;
        for (uint64_t n = 0; n < form.rows; ++n) {
          for (uint64_t k = 0; k < form.columns; ++k) {
            const float step = got.scales[k / group][n] / (1.0f - rounding);
            const float most = step * (0.5f + static_cast<float>((1 << form.bits) - 1) * rounding) * 1.00001f;
            wrong += std::abs(read[n * form.columns + k] - values[n * form.columns + k]) > most;
          }
        }
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("tiles, kernels, casts before and a quantised source leave no trace in codes") {
  const auto values = values_of(64, 384, 3);
  const MemoryModel model = plain_model(64, 384, values, DType::BF16);
  for (const char* to : {"gptq-v1", "awq-gemm"}) {
    const auto whole = run(model, {quantize(to)});
    REQUIRE(whole.ok());
    const auto want = result_tensors(*whole);
    for (const KernelTable* kernels : available_kernels()) {
      for (const uint64_t tile : {uint64_t{1}, uint64_t{5000}}) {
        const auto result = run(model, {quantize(to)}, tile, kernels);
        REQUIRE(result.ok());
        for (const auto& [name, tensor] : result_tensors(*result))
          CHECK((tensor.bytes == want.at(name).bytes));
      }
    }
    // The same values as F32, cast before: scales are F16 then, codes the same.
    const auto cast =
        run(plain_model(64, 384, values, DType::F32), {{"cast", {{"dtype", {"bfloat16"}}}}, quantize(to)});
    REQUIRE(cast.ok());
    CHECK((result_tensors(*cast).at("l.0.q.qweight").bytes == want.at("l.0.q.qweight").bytes));
    // From codes: as from the floats that they stand for.
    MemoryModel coded;
    coded.files = whole->files;
    const auto plain = run(coded, {{"dequant", {{"dtype", {"float32"}}}}});
    REQUIRE(plain.ok());
    MemoryModel floats;
    floats.files = plain->files;
    const auto one = run(coded, {quantize("gptq-v2", {{"bits", {"8"}}, {"group-size", {"64"}}})});
    const auto two = run(floats, {quantize("gptq-v2", {{"bits", {"8"}}, {"group-size", {"64"}}})});
    REQUIRE(one.ok());
    REQUIRE(two.ok());
    const auto a = result_tensors(*one), b = result_tensors(*two);
    CHECK(a.size() == 4);
    CHECK(a.size() == b.size());
    for (const auto& [name, tensor] : b) CHECK((a.at(name).bytes == tensor.bytes));
  }
}

TEST_CASE("a matrix wider than a strip is written strip by strip") {
  const uint64_t rows = 16384, columns = 256;
  const MemoryModel model = plain_model(rows, columns, values_of(rows, columns, 5), DType::F16);
  const auto strips = run(model, {quantize("gptq-v1")});
  const auto whole =
      run(model, {{"cast", {{"dtype", {"float32"}}}}, quantize("gptq-v1", {{"group-size", {"-1"}}})});
  REQUIRE(strips.ok());
  REQUIRE(whole.ok());
  CHECK(strips->steps > 1);
  CHECK(whole->steps == 1);
  CHECK(strips->memory < whole->memory);
  const auto tensors = result_tensors(*strips);
  const auto index = words_of(tensors.at("l.0.q.g_idx").bytes);
  REQUIRE(index.size() == columns);
  for (uint64_t k = 0; k < columns; ++k) CHECK(index[k] == k / 128);
  MemoryModel again;
  again.files = strips->files;
  const auto back = run(again, {{"dequant", {{"dtype", {"float32"}}}}});
  REQUIRE(back.ok());
}

TEST_CASE("config.json says what loaders look for") {
  MemoryModel model = plain_model(32, 64, values_of(32, 64, 1), DType::BF16);
  const std::string bytes(2 * 32 * 64, '\x3c');
  model.files["model.safetensors"] = model_file({{"embed_tokens.weight", DType::BF16, {32, 64}, bytes},
                                                 {"l.0.gate.weight", DType::BF16, {32, 64}, bytes},
                                                 {"l.0.q.weight", DType::BF16, {32, 64}, bytes}});
  model.files["quantize_config.json"] = R"({"bits": 8, "group_size": 32})";
  const Given some = {{"exclude", {"*embed*"}}, {"exclude", {"*gate*"}}, {"group-size", {"32"}}};
  const auto gptq = run(model, {quantize("gptq", some)});
  INFO((gptq ? "" : gptq.error().message));
  REQUIRE(gptq.ok());
  CHECK(gptq->account.warnings.empty());
  const OrderedJson section = OrderedJson::parse(gptq->files.at("config.json"))["quantization_config"];
  CHECK(section["quant_method"] == "gptq");
  CHECK(section["bits"] == 4);
  CHECK(section["group_size"] == 32);
  CHECK(section["sym"] == true);
  CHECK(section["desc_act"] == false);
  CHECK(section["checkpoint_format"] == "gptq");
  CHECK(section["dynamic"].size() == 1);
  CHECK(section["dynamic"].contains("-:^l\\.0\\.gate$"));
  CHECK(std::count(gptq->copied.begin(), gptq->copied.end(), "quantize_config.json") == 0);
  Given whole = {{"exclude", {"*embed*"}}, {"group-size", {"-1"}}, {"asymmetric", {}}};
  const auto v2 = run(model, {quantize("gptq-v2", whole)});
  REQUIRE(v2.ok());
  const OrderedJson other = OrderedJson::parse(v2->files.at("config.json"))["quantization_config"];
  CHECK(other["checkpoint_format"] == "gptq_v2");
  CHECK(other["group_size"] == -1);
  CHECK(other["sym"] == false);
  const auto awq = run(model, {quantize("awq", some)});
  REQUIRE(awq.ok());
  const OrderedJson third = OrderedJson::parse(awq->files.at("config.json"))["quantization_config"];
  CHECK(third["quant_method"] == "awq");
  CHECK(third["version"] == "gemm");
  CHECK(third["zero_point"] == true);
  CHECK(third["modules_to_not_convert"] == OrderedJson({"l.0.gate"}));
  const auto all = run(model, {quantize("gptq")});
  REQUIRE(all.ok());
  CHECK(all->account.warnings.size() == 1);  // the embedding
}

TEST_CASE("what does not fit the layout is refused, by option or by tensor") {
  const auto model = [](uint64_t rows, uint64_t columns) {
    return plain_model(rows, columns, values_of(rows, columns, 2), DType::F32);
  };
  const auto code = [](const Result<TransformResult>& result) {
    return result.ok() ? std::optional<ErrorCode>() : result.error().code;
  };
  const auto fits = model(32, 64);
  CHECK(code(run(fits, {quantize("gptq-v1", {{"bits", {"5"}}})})) == ErrorCode::kUsage);
  CHECK(code(run(fits, {quantize("awq", {{"bits", {"8"}}})})) == ErrorCode::kUsage);
  CHECK(code(run(fits, {quantize("gptq", {{"group-size", {"8"}}})})) == ErrorCode::kUsage);
  CHECK(code(run(fits, {quantize("gptq", {{"bits", {"3"}}, {"group-size", {"48"}}})})) == ErrorCode::kUsage);
  CHECK(code(run(fits, {quantize("awq", {{"group-size", {"48"}}})})) == ErrorCode::kUsage);
  CHECK(code(run(fits, {quantize("fp8-block", {{"asymmetric", {}}})})) == ErrorCode::kUsage);
  CHECK(code(run(fits, {quantize("fp8-block", {{"group-size", {"-1"}}})})) == ErrorCode::kUsage);
  CHECK(code(run(fits, {quantize("colibri-int4-grouped", {{"group-size", {"-1"}}})})) == ErrorCode::kUsage);
  for (const auto& [rows, columns] : {std::pair<uint64_t, uint64_t>{33, 64}, {32, 68}, {32, 8}}) {
    const auto refused = run(model(rows, columns), {quantize("gptq-v1")});
    CHECK(code(refused) == ErrorCode::kRefusedUnsupported);
    CHECK(refused.error().message.find("l.0.q.weight") != std::string::npos);
  }
  CHECK(code(run(model(8, 96), {quantize("awq", {{"group-size", {"64"}}})})) ==
        ErrorCode::kRefusedUnsupported);
  CHECK(run(model(8, 96), {quantize("gptq", {{"group-size", {"64"}}})}).ok());
  // NaN, and a range that no F16 scale spans.
  for (const float bad : {std::nanf(""), HUGE_VALF, 3e38f}) {
    auto values = values_of(32, 64, 2);
    values[77] = bad;
    const auto refused =
        run(plain_model(32, 64, values, DType::F32), {quantize("gptq-v1", {{"bits", {"2"}}})});
    CHECK(code(refused) == ErrorCode::kRefusedValues);
  }
}
