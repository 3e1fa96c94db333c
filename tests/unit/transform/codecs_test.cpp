// dequant and quantize: every codec against the golden files, its error bound, and its refusals.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>

#include "data_file.h"
#include "tftf/base/bytes.h"
#include "tftf/quant/encoder.h"
#include "tftf/quant/registry.h"
#include "transform_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

Result<TransformResult> apply_codec(const std::string& file, Operation operation,
                                    uint64_t tile = kDefaultTileBytes, TransformHostOptions host = {}) {
  MemoryModel model;
  model.files["model.safetensors"] = file;
  TransformRequest request{.command = operation.id, .operations = {std::move(operation)}, .tile_bytes = tile};
  request.layout.single_file = true;
  return transform_in_memory(model, model.file("model.safetensors"), std::move(request), host);
}

const TestTensor* tensor_named(const std::vector<TestTensor>& tensors, const std::string& name) {
  for (const TestTensor& tensor : tensors)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

std::vector<float> floats_of(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::string golden(const std::string& path) { return tftf_test::read_data("/golden/colibri/cases/" + path); }

// The tensors `names` of both files are equal in dtype, shape and bytes.
void check_equal(const std::string& got, const std::string& want, const std::vector<std::string>& names) {
  const auto a = tensors_of(got), b = tensors_of(want);
  for (const std::string& name : names) {
    INFO(name);
    const TestTensor *x = tensor_named(a, name), *y = tensor_named(b, name);
    REQUIRE(x != nullptr);
    REQUIRE(y != nullptr);
    CHECK(x->dtype == y->dtype);
    CHECK(x->shape == y->shape);
    CHECK(x->bytes == y->bytes);
  }
}

Operation quantize_to(const std::string& layout, uint64_t bits = 0, uint64_t group = 0) {
  Operation operation{"quantize", {{"to", {layout}}}};
  if (bits != 0) operation.options.push_back({"bits", {std::to_string(bits)}});
  if (group != 0) operation.options.push_back({"group-size", {std::to_string(group)}});
  return operation;
}

struct CodecBound {
  std::string layout;
  uint64_t group = 0;
  // Largest |decoded - value| in units of the largest magnitude of the scope (row, group, block of the layout).
  double bound = 0;
  size_t rows_of_scope = 1;
  size_t columns_of_scope = 0;  // 0: all
};

}  // namespace

TEST_CASE("what can be quantised to is what the registry says is written") {
  const OptionInfo* to = find_operation("quantize")->option("to");
  for (const QuantFormat* format : quant_formats()) {
    INFO(format->id);
    CHECK((std::find(to->choices.begin(), to->choices.end(), format->id) != to->choices.end()) ==
          (format->encoder != nullptr));
    if (format->encoder == nullptr) continue;
    CHECK(format->encoder->plan != nullptr);
    CHECK(format->encoder->writes != nullptr);
    CHECK(format->encoder->encode != nullptr);
    CHECK((format->encoder->measure == nullptr) == (format->encoder->measured == nullptr));
  }
}

TEST_CASE("a container has no more stamps than its reader takes, and warns of shapes and mixtures") {
  std::vector<TestTensor> many;
  for (int i = 0; i < 4097; ++i)
    many.push_back(
        {"model.layers." + std::to_string(i) + ".self_attn.o_proj.weight", DType::BF16, {1, 2}, "abcd"});
  const auto refused = apply_codec(model_file(many), quantize_to("colibri-int8-row"));
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("stamp-cap") != std::string::npos);
  many.pop_back();
  const auto full = apply_codec(model_file(many), quantize_to("colibri-int8-row"));
  REQUIRE(full.ok());
  CHECK(full->account.warnings.empty());

  const std::string expert = "model.layers.1.mlp.experts.0.";
  const std::string bytes(1024, '\x3c');
  Operation some = quantize_to("colibri-e8-iq3-lattice");
  some.options.push_back({"include", {"*up_proj*"}});
  const std::string file = model_file({{expert + "up_proj.weight", DType::BF16, {2, 256}, bytes},
                                       {expert + "gate_proj.weight", DType::BF16, {2, 256}, bytes}});
  const auto mixed = apply_codec(file, some);
  REQUIRE(mixed.ok());
  CHECK(mixed->account.warnings.size() == 1);
  const auto all = apply_codec(file, quantize_to("colibri-e8-iq3-lattice"));
  REQUIRE(all.ok());
  CHECK(all->account.warnings.empty());

  MemoryModel folder;
  folder.files["model.safetensors"] = file;
  folder.files["config.json"] =
      R"({"hidden_size": 256, "moe_intermediate_size": 4, "first_k_dense_replace": 1})";
  const auto other = transform_in_memory(folder, {quantize_to("colibri-int4-row")});
  REQUIRE(other.ok());
  CHECK(other->account.warnings.size() == 2);
}

TEST_CASE("quantised files equal the golden ones") {
  const std::tuple<const char*, const char*, uint64_t, uint64_t> cases[] = {
      {"q-int8-basic", "int8-row", 8, 0},
      {"q-int8-bits5", "int8-row", 5, 0},
      {"q-int4-even", "int4-row", 4, 0},
      {"q-int4-odd", "int4-row", 4, 0},
      {"q-int4-I1", "int4-row", 4, 0},
      {"q-int4-special", "int4-row", 4, 0},
      {"q-int4g64", "int4-grouped", 4, 64},
      {"q-int4g128-small", "int4-grouped", 4, 128},
      {"q-int4g32-special", "int4-grouped", 4, 32},
      {"q-int4g64-bits2", "int4-grouped", 2, 64},
      {"q-int3", "int3-g64", 0, 0},
      {"q-int3-small", "int3-g64", 0, 0},
      {"q-int3-tail", "int3-g64", 0, 0},
      {"q-int2", "int2-row", 2, 0},
      {"q-int2-tail", "int2-row", 2, 0},
      {"q-e8-256", "e8-iq3-lattice", 0, 0},
      {"q-e8-special", "e8-iq3-lattice", 0, 0}};
  for (const auto& [id, format, bits, group] : cases) {
    INFO(id);
    const auto done = apply_codec(golden(std::string(id) + "/in/w.safetensors"),
                                  quantize_to("colibri-" + std::string(format), bits, group));
    REQUIRE(done.ok());
    check_equal(done->files.at("model.safetensors"), golden(std::string(id) + "/out/w.safetensors"),
                {"w", "w.qs"});
  }
  const auto fp8 = apply_codec(golden("fp8-block-quant-zero/in/w.safetensors"), quantize_to("fp8-block"));
  REQUIRE(fp8.ok());
  check_equal(fp8->files.at("model.safetensors"), golden("fp8-block-quant-zero/out/w.safetensors"),
              {"w", "w_scale_inv"});
}

TEST_CASE("dequantised files equal the golden ones") {
  const std::tuple<const char*, const char*, uint64_t, uint64_t, uint64_t> cases[] = {
      {"dq-fmt4", "int4-grouped", 6, 192, 64},
      {"dq-int8", "int8-row", 5, 13, 0},
      {"dq-int2", "int2-row", 5, 14, 0}};
  for (const auto& [id, format, rows, columns, group] : cases) {
    INFO(id);
    Operation operation{"dequant",
                        {{"layout", {"colibri-" + std::string(format)}},
                         {"dtype", {"float32"}},
                         {"rows", {std::to_string(rows)}},
                         {"cols", {std::to_string(columns)}}}};
    if (group != 0) operation.options.push_back({"group-size", {std::to_string(group)}});
    const auto done = apply_codec(golden(std::string(id) + "/in/w.safetensors"), operation);
    REQUIRE(done.ok());
    check_equal(done->files.at("model.safetensors"), golden(std::string(id) + "/out/w.safetensors"), {"w"});
    CHECK(tensor_named(tensors_of(done->files.at("model.safetensors")), "w.qs") == nullptr);
  }
  const std::string expert = "model.layers.1.mlp.experts.0.up_proj.weight";
  for (const auto& [id, name] : {std::pair<std::string, std::string>{"dq-nvfp4", expert}}) {
    const auto done = apply_codec(golden(id + "/in/w.safetensors"), {"dequant", {{"dtype", {"float32"}}}});
    REQUIRE(done.ok());
    check_equal(done->files.at("model.safetensors"), golden(id + "/out/w.safetensors"), {name});
  }
  const auto wrong =
      apply_codec(golden("dq-nvfp4-cols/in/w.safetensors"), {"dequant", {{"dtype", {"float32"}}}});
  REQUIRE_FALSE(wrong.ok());
  CHECK(wrong.error().tensor == expert);
}

// docs/numerics.md, "Error bounds".
TEST_CASE("what comes back after quantising is within the bound of its format, whatever tile and table") {
  const CodecBound bounds[] = {
      {"colibri-int8-row", 0, 0.5 / 127, 1, 0},
      {"colibri-int4-row", 0, 0.5 / 7, 1, 0},
      {"colibri-int2-row", 0, 0.5, 1, 0},
      {"colibri-int4-grouped", 16, 0.5 / 7, 1, 16},
      {"colibri-int4-grouped", 64, 0.5 / 7, 1, 64},
      {"colibri-int3-g64", 0, 0.5 / 3, 1, 64},
      {"colibri-fp8-e4m3-b128", 0, 1.0 / 28, 128, 128},  // half a step of 32 at 448
      {"fp8-block", 0, 1.0 / 28, 128, 128},
  };
  std::mt19937 random(1129);
  std::normal_distribution<float> normal(0.0f, 0.05f);
  for (const CodecBound& of : bounds) {
    for (const auto& [rows, columns] :
         {std::pair<size_t, size_t>{1, 5}, {3, 300}, {140, 130}, {257, 64}, {2, 3001}}) {
      INFO(of.layout << " " << rows << " x " << columns);
      std::vector<float> w(rows * columns);
      for (float& x : w) x = normal(random);
      const std::string file = model_file({{"m.weight", DType::F32, {rows, columns}, f32_bytes(w)}});
      Operation quantise = quantize_to(of.layout, 0, of.group);
      const auto coded = apply_codec(file, quantise);
      if (!coded.ok() && of.layout == "colibri-fp8-e4m3-b128")
        continue;  // a shape at which its reader sees int8
      REQUIRE(coded.ok());
      const std::string& codes = coded->files.at("model.safetensors");
      TransformHostOptions other;
      other.kernels = &best_kernels();
      other.seed = 7;
      const auto again = apply_codec(file, quantise, 1024, other);
      REQUIRE(again.ok());
      CHECK(again->files.at("model.safetensors") == codes);

      Operation back{"dequant", {{"dtype", {"float32"}}}};
      if (of.layout != "fp8-block") {
        back.options.push_back({"layout", {of.layout}});
        back.options.push_back({"rows", {std::to_string(rows)}});
        back.options.push_back({"cols", {std::to_string(columns)}});
        if (of.group != 0) back.options.push_back({"group-size", {std::to_string(of.group)}});
      }
      const auto plain = apply_codec(codes, back, 4096);
      REQUIRE(plain.ok());
      const auto tensors = tensors_of(plain->files.at("model.safetensors"));
      REQUIRE(tensors.size() == 1);
      CHECK(tensors[0].shape == Shape{rows, columns});
      const std::vector<float> got = floats_of(tensors[0].bytes);
      const size_t width = of.columns_of_scope == 0 ? columns : of.columns_of_scope;
      size_t outside = 0;
      for (size_t r = 0; r < rows; ++r)
        for (size_t c = 0; c < columns; ++c) {
          float amax = 0;
          const size_t top = r / of.rows_of_scope * of.rows_of_scope, left = c / width * width;
          for (size_t i = top; i < std::min(rows, top + of.rows_of_scope); ++i)
            for (size_t j = left; j < std::min(columns, left + width); ++j)
              amax = std::max(amax, std::fabs(w[i * columns + j]));
          const double error = std::fabs(static_cast<double>(got[r * columns + c]) - w[r * columns + c]);
          outside += error > of.bound * amax * (1 + 1e-5);
        }
      CHECK(outside == 0);
    }
  }
}

TEST_CASE("rows on the lattice come back with an eighth of their energy as error at most") {
  std::mt19937 random(1129);
  std::normal_distribution<float> normal(0.0f, 0.02f);
  for (const auto& [rows, columns] : {std::pair<size_t, size_t>{3, 256}, {2, 768}, {5, 2048}}) {
    std::vector<float> w(rows * columns);
    for (float& x : w) x = normal(random);
    const std::string file = model_file({{"m.weight", DType::F32, {rows, columns}, f32_bytes(w)}});
    const auto coded = apply_codec(file, quantize_to("colibri-e8-iq3-lattice"));
    REQUIRE(coded.ok());
    TransformHostOptions other;
    other.kernels = &best_kernels();
    const auto again = apply_codec(file, quantize_to("colibri-e8-iq3-lattice"), 2048, other);
    REQUIRE(again.ok());
    CHECK(again->files.at("model.safetensors") == coded->files.at("model.safetensors"));
    const auto plain =
        apply_codec(coded->files.at("model.safetensors"), {"dequant",
                                                           {{"layout", {"colibri-e8-iq3-lattice"}},
                                                            {"dtype", {"float32"}},
                                                            {"rows", {std::to_string(rows)}},
                                                            {"cols", {std::to_string(columns)}}}});
    REQUIRE(plain.ok());
    const std::vector<float> got = floats_of(tensors_of(plain->files.at("model.safetensors"))[0].bytes);
    for (size_t r = 0; r < rows; ++r) {
      double error = 0, energy = 0;
      for (size_t c = 0; c < columns; ++c) {
        const double x = w[r * columns + c], d = got[r * columns + c] - x;
        energy += x * x;
        error += d * d;
      }
      CHECK(error <= energy / 8);
      CHECK(error > 0);
    }
  }
}

TEST_CASE("16-bit weights are quantised as the values they are") {
  std::vector<uint16_t> codes;
  std::vector<float> values;
  for (uint16_t i = 0; i < 512; ++i) {
    const uint16_t code = static_cast<uint16_t>(0x3C00 + 7 * i);
    codes.push_back(code);
    float x;
    const uint32_t bits = static_cast<uint32_t>(code) << 16;
    std::memcpy(&x, &bits, sizeof x);
    values.push_back(x);
  }
  for (const char* layout : {"colibri-int4-row", "colibri-int3-g64", "colibri-e8-iq3-lattice", "fp8-block"}) {
    INFO(layout);
    const auto narrow =
        apply_codec(model_file({{"a.weight", DType::BF16, {2, 256}, u16_bytes(codes)}}), quantize_to(layout));
    const auto wide =
        apply_codec(model_file({{"a.weight", DType::F32, {2, 256}, f32_bytes(values)}}), quantize_to(layout));
    REQUIRE(narrow.ok());
    REQUIRE(wide.ok());
    check_equal(narrow->files.at("model.safetensors"), wide->files.at("model.safetensors"), {"a.weight"});
  }
}

TEST_CASE("values without a code are refused by name, in every layout and place") {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const QuantFormat* format : quant_formats()) {
    if (format->encoder == nullptr) continue;
    for (const float bad : {infinity, -infinity, std::nanf("")}) {
      for (const size_t at : {size_t{0}, size_t{255}, size_t{32 * 256 - 1}}) {
        INFO(format->id << " " << bad << " at " << at);
        std::vector<float> w(32 * 256, 0.25f);
        w[at] = bad;
        const auto done = apply_codec(model_file({{"a.weight", DType::F32, {32, 256}, f32_bytes(w)}}),
                                      quantize_to(std::string(format->id)));
        REQUIRE_FALSE(done.ok());
        CHECK(done.error().code == ErrorCode::kRefusedValues);
        CHECK(done.error().tensor.substr(0, 2) == "a.");
      }
    }
  }
  // Finite, and too large for the super-scale of a lattice block.
  const auto huge =
      apply_codec(model_file({{"a.weight", DType::F32, {1, 256}, f32_bytes(std::vector<float>(256, 1e30f))}}),
                  quantize_to("colibri-e8-iq3-lattice"));
  REQUIRE_FALSE(huge.ok());
  CHECK(huge.error().code == ErrorCode::kRefusedValues);
}

TEST_CASE("what is quantised, what is copied, and what is refused") {
  const auto bytes = [](size_t count) { return std::string(count, '\x3c'); };
  const std::string file = model_file({{"a.weight", DType::BF16, {4, 64}, bytes(512)},
                                       {"norm.weight", DType::BF16, {64}, bytes(128)},
                                       {"table", DType::BF16, {4, 64}, bytes(512)},
                                       {"b.weight", DType::BF16, {4, 64}, bytes(512)}});
  auto done = apply_codec(file, quantize_to("colibri-int4-row"));
  REQUIRE(done.ok());
  CHECK(done->account.changed == 4);  // two pairs
  CHECK(done->account.copied == 2);
  Operation chosen = quantize_to("colibri-int4-row");
  chosen.options.push_back({"include", {"table"}});
  done = apply_codec(file, chosen);
  REQUIRE(done.ok());
  CHECK(tensor_named(tensors_of(done->files.at("model.safetensors")), "table.qs") != nullptr);
  CHECK(done->account.copied == 3);
  Operation none = quantize_to("fp8-block");
  none.options.push_back({"exclude", {"*"}});
  done = apply_codec(file, none);
  REQUIRE(done.ok());
  CHECK_FALSE(done->account.warnings.empty());

  const auto code_of = [](const Result<TransformResult>& result) {
    REQUIRE_FALSE(result.ok());
    return result.error().code;
  };
  CHECK(code_of(apply_codec(file, quantize_to("awq-gemv"))) == ErrorCode::kUsage);
  CHECK(code_of(apply_codec(file, quantize_to("colibri-int8-row", 9))) == ErrorCode::kUsage);
  CHECK(code_of(apply_codec(file, quantize_to("colibri-int4-row", 1))) == ErrorCode::kUsage);
  CHECK(code_of(apply_codec(file, quantize_to("colibri-int8-row", 0, 64))) == ErrorCode::kUsage);
  CHECK(code_of(apply_codec(file, quantize_to("fp8-block", 8))) == ErrorCode::kUsage);
  CHECK(code_of(apply_codec(file, quantize_to("colibri-e8-iq3-lattice"))) == ErrorCode::kRefusedUnsupported);
  const std::string empty = model_file({{"a.weight", DType::BF16, {0, 64}, ""}});
  CHECK(code_of(apply_codec(empty, quantize_to("colibri-int4-row"))) == ErrorCode::kRefusedShape);
  CHECK(code_of(apply_codec(empty, quantize_to("fp8-block"))) == ErrorCode::kRefusedShape);
  const std::string taken = model_file(
      {{"a.weight", DType::BF16, {4, 64}, bytes(512)}, {"a.weight.qs", DType::F32, {3}, bytes(12)}});
  CHECK_FALSE(apply_codec(taken, quantize_to("colibri-int4-row")).ok());
  const std::string codes = model_file({{"a.weight", DType::F8_E4M3, {4, 64}, bytes(256)}});
  CHECK_FALSE(apply_codec(codes, quantize_to("colibri-int4-row")).ok());
}
