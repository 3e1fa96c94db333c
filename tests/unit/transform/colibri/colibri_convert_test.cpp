// colibri convert and fmt4-to-fmt2: golden folders byte for byte, and what they refuse.
#include <algorithm>
#include <catch2/catch.hpp>

#include "data_file.h"
#include "folder_host.h"
#include "tftf/base/bytes.h"
#include "tftf/base/json_text.h"
#include "tftf/base/json_value.h"
#include "tftf/container/header.h"
#include "tftf/transform/output_layout.h"
#include "transform_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

using colibri::ConvertOptions;
using colibri::make_convert;

MemoryModel convert_source(const std::string& path) {
  return golden_folder(path + "/in", {"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                                      "model-00003-of-00003.safetensors", "model.safetensors.index.json",
                                      "config.json", "tokenizer.json", "generation_config.json"});
}

void check_folder(const Result<FolderResult>& result, const std::string& path,
                  const std::vector<std::string>& names) {
  if (!result.ok()) INFO(result.error().message);
  REQUIRE(result.ok());
  CHECK(result->files.size() == names.size());
  for (const std::string& name : names) {
    INFO(path << " " << name);
    REQUIRE(result->files.count(name) == 1);
    const auto got = tensors_of(result->files.at(name));
    const auto want = tensors_of(tftf_test::read_data("/golden/colibri/cases/" + path + "/out/" + name));
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      INFO(want[i].name);
      CHECK(got[i].name == want[i].name);  // in the same order
      CHECK(got[i].dtype == want[i].dtype);
      CHECK(got[i].shape == want[i].shape);
      CHECK(got[i].bytes == want[i].bytes);
    }
  }
}

ConvertOptions two_layers() {
  ConvertOptions options;
  options.layers = 2;
  return options;
}

// One FP8 matrix of kind q with its scales.
std::vector<TestTensor> fp8_matrix(const std::string& name, uint64_t rows, uint64_t columns) {
  const uint64_t blocks = ((rows + 127) / 128) * ((columns + 127) / 128);
  return {{name, DType::F8_E4M3, {rows, columns}, std::string(static_cast<size_t>(rows * columns), '\x38')},
          {name + "_scale_inv",
           DType::F32,
           {(rows + 127) / 128, (columns + 127) / 128},
           f32_bytes(std::vector<float>(static_cast<size_t>(blocks), 0.01f))}};
}

MemoryModel one_shard(const std::vector<TestTensor>& tensors) {
  MemoryModel model;
  model.files["model.safetensors"] = model_file(tensors);
  model.files["config.json"] = "{}";
  return model;
}

// The message of a refusal.
std::string refusal_of(const Result<FolderResult>& result) {
  REQUIRE_FALSE(result.ok());
  return result.error().message;
}

bool mentions(const std::string& message, const std::string& word) {
  return message.find(word) != std::string::npos;
}

}  // namespace

TEST_CASE("converted folders equal the golden ones") {
  const MemoryModel fp8 = convert_source("src-fp8"), small = convert_source("src-small");
  const std::vector<std::string> two{"out-00000.safetensors", "out-00001.safetensors"};
  check_folder(folder_tool_in_memory(fp8, make_convert(two_layers())), "conv-default", two);
  check_folder(folder_tool_in_memory(small, make_convert(two_layers())), "conv-small", two);
  ConvertOptions options = two_layers();
  options.ebits = 8;
  check_folder(folder_tool_in_memory(small, make_convert(options)), "conv-ebits8", two);
  options = two_layers();
  using Kind = colibri::TensorKind;
  options.kind_bits = {
      {Kind::kShared, 8}, {Kind::kOutput, 8}, {Kind::kKvB, 8}, {Kind::kAttention, 3}, {Kind::kDenseMlp, 2}};
  options.group_size = 32;
  check_folder(folder_tool_in_memory(fp8, make_convert(options)), "conv-mixed", two);
  options = two_layers();
  options.mtp = true;
  check_folder(folder_tool_in_memory(fp8, make_convert(options)), "conv-mtp", {"out-mtp-00000.safetensors"});
  options = two_layers();
  options.indexer = true;
  check_folder(folder_tool_in_memory(fp8, make_convert(options)), "conv-indexer",
               {"out-idx-00000.safetensors", "out-idx-00001.safetensors"});
  options = two_layers();
  options.xbits = colibri::CodeWidth{0, true};
  check_folder(folder_tool_in_memory(golden_folder("conv-e8/in", {"model.safetensors", "config.json"}),
                                     make_convert(options)),
               "conv-e8", {"out-00000.safetensors"});
  check_folder(folder_tool_in_memory(golden_folder("conv-odd/in", {"m.safetensors", "config.json"}),
                                     make_convert(two_layers())),
               "conv-odd", {"out-00000.safetensors"});
}

TEST_CASE("converting takes another tile to the same bytes, and metadata along") {
  auto tensors = fp8_matrix("model.layers.0.self_attn.o_proj.weight", 200, 300);
  MemoryModel model = one_shard(tensors);
  model.files["model.safetensors"] =
      model_file(tensors, {{"made", "by hand"}, {"colibri.fmt", "{}"}, {"format", "pt"}});
  const auto whole = folder_tool_in_memory(model, make_convert(two_layers()));
  REQUIRE(whole.ok());
  TransformRequest request;
  request.tile_bytes = 1024;
  const auto pieces = folder_tool_in_memory(model, make_convert(two_layers()), nullptr, request);
  REQUIRE(pieces.ok());
  const std::string& file = whole->files.at("out-00000.safetensors");
  CHECK(pieces->files.at("out-00000.safetensors") == file);
  CHECK(metadata_of(file) == Metadata{{"format", "pt"}, {"made", "by hand"}});
}

TEST_CASE("options that make no sense are refused before anything is read") {
  const MemoryModel model = one_shard(fp8_matrix("a.weight", 4, 64));
  const auto code = [&](const ConvertOptions& options) {
    const auto result = folder_tool_in_memory(model, make_convert(options));
    REQUIRE_FALSE(result.ok());
    return result.error().code;
  };
  for (const uint32_t bits : {0u, 1u, 9u, 16u}) {
    ConvertOptions options;
    options.ebits = bits;
    CHECK(code(options) == ErrorCode::kUsage);
    options = {};
    options.io_bits = bits;
    CHECK(code(options) == ErrorCode::kUsage);
    options = {};
    options.kind_bits = {{colibri::TensorKind::kOutput, bits}};
    CHECK(code(options) == ErrorCode::kUsage);
  }
  ConvertOptions options;
  options.mtp = options.indexer = true;
  CHECK(code(options) == ErrorCode::kUsage);
  options = {};
  options.projection_bits = {{"up_proj", {0, true}}};
  const auto mixed = folder_tool_in_memory(
      golden_folder("conv-e8-mixed/in", {"model.safetensors", "config.json"}), make_convert(options));
  REQUIRE_FALSE(mixed.ok());
  CHECK(mixed.error().code == ErrorCode::kRefusedUnsupported);
  // All three by themselves are no mixture.
  options.projection_bits = {{"up_proj", {0, true}}, {"gate_proj", {0, true}}, {"down_proj", {0, true}}};
  CHECK(folder_tool_in_memory(model, make_convert(options)).ok());
}

TEST_CASE("sources whose scales are missing, of another shape or of another layout are refused by class") {
  const std::string name = "model.layers.0.self_attn.q_a_proj.weight";
  const auto convert = [](const MemoryModel& model) {
    return folder_tool_in_memory(model, make_convert(two_layers()));
  };
  auto tensors = fp8_matrix(name, 130, 140);
  CHECK(convert(one_shard(tensors)).ok());

  std::string message = refusal_of(convert(one_shard({tensors[0]})));
  CHECK(mentions(message, "missing-scale"));
  MemoryModel apart = one_shard({tensors[0]});
  apart.files["other.safetensors"] = model_file({tensors[1]});
  message = refusal_of(convert(apart));
  CHECK(mentions(message, "missing-scale"));
  CHECK(mentions(message, "other.safetensors"));

  for (const Shape& grid : {Shape{2, 3}, Shape{1, 2}, Shape{4}, Shape{2, 2, 1}}) {
    auto wrong = tensors;
    wrong[1].shape = grid;
    uint64_t count = 1;
    for (const uint64_t d : grid) count *= d;
    wrong[1].bytes = std::string(static_cast<size_t>(4 * count), '\0');
    CHECK(mentions(refusal_of(convert(one_shard(wrong))), "scale-grid"));
  }
  for (const DType dtype : {DType::U8, DType::I8, DType::F8_E5M2, DType::BOOL}) {
    CHECK(mentions(refusal_of(convert(one_shard({{name, dtype, {4, 64}, std::string(256, '\1')}}))),
                   "source-layout"));
  }
  auto container = tensors;
  container.push_back({"x.qs", DType::F32, {1}, f32_bytes({1})});
  CHECK(mentions(refusal_of(convert(one_shard(container))), "source-layout"));
  CHECK(mentions(refusal_of(convert(one_shard({{name, DType::BF16, {0, 64}, ""}}))), "write-unreadable"));

  // Codes that are NaN come out as values without a code.
  auto nan = tensors;
  nan[0].bytes[77] = '\x7f';
  const auto spoilt = convert(one_shard(nan));
  REQUIRE_FALSE(spoilt.ok());
  CHECK(spoilt.error().code == ErrorCode::kRefusedValues);
  CHECK(spoilt.error().tensor == name);
}

TEST_CASE("NVFP4 sources are decoded, and a reciprocal global scale is told by its size") {
  const std::string name = "model.layers.1.mlp.experts.0.up_proj.weight";
  const auto source = [&](float global, Shape scales) {
    uint64_t count = 1;
    for (const uint64_t d : scales) count *= d;
    return one_shard(
        {{name, DType::U8, {4, 24}, std::string(96, '\x53')},
         {name + "_scale", DType::F8_E4M3, scales, std::string(static_cast<size_t>(count), '\x38')},
         {name + "_scale_2", DType::F32, {}, f32_bytes({global})}});
  };
  const auto done = folder_tool_in_memory(source(0.5f, {4, 3}), make_convert(two_layers()));
  REQUIRE(done.ok());
  const auto tensors = tensors_of(done->files.at("out-00000.safetensors"));
  REQUIRE(tensors.size() == 2);
  // 1.5 and 3, times 1, times 0.5: a scale of 1.5 / 7, codes 4 (3.5, to even) and 7.
  CHECK(tensors[1].bytes == std::string(96, '\xfc'));
  CHECK(mentions(refusal_of(folder_tool_in_memory(source(2.0f, {4, 3}), make_convert(two_layers()))),
                 "source-layout"));
  CHECK(mentions(refusal_of(folder_tool_in_memory(source(0.5f, {4, 4}), make_convert(two_layers()))),
                 "scale-grid"));
}

TEST_CASE("rows on the lattice need a multiple of 256") {
  ConvertOptions options = two_layers();
  options.xbits = colibri::CodeWidth{0, true};
  const std::string name = "model.layers.1.mlp.experts.0.up_proj.weight";
  const auto result = folder_tool_in_memory(one_shard(fp8_matrix(name, 4, 384)), make_convert(options));
  CHECK(mentions(refusal_of(result), "e8: input dim 384 is not a multiple of 256"));
  CHECK(folder_tool_in_memory(one_shard(fp8_matrix(name, 4, 512)), make_convert(options)).ok());
}

TEST_CASE("grouped containers become containers of rows, the MTP shard byte for byte") {
  for (const char* path : {"f42-main", "f42-small"}) {
    const MemoryModel source = golden_folder(std::string(path) + "/in",
                                             {"out-00000.safetensors", "out-00001.safetensors",
                                              "out-mtp-00000.safetensors", "config.json", "tokenizer.json"});
    const auto result = folder_tool_in_memory(source, colibri::make_fmt4_to_fmt2(false));
    check_folder(result, path,
                 {"out-00000.safetensors", "out-00001.safetensors", "out-mtp-00000.safetensors"});
    CHECK(result->files.at("out-mtp-00000.safetensors") == source.files.at("out-mtp-00000.safetensors"));
  }
}

TEST_CASE("stamps follow the format, other metadata stays") {
  const MemoryModel golden = golden_folder("f42-small/in", {"out-00000.safetensors", "config.json"});
  MemoryModel model = golden;
  const auto tensors = tensors_of(golden.files.at("out-00000.safetensors"));
  const std::string stamped = "model.layers.0.self_attn.o_proj.weight";
  model.files["out-00000.safetensors"] =
      model_file(tensors, {{"colibri.container.formats", "[\"int4-grouped\", \"int8-row\"]"},
                           {"colibri.fmt", "{\"" + stamped + "\": \"int4-grouped\"}"},
                           {"made", "by hand"}});
  const auto result = folder_tool_in_memory(model, colibri::make_fmt4_to_fmt2(false));
  REQUIRE(result.ok());
  bool converted = false;
  for (const TestTensor& tensor : tensors) converted = converted || tensor.name == stamped;
  const Metadata metadata = metadata_of(result->files.at("out-00000.safetensors"));
  CHECK(metadata == Metadata{{"colibri.container.formats", "[\"int4-row\", \"int8-row\"]"},
                             {"colibri.fmt",
                              "{\"" + stamped + "\": \"" + (converted ? "int4-row" : "int4-grouped") + "\"}"},
                             {"made", "by hand"}});
}

TEST_CASE("containers that the shape table does not explain are refused") {
  for (const auto& [path, word] : {std::pair{"f42-unknown-name", "table"},
                                   {"f42-noqs", "no .qs"},
                                   {"f42-int3", "no layout"},
                                   {"f42-badI", "multiple of 64"},
                                   {"f42-2d", "flat U8"}}) {
    INFO(path);
    std::vector<std::string> names{"out-00000.safetensors", "config.json"};
    if (std::string(path) == "f42-int3") names.push_back("out-00001.safetensors");
    const auto result = folder_tool_in_memory(golden_folder(std::string(path) + "/in", names),
                                              colibri::make_fmt4_to_fmt2(false));
    CHECK(mentions(refusal_of(result), word));
  }
  const auto mtp = folder_tool_in_memory(
      golden_folder("f42-mtp-fmt4/in", {"out-00000.safetensors", "out-mtp-00000.safetensors", "config.json"}),
      colibri::make_fmt4_to_fmt2(false));
  CHECK(mentions(refusal_of(mtp), "MTP"));
  MemoryModel bare;
  bare.files["out-00000.safetensors"] = model_file({{"a", DType::F32, {1}, f32_bytes({1})}});
  CHECK(mentions(refusal_of(folder_tool_in_memory(bare, colibri::make_fmt4_to_fmt2(false))), "config.json"));
}

TEST_CASE("headers have the sizes that the original predicts, names counted as it escapes them") {
  const JsonDocument cases = parse_json(
      tftf_test::read_data("/golden/colibri/cases/f42-expected-size/out/sizes.json"), JsonDialect::kPython);
  REQUIRE_FALSE(cases.error);
  REQUIRE(cases.root.elements.size() > 3);
  for (const JsonValue& row : cases.root.elements) {
    std::vector<OutputEntry> entries;
    uint64_t data = 0;
    for (const JsonValue& tensor : row.get("tensors")->elements) {
      // Ours writes UTF-8: a name of letters that is as long as the escaped one, and sorts like it, takes its place.
      const std::string escaped = json_ascii_string(tensor.elements[0].text);
      std::string name = escaped.substr(1, escaped.size() - 2);
      std::replace(name.begin(), name.end(), '\\', 'z');
      const DType dtype = *find_dtype(tensor.elements[1].text);
      Shape shape;
      uint64_t count = 1;
      for (const JsonValue& d : tensor.elements[2].elements) {
        shape.push_back(static_cast<uint64_t>(*d.as_integer()));
        count *= shape.back();
      }
      data += count * dtype_bits(dtype) / 8;
      entries.push_back({name, dtype, shape});
    }
    sort_in_reference_order(entries);
    const auto header = write_header(entries, {}, HeaderForm::kReference, nullptr);
    REQUIRE(header.ok());
    CHECK(header->size() + data == static_cast<uint64_t>(*row.integer("bytes")));
  }
}
