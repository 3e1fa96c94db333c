#include "memory_model.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "test_files.h"

namespace tftf::test {
namespace {

FileEntry describe(const MemoryModel& model, const std::string& name) {
  FileEntry entry;
  entry.name = name;
  if (auto file = model.files.find(name); file != model.files.end()) entry.size = file->second.size();
  if (auto file = model.unlistable.find(name); file != model.unlistable.end())
    entry.unreadable = file->second;
  entry.folder = std::find(model.folders.begin(), model.folders.end(), name) != model.folders.end();
  entry.regular =
      !entry.folder && std::find(model.fifos.begin(), model.fifos.end(), name) == model.fifos.end();
  return entry;
}

std::set<std::string> all_names(const MemoryModel& model) {
  std::set<std::string> names(model.fifos.begin(), model.fifos.end());
  names.insert(model.folders.begin(), model.folders.end());
  for (const auto& [name, text] : model.files) names.insert(name);
  for (const auto& [name, reason] : model.unlistable) names.insert(name);
  return names;
}

}  // namespace

std::string scalar_file(const std::vector<std::string>& names) {
  std::vector<OutputEntry> entries;
  for (const std::string& name : names) entries.push_back({name, DType::F32, {}});
  const auto header = write_header(entries, {{"format", "pt"}}, HeaderForm::kReference);
  REQUIRE(header.ok());
  return *header + std::string(4 * names.size(), '\0');
}

ModelListing MemoryModel::folder() const {
  ModelListing listing;
  listing.given = "model";
  for (const std::string& name : all_names(*this))
    if (name.find('/') == std::string::npos) listing.files.push_back(describe(*this, name));
  return listing;
}

ModelListing MemoryModel::file(const std::string& name) const {
  ModelListing listing;
  listing.kind = ModelListing::Kind::kFile;
  listing.given = listing.main = name;
  listing.files.push_back(describe(*this, name));
  return listing;
}

ModelListing MemoryModel::index(const std::string& name) const {
  ModelListing listing = file(name);
  listing.kind = ModelListing::Kind::kIndex;
  return listing;
}

Result<Checkpoint> read_from_memory(const MemoryModel& model, ModelListing listing, ReaderOptions options,
                                    uint64_t seed, HostLog* log) {
  std::mt19937_64 random(seed);
  CheckpointReader reader(std::move(listing), options);
  const std::set<std::string> names = all_names(model);
  std::vector<ReadRequest> waiting;
  std::set<std::string> asked;
  for (uint64_t round = 0; !reader.done(); ++round) {
    REQUIRE(round < 100'000);
    for (const std::string& name : reader.want_files()) {
      REQUIRE(asked.insert(name).second);
      if (log) log->asked.push_back(name);
      if (names.count(name) > 0)
        reader.add_file(name, describe(model, name));
      else
        reader.add_file(name, std::nullopt);
    }
    for (ReadRequest& request : reader.want()) waiting.push_back(std::move(request));
    if (waiting.empty()) continue;
    const size_t pick = random() % waiting.size();
    const ReadRequest request = waiting[pick];
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(pick));
    if (log) ++log->requests;
    if (auto failing = model.unreadable.find(request.file); failing != model.unreadable.end()) {
      reader.fail(request, failing->second);
      continue;
    }
    const std::string& bytes = model.files.at(request.file);
    REQUIRE(request.range.length > 0);
    REQUIRE(request.range.offset <= bytes.size());
    REQUIRE(request.range.length <= bytes.size() - request.range.offset);
    std::string piece = bytes.substr(request.range.offset, request.range.length);
    if (auto shrunk = model.shrunk.find(request.file); shrunk != model.shrunk.end())
      piece.resize(std::min<uint64_t>(
          piece.size(), shrunk->second > request.range.offset ? shrunk->second - request.range.offset : 0));
    reader.supply(request, as_bytes(piece));
  }
  return reader.take();
}

std::vector<std::string> ordered_names(const Checkpoint& checkpoint) {
  std::vector<std::string> names;
  for (const TensorRef ref : checkpoint.order) names.push_back(checkpoint.info(ref).name);
  return names;
}

}  // namespace tftf::test
