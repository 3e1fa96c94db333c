// Fits the tensors of a module to the format that their names announce, and to what the configuration says of it.
#include "quant/ct/module.h"

#include <algorithm>

#include "quant/layout_scan.h"
#include "tftf/base/checked.h"
#include "tftf/simd/cast.h"

namespace tftf::ct {
namespace {

constexpr uint64_t kDensePacking = 18'000;  // of version_number()

// Scales of F16, BF16 or F32 with what else the module has.
Fault fit(const FitContext& from, Module& module) {
  Layout& layout = module.layout;
  const TensorInfo& scale = *from.part(module, "weight_scale");
  if (!is_scale_float(scale.dtype))
    return Fault(Rule::QT028,
                 "weight_scale is " + std::string(dtype_name(scale.dtype)) + ", expected F16, BF16 or F32");
  layout.scale_dtype = layout.arithmetic = layout.result = module.match.logical_dtype = scale.dtype;
  bool agrees = true;
  Fault fault = fit_scales(layout, scale.shape, module.args, agrees);
  // Another group of the configuration may be meant.
  for (const Args* other : module.candidates) {
    if (fault.empty() && agrees) break;
    if (other == module.args || other->is_float != is_fp8(layout.code_dtype)) continue;
    if (layout.codes == Codes::kWords && other->bits != layout.bits) continue;
    Layout trial = layout;
    bool fits = true;
    if (!fit_scales(trial, scale.shape, other, fits).empty() || !fits) continue;
    layout = trial;
    module.args = other;
    fault = {};
    agrees = true;
  }
  if (!fault.empty()) return fault;
  if (const TensorInfo* zeros = from.part(module, "weight_zero_point")) {
    fault = fit_zeros(layout, *zeros, from.version);
  } else if (module.args != nullptr && !module.args->symmetric) {
    fault = {Rule::QT027, "the configuration says asymmetric, and weight_zero_point is missing"};
  }
  if (!fault.empty()) return fault;
  if (const TensorInfo* order = from.part(module, "weight_g_idx")) fault = fit_order(layout, *order);
  module.agrees = agrees;
  return fault;
}

// Bits and packing of the words of a row.
Fault fit_words(const FitContext& from, Module& module, uint64_t words) {
  Layout& layout = module.layout;
  const auto fits = [&](uint64_t bits) {
    return bits >= 1 && bits <= 8 &&
           (words == packed_words(layout.columns, bits, false) ||
            words == packed_words(layout.columns, bits, true));
  };
  layout.bits = 0;
  for (const Args* args : module.candidates) {
    if (args->is_float || !fits(args->bits)) continue;
    module.args = args;
    layout.bits = static_cast<uint32_t>(args->bits);
    break;
  }
  if (layout.bits == 0 && fits(4) != fits(8)) layout.bits = fits(4) ? 4 : 8;
  if (layout.bits == 0 && !fits(4)) {
    for (uint32_t bits = 1; bits <= 8; ++bits) {
      if (!fits(bits)) continue;
      if (layout.bits != 0) {
        layout.bits = 0;
        break;
      }
      layout.bits = bits;
    }
  }
  const std::string have =
      std::to_string(words) + " words for " + std::to_string(layout.columns) + " columns";
  if (layout.bits == 0) {
    if (module.candidates.empty())
      return Fault(Rule::QT043, "weight_packed has " + have + ", which does not tell the number of bits");
    const uint64_t bits = module.candidates.front()->bits;
    if (bits < 1 || bits > 8)
      return "the configuration says " + std::to_string(bits) + " bits, expected 1 to 8";
    return Fault(Rule::QT043, "weight_packed has " + have + ", expected " +
                                  std::to_string(packed_words(layout.columns, bits, false)) + " for " +
                                  std::to_string(bits) + " bits");
  }
  const bool dense = words == packed_words(layout.columns, layout.bits, false);
  const bool padded = words == packed_words(layout.columns, layout.bits, true);
  layout.padded = padded;
  if (!dense || !padded || 32 % layout.bits == 0) return "";
  if (!from.version)
    return Fault(Rule::QT047, "weight_packed has " + have + ", which " + std::to_string(layout.bits) +
                                  " bits fill in two ways, and the configuration has no version that would "
                                  "tell which");
  layout.padded = *from.version < kDensePacking;
  return "";
}

}  // namespace

// The shape from the configuration, when it and the packed tensor agree: one read less per module of models with tens of
// thousands of them.
std::optional<Shape> computed_shape(const FitContext& from, const Module& module) {
  const Shape& packed = from.info(module.match.weight).shape;
  const Shape& scale = from.part(module, "weight_scale")->shape;
  if (module.candidates.empty() || packed.size() != 2 || scale.size() != 2 || scale[1] < 2)
    return std::nullopt;
  const Args& args = *module.candidates.front();
  if (!args.grouped() || args.is_float || args.bits == 0 || args.bits > 8 || 32 % args.bits != 0)
    return std::nullopt;
  const auto columns = checked_mul(scale[1], static_cast<uint64_t>(args.group_size));
  if (!columns || *columns > UINT64_MAX / 8 || packed_words(*columns, args.bits, false) != packed[1])
    return std::nullopt;
  return Shape{packed[0], *columns};
}

Fault fit_packed(const FitContext& from, Module& module) {
  const Shape &stored = from.info(module.match.weight).shape, &shape = *module.match.logical_shape;
  const bool same = stored.size() == shape.size() && stored.size() >= 2 &&
                    std::equal(stored.begin(), stored.end() - 1, shape.begin());
  if (!same || !set_shape(module.layout, shape))
    return Fault(Rule::QT041,
                 "weight_packed is " + shape_text(stored) + ", and weight_shape says " + shape_text(shape));
  module.layout.codes = Codes::kWords;
  if (Fault fault = fit_words(from, module, stored.back()); !fault.empty()) return fault;
  module.layout.code_bytes = stored.back() * 4;
  return fit(from, module);
}

// Groups of 16 or 32 under scales of a byte.
Fault fit_small_groups(const FitContext& from, Module& module, uint64_t group) {
  Layout& layout = module.layout;
  const TensorInfo& scale = *from.part(module, "weight_scale");
  if (layout.columns % group != 0)
    return Fault(group == 16 ? Rule::QT053 : Rule::QT062, std::to_string(layout.columns) +
                                                              " columns are no multiple of the group size " +
                                                              std::to_string(group));
  Shape expected = *module.match.logical_shape;
  expected.back() /= group;
  if (scale.shape != expected) {
    const size_t rows = expected.size() - 2;
    Shape swizzled = expected;
    swizzled[rows] = ceil_div(expected[rows], 128) * 128;
    swizzled.back() = ceil_div(expected.back(), 4) * 4;
    const bool padded = scale.shape == swizzled;
    const bool turned = Shape(scale.shape.rbegin(), scale.shape.rend()) == expected;
    return Fault(group == 32 ? Rule::QT061
                 : padded    ? Rule::QT059
                 : turned    ? Rule::QT031
                             : Rule::QT051,
                 "weight_scale is " + shape_text(scale.shape) + ", expected " + shape_text(expected) +
                     (padded   ? ": it is padded, and may be swizzled for a kernel"
                      : turned ? ": it is transposed"
                               : ""));
  }
  layout.scaled = true;
  layout.scale_dtype = scale.dtype == DType::F8_E4M3 ? DType::F8_E4M3 : DType::U8;
  layout.result = DType::BF16;
  layout.arithmetic = layout.scale_dtype == DType::F8_E4M3 ? DType::F32 : DType::BF16;
  module.match.logical_dtype = DType::BF16;
  layout.scale_columns = group;
  layout.grid_rows = layout.rows;
  layout.grid_columns = layout.columns / group;
  if (const TensorInfo* global = from.part(module, "weight_global_scale")) {
    const auto count = element_count(global->shape);
    if (global->dtype != DType::F32 || (count != 1 && count != layout.matrices))
      return Fault(Rule::QT052, "weight_global_scale is " + std::string(dtype_name(global->dtype)) + " " +
                                    shape_text(global->shape) + ", expected F32 [1]");
    layout.global = true;
    if (count == 1) {
      layout.rows *= layout.matrices;
      layout.grid_rows = layout.rows;
      layout.matrices = 1;
    }
  }
  if (const TensorInfo* zeros = from.part(module, "weight_zero_point"))
    if (Fault fault = fit_zeros(layout, *zeros, from.version); !fault.empty()) return fault;
  if (from.part(module, "weight_g_idx") != nullptr) return "weight_g_idx is there, which this format has not";
  for (const Args* args : module.candidates)
    if (module.args == nullptr && args->is_float && args->bits == layout.bits && args->grouped() &&
        static_cast<uint64_t>(args->group_size) == group)
      module.args = args;
  return "";
}

Fault fit_sparse(const FitContext& from, Module& module) {
  Layout& layout = module.layout;
  const TensorInfo &codes = from.info(module.match.weight), &mask = *from.part(module, "bitmask");
  if (!set_shape(layout, *module.match.logical_shape))
    return Fault(Rule::QT071,
                 "shape says " + shape_text(*module.match.logical_shape) + ", which is no weight");
  if (!can_cast(codes.dtype, DType::F32) || dtype_bits(codes.dtype) % 8 != 0)
    return "compressed is " + std::string(dtype_name(codes.dtype)) + ", which is not read";
  layout.code_dtype = codes.dtype;
  layout.bits = dtype_bits(codes.dtype);
  // Masks and rows are counted over all matrices.
  layout.rows *= layout.matrices;
  layout.matrices = 1;
  layout.stored = element_count(codes.shape).value_or(0);
  const uint64_t elements = layout.rows * layout.columns;
  const auto mask_bytes = checked_mul(layout.rows, ceil_div(layout.columns, 8));
  if (!mask_bytes || element_count(mask.shape) != mask_bytes)
    return Fault(Rule::QT071, "bitmask is " + shape_text(mask.shape) + ", expected " +
                                  shape_text({layout.rows, ceil_div(layout.columns, 8)}));
  if (const TensorInfo* offsets = from.part(module, "row_offsets")) {
    layout.sparse = Sparse::kBitmask;
    if (offsets->dtype != DType::I64 || element_count(offsets->shape) != layout.rows)
      return Fault(Rule::QT072, "row_offsets is " + std::string(dtype_name(offsets->dtype)) + " " +
                                    shape_text(offsets->shape) + ", expected I64 " +
                                    shape_text({layout.rows}));
    if (layout.stored > elements)
      return Fault(Rule::QT073, "compressed has " + std::to_string(layout.stored) + " elements, more than " +
                                    shape_text({layout.rows, layout.columns}) + " has");
  } else {
    layout.sparse = Sparse::kTwoOfFour;
    if (elements % 4 != 0 || layout.columns % 2 != 0 || layout.stored != elements / 2)
      return Fault(Rule::QT073, "compressed is " + shape_text(codes.shape) + ", expected " +
                                    shape_text({layout.rows, layout.columns / 2}) + ": two of four elements");
  }
  if (from.part(module, "weight_scale") == nullptr || is_scale_float(codes.dtype)) return "";
  for (const Args* args : module.candidates)
    if (module.args == nullptr && args->is_float == is_fp8(codes.dtype)) module.args = args;
  return fit(from, module);
}

Fault fit_elements(const FitContext& from, Module& module, bool dense, bool small_groups) {
  Layout& layout = module.layout;
  const TensorInfo& codes = from.info(module.match.weight);
  if (!set_shape(layout, codes.shape)) return "weight is " + shape_text(codes.shape) + ", which is no matrix";
  layout.code_dtype = codes.dtype;
  layout.bits = dtype_bits(codes.dtype);
  layout.code_bytes = layout.columns * layout.bits / 8;
  if (dense) return "";
  if (codes.shape.size() < 2) return "weight is " + shape_text(codes.shape) + ", which is no matrix";
  if (small_groups) return fit_small_groups(from, module, 32);
  for (const Args* args : module.candidates)
    if (module.args == nullptr && args->is_float == is_fp8(codes.dtype)) module.args = args;
  return fit(from, module);
}

}  // namespace tftf::ct
