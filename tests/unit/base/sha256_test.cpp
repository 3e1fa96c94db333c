#include "tftf/base/sha256.h"

#include <catch2/catch.hpp>

using namespace tftf;

TEST_CASE("SHA-256 gives the digests of FIPS 180-4 and of the NIST vectors") {
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256_hex(
            "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnop"
            "qrsmnopqrstnopqrstu") == "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  CHECK(sha256_hex(std::string(1'000'000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  // SHA256ShortMsg: lengths of 8 and 512 bits.
  CHECK(sha256_hex("\xd3") == "28969cdfa74a12c82f3bad960b0b000aca2ac329deea5c2328ebc6f2ba9802c1");
}

TEST_CASE("the digest does not depend on how the bytes are cut, at every length around a block") {
  for (size_t length = 0; length <= 200; ++length) {
    std::string text;
    for (size_t i = 0; i < length; ++i) text += static_cast<char>('a' + i % 23);
    const std::string whole = sha256_hex(text);
    for (size_t piece : {1, 3, 55, 56, 63, 64, 65}) {
      Sha256 hash;
      for (size_t at = 0; at < length; at += piece) hash.update(std::string_view(text).substr(at, piece));
      CHECK(hash.hex_digest() == whole);
    }
    text += 'x';
    CHECK(sha256_hex(text) != whole);
  }
}
