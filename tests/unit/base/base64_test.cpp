#include "tftf/base/base64.h"

#include <catch2/catch.hpp>
#include <random>

using namespace tftf;

TEST_CASE("base64 has the texts of the RFC and reads them back") {
  const char* const kPairs[][2] = {{"", ""},
                                   {"f", "Zg=="},
                                   {"fo", "Zm8="},
                                   {"foo", "Zm9v"},
                                   {"foob", "Zm9vYg=="},
                                   {"fooba", "Zm9vYmE="},
                                   {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, coded] : kPairs) {
    CHECK(encode_base64(as_bytes(plain)) == coded);
    const auto bytes = decode_base64(coded);
    REQUIRE(bytes);
    CHECK(as_text(*bytes) == plain);
  }
}

TEST_CASE("base64 refuses what is not the one text of some bytes") {
  for (const char* text : {"Z", "Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Z===", "====", "Zg==Zg==", "Zm 9v",
                           "Zm9v\n", "Zm-v", "=m9v", "Z=9v", "\xC3\xA9==", "Zg=A"})
    CHECK_FALSE(decode_base64(text));
  CHECK_FALSE(decode_base64(std::string_view("Zm9\0", 4)));
}

TEST_CASE("base64 of any bytes reads back, and every accepted text is written the same") {
  std::mt19937 random(64);
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::byte> bytes(random() % 40);
    for (auto& b : bytes) b = static_cast<std::byte>(random());
    std::string text = encode_base64(bytes);
    CHECK(decode_base64(text) == bytes);
    if (text.empty()) continue;
    text[random() % text.size()] = "AZaz09+/=-_"[random() % 11];
    if (const auto other = decode_base64(text)) CHECK(encode_base64(*other) == text);
  }
}
