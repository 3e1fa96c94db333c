// The numeric kernels, one table per instruction set. The scalar table is the specification: every other
// table gives the same bytes for the same input (tests/unit/simd), so which one runs is never visible in a
// result.
//
// Data is little-endian and may be unaligned; input and output must not overlap unless stated. Kernels
// allocate nothing, touch no byte outside the run, and cannot fail. Floating-point state must be the default:
// round to nearest, denormals kept. Every arithmetic step is rounded on its own, no fused multiply-add. A NaN
// made or passed on by arithmetic is the canonical one (positive, quiet, payload zero); conversions keep NaN
// bits as floats.h says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "tftf/base/dtype.h"
#include "tftf/simd/scan.h"

namespace tftf {

// A run of elements [first, first + count) of a row-major matrix with `cols` columns whose element (i, j) has
// the scale scales[(i / block_rows) * row_stride + (j / block_cols) * col_stride]. The run may begin and end
// anywhere. Per tensor: both strides 0. Per row: block_rows 1, col_stride 0. Per column: block_cols 1,
// row_stride 0. A transposed grid: row_stride 1. With a part of the grid at hand, count `first` from a row
// that starts a block row. cols, block_rows and block_cols are at least 1; scales must cover the run.
struct ScaledRun {
  DType from = DType::F8_E4M3;  // F8_E4M3, F8_E5M2, F8_E4M3FNUZ, F8_E5M2FNUZ
  DType to = DType::BF16;       // BF16, F16, F32
  bool divide = false;
  uint64_t cols = 1, first = 0, count = 0;
  uint64_t block_rows = 1, block_cols = 1;
  const float* scales = nullptr;
  uint64_t row_stride = 0, col_stride = 0;
};

// A rectangle of the matrix product B*A: rows 0..rows of B, columns col_begin..col_end of A. A lies in panels
// of 16 columns (product.h): element (k, j) at panels[(j / 16) * rank * 16 + k * 16 + j % 16], columns past
// the last zero. Row i of B starts at b + i * b_stride, of the output at out + i * out_stride (its column 0
// is col_begin).
template <class T>
struct PanelProduct {
  const T* panels = nullptr;
  const T* b = nullptr;
  uint64_t b_stride = 0, rank = 0, rows = 0, col_begin = 0, col_end = 0;
  T* out = nullptr;
  uint64_t out_stride = 0;
};

// What codes are rounded from, in the arithmetic of `type` (BF16, F16 or F32), to which every step is rounded.
struct QuotientRun {
  DType type = DType::F32;
  float scale = 1.0f;  // positive and finite
  float zero = 0.0f;   // added to the quotient; 0 makes +0 of -0
  float lowest = 0.0f, highest = 0.0f;
};

// Groups of codes of four bits, each looked up in a table of sixteen values of 16 bits. The codes of group g begin at
// codes + g * stride; values follow each other at out.
struct NibbleLookup {
  const uint16_t* tables = nullptr;  // one behind the other
  const uint8_t* which = nullptr;    // the table of each group; null: group g has table g
  const std::byte* codes = nullptr;
  uint64_t groups = 0, group_bytes = 0, stride = 0;
  bool high_first = false;  // of the two codes in a byte
  std::byte* out = nullptr;
};

// A matrix of 16-bit values, its rows so many bytes apart, to its columns as rows.
struct Transposition {
  const std::byte* in = nullptr;
  uint64_t in_stride = 0, rows = 0, columns = 0;
  std::byte* out = nullptr;
  uint64_t out_stride = 0;
};

struct KernelTable {
  const char* name;

  // BF16 to F32: exact, bits appended.
  void (*bf16_to_f32)(const std::byte* in, std::byte* out, uint64_t count) noexcept;
  // F32 to BF16 as bf16_from_f32(). Returns how many finite values became infinite.
  uint64_t (*f32_to_bf16)(const std::byte* in, std::byte* out, uint64_t count) noexcept;
  // F16 to F32 as f32_from_f16(): exact; a NaN becomes quiet.
  void (*f16_to_f32)(const std::byte* in, std::byte* out, uint64_t count) noexcept;
  // F32 to F16 as f16_from_f32(). Returns how many finite values became infinite.
  uint64_t (*f32_to_f16)(const std::byte* in, std::byte* out, uint64_t count) noexcept;

  // FP8 with scales (spec tftf 2.4): y = round(f32(w) * s), or / s: one f32 operation, then one rounding to
  // `to`. NaN (a NaN code or scale, 0 * infinity, 0 / 0, infinity / infinity) gives the canonical NaN of
  // `to`: 7FC0, 7E00, 7FC00000. Returns how many elements with a finite code became infinite (overflow, an
  // infinite scale or a division by zero).
  uint64_t (*dequantize_f8)(const ScaledRun& run, const std::byte* codes, std::byte* out) noexcept;

  // Adds `count` elements, the first of which has index first_index in its tensor, to `into`. Any dtype;
  // sub-byte ones start at a byte.
  void (*scan)(DType dtype, const std::byte* data, uint64_t first_index, uint64_t count, Scan& into) noexcept;
  // Adds elements first..first + count of a block to its Moments; first + count <= kMomentBlock. Any dtype
  // but C64; sub-byte ones start at a byte.
  void (*moments)(DType dtype, const std::byte* data, uint64_t first, uint64_t count, Moments& into) noexcept;

  // out[i][j] = sum over k in increasing order of B[i][k] * A[k][j], starting from +0, product and sum each
  // rounded to T. Rank 0 gives +0. NaN bits are unspecified here (merge_* makes them canonical).
  void (*product_f32)(const PanelProduct<float>& task) noexcept;
  void (*product_f64)(const PanelProduct<double>& task) noexcept;
  // out = round(f32(w) + s * delta): the product rounded to f32, the sum rounded to f32, then one rounding to
  // `to`. from and to: BF16, F16 or F32. NaN gives the canonical NaN. Returns how many elements with a finite
  // w are not finite in the output. `out` may be `w` when from and to are equal.
  uint64_t (*merge_f32)(DType from, DType to, const std::byte* w, float s, const float* delta, std::byte* out,
                        uint64_t count) noexcept;
  // The same for F64 weights, all in f64.
  uint64_t (*merge_f64)(const std::byte* w, double s, const double* delta, std::byte* out,
                        uint64_t count) noexcept;

  // Sum of x[i]^2 in f64 (each square rounded): 16 partial sums, x[i] in number i % 16, then a tree (i with i
  // + 8, + 4,
  // + 2, + 1). NaN bits are unspecified.
  double (*sum_squares_f32)(const float* x, uint64_t count) noexcept;

  // The largest |x| as its bits, which order like numbers: 7F800000 and more says that something is not finite.
  // 0 for no elements.
  uint32_t (*largest_magnitude)(const float* x, uint64_t count) noexcept;
  // codes[i] = clamp(x[i] / scale rounded to a whole number, ties to even; lowest, highest): one division. All
  // |x[i] / scale| must be below 2^22, and the limits those of int8.
  void (*quantize_i8)(const float* x, uint64_t count, float scale, int32_t lowest, int32_t highest,
                      int8_t* codes) noexcept;
  // Codes -8..7 as nibbles, code + 8: the even ones low. After an odd count the last high nibble is 0.
  void (*pack_nibbles)(const int8_t* codes, uint64_t count, std::byte* out) noexcept;
  // codes[i] = E4M3 of x[i] / scale clamped to +-448: one division, then one rounding to nearest even. Finite x and a
  // positive scale.
  void (*quantize_e4m3)(const float* x, uint64_t count, float scale, std::byte* codes) noexcept;
  // out[i] = clamp(x[i] / scale + zero; lowest, highest). Finite x; `out` may be `x`.
  void (*quotients)(const QuotientRun& run, const float* x, uint64_t count, float* out) noexcept;
  // E2M1 codes of x[i], |x[i]| at most 6, to nearest, ties to even; the even ones are the low nibbles. -0 gives the code of
  // +0, a negative that rounds to zero the code 8. After an odd count the last high nibble is 0.
  void (*quantize_e2m1)(const float* x, uint64_t count, std::byte* out) noexcept;
  // 32 magnitudes on the E8 lattice of 256 four-vectors with squared norms n (spec colibri 1.7): for each c of 0..15,
  // db = max(d * (0.5 + c) * 0.5, 1e-20), the nearest entry of every four minimises db * n - 2 * dot (products left to
  // right, the lowest index on ties), error = sum of db * db * n - 2 * db * dot over the fours. Gives the first c with
  // the smallest error, and its eight indices. Finite input.
  uint32_t (*search_e8)(const float* magnitudes, float d, uint8_t* indices) noexcept;

  // Moves bits alone.
  void (*look_up_nibbles)(const NibbleLookup& task) noexcept;
  void (*transpose_16)(const Transposition& task) noexcept;
};

const KernelTable& scalar_kernels() noexcept;
// The tables this machine can run, scalar first, fastest last. Looks at the processor only, never at the
// environment: hosts map their option or variable to find_kernels().
std::span<const KernelTable* const> available_kernels() noexcept;
const KernelTable& best_kernels() noexcept;
// By name ("scalar", "avx2", "wasm128", …); null when unknown or not available here.
const KernelTable* find_kernels(std::string_view name) noexcept;

}  // namespace tftf
