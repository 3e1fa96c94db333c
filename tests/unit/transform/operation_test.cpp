#include "tftf/transform/operation.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "memory_model.h"
#include "transform_host.h"

using namespace tftf;

namespace {

Result<std::vector<Operation>> chain(const std::vector<std::string>& tokens) { return parse_chain(tokens); }

// "cast dtype=float16; filter include=a" or the error's sentence.
std::string shown(const std::vector<std::string>& tokens) {
  auto operations = chain(tokens);
  if (!operations) {
    CHECK(operations.error().code == ErrorCode::kUsage);
    return operations.error().message;
  }
  std::string text;
  for (const Operation& operation : *operations) {
    text += (text.empty() ? "" : "; ") + operation.id;
    for (const Operation::Given& given : operation.options) {
      text += " " + given.name + "=";
      for (size_t i = 0; i < given.values.size(); ++i) text += (i > 0 ? "," : "") + given.values[i];
    }
  }
  return text;
}

bool refused(const std::vector<std::string>& tokens) { return !chain(tokens).ok(); }

}  // namespace

TEST_CASE("the table of operations is complete and consistent") {
  std::set<std::string_view> ids, activators;
  for (const OperationInfo& info : all_operations()) {
    INFO(info.id);
    CHECK(ids.insert(info.id).second);
    CHECK(find_operation(info.id) == &info);
    CHECK_FALSE(info.title.empty());
    CHECK_FALSE(info.summary.empty());
    CHECK_FALSE(info.writes.empty());
    CHECK(info.obstacle != nullptr);
    // Whatever can be done can be done in a chain.
    REQUIRE_FALSE(info.activator.empty());
    CHECK(find_activator(info.activator) == &info);
    CHECK(activators.insert(info.activator).second);
    CHECK(info.option(info.bare) != nullptr);
    std::set<std::string_view> names;
    for (const OptionInfo& option : info.options) {
      INFO(option.name);
      CHECK(names.insert(option.name).second);
      CHECK_FALSE(option.help.empty());
      CHECK((option.kind == OptionKind::kChoice) == !option.choices.empty());
    }
  }
  CHECK(find_operation("nope") == nullptr);
}

TEST_CASE("a chain is sections of activators with their values") {
  CHECK(shown({}) == "");
  CHECK(shown({"--key-filter"}) == "filter");
  CHECK(shown({"--key-filter", "a*", "b", "--exclude", "c"}) == "filter include=a* include=b exclude=c");
  CHECK(shown({"--key-filter", "a", "--key-filter", "b"}) == "filter include=a; filter include=b");
  CHECK(shown({"--key-rename", "a", "b", "--rule", "c", ""}) == "rename rule=a,b rule=c,");
  CHECK(shown({"--key-rename", "-old", "-new"}) == "rename rule=-old,-new");
  CHECK(shown({"--dtype-cast", "float16"}) == "cast dtype=float16");
  CHECK(shown({"--dtype-cast", "--dtype", "float16", "--cast-floats-only"}) ==
        "cast dtype=float16 cast-floats-only=");
  CHECK(shown({"--dequant-fp8"}) == "dequant-fp8");
  CHECK(shown({"--dequant-fp8", "fp32", "--block-size", "4", "--device", "cuda"}) ==
        "dequant-fp8 dtype=float32 block-size=4 device=cuda");
  CHECK(shown({"--dequant", "--quantize", "fp8-block", "--repack", "colibri-fp8", "--reshard", "5GB"}) ==
        "dequant; quantize to=fp8-block; repack to=colibri-fp8; reshard max-shard-size=5GB");
}

TEST_CASE("a dtype has the same names in every operation") {
  size_t seen = 0;
  for (const OperationInfo& info : all_operations()) {
    for (const OptionInfo& option : info.options) {
      if (option.name != "dtype") continue;
      INFO(info.id);
      for (const auto& [words, dtype] : std::map<std::vector<std::string>, std::string>{
               {{"bfloat16", "bf16", "BF16", "BFloat16"}, "bfloat16"},
               {{"float16", "fp16", "f16", "F16", "half"}, "float16"},
               {{"float32", "fp32", "f32", "FP32"}, "float32"},
               {{"float64", "fp64", "f64", "double"}, "float64"}}) {
        const bool known = find_choice(option, dtype).has_value();
        for (const std::string& word : words) {
          INFO(word);
          CHECK(find_choice(option, word).value_or("") == (known ? dtype : ""));
          Operation operation{std::string(info.id), {{"dtype", {word}}}};
          spell_out_choices(operation);
          CHECK(check_options(operation).ok() == known);
          ++seen;
          if (!known) continue;
          CHECK(operation.options[0].values[0] == dtype);
          if (info.bare == "dtype")
            CHECK(shown({std::string(info.activator), word}) == std::string(info.id) + " dtype=" + dtype);
        }
      }
      for (const char* word : {"", "bf", "float", "int8", "bf16 "}) CHECK_FALSE(find_choice(option, word));
    }
  }
  CHECK(seen >= 3 * 16);
}

TEST_CASE("in a section an option is given once unless it may be repeated") {
  for (const OperationInfo& info : all_operations()) {
    for (const OptionInfo& option : info.options) {
      const std::string name = "--" + std::string(option.name);
      std::vector<std::string> once{name};
      for (uint32_t i = 0; i < option.values(); ++i)
        once.push_back(option.kind == OptionKind::kChoice ? std::string(option.choices[0]) : "5");
      std::vector<std::string> twice{std::string(info.activator)};
      twice.insert(twice.end(), once.begin(), once.end());
      twice.insert(twice.end(), once.begin(), once.end());
      INFO(info.id << " " << name);
      const bool told = shown(twice).find(name + " is given twice") != std::string::npos;
      CHECK(told == !option.repeatable);
    }
  }
}

TEST_CASE("chains that are wrong are refused with the reason") {
  CHECK(shown({"foo", "--key-filter", "x"}).find("\"foo\" stands before any operation") == 0);
  CHECK(shown({"--key-filter", "--bogus", "x"}) == "--key-filter has no option \"--bogus\".");
  CHECK(shown({"--dequant-fp8", "--block-size"}) == "--dequant-fp8 --block-size needs a value.");
  CHECK(shown({"--key-rename", "a"}) == "--key-rename --rule needs 2 values.");
  CHECK(shown({"--key-rename", "a", "--rule", "b", "c"}) == "--key-rename --rule needs 2 values.");
  CHECK(shown({"--dtype-cast"}) == "--dtype-cast needs a value or --dtype.");
  CHECK(shown({"--key-rename"}) == "--key-rename needs a value or --rule.");
  CHECK(refused({"--dequant-fp8", "float64"}));
  CHECK(refused({"--reshard", "0"}));
  // An option of another operation is said to be one.
  CHECK(shown({"--dequant-fp8", "bf16", "--rule", "a", "b"}) ==
        "--dequant-fp8 has no option \"--rule\"; it belongs to --key-rename, which has to stand before it.");
  CHECK(shown({"--block-size", "4"}) ==
        "\"--block-size\" stands before any operation; it belongs to --dequant-fp8, which has to stand "
        "before it.");
  CHECK(refused({"--key-filter", "--include=a"}));
  CHECK(refused({"--key-filter", "--include", "--exclude", "a"}));
  CHECK(refused({"--dequant-fp8", "--block-size", "x"}));
  CHECK(refused({"--dequant-fp8", "--block-size", "0"}));
  CHECK(refused({"--dequant-fp8", "--block-size", "-1"}));
  CHECK(refused({"--key-rename", "(", "x"}));
  CHECK(refused({"--key-rename", "a", "\\1"}));
  CHECK(refused({"--key-filter", "a", "--"}));
}

TEST_CASE("operations are checked whoever made them") {
  CHECK(check_operation({"cast", {{"dtype", {"BFloat16"}}}}).ok());
  CHECK_FALSE(check_operation({"cast", {{"dtype", {"bf16"}}}}).ok());
  CHECK_FALSE(check_operation({"cast", {}}).ok());
  CHECK_FALSE(check_operation({"cast", {{"dtype", {}}}}).ok());
  CHECK_FALSE(check_operation({"cast", {{"dtype", {"float16"}}, {"x", {}}}}).ok());
  CHECK_FALSE(check_operation({"nope", {}}).ok());
  CHECK(check_operation({"reshard", {{"max-shard-size", {"5GB"}}, {"single", {}}}}).ok());
  CHECK_FALSE(check_operation({"reshard", {{"max-shard-size", {"5XB"}}}}).ok());
  CHECK_FALSE(check_operation({"reshard", {{"max-shard-size", {"0"}}}}).ok());
}

TEST_CASE("the table as JSON tells what is applicable") {
  const OrderedJson bare = operations_json(nullptr);
  REQUIRE(bare.size() == all_operations().size());
  CHECK(bare[0]["id"] == "dequant-fp8");
  CHECK(bare[0]["applicable"].is_null());
  CHECK(bare[0]["options"][0]["choices"] == OrderedJson({"bfloat16", "float16", "float32"}));
  CHECK(bare[0]["options"][0]["default"] == "bfloat16");
  CHECK(bare[0]["options"].size() == 4);  // --device is no option of a form

  test::MemoryModel model;
  model.files["model.safetensors"] = test::scalar_file({"a"});
  const auto checkpoint = test::read_from_memory(model, model.folder(), {});
  REQUIRE(checkpoint.ok());
  const OrderedJson here = operations_json(&*checkpoint);
  CHECK(here[0]["applicable"] == false);
  CHECK(here[0]["reason"] == "It holds no FP8 tensor.");
  CHECK(here[1]["applicable"] == true);
  CHECK(here[1]["reason"].is_null());
}
