// Conversion of runs between dtypes by the rules of torch's `.to` (spec tftf 2.5). What may be cast is the
// caller's policy (F4 and F6 are refused by `cast`, F8 needs consent); here every non-complex dtype can be
// read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tftf/base/dtype.h"
#include "tftf/simd/kernels.h"

namespace tftf {

// from: any dtype but C64. to: F64, F32, F16, BF16.
bool can_cast(DType from, DType to) noexcept;

// Converts `count` elements; sub-byte sources start at a byte. Rounding to nearest, ties to even. Returns how
// many finite values became infinite.
//  - equal dtypes: bytes copied;
//  - to F64: exact, but I64 and U64 beyond 2^53 are rounded;
//  - to F32: F64 and integers rounded once;
//  - to F16 and BF16: first to F32 as above, then rounded again (F64, I32, I64, U32, U64: two roundings);
//  - BOOL: any non-zero byte is 1; F8, F6, F4: the code's value, then as F32;
//  - NaN stays NaN with the bits floats.h says, -0 stays -0.
// Precondition: can_cast(from, to). The ranges must not overlap.
uint64_t cast(const KernelTable& kernels, DType from, DType to, const std::byte* in, std::byte* out,
              uint64_t count) noexcept;

}  // namespace tftf
