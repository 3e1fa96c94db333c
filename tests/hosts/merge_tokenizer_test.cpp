// --tokenizer-from: whose tokenizer a merged model has.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "run_program.h"
#include "scratch_folder.h"

namespace tftf {

using test::ProgramRun;
using test::ScratchFolder;

namespace {

namespace fs = std::filesystem;

void put(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// A base and an adapter, each with a tokenizer.
struct TokenizerMerge {
  ScratchFolder scratch;
  fs::path base = scratch.path() / "base", adapter = scratch.path() / "adapter", out = scratch.path() / "out";

  TokenizerMerge() {
    const std::string inputs = TFTF_TEST_DATA "/golden/tftf/inputs";
    fs::copy(inputs + "/base_f32", base, fs::copy_options::recursive);
    fs::copy(inputs + "/ad_basic", adapter, fs::copy_options::recursive);
    put(base / "tokenizer.json", "base");
    put(base / "special_tokens_map.json", "base");
    put(base / "chat_template.jinja", "base");
    put(adapter / "tokenizer.json", "adapter");
    put(adapter / "added_tokens.json", "adapter");
  }

  ProgramRun run(std::vector<std::string> more, const fs::path& to) {
    std::vector<std::string> words = {TFTF_BIN "/tftf", "merge-lora", "-b",        base.string(),  "-a",
                                      adapter.string(), "-o",         to.string(), "--no-progress"};
    words.insert(words.end(), more.begin(), more.end());
    return test::run_program(words, scratch.path().string());
  }
};

bool tokenizer_said(const ProgramRun& run, const std::string& part) {
  return run.err.find(part) != std::string::npos || run.out.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("--tokenizer-from adapter: its files stand for the model's, and what they leave behind is named") {
  TokenizerMerge merge;
  const ProgramRun run = merge.run({"--tokenizer-from", "adapter"}, merge.out);
  INFO(run.err);
  REQUIRE(run.status == 0);
  CHECK(text_of(merge.out / "tokenizer.json") == "adapter");
  CHECK(text_of(merge.out / "added_tokens.json") == "adapter");
  CHECK_FALSE(fs::exists(merge.out / "special_tokens_map.json"));
  CHECK(text_of(merge.out / "chat_template.jinja") == "base");
  CHECK(tokenizer_said(run, "special_tokens_map.json"));
  // Files without a vocabulary go beside those of the model.
  fs::remove(merge.adapter / "tokenizer.json");
  REQUIRE(merge.run({"--tokenizer-from", "adapter"}, merge.scratch.path() / "second").status == 0);
  CHECK(text_of(merge.scratch.path() / "second/tokenizer.json") == "base");
  CHECK(text_of(merge.scratch.path() / "second/special_tokens_map.json") == "base");
  CHECK(text_of(merge.scratch.path() / "second/added_tokens.json") == "adapter");
}

TEST_CASE("without --tokenizer-from the model's tokenizer stays, and the option is named") {
  TokenizerMerge merge;
  const ProgramRun run = merge.run({}, merge.out);
  REQUIRE(run.status == 0);
  CHECK(text_of(merge.out / "tokenizer.json") == "base");
  CHECK_FALSE(fs::exists(merge.out / "added_tokens.json"));
  CHECK(tokenizer_said(run, "--tokenizer-from adapter"));
  const ProgramRun kept = merge.run({"--tokenizer-from", "model"}, merge.scratch.path() / "second");
  CHECK(kept.status == 0);
  CHECK(text_of(merge.scratch.path() / "second/tokenizer.json") == "base");
}

TEST_CASE("--tokenizer-from adapter is refused where it could not be kept") {
  TokenizerMerge merge;
  const auto refused = [&](const fs::path& out, const std::string& why) {
    const ProgramRun run = merge.run({"--tokenizer-from", "adapter"}, out);
    INFO(run.err);
    CHECK(run.status != 0);
    CHECK(tokenizer_said(run, why));
    CHECK_FALSE(fs::exists(out));
  };
  refused(merge.scratch.path() / "one.safetensors", "name a folder");
  fs::remove(merge.adapter / "added_tokens.json");
  fs::create_symlink("nowhere", merge.adapter / "added_tokens.json");
  refused(merge.out, "added_tokens.json");
  fs::remove(merge.adapter / "added_tokens.json");
  fs::remove(merge.adapter / "tokenizer.json");
  refused(merge.out, "no files of a tokenizer");
}

}  // namespace tftf
