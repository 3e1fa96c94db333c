#include "tftf/quant/colibri/integer_codes.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tftf/base/checked.h"

namespace tftf::colibri {
namespace {

constexpr float kSmallestScale = 1e-8f;
constexpr uint64_t kInt3Group = 64;
constexpr uint64_t kInt3GroupBytes = 24;

struct CodeRange {
  float lowest;
  float highest;
};

CodeRange code_range(const IntegerSpec& spec) {
  switch (spec.format) {
    case Format::kInt4Row:
    case Format::kInt4Grouped:
      return {-8.0f, static_cast<float>((1 << (spec.bits - 1)) - 1)};
    case Format::kInt3G64:
      return {-4.0f, 3.0f};
    case Format::kInt2Row:
      return {-2.0f, 1.0f};
    default: {
      const float highest = static_cast<float>((1 << (spec.bits - 1)) - 1);
      return {-highest - 1.0f, highest};
    }
  }
}

uint64_t scope_size(const IntegerSpec& spec, uint64_t columns) {
  if (spec.format == Format::kInt4Grouped) return spec.group_size;
  if (spec.format == Format::kInt3G64) return kInt3Group;
  return std::max<uint64_t>(columns, 1);
}

float scale_of(std::span<const float> scope, float highest) {
  float amax = 0.0f;
  for (float w : scope) amax = std::max(amax, std::fabs(w));
  return std::max(amax / highest, kSmallestScale);
}

int32_t code_of(float w, float scale, const CodeRange& range) {
  return static_cast<int32_t>(std::clamp(std::nearbyintf(w / scale), range.lowest, range.highest));
}

// Stores code i of a row; the row starts as zero bytes.
void put_code(Format format, std::span<std::byte> codes, uint64_t i, int32_t code) {
  auto merge = [&codes](uint64_t at, uint32_t bits) { codes[to_size(at)] |= static_cast<std::byte>(bits); };
  switch (format) {
    case Format::kInt8Row:
      codes[to_size(i)] = static_cast<std::byte>(code);
      break;
    case Format::kInt2Row:
      merge(i / 4, static_cast<uint32_t>(code + 2) << (2 * (i % 4)));
      break;
    case Format::kInt3G64: {
      const uint64_t base = i / kInt3Group * kInt3GroupBytes;
      const uint64_t k = i % kInt3Group;
      const auto u = static_cast<uint32_t>(code + 4);
      merge(base + k / 4, (u & 3) << (2 * (k % 4)));
      merge(base + 16 + k / 8, (u >> 2) << (k % 8));
      break;
    }
    default:
      merge(i / 2, static_cast<uint32_t>(code + 8) << (4 * (i % 2)));
      break;
  }
}

int32_t get_code(Format format, std::span<const std::byte> codes, uint64_t i) {
  auto byte = [&codes](uint64_t at) { return static_cast<uint32_t>(codes[to_size(at)]); };
  switch (format) {
    case Format::kInt8Row:
      return static_cast<int8_t>(codes[to_size(i)]);
    case Format::kInt2Row:
      return static_cast<int32_t>(byte(i / 4) >> (2 * (i % 4)) & 3) - 2;
    case Format::kInt3G64: {
      const uint64_t base = i / kInt3Group * kInt3GroupBytes;
      const uint64_t k = i % kInt3Group;
      const uint32_t low = byte(base + k / 4) >> (2 * (k % 4)) & 3;
      const uint32_t high = byte(base + 16 + k / 8) >> (k % 8) & 1;
      return static_cast<int32_t>(low | high << 2) - 4;
    }
    default:
      return static_cast<int32_t>(byte(i / 2) >> (4 * (i % 2)) & 15) - 8;
  }
}

}  // namespace

uint64_t row_bytes(const IntegerSpec& spec, uint64_t columns) {
  return weight_bytes(spec.format, 1, columns).value_or(0);
}

uint64_t row_scales(const IntegerSpec& spec, uint64_t columns) {
  return scale_count(spec.format, 1, columns, spec.group_size).value_or(0);
}

void encode_row(const IntegerSpec& spec, std::span<const float> row, std::span<std::byte> codes,
                std::span<float> scales) noexcept {
  const CodeRange range = code_range(spec);
  const uint64_t scope = scope_size(spec, row.size());
  std::memset(codes.data(), 0, codes.size());
  for (uint64_t begin = 0, s = 0; begin < row.size(); begin += scope, ++s) {
    const uint64_t count = std::min<uint64_t>(scope, row.size() - begin);
    const float scale = scale_of(row.subspan(to_size(begin), to_size(count)), range.highest);
    scales[to_size(s)] = scale;
    for (uint64_t i = begin; i < begin + count; ++i)
      put_code(spec.format, codes, i, code_of(row[to_size(i)], scale, range));
  }
  if (spec.format == Format::kInt3G64)
    for (uint64_t i = row.size(); i % kInt3Group != 0; ++i) put_code(spec.format, codes, i, 0);
}

void decode_row(const IntegerSpec& spec, std::span<const std::byte> codes, std::span<const float> scales,
                std::span<float> row) noexcept {
  const uint64_t scope = scope_size(spec, row.size());
  for (uint64_t i = 0; i < row.size(); ++i)
    row[to_size(i)] = static_cast<float>(get_code(spec.format, codes, i)) * scales[to_size(i / scope)];
}

}  // namespace tftf::colibri
