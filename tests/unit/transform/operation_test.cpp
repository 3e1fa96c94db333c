#include "tftf/transform/operation.h"

#include <catch2/catch.hpp>
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
    CHECK(info.activator.empty() == info.bare.empty());
    if (!info.activator.empty()) {
      CHECK(activators.insert(info.activator).second);
      CHECK(info.make != nullptr);
      CHECK(info.option(info.bare) != nullptr);
    }
    std::set<std::string_view> names;
    for (const OptionInfo& option : info.options) {
      INFO(option.name);
      CHECK(names.insert(option.name).second);
      CHECK_FALSE(option.help.empty());
      CHECK((option.kind == OptionKind::kChoice) == !option.choices.empty());
      if (!option.chain_choices.empty()) CHECK(option.chain_choices.size() == option.choices.size());
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
  CHECK(chain({"--dtype-cast", "float16", "--dtype", "float32"})->at(0).find("dtype")->front() == "float32");
}

TEST_CASE("chains that are wrong are refused with the reason") {
  CHECK(shown({"foo", "--key-filter", "x"}).find("\"foo\" stands before any pipe") == 0);
  CHECK(shown({"--key-filter", "--bogus", "x"}) == "--key-filter has no option \"--bogus\".");
  CHECK(shown({"--dequant-fp8", "--block-size"}) == "--dequant-fp8 --block-size needs a value.");
  CHECK(shown({"--key-rename", "a"}) == "--key-rename --rule needs 2 values.");
  CHECK(shown({"--key-rename", "a", "--rule", "b", "c"}) == "--key-rename --rule needs 2 values.");
  CHECK(shown({"--dtype-cast"}) == "--dtype-cast needs a value or --dtype.");
  CHECK(shown({"--key-rename"}) == "--key-rename needs a value or --rule.");
  CHECK(refused({"--dtype-cast", "bf16"}));       // long names only
  CHECK(refused({"--dtype-cast", "Float16"}));    // and exact ones
  CHECK(refused({"--dequant-fp8", "bfloat16"}));  // short names only
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
