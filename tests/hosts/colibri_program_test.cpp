// `tftf colibri resolve, classify, stamps, rans-verify` as people start them, against the reference's answers.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "run_program.h"
#include "scratch_folder.h"
#include "tftf/base/bytes.h"
#include "tftf/quant/registry.h"

namespace tftf {

using test::ProgramRun;
using test::ScratchFolder;
using Json = nlohmann::ordered_json;

namespace {

const std::string kColibri = TFTF_TEST_DATA "/golden/colibri";

ProgramRun container_tool(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {TFTF_BIN "/tftf", "colibri"});
  return test::run_program(arguments);
}

Json json_file(const std::string& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

// The folder of rv-base with a case's changes.
void make_verify_case(const ScratchFolder& to, const Json& patch) {
  const std::string from = kColibri + "/cases/rv-base/in/";
  std::filesystem::copy(from + "repack-manifest.json", to.path());
  std::ifstream file(from + "out-rans-00000.safetensors", std::ios::binary);
  std::string raw{std::istreambuf_iterator<char>(file), {}};
  const auto length = load_le<uint64_t>(as_bytes(raw).data());
  std::string head = raw.substr(8, length);
  std::string body = raw.substr(8 + length);
  for (const Json& edit : patch.value("data", Json::array()))
    body[edit[0].get<size_t>()] = static_cast<char>(edit[1].get<int>());
  Json header = Json::parse(head);
  Json& metadata = header["__metadata__"];
  for (const Json& key : patch.value("metadata_delete", Json::array()))
    metadata.erase(key.get<std::string>());
  if (patch.contains("metadata_set")) metadata.update(patch["metadata_set"]);
  if (patch.contains("table_set")) {
    Json table = Json::parse(metadata["colibri.int4-rans256-g0.table"].get<std::string>());
    table.update(patch["table_set"]);
    metadata["colibri.int4-rans256-g0.table"] = table.dump();
  }
  if (patch.contains("header_set")) header.update(patch["header_set"]);
  for (const char* key : {"metadata_delete", "metadata_set", "table_set", "header_set"})
    if (patch.contains(key)) head = header.dump();
  std::string size(8, '\0');
  store_le<uint64_t>(reinterpret_cast<std::byte*>(size.data()), head.size());
  to.write("out-rans-00000.safetensors", size + head + body);
  const Json manifest = patch.value("manifest", Json());
  if (manifest == "delete") std::filesystem::remove(to / "repack-manifest.json");
  if (manifest.is_object()) to.write("repack-manifest.json", manifest["replace_text"].get<std::string>());
}

}  // namespace

TEST_CASE("rans-verify: the reference's verdicts") {
  const Json cases = json_file(kColibri + "/containers.json")["rans_verify"];
  REQUIRE(cases.size() > 15);
  for (const Json& one : cases) {
    INFO(one["id"]);
    ScratchFolder scratch;
    make_verify_case(scratch, one["patch"]);
    const ProgramRun run = container_tool({"rans-verify", scratch.path().string(), "--json"});
    const Json verdict = Json::parse(run.out);
    Json refusals = Json::array();
    for (const Json& refusal : verdict["refusals"])
      refusals.push_back({refusal["tensor"].is_null() ? "-" : refusal["tensor"], refusal["class"]});
    CHECK(refusals == one["refusals"]);
    CHECK(verdict["result"] == (refusals.empty() ? "TRUST" : "REFUSE"));
    CHECK(run.status == (refusals.empty() ? 0 : 1));
    CHECK(run.err.empty() == (refusals.empty() && !one["patch"].contains("manifest")));
  }
}

TEST_CASE("rans-verify: shards that are missing, foreign or not there; folders that are none") {
  ScratchFolder scratch;
  make_verify_case(scratch, Json::object());
  std::filesystem::copy(scratch / "out-rans-00000.safetensors", scratch / "out-rans-00001.safetensors");
  ProgramRun run = container_tool({"rans-verify", scratch.path().string()});
  CHECK(run.status == 1);
  CHECK(run.out ==
        "REFUSE out-rans-00001.safetensors - E_DIGEST_MISSING: the manifest does not list it\n"
        "RESULT: REFUSE (1 refusal(s))\n");
  std::filesystem::remove(scratch / "out-rans-00000.safetensors");
  run = container_tool({"rans-verify", scratch.path().string()});
  CHECK(run.out.find("REFUSE out-rans-00000.safetensors - E_SHARD_MALFORMED: the manifest lists it") == 0);
  scratch.write("out-rans-00001.safetensors", "short");
  std::filesystem::remove(scratch / "repack-manifest.json");
  run = container_tool({"rans-verify", scratch.path().string()});
  CHECK(run.out.find("E_SHARD_MALFORMED") != std::string::npos);
  CHECK(run.status == 1);
  ScratchFolder empty;
  CHECK(container_tool({"rans-verify", empty.path().string()}).status == 1);
  CHECK(container_tool({"rans-verify", scratch / "out-rans-00001.safetensors"}).status == 2);
  CHECK(container_tool({"rans-verify", scratch / "nothing"}).status == 2);
}

TEST_CASE("stamps: the reference's verdicts") {
  const Json cases = json_file(kColibri + "/containers.json")["stamps"];
  REQUIRE(cases.size() > 9);
  for (const Json& one : cases) {
    INFO(one["id"]);
    std::vector<std::string> arguments = {"stamps",
                                          kColibri + "/cases/" + one["id"].get<std::string>() + "/in"};
    for (const Json& name : one["query"])
      arguments.insert(arguments.end(), {"--query", name.get<std::string>()});
    const ProgramRun run = container_tool(arguments);
    const Json got = Json::parse(run.out);
    const Json& want = one["expect"];
    CHECK(got["verdict"] == want["verdict"]);
    CHECK(got["class"] == want.value("class", Json()));
    CHECK(got["stamps"] == want.value("stamps", Json::object()));
    CHECK(run.status == (want["verdict"] == "ok" ? 0 : 1));
    CHECK(run.err.empty() == (run.status == 0));
  }
}

TEST_CASE("resolve: batches, single pairs, and what is neither") {
  ScratchFolder scratch;
  Json rows = json_file(kColibri + "/cases/resolver-table-a/out/table.json");
  const Json expected = rows;
  for (Json& row : rows) row.erase("expect");
  const ProgramRun batch = container_tool({"resolve", "--batch", scratch.write("batch.json", rows.dump())});
  CHECK(batch.status == 0);
  const Json got = Json::parse(batch.out);
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    for (const auto& [key, value] : expected[i]["expect"].items()) CHECK(got[i][key] == value);

  const std::vector<std::string> pair = {"resolve", "--rows",        "64", "--cols", "98", "--weight-bytes",
                                         "6272",    "--scale-bytes", "4"};
  ProgramRun one = container_tool(pair);
  CHECK(one.status == 1);
  CHECK(Json::parse(one.out) ==
        Json::parse(R"({"verdict":"refuse","fmt":null,"group_size":null,"class":"fmt6-collision"})"));
  CHECK(one.err.find("[64,98]") != std::string::npos);
  auto stamped = pair;
  stamped.insert(stamped.end(), {"--stamp", "e8-iq3-lattice"});
  one = container_tool(stamped);
  CHECK(one.status == 0);
  CHECK(Json::parse(one.out)["fmt"] == 6);
  stamped.push_back("--routed");  // then the stamp is not consulted
  CHECK(container_tool(stamped).status == 1);

  CHECK(container_tool({"resolve"}).status == 2);
  CHECK(container_tool({"resolve", "--rows", "-1"}).status == 2);
  CHECK(container_tool({"resolve", "--batch", scratch / "nothing"}).status == 2);
  for (const char* text :
       {"", "{}", "[3]", "[{\"O\":1}]", "[{\"O\":-1,\"I\":1,\"weight_bytes\":1,\"scale_bytes\":1}]",
        "[{\"O\":1.0,\"I\":1,\"weight_bytes\":1,\"scale_bytes\":1}]",
        "[{\"O\":1,\"I\":1,\"weight_bytes\":1,\"scale_bytes\":1,\"stamp\":3}]"})
    CHECK(container_tool({"resolve", "--batch", scratch.write("bad.json", text)}).status == 1);
}

TEST_CASE("classify: the reference's table, and what is no table") {
  ScratchFolder scratch;
  const Json table = json_file(kColibri + "/cases/classify-a/out/table.json");
  Json rows = table;
  Json kinds = Json::array();
  for (Json& row : rows) {
    kinds.push_back(row[4]);
    row.erase(4);
  }
  const ProgramRun run = container_tool({"classify", "--batch", scratch.write("batch.json", rows.dump())});
  CHECK(run.status == 0);
  CHECK(Json::parse(run.out) == kinds);
  for (const char* text : {"{}", "[[\"a\"]]", "[[\"a\",1,2,0]]", "[[1,1,0,0]]", "[[\"a\",\"1\",0,0]]"})
    CHECK(container_tool({"classify", "--batch", scratch.write("bad.json", text)}).status == 1);
  CHECK(container_tool({"classify"}).status == 2);
}

TEST_CASE("formats: every layout of the registry, as text and as data") {
  const ProgramRun text = test::run_program({TFTF_BIN "/tftf", "formats"});
  CHECK(text.status == 0);
  const ProgramRun data = test::run_program({TFTF_BIN "/tftf", "formats", "--json"});
  CHECK(data.status == 0);
  const Json layouts = Json::parse(data.out)["layouts"];
  REQUIRE(layouts.size() == quant_formats().size());
  for (size_t i = 0; i < layouts.size(); ++i) {
    const QuantFormat& format = *quant_formats()[i];
    CHECK(layouts[i]["id"] == std::string(format.id));
    CHECK(layouts[i]["read"] == format.read());
    CHECK(layouts[i]["written"] == format.written());
    for (const Json& target : layouts[i]["repacked_to"]) CHECK(find_quant_format(target.get<std::string>()));
    CHECK(text.out.find("\n" + std::string(format.id) + " ") != std::string::npos);
  }
}

}  // namespace tftf
