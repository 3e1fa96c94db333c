// Opens modules of small codes with scales of groups.
#include <algorithm>

#include "quant/scale_shape.h"
#include "quant/scaled_codes.h"
#include "quant/swizzle.h"
#include "tftf/base/checked.h"
#include "tftf/simd/cast.h"

namespace tftf {

std::string scaled_codes_key(const ScaledCodes& spec) {
  std::string key = std::to_string(static_cast<int>(spec.code));
  for (const uint64_t n : {spec.rows, spec.columns, spec.group, spec.rows_per_scale, spec.rows_per_global,
                           spec.rotation, uint64_t{spec.swizzled}, static_cast<uint64_t>(spec.global)})
    key += ' ' + std::to_string(n);
  key += ' ' + std::string(dtype_name(spec.scale_dtype));
  if (spec.e5m3) key += " e5m3";
  if (spec.column_scale) key += ' ' + std::string(dtype_name(*spec.column_scale));
  return key;
}

std::optional<uint64_t> code_row_bytes(SmallCode code, uint64_t columns) {
  switch (code) {
    case SmallCode::kE2m1:
    case SmallCode::kE2m1High:
    case SmallCode::kE0m4:
    case SmallCode::kInt4:
      return columns % 2 == 0 ? std::optional(columns / 2) : std::nullopt;
    case SmallCode::kE2m3:
    case SmallCode::kE3m2:
      return columns % 4 == 0 ? std::optional(columns / 4 * 3) : std::nullopt;
    default:
      return columns;
  }
}

std::optional<uint64_t> scale_bytes(const ScaledCodes& spec) {
  const uint64_t groups = ceil_div(spec.columns, spec.group);
  if (spec.swizzled) return checked_mul(ceil_div(spec.rows, kSwizzleRows), swizzled_band(groups));
  const auto count = checked_mul(ceil_div(spec.rows, spec.rows_per_scale), groups);
  return count ? checked_mul(*count, dtype_bits(spec.scale_dtype) / 8) : std::nullopt;
}

Result<Weight> open_scaled_codes(OpenContext& context, const QuantMatch& match, ScaledCodes spec,
                                 std::string_view scales, std::string_view global) {
  const auto fault = [&](const std::string& what) {
    return weight_fault(ErrorCode::kRefusedShape, context, match, what);
  };
  const auto described = [&context](TensorRef tensor) {
    const TensorInfo& info = context.checkpoint.info(tensor);
    return std::string(dtype_name(info.dtype)) + " " + shape_text(info.shape);
  };
  const TensorRef* scale = match.find(scales);
  if (scale == nullptr || !match.logical_shape || match.logical_shape->size() < 2)
    return weight_fault(ErrorCode::kRefusedMissing, context, match, "lacks its " + std::string(scales));
  const Shape& shape = *match.logical_shape;
  spec.columns = shape.back();
  const auto elements = element_count(shape);
  if (!elements || *elements == 0) return fault("of shape " + shape_text(shape) + " has no elements");
  spec.rows = *elements / spec.columns;
  const uint64_t matrices = spec.rows / shape[shape.size() - 2];
  spec.scale_dtype = context.checkpoint.info(*scale).dtype;
  if (spec.scale_dtype == DType::U8) spec.scale_dtype = spec.byte_scale;
  if (!can_cast(spec.scale_dtype, DType::F32)) return fault("has scales that are " + described(*scale));
  const auto row = code_row_bytes(spec.code, spec.columns);
  const uint64_t code_rows = spec.code == SmallCode::kInt4RowPairs ? spec.rows / 2 : spec.rows;
  const auto codes = row ? checked_mul(*row, code_rows) : std::nullopt;
  if (!codes || *codes != context.checkpoint.info(match.weight).bytes() ||
      (spec.code == SmallCode::kInt4RowPairs && spec.rows % 2 != 0))
    return fault("has codes " + described(match.weight) + ", not those of " + shape_text(shape));
  const auto wanted = scale_bytes(spec);
  const TensorInfo& stored = context.checkpoint.info(*scale);
  const uint64_t groups = ceil_div(spec.columns, spec.group);
  const bool ordered =
      spec.swizzled ? matrices == 1 : groups == 1 || (!stored.shape.empty() && stored.shape.back() == groups);
  if (!ordered || !wanted || *wanted != stored.bytes())
    return fault("has scales " + described(*scale) + ", which are not those of " + shape_text(shape) +
                 (spec.swizzled ? " in tiles of 128 x 4" : ""));
  ScaledParts parts{match.weight, *scale};
  if (spec.global != GlobalScale::kNone) {
    const TensorRef* second = match.find(global);
    if (second == nullptr)
      return weight_fault(ErrorCode::kRefusedMissing, context, match, "lacks its " + std::string(global));
    const TensorInfo& info = context.checkpoint.info(*second);
    const uint64_t count = element_count(info.shape).value_or(0);
    if (info.dtype != DType::F32 || (count != 1 && count != matrices))
      return fault("has a " + std::string(global) + " that is " + described(*second) +
                   ", not one F32 per matrix");
    spec.rows_per_global = count == 1 ? spec.rows : spec.rows / matrices;
    parts.global = *second;
  }
  if (const TensorRef* factors = match.find("pre_quant_scale")) {
    const TensorInfo& info = context.checkpoint.info(*factors);
    if (!is_floating(info.dtype) || !can_cast(info.dtype, DType::F32) || dtype_bits(info.dtype) < 16 ||
        element_count(info.shape).value_or(0) != spec.columns)
      return fault("has a pre_quant_scale that is " + described(*factors) + ", not one factor for each of " +
                   std::to_string(spec.columns) + " columns");
    spec.column_scale = info.dtype;
    parts.column_scale = *factors;
  }
  return scaled_codes_weight(spec, match.layout, shape, parts);
}

Result<Weight> open_scaled_int8(OpenContext& context, const QuantMatch& match, std::string_view scales,
                                uint64_t rotation) {
  const TensorRef* scale = match.find(scales);
  const auto elements = match.logical_shape ? element_count(*match.logical_shape) : std::nullopt;
  if (scale == nullptr || !elements || *elements == 0 || match.logical_shape->size() < 2)
    return weight_fault(ErrorCode::kRefusedMissing, context, match,
                        "lacks its " + std::string(scales) + " or its elements");
  const Shape& shape = *match.logical_shape;
  const Shape& grid = context.checkpoint.info(*scale).shape;
  ScaledCodes spec{.code = SmallCode::kInt8, .group = shape.back(), .rotation = rotation};
  const uint64_t rows = *elements / shape.back();
  switch (scale_shape(shape, grid)) {
    case ScaleShape::kTensor:
      spec.rows_per_scale = rows / element_count(grid).value_or(1);
      break;
    case ScaleShape::kChannel:
      break;
    case ScaleShape::kOther:
      spec.rows_per_scale = match.block[0];
      spec.group = match.block[1];
      if (spec.group == 0 || spec.rows_per_scale == 0 ||
          (rows != shape[shape.size() - 2] && shape[shape.size() - 2] % spec.rows_per_scale != 0))
        return weight_fault(ErrorCode::kRefusedShape, context, match,
                            "has a " + std::string(scales) + " " + shape_text(grid) +
                                " that is neither for all, nor for rows, nor for blocks of " +
                                shape_text(shape));
      break;
  }
  return open_scaled_codes(context, match, spec, scales);
}

}  // namespace tftf
