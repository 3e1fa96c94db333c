// QT300 to QT349: the declared quantisation against what is stored. For each a folder where it is reported and one where not.
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "lint_host.h"

using namespace tftf;
using namespace tftf::test;
using Lines = std::vector<std::string>;
using nlohmann::json;

namespace {

const std::string kFirstLayer = "model.layers.0.self_attn.";
const std::string kSecondLayer = "model.layers.1.self_attn.";

json quantised(const json& section) {
  return {{"model_type", "new"}, {"architectures", {"NewForCausalLM"}}, {"quantization_config", section}};
}
json fp8(const json& more = json::object()) {
  json section = {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
  section.update(more);
  return quantised(section);
}

std::vector<LintTensor> operator+(std::vector<LintTensor> a, const std::vector<LintTensor>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
std::vector<LintTensor> plain_module(const std::string& module) {
  return {{module + ".weight", "BF16", {8, 8}}};
}
std::vector<LintTensor> block_module(const std::string& module) {
  return {{module + ".weight", "F8_E4M3", {8, 8}, std::string(64, '8')},
          {module + ".weight_scale_inv", "F32", {1, 1}, std::string("\0\0\x80\x3f", 4)}};
}
std::vector<LintTensor> gptq(const std::string& module) {
  return {{module + ".qweight", "I32", {1, 8}},
          {module + ".qzeros", "I32", {1, 1}},
          {module + ".scales", "F16", {1, 8}},
          {module + ".g_idx", "I32", {8}}};
}

Lines qt(const json& config, const std::vector<LintTensor>& tensors, MemoryFiles more = {}) {
  if (!config.is_null()) more["config.json"] = config.dump();
  more["model.safetensors"] = weights(tensors);
  Lines out;
  for (const Diagnostic& finding : run_lint(more).findings) {
    const std::string id(rule_info(finding.rule).id);
    if (id.substr(0, 2) == "QT") out.push_back(id + " " + finding.subject.value_or("-"));
  }
  return out;
}

}  // namespace

TEST_CASE("QT340: another method than the one declared") {
  const std::string q = kFirstLayer + "q_proj";
  CHECK(qt(fp8(), block_module(q)).empty());
  CHECK(qt(quantised({{"quant_method", "quark"}, {"global_quant_config", {{"weight", {1}}}}}),
           block_module(q)) == Lines{"QT340 " + q});
  CHECK(qt(quantised({{"quant_method", "gptq"}, {"bits", 4}}), block_module(q)) == Lines{"QT340 " + q});
  CHECK(qt(quantised({{"quant_method", "nobody"}}), block_module(q)).empty());
  // The section of a text model, and transformers' older name.
  json nested = {{"model_type", "new"},
                 {"text_config", {{"quantization_config", {{"quant_method", "gptq"}}}}}};
  CHECK(qt(nested, block_module(q)) == Lines{"QT340 " + q});
  json older = {{"model_type", "new"}, {"compression_config", {{"quant_method", "gptq"}}}};
  CHECK(qt(older, block_module(q)) == Lines{"QT340 " + q});
}

TEST_CASE("CF029: one definition of being quantised") {
  const auto said = [](const json& config, MemoryFiles more = {}) {
    more["config.json"] = config.dump();
    more["model.safetensors"] = weights(plain_module("a"));
    return finding_lines(run_lint(more).findings, {"CF029"}).size();
  };
  const json bare = {{"model_type", "new"}};
  CHECK(said(bare) == 0);
  CHECK(said(quantised({{"quant_method", "x"}})) == 1);
  CHECK(said({{"model_type", "new"}, {"text_config", {{"quantization_config", {{"quant_method", "x"}}}}}}) ==
        1);
  CHECK(said({{"model_type", "new"}, {"compression_config", {{"quant_method", "x"}}}}) == 1);
  CHECK(said({{"model_type", "new"}, {"quantization", {{"bits", 4}}}}) == 1);
  CHECK(said(bare, {{"hf_quant_config.json", R"({"quantization":{"quant_algo":"FP8"}})"}}) == 1);
  CHECK(said(bare, {{"quantize_config.json", R"({"bits":4})"}}) == 1);
  CHECK(said(bare, {{"quant_config.json", R"({"w_bit":4})"}}) == 1);
  CHECK(said(bare, {{"quant_config.json", R"({"per_channel":true})"}}) == 0);
}

TEST_CASE("QT341: the configuration of a quantiser over plain weights") {
  const std::string q = kFirstLayer + "q_proj";
  const Lines leftover = {"QT341 " + q + ".weight"};
  CHECK(qt(fp8(), plain_module(q)) == leftover);
  CHECK(qt(quantised({{"load_in_4bit", true}}), plain_module(q)) == leftover);
  CHECK(qt(quantised({{"quant_method", "bitsandbytes"}}), plain_module("model.norm")).empty());
  CHECK(qt(quantised({{"quant_method", "modelopt"}, {"quant_algo", nullptr}, {"kv_cache_quant_algo", "FP8"}}),
           plain_module(q))
            .empty());
  CHECK(qt(quantised({{"quant_method", "modelopt"}, {"quant_algo", "FP8"}, {"kv_cache_quant_algo", "FP8"}}),
           plain_module(q)) == leftover);
  CHECK(
      qt(quantised({{"quant_method", "bitnet"}, {"quantization_mode", "online"}}), plain_module(q)).empty());
  CHECK(qt(quantised({{"quant_method", "bitnet"}}), plain_module(q)) == leftover);
  CHECK(qt(quantised({{"quant_method", "hqq"}}), plain_module(q)).empty());
  CHECK(qt(quantised({{"quant_method", "quark"}}), plain_module(q)).empty());
  CHECK(qt(quantised({{"quant_method", "gptq"}, {"bits", 16}}), plain_module(q)).empty());
}

TEST_CASE("QT342: quantised and undeclared") {
  const std::string q = kFirstLayer + "q_proj";
  const json bare = {{"model_type", "new"}};
  CHECK(qt(bare, gptq(q)) == Lines{"QT342 " + q});
  CHECK(qt(bare, block_module(q)) == Lines{"QT342 " + q});
  CHECK(qt(bare, gptq(q), {{"quantize_config.json", R"({"bits":4})"}}).empty());
  CHECK(qt(bare, gptq(q), {{"my_quant.json", "{}"}}).empty());
  CHECK(qt({{"model_type", "new"}, {"other", {{{"my_quants", 1}}}}}, gptq(q)).empty());
  CHECK(qt({{"no", "model"}}, gptq(q)).empty());
}

TEST_CASE("QT343, QT344, QT346: scales that are missing, left over or without a weight") {
  const std::string q = kFirstLayer + "q_proj", k = kFirstLayer + "k_proj";
  const std::vector<LintTensor> bare = {{q + ".weight", "F8_E4M3", {8, 8}}};
  CHECK(qt(fp8(), block_module(k) + bare) == Lines{"QT343 " + q});
  // Without any scale at all, too.
  CHECK(qt(fp8(), bare) == Lines{"QT343 " + q});
  CHECK(qt(quantised({{"quant_method", "nobody"}}), bare).empty());
  const std::string stack = "model.layers.0.mlp.experts.down_proj";
  CHECK(qt(fp8(), {{stack, "F8_E4M3", {2, 8, 8}}}) == Lines{"QT343 " + stack});
  CHECK(qt(fp8(), {{stack, "F8_E4M3", {2, 8, 8}}, {stack + "_scale_inv", "F32", {2, 1, 1}}}).empty());
  std::vector<LintTensor> stale = block_module(q);
  stale[0] = {q + ".weight", "BF16", {8, 8}};
  CHECK(qt(fp8(), block_module(k) + stale) == Lines{"QT344 " + q});
  CHECK(qt(fp8(), block_module(k) + std::vector<LintTensor>{{q + ".weight_scale_inv", "F32", {1, 1}}}) ==
        Lines{"QT346 " + q + ".weight_scale_inv"});
}

TEST_CASE("QT345: excluded and quantised all the same") {
  const std::string gate = "model.layers.0.mlp.gate_proj";
  const auto fp8_list = [&](const char* entry) {
    return qt(fp8({{"modules_to_not_convert", {entry}}}), block_module(gate));
  };
  const Lines excluded = {"QT345 " + gate};
  for (const char* entry : {"model.layers.0.mlp.gate_proj", "model.layers.0.mlp.gate", "gate_proj",
                            "model.layers.[0-9].mlp", "model_layers"}) {
    INFO(entry);
    CHECK(fp8_list(entry) == (entry == std::string("model_layers") ? Lines{} : excluded));
  }
  CHECK(fp8_list("layers.0.mlp.gate").empty());
  // An expression at the beginning: a dot is any character.
  CHECK(fp8_list("model.layers.0.mlp.gate.proj") == excluded);
  const std::string expert = "model.layers.0.mlp.experts.1.up_proj";
  const auto in_experts = [&](const char* entry) {
    return qt(fp8({{"modules_to_not_convert", {entry}}}), block_module(expert)).size();
  };
  CHECK(in_experts("model.layers.0.mlp.experts") == 1);
  CHECK(in_experts("model.layers.0.mlp.experts.1.up") == 0);
  CHECK(in_experts("up_proj") == 0);
  CHECK(in_experts("model.layers.0.mlp.experts.1.up.proj") == 1);
  const auto modelopt = [&](const char* entry) {
    return qt(quantised({{"quant_method", "modelopt"}, {"quant_algo", "FP8"}, {"exclude_modules", {entry}}}),
              block_module(gate));
  };
  CHECK(modelopt("model.layers.0.mlp.*") == excluded);
  CHECK(modelopt("model.layers.0.mlp.gate").empty());
}

TEST_CASE("QT347, QT349: plain and not excluded") {
  const std::string first = kFirstLayer + "q_proj", second = kSecondLayer + "q_proj";
  const std::vector<LintTensor> mixed = plain_module(first) + block_module(second);
  CHECK(qt(fp8(), mixed) == Lines{"QT347 " + first});
  for (const char* entry :
       {"model.layers.0.self_attn.q_proj", "layers.0.", "re:.*layers.0.*", "*0.self_attn*", "q_proj$"}) {
    INFO(entry);
    CHECK(qt(fp8({{"ignored_layers", {entry}}}), mixed).empty());
  }
  CHECK(qt(fp8(), plain_module(kFirstLayer + "k_norm") + block_module(second)).empty());
  const std::vector<LintTensor> packed = plain_module(first) + gptq(second);
  const json config = {{"quant_method", "gptq"}, {"bits", 4}};
  CHECK(qt(quantised(config), packed) == Lines{"QT347 " + first});
  json dynamic = config;
  dynamic["dynamic"] = {{"-:.*layers.0.*", json::object()}};
  CHECK(qt(quantised(dynamic), packed).empty());
  dynamic = config;
  dynamic["modules_in_block_to_quantize"] = json::array();
  CHECK(qt(quantised(dynamic), packed).empty());
  dynamic = config;
  dynamic["block_name_to_quantize"] = "model.layers.1";
  CHECK(qt(quantised(dynamic), packed).empty());

  const std::vector<LintTensor> head = plain_module("lm_head") + block_module(first);
  CHECK(qt(fp8({{"modules_to_not_convert", json::array()}}), head) == Lines{"QT349 lm_head"});
  CHECK(qt(fp8({{"modules_to_not_convert", {"lm_head"}}}), head).empty());
  CHECK(qt(fp8(), head).empty());
}

TEST_CASE("QT348: an exclusion with another class's prefix") {
  const auto list = [&](const char* entry) {
    return qt(fp8({{"modules_to_not_convert", {entry}}}),
              block_module(kFirstLayer + "q_proj") + plain_module("model.layers.0.norm"));
  };
  const Lines said = {"QT348 model.language_model.layers.0.norm"};
  CHECK(list("model.language_model.layers.0.norm") == said);
  CHECK(list("model.language_model.layers.0.norm.weight") == Lines{said[0] + ".weight"});
  CHECK(list("model.layers.0.norm").empty());
  CHECK(list("layers.0.norm").empty());
  CHECK(list("model.language_model.layers.7.norm").empty());
}

TEST_CASE("exclusions without end do not take time without end") {
  json list = json::array();
  std::vector<LintTensor> tensors;
  for (int i = 0; i < 3000; ++i) list.push_back("(x|model.layers." + std::to_string(i) + ".*)+y");
  for (int i = 0; i < 3000; ++i) {
    const std::string module = "model.layers." + std::to_string(i) + ".self_attn.q_proj";
    tensors.push_back({module + ".weight", i == 0 ? "BF16" : "F8_E4M3", {1, 1}, i == 0 ? "" : "8"});
    if (i != 0)
      tensors.push_back({module + ".weight_scale_inv", "F32", {1, 1}, std::string("\0\0\x80\x3f", 4)});
  }
  CHECK(qt(fp8({{"modules_to_not_convert", list}}), tensors).empty());
}

TEST_CASE("QT300: tensors that do not fit each other, which only opening the module shows") {
  const std::string q = kFirstLayer + "q_proj";
  const json modelopt = quantised({{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}});
  const std::string half("\0\0\0\x3f", 4);
  const auto nvfp4 = [&](const std::string& global, std::vector<uint64_t> shape) {
    return std::vector<LintTensor>{{q + ".weight", "U8", {24, 32}},
                                   {q + ".weight_scale", "F8_E4M3", {24, 4}, std::string(96, '8')},
                                   {q + ".weight_scale_2", "F32", std::move(shape), global}};
  };
  CHECK(qt(modelopt, nvfp4(half, {})).empty());
  const Lines broken = qt(modelopt, nvfp4(half + half, {2}));
  CHECK(std::find(broken.begin(), broken.end(), "QT300 " + q + ".weight") != broken.end());
}

TEST_CASE("QT300, QT309: what the detection of layouts says") {
  const std::string q = kFirstLayer + "q_proj";
  std::vector<LintTensor> small = block_module(q);
  small[0].shape = {256, 256};
  small[0].data.clear();
  CHECK(qt(fp8(), small) == Lines{"QT300 " + q + ".weight"});
  // No model folder, a single file, a file beside others without any configuration.
  CHECK(qt({{"_class_name", "Unet"}, {"quantization_config", {{"weight_block_size", {128, 128}}}}}, small) ==
        Lines{"QT300 " + q + ".weight"});
  const MemoryFiles alone = {{"x.safetensors", weights(small)},
                             {"y.safetensors", weights(plain_module("a"))}};
  CHECK(finding_lines(run_lint(alone).findings, {"QT"}).empty());
  std::vector<LintTensor> grid = block_module(q);
  grid[0].shape = {250, 250};
  grid[0].data.clear();
  grid[1] = {q + ".weight_scale_inv", "F32", {7, 3}};
  const MemoryFiles wrong = {{"x.safetensors", weights(grid)}, {"y.safetensors", weights(plain_module("a"))}};
  CHECK(finding_lines(run_lint(wrong).findings, {"QT"}) == Lines{"QT300 x.safetensors " + q + ".weight"});
  CHECK(finding_lines(run_lint(wrong, "x.safetensors").findings, {"QT"}) ==
        Lines{"QT300 x.safetensors " + q + ".weight"});
  // A shard of many says nothing by itself.
  const MemoryFiles shard = {{"model-00001-of-00002.safetensors", weights(grid)}};
  CHECK(finding_lines(run_lint(shard, "model-00001-of-00002.safetensors").findings, {"QT"}).empty());
  // A layout that is known by name only.
  CHECK(qt({{"_class_name", "Unet"}}, {{"a.trellis", "I16", {1, 2, 2}},
                                       {"a.suh", "F16", {2}},
                                       {"a.svh", "F16", {2}},
                                       {"b.trellis", "I16", {1, 2, 2}},
                                       {"b.suh", "F16", {2}},
                                       {"b.svh", "F16", {2}}}) == Lines{"QT309 a.weight"});
}
