#include <catch2/catch.hpp>

#include "tftf/base/sha256.h"
#include "tftf/plan/plan.h"
#include "tftf/plan/plan_json.h"
#include "toy_model.h"
#include "toy_ops.h"

using namespace tftf;
using namespace tftf::test;

namespace {

std::string without_line_ends(const std::string& text, const std::string& word) {
  // Cuts " word…" to the end of each line.
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    std::string line = text.substr(at, end - at);
    if (const size_t cut = line.rfind(word); cut != std::string::npos) line.resize(cut);
    result += line + "\n";
    at = end + 1;
  }
  return result;
}

}  // namespace

TEST_CASE("the text form of a plan") {
  const ToyModel model(400);
  auto plan = model.plan(128, true);
  REQUIRE(plan.ok());
  CHECK(plan->to_text() ==
        "plan 1 toy tile=128\n"
        "input 0 \"in0\" 407 sha256:" +
            std::string(64, '0') +
            "\n"
            "input 1 \"in1\" 464 sha256:" +
            std::string(64, '1') +
            "\n"
            "output 0 \"toy-00001-of-00003.safetensors\" 880 header 16\n"
            "output 1 \"toy-00002-of-00003.safetensors\" 1616 header 16\n"
            "output 2 \"toy-00003-of-00003.safetensors\" 264 header 16\n"
            "measure sum \"large\" 0:0+400 tiles 4\n"
            "tensor \"xored\" U8 [400] out 0:16+400 xor-table 0:0+400 tiles 4\n"
            "copy \"copied\" U8 [464] out 0:416+464 from 1:0+464\n"
            "tensor \"spread\" U8 [1200] out 1:16+1200 spread 0:0+400 tiles 10\n"
            "also \"complement\" U8 [400] out 1:1216+400\n"
            "tensor \"columns\" U8 [240] out 2:16+240 columns 1:0+24x10/40 tiles 2\n"
            "literal \"literal\" U8 [8] out 2:256+8 hex 6c69746572616c21\n"
            "drop \"unused\" companion\n"
            "side \"config.json\" copied\n"
            "side \"note.txt\" rewritten\n"
            "side \"toy.safetensors.index.json\" index\n");
}

TEST_CASE("the long text form lists the steps of each tensor") {
  const ToyModel model(400);
  auto plan = model.plan(4096);
  REQUIRE(plan.ok());
  const std::string text = plan->to_text(true);
  CHECK(text.find("tiles 1\n  step 2 0:0+400 out 1:16+1200 1:1216+400\nalso") != std::string::npos);
  CHECK(text.find("tiles 1\n  step 0 0:0+400\ntensor") != std::string::npos);
}

TEST_CASE("the hash is that of the text without tiles, and no tiling changes it") {
  const ToyModel model(4000);
  auto plan = model.plan(128);
  auto other = model.plan(1000);
  REQUIRE((plan.ok() && other.ok()));
  std::string text = plan->to_text();
  text = without_line_ends(without_line_ends(text, " tile="), " tiles ");
  CHECK(plan->hash() == sha256_hex(text));
  CHECK(plan->hash() == other->hash());
  CHECK(plan->to_text() != other->to_text());
}

TEST_CASE("whatever names the work changes the hash") {
  const auto hash = [](auto change) {
    PlanBuilder builder("cmd", {});
    Input input{"in", 100, "00"};
    Output output{.name = "out", .size = 100};
    PlanEntry entry;
    entry.name = "t";
    entry.dtype = DType::F32;
    entry.shape = {5, 5};
    entry.to = {.row_bytes = 100};
    entry.from = {{.row_bytes = 100}};
    change(input, output, entry);
    builder.add_input(input);
    builder.add_output(output, "");
    builder.add_copy(entry);
    auto plan = builder.build();
    REQUIRE(plan.ok());
    return plan->hash();
  };
  const std::string base = hash([](Input&, Output&, PlanEntry&) {});
  CHECK(base == hash([](Input&, Output&, PlanEntry&) {}));
  CHECK(base != hash([](Input& i, Output&, PlanEntry&) { i.header_sha256 = "01"; }));
  CHECK(base != hash([](Input& i, Output&, PlanEntry&) { i.path = "in2"; }));
  CHECK(base != hash([](Input& i, Output&, PlanEntry&) { i.size = 101; }));
  CHECK(base != hash([](Input&, Output& o, PlanEntry&) { o.name = "b"; }));
  CHECK(base != hash([](Input&, Output&, PlanEntry& e) { e.name = "t\n"; }));
  CHECK(base != hash([](Input&, Output&, PlanEntry& e) { e.dtype = DType::I32; }));
  CHECK(base != hash([](Input&, Output&, PlanEntry& e) { e.shape = {25}; }));
}

TEST_CASE("names in the text form are JSON strings and keep to their line") {
  PlanBuilder builder("cmd", {});
  PlanEntry drop;
  drop.kind = PlanEntry::Kind::kDrop;
  drop.name = "a\"\n\xE2\x80\xAE\x1B[2J";
  drop.word = "filtered";
  builder.add_note(drop);
  auto plan = builder.build();
  REQUIRE(plan.ok());
  CHECK(plan->to_text() == "plan 1 cmd tile=1048576\ndrop \"a\\\"\\n\\u202e\\u001b[2J\" filtered\n");
}

TEST_CASE("the JSON form has the same fields") {
  const ToyModel model(400);
  auto plan = model.plan(128, true);
  REQUIRE(plan.ok());
  const OrderedJson json = plan_json(*plan);
  CHECK(json["plan"] == 1);
  CHECK(json["command"] == "toy");
  CHECK(json["tile"] == 128);
  CHECK(json["inputs"][1] ==
        OrderedJson({{"path", "in1"}, {"size", 464}, {"header_sha256", std::string(64, '1')}}));
  CHECK(json["outputs"][2] ==
        OrderedJson({{"name", "toy-00003-of-00003.safetensors"}, {"size", 264}, {"header", 16}}));
  const auto& lines = json["lines"];
  REQUIRE(lines.size() == 11);
  CHECK(lines[0].dump() == R"({"measure":"large","op":"sum","from":["0:0+400"],"with":[],"tiles":4})");
  CHECK(
      lines[3].dump() ==
      R"({"tensor":"spread","dtype":"U8","shape":[1200],"out":"1:16+1200","op":"spread","from":["0:0+400"],"with":[],"tiles":10})");
  CHECK(lines[2].dump() ==
        R"({"copy":"copied","dtype":"U8","shape":[464],"out":"0:416+464","from":["1:0+464"]})");
  CHECK(lines[6].dump() ==
        R"({"literal":"literal","dtype":"U8","shape":[8],"out":"2:256+8","hex":"6c69746572616c21"})");
  CHECK(lines[7].dump() == R"({"drop":"unused","reason":"companion"})");
  CHECK(lines[9].dump() == R"({"side":"note.txt","how":"rewritten"})");
}
