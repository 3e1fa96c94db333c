#include "tftf/quant/colibri/integer_codes.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

using namespace tftf;
using namespace tftf::colibri;

namespace {

struct Encoded {
  std::vector<std::byte> codes;
  std::vector<float> scales;
};

Encoded encode(const IntegerSpec& spec, const std::vector<float>& row) {
  Encoded out{std::vector<std::byte>(row_bytes(spec, row.size())),
              std::vector<float>(row_scales(spec, row.size()))};
  encode_row(scalar_kernels(), spec, row, out.codes, out.scales);
  return out;
}

std::vector<int> bytes_of(const Encoded& e) {
  std::vector<int> out;
  for (std::byte b : e.codes) out.push_back(static_cast<int>(b));
  return out;
}

}  // namespace

TEST_CASE("codes stand where the format says") {
  const std::vector<float> row = {7.0f, -7.0f, 1.0f, 0.0f, 3.0f};
  CHECK(bytes_of(encode({Format::kInt4Row, 4, 0}, row)) == std::vector<int>{0x1F, 0x89, 0x0B});
  CHECK(bytes_of(encode({Format::kInt8Row, 8, 0}, {127.0f, -127.0f, 1.0f})) == std::vector<int>{127, 129, 1});
  CHECK(bytes_of(encode({Format::kInt2Row, 2, 0}, {1.0f, -1.0f, 0.0f, 1.0f, -1.0f})) ==
        std::vector<int>{0xE7, 0x01});
  const auto int3 = encode({Format::kInt3G64, 3, 64}, {3.0f, -3.0f, 0.0f});
  // u = 7, 1, 4 and padding 4: low plane 3, 1, 0, 0 …; high plane 1, 0, 1, 1 …
  CHECK(int3.codes[0] == std::byte{0x07});
  CHECK(int3.codes[16] == std::byte{0xFD});
  CHECK(int3.codes[23] == std::byte{0xFF});
}

TEST_CASE("a scope of zeros has the smallest scale and code 0; -0 gives code 0") {
  const auto zero = encode({Format::kInt4Grouped, 4, 2}, {0.0f, -0.0f, 1.0f, 1.0f});
  CHECK(zero.scales[0] == 1e-8f);
  CHECK(zero.codes[0] == std::byte{0x88});
}

TEST_CASE("decoding is within half a scale of the value, for every format, width and odd length") {
  std::mt19937 random(1129);
  std::normal_distribution<float> normal(0.0f, 0.05f);
  const IntegerSpec specs[] = {
      {Format::kInt8Row, 8, 0},      {Format::kInt8Row, 5, 0},      {Format::kInt4Row, 4, 0},
      {Format::kInt4Row, 3, 0},      {Format::kInt4Grouped, 4, 64}, {Format::kInt4Grouped, 4, 16},
      {Format::kInt4Grouped, 2, 48}, {Format::kInt3G64, 3, 64},     {Format::kInt2Row, 2, 0}};
  for (const IntegerSpec& spec : specs)
    for (size_t columns : {1u, 2u, 3u, 63u, 64u, 65u, 128u, 200u}) {
      std::vector<float> row(columns), back(columns);
      for (float& w : row) w = normal(random);
      const Encoded e = encode(spec, row);
      decode_row(spec, e.codes, e.scales, back);
      const uint64_t scope = spec.format == Format::kInt4Grouped ? spec.group_size
                             : spec.format == Format::kInt3G64   ? 64
                                                                 : columns;
      for (size_t i = 0; i < columns; ++i)
        CHECK(std::fabs(back[i] - row[i]) <= 0.5001f * e.scales[i / scope]);
    }
}
