#include "tftf/quant/colibri/e8.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <random>
#include <sstream>

#include "tftf/base/bytes.h"
#include "tftf/base/json_value.h"

using namespace tftf;
using namespace tftf::colibri;

namespace {

// Tensors of a golden file by name, as bytes.
std::vector<std::byte> tensor(const std::string& path, const std::string& name) {
  std::ifstream file(std::string(TFTF_TEST_DATA) + "/golden/colibri/cases/" + path, std::ios::binary);
  std::stringstream stream;
  stream << file.rdbuf();
  const std::string raw = stream.str();
  REQUIRE(raw.size() > 8);
  const auto length = load_le<uint64_t>(as_bytes(raw).data());
  const auto header = parse_json(raw.substr(8, length), JsonDialect::kStrict);
  REQUIRE_FALSE(header.error);
  const JsonValue& offsets = *header.root.find(name)->find("data_offsets");
  const auto begin = static_cast<size_t>(*offsets.elements[0].as_integer());
  const auto end = static_cast<size_t>(*offsets.elements[1].as_integer());
  const Bytes data = as_bytes(raw).subspan(8 + length + begin, end - begin);
  return {data.begin(), data.end()};
}

std::vector<float> floats(const std::vector<std::byte>& bytes) {
  std::vector<float> out(bytes.size() / 4);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

using Block = std::span<const std::byte, kE8BlockBytes>;

}  // namespace

TEST_CASE("sign streams and block lengths equal the reference") {
  for (uint64_t n : {1u, 2u, 8u, 32u, 256u, 512u, 2048u})
    CHECK(e8_signs(n) == floats(tensor("q-e8-signs/out/signs.safetensors", "signs_" + std::to_string(n))));
  CHECK(e8_blocks(6144) == std::vector<uint64_t>{2048, 4096});
  CHECK(e8_blocks(1000) == std::vector<uint64_t>{8, 32, 64, 128, 256, 512});
  CHECK(e8_blocks(98304) == std::vector<uint64_t>{32768, 32768, 32768});
}

TEST_CASE("the lattice and the block lengths of all golden rows are the reference's") {
  std::ifstream grid(std::string(TFTF_TEST_DATA) + "/golden/colibri/cases/e8-grid/out/grid.bin",
                     std::ios::binary);
  std::stringstream bytes;
  bytes << grid.rdbuf();
  const std::string want = bytes.str();
  REQUIRE(want.size() == 1024);
  // Entry e decoded with d = 2 and sub-scale code 0: db = 2 * 0.5 * 0.5, magnitude stored * 0.5.
  for (size_t e = 0; e < 256; ++e) {
    std::array<std::byte, kE8BlockBytes> block{};
    block[0] = static_cast<std::byte>(e);
    store_le<uint16_t>(block.data() + 96, 0x4000);
    std::array<float, kE8Block> values;
    decode_e8_block(Block(block.data(), kE8BlockBytes), values);
    for (size_t i = 0; i < 4; ++i)
      CHECK(values[i] == static_cast<float>(static_cast<uint8_t>(want[4 * e + i])) * 0.25f);
  }
  std::ifstream lengths(std::string(TFTF_TEST_DATA) + "/golden/colibri/cases/q-e8-signs/out/rot_blocks.json");
  std::stringstream text;
  text << lengths.rdbuf();
  const auto document = parse_json(text.str(), JsonDialect::kStrict);
  REQUIRE_FALSE(document.error);
  REQUIRE(document.root.is_object());
  REQUIRE_FALSE(document.root.members.empty());
  for (const JsonValue::Member& member : document.root.members) {
    std::vector<uint64_t> blocks;
    for (const JsonValue& length : member.second.elements)
      blocks.push_back(static_cast<uint64_t>(*length.as_integer()));
    CHECK(e8_blocks(std::stoull(member.first)) == blocks);
  }
}

TEST_CASE("blocks are coded and decoded as by the reference codec") {
  const auto values = floats(tensor("q-e8-codec/in/w.safetensors", "w"));
  const auto packed = tensor("q-e8-codec/out/codec.safetensors", "packed");
  const auto decoded = floats(tensor("q-e8-codec/out/codec.safetensors", "decoded"));
  for (size_t b = 0; b < 2; ++b) {
    std::array<std::byte, kE8BlockBytes> block;
    encode_e8_block(scalar_kernels(),
                    std::span<const float, kE8Block>(values.data() + kE8Block * b, kE8Block), block);
    CHECK(std::equal(block.begin(), block.end(), packed.begin() + static_cast<ptrdiff_t>(kE8BlockBytes * b)));
    std::array<float, kE8Block> back;
    decode_e8_block(Block(packed.data() + kE8BlockBytes * b, kE8BlockBytes), back);
    CHECK(std::equal(back.begin(), back.end(), decoded.begin() + static_cast<ptrdiff_t>(kE8Block * b)));
  }
}

TEST_CASE("rotated, coded and decoded rows equal the reference stages") {
  for (const auto& [name, columns] :
       {std::pair<std::string, size_t>{"q-e8-256", 256}, {"q-e8-special", 512}}) {
    auto rows = floats(tensor(name + "/in/w.safetensors", "w"));
    const auto want = tensor(name + "/out/w.safetensors", "w");
    const auto rotated = floats(tensor(name + "/out/stages.safetensors", "rotated"));
    const auto unrotated = floats(tensor(name + "/out/stages.safetensors", "unrotated"));
    const E8Rotation rotation(columns);
    size_t block_index = 0;
    for (size_t r = 0; r * columns < rows.size(); ++r) {
      std::span<float> row(rows.data() + r * columns, columns);
      rotation.forward(row);
      for (size_t i = 0; i < columns; ++i)
        CHECK(row[i] == Approx(rotated[r * columns + i]).epsilon(1e-6).margin(1e-7));
      std::vector<float> back(columns);
      for (size_t b = 0; b < columns / kE8Block; ++b, ++block_index) {
        std::array<std::byte, kE8BlockBytes> block;
        encode_e8_block(scalar_kernels(),
                        std::span<const float, kE8Block>(row.data() + b * kE8Block, kE8Block), block);
        INFO(name << " row " << r << " block " << b);
        CHECK(std::equal(block.begin(), block.end(),
                         want.begin() + static_cast<ptrdiff_t>(kE8BlockBytes * block_index)));
        decode_e8_block(block, std::span<float, kE8Block>(back.data() + b * kE8Block, kE8Block));
      }
      rotation.inverse(back);
      for (size_t i = 0; i < columns; ++i)
        CHECK(back[i] == Approx(unrotated[r * columns + i]).epsilon(1e-6).margin(1e-7));
    }
  }
}

TEST_CASE("the rotation is its own way back") {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (size_t columns : {1u, 2u, 96u, 256u, 1000u, 1536u}) {
    std::vector<float> row(columns);
    for (float& x : row) x = normal(random);
    auto turned = row;
    const E8Rotation rotation(columns);
    rotation.forward(turned);
    rotation.inverse(turned);
    for (size_t i = 0; i < columns; ++i) CHECK(turned[i] == Approx(row[i]).epsilon(1e-4).margin(1e-5));
  }
}

TEST_CASE("a block of zeros decodes to zeros") {
  std::array<float, kE8Block> zeros{};
  std::array<std::byte, kE8BlockBytes> block;
  encode_e8_block(scalar_kernels(), zeros, block);
  std::array<float, kE8Block> back;
  decode_e8_block(block, back);
  for (float x : back) CHECK(x == 0.0f);
}
