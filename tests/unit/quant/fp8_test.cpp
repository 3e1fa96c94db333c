#include "tftf/quant/fp8.h"

#include <catch2/catch.hpp>

using namespace tftf;
using Kind = Fp8Geometry::Kind;

namespace {

struct Names {
  std::vector<std::string> names;
  std::vector<DType> dtypes;
  Shape shape{4, 4};

  // A name with '*' in front is FP8.
  explicit Names(const std::vector<std::string>& list) {
    for (const std::string& name : list) {
      dtypes.push_back(name[0] == '*' ? DType::F8_E4M3 : DType::F32);
      names.push_back(name[0] == '*' ? name.substr(1) : name);
    }
  }
  Fp8Pairing pair() const {
    std::vector<TensorView> views;
    for (size_t i = 0; i < names.size(); ++i) views.push_back({names[i], dtypes[i], &shape});
    return pair_fp8(views);
  }
  // "weight<scale" with '/' instead of '<' for a divisor, "?scale" for orphans, "!weight" for unscaled.
  std::string text() const {
    const Fp8Pairing pairing = pair();
    std::string out;
    for (const Fp8Scale& s : pairing.scales) {
      out += names[s.weight] + (s.name == Fp8ScaleName::kPlain ? "/" : "<") + names[s.scale] + " ";
    }
    for (const uint32_t i : pairing.orphans) out += "?" + names[i] + " ";
    for (const uint32_t i : pairing.unscaled) out += "!" + names[i] + " ";
    return out;
  }
};

std::string paired(const std::vector<std::string>& list) { return Names(list).text(); }

Fp8Geometry geometry(const Shape& weight, const Shape& scale, Fp8Block block = {4, 4}) {
  const auto g = fp8_geometry(weight, scale, block);
  REQUIRE(g.has_value());
  return *g;
}

}  // namespace

TEST_CASE("scales are found by their names, in either order") {
  CHECK(paired({"*a.weight", "a.weight_scale_inv"}) == "a.weight<a.weight_scale_inv ");
  CHECK(paired({"a.weight_scale_inv", "*a.weight"}) == "a.weight<a.weight_scale_inv ");
  CHECK(paired({"*a.weight", "a.weight_scale"}) == "a.weight/a.weight_scale ");
  CHECK(paired({"*weight", "weight_scale_inv"}) == "weight<weight_scale_inv ");
  CHECK(paired({"*a", "a.weight_scale_inv"}) == "a<a.weight_scale_inv ");
  CHECK(paired({"*a", "a.weight_scale"}) == "a/a.weight_scale ");
  CHECK(paired({"*a", "*a.weight", "a.weight_scale_inv"}) == "a.weight<a.weight_scale_inv !a ");
  CHECK(paired({"*x.gate_up_proj", "x.gate_up_proj_scale_inv"}) ==
        "x.gate_up_proj<x.gate_up_proj_scale_inv ");
}

TEST_CASE("other names are no scales") {
  CHECK(paired({"*a.weight", "rope_scale", "my_weight_scale", "a.xweight_scale_inv"}) == "!a.weight ");
  CHECK(paired({"*x.gate_up_proj", "x.gate_up_proj_scale"}) == "!x.gate_up_proj ");
  CHECK(paired({"x_scale_inv"}) == "");  // there is no parameter x
  CHECK(paired({"a.weight_scale_inv"}) == "?a.weight_scale_inv ");
  CHECK(paired({"weight_scale"}) == "?weight_scale ");
}

TEST_CASE("two scales and scales of plain weights are told, not judged") {
  CHECK(paired({"*a.weight", "a.weight_scale", "a.weight_scale_inv"}) ==
        "a.weight/a.weight_scale a.weight<a.weight_scale_inv ");
  CHECK(paired({"a.weight", "a.weight_scale"}) == "a.weight/a.weight_scale ");
  // A scale in FP8 is no weight.
  CHECK(paired({"a.weight", "*a.weight_scale"}) == "a.weight/a.weight_scale ");
}

TEST_CASE("geometry: block grid, transposed grid, tensor, row, column, in this order") {
  CHECK(geometry({7, 10}, {2, 3}).kind == Kind::kBlock);
  CHECK(geometry({7, 10}, {3, 2}).kind == Kind::kTransposed);
  CHECK(geometry({8, 8}, {2, 2}).kind == Kind::kBlock);  // equal shapes are never transposed
  CHECK(geometry({4, 4}, {1, 1}).kind == Kind::kBlock);
  CHECK(geometry({7, 10}, {1, 1}).kind == Kind::kTensor);
  CHECK(geometry({7, 10}, {1}).kind == Kind::kTensor);
  CHECK(geometry({7, 10}, {}).kind == Kind::kTensor);
  CHECK(geometry({7, 10}, {7}).kind == Kind::kRow);
  CHECK(geometry({7, 10}, {7, 1}).kind == Kind::kRow);
  CHECK(geometry({7, 10}, {1, 10}).kind == Kind::kColumn);
  for (const Shape& scale :
       std::initializer_list<Shape>{{10}, {3, 3}, {2, 4}, {7, 10}, {1, 7}, {1, 1, 1}, {2}, {0}}) {
    INFO(shape_text(scale));
    CHECK_FALSE(fp8_geometry({7, 10}, scale, {4, 4}).has_value());
  }
}

TEST_CASE("blocks may be rectangles") {
  const Fp8Geometry g = geometry({7, 10}, {4, 1}, {2, 16});
  CHECK(g.kind == Kind::kBlock);
  CHECK(g.block_rows == 2);
  CHECK(g.block_cols == 16);
  CHECK(g.row_stride == 1);
  CHECK(geometry({7, 10}, {1, 4}, {2, 16}).kind == Kind::kTransposed);
  CHECK_FALSE(fp8_geometry({7, 10}, {1, 5}, {2, 16}).has_value());
}

TEST_CASE("stacks take scales of the same first dimension, or one scale") {
  CHECK(geometry({3, 7, 10}, {3, 2, 3}).matrices == 3);
  CHECK(geometry({3, 7, 10}, {3, 2, 3}).grid_elements == 6);
  CHECK(geometry({3, 7, 10}, {3, 3, 2}).kind == Kind::kTransposed);
  CHECK(geometry({3, 7, 10}, {3, 1, 1}).kind == Kind::kTensor);
  CHECK(geometry({3, 7, 10}, {3, 7, 1}).kind == Kind::kRow);
  CHECK(geometry({3, 7, 10}, {3, 1, 10}).kind == Kind::kColumn);
  CHECK(geometry({3, 7, 10}, {}).shared);
  CHECK(geometry({3, 7, 10}, {1}).shared);
  CHECK_FALSE(fp8_geometry({3, 7, 10}, {2, 2, 3}, {4, 4}).has_value());
  CHECK_FALSE(fp8_geometry({3, 7, 10}, {2, 3}, {4, 4}).has_value());
}

TEST_CASE("vectors take one scale only, stacks of any rank a grid for each matrix") {
  CHECK(geometry({5}, {1}).cols == 5);
  CHECK(geometry({}, {}).cols == 1);
  CHECK(geometry({2, 3, 4, 5}, {}).cols == 120);
  CHECK_FALSE(fp8_geometry({5}, {5}, {4, 4}).has_value());
  CHECK(geometry({2, 3, 4, 5}, {2, 3, 1, 2}).matrices == 6);
  CHECK_FALSE(fp8_geometry({2, 3, 4, 5}, {3, 2, 1, 2}, {4, 4}).has_value());
}

TEST_CASE("the block size of config.json is two positive integers or refused") {
  const auto block = [](const std::string& text) {
    Checkpoint checkpoint;
    checkpoint.side_files.push_back({"config.json", text, parse_json(text, JsonDialect::kPython)});
    return fp8_config_block(read_quant_config(checkpoint));
  };
  CHECK(block(R"({"quantization_config": {"weight_block_size": [128, 64]}})").value() == Fp8Block{128, 64});
  CHECK(block(R"({"text_config": {"quantization_config": {"weight_block_size": [1, 1]}}})").value() ==
        Fp8Block{1, 1});
  CHECK(block(R"({"quantization_config": {"weight_block_size": null}})").value() == std::nullopt);
  CHECK(block("{}").value() == std::nullopt);
  CHECK(fp8_config_block({}).value() == std::nullopt);
  for (const char* size :
       {"128", "[128]", "[128, 0]", "[128, -1]", "[128, 1.5]", "[128, 128, 128]", "\"x\"", "[true, 1]"}) {
    INFO(size);
    const auto result = block(std::string(R"({"quantization_config": {"weight_block_size": )") + size + "}}");
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().code == ErrorCode::kRefusedConfig);
  }
}
