// auto-round's MXINT4 and NVFP4 with E5M3 scales, and Quark's INT4: element by element, and what does not fit.
#include <catch2/catch.hpp>
#include <cmath>

#include "layout_values.h"
#include "quant/bit_fields.h"
#include "tftf/simd/floats.h"
#include "transform_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

using FoundModules = std::map<std::string, size_t>;

std::string section_of(const std::string& members) { return R"({"quantization_config":{)" + members + "}}"; }

std::string only_problem(const HeaderModel& model) {
  const LayoutReport report = model.detect();
  REQUIRE(report.problems.size() == 1);
  return report.problems[0].what;
}

float e5m3(uint32_t byte) {
  const auto fraction = static_cast<float>(byte & 7);
  return byte < 8 ? std::ldexp(fraction / 8, -14)
                  : std::ldexp(1 + fraction / 8, static_cast<int>(byte >> 3) - 15);
}

constexpr const char* kAutoround = R"("quant_method":"auto-round","data_type":)";

}  // namespace

TEST_CASE("auto-round MXINT4 counts quarters, with a sign of its own") {
  const std::string codes = random_bytes(8 * 32, 1);
  std::string exponents;
  for (int i = 0; i < 16; ++i) exponents += static_cast<char>(120 + i);
  const HeaderModel model(
      {{"m.weight_packed", DType::U8, {8, 32}, codes}, {"m.weight_scale", DType::U8, {8, 2}, exponents}},
      section_of(std::string(kAutoround) + "\"mx_int4\""));
  const std::vector<float> values = module_values(model, "autoround-mxint4");
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t code = static_cast<uint8_t>(codes[i / 2]) >> (i % 2 * 4) & 15;
    const float quarter = static_cast<float>(code & 7) * 0.25f;
    const float value =
        std::ldexp(code < 8 ? quarter : -quarter, static_cast<uint8_t>(exponents[i / 32]) - 127);
    CHECK(values[i] == value);
    CHECK(std::signbit(values[i]) == std::signbit(value));
  }
}

TEST_CASE("auto-round NVFP4 with E5M3 scales: all 256 of them") {
  std::string scales;
  for (int i = 0; i < 256; ++i) scales += static_cast<char>(i);
  const HeaderModel model({{"m.weight_packed", DType::U8, {64, 32}, std::string(64 * 32, '\x75')},
                           {"m.weight_scale", DType::U8, {64, 4}, scales}},
                          section_of(std::string(kAutoround) + "\"nvfp4_v2\""));
  const std::vector<float> values = module_values(model, "autoround-nvfp4-e5m3");
  for (size_t i = 0; i < values.size(); ++i) {
    const float code = i % 2 == 0 ? 3.0f : 6.0f;
    if (i / 16 == 255)
      CHECK(std::isnan(values[i]));
    else
      CHECK(values[i] == code * e5m3(static_cast<uint32_t>(i / 16)));
  }
}

TEST_CASE("auto-round: single layers may have another data type, and scales must fit") {
  const std::vector<HeaderTensor> tensors = {{"a.weight_packed", DType::U8, {8, 32}},
                                             {"a.weight_scale", DType::U8, {8, 2}},
                                             {"b.weight_packed", DType::U8, {8, 32}},
                                             {"b.weight_scale", DType::U8, {8, 2}}};
  const auto found = [&](const std::string& extra) {
    return HeaderModel(tensors, section_of(std::string(kAutoround) + "\"mx_int4\"" + extra)).found();
  };
  CHECK(found("") == FoundModules{{"autoround-mxint4", 2}});
  CHECK(found(R"(,"extra_config":{"b":{"data_type":"mx_fp4"}})") ==
        FoundModules{{"autoround-mxint4", 1}, {"ct-mxfp4-pack-quantized", 1}});
  CHECK(found(R"(,"extra_config":{"[b-z]":{"data_type":"mx_fp4"}})") ==
        FoundModules{{"autoround-mxint4", 1}, {"ct-mxfp4-pack-quantized", 1}});
  const HeaderModel broken({{"m.weight_packed", DType::U8, {8, 32}}, {"m.weight_scale", DType::U8, {8, 3}}},
                           section_of(std::string(kAutoround) + "\"mx_int4\""));
  CHECK(only_problem(broken).find("a byte for 32 codes") != std::string::npos);
  const HeaderModel alone({{"m.weight_packed", DType::U8, {8, 32}}},
                          section_of(std::string(kAutoround) + "\"nvfp4_v2\""));
  CHECK(only_problem(alone).find("weight_scale is missing") != std::string::npos);
}

TEST_CASE("Quark INT4: signed and unsigned, with and without zero points, in both orders") {
  const std::string codes = random_bytes(64 * 16, 5), zeros = random_bytes(2 * 16, 6);
  std::vector<float> scales;
  for (int i = 0; i < 64; ++i) scales.push_back(0.25f * static_cast<float>(i + 1));
  const auto field = [](const std::string& words, size_t row, size_t column, bool in_order) {
    const size_t position = column % 8;
    size_t f = position;
    for (size_t i = 0; !in_order && i < 8; ++i)
      if (kAwqOrder[i] == position) f = i;
    const auto byte = static_cast<uint8_t>(words[row * 16 + column / 8 * 4 + f / 2]);
    return static_cast<int>(byte >> (f % 2 * 4) & 15);
  };
  for (const bool is_signed : {true, false})
    for (const bool has_zeros : {true, false})
      for (const bool in_order : {true, false}) {
        if (!is_signed && !has_zeros) continue;
        std::vector<HeaderTensor> tensors = {{"m.weight", DType::I32, {64, 4}, codes},
                                             {"m.weight_scale", DType::F32, {2, 32}, f32_bytes(scales)}};
        if (has_zeros) tensors.push_back({"m.weight_zero_point", DType::I32, {2, 4}, zeros});
        const HeaderModel model(
            tensors,
            section_of(std::string(R"("quant_method":"quark","global_quant_config":{"weight":{"dtype":")") +
                       (is_signed ? "int4" : "uint4") + R"("}},"export":{"pack_method":")" +
                       (in_order ? "order" : "reorder") + "\"}"));
        INFO(is_signed << has_zeros << in_order);
        const std::vector<float> values = module_values(model, "quark-int4");
        const auto number = [&](int code) { return is_signed && code > 7 ? code - 16 : code; };
        bool same = values.size() == 32 * 64;
        for (size_t n = 0; same && n < 32; ++n)
          for (size_t k = 0; k < 64; ++k) {
            const int zero = has_zeros ? number(field(zeros, k / 32, n, in_order)) : 0;
            const int code = number(field(codes, k, n, in_order)) - zero;
            same = same && values[n * 64 + k] == static_cast<float>(code) * scales[k / 32 * 32 + n];
          }
        CHECK(same);
      }
}

TEST_CASE("Quark integers that are not read are refused with what they are") {
  const auto quark = [](const std::string& weight, Shape scales, bool zeros) {
    std::vector<HeaderTensor> tensors = {{"m.weight", DType::I32, {64, 4}},
                                         {"m.weight_scale", DType::F32, std::move(scales)}};
    if (zeros) tensors.push_back({"m.weight_zero_point", DType::I32, {1, 4}});
    return only_problem(HeaderModel(
        tensors, section_of(R"("quant_method":"quark","global_quant_config":{"weight":{)" + weight + "}}")));
  };
  CHECK(quark(R"("dtype":"int3")", {2, 32}, false).find("\"int3\"") != std::string::npos);
  CHECK(quark(R"("dtype":"int4","qscheme":"per_channel")", {2, 32}, false).find("per_channel") !=
        std::string::npos);
  CHECK(quark(R"("dtype":"int4","group_size":64)", {2, 32}, false).find("groups of 64") != std::string::npos);
  CHECK(quark(R"("dtype":"int4")", {2, 30}, false).find("does not fit the weight") != std::string::npos);
  CHECK(quark(R"("dtype":"int4")", {2, 32}, true).find("weight_zero_point") != std::string::npos);
  CHECK(quark(R"("dtype":"uint4")", {2, 32}, false).find("weight_zero_point is missing") !=
        std::string::npos);
}

TEST_CASE("what a configuration announces and nobody has seen is refused") {
  const std::vector<HeaderTensor> fp8 = {{"m.weight", DType::F8_E4M3, {8, 32}},
                                         {"m.weight_scale", DType::BF16, {8}}};
  const std::string config = section_of(R"("quant_method":"auto-round","data_type":"fp8")");
  CHECK(HeaderModel(fp8, config).found() == FoundModules{{"fp8-scaled", 1}});
  std::vector<HeaderTensor> zeros = fp8;
  zeros.push_back({"m.weight_zp", DType::BF16, {8}});
  CHECK(only_problem(HeaderModel(zeros, config)).find("weight_zp") != std::string::npos);
  const auto quark = [](const std::string& scales) {
    return HeaderModel({{"m.weight", DType::U8, {16, 48}}, {"m.weight_scale", DType::U8, {16, 3}}},
                       section_of(R"("quant_method":"quark","global_quant_config":{"weight":{"dtype":"fp4",)"
                                  R"("scale_format":")" +
                                  scales + "\"}}"));
  };
  CHECK(quark("e8m0").found() == FoundModules{{"quark-mxfp4", 1}});
  CHECK(only_problem(quark("e5m3")).find("e5m3") != std::string::npos);
}
