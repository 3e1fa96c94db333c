// Pickles of any bytes: the reader of `.metadata`, and the graph of what it accepts walked through.
#include <cstddef>
#include <cstdint>

#include "input.h"
#include "tftf/adapter/dcp.h"
#include "tftf/adapter/pickle.h"

namespace {

using tftf::fuzz::require;

constexpr tftf::PickleGlobal kAllowed[] = {{"collections", "OrderedDict", tftf::PickleCall::kEmptyDict},
                                           {"torch", "Size", tftf::PickleCall::kFirstArgument},
                                           {"copyreg", "_reconstructor", tftf::PickleCall::kReconstruct},
                                           {"builtins", "object", tftf::PickleCall::kOpaque}};

// Every element of what is reachable in a few steps is a node.
uint64_t walk(const tftf::Pickle& pickle, tftf::PickleId id, int depth) {
  uint64_t seen = 1;
  if (depth == 0) return seen;
  for (const tftf::PickleId item : pickle.items(id)) {
    seen += walk(pickle, item, depth - 1);
    if (seen > 10'000) break;
  }
  return seen;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const tftf::Bytes bytes(reinterpret_cast<const std::byte*>(data), size);
  if (const auto pickle = tftf::read_pickle(bytes, kAllowed, {.nodes = 100'000, .depth = 100}); pickle.ok()) {
    require(walk(*pickle, pickle->root(), 3) > 0);
  } else {
    require(!pickle.error().message.empty());
  }
  if (const auto tensors = tftf::read_dcp_metadata(bytes); tensors.ok()) {
    for (const tftf::DcpTensor& tensor : *tensors) {
      for (const tftf::DcpChunk& chunk : tensor.chunks) {
        require(chunk.offsets.size() == tensor.shape.size() && chunk.sizes.size() == tensor.shape.size());
        for (size_t d = 0; d < tensor.shape.size(); ++d)
          require(chunk.offsets[d] <= tensor.shape[d] &&
                  chunk.sizes[d] <= tensor.shape[d] - chunk.offsets[d]);
        require(chunk.file.find('/') == std::string::npos);
      }
    }
  }
  return 0;
}
