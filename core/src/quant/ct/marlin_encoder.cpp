// Writes Marlin 2:4 in strips of columns: everything stored lies column by column, 32 of them at a time.
#include <algorithm>
#include <cstring>

#include "quant/ct/coding.h"
#include "quant/ct/marlin.h"
#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/simd/cast.h"
#include "tftf/simd/floats.h"

namespace tftf::ct {
namespace {

constexpr uint64_t kGroup = 128, kSlice = 32;  // columns of a scale; of what is stored together
constexpr uint64_t kSliceRun = 1024;           // stored values of a stripe of 64 rows and a slice

struct MarlinCoding {
  Coding coding{};  // of a row of a strip
  uint64_t rows = 0, columns = 0, strip = 0, groups = 1;
  bool permuted_scales = false;
};

// What the library's own compressor refuses, as a phrase; or nothing.
std::string marlin_misfit(const CodingRequest& request) {
  const Args& args = *request.args;
  if (args.is_float || (args.bits != 4 && args.bits != 8))
    return "is no integer of 4 or 8 bits: marlin-24 does not go with " + args_text(args);
  if (!args.symmetric) return "is asymmetric, and marlin-24 has no zero points";
  if (args.strategy != Strategy::kChannel && args.strategy != Strategy::kGroup)
    return "has the strategy " + std::string(strategy_name(args.strategy)) +
           ", and marlin-24 has scales by groups or channels";
  if (args.strategy == Strategy::kGroup && args.group_size != static_cast<int64_t>(kGroup))
    return "has groups of " + std::to_string(args.group_size) + ", and those of marlin-24 are of 128";
  if (request.rows % 64 != 0) return "has rows that are no multiple of 64, which marlin-24 puts together";
  if (request.columns % kSlice != 0)
    return "has columns that are no multiple of 32, which marlin-24 puts together";
  if (args.strategy == Strategy::kGroup && request.columns % kGroup != 0)
    return "has columns that are no multiple of the group size 128";
  return "";
}

void write_marlin(const Encoded& encoded, ElementRange tile, PartRanges& ranges) {
  const auto& m = encoded.as<MarlinCoding>();
  const uint64_t first = tile.first / m.rows, count = tile.count / m.rows;
  const uint64_t word_row = m.rows * 16 * m.coding.bits / 8;  // of a slice
  ranges.push({.part = 0, .offset = first / kSlice * word_row, .row_bytes = count / kSlice * word_row});
  ranges.push({.part = 1, .offset = first / kSlice * m.rows * 4, .row_bytes = count / kSlice * m.rows * 4});
  if (!m.coding.computes) return;
  const RowRange groups{first / m.coding.scale_columns, ceil_div(count, m.coding.scale_columns)};
  ranges.push(rows_of_part(2, groups, m.rows * 2));
}

// A row as F32 and its codes; the scales of a row; the codes that are kept of all rows, two bits for where each was, and the
// values of a slice in the order in which they are stored.
struct MarlinScratch {
  float *row, *scales;
  std::byte *codes, *values;
  MarlinScratch(const MarlinCoding& m, std::byte* scratch) {
    row = reinterpret_cast<float*>(scratch);
    scales = row + to_size(m.strip);
    codes = reinterpret_cast<std::byte*>(scales + to_size(ceil_div(m.groups, 16) * 16));
    values = codes + to_size(ceil_div(m.strip, 64) * 64);
  }
};

uint64_t marlin_scratch(const Encoded& encoded, uint64_t) {
  const auto& m = encoded.as<MarlinCoding>();
  return m.strip * 4 + ceil_div(m.groups, 16) * 64 + ceil_div(m.strip, 64) * 64 + m.rows * m.strip / 2;
}

uint64_t scale_row_place(const MarlinCoding& m, uint64_t row) {
  return m.permuted_scales ? row / 64 * 64 + marlin_scale_place(row % 64) : row;
}

// Codes of a row, two of every four, and the nibbles that say which. Returns how many fours have more than two.
uint64_t keep_two(const MarlinCoding& m, uint64_t row, const int8_t* codes, uint64_t width, std::byte* values,
                  std::byte* meta) {
  uint64_t lost = 0;
  for (uint64_t c = 0; c < width; c += 4) {
    bool is[4];
    uint32_t count = 0;
    for (uint32_t k = 0; k < 4; ++k) count += (is[k] = codes[to_size(c + k)] != 0) ? 1u : 0u;
    lost += count > 2;
    const bool e0 = is[0] && is[1], e1 = !is[0] && is[1], e2 = !is[0] && !is[1];
    const uint32_t first = (e1 ? 1u : 0u) | (e2 ? 2u : 0u);
    const uint32_t second = (e0 || e2 || is[3] ? 1u : 0u) | (e1 || !is[1] ? 2u : 0u);
    values[to_size(row * (width / 2) + c / 2)] = static_cast<std::byte>(codes[to_size(c + first)]);
    values[to_size(row * (width / 2) + c / 2 + 1)] = static_cast<std::byte>(codes[to_size(c + second)]);
    // A stripe's 128 values of every 32 columns.
    const uint64_t place = marlin_meta_place(row % 64, c / 16);
    std::byte* const at =
        meta + to_size((place / 128 * (m.rows / 64 * 128) + row / 64 * 128 + place % 128) * 2);
    const uint32_t nibble = (first | second << 2) << (c / 4 % 4 * 4);
    store_le(at, static_cast<uint16_t>(load_le<uint16_t>(at) | nibble));
  }
  return lost;
}

void pack_slices(const MarlinCoding& m, uint64_t width, const std::byte* values, std::byte* out) {
  const uint32_t bits = m.coding.bits, mask = (1u << bits) - 1;
  const int32_t half = 1 << (bits - 1);
  const uint64_t fields = 32 / bits, kept = width / 2, runs = m.rows / 64;
  for (uint64_t slice = 0; slice < width / kSlice; ++slice)
    for (uint64_t row = 0; row < m.rows; ++row)
      for (uint64_t k = 0; k < 16; ++k) {
        const auto code = static_cast<int8_t>(values[to_size(row * kept + slice * 16 + k)]);
        const uint64_t old = row % 64 / 16 * 256 + k * 16 + row % 16;
        const uint64_t index = (slice * runs + row / 64) * kSliceRun + marlin_value_place(bits, old);
        std::byte* const word = out + to_size(index / fields * 4);
        const uint32_t field = static_cast<uint32_t>(code + half) & mask;
        store_le(word, load_le<uint32_t>(word) | field << (index % fields * bits));
      }
}

uint64_t encode_marlin(const Encoded& encoded, const EncodeTask& task, ElementRange piece,
                       const std::byte* in) noexcept {
  const auto& m = encoded.as<MarlinCoding>();
  const uint64_t first = piece.first / m.rows, width = piece.count / m.rows;
  const uint64_t group = m.coding.scale_columns, groups = ceil_div(width, group);
  const Coding& coding = m.coding;
  const MarlinScratch s(m, task.scratch);
  std::memset(task.out[0], 0, to_size(width / kSlice * m.rows * 16 * coding.bits / 8));
  std::memset(task.out[1], 0, to_size(width / kSlice * m.rows * 4));
  uint64_t lost = 0;
  for (uint64_t r = 0; r < m.rows; ++r) {
    // In the arithmetic of F16, whatever the weight was.
    std::byte* const halves = s.codes;
    const std::byte* at = in + to_size(r * width * dtype_bits(task.from) / 8);
    uint64_t infinite = 0;
    for (uint64_t c = 0; c < width; c += kSlice) {
      cast(task.kernels, task.from, DType::F32, at + to_size(c * dtype_bits(task.from) / 8),
           reinterpret_cast<std::byte*>(s.row + to_size(c)), kSlice);
      infinite += cast(task.kernels, DType::F32, DType::F16, reinterpret_cast<std::byte*>(s.row + to_size(c)),
                       halves, kSlice);
      cast(task.kernels, DType::F16, DType::F32, halves, reinterpret_cast<std::byte*>(s.row + to_size(c)),
           kSlice);
    }
    if (infinite > 0 || task.kernels.largest_magnitude(s.row, width) >= 0x7F800000) {
      lost += std::max<uint64_t>(infinite, 1);
      std::fill_n(s.row, to_size(width), 0.0f);
    }
    for (uint64_t g = 0; g < groups; ++g) {
      if (!coding.computes) {
        s.scales[to_size(g)] = coding.given.scales[to_size(r * m.groups + first / group + g)];
        continue;
      }
      const uint64_t count = std::min(group, width - g * group);
      const float most = bit_cast<float>(task.kernels.largest_magnitude(s.row + to_size(g * group), count));
      s.scales[to_size(g)] = scale_between(coding.rule, -most, most, 1.0f).scale;
      store_le(task.out[2] + to_size((g * m.rows + scale_row_place(m, r)) * 2),
               f16_from_f32(s.scales[to_size(g)]));
    }
    code_row(coding, task.kernels, s.row, width, s.scales, nullptr, s.codes);
    lost += keep_two(m, r, reinterpret_cast<const int8_t*>(s.codes), width, s.values, task.out[1]);
  }
  pack_slices(m, width, s.values, task.out[0]);
  return lost;
}

constexpr Encoder kMarlinEncoder{.writes = write_marlin, .encode = encode_marlin, .scratch = marlin_scratch};

}  // namespace

Result<Encoded> plan_marlin(const CodingRequest& request) {
  if (std::string why = marlin_misfit(request); !why.empty()) return cannot_code(request, why);
  if (request.sparse != Sparse::kNo)
    return cannot_code(request, "cannot be marlin-24 and sparse besides, which it is by itself");
  MarlinCoding m;
  m.rows = request.rows;
  m.columns = request.columns;
  Coding& c = m.coding;
  c.target = Target::kI8;
  c.bits = static_cast<uint32_t>(request.args->bits);
  c.type = c.arithmetic = DType::F16;
  c.rows = request.rows;
  c.scale_columns = request.args->grouped() ? kGroup : request.columns;
  m.groups = c.grid_columns = request.columns / c.scale_columns;
  c.rule.type = DType::F16;
  c.rule.range = code_range(*request.args);
  m.permuted_scales = m.groups > 1 && kGroup < request.columns / 2;
  Encoded encoded;
  encoded.parts = {{request.module + ".weight_packed",
                    DType::I32,
                    {request.columns / kSlice, request.rows * 16 * c.bits / 32}},
                   {request.module + ".meta", DType::I16, {request.columns / kSlice, request.rows * 2}},
                   {request.module + ".scale_packed", DType::F16, {m.groups, request.rows}}};
  if (request.given.scale) {
    Layout layout;
    (void)set_shape(layout, {request.rows, request.columns});
    Result<GivenGrid> given = read_given(request, layout);
    if (!given) return std::move(given).error();
    c.computes = false;
    c.given = *std::move(given);
    std::string halves(to_size(m.groups * m.rows * 2), '\0');
    for (uint64_t r = 0; r < m.rows; ++r)
      for (uint64_t g = 0; g < m.groups; ++g) {
        float& scale = c.given.scales[to_size(r * m.groups + g)];
        const uint16_t half = f16_from_f32(scale);
        scale = f32_from_f16(half);
        if (!(scale > 0) || half == 0x7C00)
          return bad_given(request, "a scale that is given has no place in F16, which marlin-24 stores");
        store_le(
            reinterpret_cast<std::byte*>(halves.data()) + to_size((g * m.rows + scale_row_place(m, r)) * 2),
            half);
      }
    encoded.parts[2].literal = std::move(halves);
  }
  const auto held =
      checked_mul(request.rows * (request.plain ? c.scale_columns : request.columns), sizeof(float));
  if (!held || *held > kLargestUnitBytes)
    return cannot_code(request, "is too large for marlin-24, which takes " + std::to_string(c.scale_columns) +
                                    " of its columns at a time in memory");
  // Without groups a scale needs the whole row; given ones do not.
  m.strip = c.computes ? c.scale_columns : std::min(request.columns, kGroup);
  if (!request.plain) m.strip = request.columns;
  encoded.encoder = &kMarlinEncoder;
  encoded.word = "marlin-24 (" + args_text(*request.args) + ")";
  encoded.unfit = "more than two of four, not finite, or beyond F16";
  encoded.key =
      std::to_string(m.rows) + ' ' + std::to_string(m.columns) + (c.computes ? "" : ' ' + request.module);
  encoded.elements = request.rows * request.columns;
  encoded.bits = 2 * c.bits;
  encoded.rows = request.rows;
  encoded.columns = request.columns;
  encoded.strip = m.strip;
  encoded.state = std::make_shared<const MarlinCoding>(std::move(m));
  return encoded;
}

}  // namespace tftf::ct
