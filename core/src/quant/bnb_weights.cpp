// Reads and decodes weights of bitsandbytes.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "quant/bitsandbytes.h"
#include "quant/grouped_matrix.h"
#include "quant/nibble_groups.h"
#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/simd/cast.h"

namespace tftf {
namespace {

constexpr uint64_t kMapSize = 16;
constexpr uint64_t kNestedMapSize = 256;
// 1 / 127, rounded.
constexpr float kInverse127 = 7.874015718698502e-3f;

struct BnbBlocks {
  uint64_t block = 0;
  uint64_t nested_block = 0;
  float offset = 0;
};

struct BlockRange {
  uint64_t first = 0, count = 0;
};
BlockRange blocks_of(ElementRange range, uint64_t block) {
  const uint64_t first = range.first / block;
  return {first, (range.first + range.count - 1) / block - first + 1};
}

void read_bnb(const Weight& weight, ElementRange tile, PartRanges& ranges) {
  const auto& state = weight.as<BnbBlocks>();
  const BlockRange blocks = blocks_of(tile, state.block);
  ranges.push({.part = 0, .offset = tile.first / 2, .row_bytes = ceil_div(tile.count, 2)});
  const uint64_t size = state.nested_block != 0 ? 1 : sizeof(float);
  ranges.push({.part = 1, .offset = blocks.first * size, .row_bytes = blocks.count * size});
  ranges.push({.part = 2, .row_bytes = kMapSize * sizeof(float)});
  if (state.nested_block == 0) return;
  const BlockRange nested = blocks_of({blocks.first, blocks.count}, state.nested_block);
  ranges.push({.part = 3, .offset = nested.first * sizeof(float), .row_bytes = nested.count * sizeof(float)});
  ranges.push({.part = 4, .row_bytes = kNestedMapSize * sizeof(float)});
}

// The scale of every block that a tile touches.
uint64_t bnb_scratch(const Weight& weight, uint64_t units) {
  const auto& state = weight.as<BnbBlocks>();
  return (std::min(units, weight.elements) / state.block + 2) * sizeof(float);
}

bool find_scales(const Weight& weight, const DecodeTask& task) noexcept {
  const auto& state = weight.as<BnbBlocks>();
  const BlockRange blocks = blocks_of(task.tile, state.block);
  auto* scales = reinterpret_cast<float*>(task.scratch);
  if (state.nested_block == 0) {
    std::memcpy(scales, task.bytes[1], to_size(blocks.count * sizeof(float)));
    return true;
  }
  const std::byte *codes = task.bytes[1], *nested = task.bytes[3], *map = task.bytes[4];
  const uint64_t first_nested = blocks.first / state.nested_block;
  for (uint64_t b = 0; b < blocks.count; ++b) {
    const uint64_t at = (blocks.first + b) / state.nested_block - first_nested;
    const auto scale = load_le<float>(nested + to_size(at * sizeof(float)));
    const auto value = load_le<float>(map + static_cast<size_t>(codes[to_size(b)]) * sizeof(float));
    const float product = value * scale;
    scales[to_size(b)] = product + state.offset;
  }
  return true;
}

// The first `count` elements of one block, from a code at the high nibble on.
uint64_t decode_part_of_block(const DecodeTask& task, DType to, NibbleGroups block, uint64_t count,
                              float* values, std::byte* out) noexcept {
  const uint64_t size = dtype_bits(to) / 8;
  uint64_t infinite = 0;
  block.groups = 1;
  block.group_codes = count / 2 * 2;
  if (block.group_codes > 0) infinite = decode_nibble_groups(task.kernels, to, block, values, out);
  if (count % 2 == 0) return infinite;
  // The last element of a weight of an odd number of them: its byte has a second code that means nothing.
  std::byte both[2 * sizeof(float)];
  NibbleGroups last = block;
  last.codes += to_size(count / 2);
  last.group_codes = 2;
  decode_nibble_groups(task.kernels, to, last, values, both);
  std::memcpy(out + to_size((count - 1) * size), both, to_size(size));
  const uint32_t code = static_cast<uint32_t>(*last.codes) >> 4;
  const float value = values[code];
  std::byte rounded[sizeof(float)];
  const bool lost = to != DType::F32 && cast(task.kernels, DType::F32, to,
                                             reinterpret_cast<const std::byte*>(&value), rounded, 1) > 0;
  return infinite + ((std::isinf(value) && (last.finite >> code & 1) != 0) || lost ? 1 : 0);
}

uint64_t decode_bnb(const Weight& weight, const DecodeTask& task, ElementRange piece, DType to,
                    std::byte* out) noexcept {
  const auto& state = weight.as<BnbBlocks>();
  const auto* scales = reinterpret_cast<const float*>(task.scratch);
  const uint64_t first_block = task.tile.first / state.block;
  float map[kMapSize];
  std::memcpy(map, task.bytes[2], sizeof map);
  NibbleGroups blocks{.group_codes = state.block, .high_first = true, .finite = 0};
  for (uint32_t c = 0; c < kMapSize; ++c) blocks.finite |= std::isfinite(map[c]) ? 1u << c : 0;
  uint64_t infinite = 0;
  // Pieces begin at whole bytes, and so do blocks, whose size is even.
  for (uint64_t at = piece.first, end = piece.first + piece.count; at < end;) {
    const uint64_t block = at / state.block, left = std::min(end, (block + 1) * state.block) - at;
    const bool whole = at % state.block == 0 && left == state.block;
    blocks.groups = whole ? std::min(kNibbleGroupsAtOnce, (end - at) / state.block) : 1;
    blocks.codes = task.bytes[0] + to_size((at - task.tile.first) / 2);
    float values[kNibbleGroupsAtOnce * kMapSize];
    for (uint64_t b = 0; b < blocks.groups; ++b) {
      const float scale = scales[to_size(block - first_block + b)];
      for (size_t c = 0; c < kMapSize; ++c) values[b * kMapSize + c] = map[c] * scale;
    }
    std::byte* to_here = out + to_size((at - piece.first) * dtype_bits(to) / 8);
    infinite += whole ? decode_nibble_groups(task.kernels, to, blocks, values, to_here)
                      : decode_part_of_block(task, to, blocks, left, values, to_here);
    at += whole ? blocks.groups * state.block : left;
  }
  return infinite;
}

constexpr Decoder kBnbDecoder{
    .reads = read_bnb, .decode = decode_bnb, .rounds = true, .scratch = bnb_scratch, .begin = find_scales};

}  // namespace

Result<Weight> open_bnb_4bit(OpenContext& context, const QuantMatch& match) {
  const auto* state = static_cast<const BnbState*>(match.detail.get());
  if (state == nullptr)
    return weight_fault(ErrorCode::kRefusedMissing, context, match, "has a quant_state that cannot be read");
  const uint64_t elements = element_count(state->shape).value_or(0);
  const auto fault = [&](const std::string& what) {
    return weight_fault(ErrorCode::kRefusedShape, context, match, what);
  };
  if (state->block % 2 != 0)
    return fault("has blocks of " + std::to_string(state->block) +
                 " elements, which do not fill whole bytes");
  const uint64_t stored = context.checkpoint.info(match.weight).bytes();
  if (stored != ceil_div(elements, 2))
    return fault("has " + std::to_string(stored) + " bytes of codes; the shape " + shape_text(state->shape) +
                 " of its quant_state needs " + std::to_string(ceil_div(elements, 2)));
  const uint64_t blocks = ceil_div(elements, state->block);
  const auto nested = [&] { return ceil_div(blocks, state->nested_block); };
  struct Need {
    std::string_view role;
    uint64_t count = 0;
  };
  std::vector<Need> needs = {{"absmax", blocks}, {"quant_map", kMapSize}};
  if (state->nested_block != 0) {
    needs.push_back({"nested_absmax", nested()});
    needs.push_back({"nested_quant_map", kNestedMapSize});
  }
  Weight weight;
  weight.parts = {{"weight", match.weight}};
  for (const Need& need : needs) {
    const TensorRef* part = match.find(need.role);
    if (part == nullptr)
      return weight_fault(ErrorCode::kRefusedMissing, context, match, "lacks " + std::string(need.role));
    const Shape& shape = context.checkpoint.info(*part).shape;
    if (element_count(shape) != need.count)
      return fault("has " + std::string(need.role) + " of shape " + shape_text(shape) + " where " +
                   std::to_string(need.count) + " values are needed");
    weight.parts.push_back({need.role, *part});
  }
  weight.decoder = &kBnbDecoder;
  weight.word = std::string(match.layout) + " b" + std::to_string(state->block);
  if (state->nested_block != 0) weight.word += " nested";
  weight.key = std::to_string(state->nested_block) + ' ' + std::to_string(bit_cast<uint32_t>(state->offset));
  weight.shape = state->shape;
  weight.elements = elements;
  weight.unit = 2;
  // Blocks of few elements have their scales read with them.
  weight.bits = 4 + static_cast<uint32_t>(ceil_div(64, std::min<uint64_t>(state->block, 64)));
  weight.reads = state->nested_block != 0 ? 5 : 3;
  weight.state =
      std::make_shared<const BnbBlocks>(BnbBlocks{state->block, state->nested_block, state->offset});
  return weight;
}

Result<Weight> open_bnb_int8(OpenContext& context, const QuantMatch& match) {
  const TensorInfo& codes = context.checkpoint.info(match.weight);
  const TensorRef* absmax = match.find("SCB");
  if (absmax == nullptr) return weight_fault(ErrorCode::kRefusedMissing, context, match, "lacks its SCB");
  GroupedMatrix matrix;
  matrix.rows = codes.shape[0];
  matrix.columns = codes.shape[1];
  matrix.codes = GroupedMatrix::Codes::kSigned;
  matrix.group = std::max<uint64_t>(matrix.columns, 1);
  matrix.scale_dtype = DType::F32;
  matrix.factor = kInverse127;
  return grouped_weight(context, match, matrix, "bnb-int8", codes.shape,
                        {.codes = match.weight, .scales = *absmax});
}

}  // namespace tftf
