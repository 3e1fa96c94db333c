// The layouts of bitsandbytes: what detection hands to their opening, and their encoders.
#pragma once

#include "tftf/quant/encoder.h"
#include "tftf/quant/weight.h"

namespace tftf {

// QuantMatch::detail of a 4-bit module: what the JSON of its quant_state says.
struct BnbState {
  bool is_fp4 = false;
  DType dtype{};  // F32, F16 or BF16
  Shape shape;
  uint64_t block = 0;         // elements under one absmax
  uint64_t nested_block = 0;  // absmax codes under one nested_absmax; 0: absmax is not nested
  float offset = 0;           // added to every absmax that is nested
};

// w = quant_map[code] * absmax, over blocks of the flat order; the file's own map.
Result<Weight> open_bnb_4bit(OpenContext& context, const QuantMatch& match);
// w = (code * SCB[row]) * (1 / 127 in F32).
Result<Weight> open_bnb_int8(OpenContext& context, const QuantMatch& match);

// Of the layouts; their plans choose the nested ones, which measure first.
extern const Encoder kBnbNf4Encoder, kBnbFp4Encoder;
extern const Encoder kBnbNf4NestedEncoder, kBnbFp4NestedEncoder;

}  // namespace tftf
