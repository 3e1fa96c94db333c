// Puts the codes of others into compressed-tensors, and its FP8 blocks into theirs.
#include "quant/ct/repacked.h"

#include <algorithm>
#include <map>

#include "quant/bit_fields.h"
#include "quant/ct/layout.h"
#include "quant/ct/written_scheme.h"
#include "quant/layout_scan.h"
#include "quant/planes.h"
#include "tftf/base/affix.h"
#include "tftf/base/escape.h"

namespace tftf::ct {
namespace {

std::string module_of_weight(const std::string& weight) {
  return ends_with(weight, ".weight") ? weight.substr(0, weight.size() - 7) : weight;
}

std::string little_endian(std::initializer_list<uint64_t> numbers) {
  std::string bytes;
  for (const uint64_t number : numbers)
    for (uint32_t i = 0; i < 8; ++i) bytes += static_cast<char>(number >> 8 * i);
  return bytes;
}

const JsonValue* quantization_of(const JsonValue* config) {
  const JsonValue* section = config == nullptr ? nullptr : config->get("quantization_config");
  return section != nullptr && section->is_object() ? section : nullptr;
}

// A module that AutoAWQ's configuration says was left alone.
std::string awq_exclusion(const PackRequest& request) {
  const JsonValue* section = quantization_of(request.config);
  const JsonValue* list = section == nullptr ? nullptr : section->get("modules_to_not_convert");
  if (list == nullptr || !list->is_array() || section->string("quant_method") != "awq") return "";
  for (const JsonValue& one : list->elements)
    if (one.is_string() && request.name.find(one.text) != std::string::npos) return one.text;
  return "";
}

Result<PackedCodes> pack_integers(const CodeForm& from, const PackRequest& request) {
  const uint32_t bits = from.bits;
  const uint64_t fields = fields_at_once(bits);
  if (std::string entry = awq_exclusion(request); !entry.empty())
    return no_place("modules_to_not_convert of config.json has " + quote_name(entry) +
                    ", which excludes it, and it is quantised all the same");
  if (from.inputs % from.group != 0)
    return no_place("its groups of " + std::to_string(from.group) + " do not divide its " +
                    std::to_string(from.inputs) + " columns");
  if (from.outputs % fields != 0 || from.inputs % fields != 0)
    return no_place("its shape " + shape_text({from.outputs, from.inputs}) +
                    " has rows or columns that are no multiple of " + std::to_string(fields));
  const uint64_t groups = from.inputs / from.group;
  const CodePlane &scales = *from.find(PlaneRole::kScales), *zeros = from.find(PlaneRole::kZeros),
                  *index = from.find(PlaneRole::kIndex);
  if (scales.form.shape != Shape{groups, from.outputs})
    return no_place("its scales are " + shape_text(scales.form.shape) + ", not " +
                    shape_text({groups, from.outputs}));
  if (!is_scale_float(scales.form.dtype))
    return no_place("its scales are " + std::string(dtype_name(scales.form.dtype)) +
                    ", not F16, BF16 or F32");
  const std::string module = module_of_weight(request.name);
  PackedCodes packed;
  const auto add = [&](PlaneRole role, const char* name, PlaneForm form) -> CodePlane& {
    packed.planes.push_back({.role = role, .form = std::move(form), .name = module + "." + name});
    return packed.planes.back();
  };
  PlaneForm codes = field_plane(kFieldsAlongColumns, from.outputs, from.inputs, bits);
  codes.outputs_first = true;
  add(PlaneRole::kCodes, "weight_packed", std::move(codes));
  PlaneForm turned = value_plane(scales.form.dtype, {from.outputs, groups});
  turned.outputs_first = true;
  add(PlaneRole::kScales, "weight_scale", std::move(turned));
  add(PlaneRole::kShape, "weight_shape", value_plane(DType::I64, {2})).text =
      little_endian({from.outputs, from.inputs});
  const JsonValue* section = quantization_of(request.config);
  const JsonValue* sym = section == nullptr ? nullptr : section->get("sym");
  if (zeros != nullptr && sym != nullptr && sym->is_true() && section->string("quant_method") == "gptq") {
    packed.only_zero = 1u << (bits - 1);
    packed.needs_zero = "config.json says sym, and a zero point is not half of the range";
  } else if (zeros != nullptr) {
    PlaneForm form = field_plane(kFieldsDownRows, from.outputs, groups, bits);
    form.outputs_first = true;
    add(PlaneRole::kZeros, "weight_zero_point", std::move(form));
  }
  if (index != nullptr && request.ordered)
    add(PlaneRole::kIndex, "weight_g_idx", value_plane(DType::I32, {from.inputs}));
  packed.needs_order = "its g_idx is not in order (act-order)";
  return packed;
}

Result<CodeForm> block_codes(OpenContext& context, const QuantMatch& match) {
  if (!match.detail) return no_place("its shape could not be read");
  const auto& layout = *static_cast<const Layout*>(match.detail.get());
  const bool blocks = layout.sparse == Sparse::kNo && layout.code_dtype == DType::F8_E4M3 &&
                      layout.matrices == 1 && layout.zeros == Zeros::kNone && match.block[0] != 0;
  if (!blocks) return no_place("it has no scales by blocks");
  const TensorRef scale = *match.find("weight_scale");
  const TensorInfo &codes = context.checkpoint.info(match.weight), &scales = context.checkpoint.info(scale);
  CodeForm form;
  form.kind = CodeKind::kFp8;
  form.bits = 8;
  form.outputs = layout.rows;
  form.inputs = layout.columns;
  form.block[0] = match.block[0];
  form.block[1] = match.block[1];
  form.planes = {
      {.role = PlaneRole::kCodes, .form = value_plane(codes.dtype, codes.shape), .tensor = match.weight},
      {.role = PlaneRole::kScales, .form = value_plane(scales.dtype, scales.shape), .tensor = scale}};
  return form;
}

Result<PackedCodes> pack_blocks(const CodeForm& from, const PackRequest& request) {
  const CodePlane &codes = *from.find(PlaneRole::kCodes), &scales = *from.find(PlaneRole::kScales);
  if (codes.form.packing != nullptr || codes.form.dtype != DType::F8_E4M3)
    return no_place("its codes are " + std::string(dtype_name(codes.form.dtype)) +
                    " in another order, not F8_E4M3");
  if (from.block[0] == 0 || from.block[1] == 0) return no_place("it has no scales by blocks");
  const Shape grid{ceil_div(from.outputs, from.block[0]), ceil_div(from.inputs, from.block[1])};
  if (scales.form.packing != nullptr || !is_scale_float(scales.form.dtype) || scales.form.shape != grid)
    return no_place("its scales are " + std::string(dtype_name(scales.form.dtype)) + " " +
                    shape_text(scales.form.shape) + ", not F16, BF16 or F32 " + shape_text(grid));
  PackedCodes packed;
  packed.planes = {{.role = PlaneRole::kCodes, .form = codes.form, .name = request.name},
                   {.role = PlaneRole::kScales,
                    .form = scales.form,
                    .name = module_of_weight(request.name) + ".weight_scale"}};
  return packed;
}

Result<PackedCodes> pack_fp4(const CodeForm& from, const PackRequest& request) {
  const CodePlane &codes = *from.find(PlaneRole::kCodes), &scales = *from.find(PlaneRole::kScales);
  const CodePlane *global = from.find(PlaneRole::kGlobal), *inputs = from.find(PlaneRole::kActivations);
  if (from.find(PlaneRole::kPreScale) != nullptr)
    return no_place("it has a factor for each column (pre_quant_scale), which NVFP4 here has no place for");
  if (codes.form.dtype != DType::U8 || codes.form.shape != Shape{from.outputs, from.inputs / 2})
    return no_place("its codes are " + std::string(dtype_name(codes.form.dtype)) + " " +
                    shape_text(codes.form.shape));
  if (scales.form.dtype != DType::F8_E4M3 || scales.form.shape != Shape{from.outputs, from.inputs / 16})
    return no_place("its scales are " + std::string(dtype_name(scales.form.dtype)) + " " +
                    shape_text(scales.form.shape) + ", not F8_E4M3 " +
                    shape_text({from.outputs, from.inputs / 16}));
  if (global == nullptr || global->form.dtype != DType::F32) return no_place("it has no global scale of F32");
  const std::string module = module_of_weight(request.name);
  PackedCodes packed;
  packed.planes = {
      {.role = PlaneRole::kCodes, .form = codes.form, .name = module + ".weight_packed"},
      {.role = PlaneRole::kScales, .form = scales.form, .name = module + ".weight_scale"},
      {.role = PlaneRole::kGlobal, .form = global->form, .name = module + ".weight_global_scale"}};
  packed.planes.back().reciprocal = true;
  if (inputs == nullptr) return packed;
  if (inputs->form.dtype != DType::F32) return no_place("its input_scale is no F32");
  packed.planes.push_back(
      {.role = PlaneRole::kActivations, .form = inputs->form, .name = module + ".input_global_scale"});
  packed.planes.back().reciprocal = true;
  return packed;
}

// The scheme that a repacked module has.
Group group_of(const PackedModule& module) {
  Group group;
  Args weights;
  if (module.kind == CodeKind::kInteger) {
    weights.bits = module.bits;
    weights.symmetric = !module.zeros;
    weights.strategy = module.group == 0 ? Strategy::kChannel : Strategy::kGroup;
    weights.group_size = module.group == 0 ? -1 : static_cast<int64_t>(module.group);
    weights.group_given = module.group != 0;
    if (module.ordered) {
      weights.actorder = ActOrder::kGroup;
      weights.actorder_word = "group";
    }
    weights.zp_dtype = storage_dtype(weights);
    weights.observer = "memoryless_minmax";
    group.weights = weights;
    group.format = "pack-quantized";
  } else {
    const std::optional<Group> preset = find_preset(module.kind == CodeKind::kFp8 ? "FP8_BLOCK"
                                                    : module.inputs               ? "NVFP4"
                                                                                  : "NVFP4A16");
    group = *preset;
    if (module.kind == CodeKind::kFp8) std::copy_n(module.block, 2, group.weights->block);
  }
  group.format_given = true;
  return group;
}

Result<std::string> describe_repacked(const PackedModel& model, const JsonValue*) {
  Config config;
  config.status = "compressed";
  std::map<std::string, size_t> groups;  // by what they say
  for (const PackedModule& module : model.modules) {
    Group group = group_of(module);
    const std::string key = args_text(*group.weights) + group.format + (module.ordered ? " ordered" : "") +
                            (group.inputs ? " inputs" : "");
    const auto [at, fresh] = groups.emplace(key, config.groups.size());
    if (fresh) {
      group.name = "config_group_" + std::to_string(config.groups.size());
      config.groups.push_back(std::move(group));
    }
    config.groups[at->second].targets.push_back(module_of_weight(module.name));
  }
  config.format = config.groups.front().format;
  for (const Group& group : config.groups)
    if (group.format != config.format) config.format = "mixed-precision";
  if (config.groups.size() == 1) config.groups.front().targets = {"Linear"};
  for (const std::string& module : model.plain_modules)
    if (guessed_class(module) == "Linear") config.ignore.push_back(module);
  OrderedJson out = config_json(config);
  out["version"] = std::string(kNewestVersion);
  return out.dump(2);
}

}  // namespace

const CodeLayout kPackCodes{
    .kind = CodeKind::kInteger, .pack = pack_integers, .config = describe_repacked, .refuses_extras = true};
const CodeLayout kBlockCodes{.kind = CodeKind::kFp8,
                             .codes = block_codes,
                             .pack = pack_blocks,
                             .config = describe_repacked,
                             .refuses_extras = true};
const CodeLayout kNvfp4Codes{
    .kind = CodeKind::kFp4, .pack = pack_fp4, .config = describe_repacked, .refuses_extras = true};

}  // namespace tftf::ct
