// Encodes matrices as MLX does: groups of a row between a scale and a bias.
#include "quant/mlx_encoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tftf/base/affix.h"
#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/simd/cast.h"

namespace tftf {
namespace {

constexpr uint32_t kMlxDefaultBits = 4;
constexpr uint64_t kMlxDefaultGroup = 64;
constexpr float kMlxSmallestScale = 1e-7f;
constexpr std::string_view kWeightEnd = ".weight";

struct MlxRows {
  uint64_t columns = 0;
  uint64_t group = 0;
  uint32_t bits = 0;
  DType scale_dtype{};
  uint64_t scale_bytes() const { return groups() * dtype_bits(scale_dtype) / 8; }
  uint64_t groups() const { return columns / group; }
  uint64_t code_bytes() const { return columns * bits / 8; }
};

uint32_t mlx_bits(const EncodeOptions& options) { return options.bits == 0 ? kMlxDefaultBits : options.bits; }
uint64_t mlx_group(const EncodeOptions& options) {
  return options.group_size == 0 ? kMlxDefaultGroup : options.group_size;
}

Result<void> check_mlx(std::string_view layout, const EncodeOptions& options) {
  const uint32_t bits = mlx_bits(options);
  const uint64_t group = mlx_group(options);
  const auto usage = [&](const std::string& what, const std::string& known) {
    return Error{.code = ErrorCode::kUsage,
                 .message = what + " does not go with " + std::string(layout) + ", which has " + known + "."};
  };
  if (bits < 2 || bits == 7 || bits > 8)
    return usage("--bits " + std::to_string(bits), "2, 3, 4, 5, 6 and 8");
  if (group != 32 && group != 64 && group != 128)
    return usage("--group-size " + std::to_string(group), "32, 64 and 128");
  return {};
}

Result<Encoded> plan_mlx(const EncodeRequest& request) {
  TFTF_TRY(check_encoded_unit(request, 1));
  auto rows = std::make_shared<MlxRows>();
  rows->columns = request.columns;
  rows->group = mlx_group(request.options);
  rows->bits = mlx_bits(request.options);
  rows->scale_dtype = request.from;
  if (rows->columns % rows->group != 0)
    return cannot_encode(
        request, "cannot be coded: its rows are not filled by groups of " + std::to_string(rows->group));
  if (!ends_with(request.name, kWeightEnd))
    return cannot_encode(request, "is not called *.weight, which MLX's names for scales and biases go by");
  const std::string module = request.name.substr(0, request.name.size() - kWeightEnd.size());
  const Shape grid = {request.rows, rows->groups()};
  Encoded encoded;
  encoded.encoder = &kMlxAffineEncoder;
  encoded.word = "mlx-affine b" + std::to_string(rows->bits) + " g" + std::to_string(rows->group);
  encoded.key = std::to_string(rows->columns);
  encoded.elements = request.rows * request.columns;
  encoded.parts = {{request.name, DType::U32, {request.rows, rows->code_bytes() / 4}},
                   {module + ".scales", request.from, grid},
                   {module + ".biases", request.from, grid}};
  encoded.unit = request.columns;
  encoded.bits = rows->bits + static_cast<uint32_t>(ceil_div(2 * dtype_bits(request.from), rows->group));
  encoded.state = std::move(rows);
  return encoded;
}

void write_mlx(const Encoded& encoded, ElementRange tile, PartRanges& ranges) {
  const auto& state = encoded.as<MlxRows>();
  const RowRange rows = rows_of(tile, state.columns);
  ranges.push(rows_of_part(0, rows, state.code_bytes()));
  ranges.push(rows_of_part(1, rows, state.scale_bytes()));
  ranges.push(rows_of_part(2, rows, state.scale_bytes()));
}

// A row as F32, then its scales and biases, then its codes, a byte each.
uint64_t mlx_scratch(const Encoded& encoded, uint64_t) {
  const auto& state = encoded.as<MlxRows>();
  return (state.columns + 2 * state.groups()) * sizeof(float) + state.columns;
}

struct MlxScale {
  float scale = 1, bias = 0;
};

MlxScale scale_of_group(const float* values, uint64_t count, float most) noexcept {
  float low = values[0], high = values[0];
  for (size_t i = 1; i < to_size(count); ++i) {
    low = values[i] < low ? values[i] : low;
    high = values[i] > high ? values[i] : high;
  }
  const bool below = std::abs(low) > std::abs(high);
  const float span = (high - low) / most;
  const float width = span > kMlxSmallestScale ? span : kMlxSmallestScale;
  MlxScale out{below ? width : -width, 0.0f};
  const float edge = below ? low : high;
  const float steps = std::nearbyint(edge / out.scale);
  if (steps != 0.0f) {
    out.scale = edge / steps;
    out.bias = edge;
  }
  return out;
}

void pack_row(const MlxRows& state, const uint8_t* codes, std::byte* out) noexcept {
  for (uint64_t c = 0; c < state.columns; c += 8) {
    uint64_t word = 0;
    for (uint32_t j = 0; j < 8; ++j) word |= static_cast<uint64_t>(codes[to_size(c + j)]) << (state.bits * j);
    for (uint32_t b = 0; b < state.bits; ++b) *out++ = static_cast<std::byte>(word >> (8 * b) & 0xFF);
  }
}

uint64_t encode_mlx(const Encoded& encoded, const EncodeTask& task, ElementRange piece,
                    const std::byte* in) noexcept {
  const auto& state = encoded.as<MlxRows>();
  const uint64_t skipped = (piece.first - task.tile.first) / state.columns, groups = state.groups();
  const float most = static_cast<float>((1u << state.bits) - 1);
  auto* row = reinterpret_cast<float*>(task.scratch);
  float *scales = row + to_size(state.columns), *biases = scales + to_size(groups);
  auto* codes = reinterpret_cast<uint8_t*>(biases + to_size(groups));
  uint64_t lost = 0;
  for (uint64_t r = 0; r < piece.count / state.columns; ++r) {
    cast(task.kernels, task.from, DType::F32, in, task.scratch, state.columns);
    in += to_size(state.columns * dtype_bits(task.from) / 8);
    if (task.kernels.largest_magnitude(row, state.columns) >= 0x7F800000) {
      for (size_t i = 0; i < to_size(state.columns); ++i) {
        lost += !std::isfinite(row[i]);
        row[i] = 0.0f;
      }
    }
    for (uint64_t g = 0; g < groups; ++g) {
      const float* values = row + to_size(g * state.group);
      const MlxScale by = scale_of_group(values, state.group, most);
      scales[to_size(g)] = by.scale;
      biases[to_size(g)] = by.bias;
      for (size_t i = 0; i < to_size(state.group); ++i) {
        const float shifted = values[i] - by.bias;
        const float code = std::nearbyint(shifted / by.scale);
        codes[to_size(g * state.group) + i] = static_cast<uint8_t>(code < 0.0f   ? 0.0f
                                                                   : code > most ? most
                                                                                 : code);
      }
    }
    pack_row(state, codes, task.out[0] + to_size((skipped + r) * state.code_bytes()));
    const auto narrow = [&](const float* from, size_t part) {
      lost += cast(task.kernels, DType::F32, task.from, reinterpret_cast<const std::byte*>(from),
                   task.out[part] + to_size((skipped + r) * state.scale_bytes()), groups);
    };
    narrow(scales, 1);
    narrow(biases, 2);
  }
  return lost;
}

std::string mlx_config(const ConfigRequest& request) {
  return "{\"group_size\": " + std::to_string(mlx_group(request.options)) +
         ", \"bits\": " + std::to_string(mlx_bits(request.options)) + ", \"mode\": \"affine\"}";
}

}  // namespace

const Encoder kMlxAffineEncoder{.check = check_mlx,
                                .plan = plan_mlx,
                                .writes = write_mlx,
                                .encode = encode_mlx,
                                .scratch = mlx_scratch,
                                .config = mlx_config,
                                .config_twice = true};

}  // namespace tftf
