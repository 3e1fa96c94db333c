// `dequant-fp8` beside layouts that only `dequant` reads: it says so.
#include <catch2/catch.hpp>

#include "transform_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

Result<TransformResult> dequantise_fp8(const MemoryModel& model) {
  TransformRequest request{.command = "dequant-fp8", .operations = {{.id = "dequant-fp8", .options = {}}}};
  return transform_in_memory(model, model.folder(), std::move(request));
}

}  // namespace

TEST_CASE("codes that are not FP8 under a scale are refused, and what reads them is named") {
  MemoryModel nvfp4;
  nvfp4.files["model.safetensors"] =
      model_file({{"m.weight", DType::U8, {24, 32}, random_bytes(24 * 32, 1)},
                  {"m.weight_scale", DType::F8_E4M3, {24, 4}, std::string(96, '8')},
                  {"m.weight_scale_2", DType::F32, {}, f32_bytes({0.5f})}});
  const auto refused = dequantise_fp8(nvfp4);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("is U8, not FP8; dequant reads it (modelopt-nvfp4)") !=
        std::string::npos);
  // Of no layout: nothing reads it.
  MemoryModel unknown;
  unknown.files["model.safetensors"] =
      model_file({{"m.weight", DType::I16, {24, 32}, random_bytes(24 * 64, 1)},
                  {"m.weight_scale", DType::F32, {}, f32_bytes({0.5f})}});
  const auto also = dequantise_fp8(unknown);
  REQUIRE_FALSE(also.ok());
  CHECK(also.error().message.find("dequant reads") == std::string::npos);
}

TEST_CASE("what stays quantised is counted, and what reads it is named") {
  MemoryModel model;
  model.files["model.safetensors"] =
      model_file({{"a.weight", DType::F8_E4M3, {4, 4}, std::string(16, '8')},
                  {"a.weight_scale_inv", DType::F32, {1, 1}, f32_bytes({2})},
                  {"m.weight", DType::I8, {24, 48}, random_bytes(24 * 48, 1)},
                  {"m.SCB", DType::F32, {24}, f32_bytes(std::vector<float>(24, 1.0f))},
                  {"m.weight_format", DType::U8, {}, std::string(1, '\0')}});
  const auto result = dequantise_fp8(model);
  REQUIRE(result.ok());
  CHECK(result->account.left_quantised == 1);
  REQUIRE(result->account.warnings.size() == 1);
  CHECK(result->account.warnings[0].find("dequant reads bnb-int8.") != std::string::npos);
}
