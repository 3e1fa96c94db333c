// Low-rank products: the order of the sum, the merge, and rectangles of any size, in every table.
#include "tftf/simd/product.h"

#include "kernel_tables.h"
#include "tftf/simd/cast.h"
#include "tftf/simd/floats.h"

#include <cmath>

using namespace tftf;
using namespace tftf::test;

namespace {

template <class T>
std::vector<T> random_values(size_t count, std::mt19937& random) {
  std::vector<T> values(count);
  for (T& value : values) value = (static_cast<T>(random() % 200001) - 100000) / static_cast<T>(7919);
  return values;
}

template <class T>
void product_with(const KernelTable& table, const PanelProduct<T>& task) {
  if constexpr (sizeof(T) == 4) {
    table.product_f32(task);
  } else {
    table.product_f64(task);
  }
}

template <class T>
void check_products() {
  std::mt19937 random(kSeed);
  constexpr DType kDType = sizeof(T) == 4 ? DType::F32 : DType::F64;
  for (int round = 0; round < 200; ++round) {
    const uint64_t rank = round == 0 ? 0 : 1 + random() % 40, rows = 1 + random() % 20,
                   cols = 1 + random() % 100;
    const bool transposed = random() % 2 == 0;
    const std::vector<T> a = random_values<T>(rank * cols, random),
                         b = random_values<T>(rows * (rank + 3), random);
    std::vector<T> panels(panel_elements(rank, cols), T(99));
    const uint64_t begin = random() % cols, end = begin + 1 + random() % (cols - begin);
    for (const KernelTable* table : available_kernels()) {
      INFO(table->name << " rank " << rank << " rows " << rows << " columns " << begin << ".." << end
                       << " of " << cols);
      pack_panels(*table, kDType, reinterpret_cast<const std::byte*>(a.data()), transposed, rank, cols,
                  panels.data());
      std::vector<T> out(rows * 128, T(-7));
      PanelProduct<T> task;
      task.panels = panels.data();
      task.b = b.data();
      task.b_stride = rank + 3;
      task.rank = rank;
      task.rows = rows;
      task.col_begin = begin;
      task.col_end = end;
      task.out = out.data();
      task.out_stride = 128;
      product_with(*table, task);
      size_t wrong = 0;
      for (uint64_t i = 0; i < rows; ++i) {
        for (uint64_t j = 0; j < 128; ++j) {
          T want = -7;
          if (j < end - begin) {
            want = 0;
            for (uint64_t k = 0; k < rank; ++k) {
              const T product =
                  b[i * (rank + 3) + k] * (transposed ? a[(begin + j) * rank + k] : a[k * cols + begin + j]);
              want += product;
            }
          }
          wrong += std::memcmp(&out[i * 128 + j], &want, sizeof(T)) != 0;
        }
      }
      CHECK(wrong == 0);
    }
  }
}

}  // namespace

TEST_CASE("F32 products add in the order of the rank") { check_products<float>(); }
TEST_CASE("F64 products add in the order of the rank") { check_products<double>(); }

TEST_CASE("the order and the separate rounding of the sum are visible") {
  // 2^24 + 1 + 1 in F32 is 2^24 when added one by one from the left, 2^24 + 2 from the right; and with a
  // fused multiply-add 0.1 * 10 - 1 is not 0.
  const float a[] = {16777216.0f, 1, 1};
  const float b[] = {1, 1, 1};
  const float c[] = {-1, 0.1f}, d[] = {1, 10};
  for (const KernelTable* table : available_kernels()) {
    float panel[48] = {}, out[16];
    pack_panels(*table, DType::F32, reinterpret_cast<const std::byte*>(a), false, 3, 1, panel);
    PanelProduct<float> task;
    task.panels = panel;
    task.b = b;
    task.b_stride = task.rank = 3;
    task.rows = task.col_end = 1;
    task.out = out;
    task.out_stride = 16;
    table->product_f32(task);
    CHECK(out[0] == 16777216.0f);
    pack_panels(*table, DType::F32, reinterpret_cast<const std::byte*>(c), false, 2, 1, panel);
    task.b = d;
    task.rank = 2;
    table->product_f32(task);
    CHECK(out[0] == 0.0f);
  }
}

TEST_CASE("panels take any float dtype") {
  const uint16_t halves[] = {0x3C00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600};
  float panel[32], turned[48];
  pack_panels(best_kernels(), DType::F16, reinterpret_cast<const std::byte*>(halves), false, 2, 3, panel);
  for (int k = 0; k < 2; ++k)
    for (int j = 0; j < 16; ++j)
      CHECK(panel[16 * k + j] == (j < 3 ? static_cast<float>(3 * k + j + 1) : 0.0f));
  pack_panels(best_kernels(), DType::F16, reinterpret_cast<const std::byte*>(halves), true, 3, 2, turned);
  for (int k = 0; k < 3; ++k)
    for (int j = 0; j < 16; ++j)
      CHECK(turned[16 * k + j] == (j < 2 ? static_cast<float>(3 * j + k + 1) : 0.0f));
}

namespace {

// One element by the rule: bits of the target.
uint64_t merged(DType from, DType to, const std::byte* w, size_t i, float s, float delta) {
  const float x = from == DType::BF16  ? f32_from_bf16(load_le<uint16_t>(w + 2 * i))
                  : from == DType::F16 ? f32_from_f16(load_le<uint16_t>(w + 2 * i))
                                       : load_le<float>(w + 4 * i);
  const float step = s * delta;
  const float y = x + step;
  if (std::isnan(y)) return to == DType::BF16 ? 0x7FC0 : to == DType::F16 ? 0x7E00 : 0x7FC00000;
  return to == DType::BF16  ? bf16_from_f32(y)
         : to == DType::F16 ? f16_from_f32(y)
                            : tftf::bit_cast<uint32_t>(y);
}

}  // namespace

TEST_CASE("merging is the same in every table, in place too") {
  std::mt19937 random(kSeed);
  const std::vector<uint32_t> special = interesting_f32();
  for (DType from : {DType::BF16, DType::F16, DType::F32}) {
    for (DType to : {DType::BF16, DType::F16, DType::F32}) {
      for (int round = 0; round < 120; ++round) {
        const size_t count = round < 80 ? static_cast<size_t>(round) : 1000;
        const size_t in_size = dtype_bits(from) / 8, out_size = dtype_bits(to) / 8;
        const float s = round % 10 == 0 ? 1e38f : static_cast<float>(random() % 1000) / 333.0f;
        std::vector<float> delta(count);
        std::vector<std::byte> w(count * in_size);
        for (size_t i = 0; i < count; ++i) {
          const bool odd = round % 3 == 0 && random() % 5 == 0;
          delta[i] = odd ? tftf::bit_cast<float>(special[random() % special.size()])
                         : (static_cast<float>(random() % 2001) - 1000.0f) / 1000.0f;
          uint32_t bits = static_cast<uint32_t>(random());
          if (round % 3 != 0) bits &= 0xBBFFBBFF;
          std::memcpy(w.data() + i * in_size, &bits, in_size);
        }
        Buffer want(count * out_size);
        uint64_t lost = 0;
        for (size_t i = 0; i < count; ++i) {
          const uint64_t bits = merged(from, to, w.data(), i, s, delta[i]);
          std::memcpy(want.data() + i * out_size, &bits, out_size);
          lost += std::isfinite(element_as_f64(from, w.data(), i)) &&
                  !std::isfinite(element_as_f64(to, want.data(), i));
        }
        for (const KernelTable* table : available_kernels()) {
          INFO(table->name << " " << dtype_name(from) << " to " << dtype_name(to) << " count " << count
                           << " seed " << kSeed);
          Buffer out(want.size(), 1 + random() % 60);
          CHECK(table->merge_f32(from, to, w.data(), s, delta.data(), out.data(), count) == lost);
          CHECK(out == want);
          CHECK(out.guards_intact());
          if (from != to) continue;
          if (count > 0) std::memcpy(out.data(), w.data(), w.size());
          CHECK(table->merge_f32(from, to, out.data(), s, delta.data(), out.data(), count) == lost);
          CHECK(out == want);
        }
      }
    }
  }
}

TEST_CASE("F64 merging is the same in every table") {
  std::mt19937 random(kSeed);
  for (size_t count = 0; count < 60; ++count) {
    std::vector<double> w = random_values<double>(count, random),
                        delta = random_values<double>(count, random);
    if (count > 40) {
      w[random() % count] = INFINITY;
      delta[random() % count] = NAN;
      w[random() % count] = 1.7e308;
      delta[random() % count] = 1.7e308;
    }
    Buffer want(8 * count);
    uint64_t lost = 0;
    for (size_t i = 0; i < count; ++i) {
      const double step = 1.1 * delta[i];
      double y = w[i] + step;
      if (std::isnan(y)) y = tftf::bit_cast<double>(uint64_t{0x7FF8000000000000});
      store_le(want.data() + 8 * i, y);
      lost += std::isfinite(w[i]) && !std::isfinite(y);
    }
    for (const KernelTable* table : available_kernels()) {
      INFO(table->name << " count " << count);
      Buffer in(8 * count, 3), out(8 * count, 5);
      if (count > 0) std::memcpy(in.data(), w.data(), 8 * count);
      CHECK(table->merge_f64(in.data(), 1.1, delta.data(), out.data(), count) == lost);
      CHECK(out == want);
      CHECK(out.guards_intact());
    }
  }
}

TEST_CASE("a merged rectangle is product then merge, whatever the strips") {
  std::mt19937 random(kSeed);
  for (int round = 0; round < 30; ++round) {
    const uint64_t rank = 1 + random() % 20, rows = 1 + random() % 30, cols = 1 + random() % 300;
    const uint64_t begin = random() % cols, width = 1 + random() % (cols - begin);
    const std::vector<float> a = random_values<float>(rank * cols, random),
                             b = random_values<float>(rows * rank, random);
    std::vector<uint16_t> w(rows * width);
    for (uint16_t& x : w) x = bf16_from_f32(static_cast<float>(random() % 1000) / 100.0f);
    for (const KernelTable* table : available_kernels()) {
      INFO(table->name << " round " << round << " seed " << kSeed);
      std::vector<float> panels(panel_elements(rank, cols)), delta(rows * width);
      pack_panels(*table, DType::F32, reinterpret_cast<const std::byte*>(a.data()), false, rank, cols,
                  panels.data());
      PanelProduct<float> task;
      task.panels = panels.data();
      task.b = b.data();
      task.b_stride = task.rank = rank;
      task.rows = rows;
      task.col_begin = begin;
      task.col_end = begin + width;
      task.out = delta.data();
      task.out_stride = width;
      table->product_f32(task);
      Buffer want(2 * w.size()), out(2 * w.size(), 1);
      const auto* base = reinterpret_cast<const std::byte*>(w.data());
      table->merge_f32(DType::BF16, DType::BF16, base, 0.7f, delta.data(), want.data(), w.size());
      CHECK(merge_product(*table, task, DType::BF16, DType::BF16, 0.7f, base, out.data(), width) == 0);
      CHECK(out == want);
      CHECK(out.guards_intact());
    }
  }
}

TEST_CASE("a merged F64 rectangle counts what is lost") {
  std::vector<double> panels(16, 0.0);
  panels[0] = 1e308;
  const double b[] = {1, 10}, w[] = {1e308, 1e308};
  PanelProduct<double> task;
  task.panels = panels.data();
  task.b = b;
  task.b_stride = task.rank = 1;
  task.rows = 2;
  task.col_end = 1;
  for (const KernelTable* table : available_kernels()) {
    double out[2];
    CHECK(merge_product(*table, task, 0.5, reinterpret_cast<const std::byte*>(w),
                        reinterpret_cast<std::byte*>(out), 1) == 1);
    CHECK(out[0] == 1.5e308);
    CHECK(std::isinf(out[1]));
  }
}
