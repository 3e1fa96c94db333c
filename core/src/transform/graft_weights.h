// The weights that the tensors of a stream belong to, under the names that they have by now.
#pragma once

#include <string>
#include <vector>

#include "stream.h"

namespace tftf::transform {

class GraftWeights {
 public:
  // `stream` must outlive it.
  explicit GraftWeights(const Stream& stream);

  // The name of the tensor's weight: a plain tensor's own name; of codes and what goes with them the name that the weight
  // would have without being quantised.
  const std::string& name_of(size_t tensor) const { return names_[tensor]; }
  // The module that it belongs to as it is stored; null for a plain tensor and for one that was changed on its way.
  const QuantMatch* match_of(size_t tensor) const { return matches_[tensor]; }

 private:
  std::vector<std::string> names_;
  std::vector<const QuantMatch*> matches_;
};

}  // namespace tftf::transform
