#include "checkpoint/refusal.h"

#include <algorithm>
#include <tuple>

#include "tftf/base/escape.h"

namespace tftf {
namespace {

constexpr size_t kShardsShown = 5;

}  // namespace

Error refuse_shard(const Shard& shard) {
  const Diagnostic* first = nullptr;
  auto place = [](const Diagnostic& finding) {
    return std::tuple(finding.offset.has_value(), finding.offset.value_or(0), finding.rule);
  };
  for (const Diagnostic& finding : shard.findings)
    if (rule_info(finding.rule).severity == Severity::kError && (!first || place(finding) < place(*first)))
      first = &finding;
  Error error;
  error.code = ErrorCode::kRefusedInput;
  error.file = shard.name;
  // Every unsound file has an error, though a hostile one may have so many that this kind was only counted.
  error.message = first ? message(*first) : quote_name(shard.name) + " is not a sound safetensors file.";
  if (first && first->rule == Rule::ST009) error.code = ErrorCode::kIoRead;
  if (first && first->subject) error.tensor = *first->subject;
  return error;
}

std::optional<Error> refuse_missing(const Checkpoint& checkpoint) {
  std::string list;
  uint64_t missing = 0;
  const Shard* first = nullptr;
  for (const Shard& shard : checkpoint.shards) {
    if (shard.status != ShardStatus::kMissing) continue;
    if (!first) first = &shard;
    if (++missing <= kShardsShown) list += (list.empty() ? "" : ", ") + quote_name(shard.name);
  }
  if (!first) return std::nullopt;
  if (missing > kShardsShown) list += " and " + std::to_string(missing - kShardsShown) + " more";
  Error error;
  error.code = ErrorCode::kRefusedInput;
  error.file = first->name;
  if (checkpoint.index)
    error.message = "The index " + quote_name(checkpoint.index->file) + " names " + std::to_string(missing) +
                    (missing == 1 ? " shard that is" : " shards that are") + " not there: " + list + ".";
  else
    error.message = list + " is not there.";
  return error;
}

std::optional<Error> refuse_tensors(const Checkpoint& checkpoint, const std::optional<Unfound>& unfound) {
  Error error;
  error.code = ErrorCode::kRefusedInput;
  if (unfound) {
    error.tensor = unfound->tensor;
    error.file = checkpoint.shards[unfound->shard].name;
    error.message = "Tensor " + quote_name(error.tensor) + " is mapped to " + quote_name(error.file) +
                    " by " + quote_name(checkpoint.index->file) + ", which does not hold it.";
    return error;
  }
  if (checkpoint.by_name.size() == checkpoint.order.size()) return std::nullopt;
  for (const TensorRef ref : checkpoint.order) {
    const std::string& name = checkpoint.info(ref).name;
    const TensorRef other = checkpoint.by_name.find(name)->second;
    if (other.shard == ref.shard && other.tensor == ref.tensor) continue;
    error.tensor = name;
    error.file = checkpoint.shards[ref.shard].name;
    error.message = "Tensor " + quote_name(name) + " is in two shards, " +
                    quote_name(checkpoint.shards[other.shard].name) + " and " + quote_name(error.file) +
                    ", and no index says which one counts.";
    return error;
  }
  return std::nullopt;
}

}  // namespace tftf
