#include "inspect/value_choice.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "tftf/base/size_text.h"

namespace tftf {
namespace {

uint64_t choice_key(TensorRef tensor) { return uint64_t{tensor.shard} << 32 | tensor.tensor; }

}  // namespace

ValueChoice choose_values(const Checkpoint& checkpoint, const LayoutReport* layouts) {
  ValueChoice choice;
  std::unordered_map<uint64_t, TensorValues> logical;
  std::unordered_map<uint64_t, std::string_view> unreadable;
  std::unordered_set<uint64_t> companions;  // whose values have gone into those of weights
  if (layouts != nullptr) {
    OpenContext context{checkpoint, read_quant_config(checkpoint)};
    std::map<std::string_view, uint64_t> left;
    const auto sound = [&](TensorRef tensor) {
      return checkpoint.shards[tensor.shard].status == ShardStatus::kOk;
    };
    for (const QuantFinding& finding : layouts->findings)
      for (const QuantMatch& match : finding.matches) {
        Result<TensorValues> values = TensorValues::logical(context, match);
        const bool readable =
            values && std::all_of(values->weight()->parts.begin(), values->weight()->parts.end(),
                                  [&](const WeightPart& part) { return sound(part.tensor); });
        if (!readable) {
          unreadable.emplace(choice_key(match.weight), finding.layout);
          ++left[finding.layout];
          continue;
        }
        for (const WeightPart& part : values->weight()->parts)
          if (choice_key(part.tensor) != choice_key(match.weight)) companions.insert(choice_key(part.tensor));
        logical.emplace(choice_key(match.weight), *std::move(values));
      }
    for (const auto& [layout, count] : left)
      choice.notes.push_back(std::string(layout) + ": the values of " + grouped_digits(count) +
                             (count == 1 ? " module are those that are stored; this layout cannot be read"
                                         : " modules are those that are stored; this layout cannot be read"));
  }
  uint64_t unsound = 0;
  for (const TensorRef tensor : checkpoint.order) {
    const uint64_t key = choice_key(tensor);
    if (companions.count(key) > 0) continue;
    if (checkpoint.shards[tensor.shard].status != ShardStatus::kOk) {
      ++unsound;
      continue;
    }
    const auto decoded = logical.find(key);
    choice.values.push_back(decoded != logical.end() ? decoded->second
                                                     : TensorValues::stored(checkpoint, tensor));
    const auto layout = unreadable.find(key);
    choice.unreadable.push_back(layout != unreadable.end() ? layout->second : std::string_view());
  }
  if (unsound > 0)
    choice.notes.push_back(grouped_digits(unsound) +
                           " tensors lie in files that are not sound and are left out");
  return choice;
}

}  // namespace tftf
