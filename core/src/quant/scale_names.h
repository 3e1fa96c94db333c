// Which tensors look like the scales of others, by name and dtype alone: codes with one of them beside are no values, in
// whatever spelling.
#pragma once

#include <optional>
#include <string_view>
#include <unordered_map>

#include "tftf/base/dtype.h"

namespace tftf {

class ScaleNames {
 public:
  // To be called with every tensor. Views must outlive this.
  void add(std::string_view name, DType dtype);
  // A float (or a U8, which may hold exponents) whose name holds "scale" and says that it belongs to tensor `name`: it
  // stands in the same module ("m.qscale_weight" beside "m.weight"), below the tensor ("m.weight.scale") or continues its
  // name ("m.gate_up_proj_scale"). Scales of activations count, for they come with those of weights.
  std::optional<std::string_view> beside(std::string_view name) const;

 private:
  std::unordered_map<std::string_view, std::string_view> by_owner_;
};

}  // namespace tftf
