// Modules of GPTQ and AWQ for tests, packed and unpacked field by field, without the packing code of the core.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "transform_host.h"

namespace tftf::test {

// The words of tensor data as numbers.
std::vector<uint32_t> words_of(const std::string& bytes);
// Field `index` of `bits` in the words `first`, `first + stride`, …
uint32_t field_in(const std::vector<uint32_t>& words, uint64_t first, uint64_t stride, uint64_t index,
                  uint32_t bits);

struct QweightModule {
  std::string packing;  // "gptq-v1", "gptq-v2", "awq-gemm"
  uint32_t bits = 4;
  uint64_t outputs = 0, inputs = 0, group = 0;
  // Codes [K][N], zero points [groups][N], scales [groups][N].
  std::vector<std::vector<uint32_t>> codes, zeros;
  std::vector<std::vector<float>> scales;
  std::vector<uint32_t> index{};  // of GPTQ
  uint64_t groups() const { return (inputs + group - 1) / group; }
};

// A module of random codes, zero points from `least_zero` on and F16 scales.
QweightModule random_module(const std::string& packing, uint32_t bits, uint64_t outputs, uint64_t inputs,
                            uint64_t group, uint32_t seed, uint32_t least_zero = 1);
// Its tensors, called `name` + ".qweight", …
std::vector<TestTensor> tensors_of_module(const QweightModule& module, const std::string& name);
// What tensors hold.
QweightModule read_module(const std::map<std::string, TestTensor>& tensors, const std::string& name,
                          const std::string& packing, uint32_t bits, uint64_t outputs, uint64_t inputs,
                          uint64_t group);
// The weight that it stands for, [N,K], in F32.
std::vector<float> weight_of(const QweightModule& module);
// A quantization_config.
std::string section_of(const QweightModule& module);

// The tensors of all files of a result by name.
std::map<std::string, TestTensor> result_tensors(const TransformResult& result);

}  // namespace tftf::test
