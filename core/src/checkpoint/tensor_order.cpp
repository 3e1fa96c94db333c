#include "checkpoint/tensor_order.h"

#include <algorithm>

#include "checkpoint/file_names.h"

namespace tftf {
namespace {

constexpr size_t kNamesShown = 5;  // names kept for a message

// The tensors of one shard by name.
void append_sorted(const Shard& shard, uint32_t number, std::vector<TensorRef>& order) {
  const size_t first = order.size();
  for (uint32_t i = 0; i < shard.header.tensors.size(); ++i) order.push_back({number, i});
  std::sort(order.begin() + static_cast<std::ptrdiff_t>(first), order.end(), [&](TensorRef a, TensorRef b) {
    return shard.header.tensors[a.tensor].name < shard.header.tensors[b.tensor].name;
  });
}

}  // namespace

MappedNames resolve_map(const ShardIndex& index) {
  MappedNames mapped;
  std::unordered_map<std::string_view, uint32_t> by_spelling;  // shard as written
  std::unordered_map<std::string, uint32_t> by_path;
  mapped.tensors.reserve(index.weight_map.size());
  auto shard_number = [&](const std::string& written) {
    const auto known = by_spelling.find(written);
    if (known != by_spelling.end()) return known->second;
    uint32_t number = MappedNames::kUnsafe;
    if (unsafe_reason(written)) {
      if (mapped.unsafe.size() < kNamesShown) mapped.unsafe.push_back(written);
    } else {
      const auto [place, added] =
          by_path.emplace(shard_path({}, written), static_cast<uint32_t>(mapped.shards.size()));
      if (added) mapped.shards.push_back(place->first);
      number = place->second;
    }
    by_spelling.emplace(written, number);
    return number;
  };
  for (uint32_t i = 0; i < index.weight_map.size(); ++i) {
    const auto& [tensor, written] = index.weight_map[i];
    const uint32_t shard = shard_number(written);
    const auto [place, added] = mapped.tensors.emplace(tensor, MappedNames::Place{i, shard});
    if (added) continue;
    place->second.shard = shard;
    if (mapped.twice.size() < kNamesShown) mapped.twice.push_back(place->first);
  }
  return mapped;
}

std::optional<Unfound> order_tensors(Checkpoint& checkpoint, const MappedNames* mapped, bool everything) {
  auto& order = checkpoint.order;
  std::optional<Unfound> unfound;
  const auto mapped_shards = static_cast<uint32_t>(mapped ? mapped->shards.size() : 0);
  if (mapped) {
    // Where each entry of weight_map lies, by its position there.
    constexpr uint32_t kNone = UINT32_MAX;
    std::vector<TensorRef> found(checkpoint.index->weight_map.size(), TensorRef{kNone, 0});
    for (uint32_t s = 0; s < mapped_shards; ++s) {
      const auto& tensors = checkpoint.shards[s].header.tensors;
      for (uint32_t t = 0; t < tensors.size(); ++t) {
        const auto place = mapped->tensors.find(tensors[t].name);
        if (place != mapped->tensors.end() && place->second.shard == s &&
            found[place->second.position].shard == kNone)
          found[place->second.position] = {s, t};
        else
          checkpoint.unlisted.push_back({s, t});
      }
    }
    // Regroup by shard: count, then place.
    std::vector<size_t> next(mapped_shards + 1, 0);
    for (const TensorRef ref : found)
      if (ref.shard != kNone) ++next[ref.shard + 1];
    for (uint32_t s = 0; s < mapped_shards; ++s) next[s + 1] += next[s];
    order.resize(next[mapped_shards]);
    for (size_t i = 0; i < found.size(); ++i) {
      if (found[i].shard != kNone) {
        order[next[found[i].shard]++] = found[i];
      } else if (!unfound) {
        const std::string_view tensor = checkpoint.index->weight_map[i].first;
        const MappedNames::Place place = mapped->tensors.find(tensor)->second;
        if (place.position == i && place.shard != MappedNames::kUnsafe &&
            checkpoint.shards[place.shard].readable)
          unfound = Unfound{tensor, place.shard};
      }
    }
    if (everything) order.insert(order.end(), checkpoint.unlisted.begin(), checkpoint.unlisted.end());
  }
  for (uint32_t s = mapped_shards; s < checkpoint.shards.size(); ++s)
    append_sorted(checkpoint.shards[s], s, order);
  checkpoint.by_name.reserve(order.size());
  for (const TensorRef ref : order) checkpoint.by_name.emplace(checkpoint.info(ref).name, ref);
  return unfound;
}

}  // namespace tftf
