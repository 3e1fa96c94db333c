// QT350 to QT356 and CF050: values of scales and codes, with and without the data pass.
#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <map>

#include "lint_host.h"
#include "tftf/lint/data_pass.h"

using namespace tftf;
using namespace tftf::test;
using Lines = std::vector<std::string>;

namespace {

const std::string kModule = "model.layers.0.self_attn.q_proj";

std::string floats(const std::vector<float>& values) {
  std::string out(values.size() * 4, '\0');
  if (!out.empty()) std::memcpy(out.data(), values.data(), out.size());
  return out;
}

// Findings of the rules about values, with the data pass when `data`.
Diagnostics find_all(const std::string& section, const std::vector<LintTensor>& tensors, bool data) {
  const std::string config = R"({"model_type":"new","quantization_config":)" + section + "}";
  const MemoryFiles files = {{"config.json", config}, {"model.safetensors", weights(tensors)}};
  LintResult result = run_lint(files);
  if (data) {
    DataPass pass(result);
    do {
      // Backwards: no order may matter.
      for (uint64_t i = pass.piece_count(); i-- > 0;) {
        const DataPass::Piece piece = pass.piece(i);
        std::array<Bytes, 2> bytes;
        for (uint32_t part = 0; part < piece.count; ++part) {
          const auto& from = piece.parts[part];
          bytes[part] = as_bytes(std::string_view(files.at(result.files[from.file].path))
                                     .substr(from.range.offset, from.range.length));
          REQUIRE(bytes[part].size() == from.range.length);
        }
        pass.add(i, pass.run(i, bytes, best_kernels()));
      }
    } while (pass.next_stage());
    for (Diagnostic& finding : check_data(result, pass.take())) result.findings.push_back(std::move(finding));
  }
  Diagnostics out;
  for (const Diagnostic& finding : result.findings) {
    const std::string_view id = rule_info(finding.rule).id;
    if (id.substr(0, 4) == "QT35" || id == "CF050") out.push_back(finding);
  }
  return out;
}

Lines find_values(const std::string& section, const std::vector<LintTensor>& tensors, bool data = true) {
  Lines out;
  for (const Diagnostic& finding : find_all(section, tensors, data))
    out.push_back(std::string(rule_info(finding.rule).id) + " " + finding.subject.value_or("-"));
  return out;
}

const std::string kFp8 = R"({"quant_method":"fp8","weight_block_size":[2,2]})";
const std::string kModelopt = R"({"quant_method":"modelopt","quant_algo":"NVFP4"})";
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<LintTensor> blocks(std::string codes, std::vector<float> scales) {
  return {{kModule + ".weight", "F8_E4M3", {4, 4}, std::move(codes)},
          {kModule + ".weight_scale_inv", "F32", {2, 2}, floats(scales)}};
}
std::vector<LintTensor> single(std::string codes, float scale) {
  return {{kModule + ".weight", "F8_E4M3", {4, 4}, std::move(codes)},
          {kModule + ".weight_scale", "F32", {1}, floats({scale})}};
}
std::vector<LintTensor> nvfp4(const std::string& module, float global) {
  return {{module + ".weight", "U8", {2, 8}, std::string(16, '3')},
          {module + ".weight_scale", "F8_E4M3", {2, 1}, "88"},
          {module + ".weight_scale_2", "F32", {}, floats({global})}};
}

}  // namespace

TEST_CASE("QT350: scales that are no numbers") {
  const std::string codes(16, '8');
  CHECK(find_values(kFp8, blocks(codes, {1, 1, 1, 1})).empty());
  CHECK(find_values(kFp8, blocks(codes, {1, 1, kNan, kInfinity})) ==
        Lines{"QT350 " + kModule + ".weight_scale_inv"});
  CHECK(find_values(kFp8, blocks(codes, {1, 1, kNan, 1}), false).empty());
  const Diagnostics both = find_all(kFp8, blocks(codes, {1, kInfinity, kNan, 1}), true);
  REQUIRE(both.size() == 1);
  CHECK(message(both[0]) == "model.safetensors: scale \"" + kModule +
                                ".weight_scale_inv\" has 2 values that are not finite, first at element 1.");
  // Single scales are always read, and said once.
  CHECK(find_values(kFp8, single(codes, kNan), false) == Lines{"QT350 " + kModule + ".weight_scale"});
  CHECK(find_values(kFp8, single(codes, kNan), true) == Lines{"QT350 " + kModule + ".weight_scale"});
  // Exponents of two: 255 is NaN, whatever the dtype's name; 0 is no zero.
  for (const char* dtype : {"U8", "F8_E8M0"}) {
    INFO(dtype);
    const std::vector<LintTensor> mx = {
        {kModule + ".weight", "F8_E4M3", {2, 64}, std::string(128, '8')},
        {kModule + ".weight_scale", dtype, {2, 2}, std::string("\x7f\0\xff\x01", 4)}};
    CHECK(find_values(R"({"quant_method":"mxfp8"})", mx) == Lines{"QT350 " + kModule + ".weight_scale"});
  }
  CHECK(find_values(R"({"quant_method":"compressed-tensors"})", blocks(codes, {kNan, 1, 1, 1})).empty());
}

TEST_CASE("QT351: a single scale that is not positive") {
  const std::string codes(16, '8'), zeros("\0\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\x80", 16);
  const Lines said = {"QT351 " + kModule + ".weight_scale"};
  CHECK(find_values(kFp8, single(codes, 0), false) == said);
  CHECK(find_values(kFp8, single(codes, -1), false) == said);
  CHECK(find_values(kFp8, single(zeros, -1), false) == said);
  CHECK(find_values(kFp8, single(zeros, 0), false).empty());
  CHECK(find_values(kFp8, single(codes, 1e-30F), false).empty());
  // The code that is not zero may be far inside.
  std::vector<LintTensor> large = single("", 0);
  large[0].shape = {1500, 1000};
  large[0].data = std::string(1'500'000, '\0');
  CHECK(find_values(kFp8, large, false).empty());
  large[0].data[1'400'000] = '8';
  CHECK(find_values(kFp8, large, false) == said);
}

TEST_CASE("QT352, QT353: blocks whose scale is zero or negative") {
  std::string codes(16, '8');
  const std::string scales = kModule + ".weight_scale_inv";
  CHECK(find_values(kFp8, blocks(codes, {1, 0, 1, 1})) == Lines{"QT352 " + scales});
  CHECK(find_values(kFp8, blocks(codes, {1, 1, 1, -2})) == Lines{"QT353 " + scales});
  // The block of scale 1 is rows 0 and 1, columns 2 and 3.
  for (const size_t at : {2U, 3U, 6U, 7U}) codes[at] = at == 3 ? '\x80' : '\0';
  CHECK(find_values(kFp8, blocks(codes, {1, 0, 1, 1})).empty());
  const Diagnostics lost = find_all(kFp8, blocks(codes, {1, 0, 0, 0}), true);
  REQUIRE(lost.size() == 1);
  CHECK(message(lost[0]) ==
        "model.safetensors: 2 blocks of \"" + scales + "\" have scale 0 and codes that are not, first 2.");
  // Grids along the rows, in E4M3 with its -0, two codes a byte.
  std::vector<LintTensor> packed = nvfp4(kModule, 1);
  packed[1].data = std::string("8\0", 2);
  CHECK(find_values(kModelopt, packed) == Lines{"QT352 " + kModule + ".weight_scale"});
  packed[0].data = std::string(8, '3') + std::string(8, '\x88');
  CHECK(find_values(kModelopt, packed).empty());
  packed[1].data = std::string("8\x80", 2);
  CHECK(find_values(kModelopt, packed) == Lines{"QT353 " + kModule + ".weight_scale"});
  // Integer codes may have negative scales.
  const std::vector<LintTensor> integers = {{kModule + ".qweight", "I32", {1, 8}},
                                            {kModule + ".qzeros", "I32", {1, 1}},
                                            {kModule + ".scales", "F16", {1, 8}, std::string(16, '\xbc')}};
  CHECK(find_values(R"({"quant_method":"gptq","bits":4})", integers).empty());
  // Blocks of more rows than one piece of the pass.
  std::vector<LintTensor> tall = blocks("", {1, 0, 1, 1});
  tall[0] = {kModule + ".weight", "F8_E4M3", {3000, 1000}, std::string(3'000'000, '\0')};
  const std::string wide = R"({"quant_method":"fp8","weight_block_size":[1500,500]})";
  CHECK(find_values(wide, tall).empty());
  tall[0].data[1'400'000 + 499] = '8';
  CHECK(find_values(wide, tall).empty());
  tall[0].data[1'400'000 + 500] = '8';
  CHECK(find_values(wide, tall) == Lines{"QT352 " + scales});
}

TEST_CASE("QT354: fused projections with scales of their own") {
  const std::string attention = "model.layers.0.self_attn.", mlp = "model.layers.0.mlp.";
  const auto fused = [&](const std::vector<std::pair<std::string, float>>& modules) {
    std::vector<LintTensor> tensors;
    for (const auto& [module, scale] : modules)
      for (LintTensor& tensor : nvfp4(module, scale)) tensors.push_back(std::move(tensor));
    return find_values(kModelopt, tensors, false);
  };
  CHECK(fused({{mlp + "gate_proj", 1e-3F}, {mlp + "up_proj", 1e-2F}}) == Lines{"QT354 " + mlp + "gate_proj"});
  CHECK(fused({{mlp + "gate_proj", 1e-3F}, {mlp + "up_proj", 1e-3F}}).empty());
  for (const auto& [scale, ratio] : std::map<float, std::string>{{10.F, "10"},
                                                                 {1.5F, "1.5"},
                                                                 {1.001F, "1"},
                                                                 {12.34F, "12.3"},
                                                                 {98765.F, "98800"},
                                                                 {999.6F, "1000"}}) {
    std::vector<LintTensor> tensors = nvfp4(mlp + "gate_proj", 1.F);
    for (LintTensor& tensor : nvfp4(mlp + "up_proj", scale)) tensors.push_back(std::move(tensor));
    const Diagnostics found = find_all(kModelopt, tensors, false);
    REQUIRE(found.size() == 1);
    CHECK(message(found[0]) ==
          "model.safetensors: " + mlp + "gate_proj, " + mlp +
              "up_proj are fused at run time and their weight_scale_2 differ by a factor of " + ratio + ".");
  }
  CHECK(fused({{mlp + "gate_proj", 1.F}, {mlp + "up_proj", 1.000005F}}).empty());
  CHECK(fused({{attention + "v_proj", 1.F}, {attention + "k_proj", 2.F}}) ==
        Lines{"QT354 " + attention + "k_proj"});
  CHECK(fused({{mlp + "down_proj", 1.F}, {mlp + "up_proj", 2.F}}).empty());
  CHECK(fused({{mlp + "w1", 1.F}, {mlp + "w2", 2.F}}).empty());
  CHECK(fused({{"l.0.cross_attn.q_proj", 1.F}, {"l.0.cross_attn.k_proj", 2.F}}).empty());
}

TEST_CASE("QT355, QT356: codes that decode to nothing, or to no number") {
  const std::string bitnet = R"({"quant_method":"bitnet","quantization_mode":"offline"})";
  std::vector<LintTensor> ternary = {{kModule + ".weight", "U8", {2, 4}, std::string(8, 'U')},
                                     {kModule + ".weight_scale", "BF16", {1}, "\x80\x3f"}};
  CHECK(find_values(bitnet, ternary) == Lines{"QT355 " + kModule + ".weight"});
  ternary[0].data[3] = 'T';
  CHECK(find_values(bitnet, ternary).empty());

  std::string codes(16, '8');
  codes[5] = '\x7f';
  CHECK(find_values(kFp8, single(codes, 1)) == Lines{"QT356 " + kModule + ".weight"});
  codes[5] = '\x7e';
  CHECK(find_values(kFp8, single(codes, 1)).empty());
}

TEST_CASE("CF050: experts that are all zero") {
  const std::string name = "model.layers.0.mlp.experts.down_proj";
  const auto stack = [&](const std::string& tensor, const std::vector<float>& values) {
    return find_values("{}", {{tensor, "F32", {4, 1, 2}, floats(values)}});
  };
  CHECK(stack(name, {1, 0, 0, 2, 3, 3, 4, 4}).empty());
  CHECK(stack(name, {1, 0, 0, -0.F, 3, 3, 0, 0}) == Lines{"CF050 " + name});
  CHECK(stack(name, {0, 0, 0, 0, 0, 0, 0, 0}).empty());
  CHECK(stack("model.layers.0.mlp.down_proj", {1, 1, 0, 0, 3, 3, 4, 4}).empty());
  // Experts that are longer than a piece, and several in one.
  std::vector<float> values(3 * 300'000, 0.F);
  values[299'999] = values[899'999] = 1;
  const Diagnostics found = find_all("{}", {{name, "F32", {3, 300, 1000}, floats(values)}}, true);
  REQUIRE(found.size() == 1);
  CHECK(message(found[0]) == "model.safetensors: experts 1 of \"" + name + "\" are all zero.");
}
