// MLX: U32 weights with scales, and biases in affine mode (spec other-quant-layouts 9); the same form under other names in
// transformers' metal and prism methods (spec quant-layouts-2 10).
#include <algorithm>

#include "quant/families.h"
#include "quant/grouped_matrix.h"
#include "quant/layout_scan.h"
#include "quant/mlx_encoder.h"
#include "tftf/base/checked.h"
#include "tftf/simd/floats.h"

namespace tftf {
namespace {

Result<Weight> open_mlx(OpenContext& context, const QuantMatch& match);

constexpr QuantFormat kAffine = {.id = "mlx-affine",
                                 .title = "MLX affine (scales and biases)",
                                 .open = open_mlx,
                                 .encoder = &kMlxAffineEncoder};
constexpr QuantFormat kMlxMxfp4 = {.id = "mlx-mxfp4", .title = "MLX MXFP4", .open = open_mlx};
constexpr QuantFormat kMlxMxfp8 = {.id = "mlx-mxfp8", .title = "MLX MXFP8", .open = open_mlx};
constexpr QuantFormat kMlxNvfp4 = {.id = "mlx-nvfp4", .title = "MLX NVFP4", .open = open_mlx};
constexpr QuantFormat kMetal = {
    .id = "metal-affine", .title = "Metal affine (scales and qbiases)", .open = open_mlx};
constexpr QuantFormat kPrism = {
    .id = "prism-1bit", .title = "Prism 1 bit (scales and biases)", .open = open_mlx};

bool is_affine(std::string_view id) { return id == kAffine.id || id == kMetal.id || id == kPrism.id; }

struct Numbers {
  uint64_t bits = 0;
  uint64_t group = 0;
  std::string mode;
};

// The configuration's numbers for a module: those of its own entry win.
Numbers declared_numbers(const LayoutScan& scan, std::string_view module) {
  Numbers out;
  const JsonValue* config = scan.config().mlx ? scan.config().mlx : scan.config().section;
  if (!config) return out;
  auto take = [&](const JsonValue& from) {
    if (const int64_t bits = from.integer("bits").value_or(0); bits > 0)
      out.bits = static_cast<uint64_t>(bits);
    if (const int64_t group = from.integer("group_size").value_or(0); group > 0)
      out.group = static_cast<uint64_t>(group);
    if (const auto mode = from.string("mode")) out.mode = *mode;
  };
  take(*config);
  if (const JsonValue* own = config->get(module); own && own->is_object()) take(*own);
  if (out.bits > 8) out.bits = 0;
  return out;
}

// group * bits is all that the header tells: the one solution of the usual numbers, or nothing.
std::optional<Numbers> only_solution(uint64_t product) {
  std::optional<Numbers> found;
  for (uint64_t group : {32, 64, 128})
    for (uint64_t bits : {2, 3, 4, 5, 6, 8})
      if (group * bits == product) {
        if (found) return std::nullopt;
        found = Numbers{bits, group, {}};
      }
  return found;
}

void detect_mlx_module(LayoutScan& scan, TensorRef scales) {
  const std::string_view module = scan.stem(scales, ".scales");
  const std::optional<TensorRef> weight = scan.sibling(module, ".weight");
  if (!weight || scan.info(*weight).dtype != DType::U32) return;
  const Shape& packed = scan.info(*weight).shape;
  const Shape& grid = scan.info(scales).shape;
  const DType scale_dtype = scan.info(scales).dtype;
  const bool metal = scan.config().method == "metal";
  const std::optional<TensorRef> biases = scan.sibling(module, metal ? ".qbiases" : ".biases");
  const std::string name = scan.info(*weight).name;
  Numbers numbers = declared_numbers(scan, module);
  const QuantFormat& affine = metal                                                  ? kMetal
                              : scan.config().method == "prism" || numbers.bits == 1 ? kPrism
                                                                                     : kAffine;
  auto broken = [&](std::string what) {
    scan.problem(affine.id, name, std::move(what), {weight, scales, biases});
  };
  if (packed.size() < 2 || grid.size() != packed.size() || grid.back() == 0 ||
      !std::equal(grid.begin(), grid.end() - 1, packed.begin()))
    return broken("scales " + shape_text(grid) + " do not fit the weight " + shape_text(packed));
  const auto row_bits = checked_mul(packed.back(), 32);
  if (!row_bits) return broken("its rows are too long");
  QuantMatch match;
  match.module = name;
  match.weight = *weight;
  match.role = "weight";
  match.companions.push_back({"scales", scales});
  if (biases) match.companions.push_back({"biases", *biases});
  if (biases && is_scale_float(scale_dtype)) {
    if (scan.info(*biases).shape != grid)
      return broken("its biases " + shape_text(scan.info(*biases).shape) +
                    " are not of the shape of its scales " + shape_text(grid));
    match.layout = affine.id;
    match.logical_dtype = scale_dtype;
    const bool fits = numbers.bits > 0 && numbers.group > 0 && *row_bits % numbers.bits == 0 &&
                      *row_bits / numbers.bits == grid.back() * numbers.group;
    if (!fits) {
      if (numbers.bits > 0 && numbers.group > 0)
        return broken("its shapes do not fit the " + std::to_string(numbers.bits) + " bits and groups of " +
                      std::to_string(numbers.group) + " of config.json");
      const auto solution =
          *row_bits % grid.back() == 0 ? only_solution(*row_bits / grid.back()) : std::nullopt;
      numbers = solution.value_or(Numbers());
    }
  } else if (scale_dtype == DType::U8 && !biases) {
    // Each of these modes has its own product of group and bits.
    const uint64_t product = *row_bits % grid.back() == 0 ? *row_bits / grid.back() : 0;
    if (product == 32 * 4)
      match.layout = kMlxMxfp4.id, numbers = {4, 32, {}};
    else if (product == 32 * 8)
      match.layout = kMlxMxfp8.id, numbers = {8, 32, {}};
    else if (product == 16 * 4)
      match.layout = kMlxNvfp4.id, numbers = {4, 16, {}};
    else
      return broken("scales " + shape_text(grid) + " fit no mode without biases");
  } else {
    return broken(biases ? "scales are not F16, BF16 or F32" : "biases is missing");
  }
  match.bits = static_cast<uint32_t>(numbers.bits);
  match.group_size = numbers.group;
  if (numbers.bits > 0) {
    match.logical_shape = packed;
    match.logical_shape->back() = *row_bits / numbers.bits;
  }
  scan.claim(std::move(match));
}

// Codes of a group and bits that neither header nor configuration tells are no weight.
Result<Weight> open_mlx(OpenContext& context, const QuantMatch& match) {
  const TensorRef *scales = match.find("scales"), *biases = match.find("biases");
  if (match.bits == 0 || match.group_size == 0 || !match.logical_shape)
    return weight_fault(ErrorCode::kRefusedMissing, context, match,
                        "has its bits and group_size in no config.json, and its shapes fit several");
  if (scales == nullptr) return weight_fault(ErrorCode::kRefusedMissing, context, match, "lacks its scales");
  const Shape& shape = *match.logical_shape;
  GroupedMatrix matrix;
  matrix.columns = shape.back();
  matrix.rows = matrix.columns == 0 ? 0 : element_count(shape).value_or(0) / matrix.columns;
  matrix.bits = match.bits;
  matrix.group = match.group_size;
  matrix.scale_dtype = context.checkpoint.info(*scales).dtype;
  GroupedParts parts{.codes = match.weight, .scales = *scales};
  if (is_affine(match.layout)) {
    if (biases == nullptr)
      return weight_fault(ErrorCode::kRefusedMissing, context, match, "lacks its biases");
    matrix.zero = GroupedMatrix::Zero::kAdd;
    matrix.zero_dtype = context.checkpoint.info(*biases).dtype;
    if (!is_scale_float(matrix.zero_dtype))
      return weight_fault(ErrorCode::kRefusedShape, context, match,
                          "has biases that are not F16, BF16 or F32");
    parts.zeros = *biases;
  } else {
    matrix.codes = GroupedMatrix::Codes::kTable;
    matrix.table = match.layout == kMlxMxfp8.id ? f8_values(DType::F8_E4M3) : f4_values();
    matrix.scale_dtype = match.layout == kMlxNvfp4.id ? DType::F8_E4M3 : DType::F8_E8M0;
  }
  return grouped_weight(
      context, match, matrix,
      std::string(match.layout) + " b" + std::to_string(match.bits) + " g" + std::to_string(match.group_size),
      shape, parts);
}

void detect_mlx(LayoutScan& scan) {
  for (TensorRef scales : scan.ending(".scales"))
    if (scan.is_free(scales)) detect_mlx_module(scan, scales);
}

constexpr const QuantFormat* kMlxFormats[] = {&kAffine, &kMlxMxfp4, &kMlxMxfp8, &kMlxNvfp4, &kMetal, &kPrism};

}  // namespace

constexpr QuantFamily kMlxFamily = {"MLX", kMlxFormats, detect_mlx};

}  // namespace tftf
