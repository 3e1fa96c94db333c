// IX001 to IX017, IX027, IX032, IX034: for each a folder where it is reported and one where it is not.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "lint/file_names.h"
#include "lint/index/index_document.h"
#include "lint_host.h"
#include "test_files.h"

using namespace tftf;
using namespace tftf::test;
using Lines = std::vector<std::string>;

namespace {

const std::string kIndex = "model.safetensors.index.json";
const std::string kFirst = "model-00001-of-00002.safetensors";
const std::string kSecond = "model-00002-of-00002.safetensors";

// Two shards of two F32 tensors of 4 elements each: 64 bytes, 16 elements.
MemoryFiles two_shards(const std::string& index) {
  return {{kFirst, weights({{"a", "F32", {2, 2}}, {"b", "F32", {4}}})},
          {kSecond, weights({{"c", "F32", {4}}, {"d", "F32", {4}}})},
          {kIndex, index}};
}

std::string index_of(const std::string& metadata, const std::map<std::string, std::string>& map) {
  return nlohmann::json{{"metadata", nlohmann::json::parse(metadata)}, {"weight_map", map}}.dump();
}

const std::map<std::string, std::string> kMap = {
    {"a", kFirst}, {"b", kFirst}, {"c", kSecond}, {"d", kSecond}};
const std::string kTotal = R"({"total_size":64})";

Lines index_findings(const MemoryFiles& files, std::string main = {}) {
  return finding_lines(run_lint(files, std::move(main)).findings, {"IX"});
}

// The folder of two shards with some keys of the map changed ("" removes one).
Lines mapped(std::map<std::string, std::string> changes, const std::string& metadata = kTotal) {
  std::map<std::string, std::string> map = kMap;
  for (const auto& [key, shard] : changes) {
    if (shard == "(none)")
      map.erase(key);
    else
      map[key] = shard;
  }
  return index_findings(two_shards(index_of(metadata, map)));
}

const Diagnostic& only_index(const LintResult& result, Rule rule) {
  const Diagnostic* found = nullptr;
  for (const Diagnostic& finding : result.findings) {
    if (finding.rule != rule) continue;
    REQUIRE_FALSE(found);
    found = &finding;
  }
  REQUIRE(found);
  return *found;
}

}  // namespace

TEST_CASE("a sound index gives no finding") { CHECK(mapped({}) == Lines{}); }

TEST_CASE("IX001: an index that is no JSON object says what it is instead") {
  const std::vector<std::pair<std::string, std::string>> kinds = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n", "Git LFS pointer"},
      {"<!DOCTYPE html><html></html>", "HTML"},
      {"", "empty"},
      {"[]", "JSON array"},
      {"\xEF\xBB\xBF{}", "byte order mark"},
      {"{\"weight_map\":", "offset 14"},
      {"{\"a\":\"\xff\"}", "UTF-8"},
      {"{\"weight_map\":{}}\n=======\n{\"weight_map\":{}}", "merge conflict stands at offset 18"},
      {"{\n<<<<<<< HEAD\n\"a\":1}", "merge conflict"},
      {"{}{}", "follows"},
      {std::string(200, '['), "deeper"},
  };
  for (const auto& [text, words] : kinds) {
    INFO(text);
    MemoryFiles files = two_shards(text);
    const LintResult result = run_lint(files);
    CHECK(finding_lines(result.findings, {"IX"}) == Lines{"IX001 " + kIndex + " -"});
    CHECK_THAT(message(only_index(result, Rule::IX001)), Catch::Contains(words));
  }
  // What Python's json takes is taken.
  CHECK(index_findings(two_shards(
            R"({"metadata":{"total_size":64,"x":NaN,"y":[Infinity,-Infinity],"z":"\ud800"},"weight_map":)" +
            nlohmann::json(kMap).dump() + "}")) == Lines{});
}

TEST_CASE("IX002, IX003, IX004: weight_map is there and maps names to strings") {
  CHECK(index_findings(two_shards(R"({"metadata":{"total_size":64}})")) == Lines{"IX002 " + kIndex + " -"});
  CHECK(index_findings(two_shards(R"({"metadata":{"total_size":64},"weight_map":[]})")) ==
        Lines{"IX003 " + kIndex + " -"});
  CHECK(index_findings(two_shards(R"({"metadata":{"total_size":64},"weight_map":null})")) ==
        Lines{"IX003 " + kIndex + " -"});
  for (const char* value : {"[\"x\"]", "{\"x\":{\"y\":1}}", "1", "null", "true"}) {
    INFO(value);
    // The key counts as listed, so d is not IX016; its size cannot be added, so there is no IX008.
    const Lines found = index_findings(two_shards(R"({"metadata":{"total_size":1},"weight_map":{"a":")" +
                                                  kFirst + R"(","b":")" + kFirst + R"(","c":")" + kSecond +
                                                  R"(","d":)" + value + "}}"));
    CHECK(found == Lines{"IX003 " + kIndex + " d"});
  }
  // An empty map: the shards are there, and nothing refers to them.
  const Lines empty = index_findings(two_shards(R"({"metadata":{"total_size":0},"weight_map":{}})"));
  CHECK(empty == Lines{"IX020 " + kFirst + " -", "IX020 " + kSecond + " -", "IX004 " + kIndex + " -"});
}

TEST_CASE("IX005: keys that occur twice, in weight_map and at the top level") {
  const std::string rest = R"("b":")" + kFirst + R"(","c":")" + kSecond + R"(","d":")" + kSecond + "\"";
  // The last of equal keys counts: the wrong shard first is no IX015.
  const LintResult twice =
      run_lint(two_shards(R"({"metadata":{"total_size":64},"weight_map":{"a":"x.safetensors",)" + rest +
                          R"(,"\u0061":")" + kFirst + "\"}}"));
  CHECK(finding_lines(twice.findings, {"IX"}) == Lines{"IX005 " + kIndex + " a"});
  CHECK(message(only_index(twice, Rule::IX005)) == kIndex + ": \"a\" occurs 2 times in weight_map.");
  CHECK(only_index(twice, Rule::IX005).pointer == "/weight_map/a");

  const LintResult top = run_lint(
      two_shards(R"({"metadata":1,"weight_map":{"z":"gone.safetensors"},"metadata":{"total_size":64},)"
                 R"("weight_map":{"a":")" +
                 kFirst + "\"," + rest + "}}"));
  CHECK(finding_lines(top.findings, {"IX"}) ==
        Lines{"IX005 " + kIndex + " metadata", "IX005 " + kIndex + " weight_map"});
  // Inside metadata, or deeper, nobody looks.
  CHECK(index_findings(two_shards(
            R"({"metadata":{"total_size":1,"total_size":64},"x":{"y":1,"y":2},"weight_map":{"a":")" + kFirst +
            "\"," + rest + "}}")) == Lines{});
}

TEST_CASE("IX006, IX007, IX009: metadata and total_size") {
  const std::string map = nlohmann::json(kMap).dump();
  CHECK(index_findings(two_shards("{\"weight_map\":" + map + "}")) == Lines{"IX006 " + kIndex + " -"});
  CHECK(index_findings(two_shards("{\"metadata\":null,\"weight_map\":" + map + "}")) ==
        Lines{"IX006 " + kIndex + " -"});
  CHECK(mapped({}, "{}") == Lines{"IX007 " + kIndex + " -"});
  for (const char* value :
       {"64.0", "6.4e1", "\"64\"", "-64", "-0", "null", "true", "[64]", "{\"x\":64}", "NaN"}) {
    INFO(value);
    CHECK(index_findings(two_shards("{\"metadata\":{\"total_size\":" + std::string(value) +
                                    "},\"weight_map\":" + map + "}")) == Lines{"IX009 " + kIndex + " -"});
  }
}

TEST_CASE("IX008: total_size is the sum of the mapped tensors' bytes") {
  const Lines wrong = {"IX008 " + kIndex + " -"};
  CHECK(mapped({}, R"({"total_size":63})") == wrong);
  CHECK(mapped({}, R"({"total_size":0})") == wrong);
  CHECK(index_findings(two_shards(R"({"metadata":{"total_size":99999999999999999999999},"weight_map":)" +
                                  nlohmann::json(kMap).dump() + "}")) == wrong);
  CHECK(mapped({}, R"({"total_size":64})").empty());
  // Stored and not mapped does not count.
  CHECK(mapped({{"d", "(none)"}}, R"({"total_size":48})") == Lines{"IX016 " + kIndex + " d"});
  // Not computed when a mapped tensor was not found or a name was not safe.
  CHECK(mapped({{"e", kFirst}}, R"({"total_size":1})") == Lines{"IX015 " + kIndex + " e"});
  CHECK(mapped({{"e", "/x.safetensors"}}, R"({"total_size":1})") ==
        Lines{"IX012 " + kIndex + " /x.safetensors"});
  CHECK(mapped({{"e", "gone.safetensors"}}, R"({"total_size":1})") ==
        Lines{"IX011 " + kIndex + " gone.safetensors"});

  const LintResult result = run_lint(two_shards(index_of(R"({"total_size":60})", kMap)));
  CHECK(message(only_index(result, Rule::IX008)) ==
        kIndex + ": total_size is 60, the mapped tensors sum to 64 (-4).");
}

TEST_CASE("IX010: total_parameters is the sum of elements, where elements are parameters") {
  const Lines wrong = {"IX010 " + kIndex + " -"};
  CHECK(mapped({}, R"({"total_size":64,"total_parameters":15})") == wrong);
  CHECK(mapped({}, R"({"total_size":64,"total_parameters":"16"})") == wrong);
  CHECK(mapped({}, R"({"total_size":64,"total_parameters":16})").empty());
  CHECK(mapped({}, R"({"total_size":64,"total_parameters":null})").empty());
  for (const auto& [dtype, bytes] : std::map<std::string, int>{{"I32", 16}, {"U8", 4}, {"F4", 2}}) {
    MemoryFiles files = two_shards(
        index_of("{\"total_size\":" + std::to_string(48 + bytes) + ",\"total_parameters\":999}", kMap));
    files[kSecond] = weights({{"c", "F32", {4}}, {"d", dtype, {4}}});
    INFO(dtype);
    CHECK(index_findings(files).empty());
  }
}

TEST_CASE("IX011, IX034: missing shards, once each") {
  CHECK(mapped({{"e", "gone.safetensors"}, {"f", "gone.safetensors"}}) ==
        Lines{"IX011 " + kIndex + " gone.safetensors"});
  CHECK(mapped({{"c", "MODEL-00002-of-00002.safetensors"}, {"d", "MODEL-00002-of-00002.safetensors"}}) ==
        Lines{"IX034 " + kIndex + " MODEL-00002-of-00002.safetensors"});
  // The file of IX034 counts as referenced and is not opened: no IX020, no IX015 for a tensor it lacks.
  CHECK(mapped({{"e", "Model-00002-of-00002.safetensors"}}) ==
        Lines{"IX034 " + kIndex + " Model-00002-of-00002.safetensors"});
}

TEST_CASE("IX012: shard names that must not be opened") {
  const std::vector<std::pair<std::string, std::string>> names = {
      {"", "empty"},
      {"/etc/x.safetensors", "absolute"},
      {"C:x.safetensors", "drive letter"},
      {"c:/x.safetensors", "drive letter"},
      {"../x.safetensors", "parent folder"},
      {"a/../../x.safetensors", "parent folder"},
      {"a/..", "parent folder"},
      {"a\\x.safetensors", "backslash"},
      {"https://example.com/x.safetensors", "URL"},
      {"file:/x.safetensors", "URL"},
      {"a\nb.safetensors", "control character"},
      {std::string("a\0b.safetensors", 14), "control character"},
      {"a\x7f.safetensors", "control character"},
      {"a\xC2\x85.safetensors", "control character"},
  };
  for (const auto& [name, reason] : names) {
    INFO(name);
    const LintResult result = run_lint(two_shards(index_of(kTotal, [&, shard = name] {
      auto map = kMap;
      map["e"] = shard;
      return map;
    }())));
    CHECK(finding_lines(result.findings, {"IX"}) == Lines{"IX012 " + kIndex + " " + name});
    CHECK_THAT(message(only_index(result, Rule::IX012)), Catch::EndsWith(": " + reason + "."));
  }
  for (const char* name :
       {"a..b.safetensors", "...safetensors", "x:y/z.safetensors", "\xC2\xA0.safetensors"}) {
    INFO(name);
    CHECK(unsafe_reason(name) == (std::string_view(name) == "x:y/z.safetensors"
                                      ? std::optional<std::string_view>("drive letter")
                                      : std::nullopt));
  }
}

TEST_CASE("IX013, IX014: subfolders and other extensions") {
  MemoryFiles files = two_shards(index_of(
      kTotal, {{"a", kFirst}, {"b", kFirst}, {"c", "sub/x.safetensors"}, {"d", "sub/x.safetensors"}}));
  files["sub/x.safetensors"] = files[kSecond];
  files.erase(kSecond);
  // IX018: the shard pattern of what is left has a gap.
  CHECK(index_findings(files) == Lines{"IX018 . model", "IX013 " + kIndex + " sub/x.safetensors"});
  // "./" is a path with a slash that means the same file.
  CHECK(mapped({{"c", "./" + kSecond}, {"d", kSecond}}) == Lines{"IX013 " + kIndex + " ./" + kSecond});
  CHECK(mapped({{"e", "pytorch_model.bin"}}) == Lines{"IX014 " + kIndex + " pytorch_model.bin"});
  CHECK(mapped({{"e", "sub/x.bin"}}) ==
        Lines{"IX013 " + kIndex + " sub/x.bin", "IX014 " + kIndex + " sub/x.bin"});
  CHECK(mapped({{"e", "x.SAFETENSORS"}}) == Lines{"IX014 " + kIndex + " x.SAFETENSORS"});
}

TEST_CASE("IX015, IX016, IX017: where tensors are") {
  CHECK(mapped({{"a", kSecond}}) == Lines{"IX015 " + kIndex + " a"});
  CHECK(mapped({{"e", kSecond}}) == Lines{"IX015 " + kIndex + " e"});
  CHECK(mapped({{"d", "(none)"}}, R"({"total_size":48})") == Lines{"IX016 " + kIndex + " d"});

  const LintResult wrong =
      run_lint(two_shards(index_of(kTotal, {{"a", kSecond}, {"b", kFirst}, {"c", kSecond}, {"d", kSecond}})));
  CHECK(message(only_index(wrong, Rule::IX015)) == kIndex + ": \"a\" is mapped to \"" + kSecond +
                                                       "\", which does not hold it; it is in \"" + kFirst +
                                                       "\".");

  MemoryFiles files = two_shards(index_of(R"({"total_size":64})", kMap));
  files[kSecond] = weights({{"a", "F32", {2, 2}}, {"c", "F32", {4}}, {"d", "F32", {4}}});
  LintResult both = run_lint(files);
  CHECK(finding_lines(both.findings, {"IX"}) == Lines{"IX017 " + kIndex + " a"});
  CHECK_THAT(message(only_index(both, Rule::IX017)), Catch::Contains("are equal"));
  files[kSecond] = weights({{"a", "F32", {4}}, {"c", "F32", {4}}, {"d", "F32", {4}}});
  both = run_lint(files);
  CHECK_THAT(message(only_index(both, Rule::IX017)), Catch::Contains("differ"));
}

TEST_CASE("a broken shard is left to its own rule") {
  MemoryFiles files = two_shards(index_of(R"({"total_size":1})", kMap));
  files[kSecond] = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n";
  CHECK(index_findings(files).empty());
  // Readable, but an entry cannot be used: it is there all the same, and the sum is not known.
  files[kSecond] = safetensors_file(
      R"({"c":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"d":{"dtype":"Q8","shape":[4],"data_offsets":[16,32]}})",
      32);
  CHECK(index_findings(files).empty());
  files[kSecond] = safetensors_file(R"({"c":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"d":7})", 16);
  CHECK(index_findings(files).empty());
  files[kSecond] = safetensors_file(R"({"c":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"x":7})", 16);
  CHECK(index_findings(files) == Lines{"IX016 " + kIndex + " x", "IX015 " + kIndex + " d"});
}

TEST_CASE("IX027: index names that loaders do not look for") {
  for (const char* name :
       {"model.safetensors.index.json", "diffusion_pytorch_model.safetensors.index.fp16.json",
        "adapter_model.safetensors.index.json"})
    CHECK(index_findings({{name, index_of(R"({"total_size":0})", {{"a", "x.safetensors"}})},
                          {"x.safetensors", weights({{"a", "F32", {0}}})}}) == Lines{});
  const std::string odd = "weights.safetensors.index.json";
  CHECK(index_findings({{odd, index_of(R"({"total_size":0})", {{"a", "x.safetensors"}})},
                        {"x.safetensors", weights({{"a", "F32", {0}}})}}) == Lines{"IX027 " + odd + " -"});
  // No index at all: other names, and a variant with a dot.
  for (const char* name :
       {"model.safetensors.index.fp.16.json", "model.safetensors.index..json", "model.index.json",
        "model.safetensors.json", "model.safetensors.index.json.bak"}) {
    INFO(name);
    CHECK_FALSE(is_index_name(name));
    CHECK(index_findings({{name, "broken"}}) == Lines{});
  }
}

TEST_CASE("IX032: shards that have a format agree on it") {
  MemoryFiles files = two_shards(index_of(kTotal, kMap));
  files[kSecond] = weights({{"c", "F32", {4}}, {"d", "F32", {4}}}, R"({"format":"mlx"})");
  CHECK(index_findings(files) == Lines{"IX032 " + kIndex + " -"});
  files[kSecond] = weights({{"c", "F32", {4}}, {"d", "F32", {4}}}, R"({"other":"mlx"})");
  CHECK(index_findings(files).empty());
  files[kSecond] = weights({{"c", "F32", {4}}, {"d", "F32", {4}}}, "");
  CHECK(index_findings(files).empty());
}

TEST_CASE("an index as PATH is judged with the shards beside it, and only the index") {
  MemoryFiles files = two_shards(index_of(kTotal, kMap));
  CHECK(run_lint(files, kIndex).findings.empty());
  files["model-00009-of-00009.safetensors"] = weights({{"x", "F32", {4}}});  // IX019, IX020 are the folder's
  files["config.json"] = "broken";
  CHECK(run_lint(files, kIndex).findings.empty());
  files[kSecond] = weights({{"c", "F32", {4}}});
  CHECK(finding_lines(run_lint(files, kIndex).findings) == Lines{"IX015 " + kIndex + " d"});
  files.erase(kSecond);
  CHECK(finding_lines(run_lint(files, kIndex).findings) == Lines{"IX011 " + kIndex + " " + kSecond});
}

TEST_CASE("findings in an index have a place in its text") {
  const std::string text = "{\"metadata\":{\"total_size\":64},\n\"weight_map\":{\"a\":\"" + kFirst +
                           "\",\"b\":\"" + kFirst + "\",\n  \"\xC3\xA9\":1, \"c\":\"" + kSecond +
                           "\",\"d\":\"" + kSecond + "\"}}";
  const LintResult result = run_lint(two_shards(text));
  const Diagnostic& finding = only_index(result, Rule::IX003);
  CHECK(finding.line == 3);
  CHECK(finding.column == 3);
  CHECK(finding.offset == text.find("\"\xC3\xA9"));
  CHECK(finding.pointer == "/weight_map/\xC3\xA9");
}
