// Codes of four bits looked up sixteen at a time, and matrices of 16-bit values turned over by blocks of eight. Include after
// an instruction set's vectors.
#pragma once

namespace tftf::simd {
namespace {

using Sixteen = Vectors::Bytes;

// A table of sixteen 16-bit values as two of bytes, which is what instruction sets look up in.
struct NibbleTable {
  Sixteen::V low, high;
};
NibbleTable nibble_table(const uint16_t* values) {
  const Sixteen::V a = Sixteen::load(values), b = Sixteen::load(values + 8);
  return {Sixteen::even(a, b), Sixteen::odd(a, b)};
}

void store_values(const NibbleTable& table, Sixteen::V codes, std::byte* out) {
  const Sixteen::V low = Sixteen::look_up(table.low, codes), high = Sixteen::look_up(table.high, codes);
  Sixteen::store(out, Sixteen::zip_low(low, high));
  Sixteen::store(out + 16, Sixteen::zip_high(low, high));
}

template <bool kHighFirst>
void look_up_groups(const NibbleLookup& task) {
  std::byte* out = task.out;
  for (uint64_t g = 0; g < task.groups; ++g) {
    const uint16_t* values = task.tables + (task.which != nullptr ? task.which[g] : g) * 16;
    const std::byte* codes = task.codes + g * task.stride;
    const NibbleTable table = nibble_table(values);
    uint64_t i = 0;
    for (; i + 16 <= task.group_bytes; i += 16) {
      const Sixteen::V pairs = Sixteen::load(codes + i);
      const Sixteen::V low = Sixteen::low_nibbles(pairs), high = Sixteen::high_nibbles(pairs);
      const Sixteen::V first = kHighFirst ? high : low, second = kHighFirst ? low : high;
      store_values(table, Sixteen::zip_low(first, second), out);
      store_values(table, Sixteen::zip_high(first, second), out + 32);
      out += 64;
    }
    if (i + 8 <= task.group_bytes) {
      const Sixteen::V pairs = Sixteen::load_half(codes + i);
      const Sixteen::V low = Sixteen::low_nibbles(pairs), high = Sixteen::high_nibbles(pairs);
      store_values(table, kHighFirst ? Sixteen::zip_low(high, low) : Sixteen::zip_low(low, high), out);
      out += 32;
      i += 8;
    }
    if (i == task.group_bytes) continue;
    scalar::look_up_nibbles({values, nullptr, codes + i, 1, task.group_bytes - i, 0, kHighFirst, out});
    out += (task.group_bytes - i) * 4;
  }
}

void look_up_nibbles(const NibbleLookup& task) noexcept {
  if (task.high_first)
    look_up_groups<true>(task);
  else
    look_up_groups<false>(task);
}

// Three rounds of zipping the upper half of the rows into the lower.
void transpose_block(const std::byte* in, uint64_t in_stride, std::byte* out, uint64_t out_stride) {
  Sixteen::V a[8], b[8];
  for (uint64_t i = 0; i < 8; ++i) a[i] = Sixteen::load(in + i * in_stride);
  const auto zip = [](const Sixteen::V* from, Sixteen::V* to) {
    for (int i = 0; i < 4; ++i) {
      to[2 * i] = Sixteen::zip_low_16(from[i], from[i + 4]);
      to[2 * i + 1] = Sixteen::zip_high_16(from[i], from[i + 4]);
    }
  };
  zip(a, b);
  zip(b, a);
  zip(a, b);
  for (uint64_t i = 0; i < 8; ++i) Sixteen::store(out + i * out_stride, b[i]);
}

void transpose_16(const Transposition& task) noexcept {
  const uint64_t rows = task.rows / 8 * 8, columns = task.columns / 8 * 8;
  for (uint64_t r = 0; r < rows; r += 8)
    for (uint64_t c = 0; c < columns; c += 8)
      transpose_block(task.in + r * task.in_stride + c * 2, task.in_stride,
                      task.out + c * task.out_stride + r * 2, task.out_stride);
  if (rows < task.rows)
    scalar::transpose_16({task.in + rows * task.in_stride, task.in_stride, task.rows - rows, task.columns,
                          task.out + rows * 2, task.out_stride});
  if (columns < task.columns)
    scalar::transpose_16({task.in + columns * 2, task.in_stride, rows, task.columns - columns,
                          task.out + columns * task.out_stride, task.out_stride});
}

}  // namespace
}  // namespace tftf::simd
