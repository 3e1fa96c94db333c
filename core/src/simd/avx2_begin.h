// Opens the region compiled for AVX2 and F16C; avx2_end.h closes it. Everything included before it stays
// generic, and code inside uses intrinsics and functions with internal linkage only, so no shared inline
// function is ever emitted for an instruction set the machine may lack.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
#endif
