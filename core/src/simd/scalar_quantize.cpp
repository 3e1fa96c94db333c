// Quantising, one element at a time: what the vector tables have to give.
#include "simd/convert.h"
#include "simd/e8_grid.h"
#include "simd/e8_lattice.h"
#include "simd/tables.h"

namespace tftf::simd {
namespace {

constexpr E8Lattice make_e8_lattice() {
  E8Lattice lattice{};
  for (size_t e = 0; e < kE8Entries; ++e)
    for (size_t i = 0; i < 4; ++i) {
      const float m = static_cast<float>(kE8Grid[4 * e + i]) * 0.5f;
      lattice.plane[i][e] = m;
      lattice.norm[e] += m * m;
    }
  return lattice;
}

}  // namespace

constinit const E8Lattice kE8Lattice = make_e8_lattice();

namespace scalar {
namespace {

// Adding it rounds a number below 2^22 to a whole one, ties to even, in the low bits of the sum.
constexpr float kWhole = 12582912.0f;  // 1.5 * 2^23

constexpr size_t kQuads = 8;  // lattice entries of 32 magnitudes
constexpr uint32_t kSubScales = 16;

float squared_cost(float db, float norm, float dot) { return db * norm - 2.0f * dot; }

}  // namespace

uint32_t largest_magnitude(const float* x, uint64_t count) noexcept {
  uint32_t largest = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const uint32_t magnitude = bit_cast<uint32_t>(x[i]) & kF32Magnitude;
    if (magnitude > largest) largest = magnitude;
  }
  return largest;
}

void quantize_i8(const float* x, uint64_t count, float scale, int32_t lowest, int32_t highest,
                 int8_t* codes) noexcept {
  for (uint64_t i = 0; i < count; ++i) {
    const float quotient = x[i] / scale;
    const float sum = quotient + kWhole;
    int32_t code = static_cast<int32_t>(bit_cast<uint32_t>(sum) - bit_cast<uint32_t>(kWhole));
    if (code < lowest) code = lowest;
    if (code > highest) code = highest;
    codes[i] = static_cast<int8_t>(code);
  }
}

void pack_nibbles(const int8_t* codes, uint64_t count, std::byte* out) noexcept {
  const auto nibble = [codes](uint64_t i) { return static_cast<uint32_t>(codes[i] + 8); };
  uint64_t i = 0;
  for (; i + 2 <= count; i += 2) out[i / 2] = static_cast<std::byte>(nibble(i) | nibble(i + 1) << 4);
  if (i < count) out[i / 2] = static_cast<std::byte>(nibble(i));
}

void quantize_e4m3(const float* x, uint64_t count, float scale, std::byte* codes) noexcept {
  for (uint64_t i = 0; i < count; ++i) {
    const uint32_t bits = bit_cast<uint32_t>(x[i] / scale);
    uint32_t magnitude = bits & kF32Magnitude;
    if (magnitude > 0x43E00000u) magnitude = 0x43E00000u;  // 448
    uint32_t code;
    if (magnitude < 0x3C800000u) {
      // Below 2^-6 codes are multiples of 2^-9: the last bits of a sum with 2^14.
      const float sum = bit_cast<float>(magnitude) + 16384.0f;
      code = bit_cast<uint32_t>(sum) - 0x46800000u;
    } else {
      const uint32_t last = magnitude >> 20 & 1;
      code = (magnitude + 0x7FFFFu + last - (120u << 23)) >> 20;
    }
    codes[i] = static_cast<std::byte>(bits >> 31 << 7 | code);
  }
}

uint32_t search_e8(const float* magnitudes, float d, uint8_t* indices) noexcept {
  const E8Lattice& lattice = kE8Lattice;
  float dot[kQuads][kE8Entries];
  for (size_t q = 0; q < kQuads; ++q) {
    const float* m = magnitudes + 4 * q;
    for (size_t e = 0; e < kE8Entries; ++e) {
      dot[q][e] = ((m[0] * lattice.plane[0][e] + m[1] * lattice.plane[1][e]) + m[2] * lattice.plane[2][e]) +
                  m[3] * lattice.plane[3][e];
    }
  }
  uint32_t best = 0;
  float best_error = 0.0f;
  for (uint32_t c = 0; c < kSubScales; ++c) {
    const float step = d * (0.5f + static_cast<float>(c)) * 0.5f;
    const float db = step < 1e-20f ? 1e-20f : step;
    uint8_t candidate[kQuads];
    float error = 0.0f;
    for (size_t q = 0; q < kQuads; ++q) {
      size_t nearest = 0;
      float smallest = squared_cost(db, lattice.norm[0], dot[q][0]);
      for (size_t e = 1; e < kE8Entries; ++e) {
        const float cost = squared_cost(db, lattice.norm[e], dot[q][e]);
        if (cost < smallest) {
          smallest = cost;
          nearest = e;
        }
      }
      candidate[q] = static_cast<uint8_t>(nearest);
      error += db * db * lattice.norm[nearest] - 2.0f * db * dot[q][nearest];
    }
    if (c != 0 && !(error < best_error)) continue;
    best = c;
    best_error = error;
    for (size_t q = 0; q < kQuads; ++q) indices[q] = candidate[q];
  }
  return best;
}

}  // namespace scalar
}  // namespace tftf::simd
