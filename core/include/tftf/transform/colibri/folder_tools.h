// The colibri tools that turn a folder of shards, as kInspect reads it (every shard counts, an index is not needed), into
// another (spec colibri 4 and 10): TransformRequest::tool. The output folder may hold earlier passes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tftf/quant/colibri/tensor_kind.h"
#include "tftf/transform/planner.h"

namespace tftf::colibri {

// FP8 with block scales to fp8-e4m3-b128, codes untouched (spec colibri 4.2).
struct RepackFp8Options {
  int64_t layers = 78;
  bool mtp = false;
  bool pass_plain = false;  // catch-all tensors that are plain floats are copied instead of refused
  bool strict = false;      // what a reader would misread is refused, whatever the format
};
std::shared_ptr<const transform::Pipe> make_repack_fp8(const RepackFp8Options& options);

// Per-row int4 of routed experts to int4-rans256-g0 (spec colibri 4.4).
struct RansRepackOptions {
  std::vector<uint64_t> layers{};  // empty: all
  bool overwrite = false;          // the outputs of an earlier run are replaced
};
std::shared_ptr<const transform::Pipe> make_rans_repack(const RansRepackOptions& options);

// Bits of a code, or the E8 lattice.
struct CodeWidth {
  uint32_t bits = 0;
  bool lattice = false;
};

// FP8, NVFP4 and plain floats to the integer and lattice formats (spec colibri 4.1).
struct ConvertOptions {
  int64_t layers = 78;
  bool mtp = false;                 // the pass over layer `layers`
  bool indexer = false;             // the pass over the sparse-attention indexer
  std::optional<uint32_t> ebits{};  // nothing: 4, in the passes 8
  uint32_t io_bits = 8;
  std::optional<CodeWidth> xbits{};  // of routed experts; nothing: ebits
  std::vector<std::pair<TensorKind, uint32_t>> kind_bits{};
  std::vector<std::pair<std::string, CodeWidth>> projection_bits{};  // "up_proj": of routed experts
  uint64_t group_size = 64;                                          // 0: a scale per row
  bool strict = false;
};
std::shared_ptr<const transform::Pipe> make_convert(const ConvertOptions& options);

// int4-grouped in groups of 64 to int4-row (spec colibri 5).
std::shared_ptr<const transform::Pipe> make_fmt4_to_fmt2(bool strict);

}  // namespace tftf::colibri
