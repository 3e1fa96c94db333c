#include "lint/header/header_facts.h"

#include <algorithm>
#include <iterator>

namespace tftf {
namespace {

// The rules that can make an entry unusable; their subject is its name.
constexpr Rule kEntryRules[] = {Rule::ST025, Rule::ST027, Rule::ST028, Rule::ST030,
                                Rule::ST032, Rule::ST034, Rule::ST035, Rule::ST038};

bool is_entry_rule(Rule rule) {
  return std::find(std::begin(kEntryRules), std::end(kEntryRules), rule) != std::end(kEntryRules);
}

}  // namespace

std::vector<std::string_view> unusable_entries(const HeaderScan& scan) {
  std::vector<std::string_view> names;
  for (const Diagnostic& finding : scan.findings)
    if (is_entry_rule(finding.rule) && finding.subject) names.push_back(*finding.subject);
  if (names.empty()) return names;
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::vector<std::string_view> usable;
  usable.reserve(scan.header.tensors.size());
  for (const TensorInfo& tensor : scan.header.tensors) usable.push_back(tensor.name);
  std::sort(usable.begin(), usable.end());
  std::vector<std::string_view> out;
  std::set_difference(names.begin(), names.end(), usable.begin(), usable.end(), std::back_inserter(out));
  return out;
}

bool all_entries_known(const HeaderScan& scan) {
  return std::none_of(scan.omitted.begin(), scan.omitted.end(),
                      [](const auto& omitted) { return is_entry_rule(omitted.first); });
}

bool all_entries_usable(const HeaderScan& scan) {
  return scan.readable && all_entries_known(scan) && unusable_entries(scan).empty();
}

}  // namespace tftf
