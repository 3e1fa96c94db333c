// Gemma's own quantisation: rows of 8, 4 or 2 bits, and embedding tables of the same (spec quant-layouts-2 10).
#include <algorithm>

#include "quant/families.h"
#include "quant/grouped_matrix.h"
#include "quant/layout_scan.h"
#include "tftf/base/checked.h"
#include "tftf/base/regex.h"

namespace tftf {
namespace {

Result<Weight> open_gemma(OpenContext& context, const QuantMatch& match);

constexpr QuantFormat kGemmaInt8 = {.id = "gemma-int8", .title = "Gemma int8", .open = open_gemma};
constexpr QuantFormat kGemmaInt4 = {.id = "gemma-int4", .title = "Gemma int4", .open = open_gemma};
constexpr QuantFormat kGemmaInt2 = {.id = "gemma-int2", .title = "Gemma int2", .open = open_gemma};

const QuantFormat* gemma_format(int64_t bits) {
  return bits == 8 ? &kGemmaInt8 : bits == 4 ? &kGemmaInt4 : bits == 2 ? &kGemmaInt2 : nullptr;
}

// The bits of modules: the first pattern of module_quant_configs that is found in the name, else num_bits.
class GemmaBits {
 public:
  explicit GemmaBits(LayoutScan& scan) {
    const JsonValue* section = scan.config().section;
    if (section == nullptr) return;
    bits_ = section->integer("num_bits").value_or(0);
    const JsonValue* own = section->get("module_quant_configs");
    if (own == nullptr || !own->is_object()) return;
    for (const JsonValue::Member& member : own->members) {
      Result<Regex> pattern = Regex::compile(member.first);
      const auto bits = member.second.is_object() ? member.second.integer("num_bits") : std::nullopt;
      if (!pattern || !bits) {
        readable_ = false;
      } else {
        patterns_.emplace_back(*std::move(pattern), *bits);
      }
    }
  }

  // Nothing when a pattern cannot be read or tried.
  std::optional<int64_t> of(std::string_view module) const {
    if (!readable_) return std::nullopt;
    for (const auto& [pattern, bits] : patterns_) {
      const auto found = pattern.search(module);
      if (!found) return std::nullopt;
      if (*found) return bits;
    }
    return bits_;
  }

 private:
  int64_t bits_ = 0;
  bool readable_ = true;
  std::vector<std::pair<Regex, int64_t>> patterns_{};
};

struct GemmaNames {
  std::string_view codes, scale, role;
};
constexpr GemmaNames kGemmaNames[] = {{".weight", ".weight_scale", "weight"},
                                      {".embedding_quantized", ".embedding_scale", "embedding_quantized"}};

void detect_gemma_module(LayoutScan& scan, const GemmaBits& all_bits, const GemmaNames& names,
                         TensorRef scale) {
  const std::string_view module = scan.stem(scale, names.scale);
  const std::optional<TensorRef> weight = scan.sibling(module, names.codes);
  if (!weight) return;
  const TensorInfo& codes = scan.info(*weight);
  if (codes.dtype != DType::I8 && codes.dtype != DType::U8) return;
  QuantMatch match;
  match.module = std::string(module) + ".weight";
  match.layout = codes.dtype == DType::I8 ? kGemmaInt8.id : kGemmaInt4.id;
  const auto broken = [&](std::string what) {
    scan.problem(match.layout, match.module, std::move(what), {weight, scale});
  };
  const Shape& grid = scan.info(scale).shape;
  if (codes.shape.size() != 2 || grid.size() != 2 || grid[0] != codes.shape[0] || grid[1] == 0 ||
      !is_scale_float(scan.info(scale).dtype))
    return broken("its scales " + shape_text(grid) + " do not fit the codes " + shape_text(codes.shape));
  const auto bits = all_bits.of(module);
  const QuantFormat* format = bits ? gemma_format(*bits) : nullptr;
  if (format == nullptr)
    return broken(bits ? "num_bits of config.json is not 8, 4 or 2 for it"
                       : "module_quant_configs of config.json cannot be read for it");
  if ((codes.dtype == DType::I8) != (*bits == 8))
    return broken("config.json says " + std::to_string(*bits) + " bits, and its codes are " +
                  std::string(dtype_name(codes.dtype)));
  const auto columns = checked_mul(codes.shape[1], 8 / static_cast<uint64_t>(*bits));
  if (!columns || *columns % grid[1] != 0)
    return broken("its scales " + shape_text(grid) + " do not divide its rows");
  match.layout = format->id;
  match.weight = *weight;
  match.role = names.role;
  match.companions.push_back({"scale", scale});
  scan.add_companion(match, "input_activation_scale", module, ".input_activation_scale");
  scan.add_companion(match, "output_activation_scale", module, ".output_activation_scale");
  match.logical_dtype = scan.info(scale).dtype;
  match.logical_shape = Shape{codes.shape[0], *columns};
  match.bits = static_cast<uint32_t>(*bits);
  match.group_size = grid[1] == 1 ? 0 : *columns / grid[1];
  scan.claim(std::move(match));
}

void detect_gemma(LayoutScan& scan) {
  if (scan.config().method != "gemma") return;
  const GemmaBits bits(scan);
  for (const GemmaNames& names : kGemmaNames)
    for (TensorRef scale : scan.ending(names.scale)) detect_gemma_module(scan, bits, names, scale);
}

Result<Weight> open_gemma(OpenContext& context, const QuantMatch& match) {
  const TensorRef* scale = match.find("scale");
  if (scale == nullptr || !match.logical_shape)
    return weight_fault(ErrorCode::kRefusedMissing, context, match, "lacks its scale");
  const Shape& shape = *match.logical_shape;
  GroupedMatrix matrix;
  matrix.rows = shape[0];
  matrix.columns = shape[1];
  matrix.bits = match.bits;
  matrix.group = std::max<uint64_t>(match.group_size == 0 ? shape[1] : match.group_size, 1);
  if (match.bits == 8) {
    matrix.codes = GroupedMatrix::Codes::kSigned;
  } else {
    matrix.offset = 1 << (match.bits - 1);
  }
  matrix.scale_dtype = context.checkpoint.info(*scale).dtype;
  return grouped_weight(context, match, matrix, std::string(match.layout), shape,
                        {.codes = match.weight, .scales = *scale});
}

constexpr const QuantFormat* kGemmaFormats[] = {&kGemmaInt8, &kGemmaInt4, &kGemmaInt2};

}  // namespace

constexpr QuantFamily kGemmaFamily = {"Gemma", kGemmaFormats, detect_gemma};

}  // namespace tftf
