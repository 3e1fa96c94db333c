// The NEON table, for 64-bit ARM: the vector kernels over 128 bits.
#include "simd/tables.h"
#include "tftf/simd/cast.h"

#if defined(__aarch64__)
#include <arm_neon.h>

#include "simd/neon_vectors.h"

#include "simd/vector_convert.h"
#include "simd/vector_f8.h"
#include "simd/vector_lookup.h"
#include "simd/vector_product.h"
#include "simd/vector_scan.h"
#include "simd/vector_sums.h"

namespace tftf::simd {
namespace {

void moments(DType dtype, const std::byte* data, uint64_t first, uint64_t count, Moments& into) noexcept {
  moments_with(kNeon, dtype, data, first, count, into);
}

}  // namespace

constinit const KernelTable kNeon = {
    "neon",
    widen<DType::BF16>,
    narrow<DType::BF16>,
    widen<DType::F16>,
    narrow<DType::F16>,
    dequantize_f8,
    scan,
    moments,
    product<Vectors::F32>,
    product<Vectors::F64>,
    merge_f32,
    merge_f64,
    sum_squares_f32,
    scalar::largest_magnitude,
    scalar::quantize_i8,
    scalar::pack_nibbles,
    scalar::quantize_e4m3,
    scalar::quotients,
    scalar::quantize_e2m1,
    scalar::search_e8,
    look_up_nibbles,
    transpose_16,
};

}  // namespace tftf::simd

#endif
