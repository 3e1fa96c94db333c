#include "tftf/base/crc32.h"

#include <catch2/catch.hpp>
#include <string>

using namespace tftf;

TEST_CASE("CRC-32 has the published check value, and continues") {
  CHECK(crc32(as_bytes("123456789")) == 0xCBF43926u);
  CHECK(crc32({}) == 0);
  const std::string text = "The quick brown fox jumps over the lazy dog";
  CHECK(crc32(as_bytes(text)) == 0x414FA339u);
  for (size_t cut = 0; cut <= text.size(); ++cut)
    CHECK(crc32(as_bytes(text).subspan(cut), crc32(as_bytes(text).first(cut))) == 0x414FA339u);
}
