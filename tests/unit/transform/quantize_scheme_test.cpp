// quantize --to compressed-tensors: byte for byte what the library writes, computed or under given scales, however the model is
// cut; and what is refused.
#include <catch2/catch.hpp>
#include <cstring>

#include "adapter_host.h"
#include "data_file.h"
#include "quant/ct/config.h"
#include "tftf/base/json_value.h"
#include "tftf/simd/floats.h"
#include "transform_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

const std::string kSchemeShard = "model-00001-of-00001.safetensors";

std::string library_file(const std::string& path) {
  return tftf_test::read_data("/golden/compressed-tensors/" + path);
}

std::map<std::string, TestTensor> scheme_tensors(const std::string& file) {
  std::map<std::string, TestTensor> out;
  for (TestTensor& tensor : tensors_of(file)) out.emplace(tensor.name, tensor);
  return out;
}

Operation to_scheme(const std::string& scheme, const std::map<std::string, std::string>& files = {}) {
  Operation operation{.id = "quantize", .options = {{"to", {"compressed-tensors"}}, {"scheme", {scheme}}}};
  for (const auto& [option, bytes] : files) {
    if (option != "scheme") operation.options.push_back({option, {option + ".safetensors"}});
    operation.files[option] = std::make_shared<const std::string>(bytes);
  }
  return operation;
}

Result<TransformResult> by_scheme(const MemoryModel& model, Operation operation,
                                  uint64_t tile = kDefaultTileBytes,
                                  const KernelTable& kernels = best_kernels()) {
  TransformRequest request{.command = "quantize", .operations = {std::move(operation)}, .tile_bytes = tile};
  return transform_in_memory(model, model.folder(), std::move(request), {.kernels = &kernels});
}

// The one file of tensors that a run has written.
const std::string& scheme_file(const TransformResult& result) {
  for (const auto& [name, text] : result.files)
    if (name.ends_with(".safetensors")) return text;
  throw std::runtime_error("no tensors were written");
}

MemoryModel scheme_model(const std::vector<TestTensor>& tensors, const std::string& config = "{}") {
  MemoryModel model;
  model.files["model.safetensors"] = model_file(tensors);
  model.files["config.json"] = config;
  return model;
}

// Values between -2 and 2, not all of one sign.
std::string bf16_values(size_t count, uint32_t seed) {
  std::string bytes;
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    const uint16_t code = bf16_from_f32((static_cast<float>(seed >> 8) / 8388608.0f - 1.0f) * 2.0f);
    bytes.append(reinterpret_cast<const char*>(&code), 2);
  }
  return bytes;
}

TestTensor bf16_matrix(const std::string& name, uint64_t rows, uint64_t columns, uint32_t seed = 1) {
  return {name, DType::BF16, {rows, columns}, bf16_values(static_cast<size_t>(rows * columns), seed)};
}

std::string scheme_refusal(const MemoryModel& model, const Operation& operation) {
  const Result<TransformResult> result = by_scheme(model, operation);
  return result ? "" : result.error().message;
}

bool says_so(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("quantising writes the bytes that the library writes") {
  const JsonDocument manifest = parse_json(library_file("manifest.json"), JsonDialect::kPython);
  REQUIRE_FALSE(manifest.error);
  size_t cases = 0;
  for (const JsonValue& one : manifest.root.get("cases")->elements) {
    const JsonValue* written = one.get("written");
    if (written == nullptr) continue;
    const std::string id(*one.string("id"));
    MemoryModel model;
    model.files["model.safetensors"] = library_file(id + "/dense.safetensors");
    const auto expected = scheme_tensors(library_file(id + "/model.safetensors"));
    for (const JsonValue& way : written->elements) {
      std::map<std::string, std::string> files{{"scheme", library_file(id + "/config.json")}};
      const bool given = way.text == "compress" || !one.get("observed")->boolean;
      if (one.get("given")->boolean)
        files[given ? "qparams" : "static-qparams"] = library_file(id + "/qparams.safetensors");
      for (const uint64_t tile : {uint64_t{1}, uint64_t{200}, kDefaultTileBytes}) {
        INFO(id << " " << way.text << ", tiles of " << tile << " bytes");
        const auto result = by_scheme(model, to_scheme("config.json", files), tile,
                                      tile == 1 ? scalar_kernels() : best_kernels());
        if (!result) FAIL(result.error().message);
        const auto got = scheme_tensors(result->files.at(kSchemeShard));
        CHECK(got.size() == expected.size());
        for (const auto& [name, want] : expected) {
          INFO(name);
          REQUIRE(got.count(name) == 1);
          CHECK(got.at(name).dtype == want.dtype);
          CHECK(got.at(name).shape == want.shape);
          CHECK((got.at(name).bytes == want.bytes));
        }
        CHECK(metadata_of(result->files.at(kSchemeShard)) == Metadata{{"format", "pt"}});
      }
      ++cases;
    }
  }
  CHECK(cases > 100);
}

TEST_CASE("every preset is written and read back, and the configuration says what it is") {
  const std::vector<TestTensor> tensors = {bf16_matrix("lm_head.weight", 64, 256, 2),
                                           bf16_matrix("model.embed_tokens.weight", 64, 256, 3),
                                           bf16_matrix("model.layers.0.mlp.gate.weight", 8, 256, 4),
                                           bf16_matrix("model.layers.0.mlp.down_proj.weight", 256, 256, 5),
                                           {"model.norm.weight", DType::BF16, {256}, bf16_values(256, 6)}};
  const MemoryModel model = scheme_model(tensors, R"({"torch_dtype": "bfloat16"})");
  const std::string module = "model.layers.0.mlp.down_proj";
  const std::string calibrated =
      model_file({{module + ".input_scale", DType::BF16, {1}, u16_bytes({0x3F80})},
                  {module + ".input_global_scale", DType::F32, {1}, f32_bytes({448.0f})}});
  for (const std::string_view name : ct::preset_names()) {
    INFO(name);
    if (name == "UNQUANTIZED") {
      says_so(scheme_refusal(model, to_scheme("UNQUANTIZED")), "nothing to do");
      continue;
    }
    const ct::Group preset = *ct::find_preset(name);
    const bool fixed = preset.inputs && (!preset.inputs->dynamic || preset.inputs->local);
    if (fixed) says_so(scheme_refusal(model, to_scheme(std::string(name))), "--static-qparams");
    const auto there =
        by_scheme(model, to_scheme(std::string(name),
                                   fixed ? std::map<std::string, std::string>{{"static-qparams", calibrated}}
                                         : std::map<std::string, std::string>{}));
    if (!there) FAIL(there.error().message);
    const JsonDocument config = parse_json(there->files.at("config.json"), JsonDialect::kPython);
    REQUIRE_FALSE(config.error);
    const JsonValue& section = *config.root.get("quantization_config");
    CHECK(section.string("quant_method") == "compressed-tensors");
    CHECK(section.string("version") == "0.18.0");
    CHECK(section.string("format") == preset.format);
    CHECK(section.string("quantization_status") == "compressed");
    std::vector<std::string> ignored;
    for (const JsonValue& entry : section.get("ignore")->elements) ignored.push_back(entry.text);
    CHECK(ignored == std::vector<std::string>{"lm_head", "model.layers.0.mlp.gate"});
    Result<ct::Config> parsed = ct::parse_config(section);
    if (!parsed) FAIL(parsed.error().message);
    // Read back by the layout that the configuration names.
    MemoryModel again;
    for (const auto& [file, text] : there->files)
      again.files[file == kSchemeShard ? "model.safetensors" : file] = text;
    again.files.erase("model.safetensors.index.json");
    const auto back = transform_in_memory(again, {{"dequant", {{"dtype", {"native"}}}}});
    if (!back) FAIL(back.error().message);
    CHECK(back->account.left_quantised == 0);
    const auto values = scheme_tensors(back->files.at(kSchemeShard));
    const std::string &was = tensors[3].bytes, &is = values.at(module + ".weight").bytes;
    REQUIRE(is.size() == was.size());
    double error = 0, sum = 0;
    for (size_t i = 0; i < was.size(); i += 2) {
      uint16_t a = 0, b = 0;
      std::memcpy(&a, was.data() + i, 2);
      std::memcpy(&b, is.data() + i, 2);
      const double x = f32_from_bf16(a), y = f32_from_bf16(b);
      error += (x - y) * (x - y);
      sum += x * x;
    }
    CHECK(error < sum * (preset.weights->bits == 2 ? 0.5 : preset.weights->bits == 3 ? 0.1 : 0.02));
  }
}

TEST_CASE("fused layers share a global scale, others do not") {
  const MemoryModel model = scheme_model({bf16_matrix("l.self_attn.q_proj.weight", 4, 32, 1),
                                          bf16_matrix("l.self_attn.k_proj.weight", 2, 32, 9),
                                          bf16_matrix("l.self_attn.o_proj.weight", 4, 32, 77)});
  const auto result = by_scheme(model, to_scheme("NVFP4A16"), 64);
  if (!result) FAIL(result.error().message);
  const auto got = scheme_tensors(result->files.at(kSchemeShard));
  CHECK(got.at("l.self_attn.q_proj.weight_global_scale").bytes ==
        got.at("l.self_attn.k_proj.weight_global_scale").bytes);
  CHECK(got.at("l.self_attn.q_proj.weight_global_scale").bytes !=
        got.at("l.self_attn.o_proj.weight_global_scale").bytes);
}

TEST_CASE("quantising what is quantised already gives the bytes of two runs") {
  const MemoryModel model = scheme_model({bf16_matrix("a.q_proj.weight", 8, 256, 3)});
  const auto fp8 = by_scheme(model, to_scheme("FP8_DYNAMIC"));
  if (!fp8) FAIL(fp8.error().message);
  MemoryModel coded;
  coded.files["model.safetensors"] = fp8->files.at(kSchemeShard);
  coded.files["config.json"] = fp8->files.at("config.json");
  const auto plain = transform_in_memory(coded, {{"dequant", {{"dtype", {"native"}}}}});
  if (!plain) FAIL(plain.error().message);
  MemoryModel floats;
  floats.files["model.safetensors"] = plain->files.at(kSchemeShard);
  floats.files["config.json"] = "{}";
  const auto twice = by_scheme(floats, to_scheme("W4A16")), once = by_scheme(coded, to_scheme("W4A16"), 300);
  if (!twice) FAIL(twice.error().message);
  if (!once) FAIL(once.error().message);
  CHECK((once->files.at(kSchemeShard) == twice->files.at(kSchemeShard)));
}

TEST_CASE("the scheme, the selection and the files decide, and say what does not fit") {
  const MemoryModel model =
      scheme_model({bf16_matrix("a.q_proj.weight", 8, 128), bf16_matrix("a.o_proj.weight", 8, 96)});
  says_so(scheme_refusal(model, to_scheme("W4A16")), "columns that are no multiple of the group size 128");
  Operation partly = to_scheme("W4A16");
  partly.options.push_back({"exclude", {"*o_proj*"}});
  const auto some = by_scheme(model, partly);
  if (!some) FAIL(some.error().message);
  CHECK(scheme_tensors(some->files.at(kSchemeShard)).count("a.o_proj.weight") == 1);
  says_so(some->files.at("config.json"), "\"a.o_proj\"");
  says_so(scheme_refusal(model, to_scheme("W9A9")), "neither a file nor a preset");
  Operation none{.id = "quantize", .options = {{"to", {"compressed-tensors"}}}};
  says_so(scheme_refusal(model, none), "takes a --scheme");
  Operation bits = to_scheme("W8A8");
  bits.options.push_back({"bits", {"4"}});
  says_so(scheme_refusal(model, bits), "does not go with compressed-tensors");
  Operation other{.id = "quantize", .options = {{"to", {"fp8-block"}}, {"scheme", {"W4A16"}}}};
  says_so(scheme_refusal(model, other), "goes with --to compressed-tensors alone");
  says_so(scheme_refusal(model, to_scheme("c.json", {{"scheme", "{"}})), "not valid JSON");
  says_so(scheme_refusal(model, to_scheme("c.json", {{"scheme", "{}"}})),
          "neither quantization_config nor config_groups");
  says_so(
      scheme_refusal(model, to_scheme("c.json", {{"scheme", R"({"config_groups": {"g": {"targets": ["Linear"],
      "weights": {"num_bits": 4, "group_size": 0}}}})"}})),
      "group_size");
  says_so(
      scheme_refusal(model, to_scheme("c.json", {{"scheme", R"({"config_groups": {"g": {"targets": ["Linear"],
      "format": "pack-quantized", "weights": {"num_bits": 8, "type": "float"}}}})"}})),
      "pack-quantized does not go with");
}

TEST_CASE("given scales are checked against the grid") {
  const MemoryModel model = scheme_model({bf16_matrix("m.weight", 8, 128)});
  const auto with = [&](const std::vector<TestTensor>& params, const std::string& scheme = "W4A16") {
    return scheme_refusal(model, to_scheme(scheme, {{"qparams", model_file(params)}}));
  };
  const auto scale = [](Shape shape, size_t count, uint16_t code = 0x3C00) {
    return TestTensor{"m.weight_scale", DType::BF16, std::move(shape),
                      u16_bytes(std::vector<uint16_t>(count, code))};
  };
  CHECK(with({scale({8, 1}, 8)}) == "");
  says_so(with({scale({8, 2}, 16)}), "weight_scale is [8,2]");
  says_so(with({scale({8, 1}, 8, 0)}), "expected positive numbers");
  says_so(with({scale({8, 1}, 8, 0x7F80)}), "expected positive numbers");
  says_so(with({{"n.weight_scale", DType::BF16, {1}, u16_bytes({0x3C00})}}), "has no \"m.weight_scale\"");
  says_so(with({scale({8, 1}, 8)}, "W4A16_ASYM"), "weight_zero_point is not given");
  says_so(with({scale({8, 1}, 8), {"m.weight_zero_point", DType::I8, {8, 1}, std::string(8, '\1')}}),
          "symmetric");
  says_so(with({scale({8, 4}, 32, 0x3C10)}, "MXFP4A16"), "expected a power of two");
  says_so(scheme_refusal(model, to_scheme("W4A16", {{"qparams", "nothing"}})), "no sound safetensors file");
}

TEST_CASE("values without a code end the run") {
  std::string bytes = bf16_values(8 * 128, 1);
  bytes[2] = static_cast<char>(0x80);
  bytes[3] = static_cast<char>(0x7F);  // infinite
  const MemoryModel model = scheme_model({{"m.weight", DType::BF16, {8, 128}, bytes}});
  for (const char* preset : {"W4A16", "W8A8", "FP8_DYNAMIC", "NVFP4A16", "MXFP4A16", "FP8_BLOCK"}) {
    INFO(preset);
    says_so(scheme_refusal(model, to_scheme(preset)), "NaN, infinite or too large");
  }
  const std::string sparse =
      R"({"quantization_config": {"quant_method": "compressed-tensors", "sparsity_config":
      {"format": "sparse-24-bitmask", "targets": ["Linear"]}, "version": "0.14.0"}})";
  says_so(scheme_refusal(scheme_model({bf16_matrix("m.weight", 4, 8)}),
                         to_scheme("c.json", {{"scheme", sparse}})),
          "more than two of four");
  const std::string marlin = R"({"config_groups": {"g": {"targets": ["Linear"], "weights": {"num_bits": 4,
      "strategy": "channel"}}}, "format": "marlin-24", "version": "0.14.0"})";
  says_so(scheme_refusal(scheme_model({bf16_matrix("m.weight", 64, 128)}),
                         to_scheme("c.json", {{"scheme", marlin}})),
          "more than two of four");
}

TEST_CASE("an adapter is merged into every format in one pass, and quantised anew in the same") {
  const std::string module = "l.0.down_proj";
  const MemoryModel model =
      scheme_model({bf16_matrix(module + ".weight", 128, 256, 5)}, R"({"torch_dtype": "bfloat16"})");
  std::vector<float> a(2 * 256), b(128 * 2);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 17) * 0.0625f - 0.5f;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 13) * 0.03125f - 0.25f;
  const auto adapter = adapter_of({{module + ".lora_A.weight", DType::F32, {2, 256}, f32_bytes(a)},
                                   {module + ".lora_B.weight", DType::F32, {128, 2}, f32_bytes(b)}},
                                  R"({"peft_type":"LORA","r":2,"lora_alpha":4})");
  REQUIRE(adapter.ok());
  const Operation dequant{"dequant", {{"dtype", {"bfloat16"}}}};
  for (const char* preset : {"W4A16", "W4A16_ASYM", "W3A16", "W8A8", "FP8_DYNAMIC", "FP8_BLOCK", "NVFP4A16",
                             "MXFP4A16", "MXFP8A16"}) {
    INFO(preset);
    const auto coded = by_scheme(model, to_scheme(preset));
    if (!coded) FAIL(coded.error().message);
    MemoryModel base;
    base.files["model.safetensors"] = scheme_file(*coded);
    base.files["config.json"] = coded->files.at("config.json");
    const auto plain = transform_in_memory(base, {dequant});
    if (!plain) FAIL(plain.error().message);
    MemoryModel middle;
    middle.files["model.safetensors"] = scheme_file(*plain);
    middle.files["config.json"] = plain->files.at("config.json");
    const auto merged = transform_in_memory(middle, {merge_operation(*adapter)});
    if (!merged) FAIL(merged.error().message);
    for (const uint64_t tile : {uint64_t{512}, kDefaultTileBytes}) {
      TransformRequest request{
          .command = "run", .operations = {dequant, merge_operation(*adapter)}, .tile_bytes = tile};
      const auto once = transform_in_memory(base, base.folder(), std::move(request));
      if (!once) FAIL(once.error().message);
      CHECK((scheme_tensors(scheme_file(*once)).at(module + ".weight").bytes ==
             scheme_tensors(scheme_file(*merged)).at(module + ".weight").bytes));
    }
    // … and quantised again, in one run or in two.
    MemoryModel last;
    last.files["model.safetensors"] = scheme_file(*merged);
    last.files["config.json"] = plain->files.at("config.json");
    const auto apart = by_scheme(last, to_scheme("W8A8"));
    const auto together = transform_in_memory(base, {dequant, merge_operation(*adapter), to_scheme("W8A8")});
    if (!apart) FAIL(apart.error().message);
    if (!together) FAIL(together.error().message);
    CHECK((scheme_file(*apart) == scheme_file(*together)));
  }
}
