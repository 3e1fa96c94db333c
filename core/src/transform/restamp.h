// The stamps of colibri containers in the metadata of a result (spec colibri 3).
#pragma once

#include <map>
#include <string>
#include <unordered_set>

#include "stream.h"
#include "tftf/base/result.h"

namespace tftf::transform {

// Stamps of the input without those of `gone`, with `added` (weight name to format name). Nothing to say: the keys go.
// kRefusedUnsupported for more stamps than a reader takes.
Result<void> restamp(Stream& stream, const std::unordered_set<std::string>& gone,
                     const std::map<std::string, std::string, std::less<>>& added);

}  // namespace tftf::transform
