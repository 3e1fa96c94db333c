// Statistics, heat maps and comparisons over two models whose dtypes, shapes, scales and values come from the
// input. Format: one byte options, then per tensor name, dtype, dimensions; the remaining bytes are repeated as
// data.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "input.h"
#include "tftf/base/json_text.h"
#include "tftf/inspect/comparison.h"
#include "tftf/inspect/heat_map.h"
#include "tftf/inspect/statistics.h"

namespace {

using tftf::fuzz::Input;
using tftf::fuzz::require;

using namespace tftf;

constexpr const char* kTensorNames[] = {"m.weight", "m.weight_scale_inv", "m.scale",
                                        "n.weight", "n.weight_scale_inv", "bias"};
constexpr const char* kConfigTexts[] = {
    "", R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[4,3]}})",
    R"({"quantization_config":{"quant_method":"fp8","weight_scale_semantics":"inverse"}})",
    R"({"model_type":"llama","list":[1,{"a":2.0}]})"};

struct Model {
  Checkpoint checkpoint;
  std::string data;
};

void build(Input& input, Model& model) {
  Shard& shard = model.checkpoint.shards.emplace_back();
  shard.name = "model.safetensors";
  shard.readable = true;
  if (const std::string config = input.pick(kConfigTexts); !config.empty()) {
    SideFile& file = model.checkpoint.side_files.emplace_back();
    file.name = "config.json";
    file.text = config;
    file.document = parse_json(config, JsonDialect::kPython);
  }
  uint64_t at = 0;
  const uint8_t mask = input.byte();
  for (size_t i = 0; i < std::size(kTensorNames); ++i) {
    if ((mask >> i & 1) == 0) continue;
    TensorInfo tensor;
    tensor.name = kTensorNames[i];
    tensor.dtype = all_dtypes()[input.byte() % all_dtypes().size()].dtype;
    for (uint8_t rank = input.byte() % 4; rank > 0; --rank) tensor.shape.push_back(input.byte() % 7);
    // Sound files only: sub-byte elements fill bytes.
    const std::optional<uint64_t> bytes = byte_count(*element_count(tensor.shape), tensor.dtype);
    if (!bytes) continue;
    tensor.begin = at;
    tensor.end = at += *bytes;
    shard.header.tensors.push_back(std::move(tensor));
  }
  model.data = input.repeated(static_cast<size_t>(at));
  shard.size = shard.header.data_offset() + at;
  for (uint32_t i = 0; i < shard.header.tensors.size(); ++i) {
    model.checkpoint.order.push_back({0, i});
    model.checkpoint.by_name.emplace(shard.header.tensors[i].name, TensorRef{0, i});
  }
}

std::vector<std::byte> bytes_of(const Model& model, const ByteRange& range) {
  const uint64_t base = model.checkpoint.shards[0].header.data_offset();
  require(range.length > 0 && range.offset >= base && range.offset - base <= model.data.size() &&
          range.length <= model.data.size() - (range.offset - base));
  const auto* from = reinterpret_cast<const std::byte*>(model.data.data()) + (range.offset - base);
  return {from, from + range.length};
}

// The document, empty when the pass refuses. `backwards`: the order of the pieces.
std::string serve(ValuePass& pass, const std::vector<const Model*>& models, bool backwards) {
  for (auto wanted = pass.want(); !wanted.empty(); wanted = pass.want())
    for (const ValuePass::SmallRead& read : wanted)
      pass.supply(read, bytes_of(*models[read.model], read.request.range));
  if (!pass.start()) return "";
  do {
    for (uint64_t i = 0; i < pass.piece_count(); ++i) {
      const uint64_t index = backwards ? pass.piece_count() - 1 - i : i;
      const ValuePass::Piece piece = pass.piece(index);
      std::vector<std::vector<std::byte>> held;
      for (const auto& [m, range] : piece) {
        std::vector<std::byte> part;
        for (uint32_t row = 0; row < range.rows; ++row) {
          const auto run = bytes_of(*models[m], {range.offset + row * range.stride, range.row_bytes});
          part.insert(part.end(), run.begin(), run.end());
        }
        held.push_back(std::move(part));
      }
      const std::vector<Bytes> bytes(held.begin(), held.end());
      pass.add(index, pass.run(index, bytes, backwards ? scalar_kernels() : best_kernels()));
    }
  } while (pass.next_stage());
  const std::string text = pass.to_json();
  require(json_text(OrderedJson::parse(text)) == text);
  return text;
}

}  // namespace

namespace {

void check_statistics(const Model& model, uint8_t options) {
  StatisticsRequest request;
  request.logical = (options & 1) != 0;
  request.bins = options >> 3;
  std::string documents[2];
  for (const bool backwards : {false, true}) {
    Statistics pass(model.checkpoint, request);
    documents[backwards] = serve(pass, {&model}, backwards);
    require(!documents[backwards].empty());
    (void)statistics_text(pass.report(), 40);
  }
  require(documents[0] == documents[1]);
}

void check_heat_maps(const Model& model, HeatMapRequest picture) {
  for (const TensorRef tensor : model.checkpoint.order) {
    picture.tensor = tensor;
    std::string documents[2];
    for (const bool backwards : {false, true}) {
      HeatMapPass pass(model.checkpoint, picture);
      documents[backwards] = serve(pass, {&model}, backwards);
      if (!documents[backwards].empty()) (void)heat_map_text(pass.map());
    }
    require(documents[0] == documents[1]);
  }
}

void check_comparison(const Model& left, const Model& right, uint8_t options) {
  ComparisonRequest request;
  request.values = (options & 4) != 0;
  request.tolerance = (options & 2) != 0 ? 0.5 : 0;
  std::string documents[2];
  for (const bool backwards : {false, true}) {
    Comparison pass(left.checkpoint, right.checkpoint, request);
    documents[backwards] = serve(pass, {&left, &right}, backwards);
    require(difference_sentence(pass.report()).empty() == !pass.report().different());
    (void)comparison_text(pass.report(), 40);
  }
  require(documents[0] == documents[1]);
  // A model is like itself.
  request.strict = true;
  Comparison same(left.checkpoint, left.checkpoint, request);
  require(!serve(same, {&left, &left}, false).empty());
  require(!same.report().different() && same.report().count(PairStatus::kSame) == same.report().pairs.size());
}

}  // namespace

// One kind of pass per input, over few small tensors: what counts is how many inputs are tried.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1024) return 0;
  Input input(data, size);
  const uint8_t options = input.byte();
  HeatMapRequest picture;
  picture.logical = (options & 1) != 0;
  picture.row_begin = input.byte() % 8;
  picture.column_begin = input.byte() % 8;
  picture.column_end = picture.column_begin + input.byte() % 8;
  const uint8_t kind = input.byte();
  picture.height = kind / 8 % 16;
  picture.width = input.byte() % 16;
  picture.max_bytes = (options & 2) != 0 ? UINT64_MAX : input.byte() * 8;
  Model left, right;
  build(input, left);
  if (kind % 4 == 0) {
    check_statistics(left, options);
  } else if (kind % 4 == 1) {
    check_heat_maps(left, picture);
  } else {
    build(input, right);
    check_comparison(left, right, options);
  }
  return 0;
}
