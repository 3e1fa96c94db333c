// The CO rules: each with a case that fires and one that does not.
#include <catch2/catch.hpp>
#include <cstring>

#include "lint_host.h"
#include "tftf/base/json_text.h"
#include "tftf/quant/colibri/rans.h"
#include "tftf/quant/colibri/rans_encoder.h"
#include "tftf/quant/colibri/readings.h"
#include "tftf/quant/colibri/stamps.h"

using namespace tftf;
using namespace tftf::test;
using Lines = std::vector<std::string>;

namespace {

LintTensor flat(const std::string& name, uint64_t bytes) { return {name, "U8", {bytes}}; }
LintTensor scales(const std::string& name, uint64_t count) { return {name + ".qs", "F32", {count}}; }

std::string f32_bytes(float value) {
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &value, 4);
  return bytes;
}

std::string stamps(const std::map<std::string, std::string, std::less<>>& map, const std::string& more = "") {
  return "{\"colibri.fmt\":" + OrderedJson(colibri::stamp_text(map)).dump() + more + "}";
}

Lines colibri_lines(const MemoryFiles& files, const std::string& main = {}) {
  return finding_lines(run_lint(files, main).findings, {"CO"});
}

std::string colibri_message(const MemoryFiles& files, Rule rule) {
  for (const Diagnostic& finding : run_lint(files).findings)
    if (finding.rule == rule) return message(finding);
  return "none";
}

// One weight of a given 2-D shape.
MemoryFiles pair_of(std::vector<uint64_t> shape, uint64_t bytes, uint64_t scale_count,
                    const std::string& metadata = "{}", const std::string& name = "w.weight") {
  // A 2-D U8 shape holds as many bytes as elements: other sizes need config.json.
  MemoryFiles files;
  files["out-00000.safetensors"] = weights({flat(name, bytes), scales(name, scale_count)}, metadata);
  files["config.json"] =
      "{\"vocab_size\":" + std::to_string(shape[0]) + ",\"hidden_size\":" + std::to_string(shape[1]) + "}";
  return files;
}

constexpr const char* kEmbedding = "model.embed_tokens.weight";

MemoryFiles embedding(std::vector<uint64_t> shape, uint64_t bytes, uint64_t scale_count,
                      const std::string& metadata = "{}") {
  return pair_of(std::move(shape), bytes, scale_count, metadata, kEmbedding);
}

std::string stamp_of(const std::string& format) { return stamps({{kEmbedding, format}}); }

Lines one(const std::string& rule) { return {rule + " out-00000.safetensors " + kEmbedding}; }

}  // namespace

TEST_CASE("CO rules say nothing where nothing is colibri's") {
  CHECK(
      colibri_lines({{"m.safetensors", weights({{"a.weight", "U8", {4}}, {"b", "F8_E4M3", {4}}})}}).empty());
  CHECK(colibri_lines({{"m.safetensors", weights({{"attn.qs", "F32", {4}}, {"b", "U8", {4}}})}}).empty());
  CHECK(colibri_lines({{"out-00003.safetensors", weights({{"a", "F32", {4}}})}}).empty());
}

TEST_CASE("a container of colibri is not judged as a file for transformers") {
  MemoryFiles files = embedding({4, 8}, 32, 4, stamp_of("int8-row"));
  files["config.json"].insert(1, R"("model_type":"glm_moe_dsa",)");
  CHECK(finding_lines(run_lint(files).findings, {"CF034"}).empty());
  // Codes are one row of bytes, whatever the weight's shape.
  MemoryFiles known = files;
  known["config.json"] = R"({"model_type":"llama","vocab_size":4,"hidden_size":8,"num_hidden_layers":0})";
  CHECK(finding_lines(run_lint(known).findings, {"CF019"}).empty());
  files["out-00000.safetensors"] = weights({{"a.weight", "F32", {4}}}, R"({"source":"me"})");
  CHECK(finding_lines(run_lint(files).findings, {"CF034"}) == Lines{"CF034 out-00000.safetensors -"});
}

TEST_CASE("CO001: weight bytes") {
  CHECK(colibri_lines(embedding({4, 64}, 256, 4)).empty());
  CHECK(colibri_lines(embedding({4, 64}, 255, 4)) == one("CO001"));
  MemoryFiles rows = embedding({4, 64}, 256, 4);
  rows["out-00000.safetensors"] = weights({{kEmbedding, "U8", {8, 32}}, scales(kEmbedding, 8)}, "{}");
  CHECK(colibri_lines(rows) == one("CO001"));
  CHECK(colibri_message(rows, Rule::CO001).find("8 rows where config.json implies 4") != std::string::npos);
  rows["out-00000.safetensors"] = weights({{kEmbedding, "I8", {256}}, scales(kEmbedding, 4)}, "{}");
  CHECK(colibri_lines(rows) == one("CO001"));
}

TEST_CASE("CO002: scale bytes, their type and shape") {
  CHECK(colibri_lines(embedding({4, 64}, 256, 5)) == one("CO002"));
  for (const LintTensor& bad :
       {LintTensor{"w.weight.qs", "F16", {4}}, LintTensor{"w.weight.qs", "F32", {4, 1}},
        LintTensor{"w.weight.qs", "F32", {0}}}) {
    const std::string file = weights({{"w.weight", "U8", {4, 64}}, bad}, "{}");
    CHECK(colibri_lines({{"a.safetensors", file}}) == Lines{"CO002 a.safetensors w.weight"});
  }
}

TEST_CASE("CO003: the sizes of E8 and of another format") {
  const std::string none =
      weights({{"w.weight", "U8", {64, 98}}, {"w.weight.qs", "F32", {1}, f32_bytes(6)}}, "{}");
  CHECK(colibri_lines({{"a.safetensors", none}}) == Lines{"CO003 a.safetensors w.weight"});
  const std::string text = colibri_message({{"a.safetensors", none}}, Rule::CO003);
  CHECK(text.find("e8-iq3-lattice, fp8-e4m3-b128") != std::string::npos);
  const auto stamped = [](const char* format) {
    return weights({{"w.weight", "U8", {64, 98}}, {"w.weight.qs", "F32", {1}, f32_bytes(6)}},
                   stamps({{"w.weight", format}}));
  };
  CHECK(colibri_lines({{"a.safetensors", stamped("fp8-e4m3-b128")}}).empty());
  CHECK(colibri_lines({{"a.safetensors", stamped("e8-iq3-lattice")}}).empty());
  CHECK(colibri_lines({{"a.safetensors", stamped("int8-row")}}) == Lines{"CO003 a.safetensors w.weight"});
}

TEST_CASE("CO004, CO012, CO013: int8 and FP8 alike") {
  // [2,200]: two blocks of 128x128, two rows.
  CHECK(colibri_lines(embedding({2, 200}, 400, 2)) == one("CO012"));
  CHECK(colibri_lines(embedding({2, 200}, 400, 2, stamp_of("int8-row"))).empty());
  CHECK(colibri_lines(embedding({2, 200}, 400, 2, stamp_of("int4-row"))) == one("CO004"));
  const std::string declared = R"({"colibri.container.formats":"[\"fp8-e4m3-b128\"]"})";
  Lines both = one("CO012");
  both.push_back(one("CO013")[0]);
  CHECK(colibri_lines(embedding({2, 200}, 400, 2, declared)) == both);
  // The stamp of a routed expert is not consulted.
  const std::string expert = "model.layers.1.mlp.experts.0.up_proj.weight";
  CHECK(colibri_lines({{"a.safetensors", weights({{expert, "U8", {2, 200}}, scales(expert, 2)},
                                                 stamps({{expert, "int8-row"}}))}}) ==
        Lines{"CO012 a.safetensors " + expert, "CO015 a.safetensors " + expert});
}

TEST_CASE("CO005: a byte of scale per block") {
  const auto with = [](const char* dtype, uint64_t count) {
    return weights({{"w.weight", "U8", {2048, 384}}, {"w.weight.qs", dtype, {count}}}, "{}");
  };
  CHECK(colibri_lines({{"a.safetensors", with("F32", 48)}}).empty());
  CHECK(colibri_lines({{"a.safetensors", with("F32", 12)}}) == Lines{"CO005 a.safetensors w.weight"});
  CHECK(colibri_lines({{"a.safetensors", with("F8_E8M0", 48)}}) == Lines{"CO005 a.safetensors w.weight"});
  CHECK(colibri_lines({{"a.safetensors", with("U8", 48)}}) == Lines{"CO005 a.safetensors w.weight"});
}

TEST_CASE("CO006, CO007: stamps against sizes") {
  CHECK(colibri_lines(embedding({4, 64}, 256, 4, stamp_of("int8"))) == one("CO006"));
  CHECK(colibri_lines(embedding({4, 64}, 256, 4, stamp_of("int4-row"))) == one("CO007"));
  CHECK(colibri_lines(embedding({4, 64}, 256, 4, stamp_of("int8-row"))).empty());
}

TEST_CASE("CO008 to CO010, CO110: stamps that stop the load") {
  const auto with = [](const std::string& metadata) {
    return colibri_lines({{"a.safetensors", weights({{"n", "F32", {1}}}, metadata)}});
  };
  CHECK(with("{\"colibri.fmt\":\"{}\"}").empty());
  CHECK(with("{\"colibri.fmt\":{}}") == Lines{"CO008 a.safetensors -"});
  CHECK(with("{\"colibri.fmt\":\"[]\"}") == Lines{"CO008 a.safetensors -"});
  CHECK(with("{\"colibri.fmt\":\"{\\\"x\\\":3}\"}") == Lines{"CO008 a.safetensors x"});
  CHECK(with("{\"colibri.fmt\":\"{\\\"n\\\":\\\"f32\\\",\\\"n\\\":\\\"int8-row\\\"}\"}") ==
        Lines{"CO009 a.safetensors n"});
  const auto count = [](int from, int to) {
    std::map<std::string, std::string, std::less<>> map;
    for (int i = from; i < to; ++i) map["t" + std::to_string(i)] = "f32";
    return stamps(map);
  };
  const auto lines = [&](int first, int all) {
    Lines found = colibri_lines({{"a.safetensors", weights({{"n", "F32", {1}}}, count(0, first))},
                                 {"b.safetensors", weights({{"m", "F32", {1}}}, count(first, all))}});
    found.erase(std::remove_if(found.begin(), found.end(),
                               [](const std::string& line) { return line.find("CO014") == 0; }),
                found.end());
    return found;
  };
  CHECK(lines(2000, 3686).empty());
  CHECK(lines(2000, 3687) == Lines{"CO110 . -"});
  CHECK(lines(2000, 4096) == Lines{"CO110 . -"});
  CHECK(lines(2000, 4097) == Lines{"CO010 b.safetensors t4096"});  // the last in the map's order
}

TEST_CASE("CO011: a tensor in two shards") {
  const auto shard = [](const char* name) { return weights({flat(name, 4), scales(name, 1)}, "{}"); };
  CHECK(colibri_lines({{"a.safetensors", shard("x")}, {"b.safetensors", shard("y")}}) == Lines{"CO020 . -"});
  CHECK(colibri_lines({{"a.safetensors", shard("x")}, {"b.safetensors", shard("x")}}) ==
        Lines{"CO020 . -", "CO011 b.safetensors x", "CO011 b.safetensors x.qs"});
}

TEST_CASE("CO014, CO015: stamps of nothing and stamps that are never looked at") {
  const std::string expert = "model.layers.1.mlp.experts.0.up_proj.weight";
  const auto lines = [&](const std::string& name) {
    return colibri_lines(
        {{"a.safetensors", weights({{"plain", "F32", {4}}, {expert, "U8", {4, 64}}, scales(expert, 4)},
                                   stamps({{name, "int8-row"}}))}});
  };
  CHECK(lines("ghost") == Lines{"CO014 a.safetensors ghost"});
  CHECK(lines("plain") == Lines{"CO015 a.safetensors plain"});
  CHECK(lines(expert) == Lines{"CO015 a.safetensors " + expert});
}

TEST_CASE("CO016: group sizes that cut a row alike") {
  CHECK(colibri_lines(embedding({4, 80}, 4 * 40, 4 * 2)) == one("CO016"));  // read as 48, perhaps 64
  const std::string text = colibri_message(embedding({4, 80}, 4 * 40, 4 * 2), Rule::CO016);
  CHECK(text.find("2 groups a row and is read with group size 48; written with 64") != std::string::npos);
  CHECK(colibri_lines(embedding({4, 128}, 4 * 64, 4 * 4)).empty());      // 32, nothing else
  CHECK(colibri_lines(embedding({4, 128}, 4 * 64, 4 * 1)).empty());      // one group: int4-row
  CHECK(colibri_lines(embedding({4, 6144}, 4 * 3072, 4 * 96)).empty());  // the usual case
}

TEST_CASE("CO017: few columns, several formats") {
  CHECK(colibri_lines(embedding({4, 24}, 4 * 24, 4)) == one("CO017"));  // int8-row or int3-g64
  CHECK(colibri_message(embedding({4, 24}, 4 * 24, 4), Rule::CO017).find("also those of int3-g64") !=
        std::string::npos);
  CHECK(colibri_lines(embedding({4, 24}, 4 * 24, 4, stamp_of("int8-row"))).empty());
  CHECK(colibri_lines(embedding({4, 25}, 4 * 25, 4)).empty());
  CHECK(colibri_lines(embedding({4, 2}, 4, 4)) == one("CO017"));  // int4-row or int2-row
  // E8 at columns that no writer takes.
  const std::string odd =
      weights({flat("w.weight", 129 * 98), {"w.weight.qs", "F32", {1}, f32_bytes(6)}}, "{}");
  CHECK(colibri_lines({{"out-00000.safetensors", odd}, {"config.json", "{}"}}) == Lines{"CO020 . -"});
  MemoryFiles lattice = embedding({129, 200}, 129 * 98, 1);
  lattice["out-00000.safetensors"] = weights(
      {flat(kEmbedding, 129 * 98), {std::string(kEmbedding) + ".qs", "F32", {1}, f32_bytes(6)}}, "{}");
  Lines expected = one("CO017");
  expected.push_back(one("CO021")[0]);
  CHECK(colibri_lines(lattice) == expected);
}

TEST_CASE("every reading of the sizes of a writer includes its format") {
  for (uint64_t columns = 1; columns <= 600; ++columns)
    for (const colibri::FormatInfo& info : colibri::all_formats())
      for (uint64_t group : {16u, 40u, 64u, 200u}) {
        if (info.format == colibri::Format::kF32 || info.format == colibri::Format::kMxfp4) continue;
        const bool grouped = info.format == colibri::Format::kInt4Grouped;
        if (grouped && columns <= group) continue;
        const auto readings =
            colibri::possible_readings(3, columns, *colibri::weight_bytes(info.format, 3, columns),
                                       4 * *colibri::scale_count(info.format, 3, columns, group));
        const bool found =
            std::any_of(readings.begin(), readings.end(), [&](const colibri::Reading& reading) {
              return reading.format == info.format &&
                     (!grouped || (reading.least_group <= group && group <= reading.most_group));
            });
        CHECK(found);
        for (const colibri::Reading& reading : readings)
          if (reading.format == colibri::Format::kInt4Grouped) {
            CHECK((columns + reading.least_group - 1) / reading.least_group ==
                  (columns + reading.most_group - 1) / reading.most_group);
            CHECK(reading.most_group < columns);
          }
      }
}

TEST_CASE("CO018, CO027: what has lost its other half") {
  CHECK(colibri_lines({{"a.safetensors", weights({scales("x.weight", 4)}, "{}")}}) ==
        Lines{"CO018 a.safetensors x.weight.qs"});
  CHECK(colibri_lines(
            {{"a.safetensors", weights({{"p.weight", "U8", {4, 64}}, scales("p.weight", 4), flat("x", 4)},
                                       "{}")}}) == Lines{"CO018 a.safetensors x"});
  CHECK(colibri_lines({{"a.safetensors",
                        weights({{"p.weight", "U8", {4, 64}}, scales("p.weight", 4), {"x", "F8_E4M3", {4}}},
                                "{}")}}) == Lines{"CO027 a.safetensors x"});
  // In another shard of the folder it is found.
  CHECK(colibri_lines({{"a.safetensors", weights({{"p.weight", "U8", {4, 64}}}, "{}")},
                       {"b.safetensors", weights({scales("p.weight", 4)}, "{}")}})
            .empty());
}

TEST_CASE("CO019: experts in E8 and other formats") {
  const auto expert = [](const char* part) {
    return "model.layers.3.mlp.experts.0." + std::string(part) + "_proj.weight";
  };
  const std::string config = R"({"hidden_size":256,"moe_intermediate_size":256,"first_k_dense_replace":0})";
  const auto lines = [&](bool mixed) {
    std::vector<LintTensor> tensors;
    for (const char* part : {"gate", "up", "down"}) {
      const bool plain = mixed && std::string(part) == "down";
      tensors.push_back(flat(expert(part), plain ? 256 * 128 : 256 * 98));
      tensors.push_back(plain ? scales(expert(part), 256)
                              : LintTensor{expert(part) + ".qs", "F32", {1}, f32_bytes(6)});
    }
    return colibri_lines({{"a.safetensors", weights(tensors, "{}")}, {"config.json", config}});
  };
  CHECK(lines(false).empty());
  CHECK(lines(true) == Lines{"CO019 . model.layers.3"});
}

TEST_CASE("CO020: unknown rows and columns") {
  CHECK(colibri_lines({{"a.safetensors", weights({flat("w.weight", 256), scales("w.weight", 4)}, "{}")}}) ==
        Lines{"CO020 . -"});
  CHECK(colibri_lines({{"a.safetensors", weights({flat("w.weight", 256), scales("w.weight", 4)}, "{}")}},
                      "a.safetensors") == Lines{"CO020 a.safetensors -"});
}

TEST_CASE("CO021, CO026: embeddings, and the tag of E8") {
  CHECK(colibri_lines(embedding({256, 256}, 256 * 256, 4)) == one("CO021"));  // FP8
  CHECK(colibri_lines(embedding({256, 256}, 256 * 256, 256)).empty());
  const auto lattice = [](float tag) {
    return colibri_lines(
        {{"a.safetensors",
          weights({flat("model.layers.0.self_attn.q_a_proj.weight", 256 * 98),
                   {"model.layers.0.self_attn.q_a_proj.weight.qs", "F32", {1}, f32_bytes(tag)}},
                  "{}")},
         {"config.json", R"({"hidden_size":256,"q_lora_rank":256})"}});
  };
  CHECK(lattice(6.0f).empty());
  CHECK(lattice(5.9999995f) == Lines{"CO026 a.safetensors model.layers.0.self_attn.q_a_proj.weight"});
  CHECK(lattice(0.0f) == Lines{"CO026 a.safetensors model.layers.0.self_attn.q_a_proj.weight"});
}

TEST_CASE("CO022: numbers of shards") {
  const auto lines = [](const std::vector<std::string>& names) {
    MemoryFiles files;
    for (const std::string& name : names)
      files[name + ".safetensors"] =
          weights({{name + ".weight", "U8", {4, 64}}, scales(name + ".weight", 4)}, "{}");
    return colibri_lines(files);
  };
  CHECK(lines({"out-00000", "out-00001", "out-mtp-00000", "other"}).empty());
  CHECK(lines({"out-00000", "out-00003"}) == Lines{"CO022 . out"});
  CHECK(lines({"out-00000", "out-mtp-00001"}) == Lines{"CO022 . out-mtp"});
  CHECK(lines({"out-00000", "out-1", "out-abc"}).empty());
}

namespace {

constexpr const char* kModel =
    R"({"hidden_size":64,"vocab_size":4,"num_attention_heads":1,"q_lora_rank":8,"kv_lora_rank":8,"qk_nope_head_dim":8,
        "qk_rope_head_dim":8,"v_head_dim":8,"moe_intermediate_size":8,"intermediate_size":8,"num_hidden_layers":1,
        "first_k_dense_replace":0,"n_routed_experts":1,"tie_word_embeddings":true})";

std::vector<LintTensor> model_tensors() {
  std::vector<LintTensor> tensors;
  for (const char* name :
       {"model.norm", "model.layers.0.input_layernorm", "model.layers.0.post_attention_layernorm",
        "model.layers.0.self_attn.q_a_layernorm", "model.layers.0.self_attn.kv_a_layernorm",
        "model.layers.0.mlp.gate"})
    tensors.push_back({std::string(name) + ".weight", "F32", {4}});
  tensors.push_back({"model.layers.0.mlp.gate.e_score_correction_bias", "F32", {1}});
  const auto add = [&](const std::string& name, uint64_t rows, uint64_t columns) {
    tensors.push_back(flat(name + ".weight", rows * columns));
    tensors.push_back(scales(name + ".weight", rows));
  };
  add("model.embed_tokens", 4, 64);
  const std::string attention = "model.layers.0.self_attn.";
  add(attention + "q_a_proj", 8, 64);
  add(attention + "q_b_proj", 16, 8);
  add(attention + "kv_a_proj_with_mqa", 16, 64);
  add(attention + "kv_b_proj", 16, 8);
  add(attention + "o_proj", 64, 8);
  for (const char* mlp : {"model.layers.0.mlp.experts.0.", "model.layers.0.mlp.shared_experts."}) {
    add(std::string(mlp) + "gate_proj", 8, 64);
    add(std::string(mlp) + "up_proj", 8, 64);
    add(std::string(mlp) + "down_proj", 64, 8);
  }
  return tensors;
}

}  // namespace

TEST_CASE("CO024: the model that config.json implies") {
  std::vector<LintTensor> tensors = model_tensors();
  CHECK(colibri_lines({{"a.safetensors", weights(tensors, "{}")}, {"config.json", kModel}}).empty());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].name.ends_with(".qs")) continue;
    std::vector<LintTensor> less = tensors;
    less.erase(less.begin() + static_cast<std::ptrdiff_t>(i));
    const Lines lines = colibri_lines({{"a.safetensors", weights(less, "{}")}, {"config.json", kModel}});
    INFO(tensors[i].name);
    CHECK(std::count(lines.begin(), lines.end(), "CO024 config.json " + tensors[i].name) == 1);
  }
  // Untied: the head is missing. Another family, or a lone file: nothing is implied.
  std::string untied = kModel;
  untied.replace(untied.find("true"), 4, "false");
  CHECK(colibri_lines({{"a.safetensors", weights(tensors, "{}")}, {"config.json", untied}}) ==
        Lines{"CO024 config.json lm_head.weight"});
  // With a shard that cannot be read nothing is said to be missing.
  CHECK(colibri_lines(
            {{"a.safetensors", weights(tensors, "{}")}, {"b.safetensors", "broken"}, {"config.json", untied}})
            .empty());
}

TEST_CASE("CO023: the MTP layer in part, or in int4") {
  std::vector<LintTensor> tensors = model_tensors();
  const auto lines = [&](const std::vector<LintTensor>& more) {
    std::vector<LintTensor> all = tensors;
    all.insert(all.end(), more.begin(), more.end());
    return colibri_lines({{"a.safetensors", weights(all, "{}")}, {"config.json", kModel}});
  };
  CHECK(lines({{"model.layers.1.other.weight", "F32", {4}}}).empty());
  CHECK(lines({{"model.layers.1.enorm.weight", "F32", {4}}}) == Lines{"CO023 . model.layers.1"});
  std::vector<LintTensor> mtp;
  for (const char* name :
       {"enorm", "hnorm", "shared_head.norm", "input_layernorm", "post_attention_layernorm", "mlp.gate"})
    mtp.push_back({"model.layers.1." + std::string(name) + ".weight", "F32", {4}});
  for (LintTensor tensor : tensors)
    for (const char* part :
         {"self_attn.q_a_proj", "self_attn.q_b_proj", "self_attn.kv_a_proj_with_mqa", "self_attn.kv_b_proj",
          "self_attn.o_proj", "mlp.shared_experts.gate_proj", "mlp.shared_experts.down_proj",
          "mlp.experts.0.gate_proj", "mlp.experts.0.down_proj"})
      if (tensor.name.find(std::string(part) + ".weight") != std::string::npos) {
        tensor.name.replace(13, 1, "1");
        mtp.push_back(tensor);
      }
  const auto with_eh = [&](uint64_t bytes) {
    std::vector<LintTensor> all = mtp;
    all.push_back(flat("model.layers.1.eh_proj.weight", bytes));
    all.push_back(scales("model.layers.1.eh_proj.weight", 64));
    return lines(all);
  };
  CHECK(with_eh(64 * 128) == Lines{"CO020 . -"});
  CHECK(with_eh(64 * 64) == Lines{"CO020 . -", "CO023 . model.layers.1"});
}

TEST_CASE("CO025: records of the range coder") {
  const std::string name = "model.layers.3.mlp.experts.0.up_proj.weight";
  std::vector<std::byte> packed(8 * 32);
  for (size_t i = 0; i < packed.size(); ++i) packed[i] = static_cast<std::byte>(i * 37);
  std::array<uint64_t, 16> histogram{};
  colibri::count_nibbles(packed, histogram);
  const colibri::RansTable table = colibri::rans_table(histogram);
  const std::vector<std::byte> record = colibri::encode_rans(packed, table);
  const std::string bytes(reinterpret_cast<const char*>(record.data()), record.size());
  const auto lines = [&](const std::string& data, const std::string& table_text, const std::string& config,
                         const MemoryFiles& more = {}) {
    MemoryFiles files = more;
    files["config.json"] = config;
    files["out-rans-00000.safetensors"] =
        weights({{name, "U8", {data.size()}, data}, scales(name, 8)},
                stamps({{name, "int4-rans256-g0"}},
                       ",\"colibri.int4-rans256-g0.table\":" + OrderedJson(table_text).dump()));
    return colibri_lines(files);
  };
  const std::string good = colibri::rans_table_text(table);
  const std::string config = R"({"hidden_size":64,"moe_intermediate_size":8,"first_k_dense_replace":0})";
  CHECK(lines(bytes, good, config).empty());
  const Lines fault = {"CO025 out-rans-00000.safetensors " + name};
  const Lines shard = {"CO025 out-rans-00000.safetensors -"};
  CHECK(lines(bytes, good, R"({"hidden_size":32,"moe_intermediate_size":8,"first_k_dense_replace":0})") ==
        fault);  // int8
  CHECK(lines(bytes, good, R"({"hidden_size":60,"moe_intermediate_size":8,"first_k_dense_replace":0})") ==
        fault);
  std::string empty = bytes;
  empty.replace(0, 16, std::string(16, '\0'));
  CHECK(lines(empty, good, config) == fault);
  CHECK(lines(bytes.substr(0, 1000), good, config) == fault);
  CHECK(lines(bytes, "{}", config) == shard);
  CHECK(lines(bytes, good, config, {{"repack-manifest.json", "{}"}}) == shard);
  CHECK(lines(bytes, good, config,
              {{"repack-manifest.json",
                R"({"shards":[{"file":"out-rans-00000.safetensors","sha256":"","records":{")" + name +
                    R"(":""}},{"file":"out-rans-00001.safetensors","sha256":"","records":{}}]})"}}) ==
        Lines{"CO025 . -"});
}

TEST_CASE("hostile containers: a finding per name is bounded, sizes never overflow") {
  const std::string huge =
      R"({"hidden_size":9223372036854775807,"vocab_size":9223372036854775807,"num_hidden_layers":9223372036854775807,
          "n_routed_experts":9223372036854775807,"first_k_dense_replace":0,"num_attention_heads":9223372036854775807,
          "q_lora_rank":9223372036854775807,"kv_lora_rank":9223372036854775807,"qk_nope_head_dim":9223372036854775807,
          "qk_rope_head_dim":9223372036854775807,"v_head_dim":9223372036854775807,"moe_intermediate_size":1,
          "intermediate_size":1})";
  CHECK(colibri_lines({{"out-00000.safetensors", weights({flat(kEmbedding, 4), scales(kEmbedding, 1)}, "{}")},
                       {"config.json", huge}}) == one("CO001"));
  std::map<std::string, std::string, std::less<>> many;
  for (int i = 0; i < 20'000; ++i) many["t" + std::to_string(i)] = "f32";
  const LintResult result = run_lint({{"a.safetensors", weights({{"n", "F32", {1}}}, stamps(many))}});
  CHECK(finding_lines(result.findings, {"CO014"}).size() == 10'000);
  CHECK(std::any_of(result.omitted.begin(), result.omitted.end(), [](const OmittedFindings& one) {
    return one.rule == Rule::CO014 && one.count == 10'000;
  }));
}
