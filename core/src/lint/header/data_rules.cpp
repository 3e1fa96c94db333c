// The rules that need values (spec lint-rules 3.9, CF031, LO007, LO014).
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>

#include "container/finding_list.h"
#include "lint/adapter/lora_names.h"
#include "tftf/adapter/families.h"
#include "tftf/lint/config_rules.h"
#include "tftf/lint/linter.h"

namespace tftf {
namespace {

// A tensor with what was found in it.
struct Seen {
  const TensorInfo* tensor = nullptr;
  const TensorStatistics* statistics = nullptr;
  uint64_t elements = 0;
};

// Parts of names of tensors that may well be zero throughout.
constexpr std::string_view kZeroNames[] = {"bias",     "lora_B",     "lora_up", "lora_embedding_A",
                                           "running_", "zero_point", "zeros",   "offset"};

bool may_be_zero(std::string_view name) {
  return std::any_of(std::begin(kZeroNames), std::end(kZeroNames),
                     [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

bool has_nan(DType dtype) {
  const DTypeClass kind = dtype_info(dtype).kind;
  return (kind == DTypeClass::kFloat && dtype_bits(dtype) >= 8) || kind == DTypeClass::kComplex;
}

Diagnostic* report(FindingList& list, Rule rule, const Seen& seen) {
  Diagnostic* finding = list.add(rule);
  if (!finding) return nullptr;
  finding->subject = seen.tensor->name;
  finding->values = {{"tensor", seen.tensor->name}};
  return finding;
}

void report_count(FindingList& list, Rule rule, const Seen& seen, uint64_t count, uint64_t first) {
  if (Diagnostic* finding = report(list, rule, seen)) {
    finding->values.emplace_back("count", count);
    finding->values.emplace_back("elements", seen.elements);
    finding->values.emplace_back("index", first);
  }
}

void check_values(FindingList& list, const Seen& seen) {
  const TensorStatistics& found = *seen.statistics;
  const DType dtype = seen.tensor->dtype;
  const size_t rank = seen.tensor->shape.size();
  if (has_nan(dtype) && found.nan_count)
    report_count(list, Rule::ST080, seen, found.nan_count, found.first_nan);
  if (has_nan(dtype) && found.infinity_count)
    report_count(list, Rule::ST081, seen, found.infinity_count, found.first_infinity);
  if (rank >= 2 && seen.elements >= 2 && dtype != DType::BOOL && found.all_zero &&
      !may_be_zero(seen.tensor->name))
    if (Diagnostic* finding = report(list, Rule::ST082, seen))
      finding->values.emplace_back("shape", shape_value(seen.tensor->shape));
  const bool wide = dtype == DType::BF16 || dtype == DType::F32 || dtype == DType::F64;
  // A tenth or more; the counts stay far below 2^64 / 10 for any file that exists.
  if ((wide || dtype == DType::F16) && found.subnormal_count && found.subnormal_count >= seen.elements / 10 &&
      found.subnormal_count * 10 >= seen.elements)
    if (Diagnostic* finding = report(list, Rule::ST083, seen)) {
      finding->values.emplace_back("count", found.subnormal_count);
      finding->values.emplace_back("elements", seen.elements);
    }
  if (rank >= 2 && seen.elements >= 4 && found.constant && !found.all_zero)
    if (Diagnostic* finding = report(list, Rule::ST084, seen))
      finding->values.emplace_back("shape", shape_value(seen.tensor->shape));
  if (dtype == DType::BOOL && found.bool_count)
    report_count(list, Rule::ST085, seen, found.bool_count, found.first_bool);
  if (wide && found.extreme_count)
    if (Diagnostic* finding = report(list, Rule::ST087, seen)) {
      finding->values.emplace_back("count", found.extreme_count);
      finding->values.emplace_back("max", found.largest);
    }
}

void check_duplicates(FindingList& list, const std::vector<Seen>& tensors) {
  using Content = std::tuple<DType, Shape, uint64_t, uint64_t>;
  std::map<Content, const TensorInfo*> first;
  for (const Seen& seen : tensors) {
    const TensorStatistics& found = *seen.statistics;
    if (seen.elements < 64 || found.all_zero || found.constant) continue;
    const auto [at, added] = first.emplace(
        Content(seen.tensor->dtype, seen.tensor->shape, found.hash[0], found.hash[1]), seen.tensor);
    if (added) continue;
    if (Diagnostic* finding = report(list, Rule::ST086, seen))
      finding->values.emplace_back("other", at->second->name);
  }
}

// ST088: the file's end is zero.
void check_tail(FindingList& list, std::vector<Seen> tensors, uint64_t data_bytes) {
  std::sort(tensors.begin(), tensors.end(),
            [](const Seen& a, const Seen& b) { return a.tensor->begin > b.tensor->begin; });
  uint64_t count = 0;
  uint64_t bytes = 0;
  for (const Seen& seen : tensors) {
    if (!seen.statistics->zero_bytes) break;
    ++count;
    bytes += seen.tensor->bytes();
  }
  if (count < 2 || bytes < data_bytes / 4 || bytes * 4 < data_bytes) return;
  if (Diagnostic* finding = list.add(Rule::ST088)) {
    finding->values = {{"count", count},
                       {"bytes", bytes},
                       {"percent", static_cast<uint64_t>(100.0 * static_cast<double>(bytes) /
                                                         static_cast<double>(data_bytes))}};
  }
}

// The module of a factor that starts at zero, under the names of any family.
std::optional<std::string_view> zero_factor_of(std::string_view tensor, const AdapterFileFacts& facts) {
  if (const std::optional<LoraName> name = parse_lora_name(tensor)) {
    const bool zero =
        name->part == LoraPart::kB || name->part == LoraPart::kUp || name->part == LoraPart::kEmbeddingA;
    return zero && !name->bias ? std::optional(name->module) : std::nullopt;
  }
  const std::optional<AdapterName> name = parse_adapter_name(tensor, facts);
  return name && name->part == AdapterPart::kUp ? std::optional(name->module) : std::nullopt;
}

void check_adapter_values(FindingList& list, const LintedFile& file, const std::vector<Seen>& tensors) {
  const LoraTensors names = find_lora_tensors(file.scan.header);
  std::vector<std::string_view> all_names;
  for (const TensorInfo& tensor : file.scan.header.tensors) all_names.emplace_back(tensor.name);
  const AdapterFileFacts facts = adapter_file_facts(all_names);
  uint64_t factors = 0;
  std::vector<std::string_view> zero_modules;  // of factors that are zero, by tensor name
  for (const Seen& seen : tensors) {
    if (is_alpha_name(names, seen.tensor->name) && seen.elements == 1) {
      const double value = seen.statistics->first;
      if (std::isfinite(value) && value > 0) continue;
      if (Diagnostic* finding = list.add(Rule::LO007)) {
        finding->subject = seen.tensor->name;
        finding->values = {{"what", seen.tensor->name}, {"value", value}};
      }
      continue;
    }
    const std::optional<std::string_view> module = zero_factor_of(seen.tensor->name, facts);
    if (!module) continue;
    ++factors;
    if (seen.statistics->all_zero) zero_modules.push_back(*module);
  }
  if (zero_modules.empty()) return;
  const bool all = zero_modules.size() == factors;
  Diagnostic* finding = list.add(all ? Rule::LO014 : Rule::LO033);
  if (!finding) return;
  finding->values = {{"count", static_cast<uint64_t>(zero_modules.size())}};
  if (all) return;
  const std::string_view first = *std::min_element(zero_modules.begin(), zero_modules.end());
  finding->subject = std::string(first);
  finding->values.emplace_back("total", factors);
  finding->values.emplace_back("module", std::string(without_peft_prefix(first)));
}

// The values of scales, codes and stacked experts: CF050, QT350, QT352, QT353, QT355, QT356.
class QuantValueRules {
 public:
  QuantValueRules(const LintResult& result, const std::vector<FileStatistics>& statistics)
      : result_(result), statistics_(statistics), lists_(result.files.size()) {}

  void run() {
    for (const ScaleCheck& check : result_.scale_checks) check_scales(check);
    for (const TensorPlace place : result_.code_checks)
      if (const TensorStatistics* found = seen(place)) report_not_finite(Rule::QT356, place, *found);
    for (const TensorPlace place : result_.ternary_checks) check_ternary(place);
    for (const ExpertStack& stack : result_.expert_stacks) check_experts(stack.tensor);
  }

  // The findings of one file; null when there are none.
  FindingList* of(size_t file) { return lists_[file] ? &*lists_[file] : nullptr; }

 private:
  static constexpr uint8_t kZeroTernary = 0x55;  // four values, all 0
  static constexpr size_t kMostListed = 24;

  const TensorStatistics* seen(TensorPlace at) const {
    if (at.file >= statistics_.size() || at.tensor >= statistics_[at.file].tensors.size()) return nullptr;
    return info(at).bytes() == 0 ? nullptr : &statistics_[at.file].tensors[at.tensor];
  }
  const TensorInfo& info(TensorPlace at) const {
    return result_.files[at.file].scan.header.tensors[at.tensor];
  }

  Diagnostic* report(Rule rule, TensorPlace place) {
    std::optional<FindingList>& list = lists_[place.file];
    if (!list) list.emplace(result_.files[place.file].path, HeaderOptions().max_findings);
    Diagnostic* finding = list->add(rule);
    if (!finding) return nullptr;
    finding->subject = info(place).name;
    finding->values = {{"tensor", info(place).name}};
    return finding;
  }

  void report_not_finite(Rule rule, TensorPlace place, const TensorStatistics& found) {
    const uint64_t count = found.nan_count + found.infinity_count;
    if (count == 0) return;
    const uint64_t first = found.nan_count == 0        ? found.first_infinity
                           : found.infinity_count == 0 ? found.first_nan
                                                       : std::min(found.first_nan, found.first_infinity);
    report_counted(rule, place, count, first);
  }

  void report_counted(Rule rule, TensorPlace place, uint64_t count, uint64_t first) {
    Diagnostic* finding = report(rule, place);
    if (!finding) return;
    finding->values.emplace_back("count", count);
    finding->values.emplace_back("index", first);
  }

  void check_scales(const ScaleCheck& check) {
    const TensorStatistics* found = seen(check.scales);
    if (!found) return;
    report_not_finite(Rule::QT350, check.scales, *found);
    if (!check.signs) return;
    const ScaleSeen& scales = found->scales;
    if (scales.lost != 0) report_counted(Rule::QT352, check.scales, scales.lost, scales.first_lost);
    if (scales.negative != 0)
      report_counted(Rule::QT353, check.scales, scales.negative, scales.first_negative);
  }

  void check_ternary(TensorPlace place) {
    const TensorStatistics* found = seen(place);
    if (found && found->constant && found->first == kZeroTernary) report(Rule::QT355, place);
  }

  void check_experts(TensorPlace place) {
    const TensorStatistics* found = seen(place);
    if (!found || found->zero_experts.empty()) return;
    Diagnostic* finding = report(Rule::CF050, place);
    if (!finding) return;
    std::vector<std::string> experts;
    for (const uint64_t expert : found->zero_experts) {
      if (experts.size() == kMostListed) {
        experts.push_back("and " + std::to_string(found->zero_experts.size() - kMostListed) + " more");
        break;
      }
      experts.push_back(std::to_string(expert));
    }
    finding->values.emplace_back("experts", std::move(experts));
  }

  const LintResult& result_;
  const std::vector<FileStatistics>& statistics_;
  std::vector<std::optional<FindingList>> lists_;  // by file
};

// The tensors with data that were looked at, by name.
std::vector<Seen> seen_tensors(const LintedFile& file, const FileStatistics& statistics) {
  std::vector<Seen> seen;
  const std::vector<TensorInfo>& tensors = file.scan.header.tensors;
  if (!file.scan.sound || statistics.tensors.size() != tensors.size()) return seen;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].bytes() == 0) continue;
    seen.push_back({&tensors[i], &statistics.tensors[i], element_count(tensors[i].shape).value_or(0)});
  }
  std::sort(seen.begin(), seen.end(),
            [](const Seen& a, const Seen& b) { return a.tensor->name < b.tensor->name; });
  return seen;
}

}  // namespace

Diagnostics check_data(const LintResult& result, const std::vector<FileStatistics>& statistics,
                       std::vector<OmittedFindings>* omitted) {
  Diagnostics out;
  QuantValueRules values(result, statistics);
  values.run();
  for (size_t i = 0; i < result.files.size() && i < statistics.size(); ++i) {
    const LintedFile& file = result.files[i];
    if (!statistics[i].unreadable.empty()) {
      Diagnostic& finding = out.emplace_back();
      finding.rule = Rule::ST009;
      finding.file = file.path;
      finding.values = {{"reason", statistics[i].unreadable}};
      continue;
    }
    const std::vector<Seen> tensors = seen_tensors(file, statistics[i]);
    FindingList list(file.path, HeaderOptions().max_findings);
    for (const Seen& seen : tensors) check_values(list, seen);
    check_duplicates(list, tensors);
    check_tail(list, tensors, file.scan.file_size - file.scan.header.data_offset());
    if (file.adapter) check_adapter_values(list, file, tensors);
    for (FindingList* one : {&list, values.of(i)}) {
      if (!one) continue;
      if (omitted)
        for (const auto& [rule, count] : one->omitted()) omitted->push_back({file.path, rule, count});
      for (Diagnostic& finding : one->take()) out.push_back(std::move(finding));
    }
  }

  auto place = [&](const TensorPlace& at) -> const TensorStatistics* {
    if (at.file >= statistics.size() || at.tensor >= statistics[at.file].tensors.size()) return nullptr;
    return &statistics[at.file].tensors[at.tensor];
  };
  for (const TiedHead& tied : result.tied_heads) {
    const TensorStatistics* head = place(tied.head);
    const TensorStatistics* embedding = place(tied.embedding);
    if (!head || !embedding) continue;
    const TensorInfo& first = result.files[tied.head.file].scan.header.tensors[tied.head.tensor];
    const TensorInfo& second = result.files[tied.embedding.file].scan.header.tensors[tied.embedding.tensor];
    const bool same = first.dtype == second.dtype && first.bytes() == second.bytes() &&
                      head->hash[0] == embedding->hash[0] && head->hash[1] == embedding->hash[1];
    if (!same) out.push_back(tied_head_differs(tied.config, first.name, second.name));
  }
  return out;
}

}  // namespace tftf
