// Layouts with exponents for scales: told from multipliers by dtype and shape, whatever the configuration says; and Quark's
// and FBGEMM's, which the configuration names.
#include <catch2/catch.hpp>

#include "header_model.h"

using namespace tftf;

namespace {

using FoundLayouts = std::map<std::string, size_t>;

std::string of_method(const std::string& members) { return R"({"quantization_config":{)" + members + "}}"; }

HeaderModel exponents(Shape codes, DType dtype, Shape scales, const std::string& config = {},
                      const std::string& suffix = "weight_scale_inv") {
  return HeaderModel(
      {{"m.weight", DType::F8_E4M3, std::move(codes)}, {"m." + suffix, dtype, std::move(scales)}}, config);
}

std::string first_problem(const HeaderModel& model) {
  const LayoutReport report = model.detect();
  REQUIRE_FALSE(report.problems.empty());
  return report.problems[0].module + ": " + report.problems[0].what;
}

}  // namespace

TEST_CASE("a U8 scale of an FP8 weight is an exponent for 32 codes, or refused") {
  const std::string block = of_method(R"("quant_method":"fp8","weight_block_size":[1,32])");
  const std::string wide = of_method(R"("quant_method":"fp8","weight_block_size":[128,128])");
  for (const std::string& config : {std::string(), block, wide, of_method(R"("quant_method":"mxfp8")")}) {
    INFO(config);
    CHECK(exponents({24, 96}, DType::U8, {24, 3}, config).found() == FoundLayouts{{"mxfp8", 1}});
    CHECK(exponents({24, 96}, DType::F8_E8M0, {24, 3}, config).found() == FoundLayouts{{"mxfp8", 1}});
    CHECK(exponents({24, 96}, DType::U8, {24, 3}, config, "weight_scale").found() ==
          FoundLayouts{{"mxfp8", 1}});
    for (const Shape& wrong :
         {Shape{24, 2}, Shape{3, 24}, Shape{24}, Shape{1, 24, 3}, Shape{24, 96}, Shape{}}) {
      INFO(shape_text(wrong));
      const std::string problem = first_problem(exponents({24, 96}, DType::U8, wrong, config));
      CHECK(problem.find("m.weight") != std::string::npos);
      CHECK(problem.find("exponents") != std::string::npos);
    }
  }
  // Multipliers under the same names, and exponents of whole blocks.
  CHECK(exponents({24, 96}, DType::F32, {24, 3}, block).found() == FoundLayouts{{"fp8-block", 1}});
  CHECK(exponents({256, 256}, DType::F8_E8M0, {2, 2}, wide).found() == FoundLayouts{{"fp8-block", 1}});
  CHECK(exponents({24, 96}, DType::U8, {24, 3}, of_method(R"("quant_method":"modelopt")"), "weight_scale")
            .found() == FoundLayouts{{"modelopt-mxfp8", 1}});
  CHECK(HeaderModel({{"x.gate_up_proj", DType::F8_E4M3, {2, 8, 64}},
                     {"x.gate_up_proj_scale_inv", DType::U8, {2, 8, 2}}})
            .found() == FoundLayouts{{"mxfp8", 1}});
}

TEST_CASE("Quark: shapes give the width of codes, the configuration what shapes do not") {
  const auto quark = [](const std::string& dtype, Shape codes, Shape scales) {
    return HeaderModel(
        {{"m.weight", DType::U8, std::move(codes)}, {"m.weight_scale", DType::U8, std::move(scales)}},
        of_method(R"("quant_method":"quark","global_quant_config":{"weight":{"dtype":")" + dtype + R"("}})"));
  };
  CHECK(quark("fp4", {8, 16}, {8, 1}).found() == FoundLayouts{{"quark-mxfp4", 1}});
  CHECK(quark("fp6_e3m2", {8, 24}, {8, 1}).found() == FoundLayouts{{"quark-mxfp6-e3m2", 1}});
  CHECK(quark("fp6_e2m3", {8, 24}, {8, 1}).found() == FoundLayouts{{"quark-mxfp6-e2m3", 1}});
  CHECK(first_problem(quark("fp4", {8, 24}, {8, 1})).find("neither FP4 nor an FP6") != std::string::npos);
  CHECK(first_problem(quark("fp4", {8, 16}, {8, 2})).find("m.weight") != std::string::npos);
  CHECK(first_problem(quark("fp4", {8, 16}, {4, 2})).find("m.weight") != std::string::npos);
  // A layer's own entry wins.
  const std::string layers =
      R"("quant_method":"quark","global_quant_config":{"weight":{"dtype":"fp4"}},"layer_quant_config":)"
      R"({"*.up":{"weight":{"dtype":"fp6_e2m3"}}})";
  CHECK(HeaderModel({{"m.up.weight", DType::U8, {8, 24}}, {"m.up.weight_scale", DType::U8, {8, 1}}},
                    of_method(layers))
            .found() == FoundLayouts{{"quark-mxfp6-e2m3", 1}});
  // Without the method the same tensors are nobody's or another's.
  CHECK(
      HeaderModel({{"m.weight", DType::U8, {8, 24}}, {"m.weight_scale", DType::U8, {8, 1}}}).found().empty());
  CHECK(first_problem(HeaderModel({{"m.weight", DType::I8, {8, 24}}, {"m.weight_scale", DType::F32, {8}}},
                                  of_method(R"("quant_method":"quark")")))
            .find("not read") != std::string::npos);
}

TEST_CASE("FBGEMM: scales of rows, of experts' columns in both shapes, and nothing else") {
  const std::string config = of_method(R"("quant_method":"fbgemm_fp8")");
  const auto experts = [&config](Shape scales) {
    return HeaderModel(
        {{"x.down_proj", DType::F8_E4M3, {2, 12, 16}}, {"x.down_proj_scale", DType::F32, scales}}, config);
  };
  CHECK(experts({2, 1, 16}).found() == FoundLayouts{{"fbgemm-fp8", 1}});
  CHECK(experts({2, 16, 1}).found() == FoundLayouts{{"fbgemm-fp8", 1}});
  for (const Shape& wrong : {Shape{2, 12, 1}, Shape{2, 16}, Shape{}, Shape{1, 1, 16}, Shape{2, 16, 16}}) {
    INFO(shape_text(wrong));
    CHECK(first_problem(experts(wrong)).find("x.down_proj") != std::string::npos);
  }
  CHECK(HeaderModel({{"m.weight", DType::F8_E4M3, {12, 16}}, {"m.weight_scale", DType::F32, {12, 1}}}, config)
            .found() == FoundLayouts{{"fbgemm-fp8", 1}});
  CHECK_FALSE(
      HeaderModel({{"m.weight", DType::F8_E4M3, {12, 16}}, {"m.weight_scale", DType::F32, {1, 16}}}, config)
          .detect()
          .problems.empty());
}
