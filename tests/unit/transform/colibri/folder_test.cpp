// The colibri folder tools against the reference's outputs, and what they refuse.
#include <catch2/catch.hpp>

#include "data_file.h"
#include "folder_host.h"
#include "test_files.h"
#include "transform_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

const std::vector<std::string> kSides{"config.json", "tokenizer.json", "generation_config.json"};

MemoryModel folder_of(const std::string& path, std::vector<std::string> shards) {
  shards.insert(shards.end(), kSides.begin(), kSides.end());
  return golden_folder(path, shards);
}

MemoryModel sharded_source(const std::string& path) {
  return folder_of(path, {"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                          "model-00003-of-00003.safetensors", "model.safetensors.index.json"});
}

std::shared_ptr<const transform::Pipe> repack_fp8(bool mtp = false, bool pass_plain = false) {
  return colibri::make_repack_fp8({.layers = 2, .mtp = mtp, .pass_plain = pass_plain});
}

void check_like_golden(const FolderResult& result, const std::string& path,
                       const std::vector<std::string>& names) {
  CHECK(result.files.size() == names.size());
  for (const std::string& name : names) {
    INFO(name);
    REQUIRE(result.files.count(name) == 1);
    CHECK(result.files.at(name) == tftf_test::read_data("/golden/colibri/cases/" + path + "/" + name));
  }
}

// A resident FP8 weight with its scale.
std::vector<TestTensor> fp8_pair(const std::string& name, uint64_t rows, uint64_t columns, uint32_t seed) {
  const uint64_t blocks = (rows + 127) / 128 * ((columns + 127) / 128);
  return {{name + "_scale_inv",
           DType::F32,
           {(rows + 127) / 128, (columns + 127) / 128},
           f32_bytes(std::vector<float>(static_cast<size_t>(blocks), 0.5f))},
          {name, DType::F8_E4M3, {rows, columns}, random_bytes(static_cast<size_t>(rows * columns), seed)}};
}

MemoryModel small_source(const std::vector<TestTensor>& tensors, const Metadata& metadata = {}) {
  MemoryModel model;
  model.files["model.safetensors"] = model_file(tensors, metadata);
  model.files["config.json"] = "{}";
  model.files["tokenizer.json"] = "{}";
  return model;
}

constexpr const char* kOutputProjection = "model.layers.0.self_attn.o_proj.weight";

}  // namespace

TEST_CASE("FP8 repacks to the reference's bytes, main model and MTP layer") {
  const auto main = folder_tool_in_memory(sharded_source("src-fp8/in"), repack_fp8(), nullptr,
                                          {.command = "colibri repack-fp8"});
  REQUIRE(main.ok());
  check_like_golden(*main, "rp-main/out", {"out-fp8pass-00000.safetensors", "out-fp8pass-00001.safetensors"});
  CHECK(main->copied == kSides);
  CHECK(main->account.command == "colibri repack-fp8");
  CHECK(main->account.tensors_out == 57);
  // Indexer tensors of the source are in no container: these shards are still needed.
  CHECK(main->consumed.empty());
  CHECK(main->needed_later ==
        std::vector<std::string>{"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors"});

  MemoryModel before =
      folder_of("rp-mtp/before", {"out-fp8pass-00000.safetensors", "out-fp8pass-00001.safetensors"});
  before.files[".fp8pass-progress.json"] = "{}";
  const auto mtp = folder_tool_in_memory(sharded_source("src-small/in"), repack_fp8(true), &before);
  REQUIRE(mtp.ok());
  check_like_golden(*mtp, "rp-mtp/out", {"out-mtp-fp8pass-00000.safetensors"});
  REQUIRE_FALSE(mtp->notes.empty());
  CHECK(mtp->notes[0].find("4 of at most 4,096") != std::string::npos);
  CHECK(mtp->account.warnings.back().find(".fp8pass-progress.json") != std::string::npos);
}

TEST_CASE("an ambiguous shape is written with its stamp, a catch-all tensor without") {
  const auto stamped =
      folder_tool_in_memory(folder_of("rp-amb-resident/in", {"m.safetensors"}), repack_fp8());
  REQUIRE(stamped.ok());
  check_like_golden(*stamped, "rp-amb-resident/out", {"out-fp8pass-00000.safetensors"});
  CHECK(stamped->notes[0].find("int8-row") != std::string::npos);
  const auto plain = folder_tool_in_memory(folder_of("rp-catchall-ok/in", {"m.safetensors"}), repack_fp8());
  REQUIRE(plain.ok());
  check_like_golden(*plain, "rp-catchall-ok/out", {"out-fp8pass-00000.safetensors"});
}

TEST_CASE("what a reader would take for something else is refused, and names the tensor") {
  const struct {
    const char* path;
    ErrorCode code;
    const char* says;
  } cases[] = {{"rp-amb-routed/in", ErrorCode::kRefusedUnsupported, "int8-row (write-misread)"},
               {"rp-i98-routed/in", ErrorCode::kRefusedUnsupported, "fmt6-collision"},
               {"rp-badscale/in", ErrorCode::kRefusedUnsupported, "[2,1] where [1,1]"},
               {"rp-bf16-resident/in", ErrorCode::kRefusedUnsupported, "BF16"},
               {"rp-zero/in", ErrorCode::kRefusedMissing, "no tensor of this pass"}};
  for (const auto& c : cases) {
    INFO(c.path);
    const auto result = folder_tool_in_memory(folder_of(c.path, {"m.safetensors"}), repack_fp8());
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().code == c.code);
    CHECK(result.error().message.find(c.says) != std::string::npos);
  }
  MemoryModel lacking = sharded_source("src-small/in");
  lacking.files.erase("tokenizer.json");
  const auto result = folder_tool_in_memory(lacking, repack_fp8());
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().code == ErrorCode::kRefusedMissing);
  CHECK(result.error().file == "tokenizer.json");
}

TEST_CASE("names beyond ASCII are stamped and written") {
  const auto result = folder_tool_in_memory(folder_of("rp-nonascii/in", {"m.safetensors"}), repack_fp8());
  REQUIRE(result.ok());
  const Metadata metadata = metadata_of(result->files.begin()->second);
  CHECK(metadata[1].second.find("caf\\u00e9") != std::string::npos);
}

TEST_CASE("plain catch-all tensors pass through when asked for, and only then") {
  const MemoryModel source = sharded_source("rp-mtp-bf16head/in");
  const auto refused = folder_tool_in_memory(source, repack_fp8(true));
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("--pass-plain") != std::string::npos);
  CHECK(folder_tool_in_memory(source, repack_fp8(true, true)).ok());
}

TEST_CASE("FP8 where a kind is copied, or a scale beside it, is refused instead of losing the scale") {
  for (const char* name : {"lm_head.weight", "model.layers.1.mlp.experts.gate_up_proj"}) {
    auto tensors = fp8_pair(name, 256, 256, 1);
    CHECK_FALSE(folder_tool_in_memory(small_source(tensors), repack_fp8()).ok());
    tensors[1].dtype = DType::U8;
    CHECK_FALSE(folder_tool_in_memory(small_source(tensors), repack_fp8()).ok());
    tensors[1] = {name, DType::BF16, {256, 256}, random_bytes(256 * 256 * 2, 2)};
    CHECK_FALSE(folder_tool_in_memory(small_source(tensors), repack_fp8()).ok());
    tensors.erase(tensors.begin());
    CHECK(folder_tool_in_memory(small_source(tensors), repack_fp8()).ok());
  }
}

TEST_CASE("a scale in another shard is named, BF16 scales are widened") {
  auto tensors = fp8_pair(kOutputProjection, 200, 300, 1);
  MemoryModel split = small_source({tensors[1]});
  split.files["second.safetensors"] = model_file({tensors[0]});
  const auto refused = folder_tool_in_memory(split, repack_fp8());
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("it is in \"second.safetensors\"") != std::string::npos);

  tensors[0] = {
      tensors[0].name, DType::BF16, {2, 3}, u16_bytes({0x3F80, 0x4000, 0x3E80, 0xBF80, 0x0001, 0x4049})};
  const auto widened = folder_tool_in_memory(small_source(tensors), repack_fp8());
  REQUIRE(widened.ok());
  const auto written = tensors_of(widened->files.begin()->second);
  CHECK(written[0].name == std::string(kOutputProjection) + ".qs");
  CHECK(written[0].shape == Shape{6});
  CHECK(written[0].bytes.substr(0, 12) == f32_bytes({1.0f, 2.0f, 0.25f}));
  CHECK(written[1].bytes == tensors[1].bytes);
}

TEST_CASE("metadata is kept shard by shard but for what is ours to write, sorted") {
  const auto result = folder_tool_in_memory(
      small_source(fp8_pair(kOutputProjection, 200, 300, 1), {{"zeta", "1"},
                                                              {"colibri.fmt", "{\"old\": \"int8-row\"}"},
                                                              {"sshs_model_hash", "abc"},
                                                              {"alpha", "\xC3\xA9"}}),
      repack_fp8());
  REQUIRE(result.ok());
  const Metadata metadata = metadata_of(result->files.begin()->second);
  CHECK(metadata ==
        Metadata{{"alpha", "\xC3\xA9"},
                 {"colibri.container.formats", "[\"fp8-e4m3-b128\"]"},
                 {"colibri.fmt", "{\"" + std::string(kOutputProjection) + "\": \"fp8-e4m3-b128\"}"},
                 {"zeta", "1"}});
}

TEST_CASE("earlier passes in the output folder: equal names, stamps of all, broken files") {
  const MemoryModel source = small_source(fp8_pair(kOutputProjection, 200, 300, 1));
  MemoryModel there;
  there.files["earlier.safetensors"] = model_file({{kOutputProjection, DType::U8, {1}, "x"}});
  const auto twice = folder_tool_in_memory(source, repack_fp8(), &there);
  REQUIRE_FALSE(twice.ok());
  CHECK(twice.error().code == ErrorCode::kRefusedCollision);
  CHECK(twice.error().file == "earlier.safetensors");
  // A file that will be replaced does not count.
  MemoryModel replaced;
  replaced.files["out-fp8pass-00000.safetensors"] = there.files["earlier.safetensors"];
  CHECK(folder_tool_in_memory(source, repack_fp8(), &replaced).ok());

  for (const size_t others : {4095u, 4096u}) {
    std::string stamps = "{";
    for (size_t i = 0; i < others; ++i)
      stamps += (i == 0 ? "\"t" : ", \"t") + std::to_string(i) + "\": \"int8-row\"";
    there.files["earlier.safetensors"] =
        model_file({{"other", DType::U8, {1}, "x"}}, {{"colibri.fmt", stamps + "}"}});
    const auto result = folder_tool_in_memory(source, repack_fp8(), &there);
    CHECK(result.ok() == (others == 4095));
    if (!result.ok()) CHECK(result.error().message.find("stamp-cap") != std::string::npos);
  }
  there.files["earlier.safetensors"] =
      model_file({{"other", DType::U8, {1}, "x"}},
                 {{"colibri.fmt", "{\"" + std::string(kOutputProjection) + "\": \"int8-row\"}"}});
  const auto conflict = folder_tool_in_memory(source, repack_fp8(), &there);
  REQUIRE_FALSE(conflict.ok());
  CHECK(conflict.error().message.find("stamp-conflict") != std::string::npos);
  there.files["earlier.safetensors"] = "torn";
  CHECK(folder_tool_in_memory(source, repack_fp8(), &there).error().code == ErrorCode::kRefusedOutput);
}

TEST_CASE("shards that the index names and the folder lacks are told") {
  MemoryModel source = small_source(fp8_pair(kOutputProjection, 200, 300, 1));
  source.files["model.safetensors.index.json"] =
      R"({"weight_map": {"a": "model.safetensors", "b": "gone.safetensors"}})";
  const auto result = folder_tool_in_memory(source, repack_fp8());
  REQUIRE(result.ok());
  REQUIRE_FALSE(result->account.warnings.empty());
  CHECK(result->account.warnings.back().find("\"gone.safetensors\"") != std::string::npos);
}

TEST_CASE("broken and empty sources are refused") {
  MemoryModel source = small_source(fp8_pair(kOutputProjection, 200, 300, 1));
  source.files["second.safetensors"] = source.files["model.safetensors"].substr(0, 100);
  CHECK(folder_tool_in_memory(source, repack_fp8()).error().code == ErrorCode::kRefusedInput);
  MemoryModel empty;
  empty.files["config.json"] = "{}";
  CHECK(folder_tool_in_memory(empty, repack_fp8()).error().code == ErrorCode::kRefusedMissing);
  // The same tensor in two shards.
  source.files["second.safetensors"] = source.files["model.safetensors"];
  CHECK(folder_tool_in_memory(source, repack_fp8()).error().code == ErrorCode::kRefusedCollision);
}

TEST_CASE(
    "a shard with tensors of the other pass is kept, a shape that config.json does not give is a warning") {
  auto tensors = fp8_pair(kOutputProjection, 200, 300, 1);
  const auto mtp = fp8_pair("model.layers.2.self_attn.o_proj.weight", 200, 300, 2);
  tensors.insert(tensors.end(), mtp.begin(), mtp.end());
  MemoryModel source = small_source(tensors);
  source.files["config.json"] = R"({"hidden_size": 100, "num_attention_heads": 3, "v_head_dim": 100})";
  const auto result = folder_tool_in_memory(source, repack_fp8());
  REQUIRE(result.ok());
  CHECK(result->consumed.empty());
  CHECK(result->needed_later == std::vector<std::string>{"model.safetensors"});
  // Once the other pass has been there, nothing is needed any more.
  MemoryModel there;
  there.files["mtp.safetensors"] =
      model_file({{"model.layers.2.self_attn.o_proj.weight", DType::U8, {1}, "x"}});
  const auto last = folder_tool_in_memory(source, repack_fp8(), &there);
  REQUIRE(last.ok());
  CHECK(last->consumed == std::vector<std::string>{"model.safetensors"});
  REQUIRE_FALSE(result->account.warnings.empty());
  CHECK(result->account.warnings[0].find("[100,300] from config.json") != std::string::npos);
}

TEST_CASE("experts are range-coded to the reference's bytes, manifest included") {
  const MemoryModel source = golden_folder("rans-repack/in", {"out-00000.safetensors"});
  const auto result = folder_tool_in_memory(source, colibri::make_rans_repack({}));
  REQUIRE(result.ok());
  check_like_golden(*result, "rans-repack/out", {"out-rans-00000.safetensors", "repack-manifest.json"});
  CHECK(result->account.files[0].bytes == 60109);
  CHECK(result->account.warnings[0].find("cannot be told") != std::string::npos);
  CHECK_FALSE(folder_tool_in_memory(source, colibri::make_rans_repack({.layers = {7}})).ok());
  CHECK(folder_tool_in_memory(source, colibri::make_rans_repack({.layers = {7, 1}})).ok());

  MemoryModel there;
  there.files["out-rans-00005.safetensors"] = model_file({{"other", DType::U8, {1}, "x"}});
  CHECK(folder_tool_in_memory(source, colibri::make_rans_repack({}), &there).error().code ==
        ErrorCode::kRefusedOutput);
  CHECK(folder_tool_in_memory(source, colibri::make_rans_repack({.overwrite = true}), &there).ok());
}

TEST_CASE("experts that are not per-row int4 are refused by class") {
  for (const auto& [path, reason] : {std::pair{"rans-ref-g64", "E_GEOMETRY_G64"},
                                     {"rans-ref-small", "E_GEOMETRY_NOT_PER_ROW"},
                                     {"rans-ref-noscale", "E_GEOMETRY_NO_SCALES"},
                                     {"rans-ref-2d", "E_GEOMETRY_NOT_PER_ROW"},
                                     {"rans-ref-none", "no routed experts"}}) {
    INFO(path);
    const auto result = folder_tool_in_memory(
        golden_folder(std::string(path) + "/in", {"out-00000.safetensors"}), colibri::make_rans_repack({}));
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().message.find(reason) != std::string::npos);
  }
  constexpr const char* kUp = "model.layers.1.mlp.experts.0.up_proj.weight";
  const auto coded = [&](uint64_t bytes, const std::vector<float>& scales, const std::string& config = "") {
    MemoryModel model;
    model.files["out-00000.safetensors"] =
        model_file({{std::string(kUp) + ".qs", DType::F32, {scales.size()}, f32_bytes(scales)},
                    {kUp, DType::U8, {bytes}, random_bytes(static_cast<size_t>(bytes), 3)}});
    if (!config.empty()) model.files["config.json"] = config;
    return folder_tool_in_memory(model, colibri::make_rans_repack({}));
  };
  const std::string config =
      R"({"hidden_size": 256, "moe_intermediate_size": 4, "first_k_dense_replace": 1})";
  CHECK(coded(512, {1, 2, 3, 4}).ok());
  CHECK(coded(512, {1, 2, 3, 4}, config).ok());
  CHECK(coded(512, {1, 2, 3, 4}, config)->account.warnings.empty());
  CHECK_FALSE(coded(1024, {1, 2, 3, 4}, config).ok());  // int8 of these rows and columns
  CHECK(coded(1024, {1, 2, 3, 4}).ok());                // nothing tells
  CHECK(coded(256, {1, 2, 3, 4}).error().message.find("E_GEOMETRY_AMBIGUOUS") != std::string::npos);
  CHECK(coded(392, {6.0f}).error().message.find("6.0") != std::string::npos);
  CHECK(coded(392, {5.0f}).ok());
}

TEST_CASE(
    "range-coded experts are dequantised to the values of their codes, or refused when a record is broken") {
  constexpr uint64_t kHidden = 160, kWidth = 144;
  const std::string config =
      R"({"hidden_size": 160, "moe_intermediate_size": 144, "first_k_dense_replace": 0})";
  std::vector<TestTensor> tensors;
  for (const auto& [name, rows, columns] : {std::tuple{"gate", kWidth, kHidden}, {"down", kHidden, kWidth}}) {
    const std::string weight = "model.layers.0.mlp.experts.0." + std::string(name) + "_proj.weight";
    std::vector<float> scales;
    for (uint64_t r = 0; r < rows; ++r) scales.push_back(0.5f + static_cast<float>(r));
    std::string codes = random_bytes(static_cast<size_t>(rows * columns / 2), 7);
    for (char& c : codes) c = static_cast<char>(c & 0x37);  // fewer symbols, so that coding gains something
    tensors.push_back({weight + ".qs", DType::F32, {rows}, f32_bytes(scales)});
    tensors.push_back({weight, DType::U8, {rows * columns / 2}, codes});
  }
  MemoryModel source;
  source.files["out-00000.safetensors"] = model_file(tensors);
  source.files["config.json"] = config;
  const auto coded = folder_tool_in_memory(source, colibri::make_rans_repack({}));
  REQUIRE(coded.ok());
  MemoryModel container;
  container.files["out-rans-00000.safetensors"] = coded->files.at("out-rans-00000.safetensors");
  container.files["config.json"] = config;
  const auto values = [](const MemoryModel& model, uint64_t tile) {
    TransformRequest request{.command = "dequant", .operations = {{"dequant", {{"dtype", {"float32"}}}}}};
    request.tile_bytes = tile;
    return transform_in_memory(model, model.folder(), std::move(request));
  };
  const auto plain = values(source, kDefaultTileBytes);
  REQUIRE(plain.ok());
  const auto wanted = tensors_of(plain->files.at("model-00001-of-00001.safetensors"));
  for (const uint64_t tile : {uint64_t{64}, kDefaultTileBytes}) {
    const auto decoded = values(container, tile);
    INFO((decoded.ok() ? "" : decoded.error().message));
    REQUIRE(decoded.ok());
    const auto got = tensors_of(decoded->files.at("model-00001-of-00001.safetensors"));
    REQUIRE(got.size() == wanted.size());
    for (size_t i = 0; i < got.size(); ++i) {
      CHECK(got[i].name == wanted[i].name);
      CHECK(got[i].shape == wanted[i].shape);
      CHECK(got[i].bytes == wanted[i].bytes);
    }
  }
  // One bit of the last record's streams.
  std::string& file = container.files["out-rans-00000.safetensors"];
  for (const size_t back : {size_t{700}, size_t{2000}}) {
    MemoryModel broken = container;
    std::string& bytes = broken.files["out-rans-00000.safetensors"];
    bytes[file.size() - back] = static_cast<char>(bytes[file.size() - back] ^ 4);
    const auto refused = values(broken, kDefaultTileBytes);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == ErrorCode::kRefusedInput);
  }
  // No table, no values.
  MemoryModel bare = container;
  std::string& text = bare.files["out-rans-00000.safetensors"];
  text.replace(text.find("g0.table"), 8, "g0.tabLe");
  const auto tableless = values(bare, kDefaultTileBytes);
  REQUIRE_FALSE(tableless.ok());
  CHECK(tableless.error().message.find("in its file's metadata") != std::string::npos);
}
