// The specification of the kernels: one element at a time, in the order and with the roundings of
// docs/numerics.md.
#include "simd/tables.h"
#include "tftf/base/bytes.h"
#include "tftf/simd/floats.h"

namespace tftf::simd {
namespace {

bool is_finite(float x) { return (bit_cast<uint32_t>(x) & 0x7FFFFFFFu) < 0x7F800000u; }
bool is_finite(double x) { return (bit_cast<uint64_t>(x) & 0x7FFFFFFFFFFFFFFFu) < 0x7FF0000000000000u; }
bool is_infinite(float x) { return (bit_cast<uint32_t>(x) & 0x7FFFFFFFu) == 0x7F800000u; }

// A result of arithmetic with its NaN made canonical.
float canonical(float x) { return x == x ? x : bit_cast<float>(uint32_t{0x7FC00000}); }
double canonical(double x) { return x == x ? x : bit_cast<double>(uint64_t{0x7FF8000000000000}); }

float load_f32(DType dtype, const std::byte* data, size_t i) {
  switch (dtype) {
    case DType::BF16:
      return f32_from_bf16(load_le<uint16_t>(data + 2 * i));
    case DType::F16:
      return f32_from_f16(load_le<uint16_t>(data + 2 * i));
    default:
      return load_le<float>(data + 4 * i);
  }
}

// Rounds x to dtype, stores it as element i and returns the stored value.
float store_f32(DType dtype, std::byte* data, size_t i, float x) {
  switch (dtype) {
    case DType::BF16: {
      const uint16_t code = bf16_from_f32(x);
      store_le(data + 2 * i, code);
      return f32_from_bf16(code);
    }
    case DType::F16: {
      const uint16_t code = f16_from_f32(x);
      store_le(data + 2 * i, code);
      return f32_from_f16(code);
    }
    default:
      store_le(data + 4 * i, x);
      return x;
  }
}

template <class T>
void product(const PanelProduct<T>& task) {
  for (uint64_t i = 0; i < task.rows; ++i) {
    const T* row = task.b + i * task.b_stride;
    T* out = task.out + i * task.out_stride;
    for (uint64_t j = task.col_begin; j < task.col_end; ++j) {
      const T* column = task.panels + (j / 16) * task.rank * 16 + j % 16;
      T sum = 0;
      for (uint64_t k = 0; k < task.rank; ++k) sum += row[k] * column[k * 16];
      out[j - task.col_begin] = sum;
    }
  }
}

}  // namespace

namespace scalar {

void bf16_to_f32(const std::byte* in, std::byte* out, uint64_t count) noexcept {
  for (size_t i = 0; i < count; ++i)
    store_le(out + 4 * i, static_cast<uint32_t>(load_le<uint16_t>(in + 2 * i)) << 16);
}

uint64_t f32_to_bf16(const std::byte* in, std::byte* out, uint64_t count) noexcept {
  uint64_t overflowed = 0;
  for (size_t i = 0; i < count; ++i) {
    const float x = load_le<float>(in + 4 * i);
    const float y = store_f32(DType::BF16, out, i, x);
    overflowed += is_finite(x) && is_infinite(y);
  }
  return overflowed;
}

void f16_to_f32(const std::byte* in, std::byte* out, uint64_t count) noexcept {
  for (size_t i = 0; i < count; ++i) store_le(out + 4 * i, f32_from_f16(load_le<uint16_t>(in + 2 * i)));
}

uint64_t f32_to_f16(const std::byte* in, std::byte* out, uint64_t count) noexcept {
  uint64_t overflowed = 0;
  for (size_t i = 0; i < count; ++i) {
    const float x = load_le<float>(in + 4 * i);
    const float y = store_f32(DType::F16, out, i, x);
    overflowed += is_finite(x) && is_infinite(y);
  }
  return overflowed;
}

uint64_t dequantize_f8(const ScaledRun& run, const std::byte* codes, std::byte* out) noexcept {
  const float* values = f8_values(run.from);
  uint64_t overflowed = 0;
  uint64_t row = run.first / run.cols, column = run.first % run.cols;
  for (uint64_t done = 0; done < run.count;) {
    // One stretch: what is left of this row, this block and this run.
    const uint64_t block = column / run.block_cols;
    const uint64_t in_block = run.block_cols - column % run.block_cols;
    uint64_t length = run.cols - column;
    if (length > in_block) length = in_block;
    if (length > run.count - done) length = run.count - done;
    const float s = run.scales[(row / run.block_rows) * run.row_stride + block * run.col_stride];
    for (uint64_t e = done; e < done + length; ++e) {
      const float w = values[load_le<uint8_t>(codes + e)];
      const float y = store_f32(run.to, out, e, canonical(run.divide ? w / s : w * s));
      overflowed += is_finite(w) && is_infinite(y);
    }
    done += length;
    column += length;
    if (column == run.cols) {
      column = 0;
      ++row;
    }
  }
  return overflowed;
}

void product_f32(const PanelProduct<float>& task) noexcept { product(task); }
void product_f64(const PanelProduct<double>& task) noexcept { product(task); }

uint64_t merge_f32(DType from, DType to, const std::byte* w, float s, const float* delta, std::byte* out,
                   uint64_t count) noexcept {
  uint64_t lost = 0;
  for (size_t i = 0; i < count; ++i) {
    const float x = load_f32(from, w, i);
    const float step = s * delta[i];
    const float y = store_f32(to, out, i, canonical(x + step));
    lost += !is_finite(y) && is_finite(x);
  }
  return lost;
}

uint64_t merge_f64(const std::byte* w, double s, const double* delta, std::byte* out,
                   uint64_t count) noexcept {
  uint64_t lost = 0;
  for (size_t i = 0; i < count; ++i) {
    const double x = load_le<double>(w + 8 * i);
    const double step = s * delta[i];
    const double y = canonical(x + step);
    store_le(out + 8 * i, y);
    lost += !is_finite(y) && is_finite(x);
  }
  return lost;
}

double sum_squares_f32(const float* x, uint64_t count) noexcept {
  double sum[16] = {};
  for (size_t i = 0; i < count; ++i) {
    const double value = static_cast<double>(x[i]);
    sum[i % 16] += value * value;
  }
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) sum[i] += sum[i + half];
  return sum[0];
}

}  // namespace scalar

constinit const KernelTable kScalar = {
    "scalar",
    scalar::bf16_to_f32,
    scalar::f32_to_bf16,
    scalar::f16_to_f32,
    scalar::f32_to_f16,
    scalar::dequantize_f8,
    scalar::scan,
    scalar::moments,
    scalar::product_f32,
    scalar::product_f64,
    scalar::merge_f32,
    scalar::merge_f64,
    scalar::sum_squares_f32,
};

}  // namespace tftf::simd
