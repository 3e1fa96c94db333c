#include "tftf/quant/colibri/integer_codes.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tftf/base/checked.h"

namespace tftf::colibri {
namespace {

constexpr float kSmallestScale = 1e-8f;
constexpr uint32_t kInfinityBits = 0x7F800000;
constexpr uint64_t kInt3Group = 64;
constexpr uint64_t kInt3GroupBytes = 24;

struct CodeRange {
  int32_t lowest;
  int32_t highest;
};

CodeRange code_range(const IntegerSpec& spec) {
  switch (spec.format) {
    case Format::kInt4Row:
    case Format::kInt4Grouped:
      return {-8, (1 << (spec.bits - 1)) - 1};
    case Format::kInt3G64:
      return {-4, 3};
    case Format::kInt2Row:
      return {-2, 1};
    default: {
      const int32_t highest = (1 << (spec.bits - 1)) - 1;
      return {-highest - 1, highest};
    }
  }
}

uint64_t scope_size(const IntegerSpec& spec, uint64_t columns) {
  if (spec.format == Format::kInt4Grouped) return spec.group_size;
  if (spec.format == Format::kInt3G64) return kInt3Group;
  return std::max<uint64_t>(columns, 1);
}

// Codes wait here between rounding and packing: a multiple of every packing's unit.
constexpr uint64_t kStretch = 512;

void merge_bits(std::byte& byte, uint32_t bits) { byte |= static_cast<std::byte>(bits); }

// Stores codes first, first + 1 … of a row whose bytes began as zeros.
void put_codes(const KernelTable& kernels, Format format, const int8_t* codes, uint64_t first, uint64_t count,
               std::byte* row) {
  switch (format) {
    case Format::kInt8Row:
      std::memcpy(row + to_size(first), codes, to_size(count));
      return;
    case Format::kInt2Row:
      for (uint64_t k = 0; k < count; ++k) {
        const uint64_t i = first + k;
        merge_bits(row[to_size(i / 4)], static_cast<uint32_t>(codes[to_size(k)] + 2) << (2 * (i % 4)));
      }
      return;
    case Format::kInt3G64:
      for (uint64_t k = 0; k < count; ++k) {
        const uint64_t i = first + k, in_group = i % kInt3Group;
        std::byte* group = row + to_size(i / kInt3Group * kInt3GroupBytes);
        const auto u = static_cast<uint32_t>(codes[to_size(k)] + 4);
        merge_bits(group[to_size(in_group / 4)], (u & 3) << (2 * (in_group % 4)));
        merge_bits(group[to_size(16 + in_group / 8)], (u >> 2) << (in_group % 8));
      }
      return;
    default:
      if (first % 2 == 0) return kernels.pack_nibbles(codes, count, row + to_size(first / 2));
      // A group of odd size: its first code joins the byte that the group before has begun.
      merge_bits(row[to_size(first / 2)], static_cast<uint32_t>(codes[0] + 8) << 4);
      kernels.pack_nibbles(codes + 1, count - 1, row + to_size(first / 2 + 1));
  }
}

// value = code * scale for the elements first, first + 1 … of a row, all of one scope.
void decode_codes(Format format, const std::byte* row, uint64_t first, uint64_t count, float scale,
                  float* out) {
  const auto byte = [row](uint64_t at) { return static_cast<uint32_t>(row[to_size(at)]); };
  const auto value = [scale](int32_t code) { return static_cast<float>(code) * scale; };
  switch (format) {
    case Format::kInt8Row:
      for (uint64_t k = 0; k < count; ++k)
        out[to_size(k)] = value(static_cast<int8_t>(row[to_size(first + k)]));
      return;
    case Format::kInt2Row:
      for (uint64_t k = 0; k < count; ++k) {
        const uint64_t i = first + k;
        out[to_size(k)] = value(static_cast<int32_t>(byte(i / 4) >> (2 * (i % 4)) & 3) - 2);
      }
      return;
    case Format::kInt3G64:
      for (uint64_t k = 0; k < count; ++k) {
        const uint64_t i = first + k, base = i / kInt3Group * kInt3GroupBytes, in_group = i % kInt3Group;
        const uint32_t low = byte(base + in_group / 4) >> (2 * (in_group % 4)) & 3;
        const uint32_t high = byte(base + 16 + in_group / 8) >> (in_group % 8) & 1;
        out[to_size(k)] = value(static_cast<int32_t>(low | high << 2) - 4);
      }
      return;
    default: {
      uint64_t k = 0;
      if (first % 2 != 0 && count > 0)
        out[to_size(k++)] = value(static_cast<int32_t>(byte(first / 2) >> 4) - 8);
      for (; k + 2 <= count; k += 2) {
        const uint32_t both = byte((first + k) / 2);
        out[to_size(k)] = value(static_cast<int32_t>(both & 15) - 8);
        out[to_size(k + 1)] = value(static_cast<int32_t>(both >> 4) - 8);
      }
      if (k < count) out[to_size(k)] = value(static_cast<int32_t>(byte((first + k) / 2) & 15) - 8);
    }
  }
}

}  // namespace

uint64_t row_bytes(const IntegerSpec& spec, uint64_t columns) {
  return weight_bytes(spec.format, 1, columns).value_or(0);
}

uint64_t row_scales(const IntegerSpec& spec, uint64_t columns) {
  return scale_count(spec.format, 1, columns, spec.group_size).value_or(0);
}

uint64_t encode_row(const KernelTable& kernels, const IntegerSpec& spec, std::span<const float> row,
                    std::span<std::byte> codes, std::span<float> scales) noexcept {
  const CodeRange range = code_range(spec);
  const uint64_t scope = scope_size(spec, row.size());
  uint64_t not_finite = 0;
  if (spec.format != Format::kInt8Row) std::memset(codes.data(), 0, codes.size());
  int8_t stretch[kStretch];
  for (uint64_t begin = 0, s = 0; begin < row.size(); begin += scope, ++s) {
    const uint64_t count = std::min<uint64_t>(scope, row.size() - begin);
    const float* x = row.data() + to_size(begin);
    const uint32_t bits = kernels.largest_magnitude(x, count);
    float largest;
    std::memcpy(&largest, &bits, sizeof largest);
    if (bits >= kInfinityBits) {
      for (uint64_t i = 0; i < count; ++i) not_finite += !std::isfinite(x[to_size(i)]);
      scales[to_size(s)] = kSmallestScale;
      if (spec.format == Format::kInt8Row) std::memset(codes.data(), 0, codes.size());
      continue;
    }
    const float scale = std::max(largest / static_cast<float>(range.highest), kSmallestScale);
    scales[to_size(s)] = scale;
    for (uint64_t done = 0; done < count;) {
      // Stretches end where bytes do.
      const uint64_t odd = (begin + done) % 2;
      const uint64_t length = std::min(count - done, kStretch - odd);
      kernels.quantize_i8(x + to_size(done), length, scale, range.lowest, range.highest, stretch);
      put_codes(kernels, spec.format, stretch, begin + done, length, codes.data());
      done += length;
    }
  }
  if (spec.format == Format::kInt3G64 && row.size() % kInt3Group != 0) {
    const int8_t padding[kInt3Group] = {};
    put_codes(kernels, spec.format, padding, row.size(), kInt3Group - row.size() % kInt3Group, codes.data());
  }
  return not_finite;
}

void decode_row(const IntegerSpec& spec, std::span<const std::byte> codes, std::span<const float> scales,
                std::span<float> row) noexcept {
  const uint64_t scope = scope_size(spec, row.size());
  for (uint64_t begin = 0, s = 0; begin < row.size(); begin += scope, ++s) {
    const uint64_t count = std::min<uint64_t>(scope, row.size() - begin);
    decode_codes(spec.format, codes.data(), begin, count, scales[to_size(s)], row.data() + to_size(begin));
  }
}

}  // namespace tftf::colibri
