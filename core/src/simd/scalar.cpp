// The specification of the kernels: one element at a time, in the order and with the roundings of
// docs/numerics.md.
#include "simd/convert.h"
#include "simd/tables.h"
#include "tftf/base/checked.h"
#include "tftf/simd/floats.h"

namespace tftf::simd {
namespace {

// F32 to To; how many finite values became infinite.
template <class To>
uint64_t narrow(const std::byte* in, std::byte* out, uint64_t count) {
  uint64_t overflowed = 0;
  for (size_t i = 0; i < count; ++i) {
    const float x = load_le<float>(in + 4 * i);
    const float y = To::store(out + To::kBytes * i, x);
    overflowed += is_finite(x) && is_infinite(y);
  }
  return overflowed;
}

// `count` codes with one scale.
template <class To>
uint64_t dequantize_stretch(const ScaledRun& run, float s, const std::byte* codes, std::byte* out,
                            size_t count) {
  const float* values = f8_values(run.from);
  uint64_t overflowed = 0;
  for (size_t i = 0; i < count; ++i) {
    const float w = values[load_le<uint8_t>(codes + i)];
    const float y = To::store(out + To::kBytes * i, canonical(run.divide ? w / s : w * s));
    overflowed += is_infinite(y) && is_finite(w);
  }
  return overflowed;
}

template <class From, class To>
uint64_t merge(const std::byte* w, float s, const float* delta, std::byte* out, uint64_t count) {
  uint64_t lost = 0;
  for (size_t i = 0; i < count; ++i) {
    const float x = From::load(w + From::kBytes * i);
    const float step = s * delta[i];
    const float y = To::store(out + To::kBytes * i, canonical(x + step));
    lost += !is_finite(y) && is_finite(x);
  }
  return lost;
}

template <class T>
void product(const PanelProduct<T>& task) {
  for (uint64_t i = 0; i < task.rows; ++i) {
    const T* row = task.b + i * task.b_stride;
    T* out = task.out + i * task.out_stride;
    for (uint64_t j = task.col_begin; j < task.col_end;) {
      // The 16 columns of one panel side by side; each column adds its products in the order of k.
      const T* panel = task.panels + (j / 16) * task.rank * 16;
      T sum[16] = {};
      for (uint64_t k = 0; k < task.rank; ++k)
        for (uint64_t c = 0; c < 16; ++c) sum[c] += row[k] * panel[k * 16 + c];
      do {
        out[j - task.col_begin] = sum[j % 16];
        ++j;
      } while (j < task.col_end && j % 16 != 0);
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
  return narrow<AsBf16>(in, out, count);
}
void f16_to_f32(const std::byte* in, std::byte* out, uint64_t count) noexcept {
  for (size_t i = 0; i < count; ++i) store_le(out + 4 * i, AsF16::load(in + 2 * i));
}
uint64_t f32_to_f16(const std::byte* in, std::byte* out, uint64_t count) noexcept {
  return narrow<AsF16>(in, out, count);
}

uint64_t dequantize_f8(const ScaledRun& run, const std::byte* codes, std::byte* out) noexcept {
  return with_float(run.to, [&](auto to) {
    using To = decltype(to);
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
      overflowed += dequantize_stretch<To>(run, s, codes + done, out + To::kBytes * done, to_size(length));
      done += length;
      column += length;
      if (column == run.cols) {
        column = 0;
        ++row;
      }
    }
    return overflowed;
  });
}

void product_f32(const PanelProduct<float>& task) noexcept { product(task); }
void product_f64(const PanelProduct<double>& task) noexcept { product(task); }

uint64_t merge_f32(DType from, DType to, const std::byte* w, float s, const float* delta, std::byte* out,
                   uint64_t count) noexcept {
  return with_float(from, [&](auto source) {
    return with_float(
        to, [&](auto target) { return merge<decltype(source), decltype(target)>(w, s, delta, out, count); });
  });
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

void look_up_nibbles(const NibbleLookup& task) noexcept {
  std::byte* out = task.out;
  for (uint64_t g = 0; g < task.groups; ++g) {
    const uint16_t* const values = task.tables + (task.which != nullptr ? task.which[g] : g) * 16;
    const std::byte* const codes = task.codes + g * task.stride;
    for (uint64_t i = 0; i < task.group_bytes; ++i) {
      const auto pair = static_cast<uint32_t>(codes[i]);
      const uint32_t low = values[pair & 15], high = values[pair >> 4];
      store_le(out, task.high_first ? high | low << 16 : low | high << 16);  // one store for both
      out += 4;
    }
  }
}

void transpose_16(const Transposition& task) noexcept {
  for (uint64_t r = 0; r < task.rows; ++r)
    for (uint64_t c = 0; c < task.columns; ++c)
      store_le(task.out + c * task.out_stride + r * 2,
               load_le<uint16_t>(task.in + r * task.in_stride + c * 2));
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
    scalar::largest_magnitude,
    scalar::quantize_i8,
    scalar::pack_nibbles,
    scalar::quantize_e4m3,
    scalar::quotients,
    scalar::quantize_e2m1,
    scalar::search_e8,
    scalar::look_up_nibbles,
    scalar::transpose_16,
};

}  // namespace tftf::simd
