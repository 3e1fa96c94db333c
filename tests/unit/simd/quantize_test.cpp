// Quantising kernels: the scalar table against the definition, every other table against the scalar one.
#include <cmath>

#include "kernel_tables.h"
#include "tftf/simd/floats.h"

using namespace tftf;
using namespace tftf::test;

namespace {

float f32_of(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

std::vector<float> quantize_values(size_t count, std::mt19937& random) {
  std::vector<float> values(count);
  for (float& x : values) x = (static_cast<float>(random() % 20001) - 10000.0f) / 7919.0f;
  return values;
}

}  // namespace

TEST_CASE("the largest magnitude is found wherever it is, as bits that tell what is not finite") {
  const std::vector<uint32_t> patterns = interesting_f32();
  std::mt19937 random(kSeed);
  for (const KernelTable* table : available_kernels()) {
    INFO(table->name);
    CHECK(table->largest_magnitude(nullptr, 0) == 0);
    for (size_t count : {1u, 7u, 8u, 15u, 16u, 17u, 33u, 64u, 200u}) {
      for (int round = 0; round < 60; ++round) {
        std::vector<float> x(count);
        uint32_t want = 0;
        for (float& value : x) {
          const uint32_t bits = patterns[random() % patterns.size()];
          value = f32_of(bits);
          want = std::max(want, bits & 0x7FFFFFFFu);
        }
        CHECK(table->largest_magnitude(x.data(), count) == want);
      }
    }
  }
}

TEST_CASE("codes of int8 are quotients rounded to even and clamped, in every table") {
  std::mt19937 random(kSeed);
  for (const KernelTable* table : available_kernels()) {
    INFO(table->name);
    // Halves are ties.
    std::vector<float> ties;
    for (int i = -600; i <= 600; ++i) ties.push_back(static_cast<float>(i) * 0.25f);
    ties.push_back(-0.0f);
    ties.push_back(1e-42f);
    for (const auto& [low, high] : {std::pair{-128, 127}, {-16, 15}, {-8, 7}, {-8, 1}, {-4, 3}, {-2, 1}}) {
      std::vector<int8_t> codes(ties.size());
      table->quantize_i8(ties.data(), ties.size(), 0.5f, low, high, codes.data());
      for (size_t i = 0; i < ties.size(); ++i) {
        const float whole = std::min(std::max(std::nearbyint(ties[i] / 0.5f), static_cast<float>(low)),
                                     static_cast<float>(high));
        CHECK(codes[i] == static_cast<int>(whole));
      }
    }
    for (size_t count : {0u, 1u, 31u, 32u, 33u, 63u, 64u, 95u, 512u}) {
      const std::vector<float> x = quantize_values(count, random);
      Buffer got(count, 3), want(count, 3);
      table->quantize_i8(x.data(), count, 0.0101f, -128, 127, reinterpret_cast<int8_t*>(got.data()));
      scalar_kernels().quantize_i8(x.data(), count, 0.0101f, -128, 127,
                                   reinterpret_cast<int8_t*>(want.data()));
      CHECK((got == want && got.guards_intact()));
    }
  }
}

TEST_CASE("nibbles hold code + 8, the even ones low, and an odd end leaves a zero") {
  std::mt19937 random(kSeed);
  for (const KernelTable* table : available_kernels()) {
    INFO(table->name);
    for (size_t count = 0; count < 130; ++count) {
      std::vector<int8_t> codes(count);
      for (int8_t& code : codes) code = static_cast<int8_t>(static_cast<int>(random() % 16) - 8);
      Buffer got((count + 1) / 2, 5);
      table->pack_nibbles(codes.data(), count, got.data());
      bool right = got.guards_intact();
      for (size_t k = 0; k < got.size(); ++k) {
        const int low = codes[2 * k] + 8, high = 2 * k + 1 < count ? codes[2 * k + 1] + 8 : 0;
        right = right && static_cast<int>(got.data()[k]) == (low | high << 4);
      }
      CHECK(right);
    }
  }
}

TEST_CASE("codes of E4M3 are those of the conversion, for every magnitude and every table") {
  std::vector<float> x;
  // All bit patterns of 12 leading bits, and neighbours of every tie between codes.
  for (uint32_t top = 0; top < 0x1000; ++top) {
    if ((top & 0x7F8) == 0x7F8) continue;  // not finite
    for (uint32_t low : {0x0u, 0x1u, 0x7FFFFu, 0x80000u, 0x80001u, 0xFFFFFu})
      x.push_back(f32_of(top << 20 | low));
  }
  for (const KernelTable* table : available_kernels()) {
    INFO(table->name);
    for (const float scale : {1.0f, 0.75f, 3.0e-5f}) {
      std::vector<std::byte> codes(x.size());
      table->quantize_e4m3(x.data(), x.size(), scale, codes.data());
      size_t wrong = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const float y = std::min(std::max(x[i] / scale, -448.0f), 448.0f);
        wrong += static_cast<uint8_t>(codes[i]) != f8_from_f32(DType::F8_E4M3, y, Overflow::kSaturate);
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("the lattice search of every table gives the scalar one's entries, ties and zeros too") {
  std::mt19937 random(kSeed);
  std::normal_distribution<float> normal(0, 1);
  const auto check = [&](const float* magnitudes, float d) {
    uint8_t want[8];
    const uint32_t c = scalar_kernels().search_e8(magnitudes, d, want);
    for (const KernelTable* table : vector_tables()) {
      INFO(table->name);
      uint8_t got[8];
      CHECK(table->search_e8(magnitudes, d, got) == c);
      CHECK(std::equal(got, got + 8, want));
    }
  };
  float m[32];
  for (int round = 0; round < 300; ++round) {
    for (float& x : m) x = std::fabs(normal(random)) * (round % 3 == 0 ? 1e-3f : 1.0f);
    check(m, f32_from_f16(f16_from_f32((round % 3 == 0 ? 1e-3f : 1.0f) / 20.0f)));
  }
  // Exact ties: constant magnitudes, few different ones, zeros, a scale of zero.
  for (const float value : {0.0f, 1.0f, 0.1f, 3e4f}) {
    std::fill(m, m + 32, value);
    for (const float d : {0.0f, 5.9604645e-8f, 0.05f, 1.0f, 60000.0f}) check(m, d);
  }
  for (int round = 0; round < 100; ++round) {
    for (float& x : m) x = static_cast<float>(random() % 4) * 0.25f;
    check(m, 0.0126953125f);
  }
}

TEST_CASE("quotients are rounded at every step in the arithmetic of their type, in every table") {
  std::mt19937 random(kSeed);
  const auto rounded = [](DType type, float x) {
    if (type == DType::BF16) return f32_from_bf16(bf16_from_f32(x));
    return type == DType::F16 ? f32_from_f16(f16_from_f32(x)) : x;
  };
  for (const KernelTable* table : available_kernels()) {
    INFO(table->name);
    for (const DType type : {DType::BF16, DType::F16, DType::F32}) {
      for (const float zero : {0.0f, -3.0f, 5.0f}) {
        for (size_t count : {0u, 1u, 7u, 8u, 9u, 33u, 200u}) {
          std::vector<float> x = quantize_values(count, random);
          if (count > 3) {
            x[0] = -0.0f;
            x[1] = 1e-39f;
            x[2] = -60000.0f;
            x[3] = 3e38f;
          }
          const QuotientRun run{type, 0.0173f, zero, -8.0f, 7.0f};
          std::vector<float> got(count);
          table->quotients(run, x.data(), count, got.data());
          for (size_t i = 0; i < count; ++i) {
            INFO(x[i]);
            const float y = rounded(type, rounded(type, x[i] / run.scale) + zero);
            const float want = std::min(std::max(y, -8.0f), 7.0f);
            CHECK(got[i] == want);
            CHECK(std::signbit(got[i]) == std::signbit(want));
          }
          table->quotients(run, x.data(), count, x.data());
          CHECK(x == got);
        }
      }
    }
  }
}

TEST_CASE("E2M1 codes are the nearest, ties to even, in every table") {
  std::vector<float> values;
  for (int i = -600; i <= 600; ++i) values.push_back(static_cast<float>(i) * 0.01f);
  for (const float tie : {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f})
    for (const float sign : {1.0f, -1.0f}) values.push_back(tie * sign);
  values.push_back(-0.0f);
  values.push_back(-1e-30f);
  for (const KernelTable* table : available_kernels()) {
    INFO(table->name);
    for (const size_t count :
         {values.size(), values.size() - 1, size_t{1}, size_t{31}, size_t{32}, size_t{33}}) {
      Buffer out((count + 1) / 2, 1);
      table->quantize_e2m1(values.data(), count, out.data());
      for (size_t i = 0; i < count; ++i) {
        INFO(values[i]);
        const auto code = (static_cast<uint8_t>(out.data()[i / 2]) >> (i % 2 * 4)) & 15;
        const uint8_t want = values[i] == 0 ? uint8_t{0} : f4_from_f32(values[i]);
        CHECK(code == want);
      }
      CHECK(out.guards_intact());
    }
  }
}
