// dequant-fp8 against the formula, element by element.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "tftf/base/bytes.h"
#include "tftf/quant/fp8.h"
#include "tftf/simd/floats.h"
#include "transform_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

struct Case {
  std::string title;
  DType weight_dtype;
  Shape weight;
  DType scale_dtype;
  Shape scale;
  bool divide = false;
  std::string block = "4";
};

std::string scale_bytes_of(DType dtype, size_t count, uint32_t seed) {
  std::string bytes;
  for (size_t i = 0; i < count; ++i) {
    const float value = 0.25f + static_cast<float>((i * 7 + seed) % 13) * 0.375f;
    std::byte buffer[8];
    switch (dtype) {
      case DType::F32:
        store_le(buffer, value);
        break;
      case DType::BF16:
        store_le(buffer, bf16_from_f32(value));
        break;
      case DType::F16:
        store_le(buffer, f16_from_f32(value));
        break;
      case DType::F64:
        store_le(buffer, static_cast<double>(value) * 1.0000001);
        break;
      default:
        buffer[0] = static_cast<std::byte>(120 + (i * 5 + seed) % 16);
        break;
    }
    bytes.append(reinterpret_cast<const char*>(buffer), dtype_bits(dtype) / 8);
  }
  return bytes;
}

// What spec tftf 2.4 says, with no regard to speed or memory.
std::string expected(const Case& c, const std::string& codes, const std::string& scales, DType to) {
  const uint64_t block = std::stoull(c.block);
  const auto g = fp8_geometry(c.weight, c.scale, {block, block});
  REQUIRE(g.has_value());
  const auto* code_bytes = reinterpret_cast<const std::byte*>(codes.data());
  const auto* scale_bytes = reinterpret_cast<const std::byte*>(scales.data());
  std::string out;
  const uint64_t per_matrix = g->rows * g->cols;
  for (uint64_t e = 0; e < codes.size(); ++e) {
    const uint64_t m = g->shared ? 0 : e / per_matrix, i = e % per_matrix / g->cols, j = e % g->cols;
    const uint64_t at = (g->shared ? 0 : m * g->grid_elements) + i / g->block_rows * g->row_stride +
                        j / g->block_cols * g->col_stride;
    const float w = static_cast<float>(element_as_f64(c.weight_dtype, code_bytes, e));
    const float s = f32_from_f64(element_as_f64(c.scale_dtype, scale_bytes, at));
    float y = c.divide ? w / s : w * s;
    if (std::isnan(y)) y = std::nanf("");
    std::byte buffer[4];
    if (to == DType::F32) store_le(buffer, std::isnan(y) ? bit_cast<float>(0x7FC00000u) : y);
    if (to == DType::BF16) store_le(buffer, std::isnan(y) ? uint16_t{0x7FC0} : bf16_from_f32(y));
    if (to == DType::F16) store_le(buffer, std::isnan(y) ? uint16_t{0x7E00} : f16_from_f32(y));
    out.append(reinterpret_cast<const char*>(buffer), dtype_bits(to) / 8);
  }
  return out;
}

MemoryModel model_of(const Case& c, std::string& codes, std::string& scales) {
  codes = random_bytes(static_cast<size_t>(*element_count(c.weight)), 7);
  scales = scale_bytes_of(c.scale_dtype, static_cast<size_t>(*element_count(c.scale)), 3);
  const std::string scale_name = c.divide ? "m.weight_scale" : "m.weight_scale_inv";
  MemoryModel model;
  model.files["model.safetensors"] = model_file({{"m.a_between", DType::F32, {1}, f32_bytes({7})},
                                                 {"m.weight", c.weight_dtype, c.weight, codes},
                                                 {"m.weight_before", DType::U8, {3}, "abc"},
                                                 {scale_name, c.scale_dtype, c.scale, scales},
                                                 {"z", DType::BF16, {2}, u16_bytes({1, 2})}});
  return model;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> list = {
      {"block grid", DType::F8_E4M3, {7, 10}, DType::F32, {2, 3}},
      {"block grid, bf16 scales", DType::F8_E5M2, {16, 16}, DType::BF16, {4, 4}},
      {"transposed grid", DType::F8_E4M3, {7, 10}, DType::F32, {3, 2}},
      {"transposed grid, one column", DType::F8_E4M3, {3, 9}, DType::F16, {3, 1}},
      {"one scale", DType::F8_E4M3FNUZ, {5, 3}, DType::F32, {1}},
      {"one scale, no dimension", DType::F8_E5M2FNUZ, {5, 9}, DType::F64, {}},
      {"rows", DType::F8_E4M3, {5, 9}, DType::F32, {5}},
      {"rows, two dimensions", DType::F8_E4M3, {5, 9}, DType::BF16, {5, 1}},
      {"columns", DType::F8_E4M3, {5, 9}, DType::F32, {1, 9}},
      {"e8m0 scales", DType::F8_E4M3, {9, 9}, DType::F8_E8M0, {3, 3}},
      {"divided", DType::F8_E4M3, {8, 8}, DType::F32, {2, 2}, true},
      {"divided by f64", DType::F8_E4M3, {8, 8}, DType::F64, {2, 2}, true},
      {"stack of grids", DType::F8_E4M3, {3, 7, 10}, DType::F32, {3, 2, 3}},
      {"stack of whole grids", DType::F8_E4M3, {3, 8, 10}, DType::F32, {3, 2, 3}},
      {"stack of transposed grids", DType::F8_E4M3, {3, 7, 10}, DType::F32, {3, 3, 2}},
      {"stack of single scales", DType::F8_E4M3, {3, 7, 10}, DType::F32, {3, 1, 1}},
      {"stack of rows", DType::F8_E4M3, {3, 7, 10}, DType::F32, {3, 7, 1}},
      {"stack of columns", DType::F8_E4M3, {3, 7, 10}, DType::F32, {3, 1, 10}},
      {"stack with one scale", DType::F8_E4M3, {3, 7, 10}, DType::F32, {1}},
      {"blocks of one", DType::F8_E4M3, {5, 7}, DType::F32, {5, 7}, false, "1"},
      {"one row", DType::F8_E4M3, {1, 50}, DType::F32, {1, 13}},
      {"one column", DType::F8_E4M3, {50, 1}, DType::F32, {13, 1}},
      {"a vector", DType::F8_E4M3, {33}, DType::F32, {}},
      {"no elements", DType::F8_E4M3, {0, 5}, DType::F32, {0, 2}},
      {"larger than any tile", DType::F8_E4M3, {150, 70}, DType::F32, {2, 1}, false, "128"},
      {"wide", DType::F8_E4M3, {3, 3000}, DType::F32, {1, 750}},
      {"wide and transposed", DType::F8_E4M3, {9, 3000}, DType::F32, {750, 3}},
  };
  return list;
}

}  // namespace

TEST_CASE("every kind of scale gives the bytes of the formula, whatever the tiles and kernels") {
  for (const Case& c : cases()) {
    std::string codes, scales;
    const MemoryModel model = model_of(c, codes, scales);
    for (const auto& [name, to] :
         {std::pair("bfloat16", DType::BF16), {"float16", DType::F16}, {"float32", DType::F32}}) {
      const std::string want = expected(c, codes, scales, to);
      for (const uint64_t tile :
           {uint64_t{1}, uint64_t{64}, uint64_t{1024}, uint64_t{1} << 16, uint64_t{1} << 20}) {
        for (const KernelTable* kernels : available_kernels()) {
          INFO(c.title << " to " << name << ", tile " << tile << ", " << kernels->name);
          TransformRequest request{.command = "dequant-fp8", .input = "model", .output = "out"};
          request.operations = {{"dequant-fp8", {{"dtype", {name}}, {"block-size", {c.block}}}}};
          if (c.divide) request.operations[0].options.push_back({"weight-scale", {"divide"}});
          request.tile_bytes = tile;
          auto result = transform_in_memory(model, model.folder(), request,
                                            {.kernels = kernels, .seed = static_cast<uint32_t>(tile)});
          INFO((result ? "" : result.error().message));
          REQUIRE(result.ok());
          const auto tensors = tensors_of(result->files.at("model-00001-of-00001.safetensors"));
          REQUIRE(tensors.size() == 4);
          CHECK(tensors[0].name == "m.a_between");
          CHECK(tensors[1].name == "m.weight");
          CHECK(tensors[1].dtype == to);
          CHECK(tensors[1].shape == c.weight);
          CHECK((tensors[1].bytes == want));
          CHECK(tensors[2].bytes == "abc");
          CHECK(tensors[3].bytes == u16_bytes({1, 2}));
        }
      }
    }
  }
}

TEST_CASE("tiles really cut the work into pieces") {
  std::string codes, scales;
  const MemoryModel model = model_of(cases().back(), codes, scales);
  TransformRequest request{.command = "dequant-fp8"};
  request.operations = {{"dequant-fp8", {{"block-size", {"4"}}}}};
  request.tile_bytes = 1024;
  auto small = transform_in_memory(model, model.folder(), request);
  REQUIRE(small.ok());
  CHECK(small->steps >= 9 * 3000 * 2 / 1024);
}

namespace {

Result<TransformResult> dequant(std::vector<TestTensor> tensors, const std::string& config = "",
                                std::vector<Operation::Given> options = {{"block-size", {"4"}}}) {
  MemoryModel model;
  model.files["model.safetensors"] = model_file(tensors);
  if (!config.empty()) model.files["config.json"] = config;
  return transform_in_memory(model, {{"dequant-fp8", std::move(options)}});
}

TestTensor fp8(const std::string& name, const Shape& shape) {
  return {name, DType::F8_E4M3, shape, std::string(static_cast<size_t>(*element_count(shape)), '\x38')};
}
TestTensor scale(const std::string& name, const Shape& shape, float value = 2) {
  return {name, DType::F32, shape,
          f32_bytes(std::vector<float>(static_cast<size_t>(*element_count(shape)), value))};
}
std::string refusal(const Result<TransformResult>& result, ErrorCode code) {
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().code == code);
  return result.error().message;
}
bool says(const std::string& message, const std::string& what) {
  return message.find(what) != std::string::npos;
}

}  // namespace

TEST_CASE("a weight without scale is refused unless its codes are to be taken as they are") {
  const std::vector<TestTensor> tensors = {fp8("a.weight", {2, 2}), scale("norm", {2})};
  CHECK(says(refusal(dequant(tensors), ErrorCode::kRefusedMissing), "\"a.weight\" of \"model.safetensors\""));
  auto result = dequant(tensors, "", {{"allow-unscaled", {}}});
  REQUIRE(result.ok());
  const auto out = tensors_of(result->files.at("model-00001-of-00001.safetensors"));
  CHECK(out[0].dtype == DType::BF16);
  CHECK(out[0].bytes == u16_bytes({0x3F80, 0x3F80, 0x3F80, 0x3F80}));
}

TEST_CASE("scales that cannot be applied are refused while planning") {
  refusal(dequant({scale("a.weight_scale_inv", {1})}), ErrorCode::kRefusedMissing);
  refusal(dequant({scale("a.weight", {1}), scale("a.weight_scale_inv", {1})}),
          ErrorCode::kRefusedUnsupported);
  refusal(dequant({fp8("a.weight", {4, 4}), scale("a.weight_scale_inv", {1}), scale("a.weight_scale", {1})}),
          ErrorCode::kRefusedAmbiguous);
  refusal(dequant({fp8("a.weight", {4, 4}), {"a.weight_scale_inv", DType::I32, {1}, "1234"}}),
          ErrorCode::kRefusedUnsupported);
  const std::string message = refusal(dequant({fp8("a.weight", {4, 4}), scale("a.weight_scale_inv", {3, 3})}),
                                      ErrorCode::kRefusedShape);
  CHECK(says(message, "[4,4]"));
  CHECK(says(message, "[3,3]"));
  CHECK(says(refusal(dequant({fp8("a.weight", {64, 64}), scale("a.weight_scale_inv", {2, 2})}),
                     ErrorCode::kRefusedShape),
             "--block-size 32 would fit"));
}

TEST_CASE("the block size comes from the option, config.json, or is 128") {
  const std::vector<TestTensor> tensors = {fp8("a.weight", {8, 8}), scale("a.weight_scale_inv", {2, 4})};
  CHECK(
      dequant(tensors, R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [4, 2]}})", {})
          .ok());
  refusal(
      dequant(tensors, R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [4, 2]}})"),
      ErrorCode::kRefusedShape);
  refusal(dequant(tensors, R"({"quantization_config": {"weight_block_size": [4]}})", {}),
          ErrorCode::kRefusedConfig);
  CHECK(dequant({fp8("a.weight", {129, 8}), scale("a.weight_scale_inv", {2, 1})}, "", {}).ok());
}

TEST_CASE("nothing is divided unasked") {
  const std::vector<TestTensor> tensors = {fp8("a.weight", {4, 4}), scale("a.weight_scale", {1, 1})};
  const std::string said = refusal(dequant(tensors), ErrorCode::kRefusedAmbiguous);
  CHECK(says(said, "--weight-scale multiply"));
  const auto values = [&](const char* sense) {
    auto result = dequant(tensors, "", {{"weight-scale", {sense}}});
    REQUIRE(result.ok());
    return tensors_of(result->files.at("model-00001-of-00001.safetensors"))[0].bytes;
  };
  CHECK(values("divide") == u16_bytes(std::vector<uint16_t>(16, 0x3F00)));
  CHECK(values("multiply") == u16_bytes(std::vector<uint16_t>(16, 0x4000)));
  const std::string message = refusal(
      dequant(tensors, R"({"quantization_config": {"quant_method": "fp8"}})", {{"weight-scale", {"divide"}}}),
      ErrorCode::kRefusedAmbiguous);
  CHECK(says(message, "multiplies by it"));
  refusal(dequant({fp8("a.weight", {4, 4}), scale("a.weight_scale_inv", {1, 1})},
                  R"({"quantization_config": {"quant_method": "fp8", "weight_scale_semantics": "inverse"}})"),
          ErrorCode::kRefusedUnsupported);
}

namespace {
const std::vector<Operation::Given> kDivide = {{"weight-scale", {"divide"}}};
}

TEST_CASE("a divisor that is zero or not finite is refused by the data, a multiplier is not") {
  for (const float bad : {0.0f, -0.0f, INFINITY, NAN}) {
    const std::string message =
        refusal(dequant({fp8("a.weight", {4, 4}), scale("a.weight_scale", {1, 1}, bad)}, "", kDivide),
                ErrorCode::kRefusedValues);
    CHECK(says(message, "\"a.weight_scale\""));
    CHECK(dequant({fp8("a.weight", {4, 4}), scale("a.weight_scale_inv", {1, 1}, bad)}).ok());
  }
  // What divides is the F32 that an F64 becomes.
  std::string tiny(8, '\0');
  const double value = 1e-300;
  std::memcpy(tiny.data(), &value, 8);
  refusal(dequant({fp8("a.weight", {4, 4}), {"a.weight_scale", DType::F64, {1}, tiny}}, "", kDivide),
          ErrorCode::kRefusedValues);
}

TEST_CASE("values that become infinite are counted and warned of") {
  auto result = dequant({fp8("a.weight", {2, 2}), scale("a.weight_scale_inv", {1}, 1e6f)}, "",
                        {{"dtype", {"float16"}}});
  REQUIRE(result.ok());
  REQUIRE(result->account.non_finite.size() == 1);
  CHECK(result->account.non_finite[0].name == "a.weight");
  CHECK(result->account.non_finite[0].became_infinite == 4);
  REQUIRE(result->account.warnings.size() == 1);
  CHECK(says(result->account.warnings[0], "4 finite values became infinite in float16"));
  auto wide = dequant({fp8("a.weight", {2, 2}), scale("a.weight_scale_inv", {1}, 1e6f)});
  REQUIRE(wide.ok());
  CHECK(wide->account.non_finite.empty());
}

TEST_CASE("config.json loses its quantisation section and follows the dtype") {
  auto result =
      dequant({fp8("a.weight", {4, 4}), scale("a.weight_scale_inv", {1, 1})},
              "{\n  \"torch_dtype\": \"float32\",\n  \"quantization_config\": {\"quant_method\": \"fp8\"},\n"
              "  \"text_config\": {\"dtype\": \"float32\", \"quantization_config\": {}}\n}\n");
  REQUIRE(result.ok());
  CHECK(result->files.at("config.json") ==
        "{\n  \"torch_dtype\": \"bfloat16\",\n  \"text_config\": {\"dtype\": \"bfloat16\"}\n}\n");
  CHECK(result->account.config.size() == 4);
  // Nothing was FP8: there is no new dtype to tell.
  auto plain = dequant({scale("norm", {2})}, R"({"torch_dtype": "float32"})");
  REQUIRE(plain.ok());
  CHECK(plain->files.count("config.json") == 0);
  CHECK(plain->copied == std::vector<std::string>{"config.json"});
}
