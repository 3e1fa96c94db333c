// gpt-oss experts, whose codes lie by outputs and whose weights lie by inputs: all ways to read them give the same.
#include <catch2/catch.hpp>

#include "layout_values.h"
#include "quant/gpt_oss_rows.h"
#include "tftf/simd/floats.h"
#include "transform_host.h"

using namespace tftf;
using namespace tftf::test;

TEST_CASE("experts are turned over, whole or in strips, with their exponents whole or in strips") {
  constexpr uint64_t kExperts = 3, kOutputs = 37, kBlocks = 5, kInputs = kBlocks * 32;
  const std::string codes = random_bytes(kExperts * kOutputs * kBlocks * 16, 1);
  std::string exponents = random_bytes(kExperts * kOutputs * kBlocks, 2);
  for (char& byte : exponents) byte = static_cast<char>(100 + static_cast<uint8_t>(byte) % 60);
  exponents[7] = '\xFF';  // NaN
  exponents[8] = '\xFE';  // too large for 6
  const HeaderModel model({{"e.down_proj_blocks", DType::U8, {kExperts, kOutputs, kBlocks, 16}, codes},
                           {"e.down_proj_scales", DType::U8, {kExperts, kOutputs, kBlocks}, exponents}});
  std::vector<float> expected(kExperts * kInputs * kOutputs);
  const float* const e8m0 = f8_values(DType::F8_E8M0);
  for (uint64_t e = 0; e < kExperts; ++e)
    for (uint64_t k = 0; k < kInputs; ++k)
      for (uint64_t o = 0; o < kOutputs; ++o) {
        const uint64_t block = (e * kOutputs + o) * kBlocks + k / 32;
        const uint32_t pair = static_cast<uint8_t>(codes[block * 16 + k % 32 / 2]);
        const float scale = e8m0[static_cast<uint8_t>(exponents[block])];
        expected[(e * kInputs + k) * kOutputs + o] = f4_values()[k % 2 == 0 ? pair & 15 : pair >> 4] * scale;
      }
  for (float& value : expected)
    if (value != value) value = bit_cast<float>(0x7FC00000u);
  const std::string wanted = f32_bytes(expected);
  for (const uint64_t few : {uint64_t{0}, uint64_t{1} << 20}) {
    const Weight weight =
        transposed_blocks_weight({kExperts, kOutputs, kBlocks, few}, "gpt-oss-mxfp4", {0, 0}, {0, 1});
    for (const uint64_t units : {1, 2, 4, 5, 7, 15})
      for (const KernelTable* kernels : available_kernels()) {
        INFO(kernels->name << ", tiles of " << units << " units, " << few);
        std::string joined;
        for (uint64_t first = 0; first < weight.elements; first += units * weight.unit) {
          const ElementRange tile{first, std::min(units * weight.unit, weight.elements - first)};
          joined += decode_tile(model, weight, tile, weight.unit * 2, *kernels);
        }
        CHECK((joined == wanted));
      }
  }
}
