#include "checkpoint/model_choice.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "checkpoint/file_names.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

constexpr std::string_view kFirstIndexes[] = {
    "model.safetensors.index.json", "model.fp16.safetensors.index.json", "model.bf16.safetensors.index.json"};
constexpr std::string_view kSingle = "model.safetensors";
constexpr std::string_view kAdapterConfig = "adapter_config.json";
constexpr std::string_view kAdapterFiles[] = {"adapter_model.safetensors", "adapters.safetensors"};
constexpr size_t kListed = 10;

std::string list_names(const std::vector<std::string>& names) {
  std::string list;
  for (size_t i = 0; i < names.size() && i < kListed; ++i)
    list += (i == 0 ? "" : ", ") + quote_name(names[i]);
  if (names.size() > kListed) list += " and " + std::to_string(names.size() - kListed) + " more";
  return list;
}

// Whether all of `weights` are the files of one colibri container, numbered from 0 in each of its passes. A number that is
// left out becomes `problem`.
bool is_container(const std::vector<std::string>& weights, std::optional<std::string>& problem) {
  std::map<std::string_view, std::set<uint32_t>> passes;
  for (const std::string& name : weights) {
    const auto container = parse_container_name(name);
    if (!container) return false;
    passes[container->prefix].insert(container->number);
  }
  for (const auto& [prefix, numbers] : passes) {
    uint32_t next = 0;
    for (const uint32_t number : numbers) {
      if (number != next) {
        std::string digits = std::to_string(next);
        digits.insert(0, 5 - std::min<size_t>(5, digits.size()), '0');
        problem = "it holds " + list_names(weights) + " and no index, and " +
                  quote_name(std::string(prefix) + "-" + digits + ".safetensors") + " is not there";
        return true;
      }
      ++next;
    }
  }
  return true;
}

// The numbered family that all of `weights` belong to; `problem` says why it is none or not whole.
ModelChoice choose_family(const std::vector<std::string>& weights) {
  ModelChoice choice;
  if (is_container(weights, choice.problem)) {
    if (!choice.problem) choice.shards = weights;
    return choice;
  }
  std::set<uint32_t> numbers;
  std::optional<ShardName> family;
  for (const std::string& name : weights) {
    const auto shard = parse_shard_name(name);
    const bool same =
        shard && (!family || (shard->prefix == family->prefix && shard->variant == family->variant &&
                              shard->total == family->total));
    if (!same) {
      choice.problem = "it holds several .safetensors files and no index: " + list_names(weights);
      return choice;
    }
    family = shard;
    numbers.insert(shard->number);
  }
  // 1..T, or 0..T-1. Names are distinct, and so are the numbers.
  const uint32_t first = *numbers.begin();
  const bool whole =
      first <= 1 && numbers.size() == family->total && *numbers.rbegin() == first + family->total - 1;
  if (!whole)
    choice.problem = "it holds " + std::to_string(numbers.size()) + " of " + std::to_string(family->total) +
                     " shards and no index: " + list_names(weights);
  else
    choice.shards = weights;
  return choice;
}

ModelChoice choose_in_folder(const ModelListing& listing) {
  std::vector<std::string> weights;
  std::vector<std::string> indexes;
  std::vector<std::string> all;
  for (const FileEntry& file : listing.files) {
    if (file.folder || file.name.find('/') != std::string::npos) continue;
    all.push_back(file.name);
    if (is_weight_name(file.name)) weights.push_back(file.name);
    if (parse_index_name(file.name)) indexes.push_back(file.name);
  }
  for (auto* list : {&weights, &indexes, &all}) std::sort(list->begin(), list->end());
  auto has = [&all](std::string_view name) { return std::binary_search(all.begin(), all.end(), name); };

  ModelChoice choice;
  for (std::string_view name : kFirstIndexes)
    if (has(name)) return choice.index = name, choice;
  if (has(kSingle)) return choice.shards = {std::string(kSingle)}, choice;
  for (std::string_view name : kAdapterFiles)
    if (has(name) && (name == kAdapterFiles[0] || has(kAdapterConfig)))
      return choice.shards = {std::string(name)}, choice;
  if (indexes.size() == 1) return choice.index = indexes[0], choice;
  if (indexes.size() > 1) {
    choice.problem = "it holds several indexes: " + list_names(indexes) + "; name one of them";
  } else if (weights.size() == 1) {
    choice.shards = weights;
  } else if (!weights.empty()) {
    return choose_family(weights);
  } else {
    choice.problem = "it holds no .safetensors file";
    if (!all.empty()) *choice.problem += "; it holds " + list_names(all);
  }
  return choice;
}

}  // namespace

ModelChoice choose_model(const ModelListing& listing) {
  ModelChoice choice;
  switch (listing.kind) {
    case ModelListing::Kind::kFile:
      choice.shards = {listing.main};
      return choice;
    case ModelListing::Kind::kIndex:
      choice.index = listing.main;
      return choice;
    case ModelListing::Kind::kFolder:
      break;
  }
  return choose_in_folder(listing);
}

}  // namespace tftf
