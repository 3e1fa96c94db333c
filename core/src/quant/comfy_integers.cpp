// Reads and decodes ComfyUI's four-bit integers. Both have rows of nibbles, the first in the low bits, unsigned.
#include "quant/comfy_integers.h"

#include <algorithm>
#include <cmath>

#include "quant/rotation.h"
#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/simd/cast.h"

namespace tftf {
namespace {

struct ComfyIntegers {
  uint64_t rows = 0, columns = 0, group = 0, groups = 0, rotation = 0;
  DType scale_dtype{};
  DType zero_dtype{};  // awq_w4a16
  bool codebook = false;
};

constexpr uint64_t kComfyCodes = 16;

uint32_t comfy_code(const std::byte* codes, uint64_t column) {
  return static_cast<uint32_t>(codes[to_size(column / 2)]) >> (column % 2 * 4) & 15;
}

// Parts: codes, relative scales, channel scales, and the codebook where there is one.
void read_w4a8(const Weight& weight, ElementRange tile, PartRanges& ranges) {
  const auto& state = weight.as<ComfyIntegers>();
  const RowRange rows = rows_of(tile, state.columns);
  ranges.push(rows_of_part(0, rows, state.columns / 2));
  ranges.push(rows_of_part(1, rows, state.groups * dtype_bits(state.scale_dtype) / 8));
  ranges.push(rows_of_part(2, rows, sizeof(float)));
  if (state.codebook) ranges.push({.part = 3, .row_bytes = kComfyCodes * sizeof(float)});
}

// Scratch: the relative scales as F32.
uint64_t w4a8_scratch(const Weight& weight, uint64_t units) {
  const auto& state = weight.as<ComfyIntegers>();
  return ceil_div(units, state.columns) * state.groups * sizeof(float);
}

bool begin_w4a8(const Weight& weight, const DecodeTask& task) noexcept {
  const auto& state = weight.as<ComfyIntegers>();
  cast(task.kernels, state.scale_dtype, DType::F32, task.bytes[1], task.scratch,
       task.tile.count / state.columns * state.groups);
  return true;
}

uint64_t decode_w4a8(const Weight& weight, const DecodeTask& task, ElementRange piece, DType,
                     std::byte* out) noexcept {
  const auto& state = weight.as<ComfyIntegers>();
  const RowRange rows = rows_of(piece, state.columns);
  const uint64_t skipped = rows.first - task.tile.first / state.columns;
  float book[kComfyCodes];
  for (size_t i = 0; i < kComfyCodes; ++i)
    book[i] =
        state.codebook ? load_le<float>(task.bytes[3] + i * sizeof(float)) : static_cast<float>(i) - 8.0f;
  auto* to = reinterpret_cast<float*>(out);
  uint64_t infinite = 0;
  for (uint64_t r = skipped; r < skipped + rows.count; ++r) {
    const std::byte* codes = task.bytes[0] + to_size(r * (state.columns / 2));
    const float* scales = reinterpret_cast<const float*>(task.scratch) + to_size(r * state.groups);
    const auto channel = load_le<float>(task.bytes[2] + to_size(r * sizeof(float)));
    for (uint64_t g = 0; g < state.groups; ++g) {
      float values[kComfyCodes];
      for (size_t i = 0; i < kComfyCodes; ++i) {
        const float whole = std::nearbyint(book[i] * scales[g]);
        values[i] = std::min(std::max(whole, -127.0f), 127.0f) * channel;
        if (whole != whole || values[i] != values[i]) values[i] = bit_cast<float>(0x7FC00000u);
      }
      for (uint64_t c = g * state.group; c < (g + 1) * state.group; ++c)
        to[to_size(c)] = values[comfy_code(codes, c)];
    }
    for (uint64_t c = 0; state.rotation != 0 && c < state.columns; c += state.rotation)
      rotate_block(to + to_size(c), state.rotation);
    for (uint64_t c = 0; c < state.columns; ++c) {
      float& value = to[to_size(c)];
      if (value != value) value = bit_cast<float>(0x7FC00000u);
      infinite += std::isinf(value) ? 1 : 0;
    }
    to += to_size(state.columns);
  }
  return infinite;
}

// Parts: codes, scales, zeros; of the last two a column for each row of the weight.
void read_comfy_awq(const Weight& weight, ElementRange tile, PartRanges& ranges) {
  const auto& state = weight.as<ComfyIntegers>();
  const RowRange rows = rows_of(tile, state.columns);
  ranges.push(rows_of_part(0, rows, state.columns / 2));
  uint32_t part = 1;
  for (const DType dtype : {state.scale_dtype, state.zero_dtype}) {
    const uint64_t size = dtype_bits(dtype) / 8;
    ranges.push({.part = part++,
                 .rows = static_cast<uint32_t>(state.groups),
                 .offset = rows.first * size,
                 .row_bytes = rows.count * size,
                 .stride = state.rows * size});
  }
}

// Scratch: scales, then zeros, as F32 [groups, rows of the tile].
uint64_t comfy_awq_scratch(const Weight& weight, uint64_t units) {
  const auto& state = weight.as<ComfyIntegers>();
  return 2 * ceil_div(units, state.columns) * state.groups * sizeof(float);
}

bool begin_comfy_awq(const Weight& weight, const DecodeTask& task) noexcept {
  const auto& state = weight.as<ComfyIntegers>();
  const uint64_t count = task.tile.count / state.columns * state.groups;
  cast(task.kernels, state.scale_dtype, DType::F32, task.bytes[1], task.scratch, count);
  cast(task.kernels, state.zero_dtype, DType::F32, task.bytes[2],
       task.scratch + to_size(count * sizeof(float)), count);
  return true;
}

uint64_t decode_comfy_awq(const Weight& weight, const DecodeTask& task, ElementRange piece, DType,
                          std::byte* out) noexcept {
  const auto& state = weight.as<ComfyIntegers>();
  const RowRange rows = rows_of(piece, state.columns);
  const uint64_t in_tile = task.tile.count / state.columns;
  const uint64_t skipped = rows.first - task.tile.first / state.columns;
  const auto* scales = reinterpret_cast<const float*>(task.scratch);
  const float* zeros = scales + to_size(in_tile * state.groups);
  auto* to = reinterpret_cast<float*>(out);
  uint64_t infinite = 0;
  for (uint64_t r = skipped; r < skipped + rows.count; ++r) {
    const std::byte* codes = task.bytes[0] + to_size(r * (state.columns / 2));
    for (uint64_t g = 0; g < state.groups; ++g) {
      const float scale = scales[to_size(g * in_tile + r)], zero = zeros[to_size(g * in_tile + r)];
      float values[kComfyCodes];
      for (size_t i = 0; i < kComfyCodes; ++i) {
        const float product = (static_cast<float>(i) - 8.0f) * scale;
        values[i] = product + zero;
        if (values[i] != values[i]) values[i] = bit_cast<float>(0x7FC00000u);
      }
      for (uint64_t c = g * state.group; c < (g + 1) * state.group; ++c) {
        const float value = values[comfy_code(codes, c)];
        infinite += std::isinf(value) ? 1 : 0;
        *to++ = value;
      }
    }
  }
  return infinite;
}

constexpr Decoder kW4a8Decoder{
    .reads = read_w4a8, .decode = decode_w4a8, .scratch = w4a8_scratch, .begin = begin_w4a8};
constexpr Decoder kComfyAwqDecoder{.reads = read_comfy_awq,
                                   .decode = decode_comfy_awq,
                                   .scratch = comfy_awq_scratch,
                                   .begin = begin_comfy_awq};

// What both have in common: the codes' shape, and groups that divide a row.
Result<ComfyIntegers> open_integers(OpenContext& context, const QuantMatch& match, uint64_t group) {
  const Shape& stored = context.checkpoint.info(match.weight).shape;
  const auto fault = [&](const std::string& what) {
    return weight_fault(ErrorCode::kRefusedShape, context, match, what);
  };
  const auto elements = match.logical_shape ? element_count(*match.logical_shape) : std::nullopt;
  if (stored.size() != 2 || !elements || *elements == 0)
    return fault("has codes of shape " + shape_text(stored) + ", which are no matrix");
  ComfyIntegers state;
  state.rows = stored[0];
  state.columns = stored[1] * 2;
  state.group = group;
  if (group == 0 || state.columns % group != 0)
    return fault("has rows of " + std::to_string(state.columns) + " codes, not whole groups of " +
                 std::to_string(group));
  state.groups = state.columns / group;
  if (state.groups > UINT32_MAX) return fault("has too many groups");
  return state;
}

Weight integers_weight(const Decoder& decoder, const QuantMatch& match, const ComfyIntegers& state) {
  Weight weight;
  weight.decoder = &decoder;
  weight.word = match.layout;
  weight.key = std::string(dtype_name(state.scale_dtype)) + ' ' + std::string(dtype_name(state.zero_dtype)) +
               (state.codebook ? " codebook" : "");
  for (const uint64_t n : {state.rows, state.columns, state.group, state.rotation})
    weight.key += ' ' + std::to_string(n);
  weight.shape = {state.rows, state.columns};
  weight.elements = state.rows * state.columns;
  weight.parts = {{"weight", match.weight}};
  weight.unit = state.columns;
  weight.bits = 4 + static_cast<uint32_t>(
                        ceil_div(2 * dtype_bits(state.scale_dtype), std::min<uint64_t>(state.group, 64)));
  weight.state = std::make_shared<const ComfyIntegers>(state);
  return weight;
}

}  // namespace

Result<Weight> open_comfy_w4a8(OpenContext& context, const QuantMatch& match, const ComfyOptions& options) {
  Result<ComfyIntegers> opened = open_integers(context, match, options.group == 0 ? 16 : options.group);
  if (!opened) return std::move(opened).error();
  ComfyIntegers state = *opened;
  const auto fault = [&](const std::string& what) {
    return weight_fault(ErrorCode::kRefusedShape, context, match, what);
  };
  const TensorRef *relative = match.find("weight_s_rel"), *channel = match.find("weight_s_channel");
  if (relative == nullptr || channel == nullptr) return fault("lacks a scale");
  const TensorInfo &groups = context.checkpoint.info(*relative), &rows = context.checkpoint.info(*channel);
  if ((groups.dtype != DType::F8_E4M3 && groups.dtype != DType::F32) ||
      groups.shape != Shape{state.rows, state.groups})
    return fault("has a weight_s_rel that is " + std::string(dtype_name(groups.dtype)) + " " +
                 shape_text(groups.shape) + ", not F8_E4M3 or F32 " + shape_text({state.rows, state.groups}));
  if (rows.dtype != DType::F32 || element_count(rows.shape) != state.rows)
    return fault("has a weight_s_channel that is " + std::string(dtype_name(rows.dtype)) + " " +
                 shape_text(rows.shape) + ", not one F32 for each of " + std::to_string(state.rows) +
                 " rows");
  state.scale_dtype = state.zero_dtype = groups.dtype;
  state.rotation = options.rotation == 0 ? 256 : options.rotation;
  if (!is_rotation_size(state.rotation) || state.columns % state.rotation != 0)
    return fault("has rows of " + std::to_string(state.columns) +
                 " codes, which are not rotated in blocks of " + std::to_string(state.rotation));
  const TensorRef* book = match.find("weight_codebook");
  if (book != nullptr) {
    const TensorInfo& info = context.checkpoint.info(*book);
    if (info.dtype != DType::F32 || element_count(info.shape) != kComfyCodes)
      return fault("has a weight_codebook that is " + std::string(dtype_name(info.dtype)) + " " +
                   shape_text(info.shape) + ", not sixteen F32");
    state.codebook = true;
  }
  Weight weight = integers_weight(kW4a8Decoder, match, state);
  weight.parts.push_back({"weight_s_rel", *relative});
  weight.parts.push_back({"weight_s_channel", *channel});
  if (book != nullptr) weight.parts.push_back({"weight_codebook", *book});
  weight.reads = static_cast<uint32_t>(weight.parts.size());
  return weight;
}

Result<Weight> open_comfy_awq(OpenContext& context, const QuantMatch& match, const ComfyOptions& options) {
  const TensorRef *scale = match.find("weight_scale"), *zero = match.find("weight_zeros");
  Result<ComfyIntegers> opened = open_integers(context, match, options.group == 0 ? 64 : options.group);
  if (!opened) return std::move(opened).error();
  ComfyIntegers state = *opened;
  for (const TensorRef* part : {scale, zero}) {
    const Shape wanted{state.groups, state.rows};
    if (part == nullptr || !is_floating(context.checkpoint.info(*part).dtype) ||
        dtype_bits(context.checkpoint.info(*part).dtype) < 16 ||
        context.checkpoint.info(*part).shape != wanted)
      return weight_fault(ErrorCode::kRefusedShape, context, match,
                          "has scales or zeros that are not floats " + shape_text(wanted));
  }
  state.scale_dtype = context.checkpoint.info(*scale).dtype;
  state.zero_dtype = context.checkpoint.info(*zero).dtype;
  Weight weight = integers_weight(kComfyAwqDecoder, match, state);
  weight.parts.push_back({"weight_scale", *scale});
  weight.parts.push_back({"weight_zeros", *zero});
  weight.reads = 3;
  return weight;
}

}  // namespace tftf
