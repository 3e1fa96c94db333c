// Where an adapter is found in what was given.
#include "tftf/adapter/adapter_search.h"

#include <catch2/catch.hpp>
#include <set>

using namespace tftf;

namespace {

FileEntry entry_of(const std::string& name, bool folder) {
  FileEntry entry;
  entry.name = name;
  entry.regular = !folder;
  entry.folder = folder;
  return entry;
}

// A tree of files by their paths, relative to the folder that is given; "../NAME" lies around it.
struct AdapterTree {
  std::set<std::string> files;

  std::vector<FileEntry> look(const AdapterSearch::Question& question) const {
    std::vector<FileEntry> found;
    const std::string prefix = question.path.empty() ? "" : question.path + "/";
    std::set<std::string> folders;
    for (const std::string& file : files) {
      if (!question.entries && file == question.path) found.push_back(entry_of(file, false));
      if (!question.entries || file.compare(0, prefix.size(), prefix) != 0 || file.starts_with(".."))
        continue;
      const std::string rest = file.substr(prefix.size());
      const size_t slash = rest.find('/');
      if (slash == std::string::npos)
        found.push_back(entry_of(rest, false));
      else if (folders.insert(rest.substr(0, slash)).second)
        found.push_back(entry_of(rest.substr(0, slash), true));
    }
    return found;
  }
};

struct Given {
  std::string given = "runs/a";
  std::string main{};
  bool distributed = false;
  bool configured = false;
};

Result<FoundAdapter> search(std::set<std::string> files, const Given& given = {}) {
  const AdapterTree tree{std::move(files)};
  AdapterSearch search(given.given, given.main, given.distributed, given.configured);
  while (const auto question = search.want()) search.answer(*question, tree.look(*question));
  return search.take();
}

const std::string kModelFile = "adapter_model.safetensors";
const std::string kConfigFile = "adapter_config.json";

}  // namespace

TEST_CASE("a lone file is taken, with the configuration beside it") {
  const auto found = search({"x.bin.safetensors", kConfigFile},
                            {.given = "d/x.bin.safetensors", .main = "x.bin.safetensors"});
  REQUIRE(found);
  CHECK(found->path == "x.bin.safetensors");
  CHECK(found->file == "d/x.bin.safetensors");
  CHECK(found->config == kConfigFile);
  CHECK(found->config_file == "d/adapter_config.json");
  CHECK_FALSE(search({"x"}, {.given = "x", .main = "x"})->config.has_value());
  CHECK_FALSE(
      search({"x", kConfigFile}, {.given = "x", .main = "x", .configured = true})->config.has_value());
  CHECK(search({"x", kConfigFile}, {.given = "x", .main = "x"})->config_file == kConfigFile);
  CHECK(search({"x"}, {.given = "x", .main = "x", .distributed = true}).error().code ==
        ErrorCode::kUsagePath);
}

TEST_CASE("a folder gives its adapter_model.safetensors, or says what else it holds") {
  const auto found = search({kModelFile, kConfigFile});
  REQUIRE(found);
  CHECK_FALSE(found->distributed);
  CHECK(found->file == "runs/a/adapter_model.safetensors");
  CHECK(found->config_file == "runs/a/adapter_config.json");
  CHECK(search({kModelFile}, {.given = "runs/a/"})->file == "runs/a/adapter_model.safetensors");
  CHECK(search({"adapter_model.bin", kConfigFile})->file == "runs/a/adapter_model.bin");
  CHECK(search({"adapter_model.bin", kModelFile})->file == "runs/a/adapter_model.safetensors");
  const auto other = search({"lora.safetensors", "lora.pt", kConfigFile, "model.safetensors"});
  CHECK(other.error().code == ErrorCode::kRefusedMissing);
  CHECK(other.error().message.find("\"lora.safetensors\"") != std::string::npos);
  CHECK(other.error().message.find("\"lora.pt\"") != std::string::npos);
  CHECK(other.error().message.find("\"model.safetensors\"") == std::string::npos);  // it is none
  const auto whole = search({"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"});
  CHECK(whole.error().message.find("whole model") != std::string::npos);
  CHECK(whole.error().message.find("name one of them") == std::string::npos);
  CHECK(search({"readme"}).error().message.find("nothing like an adapter") != std::string::npos);
}

TEST_CASE("a distributed checkpoint takes the configuration of the folder around it") {
  const auto found = search({".metadata", "__0_0.distcp", "../" + kConfigFile});
  REQUIRE(found);
  CHECK(found->distributed);
  CHECK(found->path.empty());
  CHECK(found->file == "runs/a");
  CHECK(found->files.size() == 2);
  CHECK(found->config == "../adapter_config.json");
  CHECK(found->config_file == "runs/adapter_config.json");
  CHECK(search({".metadata", "../" + kConfigFile}, {.given = "."})->config_file ==
        "./../adapter_config.json");
  CHECK(search({".metadata", "../" + kConfigFile}, {.given = "a"})->config_file == kConfigFile);
  CHECK_FALSE(search({".metadata", kConfigFile})->config.has_value());
  // Without .metadata it is for its reader to say what is missing.
  CHECK(search({kModelFile}, {.distributed = true})->distributed);
}

TEST_CASE("of a training folder the final adapter is taken, else the last checkpoint") {
  const auto final_one = search({kModelFile, kConfigFile, "checkpoint-5/" + kModelFile});
  REQUIRE(final_one);
  CHECK(final_one->path == kModelFile);
  CHECK(final_one->notices.size() == 1);
  const auto last = search({kConfigFile, "checkpoint-9/" + kModelFile, "checkpoint-10/" + kModelFile,
                            "checkpoint-10/" + kConfigFile, "checkpoint-x/" + kModelFile});
  REQUIRE(last);
  CHECK(last->path == "checkpoint-10/adapter_model.safetensors");
  CHECK(last->config == kConfigFile);  // the training folder's own
  CHECK(last->notices.size() == 1);
  CHECK(search({"checkpoint-1/" + kModelFile, "checkpoint-1/" + kConfigFile})->config ==
        "checkpoint-1/adapter_config.json");
  CHECK(search({"checkpoint-1/readme"}).error().code == ErrorCode::kUsagePath);
  CHECK(search({"checkpoint-1/" + kModelFile}, {.distributed = true}).error().code == ErrorCode::kUsagePath);
  CHECK(search({kModelFile, "checkpoint-1/.metadata"}, {.distributed = true})->path == "checkpoint-1");
}

TEST_CASE("of distributed checkpoints in a checkpoint the first is taken that is no optimizer's") {
  const auto found =
      search({kConfigFile, "checkpoint-3/Optimizer_0/.metadata", "checkpoint-3/b/.metadata",
              "checkpoint-3/c/.metadata", "checkpoint-3/a/readme", "checkpoint-3/" + kModelFile});
  REQUIRE(found);
  CHECK(found->path == "checkpoint-3/b");
  CHECK(found->distributed);
  CHECK(found->config == kConfigFile);
  CHECK(found->notices.size() == 2);
  CHECK(search({"checkpoint-3/optimizer_0/.metadata", "checkpoint-3/" + kConfigFile})->path ==
        "checkpoint-3/optimizer_0");
  CHECK(search({"checkpoint-3/optimizer_0/.metadata", "checkpoint-3/" + kConfigFile})->config ==
        "checkpoint-3/adapter_config.json");
}

TEST_CASE("the tokenizer beside an adapter is found where the adapter's folder was given") {
  const auto names = [](const Result<FoundAdapter>& found) {
    REQUIRE(found);
    std::vector<std::string> list;
    for (const FileEntry& file : found->tokenizer) list.push_back(file.name);
    return list;
  };
  const std::set<std::string> files = {kModelFile,
                                       kConfigFile,
                                       "tokenizer.json",
                                       "added_tokens.json",
                                       "README.md",
                                       "tokenizer_config.json",
                                       "chat_template.jinja",
                                       "vocab.json",
                                       "training_args.bin"};
  CHECK(names(search(files)) == std::vector<std::string>{"added_tokens.json", "chat_template.jinja",
                                                         "tokenizer.json", "tokenizer_config.json",
                                                         "vocab.json"});
  // Of a training folder, what lies beside the checkpoint that is taken.
  CHECK(names(search({"checkpoint-2/" + kModelFile, "checkpoint-2/tokenizer.json", "tokenizer.model"})) ==
        std::vector<std::string>{"checkpoint-2/tokenizer.json"});
  // A lone file may lie in any folder.
  CHECK(names(search(files, {.given = "d/" + kModelFile, .main = kModelFile})).empty());
  CHECK(names(search({kModelFile})).empty());
}
