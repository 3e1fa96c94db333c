// colibri's FP8 as a container of the codes of FP8 with blocks of 128 (spec colibri 4.2).
#include "quant/colibri/weights.h"
#include "quant/planes.h"
#include "tftf/base/checked.h"
#include "tftf/quant/colibri/format.h"
#include "tftf/quant/colibri/tensor_kind.h"
#include "tftf/quant/colibri/write_gate.h"

namespace tftf::colibri {
namespace {

constexpr uint64_t kBlockSide = 128;

// The engine looks up stamps of these, in whatever layer.
bool has_looked_up_stamp(const std::string& name) {
  Pass every;
  every.layers = INT64_MAX;
  return is_stampable(classify(name, every));
}

Result<CodeForm> colibri_fp8_codes(OpenContext& context, const QuantMatch& match) {
  const TensorRef* scale = match.find("qs");
  if (scale == nullptr) return no_place("it has no .qs");
  if (!match.logical_shape || match.logical_shape->size() != 2)
    return no_place("its rows and columns are not known");
  const TensorInfo &codes = context.checkpoint.info(match.weight), &scales = context.checkpoint.info(*scale);
  CodeForm form;
  form.kind = CodeKind::kFp8;
  form.bits = 8;
  form.outputs = (*match.logical_shape)[0];
  form.inputs = (*match.logical_shape)[1];
  form.block[0] = form.block[1] = kBlockSide;
  form.planes = {
      {.role = PlaneRole::kCodes, .form = value_plane(codes.dtype, codes.shape), .tensor = match.weight},
      {.role = PlaneRole::kScales, .form = value_plane(scales.dtype, scales.shape), .tensor = *scale}};
  return form;
}

Result<PackedCodes> pack_colibri_fp8(const CodeForm& from, const PackRequest& request) {
  if (from.block[0] != kBlockSide || from.block[1] != kBlockSide) {
    return no_place("its blocks are of " + std::to_string(from.block[0]) + " x " +
                    std::to_string(from.block[1]) + ", not of 128 x 128");
  }
  const PlaneForm& scales = from.find(PlaneRole::kScales)->form;
  const Shape grid{blocks128(from.outputs), blocks128(from.inputs)};
  if (scales.shape != grid)
    return no_place("its scales are " + shape_text(scales.shape) + ", not " + shape_text(grid));
  if (scales.dtype != DType::F32 && scales.dtype != DType::BF16 && scales.dtype != DType::F16)
    return no_place("its scales are " + std::string(dtype_name(scales.dtype)));
  PackedCodes packed;
  WrittenPair pair{.name = request.name,
                   .rows = from.outputs,
                   .columns = from.inputs,
                   .weight_bytes = request.code_bytes,
                   .scale_bytes = grid[0] * grid[1] * 4,
                   .format = Format::kFp8Block128};
  if (has_looked_up_stamp(request.name))
    pair.stamp = packed.stamp = std::string(format_info(Format::kFp8Block128).name);
  if (const WriteCheck check = check_written(pair, false); check.refused)
    return Error{.code = ErrorCode::kRefusedUnsupported, .message = check.sentence, .tensor = request.name};
  packed.warning = shape_warning(pair.name, pair.rows, pair.columns, request.config).value_or("");
  packed.planes.push_back({.role = PlaneRole::kCodes,
                           .form = value_plane(DType::U8, {from.outputs, from.inputs}),
                           .name = request.name});
  packed.planes.push_back({.role = PlaneRole::kScales,
                           .form = value_plane(DType::F32, {grid[0] * grid[1]}),
                           .name = request.name + ".qs"});
  return packed;
}

}  // namespace

const CodeLayout kColibriFp8Codes{CodeKind::kFp8, colibri_fp8_codes, pack_colibri_fp8, nullptr};

}  // namespace tftf::colibri
