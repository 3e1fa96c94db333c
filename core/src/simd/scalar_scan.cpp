// The specification of the data pass: classification of elements by their bits, and the fixed-order sums.
#include <type_traits>

#include "simd/tables.h"
#include "tftf/base/bytes.h"
#include "tftf/simd/cast.h"
#include "tftf/simd/floats.h"

namespace tftf::simd {
namespace {

// What an element is, by dtype. For floats: F fraction bits, sign bit above E exponent bits; kNone as an
// infinity or first NaN magnitude means there is none.
struct FloatRules {
  uint32_t exponent_bits, fraction_bits;
  uint64_t infinity, first_nan;  // magnitudes
  uint64_t extreme;              // smallest magnitude >= 2^64
};
constexpr uint64_t kNone = UINT64_MAX;
constexpr FloatRules kF64Rules{11, 52, 0x7FF0000000000000, 0x7FF0000000000001, uint64_t{1023 + 64} << 52};
constexpr FloatRules kF32Rules{8, 23, 0x7F800000, 0x7F800001, uint64_t{127 + 64} << 23};
constexpr FloatRules kBF16Rules{8, 7, 0x7F80, 0x7F81, uint64_t{127 + 64} << 7};
constexpr FloatRules kF16Rules{5, 10, 0x7C00, 0x7C01, kNone};
constexpr FloatRules kE4M3Rules{4, 3, kNone, 0x7F, kNone};
constexpr FloatRules kE5M2Rules{5, 2, 0x7C, 0x7D, kNone};
constexpr FloatRules kE4M3FnuzRules{4, 3, kNone, kNone, kNone};
constexpr FloatRules kE5M2FnuzRules{5, 2, kNone, kNone, kNone};
constexpr FloatRules kE2M3Rules{2, 3, kNone, kNone, kNone};
constexpr FloatRules kE3M2Rules{3, 2, kNone, kNone, kNone};
constexpr FloatRules kE2M1Rules{2, 1, kNone, kNone, kNone};

struct Traits {
  bool nan = false, inf = false, zero = false, subnormal = false, negative = false, extreme = false;
  int64_t key = 0;
};

Traits classify_float(const FloatRules& rules, bool fnuz, uint64_t bits) {
  const uint64_t sign = uint64_t{1} << (rules.exponent_bits + rules.fraction_bits);
  const uint64_t magnitude = bits & (sign - 1);
  const bool minus = (bits & sign) != 0;
  Traits t;
  t.nan = (rules.first_nan != kNone && magnitude >= rules.first_nan) || (fnuz && bits == sign);
  if (t.nan) return t;
  t.inf = magnitude == rules.infinity;
  t.zero = magnitude == 0;
  t.subnormal = magnitude != 0 && (magnitude >> rules.fraction_bits) == 0;
  t.negative = minus && magnitude != 0;
  t.extreme = magnitude >= rules.extreme && !t.inf;
  t.key = static_cast<int64_t>(minus ? ~magnitude : magnitude);
  return t;
}
Traits classify_e8m0(uint64_t bits) {
  Traits t;
  t.nan = bits == 0xFF;
  t.key = static_cast<int64_t>(bits);
  return t;
}
Traits classify_integer(bool negative, int64_t key, bool zero) {
  Traits t;
  t.zero = zero;
  t.negative = negative;
  t.key = key;
  return t;
}

// The top bit flipped: unsigned order becomes signed order.
constexpr int64_t unsigned_key(uint64_t value) { return static_cast<int64_t>(value ^ (uint64_t{1} << 63)); }

void count_traits(const Traits& t, uint64_t index, Scan& scan) {
  if (t.nan) {
    ++scan.nan;
    if (index < scan.first_nan) scan.first_nan = index;
    return;
  }
  if (t.inf) {
    ++scan.inf;
    if (index < scan.first_inf) scan.first_inf = index;
  } else {
    if (t.key < scan.min_key) scan.min_key = t.key;
    if (t.key > scan.max_key) scan.max_key = t.key;
  }
  scan.zero += t.zero;
  scan.subnormal += t.subnormal;
  scan.negative += t.negative;
  scan.extreme += t.extreme;
}

// bits_of(i) gives an element's bits, classify(bits) its traits.
template <class BitsOf, class Classify>
void scan_run(uint64_t first_index, uint64_t count, Scan& scan, BitsOf bits_of, Classify classify) {
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bits = bits_of(i);
    if (i == 0) scan.first_bits = bits;
    scan.constant = scan.constant && bits == scan.first_bits;
    count_traits(classify(bits), first_index + i, scan);
  }
}

template <class Word, class Classify>
void scan_words(const std::byte* data, uint64_t first_index, uint64_t count, Scan& scan, Classify classify) {
  scan_run(
      first_index, count, scan,
      [data](size_t i) { return static_cast<uint64_t>(load_le<Word>(data + sizeof(Word) * i)); }, classify);
}
template <class Word>
void scan_floats(const std::byte* data, uint64_t first_index, uint64_t count, Scan& scan,
                 const FloatRules& rules, bool fnuz = false) {
  scan_words<Word>(data, first_index, count, scan,
                   [&rules, fnuz](uint64_t bits) { return classify_float(rules, fnuz, bits); });
}
template <class Word>
void scan_signed(const std::byte* data, uint64_t first_index, uint64_t count, Scan& scan) {
  scan_words<std::make_unsigned_t<Word>>(data, first_index, count, scan, [](uint64_t bits) {
    const int64_t value = static_cast<Word>(bits);
    return classify_integer(value < 0, value, value == 0);
  });
}
template <class Word>
void scan_unsigned(const std::byte* data, uint64_t first_index, uint64_t count, Scan& scan) {
  scan_words<Word>(data, first_index, count, scan, [](uint64_t bits) {
    return classify_integer(false, static_cast<int64_t>(bits), bits == 0);
  });
}
void scan_sub_byte(DType dtype, const std::byte* data, uint64_t first_index, uint64_t count, Scan& scan,
                   const FloatRules& rules) {
  scan_run(
      first_index, count, scan, [dtype, data](size_t i) { return element_bits(dtype, data, i); },
      [&rules](uint64_t bits) { return classify_float(rules, false, bits); });
}

void scan_bool(const std::byte* data, uint64_t first_index, uint64_t count, Scan& scan) {
  scan_unsigned<uint8_t>(data, first_index, count, scan);
  for (size_t i = 0; i < count; ++i) {
    if (std::to_integer<uint8_t>(data[i]) <= 1) continue;
    ++scan.bad_bool;
    if (scan.first_bad_bool == Scan::kNone) scan.first_bad_bool = first_index + i;
  }
}

void scan_complex(const std::byte* data, uint64_t first_index, uint64_t count, Scan& scan) {
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bits = load_le<uint64_t>(data + 8 * i);
    if (i == 0) scan.first_bits = bits;
    scan.constant = scan.constant && bits == scan.first_bits;
    Scan parts;
    count_traits(classify_float(kF32Rules, false, bits & 0xFFFFFFFF), first_index + i, parts);
    count_traits(classify_float(kF32Rules, false, bits >> 32), first_index + i, parts);
    parts.nan = parts.nan != 0;
    parts.inf = parts.inf != 0;
    parts.zero = parts.zero == 2;
    parts.subnormal = parts.subnormal != 0;
    parts.negative = 0;
    parts.extreme = parts.extreme != 0;
    parts.constant = scan.constant;
    parts.first_bits = scan.first_bits;
    parts.count = 1;
    scan.count = 1;  // so that merge() compares the first bits
    merge(scan, parts);
  }
}

}  // namespace

namespace scalar {

void scan(DType dtype, const std::byte* data, uint64_t first_index, uint64_t count, Scan& into) noexcept {
  Scan run;
  switch (dtype) {
    case DType::BOOL:
      scan_bool(data, first_index, count, run);
      break;
    case DType::U8:
      scan_unsigned<uint8_t>(data, first_index, count, run);
      break;
    case DType::I8:
      scan_signed<int8_t>(data, first_index, count, run);
      break;
    case DType::U16:
      scan_unsigned<uint16_t>(data, first_index, count, run);
      break;
    case DType::I16:
      scan_signed<int16_t>(data, first_index, count, run);
      break;
    case DType::U32:
      scan_unsigned<uint32_t>(data, first_index, count, run);
      break;
    case DType::I32:
      scan_signed<int32_t>(data, first_index, count, run);
      break;
    case DType::I64:
      scan_signed<int64_t>(data, first_index, count, run);
      break;
    case DType::U64:
      scan_words<uint64_t>(data, first_index, count, run, [](uint64_t bits) {
        return classify_integer(false, unsigned_key(bits), bits == 0);
      });
      break;
    case DType::F64:
      scan_floats<uint64_t>(data, first_index, count, run, kF64Rules);
      break;
    case DType::F32:
      scan_floats<uint32_t>(data, first_index, count, run, kF32Rules);
      break;
    case DType::BF16:
      scan_floats<uint16_t>(data, first_index, count, run, kBF16Rules);
      break;
    case DType::F16:
      scan_floats<uint16_t>(data, first_index, count, run, kF16Rules);
      break;
    case DType::F8_E4M3:
      scan_floats<uint8_t>(data, first_index, count, run, kE4M3Rules);
      break;
    case DType::F8_E5M2:
      scan_floats<uint8_t>(data, first_index, count, run, kE5M2Rules);
      break;
    case DType::F8_E4M3FNUZ:
      scan_floats<uint8_t>(data, first_index, count, run, kE4M3FnuzRules, true);
      break;
    case DType::F8_E5M2FNUZ:
      scan_floats<uint8_t>(data, first_index, count, run, kE5M2FnuzRules, true);
      break;
    case DType::F8_E8M0:
      scan_words<uint8_t>(data, first_index, count, run, classify_e8m0);
      break;
    case DType::F6_E2M3:
      scan_sub_byte(dtype, data, first_index, count, run, kE2M3Rules);
      break;
    case DType::F6_E3M2:
      scan_sub_byte(dtype, data, first_index, count, run, kE3M2Rules);
      break;
    case DType::F4:
      scan_sub_byte(dtype, data, first_index, count, run, kE2M1Rules);
      break;
    case DType::C64:
      scan_complex(data, first_index, count, run);
      break;
  }
  run.count = count;
  merge(into, run);
}

void moments(DType dtype, const std::byte* data, uint64_t first, uint64_t count, Moments& into) noexcept {
  constexpr uint64_t kChunk = 256;  // whole bytes also for sub-byte elements
  double values[kChunk];
  for (uint64_t done = 0; done < count; done += kChunk) {
    const uint64_t length = count - done < kChunk ? count - done : kChunk;
    cast(kScalar, dtype, DType::F64, data + done * dtype_bits(dtype) / 8,
         reinterpret_cast<std::byte*>(values), length);
    for (uint64_t i = 0; i < length; ++i) {
      const double x = values[i];
      if ((bit_cast<uint64_t>(x) & 0x7FF0000000000000u) == 0x7FF0000000000000u) continue;
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
