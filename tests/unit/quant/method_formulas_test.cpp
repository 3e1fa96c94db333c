// Layouts without reference files: each against its formula, element by element.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "tftf/base/bytes.h"
#include "tftf/simd/floats.h"
#include "transform_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

struct Formula {
  std::string title;
  std::vector<TestTensor> tensors;
  std::string config;
  Metadata metadata;
  std::string name;
  Shape shape;
  std::function<float(size_t row, size_t column)> value;
};

float element(const TestTensor& tensor, size_t i) {
  return static_cast<float>(
      element_as_f64(tensor.dtype, reinterpret_cast<const std::byte*>(tensor.bytes.data()), i));
}
uint32_t byte_at(const TestTensor& tensor, size_t i) { return static_cast<uint8_t>(tensor.bytes[i]); }

std::string halves(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint16_t> codes;
  for (size_t i = 0; i < count; ++i)
    codes.push_back(f16_from_f32(static_cast<float>(random() % 200) / 64.0f - 1.5f));
  return u16_bytes(codes);
}

// Bytes below `limit`: neither NaN nor far exponents.
std::string small_bytes(size_t count, uint32_t limit, uint32_t seed) {
  std::mt19937 random(seed);
  std::string out;
  for (size_t i = 0; i < count; ++i) out += static_cast<char>(random() % limit);
  return out;
}

std::vector<Formula> formulas() {
  std::vector<Formula> out;
  {
    const TestTensor q{"m._weight_qdata", DType::I8, {6, 32}, random_bytes(6 * 32, 1)};
    const TestTensor s{"m._weight_scale", DType::F16, {2, 6}, halves(12, 2)};
    const TestTensor z{"m._weight_zero_point", DType::F16, {2, 6}, halves(12, 3)};
    const Metadata metadata = {
        {"tensor_names", R"(["m.weight"])"},
        {"m.weight", R"({"_type":"Int4Tensor","_data":{"block_size":[1,32],"shape":[6,64]},)"
                     R"("_tensor_data_names":["qdata","scale","zero_point"]})"}};
    out.push_back(
        {"torchao-int4", {q, s, z}, {}, metadata, "m.weight", {6, 64}, [q, s, z](size_t r, size_t c) {
           const uint32_t pair = byte_at(q, r * 32 + c / 2);
           const auto code = static_cast<int>(c % 2 == 0 ? pair & 15 : pair >> 4);
           const float scaled = static_cast<float>(code < 8 ? code : code - 16) * element(s, c / 32 * 6 + r);
           return scaled + element(z, c / 32 * 6 + r);
         }});
  }
  {
    const TestTensor q{"m.weight", DType::U32, {5, 16}, small_bytes(5 * 64, 0x7E, 4)};
    const TestTensor s{"m.scales", DType::U8, {5, 2}, small_bytes(10, 32, 5)};
    out.push_back({"mlx-mxfp8", {q, s}, {}, {}, "m.weight", {5, 64}, [q, s](size_t r, size_t c) {
                     return f8_values(DType::F8_E4M3)[byte_at(q, r * 64 + c)] *
                            std::ldexp(1.0f, static_cast<int>(byte_at(s, r * 2 + c / 32)) - 127);
                   }});
  }
  {
    const TestTensor q{"m.weight", DType::U32, {5, 8}, random_bytes(5 * 32, 6)};
    const TestTensor s{"m.scales", DType::U8, {5, 4}, small_bytes(20, 0x7E, 7)};
    out.push_back({"mlx-nvfp4", {q, s}, {}, {}, "m.weight", {5, 64}, [q, s](size_t r, size_t c) {
                     const uint32_t pair = byte_at(q, r * 32 + c / 2);
                     return f4_values()[c % 2 == 0 ? pair & 15 : pair >> 4] *
                            f8_values(DType::F8_E4M3)[byte_at(s, r * 4 + c / 16)];
                   }});
  }
  {
    const TestTensor q{"m.weight", DType::U8, {7, 5}, random_bytes(35, 8)};
    const TestTensor s{"m.weight_scale", DType::F32, {7, 1}, f32_bytes({1, 2, 3.5f, 0.25f, 5, 6, 7})};
    out.push_back({"gemma-int2",
                   {q, s},
                   R"({"quantization_config":{"quant_method":"gemma","num_bits":2}})",
                   {},
                   "m.weight",
                   {7, 20},
                   [q, s](size_t r, size_t c) {
                     const auto code = static_cast<int>(byte_at(q, r * 5 + c / 4) >> (c % 4 * 2) & 3);
                     return static_cast<float>(code - 2) * element(s, r);
                   }});
  }
  {
    const TestTensor q{"m.weight._data", DType::F8_E5M2, {5, 9}, small_bytes(45, 0x7C, 9)};
    const TestTensor s{"m.weight._scale", DType::F16, {5, 1}, halves(5, 10)};
    out.push_back({"quanto-qfloat8", {q, s}, {}, {}, "m.weight", {5, 9}, [q, s](size_t r, size_t c) {
                     return f8_values(DType::F8_E5M2)[byte_at(q, r * 9 + c)] * element(s, r);
                   }});
  }
  {
    // 11 rows, four to a packed row: the last packed row is not full.
    const TestTensor q{"m.weight._data", DType::U8, {3, 9}, random_bytes(27, 11)};
    const TestTensor s{"m.weight._scale", DType::F16, {11, 1}, halves(11, 12)};
    const TestTensor z{"m.weight._shift", DType::F16, {11, 1}, halves(11, 13)};
    out.push_back({"quanto-qint2", {q, s, z}, {}, {}, "m.weight", {11, 9}, [q, s, z](size_t r, size_t c) {
                     const uint32_t code = byte_at(q, r % 3 * 9 + c) >> (r / 3 * 2) & 3;
                     const float scaled = element(s, r) * static_cast<float>(code);
                     return scaled - element(z, r);
                   }});
  }
  return out;
}

}  // namespace

TEST_CASE("layouts without reference files are decoded as their formulas say") {
  for (const Formula& of : formulas()) {
    MemoryModel model;
    model.files["model.safetensors"] = model_file(of.tensors, of.metadata);
    if (!of.config.empty()) model.files["config.json"] = of.config;
    for (const uint64_t tile : {kDefaultTileBytes, uint64_t{64}}) {
      INFO(of.title << ", tiles of " << tile);
      TransformRequest request{
          .command = "dequant", .operations = {{"dequant", {{"dtype", {"float32"}}}}}, .tile_bytes = tile};
      request.layout.single_file = true;
      const auto done = transform_in_memory(model, model.file("model.safetensors"), request);
      if (!done.ok()) UNSCOPED_INFO(done.error().message);
      REQUIRE(done.ok());
      CHECK(done->account.layouts.size() == 1);
      CHECK(done->account.layouts[0].id == of.title);
      const std::vector<TestTensor> tensors = tensors_of(done->files.at("model.safetensors"));
      REQUIRE(tensors.size() == 1);
      REQUIRE(tensors[0].name == of.name);
      REQUIRE(tensors[0].shape == of.shape);
      size_t wrong = 0;
      for (size_t r = 0; r < of.shape[0]; ++r)
        for (size_t c = 0; c < of.shape[1]; ++c)
          wrong += element(tensors[0], r * of.shape[1] + c) != of.value(r, c);
      CHECK(wrong == 0);
    }
  }
}
