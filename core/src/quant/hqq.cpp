// HQQ: everything about a module lies in small tensors beside it (spec quant-layouts-2 6).
#include <algorithm>
#include <map>

#include "quant/families.h"
#include "quant/layout_scan.h"
#include "quant/strided_fields.h"
#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/simd/floats.h"

namespace tftf {
namespace {

Result<Weight> open_hqq(OpenContext& context, const QuantMatch& match);

constexpr QuantFormat kHqq = {.id = "hqq", .title = "HQQ", .open = open_hqq};

struct HqqPacking {
  std::string_view name;
  uint32_t bits;
  uint32_t word_bytes;
  uint32_t fields;
};
constexpr HqqPacking kHqqPackings[] = {{"8bit_u8", 8, 1, 1},
                                       {"4bit_u8", 4, 1, 2},
                                       {"2bit_u8", 2, 1, 4},
                                       {"1bit_u8", 1, 1, 8},
                                       {"3bit_32", 3, 4, 10}};

// QuantMatch::detail.
struct HqqSettings {
  const HqqPacking* packing = nullptr;
  uint64_t axis = 1;
  uint64_t group = 0;  // 0: none
  bool nested = false;
  bool view_as_float = false;
};

constexpr std::string_view kHqqParts[] = {"scale",
                                          "zero",
                                          "shape",
                                          "nbits",
                                          "group_size",
                                          "axis",
                                          "packing",
                                          "unpack_view_dtype",
                                          "compute_dtype",
                                          "view_as_float",
                                          "channel_wise",
                                          "round_zero",
                                          "optimize",
                                          "quant_scale",
                                          "quant_zero",
                                          "offload_meta",
                                          "encoded_state_dict",
                                          "stores_quant_config"};
constexpr std::string_view kHqqNeeded[] = {"scale", "zero", "shape", "axis", "nbits"};

// Reads the settings; `waits` when their values are still to come.
class HqqReader {
 public:
  HqqReader(LayoutScan& scan, const QuantMatch& match) : scan_(scan), match_(match) {}

  std::optional<std::string> text(std::string_view part) { return bytes(part); }
  std::optional<int64_t> number(std::string_view part, size_t index = 0) {
    const TensorRef* tensor = match_.find(part);
    const auto value = bytes(part);
    if (!value) return std::nullopt;
    const DType dtype = scan_.info(*tensor).dtype;
    if (is_floating(dtype)) return std::nullopt;
    const size_t size = dtype_bits(dtype) / 8;
    if (size == 0 || (index + 1) * size > value->size()) return std::nullopt;
    const auto number = element_as_f64(dtype, as_bytes(*value).data(), index);
    if (!(number >= 0 && number < 0x1p53)) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  bool waits() const { return waits_; }

 private:
  std::optional<std::string> bytes(std::string_view part) {
    const TensorRef* tensor = match_.find(part);
    if (tensor == nullptr) return std::nullopt;
    const std::optional<Bytes> value = scan_.values().get(*tensor, 64);
    if (!value) {
      waits_ = waits_ || scan_.values().pending(*tensor);
      return std::nullopt;
    }
    return std::string(as_text(*value));
  }

  LayoutScan& scan_;
  const QuantMatch& match_;
  bool waits_ = false;
};

// What is wrong, or nothing. `waits`: nothing is known yet.
std::string read_hqq(LayoutScan& scan, QuantMatch& match, bool& waits) {
  HqqReader reader(scan, match);
  const auto rows = reader.number("shape", 0), columns = reader.number("shape", 1);
  const auto axis = reader.number("axis"), bits = reader.number("nbits"), group = reader.number("group_size");
  const auto packing = reader.text("packing");
  const auto as_float = reader.number("view_as_float");
  const bool nested =
      reader.number("quant_scale").value_or(0) != 0 || reader.number("quant_zero").value_or(0) != 0;
  waits = reader.waits();
  if (waits) return {};
  if (!rows || !columns || element_count(scan.info(*match.find("shape")).shape) != 2)
    return "its shape is not two lengths";
  if (!axis || *axis > 1) return "its axis is neither 0 nor 1";
  if (!bits || *bits > 8) return "its nbits cannot be read";
  auto settings = std::make_shared<HqqSettings>();
  for (const HqqPacking& one : kHqqPackings) {
    if (packing ? one.name == *packing
                : one.bits == static_cast<uint32_t>(*bits == 5 || *bits == 6 ? 8 : *bits))
      settings->packing = &one;
  }
  if (settings->packing == nullptr)
    return "its packing " + quote_name(packing.value_or(std::to_string(*bits) + " bits")) + " is not known";
  settings->axis = static_cast<uint64_t>(*axis);
  settings->group = static_cast<uint64_t>(group.value_or(0));
  settings->nested = nested;
  settings->view_as_float = as_float.value_or(0) != 0;
  match.bits = settings->packing->bits;
  match.group_size = settings->group;
  match.logical_shape = Shape{static_cast<uint64_t>(*rows), static_cast<uint64_t>(*columns)};
  match.logical_dtype = native_dtype(scan.info(*match.find("scale")).dtype);
  match.detail = std::move(settings);
  return {};
}

void detect_hqq(LayoutScan& scan) {
  for (TensorRef codes : scan.ending(".W_q")) {
    const std::string_view module = scan.stem(codes, ".W_q");
    const bool encoded = scan.sibling(module, ".encoded_state_dict").has_value();
    const bool whole =
        scan.sibling(module, ".scale") && scan.sibling(module, ".zero") && scan.sibling(module, ".shape");
    if (!encoded && !whole) continue;
    QuantMatch match;
    match.layout = kHqq.id;
    match.module = std::string(module) + ".weight";
    match.weight = codes;
    match.role = "W_q";
    for (std::string_view part : kHqqParts) scan.add_companion(match, part, module, "." + std::string(part));
    std::string wrong;
    for (std::string_view part : kHqqNeeded)
      if (wrong.empty() && match.find(part) == nullptr) wrong = "its " + std::string(part) + " is missing";
    bool waits = false;
    if (wrong.empty()) wrong = read_hqq(scan, match, waits);
    if (!wrong.empty()) {
      scan.problem(kHqq.id, match.module, std::move(wrong), {codes});
      continue;
    }
    scan.claim(std::move(match));
  }
}

Result<Weight> open_hqq(OpenContext& context, const QuantMatch& match) {
  const auto* settings = static_cast<const HqqSettings*>(match.detail.get());
  const TensorRef *scale = match.find("scale"), *zero = match.find("zero");
  if (settings == nullptr || scale == nullptr || zero == nullptr || !match.logical_shape)
    return weight_fault(ErrorCode::kRefusedMissing, context, match, "has settings that cannot be read");
  const auto unsupported = [&](const std::string& what) {
    return weight_fault(ErrorCode::kRefusedUnsupported, context, match, what);
  };
  if (settings->nested)
    return unsupported("has scales or zeros that are quantised themselves (quant_scale, quant_zero)");
  const TensorInfo& codes = context.checkpoint.info(match.weight);
  const DType word = settings->packing->word_bytes == 4 ? DType::I32 : DType::U8;
  if (codes.dtype != word && !(settings->view_as_float && is_scale_float(codes.dtype)))
    return unsupported("has W_q of dtype " + std::string(dtype_name(codes.dtype)) + ", not " +
                       std::string(dtype_name(word)));
  const DType scale_dtype = context.checkpoint.info(*scale).dtype;
  const DType zero_dtype = context.checkpoint.info(*zero).dtype;
  if (!is_scale_float(scale_dtype) || !is_scale_float(zero_dtype))
    return unsupported("has a scale or zero that is not F16, BF16 or F32");
  const Shape& shape = *match.logical_shape;
  const uint64_t elements = element_count(shape).value_or(0);
  const uint64_t whole = settings->axis == 1 ? shape[1] : shape[0];
  const uint64_t group = std::max<uint64_t>(settings->group == 0 ? whole : settings->group, 1);
  if (elements % group != 0 || codes.shape.size() != 2)
    return weight_fault(
        ErrorCode::kRefusedShape, context, match,
        "has the shape " + shape_text(shape) + ", which groups of " + std::to_string(group) + " do not fill");
  StridedFields fields;
  fields.rows = settings->axis == 1 ? elements / group : group;
  fields.columns = settings->axis == 1 ? group : elements / group;
  fields.packed_rows = codes.shape[0];
  fields.bits = settings->packing->bits;
  fields.word_bytes = settings->packing->word_bytes;
  fields.fields = settings->packing->fields;
  fields.high_first = true;
  fields.scale_by = settings->axis == 1 ? StridedFields::ScaleBy::kRow : StridedFields::ScaleBy::kColumn;
  fields.form = StridedFields::Form::kSubtractScale;
  fields.scale_dtype = scale_dtype;
  fields.zero_dtype = zero_dtype;
  return strided_weight(context, match, fields, shape, *scale, *zero);
}

constexpr const QuantFormat* kHqqFormats[] = {&kHqq};

}  // namespace

constexpr QuantFamily kHqqFamily = {"HQQ", kHqqFormats, detect_hqq};

}  // namespace tftf
