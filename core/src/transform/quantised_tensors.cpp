// Looks tensors up among the modules that detection has found.
#include "quantised_tensors.h"

namespace tftf::transform {
namespace {

uint64_t stored_key(TensorRef ref) { return uint64_t{ref.shard} << 32 | ref.tensor; }

}  // namespace

QuantisedTensors::QuantisedTensors(const Stream& stream) : checkpoint_(stream.checkpoint) {
  for (const QuantFinding& finding : stream.layouts->findings)
    for (const QuantMatch& match : finding.matches) {
      parts_.emplace(stored_key(match.weight), Part{&match, true});
      for (const QuantCompanion& companion : match.companions)
        parts_.emplace(stored_key(companion.tensor), Part{&match, false});
    }
}

const QuantisedTensors::Part* QuantisedTensors::find(const StreamTensor& tensor) const {
  if (tensor.added || tensor.provided != nullptr || tensor.gather != nullptr || !tensor.stages.empty() ||
      tensor.output > 0 || tensor.literal || tensor.measured)
    return nullptr;
  const auto at = parts_.find(stored_key(tensor.source));
  return at == parts_.end() ? nullptr : &at->second;
}

const QuantMatch* QuantisedTensors::codes(const StreamTensor& tensor) const {
  const Part* part = find(tensor);
  return part != nullptr && part->codes ? part->match : nullptr;
}

const QuantMatch* QuantisedTensors::companion(const StreamTensor& tensor) const {
  const Part* part = find(tensor);
  return part != nullptr && !part->codes ? part->match : nullptr;
}

const QuantMatch* QuantisedTensors::packed(const StreamTensor& tensor) const {
  const Part* part = find(tensor);
  if (part == nullptr || is_floating(checkpoint_->info(part->match->weight).dtype)) return nullptr;
  return part->match;
}

}  // namespace tftf::transform
