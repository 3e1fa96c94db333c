// Original names of a model against diffusers' names of the same modules (spec adapters 6.2, 6.4).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "adapter/name_patterns.h"

namespace tftf {

// How the rows of an original weight are those of diffusers' weights.
enum class FusedRows : uint8_t {
  kSame,     // one weight, the same rows
  kThirds,   // query, key, value
  kLinear1,  // query, key, value of as many rows as there are inputs, the rest is the MLP's
  kQkv,      // x-labs' first part of linear1: its three thirds
  kHalves    // one weight, halves of its rows exchanged
};

// One original module and what it is in diffusers.
struct FusedName {
  std::string original;
  std::vector<std::string> parts;  // paths in diffusers, in the order of the rows
  FusedRows rows = FusedRows::kSame;
};

// The entry that has this original module, or this module of diffusers (and which of its parts). Of the space's own table;
// nothing when the space has none.
std::optional<FusedName> fused_by_original(NameSpace space, std::string_view path);
std::optional<FusedName> fused_by_part(NameSpace space, std::string_view path, size_t& part);

// UNet of the original code to diffusers' and back. `sdxl`: which of the two the model is; where it is not known and
// matters, there is no answer.
std::optional<std::string> unet_of_sgm(std::string_view path);
std::optional<std::string> sgm_of_unet(std::string_view path, std::optional<bool> sdxl);

}  // namespace tftf
