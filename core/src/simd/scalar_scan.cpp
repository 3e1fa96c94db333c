// The specification of the data pass: classification of elements by their bits, and the fixed-order sums.
#include <iterator>
#include <type_traits>

#include "simd/convert.h"
#include "simd/tables.h"
#include "tftf/simd/cast.h"

namespace tftf::simd {
namespace {

// How the bits of a dtype are read.
struct Rules {
  uint32_t bits;           // of an element
  uint32_t fraction_bits;  // of a float
  uint64_t infinity;       // the magnitude, kNever when there is none
  uint64_t first_nan;      // the smallest NaN magnitude
  uint64_t extreme;        // the smallest magnitude >= 2^64
  uint64_t nan_code;       // the one NaN code of a FNUZ type
};
constexpr uint64_t kNever = UINT64_MAX;
constexpr Rules kF64{64, 52, kF64Infinity, kF64Infinity + 1, uint64_t{1023 + 64} << 52, kNever};
constexpr Rules kF32{32, 23, kF32Infinity, kF32Infinity + 1, uint64_t{127 + 64} << 23, kNever};
constexpr Rules kBF16{16, 7, 0x7F80, 0x7F81, uint64_t{127 + 64} << 7, kNever};
constexpr Rules kF16{16, 10, 0x7C00, 0x7C01, kNever, kNever};
constexpr Rules kE4M3{8, 3, kNever, 0x7F, kNever, kNever};
constexpr Rules kE5M2{8, 2, 0x7C, 0x7D, kNever, kNever};
constexpr Rules kE4M3Fnuz{8, 3, kNever, kNever, kNever, 0x80};
constexpr Rules kE5M2Fnuz{8, 2, kNever, kNever, kNever, 0x80};
constexpr Rules kE2M3{6, 3, kNever, kNever, kNever, kNever};
constexpr Rules kE3M2{6, 2, kNever, kNever, kNever, kNever};
constexpr Rules kE2M1{4, 1, kNever, kNever, kNever, kNever};

// What the bits of one element say. `key` orders the values: non-negative ones by magnitude, negative ones by
// its complement.
struct Traits {
  bool nan = false, inf = false, zero = false, subnormal = false, negative = false, extreme = false;
  int64_t key = 0;
};

template <const Rules& kRules>
struct Float {
  static Traits classify(uint64_t bits) {
    constexpr uint64_t kSign = uint64_t{1} << (kRules.bits - 1);
    const uint64_t magnitude = bits & (kSign - 1);
    const bool minus = (bits & kSign) != 0;
    Traits t;
    t.nan = magnitude >= kRules.first_nan || bits == kRules.nan_code;
    t.inf = magnitude == kRules.infinity;
    t.zero = magnitude == 0 && !t.nan;
    t.subnormal = magnitude != 0 && (magnitude >> kRules.fraction_bits) == 0;
    t.negative = minus && magnitude != 0 && !t.nan;
    t.extreme = magnitude >= kRules.extreme && !t.inf && !t.nan;
    t.key = static_cast<int64_t>(minus ? ~magnitude : magnitude);
    return t;
  }
};
struct E8M0 {
  static Traits classify(uint64_t bits) {
    Traits t;
    t.nan = bits == 0xFF;
    t.key = static_cast<int64_t>(bits);
    return t;
  }
};
template <class Integer>
struct Whole {
  static Traits classify(uint64_t bits) {
    const auto value = static_cast<Integer>(bits);
    Traits t;
    t.zero = value == 0;
    t.negative = value < 0;
    t.key = static_cast<int64_t>(value);
    // The top bit flipped: unsigned order becomes signed order.
    if constexpr (std::is_same_v<Integer, uint64_t>)
      t.key = static_cast<int64_t>(value ^ (uint64_t{1} << 63));
    return t;
  }
};

void count(const Traits& t, uint64_t index, Scan& scan) {
  scan.zero += t.zero;
  scan.subnormal += t.subnormal;
  scan.negative += t.negative;
  scan.extreme += t.extreme;
  if (t.nan) {
    ++scan.nan;
    if (index < scan.first_nan) scan.first_nan = index;
  } else if (t.inf) {
    ++scan.inf;
    if (index < scan.first_inf) scan.first_inf = index;
  } else {
    if (t.key < scan.min_key) scan.min_key = t.key;
    if (t.key > scan.max_key) scan.max_key = t.key;
  }
}

// A run of whole words; `Rule::classify` reads the bits.
template <class Word, class Rule>
Scan scan_words(const std::byte* data, uint64_t first_index, uint64_t length) {
  Scan scan;
  if (length == 0) return scan;
  const Word first = load_le<Word>(data);
  for (size_t i = 0; i < length; ++i) {
    const Word word = load_le<Word>(data + sizeof(Word) * i);
    scan.constant = scan.constant && word == first;
    count(Rule::classify(word), first_index + i, scan);
  }
  scan.count = length;
  scan.first_bits = first;
  return scan;
}

// Sub-byte types have no NaN or infinity, so positions do not matter and the codes may be counted first.
template <const Rules& kRules>
void scan_sub_byte(const std::byte* data, uint64_t length, Scan& into) {
  if (length == 0) return;
  uint64_t codes[uint64_t{1} << kRules.bits] = {};
  if constexpr (kRules.bits == 4) {
    uint64_t bytes[256] = {};
    for (size_t i = 0; i < length / 2; ++i) ++bytes[std::to_integer<uint8_t>(data[i])];
    for (size_t pair = 0; pair < 256; ++pair) {
      codes[pair % 16] += bytes[pair];
      codes[pair / 16] += bytes[pair];
    }
  } else {
    for (uint64_t i = 0; i < length; ++i) ++codes[sub_byte_code(data, i, kRules.bits)];
  }
  Scan scan;
  scan.count = length;
  scan.first_bits = sub_byte_code(data, 0, kRules.bits);
  scan.constant = codes[scan.first_bits] == length;
  for (uint64_t code = 0; code < std::size(codes); ++code) {
    if (codes[code] == 0) continue;
    const Traits t = Float<kRules>::classify(code);
    scan.zero += t.zero * codes[code];
    scan.subnormal += t.subnormal * codes[code];
    scan.negative += t.negative * codes[code];
    if (t.key < scan.min_key) scan.min_key = t.key;
    if (t.key > scan.max_key) scan.max_key = t.key;
  }
  merge(into, scan);
}

void scan_bool(const std::byte* data, uint64_t first_index, uint64_t length, Scan& into) {
  Scan scan = scan_words<uint8_t, Whole<uint8_t>>(data, first_index, length);
  for (size_t i = 0; i < length; ++i) {
    if (std::to_integer<uint8_t>(data[i]) <= 1) continue;
    ++scan.bad_bool;
    if (scan.first_bad_bool == Scan::kNone) scan.first_bad_bool = first_index + i;
  }
  merge(into, scan);
}

void scan_complex(const std::byte* data, uint64_t first_index, uint64_t length, Scan& into) {
  for (size_t i = 0; i < length; ++i) {
    Scan element;
    count(Float<kF32>::classify(load_le<uint32_t>(data + 8 * i)), first_index + i, element);
    count(Float<kF32>::classify(load_le<uint32_t>(data + 8 * i + 4)), first_index + i, element);
    element.count = 1;
    element.first_bits = load_le<uint64_t>(data + 8 * i);
    element.nan = element.nan != 0;
    element.inf = element.inf != 0;
    element.zero = element.zero == 2;
    element.subnormal = element.subnormal != 0;
    element.negative = 0;
    element.extreme = element.extreme != 0;
    merge(into, element);
  }
}

}  // namespace

namespace scalar {

void scan(DType dtype, const std::byte* data, uint64_t first, uint64_t length, Scan& into) noexcept {
  switch (dtype) {
    case DType::BOOL:
      return scan_bool(data, first, length, into);
    case DType::U8:
      return merge(into, scan_words<uint8_t, Whole<uint8_t>>(data, first, length));
    case DType::I8:
      return merge(into, scan_words<uint8_t, Whole<int8_t>>(data, first, length));
    case DType::U16:
      return merge(into, scan_words<uint16_t, Whole<uint16_t>>(data, first, length));
    case DType::I16:
      return merge(into, scan_words<uint16_t, Whole<int16_t>>(data, first, length));
    case DType::U32:
      return merge(into, scan_words<uint32_t, Whole<uint32_t>>(data, first, length));
    case DType::I32:
      return merge(into, scan_words<uint32_t, Whole<int32_t>>(data, first, length));
    case DType::U64:
      return merge(into, scan_words<uint64_t, Whole<uint64_t>>(data, first, length));
    case DType::I64:
      return merge(into, scan_words<uint64_t, Whole<int64_t>>(data, first, length));
    case DType::F64:
      return merge(into, scan_words<uint64_t, Float<kF64>>(data, first, length));
    case DType::F32:
      return merge(into, scan_words<uint32_t, Float<kF32>>(data, first, length));
    case DType::BF16:
      return merge(into, scan_words<uint16_t, Float<kBF16>>(data, first, length));
    case DType::F16:
      return merge(into, scan_words<uint16_t, Float<kF16>>(data, first, length));
    case DType::F8_E4M3:
      return merge(into, scan_words<uint8_t, Float<kE4M3>>(data, first, length));
    case DType::F8_E5M2:
      return merge(into, scan_words<uint8_t, Float<kE5M2>>(data, first, length));
    case DType::F8_E4M3FNUZ:
      return merge(into, scan_words<uint8_t, Float<kE4M3Fnuz>>(data, first, length));
    case DType::F8_E5M2FNUZ:
      return merge(into, scan_words<uint8_t, Float<kE5M2Fnuz>>(data, first, length));
    case DType::F8_E8M0:
      return merge(into, scan_words<uint8_t, E8M0>(data, first, length));
    case DType::F6_E2M3:
      return scan_sub_byte<kE2M3>(data, length, into);
    case DType::F6_E3M2:
      return scan_sub_byte<kE3M2>(data, length, into);
    case DType::F4:
      return scan_sub_byte<kE2M1>(data, length, into);
    case DType::C64:
      return scan_complex(data, first, length, into);
  }
}

void moments(DType dtype, const std::byte* data, uint64_t first, uint64_t length, Moments& into) noexcept {
  constexpr uint64_t kChunk = 256;  // whole bytes also for sub-byte elements
  double values[kChunk];
  for (uint64_t done = 0; done < length; done += kChunk) {
    const uint64_t part = length - done < kChunk ? length - done : kChunk;
    cast(kScalar, dtype, DType::F64, data + done * dtype_bits(dtype) / 8,
         reinterpret_cast<std::byte*>(values), part);
    for (uint64_t i = 0; i < part; ++i) {
      const double x = values[i];
      if (!is_finite(x)) continue;
      if (into.finite == 0) into.pivot = x;
      ++into.finite;
      const double d = x - into.pivot;
      const uint64_t lane = (first + done + i) % 16;
      into.sum[lane] += d;
      into.square[lane] += d * d;
    }
  }
}

}  // namespace scalar
}  // namespace tftf::simd
