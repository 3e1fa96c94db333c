// ComfyUI's layouts, and those that become them, as containers of the same codes.
#pragma once

#include "tftf/quant/code_form.h"

namespace tftf {

extern const CodeLayout kComfyScaledFp8Codes;  // scale_weight: a source
extern const CodeLayout kComfyFp8Codes;        // comfy_quant: a target
extern const CodeLayout kModeloptNvfp4Codes;   // a source
extern const CodeLayout kComfyNvfp4Codes;      // a target

// What detection says of a module with a scale_weight (QuantMatch::detail).
struct ComfyScaledDetail {
  bool full_precision = false;  // the marker has two elements
};

}  // namespace tftf
