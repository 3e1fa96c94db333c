// The data pass, AVX2. A chunk is first counted as if all its elements were finite and ordinary; when its
// largest magnitude says otherwise, it is counted again with masks.
#include "simd/avx2.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "simd/avx2_begin.h"
#include "simd/avx2_lanes.h"

namespace tftf::simd {
namespace {

enum class Order { kSignMagnitude, kSigned, kUnsigned };

// How the bits of a dtype are read. kInfinity, kFirstNan and kExtreme are magnitudes, kNanCode is a whole
// code; -1 means there is none.
struct FloatRules {
  static constexpr Order kOrder = Order::kSignMagnitude;
  static constexpr int64_t kInfinity = -1, kFirstNan = -1, kExtreme = -1, kNanCode = -1;
  static constexpr bool kHasZero = true;
};
struct Bf16 : FloatRules {
  using L = Lanes16;
  static constexpr int64_t kNormal = 1 << 7, kInfinity = 0x7F80, kFirstNan = 0x7F81,
                           kExtreme = (127 + 64) << 7;
};
struct F16 : FloatRules {
  using L = Lanes16;
  static constexpr int64_t kNormal = 1 << 10, kInfinity = 0x7C00, kFirstNan = 0x7C01;
};
struct F32 : FloatRules {
  using L = Lanes32;
  static constexpr int64_t kNormal = 1 << 23, kInfinity = 0x7F800000, kFirstNan = 0x7F800001;
  static constexpr int64_t kExtreme = int64_t{127 + 64} << 23;
};
struct F64 : FloatRules {
  using L = Lanes64;
  static constexpr int64_t kNormal = int64_t{1} << 52, kInfinity = 0x7FF0000000000000;
  static constexpr int64_t kFirstNan = kInfinity + 1, kExtreme = int64_t{1023 + 64} << 52;
};
struct E4M3 : FloatRules {
  using L = Lanes8;
  static constexpr int64_t kNormal = 1 << 3, kFirstNan = 0x7F;
};
struct E5M2 : FloatRules {
  using L = Lanes8;
  static constexpr int64_t kNormal = 1 << 2, kInfinity = 0x7C, kFirstNan = 0x7D;
};
struct E4M3Fnuz : FloatRules {
  using L = Lanes8;
  static constexpr int64_t kNormal = 1 << 3, kNanCode = 0x80;
};
struct E5M2Fnuz : FloatRules {
  using L = Lanes8;
  static constexpr int64_t kNormal = 1 << 2, kNanCode = 0x80;
};
template <class Lanes>
struct SignedInt : FloatRules {
  using L = Lanes;
  static constexpr Order kOrder = Order::kSigned;
};
template <class Lanes>
struct UnsignedInt : FloatRules {
  using L = Lanes;
  static constexpr Order kOrder = Order::kUnsigned;
};
struct E8M0 : UnsignedInt<Lanes8> {
  static constexpr int64_t kNanCode = 0xFF;
  static constexpr bool kHasZero = false;
};

// Vectors counted before the lanes are added up: at most 255, the lanes of 8 bits hold no more.
constexpr uint64_t kChunkVectors = 240;

// Counts one chunk into `scan`. Without kMasked it gives up, changing nothing, and returns false when it
// meets a NaN, an infinity or an extreme value.
template <class R, bool kMasked>
bool scan_chunk(const std::byte* data, uint64_t vectors, Scan& scan) {
  using L = typename R::L;
  constexpr bool kFloat = R::kOrder == Order::kSignMagnitude;
  constexpr bool kByMagnitude = R::kFirstNan != -1, kByCode = R::kNanCode != -1;
  constexpr int64_t kLimit = R::kExtreme != -1    ? R::kExtreme
                             : R::kInfinity != -1 ? R::kInfinity
                                                  : R::kFirstNan;
  constexpr int64_t kSign = static_cast<int64_t>(~uint64_t{0} << (L::kBits - 1));
  const __m256i none = _mm256_setzero_si256(), below_sign = L::all(~kSign);
  __m256i zeros = none, subnormals = none, negatives = none, nans = none, infs = none, extremes = none;
  __m256i peak = none, low = L::all(~kSign), high = L::all(kSign);
  for (uint64_t v = 0; v < vectors; ++v) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data) + v);
    const __m256i minus = L::greater(none, x);
    __m256i magnitude = x, key = x, nan = none, special = none;
    if constexpr (kFloat) {
      magnitude = _mm256_and_si256(x, below_sign);
      key = _mm256_xor_si256(x, _mm256_and_si256(minus, below_sign));
      // Zeros, and the NaN of a FNUZ type, are taken off afterwards.
      subnormals = L::subtract(subnormals, L::greater(L::all(R::kNormal), magnitude));
    } else if constexpr (R::kOrder == Order::kUnsigned) {
      key = _mm256_xor_si256(x, L::all(kSign));
    }
    if constexpr (kByCode) nan = L::equal(x, L::all(R::kNanCode));
    if constexpr (kByMagnitude && kMasked) nan = L::greater(magnitude, L::all(R::kFirstNan - 1));
    if constexpr (R::kHasZero) {
      // A FNUZ type has no -0.
      zeros = L::subtract(zeros, L::equal(kByCode ? x : magnitude, none));
    }
    if constexpr (kMasked) {
      nans = L::subtract(nans, nan);
      special = nan;
      if constexpr (R::kInfinity != -1) {
        const __m256i inf = L::equal(magnitude, L::all(R::kInfinity));
        infs = L::subtract(infs, inf);
        special = _mm256_or_si256(special, inf);
      }
      if constexpr (R::kExtreme != -1) {
        const __m256i big = L::greater(magnitude, L::all(R::kExtreme - 1));
        extremes = L::subtract(extremes, _mm256_andnot_si256(special, big));
      }
    } else if constexpr (kByCode) {
      peak = _mm256_or_si256(peak, nan);
    } else if constexpr (kByMagnitude) {
      peak = L::largest(peak, magnitude);
    }
    // The key of -0 is -1.
    if constexpr (kFloat) {
      negatives = L::subtract(negatives, _mm256_andnot_si256(nan, L::greater(L::all(-1), key)));
    } else if constexpr (R::kOrder == Order::kSigned) {
      negatives = L::subtract(negatives, minus);
    }
    if constexpr (kMasked) {
      low = L::smallest(low, _mm256_blendv_epi8(key, low, special));
      high = L::largest(high, _mm256_blendv_epi8(key, high, special));
    } else {
      low = L::smallest(low, key);
      high = L::largest(high, key);
    }
  }
  if constexpr (!kMasked && kByCode) {
    if (_mm256_testz_si256(peak, peak) == 0) return false;
  }
  if constexpr (!kMasked && kByMagnitude) {
    const __m256i over = L::greater(peak, L::all(kLimit - 1));
    if (_mm256_testz_si256(over, over) == 0) return false;
  }
  const uint64_t zero = sum_lanes<L>(zeros), nan = sum_lanes<L>(nans);
  scan.zero += zero;
  scan.nan += nan;
  scan.inf += sum_lanes<L>(infs);
  if constexpr (kFloat) scan.subnormal += sum_lanes<L>(subnormals) - zero - (kByCode ? nan : 0);
  scan.negative += sum_lanes<L>(negatives);
  scan.extreme += sum_lanes<L>(extremes);
  int64_t smallest = smallest_lane<L>(low), largest = largest_lane<L>(high);
  if (smallest > largest) return true;  // all special
  if constexpr (R::kOrder == Order::kUnsigned && L::kBits < 64) {
    smallest -= kSign;
    largest -= kSign;
  }
  scan.min_key = smallest < scan.min_key ? smallest : scan.min_key;
  scan.max_key = largest > scan.max_key ? largest : scan.max_key;
  return true;
}

// Whether the 32-byte vectors all repeat the element (its bits filling 64).
bool repeats(const std::byte* data, uint64_t vectors, uint64_t element) {
  const __m256i want = _mm256_set1_epi64x(static_cast<int64_t>(element));
  for (uint64_t v = 0; v < vectors; ++v) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(data) + v);
    const __m256i different = _mm256_xor_si256(x, want);
    if (_mm256_testz_si256(different, different) == 0) return false;
  }
  return true;
}

template <class R>
void scan_run(DType dtype, const std::byte* data, uint64_t first_index, uint64_t count, Scan& into) {
  using L = typename R::L;
  const uint64_t vectors = count / L::kCount;
  Scan run{};
  for (uint64_t v = 0; v < vectors; v += kChunkVectors) {
    const uint64_t length = vectors - v < kChunkVectors ? vectors - v : kChunkVectors;
    const std::byte* chunk = data + 32 * v;
    if (scan_chunk<R, false>(chunk, length, run)) continue;
    const uint64_t nan = run.nan, inf = run.inf;
    scan_chunk<R, true>(chunk, length, run);
    if ((nan == 0 && run.nan > 0) || (inf == 0 && run.inf > 0)) {
      Scan exact{};
      scalar::scan(dtype, chunk, first_index + v * L::kCount, length * L::kCount, exact);
      run.first_nan = exact.first_nan < run.first_nan ? exact.first_nan : run.first_nan;
      run.first_inf = exact.first_inf < run.first_inf ? exact.first_inf : run.first_inf;
    }
  }
  if (vectors > 0) {
    typename L::Unsigned first;
    __builtin_memcpy(&first, data, sizeof(first));
    run.count = vectors * L::kCount;
    run.first_bits = first;
    // The element's bits in every lane of 64.
    const uint64_t ones = ~uint64_t{0} / (~uint64_t{0} >> (64 - L::kBits));
    run.constant = into.constant && repeats(data, vectors, run.first_bits * ones);
    merge(into, run);
  }
  const uint64_t done = vectors * L::kCount;
  if (done < count) scalar::scan(dtype, data + 32 * vectors, first_index + done, count - done, into);
}

}  // namespace

void avx2::scan(DType dtype, const std::byte* data, uint64_t first_index, uint64_t count,
                Scan& into) noexcept {
  switch (dtype) {
    case DType::BF16:
      return scan_run<Bf16>(dtype, data, first_index, count, into);
    case DType::F16:
      return scan_run<F16>(dtype, data, first_index, count, into);
    case DType::F32:
      return scan_run<F32>(dtype, data, first_index, count, into);
    case DType::F64:
      return scan_run<F64>(dtype, data, first_index, count, into);
    case DType::F8_E4M3:
      return scan_run<E4M3>(dtype, data, first_index, count, into);
    case DType::F8_E5M2:
      return scan_run<E5M2>(dtype, data, first_index, count, into);
    case DType::F8_E4M3FNUZ:
      return scan_run<E4M3Fnuz>(dtype, data, first_index, count, into);
    case DType::F8_E5M2FNUZ:
      return scan_run<E5M2Fnuz>(dtype, data, first_index, count, into);
    case DType::F8_E8M0:
      return scan_run<E8M0>(dtype, data, first_index, count, into);
    case DType::U8:
      return scan_run<UnsignedInt<Lanes8>>(dtype, data, first_index, count, into);
    case DType::U16:
      return scan_run<UnsignedInt<Lanes16>>(dtype, data, first_index, count, into);
    case DType::U32:
      return scan_run<UnsignedInt<Lanes32>>(dtype, data, first_index, count, into);
    case DType::U64:
      return scan_run<UnsignedInt<Lanes64>>(dtype, data, first_index, count, into);
    case DType::I8:
      return scan_run<SignedInt<Lanes8>>(dtype, data, first_index, count, into);
    case DType::I16:
      return scan_run<SignedInt<Lanes16>>(dtype, data, first_index, count, into);
    case DType::I32:
      return scan_run<SignedInt<Lanes32>>(dtype, data, first_index, count, into);
    case DType::I64:
      return scan_run<SignedInt<Lanes64>>(dtype, data, first_index, count, into);
    case DType::BOOL: {
      Scan bytes{};
      scan_run<UnsignedInt<Lanes8>>(DType::U8, data, first_index, count, bytes);
      if (bytes.max_key > 1) return scalar::scan(dtype, data, first_index, count, into);
      return merge(into, bytes);
    }
    default:
      return scalar::scan(dtype, data, first_index, count, into);
  }
}

}  // namespace tftf::simd

#include "simd/avx2_end.h"
#endif
