// The declared method against the modules that are stored, and modules whose scales are lost or left over.
#include <algorithm>
#include <initializer_list>

#include "lint/layout/quant_rules.h"
#include "tftf/base/affix.h"

namespace tftf {
namespace {

constexpr std::string_view kWeightEnd = ".weight";

bool is_integer(DType dtype) {
  const DTypeClass kind = dtype_info(dtype).kind;
  return kind == DTypeClass::kSigned || kind == DTypeClass::kUnsigned;
}

bool has_any(const QuantFacts& facts, std::string_view path,
             std::initializer_list<std::string_view> suffixes) {
  return std::any_of(suffixes.begin(), suffixes.end(),
                     [&](std::string_view suffix) { return facts.find(path, suffix).has_value(); });
}

// QT340.
void check_method(FileFindings& out, const QuantFacts& facts) {
  const std::vector<QuantModule>& modules = facts.modules.all;
  if (!facts.known_method() || modules.empty()) return;
  if (std::any_of(modules.begin(), modules.end(),
                  [&](const QuantModule& module) { return method_stores(facts.method, module.kind); }))
    return;
  const QuantModule& first = modules.front();
  if (Diagnostic* finding =
          add_quant_finding(out, facts, Rule::QT340, std::string(first.name), facts.quant.section))
    finding->values = {{"method", facts.method},
                       {"module", std::string(first.name)},
                       {"kind", std::string(module_kind_name(first.kind))}};
}

// QT341.
void check_leftover(FileFindings& out, const QuantFacts& facts) {
  if (!facts.known_method() || !facts.modules.all.empty() || stores_plain_weights(facts.method, facts.quant))
    return;
  uint64_t count = 0;
  std::string_view first;
  for (const TensorRef ref : facts.checkpoint->order) {
    const TensorInfo& tensor = facts.info(ref);
    const SplitName name = split_name(tensor.name);
    if (facts.method == "bitnet" && name.last == "weight_scale") return;
    if (name.last != "weight" || tensor.shape.size() < 2) continue;
    if (is_integer(tensor.dtype) || is_fp8(tensor.dtype)) return;
    if (!is_plain_dtype(tensor.dtype) || tensor.shape.size() != 2 || !is_projection(name.path)) continue;
    if (count++ == 0 || tensor.name < first) first = tensor.name;
  }
  if (count == 0) return;
  if (Diagnostic* finding =
          add_quant_finding(out, facts, Rule::QT341, std::string(first), facts.quant.section))
    finding->values = {{"method", facts.method}, {"count", count}};
}

// QT342.
void check_undeclared(FileFindings& out, const QuantFacts& facts) {
  if (facts.declared || facts.mlx) return;
  constexpr ModuleKind kTelling[] = {ModuleKind::kPackedInt,   ModuleKind::kBnb,      ModuleKind::kFp8Inv,
                                     ModuleKind::kFp8Scale,    ModuleKind::kMxfp8,    ModuleKind::kNvfp4,
                                     ModuleKind::kMxfp4Blocks, ModuleKind::kCtPacked, ModuleKind::kMlx};
  const QuantModule* first = nullptr;
  uint64_t count = 0;
  for (const QuantModule& module : facts.modules.all) {
    if (std::find(std::begin(kTelling), std::end(kTelling), module.kind) == std::end(kTelling)) continue;
    if (count++ == 0) first = &module;
  }
  if (!first) return;
  if (Diagnostic* finding = add_quant_finding(out, facts, Rule::QT342, std::string(first->name)))
    finding->values = {{"count", count},
                       {"kind", std::string(module_kind_name(first->kind))},
                       {"module", std::string(first->name)}};
}

// QT343: the codes are there, the scale is not.
bool lacks_scale(const QuantFacts& facts, const TensorInfo& tensor, const SplitName& name) {
  if (tensor.shape.size() < 2) return false;
  if (name.last == "weight" && !name.path.empty()) {
    if (is_fp8(tensor.dtype))
      return !has_any(facts, name.path,
                      {".weight_scale_inv", ".weight_scale", ".scale", ".weight_scale_2", ".scale_weight",
                       ".weight_quantizer.scale"});
    return tensor.dtype == DType::U8 && has_any(facts, name.path, {".weight_scale_2"}) &&
           !has_any(facts, name.path, {".weight_scale"});
  }
  return is_stack_name(name.last) && is_fp8(tensor.dtype) &&
         !has_any(facts, tensor.name, {"_scale_inv", "_scale", "_weight_scale"});
}

void report_module(FileFindings& out, const QuantFacts& facts, Rule rule, TensorRef ref,
                   std::string_view module) {
  Diagnostic* finding = out.of(facts.file_of(ref)).add(rule);
  if (!finding) return;
  finding->subject = std::string(module);
  finding->values = {{"module", std::string(module)}};
  if (rule == Rule::QT344) {
    finding->values.emplace_back("dtype", std::string(dtype_name(facts.info(ref).dtype)));
  }
}

// QT343 and QT344.
void check_scales(FileFindings& out, const QuantFacts& facts) {
  const bool stale = facts.is_method({"fp8", "fbgemm-fp8", "mxfp8", "modelopt", "quark"});
  if (!stale && !facts.is_method({"auto-round"})) return;
  for (const TensorRef ref : facts.checkpoint->order) {
    const TensorInfo& tensor = facts.info(ref);
    const SplitName name = split_name(tensor.name);
    if (lacks_scale(facts, tensor, name)) {
      report_module(out, facts, Rule::QT343, ref, name.last == "weight" ? name.path : tensor.name);
    } else if (stale && name.last == "weight" && !name.path.empty() && tensor.shape.size() >= 2 &&
               is_plain_dtype(tensor.dtype) &&
               has_any(facts, name.path, {".weight_scale_inv", ".weight_scale", ".weight_scale_2"})) {
      report_module(out, facts, Rule::QT344, ref, name.path);
    }
  }
}

// QT346.
void check_orphans(FileFindings& out, const QuantFacts& facts) {
  for (const TensorRef ref : facts.checkpoint->order) {
    const std::string& tensor = facts.info(ref).name;
    const SplitName name = split_name(tensor);
    bool orphan = false;
    constexpr std::string_view kInverse = "_scale_inv";
    if ((name.last == "weight_scale_inv" || name.last == "weight_scale_2") && !name.path.empty()) {
      orphan = !has_any(facts, name.path, {".weight", ".weight_packed", ".qweight", ""});
    } else if (ends_with(name.last, kInverse)) {
      const std::string_view stack = std::string_view(tensor).substr(0, tensor.size() - kInverse.size());
      orphan = is_stack_name(split_name(stack).last) && !has_any(facts, stack, {"", kWeightEnd});
    }
    if (!orphan) continue;
    Diagnostic* finding = out.of(facts.file_of(ref)).add(Rule::QT346);
    if (!finding) continue;
    finding->subject = tensor;
    finding->values = {{"tensor", tensor}};
  }
}

}  // namespace

void check_quant_modules(FileFindings& out, const QuantFacts& facts) {
  if (!facts.judged() || !facts.complete) return;
  check_method(out, facts);
  check_leftover(out, facts);
  check_undeclared(out, facts);
  check_scales(out, facts);
  check_orphans(out, facts);
}

}  // namespace tftf
