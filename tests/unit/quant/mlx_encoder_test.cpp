// What is written for MLX, against its own quantiser's formula, element by element.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>

#include "tftf/base/json_value.h"
#include "tftf/simd/floats.h"
#include "transform_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

std::string narrowed(const std::vector<float>& values, DType dtype) {
  if (dtype == DType::F32) return f32_bytes(values);
  std::vector<uint16_t> codes;
  for (const float x : values) codes.push_back(dtype == DType::BF16 ? bf16_from_f32(x) : f16_from_f32(x));
  return u16_bytes(codes);
}

float rounded(float x, DType dtype) {
  if (dtype == DType::BF16) return f32_from_bf16(bf16_from_f32(x));
  return dtype == DType::F16 ? f32_from_f16(f16_from_f32(x)) : x;
}

Result<TransformResult> to_mlx(const MemoryModel& model, std::vector<Operation::Given> more,
                               uint64_t tile = kDefaultTileBytes, TransformHostOptions host = {}) {
  Operation operation{"quantize", {{"to", {"mlx-affine"}}}};
  for (Operation::Given& given : more) operation.options.push_back(std::move(given));
  TransformRequest request{.command = "quantize", .operations = {operation}, .tile_bytes = tile};
  request.layout.single_file = true;
  return transform_in_memory(model, model.file("model.safetensors"), std::move(request), host);
}

std::map<std::string, TestTensor> tensors_by_name(const TransformResult& result) {
  std::map<std::string, TestTensor> out;
  for (TestTensor& tensor : tensors_of(result.files.at("model.safetensors")))
    out.emplace(tensor.name, tensor);
  return out;
}

}  // namespace

TEST_CASE("matrices become what MLX's quantiser makes of them, whatever the tile") {
  std::mt19937 random(31);
  std::normal_distribution<float> normal(0.01f, 0.05f);
  for (const uint32_t bits : {2u, 3u, 4u, 5u, 6u, 8u})
    for (const size_t group : {size_t{32}, size_t{64}, size_t{128}})
      for (const DType dtype : {DType::F32, DType::BF16, DType::F16}) {
        INFO(bits << " bits, groups of " << group << ", " << dtype_name(dtype));
        const size_t rows = 5, columns = group * 3;
        std::vector<float> values(rows * columns);
        for (float& x : values) x = rounded(normal(random), dtype);
        for (size_t i = 0; i < group; ++i) values[i] = 0.0f;            // a group of zeros
        for (size_t i = group; i < 2 * group; ++i) values[i] = 0.125f;  // one value
        MemoryModel model;
        model.files["model.safetensors"] =
            model_file({{"m.weight", dtype, {rows, columns}, narrowed(values, dtype)}});
        const std::vector<Operation::Given> options = {{"bits", {std::to_string(bits)}},
                                                       {"group-size", {std::to_string(group)}}};
        const auto done = to_mlx(model, options);
        if (!done.ok()) UNSCOPED_INFO(done.error().message);
        REQUIRE(done.ok());
        const auto again = to_mlx(model, options, 1024, {&best_kernels(), 5});
        REQUIRE(again.ok());
        CHECK(again->files == done->files);

        std::vector<float> scales, biases;
        std::string codes(rows * columns * bits / 8, '\0');
        const float most = static_cast<float>((1u << bits) - 1);
        for (size_t begin = 0; begin < values.size(); begin += group) {
          const auto first = values.begin() + static_cast<ptrdiff_t>(begin);
          const float low = *std::min_element(first, first + static_cast<ptrdiff_t>(group));
          const float high = *std::max_element(first, first + static_cast<ptrdiff_t>(group));
          const bool below = std::abs(low) > std::abs(high);
          float scale = std::max((high - low) / most, 1e-7f), bias = 0;
          if (!below) scale = -scale;
          const float edge = below ? low : high, steps = std::rint(edge / scale);
          if (steps != 0.0f) {
            scale = edge / steps;
            bias = edge;
          }
          scales.push_back(scale);
          biases.push_back(bias);
          for (size_t i = 0; i < group; ++i) {
            const float code = std::rint((values[begin + i] - bias) / scale);
            const auto whole = static_cast<uint32_t>(std::min(std::max(code, 0.0f), most));
            for (uint32_t b = 0; b < bits; ++b) {
              const size_t bit = (begin + i) * bits + b;
              codes[bit / 8] =
                  static_cast<char>(static_cast<uint8_t>(codes[bit / 8]) | (whole >> b & 1) << (bit % 8));
            }
          }
        }
        const auto tensors = tensors_by_name(*done);
        CHECK(tensors.size() == 3);
        CHECK(tensors.at("m.weight").dtype == DType::U32);
        CHECK(tensors.at("m.weight").shape == Shape{rows, columns * bits / 32});
        CHECK(tensors.at("m.weight").bytes == codes);
        CHECK(tensors.at("m.scales").dtype == dtype);
        CHECK(tensors.at("m.scales").shape == Shape{rows, 3});
        CHECK(tensors.at("m.scales").bytes == narrowed(scales, dtype));
        CHECK(tensors.at("m.biases").bytes == narrowed(biases, dtype));

        // docs/numerics.md, "Error bounds".
        if (dtype != DType::F32) continue;
        size_t outside = 0;
        for (size_t i = 0; i < values.size(); ++i) {
          const auto first = values.begin() + static_cast<ptrdiff_t>(i / group * group);
          const auto [low, high] = std::minmax_element(first, first + static_cast<ptrdiff_t>(group));
          uint32_t code = 0;
          for (uint32_t b = 0; b < bits; ++b)
            code |= (static_cast<uint8_t>(codes[(i * bits + b) / 8]) >> ((i * bits + b) % 8) & 1u) << b;
          const float back = static_cast<float>(code) * scales[i / group] + biases[i / group];
          outside += std::abs(back - values[i]) > (*high - *low) / most + 1e-6f;
        }
        CHECK(outside == 0);
      }
}

TEST_CASE("what MLX cannot hold is refused; its section stands under both names") {
  MemoryModel model;
  const std::string bytes = f32_bytes(std::vector<float>(2 * 96, 0.5f));
  model.files["model.safetensors"] = model_file({{"m.weight", DType::F32, {2, 96}, bytes}});
  CHECK_FALSE(to_mlx(model, {}).ok());  // groups of 64
  CHECK_FALSE(to_mlx(model, {{"bits", {"7"}}, {"group-size", {"32"}}}).ok());
  CHECK_FALSE(to_mlx(model, {{"bits", {"1"}}, {"group-size", {"32"}}}).ok());
  CHECK_FALSE(to_mlx(model, {{"group-size", {"16"}}}).ok());
  CHECK(to_mlx(model, {{"group-size", {"32"}}}).ok());
  model.files["config.json"] = R"({"model_type": "llama"})";
  const auto done =
      transform_in_memory(model, {{"quantize", {{"to", {"mlx-affine"}}, {"group-size", {"32"}}}}});
  REQUIRE(done.ok());
  const JsonDocument config = parse_json(done->files.at("config.json"), JsonDialect::kPython);
  REQUIRE_FALSE(config.error);
  for (const char* key : {"quantization", "quantization_config"}) {
    const JsonValue* section = config.root.get(key);
    REQUIRE(section != nullptr);
    CHECK(section->integer("bits") == 4);
    CHECK(section->integer("group_size") == 32);
  }
  // And it is read again by that.
  MemoryModel written;
  written.files = done->files;
  const auto back = transform_in_memory(written, {{"dequant", {{"dtype", {"native"}}}}});
  if (!back.ok()) UNSCOPED_INFO(back.error().message);
  REQUIRE(back.ok());
  CHECK(back->files.at("config.json").find("quantization") == std::string::npos);
}
