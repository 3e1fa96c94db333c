// Counts the tensors of a stream for the account.
#include "planned_account.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "tftf/base/size_text.h"
#include "tftf/quant/registry.h"

namespace tftf::transform {
namespace {

// Modules whose codes are in the result as they were, and those whose codes a cast has taken for numbers.
void count_left_quantised(const Stream& stream, const LayoutReport& layouts, Account& account) {
  std::unordered_map<uint64_t, const StreamTensor*> by_source;
  const auto key = [](TensorRef ref) { return uint64_t{ref.shard} << 32 | ref.tensor; };
  for (const StreamTensor& tensor : stream.tensors) {
    if (tensor.gather != nullptr) {
      for (const GatherSource& source : tensor.gather->sources)
        if (source.way == nullptr) by_source.emplace(key(source.ref), &tensor);
    } else if (tensor.output == 0 && !tensor.literal && !tensor.measured && !tensor.words) {
      by_source.emplace(key(tensor.source), &tensor);
    }
  }
  std::string readable;
  for (const QuantFinding& finding : layouts.findings) {
    const QuantFormat* format = find_quant_format(finding.layout);
    uint64_t cast = 0;
    bool left = false;
    for (const QuantMatch& match : finding.matches) {
      const auto at = by_source.find(key(match.weight));
      if (at == by_source.end()) continue;
      const std::vector<Stage>& stages = at->second->stages;
      if (stages.empty()) {
        ++account.left_quantised;
        left = true;
      } else if (stages[0].op == &kCastStage && !is_fp8(stages[0].from)) {
        ++cast;
      }
    }
    if (left && format != nullptr && format->read())
      readable += (readable.empty() ? " dequant reads " : ", ") + std::string(format->id);
    if (cast > 0) {
      account.warnings.push_back("The codes of " + grouped_digits(cast) + " module" + (cast == 1 ? "" : "s") +
                                 " of layout " + std::string(finding.layout) +
                                 " were cast like numbers; --cast-floats-only leaves them alone.");
    }
  }
  // Codes that no layout has claimed keep the configuration that is the only key to them.
  if (stream.dequantises && !stream.open->config.method.empty()) {
    std::unordered_set<uint64_t> known;
    for (const QuantFinding& finding : layouts.findings)
      for (const QuantMatch& match : finding.matches) known.insert(key(match.weight));
    for (const StreamTensor& tensor : stream.tensors) {
      if (tensor.is_copy() && !tensor.added && known.count(key(tensor.source)) == 0 &&
          looks_like_codes(stream.checkpoint->info(tensor.source)))
        ++account.left_quantised;
    }
  }
  if (stream.dequantises && account.left_quantised > 0) {
    account.warnings.push_back(grouped_digits(account.left_quantised) + " module" +
                               (account.left_quantised == 1 ? " stays" : "s stay") +
                               " quantised, and so does the quantisation section of config.json." +
                               (account.command == "dequant-fp8" && !readable.empty() ? readable + "." : ""));
  }
}

}  // namespace

Account account_of(const Stream& stream, const LayoutReport& layouts, const TransformRequest& request) {
  Account account;
  account.command = request.command;
  account.input = request.input;
  account.output = request.output;
  account.dry_run = request.dry_run;
  account.tensors_in = stream.placement
                           ? stream.placement->tensors_in
                           : stream.checkpoint->order.size() + stream.checkpoint->unlisted.size();
  account.tensors_out = stream.tensors.size();
  for (const StreamTensor& tensor : stream.tensors) ++(tensor.is_copy() ? account.copied : account.changed);
  for (const Dropped& drop : stream.dropped) {
    auto group = std::find_if(account.dropped.begin(), account.dropped.end(),
                              [&](const Account::Dropped& d) { return d.reason == drop.reason; });
    if (group == account.dropped.end()) group = account.dropped.insert(group, {drop.reason, {}});
    group->names.push_back(drop.name);
  }
  for (const QuantFinding& finding : layouts.findings)
    account.layouts.push_back({std::string(finding.layout), finding.matches.size(), finding.evidence});
  account.merges = stream.merges;
  account.grafts = stream.grafts;
  account.converted = stream.converted;
  account.layout_change = stream.layout_change;
  account.warnings = stream.warnings;
  if (stream.placement) {
    account.left_quantised = stream.placement->left_quantised;
  } else {
    count_left_quantised(stream, layouts, account);
  }
  return account;
}

}  // namespace tftf::transform
