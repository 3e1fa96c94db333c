// Weights of torchao (spec other-quant-layouts 8).
#include <algorithm>

#include "quant/fp8_grid.h"
#include "quant/grouped_matrix.h"
#include "quant/layout_scan.h"
#include "quant/torchao.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/simd/floats.h"

namespace tftf {
namespace {

// A stack of matrices as one, and the blocks that one scale covers in it.
struct FlatBlocks {
  uint64_t rows = 1, columns = 1;
  uint64_t block_rows = 1, block_columns = 1;
};

// Blocks of more than one dimension of rows must be whole ones behind the first that is cut.
std::optional<FlatBlocks> flat_blocks(const Shape& shape, const Shape& block) {
  if (shape.empty() || shape.size() != block.size()) return std::nullopt;
  FlatBlocks flat;
  flat.columns = shape.back();
  flat.block_columns = block.back();
  bool cut = false;  // from here outwards a block is one row
  for (size_t i = shape.size() - 1; i-- > 0;) {
    const uint64_t size = block[i];
    if (size == 0 || size > std::max<uint64_t>(shape[i], 1) || (cut && size != 1)) return std::nullopt;
    if (size != shape[i]) {
      // A last block that is short has to be the last of all.
      if (shape[i] % size != 0 && i != 0) return std::nullopt;
      cut = true;
    }
    const auto rows = checked_mul(flat.rows, shape[i]);
    if (!rows) return std::nullopt;
    flat.rows = *rows;
    flat.block_rows *= size;  // no more than rows
  }
  if (flat.block_columns == 0 || flat.block_columns > std::max<uint64_t>(flat.columns, 1))
    return std::nullopt;
  return flat;
}

struct Opening {
  OpenContext& context;
  const QuantMatch& match;
  const TorchaoAttributes& attributes;

  const TensorInfo& info(TensorRef tensor) const { return context.checkpoint.info(tensor); }
  Error fault(const std::string& what) const {
    return weight_fault(ErrorCode::kRefusedShape, context, match, what);
  }
  std::string block_text() const { return "block_size " + shape_text(attributes.block); }
};

Result<Weight> open_float8(const Opening& open, const FlatBlocks& flat, TensorRef scale) {
  const TensorInfo &codes = open.info(open.match.weight), &scales = open.info(scale);
  const TensorInfo flat_codes{.name = {}, .dtype = codes.dtype, .shape = {flat.rows, flat.columns}};
  const TensorInfo flat_scales{
      .name = {},
      .dtype = scales.dtype,
      .shape = {ceil_div(flat.rows, flat.block_rows), ceil_div(flat.columns, flat.block_columns)}};
  if (element_count(scales.shape) != element_count(flat_scales.shape))
    return open.fault("has a scale of shape " + shape_text(scales.shape) + ", where " +
                      shape_text(codes.shape) + " with " + open.block_text() + " needs " +
                      std::to_string(element_count(flat_scales.shape).value_or(0)) + " values");
  const auto grid = fp8_blocks(flat_codes, flat_scales, {flat.block_rows, flat.block_columns});
  if (!grid) return open.fault("has a scale of dtype " + std::string(dtype_name(scales.dtype)));
  Result<Weight> weight = fp8_grid_weight(*grid, codes.shape, open.match.weight, scale);
  if (!weight)
    return weight_fault(ErrorCode::kRefusedUnsupported, open.context, open.match,
                        std::move(weight).error().message);
  return weight;
}

Result<void> check_scale_dtype(const Opening& open, TensorRef tensor, std::string_view role) {
  const DType dtype = open.info(tensor).dtype;
  if (is_scale_float(dtype)) return {};
  return open.fault("has a " + std::string(role) + " of dtype " + std::string(dtype_name(dtype)));
}

std::string word_of(const QuantMatch& match, const std::string& more) {
  return std::string(match.layout) + (more.empty() ? "" : " " + more);
}

}  // namespace

Result<Weight> open_torchao(OpenContext& context, const QuantMatch& match) {
  const auto* attributes = static_cast<const TorchaoAttributes*>(match.detail.get());
  const TensorRef* scale = match.find("scale");
  if (attributes == nullptr || scale == nullptr || !match.logical_shape || match.logical_shape->empty())
    return weight_fault(ErrorCode::kRefusedMissing, context, match, "lacks its scale or its shape");
  const Opening open{context, match, *attributes};
  for (const QuantCompanion& part : match.companions) {
    if (part.role == "part")
      return weight_fault(ErrorCode::kRefusedUnsupported, context, match,
                          "has the part " + quote_name(context.checkpoint.info(part.tensor).name) +
                              ", whose meaning is not known");
  }
  const Shape& shape = *match.logical_shape;
  const TensorInfo& codes = context.checkpoint.info(match.weight);
  Shape block = attributes->block;
  // One number is meant along the last dimension.
  if (block.size() == 1 && shape.size() > 1) block.insert(block.begin(), shape.size() - 1, 1);
  const auto flat = flat_blocks(shape, block);
  if (!flat)
    return open.fault("has the shape " + shape_text(shape) + ", which " + open.block_text() +
                      " does not fit");
  if (match.layout == "torchao-float8") {
    if (match.find("act_pre_scale") == nullptr) return open_float8(open, *flat, *scale);
  }
  GroupedMatrix matrix;
  matrix.rows = flat->rows;
  matrix.columns = flat->columns;
  matrix.group = flat->block_columns;
  matrix.rows_per_scale = flat->block_rows;
  matrix.scale_dtype = context.checkpoint.info(*scale).dtype;
  GroupedParts parts{.codes = match.weight, .scales = *scale};
  std::string word;
  const TensorRef* zero = match.find("zero_point");
  if (match.layout == "torchao-int8" || match.layout == "torchao-intx") {
    TFTF_TRY(check_scale_dtype(open, *scale, "scale"));
    matrix.codes = GroupedMatrix::Codes::kSigned;
    matrix.zero = zero == nullptr ? GroupedMatrix::Zero::kNone : GroupedMatrix::Zero::kSubtract;
  } else if (match.layout == "torchao-int4") {
    // zero_point is in units of the weight: what code 0 stands for.
    TFTF_TRY(check_scale_dtype(open, *scale, "scale"));
    if (shape.size() != 2 || flat->block_rows != 1)
      return open.fault("has the shape " + shape_text(shape) + "; a stack of Int4Tensor is not read");
    matrix.codes = GroupedMatrix::Codes::kSigned;
    matrix.bits = 4;
    matrix.order = GroupedMatrix::Order::kTransposed;
    matrix.zero = zero == nullptr ? GroupedMatrix::Zero::kNone : GroupedMatrix::Zero::kAdd;
    if (zero != nullptr) TFTF_TRY(check_scale_dtype(open, *zero, "zero_point"));
  } else {
    const bool nvfp4 = match.layout == "torchao-nvfp4";
    matrix.codes = GroupedMatrix::Codes::kTable;
    if (is_fp8(codes.dtype)) {
      matrix.table = f8_values(codes.dtype);
      word = std::string(dtype_name(codes.dtype));
    } else if (nvfp4 || attributes->element.substr(0, 6) == "float4") {
      matrix.table = f4_values();
      matrix.bits = 4;
    } else {
      return weight_fault(ErrorCode::kRefusedUnsupported, context, match,
                          "has elements of " + quote_name(attributes->element) + ", which are not read");
    }
    if (!nvfp4 && match.layout == "torchao-mx") {
      if (matrix.scale_dtype != DType::F8_E8M0 && matrix.scale_dtype != DType::U8)
        return open.fault("has a scale of dtype " + std::string(dtype_name(matrix.scale_dtype)));
      matrix.scale_dtype = DType::F8_E8M0;
    } else if (nvfp4) {
      if (matrix.scale_dtype != DType::F8_E4M3)
        return open.fault("has a scale of dtype " + std::string(dtype_name(matrix.scale_dtype)));
      if (const TensorRef* global = match.find("per_tensor_scale")) {
        if (context.checkpoint.info(*global).dtype != DType::F32)
          return open.fault("has a per_tensor_scale that is not F32");
        parts.tensor_scale = *global;
      }
    } else {
      TFTF_TRY(check_scale_dtype(open, *scale, "scale"));
    }
    if (attributes->swizzled) {
      if (shape.size() != 2)
        return open.fault("has the shape " + shape_text(shape) +
                          "; a stack with swizzled scales is not read");
      matrix.order = GroupedMatrix::Order::kSwizzled;
    }
  }
  if (matrix.zero != GroupedMatrix::Zero::kNone) {
    parts.zeros = *zero;
    matrix.zero_dtype = context.checkpoint.info(*zero).dtype;
    if (matrix.zero_dtype != DType::I8 && !is_scale_float(matrix.zero_dtype) &&
        matrix.zero_dtype != DType::I32 && matrix.zero_dtype != DType::I64)
      return open.fault("has a zero_point of dtype " + std::string(dtype_name(matrix.zero_dtype)));
  }
  if (const TensorRef* before = match.find("act_pre_scale")) {
    // It multiplies what goes into the layer: the columns of the weight.
    TFTF_TRY(check_scale_dtype(open, *before, "act_pre_scale"));
    parts.column_scales = *before;
    matrix.column_dtype = context.checkpoint.info(*before).dtype;
  }
  return grouped_weight(context, match, matrix, word_of(match, word), shape, parts);
}

}  // namespace tftf
