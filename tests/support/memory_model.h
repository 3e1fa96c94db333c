// A model folder in memory, and a host that serves a CheckpointReader from it in random order.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tftf/checkpoint/checkpoint.h"

namespace tftf::test {

// A sound file of 4-byte F32 scalars.
std::string scalar_file(const std::vector<std::string>& names);

struct MemoryModel {
  std::map<std::string, std::string> files;       // by path relative to the folder
  std::map<std::string, std::string> unreadable;  // listed, but every read fails with this reason
  std::map<std::string, std::string> unlistable;  // listed with FileEntry::unreadable
  std::vector<std::string> fifos;
  std::vector<std::string> folders;
  std::map<std::string, uint64_t> shrunk;  // reads see only so many bytes

  ModelListing folder() const;  // its own entries
  ModelListing file(const std::string& name) const;
  ModelListing index(const std::string& name) const;
};

struct HostLog {
  uint64_t requests = 0;
  std::vector<std::string> asked;  // by want_files
};

// Serves the reader; the seed decides in which order answers come and how many are outstanding.
Result<Checkpoint> read_from_memory(const MemoryModel& model, ModelListing listing, ReaderOptions options,
                                    uint64_t seed = 1, HostLog* log = nullptr);

// Tensor names in reading order.
std::vector<std::string> ordered_names(const Checkpoint& checkpoint);

}  // namespace tftf::test
