#include "transform_host.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "../unit/plan/memory_host.h"
#include "test_files.h"

namespace tftf::test {

std::string model_file(const std::vector<TestTensor>& tensors, const Metadata& metadata) {
  std::vector<OutputEntry> entries;
  std::string data;
  for (const TestTensor& tensor : tensors) {
    entries.push_back({tensor.name, tensor.dtype, tensor.shape});
    data += tensor.bytes;
  }
  std::vector<uint64_t> begins;
  const auto header = write_header(entries, metadata, HeaderForm::kReference, &begins);
  REQUIRE(header.ok());
  REQUIRE(begins.back() == data.size());
  return *header + data;
}

std::vector<TestTensor> tensors_of(const std::string& file) {
  const HeaderScan scan = scan_file("result", file);
  REQUIRE(scan.sound);
  std::vector<TestTensor> tensors;
  for (const TensorInfo& info : scan.header.tensors) {
    tensors.push_back({info.name, info.dtype, info.shape,
                       file.substr(scan.header.data_offset() + info.begin, info.bytes())});
  }
  return tensors;
}

Metadata metadata_of(const std::string& file) { return scan_file("result", file).header.metadata; }

std::string f32_bytes(const std::vector<float>& values) {
  std::string bytes(4 * values.size(), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::string u16_bytes(const std::vector<uint16_t>& values) {
  std::string bytes(2 * values.size(), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::string random_bytes(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::string bytes(count, '\0');
  for (char& c : bytes) c = static_cast<char>(random() & 0xFF);
  return bytes;
}

Result<TransformResult> transform_in_memory(const MemoryModel& model, const ModelListing& listing,
                                            TransformRequest request, TransformHostOptions options) {
  auto checkpoint = read_from_memory(model, listing, {.mode = ReadMode::kTransform});
  if (!checkpoint) return std::move(checkpoint).error();
  request.folder = model.folder().files;
  join_others(*checkpoint, request.operations);
  Planner planner(*checkpoint, std::move(request));
  while (true) {
    const std::vector<ReadRequest> requests = planner.want();
    if (requests.empty()) break;
    for (const ReadRequest& wanted : requests) {
      const std::string& file = model.files.at(wanted.file);
      REQUIRE(wanted.range.offset + wanted.range.length <= file.size());
      planner.supply(wanted,
                     as_bytes(std::string_view(file).substr(wanted.range.offset, wanted.range.length)));
    }
  }
  Result<Transform> transform = planner.take();
  if (!transform) return std::move(transform).error();

  TransformResult result;
  result.text = transform->plan.to_text();
  std::vector<std::string> inputs;
  for (const Input& input : transform->plan.inputs()) {
    CHECK(input.header_sha256.size() == 64);
    inputs.push_back(model.files.at(input.path));
  }
  auto run = run_in_memory(transform->plan, inputs, {.kernels = options.kernels, .seed = options.seed});
  if (!run) return std::move(run).error();
  for (const std::string& fault : run->faults) FAIL_CHECK(fault);
  for (size_t i = 0; i < run->outputs.size(); ++i) {
    result.files[transform->plan.outputs()[i].name] = run->outputs[i];
  }
  for (const SideOutput& side : transform->plan.sides()) {
    if (side.copied) {
      result.copied.push_back(side.from.empty() ? side.name : side.from);
    } else {
      result.files[side.name] = side.bytes;
    }
  }
  result.steps = run->steps;
  result.memory = transform->plan.memory_bytes(1);
  result.account =
      transform->final_account(transform->plan.read_bytes(), transform->plan.written_bytes(), false);
  result.tensors = *transform->tensors;
  return result;
}

Result<TransformResult> transform_in_memory(const MemoryModel& model, std::vector<Operation> operations) {
  TransformRequest request{
      .command = "run", .operations = std::move(operations), .input = "model", .output = "out"};
  return transform_in_memory(model, model.folder(), std::move(request));
}

}  // namespace tftf::test
