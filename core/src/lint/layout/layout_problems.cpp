#include "lint/layout/layout_problems.h"

#include <algorithm>
#include <map>

#include "tftf/base/affix.h"
#include "tftf/quant/registry.h"

namespace tftf {
namespace {

// The family of layouts that are known by name only (quant/foreign.cpp).
constexpr std::string_view kNamedFamily = "refused";

bool is_known_by_name(std::string_view layout) {
  for (const QuantFamily* family : quant_families()) {
    if (family->name != kNamedFamily) continue;
    return std::any_of(family->formats.begin(), family->formats.end(),
                       [&](const QuantFormat* format) { return format->id == layout; });
  }
  return false;
}

// Where a module's tensors are: the first of their names by bytes.
class ModulePlaces {
 public:
  explicit ModulePlaces(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  // The shard; 0 for a module of which nothing is stored.
  uint32_t shard_of(std::string_view module) {
    if (const std::optional<TensorRef> tensor = checkpoint_.find(module)) return tensor->shard;
    if (names_.empty()) {
      names_.reserve(checkpoint_.order.size());
      for (const TensorRef ref : checkpoint_.order)
        names_.emplace_back(checkpoint_.info(ref).name, ref.shard);
      std::sort(names_.begin(), names_.end());
    }
    constexpr std::string_view kWeight = ".weight";
    if (ends_with(module, kWeight)) module.remove_suffix(kWeight.size());
    const auto at = std::lower_bound(names_.begin(), names_.end(), std::pair(module, uint32_t{0}));
    return at != names_.end() && starts_with(at->first, module) ? at->second : 0;
  }

 private:
  const Checkpoint& checkpoint_;
  std::vector<std::pair<std::string_view, uint32_t>> names_;
};

}  // namespace

std::unordered_set<std::string> modules_with_findings(FileFindings& findings, const QuantFacts& facts) {
  std::unordered_set<std::string> out;
  for (const Shard& shard : facts.checkpoint->shards) {
    FindingList& list = findings.of(shard.name);
    for (size_t i = 0; i < list.size(); ++i) {
      const Diagnostic& finding = list[i];
      if (!finding.subject) continue;
      if (finding.rule == Rule::QT343 || finding.rule == Rule::QT344) out.insert(*finding.subject);
      if (finding.rule == Rule::QT346) out.emplace(split_name(*finding.subject).path);
    }
  }
  return out;
}

void report_layout_problems(FileFindings& out, const QuantFacts& facts, const LayoutReport& report,
                            const std::unordered_set<std::string>& named) {
  ModulePlaces places(*facts.checkpoint);
  struct Foreign {
    uint64_t count = 0;
    std::string_view first;
  };
  std::map<std::string_view, Foreign> foreign;
  for (const QuantFinding& finding : report.findings) {
    if (!is_known_by_name(finding.layout)) continue;
    Foreign& layout = foreign[finding.layout];
    for (const QuantMatch& match : finding.matches)
      if (layout.count++ == 0 || match.module < layout.first) layout.first = match.module;
  }
  std::vector<QuantProblem> problems = report.problems;
  for (QuantProblem& problem : geometry_problems(*facts.checkpoint, report))
    problems.push_back(std::move(problem));
  for (const QuantProblem& problem : problems) {
    // Nothing is wrong with a file because we do not read it.
    if (problem.layout == kUnreadLayout) continue;
    std::string_view module = problem.module;
    constexpr std::string_view kWeight = ".weight";
    const std::string_view path =
        ends_with(module, kWeight) ? module.substr(0, module.size() - kWeight.size()) : module;
    if (named.count(std::string(path))) continue;
    Diagnostic* finding = out.of(facts.checkpoint->shards[places.shard_of(module)].name).add(problem.rule);
    if (!finding) continue;
    finding->subject = problem.module;
    finding->values = {
        {"module", problem.module}, {"layout", std::string(problem.layout)}, {"detail", problem.what}};
  }
  for (const QuantRemark& remark : compressed_tensors_remarks(*facts.checkpoint, report)) {
    Diagnostic* finding =
        out.of(facts.checkpoint->shards[places.shard_of(remark.subject)].name).add(remark.rule);
    if (!finding) continue;
    finding->subject = remark.subject;
    finding->values = {{"module", remark.subject}, {"detail", remark.what}};
  }
  for (const auto& [layout, modules] : foreign) {
    Diagnostic* finding =
        out.of(facts.checkpoint->shards[places.shard_of(modules.first)].name).add(Rule::QT309);
    if (!finding) continue;
    finding->subject = std::string(modules.first);
    finding->values = {
        {"count", modules.count}, {"layout", std::string(layout)}, {"module", std::string(modules.first)}};
  }
}

}  // namespace tftf
