#include "tftf/transform/output_layout.h"

#include <catch2/catch.hpp>

#include "memory_model.h"

using namespace tftf;
using Starts = std::vector<size_t>;

TEST_CASE("a new shard opens when the current one would pass the limit") {
  CHECK(pack_shards({}, 10) == Starts{});
  CHECK(pack_shards({0}, 0) == Starts{0});
  CHECK(pack_shards({4, 4, 4}, 8) == Starts{0, 2});
  CHECK(pack_shards({4, 4, 4}, 7) == Starts{0, 1, 2});
  CHECK(pack_shards({4, 100, 4, 4}, 8) == Starts{0, 1, 2});  // an oversized tensor sits alone
  CHECK(pack_shards({4, 0, 0, 4}, 1) == Starts{0, 1, 3});    // 4 + 0 > 1, but 0 + 0 is not
  CHECK(pack_shards({0, 0, 4}, 4) == Starts{0});
  CHECK(pack_shards({UINT64_MAX, UINT64_MAX}, UINT64_MAX) == Starts{0, 1});
}

TEST_CASE("shards are numbered from one with at least five digits") {
  CHECK(shard_name(0, 1) == "model-00001-of-00001.safetensors");
  CHECK(shard_name(99999, 123456) == "model-100000-of-123456.safetensors");
  CHECK(shard_name(0, 123456) == "model-000001-of-123456.safetensors");
}

namespace {

Checkpoint with_metadata(const std::vector<Metadata>& shards) {
  Checkpoint checkpoint;
  for (const Metadata& metadata : shards) {
    Shard shard;
    shard.header.metadata = metadata;
    checkpoint.shards.push_back(std::move(shard));
  }
  return checkpoint;
}

}  // namespace

TEST_CASE("metadata of shards is merged, the first that has a key wins") {
  const Checkpoint one = with_metadata({{{"b", "1"}, {"a", "2"}}});
  CHECK(output_metadata(one, false, false) == Metadata{{"b", "1"}, {"a", "2"}});
  CHECK(output_metadata(with_metadata({{}}), false, false).empty());
  CHECK(output_metadata(with_metadata({{}}), true, false) == Metadata{{"format", "pt"}});
  const Checkpoint two = with_metadata({{{"x", "1"}}, {{"format", "tf"}, {"x", "2"}, {"y", "3"}}});
  CHECK(output_metadata(two, true, false) == Metadata{{"x", "1"}, {"format", "tf"}, {"y", "3"}});
}

TEST_CASE("hashes of the data go when the data changed") {
  const Checkpoint c =
      with_metadata({{{"sshs_model_hash", "h"}, {"sshs_legacy_hash", "h"}, {"modelspec.title", "t"}}});
  CHECK(output_metadata(c, false, false).size() == 3);
  CHECK(output_metadata(c, false, true) == Metadata{{"modelspec.title", "t"}});
}

TEST_CASE("the index is written as json.dumps(indent=2) writes it") {
  CHECK(index_text(nullptr, 0, {}) ==
        "{\n  \"metadata\": {\n    \"total_size\": 0\n  },\n  \"weight_map\": {}\n}");
  CHECK(index_text(nullptr, 12, {{"b\xC3\xA9\"", "m-1"}, {"a", "m-2"}}) ==
        "{\n  \"metadata\": {\n    \"total_size\": 12\n  },\n  \"weight_map\": {\n    \"b\\u00e9\\\"\": "
        "\"m-1\",\n"
        "    \"a\": \"m-2\"\n  }\n}");
}

TEST_CASE("unknown metadata of the old index stays where it was, total_size is new") {
  ShardIndex old;
  old.metadata =
      parse_json(R"({"a": {"x": [1, 2.50, {}], "y": []}, "total_size": 5.0, "z": null, "a2": true})",
                 JsonDialect::kPython)
          .root;
  CHECK(
      index_text(&old, 7, {}) ==
      "{\n  \"metadata\": {\n    \"a\": {\n      \"x\": [\n        1,\n        2.50,\n        {}\n      ],\n"
      "      \"y\": []\n    },\n    \"total_size\": 7,\n    \"z\": null,\n    \"a2\": true\n  },\n"
      "  \"weight_map\": {}\n}");
  old.metadata = parse_json(R"({"b": 1, "b": 2})", JsonDialect::kPython).root;
  CHECK(index_text(&old, 7, {}) ==
        "{\n  \"metadata\": {\n    \"b\": 2,\n    \"total_size\": 7\n  },\n  \"weight_map\": {}\n}");
}

namespace {

std::vector<std::string> copied(ModelListing::Kind kind, const std::vector<FileEntry>& files) {
  std::vector<std::string> names;
  for (const FileEntry& file : side_files_to_copy(kind, files)) names.push_back(file.name);
  return names;
}

}  // namespace

TEST_CASE("weights, indexes, leftovers and large files are not copied") {
  std::vector<FileEntry> files;
  for (const char* name : {"tokenizer.json",
                           "config.json",
                           ".hidden",
                           "notes.txt",
                           "model.safetensors",
                           "model.safetensors.index.json",
                           "x.gguf",
                           "pytorch_model.bin",
                           "a.pt",
                           "a.pth",
                           "a.ckpt",
                           "a.onnx",
                           "a.h5",
                           "a.msgpack",
                           "m.safetensors.tftf-part",
                           ".tftf-journal",
                           "out.safetensors.tftf-journal",
                           "x.tftf-part",
                           "BIG.SAFETENSORS",
                           "README.md",
                           "modeling_x.py"}) {
    FileEntry entry;
    entry.name = name;
    files.push_back(entry);
  }
  FileEntry large, edge, folder;
  large.name = "large.txt", large.size = (uint64_t{64} << 20) + 1;
  edge.name = "edge.txt", edge.size = uint64_t{64} << 20;
  folder.name = "onnx", folder.regular = false;
  files.insert(files.end(), {large, edge, folder});
  using Names = std::vector<std::string>;
  CHECK(copied(ModelListing::Kind::kFolder, files) == Names{".hidden", "BIG.SAFETENSORS", "README.md",
                                                            "config.json", "edge.txt", "modeling_x.py",
                                                            "notes.txt", "tokenizer.json"});
  CHECK(copied(ModelListing::Kind::kIndex, files) == copied(ModelListing::Kind::kFolder, files));
  // Beside a lone file only what is known to belong to a model.
  CHECK(copied(ModelListing::Kind::kFile, files) ==
        Names{"README.md", "config.json", "modeling_x.py", "tokenizer.json"});
}
