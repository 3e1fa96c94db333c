// Plans the tensors that will stand for a weight, and refuses what does not fit.
#include "quant/ct/coding.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/simd/cast.h"
#include "tftf/simd/floats.h"

namespace tftf::ct {
namespace {

constexpr uint64_t kAcrossWords = 18'000, kPackedZeros = 9'004, kModuleNames = 9'000;  // versions

Target target_of(const CodingRequest& request) {
  const std::string& format = request.format;
  if (format == "dense" || request.args == nullptr) return Target::kValues;
  if (format == "pack-quantized") return Target::kWords;
  if (format == "nvfp4-pack-quantized" || format == "mxfp4-pack-quantized") return Target::kPairs;
  if (request.args->is_float) return Target::kF8;
  return request.args->bits <= 8 ? Target::kI8 : Target::kI16;
}

bool is_mx(const std::string& format) {
  return format == "mxfp4-pack-quantized" || format == "mxfp8-quantized";
}

// What of the arguments the format cannot hold, a phrase; or nothing.
std::string misfit(const CodingRequest& request) {
  const Args& args = *request.args;
  const std::string& format = request.format;
  const std::string says = " does not go with " + args_text(args);
  const bool fp4 = args.is_float && args.bits == 4, fp8 = args.is_float && args.bits == 8;
  if (args.strategy == Strategy::kToken || args.strategy == Strategy::kHead)
    return "cannot have the strategy " + std::string(strategy_name(args.strategy)) +
           ", which weights have not";
  if (args.dynamic) return "cannot have dynamic scales, which weights have not";
  if (!args.is_float && (args.bits < 1 || args.bits > 16))
    return "cannot have codes of " + std::to_string(args.bits) + " bits: 1 to 16 are written";
  if (args.is_float && !args.symmetric && (fp4 || request.format == "mxfp8-quantized"))
    return "cannot have zero points, which the library has not for it";
  if (format == "pack-quantized" && (args.is_float || args.bits > 8))
    return "is no integer of 1 to 8 bits: " + format + says;
  const bool small = fp4 && args.grouped();
  if (format == "nvfp4-pack-quantized" && !(small && args.group_size == 16))
    return "is no 4-bit float in groups of 16: " + format + says;
  if (format == "mxfp4-pack-quantized" && !(small && args.group_size == 32))
    return "is no 4-bit float in groups of 32: " + format + says;
  if (format == "mxfp8-quantized" && !(fp8 && args.grouped() && args.group_size == 32))
    return "is no 8-bit float in groups of 32: " + format + says;
  if (fp4 && format != "nvfp4-pack-quantized" && format != "mxfp4-pack-quantized" && format != "dense")
    return "is a 4-bit float, which " + format + " has no codes for";
  return "";
}

// Group numbers of the columns that a file gives, or what the scheme asks for where none does.
Result<void> take_order(const CodingRequest& request, Coding& coding, std::vector<EncodedPart>& parts) {
  const Args& args = *request.args;
  if (args.actorder != ActOrder::kGroup || !args.grouped() || coding.target == Target::kPairs) return {};
  EncodedPart part{request.module + ".weight_g_idx", DType::I32, {request.columns}};
  if (!request.given.order) {
    std::string words;
    for (uint64_t c = 0; c < request.columns; ++c) {
      const auto group = static_cast<uint32_t>(c / coding.scale_columns);
      for (uint32_t i = 0; i < 4; ++i) words += static_cast<char>(group >> 8 * i);
    }
    part.literal = std::move(words);
    parts.push_back(std::move(part));
    return {};
  }
  const TensorFile::Tensor& given = *request.given.order;
  if (given.dtype != DType::I32 || given.shape != Shape{request.columns})
    return bad_given(request, "weight_g_idx is " + std::string(dtype_name(given.dtype)) + " " +
                                  shape_text(given.shape) + ", expected I32 " +
                                  shape_text({request.columns}));
  bool counts = true;
  std::vector<uint32_t> members(to_size(coding.grid_columns));
  for (uint64_t c = 0; c < request.columns; ++c) {
    const auto group = load_le<int32_t>(given.bytes.data() + to_size(c * 4));
    counts = counts && group != -1;
    coding.order.push_back(static_cast<uint32_t>(group));
  }
  for (uint64_t c = 0; counts && c < request.columns; ++c) {
    const uint32_t group = coding.order[to_size(c)];
    if (group >= coding.grid_columns || ++members[group] > coding.scale_columns)
      return bad_given(request, "weight_g_idx does not give each of its " +
                                    std::to_string(coding.grid_columns) + " groups " +
                                    std::to_string(coding.scale_columns) + " columns");
  }
  if (!counts) coding.order.clear();
  part.literal = literal_bytes(given.bytes);
  parts.push_back(std::move(part));
  return {};
}

// The sparse forms of the codes; `shape` as the library has it.
std::vector<EncodedPart> sparse_parts(const CodingRequest& request, const Coding& coding, DType dtype) {
  const std::string stem = request.module + (request.release.weight_names ? ".weight." : ".");
  const auto number = [](uint64_t value) {
    std::string bytes;
    for (uint32_t i = 0; i < 8; ++i) bytes += static_cast<char>(value >> 8 * i);
    return bytes;
  };
  const bool any = request.sparse == Sparse::kBitmask;
  const Shape stored = any ? Shape{coding.begins.back()} : Shape{request.rows, request.columns / 2};
  std::vector<EncodedPart> parts{{stem + "compressed", dtype, stored},
                                 {stem + "bitmask", DType::U8, {request.rows, ceil_div(request.columns, 8)}},
                                 {stem + "shape", DType::I64, any ? Shape{2} : Shape{2, 1}}};
  parts[2].literal = number(request.rows) + number(request.columns);
  if (!any) return parts;
  parts.push_back({stem + "row_offsets", DType::I64, {request.rows}});
  std::string offsets;
  for (uint64_t r = 0; r < request.rows; ++r) offsets += number(coding.begins[to_size(r)]);
  parts.back().literal = std::move(offsets);
  return parts;
}

std::vector<EncodedPart> code_parts(const CodingRequest& request, const Coding& coding) {
  const Shape shape{request.rows, request.columns};
  const DType dtype = coding.target == Target::kValues ? coding.type
                      : coding.target == Target::kF8   ? DType::F8_E4M3
                      : coding.target == Target::kI16  ? DType::I16
                                                       : DType::I8;
  if (request.sparse != Sparse::kNo) return sparse_parts(request, coding, dtype);
  switch (coding.target) {
    case Target::kWords: {
      std::vector<EncodedPart> parts{
          {request.module + ".weight_packed", DType::I32, {request.rows, coding.code_row_bytes / 4}},
          {request.module + ".weight_shape", DType::I64, {2}}};
      std::string numbers;
      for (const uint64_t side : shape)
        for (uint32_t i = 0; i < 8; ++i) numbers += static_cast<char>(side >> 8 * i);
      parts[1].literal = std::move(numbers);
      return parts;
    }
    case Target::kPairs:
      return {{request.module + ".weight_packed", DType::U8, {request.rows, request.columns / 2}}};
    default:
      return {{request.module + ".weight", dtype, shape}};
  }
}

Result<void> check_shape(const CodingRequest& request, const Coding& coding) {
  const Args& args = *request.args;
  if (args.grouped() && request.columns % static_cast<uint64_t>(args.group_size) != 0)
    return cannot_code(request, "has columns that are no multiple of the group size " +
                                    std::to_string(args.group_size) + "; a smaller group size, or --exclude");
  if (coding.target == Target::kPairs && request.columns % 2 != 0)
    return cannot_code(request, "has an odd number of columns, and two codes share a byte");
  return {};
}

// Everything that scales and zero points decide; their parts.
Result<std::vector<EncodedPart>> plan_scales(const CodingRequest& request, Coding& coding) {
  const Args& args = *request.args;
  std::vector<EncodedPart> parts;
  Layout layout;
  (void)set_shape(layout, {request.rows, request.columns});
  const Shape grid = expected_scales(args, layout);
  coding.scale_rows = args.strategy == Strategy::kTensor  ? request.rows
                      : args.strategy == Strategy::kBlock ? args.block[0]
                                                          : 1;
  coding.scale_columns = args.grouped()                      ? static_cast<uint64_t>(args.group_size)
                         : args.strategy == Strategy::kBlock ? args.block[1]
                                                             : request.columns;
  coding.grid_columns = grid.size() < 2 ? 1 : grid[1];
  ScaleRule& rule = coding.rule;
  rule.type = request.type;
  rule.range = code_range(args);
  rule.symmetric = args.symmetric;
  rule.whole_zeros = !args.is_float;
  rule.exponent_offset = args.bits == 4 ? 2 : 8;
  coding.scale_dtype = request.type;
  if (request.format == "nvfp4-pack-quantized") {
    rule.form = ScaleForm::kE4m3;
    coding.scale_dtype = DType::F8_E4M3;
    coding.arithmetic = DType::F32;
    coding.divides = true;
  } else if (is_mx(request.format)) {
    rule.form = ScaleForm::kExponents;
    coding.scale_dtype = DType::U8;
  } else if (args.scale_dtype && is_floating(*args.scale_dtype)) {
    rule.rounded_to = args.scale_dtype;
  }
  const bool dense = request.format == "dense";
  if (!args.symmetric || dense) {
    const bool packs = coding.target == Target::kWords && !request.release.plain_zeros &&
                       args.strategy != Strategy::kTensor && args.strategy != Strategy::kBlock;
    coding.zeros = packs ? Zeros::kPacked : Zeros::kPlain;
    coding.zero_dtype = storage_dtype(args);
  }
  coding.computes = !request.given.scale.has_value();
  const bool one = coding.one = args.strategy == Strategy::kTensor;
  coding.measures = (coding.computes && one) || (coding.divides && !request.given.global);
  if (coding.measures && !coding.computes)
    return bad_given(request, "weight_scale is given, and weight_global_scale, which goes with it, is not");
  if (coding.divides && request.given.global) {
    const TensorFile::Tensor& global = *request.given.global;
    if (global.dtype != DType::F32 || element_count(global.shape) != 1)
      return bad_given(request, "weight_global_scale is " + std::string(dtype_name(global.dtype)) + " " +
                                    shape_text(global.shape) + ", expected F32 [1]");
    coding.global = load_le<float>(global.bytes.data());
    if (!(coding.global > 0 && std::isfinite(coding.global)))
      return bad_given(request, "weight_global_scale is " + json_float(coding.global).dump() +
                                    ", expected a positive number");
    parts.push_back({request.module + ".weight_global_scale", DType::F32, global.shape});
    parts.back().literal = literal_bytes(global.bytes);
  }
  if (coding.computes) {
    parts.insert(parts.begin(), {request.module + ".weight_scale", coding.scale_dtype, grid});
    if (one) parts.front().measured = kMeasuredScale;
    if (coding.divides && !request.given.global) {
      parts.push_back({request.module + ".weight_global_scale", DType::F32, {1}});
      parts.back().measured = kMeasuredGlobal;
    }
  } else {
    const DType given = request.given.scale->dtype;
    if (rule.form == ScaleForm::kPlain) coding.scale_dtype = given;
    if (rule.form != ScaleForm::kE4m3) coding.arithmetic = common_type(request.type, given);
    Result<GivenGrid> read = read_given(request, layout);
    if (!read) return std::move(read).error();
    coding.given = *std::move(read);
    Result<EncodedPart> part = scale_part(request, coding);
    if (!part) return std::move(part).error();
    parts.insert(parts.begin(), *std::move(part));
    if (coding.divides)
      for (float& s : coding.given.scales) s = s / coding.global;
  }
  TFTF_TRY(take_order(request, coding, parts));
  if (coding.zeros == Zeros::kNone) return parts;
  const bool packed = coding.zeros == Zeros::kPacked;
  const Shape shape = packed
                          ? Shape{packed_words(request.rows, coding.bits, coding.padded), coding.grid_columns}
                          : (coding.computes ? grid : request.given.scale->shape);
  EncodedPart zeros{request.module + ".weight_zero_point", packed ? DType::I32 : coding.zero_dtype, shape};
  if (!coding.computes || (dense && args.symmetric)) {
    std::vector<float> values = coding.given.zeros;
    if (values.empty()) values.assign(to_size(element_count(grid).value_or(0)), 0.0f);
    zeros.literal = packed ? packed_zeros(coding, values) : plain_zeros(coding, values);
  } else if (one) {
    zeros.measured = kMeasuredZero;
  }
  parts.push_back(std::move(zeros));
  return parts;
}

std::string key_of(const Coding& coding, const CodingRequest& request) {
  std::string key;
  for (const uint64_t n :
       {uint64_t{static_cast<uint8_t>(coding.target)}, uint64_t{coding.bits}, uint64_t{coding.padded},
        uint64_t{static_cast<uint8_t>(coding.type)}, uint64_t{static_cast<uint8_t>(coding.arithmetic)},
        coding.rows, coding.columns, coding.scale_rows, coding.scale_columns, uint64_t{coding.computes},
        uint64_t{coding.measures}, uint64_t{static_cast<uint8_t>(coding.zeros)},
        uint64_t{static_cast<uint8_t>(coding.sparse)}, uint64_t{static_cast<uint8_t>(coding.scale_dtype)}})
    key += std::to_string(n) + ' ';
  // What is given, or counted, is one module's own.
  if (!coding.computes || coding.sparse == Sparse::kBitmask || !coding.order.empty() || request.given.global)
    key += request.module;
  return key;
}

}  // namespace

uint64_t Coding::row_unit() const {
  uint64_t unit = 1;
  if (writes_scales()) unit = scale_rows;
  if (writes_scales() && zeros == Zeros::kPacked) unit = std::lcm(unit, zero_rows);
  if (sparse == Sparse::kTwoOfFour && columns % 4 != 0) unit = std::lcm(unit, uint64_t{2});
  return unit;
}

uint64_t Coding::element_bytes() const {
  return target == Target::kValues ? dtype_bits(type) / 8 : target == Target::kI16 ? 2 : 1;
}

Release release_of(std::optional<uint64_t> version) {
  if (!version) return {};
  return {*version < kAcrossWords, *version < kPackedZeros, *version < kModuleNames};
}

Error cannot_code(const CodingRequest& request, const std::string& what) {
  const std::string name = request.module + ".weight";
  return {.code = ErrorCode::kRefusedUnsupported,
          .message = "Tensor " + quote_name(name) + " of shape " +
                     shape_text({request.rows, request.columns}) + " " + what + ".",
          .tensor = name};
}

Result<Encoded> plan_coding(const CodingRequest& request) {
  if (request.args != nullptr) {
    if (std::string why = misfit(request); !why.empty()) return cannot_code(request, why);
  }
  Coding coding;
  coding.target = target_of(request);
  coding.bits =
      request.args == nullptr ? dtype_bits(request.type) : static_cast<uint32_t>(request.args->bits);
  coding.padded = request.release.padded && coding.target == Target::kWords && 32 % coding.bits != 0;
  coding.type = coding.arithmetic = request.type;
  coding.rows = request.rows;
  coding.columns = request.columns;
  coding.sparse = request.sparse;
  coding.quantises = request.args != nullptr && request.format != "dense";
  coding.computes = request.args != nullptr;
  coding.code_row_bytes = coding.target == Target::kWords
                              ? packed_words(request.columns, coding.bits, coding.padded) * 4
                          : coding.target == Target::kPairs ? request.columns / 2
                                                            : request.columns * coding.element_bytes();
  if (coding.target == Target::kWords)
    coding.zero_rows = coding.padded || 32 % coding.bits == 0 ? 32 / coding.bits : 32;
  if (request.sparse == Sparse::kTwoOfFour &&
      (request.columns % 2 != 0 || request.rows * (request.columns % 4) % 4 != 0))
    return cannot_code(request, "does not consist of fours, of which 2:4 keeps two");
  if (request.sparse == Sparse::kBitmask) {
    coding.begins.assign(1, 0);
    for (const uint32_t count : *request.counts) coding.begins.push_back(coding.begins.back() + count);
  }
  std::vector<EncodedPart> scales;
  if (request.args != nullptr) {
    TFTF_TRY(check_shape(request, coding));
    Result<std::vector<EncodedPart>> planned = plan_scales(request, coding);
    if (!planned) return std::move(planned).error();
    scales = *std::move(planned);
  }
  const auto held = checked_mul(coding.row_unit() * request.columns, sizeof(float));
  if (!held || *held > kLargestUnitBytes)
    return cannot_code(request, "is too large to be quantised, which takes " +
                                    std::to_string(coding.row_unit()) + " of its rows at a time in memory");
  Encoded encoded;
  encoded.encoder = coding.measures ? &kMeasuredCodingEncoder : &kCodingEncoder;
  encoded.parts = code_parts(request, coding);
  encoded.parts.insert(encoded.parts.end(), std::make_move_iterator(scales.begin()),
                       std::make_move_iterator(scales.end()));
  encoded.word = request.format.empty() ? "sparse" : request.format;
  if (request.args != nullptr) encoded.word += " (" + args_text(*request.args) + ")";
  if (request.sparse != Sparse::kNo) encoded.word += request.sparse == Sparse::kBitmask ? " bitmask" : " 2:4";
  if (request.sparse == Sparse::kTwoOfFour) encoded.unfit = "more than two of four";
  if (request.sparse == Sparse::kBitmask) encoded.unfit = "others than were counted before";
  encoded.key = key_of(coding, request);
  encoded.measured_with = coding.divides ? request.shared : "";
  encoded.elements = request.rows * request.columns;
  encoded.unit = coding.row_unit() * request.columns;
  const uint64_t code_bits = ceil_div(coding.code_row_bytes * 8, std::max<uint64_t>(request.columns, 1));
  const uint64_t scale_bits = ceil_div(64 * coding.grid_columns, std::max<uint64_t>(request.columns, 1));
  encoded.bits = static_cast<uint32_t>(std::min<uint64_t>(code_bits + scale_bits + 1, UINT32_MAX));
  encoded.rows = request.rows;
  encoded.columns = request.columns;
  encoded.state = std::make_shared<const Coding>(std::move(coding));
  return encoded;
}

}  // namespace tftf::ct
