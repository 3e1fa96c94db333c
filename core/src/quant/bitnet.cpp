// BitNet: ternary rows, four to a packed row (spec quant-layouts-2 5).
#include "quant/families.h"
#include "quant/layout_scan.h"
#include "quant/strided_fields.h"
#include "tftf/base/checked.h"

namespace tftf {
namespace {

Result<Weight> open_bitnet(OpenContext& context, const QuantMatch& match);

constexpr QuantFormat kBitnet = {.id = "bitnet", .title = "BitNet, ternary", .open = open_bitnet};
constexpr uint64_t kRowsPerByte = 4;

// Whether the scale is multiplied, as config.json says; bitlinear, and a config that names none, divides.
bool is_multiplied(const QuantConfig& config) {
  return config.section != nullptr && config.section->string("linear_class") == "autobitlinear";
}

void detect_bitnet(LayoutScan& scan) {
  const QuantConfig& config = scan.config();
  const bool named = config.method == "bitnet";
  if (!named && !config.method.empty()) return;
  for (TensorRef scale : scan.ending(".weight_scale")) {
    const std::string_view module = scan.stem(scale, ".weight_scale");
    const std::optional<TensorRef> weight = scan.sibling(module, ".weight");
    if (!weight || !is_scale_float(scan.info(scale).dtype) || scan.info(scale).shape != Shape{1}) continue;
    const TensorInfo& codes = scan.info(*weight);
    const auto broken = [&](std::string what) {
      scan.problem(kBitnet.id, codes.name, std::move(what), {weight, scale});
    };
    if (named && is_floating(codes.dtype) && !is_fp8(codes.dtype) && is_multiplied(config)) {
      broken(
          "its floats still have to be multiplied by weight_scale (autobitlinear saved again), which is not "
          "done");
      continue;
    }
    if (codes.dtype != DType::U8 || codes.shape.size() != 2) continue;
    if (!named) {
      // Other producers have more beside such a weight.
      if (scan.checkpoint().find(std::string(module) + ".weight_scale_2")) continue;
      broken(
          "it looks like BitNet, and no config.json with quant_method bitnet and its linear_class says "
          "whether "
          "weight_scale multiplies or divides");
      continue;
    }
    QuantMatch match;
    match.layout = kBitnet.id;
    match.module = codes.name;
    match.weight = *weight;
    match.role = "weight";
    match.companions.push_back({"weight_scale", scale});
    match.logical_dtype = scan.info(scale).dtype;
    const auto rows = checked_mul(codes.shape[0], kRowsPerByte);
    if (!rows) {
      broken("its shape is too large");
      continue;
    }
    match.logical_shape = Shape{*rows, codes.shape[1]};
    match.bits = 2;
    match.detail = std::make_shared<const bool>(is_multiplied(config));
    scan.claim(std::move(match));
  }
}

Result<Weight> open_bitnet(OpenContext& context, const QuantMatch& match) {
  const auto* multiplied = static_cast<const bool*>(match.detail.get());
  const TensorRef* scale = match.find("weight_scale");
  if (multiplied == nullptr || scale == nullptr || !match.logical_shape)
    return weight_fault(ErrorCode::kRefusedMissing, context, match,
                        "lacks its weight_scale or its linear_class");
  const Shape& shape = *match.logical_shape;
  StridedFields fields;
  fields.rows = shape[0];
  fields.columns = shape[1];
  fields.packed_rows = shape[0] / kRowsPerByte;
  fields.bits = 2;
  fields.fields = kRowsPerByte;
  fields.offset = 1;
  fields.never = 3;
  fields.scale_by = StridedFields::ScaleBy::kTensor;
  fields.form = *multiplied ? StridedFields::Form::kScale : StridedFields::Form::kDivide;
  fields.scale_dtype = context.checkpoint.info(*scale).dtype;
  return strided_weight(context, match, fields, shape, *scale, std::nullopt);
}

constexpr const QuantFormat* kBitnetFormats[] = {&kBitnet};

}  // namespace

constexpr QuantFamily kBitnetFamily = {"BitNet", kBitnetFormats, detect_bitnet};

}  // namespace tftf
