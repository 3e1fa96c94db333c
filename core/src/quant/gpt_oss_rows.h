// gpt-oss experts as transformers holds them: the codes lie by [expert, output, input], the weight by [expert, input, output].
#pragma once

#include "tftf/quant/weight.h"

namespace tftf {

// Blocks of 32 codes (E2M1, the first in the low bits) [experts, outputs, blocks, 16 bytes] with an exponent each.
struct TransposedBlocks {
  uint64_t experts = 0, outputs = 0, blocks = 0;  // at least 1
  // Exponents of an expert are read as they lie where they are no more: in strips their rows would be some bytes.
  uint64_t few_exponents = uint64_t{1} << 20;
};

// w[e, i, o] = code[e, o, i] * 2^(exponent - 127), in F32. `outputs` must fit 32 bits.
Weight transposed_blocks_weight(const TransposedBlocks& spec, std::string_view word, TensorRef codes,
                                TensorRef exponents);

}  // namespace tftf
