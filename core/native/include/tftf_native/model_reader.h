// Reads a model from files: lists what a path names and runs the core's reader.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tftf/checkpoint/checkpoint.h"
#include "tftf_native/byte_source.h"

namespace tftf {

struct NativeModel {
  Checkpoint checkpoint;
  std::string folder;  // where the checkpoint's file names count from, without a final slash: "." "dir" "/"
  // By shard: as it was when its header was read; nothing when it was not opened.
  std::vector<std::optional<Fingerprint>> seen;
  // Index, configuration and the like: what was read beside the shards, as it was then.
  std::vector<SeenFile> sides;
  // Reads that failed: in kInspect what was asked for counts as broken, and here is why.
  std::vector<Error> failed;

  // Path of a file of the checkpoint.
  std::string path_of(const std::string& name) const;
};

// `path` names a file, an index (its name ends in .json) or a folder; symbolic links are followed. FIFOs and
// devices are never opened. Errors: kUsagePath when nothing is there; kIoRead when it cannot be looked at,
// listed or read; in kTransform whatever CheckpointReader::take() refuses.
Result<NativeModel> read_model(const std::string& path, ReaderOptions options);

// The listing alone, and the folder that its names count from.
struct NativeListing {
  ModelListing listing;
  std::string folder;
};
Result<NativeListing> list_model(const std::string& path);

}  // namespace tftf
