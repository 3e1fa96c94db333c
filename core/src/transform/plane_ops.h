// Planes of repacked modules: turned from one form into another, made by counting, or checked for what has no place.
#pragma once

#include <memory>

#include "tftf/plan/plan.h"
#include "tftf/quant/code_form.h"

namespace tftf::transform {

struct PlaneChange {
  PlaneForm from{};
  PlaneForm to{};
  std::string word{};  // in the plan's text
};

// What a plane must not hold; the error ends the run before anything is written.
struct PlaneCheck {
  TensorRef tensor{};
  PlaneForm form{};
  uint64_t group = 0;  // not 0: an index, of which entry k is k / group; else values of at least `least`
  uint32_t least = 0;
  std::optional<uint32_t> only{};  // the one value that there may be
  Error refusal{};
};

// Item: in[0] and out[0] whole tensors; `change` must outlive it (Item::context).
Item plane_item(std::shared_ptr<const PlaneChange> change, const Extent& from, const Extent& to,
                uint64_t tile_bytes);
// kRefusedUnsupported when a plane has to be turned over as a whole and is too large for that: the message continues
// "Module …: ".
Result<void> check_plane(const PlaneChange& change);
Item words_item(const CodePlane::Words& words, const Extent& to, uint64_t tile_bytes);
// Value: n[0] entries that are not as they should be.
Item check_item(std::shared_ptr<const PlaneCheck> check, const Extent& from, uint64_t tile_bytes);

}  // namespace tftf::transform
