#include <catch2/catch.hpp>

#include "tftf/base/natural_order.h"
#include "tftf/base/size_text.h"

using namespace tftf;

TEST_CASE("digit runs order as numbers") {
  const char* sorted[] = {"",
                          "a",
                          "a1",
                          "a2",
                          "a10",
                          "a10b",
                          "a0011",
                          "a11",
                          "a99999999999999999999998",
                          "a99999999999999999999999",
                          "b",
                          "rank_2",
                          "rank_10",
                          "rank_10.x",
                          "é"};
  for (size_t i = 0; i < std::size(sorted); ++i) {
    for (size_t j = 0; j < std::size(sorted); ++j) {
      INFO(sorted[i] << " < " << sorted[j]);
      CHECK(natural_less(sorted[i], sorted[j]) == (i < j));
    }
  }
  CHECK(natural_less("a00", "a0") != natural_less("a0", "a00"));  // total: leading zeros decide last
  CHECK_FALSE(natural_less("a0", "a0"));
}

TEST_CASE("sizes are read decimal and binary, as written") {
  const std::pair<const char*, uint64_t> good[] = {{"0", 0},
                                                   {"5", 5},
                                                   {"5B", 5},
                                                   {"5GB", 5'000'000'000},
                                                   {"5GiB", 5'368'709'120},
                                                   {"500MB", 500'000'000},
                                                   {"5g", 5'000'000'000},
                                                   {"1.5MB", 1'500'000},
                                                   {"1.5 KiB", 1536},
                                                   {"64k", 64'000},
                                                   {"64Ki", 65'536},
                                                   {"0.1KiB", 102},
                                                   {"2TB", 2'000'000'000'000},
                                                   {"1PiB", 1ull << 50},
                                                   {"18446744073709551615", UINT64_MAX},
                                                   {"0.000001PB", 1'000'000'000},
                                                   {"21474836480", 21'474'836'480}};
  for (const auto& [text, bytes] : good) {
    INFO(text);
    auto size = parse_size(text);
    REQUIRE(size.ok());
    CHECK(*size == bytes);
  }
  for (const char* text :
       {"", "x", "-1", "+1", "5XB", "5GBB", "5 G B", ".5GB", "5.", "5.GB", "1e9", "18446744073709551616",
        "18014398509481984KiB", "20000PB", "0x10", " 5", "5iB", "1.0000001GB"}) {
    INFO(text);
    auto size = parse_size(text);
    REQUIRE_FALSE(size.ok());
    CHECK(size.error().code == ErrorCode::kUsage);
  }
}

TEST_CASE("sizes and ratios are written without floating point") {
  CHECK(size_text(0) == "0 bytes");
  CHECK(size_text(1) == "1 byte");
  CHECK(size_text(1023) == "1023 bytes");
  CHECK(size_text(1024) == "1.00 KiB");
  CHECK(size_text(1536) == "1.50 KiB");
  CHECK(size_text(700'000'000'000) == "651.9 GiB");
  CHECK(size_text(UINT64_MAX) == "16.00 EiB");
  CHECK(grouped_digits(0) == "0");
  CHECK(grouped_digits(999) == "999");
  CHECK(grouped_digits(1000) == "1,000");
  CHECK(grouped_digits(1234567) == "1,234,567");
  CHECK(ratio_text(673, 1ull << 30, 3) == "0.000");
  CHECK(ratio_text(1ull << 29, 1ull << 30, 3) == "0.500");
  CHECK(ratio_text(1, 2, 0) == "0");  // ties to even
  CHECK(ratio_text(3, 2, 0) == "2");
  CHECK(ratio_text(25, 100, 1) == "0.2");
  CHECK(ratio_text(35, 100, 1) == "0.4");
  CHECK(ratio_text(9999, 10000, 3) == "1.000");
  CHECK(ratio_text(99995, 1000, 1) == "100.0");
}
