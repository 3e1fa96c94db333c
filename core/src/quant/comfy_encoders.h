// Elements to ComfyUI's own layouts, by the rules of comfy-kitchen (docs/numerics.md, "Quantising to codes").
#pragma once

#include "tftf/quant/encoder.h"

namespace tftf {

extern const Encoder kComfyFp8Encoder;    // float8_e4m3fn, one scale for the tensor
extern const Encoder kComfyNvfp4Encoder;  // nvfp4

// What a layer's comfy_quant tensor says, as Python's json.dumps writes it.
std::string comfy_description_text(std::string_view format, bool full_precision);

}  // namespace tftf
