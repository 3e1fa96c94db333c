// Elements to FP8 codes with a scale for every block of 128 x 128 (docs/numerics.md, "FP8 with scales").
#pragma once

#include "tftf/quant/encoder.h"

namespace tftf {

// E4M3 codes [rows, columns] and a grid of F32, rounded up: s = amax / 448, 1 where that is 0 (such a block counts as
// zeros); code = E4M3 of clamp(x / s, +-448). Outputs 0 and 1; the parts are the caller's.
Encoded fp8_blocks_encoded(uint64_t rows, uint64_t columns, const Encoder* encoder);

// Of an Encoder.
void write_fp8_blocks(const Encoded& encoded, ElementRange tile, PartRanges& ranges);
uint64_t encode_fp8_blocks(const Encoded& encoded, const EncodeTask& task, ElementRange piece,
                           const std::byte* in) noexcept;
uint64_t fp8_blocks_scratch(const Encoded& encoded, uint64_t units);

// The layout fp8-block.
extern const Encoder kFp8BlockEncoder;
extern const CodeLayout kFp8BlockCodes;  // fp8_block_codes.cpp

}  // namespace tftf
