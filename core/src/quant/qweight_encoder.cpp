// Encoders of GPTQ and AWQ GEMM: round to nearest, without calibration data. Their codes lie input by input, so a tile is a
// strip of columns of all rows, whole groups at a time.
#include <algorithm>
#include <cmath>

#include "quant/bit_fields.h"
#include "quant/qweight.h"
#include "quant/qweight_config.h"
#include "tftf/base/affix.h"
#include "tftf/base/escape.h"
#include "tftf/simd/cast.h"
#include "tftf/simd/floats.h"

namespace tftf {
namespace {

constexpr uint32_t kNoNumber = 0x7F800000;
constexpr uint64_t kUsualGroup = 128;
constexpr uint64_t kLeastGroup = 16;
// Elements of a strip, where whole groups allow it.
constexpr uint64_t kStripElements = uint64_t{2} << 20;

struct QweightEncoding {
  QweightPacking packing{};
  uint32_t bits = 4;
  uint64_t outputs = 0, inputs = 0, group = 0;
  bool v1 = false;  // stored zero points are less by one
  bool symmetric = true;
  DType scale = DType::F16;
};

void write_qweight(const Encoded& encoded, ElementRange tile, PartRanges& ranges) {
  const auto& e = encoded.as<QweightEncoding>();
  const uint64_t first = tile.first / e.outputs, count = tile.count / e.outputs;
  const RowRange groups{first / e.group, ceil_div(count, e.group)};
  ranges.push(
      {.part = 0, .offset = first * e.outputs * e.bits / 8, .row_bytes = count * e.outputs * e.bits / 8});
  ranges.push(rows_of_part(1, groups, e.outputs * dtype_bits(e.scale) / 8));
  ranges.push(rows_of_part(2, groups, e.outputs * e.bits / 8));
  if (e.packing == QweightPacking::kGptq) ranges.push(rows_of_part(3, {first, count}, 4));
}

// A row as F32, the codes of eight rows, and per group of the strip a zero point for each row.
uint64_t qweight_encode_scratch(const Encoded& encoded, uint64_t units) {
  const auto& e = encoded.as<QweightEncoding>();
  const uint64_t width = units / e.outputs;
  return ceil_div(width, 16) * 16 * (sizeof(float) + 8) + ceil_div(width, e.group) * e.outputs;
}

struct QweightScale {
  float scale = 1.0f;
  int32_t zero = 0;
};

// As the quantiser of GPTQ does without its search, but for two things: a symmetric range reaches as far to both sides
// whatever the signs of the values, and where a stored zero point cannot be 0 it is 1 in a range of one code less.
QweightScale scale_of(const QweightEncoding& e, const float* values, uint64_t count) {
  float low = 0.0f, high = 0.0f;
  for (uint64_t i = 0; i < count; ++i) {
    low = std::min(low, values[to_size(i)]);
    high = std::max(high, values[to_size(i)]);
  }
  const auto most = static_cast<float>((1u << e.bits) - 1);
  if (e.symmetric) {
    high = std::max(-low, high);
    low = -high;
  }
  if (!((high - low) / most > 0.0f)) {
    low = -1.0f;
    high = 1.0f;
  }
  QweightScale found{(high - low) / most, int32_t{1} << (e.bits - 1)};
  if (e.symmetric) return found;
  found.zero = static_cast<int32_t>(std::nearbyint(-low / found.scale));
  if (found.zero == 0 && e.v1) found = {(high - low) / (most - 1.0f), 1};
  return found;
}

void quantise_group(const KernelTable& kernels, const QweightEncoding& e, const QweightScale& group,
                    const float* values, uint64_t count, uint8_t* codes) {
  const int32_t most = (1 << e.bits) - 1, lowest = -group.zero, highest = most - group.zero;
  if (lowest >= INT8_MIN && highest <= INT8_MAX) {
    auto* out = reinterpret_cast<int8_t*>(codes);
    kernels.quantize_i8(values, count, group.scale, lowest, highest, out);
    for (uint64_t i = 0; i < count; ++i)
      codes[to_size(i)] = static_cast<uint8_t>(out[to_size(i)] + group.zero);
    return;
  }
  for (uint64_t i = 0; i < count; ++i) {
    const auto rounded = static_cast<int32_t>(std::nearbyint(values[to_size(i)] / group.scale));
    codes[to_size(i)] = static_cast<uint8_t>(std::clamp(rounded, lowest, highest) + group.zero);
  }
}

// The codes of one row into words of its column; `stride` bytes from word to word.
void put_column(const uint8_t* codes, uint64_t count, uint32_t bits, std::byte* out, uint64_t stride) {
  const uint64_t words_at_once = fields_at_once(bits) * bits / 32;
  for (uint64_t k = 0; k < count; k += fields_at_once(bits)) {
    std::array<uint32_t, 3> words{};
    for (uint32_t j = 0; j < fields_at_once(bits); ++j) {
      const uint32_t bit = j * bits, code = codes[to_size(k + j)];
      words[bit / 32] |= code << (bit % 32);
      if (bit % 32 + bits > 32) words[bit / 32 + 1] |= code >> (32 - bit % 32);
    }
    for (uint64_t w = 0; w < words_at_once; ++w) {
      store_word(out, words[to_size(w)]);
      out += to_size(stride);
    }
  }
}

// Those of eight rows, `width` apart, into AWQ's words of eight columns.
void put_columns_awq(const uint8_t* codes, uint64_t width, uint64_t count, std::byte* out, uint64_t stride) {
  for (uint64_t k = 0; k < count; ++k) {
    uint32_t word = 0;
    for (uint32_t f = 0; f < 8; ++f) word |= uint32_t{codes[to_size(kAwqOrder[f] * width + k)]} << 4 * f;
    store_word(out, word);
    out += to_size(stride);
  }
}

// The zero points of a group, a byte each, as fields of words.
void put_zeros(const QweightEncoding& e, const uint8_t* zeros, std::byte* out) {
  if (e.packing == QweightPacking::kGemm) {
    for (uint64_t n = 0; n < e.outputs; n += 8)
      put_columns_awq(zeros + to_size(n), 1, 1, out + to_size(n / 2), 0);
  } else {
    put_column(zeros, e.outputs, e.bits, out, 4);
  }
}

uint64_t encode_qweight(const Encoded& encoded, const EncodeTask& task, ElementRange piece,
                        const std::byte* in) noexcept {
  const auto& e = encoded.as<QweightEncoding>();
  const bool awq = e.packing == QweightPacking::kGemm;
  const uint64_t width = piece.count / e.outputs, groups = ceil_div(width, e.group);
  const uint64_t room = ceil_div(width, 16) * 16, row_bytes = width * dtype_bits(task.from) / 8;
  const uint64_t scale_bytes = dtype_bits(e.scale) / 8, word_row = e.outputs * 4;
  auto* const floats = reinterpret_cast<float*>(task.scratch);
  auto* const codes = reinterpret_cast<uint8_t*>(task.scratch + to_size(room * sizeof(float)));
  auto* const zeros = codes + to_size(room * 8);
  uint64_t lost = 0;
  for (uint64_t n = 0; n < e.outputs; ++n) {
    const std::byte* row = in + to_size(n * row_bytes);
    cast(task.kernels, task.from, DType::F32, row, reinterpret_cast<std::byte*>(floats), width);
    uint8_t* const row_codes = codes + to_size(n % 8 * room);
    for (uint64_t i = 0; i < groups; ++i) {
      const float* values = floats + to_size(i * e.group);
      const uint64_t count = std::min(e.group, width - i * e.group);
      QweightScale group;
      if (task.kernels.largest_magnitude(values, count) >= kNoNumber) {
        for (uint64_t k = 0; k < count; ++k) lost += !std::isfinite(values[to_size(k)]);
      } else {
        group = scale_of(e, values, count);
      }
      std::byte* const scale = task.out[1] + to_size((i * e.outputs + n) * scale_bytes);
      if (cast(task.kernels, DType::F32, e.scale, reinterpret_cast<const std::byte*>(&group.scale), scale,
               1) != 0 ||
          !std::isfinite(group.scale)) {
        lost += count;  // the range is wider than the scale's dtype can say
        group = {};
      }
      if (lost == 0) {
        quantise_group(task.kernels, e, group, values, count, row_codes + to_size(i * e.group));
      } else {
        std::fill_n(row_codes + to_size(i * e.group), to_size(count), uint8_t{0});
      }
      zeros[to_size(i * e.outputs + n)] =
          static_cast<uint8_t>((group.zero - (e.v1 ? 1 : 0)) & ((1 << e.bits) - 1));
    }
    if (!awq) put_column(row_codes, width, e.bits, task.out[0] + to_size(n * 4), word_row);
    if (awq && n % 8 == 7)
      put_columns_awq(codes, room, width, task.out[0] + to_size(n / 8 * 4), e.outputs / 2);
  }
  for (uint64_t i = 0; i < groups; ++i)
    put_zeros(e, zeros + to_size(i * e.outputs), task.out[2] + to_size(i * e.outputs * e.bits / 8));
  if (e.packing == QweightPacking::kGptq) {
    const uint64_t first = piece.first / e.outputs;
    for (uint64_t k = 0; k < width; ++k)
      store_word(task.out[3] + to_size(k * 4), static_cast<uint32_t>((first + k) / e.group));
  }
  return lost;
}

Result<void> check_qweight(std::string_view layout, const EncodeOptions& options) {
  const auto usage = [&](const std::string& what) {
    return Error{.code = ErrorCode::kUsage, .message = what + "."};
  };
  const bool awq = layout == "awq-gemm";
  const uint32_t bits = options.bits == 0 ? 4 : options.bits;
  if (awq ? bits != 4 : bits != 2 && bits != 3 && bits != 4 && bits != 8) {
    return usage("--bits " + std::to_string(bits) + " does not go with " + std::string(layout) +
                 ", which has codes of " + (awq ? "4 bits" : "2, 3, 4 or 8 bits"));
  }
  const uint64_t group = options.group_size, fields = awq ? 8 : std::max<uint64_t>(8, fields_at_once(bits));
  if (group == 0) return {};
  if (group < kLeastGroup || group % fields != 0 ||
      (awq && group != 16 && group != 32 && group != 64 && group != 128 && group != 256)) {
    return usage("--group-size " + std::to_string(group) + " does not go with " + std::string(layout) + ": " +
                 (awq ? "it is 16, 32, 64, 128, 256, or -1 for whole rows"
                      : "it is a multiple of " + std::to_string(std::max(fields, kLeastGroup)) +
                            " where codes have " + std::to_string(bits) + " bits, or -1 for whole rows"));
  }
  return {};
}

bool is_no_linear_layer(const std::string& name) {
  return name.find("embed") != std::string::npos || name.find("wte.") != std::string::npos ||
         name.find("lm_head") != std::string::npos;
}

Result<Encoded> plan_qweight(const EncodeRequest& request, QweightPacking packing, bool v1,
                             std::string_view layout) {
  QweightEncoding e;
  e.packing = packing;
  e.v1 = v1;
  e.bits = request.options.bits == 0 ? 4 : request.options.bits;
  e.outputs = request.rows;
  e.inputs = request.columns;
  e.symmetric = !request.options.asymmetric;
  e.scale = request.from == DType::BF16 ? DType::BF16 : DType::F16;
  const uint64_t wanted = request.options.group_size == 0 ? kUsualGroup : request.options.group_size;
  e.group = request.options.whole_rows ? e.inputs : std::min(wanted, e.inputs);
  const bool awq = packing == QweightPacking::kGemm;
  const uint64_t fields = fields_at_once(e.bits);
  if (e.outputs % fields != 0 || (!awq && e.inputs % fields != 0)) {
    return cannot_encode(request, "cannot become " + std::string(layout) + " with " + std::to_string(e.bits) +
                                      " bits: " + (awq ? "its rows are" : "rows and columns must be") +
                                      (awq ? " no multiple of " : " multiples of ") + std::to_string(fields) +
                                      "; --exclude leaves it as it is");
  }
  if (awq && e.inputs % e.group != 0) {
    return cannot_encode(request, "cannot become " + std::string(layout) +
                                      ": its columns are no multiple of " + std::to_string(e.group) +
                                      "; --group-size or --exclude");
  }
  if (e.inputs < kLeastGroup)
    return cannot_encode(request, "has rows shorter than " + std::to_string(kLeastGroup) +
                                      ", which no group of " + std::string(layout) + " is");
  Encoded encoded;
  encoded.rows = e.outputs;
  encoded.columns = e.inputs;
  encoded.strip = e.inputs;
  if (request.plain && e.group < e.inputs) {
    const uint64_t groups = std::max<uint64_t>(1, kStripElements / e.outputs / e.group);
    encoded.strip = std::min(e.inputs, groups * e.group);
  }
  const auto held = checked_mul(e.outputs, encoded.strip * sizeof(float));
  if (!held || *held > kLargestUnitBytes || e.outputs > UINT32_MAX) {
    return cannot_encode(
        request, "is too large to be quantised, which takes " + std::to_string(encoded.strip) +
                     " of its columns at a time in memory; a smaller --group-size" +
                     (request.plain ? "" : ", or quantising what is stored as floats,") + " takes less");
  }
  encoded.encoder = awq ? &kAwqGemmEncoder : v1 ? &kGptqV1Encoder : &kGptqV2Encoder;
  encoded.word = std::string(layout) + " b" + std::to_string(e.bits) + " g" + std::to_string(e.group) +
                 (e.symmetric ? "" : " asymmetric");
  encoded.key = std::to_string(e.outputs) + ' ' + std::to_string(e.inputs) + ' ' +
                std::to_string(encoded.strip) + ' ' + std::string(dtype_name(e.scale));
  encoded.elements = e.outputs * e.inputs;
  encoded.bits = e.bits + 2;
  const QweightNames names(request.name);
  const Shape grid{ceil_div(e.inputs, e.group), e.outputs};
  const Shape codes = awq ? Shape{e.inputs, e.outputs / 8} : Shape{e.inputs * e.bits / 32, e.outputs};
  encoded.parts = {{names.qweight, DType::I32, codes},
                   {names.scales, e.scale, grid},
                   {names.qzeros, DType::I32, {grid[0], e.outputs * e.bits / 32}}};
  if (!awq) encoded.parts.push_back({names.g_idx, DType::I32, {e.inputs}});
  if (is_no_linear_layer(request.name)) {
    encoded.warning = "Tensor " + quote_name(request.name) + " is no layer that readers of " +
                      std::string(layout) + " look for codes in; --exclude leaves it as it is.";
  }
  encoded.state = std::make_shared<const QweightEncoding>(e);
  return encoded;
}

Result<Encoded> plan_gptq_v1(const EncodeRequest& request) {
  return plan_qweight(request, QweightPacking::kGptq, true, "gptq-v1");
}
Result<Encoded> plan_gptq_v2(const EncodeRequest& request) {
  return plan_qweight(request, QweightPacking::kGptq, false, "gptq-v2");
}
Result<Encoded> plan_awq_gemm(const EncodeRequest& request) {
  return plan_qweight(request, QweightPacking::kGemm, false, "awq-gemm");
}

int64_t declared_group(const EncodeOptions& options) {
  if (options.whole_rows) return -1;
  return static_cast<int64_t>(options.group_size == 0 ? kUsualGroup : options.group_size);
}
uint32_t declared_bits(const EncodeOptions& options) { return options.bits == 0 ? 4 : options.bits; }

std::string gptq_v1_section(const ConfigRequest& request) {
  return gptq_config({declared_bits(request.options),
                      declared_group(request.options),
                      !request.options.asymmetric,
                      false,
                      false,
                      {}},
                     request.plain_modules);
}
std::string gptq_v2_section(const ConfigRequest& request) {
  return gptq_config({declared_bits(request.options),
                      declared_group(request.options),
                      !request.options.asymmetric,
                      false,
                      true,
                      {}},
                     request.plain_modules);
}
std::string awq_section(const ConfigRequest& request) {
  return awq_config(declared_group(request.options), request.plain_modules);
}

}  // namespace

const Encoder kGptqV1Encoder{.check = check_qweight,
                             .plan = plan_gptq_v1,
                             .writes = write_qweight,
                             .encode = encode_qweight,
                             .scratch = qweight_encode_scratch,
                             .config = gptq_v1_section};
const Encoder kGptqV2Encoder{.check = check_qweight,
                             .plan = plan_gptq_v2,
                             .writes = write_qweight,
                             .encode = encode_qweight,
                             .scratch = qweight_encode_scratch,
                             .config = gptq_v2_section};
const Encoder kAwqGemmEncoder{.check = check_qweight,
                              .plan = plan_awq_gemm,
                              .writes = write_qweight,
                              .encode = encode_qweight,
                              .scratch = qweight_encode_scratch,
                              .config = awq_section};

}  // namespace tftf
