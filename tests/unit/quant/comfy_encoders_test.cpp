// quantize --to comfy-fp8 and comfy-nvfp4: the bytes of ComfyUI's own code, the order of its scales, odd shapes, small tiles,
// and what has no code.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>

#include "data_file.h"
#include "tftf/base/bytes.h"
#include "tftf/simd/floats.h"
#include "transform_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

Result<TransformResult> quantised(const std::string& file, const std::string& layout,
                                  uint64_t tile = kDefaultTileBytes, TransformHostOptions host = {}) {
  MemoryModel model;
  model.files["model.safetensors"] = file;
  TransformRequest request{
      .command = "quantize", .operations = {{"quantize", {{"to", {layout}}}}}, .tile_bytes = tile};
  request.layout.single_file = true;
  return transform_in_memory(model, model.file("model.safetensors"), std::move(request), host);
}

std::map<std::string, TestTensor> encoded_by_name(const std::string& file) {
  std::map<std::string, TestTensor> out;
  for (TestTensor& tensor : tensors_of(file)) {
    const std::string name = tensor.name;
    out.emplace(name, std::move(tensor));
  }
  return out;
}

std::map<std::string, TestTensor> coded(const std::vector<float>& values, const Shape& shape, DType dtype,
                                        const std::string& layout) {
  std::string bytes = f32_bytes(values);
  if (dtype != DType::F32) {
    std::vector<uint16_t> narrow;
    for (const float x : values) narrow.push_back(dtype == DType::BF16 ? bf16_from_f32(x) : f16_from_f32(x));
    bytes = u16_bytes(narrow);
  }
  const auto result = quantised(model_file({{"m.weight", dtype, shape, bytes}}), layout);
  REQUIRE(result.ok());
  return encoded_by_name(result->files.at("model.safetensors"));
}

float float_of(const TestTensor& tensor) {
  REQUIRE(tensor.bytes.size() == sizeof(float));
  return load_le<float>(reinterpret_cast<const std::byte*>(tensor.bytes.data()));
}

uint8_t byte_of(const TestTensor& tensor, size_t at) { return static_cast<uint8_t>(tensor.bytes.at(at)); }

// The order of tensor cores, written as it is defined: tiles of 128 x 4, inside them rows 32 apart beside each other.
size_t swizzled_place(size_t row, size_t column, size_t columns) {
  const size_t tile = row / 128 * ((columns + 3) / 4) + column / 4;
  return tile * 512 + row % 32 * 16 + row % 128 / 32 * 4 + column % 4;
}

std::vector<float> normal_values(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 0.05f);
  std::vector<float> values(count);
  for (float& x : values) x = normal(random);
  return values;
}

}  // namespace

TEST_CASE("comfy-fp8 gives the bytes of ComfyUI") {
  for (const char* name : {"quantize-comfy-fp8-bf16", "quantize-comfy-fp8-f32"}) {
    INFO(name);
    const std::string folder = std::string("/golden/quant/") + name;
    const auto result = quantised(tftf_test::read_data(folder + "/model.safetensors"), "comfy-fp8");
    REQUIRE(result.ok());
    const auto got = encoded_by_name(result->files.at("model.safetensors"));
    const auto want = encoded_by_name(tftf_test::read_data(folder + "/expected.safetensors"));
    CHECK(got.size() == want.size());
    for (const auto& [tensor, expected] : want) {
      INFO(tensor);
      REQUIRE(got.count(tensor) == 1);
      CHECK(got.at(tensor).dtype == expected.dtype);
      if (tensor.find("comfy_quant") != std::string::npos) continue;  // JSON, however it is spaced
      CHECK(got.at(tensor).shape == expected.shape);
      CHECK(got.at(tensor).bytes == expected.bytes);
    }
  }
}

TEST_CASE("comfy-fp8 keeps the scale of F16 tensors where F16 has its reciprocal, and 1 for zeros") {
  const auto small = coded({1e-3f, -5e-4f, 0, 0}, {2, 2}, DType::F16, "comfy-fp8");
  const float largest = f32_from_f16(f16_from_f32(1e-3f));
  CHECK(float_of(small.at("m.weight_scale")) == 1.0f / std::min(1.0f / (largest / 448.0f), 65504.0f));
  const auto zeros = coded({0, 0, 0, 0}, {2, 2}, DType::BF16, "comfy-fp8");
  CHECK(float_of(zeros.at("m.weight_scale")) == 1.0f);
  CHECK(zeros.at("m.weight").bytes == std::string(4, '\0'));
}

TEST_CASE("comfy-nvfp4 gives codes, scales and paddings by the rule") {
  for (const auto& [rows, columns] :
       {std::pair<size_t, size_t>{16, 64}, {3, 5}, {48, 80}, {130, 50}, {257, 16}, {1, 200}}) {
    for (const DType dtype : {DType::F32, DType::BF16, DType::F16}) {
      INFO(rows << " x " << columns << " " << dtype_name(dtype));
      std::vector<float> values = normal_values(rows * columns, static_cast<uint32_t>(rows));
      const auto narrowed = [dtype](float x) {
        return dtype == DType::BF16  ? f32_from_bf16(bf16_from_f32(x))
               : dtype == DType::F16 ? f32_from_f16(f16_from_f32(x))
                                     : x;
      };
      float amax = 0;
      for (float& x : values) amax = std::max(amax, std::fabs(x = narrowed(x)));
      const auto got = coded(values, {rows, columns}, dtype, "comfy-nvfp4");
      const size_t padded_rows = (rows + 15) / 16 * 16, padded_columns = (columns + 15) / 16 * 16;
      const size_t groups = padded_columns / 16;
      const TestTensor &codes = got.at("m.weight"), &scales = got.at("m.weight_scale");
      REQUIRE(codes.shape == Shape{padded_rows, padded_columns / 2});
      REQUIRE(scales.shape == Shape{(rows + 127) / 128 * 128, (groups + 3) / 4 * 4});
      CHECK(codes.dtype == DType::U8);
      CHECK(scales.dtype == DType::F8_E4M3);
      const float global = float_of(got.at("m.weight_scale_2"));
      CHECK(global == narrowed(amax / 2688.0f));
      std::string wanted_scales(scales.bytes.size(), '\0');
      size_t wrong = 0;
      for (size_t r = 0; r < padded_rows; ++r)
        for (size_t g = 0; g < groups; ++g) {
          const auto value = [&values, row = r, all = rows, wide = columns](size_t c) {
            return row < all && c < wide ? values[row * wide + c] : 0.0f;
          };
          float largest = 0;
          for (size_t c = g * 16; c < g * 16 + 16; ++c) largest = std::max(largest, std::fabs(value(c)));
          const uint8_t scale =
              f8_from_f32(DType::F8_E4M3, std::min(largest / 6.0f / global, 448.0f), Overflow::kSpecial);
          wanted_scales[swizzled_place(r, g, groups)] = static_cast<char>(scale);
          const float total = global * f8_values(DType::F8_E4M3)[scale];
          for (size_t c = g * 16; c < g * 16 + 16; ++c) {
            const uint8_t want = total == 0.0f ? 0 : f4_from_f32(value(c) / total);
            const uint8_t pair = byte_of(codes, r * padded_columns / 2 + c / 2);
            wrong += (c % 2 == 0 ? pair >> 4 : pair & 15) != want ? 1 : 0;
          }
        }
      CHECK(wrong == 0);
      CHECK(scales.bytes == wanted_scales);
    }
  }
}

TEST_CASE("E2M1 rounds ties to the even code, and keeps the sign of what is too small") {
  // amax 6 and a global scale of 6 / 2688: the block scale is 448, their product 1.
  const std::vector<float> values = {6,      0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5,
                                     -0.25f, -0.1f, 0.3f,  -6,    0,     1,    4.9f, 5.1f};
  const auto got = coded(values, {1, 16}, DType::F32, "comfy-nvfp4");
  const TestTensor& codes = got.at("m.weight");
  for (size_t i = 0; i < values.size(); ++i) {
    INFO(values[i]);
    const uint8_t pair = byte_of(codes, i / 2);
    CHECK(int{i % 2 == 0 ? pair >> 4 : pair & 15} == int{f4_from_f32(values[i])});
  }
}

TEST_CASE("comfy layouts do not depend on tiles or kernels, and are read back within their bounds") {
  for (const char* layout : {"comfy-fp8", "comfy-nvfp4"}) {
    const size_t rows = 300, columns = 96;
    const std::vector<float> values = normal_values(rows * columns, 3);
    const std::string file = model_file({{"m.weight", DType::F32, {rows, columns}, f32_bytes(values)}});
    const auto once = quantised(file, layout);
    REQUIRE(once.ok());
    TransformHostOptions other;
    other.kernels = &best_kernels();
    other.seed = 11;
    const auto again = quantised(file, layout, 1024, other);
    REQUIRE(again.ok());
    CHECK(again->files.at("model.safetensors") == once->files.at("model.safetensors"));

    MemoryModel model;
    model.files["model.safetensors"] = once->files.at("model.safetensors");
    TransformRequest request{.command = "dequant", .operations = {{"dequant", {{"dtype", {"float32"}}}}}};
    request.layout.single_file = true;
    const auto back = transform_in_memory(model, model.file("model.safetensors"), std::move(request));
    REQUIRE(back.ok());
    const auto plain = encoded_by_name(back->files.at("model.safetensors"));
    REQUIRE(plain.size() == 1);
    const std::string& bytes = plain.at("m.weight").bytes;
    float amax = 0;
    for (const float x : values) amax = std::max(amax, std::fabs(x));
    size_t outside = 0;
    const bool fp8 = std::string(layout) == "comfy-fp8";
    for (size_t r = 0; r < rows; ++r)
      for (size_t c = 0; c < columns; ++c) {
        float scope = 0;
        for (size_t i = c / 16 * 16; i < c / 16 * 16 + 16; ++i)
          scope = std::max(scope, std::fabs(values[r * columns + i]));
        const auto got =
            load_le<float>(reinterpret_cast<const std::byte*>(bytes.data()) + (r * columns + c) * 4);
        const double bound = fp8 ? amax / 28.0 : scope / 6.0 * 17.0 / 16.0;
        outside += std::fabs(double{got} - values[r * columns + c]) > bound * (1 + 1e-5) ? 1 : 0;
      }
    CHECK(outside == 0);
  }
}

TEST_CASE("comfy layouts refuse what has no code, and names that ComfyUI does not look for") {
  for (const char* layout : {"comfy-fp8", "comfy-nvfp4"}) {
    INFO(layout);
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      const auto result =
          quantised(model_file({{"m.weight", DType::F32, {1, 2}, f32_bytes({1, bad})}}), layout);
      REQUIRE_FALSE(result.ok());
      CHECK(result.error().message.find("m.weight") != std::string::npos);
      CHECK(result.error().message.find("1 value") != std::string::npos);
    }
    const auto named = quantised(model_file({{"m.kernel", DType::F32, {1, 2}, f32_bytes({1, 2})}}), layout);
    REQUIRE_FALSE(named.ok());
    CHECK(named.error().message.find("*.weight") != std::string::npos);
  }
}
