// The transforms as people start them: equal bytes for any threads, tiles and kernels; streams and statuses; what
// is left behind.
#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>

#include "run_program.h"
#include "scratch_folder.h"
#include "tftf/base/json_text.h"
#include "tftf/simd/kernels.h"
#include "transform_host.h"

namespace tftf {

using namespace test;

namespace {

using Words = std::vector<std::string>;

ProgramRun convert(Words arguments, const std::string& folder, const Words& environment = {}) {
  arguments.insert(arguments.begin(), TFTF_BIN "/tftf");
  ProgramRun run = run_program(arguments, folder, environment);
  INFO(run.out);
  INFO(run.err);
  REQUIRE((run.status <= 2 || run.status == 130));
  return run;
}

void spill_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string slurp_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

Words names_within(const std::string& folder) {
  Words names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

// Every kind of scale, casts of several dtypes, sizes on both sides of every tile.
void make_mixed_model(const std::string& folder) {
  std::filesystem::create_directory(folder);
  std::vector<float> scales(3 * 5);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = 0.01f * static_cast<float>(i + 1);
  spill_file(folder + "/model-00001-of-00002.safetensors",
             model_file({{"a.weight", DType::F8_E4M3, {300, 520}, random_bytes(300 * 520, 1)},
                         {"b.weight", DType::F8_E5M2, {7, 1}, random_bytes(7, 2)},
                         {"b.weight_scale_inv", DType::F32, {7, 1}, f32_bytes({1, 2, 3, 4, 5, 6, 7})},
                         {"c", DType::I64, {3, 5}, random_bytes(120, 3)}},
                        {{"format", "pt"}}));
  spill_file(folder + "/model-00002-of-00002.safetensors",
             model_file({{"a.weight_scale_inv", DType::F32, {3, 5}, f32_bytes(scales)},
                         {"d", DType::F64, {1000, 70}, random_bytes(1000 * 70 * 8, 4)},
                         {"e", DType::BF16, {0, 4}, ""},
                         {"f", DType::F16, {33}, random_bytes(66, 5)},
                         {"g.weight", DType::F8_E4M3, {3, 5, 9}, random_bytes(135, 6)},
                         {"g.weight_scale_inv", DType::BF16, {3, 1, 9}, random_bytes(54, 7)}}));
  spill_file(folder + "/model.safetensors.index.json",
             R"({"metadata": {"total_size": 1, "by": "hand"}, "weight_map": {
          "a.weight": "model-00001-of-00002.safetensors", "a.weight_scale_inv": "model-00002-of-00002.safetensors",
          "b.weight": "model-00001-of-00002.safetensors", "b.weight_scale_inv": "model-00001-of-00002.safetensors",
          "c": "model-00001-of-00002.safetensors", "d": "model-00002-of-00002.safetensors",
          "e": "model-00002-of-00002.safetensors", "f": "model-00002-of-00002.safetensors",
          "g.weight": "model-00002-of-00002.safetensors", "g.weight_scale_inv": "model-00002-of-00002.safetensors"}})");
  spill_file(folder + "/config.json",
             R"({"torch_dtype": "float32", "quantization_config": {"quant_method": "fp8"}})");
  spill_file(folder + "/tokenizer.json", "{}");
}

std::map<std::string, std::string> folder_contents(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const std::string& name : names_within(folder)) files[name] = slurp_file(folder + "/" + name);
  return files;
}

const std::string kTftfGolden = TFTF_TEST_DATA "/golden/tftf";

}  // namespace

TEST_CASE("threads, tiles and kernels change no byte of any file") {
  ScratchFolder scratch;
  make_mixed_model(scratch / "in");
  const Words commands[] = {{"dequant-fp8", "-i", "in"},
                            {"run", "-i", "in", "--dequant-fp8", "fp32", "--dtype-cast", "float16"},
                            {"passthrough", "-i", "in", "--exclude", "*.weight*", "--dtype", "bfloat16",
                             "--max-shard-size", "100KB"}};
  for (const Words& command : commands) {
    std::map<std::string, std::string> first;
    std::string account;
    for (const char* threads : {"1", "2", "8"}) {
      for (const char* tile : {"1KiB", "64KiB", "1MiB", "4MiB"}) {
        for (const KernelTable* kernels : available_kernels()) {
          Words words = command;
          words.insert(words.begin() + 1, {"-o", "out", "--threads", threads, "--tile-size", tile, "--json"});
          INFO(command[0] << " " << threads << " " << tile << " " << kernels->name);
          const ProgramRun run =
              convert(words, scratch.path().string(), {"TFTF_SIMD=" + std::string(kernels->name)});
          REQUIRE(run.status == 0);
          auto files = folder_contents(scratch / "out");
          if (first.empty()) {
            first = std::move(files);
            account = run.out;
          } else {
            CHECK((files == first));
            // Counts of the data too; only how often a scale was read depends on the tiles.
            OrderedJson a = OrderedJson::parse(account), b = OrderedJson::parse(run.out);
            a["bytes"]["read"] = b["bytes"]["read"] = 0;
            CHECK(a == b);
          }
          std::filesystem::remove_all(scratch / "out");
        }
      }
    }
    CHECK(first.size() >= 4);
  }
}

TEST_CASE("a folder of shards gets index, side files and an edited config.json") {
  ScratchFolder scratch;
  make_mixed_model(scratch / "in");
  REQUIRE(::chmod((scratch / "in/tokenizer.json").c_str(), 0640) == 0);
  std::filesystem::last_write_time(scratch / "in/tokenizer.json",
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(100));
  const ProgramRun run = convert({"dequant-fp8", "-i", "in", "-o", "out"}, scratch.path().string());
  REQUIRE(run.status == 0);
  CHECK(names_within(scratch / "out") == Words{"config.json", "model-00001-of-00001.safetensors",
                                               "model.safetensors.index.json", "tokenizer.json"});
  CHECK(slurp_file(scratch / "out/config.json") == R"({"torch_dtype": "bfloat16"})");
  struct stat from {
  }, to{};
  REQUIRE(::stat((scratch / "in/tokenizer.json").c_str(), &from) == 0);
  REQUIRE(::stat((scratch / "out/tokenizer.json").c_str(), &to) == 0);
  CHECK(to.st_mode == from.st_mode);
  CHECK(to.st_mtime == from.st_mtime);
  CHECK(run.out.find("config.json: /quantization_config: {\"quant_method\":\"fp8\"} -> removed\n") !=
        std::string::npos);
  CHECK(metadata_of(slurp_file(scratch / "out/model-00001-of-00001.safetensors")) ==
        Metadata{{"format", "pt"}});
}

TEST_CASE("a name that ends in .safetensors is one file, with parents made") {
  ScratchFolder scratch;
  make_mixed_model(scratch / "in");
  REQUIRE(convert({"dequant-fp8", "-i", "in", "-o", "x/y/out.safetensors", "-q"}, scratch.path().string())
              .status == 0);
  CHECK(names_within(scratch / "x/y") == Words{"out.safetensors"});
  REQUIRE(
      convert({"dequant-fp8", "-i", "in", "-o", "sharded.safetensors", "--sharded"}, scratch.path().string())
          .status == 0);
  CHECK(names_within(scratch / "sharded.safetensors").size() == 4);
  REQUIRE(convert({"dequant-fp8", "-i", "in", "-o", "plain", "--single"}, scratch.path().string()).status ==
          0);
  CHECK((slurp_file(scratch / "plain") == slurp_file(scratch / "x/y/out.safetensors")));
}

TEST_CASE("a dry run prints plan and account, writes nothing and refuses what the run would refuse") {
  ScratchFolder scratch;
  make_mixed_model(scratch / "in");
  const ProgramRun dry =
      convert({"dequant-fp8", "-i", "in", "-o", "out", "--dry-run"}, scratch.path().string());
  CHECK(dry.status == 0);
  CHECK(dry.out.find("plan 1 dequant-fp8 dtype=bfloat16 tile=1048576\ninput 0 ") == 0);
  CHECK(dry.out.find("\nmemory ") != std::string::npos);
  CHECK(dry.out.find("(dry run: nothing is written)\ntensors: 10 in, 7 out, 3 changed, 4 copied\n") !=
        std::string::npos);
  CHECK(names_within(scratch.path().string()) == Words{"in"});
  CHECK(OrderedJson::parse(convert({"dequant-fp8", "-i", "in", "-o", "/dev/null", "--dry-run", "--json"},
                                   scratch.path().string())
                               .out)["dry_run"] == true);

  spill_file(scratch / "taken", "x");
  std::filesystem::create_directory(scratch / "full");
  spill_file(scratch / "full/x", "x");
  std::filesystem::create_directory(scratch / "dir.safetensors");
  const std::pair<const char*, int> places[] = {
      {"in", 1}, {"in/below", 1}, {"full", 1}, {"taken", 2}, {"dir.safetensors", 2}};
  for (const auto& [place, status] : places) {
    for (const bool dry_run : {true, false}) {
      INFO(place << (dry_run ? " dry" : ""));
      Words words{"passthrough", "-i", "in", "-o", place};
      if (dry_run) words.push_back("--dry-run");
      const ProgramRun run = convert(words, scratch.path().string());
      CHECK(run.status == status);
      CHECK(run.err.find(place) != std::string::npos);
      CHECK(run.out.empty());
    }
  }
  CHECK(names_within(scratch / "in").size() == 5);
}

TEST_CASE("refusals by the data leave nothing either") {
  ScratchFolder scratch;
  std::filesystem::create_directory(scratch / "in");
  spill_file(scratch / "in/model.safetensors",
             model_file({{"a.weight", DType::F8_E4M3, {4, 4}, random_bytes(16, 1)},
                         {"a.weight_scale", DType::F32, {1}, f32_bytes({0})}}));
  const ProgramRun run =
      convert({"dequant-fp8", "-i", "in", "-o", "made/out", "--json", "--weight-scale", "divide"},
              scratch.path().string());
  CHECK(run.status == 1);
  CHECK(names_within(scratch.path().string()) == Words{"in"});
  const OrderedJson error = OrderedJson::parse(run.out)["error"];
  CHECK(error["code"] == "refused-values");
  CHECK(error["tensor"] == "a.weight_scale");
  CHECK(error["file"] == "model.safetensors");
}

TEST_CASE("exit statuses: help 0, refusals 1, usage 2, each with a sentence") {
  const auto status = [](const Words& words) {
    const ProgramRun run = convert(words, kTftfGolden);
    if (run.status != 0) {
      CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
      CHECK(run.err.find("tftf: ") == 0);
      CHECK(run.err.substr(run.err.size() - 2) == ".\n");
    }
    return run.status;
  };
  CHECK(status({}) == 0);
  CHECK(status({"--help"}) == 0);
  CHECK(status({"--version"}) == 0);
  CHECK(status({"run", "-h"}) == 0);
  CHECK(status({"nonsense"}) == 2);
  CHECK(status({"--bogus"}) == 2);
  CHECK(status({"--", "info", "x"}) == 2);
  CHECK(status({"--no-progress"}) == 2);
  CHECK(status({"passthrough"}) == 2);
  CHECK(status({"passthrough", "-i", "inputs/mixed"}) == 2);
  CHECK(status({"passthrough", "-i", "inputs/nope", "-o", "/dev/null", "--dry-run"}) == 2);
  const Words base{"passthrough", "-i", "inputs/mixed", "-o", "/dev/null", "--dry-run", "-q"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), base.begin(), base.end());
    return status(more);
  };
  CHECK(with({}) == 0);
  CHECK(with({"--bogus"}) == 2);
  CHECK(with({"--dtype", "int8"}) == 2);
  CHECK(with({"--dtype", "BFLOAT16"}) == 0);
  CHECK(with({"--cast-floats-only"}) == 2);
  CHECK(with({"--max-shard-size", "5XB"}) == 2);
  CHECK(with({"--max-shard-size", "-5"}) == 2);
  CHECK(with({"--threads", "0"}) == 2);
  CHECK(with({"--simd", "abacus"}) == 2);
  CHECK(with({"--single", "--sharded"}) == 2);
  CHECK(with({"--include", "[a,b]", "--include", "i?", "--exclude", "-x"}) == 0);
  CHECK(with({"--dtype", "float16", "--max-memory", "1"}) == 1);
  CHECK(status({"dequant-fp8", "-i", "inputs/fp8_missing_scale.safetensors", "-o", "/dev/null",
                "--dry-run"}) == 1);
  CHECK(status({"dequant-fp8", "-i", "inputs/fp8_b4", "-o", "/dev/null", "--dry-run", "--block-size", "0"}) ==
        2);
  CHECK(status({"dequant-fp8", "-i", "inputs/fp8_b4", "-o", "/dev/null", "--dry-run", "--dtype", "bf15"}) ==
        2);
  CHECK(status({"validate", "inputs/mixed", "--pipe", "dtype:Float16"}) == 2);
  CHECK(status({"validate", "inputs/mixed", "--pipe", "nope"}) == 2);
  CHECK(status({"passthrough", "-i", "inputs/bad/truncated.safetensors", "-o", "/dev/null", "--dry-run"}) ==
        1);
}

TEST_CASE("run takes its own options anywhere and leaves the rest to the chain") {
  ScratchFolder scratch;
  const auto run = [&](const Words& words) {
    std::filesystem::remove_all(scratch / "out");
    return convert(words, scratch.path().string());
  };
  make_mixed_model(scratch / "in");
  const Words kept{"c"};
  for (const Words& words : {Words{"run", "-i", "in", "-o", "out", "--key-filter", "c"},
                             Words{"run", "-i", "in", "-o", "out", "--key-filter", "c", "--reshard", "5GB"},
                             Words{"run", "--key-filter", "c", "-i", "in", "--exclude", "zz", "-o", "out",
                                   "--max-shard-size", "1"},
                             Words{"run", "-iin", "-oout", "--key-filter", "--max-shard-size=1", "c"},
                             Words{"run", "-i", "in", "-o", "out", "--", "--key-filter", "c"}}) {
    INFO(words[1] << " " << words[2]);
    REQUIRE(run(words).status == 0);
    CHECK(tensors_of(slurp_file(scratch / "out/model-00001-of-00001.safetensors")).at(0).name == "c");
  }
  // Behind the first pipe a value may begin with one dash, whatever letters follow.
  REQUIRE(run({"run", "-i", "in", "-o", "out", "--key-filter", "-old", "-qx", "-i2", "c"}).status == 0);
  REQUIRE(run({"run", "-i", "in", "-o", "out", "--key-rename", "^c$", "-o"}).status == 2);
  CHECK(run({"run", "-i", "in", "-o", "out", "--key-filter", "c", "--unknown"}).status == 2);
  CHECK(run({"run", "-i", "in", "-o", "out", "stray"}).status == 2);
  // No pipes: a copy.
  REQUIRE(run({"run", "-i", "in", "-o", "out"}).status == 0);
  CHECK(tensors_of(slurp_file(scratch / "out/model-00001-of-00001.safetensors")).size() == 10);
}

TEST_CASE("one shard of a model is taken, and said to be one") {
  const ProgramRun run = convert({"passthrough", "-i", "inputs/sharded/model-00002-of-00002.safetensors",
                                  "-o", "/dev/null", "--dry-run", "-q"},
                                 kTftfGolden);
  CHECK(run.status == 0);
  CHECK(run.err.find("warning: ") == 0);
  CHECK(run.err.find("\"model.safetensors.index.json\"") != std::string::npos);
  CHECK(convert({"passthrough", "-i", "inputs/sharded", "-o", "/dev/null", "--dry-run", "-q"}, kTftfGolden)
            .err.empty());
}

TEST_CASE("validate reports what the original reports, and the same as data") {
  const ProgramRun text = convert({"validate", "inputs/mixed", "--pipe", "filter:*q_proj*"}, kTftfGolden);
  CHECK(text.status == 0);
  const std::string begin = "\nTensors : 2\nSize    : 0.000 GiB  (140 bytes)\nElapsed : ";
  REQUIRE(text.out.find(begin) == 0);
  const size_t after = text.out.find_first_not_of("0123456789.", begin.size());
  CHECK(after > begin.size());
  CHECK(text.out.substr(after) == "s\nDtypes  : BF16=2\nResult  : OK \xE2\x80\x94 all checks passed.\n");
  const ProgramRun a = convert({"validate", "inputs/mixed", "--json"}, kTftfGolden),
                   b = convert({"validate", "inputs/mixed", "--json"}, kTftfGolden);
  CHECK(a.out == b.out);
  const OrderedJson json = OrderedJson::parse(a.out);
  CHECK(json["n_tensors"] == 15);
  CHECK(json["elapsed"].is_null());
  CHECK(json["dtype_counts"]["F32"] == 4);
  CHECK_FALSE(
      OrderedJson::parse(convert({"validate", "inputs/mixed", "--json", "-v"}, kTftfGolden).out)["elapsed"]
          .is_null());
}

TEST_CASE("Ctrl-C ends a run with status 130 and a sentence") {
  ScratchFolder scratch;
  const std::string header =
      *write_header({{"a", DType::F32, {uint64_t{1} << 34}}}, {}, HeaderForm::kReference);
  spill_file(scratch / "sparse.safetensors", header);
  std::filesystem::resize_file(scratch / "sparse.safetensors", header.size() + (uint64_t{1} << 36));
  ProgramRun run;
  // A slow machine may not have begun to listen after the first of these.
  for (const char* seconds : {"0.5", "2", "8", "32", "128"}) {
    run = run_program({"/usr/bin/timeout", "--preserve-status", "-s", "INT", seconds, TFTF_BIN "/tftf",
                       "validate", "sparse.safetensors", "--threads", "1"},
                      scratch.path().string());
    if (!run.err.empty()) break;
  }
  CHECK(run.status == 130);
  CHECK(run.err.find("tftf: ") == 0);
}

TEST_CASE("an interrupted run names the command that continues it, and that one does") {
  ScratchFolder scratch;
  const std::string header =
      *write_header({{"a", DType::F32, {uint64_t{1} << 24}}}, {}, HeaderForm::kReference);
  spill_file(scratch / "big model.safetensors", header);
  std::filesystem::resize_file(scratch / "big model.safetensors", header.size() + (uint64_t{1} << 26));
  const Words words{
      "passthrough", "-i", "big model.safetensors", "-o",   "out.safetensors", "--dtype", "bfloat16",
      "--threads",   "1",  "--tile-size",           "1KiB", "--no-resume"};
  ProgramRun run;
  // How long it takes until there is something to continue depends on the machine: longer each time, and from the start
  // again in smaller steps when one was too long.
  double seconds = 0.05, growth = 2;
  for (int attempt = 0; attempt < 100; ++attempt, seconds *= growth) {
    Words timed{"/usr/bin/timeout",      "--preserve-status", "-s", "INT",
                std::to_string(seconds), TFTF_BIN "/tftf"};
    timed.insert(timed.end(), words.begin(), words.end());
    run = run_program(timed, scratch.path().string());
    if (run.err.find("this continues: ") != std::string::npos) break;
    if (run.status != 0) continue;
    std::filesystem::remove(scratch / "out.safetensors");
    seconds = 0.05;
    growth = 1 + (growth - 1) / 2;
  }
  INFO(run.err);
  REQUIRE(run.status == 130);
  const size_t at = run.err.find("this continues: ");
  REQUIRE(at != std::string::npos);
  // To the end of the line, so that a double click takes it.
  const std::string command = run.err.substr(at + 16, run.err.find('\n', at) - at - 16);
  CHECK(command == TFTF_BIN
        "/tftf passthrough -i 'big model.safetensors' -o out.safetensors --dtype bfloat16 --threads 1 "
        "--tile-size 1KiB");
  const ProgramRun rest = run_program({"/bin/sh", "-c", command}, scratch.path().string());
  CHECK(rest.status == 0);
  CHECK(rest.out.find("resumed") != std::string::npos);
  CHECK(names_within(scratch.path().string()) == Words{"big model.safetensors", "out.safetensors"});
}

TEST_CASE("a file that may not grow so far is an error with a sentence, not the end by a signal") {
  ScratchFolder scratch;
  const std::string header =
      *write_header({{"a", DType::F32, {uint64_t{1} << 20}}}, {}, HeaderForm::kReference);
  spill_file(scratch / "in.safetensors", header);
  std::filesystem::resize_file(scratch / "in.safetensors", header.size() + (uint64_t{1} << 22));
  const ProgramRun run =
      run_program({"/bin/sh", "-c",
                   "ulimit -f 100; exec " TFTF_BIN "/tftf dequant-fp8 -i in.safetensors -o out.safetensors"},
                  scratch.path().string());
  CHECK(run.status == 1);
  CHECK(run.err.find("tftf: ") == 0);
  CHECK_FALSE(std::filesystem::exists(scratch / "out.safetensors"));
}

TEST_CASE("an output folder that holds the input is refused even with --overwrite") {
  ScratchFolder scratch;
  make_mixed_model(scratch / "in");
  const auto before = folder_contents(scratch / "in");
  const auto refused = [&](const std::string& input, const std::string& output) {
    const ProgramRun run =
        convert({"passthrough", "-i", input, "-o", output, "--overwrite"}, scratch.path().string());
    INFO(run.err);
    CHECK(run.status == 1);
    CHECK(run.err.find("input") != std::string::npos);
    CHECK((folder_contents(scratch / "in") == before));
  };
  // One shard of several: its siblings would have gone as stale.
  refused("in/model-00001-of-00002.safetensors", "in");
  refused("in/model-00001-of-00002.safetensors", "./in/../in");
  refused("in", "in");
  // A snapshot of links into a folder of blobs.
  std::filesystem::create_directory(scratch / "snapshot");
  std::filesystem::create_symlink("../in/model-00002-of-00002.safetensors",
                                  scratch / "snapshot/model.safetensors");
  refused("snapshot", "in");
}

TEST_CASE(
    "scales of a layout that is not known are refused, and so is a scale of which nothing tells the sense") {
  ScratchFolder scratch;
  for (const char* name : {"a.w_scale", "a.weight_scale_2"}) {
    spill_file(scratch / "m.safetensors",
               model_file({{"a.weight", DType::F8_E4M3, {2, 2}, random_bytes(4, 1)},
                           {name, DType::F32, {}, f32_bytes({2})}}));
    const ProgramRun run =
        convert({"dequant-fp8", "-i", "m.safetensors", "-o", "/dev/null", "--dry-run", "--allow-unscaled"},
                scratch.path().string());
    CHECK(run.status == 1);
    CHECK(run.err.find(name) != std::string::npos);
  }
  spill_file(scratch / "m.safetensors", model_file({{"a.weight", DType::F8_E4M3, {2, 2}, random_bytes(4, 1)},
                                                    {"a.weight_scale", DType::F32, {}, f32_bytes({2})}}));
  const auto dry = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"dequant-fp8", "-i", "m.safetensors", "-o", "/dev/null", "--dry-run"});
    return convert(more, scratch.path().string());
  };
  const ProgramRun run = dry({});
  CHECK(run.status == 1);
  CHECK(run.err.find("--weight-scale multiply") != std::string::npos);
  CHECK(dry({"--weight-scale", "multiply"}).status == 0);
  CHECK(dry({"--weight-scale", "divide"}).status == 0);
  CHECK(dry({"--weight-scale", "add"}).status == 2);
}

}  // namespace tftf
