// Models in real folders: what paths mean, links, things that are no files, and what changes under the reader.
#include "tftf_native/model_reader.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "memory_model.h"
#include "scratch.h"

using namespace tftf;
using test::ordered_names;
using test::scalar_file;
using test::Scratch;
using test::spill;
using NameList = std::vector<std::string>;

namespace {

constexpr ReaderOptions kTransform{ReadMode::kTransform};
constexpr ReaderOptions kInspect{ReadMode::kInspect};

const std::string kFirst = "model-00001-of-00002.safetensors";
const std::string kSecond = "model-00002-of-00002.safetensors";
const std::string kIndex = "model.safetensors.index.json";

void write_sharded(const Scratch& folder) {
  spill(folder / kFirst, scalar_file({"a", "c"}));
  spill(folder / kSecond, scalar_file({"b"}));
  spill(folder / kIndex, R"({"metadata":{},"weight_map":{"b":")" + kSecond + R"(","c":")" + kFirst +
                             R"(","a":")" + kFirst + R"("}})");
  spill(folder / "config.json", R"({"model_type":"llama"})");
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a folder, its index and its files by path") {
  const Scratch folder;
  write_sharded(folder);
  for (const std::string& path :
       {folder.path(), folder.path() + "/", folder.path() + "//", folder / kIndex}) {
    INFO(path);
    const auto model = read_model(path, kTransform);
    REQUIRE(model.ok());
    CHECK(ordered_names(model->checkpoint) == NameList{"b", "c", "a"});
    CHECK(model->folder == folder.path());
    CHECK(model->path_of(kFirst) == folder / kFirst);
    REQUIRE(model->seen.size() == 2);
    CHECK(model->seen[1] == *file_fingerprint(folder / kFirst));
    REQUIRE(model->checkpoint.config());
    CHECK(model->checkpoint.listing.given == path);
  }
  const auto one = read_model(folder / kFirst, kTransform);
  REQUIRE(one.ok());
  CHECK(ordered_names(one->checkpoint) == NameList{"a", "c"});
  CHECK(one->checkpoint.config());
  CHECK(one->checkpoint.listing.kind == ModelListing::Kind::kFile);
}

TEST_CASE("paths relative to the current folder") {
  const Scratch folder;
  write_sharded(folder);
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  const auto index = read_model(kIndex, kTransform);
  const auto here = read_model(".", kTransform);
  std::filesystem::current_path(before);
  REQUIRE(index.ok());
  CHECK(index->folder == ".");
  CHECK(index->path_of(kFirst) == kFirst);
  REQUIRE(here.ok());
  CHECK(here->checkpoint.order.size() == 3);
}

TEST_CASE("a path that does not exist is a usage error, one that cannot be looked at is not") {
  const Scratch folder;
  spill(folder / "file", "x");
  for (const char* name : {"nope", "nope/file", "file/inside"}) {
    const auto model = read_model(folder / name, kInspect);
    REQUIRE_FALSE(model.ok());
    CHECK(model.error().code == ErrorCode::kUsagePath);
    CHECK(contains(model.error().message, "does not exist"));
  }
  REQUIRE(::symlink("loop", (folder / "loop").c_str()) == 0);
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  for (const std::string& path : {folder / "loop", folder / "pipe", std::string("/dev/null")}) {
    const auto model = read_model(path, kInspect);
    REQUIRE_FALSE(model.ok());
    CHECK(model.error().code == ErrorCode::kIoRead);
  }
}

TEST_CASE("links are followed, as in a hub cache") {
  const Scratch cache;
  std::filesystem::create_directories(cache / "blobs");
  std::filesystem::create_directories(cache / "snapshots/rev");
  spill(cache / "blobs/1", scalar_file({"x"}));
  std::filesystem::create_symlink("../../blobs/1", cache / "snapshots/rev/model.safetensors");
  const auto model = read_model(cache / "snapshots/rev", kTransform);
  REQUIRE(model.ok());
  CHECK(ordered_names(model->checkpoint) == NameList{"x"});
  std::filesystem::create_directory_symlink("snapshots/rev", cache / "latest");
  CHECK(read_model(cache / "latest", kTransform).ok());
}

TEST_CASE("what stands in a shard's place and is no readable file") {
  struct Case {
    const char* what;
    void (*make)(const std::string& path);
    const char* reason;
  };
  const Case cases[] = {
      {"FIFO", [](const std::string& path) { CHECK(::mkfifo(path.c_str(), 0600) == 0); },
       "not a regular file"},
      {"folder", [](const std::string& path) { std::filesystem::create_directory(path); },
       "not a regular file"},
      {"link to a device",
       [](const std::string& path) { std::filesystem::create_symlink("/dev/zero", path); },
       "not a regular file"},
      {"dangling link", [](const std::string& path) { std::filesystem::create_symlink("nowhere", path); },
       "link to nothing"},
      {"link to itself", [](const std::string& path) { CHECK(::symlink(path.c_str(), path.c_str()) == 0); },
       "symbolic links"},
      {"sparse file with a huge size",
       [](const std::string& path) {
         spill(path, std::string("\x00\xE1\xF5\x05\0\0\0\0", 8));
         std::filesystem::resize_file(path, uint64_t{1} << 40);
       },
       "not valid JSON"},
  };
  for (const Case& one : cases) {
    INFO(one.what);
    const Scratch folder;
    write_sharded(folder);
    std::filesystem::remove(folder / kFirst);
    one.make(folder / kFirst);
    const auto model = read_model(folder.path(), kTransform);
    REQUIRE_FALSE(model.ok());
    CHECK(contains(model.error().message, one.reason));
    CHECK(model.error().file == kFirst);
    const auto inspected = read_model(folder.path(), kInspect);
    REQUIRE(inspected.ok());
    CHECK(inspected->checkpoint.shards[1].status == ShardStatus::kBroken);
    CHECK(inspected->checkpoint.find("b"));
  }
}

TEST_CASE("shards and side files that the listing lacks are looked for by name") {
  const Scratch folder;
  std::filesystem::create_directories(folder / "sub");
  spill(folder / "sub/x.safetensors", scalar_file({"a"}));
  spill(folder / kIndex, R"({"metadata":{},"weight_map":{"a":"sub/x.safetensors"}})");
  for (const std::string& path : {folder.path(), folder / kIndex}) {
    const auto model = read_model(path, kTransform);
    REQUIRE(model.ok());
    CHECK(model->path_of(model->checkpoint.shards[0].name) == folder / "sub/x.safetensors");
  }
  std::filesystem::remove(folder / "sub/x.safetensors");
  const auto missing = read_model(folder.path(), kTransform);
  REQUIRE_FALSE(missing.ok());
  CHECK(contains(missing.error().message, "not there"));
}

TEST_CASE("a folder of ten thousand files") {
  const Scratch folder;
  for (int i = 0; i < 10'000; ++i)
    spill(folder / (std::to_string(i) + (i % 10 == 0 ? ".safetensors" : ".txt")), "");
  const auto transform = read_model(folder.path(), kTransform);
  REQUIRE_FALSE(transform.ok());
  CHECK(transform.error().message.size() < 1000);
  const auto inspected = read_model(folder.path(), kInspect);
  REQUIRE(inspected.ok());
  CHECK(inspected->checkpoint.shards.size() == 1000);
}
