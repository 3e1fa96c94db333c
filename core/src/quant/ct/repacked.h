// compressed-tensors as a container of the codes of others.
#pragma once

#include "tftf/quant/code_form.h"

namespace tftf::ct {

extern const CodeLayout kPackCodes;   // integers of GPTQ and AWQ
extern const CodeLayout kBlockCodes;  // FP8 with block scales, both ways
extern const CodeLayout kNvfp4Codes;

}  // namespace tftf::ct
