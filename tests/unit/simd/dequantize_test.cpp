// FP8 with scales: the scalar kernel against the formula, the other tables against the scalar one, for every
// code, type, target and kind of scale, and for runs that begin and end anywhere.
#include "kernel_tables.h"
#include "simd/code_table.h"
#include "tftf/simd/floats.h"

#include <cmath>

using namespace tftf;
using namespace tftf::test;

namespace {

constexpr DType kSources[] = {DType::F8_E4M3, DType::F8_E5M2, DType::F8_E4M3FNUZ, DType::F8_E5M2FNUZ};
constexpr DType kTargets[] = {DType::BF16, DType::F16, DType::F32};

// Zero, subnormal, infinite, NaN, huge, tiny, the borders of the fast paths, and seeded ordinary ones.
std::vector<float> scales(std::mt19937& random, size_t ordinary) {
  std::vector<float> list = {
      0.0f,    1.0f,          1e-45f,        1e-40f, 1.17549435e-38f,
      3.4e38f, 1e33f,         1.0000001e33f, 1e-33f, 9.999999e-34f,
      1e36f,   146.25f,       146.0f,        145.0f, 145.09f,
      1.14f,   1.1335f,       1.1426f,       273.0f, 270.8f,
      6e-8f,   5.9604645e-8f, INFINITY,      NAN,    tftf::bit_cast<float>(0x7F800001u)};
  for (size_t i = 0; i < ordinary; ++i)
    list.push_back(std::ldexp(1.0f + static_cast<float>(random() % 8388608) / 8388608.0f,
                              static_cast<int>(random() % 40) - 25));
  const size_t half = list.size();
  for (size_t i = 0; i < half; ++i) list.push_back(-list[i]);
  return list;
}

// Every way to do it: the tables', and the one through code tables, which only some of them use.
struct Way {
  const char* name;
  uint64_t (*dequantize)(const ScaledRun&, const std::byte*, std::byte*) noexcept;
};
std::vector<Way> ways() {
  std::vector<Way> list = {{"code tables", simd::code_table::dequantize_f8}};
  for (const KernelTable* table : available_kernels()) list.push_back({table->name, table->dequantize_f8});
  return list;
}

uint64_t formula(DType from, DType to, bool divide, uint8_t code, float s) {
  const float w = f8_values(from)[code];
  const float y = divide ? w / s : w * s;
  if (std::isnan(y)) return to == DType::BF16 ? 0x7FC0 : to == DType::F16 ? 0x7E00 : 0x7FC00000;
  return to == DType::BF16  ? bf16_from_f32(y)
         : to == DType::F16 ? f16_from_f32(y)
                            : tftf::bit_cast<uint32_t>(y);
}

}  // namespace

TEST_CASE("every FP8 code with every kind of scale") {
  std::mt19937 random(kSeed);
  std::byte codes[256];
  for (int i = 0; i < 256; ++i) codes[i] = static_cast<std::byte>(i);
  for (float s : scales(random, 100)) {
    for (DType from : kSources) {
      for (DType to : kTargets) {
        for (bool divide : {false, true}) {
          ScaledRun run;
          run.from = from;
          run.to = to;
          run.divide = divide;
          run.cols = run.block_cols = run.count = 256;
          run.scales = &s;
          Buffer want(256 * dtype_bits(to) / 8);
          uint64_t overflowed = 0;
          for (int code = 0; code < 256; ++code) {
            const uint64_t bits = formula(from, to, divide, static_cast<uint8_t>(code), s);
            std::memcpy(want.data() + static_cast<size_t>(code) * dtype_bits(to) / 8, &bits,
                        dtype_bits(to) / 8);
            overflowed +=
                std::isfinite(f8_values(from)[code]) && std::isinf(element_as_f64(to, want.data(), code));
          }
          for (const Way& way : ways()) {
            Buffer out(want.size(), 1);
            const uint64_t count = way.dequantize(run, codes, out.data());
            if (!(out == want) || count != overflowed || !out.guards_intact())
              FAIL_CHECK(way.name << " " << dtype_name(from) << " to " << dtype_name(to) << " scale " << s
                                  << " divide " << divide << " overflowed " << count << " of " << overflowed);
            // The finite codes alone: no NaN sends the stretch to a slower path.
            ScaledRun finite = run;
            finite.count = finite.cols = finite.block_cols = 0x7C;
            Buffer part(0x7C * dtype_bits(to) / 8, 3);
            way.dequantize(finite, codes, part.data());
            if (std::memcmp(part.data(), want.data(), part.size()) != 0 || !part.guards_intact())
              FAIL_CHECK(way.name << " finite codes " << dtype_name(from) << " to " << dtype_name(to)
                                  << " scale " << s);
          }
        }
      }
    }
  }
}

TEST_CASE("runs begin and end anywhere in rows and blocks") {
  std::mt19937 random(kSeed);
  const std::vector<float> pool = scales(random, 200);
  for (int round = 0; round < 1500; ++round) {
    const uint64_t rows = 1 + random() % (round % 10 == 0 ? 200 : 9), cols = 1 + random() % 300;
    ScaledRun run;
    run.from = kSources[random() % 4];
    run.to = kTargets[random() % 3];
    run.divide = random() % 4 == 0;
    run.cols = cols;
    const uint64_t sizes[] = {1, 2, 7, 16, 32, 64, 100, 128, 1000};
    run.block_rows = sizes[random() % 9];
    run.block_cols = sizes[random() % 9];
    const uint64_t grid_rows = (rows - 1) / run.block_rows + 1, grid_cols = (cols - 1) / run.block_cols + 1;
    const bool transposed = random() % 4 == 0;
    run.row_stride = transposed ? 1 : grid_cols;
    run.col_stride = transposed ? grid_rows : 1;
    std::vector<float> grid(grid_rows * grid_cols);
    for (float& s : grid)
      s = random() % 10 == 0 ? pool[random() % pool.size()]
                             : 0.5f + static_cast<float>(random() % 1000) / 997.0f;
    run.scales = grid.data();
    run.first = random() % (rows * cols);
    run.count = random() % (rows * cols - run.first + 1);
    std::vector<std::byte> codes(run.count);
    for (std::byte& code : codes)
      code = static_cast<std::byte>(random() % 50 == 0 ? 0x7F : random() % 0x7C + random() % 2 * 0x80);
    const size_t out_bytes = run.count * dtype_bits(run.to) / 8;
    Buffer want(out_bytes);
    uint64_t overflowed = 0;
    for (uint64_t e = 0; e < run.count; ++e) {
      const uint64_t i = (run.first + e) / cols, j = (run.first + e) % cols;
      const float s = grid[i / run.block_rows * run.row_stride + j / run.block_cols * run.col_stride];
      const auto code = std::to_integer<uint8_t>(codes[e]);
      const uint64_t bits = formula(run.from, run.to, run.divide, code, s);
      std::memcpy(want.data() + e * dtype_bits(run.to) / 8, &bits, dtype_bits(run.to) / 8);
      overflowed +=
          std::isfinite(f8_values(run.from)[code]) && std::isinf(element_as_f64(run.to, want.data(), e));
    }
    for (const Way& way : ways()) {
      INFO(way.name << " seed " << kSeed << " round " << round);
      Buffer out(out_bytes, random() % 64);
      CHECK(way.dequantize(run, codes.data(), out.data()) == overflowed);
      CHECK(out == want);
      CHECK(out.guards_intact());
    }
  }
}

TEST_CASE("known answers of FP8 dequantisation") {
  // 1.5 * 0.00390625, -448 * 0.3 (134.399994 in F32, 134 in BF16), NaN, and the smallest code.
  const uint8_t codes[] = {0x3C, 0xFE, 0x7F, 0x01};
  const float grid[] = {0.00390625f, 0.3f, 1.0f, 2.0f};
  ScaledRun run;
  run.cols = run.count = 4;
  run.scales = grid;
  run.col_stride = 1;
  const uint16_t bf16[] = {0x3BC0, 0xC306, 0x7FC0, 0x3B80};
  const uint16_t f16[] = {0x1E00, 0xD833, 0x7E00, 0x1C00};
  const uint32_t f32[] = {0x3BC00000, 0xC3066667, 0x7FC00000, 0x3B800000};
  for (const Way& way : ways()) {
    std::byte out[16];
    const auto* in = reinterpret_cast<const std::byte*>(codes);
    CHECK(way.dequantize(run, in, out) == 0);
    CHECK(std::memcmp(out, bf16, 8) == 0);
    run.to = DType::F16;
    CHECK(way.dequantize(run, in, out) == 0);
    CHECK(std::memcmp(out, f16, 8) == 0);
    run.to = DType::F32;
    CHECK(way.dequantize(run, in, out) == 0);
    CHECK(std::memcmp(out, f32, 16) == 0);
    run.to = DType::BF16;
  }
}
