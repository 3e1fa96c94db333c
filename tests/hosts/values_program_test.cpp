// `tftf stats` and `tftf diff` as people start them, and their numbers against those that Python computes.
#include <catch2/catch.hpp>

#include "run_program.h"
#include "scratch_folder.h"
#include "tftf/base/json_text.h"

namespace tftf {

using test::ProgramRun;
using test::ScratchFolder;

namespace {

const std::string kValueInputs = TFTF_TEST_DATA "/golden/tftf/inputs";
const std::string kSample = TFTF_TEST_DATA "/../docs/sample/qwen3-tiny-fp8";

ProgramRun value_tool(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), TFTF_BIN "/tftf");
  return test::run_program(arguments, kValueInputs);
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

ProgramRun verify(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(),
                   {"/usr/bin/env", "python3", TFTF_TEST_DATA "/tools/verify_values.py", TFTF_BIN "/tftf"});
  return test::run_program(arguments, kValueInputs);
}

}  // namespace

TEST_CASE("statistics are those that Python computes") {
  const ProgramRun run = verify({kSample, "mixed", "fp8_b128"});
  INFO(run.out << run.err);
  CHECK(run.status == 0);
}

TEST_CASE("distances are those that Python computes") {
  ScratchFolder scratch;
  for (const char* dtype : {"bfloat16", "float16"}) {
    const std::string out = scratch / dtype;
    REQUIRE(value_tool({"dequant-fp8", "-i", kSample, "-o", out, "--dtype", dtype, "-q"}).status == 0);
    if (std::string(dtype) == "bfloat16") {
      const ProgramRun run = verify({"--diff", kSample, out});
      INFO(run.out << run.err);
      CHECK(run.status == 0);
    }
  }
  const ProgramRun run = verify({"--diff", scratch / "bfloat16", scratch / "float16"});
  INFO(run.out << run.err);
  CHECK(run.status == 0);
}

TEST_CASE("stats: forms, selections, exit statuses") {
  const ProgramRun all = value_tool({"stats", kSample});
  CHECK(all.status == 0);
  CHECK(all.err.empty());
  CHECK(holds(all.out, "Mean"));
  const ProgramRun logical = value_tool({"stats", "--logical", "--json", kSample});
  const OrderedJson json = OrderedJson::parse(logical.out);
  CHECK(json["logical"] == true);
  for (const OrderedJson& tensor : json["tensors"])
    CHECK_FALSE(holds(tensor["name"].get<std::string>(), "_scale_inv"));
  for (const char* threads : {"1", "7"})
    CHECK(value_tool({"stats", "--logical", "--json", "--threads", threads, kSample}).out == logical.out);
  CHECK(value_tool({"stats", "--logical", "--json", "--simd", "scalar", kSample}).out == logical.out);

  const ProgramRun none = value_tool({"stats", "--include", "no such", kSample});
  CHECK(none.status == 0);
  CHECK(holds(none.err, "warning: no tensor"));
  CHECK(value_tool({"stats", "--tensor", "no such", kSample}).status == 1);
  CHECK(value_tool({"stats", "not-there"}).status == 2);
  CHECK(value_tool({"stats"}).status == 2);
  CHECK(value_tool({"stats", "--histogram", "0", kSample}).status == 2);
  const ProgramRun tight = value_tool({"stats", "--max-memory", "1k", "--json", kSample});
  CHECK(tight.status == 1);
  CHECK(OrderedJson::parse(tight.out)["error"]["code"] == "refused-memory");
}

TEST_CASE("stats: a heat map of one tensor") {
  const OrderedJson info = OrderedJson::parse(value_tool({"stats", "--json", kSample}).out);
  std::string matrix;
  for (const OrderedJson& tensor : info["tensors"])
    if (matrix.empty() && tensor["shape"].size() == 2) matrix = tensor["name"];
  const OrderedJson map = OrderedJson::parse(
      value_tool({"stats", "--json", "--tensor", matrix, "--heat-map", "4x8", kSample}).out);
  CHECK(map["height"] == 4);
  CHECK(map["width"] == 8);
  CHECK(map["mean"].size() == 32);
  const ProgramRun text = value_tool(
      {"stats", "--tensor", matrix, "--heat-map", "4x8", "--rows", "0:2", "--columns", "3:6", kSample});
  CHECK(text.status == 0);
  CHECK(text.out.size() == 2 * 4);
  CHECK(value_tool({"stats", "--heat-map", "4x8", kSample}).status == 2);
  CHECK(value_tool({"stats", "--tensor", "no such", "--heat-map", "4x8", kSample}).status == 1);
  for (const char* wrong : {"4", "x4", "0x4", "4x", "4x99999", "99999999999999999999x1"})
    CHECK(value_tool({"stats", "--tensor", matrix, "--heat-map", wrong, kSample}).status == 2);
  for (const char* wrong : {"3", "3:3", "4:3", ":3"})
    CHECK(value_tool({"stats", "--tensor", matrix, "--heat-map", "4x4", "--rows", wrong, kSample}).status ==
          2);
}

TEST_CASE("diff: exit statuses say whether there is a difference") {
  ScratchFolder scratch;
  const std::string out = scratch / "bf16";
  REQUIRE(value_tool({"dequant-fp8", "-i", kSample, "-o", out, "-q"}).status == 0);
  const ProgramRun same = value_tool({"diff", "--values", "--strict", kSample, kSample});
  CHECK(same.status == 0);
  CHECK(same.err.empty());
  const ProgramRun headers = value_tool({"diff", kSample, out});
  CHECK(headers.status == 1);
  CHECK(holds(headers.err, "are different"));
  CHECK(holds(headers.out, "quantization_config"));
  CHECK(value_tool({"diff", "--values", kSample, out}).status == 0);
  CHECK(value_tool({"diff", "--values", "--strict", kSample, out}).status == 1);
  const std::string half = scratch / "f16";
  REQUIRE(value_tool({"dequant-fp8", "-i", kSample, "-o", half, "--dtype", "float16", "-q"}).status == 0);
  CHECK(value_tool({"diff", "--values", out, half}).status == 1);
  CHECK(value_tool({"diff", "--tolerance", "0.01", out, half}).status == 0);
  const OrderedJson json =
      OrderedJson::parse(value_tool({"diff", "--tolerance", "0.01", "--json", out, half}).out);
  CHECK(json["different"] == false);
  CHECK(json["summary"]["close"].get<int>() > 0);
  CHECK(value_tool({"diff", "--values", "--json", "--threads", "5", out, half}).out ==
        value_tool({"diff", "--values", "--json", "--simd", "scalar", "--threads", "1", out, half}).out);
  CHECK(value_tool({"diff", kSample}).status == 2);
  CHECK(value_tool({"diff", kSample, "not-there"}).status == 2);
  CHECK(value_tool({"diff", "--tolerance", "-1", kSample, out}).status == 2);
  CHECK(value_tool({"diff", "--tensor", "no such", kSample, out}).status == 1);
}

}  // namespace tftf
