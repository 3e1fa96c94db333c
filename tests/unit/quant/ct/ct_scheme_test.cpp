// The configuration of compressed-tensors and the scheme of a module, against the verdicts of the library itself.
#include <catch2/catch.hpp>

#include "data_file.h"
#include "quant/ct/scheme.h"
#include "tftf/base/json_copy.h"

using namespace tftf;

namespace {

JsonDocument verdicts(const std::string& name) {
  JsonDocument document =
      parse_json(tftf_test::read_data("/golden/compressed-tensors/" + name), JsonDialect::kPython);
  REQUIRE_FALSE(document.error);
  return document;
}

std::vector<std::string> strings_of(const JsonValue* list) {
  REQUIRE(list != nullptr);
  std::vector<std::string> out;
  for (const JsonValue& one : list->elements) out.push_back(one.text);
  return out;
}

ct::Config config_of(const std::string& text) {
  const JsonDocument document = parse_json(text, JsonDialect::kPython);
  REQUIRE_FALSE(document.error);
  Result<ct::Config> config = ct::parse_config(document.root);
  if (!config) FAIL(config.error().message);
  return *std::move(config);
}

std::string fault_of(const std::string& group) {
  const JsonDocument document =
      parse_json(R"({"config_groups": {"g": )" + group + "}}", JsonDialect::kPython);
  REQUIRE_FALSE(document.error);
  const Result<ct::Config> config = ct::parse_config(document.root);
  return config ? "" : config.error().message;
}

}  // namespace

TEST_CASE("a compressed-tensors configuration is taken and refused as the library does") {
  const JsonDocument document = verdicts("config_cases.json");
  size_t valid = 0, invalid = 0;
  for (const JsonValue& one : document.root.get("quantization_config")->elements) {
    INFO(*one.string("name"));
    const Result<ct::Config> config = ct::parse_config(*one.get("input"));
    if (!config) INFO(config.error().message);
    const bool expected = one.string("verdict") == "valid";
    CHECK(config.ok() == expected);
    ++(expected ? valid : invalid);
    if (!config || !expected) continue;
    CHECK(ct::config_json(*config).dump() == to_ordered_json(*one.get("normalised")).dump());
    for (const ct::Group& group : config->groups) {
      if (group.format_given) continue;  // its own, not the one that would be taken
      CHECK(one.get("inferred_formats")->string(group.name) == group.format);
    }
  }
  CHECK(valid > 20);
  CHECK(invalid > 20);
}

TEST_CASE("rotations are taken and refused as the library does") {
  const JsonDocument document = verdicts("config_cases.json");
  for (const JsonValue& one : document.root.get("transform_config")->elements) {
    INFO(*one.string("name"));
    const Result<OrderedJson> parsed = ct::parse_transforms(*one.get("input"));
    CHECK(parsed.ok() == (one.string("verdict") == "valid"));
    if (parsed) CHECK(parsed->dump() == to_ordered_json(*one.get("normalised")).dump());
    if (!parsed) CHECK(parsed.error().message.find("transform_config") == 0);
  }
}

TEST_CASE("a configuration that is refused names the field") {
  CHECK(fault_of(R"({"targets": [], "weights": {"num_bitz": 4}})").find("num_bitz") != std::string::npos);
  CHECK(fault_of(R"({"targets": [], "foo": 1})").find("unknown key \"foo\"") != std::string::npos);
  CHECK(fault_of(R"({"weights": {}})").find("has no targets") != std::string::npos);
  CHECK(fault_of(R"({"targets": [], "weights": {"num_bits": 1e300}})").find("num_bits") != std::string::npos);
  CHECK(fault_of(R"({"targets": [], "weights": {"block_structure": "12x"}})").find("block_structure") !=
        std::string::npos);
  CHECK(fault_of("[1]").find("preset") != std::string::npos);
  CHECK(fault_of("7").find("not a scheme") != std::string::npos);
}

TEST_CASE("names match targets by equality, or by an expression from the start") {
  const JsonDocument document = verdicts("match_cases.json");
  const std::vector<std::string> names = strings_of(document.root.get("names"));
  for (const JsonValue& one : document.root.get("match_name")->elements) {
    INFO(*one.string("target"));
    const ct::Patterns patterns({std::string(*one.string("target"))});
    std::vector<std::string> matched;
    for (const std::string& name : names)
      if (patterns.matches(name)) matched.push_back(name);
    CHECK(matched == strings_of(one.get("matches")));
  }
}

TEST_CASE("a module's group is the library's, whatever the order of groups") {
  const JsonDocument document = verdicts("match_cases.json");
  const JsonValue& classes = *document.root.get("module_classes");
  for (const JsonValue& one : document.root.get("apply_quantization_config")->elements) {
    ct::Config config;
    for (const JsonValue& targets : one.get("groups")->elements) {
      ct::Group group;
      group.name = "group_" + std::to_string(config.groups.size());
      group.targets = strings_of(&targets);
      config.groups.push_back(group);
    }
    config.ignore = strings_of(one.get("ignore"));
    const ct::Schemes schemes(config);
    for (const auto& [module, expected] : one.get("assigned")->members) {
      INFO(module);
      const ct::Group* group = schemes.assign(module, *classes.string(module));
      CHECK((group == nullptr ? "" : group->name) == expected.text);
    }
  }
}

TEST_CASE("names alone tell what can be quantised as the converter has it") {
  const JsonDocument document = verdicts("match_cases.json");
  const std::vector<std::string> names = strings_of(document.root.get("names"));
  for (const JsonValue& one : document.root.get("match_quantizable_tensors")->elements) {
    const ct::Patterns targets(strings_of(one.get("targets"))), ignore(strings_of(one.get("ignore")));
    std::vector<std::string> matched, expected;
    for (const std::string& name : names)
      if (ct::is_quantizable(name, targets, ignore)) matched.push_back(name);
    for (const JsonValue& pair : one.get("matches")->elements)
      if (const std::string& name = pair.elements[0].text;
          std::find(expected.begin(), expected.end(), name) == expected.end())
        expected.push_back(name);
    CHECK(matched == expected);
  }
}

TEST_CASE("expressions that are not understood match nothing, and are told") {
  const std::string config =
      "{\"config_groups\": {\"g\": {\"targets\": [\"re:(?<x>a)\", \"Linear\"], \"weights\": {}}}, "
      "\"ignore\": [\"re:(\"]}";
  const ct::Schemes schemes(config_of(config));
  CHECK(schemes.unread() == std::vector<std::string>{"re:(", "re:(?<x>a)"});
  CHECK(schemes.assign("a", "Linear") != nullptr);
  CHECK_FALSE(schemes.ignores("a"));
}

TEST_CASE("versions and presets") {
  CHECK(ct::version_number("0.17.1") == 17'001);
  CHECK(ct::version_number("0.18.0.a20260101") == 18'000);
  CHECK(ct::version_number("1.2") == 1'002'000);
  CHECK_FALSE(ct::version_number("0"));
  CHECK_FALSE(ct::version_number("new"));
  CHECK(ct::find_preset("w4a16_asym")->weights->symmetric == false);
  CHECK(ct::find_preset("W4A8")->inputs->bits == 8);
  CHECK_FALSE(ct::find_preset("W8A16")->inputs);
  CHECK_FALSE(ct::find_preset("W9A9"));
  for (const std::string_view name : ct::preset_names()) {
    INFO(name);
    CHECK(ct::find_preset(name));
  }
}
