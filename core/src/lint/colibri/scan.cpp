// The codes of a pair against its possible readings.
#include <algorithm>
#include <cstring>

#include "tftf/base/checked.h"
#include "tftf/lint/colibri_check.h"

namespace tftf {
namespace {

using colibri::Format;

constexpr float kSmallestScale = 1e-8f;  // of a group whose values are smaller than any code
constexpr uint8_t kImpossible = 255;

// Magnitudes of a row's codes.
void read_magnitudes(Format format, const std::byte* row, uint64_t columns, std::vector<uint8_t>& out) {
  out.resize(to_size(columns));
  const auto magnitude = [](int code, int lowest) {
    return code == lowest ? kImpossible : static_cast<uint8_t>(code < 0 ? -code : code);
  };
  for (size_t i = 0; i < out.size(); ++i) {
    const auto byte = [&](size_t at) { return static_cast<int>(row[at]); };
    switch (format) {
      case Format::kInt8Row:
        out[i] = magnitude(static_cast<int8_t>(row[i]), -128);
        break;
      case Format::kInt4Row:
      case Format::kInt4Grouped:
        out[i] = magnitude((byte(i / 2) >> (4 * (i % 2)) & 15) - 8, -8);
        break;
      case Format::kInt2Row:
        out[i] = magnitude((byte(i / 4) >> (2 * (i % 4)) & 3) - 2, -2);
        break;
      case Format::kInt3G64: {
        const size_t base = i / 64 * 24, k = i % 64;
        const int low = byte(base + k / 4) >> (2 * (k % 4)) & 3;
        const int high = byte(base + 16 + k / 8) >> (k % 8) & 1;
        out[i] = magnitude((low | high << 2) - 4, -4);
        break;
      }
      case Format::kFp8Block128:
        out[i] = (byte(i) & 0x7F) == 0x7F ? kImpossible : 0;  // NaN
        break;
      default:
        out[i] = 0;
    }
  }
}

uint64_t group_of(const ColibriCheck& check, const ColibriCheck::Candidate& candidate) {
  if (candidate.format == Format::kInt4Grouped) return candidate.group;
  if (candidate.format == Format::kInt3G64) return 64;
  return check.columns;
}

float scale_of(const ColibriCheck& check, const std::byte* scales, uint64_t group) {
  return load_le<float>(scales + 4 * (check.row_scales > 1 ? group : 0));
}

void look_at_row(const ColibriCheck& check, const ColibriCheck::Candidate& candidate,
                 const std::vector<uint8_t>& magnitudes, const std::byte* scales, ColibriSeen& seen) {
  const uint64_t group = group_of(check, candidate);
  for (uint64_t g = 0, begin = 0; begin < check.columns; ++g, begin += group) {
    const auto from = magnitudes.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto to = magnitudes.begin() + static_cast<std::ptrdiff_t>(std::min(check.columns, begin + group));
    const uint8_t most = *std::max_element(from, to);
    if (most == kImpossible) seen.impossible = true;
    if (most == 0 || most == kImpossible || !(scale_of(check, scales, g) > kSmallestScale)) continue;
    seen.least = std::min<uint32_t>(seen.least, most);
    seen.most = std::max<uint32_t>(seen.most, most);
  }
}

}  // namespace

void scan_colibri_rows(const ColibriCheck& check, Bytes codes, Bytes scales, std::span<ColibriSeen> seen) {
  const uint64_t rows = codes.size() / check.row_bytes;
  std::vector<uint8_t> magnitudes;
  for (uint64_t row = 0; row < rows; ++row) {
    const std::byte* row_codes = codes.data() + to_size(row * check.row_bytes);
    const std::byte* row_scales =
        scales.data() + to_size(check.row_scales == 0 ? 0 : row * check.row_scales * 4);
    Format read = Format::kF32;
    for (size_t c = 0; c < seen.size(); ++c) {
      const ColibriCheck::Candidate& candidate = check.candidates[c];
      if (seen[c].failed() || candidate.format == Format::kE8Lattice) continue;
      const bool nibbles = candidate.format == Format::kInt4Grouped && read == Format::kInt4Row;
      if (read != candidate.format && !nibbles) {
        read_magnitudes(candidate.format, row_codes, check.columns, magnitudes);
        read = candidate.format;
      }
      look_at_row(check, candidate, magnitudes, row_scales, seen[c]);
    }
  }
}

bool colibri_fits(const ColibriCheck& check, size_t candidate, const ColibriSeen& seen) {
  const Format format = check.candidates[candidate].format;
  if (format == Format::kE8Lattice) return check.tag_is_six;
  if (format == Format::kFp8Block128) return !seen.impossible;
  if (seen.failed()) return false;
  if (seen.most == 0) return true;
  switch (format) {
    case Format::kInt8Row:  // 5 to 8 bits
      return seen.most == 15 || seen.most == 31 || seen.most == 63 || seen.most == 127;
    case Format::kInt4Row:
    case Format::kInt4Grouped:
      return seen.most == 1 || seen.most == 3 || seen.most == 7;
    case Format::kInt3G64:
      return seen.most == 3;
    default:
      return seen.most == 1;
  }
}

}  // namespace tftf
