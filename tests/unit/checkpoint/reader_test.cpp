// The reader pump: what a file, a folder and an index mean, in which order tensors come, what is refused.
#include <catch2/catch.hpp>

#include "memory_model.h"
#include "test_files.h"

using namespace tftf;
using test::MemoryModel;
using test::ordered_names;
using test::read_from_memory;
using test::scalar_file;
using Names = std::vector<std::string>;

namespace {

constexpr ReaderOptions kTransform{ReadMode::kTransform};
constexpr ReaderOptions kInspect{ReadMode::kInspect};

const std::string kFirst = "model-00001-of-00002.safetensors";
const std::string kSecond = "model-00002-of-00002.safetensors";
const std::string kIndexName = "model.safetensors.index.json";

std::string index_text(const std::vector<std::pair<std::string, std::string>>& map) {
  std::string text = R"({"metadata":{"total_size":12},"weight_map":{)";
  for (const auto& [tensor, shard] : map)
    text += (text.back() == '{' ? "\"" : ",\"") + tensor + "\":\"" + shard + "\"";
  return text + "}}";
}

// Two shards whose tensors interleave in the index.
MemoryModel sharded() {
  MemoryModel model;
  model.files[kFirst] = scalar_file({"a", "c"});
  model.files[kSecond] = scalar_file({"b", "extra"});
  model.files[kIndexName] = index_text({{"b", kSecond}, {"c", kFirst}, {"a", kFirst}});
  model.files["config.json"] = R"({"model_type":"llama"})";
  return model;
}

Error refusal(const MemoryModel& model, ModelListing listing) {
  // The answer does not depend on the order in which a host reads.
  const auto result = read_from_memory(model, listing, kTransform, 1);
  REQUIRE_FALSE(result.ok());
  for (uint64_t seed = 2; seed < 12; ++seed) {
    const auto again = read_from_memory(model, listing, kTransform, seed);
    REQUIRE_FALSE(again.ok());
    CHECK(again.error().message == result.error().message);
    CHECK(again.error().code == result.error().code);
  }
  return result.error();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a single file is read in the order of its names' bytes, whatever it is called") {
  MemoryModel model;
  model.files["weights.bin"] = scalar_file({"b", "B", "a.10", "a.2", "ä"});
  model.files["config.json"] = R"({"model_type":"x"})";
  test::HostLog log;
  const auto checkpoint = read_from_memory(model, model.file("weights.bin"), kTransform, 1, &log);
  REQUIRE(checkpoint.ok());
  CHECK(ordered_names(*checkpoint) == Names{"B", "a.10", "a.2", "b", "ä"});
  CHECK(checkpoint->shards.size() == 1);
  CHECK(checkpoint->shards[0].status == ShardStatus::kOk);
  REQUIRE(checkpoint->config());
  CHECK(checkpoint->config()->string("model_type") == "x");
  CHECK(log.asked.size() == side_file_names().size());
  REQUIRE(checkpoint->find("a.2"));
  CHECK(checkpoint->info(*checkpoint->find("a.2")).name == "a.2");
  CHECK_FALSE(checkpoint->find("a.3"));
}

TEST_CASE("a sharded model is read in weight_map order, regrouped by shard") {
  const MemoryModel model = sharded();
  for (uint64_t seed = 1; seed < 20; ++seed)
    for (const ModelListing& listing : {model.folder(), model.index(kIndexName)}) {
      const auto checkpoint = read_from_memory(model, listing, kTransform, seed);
      REQUIRE(checkpoint.ok());
      CHECK(ordered_names(*checkpoint) == Names{"b", "c", "a"});
      REQUIRE(checkpoint->shards.size() == 2);
      CHECK(checkpoint->shards[0].name == kSecond);
      REQUIRE(checkpoint->unlisted.size() == 1);
      CHECK(checkpoint->info(checkpoint->unlisted[0]).name == "extra");
      CHECK_FALSE(checkpoint->find("extra"));
      CHECK(checkpoint->index->metadata.integer("total_size") == 12);
      CHECK(checkpoint->side_file("config.json"));
    }
  const auto inspected = read_from_memory(model, model.folder(), kInspect);
  REQUIRE(inspected.ok());
  CHECK(ordered_names(*inspected) == Names{"b", "c", "a", "extra"});
  CHECK(inspected->find("extra"));
}

TEST_CASE("what a folder's model is") {
  struct Case {
    Names files;
    Names shards;         // expected, empty: refused
    std::string index{};  // expected
    std::string refusal{};
  };
  const Case cases[] = {
      {{"model.safetensors", "other.safetensors"}, {"model.safetensors"}},
      {{"model.safetensors", kFirst, kSecond, kIndexName}, {kSecond, kFirst}, kIndexName},
      {{"model.fp16.safetensors.index.json", "model.safetensors", kFirst, kSecond},
       {kSecond, kFirst},
       "model.fp16.safetensors.index.json"},
      {{"model.bf16.safetensors.index.json", kFirst, kSecond},
       {kSecond, kFirst},
       "model.bf16.safetensors.index.json"},
      {{"diffusion_pytorch_model.safetensors.index.json", kFirst, kSecond},
       {kSecond, kFirst},
       "diffusion_pytorch_model.safetensors.index.json"},
      {{"adapter_model.safetensors", "x.safetensors"}, {"adapter_model.safetensors"}},
      {{"adapters.safetensors", "adapter_config.json", "x.safetensors"}, {"adapters.safetensors"}},
      {{"adapters.safetensors", "x.safetensors"}, {}, {}, "several .safetensors files"},
      {{"anything.safetensors", "readme.md"}, {"anything.safetensors"}},
      {{"x-00001-of-00002.safetensors", "x-00002-of-00002.safetensors"},
       {"x-00001-of-00002.safetensors", "x-00002-of-00002.safetensors"}},
      {{"x-00000-of-00002.safetensors", "x-00001-of-00002.safetensors"},
       {"x-00000-of-00002.safetensors", "x-00001-of-00002.safetensors"}},
      {{"x-00001-of-00002.fp16.safetensors", "x-00002-of-00002.fp16.safetensors"},
       {"x-00001-of-00002.fp16.safetensors", "x-00002-of-00002.fp16.safetensors"}},
      {{"out-00000.safetensors", "out-00001.safetensors", "out-mtp-00000.safetensors"},
       {"out-00000.safetensors", "out-00001.safetensors", "out-mtp-00000.safetensors"}},
      {{"out-00000.safetensors", "out-00002.safetensors"}, {}, {}, "\"out-00001.safetensors\" is not there"},
      {{"out-00001.safetensors", "out-00002.safetensors"}, {}, {}, "\"out-00000.safetensors\" is not there"},
      {{"out-00000.safetensors", "out-0001.safetensors"}, {}, {}, "several .safetensors files"},
      {{"in-00000.safetensors", "in-00001.safetensors"}, {}, {}, "several .safetensors files"},
      {{"x-00001-of-00003.safetensors", "x-00003-of-00003.safetensors"}, {}, {}, "2 of 3 shards"},
      {{"x-00002-of-00003.safetensors", "x-00003-of-00003.safetensors"}, {}, {}, "2 of 3 shards"},
      {{"x-00001-of-00002.safetensors", "x-00002-of-00002.fp16.safetensors"},
       {},
       {},
       "several .safetensors files"},
      {{"x-00001-of-00002.safetensors", "y-00002-of-00002.safetensors"},
       {},
       {},
       "several .safetensors files"},
      {{"a.safetensors.index.json", "b.safetensors.index.json", "a.safetensors"}, {}, {}, "several indexes"},
      {{"README.md"}, {}, {}, "no .safetensors file; it holds \"README.md\""},
      {{}, {}, {}, "no .safetensors file"},
  };
  for (const Case& one : cases) {
    MemoryModel model;
    uint32_t number = 0;
    for (const std::string& name : one.files)
      if (contains(name, ".index."))
        model.files[name] = index_text({{"b", kSecond}, {"c", kFirst}, {"a", kFirst}});
      else if (name == kFirst)
        model.files[name] = scalar_file({"a", "c"});
      else if (name == kSecond)
        model.files[name] = scalar_file({"b"});
      else
        model.files[name] = scalar_file({"t" + std::to_string(number++)});
    INFO(one.files.size() << " " << (one.files.empty() ? "" : one.files[0]));
    if (one.shards.empty()) {
      const Error error = refusal(model, model.folder());
      CHECK(error.code == ErrorCode::kRefusedInput);
      CHECK(contains(error.message, one.refusal));
      // Looking is always possible.
      const auto inspected = read_from_memory(model, model.folder(), kInspect);
      REQUIRE(inspected.ok());
      continue;
    }
    const auto checkpoint = read_from_memory(model, model.folder(), kTransform);
    REQUIRE(checkpoint.ok());
    Names shards;
    for (const Shard& shard : checkpoint->shards) shards.push_back(shard.name);
    CHECK(shards == one.shards);
    CHECK((checkpoint->index ? checkpoint->index->file : "") == one.index);
  }
}

TEST_CASE("a family without index is read shard by shard, each by name; a tensor in two shards is refused") {
  MemoryModel model;
  model.files[kFirst] = scalar_file({"z", "b"});
  model.files[kSecond] = scalar_file({"c", "a"});
  const auto checkpoint = read_from_memory(model, model.folder(), kTransform);
  REQUIRE(checkpoint.ok());
  CHECK(ordered_names(*checkpoint) == Names{"b", "z", "a", "c"});
  model.files[kSecond] = scalar_file({"c", "z"});
  const Error error = refusal(model, model.folder());
  CHECK(error.tensor == "z");
  CHECK(contains(error.message, "two shards"));
  CHECK(read_from_memory(model, model.folder(), kInspect).ok());
}

TEST_CASE("hostile and broken shard names are refused and never opened") {
  for (const char* name :
       {"", "/etc/x.safetensors", "../x.safetensors", "a/../../x.safetensors", "C:x.safetensors",
        "c:/x.safetensors", "a\\\\x.safetensors", "http://x/y.safetensors", "a\\u0000.safetensors",
        "a\\n.safetensors", "a\\u0085.safetensors", "x.bin", ".", "sub/", "model.safetensors/.."}) {
    INFO(name);
    MemoryModel model = sharded();
    model.files[kIndexName] = index_text({{"a", kFirst}, {"b", name}});
    const Error error = refusal(model, model.folder());
    CHECK(error.code == ErrorCode::kRefusedInput);
    CHECK(error.file == kIndexName);
    test::HostLog log;
    const auto inspected = read_from_memory(model, model.folder(), kInspect, 1, &log);
    REQUIRE(inspected.ok());
    CHECK(inspected->index->defect);
    CHECK(log.asked.empty());
  }
}

TEST_CASE("shards in subfolders are asked for by name; two spellings are one shard") {
  MemoryModel model;
  model.files[kIndexName] =
      index_text({{"a", "./sub//x.safetensors"}, {"b", "sub/x.safetensors"}, {"c", "model.safetensors"}});
  model.files["sub/x.safetensors"] = scalar_file({"a", "b"});
  model.files["model.safetensors"] = scalar_file({"c"});
  test::HostLog log;
  const auto checkpoint = read_from_memory(model, model.folder(), kTransform, 1, &log);
  REQUIRE(checkpoint.ok());
  CHECK(log.asked == Names{"sub/x.safetensors"});
  CHECK(checkpoint->shards.size() == 2);
  CHECK(ordered_names(*checkpoint) == Names{"a", "b", "c"});
}

TEST_CASE("missing shards are named, before any header is read") {
  MemoryModel model = sharded();
  model.files.erase(kFirst);
  test::HostLog log;
  const Error error = refusal(model, model.folder());
  CHECK(error.code == ErrorCode::kRefusedInput);
  CHECK(error.file == kFirst);
  CHECK(contains(error.message, "1 shard that is not there: \"" + kFirst + "\""));
  const auto inspected = read_from_memory(model, model.folder(), kInspect);
  REQUIRE(inspected.ok());
  CHECK(inspected->shards[1].status == ShardStatus::kMissing);
  CHECK(inspected->shards[0].status == ShardStatus::kOk);
  CHECK(ordered_names(*inspected) == Names{"b", "extra"});
}

TEST_CASE("a host that answers no question of want_files has no such files") {
  MemoryModel model = sharded();
  CheckpointReader reader(model.index(kIndexName), kTransform);
  for (const ReadRequest& request : reader.want())
    reader.supply(request, as_bytes(std::string_view(model.files[request.file])));
  CHECK(reader.want().empty());
  const auto result = reader.take();
  REQUIRE_FALSE(result.ok());
  CHECK(contains(result.error().message, "2 shards that are not there"));
}

TEST_CASE("an index that cannot be used or trusted is refused with the reason") {
  struct Case {
    std::string text;
    std::string reason;
    bool usable = false;
  };
  const Case cases[] = {
      {"", "it is empty"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n", "Git LFS pointer"},
      {"<html>", "not valid JSON at byte 0"},
      {"\xEF\xBB\xBF{}", "byte order mark"},
      {"{\"weight_map\":{\"\xFF\":\"x\"}}", "not valid UTF-8"},
      {"{} {}", "something follows"},
      {"[]", "it is a JSON array"},
      {"3", "it is a JSON number"},
      {"{}", "no weight_map"},
      {R"({"weight_map":[]})", "weight_map is a JSON array"},
      {R"({"weight_map":null})", "weight_map is a JSON null"},
      {R"({"weight_map":{"a":3}})", "gives \"a\" a JSON number", true},
      {R"({"weight_map":{"a":{"b":"c"}}})", "gives \"a\" a JSON object", true},
      {R"({"weight_map":{"a":["x"]}})", "gives \"a\" a JSON array", true},
      {R"({"weight_map":{},"weight_map":{}})", "\"weight_map\" occurs twice", true},
      {R"({"metadata":{},"metadata":{},"weight_map":{}})", "\"metadata\" occurs twice", true},
      {index_text({{"a", kFirst}, {"b", kSecond}, {"a", kSecond}}), "has \"a\" twice", true},
      {std::string(200, '['), "not valid JSON"},
  };
  for (const Case& one : cases) {
    INFO(one.text.substr(0, 60));
    MemoryModel model = sharded();
    model.files[kIndexName] = one.text;
    const Error error = refusal(model, model.folder());
    CHECK(error.code == ErrorCode::kRefusedInput);
    CHECK(error.file == kIndexName);
    CHECK(contains(error.message, one.reason));
    const auto inspected = read_from_memory(model, model.folder(), kInspect);
    REQUIRE(inspected.ok());
    CHECK(inspected->index->problem.has_value() != one.usable);
    CHECK(inspected->index->defect.has_value() == one.usable);
    CHECK(inspected->shards.size() == 2);
  }
}

TEST_CASE("an empty weight_map is an empty model") {
  MemoryModel model;
  model.files[kIndexName] = R"({"metadata":{"a":[NaN]},"weight_map":{}})";
  const auto checkpoint = read_from_memory(model, model.folder(), kTransform);
  REQUIRE(checkpoint.ok());
  CHECK(checkpoint->order.empty());
  CHECK(checkpoint->index->metadata.find("a")->is_array());
  CHECK(checkpoint->index->text.substr(checkpoint->index->metadata_begin, 2) == "{\"");
}

TEST_CASE("a mapped tensor that its shard lacks is refused by name") {
  MemoryModel model = sharded();
  model.files[kIndexName] = index_text({{"b", kSecond}, {"nope", kFirst}, {"a", kFirst}, {"nope2", kSecond}});
  const Error error = refusal(model, model.folder());
  CHECK(error.tensor == "nope");
  CHECK(error.file == kFirst);
  const auto inspected = read_from_memory(model, model.folder(), kInspect);
  REQUIRE(inspected.ok());
  CHECK(ordered_names(*inspected) == Names{"b", "a", "extra", "c"});
}

TEST_CASE("a tensor that two shards hold is the one the index says") {
  MemoryModel model = sharded();
  model.files[kFirst] = scalar_file({"a", "b", "c"});
  const auto checkpoint = read_from_memory(model, model.folder(), kTransform);
  REQUIRE(checkpoint.ok());
  CHECK(checkpoint->shards[checkpoint->find("b")->shard].name == kSecond);
  CHECK(checkpoint->unlisted.size() == 2);
}

TEST_CASE(
    "broken, foreign, unreadable and shrinking shards are refused with the reason and kept for looking") {
  struct Case {
    std::string reason;
    ErrorCode code = ErrorCode::kRefusedInput;
    ShardStatus status = ShardStatus::kBroken;
    void (*harm)(MemoryModel&) = nullptr;
  };
  const Case cases[] = {
      {"truncated", ErrorCode::kRefusedInput, ShardStatus::kBroken,
       [](MemoryModel& m) { m.files[kFirst].pop_back(); }},
      {"Git LFS pointer", ErrorCode::kRefusedInput, ShardStatus::kPointer,
       [](MemoryModel& m) {
         m.files[kFirst] = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n";
       }},
      {"GGUF", ErrorCode::kRefusedInput, ShardStatus::kBroken,
       [](MemoryModel& m) { m.files[kFirst] = "GGUF\x03" + std::string(300, '\x01'); }},
      {"is empty (0 bytes)", ErrorCode::kRefusedInput, ShardStatus::kBroken,
       [](MemoryModel& m) { m.files[kFirst].clear(); }},
      {"permission denied", ErrorCode::kIoRead, ShardStatus::kBroken,
       [](MemoryModel& m) { m.unreadable[kFirst] = "permission denied"; }},
      {"too many links", ErrorCode::kIoRead, ShardStatus::kBroken,
       [](MemoryModel& m) { m.unlistable[kFirst] = "too many links"; }},
      {"not a regular file", ErrorCode::kIoRead, ShardStatus::kBroken,
       [](MemoryModel& m) { m.fifos.push_back(kFirst); }},
      {"not a regular file", ErrorCode::kIoRead, ShardStatus::kBroken,
       [](MemoryModel& m) { m.folders.push_back(kFirst); }},
      {"shorter", ErrorCode::kIoRead, ShardStatus::kBroken, [](MemoryModel& m) { m.shrunk[kFirst] = 20; }},
  };
  for (const Case& one : cases) {
    INFO(one.reason);
    MemoryModel model = sharded();
    one.harm(model);
    const Error error = refusal(model, model.folder());
    CHECK(contains(error.message, one.reason));
    CHECK(contains(error.message, kFirst));
    CHECK(error.code == one.code);
    CHECK(error.file == kFirst);
    for (uint64_t seed = 1; seed < 5; ++seed) {
      const auto inspected = read_from_memory(model, model.folder(), kInspect, seed);
      REQUIRE(inspected.ok());
      REQUIRE(inspected->shards.size() == 2);
      CHECK(inspected->shards[1].status == one.status);
      CHECK(inspected->shards[1].findings.size() >= 1);
      CHECK(inspected->shards[0].status == ShardStatus::kOk);
      CHECK(inspected->find("b"));
    }
  }
}

TEST_CASE("looking at a folder shows every weight file, the model's own first") {
  MemoryModel model = sharded();
  model.files["aaa.safetensors"] = scalar_file({"a", "other"});
  model.files["broken.safetensors"] = "no";
  model.files["notes.txt"] = "x";
  model.folders.push_back("folder.safetensors");
  model.fifos.push_back("pipe.safetensors");
  const auto checkpoint = read_from_memory(model, model.folder(), kInspect);
  REQUIRE(checkpoint.ok());
  Names listed;
  Names others;
  for (const Shard& shard : checkpoint->shards) (shard.listed ? listed : others).push_back(shard.name);
  CHECK(listed == Names{kSecond, kFirst});
  CHECK(others == Names{"aaa.safetensors", "broken.safetensors", "pipe.safetensors"});
  CHECK(ordered_names(*checkpoint) == Names{"b", "c", "a", "extra", "a", "other"});
  CHECK(checkpoint->find("a")->shard == 1);
  CHECK(read_from_memory(model, model.folder(), kTransform)->shards.size() == 2);
}

TEST_CASE("side files are read as Python reads them; what cannot be read is refused or noted") {
  MemoryModel model = sharded();
  model.files["adapter_config.json"] = R"({"r":Infinity,"r":8})";
  model.files["quant_config.json"] = "";
  model.files["hf_quant_config.json"] = "{broken";
  const auto checkpoint = read_from_memory(model, model.folder(), kTransform);
  REQUIRE(checkpoint.ok());
  CHECK(checkpoint->side_file("adapter_config.json")->document.root.integer("r") == 8);
  CHECK(checkpoint->side_file("quant_config.json")->document.error);
  CHECK(checkpoint->side_file("hf_quant_config.json")->document.error);
  CHECK(checkpoint->side_file("hf_quant_config.json")->text == "{broken");
  CHECK_FALSE(checkpoint->side_file("quantize_config.json"));
  model.unreadable["config.json"] = "permission denied";
  const Error error = refusal(model, model.folder());
  CHECK(error.code == ErrorCode::kIoRead);
  CHECK(error.file == "config.json");
  const auto inspected = read_from_memory(model, model.folder(), kInspect);
  REQUIRE(inspected.ok());
  CHECK(contains(inspected->side_file("config.json")->document.error->detail, "permission denied"));
  CHECK_FALSE(inspected->config());
}

TEST_CASE("a configuration given as the model is an index without weight_map, read once") {
  MemoryModel model;
  model.files["config.json"] = R"({"model_type":"x"})";
  CHECK(contains(refusal(model, model.index("config.json")).message, "no weight_map"));
  const auto inspected = read_from_memory(model, model.index("config.json"), kInspect);
  REQUIRE(inspected.ok());
  CHECK(inspected->shards.empty());
}

TEST_CASE("what was asked for and never answered is an error, not a guess") {
  MemoryModel model = sharded();
  CheckpointReader reader(model.folder(), kTransform);
  while (true) {
    auto requests = reader.want();
    if (requests.empty()) break;
    for (const ReadRequest& request : requests)
      if (request.file != kFirst)
        reader.supply(request, as_bytes(std::string_view(model.files[request.file])
                                            .substr(request.range.offset, request.range.length)));
  }
  CHECK_FALSE(reader.done());
  CHECK_FALSE(reader.take().ok());
}

TEST_CASE("a checkpoint keeps its look-up when it is moved") {
  MemoryModel model = sharded();
  auto result = read_from_memory(model, model.folder(), kTransform);
  REQUIRE(result.ok());
  const Checkpoint moved = *std::move(result);
  for (const TensorRef ref : moved.order) {
    const auto found = moved.find(std::string(moved.info(ref).name));
    REQUIRE(found);
    CHECK(found->tensor == ref.tensor);
  }
}

TEST_CASE("side files and indexes too large to be any are not read") {
  MemoryModel model = sharded();
  for (const auto& [name, code] : {std::pair{std::string("config.json"), ErrorCode::kIoRead},
                                   std::pair{kIndexName, ErrorCode::kRefusedInput}}) {
    ModelListing listing = model.folder();
    for (FileEntry& file : listing.files)
      if (file.name == name) file.size = uint64_t{1} << 40;
    const Error error = refusal(model, listing);
    CHECK(error.code == code);
    CHECK(error.file == name);
    CHECK(contains(error.message, "1099511627776 bytes"));
    CHECK(read_from_memory(model, listing, kInspect).ok());
  }
}
