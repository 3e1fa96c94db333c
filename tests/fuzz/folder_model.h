// A model of one file and its configuration, in memory: read by the reader's pump, planned, and run.
#pragma once

#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../unit/plan/memory_host.h"
#include "input.h"
#include "tftf/base/checked.h"
#include "tftf/checkpoint/checkpoint.h"
#include "tftf/transform/planner.h"

namespace tftf::fuzz {

// Ends the process, and says why.
inline void say(bool good, const char* what) {
  if (!good) std::fprintf(stderr, "broken: %s\n", what);
  require(good);
}

struct FolderModel {
  std::map<std::string, std::string> files;

  // model.safetensors with these tensors, the bytes of `input` over and over as their data. False: no such file can be.
  bool add_model(const std::vector<OutputEntry>& tensors, const Metadata& metadata, const Input& input) {
    std::vector<uint64_t> begins;
    const auto header = write_header(tensors, metadata, HeaderForm::kReference, &begins);
    if (!header.ok() || begins.back() > 1 << 20) return false;
    files["model.safetensors"] = *header + input.repeated(to_size(begins.back()));
    return true;
  }

  ModelListing listing() const {
    ModelListing listing;
    listing.given = "model";
    for (const auto& [name, bytes] : files) listing.files.push_back({.name = name, .size = bytes.size()});
    return listing;
  }

  Bytes part(const ReadRequest& request) const {
    const std::string& file = files.at(request.file);
    require(request.range.offset <= file.size() &&
            request.range.length <= file.size() - request.range.offset);
    return as_bytes(
        std::string_view(file).substr(to_size(request.range.offset), to_size(request.range.length)));
  }

  Result<Checkpoint> read() const {
    CheckpointReader reader(listing(), {.mode = ReadMode::kTransform});
    while (!reader.done()) {
      for (const std::string& name : reader.want_files()) {
        const auto file = files.find(name);
        reader.add_file(name, file == files.end()
                                  ? std::nullopt
                                  : std::optional(FileEntry{.name = name, .size = file->second.size()}));
      }
      for (const ReadRequest& request : reader.want()) reader.supply(request, part(request));
    }
    return reader.take();
  }
};

// Plans and runs; false: refused, in words. What is written must be a sound file, the account must have words.
inline bool transform(const FolderModel& model, std::vector<Operation> operations) {
  const auto checkpoint = model.read();
  if (!checkpoint.ok()) return false;
  TransformRequest request{
      .command = "run", .operations = std::move(operations), .input = "model", .output = "out"};
  request.folder = model.listing().files;
  request.tile_bytes = 4096;
  Planner planner(*checkpoint, std::move(request));
  for (auto wanted = planner.want(); !wanted.empty(); wanted = planner.want())
    for (const ReadRequest& one : wanted) planner.supply(one, model.part(one));
  auto planned = planner.take();
  if (!planned.ok()) {
    say(!planned.error().message.empty(), "a refusal without words");
    return false;
  }
  if (planned->plan.written_bytes() > 1 << 22) return false;
  std::vector<std::string> inputs;
  for (const tftf::Input& file : planned->plan.inputs()) inputs.push_back(model.files.at(file.path));
  const auto run = test::run_in_memory(planned->plan, inputs, {.seed = 1});
  if (!run.ok()) {
    say(!run.error().message.empty(), "an error without words");
    return false;
  }
  for (const std::string& fault : run->faults) say(false, fault.c_str());
  for (const std::string& output : run->outputs) {
    HeaderReader reader("out", output.size(), {});
    while (const auto range = reader.want())
      reader.supply(
          as_bytes(std::string_view(output).substr(to_size(range->offset), to_size(range->length))));
    const HeaderScan scan = reader.take();
    say(scan.sound, scan.findings.empty() ? "no sound file" : message(scan.findings.front()).c_str());
  }
  say(!planned->final_account(0, 0, false).to_text().empty(), "an empty account");
  return true;
}

}  // namespace tftf::fuzz
