// PyTorch distributed checkpoints (spec tftf 3): a folder with one `.metadata` pickle and `.distcp` data
// files, read without Python.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tftf/adapter/torch_tensor.h"
#include "tftf/checkpoint/checkpoint.h"

namespace tftf {

// A box of a tensor and where it is stored.
struct DcpChunk {
  std::vector<uint64_t> offsets;
  std::vector<uint64_t> sizes;
  std::string file;     // a plain name in the folder
  uint64_t offset = 0;  // byte slice of the file
  uint64_t length = 0;
};

struct DcpTensor {
  std::string name;          // flat name
  std::string adapter_name;  // last component of its path (planner_data), wrappers removed (names.h)
  DType dtype{};
  Shape shape;
  std::vector<DcpChunk> chunks;
};

// Reads `.metadata` and returns the adapter tensors: those whose path ends in an adapter key (names.h); model
// weights, optimizer states and objects are left out. Refused: globals outside the list, missing storage,
// chunks that leave the tensor or do not cover it, transforms (compression), path separators in file names.
Result<std::vector<DcpTensor>> read_dcp_metadata(Bytes pickle);

// Longest `.metadata` that is read.
inline constexpr uint64_t kMaxDcpMetadata = uint64_t{256} << 20;

// The adapter tensors of a folder, rebuilt whole (spec tftf 2.7), sorted by name. A pump like
// CheckpointReader; the host knows the folder's files and sizes. Refused besides: no adapter tensor, two of
// one name, a missing or short data file, overlapping chunks, a stored tensor of another dtype or shape than
// its chunk.
class DcpReader {
 public:
  explicit DcpReader(std::vector<FileEntry> files);
  ~DcpReader();
  DcpReader(DcpReader&&) noexcept;
  DcpReader& operator=(DcpReader&&) noexcept;
  std::vector<ReadRequest> want();
  void supply(const ReadRequest& request, Bytes bytes);
  void fail(const ReadRequest& request, std::string reason);
  Result<std::vector<NamedTensor>> take();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tftf
