// Reads and decodes matrices packed along their rows.
#include "quant/strided_fields.h"

#include <algorithm>

#include "quant/grouped_matrix.h"
#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/simd/cast.h"

namespace tftf {
namespace {

using Form = StridedFields::Form;
using ScaleBy = StridedFields::ScaleBy;

// Places [first, first + count) of something that repeats after `period`: up to its end, then from its begin. The second run
// has at least one place, so that there always are two.
struct WrappedRuns {
  uint64_t period = 1;
  uint64_t first = 0;
  uint64_t head = 0;  // places of the first run
  uint64_t tail = 1;  // of the second, from 0 on
  // Where place `first + distance` lies when the runs stand one behind the other.
  uint64_t at(uint64_t distance) const {
    return distance < head ? distance : head + (first + distance) % period;
  }
};
WrappedRuns wrapped(uint64_t period, ElementRange range) {
  WrappedRuns runs{.period = period, .first = range.first % period};
  runs.head = std::min(range.count, period - runs.first);
  runs.tail = std::clamp<uint64_t>(range.count - runs.head, 1, period);
  return runs;
}

// Scales that a tile needs.
WrappedRuns scale_runs(const StridedFields& f, ElementRange tile) {
  switch (f.scale_by) {
    case ScaleBy::kRow: {
      const uint64_t first = tile.first / f.columns;
      return wrapped(f.rows, {first, (tile.first + tile.count - 1) / f.columns - first + 1});
    }
    case ScaleBy::kColumn:
      return wrapped(f.columns, tile);
    default:
      return wrapped(1, {0, 1});
  }
}

void push_runs(uint32_t part, const WrappedRuns& runs, uint64_t size, PartRanges& ranges) {
  ranges.push({.part = part, .offset = runs.first * size, .row_bytes = runs.head * size});
  ranges.push({.part = part, .row_bytes = runs.tail * size});
}

void read_strided(const Weight& weight, ElementRange tile, PartRanges& ranges) {
  const auto& f = weight.as<StridedFields>();
  push_runs(0, wrapped(f.stride(), tile), f.word_bytes, ranges);
  const WrappedRuns scales = scale_runs(f, tile);
  push_runs(1, scales, dtype_bits(f.scale_dtype) / 8, ranges);
  if (f.has_zeros()) push_runs(2, scales, dtype_bits(f.zero_dtype) / 8, ranges);
}

uint64_t most_strided_scales(const StridedFields& f, uint64_t units) {
  switch (f.scale_by) {
    case ScaleBy::kRow:
      return std::min(f.rows, units / f.columns + 2) + 1;
    case ScaleBy::kColumn:
      return units + 1;
    default:
      return 2;
  }
}

uint64_t strided_scratch(const Weight& weight, uint64_t units) {
  const auto& f = weight.as<StridedFields>();
  if (weight.elements == 0) return 0;
  return most_strided_scales(f, std::min(units, weight.elements)) * sizeof(float) * (f.has_zeros() ? 2 : 1);
}

bool has_field(const StridedFields& f, const std::byte* words, uint64_t bytes) noexcept {
  const uint32_t mask = (1u << f.bits) - 1;
  bool found = false;
  for (size_t i = 0; i < to_size(bytes); ++i) {
    const auto word = static_cast<uint32_t>(words[i]);
    for (uint32_t field = 0; field < f.fields; ++field)
      found |= (word >> (field * f.bits) & mask) == *f.never;
  }
  return found;
}

bool begin_strided(const Weight& weight, const DecodeTask& task) noexcept {
  const auto& f = weight.as<StridedFields>();
  const WrappedRuns scales = scale_runs(f, task.tile), words = wrapped(f.stride(), task.tile);
  auto* to = reinterpret_cast<float*>(task.scratch);
  const auto widen = [&](DType from, size_t range) {
    cast(task.kernels, from, DType::F32, task.bytes[range], reinterpret_cast<std::byte*>(to), scales.head);
    to += to_size(scales.head);
    cast(task.kernels, from, DType::F32, task.bytes[range + 1], reinterpret_cast<std::byte*>(to),
         scales.tail);
    to += to_size(scales.tail);
  };
  widen(f.scale_dtype, 2);
  if (f.has_zeros()) widen(f.zero_dtype, 4);
  return !f.never || (!has_field(f, task.bytes[0], words.head) && !has_field(f, task.bytes[1], words.tail));
}

template <class Word>
void unpack_fields(const std::byte* words, uint32_t shift, uint32_t mask, int32_t offset, uint64_t count,
                   float* out) noexcept {
  for (size_t i = 0; i < to_size(count); ++i) {
    const auto word = static_cast<uint32_t>(load_le<Word>(words + i * sizeof(Word)));
    out[i] = static_cast<float>(static_cast<int32_t>(word >> shift & mask) - offset);
  }
}

// `step` 0: one scale for all.
void apply_scales(Form form, const float* scales, const float* zeros, size_t step, uint64_t count,
                  float* out) noexcept {
  const auto n = to_size(count);
  switch (form) {
    case Form::kScale:
      for (size_t i = 0; i < n; ++i) out[i] = out[i] * scales[i * step];
      break;
    case Form::kDivide:
      for (size_t i = 0; i < n; ++i) out[i] = out[i] / scales[i * step];
      break;
    case Form::kSubtractScale:
      for (size_t i = 0; i < n; ++i) {
        const float shifted = out[i] - zeros[i * step];
        out[i] = shifted * scales[i * step];
      }
      break;
    case Form::kScaleSubtract:
      for (size_t i = 0; i < n; ++i) {
        const float scaled = scales[i * step] * out[i];
        out[i] = scaled - zeros[i * step];
      }
      break;
  }
}

uint64_t decode_strided(const Weight& weight, const DecodeTask& task, ElementRange piece, DType,
                        std::byte* out) noexcept {
  const auto& f = weight.as<StridedFields>();
  const WrappedRuns words = wrapped(f.stride(), task.tile), places = scale_runs(f, task.tile);
  const auto* scales = reinterpret_cast<const float*>(task.scratch);
  const float* zeros = scales + to_size(places.head + places.tail);
  const uint32_t mask = (1u << f.bits) - 1;
  auto* to = reinterpret_cast<float*>(out);
  for (uint64_t at = piece.first, end = piece.first + piece.count; at < end;) {
    // Inside a row, whose words stand together.
    const uint64_t count = std::min(end - at, f.columns - at % f.columns), distance = at - task.tile.first;
    const auto field = static_cast<uint32_t>(at / f.stride());
    const uint32_t shift = (f.high_first ? f.fields - 1 - field : field) * f.bits;
    const uint64_t place = words.at(distance);
    const std::byte* from = place < words.head ? task.bytes[0] + to_size(place * f.word_bytes)
                                               : task.bytes[1] + to_size((place - words.head) * f.word_bytes);
    if (f.word_bytes == 1) {
      unpack_fields<uint8_t>(from, shift, mask, f.offset, count, to);
    } else {
      unpack_fields<uint32_t>(from, shift, mask, f.offset, count, to);
    }
    uint64_t scale = 0;
    if (f.scale_by == ScaleBy::kRow) scale = places.at(at / f.columns - task.tile.first / f.columns);
    if (f.scale_by == ScaleBy::kColumn) scale = places.at(distance);
    const size_t step = f.scale_by == ScaleBy::kColumn ? 1 : 0;
    apply_scales(f.form, scales + to_size(scale), zeros + to_size(f.has_zeros() ? scale : 0), step, count,
                 to);
    to += to_size(count);
    at += count;
  }
  return settle_row(task.kernels, nullptr, nullptr, reinterpret_cast<float*>(out), piece.count);
}

constexpr Decoder kStridedDecoder{
    .reads = read_strided, .decode = decode_strided, .scratch = strided_scratch, .begin = begin_strided};

uint64_t scales_needed(const StridedFields& f) {
  switch (f.scale_by) {
    case ScaleBy::kRow:
      return f.rows;
    case ScaleBy::kColumn:
      return f.columns;
    default:
      return 1;
  }
}

}  // namespace

Result<Weight> strided_weight(const OpenContext& context, const QuantMatch& match, const StridedFields& f,
                              const Shape& shape, TensorRef scales, std::optional<TensorRef> zeros) {
  const auto elements = checked_mul(f.rows, f.columns), words = checked_mul(f.packed_rows, f.columns);
  const auto bytes = words ? checked_mul(*words, f.word_bytes) : std::nullopt;
  const auto fault = [&](const std::string& what) {
    return weight_fault(ErrorCode::kRefusedShape, context, match, what);
  };
  if (!elements || element_count(shape) != *elements)
    return fault("has codes for " + std::to_string(elements.value_or(0)) + " elements, not for the shape " +
                 shape_text(shape));
  const TensorInfo& stored = context.checkpoint.info(match.weight);
  const uint64_t need = ceil_div(f.rows, f.fields);
  if (f.packed_rows != need || bytes != stored.bytes())
    return fault("has codes of shape " + shape_text(stored.shape) + ", where " + shape_text(shape) +
                 " needs " + std::to_string(need) + " packed rows of " + std::to_string(f.columns) +
                 " words");
  for (const auto& [part, dtype, what] : {std::tuple{std::optional(scales), f.scale_dtype, "scales"},
                                          std::tuple{zeros, f.zero_dtype, "zeros"}}) {
    if (!part) continue;
    const TensorInfo& info = context.checkpoint.info(*part);
    if (info.dtype != dtype || element_count(info.shape) != scales_needed(f))
      return fault("has " + std::string(what) + " of shape " + shape_text(info.shape) + ", where " +
                   std::to_string(scales_needed(f)) + " are needed");
  }
  Weight weight;
  weight.decoder = &kStridedDecoder;
  weight.word = std::string(match.layout) + " b" + std::to_string(f.bits);
  weight.key = std::string(dtype_name(f.scale_dtype)) + ' ' + std::string(dtype_name(f.zero_dtype));
  for (const uint64_t n :
       {f.rows, f.columns, f.packed_rows, uint64_t{f.word_bytes}, uint64_t{f.fields}, uint64_t{f.high_first},
        static_cast<uint64_t>(f.offset), uint64_t{f.never.value_or(99)}, static_cast<uint64_t>(f.scale_by),
        static_cast<uint64_t>(f.form)})
    weight.key += ' ' + std::to_string(n);
  weight.shape = shape;
  weight.elements = *elements;
  weight.parts = {{"weight", match.weight}, {"scales", scales}};
  if (zeros) weight.parts.push_back({"zeros", *zeros});
  const uint32_t scale_bits = dtype_bits(f.scale_dtype) + (f.has_zeros() ? dtype_bits(f.zero_dtype) : 0);
  // A word for every element, whatever field of it is wanted; scales as dense as they can be.
  const uint64_t width = f.scale_by == ScaleBy::kRow ? std::max<uint64_t>(f.columns, 1) : 1;
  weight.bits = 8 * f.word_bytes + static_cast<uint32_t>(ceil_div(scale_bits, width));
  weight.reads = f.has_zeros() ? 6 : 4;
  weight.state = std::make_shared<const StridedFields>(f);
  return weight;
}

}  // namespace tftf
