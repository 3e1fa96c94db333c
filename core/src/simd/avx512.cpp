// The AVX-512 table: products over registers of 512 bits; what moves bytes rather than multiplies gains nothing from them
// and is over AVX2 and F16C.
#include "simd/tables.h"
#include "tftf/simd/cast.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "simd/avx2_quantize.h"
#include "simd/avx2_quotients.h"
#include "simd/avx2_vectors.h"
#include "simd/avx512_vectors.h"

#include "simd/vector_convert.h"
#include "simd/vector_f8.h"
#include "simd/vector_lookup.h"
#include "simd/vector_product.h"
#include "simd/vector_scan.h"
#include "simd/vector_sums.h"

namespace tftf::simd {
namespace {

void moments(DType dtype, const std::byte* data, uint64_t first, uint64_t count, Moments& into) noexcept {
  moments_with(kAvx512, dtype, data, first, count, into);
}

}  // namespace

constinit const KernelTable kAvx512 = {
    "avx512",
    widen<DType::BF16>,
    narrow<DType::BF16>,
    widen<DType::F16>,
    narrow<DType::F16>,
    dequantize_f8,
    scan,
    moments,
    product<WideVectors::F32>,
    product<WideVectors::F64>,
    merge_f32,
    merge_f64,
    sum_squares_f32,
    largest_magnitude,
    quantize_i8,
    pack_nibbles,
    quantize_e4m3,
    quotients,
    quantize_e2m1,
    search_e8,
    look_up_nibbles,
    transpose_16,
};

}  // namespace tftf::simd

#endif
