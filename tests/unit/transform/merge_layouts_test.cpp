// An adapter is merged into the weights of every layout that is read, in the same run.
#include <catch2/catch.hpp>
#include <random>

#include "../quant/layout_cases.h"
#include "adapter_host.h"
#include "tftf/quant/undecided.h"

using namespace tftf;
using namespace tftf::test;

namespace {

// Bytes that are no NaN and no far exponents, where nothing is said of them.
std::vector<TestTensor> seeded_tensors(const LayoutCase& one) {
  std::mt19937 random(3);
  std::vector<TestTensor> tensors;
  for (const HeaderTensor& tensor : one.tensors) {
    const auto size =
        static_cast<size_t>(element_count(tensor.shape).value_or(0) * dtype_bits(tensor.dtype) / 8);
    std::string bytes = tensor.bytes;
    const bool index =
        tensor.name.find("g_idx") != std::string::npos || tensor.name.find("perm") != std::string::npos;
    if (bytes.empty() && !index && tensor.dtype != DType::I64)
      for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(random() & 0x3F);
    bytes.resize(size);
    tensors.push_back({tensor.name, tensor.dtype, tensor.shape, std::move(bytes)});
  }
  return tensors;
}

std::string scaled_floats(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) values.push_back(static_cast<float>(random() % 64) / 64.0f - 0.5f);
  return f32_bytes(values);
}

MemoryModel plain_again(const TransformResult& result) {
  MemoryModel model;
  for (const auto& [name, file] : result.files) model.files[name] = file;
  return model;
}

std::map<std::string, TestTensor> weights_of(const TransformResult& result) {
  std::map<std::string, TestTensor> out;
  for (const auto& [name, file] : result.files) {
    if (name.find(".safetensors") == std::string::npos || name.find(".json") != std::string::npos) continue;
    for (TestTensor& tensor : tensors_of(file)) out[tensor.name] = std::move(tensor);
  }
  return out;
}

std::map<std::string, std::string> bytes_in(const TransformResult& result) {
  std::map<std::string, std::string> out;
  for (auto& [name, tensor] : weights_of(result)) out[name] = tensor.bytes;
  return out;
}

const Operation kDequantise{.id = "dequant", .options = {{"dtype", {"float32"}}}};

}  // namespace

TEST_CASE("merging while dequantising gives what merging into the dequantised model gives, in every layout") {
  size_t merged = 0;
  for (const LayoutCase& one : layout_cases()) {
    const QuantFormat& format = *find_quant_format(one.layout);
    // Those without a matrix of their own: undecided ones, and records that need their coder.
    if (!format.read() || one.layout == kUndecidedNvfp4 || !one.logical || one.logical->size() != 2) continue;
    INFO(one.layout);
    MemoryModel model;
    model.files["model.safetensors"] = model_file(seeded_tensors(one), one.metadata);
    if (!one.config.empty()) model.files["config.json"] = one.config;
    const auto plain = transform_in_memory(model, {kDequantise});
    if (!plain.ok()) UNSCOPED_INFO(plain.error().message);
    REQUIRE(plain.ok());
    std::string weight;
    for (const auto& [name, tensor] : weights_of(*plain))
      if (tensor.shape == *one.logical && tensor.dtype == DType::F32) weight = name;
    REQUIRE(weight.size() > 7);
    const std::string module = weight.substr(0, weight.size() - 7);  // ".weight"
    const uint64_t rows = (*one.logical)[0], columns = (*one.logical)[1];
    const auto adapter = adapter_of(
        {{"base_model.model." + module + ".lora_A.weight",
          DType::F32,
          {2, columns},
          scaled_floats(static_cast<size_t>(2 * columns), 1)},
         {"base_model.model." + module + ".lora_B.weight",
          DType::F32,
          {rows, 2},
          scaled_floats(static_cast<size_t>(2 * rows), 2)}},
        R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": [")" + module + "\"]}");
    REQUIRE(adapter.ok());
    const auto together = transform_in_memory(model, {kDequantise, merge_operation(*adapter)});
    if (!together.ok()) UNSCOPED_INFO(together.error().message);
    REQUIRE(together.ok());
    const auto apart = transform_in_memory(plain_again(*plain), {merge_operation(*adapter)});
    REQUIRE(apart.ok());
    CHECK((bytes_in(*together) == bytes_in(*apart)));
    CHECK((bytes_in(*together) != bytes_in(*plain)));
    // Without dequantising it is refused, and the way is named, unless the weight is a float already.
    const auto codes = transform_in_memory(model, {merge_operation(*adapter)});
    if (one.layout != "ct-dense") {
      REQUIRE_FALSE(codes.ok());
      CHECK(codes.error().message.find("--merge-lora") != std::string::npos);
    }
    ++merged;
  }
  CHECK(merged > 50);
}
