// What an adapter's configuration and tensors ask of a merge beyond the numbers: parts that are missing, values that
// are not finite, tied heads, names that number ranks, memory.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "adapter_host.h"
#include "tftf/adapter/adapter.h"

using namespace tftf;
using namespace tftf::test;

namespace {

constexpr const char* kPlainConfig = R"("peft_type":"LORA","r":1,"lora_alpha":1)";

std::vector<TestTensor> demand_pair() {
  return {{"q.lora_A.weight", DType::F32, {1, 2}, f32_bytes({1, 1})},
          {"q.lora_B.weight", DType::F32, {2, 1}, f32_bytes({1, 2})}};
}

Result<TransformResult> merge_into(const std::vector<TestTensor>& base, std::vector<TestTensor> adapter,
                                   const std::string& config, const std::string& model_config = "",
                                   std::vector<Operation::Given> options = {}) {
  auto read = adapter_of(adapter, "{" + std::string(kPlainConfig) + config + "}");
  if (!read) return std::move(read).error();
  MemoryModel model;
  model.files["model.safetensors"] = model_file(base);
  if (!model_config.empty()) model.files["config.json"] = model_config;
  return transform_in_memory(model, {merge_operation(*read, std::move(options))});
}

bool warns(const Result<TransformResult>& result, const std::string& part) {
  REQUIRE(result.ok());
  return std::any_of(result->account.warnings.begin(), result->account.warnings.end(),
                     [&](const std::string& w) { return w.find(part) != std::string::npos; });
}

const std::vector<TestTensor> kDemandBase = {
    {"q.weight", DType::F32, {2, 2}, f32_bytes({1, 2, 3, 4})},
    {"embed_tokens.weight", DType::F16, {2, 2}, u16_bytes({0x3C00, 0x3C00, 0x3C00, 0x3C00})},
    {"lm_head.weight", DType::F16, {2, 2}, u16_bytes({0x3C00, 0x3C00, 0x3C00, 0x3C00})}};

}  // namespace

TEST_CASE("DoRA by configuration without magnitudes is refused; magnitudes without it are merged and noted") {
  const auto missing = merge_into(kDemandBase, demand_pair(), R"(,"use_dora":true)");
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().code == ErrorCode::kRefusedMissing);
  CHECK(missing.error().tensor == "q.lora_A.weight");
  auto whole = demand_pair();
  whole.push_back({"q.lora_magnitude_vector", DType::F32, {2}, f32_bytes({1, 1})});
  CHECK_FALSE(warns(merge_into(kDemandBase, whole, R"(,"use_dora":true)"), "use_dora"));
  CHECK(warns(merge_into(kDemandBase, whole, ""), "use_dora"));
  CHECK_FALSE(warns(merge_into(kDemandBase, demand_pair(), ""), "use_dora"));
}

TEST_CASE("saved modules that the base has and the adapter lacks are named") {
  const auto config = R"(,"modules_to_save":["lm_head","classifier"])";
  const auto lacking = merge_into(kDemandBase, demand_pair(), config);
  CHECK(warns(lacking, "\"lm_head.weight\" stays the base's"));
  CHECK_FALSE(warns(lacking, "classifier"));  // the base has none: PEFT lists heads of several architectures
  auto saved = demand_pair();
  saved.push_back({"lm_head.weight", DType::F16, {2, 2}, u16_bytes({1, 2, 3, 4})});
  CHECK_FALSE(warns(merge_into(kDemandBase, saved, config), "stays the base's"));
}

TEST_CASE("token indices without their rows are refused") {
  const auto result =
      merge_into(kDemandBase, demand_pair(), R"(,"trainable_token_indices":{"embed_tokens":[1]})");
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().code == ErrorCode::kRefusedMissing);
  CHECK(result.error().message.find("embed_tokens") != std::string::npos);
  CHECK(merge_into(kDemandBase, demand_pair(), R"(,"trainable_token_indices":{"embed_tokens":[]})").ok());
}

TEST_CASE("a stored head that is tied to a changed table is noted") {
  const std::vector<TestTensor> pair = {
      {"embed_tokens.lora_embedding_A", DType::F32, {1, 2}, f32_bytes({1, 1})},
      {"embed_tokens.lora_embedding_B", DType::F32, {2, 1}, f32_bytes({1, 1})}};
  const std::string tied = R"({"tie_word_embeddings":true})";
  CHECK(warns(merge_into(kDemandBase, pair, "", tied), "is stored, tied to"));
  CHECK_FALSE(warns(merge_into(kDemandBase, pair, ""), "tied"));
  CHECK(warns(merge_into({kDemandBase[0], kDemandBase[1]}, pair, "", tied), "changes the output, too"));
  CHECK_FALSE(warns(merge_into(kDemandBase, demand_pair(), "", tied), "tied"));
}

TEST_CASE("what replaces a tensor is finite in the base's dtype, or refused unless allowed") {
  struct Row {
    const char* name;
    std::string bytes;
    bool refused;
  };
  const std::vector<Row> rows = {
      {"lm_head.weight", f32_bytes({1, 2, 3, 65504}), false},
      {"lm_head.weight", f32_bytes({1, 2, 3, 1e6f}), true},  // infinite in F16
      {"lm_head.weight", f32_bytes({1, 2, 3, std::numeric_limits<float>::infinity()}), true},
      {"q.weight", f32_bytes({1, 2, 3, std::numeric_limits<float>::quiet_NaN()}),
       true},  // with a pair on top
      {"q.weight", f32_bytes({1, 2, 3, 1e30f}), false}};
  for (const Row& row : rows) {
    INFO(row.name);
    auto adapter = demand_pair();
    adapter.push_back({row.name, DType::F32, {2, 2}, row.bytes});
    const auto result = merge_into(kDemandBase, adapter, "");
    CHECK(result.ok() != row.refused);
    if (!row.refused) continue;
    CHECK(result.error().code == ErrorCode::kRefusedValues);
    CHECK(result.error().tensor == row.name);
    CHECK(warns(merge_into(kDemandBase, adapter, "", "", {{"allow-nonfinite", {}}}), "not finite"));
  }
  // A head that the base does not have keeps its own dtype.
  auto head = demand_pair();
  head.push_back({"score.weight", DType::F32, {1, 2}, f32_bytes({1e30f, 1})});
  const std::string config = R"(,"modules_to_save":["score"])";
  CHECK(merge_into(kDemandBase, head, config).ok());
  head.back().bytes = f32_bytes({1, std::numeric_limits<float>::infinity()});
  CHECK_FALSE(merge_into(kDemandBase, head, config).ok());
}

TEST_CASE("file names that count or number the ranks otherwise are refused") {
  const auto joined_files = [](std::vector<std::string> files) {
    std::vector<std::vector<NamedTensor>> ranks;
    for (size_t r = 0; r < files.size(); ++r) {
      std::vector<std::byte> one(4);
      ranks.push_back({{"q.lora_A.weight", {DType::F32, {1, 1}, one}}});
    }
    return make_sharded_adapter("dir", std::move(files), std::move(ranks), 0, std::nullopt, {}).ok();
  };
  CHECK(joined_files({"a/rank_0.safetensors", "a/rank_1.safetensors"}));
  CHECK(joined_files({"a/rank_01.safetensors", "a/rank_00.safetensors"}));
  CHECK(joined_files({"a/rank_9.safetensors", "a/rank_10.safetensors"}));
  CHECK(joined_files({"rank_0_of_2.safetensors", "rank_1_of_2.safetensors"}));
  CHECK(joined_files({"m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"}));
  CHECK(joined_files({"left.safetensors", "right.safetensors"}));
  CHECK(joined_files({"x7.safetensors"}));
  CHECK(joined_files({"profile3.safetensors", "x.safetensors"}));
  CHECK_FALSE(joined_files({"rank_0.safetensors", "rank_1.safetensors", "rank_3.safetensors"}));
  CHECK_FALSE(joined_files({"rank_0_of_4.safetensors", "rank_1_of_4.safetensors"}));
  CHECK_FALSE(joined_files({"rank_0_of_4.safetensors"}));
  CHECK_FALSE(
      joined_files({"shard_rank_0_world_size_8.safetensors", "shard_rank_1_world_size_8.safetensors"}));
  CHECK_FALSE(joined_files({"m-00001-OF-00003.safetensors", "m-00002-OF-00003.safetensors"}));
  CHECK(joined_files({"rank_12345678901234567890.safetensors", "rank_22345678901234567890.safetensors"}));
}

TEST_CASE("an adapter counts to the memory of a plan") {
  MemoryModel model;
  model.files["model.safetensors"] = model_file(kDemandBase);
  const auto memory = [&](uint64_t rows) {
    auto adapter = demand_pair();
    adapter.push_back({"score.weight", DType::F32, {rows, 256}, std::string(rows * 1024, '\0')});
    const auto read =
        adapter_of(adapter, "{" + std::string(kPlainConfig) + R"(,"modules_to_save":["score"]})");
    REQUIRE(read.ok());
    const auto result = transform_in_memory(model, {merge_operation(*read)});
    REQUIRE(result.ok());
    return result->memory;
  };
  CHECK(memory(8192) >= memory(4096) + 4096 * 1024);
}

TEST_CASE("a Kronecker product of low-rank factors is never held whole") {
  constexpr uint64_t kSide = 2048;
  const std::vector<TestTensor> adapter = {
      {"q.lokr_w1", DType::F32, {1, 1}, f32_bytes({2})},
      {"q.lokr_w2_a", DType::F32, {kSide, 1}, std::string(kSide * 4, '\0')},
      {"q.lokr_w2_b", DType::F32, {1, kSide}, std::string(kSide * 4, '\0')}};
  const auto read = adapter_of(adapter, R"({"peft_type":"LOKR","r":1,"alpha":1})");
  REQUIRE(read.ok());
  MemoryModel model;
  model.files["model.safetensors"] =
      model_file({{"q.weight", DType::F16, {kSide, kSide}, std::string(kSide * kSide * 2, '\1')}});
  const auto result = transform_in_memory(model, {merge_operation(*read)});
  REQUIRE(result.ok());
  CHECK(result->memory < kSide * kSide * 4);
}

namespace {

// DoRA whose norms are those of the stored columns.
Result<std::shared_ptr<const Adapter>> column_dora(uint64_t rows, uint64_t cols, float up, float magnitude) {
  const auto floats = [](uint64_t count, float value) {
    std::vector<float> values(static_cast<size_t>(count), value);
    for (size_t i = 0; i < values.size(); ++i) values[i] += static_cast<float>(i % 7) * 0.125f;
    std::string bytes(values.size() * 4, '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  };
  return adapter_of({{"q.lora_A.weight", DType::F32, {1, rows}, floats(rows, 0.5f)},
                     {"q.lora_B.weight", DType::F32, {cols, 1}, floats(cols, up)},
                     {"q.lora_magnitude_vector", DType::F32, {cols}, floats(cols, magnitude)}},
                    "{" + std::string(kPlainConfig) + R"(,"use_dora":true,"fan_in_fan_out":true})");
}

MemoryModel one_weight(DType dtype, uint64_t rows, uint64_t cols, std::string bytes) {
  MemoryModel model;
  model.files["model.safetensors"] = model_file({{"q.weight", dtype, {rows, cols}, std::move(bytes)}});
  return model;
}

}  // namespace

TEST_CASE("norms of columns need no tensor whole, and change with no tile") {
  constexpr uint64_t kRows = 1024, kCols = 768;
  const auto adapter = column_dora(kRows, kCols, 0.25f, 2);
  REQUIRE(adapter.ok());
  std::string bytes;
  for (uint64_t i = 0; i < kRows * kCols; ++i)
    bytes += u16_bytes({static_cast<uint16_t>(0x3C00 + i * 7 % 512)});
  const MemoryModel model = one_weight(DType::F16, kRows, kCols, bytes);
  const auto run = [&](uint64_t tile, uint32_t seed) {
    TransformRequest request{.command = "merge-lora", .operations = {merge_operation(*adapter)}};
    request.tile_bytes = tile;
    return transform_in_memory(model, model.folder(), std::move(request), {.seed = seed});
  };
  const auto whole = run(16 << 20, 0);
  const auto tiled = run(64 << 10, 3);
  REQUIRE(whole.ok());
  REQUIRE(tiled.ok());
  CHECK(tiled->files == whole->files);
  CHECK(tiled->steps > 20);
  CHECK(tiled->memory < kRows * kCols * 2);
}

TEST_CASE("two merges of norms of columns in one run give what two runs give, more are refused") {
  constexpr uint64_t kRows = 24, kCols = 17;
  const auto first = column_dora(kRows, kCols, 0.25f, 2), second = column_dora(kRows, kCols, -0.5f, 1);
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  std::string bytes;
  for (uint64_t i = 0; i < kRows * kCols; ++i)
    bytes += u16_bytes({static_cast<uint16_t>(0x3C00 + i * 11 % 700)});
  const MemoryModel model = one_weight(DType::BF16, kRows, kCols, bytes);
  const auto once = transform_in_memory(model, {merge_operation(*first)});
  REQUIRE(once.ok());
  MemoryModel between;
  between.files = once->files;
  const auto apart = transform_in_memory(between, {merge_operation(*second)});
  const auto together = transform_in_memory(model, {merge_operation(*first), merge_operation(*second)});
  REQUIRE(apart.ok());
  REQUIRE(together.ok());
  const std::string file = "model-00001-of-00001.safetensors";
  CHECK(tensors_of(together->files.at(file)).at(0).bytes == tensors_of(apart->files.at(file)).at(0).bytes);
  const auto thrice = transform_in_memory(
      model, {merge_operation(*first), merge_operation(*second), merge_operation(*first)});
  REQUIRE_FALSE(thrice.ok());
  CHECK(thrice.error().code == ErrorCode::kRefusedUnsupported);
}
