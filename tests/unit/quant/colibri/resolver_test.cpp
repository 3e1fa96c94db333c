#include "tftf/quant/colibri/resolver.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "tftf/base/json_value.h"
#include "tftf/quant/colibri/tensor_kind.h"

using namespace tftf;
using namespace tftf::colibri;

namespace {

JsonDocument golden(const std::string& path) {
  std::ifstream file(std::string(TFTF_TEST_DATA) + "/golden/colibri/cases/" + path);
  std::stringstream text;
  text << file.rdbuf();
  auto document = parse_json(text.str(), JsonDialect::kPython);
  REQUIRE_FALSE(document.error);
  return document;
}

}  // namespace

TEST_CASE("the reference resolver's table holds for every row") {
  const auto table = golden("resolver-table-a/out/table.json");
  REQUIRE(table.root.elements.size() > 100);
  for (const JsonValue& row : table.root.elements) {
    INFO(row.brief());
    Pair pair;
    pair.rows = static_cast<uint64_t>(*row.integer("O"));
    pair.columns = static_cast<uint64_t>(*row.integer("I"));
    pair.weight_bytes = static_cast<uint64_t>(*row.integer("weight_bytes"));
    pair.scale_bytes = static_cast<uint64_t>(*row.integer("scale_bytes"));
    if (auto stamp = row.string("stamp")) pair.stamp = std::string(*stamp);
    pair.routed = row.find("routed")->is_true();
    const Resolution got = resolve(pair);
    const JsonValue& want = *row.find("expect");
    if (want.string("verdict") == "ok") {
      REQUIRE(got.format.has_value());
      CHECK(static_cast<int64_t>(*got.format) == want.integer("fmt"));
      CHECK(static_cast<int64_t>(got.group_size) == want.integer("group_size"));
    } else {
      REQUIRE(got.refusal.has_value());
      CHECK(refusal_class(*got.refusal) == want.string("class"));
    }
  }
}

TEST_CASE("every writer's sizes resolve to the format, a listed alias, or a refusal, and never overflow") {
  for (const FormatInfo& info : all_formats()) {
    if (info.format == Format::kF32 || info.format == Format::kMxfp4) continue;
    for (uint64_t rows : {1u, 2u, 7u, 24u, 64u, 128u, 129u, 300u})
      for (uint64_t columns = 1; columns <= 300; ++columns) {
        Pair pair{rows,
                  columns,
                  *weight_bytes(info.format, rows, columns),
                  4 * *scale_count(info.format, rows, columns, 64),
                  {},
                  false};
        const Resolution got = resolve(pair);
        CHECK(got.format.has_value() != got.refusal.has_value());
        if (got.format == info.format) continue;
        // A true stamp never leads to another format: it is the right reading or a refusal.
        pair.stamp = std::string(info.name);
        const Resolution stamped = resolve(pair);
        CHECK((stamped.refusal.has_value() || stamped.format == info.format));
      }
  }
  const Pair huge{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, {}, false};
  CHECK(resolve(huge).refusal == Refusal::kUnknownWeightBytes);
}

TEST_CASE("the reference classification table holds for every row") {
  const auto table = golden("classify-a/out/table.json");
  REQUIRE(table.root.elements.size() > 300);
  for (const JsonValue& row : table.root.elements) {
    INFO(row.brief());
    const Pass pass{*row.elements[1].as_integer(), *row.elements[2].as_integer() != 0,
                    *row.elements[3].as_integer() != 0};
    CHECK(kind_name(classify(row.elements[0].text, pass)) == row.elements[4].text);
  }
}

TEST_CASE("implied shapes follow the configuration") {
  const auto config =
      parse_json(R"({"hidden_size":6144,"vocab_size":1000,"num_attention_heads":64,"v_head_dim":256,
    "first_k_dense_replace":3,"intermediate_size":12288,"moe_intermediate_size":2048})",
                 JsonDialect::kPython);
  using Shape2 = std::pair<uint64_t, uint64_t>;
  CHECK(implied_shape("model.layers.4.self_attn.o_proj.weight", config.root) == Shape2{6144, 16384});
  CHECK(implied_shape("model.layers.2.mlp.up_proj.weight", config.root) == Shape2{12288, 6144});
  CHECK(implied_shape("model.layers.3.mlp.experts.17.down_proj.weight", config.root) == Shape2{6144, 2048});
  CHECK(implied_shape("model.layers.3.mlp.shared_experts.gate_proj.weight", config.root) ==
        Shape2{2048, 6144});
  CHECK_FALSE(implied_shape("model.layers.3.mlp.gate_proj.weight", config.root));
  CHECK_FALSE(implied_shape("model.layers.3.mlp.experts.x.down_proj.weight", config.root));
  CHECK_FALSE(implied_shape("model.layers.4.self_attn.q_a_proj.weight", config.root));
}
