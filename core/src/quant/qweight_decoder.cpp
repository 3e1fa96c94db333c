// Opens GPTQ and AWQ modules and decodes them. Their codes lie input by input: a tile of whole output rows is a strip of
// stored columns, which begin() turns into one run of words per output row, whatever the packing.
#include <algorithm>
#include <cmath>
#include <limits>

#include "quant/bit_fields.h"
#include "quant/nibble_groups.h"
#include "quant/qweight.h"
#include "tftf/base/bytes.h"
#include "tftf/simd/cast.h"

namespace tftf {
namespace {

// Codes of more bits are computed one by one, others looked up.
constexpr uint32_t kTableBits = 4;

// Where things lie in the scratch of a tile of `rows` output rows.
struct QweightScratch {
  QweightScratch(const QweightGeometry& g, uint64_t rows) {
    words = take(rows * g.words_of_column() * 4);
    scales = take(rows * g.groups * 4);
    zeros = take(rows * g.groups * 4);
    base = take(g.inputs * 4);
    const uint64_t entries = g.bits <= kTableBits ? g.groups << g.bits : g.inputs;
    floats = take(entries * 4);
    halves = take(entries * 2);
    regular = take(4);
  }
  uint64_t take(uint64_t bytes) {
    const uint64_t at = total;
    total += ceil_div(bytes, 64) * 64;
    return at;
  }
  uint64_t words, scales, zeros, base, floats, halves, regular, total = 0;
};

void read_qweight(const Weight& weight, ElementRange tile, PartRanges& ranges) {
  const auto& g = weight.as<QweightGeometry>();
  const RowRange rows = rows_of(tile, g.inputs);
  const uint64_t scale_bytes = dtype_bits(g.scale) / 8;
  if (g.packing == QweightPacking::kGemv) {
    ranges.push(rows_of_part(0, rows, g.words_of_column() * 4));
    ranges.push(rows_of_part(1, rows, g.scale_width * scale_bytes));
    ranges.push(rows_of_part(2, rows, g.scale_width / 2));
    return;
  }
  const auto strip = [&](uint32_t part, uint64_t count, uint64_t begin, uint64_t end, uint64_t width) {
    ranges.push({.part = part,
                 .rows = static_cast<uint32_t>(count),
                 .offset = begin,
                 .row_bytes = end - begin,
                 .stride = width});
  };
  const uint64_t first = rows.first, end = rows.first + rows.count;
  if (g.packing == QweightPacking::kGptq) {
    strip(0, g.words_of_column(), first * 4, end * 4, g.outputs * 4);
  } else {
    strip(0, g.inputs, first / 2, end / 2, g.outputs / 2);
  }
  strip(1, g.groups, first * scale_bytes, end * scale_bytes, g.outputs * scale_bytes);
  if (g.has_zeros)
    strip(2, g.groups, first * g.bits / 32 * 4, ceil_div(end * g.bits, 32) * 4, g.outputs * g.bits / 8);
  if (g.has_index) ranges.push({.part = g.has_zeros ? 3u : 2u, .row_bytes = g.inputs * 4});
}

uint64_t qweight_scratch(const Weight& weight, uint64_t units) {
  const auto& g = weight.as<QweightGeometry>();
  return QweightScratch(g, units / g.inputs).total;
}

// Stored rows of `width` words to columns of `height`.
void transpose_words(const std::byte* in, uint64_t height, uint64_t width, std::byte* out) {
  constexpr uint64_t kTurnedAtOnce = 16;
  for (uint64_t i = 0; i < height; i += kTurnedAtOnce) {
    for (uint64_t n = 0; n < width; ++n) {
      std::byte* to = out + to_size((n * height + i) * 4);
      const std::byte* from = in + to_size((i * width + n) * 4);
      for (uint64_t j = 0; j < std::min(kTurnedAtOnce, height - i); ++j)
        std::memcpy(to + to_size(j * 4), from + to_size(j * width * 4), 4);
    }
  }
}

// Field f of a word of the packing along outputs holds column order[f] of its eight.
std::array<uint8_t, 8> column_order(const QweightGeometry& g) {
  return g.in_order ? std::array<uint8_t, 8>{0, 1, 2, 3, 4, 5, 6, 7} : kAwqOrder;
}

// AWQ's words hold eight columns of one input; what is wanted are words of eight inputs of one column. Eight such words of a
// column lie beside each other in the result: they are the lanes.
void transpose_awq(const QweightGeometry& g, const std::byte* in, uint64_t rows, std::byte* out) {
  constexpr uint64_t kTogether = 8, kLineWords = 16;
  const uint64_t words = g.words_of_column(), width = rows / 8;
  const std::array<uint8_t, 8> order = column_order(g);
  for (uint64_t begin = 0; begin < width; begin += kLineWords) {
    for (uint64_t i = 0; i < words; i += kTogether) {
      const uint64_t inputs = std::min(kTogether * 8, g.inputs - i * 8),
                     bytes = std::min(kTogether, words - i) * 4;
      for (uint64_t c = begin; c < std::min(begin + kLineWords, width); ++c) {
        const std::byte* from = in + to_size((i * 8 * width + c) * 4);
        NibbleLanes block;
        if (inputs < kTogether * 8) block = {};
        for (uint64_t k = 0; k < inputs; ++k) {
          block[to_size(k % 8)][to_size(k / 8)] = load_word(from);
          from += to_size(width * 4);
        }
        transpose_nibbles(block);
        for (size_t f = 0; f < 8; ++f) {
          std::byte* to = out + to_size(((c * 8 + order[f]) * words + i) * 4);
          if (bytes == kTogether * 4)
            std::memcpy(to, block[f].data(), kTogether * 4);
          else
            std::memcpy(to, block[f].data(), to_size(bytes));
        }
      }
    }
  }
}

// Scales and zero points of a tile as F32, all groups of a row together.
void unpack_groups(const QweightGeometry& g, const DecodeTask& task, RowRange rows, float* scales,
                   float* zeros) {
  const bool by_row = g.packing == QweightPacking::kGemv, awq = g.packing == QweightPacking::kGemm;
  const uint64_t scale_bytes = dtype_bits(g.scale) / 8;
  const uint64_t first_word = by_row ? 0 : rows.first * g.bits / 32;
  const uint64_t zero_words =
      by_row ? g.scale_width / 8 : ceil_div((rows.first + rows.count) * g.bits, 32) - first_word;
  const uint32_t mask = g.zero_wraps ? (1u << g.bits) - 1 : UINT32_MAX;
  std::array<uint8_t, 8> field{};  // of a column in its word
  for (uint8_t f = 0; f < 8; ++f) field[column_order(g)[f]] = f;
  constexpr uint64_t kAtOnce = 256;
  float widened[kAtOnce];
  const auto widen = [&](uint64_t first, uint64_t count) {
    cast(task.kernels, g.scale, DType::F32, task.bytes[1] + to_size(first * scale_bytes),
         reinterpret_cast<std::byte*>(widened), count);
  };
  for (uint64_t n = 0; by_row && n < rows.count; ++n) {
    for (uint64_t i = 0; i < g.groups; i += kAtOnce) {
      const uint64_t count = std::min(kAtOnce, g.groups - i);
      widen(n * g.scale_width + i, count);
      std::memcpy(scales + to_size(n * g.groups + i), widened, to_size(count * sizeof(float)));
    }
  }
  for (uint64_t i = 0; !by_row && i < g.groups; ++i) {
    for (uint64_t n = 0; n < rows.count; n += kAtOnce) {
      const uint64_t count = std::min(kAtOnce, rows.count - n);
      widen(i * rows.count + n, count);
      for (uint64_t j = 0; j < count; ++j) scales[to_size((n + j) * g.groups + i)] = widened[j];
    }
  }
  for (uint64_t n = 0; n < rows.count; ++n) {
    for (uint64_t i = 0; i < g.groups; ++i) {
      uint32_t zero = 1u << (g.bits - 1);
      if (g.has_zeros) {
        const uint64_t column = by_row ? i : rows.first + n;
        const uint64_t index = awq ? column / 8 * 8 + field[to_size(column % 8)] : column;
        zero = field_at(task.bytes[2] + to_size((by_row ? n : i) * zero_words * 4),
                        index * g.bits - first_word * 32, g.bits) ^
               g.flip;
        zero = (zero + g.zero_shift) & mask;
      }
      zeros[to_size(n * g.groups + i)] = static_cast<float>(zero);
    }
  }
}

// Whether groups follow each other and begin at whole words, so that a run of words has one scale.
bool is_regular(const QweightGeometry& g, const uint32_t* base) {
  const uint64_t fields = fields_at_once(g.bits);
  if (g.inputs % fields != 0 || (g.group % fields != 0 && g.groups > 1)) return false;
  if (!g.has_index) return true;
  for (uint64_t k = 0; k < g.inputs; ++k)
    if (base[to_size(k)] != k / g.group) return false;
  return true;
}

bool begin_qweight(const Weight& weight, const DecodeTask& task) noexcept {
  const auto& g = weight.as<QweightGeometry>();
  const RowRange rows = rows_of(task.tile, g.inputs);
  const QweightScratch at(g, rows.count);
  std::byte* const scratch = task.scratch;
  auto* const base = reinterpret_cast<uint32_t*>(scratch + to_size(at.base));
  const std::byte* const index = g.has_index ? task.bytes[g.has_zeros ? 3 : 2] : nullptr;
  for (uint64_t k = 0; k < g.inputs; ++k) {
    const uint64_t group = index != nullptr ? load_word(index + to_size(k * 4)) : k / g.group;
    if (group >= g.groups) return false;
    base[to_size(k)] = static_cast<uint32_t>(group);
  }
  const uint32_t regular = is_regular(g, base) ? 1 : 0;
  store_word(scratch + to_size(at.regular), regular);
  unpack_groups(g, task, rows, reinterpret_cast<float*>(scratch + to_size(at.scales)),
                reinterpret_cast<float*>(scratch + to_size(at.zeros)));
  std::byte* const words = scratch + to_size(at.words);
  if (g.packing == QweightPacking::kGptq) {
    transpose_words(task.bytes[0], g.words_of_column(), rows.count, words);
  } else if (g.packing == QweightPacking::kGemm) {
    transpose_awq(g, task.bytes[0], rows.count, words);
  }
  return true;
}

// One output row: its words, and the scales and zero points of its groups.
struct QweightRow {
  const QweightGeometry& g;
  const KernelTable& kernels;
  const std::byte* words;
  const float* scales;
  const float* zeros;
  const uint32_t* group_of;  // by input
  bool regular;
  float* floats;
  std::byte* halves;
};

// (code - zero) * scale, NaN the canonical one. Returns whether it is infinite.
inline bool put_value(float code, float zero, float scale, float& to) {
  const float value = (code - zero) * scale;
  to = value == value ? value : std::numeric_limits<float>::quiet_NaN();
  return std::abs(value) == std::numeric_limits<float>::infinity();
}

template <class T>
uint64_t count_infinite_fields(const T* values, uint64_t count, DType dtype) {
  uint64_t found = 0;
  for (uint64_t i = 0; i < count; ++i) {
    if constexpr (sizeof(T) == 4) {
      found += std::abs(values[to_size(i)]) == std::numeric_limits<float>::infinity();
    } else {
      found += (values[to_size(i)] & 0x7FFF) == (dtype == DType::F16 ? 0x7C00 : 0x7F80);
    }
  }
  return found;
}

// F32 to the 16 bits of `to`; whether any value became infinite.
bool narrow(const KernelTable& kernels, DType to, const float* from, std::byte* out, uint64_t count) {
  return cast(kernels, DType::F32, to, reinterpret_cast<const std::byte*>(from), out, count) != 0;
}

// All values that the codes of each group can have, then one look-up per code.
template <uint32_t kBits, class T>
bool look_up_fields(const QweightRow& row, DType to, T* out) {
  const QweightGeometry& g = row.g;
  bool infinite = false;
  for (uint64_t i = 0; i < g.groups; ++i) {
    float* values = row.floats + to_size(i << kBits);
    for (uint32_t q = 0; q < 1u << kBits; ++q)
      infinite |=
          put_value(static_cast<float>(q ^ g.flip), row.zeros[to_size(i)], row.scales[to_size(i)], values[q]);
  }
  const T* table;
  if constexpr (sizeof(T) == 4) {
    table = row.floats;
  } else {
    infinite |= narrow(row.kernels, to, row.floats, row.halves, g.groups << kBits);
    table = reinterpret_cast<const T*>(row.halves);
  }
  const std::byte* words = row.words;
  if (!row.regular) {
    each_field<kBits>(words, g.words_of_column(), [&](uint64_t k, uint32_t q) {
      if (k < g.inputs) out[to_size(k)] = table[to_size(uint64_t{row.group_of[to_size(k)]} << kBits | q)];
    });
    return infinite;
  }
  for (uint64_t k = 0; k < g.inputs; k += g.group) {
    const uint64_t count = std::min(g.group, g.inputs - k) * kBits / 32;
    T* const to_group = out + to_size(k);
    each_field<kBits>(words, count, [&](uint64_t j, uint32_t q) { to_group[to_size(j)] = table[q]; });
    words += to_size(count * 4);
    table += 1u << kBits;
  }
  return infinite;
}

// 8 bits: a table would be longer than a group.
template <class T>
bool compute(const QweightRow& row, DType to, T* out) {
  const QweightGeometry& g = row.g;
  float* values = sizeof(T) == 4 ? reinterpret_cast<float*>(out) : row.floats;
  bool infinite = false;
  const auto* codes = reinterpret_cast<const uint8_t*>(row.words);
  if (row.regular) {
    for (uint64_t k = 0, i = 0; k < g.inputs; k += g.group, ++i) {
      const float zero = row.zeros[to_size(i)], scale = row.scales[to_size(i)];
      for (uint64_t j = k; j < std::min(g.inputs, k + g.group); ++j)
        infinite |= put_value(codes[to_size(j)], zero, scale, values[to_size(j)]);
    }
  } else {
    for (uint64_t k = 0; k < g.inputs; ++k) {
      const uint32_t i = row.group_of[to_size(k)];
      infinite |= put_value(codes[to_size(k)], row.zeros[i], row.scales[i], values[to_size(k)]);
    }
  }
  if constexpr (sizeof(T) != 4)
    infinite |= narrow(row.kernels, to, values, reinterpret_cast<std::byte*>(out), g.inputs);
  return infinite;
}

// 4 bits whose groups follow each other.
uint64_t decode_nibble_row(const QweightRow& row, DType to, std::byte* out) {
  const QweightGeometry& g = row.g;
  uint64_t infinite = 0;
  for (uint64_t first = 0, begin = 0; begin < g.inputs; begin = first * g.group) {
    NibbleGroups groups{.codes = row.words + to_size(begin / 2)};
    // The last group may be short; then it is decoded by itself.
    groups.groups = std::min(kNibbleGroupsAtOnce, (g.inputs - begin) / g.group);
    groups.group_codes = groups.groups == 0 ? g.inputs - begin : g.group;
    groups.groups = std::max<uint64_t>(groups.groups, 1);
    float values[kNibbleGroupsAtOnce * kNibbleValues];
    for (uint64_t i = 0; i < groups.groups; ++i) {
      const float zero = row.zeros[to_size(first + i)], scale = row.scales[to_size(first + i)];
      for (uint32_t q = 0; q < kNibbleValues; ++q)
        values[i * kNibbleValues + q] = (static_cast<float>(q ^ g.flip) - zero) * scale;
    }
    infinite +=
        decode_nibble_groups(row.kernels, to, groups, values, out + to_size(begin * dtype_bits(to) / 8));
    first += groups.groups;
  }
  return infinite;
}

template <class T>
uint64_t decode_qweight_row(const QweightRow& row, DType to, T* out) {
  if (row.g.bits == 4 && row.regular) return decode_nibble_row(row, to, reinterpret_cast<std::byte*>(out));
  bool infinite = false;
  switch (row.g.bits) {
    case 2:
      infinite = look_up_fields<2>(row, to, out);
      break;
    case 3:
      infinite = look_up_fields<3>(row, to, out);
      break;
    case 4:
      infinite = look_up_fields<4>(row, to, out);
      break;
    default:
      infinite = compute(row, to, out);
  }
  return infinite ? count_infinite_fields(out, row.g.inputs, to) : 0;
}

uint64_t decode_qweight(const Weight& weight, const DecodeTask& task, ElementRange piece, DType to,
                        std::byte* out) noexcept {
  const auto& g = weight.as<QweightGeometry>();
  const RowRange rows = rows_of(piece, g.inputs), tile = rows_of(task.tile, g.inputs);
  const QweightScratch at(g, tile.count);
  std::byte* const scratch = task.scratch;
  const std::byte* words = g.packing == QweightPacking::kGemv ? task.bytes[0] : scratch + to_size(at.words);
  const uint64_t skipped = rows.first - tile.first;
  QweightRow row{g,
                 task.kernels,
                 words + to_size(skipped * g.words_of_column() * 4),
                 reinterpret_cast<const float*>(scratch + to_size(at.scales)) + to_size(skipped * g.groups),
                 reinterpret_cast<const float*>(scratch + to_size(at.zeros)) + to_size(skipped * g.groups),
                 reinterpret_cast<const uint32_t*>(scratch + to_size(at.base)),
                 load_word(scratch + to_size(at.regular)) != 0,
                 reinterpret_cast<float*>(scratch + to_size(at.floats)),
                 scratch + to_size(at.halves)};
  uint64_t infinite = 0;
  for (uint64_t n = 0; n < rows.count; ++n) {
    std::byte* const to_row = out + to_size(n * g.inputs * dtype_bits(to) / 8);
    infinite += to == DType::F32 ? decode_qweight_row(row, to, reinterpret_cast<float*>(to_row))
                                 : decode_qweight_row(row, to, reinterpret_cast<uint16_t*>(to_row));
    row.words += to_size(g.words_of_column() * 4);
    row.scales += to_size(g.groups);
    row.zeros += to_size(g.groups);
  }
  return infinite;
}

constexpr Decoder kQweightDecoder{.reads = read_qweight,
                                  .decode = decode_qweight,
                                  .rounds = true,
                                  .scratch = qweight_scratch,
                                  .begin = begin_qweight};

// Codes are read in rows of some hundred bytes, for which a tile may be so many times larger than usual.
constexpr uint64_t kGptqReadBytes = 1024, kAwqReadBytes = 512;
constexpr uint64_t kMostStretch = 8;

uint32_t stretch_of(const QweightGeometry& g) {
  if (g.packing == QweightPacking::kGemv) return 1;
  const uint64_t columns = g.packing == QweightPacking::kGptq ? kGptqReadBytes / 4 : kAwqReadBytes * 2;
  const uint64_t bytes = checked_mul(std::min(columns, g.outputs), g.inputs * 2).value_or(UINT64_MAX);
  return static_cast<uint32_t>(std::clamp<uint64_t>(ceil_div(bytes, uint64_t{1} << 20), 1, kMostStretch));
}

}  // namespace

Weight qweight_weight(const QweightGeometry& g, std::string_view layout, const QweightParts& parts) {
  Weight weight;
  weight.decoder = &kQweightDecoder;
  weight.word = std::string(layout) + " b" + std::to_string(g.bits) + " g" + std::to_string(g.group);
  weight.key = std::to_string(g.outputs) + ' ' + std::to_string(g.inputs) + ' ' + std::to_string(g.groups) +
               ' ' + std::to_string(g.scale_width) + ' ' + std::string(dtype_name(g.scale)) +
               (g.has_zeros ? " zeros" : "") + (g.has_index ? " g_idx" : "") +
               (g.zero_wraps ? " wraps" : "") + (g.flip != 0 ? " signed" : "") +
               (g.in_order ? " in order" : "");
  weight.shape = {g.outputs, g.inputs};
  weight.elements = g.outputs * g.inputs;
  weight.parts = {{"qweight", parts.codes}, {"scales", parts.scales}};
  if (g.has_zeros) weight.parts.push_back({"qzeros", *parts.zeros});
  if (g.has_index) weight.parts.push_back({"g_idx", *parts.index});
  weight.unit = g.packing == QweightPacking::kGemm ? g.inputs * 8 : g.inputs;
  weight.stretch = stretch_of(g);
  const uint64_t group_bits = g.groups * (dtype_bits(g.scale) + g.bits);
  weight.bits = static_cast<uint32_t>(g.bits + ceil_div(group_bits, g.inputs));
  weight.reads = static_cast<uint32_t>(weight.parts.size());
  weight.state = std::make_shared<const QweightGeometry>(g);
  return weight;
}

Result<Weight> open_qweight(OpenContext& context, const QuantMatch& match) {
  Result<QweightGeometry> geometry = qweight_geometry(context, match);
  if (!geometry) return std::move(geometry).error();
  QweightParts parts{match.weight, *match.find("scales")};
  if (geometry->has_zeros) parts.zeros = *match.find("qzeros");
  if (geometry->has_index) parts.index = *match.find("g_idx");
  return qweight_weight(*geometry, match.layout, parts);
}

}  // namespace tftf
