// optimum-quanto (spec quant-layouts-2 9).
#include "quant/families.h"
#include "quant/grouped_matrix.h"
#include "quant/layout_scan.h"
#include "quant/strided_fields.h"
#include "tftf/base/checked.h"
#include "tftf/simd/floats.h"

namespace tftf {
namespace {

Result<Weight> open_quanto_bytes(OpenContext& context, const QuantMatch& match);
Result<Weight> open_quanto_bits(OpenContext& context, const QuantMatch& match);

constexpr QuantFormat kQint8 = {.id = "quanto-qint8", .title = "quanto qint8", .open = open_quanto_bytes};
constexpr QuantFormat kQfloat8 = {
    .id = "quanto-qfloat8", .title = "quanto qfloat8", .open = open_quanto_bytes};
constexpr QuantFormat kQint4 = {.id = "quanto-qint4", .title = "quanto qint4", .open = open_quanto_bits};
constexpr QuantFormat kQint2 = {.id = "quanto-qint2", .title = "quanto qint2", .open = open_quanto_bits};

bool is_quanto_group(uint64_t size) { return size == 32 || size == 64 || size == 96 || size == 128; }

// Codes to a byte (2 or 4) that `rows` rows in `packed` rows show; what config.json says where both fit.
uint64_t fields_of(const LayoutScan& scan, uint64_t rows, uint64_t packed) {
  const bool four = ceil_div(rows, 2) == packed, two = ceil_div(rows, 4) == packed;
  if (four != two) return four ? 2 : 4;
  if (!four || !scan.config().section) return 0;
  const auto weights = scan.config().section->string("weights");
  if (weights == "int4" || weights == "qint4") return 2;
  return weights == "int2" || weights == "qint2" ? 4 : 0;
}

// [rows, columns] are those of the packed matrix; with groups the weight is cut into its rows. Nothing where both readings
// stand.
std::optional<Shape> shape_of_bits(const LayoutScan& scan, std::string_view module, uint64_t rows,
                                   uint64_t columns) {
  if (!is_quanto_group(columns)) return Shape{rows, columns};
  const std::optional<TensorRef> bias = scan.checkpoint().find(std::string(module) + ".bias");
  const auto outputs = bias ? element_count(scan.info(*bias).shape) : std::nullopt;
  if (!outputs || *outputs == 0 || rows % *outputs != 0) return std::nullopt;
  return Shape{*outputs, rows / *outputs * columns};
}

void detect_quanto(LayoutScan& scan) {
  for (TensorRef codes : scan.ending("._data")) {
    const std::string_view name = scan.stem(codes, "._data");
    const std::optional<TensorRef> scale = scan.sibling(name, "._scale");
    if (!scale) continue;
    const TensorInfo& stored = scan.info(codes);
    if (stored.dtype != DType::I8 && stored.dtype != DType::U8 && !is_fp8(stored.dtype)) continue;
    const auto scales = element_count(scan.info(*scale).shape);
    QuantMatch match;
    match.layout = kQint8.id;
    match.module = std::string(name);
    match.weight = codes;
    match.role = "_data";
    match.companions.push_back({"_scale", *scale});
    const bool shifted = scan.add_companion(match, "_shift", name, "._shift");
    constexpr std::string_view kWeight = ".weight";
    std::string_view module = name;
    if (module.size() > kWeight.size() && module.substr(module.size() - kWeight.size()) == kWeight)
      module.remove_suffix(kWeight.size());
    scan.add_companion(match, "input_scale", module, ".input_scale");
    scan.add_companion(match, "output_scale", module, ".output_scale");
    match.logical_dtype = native_dtype(scan.info(*scale).dtype);
    const auto broken = [&](std::string what) {
      scan.problem(match.layout, match.module, std::move(what), {codes, *scale});
    };
    if (stored.shape.size() < 2 || !scales || !is_scale_float(scan.info(*scale).dtype)) {
      broken("its _data " + shape_text(stored.shape) + " and _scale " + shape_text(scan.info(*scale).shape) +
             " are no matrix with scales");
    } else if (stored.dtype == DType::I8 || is_fp8(stored.dtype)) {
      match.layout = is_fp8(stored.dtype) ? kQfloat8.id : kQint8.id;
      match.bits = 8;
      match.logical_shape = stored.shape;
      scan.claim(std::move(match));
    } else if (stored.dtype == DType::U8 && shifted && stored.shape.size() == 2) {
      const uint64_t fields = fields_of(scan, *scales, stored.shape[0]);
      match.layout = fields == 4 ? kQint2.id : kQint4.id;
      if (fields == 0) {
        broken("its _data " + shape_text(stored.shape) + " holds neither 4 nor 2 bits of " +
               std::to_string(*scales) + " rows, or nothing tells which");
        continue;
      }
      match.bits = fields == 2 ? 4 : 2;
      match.group_size = is_quanto_group(stored.shape[1]) ? stored.shape[1] : 0;
      match.logical_shape = shape_of_bits(scan, module, *scales, stored.shape[1]);
      scan.claim(std::move(match));
    } else {
      broken("its _data " + shape_text(stored.shape) + " is U8 without a _shift, or no matrix");
    }
  }
}

Result<Weight> open_quanto_bytes(OpenContext& context, const QuantMatch& match) {
  const TensorRef* scale = match.find("_scale");
  const TensorInfo& codes = context.checkpoint.info(match.weight);
  if (scale == nullptr) return weight_fault(ErrorCode::kRefusedMissing, context, match, "lacks its _scale");
  const TensorInfo& scales = context.checkpoint.info(*scale);
  GroupedMatrix matrix;
  matrix.columns = codes.shape.back();
  matrix.rows = matrix.columns == 0 ? 0 : element_count(codes.shape).value_or(0) / matrix.columns;
  matrix.group = std::max<uint64_t>(matrix.columns, 1);
  const uint64_t count = element_count(scales.shape).value_or(0);
  if (count == 1 && matrix.rows != 1) matrix.rows_per_scale = matrix.rows;
  // One scale for each column has another shape: it would be as long as one for each row in a square matrix.
  if (count != 1 && (scales.shape.empty() || scales.shape.back() != 1 || count != matrix.rows))
    return weight_fault(ErrorCode::kRefusedShape, context, match,
                        "has a _scale of shape " + shape_text(scales.shape) + ", not one for each row of " +
                            shape_text(codes.shape));
  matrix.scale_dtype = scales.dtype;
  if (is_fp8(codes.dtype)) {
    matrix.codes = GroupedMatrix::Codes::kTable;
    matrix.table = f8_values(codes.dtype);
  } else {
    matrix.codes = GroupedMatrix::Codes::kSigned;
  }
  if (match.find("_shift") != nullptr)
    return weight_fault(ErrorCode::kRefusedUnsupported, context, match,
                        "has a _shift beside codes of a byte each, whose meaning is not known");
  return grouped_weight(context, match, matrix,
                        std::string(match.layout) + ' ' + std::string(dtype_name(codes.dtype)), codes.shape,
                        {.codes = match.weight, .scales = *scale});
}

Result<Weight> open_quanto_bits(OpenContext& context, const QuantMatch& match) {
  const TensorRef *scale = match.find("_scale"), *shift = match.find("_shift");
  if (scale == nullptr || shift == nullptr)
    return weight_fault(ErrorCode::kRefusedMissing, context, match, "lacks its _scale or _shift");
  const TensorInfo& codes = context.checkpoint.info(match.weight);
  if (!match.logical_shape)
    return weight_fault(ErrorCode::kRefusedAmbiguous, context, match,
                        "has codes of shape " + shape_text(codes.shape) +
                            ", which may be rows or groups of rows, and no bias whose length would tell");
  const DType zero = context.checkpoint.info(*shift).dtype;
  if (zero != DType::I8 && !is_scale_float(zero))
    return weight_fault(ErrorCode::kRefusedUnsupported, context, match,
                        "has a _shift of dtype " + std::string(dtype_name(zero)));
  StridedFields fields;
  fields.columns = codes.shape[1];
  fields.rows = element_count(context.checkpoint.info(*scale).shape).value_or(0);
  fields.packed_rows = codes.shape[0];
  fields.bits = match.bits;
  fields.fields = 8 / match.bits;
  fields.form = zero == DType::I8 ? StridedFields::Form::kSubtractScale : StridedFields::Form::kScaleSubtract;
  fields.scale_dtype = context.checkpoint.info(*scale).dtype;
  fields.zero_dtype = zero;
  return strided_weight(context, match, fields, *match.logical_shape, *scale, *shift);
}

constexpr const QuantFormat* kQuantoFormats[] = {&kQint8, &kQfloat8, &kQint4, &kQint2};

}  // namespace

constexpr QuantFamily kQuantoFamily = {"quanto", kQuantoFormats, detect_quanto};

}  // namespace tftf
