// FP8 with scales, over vectors that can decode FP8. Include after vector_convert.h.
#pragma once

namespace tftf::simd {
namespace {

// What Vectors::decode_block() leaves out is a power of two, which a multiplier takes up exactly.
template <DType kFrom>
struct Fp8 {
  static constexpr float kFactor = kFrom == DType::F8_E4M3       ? 256.0f
                                   : kFrom == DType::F8_E4M3FNUZ ? 128.0f
                                                                 : 1.0f;
  static constexpr float kLargest = kFrom == DType::F8_E4M3       ? 448.0f
                                    : kFrom == DType::F8_E4M3FNUZ ? 240.0f
                                                                  : 57344.0f;

  // All ones where a code is NaN.
  static Vectors::I nan(Vectors::I codes) {
    using L = Vectors::Lanes8;
    if constexpr (kFrom == DType::F8_E4M3)
      return L::equal(Vectors::either(codes, L::all(0x80)), L::all(0xFF));
    if constexpr (kFrom == DType::F8_E5M2)
      return L::greater(Vectors::both(codes, L::all(0x7F)), L::all(0x7C));
    return L::equal(codes, L::all(0x80));
  }
};

// The scalar kernel on a stretch: `scales` has a value per element (stride 1) or one for all (stride 0).
uint64_t dequantize_slowly(DType from, DType to, bool divide, const float* scales, uint64_t stride,
                           const std::byte* codes, std::byte* out, uint64_t count) {
  ScaledRun run{};
  run.from = from;
  run.to = to;
  run.divide = divide;
  run.cols = run.count = count;
  run.block_cols = stride == 0 ? count : 1;
  run.scales = scales;
  run.col_stride = stride;
  return scalar::dequantize_f8(run, codes, out);
}

// One conversion, source, target and operation fixed.
template <DType kFrom, DType kTo, bool kDivide>
struct Dequantizer {
  using F = Vectors::F32;
  static constexpr uint64_t kOut = kBytesOf<kTo>;

  // Whether with this scale no code but NaN gives a NaN and no finite one becomes infinite. Up to 1e33
  // nothing overflows F32 or BF16, and the factor is exact; for F16 the largest code decides.
  static bool is_plain(float s) {
    const float size = __builtin_fabsf(s);
    if constexpr (kDivide) {
      const bool fits = kTo != DType::F16 || size * 65000.0f >= Fp8<kFrom>::kLargest;
      return fits && size >= 1e-33f && size <= 1e33f;
    }
    const bool fits = kTo != DType::F16 || size * Fp8<kFrom>::kLargest <= 65000.0f;
    return fits && size <= 1e33f && (kFrom != DType::F8_E5M2 || size != 0);  // infinity * 0 is NaN
  }

  // scale[part] multiplies (the factor included) or divides.
  static void convert(const std::byte* codes, const F::V (&scale)[kParts], std::byte* out) {
    Vectors::Block x = Vectors::decode_block<kFrom>(codes);
    for (int part = 0; part < kParts; ++part) {
      if constexpr (kDivide) {
        x.v[part] = F::divide(F::multiply(x.v[part], F::all(Fp8<kFrom>::kFactor)), scale[part]);
      } else {
        x.v[part] = F::multiply(x.v[part], scale[part]);
      }
    }
    Vectors::store_block<kTo>(out, x);
  }

  // Whether any of `count` codes is NaN; count >= kBytes.
  static bool any_nan(const std::byte* codes, uint64_t count) {
    Vectors::I nan = Vectors::zero();
    for (uint64_t i = 0; i + Vectors::kBytes <= count; i += Vectors::kBytes)
      nan = Vectors::either(nan, Fp8<kFrom>::nan(Vectors::load(codes + i)));
    nan = Vectors::either(nan, Fp8<kFrom>::nan(Vectors::load(codes + count - Vectors::kBytes)));
    return Vectors::any(nan);
  }

  // A stretch with one scale.
  static uint64_t stretch(float s, const std::byte* codes, std::byte* out, uint64_t count) {
    if (count < Vectors::kBytes || !is_plain(s) || any_nan(codes, count))
      return dequantize_slowly(kFrom, kTo, kDivide, &s, 0, codes, out, count);
    F::V scale[kParts];
    for (F::V& part : scale) part = F::all(kDivide ? s : s * Fp8<kFrom>::kFactor);
    uint64_t i = 0;
    for (; i + 16 <= count; i += 16) convert(codes + i, scale, out + kOut * i);
    // The last sixteen once more when some are left: they overlap what is done.
    if (i < count) convert(codes + count - 16, scale, out + kOut * (count - 16));
    return 0;
  }

  // A stretch with a scale per element.
  static uint64_t columns(const float* scales, const std::byte* codes, std::byte* out, uint64_t count) {
    uint64_t overflowed = 0, i = 0;
    for (; i + Vectors::kBytes <= count; i += Vectors::kBytes) {
      bool plain = !any_nan(codes + i, Vectors::kBytes);
      for (uint64_t e = i; e < i + Vectors::kBytes; ++e) plain &= is_plain(scales[e]);
      if (!plain) {
        overflowed +=
            dequantize_slowly(kFrom, kTo, kDivide, scales + i, 1, codes + i, out + kOut * i, Vectors::kBytes);
        continue;
      }
      for (uint64_t at = i; at < i + Vectors::kBytes; at += 16) {
        F::V scale[kParts];
        for (int part = 0; part < kParts; ++part) {
          scale[part] = F::load(scales + at + static_cast<uint64_t>(part * F::kWidth));
          if constexpr (!kDivide) scale[part] = F::multiply(scale[part], F::all(Fp8<kFrom>::kFactor));
        }
        convert(codes + at, scale, out + kOut * at);
      }
    }
    if (i == count) return overflowed;
    return overflowed +
           dequantize_slowly(kFrom, kTo, kDivide, scales + i, 1, codes + i, out + kOut * i, count - i);
  }

  static uint64_t whole(const ScaledRun& run, const std::byte* codes, std::byte* out) {
    uint64_t overflowed = 0;
    uint64_t row = run.first / run.cols, column = run.first % run.cols;
    for (uint64_t done = 0; done < run.count; ++row, column = 0) {
      const float* scales = run.scales + (row / run.block_rows) * run.row_stride;
      const uint64_t left = run.count - done, to_end = run.cols - column;
      const uint64_t end = column + (left < to_end ? left : to_end);
      if (run.block_cols == 1 && run.col_stride == 1) {
        overflowed += columns(scales + column, codes + done, out + kOut * done, end - column);
        done += end - column;
        continue;
      }
      uint64_t block = column / run.block_cols, in_block = run.block_cols - column % run.block_cols;
      while (column < end) {
        const uint64_t length = in_block < end - column ? in_block : end - column;
        overflowed += stretch(scales[block * run.col_stride], codes + done, out + kOut * done, length);
        done += length;
        column += length;
        in_block = run.block_cols;
        ++block;
      }
    }
    return overflowed;
  }
};

template <DType kFrom, DType kTo>
uint64_t dequantize_to(const ScaledRun& run, const std::byte* codes, std::byte* out) {
  return run.divide ? Dequantizer<kFrom, kTo, true>::whole(run, codes, out)
                    : Dequantizer<kFrom, kTo, false>::whole(run, codes, out);
}
template <DType kFrom>
uint64_t dequantize_from(const ScaledRun& run, const std::byte* codes, std::byte* out) {
  if (run.to == DType::BF16) return dequantize_to<kFrom, DType::BF16>(run, codes, out);
  if (run.to == DType::F16) return dequantize_to<kFrom, DType::F16>(run, codes, out);
  return dequantize_to<kFrom, DType::F32>(run, codes, out);
}

uint64_t dequantize_f8(const ScaledRun& run, const std::byte* codes, std::byte* out) noexcept {
  switch (run.from) {
    case DType::F8_E5M2:
      return dequantize_from<DType::F8_E5M2>(run, codes, out);
    case DType::F8_E4M3FNUZ:
      return dequantize_from<DType::F8_E4M3FNUZ>(run, codes, out);
    case DType::F8_E5M2FNUZ:
      return dequantize_from<DType::F8_E5M2FNUZ>(run, codes, out);
    default:
      return dequantize_from<DType::F8_E4M3>(run, codes, out);
  }
}

}  // namespace
}  // namespace tftf::simd
