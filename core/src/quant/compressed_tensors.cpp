// compressed-tensors: the storage kind comes from the tensors, never from the configuration alone (spec
// compressed-tensors 1.5, 2.1).
#include <algorithm>

#include "quant/families.h"
#include "quant/layout_scan.h"
#include "tftf/base/checked.h"

namespace tftf {
namespace {

constexpr QuantFormat kPack = {"ct-pack-quantized", "compressed-tensors, integers packed into I32"};
constexpr QuantFormat kInt = {"ct-int-quantized", "compressed-tensors, I8 codes"};
constexpr QuantFormat kFloat = {"ct-float-quantized", "compressed-tensors, FP8 codes"};
constexpr QuantFormat kNaive = {"ct-naive-quantized", "compressed-tensors, one code per element"};
constexpr QuantFormat kCompressedTensorsNvfp4 = {"ct-nvfp4-pack-quantized", "compressed-tensors NVFP4"};
constexpr QuantFormat kCompressedTensorsMxfp4 = {"ct-mxfp4-pack-quantized", "compressed-tensors MXFP4"};
constexpr QuantFormat kCompressedTensorsMxfp8 = {"ct-mxfp8-quantized", "compressed-tensors MXFP8"};
constexpr QuantFormat kMarlin24 = {"ct-marlin-24", "compressed-tensors, Marlin 2:4"};
constexpr QuantFormat kBitmask = {"ct-sparse-bitmask", "compressed-tensors, sparse by bitmask"};
constexpr QuantFormat kBitmask24 = {"ct-sparse-24-bitmask", "compressed-tensors, 2:4 sparse by bitmask"};

constexpr std::string_view kActivations[] = {"input_scale", "output_scale", "input_zero_point",
                                             "output_zero_point", "input_global_scale"};

QuantMatch start_compressed_tensors(const LayoutScan& scan, const QuantFormat& format,
                                    std::string_view module, TensorRef weight, std::string_view role) {
  QuantMatch match;
  match.layout = format.id;
  match.module = std::string(module) + ".weight";
  match.weight = weight;
  match.role = role;
  if (is_scale_float(scan.info(weight).dtype)) match.logical_dtype = scan.info(weight).dtype;
  return match;
}

void add_optional(const LayoutScan& scan, QuantMatch& match, std::string_view module) {
  scan.add_companion(match, "weight_zero_point", module, ".weight_zero_point");
  scan.add_companion(match, "weight_g_idx", module, ".weight_g_idx");
  for (std::string_view role : kActivations) scan.add_companion(match, role, module, "." + std::string(role));
}

// A [R, C] kept as a small integer tensor.
std::optional<Shape> stored_shape(LayoutScan& scan, TensorRef tensor) {
  const TensorInfo& info = scan.info(tensor);
  const std::optional<Bytes> bytes = scan.values().get(tensor);
  if (!bytes) return std::nullopt;
  Shape out;
  const uint64_t width = dtype_bits(info.dtype) / 8;
  if ((info.dtype != DType::I64 && info.dtype != DType::I32) || bytes->size() > 64) return std::nullopt;
  for (uint64_t at = 0; at + width <= bytes->size(); at += width) {
    const int64_t value =
        width == 8 ? load_le<int64_t>(bytes->data() + at) : load_le<int32_t>(bytes->data() + at);
    if (value < 0) return std::nullopt;
    out.push_back(static_cast<uint64_t>(value));
  }
  return out;
}

// The `weights` arguments when all groups of the configuration agree on a member; 0 otherwise.
uint64_t common_argument(const LayoutScan& scan, std::string_view key) {
  const JsonValue* groups = scan.config().get("config_groups");
  int64_t common = 0;
  if (!groups) return 0;
  for (const auto& [name, group] : groups->members) {
    const JsonValue* weights = group.get("weights");
    if (!weights) continue;
    const int64_t value = weights->integer(key).value_or(0);
    if (value < 1 || (common != 0 && common != value)) return 0;
    common = value;
  }
  return static_cast<uint64_t>(common);
}

// The width of a packed row from the configuration, when it and the packed tensor agree: one read less per
// module of models with tens of thousands of them.
std::optional<Shape> computed_shape(const LayoutScan& scan, const QuantMatch& match) {
  const uint64_t bits = common_argument(scan, "num_bits"), group = common_argument(scan, "group_size");
  const TensorRef* scale = match.find("weight_scale");
  const Shape& packed = scan.info(match.weight).shape;
  if (bits == 0 || group == 0 || !scale || packed.size() != 2 || scan.info(*scale).shape.size() != 2)
    return std::nullopt;
  const auto columns = checked_mul(scan.info(*scale).shape[1], group);
  const auto columns_bits = columns ? checked_mul(*columns, bits) : std::nullopt;
  if (!columns_bits || scan.info(*scale).shape[1] < 2 || ceil_div(*columns_bits, 32) != packed[1] ||
      32 % bits != 0)
    return std::nullopt;
  return Shape{packed[0], *columns};
}

void detect_packed(LayoutScan& scan, TensorRef packed) {
  const std::string_view module = scan.stem(packed, ".weight_packed");
  const TensorInfo& info = scan.info(packed);
  const std::string name = std::string(module) + ".weight";
  const std::optional<TensorRef> scale = scan.sibling(module, ".weight_scale");
  if (info.dtype == DType::I32 && scan.sibling(module, ".scale_packed") && scan.sibling(module, ".meta")) {
    QuantMatch match = start_compressed_tensors(scan, kMarlin24, module, packed, "weight_packed");
    scan.add_companion(match, "scale_packed", module, ".scale_packed");
    scan.add_companion(match, "meta", module, ".meta");
    match.logical_dtype = native_dtype(scan.info(*match.find("scale_packed")).dtype);
    return scan.claim(std::move(match));
  }
  auto broken = [&](std::string_view layout, std::string what) {
    scan.problem(layout, name, std::move(what), {packed, scale});
  };
  if (!scale) {
    if (scan.config().method == "compressed-tensors" || scan.sibling(module, ".weight_shape"))
      broken(kPack.id, "weight_scale is missing");
    return;
  }
  const DType scale_dtype = scan.info(*scale).dtype;
  if (info.dtype == DType::U8) {
    Shape logical = info.shape;
    if (!logical.empty()) logical.back() *= 2;
    const bool global = scan.sibling(module, ".weight_global_scale").has_value();
    if (scale_dtype == DType::F8_E4M3 && global) {
      QuantMatch match =
          start_compressed_tensors(scan, kCompressedTensorsNvfp4, module, packed, "weight_packed");
      match.companions.push_back({"weight_scale", *scale});
      scan.add_companion(match, "weight_global_scale", module, ".weight_global_scale");
      add_optional(scan, match, module);
      match.logical_shape = logical;
      match.bits = 4;
      match.group_size = 16;
      return scan.claim(std::move(match));
    }
    if (scale_dtype == DType::U8 || scale_dtype == DType::F8_E8M0) {
      QuantMatch match =
          start_compressed_tensors(scan, kCompressedTensorsMxfp4, module, packed, "weight_packed");
      match.companions.push_back({"weight_scale", *scale});
      add_optional(scan, match, module);
      match.logical_shape = logical;
      match.bits = 4;
      match.group_size = 32;
      return scan.claim(std::move(match));
    }
    return broken(kCompressedTensorsNvfp4.id,
                  global ? "weight_scale is not F8_E4M3" : "weight_global_scale is missing");
  }
  if (info.dtype != DType::I32) return;
  QuantMatch match = start_compressed_tensors(scan, kPack, module, packed, "weight_packed");
  match.companions.push_back({"weight_scale", *scale});
  match.logical_dtype = native_dtype(scale_dtype);
  const bool has_shape =
      scan.add_companion(match, "weight_shape", module, ".weight_shape", {DType::I64, DType::I32});
  if (!has_shape) return broken(kPack.id, "weight_shape is missing");
  add_optional(scan, match, module);
  match.bits = static_cast<uint32_t>(std::min<uint64_t>(common_argument(scan, "num_bits"), 32));
  match.group_size = common_argument(scan, "group_size");
  match.logical_shape = computed_shape(scan, match);
  if (!match.logical_shape) match.logical_shape = stored_shape(scan, *match.find("weight_shape"));
  scan.claim(std::move(match));
}

void detect_sparse(LayoutScan& scan, TensorRef compressed) {
  const std::string_view module = scan.stem(compressed, ".compressed");
  const std::optional<TensorRef> bitmask = scan.sibling(module, ".bitmask"),
                                 shape = scan.sibling(module, ".shape");
  if (!bitmask || !shape || scan.info(*bitmask).dtype != DType::U8) return;
  const DType shape_dtype = scan.info(*shape).dtype;
  if (shape_dtype != DType::I64 && shape_dtype != DType::I32) return;
  const bool rows = scan.sibling(module, ".row_offsets").has_value();
  QuantMatch match =
      start_compressed_tensors(scan, rows ? kBitmask : kBitmask24, module, compressed, "compressed");
  match.companions.push_back({"bitmask", *bitmask});
  match.companions.push_back({"shape", *shape});
  scan.add_companion(match, "row_offsets", module, ".row_offsets");
  scan.add_companion(match, "weight_scale", module, ".weight_scale");
  add_optional(scan, match, module);
  if (const TensorRef* scale = match.find("weight_scale"))
    match.logical_dtype = native_dtype(scan.info(*scale).dtype);
  match.logical_shape = stored_shape(scan, *shape);
  scan.claim(std::move(match));
}

bool says_naive(const LayoutScan& scan) {
  const JsonValue* format = scan.config().get("format");
  if (format && format->is_string() && format->text != "mixed-precision")
    return format->text == "naive-quantized";
  const JsonValue* groups = scan.config().get("config_groups");
  if (!groups || groups->members.empty()) return false;
  return std::all_of(groups->members.begin(), groups->members.end(), [](const auto& group) {
    const JsonValue* own = group.second.get("format");
    return own && own->text == "naive-quantized";
  });
}

// `weight` with `weight_scale`: named by the configuration, except that E8M0 bytes in groups of 32 over FP8
// are told by their shape.
void detect_plain(LayoutScan& scan, TensorRef scale, bool ours) {
  const std::string_view module = scan.stem(scale, ".weight_scale");
  const std::optional<TensorRef> weight = scan.sibling(module, ".weight");
  if (!weight) return;
  const TensorInfo& codes = scan.info(*weight);
  const TensorInfo& scales = scan.info(scale);
  const bool fp8 = codes.dtype == DType::F8_E4M3;
  const bool bytes = scales.dtype == DType::U8 || scales.dtype == DType::F8_E8M0;
  const QuantFormat* format = nullptr;
  if (fp8 && bytes && codes.shape.size() >= 2 && scales.shape.size() == codes.shape.size() &&
      scales.shape.back() == ceil_div(codes.shape.back(), 32) &&
      scales.shape[scales.shape.size() - 2] == codes.shape[codes.shape.size() - 2])
    format = &kCompressedTensorsMxfp8;
  else if (!ours || bytes)
    return;
  else if (fp8)
    format = says_naive(scan) ? &kNaive : &kFloat;
  else if (codes.dtype == DType::I8)
    format = says_naive(scan) ? &kNaive : &kInt;
  else if (codes.dtype == DType::I16 || codes.dtype == DType::I32)
    format = &kNaive;
  else
    return;
  QuantMatch match = start_compressed_tensors(scan, *format, module, *weight, "weight");
  match.companions.push_back({"weight_scale", scale});
  add_optional(scan, match, module);
  match.logical_dtype = native_dtype(scales.dtype);
  match.logical_shape = codes.shape;
  match.bits = dtype_bits(codes.dtype);
  if (format == &kCompressedTensorsMxfp8) match.group_size = 32;
  scan.claim(std::move(match));
}

void detect_compressed_tensors(LayoutScan& scan) {
  for (TensorRef compressed : scan.ending(".compressed")) detect_sparse(scan, compressed);
  for (TensorRef packed : scan.ending(".weight_packed")) detect_packed(scan, packed);
  const bool ours = scan.config().method == "compressed-tensors";
  for (TensorRef scale : scan.ending(".weight_scale"))
    if (scan.is_free(scale)) detect_plain(scan, scale, ours);
}

constexpr const QuantFormat* kCompressedTensorsFormats[] = {&kPack,
                                                            &kInt,
                                                            &kFloat,
                                                            &kNaive,
                                                            &kCompressedTensorsNvfp4,
                                                            &kCompressedTensorsMxfp4,
                                                            &kCompressedTensorsMxfp8,
                                                            &kMarlin24,
                                                            &kBitmask,
                                                            &kBitmask24};

}  // namespace

constexpr QuantFamily kCompressedTensorsFamily = {"compressed-tensors", kCompressedTensorsFormats,
                                                  detect_compressed_tensors};

}  // namespace tftf
