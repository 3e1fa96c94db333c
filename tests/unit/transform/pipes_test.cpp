// Filter, rename, cast and chains of them; what is left alone, and what the result looks like on disk.
#include <catch2/catch.hpp>
#include <cmath>

#include "tftf/base/bytes.h"
#include "tftf/simd/floats.h"
#include "transform_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

constexpr const char* kOne = "model-00001-of-00001.safetensors";

MemoryModel one_file(const std::vector<TestTensor>& tensors, const Metadata& metadata = {}) {
  MemoryModel model;
  model.files["model.safetensors"] = model_file(tensors, metadata);
  return model;
}

// Every dtype once, with bytes that differ from place to place.
std::vector<TestTensor> all_kinds() {
  std::vector<TestTensor> tensors;
  uint32_t seed = 1;
  for (const DTypeInfo& info : all_dtypes()) {
    const Shape shape = info.bits < 8 ? Shape{2, 8} : Shape{3, 5};
    const uint64_t bytes = *element_count(shape) * info.bits / 8;
    std::string data = random_bytes(static_cast<size_t>(bytes), seed++);
    if (info.dtype == DType::BOOL) {
      for (char& c : data) c &= 1;
    }
    tensors.push_back({"t." + std::string(info.name), info.dtype, shape, data});
  }
  tensors.push_back({"empty", DType::F32, {0, 3}, ""});
  tensors.push_back({"scalar", DType::U8, {}, "\x07"});
  return tensors;
}

TransformResult must(Result<TransformResult> result) {
  INFO((result ? "" : result.error().message));
  REQUIRE(result.ok());
  return *std::move(result);
}

std::vector<std::string> names_in(const TransformResult& result) {
  std::vector<std::string> names;
  for (const TestTensor& tensor : tensors_of(result.files.at(kOne))) names.push_back(tensor.name);
  return names;
}

ErrorCode code_of(const Result<TransformResult>& result) {
  REQUIRE_FALSE(result.ok());
  return result.error().code;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("without operations every stored dtype is copied byte for byte, sorted by name") {
  const std::vector<TestTensor> tensors = all_kinds();
  const TransformResult result = must(transform_in_memory(one_file(tensors, {{"b", "2"}, {"a", "1"}}), {}));
  const auto out = tensors_of(result.files.at(kOne));
  REQUIRE(out.size() == tensors.size());
  for (size_t i = 0; i < out.size(); ++i) {
    if (i > 0) CHECK(out[i - 1].name < out[i].name);
    const auto in = std::find_if(tensors.begin(), tensors.end(),
                                 [&](const TestTensor& t) { return t.name == out[i].name; });
    REQUIRE(in != tensors.end());
    CHECK(out[i].dtype == in->dtype);
    CHECK(out[i].shape == in->shape);
    CHECK((out[i].bytes == in->bytes));
  }
  CHECK(metadata_of(result.files.at(kOne)) == Metadata{{"b", "2"}, {"a", "1"}});
  CHECK(result.account.changed == 0);
  CHECK(result.account.copied == tensors.size());
  CHECK(result.steps == 0);
}

TEST_CASE("a filter keeps what is included and not excluded") {
  const MemoryModel model =
      one_file({{"a", DType::U8, {1}, "a"}, {"b.x", DType::U8, {1}, "b"}, {"b.y", DType::U8, {1}, "c"}});
  CHECK(names_in(must(transform_in_memory(
            model, {{"filter", {{"include", {"b*"}}, {"exclude", {"*.y"}}}}}))) == Names{"b.x"});
  const TransformResult result = must(transform_in_memory(model, {{"filter", {{"exclude", {"a"}}}}}));
  CHECK(names_in(result) == Names{"b.x", "b.y"});
  REQUIRE(result.account.dropped.size() == 1);
  CHECK(result.account.dropped[0].reason == "filter");
  CHECK(result.account.dropped[0].names == Names{"a"});
  CHECK(result.account.warnings.empty());
}

TEST_CASE("a filter that keeps nothing leaves an empty index and a warning") {
  const MemoryModel model = one_file({{"a", DType::U8, {1}, "a"}});
  const TransformResult result = must(transform_in_memory(model, {{"filter", {{"include", {"zzz"}}}}}));
  CHECK(result.files.size() == 1);
  CHECK(result.files.at("model.safetensors.index.json").find("\"weight_map\": {}") != std::string::npos);
  CHECK(result.account.warnings.size() == 1);
}

TEST_CASE("rename rules apply in order, each to the result of the one before") {
  const MemoryModel model = one_file({{"a.1", DType::U8, {1}, "a"}, {"b.12", DType::U8, {1}, "b"}});
  CHECK(names_in(must(transform_in_memory(
            model, {{"rename",
                     {{"rule", {"\\.(\\d+)$", ".n\\1"}}, {"rule", {"n", "m"}}, {"rule", {"^", "x."}}}}}))) ==
        Names{"x.a.m1", "x.b.m12"});
}

TEST_CASE("names that collide, are empty or reserved are refused") {
  const MemoryModel model = one_file({{"a1", DType::U8, {1}, "a"}, {"a2", DType::U8, {1}, "b"}});
  const auto rename = [&](const char* pattern, const char* replacement) {
    return transform_in_memory(model, {{"rename", {{"rule", {pattern, replacement}}}}});
  };
  const auto collision = rename("\\d", "");
  CHECK(code_of(collision) == ErrorCode::kRefusedCollision);
  CHECK(collision.error().message.find("\"a1\" of \"model.safetensors\" and \"a2\"") != std::string::npos);
  CHECK(code_of(rename("^a1$", "")) == ErrorCode::kRefusedCollision);
  CHECK(code_of(rename("^a1$", "__metadata__")) == ErrorCode::kRefusedCollision);
  CHECK(rename("a1", "a2x").ok());
}

TEST_CASE("swapping names is no collision") {
  const MemoryModel model = one_file({{"a1", DType::U8, {1}, "a"}, {"a2", DType::U8, {1}, "b"}});
  const TransformResult result = must(transform_in_memory(
      model, {{"rename", {{"rule", {"a1", "t"}}, {"rule", {"a2", "a1"}}, {"rule", {"^t$", "a2"}}}}}));
  CHECK(names_in(result) == Names{"a2", "a1"});  // reading order stays
}

TEST_CASE("a cast takes every tensor, by torch's rules") {
  const MemoryModel model = one_file({{"b", DType::BOOL, {3}, std::string("\0\1\1", 3)},
                                      {"f", DType::F32, {3}, f32_bytes({1.5f, -0.0f, 65520.0f})},
                                      {"h", DType::F16, {1}, u16_bytes({0x3C00})},
                                      {"i", DType::I8, {2}, "\x01\xFF"}});
  const TransformResult result = must(transform_in_memory(model, {{"cast", {{"dtype", {"float16"}}}}}));
  const auto out = tensors_of(result.files.at(kOne));
  CHECK(out[0].bytes == u16_bytes({0, 0x3C00, 0x3C00}));
  CHECK(out[1].bytes == u16_bytes({0x3E00, 0x8000, 0x7C00}));
  CHECK(out[2].bytes == u16_bytes({0x3C00}));
  CHECK(out[3].bytes == u16_bytes({0x3C00, 0xBC00}));
  CHECK(result.account.changed == 3);
  CHECK(result.account.copied == 1);
  REQUIRE(result.account.non_finite.size() == 1);
  CHECK(result.account.non_finite[0].name == "f");
  CHECK(result.account.non_finite[0].became_infinite == 1);
}

TEST_CASE("floats only leaves integers and booleans alone") {
  const MemoryModel model = one_file({{"b", DType::BOOL, {1}, "\1"},
                                      {"f", DType::F32, {1}, f32_bytes({1})},
                                      {"i", DType::I64, {1}, "12345678"}});
  const TransformResult result =
      must(transform_in_memory(model, {{"cast", {{"dtype", {"bfloat16"}}, {"cast-floats-only", {}}}}}));
  const auto out = tensors_of(result.files.at(kOne));
  CHECK(out[0].dtype == DType::BOOL);
  CHECK(out[1].dtype == DType::BF16);
  CHECK(out[2].bytes == "12345678");
}

TEST_CASE("what cannot be cast is refused, FP8 with a scale only by consent") {
  const auto cast = [](const TestTensor& tensor, std::vector<TestTensor> more = {}, bool consent = false) {
    more.push_back(tensor);
    Operation operation{"cast", {{"dtype", {"bfloat16"}}}};
    if (consent) operation.options.push_back({"allow-unscaled", {}});
    return transform_in_memory(one_file(more), {operation});
  };
  for (const DType dtype : {DType::F4, DType::F6_E2M3, DType::F6_E3M2, DType::C64}) {
    const std::string bytes(8 * dtype_bits(dtype) / 8, '\1');
    CHECK(code_of(cast({"x", dtype, {8}, bytes})) == ErrorCode::kRefusedUnsupported);
  }
  const TestTensor weight{"a.weight", DType::F8_E4M3, {1}, "\x38"};
  const TestTensor scale{"a.weight_scale_inv", DType::F32, {1}, f32_bytes({2})};
  CHECK(cast(weight).ok());
  CHECK(code_of(cast(weight, {scale})) == ErrorCode::kRefusedUnsupported);
  const TransformResult result = must(cast(weight, {scale}, true));
  CHECK(tensors_of(result.files.at(kOne))[0].bytes == u16_bytes({0x3F80}));
}

TEST_CASE("a cast tells config.json") {
  MemoryModel model = one_file({{"f", DType::F32, {1}, f32_bytes({1})}});
  model.files["config.json"] = R"({"torch_dtype": "float32", "quantization_config": {"x": 1}})";
  TransformResult result = must(transform_in_memory(model, {{"cast", {{"dtype", {"float16"}}}}}));
  CHECK(result.files.at("config.json") == R"({"torch_dtype": "float16", "quantization_config": {"x": 1}})");
  result = must(transform_in_memory(model, {{"filter", {}}}));
  CHECK(result.copied == Names{"config.json"});
}

TEST_CASE("one pass of several pipes gives the bytes of one pass each") {
  const std::vector<TestTensor> tensors = {{"a.weight", DType::F8_E4M3, {40, 60}, random_bytes(2400, 5)},
                                           {"a.weight_scale_inv",
                                            DType::F32,
                                            {10, 15},
                                            [] {
                                              std::vector<float> scales;
                                              for (int i = 0; i < 150; ++i)
                                                scales.push_back(0.01f * static_cast<float>(i + 1));
                                              return f32_bytes(scales);
                                            }()},
                                           {"b", DType::F64, {100}, random_bytes(800, 6)},
                                           {"c", DType::I32, {33}, random_bytes(132, 7)}};
  const Operation dequant{"dequant-fp8", {{"block-size", {"4"}}, {"dtype", {"float32"}}}};
  const Operation half{"cast", {{"dtype", {"bfloat16"}}}}, wide{"cast", {{"dtype", {"float16"}}}};
  const MemoryModel model = one_file(tensors);
  const TransformResult together = must(transform_in_memory(model, {dequant, half, wide}));
  MemoryModel step = model;
  for (const Operation& operation : {dequant, half, wide}) {
    const TransformResult one = must(transform_in_memory(step, {operation}));
    step.files.clear();
    step.files["model.safetensors"] = one.files.at(kOne);
  }
  const TransformResult last = must(transform_in_memory(step, {}));
  CHECK((together.files.at(kOne) == last.files.at(kOne)));
  for (const uint64_t tile : {1u, 100u, 1024u, 65536u}) {
    for (const KernelTable* kernels : available_kernels()) {
      TransformRequest request{.command = "run", .operations = {dequant, half, wide}};
      request.tile_bytes = tile;
      const TransformResult again =
          must(transform_in_memory(model, model.folder(), request, {.kernels = kernels, .seed = 3}));
      CHECK((again.files.at(kOne) == together.files.at(kOne)));
      CHECK(again.account.non_finite.size() == together.account.non_finite.size());
      for (size_t i = 0; i < again.account.non_finite.size(); ++i) {
        CHECK(again.account.non_finite[i].became_infinite == together.account.non_finite[i].became_infinite);
      }
    }
  }
}

TEST_CASE("order matters: a filter before a rename sees the old names") {
  const MemoryModel model = one_file({{"model.a", DType::U8, {1}, "a"}, {"m.b", DType::U8, {1}, "b"}});
  const Operation filter{"filter", {{"include", {"model.*"}}}}, rename{"rename", {{"rule", {"^model", "m"}}}};
  CHECK(names_in(must(transform_in_memory(model, {filter, rename}))) == Names{"m.a"});
  const TransformResult other = must(transform_in_memory(model, {rename, filter}));
  CHECK(other.account.tensors_out == 0);
}

TEST_CASE("too many conversions of one tensor are refused") {
  std::vector<Operation> chain;
  for (int i = 0; i < 20; ++i) chain.push_back({"cast", {{"dtype", {i % 2 == 0 ? "float16" : "bfloat16"}}}});
  CHECK(code_of(transform_in_memory(one_file({{"f", DType::F32, {1}, f32_bytes({1})}}), chain)) ==
        ErrorCode::kUsage);
}

TEST_CASE("a sharded model is packed anew, its metadata and index carried over") {
  MemoryModel model;
  model.files["s-1.safetensors"] =
      model_file({{"x", DType::U8, {2}, "xx"}, {"unlisted", DType::U8, {1}, "u"}}, {{"a", "1"}});
  model.files["s-2.safetensors"] =
      model_file({{"y", DType::U8, {3}, "yyy"}, {"b", DType::U8, {1}, "b"}}, {{"a", "2"}, {"c", "3"}});
  model.files["model.safetensors.index.json"] =
      R"({"metadata": {"total_size": 99, "note": {"k": [1]}}, "weight_map": {"y": "s-2.safetensors", "x": "s-1.safetensors", "b": "s-2.safetensors"}})";
  const TransformResult result = must(transform_in_memory(model, {{"reshard", {{"max-shard-size", {"3"}}}}}));
  REQUIRE(result.files.size() == 3);
  CHECK(tensors_of(result.files.at("model-00001-of-00002.safetensors"))[0].name == "y");
  const auto second = tensors_of(result.files.at("model-00002-of-00002.safetensors"));
  REQUIRE(second.size() == 2);
  CHECK(second[0].name == "b");
  CHECK(second[1].bytes == "xx");
  CHECK(metadata_of(result.files.at("model-00002-of-00002.safetensors")) ==
        Metadata{{"a", "2"}, {"c", "3"}, {"format", "pt"}});
  CHECK(result.files.at("model.safetensors.index.json") ==
        "{\n  \"metadata\": {\n    \"total_size\": 6,\n    \"note\": {\n      \"k\": [\n        1\n      ]\n "
        "   }\n  },\n"
        "  \"weight_map\": {\n    \"y\": \"model-00001-of-00002.safetensors\",\n"
        "    \"b\": \"model-00002-of-00002.safetensors\",\n    \"x\": \"model-00002-of-00002.safetensors\"\n "
        " }\n}");
  CHECK(result.account.tensors_in == 4);
  REQUIRE(result.account.dropped.size() == 1);
  CHECK(result.account.dropped[0].reason == "not in the index");
}

TEST_CASE("aligned output is ordered by falling element size inside each shard") {
  const MemoryModel model = one_file({{"a", DType::U8, {3}, "aaa"},
                                      {"b", DType::F32, {1}, f32_bytes({1})},
                                      {"c", DType::BF16, {1}, "cc"},
                                      {"d", DType::F64, {1}, "dddddddd"}});
  const TransformResult plain = must(transform_in_memory(model, {}));
  CHECK(names_in(plain) == Names{"a", "b", "c", "d"});
  const TransformResult aligned = must(transform_in_memory(model, {{"reshard", {{"align", {}}}}}));
  CHECK(names_in(aligned) == Names{"d", "b", "c", "a"});
  for (const TestTensor& tensor : tensors_of(aligned.files.at(kOne))) {
    for (const TestTensor& other : tensors_of(plain.files.at(kOne))) {
      if (other.name == tensor.name) CHECK(other.bytes == tensor.bytes);
    }
  }
  // Which tensors share a shard is decided by reading order.
  const TransformResult shards =
      must(transform_in_memory(model, {{"reshard", {{"align", {}}, {"max-shard-size", {"7"}}}}}));
  CHECK(tensors_of(shards.files.at("model-00001-of-00003.safetensors"))[0].name == "b");
  CHECK(tensors_of(shards.files.at("model-00001-of-00003.safetensors"))[1].name == "a");
}

TEST_CASE("one file means that file alone; the account says what its config.json would have to say") {
  MemoryModel model = one_file({{"f", DType::F32, {1}, f32_bytes({1})}});
  model.files["config.json"] = R"({"torch_dtype": "float32"})";
  TransformRequest request{.command = "passthrough", .operations = {{"cast", {{"dtype", {"float16"}}}}}};
  request.layout.single_file = true;
  request.layout.single_name = "out.safetensors";
  const TransformResult result = must(transform_in_memory(model, model.folder(), request));
  REQUIRE(result.files.size() == 1);
  CHECK(tensors_of(result.files.at("out.safetensors")).size() == 1);
  CHECK(result.copied.empty());
  REQUIRE(result.account.config.size() == 1);
  CHECK(result.account.to_text().find("it would have to say") != std::string::npos);
}

TEST_CASE("a side file that cannot be read is refused before anything is written") {
  MemoryModel model = one_file({{"f", DType::F32, {1}, f32_bytes({1})}});
  model.unlistable["notes.txt"] = "permission denied";
  const auto result = transform_in_memory(model, {});
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().code == ErrorCode::kIoRead);
  CHECK(result.error().file == "notes.txt");
}

TEST_CASE("an examining run reads everything, writes nothing and counts what is not finite") {
  const MemoryModel model = one_file({{"f", DType::F32, {5}, f32_bytes({1, NAN, INFINITY, -INFINITY, 1e30f})},
                                      {"i", DType::I8, {3}, "abc"},
                                      {"s", DType::F4, {8}, "abcd"}});
  TransformRequest request{.command = "validate"};
  request.examine = true;
  request.tile_bytes = 8;
  TransformResult result = must(transform_in_memory(model, model.folder(), request, {.seed = 1}));
  CHECK(result.files.empty());
  CHECK(result.copied.empty());
  CHECK(result.tensors[0].nan == 1);
  CHECK(result.tensors[0].infinite == 2);
  CHECK(result.tensors[0].became_infinite == 0);
  CHECK(result.account.bytes_read == 20 + 3 + 4);
  request.operations = {{"filter", {{"exclude", {"s"}}}}, {"cast", {{"dtype", {"float16"}}}}};
  result = must(transform_in_memory(model, model.folder(), request, {.seed = 1}));
  CHECK(result.tensors[0].infinite == 3);
  CHECK(result.tensors[0].became_infinite == 1);
  CHECK(result.tensors[0].bytes == 10);
}

TEST_CASE("the plan's text names the command with all that decides, and its work line by line") {
  const MemoryModel model = one_file({{"a.weight", DType::F8_E4M3, {2, 2}, "abcd"},
                                      {"a.weight_scale", DType::F32, {1}, f32_bytes({2})},
                                      {"n", DType::BF16, {1}, "ab"}});
  TransformRequest request{
      .command = "dequant-fp8",
      .operations = {{"dequant-fp8", {{"dtype", {"float32"}}, {"weight-scale", {"divide"}}}}}};
  const TransformResult result = must(transform_in_memory(model, model.folder(), request));
  INFO(result.text);
  CHECK(result.text.find("plan 1 dequant-fp8 dtype=float32 weight-scale=divide tile=1048576\n") == 0);
  CHECK(result.text.find("measure scale-check \"a.weight_scale\"") != std::string::npos);
  CHECK(result.text.find("tensor \"a.weight\" F32 [2,2] out 0:") != std::string::npos);
  CHECK(result.text.find("dequant fp8-tensor divide 0:") != std::string::npos);
  CHECK(result.text.find("copy \"n\" BF16 [1]") != std::string::npos);
  CHECK(result.text.find("drop \"a.weight_scale\" companion") != std::string::npos);
  CHECK(result.text.find("side \"model.safetensors.index.json\"") != std::string::npos);
  const TransformResult chain = must(
      transform_in_memory(model, {{"filter", {{"include", {"n"}}}}, {"rename", {{"rule", {"n", "m\""}}}}}));
  CHECK(chain.text.find("plan 1 run: filter include=\"n\" | rename rule=\"n\"->\"m\\\"\" tile=") == 0);
}
