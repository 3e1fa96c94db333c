#include "tftf/transform/account.h"

#include <algorithm>
#include <catch2/catch.hpp>

using namespace tftf;

namespace {

Account sample() {
  Account account;
  account.command = "dequant-fp8";
  account.input = "in";
  account.output = "out\n";
  account.tensors_in = 9;
  account.tensors_out = 1234;
  account.changed = 1;
  account.copied = 2;
  account.dropped = {{"companion", {"a", "b", "c", "d", "e", "f"}}};
  account.bytes_read = 1234567;
  account.bytes_written = uint64_t{1} << 60;
  account.layouts = {{"fp8-block", 1, "1 weight"}};
  account.files = {{"m.safetensors", 3, 100}};
  account.config = {{"config.json", "/dtype", "float32", "bfloat16"},
                    {"config.json", "/quantization_config", {{"a", 1}}, nullptr}};
  account.non_finite = {{"a", 2}};
  account.warnings = {"Careful."};
  return account;
}

}  // namespace

TEST_CASE("the account as JSON has every key in order, large numbers as text") {
  const OrderedJson json = sample().to_json();
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  CHECK(keys == std::vector<std::string>{"command", "input", "output", "dry_run", "tensors", "bytes",
                                         "layouts", "files", "config", "non_finite", "warnings", "resumed"});
  CHECK(
      json["tensors"].dump() ==
      R"({"in":9,"out":1234,"changed":1,"copied":2,"dropped":[{"reason":"companion","count":6,"names":["a","b","c","d","e","f"]}],"left_quantised":0})");
  CHECK(json["bytes"]["written"] == "1152921504606846976");
  CHECK(json["config"][1]["after"].is_null());
  CHECK(Account().to_json()["tensors"]["dropped"].is_array());
}

TEST_CASE("the account as text has the same items, one a line") {
  CHECK(sample().to_text() ==
        "dequant-fp8: in -> out\\u{000A}\n"
        "tensors: 9 in, 1,234 out, 1 changed, 2 copied\n"
        "dropped: 6 (companion): a, b, c, d, e, ... (-v names all)\n"
        "left quantised: 0 modules\n"
        "bytes: 1,234,567 read, 1,152,921,504,606,846,976 written\n"
        "layout: fp8-block, 1 module: 1 weight\n"
        "file: m.safetensors, 3 tensors, 100 bytes\n"
        "config.json: /dtype: \"float32\" -> \"bfloat16\"\n"
        "config.json: /quantization_config: {\"a\":1} -> removed\n"
        "non-finite: a: 2 finite values became infinite\n"
        "warning: Careful.\n");
  CHECK(sample().to_text(true).find("a, b, c, d, e, f\n") != std::string::npos);
}

TEST_CASE("many warnings are cut in the text, never in the JSON") {
  Account account;
  account.warnings = std::vector<std::string>(25, "Careful.");
  account.non_finite = std::vector<Account::NonFinite>(25, {"a", 1});
  const auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  CHECK(account.to_text().find("(10 more lines like these with -v)\n") != std::string::npos);
  CHECK(lines(account.to_text(true)) - lines(account.to_text()) == 9);
  CHECK(account.to_json()["warnings"].size() == 25);
}
