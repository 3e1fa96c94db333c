// GPTQ and AWQ as containers of the same codes.
#include "quant/bit_fields.h"
#include "quant/planes.h"
#include "quant/qweight.h"
#include "quant/qweight_config.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

// Codes and zero points as GPTQ and AWQ store them.
PlaneForm code_plane_of(QweightPacking packing, uint64_t outputs, uint64_t inputs, uint32_t bits) {
  switch (packing) {
    case QweightPacking::kGptq:
      return field_plane(kFieldsDownRows, inputs, outputs, bits);
    case QweightPacking::kGemm:
      return field_plane(kFieldsInAwqOrder, inputs, outputs, bits);
    case QweightPacking::kGemv:
      break;
  }
  PlaneForm form = field_plane(kFieldsAlongColumns, outputs, inputs, bits);
  form.outputs_first = true;
  return form;
}

PlaneForm zero_plane_of(QweightPacking packing, uint64_t outputs, uint64_t groups, uint32_t bits) {
  return field_plane(packing == QweightPacking::kGemm ? kFieldsInAwqOrder : kFieldsAlongColumns, groups,
                     outputs, bits);
}

Result<CodeForm> qweight_codes(OpenContext& context, const QuantMatch& match) {
  Result<QweightGeometry> geometry = qweight_geometry(context, match);
  if (!geometry) return std::move(geometry).error();
  const QweightGeometry& g = *geometry;
  CodeForm form;
  form.kind = CodeKind::kInteger;
  form.bits = g.bits;
  form.outputs = g.outputs;
  form.inputs = g.inputs;
  form.group = g.group;
  const auto add = [&](PlaneRole role, PlaneForm plane, TensorRef tensor) {
    form.planes.push_back({.role = role, .form = std::move(plane), .tensor = tensor});
  };
  add(PlaneRole::kCodes, code_plane_of(g.packing, g.outputs, g.inputs, g.bits), match.weight);
  add(PlaneRole::kScales, value_plane(g.scale, {g.groups, g.outputs}), *match.find("scales"));
  if (g.has_zeros) {
    PlaneForm zeros = zero_plane_of(g.packing, g.outputs, g.groups, g.bits);
    if (g.zero_shift == 1) {
      zeros.shift = (1u << g.bits) - 1;  // less by one
      // What wraps is read as 0 by some and as 2^bits by others.
      if (!g.zero_wraps) zeros.least = 1;
    }
    add(PlaneRole::kZeros, std::move(zeros), *match.find("qzeros"));
  }
  if (g.has_index) add(PlaneRole::kIndex, value_plane(DType::I32, {g.inputs}), *match.find("g_idx"));
  return form;
}

// Zero points that a source does not have: half of the range.
CodePlane::Words constant_zeros(const PlaneForm& form) {
  const uint32_t zero = ((1u << (form.bits - 1)) + form.shift) & ((1u << form.bits) - 1);
  uint32_t word = 0;
  for (uint32_t bit = 0; bit + form.bits <= 32; bit += form.bits) word |= zero << bit;
  return {.first = word, .repeat = UINT64_MAX, .step = 0};
}

struct QweightTarget {
  QweightPacking packing{};
  bool v1 = false;
};

Result<PackedCodes> pack_qweight(const CodeForm& from, const PackRequest& request, QweightTarget target) {
  const bool awq = target.packing == QweightPacking::kGemm;
  const uint32_t bits = from.bits;
  if (awq ? bits != 4 : bits != 2 && bits != 3 && bits != 4 && bits != 8) {
    return no_place("its codes have " + std::to_string(bits) + " bits, not " + (awq ? "4" : "2, 3, 4 or 8"));
  }
  const uint64_t fields = fields_at_once(bits), groups = ceil_div(from.inputs, from.group);
  if (from.outputs % fields != 0 || (!awq && from.inputs % fields != 0)) {
    return no_place("its shape " + shape_text({from.outputs, from.inputs}) +
                    (awq ? " has rows that are" : " has rows or columns that are") + " no multiple of " +
                    std::to_string(fields));
  }
  const CodePlane &scales = *from.find(PlaneRole::kScales), *zeros = from.find(PlaneRole::kZeros),
                  *index = from.find(PlaneRole::kIndex);
  if (scales.form.shape != Shape{groups, from.outputs})
    return no_place("its scales are " + shape_text(scales.form.shape) + ", not " +
                    shape_text({groups, from.outputs}));
  if (bits == 3 && zeros == nullptr) return no_place("it has no zero points, and its codes have 3 bits");
  PackedCodes packed;
  const QweightNames names(request.name);
  const auto add = [&](PlaneRole role, std::string name, PlaneForm form) -> CodePlane& {
    packed.planes.push_back({.role = role, .form = std::move(form), .name = std::move(name)});
    return packed.planes.back();
  };
  add(PlaneRole::kCodes, names.qweight, code_plane_of(target.packing, from.outputs, from.inputs, bits));
  add(PlaneRole::kScales, names.scales, scales.form);
  CodePlane& made =
      add(PlaneRole::kZeros, names.qzeros, zero_plane_of(target.packing, from.outputs, groups, bits));
  if (target.v1) {
    made.form.shift = (1u << bits) - 1;
    made.form.least = 1;
    packed.needs_zero = "a zero point is 0, which gptq-v1 would store as -1; gptq-v2 can hold it";
  }
  if (zeros == nullptr) made.words = constant_zeros(made.form);
  if (awq) {
    packed.needs_order = "its g_idx is not in order (act-order), and awq-gemm has none";
    if (from.inputs % from.group != 0)
      return no_place("its groups of " + std::to_string(from.group) + " do not divide its " +
                      std::to_string(from.inputs) + " columns");
    return packed;
  }
  CodePlane& order = add(PlaneRole::kIndex, names.g_idx, value_plane(DType::I32, {from.inputs}));
  if (index == nullptr) order.words = CodePlane::Words{.first = 0, .repeat = from.group, .step = 1};
  return packed;
}

Result<PackedCodes> pack_gptq_v1(const CodeForm& from, const PackRequest& request) {
  return pack_qweight(from, request, {QweightPacking::kGptq, true});
}
Result<PackedCodes> pack_gptq_v2(const CodeForm& from, const PackRequest& request) {
  return pack_qweight(from, request, {QweightPacking::kGptq, false});
}
Result<PackedCodes> pack_awq_gemm(const CodeForm& from, const PackRequest& request) {
  return pack_qweight(from, request, {QweightPacking::kGemm, false});
}

int64_t declared_group_of(const PackedModule& module) {
  return module.group == 0 ? -1 : static_cast<int64_t>(module.group);
}

std::string gptq_section(const PackedModel& model, bool v2) {
  const PackedModule& first = model.modules.front();
  GptqDescription description{first.bits, declared_group_of(first), model.symmetric, model.ordered, v2};
  for (const PackedModule& module : model.modules) {
    if (module.bits != first.bits || module.group != first.group)
      description.others.push_back({module.name, module.bits, declared_group_of(module)});
  }
  return gptq_config(description, model.plain_modules);
}
Result<std::string> packed_gptq_v1(const PackedModel& model, const JsonValue*) {
  return gptq_section(model, false);
}
Result<std::string> packed_gptq_v2(const PackedModel& model, const JsonValue*) {
  return gptq_section(model, true);
}

Result<std::string> packed_awq(const PackedModel& model, const JsonValue*) {
  const PackedModule& first = model.modules.front();
  for (const PackedModule& module : model.modules) {
    if (module.group == first.group) continue;
    return Error{.code = ErrorCode::kRefusedUnsupported,
                 .message = "Modules " + quote_name(first.name) + " and " + quote_name(module.name) +
                            " have groups of " + std::to_string(declared_group_of(first)) + " and " +
                            std::to_string(declared_group_of(module)) +
                            ", and the configuration of awq-gemm names one group size for all.",
                 .tensor = module.name};
  }
  return awq_config(declared_group_of(first), model.plain_modules);
}

}  // namespace

const CodeLayout kGptqV1Codes{CodeKind::kInteger, qweight_codes, pack_gptq_v1, packed_gptq_v1};
const CodeLayout kGptqV2Codes{CodeKind::kInteger, qweight_codes, pack_gptq_v2, packed_gptq_v2};
const CodeLayout kAwqGemmCodes{CodeKind::kInteger, qweight_codes, pack_awq_gemm, packed_awq};

}  // namespace tftf
