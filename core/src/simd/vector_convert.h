// Conversions and merges by sixteen, over the vectors of one instruction set. What is rare (NaN, infinities,
// overflow, the last elements of a run) goes to the scalar kernels, so the loops here only have to notice it,
// and special values are decided in one place. Include after an
// instruction set's vectors (SET_vectors.h).
#pragma once

namespace tftf::simd {
namespace {

template <DType kType>
constexpr uint64_t kBytesOf = kType == DType::F32                           ? 4
                              : kType == DType::BF16 || kType == DType::F16 ? 2
                                                                            : 1;
// The smallest magnitude that needs more than rounding: it becomes infinite, is infinite or is NaN.
template <DType kTo>
constexpr int64_t kOrdinaryBelow = kTo == DType::BF16  ? 0x7F7F8000
                                   : kTo == DType::F16 ? 0x477FF000
                                                       : 0x7F800000;

constexpr int kParts = 16 / Vectors::F32::kWidth;

// Whether any of the sixteen has a magnitude of at least `limit` (bits).
bool any_from(const Vectors::Block& x, int64_t limit) {
  using L = Vectors::Lanes32;
  Vectors::I peak = Vectors::zero();
  for (int part = 0; part < kParts; ++part)
    peak = L::largest(peak, Vectors::both(Vectors::F32::bits(x.v[part]), L::all(0x7FFFFFFF)));
  return Vectors::any(L::greater(peak, L::all(limit - 1)));
}

template <DType kFrom>
void widen(const std::byte* in, std::byte* out, uint64_t count) noexcept {
  uint64_t i = 0;
  for (; i + 16 <= count; i += 16)
    Vectors::store_block<DType::F32>(out + 4 * i, Vectors::load_block<kFrom>(in + 2 * i));
  (kFrom == DType::BF16 ? scalar::bf16_to_f32 : scalar::f16_to_f32)(in + 2 * i, out + 4 * i, count - i);
}

template <DType kTo>
uint64_t narrow(const std::byte* in, std::byte* out, uint64_t count) noexcept {
  constexpr auto kSlowly = kTo == DType::BF16 ? scalar::f32_to_bf16 : scalar::f32_to_f16;
  uint64_t overflowed = 0, i = 0;
  for (; i + 16 <= count; i += 16) {
    const Vectors::Block x = Vectors::load_block<DType::F32>(in + 4 * i);
    if (any_from(x, kOrdinaryBelow<kTo>)) {
      overflowed += kSlowly(in + 4 * i, out + 2 * i, 16);
    } else {
      Vectors::store_block<kTo>(out + 2 * i, x);
    }
  }
  return overflowed + kSlowly(in + 4 * i, out + 2 * i, count - i);
}

template <DType kFrom, DType kTo>
uint64_t merge_run(const std::byte* w, float s, const float* delta, std::byte* out, uint64_t count) {
  using F = Vectors::F32;
  const F::V scale = F::all(s);
  uint64_t lost = 0, i = 0;
  for (; i + 16 <= count; i += 16) {
    Vectors::Block y = Vectors::load_block<kFrom>(w + kBytesOf<kFrom> * i);
    for (int part = 0; part < kParts; ++part) {
      const F::V step = F::multiply(scale, F::load(delta + i + static_cast<uint64_t>(part * F::kWidth)));
      y.v[part] = F::add(y.v[part], step);
    }
    std::byte* to = out + kBytesOf<kTo> * i;
    if (any_from(y, kOrdinaryBelow<kTo>)) {
      lost += scalar::merge_f32(kFrom, kTo, w + kBytesOf<kFrom> * i, s, delta + i, to, 16);
    } else {
      Vectors::store_block<kTo>(to, y);
    }
  }
  return lost + scalar::merge_f32(kFrom, kTo, w + kBytesOf<kFrom> * i, s, delta + i, out + kBytesOf<kTo> * i,
                                  count - i);
}

template <DType kFrom>
uint64_t merge_from(DType to, const std::byte* w, float s, const float* delta, std::byte* out,
                    uint64_t count) {
  if (to == DType::BF16) return merge_run<kFrom, DType::BF16>(w, s, delta, out, count);
  if (to == DType::F16) return merge_run<kFrom, DType::F16>(w, s, delta, out, count);
  return merge_run<kFrom, DType::F32>(w, s, delta, out, count);
}

uint64_t merge_f32(DType from, DType to, const std::byte* w, float s, const float* delta, std::byte* out,
                   uint64_t count) noexcept {
  if (from == DType::BF16) return merge_from<DType::BF16>(to, w, s, delta, out, count);
  if (from == DType::F16) return merge_from<DType::F16>(to, w, s, delta, out, count);
  return merge_from<DType::F32>(to, w, s, delta, out, count);
}

}  // namespace
}  // namespace tftf::simd
