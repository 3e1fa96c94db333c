// What the writers of colibri containers emit is what a reader takes it for, or they refuse or warn (spec colibri 2.4):
// over random shapes, formats and names, through the whole of planning and writing.
#include <catch2/catch.hpp>
#include <random>

#include "tftf/quant/colibri/resolver.h"
#include "tftf/quant/colibri/stamps.h"
#include "tftf/quant/registry.h"
#include "transform_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

struct WriterCase {
  colibri::Format format;
  uint64_t rows, columns, group;
  std::string name;
};

const char* const kWeightNames[] = {
    "model.layers.3.self_attn.o_proj.weight", "model.layers.3.mlp.experts.7.up_proj.weight",
    "model.layers.3.self_attn.mystery.weight", "model.layers.0.mlp.down_proj.weight"};

MemoryModel float_model(const WriterCase& c, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values;
  for (uint64_t i = 0; i < c.rows * c.columns; ++i)
    values.push_back(static_cast<float>(random() % 2001) / 1000.0f - 1.0f);
  MemoryModel model;
  model.files["model.safetensors"] =
      model_file({{c.name, DType::F32, {c.rows, c.columns}, f32_bytes(values)}});
  return model;
}

Operation written_as(const WriterCase& c, bool strict) {
  Operation operation{.id = "quantize"};
  operation.options.push_back({"to", {std::string(colibri::format_info(c.format).id)}});
  if (c.group != 0) operation.options.push_back({"group-size", {std::to_string(c.group)}});
  if (strict) operation.options.push_back({"strict", {}});
  return operation;
}

// The resolver over what was written, stamps as the file has them.
colibri::Resolution read_back(const TransformResult& result, const WriterCase& c) {
  const std::string& file = result.files.at("model-00001-of-00001.safetensors");
  colibri::StampMap stamps;
  for (const auto& [key, value] : metadata_of(file))
    if (key == colibri::kStampKey) CHECK_FALSE(stamps.ingest("file", &value, false).has_value());
  colibri::Pair pair;
  pair.rows = c.rows;
  pair.columns = c.columns;
  for (const TestTensor& tensor : tensors_of(file)) {
    if (tensor.name == c.name) pair.weight_bytes = tensor.bytes.size();
    if (tensor.name == c.name + ".qs") pair.scale_bytes = tensor.bytes.size();
  }
  pair.routed = colibri::is_routed_expert(c.name);
  pair.stamp = stamps.find(c.name);
  return colibri::resolve(pair);
}

}  // namespace

TEST_CASE("quantised pairs are read back as written, or the writer refused, or it warned") {
  using colibri::Format;
  const Format formats[] = {Format::kInt8Row, Format::kInt4Row,   Format::kInt2Row,    Format::kInt4Grouped,
                            Format::kInt3G64, Format::kE8Lattice, Format::kFp8Block128};
  const uint64_t groups[] = {16, 32, 40, 64, 96, 128, 192};
  std::mt19937 random(7);
  uint64_t same = 0, refused = 0, warned = 0;
  for (uint32_t i = 0; i < 700; ++i) {
    WriterCase c{};
    c.format = formats[random() % std::size(formats)];
    c.rows = 1 + random() % 12;
    c.columns = 1 + random() % 400;
    if (c.format == Format::kE8Lattice && random() % 4 != 0) c.columns = 256 * (1 + random() % 2);
    if (random() % 10 == 0) c.columns = random() % 2 == 0 ? 98 : 195 + random() % 2;
    if (c.format == Format::kInt4Grouped) c.group = groups[random() % std::size(groups)];
    c.name = kWeightNames[random() % std::size(kWeightNames)];
    INFO(colibri::format_info(c.format).name << " [" << c.rows << "," << c.columns << "] gs " << c.group
                                             << " " << c.name);
    const MemoryModel model = float_model(c, i);
    const auto result = transform_in_memory(model, {written_as(c, false)});
    const auto strict = transform_in_memory(model, {written_as(c, true)});
    if (!result.ok()) {
      ++refused;
      CHECK_FALSE(strict.ok());
      CHECK(result.error().tensor == c.name);
      continue;
    }
    const colibri::Resolution read = read_back(*result, c);
    const bool one_group = c.group != 0 && c.columns <= c.group && read.format == Format::kInt4Row;
    const bool alike = read.format == c.format && (c.group == 0 || read.group_size == c.group);
    bool told = false;
    for (const std::string& warning : result->account.warnings)
      told = told || (warning.find("write-misread") != std::string::npos &&
                      warning.find(c.name) != std::string::npos);
    CHECK((alike || one_group) != told);
    CHECK(read.format.has_value());
    CHECK(strict.ok() == !told);
    ++(told ? warned : same);
  }
  CHECK(same > 300);
  CHECK(refused > 20);
  CHECK(warned > 10);
}

TEST_CASE("repacked FP8 is read back as FP8, or refused") {
  std::mt19937 random(11);
  uint64_t written = 0, refused = 0;
  for (uint32_t i = 0; i < 400; ++i) {
    WriterCase c{};
    c.format = colibri::Format::kFp8Block128;
    c.rows = 1 + random() % (random() % 2 == 0 ? 4 : 300);
    c.columns = random() % 8 == 0 ? 98 : 1 + random() % 700;
    c.name = kWeightNames[random() % std::size(kWeightNames)];
    INFO("[" << c.rows << "," << c.columns << "] " << c.name);
    const uint64_t down = colibri::blocks128(c.rows), across = colibri::blocks128(c.columns);
    MemoryModel model;
    model.files["model.safetensors"] =
        model_file({{c.name + "_scale_inv",
                     DType::F32,
                     {down, across},
                     f32_bytes(std::vector<float>(static_cast<size_t>(down * across), 1.0f))},
                    {c.name,
                     DType::F8_E4M3,
                     {c.rows, c.columns},
                     random_bytes(static_cast<size_t>(c.rows * c.columns), i)}});
    model.files["config.json"] =
        R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}})";
    const auto result =
        transform_in_memory(model, {Operation{.id = "repack", .options = {{"to", {"colibri-fp8"}}}}});
    if (!result.ok()) {
      ++refused;
      continue;
    }
    ++written;
    CHECK(read_back(*result, c).format == c.format);
  }
  CHECK(written > 200);
  CHECK(refused > 10);
}
