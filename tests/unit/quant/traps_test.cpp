// The trap list (spec other-quant-layouts 11): what looks alike in two layouts and means something else, one case each, with
// values worked out by hand.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "layout_cases.h"
#include "layout_values.h"
#include "tftf/simd/floats.h"
#include "transform_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

LayoutCase trap_case(std::string_view layout) {
  for (LayoutCase& one : layout_cases())
    if (one.layout == layout) return one;
  FAIL("no case of " << layout);
  return {};
}

HeaderTensor& part(LayoutCase& one, const std::string& name) {
  for (HeaderTensor& tensor : one.tensors)
    if (tensor.name == name) return tensor;
  FAIL("no tensor " << name);
  return one.tensors.front();
}

// All bytes of a tensor.
void fill_part(LayoutCase& one, const std::string& name, std::string_view pattern) {
  HeaderTensor& tensor = part(one, name);
  const uint64_t size = element_count(tensor.shape).value_or(0) * dtype_bits(tensor.dtype) / 8;
  tensor.bytes.clear();
  while (tensor.bytes.size() < size) tensor.bytes += pattern;
  tensor.bytes.resize(static_cast<size_t>(size));
}
void fill_part(LayoutCase& one, const std::string& name, float value) {
  fill_part(one, name, f32_bytes({value}));
}
void fill_half(LayoutCase& one, const std::string& name, float value) {
  fill_part(one, name, u16_bytes({f16_from_f32(value)}));
}
void set_byte(LayoutCase& one, const std::string& name, size_t at, int value) {
  HeaderTensor& tensor = part(one, name);
  const uint64_t size = element_count(tensor.shape).value_or(0) * dtype_bits(tensor.dtype) / 8;
  tensor.bytes.resize(static_cast<size_t>(size));
  tensor.bytes.at(at) = static_cast<char>(value);
}

std::vector<float> trap_values(const LayoutCase& one) {
  return module_values(HeaderModel(one.tensors, one.config, one.metadata), one.layout);
}

}  // namespace

TEST_CASE("trap: scales called inv multiply") {
  LayoutCase one = trap_case("fp8-block");
  fill_part(one, "m.weight", "\x38");
  fill_part(one, "m.weight_scale_inv", 4.0f);
  CHECK(trap_values(one)[0] == 4.0f);
}

TEST_CASE("trap: the global scale of compressed-tensors divides, those of the others multiply") {
  LayoutCase divides = trap_case("ct-nvfp4-pack-quantized");
  fill_part(divides, "m.weight_packed", "\x22");  // 1, 1
  fill_part(divides, "m.weight_scale", "\x38");
  fill_part(divides, "m.weight_global_scale", 4.0f);
  CHECK(trap_values(divides)[0] == 0.25f);
  for (const char* layout : {"modelopt-nvfp4", "comfy-nvfp4"}) {
    LayoutCase multiplies = trap_case(layout);
    fill_part(multiplies, "m.weight", "\x22");
    fill_part(multiplies, "m.weight_scale", "\x38");
    fill_part(multiplies, "m.weight_scale_2", 0.25f);
    CHECK(trap_values(multiplies)[0] == 0.25f);
  }
}

TEST_CASE("trap: bitsandbytes and ComfyUI's NVFP4 have the first code in the high nibble") {
  LayoutCase nf4 = trap_case("bnb-nf4");
  std::vector<float> map(16);
  for (size_t i = 0; i < 16; ++i) map[i] = static_cast<float>(i);
  part(nf4, "m.weight.quant_map").bytes = f32_bytes(map);
  fill_part(nf4, "m.weight", "\x7F");
  fill_part(nf4, "m.weight.absmax", 1.0f);
  CHECK(trap_values(nf4)[0] == 7.0f);
  CHECK(trap_values(nf4)[1] == 15.0f);
  LayoutCase comfy = trap_case("comfy-nvfp4");
  fill_part(comfy, "m.weight", "\x24");  // 2 = 1, 4 = 2
  fill_part(comfy, "m.weight_scale", "\x38");
  fill_part(comfy, "m.weight_scale_2", 1.0f);
  CHECK(trap_values(comfy)[0] == 1.0f);
  CHECK(trap_values(comfy)[1] == 2.0f);
}

TEST_CASE("trap: all other pairs have the first code in the low nibble") {
  struct Pair {
    const char *layout, *codes, *scales;
    const char* one;  // a scale of 1; of 2 where a global scale halves it
  };
  for (const Pair& pair : {Pair{"modelopt-nvfp4", "m.weight", "m.weight_scale", "\x40"},
                           Pair{"modelopt-mxfp4", "m.weight", "m.weight_scale", "\x7F"},
                           Pair{"quark-mxfp4", "m.weight", "m.weight_quantizer.scale", "\x7F"},
                           Pair{"deepseek-v4-fp4", "m.weight", "m.scale", "\x7F"},
                           Pair{"ct-mxfp4-pack-quantized", "m.weight_packed", "m.weight_scale", "\x7F"},
                           Pair{"torchao-nvfp4", "m._weight_qdata", "m._weight_scale", "\x38"},
                           Pair{"torchao-mx", "m._weight_qdata", "m._weight_scale", "\x7F"},
                           Pair{"mlx-mxfp4", "m.weight", "m.scales", "\x7F"}}) {
    LayoutCase one = trap_case(pair.layout);
    INFO(pair.layout);
    fill_part(one, pair.codes, "\x24");
    fill_part(one, pair.scales, pair.one);
    if (std::string_view(pair.layout) == "modelopt-nvfp4") fill_part(one, "m.weight_scale_2", 0.5f);
    CHECK(trap_values(one)[0] == 2.0f);
    CHECK(trap_values(one)[1] == 1.0f);
  }
  LayoutCase experts =
      trap_case("gpt-oss-mxfp4");  // [3,96,20], turned over: the second code is in the next row
  fill_part(experts, "e.down_proj_blocks", "\x24");
  fill_part(experts, "e.down_proj_scales", "\x7F");
  CHECK(trap_values(experts)[0] == 2.0f);
  CHECK(trap_values(experts)[20] == 1.0f);
}

TEST_CASE("trap: AWQ and ModelOpt's INT4 are packed along the rows, GPTQ along the columns") {
  LayoutCase gptq = trap_case("gptq-v2");
  set_byte(gptq, "m.qweight", 0, 0x98);
  fill_half(gptq, "m.scales", 1.0f);
  CHECK(trap_values(gptq)[0] == 0.0f);                   // 8 - 8
  CHECK(trap_values(gptq)[1] == 1.0f);                   // the next input of the same row
  LayoutCase modelopt = trap_case("modelopt-int4-awq");  // [16,128]
  set_byte(modelopt, "m.weight", 0, 0x21);
  fill_part(modelopt, "m.weight_scale", 1.0f);
  CHECK(trap_values(modelopt)[0] == 1.0f);
  CHECK(trap_values(modelopt)[128] == 2.0f);  // the next row
}

TEST_CASE("trap: GPTQ v1 stores zero points minus one, and only it") {
  for (const auto& [layout, value] : {std::pair{"gptq-v1", -8.0f}, std::pair{"gptq-v2", -8.0f}}) {
    LayoutCase one = trap_case(layout);  // 0x77777777 and 0x88888888
    fill_half(one, "m.scales", 1.0f);
    CHECK(trap_values(one)[0] == value);
  }
  LayoutCase awq = trap_case("awq-gemm");
  fill_half(awq, "m.scales", 1.0f);
  fill_part(awq, "m.qzeros", "\x77");
  CHECK(trap_values(awq)[0] == -7.0f);
}

TEST_CASE("trap: AWQ's columns are interleaved in their words") {
  LayoutCase one = trap_case("awq-gemm");  // [32,64]
  const std::string word("\x20\x64\x31\x75", 4);
  part(one, "m.qweight").bytes = word;  // columns 0 to 7 hold 0 to 7
  part(one, "m.qweight").bytes.resize(64 * 4 * 4);
  fill_half(one, "m.scales", 1.0f);
  const std::vector<float> values = trap_values(one);
  for (size_t n = 0; n < 8; ++n) CHECK(values[n * 64] == static_cast<float>(n));
}

TEST_CASE("trap: ComfyUI's block scales lie in tiles of 128 x 4") {
  for (const char* layout : {"comfy-nvfp4", "comfy-mxfp8"}) {
    LayoutCase one = trap_case(layout);
    INFO(layout);
    const bool fp4 = std::string_view(layout) == "comfy-nvfp4";
    fill_part(one, "m.weight", fp4 ? "\x22" : "\x38");
    fill_part(one, "m.weight_scale", fp4 ? "\x38" : "\x7F");
    if (fp4) fill_part(one, "m.weight_scale_2", 1.0f);
    // Row 1, group 1: 16 bytes for each row of a band of 32, four groups side by side.
    set_byte(one, "m.weight_scale", 17, fp4 ? 0x40 : 0x80);
    const std::vector<float> values = trap_values(one);
    const size_t columns = fp4 ? 64 : 96, group = fp4 ? 16 : 32;
    CHECK(values[columns + group] == 2.0f);
    CHECK(std::count(values.begin(), values.end(), 2.0f) == static_cast<std::ptrdiff_t>(group));
  }
}

TEST_CASE("trap: SCB is the largest magnitude of a row, not its scale") {
  LayoutCase one = trap_case("bnb-int8");
  fill_part(one, "m.weight", "\x7F");
  fill_part(one, "m.SCB", 2.0f);
  const float product = 127.0f * 2.0f;
  CHECK(trap_values(one)[0] == product * 7.874015718698502e-3f);
}

TEST_CASE("trap: nested scales have an offset") {
  LayoutCase one = trap_case("bnb-fp4");  // nested_offset 0.5
  fill_part(one, "m.weight", std::string_view("\x10", 1));
  std::vector<float> map(16), nested(256);
  map[1] = 1.0f;
  nested[3] = 0.25f;
  part(one, "m.weight.quant_map").bytes = f32_bytes(map);
  part(one, "m.weight.nested_quant_map").bytes = f32_bytes(nested);
  fill_part(one, "m.weight.absmax", "\x03");
  fill_part(one, "m.weight.nested_absmax", 4.0f);
  CHECK(trap_values(one)[0] == 1.5f);  // 0.25 * 4 + 0.5
}

TEST_CASE("trap: scales of GPTQ, AWQ and others lie by group, then by row") {
  for (const char* layout : {"gptq-v2", "awq-gemm"}) {
    LayoutCase one = trap_case(layout);  // [32,64], groups of 32
    fill_half(one, "m.scales", 1.0f);
    if (std::string_view(layout) == "awq-gemm") fill_part(one, "m.qzeros", "\x88");
    // The second entry is the first group of row 1.
    HeaderTensor& scales = part(one, "m.scales");
    const std::string two = u16_bytes({f16_from_f32(2.0f)});
    std::copy(two.begin(), two.end(), scales.bytes.begin() + 2);
    const std::vector<float> values = trap_values(one);
    CHECK(values[32] == -8.0f);
    CHECK(values[64] == -16.0f);
  }
}

TEST_CASE("trap: rotated codes are rotated back") {
  LayoutCase one = trap_case("comfy-int8");  // [16,32], blocks of 16
  set_byte(one, "m.weight", 0, 16);
  fill_part(one, "m.weight_scale", 1.0f);
  const std::vector<float> values = trap_values(one);
  // One row of the Kronecker square of [[1,1,1,-1],[1,1,-1,1],[1,-1,1,1],[-1,1,1,1]] / 2.
  const float row[4] = {1, 1, 1, -1};
  for (size_t i = 0; i < 16; ++i) CHECK(values[i] == 4.0f * row[i / 4] * row[i % 4]);
  CHECK(values[16] == 0.0f);
}

TEST_CASE("trap: what a layout applies to activations is folded into the weight") {
  LayoutCase one = trap_case("modelopt-int4-awq");
  one.tensors.push_back({"m.pre_quant_scale", DType::F32, {128}, f32_bytes(std::vector<float>(128, 3.0f))});
  fill_part(one, "m.weight", "\x11");
  fill_part(one, "m.weight_scale", 0.5f);
  CHECK(trap_values(one)[0] == 1.5f);
}

TEST_CASE("trap: a block of zeros has a scale of 0, 1 or 2^-127") {
  LayoutCase mx = trap_case("modelopt-mxfp4");
  fill_part(mx, "m.weight", "\x22");
  CHECK(trap_values(mx)[0] == std::ldexp(1.0f, -127));  // byte 0
  LayoutCase comfy = trap_case("comfy-nvfp4");
  fill_part(comfy, "m.weight", "\x22");
  fill_part(comfy, "m.weight_scale_2", 1.0f);
  CHECK(trap_values(comfy)[0] == 0.0f);
  LayoutCase modelopt = trap_case("modelopt-nvfp4");
  fill_part(modelopt, "m.weight_scale", "\x38");
  fill_part(modelopt, "m.weight_scale_2", 0.5f);
  CHECK(trap_values(modelopt)[0] == 0.0f);
}

TEST_CASE("trap: the shape of bitsandbytes' weights and the bits of MLX are in no header") {
  LayoutCase nf4 = trap_case("bnb-nf4");
  const HeaderModel flat(nf4.tensors, nf4.config, nf4.metadata);
  CHECK(open_module(flat, "bnb-nf4")->shape == Shape{8, 16});
  LayoutCase mlx = trap_case("mlx-affine");
  mlx.config = R"({"quantization":{"group_size":32,"bits":8}})";
  CHECK(open_module(HeaderModel(mlx.tensors, mlx.config), "mlx-affine")->shape == Shape{24, 64});
  // 256 = 128 x 2 = 64 x 4 = 32 x 8: without a configuration it is refused.
  CHECK_FALSE(open_module(HeaderModel(mlx.tensors), "mlx-affine").ok());
}

TEST_CASE("trap: FP4 of bitsandbytes is not E2M1") {
  LayoutCase one = trap_case("bnb-fp4");
  std::vector<float> map = {0, 0.0052083f, 0.6666667f, 1, 0.3333333f, 0.5f, 0.1666667f, 0.25f};
  map.resize(16);
  part(one, "m.weight.quant_map").bytes = f32_bytes(map);
  fill_part(one, "m.weight", "\x37");  // 3, 7
  CHECK(trap_values(one)[0] == 0.5f);  // 1 * the offset of the nested scales
  CHECK(trap_values(one)[1] == 0.125f);
}

TEST_CASE("trap: blocks at the edges have scales of their own") {
  LayoutCase one = trap_case("fp8-block");  // [130,200] under [2,2]
  fill_part(one, "m.weight", "\x38");
  part(one, "m.weight_scale_inv").bytes = f32_bytes({1, 2, 3, 4});
  const std::vector<float> values = trap_values(one);
  CHECK(values[127 * 200 + 127] == 1.0f);
  CHECK(values[128] == 2.0f);
  CHECK(values[128 * 200] == 3.0f);
  CHECK(values[129 * 200 + 199] == 4.0f);
}

TEST_CASE("trap: a scale may lie in another file than its codes") {
  MemoryModel model;
  model.files["model-00001-of-00002.safetensors"] =
      model_file({{"m.weight", DType::F8_E4M3, {4, 4}, std::string(16, '\x38')}});
  model.files["model-00002-of-00002.safetensors"] =
      model_file({{"m.weight_scale_inv", DType::F32, {1, 1}, f32_bytes({8})}});
  model.files["config.json"] =
      R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[128,128]}})";
  const auto result = transform_in_memory(model, {{.id = "dequant", .options = {{"dtype", {"float32"}}}}});
  REQUIRE(result.ok());
  std::vector<TestTensor> tensors;
  for (const auto& [name, file] : result->files)
    if (name.find(".safetensors") != std::string::npos && name.find(".json") == std::string::npos)
      for (const TestTensor& tensor : tensors_of(file)) tensors.push_back(tensor);
  REQUIRE(tensors.size() == 1);
  CHECK(tensors[0].bytes == f32_bytes(std::vector<float>(16, 8.0f)));
}

TEST_CASE("trap: dtypes that lie") {
  // FP4 in I8, packed codes in BF16.
  LayoutCase v4 = trap_case("deepseek-v4-fp4");
  fill_part(v4, "m.weight", "\xAA");  // -1, -1: no int8
  fill_part(v4, "m.scale", "\x7F");
  CHECK(trap_values(v4)[0] == -1.0f);
  LayoutCase nf4 = trap_case("bnb-nf4");
  part(nf4, "m.weight").dtype = DType::BF16;
  part(nf4, "m.weight").shape = {32, 1};
  fill_part(nf4, "m.weight", "\x7F");
  fill_part(nf4, "m.weight.absmax", 1.0f);
  std::vector<float> map(16);
  map[7] = 0.5f;
  part(nf4, "m.weight.quant_map").bytes = f32_bytes(map);
  CHECK(trap_values(nf4)[0] == 0.5f);
}

TEST_CASE("trap: equal names with another meaning") {
  // `.scale` of DeepSeek V4, and one that was learned; `scales` of GPTQ and of MLX; NVFP4.
  const HeaderModel learned(
      {{"m.weight", DType::BF16, {8, 8}}, {"m.scale", DType::BF16, {8}}, {"m.scales", DType::BF16, {8, 2}}});
  CHECK(learned.detect().findings.empty());
  CHECK(learned.detect().problems.empty());
  const LayoutCase clash = trap_case("nvfp4-ambiguous");
  const auto weight =
      open_module(HeaderModel(clash.tensors, clash.config, clash.metadata), "nvfp4-ambiguous");
  REQUIRE_FALSE(weight.ok());
  CHECK(weight.error().code == ErrorCode::kRefusedAmbiguous);
  CHECK(weight.error().message.find("--layout modelopt-nvfp4 or --layout comfy-nvfp4") != std::string::npos);
}

TEST_CASE("names that once meant another layout") {
  // Prism beside MLX, Quark's MXFP4 beside ModelOpt's, auto-round's own packing beside GPTQ.
  const std::vector<HeaderTensor> bits = {
      {"m.weight", DType::U32, {8, 4}}, {"m.scales", DType::BF16, {8, 1}}, {"m.biases", DType::BF16, {8, 1}}};
  CHECK(
      HeaderModel(bits, R"({"quantization_config":{"quant_method":"prism"}})").found().count("prism-1bit") ==
      1);
  const std::vector<HeaderTensor> fp4 = {{"m.weight", DType::U8, {16, 48}},
                                         {"m.weight_scale", DType::U8, {16, 3}}};
  CHECK(
      HeaderModel(fp4, R"({"quantization_config":{"quant_method":"quark"}})").found().count("quark-mxfp4") ==
      1);
  CHECK(HeaderModel(fp4, R"({"quantization_config":{"quant_method":"modelopt"}})")
            .found()
            .count("modelopt-mxfp4") == 1);
  const std::vector<HeaderTensor> packed = {{"m.weight_packed", DType::U8, {8, 32}},
                                            {"m.weight_scale", DType::U8, {8, 2}}};
  const auto autoround = [&](const std::string& type) {
    return HeaderModel(packed,
                       R"({"quantization_config":{"quant_method":"auto-round","data_type":")" + type + "\"}}")
        .found();
  };
  CHECK(autoround("mx_fp4").count("ct-mxfp4-pack-quantized") == 1);
  CHECK(autoround("mx_int4").count("autoround-mxint4") == 1);
  CHECK(autoround("nvfp4_v2").empty());  // groups of 16 need twice the scales
}
