// Transforms in memory: models made of tensors, planned and executed without files.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "memory_model.h"
#include "tftf/simd/kernels.h"
#include "tftf/transform/planner.h"

namespace tftf::test {

struct TestTensor {
  std::string name;
  DType dtype{};
  Shape shape;
  std::string bytes;
};

// A safetensors file of these tensors in this order.
std::string model_file(const std::vector<TestTensor>& tensors, const Metadata& metadata = {});
// The tensors of a file, in header order.
std::vector<TestTensor> tensors_of(const std::string& file);
Metadata metadata_of(const std::string& file);

// Little-endian bytes of numbers.
std::string f32_bytes(const std::vector<float>& values);
std::string u16_bytes(const std::vector<uint16_t>& values);
std::string random_bytes(size_t count, uint32_t seed);

struct TransformResult {
  std::map<std::string, std::string> files;  // shards, side files and index, by name
  std::vector<std::string> copied;           // side files that the host would copy, as it knows them
  Account account;
  std::vector<DeclaredTensor> tensors;
  std::string text;  // of the plan
  uint64_t steps = 0;
  uint64_t memory = 0;  // that the plan needs with one thread, before it ran
};

struct TransformHostOptions {
  const KernelTable* kernels = nullptr;  // null: scalar
  uint32_t seed = 0;                     // order of the steps
};

// Reads the model by `listing`, plans and runs. Faults against the plan's contract fail the test.
Result<TransformResult> transform_in_memory(const MemoryModel& model, const ModelListing& listing,
                                            TransformRequest request, TransformHostOptions options = {});
// The whole folder.
Result<TransformResult> transform_in_memory(const MemoryModel& model, std::vector<Operation> operations);

}  // namespace tftf::test
