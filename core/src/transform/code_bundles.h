// Codes and scales that one encoding stage writes: they stay together, and nothing is done with them afterwards.
#pragma once

#include <map>
#include <vector>

#include "stream.h"

namespace tftf::transform {

// By number, the tensors of the stream that one stage writes, in the order of its outputs.
using CodeBundles = std::map<uint32_t, std::vector<size_t>>;

CodeBundles collect_bundles(const Stream& stream);

// kRefusedUnsupported for a tensor that would be changed after it was quantised, or whose codes or scales would be parted;
// for any codes when values are only `examined`.
Result<void> check_codes(const Stream& stream, bool examined);

}  // namespace tftf::transform
