// The data pass over vectors. A chunk is first counted as if all its elements were finite and ordinary; when
// its largest magnitude says otherwise, it is counted again with masks. Include after an instruction set's
// vectors.
#pragma once

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
struct Bf16Rules : FloatRules {
  using L = Vectors::Lanes16;
  static constexpr int64_t kNormal = 1 << 7, kInfinity = 0x7F80, kFirstNan = 0x7F81,
                           kExtreme = (127 + 64) << 7;
};
struct F16Rules : FloatRules {
  using L = Vectors::Lanes16;
  static constexpr int64_t kNormal = 1 << 10, kInfinity = 0x7C00, kFirstNan = 0x7C01;
};
struct F32Rules : FloatRules {
  using L = Vectors::Lanes32;
  static constexpr int64_t kNormal = 1 << 23, kInfinity = 0x7F800000, kFirstNan = 0x7F800001;
  static constexpr int64_t kExtreme = int64_t{127 + 64} << 23;
};
struct F64Rules : FloatRules {
  using L = Vectors::Lanes64;
  static constexpr int64_t kNormal = int64_t{1} << 52, kInfinity = 0x7FF0000000000000;
  static constexpr int64_t kFirstNan = kInfinity + 1, kExtreme = int64_t{1023 + 64} << 52;
};
struct E4M3 : FloatRules {
  using L = Vectors::Lanes8;
  static constexpr int64_t kNormal = 1 << 3, kFirstNan = 0x7F;
};
struct E5M2 : FloatRules {
  using L = Vectors::Lanes8;
  static constexpr int64_t kNormal = 1 << 2, kInfinity = 0x7C, kFirstNan = 0x7D;
};
struct E4M3Fnuz : FloatRules {
  using L = Vectors::Lanes8;
  static constexpr int64_t kNormal = 1 << 3, kNanCode = 0x80;
};
struct E5M2Fnuz : FloatRules {
  using L = Vectors::Lanes8;
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
struct E8M0 : UnsignedInt<Vectors::Lanes8> {
  static constexpr int64_t kNanCode = 0xFF;
  static constexpr bool kHasZero = false;
};

template <class L>
constexpr int kBits = 8 * static_cast<int>(sizeof(typename L::Signed));
template <class L>
constexpr uint64_t kLanes = Vectors::kBytes / sizeof(typename L::Signed);

template <class L>
uint64_t sum_lanes(Vectors::I counts) {
  typename L::Unsigned lanes[kLanes<L>];
  Vectors::store(reinterpret_cast<std::byte*>(lanes), counts);
  uint64_t sum = 0;
  for (typename L::Unsigned lane : lanes) sum += lane;
  return sum;
}
template <class L>
int64_t smallest_lane(Vectors::I keys) {
  typename L::Signed lanes[kLanes<L>];
  Vectors::store(reinterpret_cast<std::byte*>(lanes), keys);
  int64_t best = lanes[0];
  for (typename L::Signed lane : lanes) best = lane < best ? lane : best;
  return best;
}
template <class L>
int64_t largest_lane(Vectors::I keys) {
  typename L::Signed lanes[kLanes<L>];
  Vectors::store(reinterpret_cast<std::byte*>(lanes), keys);
  int64_t best = lanes[0];
  for (typename L::Signed lane : lanes) best = lane > best ? lane : best;
  return best;
}

// Vectors counted before the lanes are added up: at most 255, the lanes of 8 bits hold no more.
constexpr uint64_t kChunkVectors = 240;

// Counts one chunk into `scan`. Without kMasked it gives up, changing nothing, and returns false when it
// meets a NaN, an infinity or an extreme value.
template <class R, bool kMasked>
bool scan_chunk(const std::byte* data, uint64_t vectors, Scan& scan) {
  using L = typename R::L;
  using V = Vectors::I;
  constexpr bool kFloat = R::kOrder == Order::kSignMagnitude;
  constexpr bool kByMagnitude = R::kFirstNan != -1, kByCode = R::kNanCode != -1;
  constexpr int64_t kLimit = R::kExtreme != -1    ? R::kExtreme
                             : R::kInfinity != -1 ? R::kInfinity
                                                  : R::kFirstNan;
  constexpr int64_t kSign = static_cast<int64_t>(~uint64_t{0} << (kBits<L> - 1));
  const V none = Vectors::zero(), below_sign = L::all(~kSign);
  V zeros = none, subnormals = none, negatives = none, nans = none, infs = none, extremes = none;
  V peak = none, low = L::all(~kSign), high = L::all(kSign);
  for (uint64_t v = 0; v < vectors; ++v) {
    const V x = Vectors::load(data + Vectors::kBytes * v);
    const V minus = L::greater(none, x);
    V magnitude = x, key = x, nan = none, special = none;
    if constexpr (kFloat) {
      magnitude = Vectors::both(x, below_sign);
      key = Vectors::differing(x, Vectors::both(minus, below_sign));
      // Zeros, and the NaN of a FNUZ type, are taken off afterwards.
      subnormals = L::subtract(subnormals, L::greater(L::all(R::kNormal), magnitude));
    } else if constexpr (R::kOrder == Order::kUnsigned) {
      key = Vectors::differing(x, L::all(kSign));
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
        const V inf = L::equal(magnitude, L::all(R::kInfinity));
        infs = L::subtract(infs, inf);
        special = Vectors::either(special, inf);
      }
      if constexpr (R::kExtreme != -1) {
        const V big = L::greater(magnitude, L::all(R::kExtreme - 1));
        extremes = L::subtract(extremes, Vectors::without(big, special));
      }
    } else if constexpr (kByCode) {
      peak = Vectors::either(peak, nan);
    } else if constexpr (kByMagnitude) {
      peak = L::largest(peak, magnitude);
    }
    // The key of -0 is -1.
    if constexpr (kFloat) {
      negatives = L::subtract(negatives, Vectors::without(L::greater(L::all(-1), key), nan));
    } else if constexpr (R::kOrder == Order::kSigned) {
      negatives = L::subtract(negatives, minus);
    }
    if constexpr (kMasked) {
      low = L::smallest(low, Vectors::select(special, low, key));
      high = L::largest(high, Vectors::select(special, high, key));
    } else {
      low = L::smallest(low, key);
      high = L::largest(high, key);
    }
  }
  if constexpr (!kMasked && kByCode) {
    if (Vectors::any(peak)) return false;
  }
  if constexpr (!kMasked && kByMagnitude) {
    const V over = L::greater(peak, L::all(kLimit - 1));
    if (Vectors::any(over)) return false;
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
  if constexpr (R::kOrder == Order::kUnsigned && kBits<L> < 64) {
    smallest -= kSign;
    largest -= kSign;
  }
  scan.min_key = smallest < scan.min_key ? smallest : scan.min_key;
  scan.max_key = largest > scan.max_key ? largest : scan.max_key;
  return true;
}

// Whether the vectors all repeat the element (its bits filling 64).
bool repeats(const std::byte* data, uint64_t vectors, uint64_t element) {
  const Vectors::I want = Vectors::Lanes64::all(static_cast<int64_t>(element));
  for (uint64_t v = 0; v < vectors; ++v) {
    const Vectors::I x = Vectors::load(data + Vectors::kBytes * v);
    const Vectors::I different = Vectors::differing(x, want);
    if (Vectors::any(different)) return false;
  }
  return true;
}

template <class R>
void scan_run(DType dtype, const std::byte* data, uint64_t first_index, uint64_t count, Scan& into) {
  using L = typename R::L;
  const uint64_t vectors = count / kLanes<L>;
  Scan run{};
  for (uint64_t v = 0; v < vectors; v += kChunkVectors) {
    const uint64_t length = vectors - v < kChunkVectors ? vectors - v : kChunkVectors;
    const std::byte* chunk = data + Vectors::kBytes * v;
    if (scan_chunk<R, false>(chunk, length, run)) continue;
    const uint64_t nan = run.nan, inf = run.inf;
    scan_chunk<R, true>(chunk, length, run);
    if ((nan == 0 && run.nan > 0) || (inf == 0 && run.inf > 0)) {
      Scan exact{};
      scalar::scan(dtype, chunk, first_index + v * kLanes<L>, length * kLanes<L>, exact);
      run.first_nan = exact.first_nan < run.first_nan ? exact.first_nan : run.first_nan;
      run.first_inf = exact.first_inf < run.first_inf ? exact.first_inf : run.first_inf;
    }
  }
  if (vectors > 0) {
    typename L::Unsigned first;
    __builtin_memcpy(&first, data, sizeof(first));
    run.count = vectors * kLanes<L>;
    run.first_bits = first;
    // The element's bits in every lane of 64.
    const uint64_t ones = ~uint64_t{0} / (~uint64_t{0} >> (64 - kBits<L>));
    run.constant = into.constant && repeats(data, vectors, run.first_bits * ones);
    merge(into, run);
  }
  const uint64_t done = vectors * kLanes<L>;
  if (done < count)
    scalar::scan(dtype, data + Vectors::kBytes * vectors, first_index + done, count - done, into);
}

void scan(DType dtype, const std::byte* data, uint64_t first_index, uint64_t count, Scan& into) noexcept {
  switch (dtype) {
    case DType::BF16:
      return scan_run<Bf16Rules>(dtype, data, first_index, count, into);
    case DType::F16:
      return scan_run<F16Rules>(dtype, data, first_index, count, into);
    case DType::F32:
      return scan_run<F32Rules>(dtype, data, first_index, count, into);
    case DType::F64:
      return scan_run<F64Rules>(dtype, data, first_index, count, into);
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
      return scan_run<UnsignedInt<Vectors::Lanes8>>(dtype, data, first_index, count, into);
    case DType::U16:
      return scan_run<UnsignedInt<Vectors::Lanes16>>(dtype, data, first_index, count, into);
    case DType::U32:
      return scan_run<UnsignedInt<Vectors::Lanes32>>(dtype, data, first_index, count, into);
    case DType::U64:
      return scan_run<UnsignedInt<Vectors::Lanes64>>(dtype, data, first_index, count, into);
    case DType::I8:
      return scan_run<SignedInt<Vectors::Lanes8>>(dtype, data, first_index, count, into);
    case DType::I16:
      return scan_run<SignedInt<Vectors::Lanes16>>(dtype, data, first_index, count, into);
    case DType::I32:
      return scan_run<SignedInt<Vectors::Lanes32>>(dtype, data, first_index, count, into);
    case DType::I64:
      return scan_run<SignedInt<Vectors::Lanes64>>(dtype, data, first_index, count, into);
    case DType::BOOL: {
      Scan bytes{};
      scan_run<UnsignedInt<Vectors::Lanes8>>(DType::U8, data, first_index, count, bytes);
      if (bytes.max_key > 1) return scalar::scan(dtype, data, first_index, count, into);
      return merge(into, bytes);
    }
    default:
      return scalar::scan(dtype, data, first_index, count, into);
  }
}

}  // namespace
}  // namespace tftf::simd
