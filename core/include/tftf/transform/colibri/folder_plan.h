// The colibri tools that turn a folder of shards into another: what they share (spec colibri 4 and 10). A tool
// says what becomes of each tensor; the frame numbers the outputs, checks them against what the output folder
// holds already, and makes the plan.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tftf/checkpoint/checkpoint.h"
#include "tftf/plan/plan.h"
#include "tftf/quant/colibri/tensor_kind.h"
#include "tftf/transform/account.h"

namespace tftf::colibri {

struct FolderRequest {
  std::string input{};   // as given, for the account
  std::string output{};  // as given
  bool dry_run = false;
  bool overwrite = false;
  bool continues = false;  // an earlier run of this was interrupted: what it has written is no obstacle
  bool strict = false;     // what a reader would misread is refused, whatever the format
  uint64_t tile_bytes = kDefaultTileBytes;
};

// A plan and what has to be said about it.
struct FolderPlan {
  Plan plan;
  Account account;                   // complete but for what the run itself tells
  std::vector<std::string> notes{};  // sentences that are no warnings
  // Input files that the plan is done with once its outputs are durable: what --delete-source removes.
  std::vector<std::string> consumed{};
  std::vector<std::string> needed_later{};  // those with tensors that are not in the output folder

  // A file that is written last, when there is one: its text from the SHA-256 of each output, hexadecimal. It is
  // beside what a plan can do, which knows no file that has been written.
  std::string manifest_name{};
  std::function<std::string(std::span<const std::string> outputs)> manifest{};

  // After the run.
  Account final_account(uint64_t bytes_read, uint64_t bytes_written, bool resumed) const;
};

class FolderTool;

// A pump, like the reader: serve want() until it is empty, then take().
class FolderPlanner {
 public:
  // `source`: the folder as kInspect reads it (every shard counts, an index is not needed). `existing`: the
  // output folder, likewise; null when it is not there. Both must outlive the planner.
  FolderPlanner(const Checkpoint& source, const Checkpoint* existing, FolderRequest request,
                std::shared_ptr<const FolderTool> tool);
  ~FolderPlanner();
  FolderPlanner(FolderPlanner&&) noexcept;
  FolderPlanner& operator=(FolderPlanner&&) noexcept;

  std::vector<ReadRequest> want();
  void supply(const ReadRequest& request, Bytes bytes);
  void fail(const ReadRequest& request, const std::string& reason);
  Result<FolderPlan> take();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// FP8 with block scales to fp8-e4m3-b128, codes untouched (spec colibri 4.2).
struct RepackFp8Options {
  int64_t layers = 78;
  bool mtp = false;
  bool pass_plain = false;  // catch-all tensors that are plain floats are copied instead of refused
};
std::shared_ptr<const FolderTool> make_repack_fp8(const RepackFp8Options& options);

// Per-row int4 of routed experts to int4-rans256-g0 (spec colibri 4.4).
struct RansRepackOptions {
  std::vector<uint64_t> layers{};  // empty: all
};
std::shared_ptr<const FolderTool> make_rans_repack(const RansRepackOptions& options);

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
};
std::shared_ptr<const FolderTool> make_convert(const ConvertOptions& options);

// int4-grouped in groups of 64 to int4-row (spec colibri 5).
std::shared_ptr<const FolderTool> make_fmt4_to_fmt2();

}  // namespace tftf::colibri
