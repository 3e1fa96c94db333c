// Stamps, and tensors that have lost their other half.
#include <algorithm>

#include "lint/colibri/rules.h"
#include "tftf/base/escape.h"
#include "tftf/quant/colibri/rans_check.h"

namespace tftf {
namespace {

// From here on a further pass may not fit: 90 % of the cap.
constexpr uint64_t kStampBudget = (colibri::kStampCap * 9 + 9) / 10;

void report_stamp_refusal(FileFindings& findings, const colibri::StampRefusal& refusal) {
  using colibri::StampFault;
  Rule rule = Rule::CO008;
  if (refusal.fault == StampFault::kConflict) rule = Rule::CO009;
  if (refusal.fault == StampFault::kCap) rule = Rule::CO010;
  if (refusal.fault == StampFault::kDuplicateTensor) rule = Rule::CO011;
  Diagnostic* finding = findings.of(refusal.file).add(rule);
  if (!finding) return;
  if (!refusal.tensor.empty()) finding->subject = refusal.tensor;
  if (rule == Rule::CO011) {
    finding->values = {{"tensor", refusal.tensor}, {"other", refusal.detail}};
    return;
  }
  // The detail begins with the file, and so does the rule's message.
  std::string detail = refusal.detail;
  const std::string before = escape_text(refusal.file) + ": ";
  if (detail.compare(0, before.size(), before) == 0) detail.erase(0, before.size());
  if (rule == Rule::CO008 && !detail.empty() && detail.back() == '.') detail.pop_back();
  finding->values = {{"detail", std::move(detail)},
                     {"class", std::string(colibri::stamp_fault_class(refusal.fault))},
                     {"cap", colibri::kStampCap}};
}

void check_each_stamp(FileFindings& findings, const ColibriInput& input) {
  const ColibriContainer& container = *input.container;
  for (const auto& entry : container.stamps) {
    const TreeFile* file = entry.first;
    const std::string& name = entry.second.first;
    const std::string& format = entry.second.second;
    const bool rans = format == colibri::kRansStamp;  // judged as CO025
    const bool stored = container.find(name).has_value();
    const bool scaled = container.find(name + std::string(kColibriScales)).has_value();
    const auto add = [&findings, &at = *file, &name = name, &format = format](Rule rule, const char* detail) {
      Diagnostic* finding = findings.of(std::string(at.path)).add(rule);
      if (!finding) return;
      finding->subject = name;
      finding->values = {{"tensor", name}, {"stamp", quote_name(format)}};
      if (*detail != 0) finding->values.emplace_back("detail", std::string(detail));
    };
    if (!stored) {
      if (!rans && input.complete) add(Rule::CO014, "");
    } else if (!scaled) {
      add(Rule::CO015, "the tensor has no .qs");
    } else if (!rans && colibri::is_routed_expert(name)) {
      add(Rule::CO015, "routed experts are read by their sizes alone");
    }
  }
}

void check_budget(FileFindings& findings, const ColibriInput& input) {
  std::vector<std::string_view> names;
  for (const auto& [file, stamp] : input.container->stamps) names.push_back(stamp.first);
  std::sort(names.begin(), names.end());
  const auto count = static_cast<uint64_t>(std::unique(names.begin(), names.end()) - names.begin());
  if (count < kStampBudget || count > colibri::kStampCap) return;
  if (Diagnostic* finding = findings.of(input.place).add(Rule::CO110))
    finding->values = {{"count", count}, {"cap", colibri::kStampCap}};
}

void check_lone_tensors(FileFindings& findings, const ColibriInput& input) {
  const ColibriContainer& container = *input.container;
  const auto add = [&](const ColibriTensor& tensor, Rule rule, const char* key, std::string value) {
    Diagnostic* finding = findings.of(std::string(tensor.file->path)).add(rule);
    if (!finding) return;
    finding->subject = tensor.info().name;
    finding->values = {{"tensor", tensor.info().name}, {key, std::move(value)}};
  };
  for (const ColibriTensor& tensor : container.lone_f8)
    add(tensor, Rule::CO027, "dtype", std::string(dtype_name(tensor.info().dtype)));
  if (!input.complete) return;
  for (const ColibriTensor& tensor : container.lone_scales) add(tensor, Rule::CO018, "lacks", "weight");
  for (const ColibriTensor& tensor : container.lone_weights) add(tensor, Rule::CO018, "lacks", ".qs");
}

void check_unknown_shapes(FileFindings& findings, const ColibriInput& input) {
  uint64_t count = 0;
  const std::string* first = nullptr;
  for (const ColibriPair& pair : input.container->pairs) {
    if (pair.shape) continue;
    ++count;
    const std::string& name = pair.weight.info().name;
    if (!first || name < *first) first = &name;
  }
  if (count == 0) return;
  if (Diagnostic* finding = findings.of(input.place).add(Rule::CO020))
    finding->values = {{"count", count}, {"tensor", *first}};
}

}  // namespace

void check_colibri_stamps(FileFindings& findings, const ColibriInput& input) {
  for (const colibri::StampRefusal& refusal : input.container->refusals)
    report_stamp_refusal(findings, refusal);
  check_each_stamp(findings, input);
  check_budget(findings, input);
  check_lone_tensors(findings, input);
  check_unknown_shapes(findings, input);
}

}  // namespace tftf
