// QT001 to QT215: compressed-tensors. Each rule where it is reported, beside sound models where none is.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "lint_host.h"

using namespace tftf;
using namespace tftf::test;
using nlohmann::json;

namespace {

using Tensors = std::vector<LintTensor>;

std::string int64s(const std::vector<int64_t>& values) {
  std::string bytes;
  for (const int64_t value : values) bytes.append(reinterpret_cast<const char*>(&value), 8);
  return bytes;
}
std::string repeated(const std::string& element, size_t count) {
  std::string bytes;
  for (size_t i = 0; i < count; ++i) bytes += element;
  return bytes;
}
const std::string kBf16One("\x80\x3f", 2), kF32One("\0\0\x80\x3f", 4);

LintTensor ones(const std::string& name, const std::string& dtype, const std::vector<uint64_t>& shape) {
  size_t count = 1;
  for (const uint64_t side : shape) count *= side;
  const std::string one = dtype == "BF16"  ? kBf16One
                          : dtype == "F32" ? kF32One
                          : dtype == "F16" ? std::string("\0\x3c", 2)
                          : dtype.starts_with("F8") || dtype == "U8"
                              ? "8"
                              : std::string("\1\0\0\0\0\0\0\0", dtype == "I8"    ? 1
                                                                : dtype == "I16" ? 2
                                                                : dtype == "I32" ? 4
                                                                                 : 8);
  return {name, dtype, shape, repeated(one, count)};
}

json config_of(const json& groups, const json& more = json::object()) {
  json section = {{"quant_method", "compressed-tensors"},
                  {"config_groups", groups},
                  {"quantization_status", "compressed"},
                  {"version", "0.18.0"}};
  if (!more.is_null()) section.update(more);
  return {{"model_type", "new"}, {"architectures", {"NewForCausalLM"}}, {"quantization_config", section}};
}
json group(const json& weights, const json& more = json::object()) {
  json one = {{"targets", {"Linear"}}, {"weights", weights}};
  if (!more.is_null()) one.update(more);
  return one;
}
json one_group(const json& weights, const json& more = json::object(), const json& section = json::object()) {
  return config_of({{"g", group(weights, more)}}, section);
}
const json kInt4 = {{"num_bits", 4}, {"group_size", 32}};
const json kInt8 = {{"num_bits", 8}, {"strategy", "channel"}};
const json kCtFp8 = {{"num_bits", 8}, {"type", "float"}, {"strategy", "channel"}};
const json kFp8Blocks = {
    {"num_bits", 8}, {"type", "float"}, {"strategy", "block"}, {"block_structure", {4, 4}}};
const json kNvfp4 = {{"num_bits", 4}, {"type", "float"}, {"strategy", "tensor_group"}, {"group_size", 16}};
const json kMxfp4 = {{"num_bits", 4},
                     {"type", "float"},
                     {"strategy", "group"},
                     {"group_size", 32},
                     {"scale_dtype", "torch.uint8"}};

Tensors packed(const std::string& module = "a.q_proj", uint64_t words = 32, uint64_t columns = 256,
               std::vector<uint64_t> scale = {8, 8}) {
  return {ones(module + ".weight_packed", "I32", {8, words}),
          ones(module + ".weight_scale", "BF16", scale),
          {module + ".weight_shape", "I64", {2}, int64s({8, static_cast<int64_t>(columns)})}};
}
Tensors coded(const std::string& dtype, const std::vector<uint64_t>& scale,
              const std::string& module = "a.q_proj", const std::string& scale_dtype = "BF16",
              const std::vector<uint64_t>& shape = {8, 256}) {
  return {ones(module + ".weight", dtype, shape), ones(module + ".weight_scale", scale_dtype, scale)};
}
Tensors pairs(const std::string& scale_dtype, const std::vector<uint64_t>& scale, uint64_t bytes = 128) {
  return {ones("a.q_proj.weight_packed", "U8", {8, bytes}),
          ones("a.q_proj.weight_scale", scale_dtype, scale)};
}
Tensors sparse24(uint64_t columns = 16) {
  return {ones("a.q_proj.compressed", "BF16", {8, columns / 2}),
          ones("a.q_proj.bitmask", "U8", {8, (columns + 7) / 8}),
          {"a.q_proj.shape", "I64", {2, 1}, int64s({8, static_cast<int64_t>(columns)})}};
}
Tensors marlin(const std::vector<uint64_t>& packed_shape, const std::vector<uint64_t>& scale,
               const std::vector<uint64_t>& meta) {
  return {ones("a.q_proj.weight_packed", "I32", packed_shape), ones("a.q_proj.scale_packed", "F16", scale),
          ones("a.q_proj.meta", "I16", meta)};
}
Tensors and_with(Tensors tensors, const Tensors& more) {
  tensors.insert(tensors.end(), more.begin(), more.end());
  return tensors;
}
Tensors without(Tensors tensors, const std::string& end) {
  Tensors out;
  for (const LintTensor& one : tensors)
    if (!one.name.ends_with(end)) out.push_back(one);
  return out;
}

// Ids of these rules that are reported.
std::set<std::string> reported(const json& config, const Tensors& tensors, bool pt = true,
                               MemoryFiles more = {}) {
  if (!config.is_null()) more["config.json"] = config.dump();
  more["model.safetensors"] = weights(tensors, pt ? R"({"format":"pt"})" : R"({"made":"by"})");
  std::set<std::string> ids;
  for (const Diagnostic& finding : run_lint(more).findings) {
    const std::string id(rule_info(finding.rule).id);
    if (id.starts_with("QT0") || id.starts_with("QT1") || id.starts_with("QT2")) ids.insert(id);
  }
  return ids;
}

struct RuleCase {
  std::string rule;
  json config;
  Tensors tensors;
  bool pt = true;
};

const json kFixedInputs = {{"input_activations", {{"num_bits", 8}, {"strategy", "tensor"}}}};
const json kDynamicInputs = {
    {"input_activations", {{"num_bits", 8}, {"strategy", "token"}, {"dynamic", true}}}};

std::vector<RuleCase> firing() {
  const Tensors int8 = coded("I8", {8, 1});
  const json asym = {{"num_bits", 4}, {"group_size", 32}, {"symmetric", false}};
  const json ordered = {{"num_bits", 4}, {"group_size", 32}, {"actorder", "group"}};
  json legacy = one_group(kInt8);
  legacy["compression_config"] = legacy["quantization_config"];
  legacy.erase("quantization_config");
  return {
      {"QT001", one_group(kInt8, {}, {{"format", "zip"}}), int8},
      {"QT002", one_group({{"num_bits", 8}, {"strategy", "channel"}, {"group_size", 64}}), int8},
      {"QT003", one_group(kInt8), {ones("a.q_proj.weight", "I8", {8, 256})}},
      {"QT004", config_of({{"g", {{"targets", {"b"}}, {"weights", kInt8}}}}),
       and_with(int8, {ones("b.weight", "I8", {2, 2}), ones("b.weight_scale", "BF16", {2, 1})})},
      {"QT005", one_group({{"num_bits", 8}, {"strategy", "tensor"}}), int8},
      {"QT006", one_group(kInt8, {}, {{"ignore", {"a.q_proj"}}}), int8},
      {"QT007", one_group(kInt8), and_with(int8, {ones("b.o_proj.weight", "BF16", {8, 8})})},
      {"QT008", one_group(kInt8), and_with(int8, {ones("e.experts.down_proj_packed", "I32", {2, 4, 4})})},
      {"QT009", one_group(kInt4), and_with(packed(), {ones("a.q_proj.weight", "BF16", {8, 256})})},
      {"QT010", one_group(kInt4), without(packed(), "weight_shape")},
      {"QT010", one_group(kNvfp4), pairs("F8_E4M3", {8, 16})},
      {"QT012", one_group(kInt8, {}, {{"ignore", {"lm_head"}}}), int8},
      {"QT012", one_group(kInt8, {}, {{"ignore", {"re:.*visual.*"}}}), int8},
      {"QT012", one_group(kInt8, {}, {{"ignore", {"b.q_proj.linear"}}}), int8},
      {"QT013",
       config_of(
           {{"g", {{"targets", {"re:a.*"}}, {"weights", kInt8}}},
            {"h", {{"targets", {"re:.*q_proj"}}, {"weights", {{"num_bits", 8}, {"strategy", "tensor"}}}}}}),
       int8},
      {"QT014", one_group(kInt8, {}, {{"ignore", {"a.k_proj"}}}),
       and_with(int8, {ones("a.k_proj.weight", "BF16", {8, 256})})},
      {"QT015", one_group(kInt8, {{"format", "int-quantized"}}, {{"format", "pack-quantized"}}), int8},
      {"QT016", legacy, int8},
      {"QT017", one_group(kInt8, {}, {{"quantization_status", "frozen"}}), int8},
      {"QT017", one_group(kInt8), {ones("a.q_proj.weight", "BF16", {8, 8})}},
      {"QT018", one_group(kInt8), int8, false},
      {"QT019", one_group(kInt8, {}, {{"sparsity_config", {{"format", "dense"}}}}), int8},
      {"QT020", config_of({{"g", group(kInt8)}, {"h", group(kInt8)}}), int8},
      {"QT021", one_group({{"num_bits", 8}, {"strategy", "tensor"}}), coded("I8", {3})},
      {"QT022", one_group(kInt8), coded("I8", {7, 1})},
      {"QT023", one_group(kInt4), packed("a.q_proj", 32, 256, {8, 7})},
      {"QT024", one_group(kFp8Blocks), coded("F8_E4M3", {2, 63})},
      {"QT025", one_group(asym), and_with(packed(), {ones("a.q_proj.weight_zero_point", "I8", {8, 3})})},
      {"QT026", one_group(kInt8), and_with(int8, {ones("a.q_proj.weight_zero_point", "I8", {8, 1})})},
      {"QT027", one_group(asym), packed()},
      {"QT028", one_group(kInt8), coded("I8", {8, 1}, "a.q_proj", "I32")},
      {"QT030", one_group(kInt8, kFixedInputs), int8},
      {"QT031", one_group(kInt8), coded("I8", {1, 8})},
      {"QT032", one_group(kCtFp8), coded("F8_E5M2", {8, 1})},
      {"QT041",
       one_group(kInt8),
       {ones("a.q_proj.weight_packed", "I32", {7, 64}),
        ones("a.q_proj.weight_scale", "BF16", {8, 1}),
        {"a.q_proj.weight_shape", "I64", {2}, int64s({8, 256})}}},
      {"QT042",
       one_group(kInt4),
       {ones("a.q_proj.weight_packed", "I32", {8, 32}),
        ones("a.q_proj.weight_scale", "BF16", {8, 8}),
        {"a.q_proj.weight_shape", "I64", {3}, int64s({8, 256, 1})}}},
      {"QT043", one_group(kInt4), packed("a.q_proj", 33, 256, {8, 1})},
      {"QT044", one_group(asym), and_with(packed(), {ones("a.q_proj.weight_zero_point", "I32", {2, 8})})},
      {"QT045", one_group(ordered), and_with(packed(), {ones("a.q_proj.weight_g_idx", "I32", {255})})},
      {"QT046", one_group(asym, {}, {{"version", "0.10.0"}}),
       and_with(packed(), {ones("a.q_proj.weight_zero_point", "I32", {1, 16})})},
      {"QT047", one_group({{"num_bits", 3}, {"strategy", "channel"}}), packed("a.q_proj", 26, 256, {8, 1})},
      {"QT051", one_group(kNvfp4),
       and_with(pairs("F8_E4M3", {8, 15}), {ones("a.q_proj.weight_global_scale", "F32", {1})})},
      {"QT052", one_group(kNvfp4),
       and_with(pairs("F8_E4M3", {8, 16}), {ones("a.q_proj.weight_global_scale", "F32", {2})})},
      {"QT053", one_group(kNvfp4),
       and_with(pairs("F8_E4M3", {8, 2}, 12), {ones("a.q_proj.weight_global_scale", "F32", {1})})},
      {"QT057",
       one_group(kNvfp4, {{"input_activations",
                           {{"num_bits", 4},
                            {"type", "float"},
                            {"strategy", "tensor_group"},
                            {"group_size", 16},
                            {"dynamic", "local"}}}}),
       and_with(pairs("F8_E4M3", {8, 16}), {ones("a.q_proj.weight_global_scale", "F32", {1})})},
      {"QT058",
       one_group(kNvfp4),
       {ones("a.q_proj.weight", "U8", {8, 128}), ones("a.q_proj.weight_scale", "F8_E4M3", {8, 16}),
        ones("a.q_proj.weight_scale_2", "F32", {})}},
      {"QT059", one_group(kNvfp4),
       and_with(pairs("F8_E4M3", {128, 16}), {ones("a.q_proj.weight_global_scale", "F32", {1})})},
      {"QT061", one_group(kMxfp4), pairs("F32", {8, 8})},
      {"QT061", one_group(kMxfp4), pairs("U8", {8, 7})},
      {"QT062", one_group(kMxfp4), pairs("U8", {8, 2}, 24)},
      {"QT064",
       one_group({{"num_bits", 4}, {"type", "float"}, {"strategy", "group"}, {"group_size", 16}},
                 {{"format", "mxfp4-pack-quantized"}}),
       pairs("U8", {8, 8})},
      {"QT065", one_group(kMxfp4),
       and_with(pairs("U8", {8, 8}), {ones("a.q_proj.weight_global_scale", "F32", {1})})},
      {"QT071", json(), and_with(without(sparse24(), "bitmask"), {ones("a.q_proj.bitmask", "U8", {8, 3})})},
      {"QT072", json(), and_with(sparse24(), {ones("a.q_proj.row_offsets", "I64", {7})})},
      {"QT073", json(),
       and_with(without(sparse24(), "compressed"), {ones("a.q_proj.compressed", "BF16", {8, 7})})},
      {"QT173", json(), sparse24(18)},
      {"QT076", json(), marlin({4, 128}, {1, 64}, {4, 64})},
      {"QT077", json(), marlin({4, 128}, {3, 64}, {4, 128})},
      {"QT078", json(), marlin({4, 100}, {1, 64}, {4, 128})},
      {"QT079", json(), marlin({4, 64}, {1, 32}, {4, 64})},
      {"QT081", one_group(kInt8), and_with(int8, {ones("a.attn.k_scale", "BF16", {1})})},
      {"QT082", one_group(kInt8),
       and_with(int8, {ones("a.attn.k_scale", "BF16", {1}), ones("a.attn.v_scale", "BF16", {1})})},
      {"QT082", one_group(kInt8, {}, {{"kv_cache_scheme", {{"num_bits", 8}, {"type", "float"}}}}), int8},
      {"QT083", one_group(kInt8, {}, {{"kv_cache_scheme", {{"num_bits", 8}, {"type", "float"}}}}),
       and_with(int8, {ones("a.attn.k_scale", "BF16", {2}), ones("a.attn.v_scale", "BF16", {2})})},
      {"QT091", one_group({{"num_bits", 4}, {"group_size", 128}}), packed("a.q_proj", 32, 256, {8, 2})},
      {"QT092", one_group({{"num_bits", 4}, {"group_size", 16}}), packed("a.q_proj", 32, 256, {8, 16})},
      {"QT103", one_group(kInt8), and_with(int8, {ones("b.q_proj.weight_scale", "BF16", {8, 1})})},
      {"QT122", one_group(kInt8), coded("I8", {8})},
      {"QT124", one_group(kFp8Blocks), coded("F8_E4M3", {3, 64}, "a.q_proj", "BF16", {10, 256})},
      {"QT130", one_group(kInt8, kDynamicInputs),
       and_with(int8, {ones("a.q_proj.input_scale", "BF16", {1})})},
      {"QT145", one_group(ordered), packed()},
      {"QT152", one_group(kNvfp4),
       and_with(pairs("F8_E4M3", {8, 16}), {ones("a.q_proj.weight_global_scale", "F32", {})})},
      {"QT161", one_group(kMxfp4), pairs("F8_E8M0", {8, 8})},
      {"QT201", json(), sparse24()},
      {"QT212", one_group(kInt8, {}, {{"ignore", {"a"}}}), int8},
      {"QT215", config_of({{"g", group(kInt8)}}, {{"format", "mixed-precision"}}), int8},
  };
}

}  // namespace

TEST_CASE("compressed-tensors: each rule is reported where it is broken") {
  std::set<std::string> seen;
  for (const RuleCase& one : firing()) {
    INFO(one.rule << " " << one.config.dump());
    const std::set<std::string> ids = reported(one.config, one.tensors, one.pt);
    std::string all;
    for (const std::string& id : ids) all += id + " ";
    INFO(all);
    CHECK(ids.count(one.rule) == 1);
    seen.insert(one.rule);
  }
  seen.insert("QT011");  // below: it takes two shards
  for (const RuleInfo& rule : all_rules()) {
    if (!rule.id.starts_with("QT0") && !rule.id.starts_with("QT1") && !rule.id.starts_with("QT2")) continue;
    INFO(rule.id);
    CHECK(seen.count(std::string(rule.id)) == 1);
  }
}

TEST_CASE("compressed-tensors: sound models break no rule") {
  const json asym = {{"num_bits", 4}, {"group_size", 32}, {"symmetric", false}};
  const std::vector<RuleCase> sound = {
      {"", one_group(kInt4), packed()},
      {"", one_group(asym), and_with(packed(), {ones("a.q_proj.weight_zero_point", "I32", {1, 8})})},
      {"", one_group(kInt8, kFixedInputs),
       and_with(coded("I8", {8, 1}), {ones("a.q_proj.input_scale", "BF16", {1})})},
      {"", one_group(kInt8, kDynamicInputs, {{"ignore", {"lm_head"}}}),
       and_with(coded("I8", {8, 1}), {ones("lm_head.weight", "BF16", {4, 8})})},
      {"", one_group(kCtFp8), coded("F8_E4M3", {8, 1})},
      {"",
       one_group({{"num_bits", 8}, {"type", "float"}, {"strategy", "block"}, {"block_structure", {1, 32}}}),
       coded("F8_E4M3", {8, 8})},
      {"", one_group(kNvfp4),
       and_with(pairs("F8_E4M3", {8, 16}), {ones("a.q_proj.weight_global_scale", "F32", {1})})},
      {"", one_group(kMxfp4), pairs("U8", {8, 8})},
      {"", one_group(kInt8, {}, {{"kv_cache_scheme", {{"num_bits", 8}, {"type", "float"}}}}),
       and_with(coded("I8", {8, 1}),
                {ones("a.attn.k_scale", "BF16", {1}), ones("a.attn.v_scale", "BF16", {1})})}};
  for (const RuleCase& one : sound) {
    INFO(one.config.dump());
    std::string all;
    for (const std::string& id : reported(one.config, one.tensors)) all += id + " ";
    CHECK(all == "");
  }
}

TEST_CASE("compressed-tensors: companions in another shard") {
  const Tensors tensors = coded("I8", {8, 1});
  MemoryFiles files;
  files["config.json"] = one_group(kInt8).dump();
  files["model-00001-of-00002.safetensors"] = weights({tensors[0]});
  files["model-00002-of-00002.safetensors"] = weights({tensors[1]});
  files["model.safetensors.index.json"] =
      json{{"metadata", json::object()},
           {"weight_map",
            {{"a.q_proj.weight", "model-00001-of-00002.safetensors"},
             {"a.q_proj.weight_scale", "model-00002-of-00002.safetensors"}}}}
          .dump();
  bool found = false;
  for (const Diagnostic& finding : run_lint(files).findings) found = found || finding.rule == Rule::QT011;
  CHECK(found);
}
