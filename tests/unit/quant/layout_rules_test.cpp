// What single layouts ask for beyond their smallest form: ambiguities, geometry, what the configuration
// decides.
#include <catch2/catch.hpp>

#include "header_model.h"
#include "layout_cases.h"
#include "quant/gptq_zeros.h"
#include "quant/layout_scan.h"
#include "quant/scale_shape.h"
#include "tftf/quant/weight.h"

using namespace tftf;
using Found = std::map<std::string, size_t>;

namespace {

std::string words(std::vector<uint32_t> values) {
  std::string out;
  for (uint32_t value : values) out.append(reinterpret_cast<const char*>(&value), 4);
  return out;
}

std::string quantization_config(const std::string& members) {
  return R"({"quantization_config":{)" + members + "}}";
}

std::vector<HeaderTensor> gptq(const std::string& module, std::vector<uint32_t> zeros) {
  std::vector<uint32_t> all;
  for (int i = 0; i < 8; ++i) all.push_back(zeros[static_cast<size_t>(i) % zeros.size()]);
  return {{module + ".qweight", DType::I32, {8, 32}},
          {module + ".qzeros", DType::I32, {2, 4}, words(all)},
          {module + ".scales", DType::F16, {2, 32}},
          {module + ".g_idx", DType::I32, {64}}};
}

std::vector<HeaderTensor> joined(std::vector<std::vector<HeaderTensor>> lists) {
  std::vector<HeaderTensor> out;
  for (auto& list : lists) out.insert(out.end(), list.begin(), list.end());
  return out;
}

// The only problem's words.
std::string problem(const HeaderModel& model) {
  const LayoutReport report = model.detect();
  REQUIRE(report.problems.size() == 1);
  return report.problems[0].module + ": " + report.problems[0].what;
}

const QuantMatch& first_match(const LayoutReport& report) {
  REQUIRE(report.findings.size() == 1);
  return report.findings[0].matches[0];
}

}  // namespace

TEST_CASE("zero points are judged field by field for every width") {
  for (uint32_t bits : {2u, 3u, 4u, 8u}) {
    INFO(bits);
    // 32 fields of one row, then the same row again.
    auto row = [&](auto value_of) {
      std::vector<uint32_t> out(2 * bits, 0);
      for (uint32_t field = 0; field < 64; ++field)
        for (uint32_t b = 0; b < bits; ++b)
          if (value_of(field) >> b & 1) out[(field * bits + b) / 32] |= 1u << ((field * bits + b) % 32);
      return words(out);
    };
    const uint32_t half = 1u << (bits - 1);
    auto judge = [&](const std::string& text) { return judge_zeros(as_bytes(text), bits, bits); };
    CHECK(judge(row([&](uint32_t) { return half - 1; })) == ZeroVerdict::kV1);
    CHECK(judge(row([&](uint32_t) { return half; })) == ZeroVerdict::kV2);
    CHECK(judge(row([&](uint32_t f) { return f == 63 ? half : half - 1; })) == ZeroVerdict::kMixed);
    CHECK(judge(row([&](uint32_t) { return 0u; })) == ZeroVerdict::kMixed);
    CHECK(judge("") == ZeroVerdict::kUnknown);
  }
}

TEST_CASE("GPTQ: values win over the configuration, mixed values trust it") {
  const std::string v1 = quantization_config(R"("quant_method":"gptq","checkpoint_format":"gptq")");
  const std::string v2 = quantization_config(R"("quant_method":"gptq","checkpoint_format":"gptq_v2")");
  auto found = [](std::vector<HeaderTensor> tensors, std::string config) {
    return HeaderModel(std::move(tensors), std::move(config)).found();
  };
  const uint32_t sevens = 0x77777777, eights = 0x88888888;
  CHECK(found(gptq("m", {eights}), v1) == Found{{"gptq-v2", 1}});
  CHECK(found(gptq("m", {sevens}), v2) == Found{{"gptq-v1", 1}});
  CHECK(found(gptq("m", {sevens, eights}), v2) == Found{{"gptq-v2", 1}});
  CHECK(found(gptq("m", {sevens, eights}), v1) == Found{{"gptq-v1", 1}});
  CHECK(found(gptq("m", {sevens, eights}), "") == Found{{"gptq-v1", 1}});
  CHECK(found(joined({gptq("a", {sevens}), gptq("b", {eights})}), "") ==
        Found{{"gptq-v1", 1}, {"gptq-v2", 1}});
  CHECK(HeaderModel(gptq("m", {eights}), v1).detect().notes.size() == 1);
  CHECK(HeaderModel(gptq("m", {sevens}), v1).detect().notes.empty());
}

TEST_CASE("GPTQ: bits come from the geometry, groups may end short") {
  std::vector<HeaderTensor> tensors = gptq("m", {0x77777777});
  tensors[0].shape = {16, 32};
  tensors[1] = {"m.qzeros", DType::I32, {2, 8}, words(std::vector<uint32_t>(16, 0x7F7F7F7F))};
  const LayoutReport eight =
      HeaderModel(tensors, quantization_config(R"("bits":4,"group_size":32)")).detect();
  CHECK(first_match(eight).bits == 8);
  CHECK(first_match(eight).group_size == 32);
  tensors = gptq("m", {0x77777777});
  tensors[0].shape = {12, 32};
  tensors[3].shape = {96};
  const LayoutReport ragged =
      HeaderModel(tensors, quantization_config(R"("bits":4,"group_size":64)")).detect();
  CHECK(first_match(ragged).group_size == 64);
  CHECK(first_match(ragged).logical_shape == Shape{32, 96});
  CHECK(first_match(HeaderModel(tensors).detect()).group_size == 64);
  tensors[1].shape = {2, 3};
  CHECK(problem(HeaderModel(tensors)).find("fit neither GPTQ nor AWQ") != std::string::npos);
}

TEST_CASE("GPTQ and AWQ GEMV share a shape: a group below 16 is none") {
  const std::vector<HeaderTensor> tensors = {{"m.qweight", DType::I32, {16, 16}},
                                             {"m.qzeros", DType::I32, {16, 2}},
                                             {"m.scales", DType::F16, {16, 16}}};
  CHECK(HeaderModel(tensors).found() == Found{{"awq-gemv", 1}});
  const LayoutReport report =
      HeaderModel(tensors, quantization_config(R"("version":"gemv","group_size":64)")).detect();
  CHECK(first_match(report).group_size == 64);
  CHECK(first_match(report).logical_shape == Shape{16, 128});
}

TEST_CASE("AWQ: a configuration that says gemv over the shapes of gemm is a contradiction") {
  const std::vector<HeaderTensor> tensors = {{"m.qweight", DType::I32, {64, 4}},
                                             {"m.qzeros", DType::I32, {2, 4}},
                                             {"m.scales", DType::F16, {2, 32}}};
  CHECK(HeaderModel(tensors).found() == Found{{"awq-gemm", 1}});
  CHECK(problem(HeaderModel(tensors, quantization_config(R"("version":"gemv","group_size":32)")))
            .find("says version gemv") != std::string::npos);
}

TEST_CASE("AWQ without zeros needs a configuration that says so") {
  const std::vector<HeaderTensor> tensors = {{"m.qweight", DType::I32, {64, 4}},
                                             {"m.scales", DType::F16, {2, 32}}};
  CHECK(problem(HeaderModel(tensors)).find("qzeros is missing") != std::string::npos);
  CHECK(HeaderModel(tensors, quantization_config(R"("quant_method":"awq","zero_point":false)")).found() ==
        Found{{"awq-gemm", 1}});
  CHECK(
      HeaderModel(tensors, quantization_config(R"("quant_method":"awq","zero_point":true)")).found().empty());
}

TEST_CASE("bitsandbytes: a broken quant_state is named, not guessed around") {
  auto model = [](std::string state) {
    const uint64_t size = state.size();
    return HeaderModel({{"m.weight", DType::U8, {64, 1}},
                        {"m.weight.absmax", DType::F32, {2}},
                        {"m.weight.quant_map", DType::F32, {16}},
                        {"m.weight.quant_state.bitsandbytes__nf4", DType::U8, {size}, std::move(state)}});
  };
  CHECK(model(R"({"blocksize":64,"dtype":"float16","shape":[8,16]})").found() == Found{{"bnb-nf4", 1}});
  CHECK(problem(model(R"({"blocksize":64,"dtype":"float16","shape":[8,)")).find("not the JSON") !=
        std::string::npos);
  CHECK(problem(model(R"({"blocksize":64,"dtype":"float16","shape":[8,17]})")).find("needs more than") !=
        std::string::npos);
  CHECK(problem(model(R"({"blocksize":64,"dtype":"int8","shape":[8,16]})")).find("the dtype of") !=
        std::string::npos);
  CHECK(problem(model(R"({"blocksize":64,"dtype":"float16","shape":[4294967296,4294967296]})"))
            .find("needs more") != std::string::npos);
}

TEST_CASE("FP8 blocks: the configuration's size, else the one that fits, never a quotient") {
  auto model = [](Shape weight, Shape grid, std::string config = {}) {
    return HeaderModel({{"m.weight", DType::F8_E4M3, weight}, {"m.weight_scale_inv", DType::F32, grid}},
                       config);
  };
  const std::string b128 = quantization_config(R"("quant_method":"fp8","weight_block_size":[128,128])");
  CHECK(first_match(model({1000, 128}, {8, 1}).detect()).block[0] == 128);
  CHECK(first_match(model({96, 130}, {2, 3}).detect()).block[1] == 64);
  CHECK(first_match(model({40, 136}, {2, 2}, b128).detect()).block[0] == 128);
  CHECK(problem(model({300, 136}, {2, 2}, b128)).find("smaller than") != std::string::npos);
  CHECK(problem(model({1000, 128}, {9, 1})).find("no block size") != std::string::npos);
  CHECK(problem(model({40, 40}, {1, 1}, quantization_config(R"("weight_block_size":[32,32])")))
            .find("smaller than") != std::string::npos);
  CHECK(first_match(model({4, 96, 130}, {4, 2, 3}).detect()).block[0] == 64);
  // A scale under quant_method fp8 that is not there at all.
  CHECK(problem(HeaderModel({{"m.weight", DType::F8_E4M3, {4, 4}}}, b128)).find("its scale is missing") !=
        std::string::npos);
  // Per tensor and per row under the same name are not blocks.
  CHECK(model({40, 16}, {40, 1}).found() == Found{{"fp8-scaled", 1}});
  CHECK(model({40, 16}, {}).found() == Found{{"fp8-scaled", 1}});
  // Stacked experts have no ".weight".
  CHECK(HeaderModel({{"x.gate_up_proj", DType::F8_E4M3, {2, 256, 128}},
                     {"x.gate_up_proj_scale_inv", DType::BF16, {2, 2, 1}}})
            .found() == Found{{"fp8-block", 1}});
}

TEST_CASE("NVFP4: configuration or shape decide, equality decides nothing") {
  auto tensors = [](Shape weight, Shape scale) {
    return std::vector<HeaderTensor>{{"m.weight", DType::U8, weight},
                                     {"m.weight_scale", DType::F8_E4M3, scale},
                                     {"m.weight_scale_2", DType::F32, {}}};
  };
  const std::string modelopt = quantization_config(R"("quant_method":"modelopt","quant_algo":"NVFP4")");
  CHECK(HeaderModel(tensors({128, 32}, {128, 4})).found() == Found{{"nvfp4-ambiguous", 1}});
  CHECK(HeaderModel(tensors({128, 32}, {128, 4}), modelopt).found() == Found{{"modelopt-nvfp4", 1}});
  CHECK(HeaderModel(tensors({24, 32}, {24, 4})).found() == Found{{"modelopt-nvfp4", 1}});
  CHECK(HeaderModel(tensors({24, 32}, {128, 4})).found() == Found{{"nvfp4-ambiguous", 1}});
  CHECK(problem(HeaderModel(tensors({24, 32}, {128, 4}), modelopt)).find("swizzled") != std::string::npos);
  // The buggy export of [N, K/32].
  CHECK(problem(HeaderModel(tensors({24, 32}, {24, 2}), modelopt)).find("neither the linear") !=
        std::string::npos);
  HeaderModel side(tensors({128, 32}, {128, 4}));
  side.add_side_file("hf_quant_config.json", R"({"quantization":{"quant_algo":"NVFP4"}})");
  CHECK(side.found() == Found{{"modelopt-nvfp4", 1}});
}

TEST_CASE("who made an FP8 weight with a weight_scale is said by the configuration alone") {
  const std::vector<HeaderTensor> tensors = {{"m.weight", DType::F8_E4M3, {8, 16}},
                                             {"m.weight_scale", DType::F32, {}}};
  CHECK(HeaderModel(tensors).found() == Found{{"fp8-scaled", 1}});
  CHECK(HeaderModel(tensors, quantization_config(R"("quant_method":"fp8")")).found() ==
        Found{{"fp8-scaled", 1}});
  CHECK(HeaderModel(tensors, quantization_config(R"("quant_algo":"FP8")")).found() ==
        Found{{"modelopt-fp8", 1}});
  CHECK(HeaderModel(tensors, quantization_config(R"("quant_method":"compressed-tensors")")).found() ==
        Found{{"ct-float-quantized", 1}});
  CHECK(
      HeaderModel(tensors, R"({"text_config":{"quantization_config":{"quant_method":"compressed-tensors"}}})")
          .found() == Found{{"ct-float-quantized", 1}});
  CHECK(HeaderModel(tensors, R"({"compression_config":{"format":"naive-quantized","config_groups":{}}})")
            .found() == Found{{"ct-naive-quantized", 1}});
  const std::vector<HeaderTensor> int8 = {{"m.weight", DType::I8, {8, 16}},
                                          {"m.weight_scale", DType::F32, {8, 1}}};
  const LayoutReport unnamed = HeaderModel(int8).detect();
  CHECK(unnamed.findings.empty());
  CHECK(unnamed.notes.size() == 1);
}

TEST_CASE("ComfyUI: metadata describes layers as tensors do, and may leave the prefix out") {
  const std::vector<HeaderTensor> tensors = {{"model.diffusion_model.a.weight", DType::F8_E4M3, {8, 16}},
                                             {"model.diffusion_model.a.weight_scale", DType::F32, {}},
                                             {"model.diffusion_model.b.weight", DType::F8_E5M2, {8, 16}},
                                             {"model.diffusion_model.b.weight_scale", DType::F32, {}}};
  const Metadata metadata = {
      {"_quantization_metadata",
       R"({"format_version":"1.0","layers":{"a":{"format":"float8_e4m3fn"},"b":"float8_e5m2"}})"}};
  CHECK(HeaderModel(tensors, "", metadata).found() == Found{{"comfy-fp8", 2}});
  // A description of another dtype, an unknown format, no format.
  for (const char* layers :
       {R"({"a":{"format":"float8_e5m2"}})", R"({"a":{"format":"float7"}})", R"({"a":{}})"}) {
    INFO(layers);
    CHECK(HeaderModel({tensors[0], tensors[1]}, "",
                      {{"_quantization_metadata", std::string(R"({"layers":)") + layers + "}"}})
              .detect()
              .problems.size() == 1);
  }
}

TEST_CASE("ComfyUI scaled FP8: the weight's dtype decides, dummy scales go with the marker") {
  const std::vector<HeaderTensor> tensors = {{"m.scaled_fp8", DType::F8_E4M3, {0}},
                                             {"m.a.weight", DType::F8_E4M3, {8, 16}},
                                             {"m.a.scale_weight", DType::F32, {}},
                                             {"m.b.weight", DType::F16, {8, 16}},
                                             {"m.b.scale_weight", DType::F32, {}}};
  const LayoutReport report = HeaderModel(tensors).detect();
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].matches.size() == 1);
  CHECK(report.findings[0].extras.size() == 2);
  CHECK(problem(HeaderModel({tensors[0], tensors[1]})).find("scale_weight is missing") != std::string::npos);
  CHECK(HeaderModel({tensors[3], tensors[4]}).found().empty());
}

TEST_CASE("MLX: bits and groups of the configuration, per layer; without it only what has one solution") {
  auto model = [](Shape weight, Shape scales, std::string config) {
    return HeaderModel({{"lm_head.weight", DType::U32, weight},
                        {"lm_head.scales", DType::BF16, scales},
                        {"lm_head.biases", DType::BF16, scales}},
                       std::move(config));
  };
  const std::string layers =
      R"({"quantization":{"group_size":64,"bits":4,"lm_head":{"group_size":32,"bits":8}}})";
  const LayoutReport own = model({16, 16}, {16, 2}, layers).detect();
  CHECK(first_match(own).bits == 8);
  CHECK(first_match(own).logical_shape == Shape{16, 64});
  const LayoutReport open = model({16, 8}, {16, 1}, "").detect();
  CHECK(first_match(open).bits == 0);
  CHECK_FALSE(first_match(open).logical_shape);
  CHECK(first_match(model({16, 2}, {16, 1}, "").detect()).bits == 2);
  CHECK(problem(model({16, 8}, {16, 3}, layers)).find("do not fit the 8 bits") != std::string::npos);
}

TEST_CASE("compressed-tensors: the packed width gives the shape where the configuration allows it") {
  auto shape_of = [](std::string config, std::vector<int64_t> stored) {
    std::string bytes;
    for (int64_t value : stored) bytes.append(reinterpret_cast<const char*>(&value), 8);
    const HeaderModel model({{"m.weight_packed", DType::I32, {12, 8}},
                             {"m.weight_scale", DType::BF16, {12, 2}},
                             {"m.weight_shape", DType::I64, {2}, bytes}},
                            std::move(config));
    SmallValues values(model.checkpoint());
    (void)detect_layouts(model.checkpoint(), values);
    const bool wanted = model.serve(values);
    return std::pair(wanted, *first_match(detect_layouts(model.checkpoint(), values)).logical_shape);
  };
  const std::string group32 =
      R"({"quantization_config":{"quant_method":"compressed-tensors","format":"pack-quantized",
    "config_groups":{"g":{"targets":["Linear"],"weights":{"num_bits":4,"group_size":32}}}}})";
  CHECK(shape_of(group32, {1, 1}) == std::pair(false, Shape{12, 64}));
  CHECK(shape_of("", {12, 60}) == std::pair(true, Shape{12, 60}));
}

TEST_CASE(
    "layouts that are only named take their parts, which are no plain weights, and are refused by name") {
  const HeaderModel model(
      {{"m.trellis", DType::I16, {4, 4, 64}}, {"m.suh", DType::F16, {64}}, {"m.svh", DType::F16, {64}}});
  const LayoutReport report = model.detect();
  REQUIRE(report.findings.size() == 1);
  REQUIRE(report.findings[0].matches.size() == 1);
  OpenContext context{model.checkpoint(), read_quant_config(model.checkpoint())};
  const Result<Weight> weight = open_weight(context, report.findings[0].matches[0]);
  REQUIRE_FALSE(weight.ok());
  CHECK(weight.error().message.find("exl3") != std::string::npos);
  CHECK(HeaderModel({{"m.trellis", DType::I16, {4, 4, 64}}}).detect().problems.empty());
  CHECK(HeaderModel({{"m.trellis", DType::I16, {4, 4, 64}}}).found().empty());
}

TEST_CASE("scale shapes are told by what they multiply") {
  CHECK(scale_shape({8, 16}, {}) == ScaleShape::kTensor);
  CHECK(scale_shape({8, 16}, {1, 1}) == ScaleShape::kTensor);
  CHECK(scale_shape({3, 8, 16}, {3}) == ScaleShape::kTensor);
  CHECK(scale_shape({3, 8, 16}, {3, 1, 1}) == ScaleShape::kTensor);
  CHECK(scale_shape({8, 16}, {8}) == ScaleShape::kChannel);
  CHECK(scale_shape({8, 16}, {8, 1}) == ScaleShape::kChannel);
  CHECK(scale_shape({3, 8, 16}, {3, 8}) == ScaleShape::kChannel);
  CHECK(scale_shape({8, 16}, {16}) == ScaleShape::kOther);
  CHECK(scale_shape({8, 16}, {2, 2}) == ScaleShape::kOther);
  CHECK(block_of({160, 144}, {2, 1, 2, 1}, std::nullopt)->rows == 128);
  CHECK_FALSE(block_of({160, 144}, {2, 2, 2}, std::nullopt));
}

TEST_CASE("small values are bounded, and lie inside the file") {
  const HeaderModel model({{"a", DType::U8, {100}, std::string(100, 'a')},
                           {"b", DType::U8, {200}, std::string(200, 'b')},
                           {"c", DType::U8, {0}}});
  SmallValues values(model.checkpoint(), 250);
  CHECK_FALSE(values.get({0, 0}));
  CHECK(values.pending({0, 0}));
  CHECK_FALSE(values.get({0, 1}));  // 300 bytes are too many
  CHECK_FALSE(values.pending({0, 1}));
  CHECK(values.get({0, 2})->empty());
  CHECK(model.serve(values));
  CHECK(as_text(*values.get({0, 0})) == std::string(100, 'a'));
  CHECK_FALSE(model.serve(values));
  SmallValues failing(model.checkpoint());
  CHECK_FALSE(failing.get({0, 0}, 10));
  const std::vector<ReadRequest> wanted = failing.want();
  REQUIRE(wanted.size() == 1);
  CHECK(wanted[0].range.length == 10);
  failing.fail(wanted[0]);
  CHECK_FALSE(failing.get({0, 0}));
  CHECK_FALSE(failing.pending({0, 0}));
}

TEST_CASE("what only opening a module shows is told without opening it for its values") {
  struct Misfit {
    const char *layout, *tensor;
    Shape shape;
    const char* says;
  };
  const std::vector<Misfit> misfits = {
      {"comfy-nvfp4", "m.weight_scale", {128, 8}, "in tiles of 128 x 4"},
      {"comfy-mxfp8", "m.weight_scale", {256, 4}, "in tiles of 128 x 4"},
      {"modelopt-nvfp4", "m.weight_scale_2", {2}, "not one F32 per matrix"},
  };
  for (const Misfit& misfit : misfits)
    for (LayoutCase one : layout_cases()) {
      if (one.layout != misfit.layout) continue;
      INFO(misfit.layout);
      const HeaderModel sound(one.tensors, one.config, one.metadata);
      CHECK(geometry_problems(sound.checkpoint(), sound.detect()).empty());
      for (HeaderTensor& tensor : one.tensors)
        if (tensor.name == misfit.tensor) tensor.shape = misfit.shape;
      const HeaderModel broken(one.tensors, one.config, one.metadata);
      const LayoutReport report = broken.detect();
      std::vector<QuantProblem> problems = geometry_problems(broken.checkpoint(), report);
      problems.insert(problems.end(), report.problems.begin(), report.problems.end());
      REQUIRE(problems.size() == 1);
      CHECK(problems[0].what.find(misfit.says) != std::string::npos);
      CHECK(problems[0].what.find("Module") == std::string::npos);
    }
}

TEST_CASE("torchao's early spelling is named and not read") {
  const std::vector<HeaderTensor> tensors = {{"m.weight:qdata", DType::F8_E4M3, {8, 8}},
                                             {"m.weight:scale", DType::F32, {8, 1}},
                                             {"m.bias:data", DType::BF16, {8}}};
  const Metadata metadata = {{"tensor_names", R"(["m.weight", "m.bias"])"},
                             {"m.weight:tensor_type", "<class 'torchao.quantization.Float8Tensor'>"},
                             {"m.bias:tensor_type", "<class 'torch.Tensor'>"}};
  CHECK(problem(HeaderModel(tensors, {}, metadata))
            .find("m.weight: the metadata has torchao's early spelling") == 0);
  // Without its parts, or without the list of names, it is no model of torchao.
  const LayoutReport plain = HeaderModel({tensors[2]}, {}, metadata).detect();
  CHECK(plain.problems.empty());
  CHECK(plain.notes.size() == 1);
  CHECK(HeaderModel({tensors[2]}, {}, {metadata[2]}).detect().notes.empty());
}
