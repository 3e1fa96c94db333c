// torchao's safetensors form: the header's metadata describes each tensor subclass (spec other-quant-layouts
// 8).
#include <algorithm>

#include "quant/families.h"
#include "quant/layout_scan.h"
#include "quant/torchao.h"
#include "tftf/base/affix.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

constexpr QuantFormat kFloat8 = {
    .id = "torchao-float8", .title = "torchao Float8Tensor", .open = open_torchao};
constexpr QuantFormat kTorchaoInt8 = {
    .id = "torchao-int8", .title = "torchao Int8Tensor", .open = open_torchao};
constexpr QuantFormat kIntx = {
    .id = "torchao-intx", .title = "torchao IntxUnpackedToInt8Tensor", .open = open_torchao};
constexpr QuantFormat kInt4 = {.id = "torchao-int4", .title = "torchao Int4Tensor", .open = open_torchao};
constexpr QuantFormat kInt4Plain = {"torchao-int4-plain", "torchao Int4PlainInt32Tensor", true};
constexpr QuantFormat kInt4Tiled = {"torchao-int4-tiled", "torchao Int4TilePackedTo4dTensor", true};
constexpr QuantFormat kMx = {.id = "torchao-mx", .title = "torchao MXTensor", .open = open_torchao};
constexpr QuantFormat kTorchaoNvfp4 = {
    .id = "torchao-nvfp4", .title = "torchao NVFP4Tensor", .open = open_torchao};

struct Subclass {
  std::string_view type;
  const QuantFormat* format;
  uint32_t bits;  // 0: by the element dtype
};
constexpr Subclass kSubclasses[] = {
    {"Float8Tensor", &kFloat8, 8},
    {"Int8Tensor", &kTorchaoInt8, 8},
    {"IntxUnpackedToInt8Tensor", &kIntx, 8},
    {"Int4Tensor", &kInt4, 4},
    {"Int4PlainInt32Tensor", &kInt4Plain, 4},
    {"Int4TilePackedTo4dTensor", &kInt4Tiled, 4},
    {"MXTensor", &kMx, 0},
    {"NVFP4Tensor", &kTorchaoNvfp4, 4},
};
constexpr std::string_view kPartRoles[] = {"qdata",          "scale",        "zero_point", "per_tensor_scale",
                                           "scale_and_zero", "act_pre_scale"};

// torch dtype of an attribute {"_type": "torch.dtype", "_data": "bfloat16"}.
std::optional<DType> attribute_dtype(const JsonValue& data, std::string_view key) {
  const JsonValue* value = data.get(key);
  const auto name = value ? value->string("_data") : std::nullopt;
  return name ? find_torch_dtype(*name) : std::nullopt;
}

bool qdata_fits(const Subclass& subclass, const TensorInfo& qdata) {
  if (subclass.format == &kFloat8) return is_fp8(qdata.dtype);
  if (subclass.format == &kTorchaoInt8 || subclass.format == &kIntx) return qdata.dtype == DType::I8;
  if (subclass.format == &kMx)
    return is_fp8(qdata.dtype) || qdata.dtype == DType::U8 || qdata.dtype == DType::F4;
  if (subclass.format == &kTorchaoNvfp4) return qdata.dtype == DType::U8 || qdata.dtype == DType::F4;
  if (subclass.format == &kInt4) return qdata.dtype == DType::I8 || qdata.dtype == DType::U8;
  return qdata.dtype == DType::I32;
}

// Elements of the logical weight per stored element of the last dimension; 0: the shape does not tell.
uint64_t elements_per_code(const Subclass& subclass, DType stored) {
  if (subclass.format == &kInt4Tiled) return 0;
  if (subclass.format == &kInt4Plain) return 8;
  if (subclass.format == &kInt4 || (stored == DType::U8 && subclass.bits != 8)) return 2;
  return 1;
}

void detect_entry(LayoutScan& scan, const std::string& key, const JsonValue& entry) {
  const auto type = entry.string("_type");
  const JsonValue* parts = entry.get("_tensor_data_names");
  if (!type || *type == "Tensor" || !parts || !parts->is_array()) return;
  const Subclass* subclass = nullptr;
  for (const Subclass& one : kSubclasses)
    if (one.type == *type) subclass = &one;
  if (!subclass) {
    scan.problem("torchao", key, "the tensor subclass " + quote_name(*type) + " is not known", {});
    return;
  }
  // "0.weight" keeps its parts under "0._weight_qdata".
  const size_t dot = key.rfind('.');
  const size_t cut = dot == std::string::npos ? 0 : dot + 1;
  const std::string base = key.substr(0, cut) + "_" + key.substr(cut) + "_";
  QuantMatch match;
  match.layout = subclass->format->id;
  match.module = key;
  std::optional<TensorRef> qdata;
  for (const JsonValue& part : parts->elements) {
    const std::optional<TensorRef> tensor = scan.sibling(base, part.text);
    if (!tensor) {
      scan.problem(match.layout, key, "the declared part " + quote_name(base + part.text) + " is not stored",
                   {});
      return;
    }
    if (part.text == "qdata") {
      qdata = tensor;
      continue;
    }
    std::string_view role = "part";
    for (std::string_view known : kPartRoles)
      if (known == part.text) role = known;
    match.companions.push_back({role, *tensor});
  }
  if (!qdata || !qdata_fits(*subclass, scan.info(*qdata))) {
    scan.problem(match.layout, key, "its qdata does not fit a " + std::string(*type), {qdata});
    return;
  }
  match.weight = *qdata;
  match.role = "qdata";
  static const JsonValue kNothing;
  const JsonValue* declared = entry.get("_data");
  const JsonValue& data = declared ? *declared : kNothing;
  const TensorInfo& stored = scan.info(*qdata);
  const TensorRef* scale = match.find("scale");
  const auto recorded = attribute_dtype(data, "dtype");
  const auto original = recorded ? recorded : attribute_dtype(data, "orig_dtype");
  match.logical_dtype = original ? *original : native_dtype(scale ? scan.info(*scale).dtype : DType::BF16);
  match.bits = subclass->bits != 0 ? subclass->bits : (is_fp8(stored.dtype) ? 8 : 4);
  auto attributes = std::make_shared<TorchaoAttributes>();
  if (const JsonValue* block = data.get("block_size")) {
    const auto add = [&](const JsonValue& size) {
      attributes->block.push_back(static_cast<uint64_t>(std::max<int64_t>(0, size.as_integer().value_or(0))));
    };
    if (block->is_array())
      for (const JsonValue& size : block->elements) add(size);
    else
      add(*block);
    if (!attributes->block.empty()) match.group_size = attributes->block.back();
  }
  if (const JsonValue* swizzled = data.get("is_swizzled_scales")) attributes->swizzled = swizzled->is_true();
  if (const JsonValue* element = data.get("elem_dtype"))
    attributes->element = std::string(element->string("_data").value_or(""));
  match.detail = std::move(attributes);
  if (const uint64_t factor = elements_per_code(*subclass, stored.dtype);
      factor > 0 && !stored.shape.empty()) {
    match.logical_shape = stored.shape;
    match.logical_shape->back() *= factor;
  } else if (const JsonValue* shape = data.get("shape"); shape && shape->is_array()) {
    Shape out;
    for (const JsonValue& element : shape->elements)
      out.push_back(static_cast<uint64_t>(std::max<int64_t>(0, element.as_integer().value_or(0))));
    match.logical_shape = std::move(out);
  }
  scan.claim(std::move(match));
}

// An entry per attribute, "NAME:tensor_type", and parts called "NAME:qdata": what torchao wrote at first. Its plain tensors
// are called "NAME:data", so that a model of it is read whole or not at all.
void name_early_spelling(LayoutScan& scan, const Metadata& metadata) {
  constexpr std::string_view kType = ":tensor_type";
  constexpr std::string_view kWhat =
      "the metadata has torchao's early spelling (NAME:tensor_type), which is named here but not read";
  for (const auto& [key, value] : metadata) {
    if (key.size() <= kType.size() || !ends_with(key, kType)) continue;
    const std::string name = key.substr(0, key.size() - kType.size());
    const std::optional<TensorRef> qdata = scan.sibling(name, ":qdata");
    if (qdata)
      scan.problem("torchao", name, std::string(kWhat), {qdata, scan.sibling(name, ":scale")});
    else
      scan.note(std::string(kWhat));
  }
}

void detect_torchao(LayoutScan& scan) {
  for (const Shard& shard : scan.checkpoint().shards) {
    const bool names_tensors = std::any_of(shard.header.metadata.begin(), shard.header.metadata.end(),
                                           [](const auto& member) { return member.first == "tensor_names"; });
    if (!names_tensors) continue;
    name_early_spelling(scan, shard.header.metadata);
    for (const auto& [key, value] : shard.header.metadata) {
      if (key == "tensor_names" || value.empty() || value[0] != '{') continue;
      const JsonDocument entry = parse_json(value, JsonDialect::kPython);
      if (!entry.error) detect_entry(scan, key, entry.root);
    }
  }
}

constexpr const QuantFormat* kTorchaoFormats[] = {&kFloat8,    &kTorchaoInt8, &kIntx, &kInt4,
                                                  &kInt4Plain, &kInt4Tiled,   &kMx,   &kTorchaoNvfp4};

}  // namespace

constexpr QuantFamily kTorchaoFamily = {"torchao", kTorchaoFormats, detect_torchao};

}  // namespace tftf
