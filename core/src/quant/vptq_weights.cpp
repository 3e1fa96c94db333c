// Reads and decodes weights of VPTQ.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "quant/grouped_matrix.h"
#include "quant/layout_scan.h"
#include "quant/vptq.h"
#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/quant/encoder.h"
#include "tftf/simd/cast.h"
#include "tftf/simd/floats.h"

namespace tftf {
namespace {

// Tables are read whole for every tile.
constexpr uint64_t kMostTableBytes = uint64_t{64} << 20;
constexpr uint64_t kLongestVector = 65536, kMostColumns = uint64_t{1} << 32;

// A table that a tile needs whole, widened to F32 (of `perm`: as positions) at `at` floats into the scratch.
struct VptqTable {
  size_t range = 0;  // among the tile's ranges; 0: not there
  uint64_t count = 0;
  DType dtype{};
  size_t at = 0;
};

struct VptqState {
  VptqGeometry g;
  uint64_t vectors = 0;          // along the rows
  uint64_t outlier_vectors = 0;  // the same of outliers
  uint64_t row_bytes = 0;        // of the indices of a group's vectors of one place
  uint32_t index_bits = 16, residual_bits = 16;
  size_t residual_range = 0, outlier_range = 0;  // indices that are stored apart; 0: not there
  VptqTable centroids, residuals, outliers, perm, scale, bias;
  size_t floats = 0;  // of all tables
};

// Vectors of `length` rows that rows of a range touch.
RowRange vectors_of(RowRange rows, uint64_t length) {
  const uint64_t first = rows.first / length;
  return {first, ceil_div(rows.first + rows.count, length) - first};
}

void read_vptq(const Weight& weight, ElementRange tile, PartRanges& ranges) {
  const auto& s = weight.as<VptqState>();
  const RowRange rows = rows_of(tile, s.g.columns), vectors = vectors_of(rows, s.g.length);
  const auto indices = [&](uint32_t part, uint64_t row_bytes) {
    ranges.push({.part = part,
                 .rows = static_cast<uint32_t>(s.g.groups),
                 .offset = vectors.first * row_bytes,
                 .row_bytes = vectors.count * row_bytes,
                 .stride = s.vectors * row_bytes});
  };
  uint32_t part = 0;
  indices(part++, s.row_bytes);
  if (s.residual_range != 0) indices(part++, s.g.group_size * sizeof(uint16_t));
  if (s.outlier_range != 0)
    ranges.push(rows_of_part(part++, vectors_of(rows, s.g.outlier_length), s.g.outliers * sizeof(uint16_t)));
  for (const VptqTable* table : {&s.centroids, &s.residuals, &s.outliers, &s.perm, &s.scale, &s.bias})
    if (table->range != 0)
      ranges.push({.part = part++, .row_bytes = table->count * dtype_bits(table->dtype) / 8});
}

uint64_t vptq_scratch(const Weight& weight, uint64_t) {
  const auto& s = weight.as<VptqState>();
  return s.floats * sizeof(float) + s.g.columns;  // and which columns perm has named
}

uint64_t perm_at(const VptqState& s, const std::byte* from, size_t place) noexcept {
  if (s.perm.dtype == DType::I16) return load_le<uint16_t>(from + place * 2);
  if (s.perm.dtype == DType::I32) return load_le<uint32_t>(from + place * 4);
  return load_le<uint64_t>(from + place * 8);
}

// Every column must be named once; else the columns stand where they are, so that nothing is written elsewhere.
bool read_perm(const VptqState& s, const DecodeTask& task) noexcept {
  auto* to = reinterpret_cast<uint32_t*>(task.scratch) + s.perm.at;
  std::byte* seen = task.scratch + s.floats * sizeof(float);
  std::memset(seen, 0, to_size(s.g.columns));
  bool sound = true;
  for (size_t p = 0; p < to_size(s.g.columns); ++p) {
    const uint64_t column = perm_at(s, task.bytes[s.perm.range], p);
    sound = sound && column < s.g.columns && seen[to_size(column)] == std::byte{0};
    if (!sound) break;
    seen[to_size(column)] = std::byte{1};
    to[p] = static_cast<uint32_t>(column);
  }
  if (!sound) std::iota(to, to + to_size(s.g.columns), 0u);
  return sound;
}

bool all_below(const std::byte* indices, uint64_t count, uint64_t limit) noexcept {
  uint64_t largest = 0;
  for (size_t i = 0; i < to_size(count); ++i)
    largest = std::max<uint64_t>(largest, load_le<uint16_t>(indices + i * sizeof(uint16_t)));
  return largest < limit;
}

bool begin_vptq(const Weight& weight, const DecodeTask& task) noexcept {
  const auto& s = weight.as<VptqState>();
  for (const VptqTable* table : {&s.centroids, &s.residuals, &s.outliers, &s.scale, &s.bias}) {
    if (table->range == 0) continue;
    cast(task.kernels, table->dtype, DType::F32, task.bytes[table->range],
         task.scratch + table->at * sizeof(float), table->count);
  }
  if (s.perm.range != 0 && !read_perm(s, task)) return false;
  const RowRange rows = rows_of(task.tile, s.g.columns), vectors = vectors_of(rows, s.g.length);
  const uint64_t count = s.g.groups * vectors.count * s.g.group_size;
  if (!s.g.packed && !all_below(task.bytes[0], count, s.g.centroids)) return false;
  if (s.residual_range != 0 && !all_below(task.bytes[s.residual_range], count, s.g.residuals)) return false;
  return s.outlier_range == 0 ||
         all_below(task.bytes[s.outlier_range], vectors_of(rows, s.g.outlier_length).count * s.g.outliers,
                   s.g.outlier_centroids);
}

struct VptqPair {
  uint64_t index = 0, residual = 0;
};
VptqPair packed_pair(const VptqState& s, const std::byte* row, uint64_t place) noexcept {
  const uint32_t bits = s.index_bits + s.residual_bits;
  const uint64_t bit = place * bits, at = bit / 8;
  uint64_t word = 0;
  std::memcpy(&word, row + to_size(at), to_size(std::min<uint64_t>(sizeof word, s.row_bytes - at)));
  word = word >> (bit % 8) & ((uint64_t{1} << bits) - 1);
  return {word & ((uint64_t{1} << s.index_bits) - 1), word >> s.index_bits};
}

// Puts a vector, and perhaps one to be added, into its column of rows [first, first + count) of the piece.
struct VptqWriter {
  const VptqState& s;
  const float* tables;
  RowRange rows;  // of the piece
  float* out;

  void put(uint64_t place, uint64_t row, const float* vector, const float* added,
           uint64_t length) const noexcept {
    const uint64_t column =
        s.perm.range == 0 ? place : reinterpret_cast<const uint32_t*>(tables)[s.perm.at + to_size(place)];
    const auto c = to_size(column);
    for (uint64_t e = 0; e < length; ++e) {
      const uint64_t r = row + e;
      if (r < rows.first || r >= rows.first + rows.count) continue;
      float value = vector[to_size(e)];
      if (added != nullptr) value = value + added[to_size(e)];
      if (s.scale.range != 0) value = value * tables[s.scale.at + c];
      if (s.bias.range != 0) value = value + tables[s.bias.at + c];
      out[to_size((r - rows.first) * s.g.columns + column)] = value;
    }
  }
};

uint64_t decode_vptq(const Weight& weight, const DecodeTask& task, ElementRange piece, DType,
                     std::byte* out) noexcept {
  const auto& s = weight.as<VptqState>();
  const VptqGeometry& g = s.g;
  const RowRange rows = rows_of(piece, g.columns), tile = rows_of(task.tile, g.columns);
  const RowRange vectors = vectors_of(rows, g.length), in_tile = vectors_of(tile, g.length);
  const auto* tables = reinterpret_cast<const float*>(task.scratch);
  const VptqWriter writer{s, tables, rows, reinterpret_cast<float*>(out)};
  const bool has_residual = s.residuals.range != 0;
  for (uint64_t v = vectors.first; v < vectors.first + vectors.count; ++v) {
    for (uint64_t group = 0; group < g.groups; ++group) {
      const uint64_t row = group * in_tile.count + (v - in_tile.first);
      const std::byte* indices = task.bytes[0] + to_size(row * s.row_bytes);
      for (uint64_t c = 0; c < g.group_size; ++c) {
        VptqPair pair;
        if (g.packed) {
          pair = packed_pair(s, indices, c);
        } else {
          pair.index = load_le<uint16_t>(indices + to_size(c * sizeof(uint16_t)));
          if (s.residual_range != 0)
            pair.residual = load_le<uint16_t>(task.bytes[s.residual_range] +
                                              to_size((row * g.group_size + c) * sizeof(uint16_t)));
        }
        // begin_vptq() has told what points beyond.
        pair.index = std::min(pair.index, g.centroids - 1);
        if (has_residual) pair.residual = std::min(pair.residual, g.residuals - 1);
        const float* vector =
            tables + s.centroids.at + to_size((group * g.centroids + pair.index) * g.length);
        const float* added =
            has_residual ? tables + s.residuals.at + to_size((group * g.residuals + pair.residual) * g.length)
                         : nullptr;
        writer.put(g.outliers + group * g.group_size + c, v * g.length, vector, added, g.length);
      }
    }
  }
  if (s.outlier_range != 0) {
    const RowRange all = vectors_of(tile, g.outlier_length), here = vectors_of(rows, g.outlier_length);
    for (uint64_t v = here.first; v < here.first + here.count; ++v) {
      for (uint64_t c = 0; c < g.outliers; ++c) {
        const uint64_t index = std::min<uint64_t>(
            load_le<uint16_t>(task.bytes[s.outlier_range] +
                              to_size(((v - all.first) * g.outliers + c) * sizeof(uint16_t))),
            g.outlier_centroids - 1);
        writer.put(c, v * g.outlier_length, tables + s.outliers.at + to_size(index * g.outlier_length),
                   nullptr, g.outlier_length);
      }
    }
  }
  return settle_row(task.kernels, nullptr, nullptr, reinterpret_cast<float*>(out), piece.count);
}

constexpr Decoder kVptqDecoder{
    .reads = read_vptq, .decode = decode_vptq, .scratch = vptq_scratch, .begin = begin_vptq};

// The exponent of a power of two.
std::optional<uint32_t> exponent(uint64_t n) {
  if (n == 0 || (n & (n - 1)) != 0) return std::nullopt;
  uint32_t bits = 0;
  while ((uint64_t{1} << bits) < n) ++bits;
  return bits;
}

// Checks and collects the parts; `wrong` continues "Module NAME (vptq) …".
class VptqParts {
 public:
  VptqParts(const OpenContext& context, const QuantMatch& match) : context_(context), match_(match) {}

  std::string wrong{};
  std::vector<WeightPart> parts{};

  // The place of the part among the ranges, after a check of its bytes.
  size_t add(std::string_view role, TensorRef tensor, std::optional<uint64_t> bytes) {
    const TensorInfo& info = context_.checkpoint.info(tensor);
    if (wrong.empty() && bytes != info.bytes())
      wrong = "has " + std::string(role) + " of shape " + shape_text(info.shape) +
              ", where config.json asks for " + (bytes ? std::to_string(*bytes) : "too many") + " bytes";
    parts.push_back({role, tensor});
    return parts.size() - 1;
  }
  const TensorRef* need(std::string_view role) {
    const TensorRef* tensor = match_.find(role);
    if (tensor == nullptr && wrong.empty()) wrong = "lacks its " + std::string(role);
    return tensor;
  }
  void add_indices(std::string_view role, std::optional<uint64_t> count, size_t& range) {
    const TensorRef* tensor = need(role);
    if (tensor == nullptr) return;
    if (wrong.empty() && context_.checkpoint.info(*tensor).dtype != DType::I16)
      wrong = "has " + std::string(role) + " that are not I16";
    range = add(role, *tensor, count ? checked_mul(*count, sizeof(uint16_t)) : std::nullopt);
  }
  void add_table(std::string_view role, std::optional<uint64_t> count, VptqTable& table, size_t& floats) {
    const TensorRef* tensor = need(role);
    if (tensor == nullptr) return;
    table.dtype = context_.checkpoint.info(*tensor).dtype;
    const bool is_perm = role == "perm";
    const bool fits =
        is_perm ? table.dtype == DType::I16 || table.dtype == DType::I32 || table.dtype == DType::I64
                : is_scale_float(table.dtype);
    if (wrong.empty() && !fits)
      wrong = "has " + std::string(role) + " of dtype " + std::string(dtype_name(table.dtype));
    if (wrong.empty() && (!count || *count > kMostTableBytes / sizeof(float)))
      wrong = "has " + std::string(role) + " too large to be held";
    if (!wrong.empty()) return;
    table.count = *count;
    table.at = floats;
    floats += to_size(*count);
    table.range = add(role, *tensor, byte_count(*count, table.dtype));
  }

 private:
  const OpenContext& context_;
  const QuantMatch& match_;
};

std::optional<uint64_t> product(std::initializer_list<uint64_t> factors) {
  std::optional<uint64_t> out = 1;
  for (const uint64_t factor : factors) out = out ? checked_mul(*out, factor) : std::nullopt;
  return out;
}

std::string geometry_fault(const VptqGeometry& g) {
  const auto inner = product({g.groups, g.group_size});
  const auto columns = inner ? checked_add(*inner, g.outliers) : std::nullopt;
  if (g.rows == 0 || g.columns == 0 || g.length == 0 || g.centroids == 0 || g.groups == 0 ||
      columns != g.columns || g.centroids > 65536 || g.residuals > 65536 || g.groups > UINT32_MAX ||
      (g.outliers > 0 && (g.outlier_length == 0 || g.outlier_centroids == 0 || g.outlier_centroids > 65536)))
    return "has numbers in config.json that do not fit together (in_features is not group_num * group_size + "
           "outlier_size, or a length is 0)";
  return {};
}

}  // namespace

Result<Weight> open_vptq(OpenContext& context, const QuantMatch& match) {
  const auto* geometry = static_cast<const VptqGeometry*>(match.detail.get());
  if (geometry == nullptr)
    return weight_fault(ErrorCode::kRefusedMissing, context, match,
                        "has its geometry in no config_for_layers of config.json");
  const VptqGeometry& g = *geometry;
  const auto fault = [&](const std::string& what) {
    return weight_fault(ErrorCode::kRefusedShape, context, match, what);
  };
  if (const std::string wrong = geometry_fault(g); !wrong.empty()) return fault(wrong);
  auto state = std::make_shared<VptqState>();
  VptqState& s = *state;
  s.g = g;
  s.vectors = ceil_div(g.rows, g.length);
  if (g.outliers > 0) s.outlier_vectors = ceil_div(g.rows, g.outlier_length);
  VptqParts parts(context, match);
  const DType stored = context.checkpoint.info(match.weight).dtype;
  if (g.packed) {
    const auto bits = exponent(g.centroids),
               more = g.residuals == 0 ? std::optional(0u) : exponent(g.residuals);
    if (!bits || !more) return fault("has packed indices of centroids whose number is no power of two");
    s.index_bits = *bits;
    s.residual_bits = *more;
    s.row_bytes = ceil_div(g.group_size * (*bits + *more), 32) * 4;
  } else {
    s.row_bytes = g.group_size * sizeof(uint16_t);
  }
  if (stored != (g.packed ? DType::I32 : DType::I16))
    return fault("has indices of dtype " + std::string(dtype_name(stored)) +
                 ", and config.json says they are " + (g.packed ? "packed" : "not packed"));
  parts.add("indices", match.weight, product({g.groups, s.vectors, s.row_bytes}));
  if (g.residuals > 0 && !g.packed)
    parts.add_indices("res_indices", product({g.groups, s.vectors, g.group_size}), s.residual_range);
  if (g.outliers > 0)
    parts.add_indices("outlier_indices", product({s.outlier_vectors, g.outliers}), s.outlier_range);
  parts.add_table("centroids", product({g.groups, g.centroids, g.length}), s.centroids, s.floats);
  if (g.residuals > 0)
    parts.add_table("res_centroids", product({g.groups, g.residuals, g.length}), s.residuals, s.floats);
  if (g.outliers > 0)
    parts.add_table("outlier_centroids", product({g.outlier_centroids, g.outlier_length}), s.outliers,
                    s.floats);
  if (g.permuted) parts.add_table("perm", g.columns, s.perm, s.floats);
  if (g.normed) {
    parts.add_table("weight_scale", g.columns, s.scale, s.floats);
    parts.add_table("weight_bias", g.columns, s.bias, s.floats);
  }
  if (!parts.wrong.empty()) return fault(parts.wrong);
  const uint64_t lengths = g.outliers > 0 ? std::lcm(g.length, g.outlier_length) : g.length;
  const auto elements = checked_mul(g.rows, g.columns), unit = checked_mul(g.columns, lengths);
  if (!elements || !unit || *unit > kLargestUnitBytes / sizeof(float))
    return fault("has rows too long to be decoded");
  Weight weight;
  weight.decoder = &kVptqDecoder;
  weight.word = "vptq v" + std::to_string(g.length) + " k" + std::to_string(g.centroids);
  for (const uint64_t n : {g.rows, g.columns, g.residuals, g.groups, g.group_size, g.outliers,
                           g.outlier_length, g.outlier_centroids, uint64_t{g.packed}})
    weight.key += std::to_string(n) + ' ';
  for (const VptqTable* table : {&s.centroids, &s.residuals, &s.outliers, &s.perm, &s.scale, &s.bias})
    weight.key += table->range == 0 ? "- " : std::string(dtype_name(table->dtype)) + ' ';
  weight.shape = {g.rows, g.columns};
  weight.elements = *elements;
  weight.parts = std::move(parts.parts);
  weight.unit = *unit;
  const uint64_t bytes = s.row_bytes * g.groups + (s.residual_range != 0 ? s.row_bytes * g.groups : 0);
  weight.bits = static_cast<uint32_t>(ceil_div(bytes * 8, g.columns * g.length)) + (g.outliers > 0 ? 16 : 0);
  weight.reads = static_cast<uint32_t>(weight.parts.size());
  weight.state = std::move(state);
  return weight;
}

}  // namespace tftf
