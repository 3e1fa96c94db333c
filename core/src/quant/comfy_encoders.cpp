// The encoders of ComfyUI's FP8 and NVFP4. Both look for the largest magnitude of the tensor first.
#include "quant/comfy_encoders.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "quant/swizzle.h"
#include "tftf/base/affix.h"
#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/simd/cast.h"
#include "tftf/simd/floats.h"

namespace tftf {
namespace {

constexpr uint64_t kChunk = 1024;
constexpr uint64_t kFp4Group = 16;
constexpr float kLargestFp8 = 448.0f;
constexpr float kLargestFp4 = 6.0f;
constexpr float kLargestHalf = 65504.0f;

struct ComfyMatrix {
  DType from{};
  uint64_t rows = 0, columns = 0;
  uint64_t padded_rows = 0, padded_columns = 0;
};

float rounded(DType to, float x) {
  if (to == DType::BF16) return f32_from_bf16(bf16_from_f32(x));
  if (to == DType::F16) return f32_from_f16(f16_from_f32(x));
  return x;
}

void measure_largest(const Encoded&, const EncodeTask& task, ElementRange piece, const std::byte* in,
                     Measure& into) noexcept {
  float values[kChunk];
  const uint64_t size = dtype_bits(task.from) / 8;
  for (uint64_t done = 0; done < piece.count; done += kChunk) {
    const uint64_t count = std::min(kChunk, piece.count - done);
    cast(task.kernels, task.from, DType::F32, in + to_size(done * size), reinterpret_cast<std::byte*>(values),
         count);
    const auto largest = bit_cast<float>(task.kernels.largest_magnitude(values, count));
    if (std::isfinite(largest)) {
      into.largest = std::max(into.largest, static_cast<double>(largest));
    } else {
      for (uint64_t i = 0; i < count; ++i) into.lost += std::isfinite(values[i]) ? 0 : 1;
    }
  }
}

std::string scale_text(float scale) {
  std::string bytes(sizeof scale, '\0');
  std::memcpy(bytes.data(), &scale, sizeof scale);
  return bytes;
}

// ComfyUI finds the scale and the description of a layer by the names of its module.
Result<std::string> comfy_module(const EncodeRequest& request) {
  constexpr std::string_view kName = "weight";
  const std::string& name = request.name;
  if (ends_with(name, kName)) {
    std::string module = name.substr(0, name.size() - kName.size());
    if (module.empty() || module.back() == '.') return module;
  }
  return cannot_encode(request,
                       "is not called *.weight, as ComfyUI calls the weights it looks for scales of");
}

EncodedPart comfy_description(const std::string& module, std::string_view format) {
  std::string text = comfy_description_text(format, false);
  const uint64_t bytes = text.size();
  return {module + "comfy_quant", DType::U8, {bytes}, std::move(text)};
}

Encoded comfy_encoded(const EncodeRequest& request, const Encoder& encoder, std::string_view word,
                      uint64_t multiple) {
  Encoded encoded;
  encoded.encoder = &encoder;
  encoded.word = word;
  encoded.key = std::to_string(request.rows) + ' ' + std::to_string(request.columns);
  encoded.elements = request.rows * request.columns;
  const auto padded = [multiple](uint64_t n) { return ceil_div(n, multiple) * multiple; };
  encoded.state = std::make_shared<const ComfyMatrix>(ComfyMatrix{
      request.from, request.rows, request.columns, padded(request.rows), padded(request.columns)});
  return encoded;
}

// FP8.

Result<Encoded> plan_comfy_fp8(const EncodeRequest& request) {
  Result<std::string> module = comfy_module(request);
  if (!module) return std::move(module).error();
  Encoded encoded = comfy_encoded(request, kComfyFp8Encoder, "comfy-fp8", 1);
  encoded.parts = {{request.name, DType::F8_E4M3, {request.rows, request.columns}},
                   {*module + "weight_scale", DType::F32, {}, std::nullopt, 0},
                   comfy_description(*module, "float8_e4m3fn")};
  encoded.bits = 8;
  return encoded;
}

void write_comfy_fp8(const Encoded&, ElementRange tile, PartRanges& ranges) {
  ranges.push({.part = 0, .offset = tile.first, .row_bytes = tile.count});
}

// What multiplies; nothing where it would not be finite.
std::optional<float> fp8_factor(DType from, float scale) {
  const float factor = rounded(from, 1.0f / scale);
  if (!std::isfinite(factor)) return std::nullopt;
  return factor;
}

std::string fp8_measured(const Encoded& encoded, const Measure& all) {
  const DType from = encoded.as<ComfyMatrix>().from;
  float scale = static_cast<float>(all.largest) / kLargestFp8;
  if (from == DType::F16) scale = 1.0f / std::min(1.0f / scale, kLargestHalf);
  return scale_text(fp8_factor(from, scale) ? scale : 1.0f);
}

uint64_t encode_comfy_fp8(const Encoded&, const EncodeTask& task, ElementRange piece,
                          const std::byte* in) noexcept {
  const float factor = fp8_factor(task.from, load_le<float>(task.measured)).value_or(1.0f);
  std::byte* codes = task.out[0] + to_size(piece.first - task.tile.first);
  float values[kChunk];
  std::byte narrow[kChunk * 2];
  auto* const wide = reinterpret_cast<std::byte*>(values);
  const uint64_t size = dtype_bits(task.from) / 8;
  for (uint64_t done = 0; done < piece.count; done += kChunk) {
    const uint64_t count = std::min(kChunk, piece.count - done);
    cast(task.kernels, task.from, DType::F32, in + to_size(done * size), wide, count);
    for (uint64_t i = 0; i < count; ++i) values[i] *= factor;
    if (task.from != DType::F32) {
      cast(task.kernels, DType::F32, task.from, wide, narrow, count);
      cast(task.kernels, task.from, DType::F32, narrow, wide, count);
    }
    for (uint64_t i = 0; i < count; ++i) values[i] = std::min(std::max(values[i], -kLargestFp8), kLargestFp8);
    task.kernels.quantize_e4m3(values, count, 1.0f, codes + to_size(done));
  }
  return 0;
}

// NVFP4.

Result<Encoded> plan_comfy_nvfp4(const EncodeRequest& request) {
  TFTF_TRY(check_encoded_unit(request, kSwizzleRows));
  Result<std::string> module = comfy_module(request);
  if (!module) return std::move(module).error();
  Encoded encoded = comfy_encoded(request, kComfyNvfp4Encoder, "comfy-nvfp4", kFp4Group);
  const auto& matrix = encoded.as<ComfyMatrix>();
  const uint64_t groups = matrix.padded_columns / kFp4Group;
  encoded.parts = {{request.name, DType::U8, {matrix.padded_rows, matrix.padded_columns / 2}},
                   {*module + "weight_scale",
                    DType::F8_E4M3,
                    {ceil_div(request.rows, kSwizzleRows) * kSwizzleRows,
                     ceil_div(groups, kSwizzleColumns) * kSwizzleColumns}},
                   {*module + "weight_scale_2", DType::F32, {}, std::nullopt, 0},
                   comfy_description(*module, "nvfp4")};
  if (matrix.padded_rows != request.rows || matrix.padded_columns != request.columns) {
    encoded.warning = "Tensor " + quote_name(request.name) + " is padded to " +
                      shape_text({matrix.padded_rows, matrix.padded_columns}) +
                      "; its own size will be in no file.";
  }
  encoded.unit = request.columns * kSwizzleRows;
  // Narrow matrices are padded to several times their size.
  encoded.bits = static_cast<uint32_t>(
      ceil_div(8 * (matrix.padded_columns / 2 + ceil_div(groups, kSwizzleColumns) * kSwizzleColumns),
               request.columns));
  return encoded;
}

void write_comfy_nvfp4(const Encoded& encoded, ElementRange tile, PartRanges& ranges) {
  const auto& matrix = encoded.as<ComfyMatrix>();
  RowRange rows = rows_of(tile, matrix.columns);
  const RowRange bands{rows.first / kSwizzleRows, ceil_div(rows.count, kSwizzleRows)};
  if (rows.first + rows.count == matrix.rows) rows.count = matrix.padded_rows - rows.first;
  ranges.push(rows_of_part(0, rows, matrix.padded_columns / 2));
  ranges.push(rows_of_part(1, bands, swizzled_band(matrix.padded_columns / kFp4Group)));
}

// A row as F32.
uint64_t nvfp4_scratch(const Encoded& encoded, uint64_t) {
  return encoded.as<ComfyMatrix>().padded_columns * sizeof(float);
}

std::string nvfp4_measured(const Encoded& encoded, const Measure& all) {
  const float exact = static_cast<float>(all.largest) / (kLargestFp8 * kLargestFp4);
  const float scale = rounded(encoded.as<ComfyMatrix>().from, exact);
  return scale_text(scale > 0.0f ? scale : exact > 0.0f ? exact : 1.0f);
}

// Codes of sixteen values over `total`, the first of two in the high bits; ties go to the even code.
void encode_group(const float* values, float total, std::byte* codes) {
  uint32_t code[kFp4Group];
  for (uint64_t i = 0; i < kFp4Group; ++i) {
    const float x = values[i] / total, size = std::fabs(x);
    const uint32_t magnitude = uint32_t{size > 0.25f} + uint32_t{size >= 0.75f} + uint32_t{size > 1.25f} +
                               uint32_t{size >= 1.75f} + uint32_t{size > 2.5f} + uint32_t{size >= 3.5f} +
                               uint32_t{size > 5.0f};
    code[i] = magnitude | (bit_cast<uint32_t>(x) >> 31) << 3;
  }
  for (uint64_t i = 0; i < kFp4Group / 2; ++i)
    codes[i] = static_cast<std::byte>(code[2 * i] << 4 | code[2 * i + 1]);
}

uint64_t encode_comfy_nvfp4(const Encoded& encoded, const EncodeTask& task, ElementRange piece,
                            const std::byte* in) noexcept {
  const auto& matrix = encoded.as<ComfyMatrix>();
  const RowRange rows = rows_of(piece, matrix.columns);
  const uint64_t skipped = rows.first - task.tile.first / matrix.columns;
  const uint64_t groups = matrix.padded_columns / kFp4Group, code_bytes = matrix.padded_columns / 2;
  const uint64_t in_bytes = matrix.columns * dtype_bits(task.from) / 8;
  const auto global = load_le<float>(task.measured);
  auto* row = reinterpret_cast<float*>(task.scratch);
  std::fill(row + to_size(matrix.columns), row + to_size(matrix.padded_columns), 0.0f);
  std::byte* codes = task.out[0] + to_size(skipped * code_bytes);
  std::byte* scales = task.out[1] + to_size(skipped / kSwizzleRows * swizzled_band(groups));
  std::memset(scales, 0, to_size(ceil_div(rows.count, kSwizzleRows) * swizzled_band(groups)));
  const float* const e4m3 = f8_values(DType::F8_E4M3);
  for (uint64_t r = 0; r < rows.count; ++r) {
    cast(task.kernels, task.from, DType::F32, in + to_size(r * in_bytes), task.scratch, matrix.columns);
    std::byte* band = scales + to_size(r / kSwizzleRows * swizzled_band(groups));
    for (uint64_t g = 0; g < groups; ++g) {
      const float* values = row + to_size(g * kFp4Group);
      float largest = 0;
      for (uint64_t i = 0; i < kFp4Group; ++i) largest = std::max(largest, std::fabs(values[i]));
      const float wanted = largest / kLargestFp4 / global;
      const uint8_t scale = f8_from_f32(DType::F8_E4M3, std::min(wanted, kLargestFp8), Overflow::kSaturate);
      band[to_size(swizzled_at(r % kSwizzleRows, g))] = std::byte{scale};
      const float total = global * e4m3[scale];
      std::byte* to = codes + to_size(g * (kFp4Group / 2));
      if (total == 0.0f) {
        std::memset(to, 0, kFp4Group / 2);
      } else {
        encode_group(values, total, to);
      }
    }
    codes += to_size(code_bytes);
  }
  if (rows.first + rows.count == matrix.rows)
    std::memset(codes, 0, to_size((matrix.padded_rows - matrix.rows) * code_bytes));
  return 0;
}

}  // namespace

std::string comfy_description_text(std::string_view format, bool full_precision) {
  return "{\"format\": \"" + std::string(format) +
         (full_precision ? "\", \"full_precision_matrix_mult\": true}" : "\"}");
}

const Encoder kComfyFp8Encoder{.check = check_no_encode_options,
                               .plan = plan_comfy_fp8,
                               .writes = write_comfy_fp8,
                               .encode = encode_comfy_fp8,
                               .measure = measure_largest,
                               .measured = fp8_measured};
const Encoder kComfyNvfp4Encoder{.check = check_no_encode_options,
                                 .plan = plan_comfy_nvfp4,
                                 .writes = write_comfy_nvfp4,
                                 .encode = encode_comfy_nvfp4,
                                 .scratch = nvfp4_scratch,
                                 .measure = measure_largest,
                                 .measured = nvfp4_measured};

}  // namespace tftf
