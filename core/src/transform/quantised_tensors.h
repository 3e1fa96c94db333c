// What the layouts of a checkpoint say of the tensors in a stream: which hold codes, which go with them.
#pragma once

#include <unordered_map>

#include "stream.h"

namespace tftf::transform {

class QuantisedTensors {
 public:
  explicit QuantisedTensors(const Stream& stream);

  // The module whose codes the tensor holds, as they are stored; null when it holds none, or no longer.
  const QuantMatch* codes(const StreamTensor& tensor) const;
  bool is_codes(const StreamTensor& tensor) const { return codes(tensor) != nullptr; }
  // The module that the tensor is a companion of; null for none.
  const QuantMatch* companion(const StreamTensor& tensor) const;
  // The module that the tensor belongs to, as its codes or as a companion, when its codes are packed: of a dtype that says
  // nothing of a value (integers; FP8 codes are values up to a scale).
  const QuantMatch* packed(const StreamTensor& tensor) const;

 private:
  struct Part {
    const QuantMatch* match = nullptr;
    bool codes = false;
  };
  const Part* find(const StreamTensor& tensor) const;

  const Checkpoint* checkpoint_;
  std::unordered_map<uint64_t, Part> parts_;
};

}  // namespace tftf::transform
