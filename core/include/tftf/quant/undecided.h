// Modules of which detection cannot tell the layout: their layout refuses to open them until the user has named one.
#pragma once

#include <string>

#include "tftf/quant/format.h"

namespace tftf {

// The layout of such modules.
inline constexpr std::string_view kUndecidedNvfp4 = "nvfp4-ambiguous";
// The same module, to be opened as one of the layout with that id.
QuantMatch decided(const QuantMatch& match, const std::string& layout);

}  // namespace tftf
