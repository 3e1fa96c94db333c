#include "tftf/simd/cast.h"

#include <cstring>

#include "simd/convert.h"
#include "tftf/base/checked.h"
#include "tftf/simd/floats.h"

namespace tftf {
namespace {

// Elements converted at a time through a buffer: whole bytes also for sub-byte elements.
constexpr uint64_t kCastChunk = 512;

bool is_small_float(DType dtype) {
  return dtype == DType::F4 || dtype == DType::F6_E2M3 || dtype == DType::F6_E3M2 || dtype == DType::F8_E8M0;
}

template <class From, class To>
void convert_integers(const std::byte* in, std::byte* out, uint64_t count) {
  for (size_t i = 0; i < count; ++i)
    store_le(out + sizeof(To) * i, static_cast<To>(load_le<From>(in + sizeof(From) * i)));
}

// Integers and BOOL to T, one rounding.
template <class T>
void from_integers(DType from, const std::byte* in, std::byte* out, uint64_t count) {
  switch (from) {
    case DType::U8:
      return convert_integers<uint8_t, T>(in, out, count);
    case DType::I8:
      return convert_integers<int8_t, T>(in, out, count);
    case DType::U16:
      return convert_integers<uint16_t, T>(in, out, count);
    case DType::I16:
      return convert_integers<int16_t, T>(in, out, count);
    case DType::U32:
      return convert_integers<uint32_t, T>(in, out, count);
    case DType::I32:
      return convert_integers<int32_t, T>(in, out, count);
    case DType::U64:
      return convert_integers<uint64_t, T>(in, out, count);
    case DType::I64:
      return convert_integers<int64_t, T>(in, out, count);
    default:
      for (size_t i = 0; i < count; ++i) store_le(out + sizeof(T) * i, in[i] != std::byte{0} ? T{1} : T{0});
  }
}

// Between F64 and F32: all elements plainly, which compilers make vectors of; a chunk with a NaN once more,
// since only its bits need care.
uint64_t f64_to_f32(const std::byte* in, std::byte* out, uint64_t count) {
  uint64_t overflowed = 0;
  for (uint64_t done = 0; done < count; done += kCastChunk) {
    const std::byte* from = in + 8 * done;
    std::byte* to = out + 4 * done;
    const size_t length = static_cast<size_t>(count - done < kCastChunk ? count - done : kCastChunk);
    uint64_t peak = 0;
    for (size_t i = 0; i < length; ++i) {
      const uint64_t magnitude = load_le<uint64_t>(from + 8 * i) & simd::kF64Magnitude;
      peak = magnitude > peak ? magnitude : peak;
      store_le(to + 4 * i, static_cast<float>(load_le<double>(from + 8 * i)));
    }
    if (peak < uint64_t{1023 + 127} << 52) continue;  // all below 2^127
    for (size_t i = 0; i < length; ++i) {
      const double x = load_le<double>(from + 8 * i);
      const float y = simd::f64_to_f32(x);
      store_le(to + 4 * i, y);
      overflowed += simd::is_finite(x) && simd::is_infinite(y);
    }
  }
  return overflowed;
}

void f32_to_f64(const std::byte* in, std::byte* out, uint64_t count) {
  for (uint64_t done = 0; done < count; done += kCastChunk) {
    const std::byte* from = in + 4 * done;
    std::byte* to = out + 8 * done;
    const size_t length = static_cast<size_t>(count - done < kCastChunk ? count - done : kCastChunk);
    uint32_t peak = 0;
    for (size_t i = 0; i < length; ++i) {
      const uint32_t magnitude = load_le<uint32_t>(from + 4 * i) & simd::kF32Magnitude;
      peak = magnitude > peak ? magnitude : peak;
      store_le(to + 8 * i, static_cast<double>(load_le<float>(from + 4 * i)));
    }
    if (peak <= simd::kF32Infinity) continue;
    for (size_t i = 0; i < length; ++i) store_le(to + 8 * i, simd::f32_to_f64(load_le<float>(from + 4 * i)));
  }
}

uint64_t widen_f8(const KernelTable& kernels, DType from, DType to, const std::byte* in, std::byte* out,
                  uint64_t count) {
  const float one = 1;
  ScaledRun run{};
  run.from = from;
  run.to = to;
  run.cols = run.block_cols = count;
  run.count = count;
  run.scales = &one;
  return kernels.dequantize_f8(run, in, out);
}

uint64_t to_f32(const KernelTable& kernels, DType from, const std::byte* in, std::byte* out, uint64_t count) {
  switch (from) {
    case DType::F32:
      std::memcpy(out, in, to_size(4 * count));
      return 0;
    case DType::BF16:
      kernels.bf16_to_f32(in, out, count);
      return 0;
    case DType::F16:
      kernels.f16_to_f32(in, out, count);
      return 0;
    case DType::F64:
      return f64_to_f32(in, out, count);
    default:
      break;
  }
  if (is_fp8(from)) return widen_f8(kernels, from, DType::F32, in, out, count);
  if (!is_small_float(from)) {
    from_integers<float>(from, in, out, count);
    return 0;
  }
  const float* values = from == DType::F8_E8M0 ? f8_values(from)
                        : from == DType::F4    ? f4_values()
                                               : f6_values(from);
  const uint32_t bits = dtype_bits(from);
  for (uint64_t i = 0; i < count; ++i) {
    const uint32_t code = bits == 8 ? load_le<uint8_t>(in + i) : simd::sub_byte_code(in, i, bits);
    store_le(out + 4 * i, values[code]);
  }
  return 0;
}

}  // namespace

bool can_cast(DType from, DType to) noexcept {
  return from != DType::C64 &&
         (to == DType::F64 || to == DType::F32 || to == DType::F16 || to == DType::BF16);
}

uint64_t cast(const KernelTable& kernels, DType from, DType to, const std::byte* in, std::byte* out,
              uint64_t count) noexcept {
  if (count == 0) return 0;
  if (from == to) {
    std::memcpy(out, in, to_size(count * (dtype_bits(to) / 8)));
    return 0;
  }
  if (to == DType::F32) return to_f32(kernels, from, in, out, count);
  const bool narrow = to != DType::F64;
  const auto shorten = to == DType::BF16 ? kernels.f32_to_bf16 : kernels.f32_to_f16;
  if (narrow && from == DType::F32) return shorten(in, out, count);
  if (narrow && is_fp8(from)) return widen_f8(kernels, from, to, in, out, count);
  if (!narrow && from == DType::F32) {
    f32_to_f64(in, out, count);
    return 0;
  }
  if (!narrow && !is_floating(from)) {
    from_integers<double>(from, in, out, count);
    return 0;
  }
  // Everything else passes through F32, where an overflow of the first step is no longer finite in the
  // second.
  uint64_t overflowed = 0;
  std::byte buffer[4 * kCastChunk];
  for (uint64_t done = 0; done < count; done += kCastChunk) {
    const uint64_t length = count - done < kCastChunk ? count - done : kCastChunk;
    overflowed += to_f32(kernels, from, in + done * dtype_bits(from) / 8, buffer, length);
    std::byte* target = out + done * (dtype_bits(to) / 8);
    if (narrow) {
      overflowed += shorten(buffer, target, length);
    } else {
      f32_to_f64(buffer, target, length);
    }
  }
  return overflowed;
}

}  // namespace tftf
