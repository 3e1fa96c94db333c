// The colibri folder tools as people start them: passes into one folder, what is refused, what is left behind, what
// continues.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "run_program.h"
#include "scratch_folder.h"
#include "tftf/base/json_text.h"
#include "transform_host.h"

namespace tftf {

using namespace test;

namespace {

namespace fs = std::filesystem;

const std::string kFolderCases = TFTF_TEST_DATA "/golden/colibri/cases";

ProgramRun colibri_tool(std::vector<std::string> arguments, const std::string& folder = {}) {
  arguments.insert(arguments.begin(), {TFTF_BIN "/tftf", "colibri"});
  return run_program(arguments, folder);
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_bytes(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::vector<std::string> entries_of(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

bool tells(const ProgramRun& run, const std::string& text) { return run.err.find(text) != std::string::npos; }

using ToolWords = std::vector<std::string>;

}  // namespace

TEST_CASE("both passes of repack-fp8 go into one folder, and neither writes over anything") {
  ScratchFolder scratch;
  const std::string out = scratch / "out", in = kFolderCases + "/src-small/in";
  const ToolWords main{"repack-fp8", "--indir", in, "--outdir", out, "--n-layers", "2"};
  ToolWords mtp = main;
  mtp.push_back("--mtp");
  CHECK(colibri_tool(main).status == 0);
  CHECK(colibri_tool(mtp).status == 0);
  CHECK(entries_of(out) == ToolWords{"config.json", "generation_config.json", "out-fp8pass-00000.safetensors",
                                     "out-fp8pass-00001.safetensors", "out-mtp-fp8pass-00000.safetensors",
                                     "tokenizer.json"});
  for (const std::string& name : entries_of(out))
    CHECK(bytes_of(out + "/" + name) == bytes_of(kFolderCases + "/rp-mtp/out/" + name));
  const ProgramRun again = colibri_tool(main);
  CHECK(again.status == 1);
  CHECK(tells(again, "--overwrite"));
  ToolWords over = main;
  over.push_back("--overwrite");
  CHECK(colibri_tool(over).status == 0);
  CHECK(entries_of(out).size() == 6);
  // A side file of other content is somebody's.
  fs::remove(out + "/out-fp8pass-00000.safetensors");
  fs::remove(out + "/out-fp8pass-00001.safetensors");
  write_bytes(out + "/config.json", "{}");
  const ProgramRun other = colibri_tool(main);
  CHECK(other.status == 1);
  CHECK(tells(other, "config.json"));
}

TEST_CASE("a dry run and a refusal of a folder tool leave nothing behind") {
  ScratchFolder scratch;
  const std::string out = scratch / "out";
  const ProgramRun dry = colibri_tool({"repack-fp8", "--indir", kFolderCases + "/src-fp8/in", "--outdir", out,
                                       "--n-layers", "2", "--dry-run", "--json"});
  CHECK(dry.status == 0);
  const OrderedJson account = OrderedJson::parse(dry.out);
  CHECK(account["dry_run"] == true);
  CHECK(account["files"][0]["bytes"] ==
        fs::file_size(kFolderCases + "/rp-main/out/out-fp8pass-00000.safetensors"));
  for (const char* source :
       {"rp-amb-routed", "rp-i98-routed", "rp-badscale", "rp-bf16-resident", "rp-zero", "rp-no-tokenizer"}) {
    const ProgramRun run = colibri_tool(
        {"repack-fp8", "--indir", kFolderCases + "/" + source + "/in", "--outdir", out, "--n-layers", "2"});
    CHECK(run.status == 1);
    CHECK_FALSE(run.err.empty());
  }
  for (const char* source : {"rans-ref-g64", "rans-ref-none"})
    CHECK(colibri_tool({"rans-repack", "--indir", kFolderCases + "/" + source + "/in", "--outdir", out})
              .status == 1);
  CHECK(fs::is_empty(scratch.path()));
}

TEST_CASE("a wrong command line of a folder tool is exit 2") {
  ScratchFolder scratch;
  write_bytes(scratch / "file", "x");
  const std::string in = kFolderCases + "/src-small/in";
  for (const ToolWords& words :
       {ToolWords{"repack-fp8", "--indir", scratch / "none", "--outdir", scratch / "out"},
        ToolWords{"repack-fp8", "--indir", scratch / "file", "--outdir", scratch / "out"},
        ToolWords{"repack-fp8", "--indir", in, "--outdir", scratch / "file"},
        ToolWords{"repack-fp8", "--indir", in},
        ToolWords{"repack-fp8", "--indir", in, "--outdir", scratch / "out", "--n-layers", "many"},
        ToolWords{"repack-fp8", "--indir", in, "--outdir", scratch / "out", "--repo", "x"},
        ToolWords{"rans-repack", "--indir", in},
        ToolWords{"rans-repack", "--indir", in, "--outdir", "x", "--layers", "1,"}}) {
    const ProgramRun run = colibri_tool(words);
    INFO(run.err);
    CHECK(run.status == 2);
  }
  CHECK(colibri_tool({"repack-fp8", "--indir", in, "--outdir", in + "/inside"}).status == 1);
}

TEST_CASE("sources are removed when asked for, but not those another pass needs") {
  ScratchFolder scratch;
  const std::string in = scratch / "in", out = scratch / "out";
  fs::copy(kFolderCases + "/src-small/in", in);
  for (const auto& entry : fs::directory_iterator(in))
    fs::permissions(entry.path(), fs::perms::owner_write, fs::perm_options::add);
  const ToolWords words{"repack-fp8", "--indir", in, "--outdir", out, "--n-layers", "2", "--delete-source"};
  ToolWords dry = words;
  dry.push_back("--dry-run");
  CHECK(colibri_tool(dry).status == 0);
  CHECK(entries_of(in).size() == 7);
  CHECK(colibri_tool(words).status == 0);
  CHECK(entries_of(in) == ToolWords{"config.json", "generation_config.json",
                                    "model-00003-of-00003.safetensors", "model.safetensors.index.json",
                                    "tokenizer.json"});
  CHECK(entries_of(out).size() == 5);
}

TEST_CASE("the range coder replaces its container by force only, and describes one that has no manifest") {
  ScratchFolder scratch;
  const std::string out = scratch / "out", in = kFolderCases + "/rans-repack/in";
  const ToolWords words{"rans-repack", "--indir", in, "--outdir", out};
  CHECK(colibri_tool(words).status == 0);
  const std::string manifest = bytes_of(kFolderCases + "/rans-repack/out/repack-manifest.json");
  CHECK(bytes_of(out + "/repack-manifest.json") == manifest);
  CHECK(bytes_of(out + "/out-rans-00000.safetensors") ==
        bytes_of(kFolderCases + "/rans-repack/out/out-rans-00000.safetensors"));
  CHECK(colibri_tool(words).status == 1);
  ToolWords force = words;
  force.push_back("--force");
  CHECK(colibri_tool(force).status == 0);
  CHECK(colibri_tool({"rans-repack", "--manifest-only", out}).status == 1);
  fs::remove(out + "/repack-manifest.json");
  CHECK(colibri_tool({"rans-repack", "--manifest-only", out}).status == 0);
  std::string described = bytes_of(out + "/repack-manifest.json");
  const size_t at = described.find("null");  // the source is not known
  REQUIRE(at != std::string::npos);
  CHECK(described.replace(at, 4, "\"out-00000.safetensors\"") == manifest);
  CHECK(entries_of(out) == ToolWords{"out-rans-00000.safetensors", "repack-manifest.json"});
  CHECK(colibri_tool({"rans-repack", "--manifest-only", in}).status == 1);
}

TEST_CASE("an interrupted folder tool continues, and not with other inputs or options") {
  ScratchFolder scratch;
  const std::string in = scratch / "in", out = scratch / "out", whole = scratch / "whole";
  fs::create_directory(in);
  std::vector<TestTensor> tensors;
  for (const char* part : {"down", "gate", "up"}) {
    const std::string name = "model.layers.1.mlp.experts.0." + std::string(part) + "_proj.weight";
    tensors.push_back({name + ".qs", DType::F32, {1000}, std::string(4000, '\1')});
    tensors.push_back({name, DType::U8, {4'000'000}, random_bytes(4'000'000, 1)});
  }
  write_bytes(in + "/out-00000.safetensors", model_file(tensors));
  const ToolWords words{TFTF_BIN "/tftf", "colibri", "rans-repack", "--indir", in,
                        "--threads",      "1",       "--outdir"};
  ToolWords reference = words;
  reference.push_back(whole);
  REQUIRE(run_program(reference).status == 0);

  ProgramRun run;
  double seconds = 0.05, growth = 1.5;
  for (int attempt = 0; attempt < 100; ++attempt, seconds *= growth) {
    ToolWords timed{"/usr/bin/timeout", "--preserve-status", "-s", "INT", std::to_string(seconds)};
    timed.insert(timed.end(), words.begin(), words.end());
    timed.push_back(out);
    run = run_program(timed);
    if (tells(run, "this continues: ")) break;
    if (run.status != 0) continue;
    fs::remove_all(out);
    seconds = 0.05;
    growth = 1 + (growth - 1) / 2;
  }
  INFO(run.err);
  REQUIRE(run.status == 130);
  ToolWords again = words;
  again.push_back(out);
  ToolWords other = again;
  other.insert(other.end(), {"--layers", "1"});
  const ProgramRun changed = run_program(other);
  CHECK(changed.status == 1);
  CHECK(tells(changed, "--no-resume"));
  const auto time = fs::last_write_time(in + "/out-00000.safetensors");
  fs::last_write_time(in + "/out-00000.safetensors", time + std::chrono::seconds(1));
  CHECK(run_program(again).status == 1);
  fs::last_write_time(in + "/out-00000.safetensors", time);
  const ProgramRun rest = run_program(again);
  INFO(rest.err);
  CHECK(rest.status == 0);
  CHECK(rest.out.find("resumed") != std::string::npos);
  for (const char* name : {"out-rans-00000.safetensors", "repack-manifest.json"})
    CHECK(bytes_of(out + "/" + name) == bytes_of(whole + "/" + name));
  CHECK(entries_of(out) == entries_of(whole));
}

}  // namespace tftf
