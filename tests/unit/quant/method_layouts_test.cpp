// MLX, torchao, HQQ, quanto, AQLM, VPTQ, BitNet, Gemma: the golden files in tiles of several sizes, and what their geometry
// tests cannot see from the list of layouts.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <random>

#include "data_file.h"
#include "tftf/base/bytes.h"
#include "tftf/base/json_value.h"
#include "tftf/simd/floats.h"
#include "transform_host.h"

using namespace tftf;
using namespace tftf::test;

namespace {

constexpr std::string_view kMethodIds[] = {"mlx-", "torchao-", "hqq",   "quanto-", "aqlm",
                                           "vptq", "bitnet",   "gemma", "metal-",  "prism-"};

bool is_of_method(std::string_view id) {
  return std::any_of(std::begin(kMethodIds), std::end(kMethodIds),
                     [&](std::string_view start) { return id.substr(0, start.size()) == start; });
}

struct GoldenCase {
  std::string id, set;
  bool ok = false;
  std::vector<std::string> says;
  bool loose = false;  // F32 results within one place
};

std::vector<GoldenCase> golden_cases() {
  std::vector<GoldenCase> out;
  for (const char* set : {"quant", "quant2"}) {
    const JsonDocument json = parse_json(
        tftf_test::read_data(std::string("/golden/") + set + "/manifest.json"), JsonDialect::kPython);
    REQUIRE_FALSE(json.error);
    for (const JsonValue& one : json.root.get("cases")->elements) {
      const std::string id(*one.string("id"));
      if (!is_of_method(id) || one.get("argv")->elements[0].text != "dequant") continue;
      GoldenCase c{id, set, one.string("kind") == "ok", {}, one.get("tolerance") != nullptr};
      if (const JsonValue* says = one.get("says"))
        for (const JsonValue& word : says->elements) c.says.push_back(word.text);
      out.push_back(c);
    }
  }
  return out;
}

bool has_file(const GoldenCase& c, const std::string& name) {
  return std::ifstream(std::string(TFTF_TEST_DATA "/golden/") + c.set + "/" + c.id + "/" + name).good();
}

Result<TransformResult> dequantised(const MemoryModel& model, uint64_t tile = kDefaultTileBytes,
                                    TransformHostOptions host = {}, const std::string& dtype = "native") {
  TransformRequest request{
      .command = "dequant", .operations = {{"dequant", {{"dtype", {dtype}}}}}, .tile_bytes = tile};
  request.layout.single_file = true;
  return transform_in_memory(model, model.file("model.safetensors"), std::move(request), host);
}

MemoryModel model_of(const GoldenCase& c) {
  MemoryModel model;
  const std::string folder = "/golden/" + c.set + "/" + c.id + "/";
  model.files["model.safetensors"] = tftf_test::read_data(folder + "model.safetensors");
  if (has_file(c, "config.json")) model.files["config.json"] = tftf_test::read_data(folder + "config.json");
  return model;
}

bool equal_values(const TestTensor& a, const TestTensor& b, bool loose) {
  if (a.bytes == b.bytes) return true;
  if (!loose || a.dtype != DType::F32 || a.bytes.size() != b.bytes.size()) return false;
  for (size_t i = 0; i < a.bytes.size(); i += sizeof(float)) {
    float x, y;
    std::memcpy(&x, a.bytes.data() + i, sizeof x);
    std::memcpy(&y, b.bytes.data() + i, sizeof y);
    if (std::abs(x - y) > 0x1p-23f * std::max(std::abs(x), std::abs(y))) return false;
  }
  return true;
}

float value_at(const TestTensor& tensor, size_t i) {
  return static_cast<float>(
      element_as_f64(tensor.dtype, reinterpret_cast<const std::byte*>(tensor.bytes.data()), i));
}

template <class T>
std::string bytes_of(std::vector<T> values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// Random codes and small F16 scales.
std::string f16_scales(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint16_t> codes;
  for (size_t i = 0; i < count; ++i)
    codes.push_back(f16_from_f32(0.01f + static_cast<float>(random() % 100) / 64.0f));
  return u16_bytes(codes);
}

TestTensor only(const TransformResult& result, const std::string& name) {
  for (const TestTensor& tensor : tensors_of(result.files.at("model.safetensors")))
    if (tensor.name == name) return tensor;
  FAIL(name << " was not written");
  return {};
}

}  // namespace

TEST_CASE(
    "the golden files of layouts with a method of their own are dequantised or refused, whatever the tile") {
  size_t sound = 0, refused = 0;
  for (const GoldenCase& c : golden_cases()) {
    const MemoryModel model = model_of(c);
    for (const uint64_t tile : {kDefaultTileBytes, uint64_t{100}, uint64_t{1000}}) {
      INFO(c.id << ", tiles of " << tile);
      TransformHostOptions host;
      host.kernels = tile == 100 ? &best_kernels() : nullptr;
      host.seed = static_cast<uint32_t>(tile);
      const auto done = dequantised(model, tile, host);
      if (!done.ok()) UNSCOPED_INFO(done.error().message);
      REQUIRE(done.ok() == c.ok);
      if (!c.ok) {
        ++refused;
        CHECK(std::any_of(c.says.begin(), c.says.end(), [&](const std::string& word) {
          return done.error().message.find(word) != std::string::npos;
        }));
        continue;
      }
      ++sound;
      const std::string expected =
          tftf_test::read_data("/golden/" + c.set + "/" + c.id + "/expected.safetensors");
      size_t found = 0;
      const auto got = tensors_of(done->files.at("model.safetensors"));
      for (const TestTensor& want : tensors_of(expected))
        for (const TestTensor& tensor : got) {
          if (tensor.name != want.name) continue;
          INFO(want.name);
          ++found;
          CHECK(tensor.dtype == want.dtype);
          CHECK(tensor.shape == want.shape);
          CHECK(equal_values(tensor, want, c.loose));
        }
      CHECK(found == tensors_of(expected).size());
      CHECK(got.size() == found);
    }
  }
  CHECK(sound >= 60);
  CHECK(refused >= 15);
}

TEST_CASE("MLX codes of every width are read, one bit stream a row") {
  for (const uint32_t bits : {2u, 3u, 4u, 5u, 6u, 8u}) {
    constexpr size_t kRows = 5, kColumns = 96, kGroup = 32;
    INFO(bits << " bits");
    std::mt19937 random(bits);
    std::vector<uint32_t> codes(kRows * kColumns), words(kRows * kColumns * bits / 32);
    for (size_t r = 0; r < kRows; ++r)
      for (size_t k = 0; k < kColumns; ++k) {
        const uint32_t code = codes[r * kColumns + k] = static_cast<uint32_t>(random()) & ((1u << bits) - 1);
        for (uint32_t b = 0; b < bits; ++b) {
          const size_t bit = k * bits + b;
          words[r * kColumns * bits / 32 + bit / 32] |= (code >> b & 1) << (bit % 32);
        }
      }
    const std::string scales = f16_scales(kRows * 3, 1), biases = f16_scales(kRows * 3, 2);
    MemoryModel model;
    model.files["model.safetensors"] =
        model_file({{"m.weight", DType::U32, {kRows, 3 * bits}, bytes_of(words)},
                    {"m.scales", DType::F16, {kRows, 3}, scales},
                    {"m.biases", DType::F16, {kRows, 3}, biases}});
    model.files["config.json"] =
        R"({"quantization": {"group_size": 32, "bits": )" + std::to_string(bits) + "}}";
    const auto done = dequantised(model, 128, {}, "float32");
    if (!done.ok()) UNSCOPED_INFO(done.error().message);
    REQUIRE(done.ok());
    const TestTensor got = only(*done, "m.weight");
    REQUIRE(got.shape == Shape{kRows, kColumns});
    const TestTensor s{"", DType::F16, {}, scales}, z{"", DType::F16, {}, biases};
    size_t wrong = 0;
    for (size_t i = 0; i < codes.size(); ++i) {
      const size_t group = i / kColumns * 3 + i % kColumns / kGroup;
      const float product = static_cast<float>(codes[i]) * value_at(s, group);
      wrong += value_at(got, i) != product + value_at(z, group);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("HQQ along the columns: a scale for each of them, groups down") {
  // Q is [group, N * K / group]; element e of the weight is Q[e / width][e % width].
  for (const auto& [packing, fields, bits] : {std::tuple<const char*, size_t, uint32_t>{"4bit_u8", 2, 4},
                                              {"2bit_u8", 4, 2},
                                              {"8bit_u8", 1, 8},
                                              {"1bit_u8", 8, 1}}) {
    INFO(packing);
    constexpr size_t kRows = 6, kColumns = 20, kGroup = 30, kWidth = kRows * kColumns / kGroup;
    const size_t packed = (kGroup + fields - 1) / fields;
    std::mt19937 random(9);
    std::vector<uint32_t> q(kGroup * kWidth);
    std::string words(packed * kWidth, '\0');
    for (size_t e = 0; e < q.size(); ++e) {
      q[e] = static_cast<uint32_t>(random()) & ((1u << bits) - 1);
      const size_t field = e / (packed * kWidth), word = e % (packed * kWidth);
      const auto shift = static_cast<uint32_t>((fields - 1 - field) * bits);
      words[word] = static_cast<char>(static_cast<uint8_t>(words[word]) | q[e] << shift);
    }
    const std::string scales = f16_scales(kWidth, 3), zeros = f16_scales(kWidth, 4), text = packing;
    const auto number = [](int32_t value) { return bytes_of<int32_t>({value}); };
    MemoryModel model;
    model.files["model.safetensors"] =
        model_file({{"m.W_q", DType::U8, {packed, kWidth}, words},
                    {"m.scale", DType::F16, {1, kWidth}, scales},
                    {"m.zero", DType::F16, {1, kWidth}, zeros},
                    {"m.shape", DType::I64, {2}, bytes_of<int64_t>({kRows, kColumns})},
                    {"m.nbits", DType::I32, {}, number(static_cast<int32_t>(bits))},
                    {"m.group_size", DType::I32, {}, number(kGroup)},
                    {"m.axis", DType::I32, {}, number(0)},
                    {"m.packing", DType::U8, {text.size()}, text}});
    for (const uint64_t tile : {kDefaultTileBytes, uint64_t{8}, uint64_t{100}}) {
      const auto done = dequantised(model, tile, {}, "float32");
      if (!done.ok()) UNSCOPED_INFO(done.error().message);
      REQUIRE(done.ok());
      const TestTensor got = only(*done, "m.weight");
      REQUIRE(got.shape == Shape{kRows, kColumns});
      const TestTensor s{"", DType::F16, {}, scales}, z{"", DType::F16, {}, zeros};
      size_t wrong = 0;
      for (size_t e = 0; e < q.size(); ++e) {
        const float shifted = static_cast<float>(q[e]) - value_at(z, e % kWidth);
        wrong += value_at(got, e) != shifted * value_at(s, e % kWidth);
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("a ternary field that no writer writes is refused") {
  MemoryModel model;
  std::string codes(6 * 40, '\x12');
  codes[123] = '\x32';
  model.files["model.safetensors"] = model_file(
      {{"m.weight", DType::U8, {6, 40}, codes}, {"m.weight_scale", DType::BF16, {1}, u16_bytes({0x3F80})}});
  model.files["config.json"] = R"({"quantization_config": {"quant_method": "bitnet"}})";
  const auto done = dequantised(model);
  REQUIRE_FALSE(done.ok());
  CHECK(done.error().message.find("m.weight") != std::string::npos);
}

TEST_CASE(
    "VPTQ with every part, unpacked, is what the formula says; indices and columns out of range are "
    "refused") {
  constexpr size_t kRows = 11, kColumns = 13, kOutliers = 3, kGroups = 2, kGroup = 5, kLength = 4, kOther = 3;
  constexpr size_t kCentroids = 10, kResiduals = 6, kOutlierCentroids = 7;
  std::mt19937 random(21);
  const auto indices = [&](size_t count, uint32_t limit) {
    std::vector<uint16_t> out(count);
    for (uint16_t& index : out) index = static_cast<uint16_t>(random() % limit);
    return out;
  };
  const auto values = [&](size_t count) {
    std::vector<float> out(count);
    for (float& x : out) x = static_cast<float>(random() % 1000) / 256.0f - 2.0f;
    return out;
  };
  const auto main = indices(kGroups * 3 * kGroup, kCentroids),
             more = indices(kGroups * 3 * kGroup, kResiduals);
  const auto outer = indices(4 * kOutliers, kOutlierCentroids);
  const auto centroids = values(kGroups * kCentroids * kLength),
             added = values(kGroups * kResiduals * kLength);
  const auto outliers = values(kOutlierCentroids * kOther), scale = values(kColumns), bias = values(kColumns);
  std::vector<uint16_t> perm(kColumns);
  for (size_t i = 0; i < kColumns; ++i) perm[i] = static_cast<uint16_t>(i * 5 % kColumns);
  const auto model_with = [&](const std::vector<uint16_t>& index, const std::vector<uint16_t>& columns) {
    MemoryModel model;
    model.files["model.safetensors"] = model_file(
        {{"m.indices", DType::I16, {kGroups, 3, kGroup}, u16_bytes(index)},
         {"m.centroids.weight", DType::F32, {kGroups, kCentroids * kLength}, f32_bytes(centroids)},
         {"m.res_indices", DType::I16, {kGroups, 3, kGroup}, u16_bytes(more)},
         {"m.res_centroids.weight", DType::F32, {kGroups, kResiduals * kLength}, f32_bytes(added)},
         {"m.outlier_indices", DType::I16, {1, 4, kOutliers}, u16_bytes(outer)},
         {"m.outlier_centroids.weight", DType::F32, {1, kOutlierCentroids * kOther}, f32_bytes(outliers)},
         {"m.perm", DType::I16, {kColumns}, u16_bytes(columns)},
         {"m.weight_scale", DType::F32, {kColumns}, f32_bytes(scale)},
         {"m.weight_bias", DType::F32, {kColumns}, f32_bytes(bias)}});
    model.files["config.json"] =
        R"({"quantization_config": {"quant_method": "vptq", "shared_layer_config": {"in_features": 13,
            "out_features": 11, "vector_lens": [3, 4], "num_centroids": [7, 10], "num_res_centroids": [-1, 6],
            "group_num": 2, "group_size": 5, "outlier_size": 3, "enable_norm": true, "enable_perm": true,
            "is_indice_packed": false}}})";
    return model;
  };
  for (const uint64_t tile : {kDefaultTileBytes, uint64_t{64}}) {
    const auto done = dequantised(model_with(main, perm), tile);
    if (!done.ok()) UNSCOPED_INFO(done.error().message);
    REQUIRE(done.ok());
    const TestTensor got = only(*done, "m.weight");
    REQUIRE(got.shape == Shape{kRows, kColumns});
    size_t wrong = 0;
    for (size_t r = 0; r < kRows; ++r)
      for (size_t p = 0; p < kColumns; ++p) {
        float q = 0;
        if (p < kOutliers) {
          q = outliers[outer[r / kOther * kOutliers + p] * kOther + r % kOther];
        } else {
          const size_t group = (p - kOutliers) / kGroup, s = (p - kOutliers) % kGroup;
          const size_t at = (group * 3 + r / kLength) * kGroup + s;
          q = centroids[(group * kCentroids + main[at]) * kLength + r % kLength];
          q = q + added[(group * kResiduals + more[at]) * kLength + r % kLength];
        }
        const float scaled = q * scale[perm[p]];
        wrong += value_at(got, r * kColumns + perm[p]) != scaled + bias[perm[p]];
      }
    CHECK(wrong == 0);
  }
  auto beyond = main;
  beyond[7] = kCentroids;
  CHECK_FALSE(dequantised(model_with(beyond, perm)).ok());
  auto twice = perm;
  twice[4] = twice[5];
  CHECK_FALSE(dequantised(model_with(main, twice)).ok());
}

TEST_CASE("torchao: blocks of several rows, zeros, swizzled scales and scales of columns") {
  std::mt19937 random(5);
  const auto header = [](const std::string& type, const std::string& data, const std::string& parts) {
    return Metadata{{"tensor_names", R"(["m.weight"])"},
                    {"m.weight", R"({"_type":")" + type + R"(","_data":{)" + data +
                                     R"(},"_tensor_data_names":[)" + parts + "]}"}};
  };
  const auto run = [&](const std::vector<TestTensor>& tensors, const Metadata& metadata) {
    MemoryModel model;
    model.files["model.safetensors"] = model_file(tensors, metadata);
    const auto done = dequantised(model, 512, {}, "float32");
    if (!done.ok()) UNSCOPED_INFO(done.error().message);
    REQUIRE(done.ok());
    return only(*done, "m.weight");
  };
  const std::string codes = random_bytes(2 * 4 * 12, 3);
  const std::string scales = f16_scales(2 * 2 * 3, 6), zeros = random_bytes(2 * 2 * 3, 8),
                    before = f16_scales(12, 7);
  const TestTensor s{"", DType::F16, {}, scales}, z{"", DType::I8, {}, zeros}, b{"", DType::F16, {}, before};
  const TestTensor got =
      run({{"m._weight_qdata", DType::I8, {2, 4, 12}, codes},
           {"m._weight_scale", DType::F16, {2, 2, 3}, scales},
           {"m._weight_zero_point", DType::I8, {2, 2, 3}, zeros},
           {"m._weight_act_pre_scale", DType::F16, {12}, before}},
          header("Int8Tensor", R"("block_size":[1,2,4])", R"("qdata","scale","zero_point","act_pre_scale")"));
  size_t wrong = 0;
  for (size_t i = 0; i < codes.size(); ++i) {
    const size_t grid = i / 12 / 2 * 3 + i % 12 / 4;
    const float shifted = static_cast<float>(static_cast<int8_t>(codes[i])) - value_at(z, grid);
    const float scaled = shifted * value_at(s, grid);
    wrong += value_at(got, i) != scaled * value_at(b, i % 12);
  }
  CHECK(wrong == 0);

  // 130 rows of 80: tiles of scales cut at both ends.
  constexpr size_t kRows = 130, kColumns = 80, kGroups = 5, kTileColumns = 2;
  std::string nibbles = random_bytes(kRows * kColumns / 2, 4), tiles(2 * kTileColumns * 512, '\0');
  std::vector<uint8_t> linear(kRows * kGroups);
  for (size_t r = 0; r < kRows; ++r)
    for (size_t g = 0; g < kGroups; ++g) {
      linear[r * kGroups + g] = static_cast<uint8_t>(random() % 0x60);
      tiles[(r / 128 * kTileColumns + g / 4) * 512 + r % 32 * 16 + r % 128 / 32 * 4 + g % 4] =
          static_cast<char>(linear[r * kGroups + g]);
    }
  const TestTensor swizzled = run({{"m._weight_qdata", DType::U8, {kRows, kColumns / 2}, nibbles},
                                   {"m._weight_scale", DType::F8_E4M3, {64, 32}, tiles},
                                   {"m._weight_per_tensor_scale", DType::F32, {}, f32_bytes({0.375f})}},
                                  header("NVFP4Tensor", R"("block_size":16,"is_swizzled_scales":true)",
                                         R"("qdata","scale","per_tensor_scale")"));
  for (size_t i = 0; i < kRows * kColumns; ++i) {
    const auto pair = static_cast<uint8_t>(nibbles[i / 2]);
    const float value = f4_values()[i % 2 == 0 ? pair & 15 : pair >> 4];
    const float scaled =
        value * f8_values(DType::F8_E4M3)[linear[i / kColumns * kGroups + i % kColumns / 16]];
    wrong += value_at(swizzled, i) != scaled * 0.375f;
  }
  CHECK(wrong == 0);
}
