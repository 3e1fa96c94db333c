#include "qweight_models.h"

#include <cstring>
#include <random>

#include "tftf/simd/floats.h"

namespace tftf::test {
namespace {

constexpr uint32_t kOrder[8] = {0, 2, 4, 6, 1, 3, 5, 7};

uint64_t awq_field(uint64_t column) {
  for (uint64_t f = 0; f < 8; ++f)
    if (kOrder[f] == column % 8) return column / 8 * 8 + f;
  return 0;
}

void put_field(std::vector<uint32_t>& words, uint64_t first, uint64_t stride, uint64_t index, uint32_t bits,
               uint32_t value) {
  for (uint32_t b = 0; b < bits; ++b) {
    const uint64_t bit = index * bits + b;
    if (value >> b & 1u) words[static_cast<size_t>(first + bit / 32 * stride)] |= 1u << bit % 32;
  }
}

std::string word_bytes(const std::vector<uint32_t>& words) {
  std::string bytes(words.size() * 4, '\0');
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

uint32_t stored_zero(const QweightModule& module, uint32_t zero) {
  return module.packing == "gptq-v1" ? (zero - 1) & ((1u << module.bits) - 1) : zero;
}

}  // namespace

std::vector<uint32_t> words_of(const std::string& bytes) {
  std::vector<uint32_t> words(bytes.size() / 4);
  std::memcpy(words.data(), bytes.data(), words.size() * 4);
  return words;
}

uint32_t field_in(const std::vector<uint32_t>& words, uint64_t first, uint64_t stride, uint64_t index,
                  uint32_t bits) {
  uint32_t value = 0;
  for (uint32_t b = 0; b < bits; ++b) {
    const uint64_t bit = index * bits + b;
    value |= (words[static_cast<size_t>(first + bit / 32 * stride)] >> bit % 32 & 1u) << b;
  }
  return value;
}

QweightModule random_module(const std::string& packing, uint32_t bits, uint64_t outputs, uint64_t inputs,
                            uint64_t group, uint32_t seed, uint32_t least_zero) {
  std::mt19937 random(seed);
  QweightModule module{packing, bits, outputs, inputs, group, {}, {}, {}, {}};
  const uint32_t codes = 1u << bits;
  module.codes.assign(inputs, std::vector<uint32_t>(outputs));
  for (auto& row : module.codes)
    for (uint32_t& code : row) code = static_cast<uint32_t>(random()) % codes;
  module.zeros.assign(module.groups(), std::vector<uint32_t>(outputs));
  for (auto& row : module.zeros)
    for (uint32_t& zero : row) zero = least_zero + static_cast<uint32_t>(random()) % (codes - least_zero);
  module.scales.assign(module.groups(), std::vector<float>(outputs));
  for (auto& row : module.scales)
    for (float& scale : row) scale = f32_from_f16(static_cast<uint16_t>(0x2000 + random() % 0x0800));
  for (uint64_t k = 0; k < inputs; ++k) module.index.push_back(static_cast<uint32_t>(k / group));
  return module;
}

std::vector<TestTensor> tensors_of_module(const QweightModule& module, const std::string& name) {
  const bool awq = module.packing == "awq-gemm";
  const uint64_t n = module.outputs, k = module.inputs, groups = module.groups();
  std::vector<uint32_t> codes(k * n * module.bits / 32), zeros(groups * n * module.bits / 32);
  std::vector<uint16_t> scales;
  for (uint64_t i = 0; i < k; ++i) {
    for (uint64_t j = 0; j < n; ++j) {
      if (awq) {
        put_field(codes, i * n / 8, 1, awq_field(j), 4, module.codes[i][j]);
      } else {
        put_field(codes, j, n, i, module.bits, module.codes[i][j]);
      }
    }
  }
  for (uint64_t i = 0; i < groups; ++i) {
    for (uint64_t j = 0; j < n; ++j) {
      put_field(zeros, i * n * module.bits / 32, 1, awq ? awq_field(j) : j, module.bits,
                stored_zero(module, module.zeros[i][j]));
      scales.push_back(f16_from_f32(module.scales[i][j]));
    }
  }
  std::vector<TestTensor> tensors = {
      {name + ".qweight", DType::I32, awq ? Shape{k, n / 8} : Shape{k * module.bits / 32, n},
       word_bytes(codes)},
      {name + ".qzeros", DType::I32, {groups, n * module.bits / 32}, word_bytes(zeros)},
      {name + ".scales", DType::F16, {groups, n}, u16_bytes(scales)}};
  if (!awq) tensors.push_back({name + ".g_idx", DType::I32, {k}, word_bytes(module.index)});
  return tensors;
}

QweightModule read_module(const std::map<std::string, TestTensor>& tensors, const std::string& name,
                          const std::string& packing, uint32_t bits, uint64_t outputs, uint64_t inputs,
                          uint64_t group) {
  QweightModule module{packing, bits, outputs, inputs, group, {}, {}, {}, {}};
  const bool awq = packing == "awq-gemm";
  const auto codes = words_of(tensors.at(name + ".qweight").bytes),
             zeros = words_of(tensors.at(name + ".qzeros").bytes);
  const TestTensor& scales = tensors.at(name + ".scales");
  for (uint64_t i = 0; i < inputs; ++i) {
    module.codes.emplace_back();
    for (uint64_t j = 0; j < outputs; ++j)
      module.codes.back().push_back(awq ? field_in(codes, i * outputs / 8, 1, awq_field(j), 4)
                                        : field_in(codes, j, outputs, i, bits));
  }
  for (uint64_t i = 0; i < module.groups(); ++i) {
    module.zeros.emplace_back();
    module.scales.emplace_back();
    for (uint64_t j = 0; j < outputs; ++j) {
      const uint32_t stored = field_in(zeros, i * outputs * bits / 32, 1, awq ? awq_field(j) : j, bits);
      module.zeros.back().push_back(packing == "gptq-v1" ? (stored + 1) & ((1u << bits) - 1) : stored);
      uint16_t half;
      std::memcpy(&half, scales.bytes.data() + (i * outputs + j) * 2, 2);
      module.scales.back().push_back(scales.dtype == DType::BF16 ? f32_from_bf16(half) : f32_from_f16(half));
    }
  }
  if (!awq) module.index = words_of(tensors.at(name + ".g_idx").bytes);
  return module;
}

std::vector<float> weight_of(const QweightModule& module) {
  std::vector<float> weight;
  for (uint64_t n = 0; n < module.outputs; ++n) {
    for (uint64_t k = 0; k < module.inputs; ++k) {
      const uint64_t group = module.index.empty() ? k / module.group : module.index[k];
      const float difference =
          static_cast<float>(module.codes[k][n]) - static_cast<float>(module.zeros[group][n]);
      weight.push_back(module.scales[group][n] * difference);
    }
  }
  return weight;
}

std::string section_of(const QweightModule& module) {
  const std::string common =
      "\"bits\": " + std::to_string(module.bits) + ", \"group_size\": " + std::to_string(module.group);
  if (module.packing == "awq-gemm")
    return "{\"quant_method\": \"awq\", \"version\": \"gemm\", \"zero_point\": true, " + common + "}";
  return "{\"quant_method\": \"gptq\", \"desc_act\": false, \"sym\": false, \"checkpoint_format\": \"" +
         std::string(module.packing == "gptq-v2" ? "gptq_v2" : "gptq") + "\", " + common + "}";
}

std::map<std::string, TestTensor> result_tensors(const TransformResult& result) {
  std::map<std::string, TestTensor> tensors;
  for (const auto& [name, file] : result.files) {
    if (name.find(".safetensors") == std::string::npos || name.find(".json") != std::string::npos) continue;
    for (TestTensor& tensor : tensors_of(file)) tensors[tensor.name] = std::move(tensor);
  }
  return tensors;
}

}  // namespace tftf::test
