// Element conversions against tables made by another implementation (tests/golden/simd/README.md).
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tftf/base/bytes.h"
#include "tftf/simd/floats.h"

using namespace tftf;

namespace {

class Tables {
 public:
  Tables() {
    std::ifstream file(TFTF_TEST_DATA "/golden/simd/compressed_tensors_tables.safetensors", std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    REQUIRE(bytes_.size() > 8);
    uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), 8);
    header_ = nlohmann::json::parse(bytes_.substr(8, static_cast<size_t>(length)));
    begin_ = 8 + static_cast<size_t>(length);
  }
  template <class T>
  std::vector<T> get(const char* name) const {
    const auto& offsets = header_.at(name).at("data_offsets");
    const size_t from = offsets[0], to = offsets[1];
    std::vector<T> values((to - from) / sizeof(T));
    std::memcpy(values.data(), bytes_.data() + begin_ + from, to - from);
    return values;
  }

 private:
  std::string bytes_;
  nlohmann::json header_;
  size_t begin_ = 0;
};

uint32_t reference_bits(float x) { return tftf::bit_cast<uint32_t>(x); }

}  // namespace

TEST_CASE("F8_E4M3 is written as torch writes it, plainly and clamped") {
  const Tables tables;
  const auto in = tables.get<float>("f32_in");
  const auto raw = tables.get<uint8_t>("f32_to_f8_raw"), clamped = tables.get<uint8_t>("f32_to_f8_clamped");
  REQUIRE(in.size() == 1220);
  REQUIRE(raw.size() == in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    INFO(in[i]);
    CHECK(f8_from_f32(DType::F8_E4M3, in[i], Overflow::kSpecial) == raw[i]);
    CHECK(f8_from_f32(DType::F8_E4M3, in[i], Overflow::kSaturate) == clamped[i]);
  }
  const auto narrow_in = tables.get<uint16_t>("bf16_in");
  const auto narrow = tables.get<uint8_t>("bf16_to_f8_clamped");
  REQUIRE(narrow_in.size() == 1220);
  for (size_t i = 0; i < narrow_in.size(); ++i)
    CHECK(f8_from_f32(DType::F8_E4M3, f32_from_bf16(narrow_in[i]), Overflow::kSaturate) == narrow[i]);
}

TEST_CASE("F8_E4M3 and F8_E8M0 codes are read as torch reads them") {
  const Tables tables;
  const auto e4m3 = tables.get<float>("f8e4m3_decode_f32");
  REQUIRE(e4m3.size() == 256);
  for (size_t code = 0; code < 256; ++code) {
    const float value = f8_values(DType::F8_E4M3)[code];
    CHECK((std::isnan(value) ? std::isnan(e4m3[code]) : reference_bits(value) == reference_bits(e4m3[code])));
  }
  const auto e8m0 = tables.get<uint16_t>("e8m0_decode_bf16");
  const auto back = tables.get<uint8_t>("e8m0_encode_of_decode");
  REQUIRE(e8m0.size() == 256);
  for (size_t code = 0; code < 255; ++code) {
    CHECK(bf16_from_f32(f8_values(DType::F8_E8M0)[code]) == e8m0[code]);
    CHECK(e8m0_from_f32(f8_values(DType::F8_E8M0)[code]) == back[code]);
  }
}

TEST_CASE("F4 takes the nearest value as compressed-tensors does") {
  const Tables tables;
  const auto in = tables.get<float>("fp4_in"), out = tables.get<float>("fp4_out");
  REQUIRE(in.size() == 142);
  for (size_t i = 0; i < in.size(); ++i) {
    INFO(in[i]);
    CHECK(f4_values()[f4_from_f32(in[i])] == out[i]);
  }
}
