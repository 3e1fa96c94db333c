// Sums in fixed order over vectors of F64: the 16 partial sums lie side by side. Include after an
// instruction set's vectors.
#pragma once

namespace tftf::simd {
namespace {

constexpr int kSumParts = 16 / Vectors::F64::kWidth;
constexpr uint64_t kSumChunk = 512;  // elements converted at a time, a multiple of the 16 partial sums

double sum_squares_f32(const float* x, uint64_t count) noexcept {
  using F = Vectors::F64;
  F::V parts[kSumParts];
  for (F::V& part : parts) part = F::all(0);
  uint64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    for (int part = 0; part < kSumParts; ++part) {
      const F::V value = F::load(x + i + static_cast<uint64_t>(part * F::kWidth));
      parts[part] = F::add(parts[part], F::multiply(value, value));
    }
  }
  double sum[16];
  for (int part = 0; part < kSumParts; ++part) F::store(sum + F::kWidth * part, parts[part]);
  for (uint64_t lane = 0; i < count; ++i, ++lane) {
    const double value = static_cast<double>(x[i]);
    sum[lane] += value * value;
  }
  for (int half = 8; half > 0; half /= 2)
    for (int lane = 0; lane < half; ++lane) sum[lane] += sum[lane + half];
  return sum[0];
}

// count is a multiple of 16.
bool all_finite(const float* x, uint64_t count) {
  using L = Vectors::Lanes32;
  const Vectors::I exponent = L::all(0x7F800000);
  Vectors::I special = Vectors::zero();
  for (uint64_t i = 0; i < count; i += Vectors::F32::kWidth) {
    const Vectors::I bits = Vectors::F32::bits(Vectors::F32::load(x + i));
    special = Vectors::either(special, L::equal(Vectors::both(bits, exponent), exponent));
  }
  return !Vectors::any(special);
}
bool all_finite(const double* x, uint64_t count) {
  using L = Vectors::Lanes64;
  const Vectors::I exponent = L::all(0x7FF0000000000000);
  Vectors::I special = Vectors::zero();
  for (uint64_t i = 0; i < count; i += Vectors::F64::kWidth) {
    const Vectors::I bits = Vectors::F64::bits(Vectors::F64::load(x + i));
    special = Vectors::either(special, L::equal(Vectors::both(bits, exponent), exponent));
  }
  return !Vectors::any(special);
}

// Adds elements that begin at partial sum 0. Before the pivot is known, beside what is not finite, and at the
// end, the scalar kernel adds.
template <class T>
void add_moments(const T* x, uint64_t count, Moments& into) {
  using F = Vectors::F64;
  uint64_t whole = count / 16 * 16;
  if (into.finite == 0 || !all_finite(x, whole)) whole = 0;
  const F::V pivot = F::all(into.pivot);
  F::V sum[kSumParts], square[kSumParts];
  for (int part = 0; part < kSumParts; ++part) {
    sum[part] = F::load(into.sum + F::kWidth * part);
    square[part] = F::load(into.square + F::kWidth * part);
  }
  for (uint64_t i = 0; i < whole; i += 16) {
    for (int part = 0; part < kSumParts; ++part) {
      const F::V d = F::subtract(F::load(x + i + static_cast<uint64_t>(part * F::kWidth)), pivot);
      sum[part] = F::add(sum[part], d);
      square[part] = F::add(square[part], F::multiply(d, d));
    }
  }
  for (int part = 0; part < kSumParts; ++part) {
    F::store(into.sum + F::kWidth * part, sum[part]);
    F::store(into.square + F::kWidth * part, square[part]);
  }
  into.finite += whole;
  const DType dtype = sizeof(T) == 4 ? DType::F32 : DType::F64;
  scalar::moments(dtype, reinterpret_cast<const std::byte*>(x + whole), 0, count - whole, into);
}

template <class T>
void moments_as(const KernelTable& kernels, DType dtype, const std::byte* data, uint64_t count,
                Moments& into) {
  constexpr DType kTarget = sizeof(T) == 4 ? DType::F32 : DType::F64;
  const uint64_t bits = dtype_info(dtype).bits;
  T values[kSumChunk];
  for (uint64_t done = 0; done < count; done += kSumChunk) {
    const uint64_t length = count - done < kSumChunk ? count - done : kSumChunk;
    cast(kernels, dtype, kTarget, data + done * bits / 8, reinterpret_cast<std::byte*>(values), length);
    add_moments(values, length, into);
  }
}

// `kernels` is the instruction set's own table.
void moments_with(const KernelTable& kernels, DType dtype, const std::byte* data, uint64_t first,
                  uint64_t count, Moments& into) {
  if (first % 16 != 0) return scalar::moments(dtype, data, first, count, into);
  switch (dtype) {
    case DType::F64:
    case DType::I64:
    case DType::U64:
    case DType::I32:
    case DType::U32:
      return moments_as<double>(kernels, dtype, data, count, into);
    default:
      return moments_as<float>(kernels, dtype, data, count, into);  // exact in F32
  }
}

}  // namespace
}  // namespace tftf::simd
