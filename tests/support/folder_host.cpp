#include "folder_host.h"

#include <catch2/catch.hpp>

#include "../unit/plan/memory_host.h"
#include "data_file.h"
#include "tftf/base/sha256.h"

namespace tftf::test {

Result<FolderResult> folder_tool_in_memory(const MemoryModel& source,
                                           const std::shared_ptr<const transform::Pipe>& tool,
                                           const MemoryModel* existing, TransformRequest request) {
  auto checkpoint = read_from_memory(source, source.folder(), {.mode = ReadMode::kInspect});
  if (!checkpoint) return std::move(checkpoint).error();
  std::optional<Checkpoint> there;
  if (existing != nullptr) {
    auto read = read_from_memory(*existing, existing->folder(), {.mode = ReadMode::kInspect});
    if (!read) return std::move(read).error();
    there.emplace(*std::move(read));
  }
  request.input = "in";
  request.output = "out";
  request.tool = tool;
  request.existing = there ? &*there : nullptr;
  Planner planner(*checkpoint, std::move(request));
  for (auto requests = planner.want(); !requests.empty(); requests = planner.want()) {
    for (const ReadRequest& wanted : requests) {
      const std::string& file = source.files.at(wanted.file);
      REQUIRE(wanted.range.offset + wanted.range.length <= file.size());
      planner.supply(wanted,
                     as_bytes(std::string_view(file).substr(wanted.range.offset, wanted.range.length)));
    }
  }
  Result<Transform> made = planner.take();
  if (!made) return std::move(made).error();

  FolderResult result;
  result.text = made->plan.to_text();
  std::vector<std::string> inputs;
  for (const Input& input : made->plan.inputs()) {
    CHECK(input.header_sha256.size() == 64);
    inputs.push_back(source.files.at(input.path));
  }
  auto run = run_in_memory(made->plan, inputs, {.kernels = nullptr, .seed = 5});
  if (!run) return std::move(run).error();
  for (const std::string& fault : run->faults) FAIL_CHECK(fault);
  std::vector<std::string> digests;
  for (size_t i = 0; i < run->outputs.size(); ++i) {
    digests.push_back(sha256_hex(run->outputs[i]));
    result.files[made->plan.outputs()[i].name] = run->outputs[i];
  }
  if (!made->manifest_name.empty()) result.files[made->manifest_name] = made->manifest(made->plan, digests);
  for (const SideOutput& side : made->plan.sides()) {
    if (side.copied) {
      result.copied.push_back(side.name);
    } else {
      result.files[side.name] = side.bytes;
    }
  }
  result.account = made->final_account(made->plan.read_bytes(), made->plan.written_bytes(), false);
  result.notes = made->notes;
  result.consumed = made->consumed;
  result.needed_later = made->needed_later;
  return result;
}

MemoryModel golden_folder(const std::string& path, const std::vector<std::string>& names) {
  MemoryModel model;
  for (const std::string& name : names)
    model.files[name] = tftf_test::read_data("/golden/colibri/cases/" + path + "/" + name);
  return model;
}

}  // namespace tftf::test
