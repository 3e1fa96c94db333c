// Reads Marlin 2:4 in stripes of 64 rows: every permutation stays inside one.
#include "quant/ct/marlin.h"

#include <algorithm>
#include <array>

#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/simd/cast.h"
#include "tftf/simd/floats.h"

namespace tftf::ct {
namespace {

constexpr uint64_t kStripe = 64;  // rows
constexpr uint64_t kRun = 1024;   // stored values that are permuted together: 16 columns of a stripe
constexpr uint64_t kMarlinChunk = 512;

struct MarlinMatrix {
  uint64_t rows = 0, columns = 0, groups = 1;
  uint32_t bits = 4;
  bool permuted_scales = false;
  uint64_t fields() const { return 32 / bits; }
};

using RunTable = std::array<uint16_t, kRun>;

// Where an old place of a run is stored.
RunTable run_places(uint32_t bits) {
  std::array<uint16_t, kRun> order{};
  size_t at = 0;
  for (uint32_t i = 0; i < 32; ++i) {
    const uint32_t column = i / 4;
    std::array<uint16_t, 8> first{};
    size_t n = 0;
    for (uint32_t block = 0; block < 2; ++block)
      for (const uint32_t row : {2 * (i % 4), 2 * (i % 4) + 1, 2 * (i % 4 + 4), 2 * (i % 4 + 4) + 1})
        first[n++] = static_cast<uint16_t>(16 * row + column / 2 * 256 + 8 * (column % 2) + 4 * block);
    for (uint16_t j = 0; j < 4; ++j)
      for (const uint16_t p : first) order[at++] = static_cast<uint16_t>(p + j);
  }
  constexpr size_t kEights[] = {0, 2, 4, 6, 1, 3, 5, 7}, kFours[] = {0, 2, 1, 3};
  const size_t width = bits == 4 ? 8 : 4;
  RunTable places{};
  for (size_t i = 0; i < kRun; ++i) {
    const size_t from = i / width * width + (bits == 4 ? kEights[i % width] : kFours[i % width]);
    places[order[from]] = static_cast<uint16_t>(i);
  }
  return places;
}

const RunTable& places_of(uint32_t bits) {
  static const RunTable four = run_places(4), eight = run_places(8);
  return bits == 4 ? four : eight;
}

// Where the scale of a row of a stripe is stored.
uint64_t scale_place(const MarlinMatrix& m, uint64_t row) {
  return m.permuted_scales ? marlin_scale_place(row) : row;
}

}  // namespace

uint64_t marlin_value_place(uint32_t bits, uint64_t old) { return places_of(bits)[to_size(old)]; }

uint64_t marlin_scale_place(uint64_t row) {
  constexpr uint64_t kPlaces[] = {0, 4, 1, 5, 2, 6, 3, 7};
  // new[8 i + k] = old[8 i + kOrder[k]] with kOrder = 0 4 1 5 2 6 3 7; its inverse
  for (uint64_t k = 0; k < 8; ++k)
    if (kPlaces[k] == row % 8) return row / 8 * 8 + k;
  return row;
}

uint64_t marlin_meta_place(uint64_t row, uint64_t column) {
  const uint64_t r = row % 2 * 2 + row % 8 / 4 + row % 4 / 2 * 32 + row / 8 * 4;
  if (r % 2 == 0 && column % 2 == 1) return (column - 1) / 2 * 128 + (r + 1) * 2;
  if (r % 2 == 1 && column % 2 == 0) return (column + 1) / 2 * 128 + (r - 1) * 2 + 1;
  return column / 2 * 128 + r * 2 + column % 2;
}

namespace {

void read_marlin(const Weight& weight, ElementRange tile, PartRanges& ranges) {
  const auto& m = weight.as<MarlinMatrix>();
  const uint64_t stripe = tile.first / m.columns / kStripe, stripes = tile.count / m.columns / kStripe;
  const auto steps = static_cast<uint32_t>(m.columns / 32);
  const auto strided = [&](uint32_t part, uint32_t rows, uint64_t stripe_bytes) {
    ranges.push({.part = part,
                 .rows = rows,
                 .offset = stripe * stripe_bytes,
                 .row_bytes = stripes * stripe_bytes,
                 .stride = m.rows / kStripe * stripe_bytes});
  };
  strided(0, steps, kRun / m.fields() * 4);
  strided(1, static_cast<uint32_t>(m.groups), kStripe * 2);
  strided(2, steps, 2 * kStripe * 2);
}

uint64_t decode_marlin(const Weight& weight, const DecodeTask& task, ElementRange piece, DType to,
                       std::byte* out) noexcept {
  const auto& m = weight.as<MarlinMatrix>();
  const RunTable& places = places_of(m.bits);
  const RowRange rows = rows_of(piece, m.columns), tile = rows_of(task.tile, m.columns);
  const uint64_t run_bytes = kRun / m.fields() * 4, row_bytes = tile.count / kStripe * run_bytes;
  const uint32_t mask = (1u << m.bits) - 1;
  const int32_t half = 1 << (m.bits - 1);
  const uint64_t group = m.columns / m.groups;
  uint64_t infinite = 0;
  for (uint64_t r = rows.first - tile.first; r < rows.first - tile.first + rows.count; ++r) {
    const uint64_t stripe = r / kStripe, in_stripe = r % kStripe;
    const std::byte* const runs = task.bytes[0] + to_size(stripe * run_bytes);
    for (uint64_t c0 = 0; c0 < m.columns; c0 += kMarlinChunk) {
      const uint64_t count = std::min(kMarlinChunk, m.columns - c0);
      alignas(16) float values[kMarlinChunk] = {};
      for (uint64_t c = c0; c < c0 + count; c += 4) {
        // meta: a stripe's 128 values of every 32 columns
        const uint64_t place = marlin_meta_place(in_stripe, c / 16);
        const uint64_t at = place / 128 * (tile.count / kStripe * 128) + stripe * 128 + place % 128;
        const uint32_t nibble = load_le<uint16_t>(task.bytes[2] + to_size(at * 2)) >> (c / 4 % 4 * 4) & 15u;
        for (uint32_t k = 0; k < 2; ++k) {
          const uint64_t stored = c / 2 + k, column = c + (k == 0 ? nibble & 3 : nibble >> 2);
          const uint64_t old = in_stripe / 16 * 256 + stored % 16 * 16 + in_stripe % 16;
          const uint64_t index = places[to_size(old)];
          const std::byte* const word = runs + to_size(stored / 16 * row_bytes + index / m.fields() * 4);
          const uint32_t field = load_le<uint32_t>(word) >> (index % m.fields() * m.bits) & mask;
          const std::byte* const scale =
              task.bytes[1] +
              to_size((column / group * tile.count + stripe * kStripe + scale_place(m, in_stripe)) * 2);
          const float s = f32_from_f16(load_le<uint16_t>(scale));
          const float y = static_cast<float>(static_cast<int32_t>(field) - half) * s;
          // F16's own product: infinite and NaN as it has them.
          values[to_size(column - c0)] = y == y ? y : bit_cast<float>(uint32_t{0x7FC00000});
        }
      }
      uint16_t rounded[kMarlinChunk];
      auto* const halves = reinterpret_cast<std::byte*>(rounded);
      infinite +=
          cast(task.kernels, DType::F32, DType::F16, reinterpret_cast<std::byte*>(values), halves, count);
      infinite += cast(task.kernels, DType::F16, to, halves, out, count);
      out += to_size(count * dtype_bits(to) / 8);
    }
  }
  return infinite;
}

constexpr Decoder kMarlinDecoder{.reads = read_marlin, .decode = decode_marlin, .rounds = true};

}  // namespace

Fault fit_marlin(const Checkpoint& checkpoint, QuantMatch& match) {
  const TensorInfo& packed = checkpoint.info(match.weight);
  const TensorInfo& scales = checkpoint.info(*match.find("scale_packed"));
  const TensorInfo& meta = checkpoint.info(*match.find("meta"));
  if (packed.shape.size() != 2 || scales.shape.size() != 2)
    return Fault(Rule::QT078, "weight_packed is " + shape_text(packed.shape) + " and scale_packed " +
                                  shape_text(scales.shape) + ", expected two matrices");
  if (scales.dtype != DType::F16 || meta.dtype != DType::I16)
    return Fault(scales.dtype != DType::F16 ? Rule::QT077 : Rule::QT076,
                 "scale_packed is " + std::string(dtype_name(scales.dtype)) + " and meta " +
                     std::string(dtype_name(meta.dtype)) + ", expected F16 and I16");
  MarlinMatrix m;
  m.rows = scales.shape[1];
  m.groups = scales.shape[0];
  const auto columns = checked_mul(packed.shape[0], 32);
  const auto values = checked_mul(m.rows, 16), twice = checked_mul(m.rows, 2);
  if (!columns || !values || !twice || m.rows == 0 || *columns == 0 || m.rows % kStripe != 0)
    return Fault(Rule::QT079, "scale_packed has " + std::to_string(m.rows) +
                                  " columns, which is no multiple of 64 rows of a weight");
  m.columns = *columns;
  if (packed.shape[1] == *values / 8)
    m.bits = 4;
  else if (packed.shape[1] == *values / 4)
    m.bits = 8;
  else
    return Fault(Rule::QT078, "weight_packed is " + shape_text(packed.shape) + ", expected " +
                                  shape_text({packed.shape[0], *values / 8}) + " for 4 bits or " +
                                  shape_text({packed.shape[0], *values / 4}) + " for 8");
  if (meta.shape != Shape{packed.shape[0], *twice})
    return Fault(Rule::QT076,
                 "meta is " + shape_text(meta.shape) + ", expected " + shape_text({packed.shape[0], *twice}));
  if (m.groups == 0 || m.columns % m.groups != 0 || m.columns / m.groups % 4 != 0 ||
      packed.shape[0] > UINT32_MAX)
    return Fault(Rule::QT077, "scale_packed has " + std::to_string(m.groups) +
                                  " groups, which do not divide " + std::to_string(m.columns) + " columns");
  if (!element_count({m.rows, m.columns}))
    return "its shape " + shape_text({m.rows, m.columns}) + " is too large";
  m.permuted_scales = m.groups > 1 && m.columns / m.groups < m.columns / 2;
  match.bits = m.bits;
  match.group_size = m.groups > 1 ? m.columns / m.groups : 0;
  match.logical_shape = Shape{m.rows, m.columns};
  match.detail = std::make_shared<const MarlinMatrix>(m);
  return "";
}

Result<Weight> open_marlin(OpenContext& context, const QuantMatch& match) {
  if (!match.detail)
    return weight_fault(ErrorCode::kRefusedShape, context, match, "has shapes that do not fit");
  Weight weight;
  weight.state = match.detail;
  const auto& m = weight.as<MarlinMatrix>();
  weight.decoder = &kMarlinDecoder;
  weight.word = match.layout;
  weight.key = std::to_string(m.rows) + ' ' + std::to_string(m.columns) + ' ' + std::to_string(m.groups) +
               ' ' + std::to_string(m.bits);
  weight.shape = *match.logical_shape;
  weight.elements = m.rows * m.columns;
  weight.parts = {{"weight_packed", match.weight},
                  {"scale_packed", *match.find("scale_packed")},
                  {"meta", *match.find("meta")}};
  weight.unit = m.columns;
  weight.tile_unit = m.columns * kStripe;
  weight.bits = m.bits / 2 + 3;
  weight.reads = 3;
  return weight;
}

}  // namespace tftf::ct
