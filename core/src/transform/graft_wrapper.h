// A text model on its way back into the wrapper that it was taken out of (spec experts 8).
#pragma once

#include <optional>
#include <string>

#include "graft_names.h"
#include "tftf/checkpoint/layout_names.h"

namespace tftf::transform {

struct WrappedPart {
  ModelEntry wrapper{};
  bool nested = true;                          // its configuration is a member; else it is among the others
  const TextEquivalent* equivalent = nullptr;  // the model's type stands for one that only wrappers have
};

// The wrapper's text model, when that is of type `text` or equal to it; nothing for anything else.
std::optional<WrappedPart> find_wrapped_part(const JsonValue* wrapper_config, const std::string& text);

// Gives the model's tensors the names, experts and configuration that they have inside of `source`. kRefusedMissing for a
// tensor outside of the text model's names.
Result<void> put_into_wrapper(Stream& model, const Stream& source, const WrappedPart& part,
                              const GraftNaming& naming);

// Brings `stream` to the layout of names and the form of experts that `like` has, both of the entry's type. Gives how many
// names moved.
Result<uint64_t> bring_to_layout_of(const Stream& like, Stream& stream, const ModelEntry& entry,
                                    const GraftNaming& naming);

}  // namespace tftf::transform
