// From a checkpoint and operations to a plan (spec tftf 2.1, cli 1; docs/architecture.md, "Planning").
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tftf/checkpoint/checkpoint.h"
#include "tftf/plan/plan.h"
#include "tftf/transform/account.h"
#include "tftf/transform/operation.h"

namespace tftf {

// How the result is laid out.
struct OutputLayout {
  bool single_file = false;                       // one file, no index, nothing beside it
  std::string single_name = "model.safetensors";  // its name
  uint64_t max_shard_size = uint64_t{20} << 30;   // bytes of tensors
  // In each file the tensors by falling size of their elements, then by name, as the reference writer lays them
  // out: then every tensor lies at a multiple of its element's size. Else in the order they were read.
  bool align = false;
};
// The options of an operation `reshard`, put into `layout`. kUsage as check_operation().
Result<void> apply_reshard(const Operation& operation, OutputLayout& layout);

struct TransformRequest {
  std::string command{};                // the command's name, for plan and account
  std::vector<Operation> operations{};  // in their order; those of the output alone (reshard) anywhere
  // Instead of them: a tool that names its outputs itself (colibri/folder_tools.h).
  std::shared_ptr<const transform::Pipe> tool{};
  // For a tool: the output folder as kInspect reads it, when it is there, and whether an earlier run of this was
  // interrupted: what that has written is no obstacle.
  const Checkpoint* existing = nullptr;
  bool continues = false;
  std::string input{};  // as given, for the account
  std::string output{};
  bool dry_run = false;
  OutputLayout layout{};
  // The entries of the model's folder, from which files beside the result are copied.
  std::vector<FileEntry> folder{};
  // Runs everything and writes nothing: values are only looked at.
  bool examine = false;
  uint64_t tile_bytes = kDefaultTileBytes;
};

// A tensor of the result.
struct DeclaredTensor {
  std::string name{};
  DType dtype{};
  Shape shape{};
  uint64_t bytes = 0;
  uint64_t became_infinite = 0;  // after the run: finite values that did
  uint64_t nan = 0;              // after an examining run: in the result
  uint64_t infinite = 0;
  bool norm_clamped = false;   // after the run: a DoRA norm was zero
  std::string quantised_to{};  // what encodes it: "quantize colibri-int4-row"
  std::string unfit{};         // what values are that have no code; empty: as Encoded::unfit
};

// The text of a file that is written last, from the plan after its run and the SHA-256 of each output, hexadecimal. It is
// beside what a plan can do, which knows no file that has been written.
using Manifest = std::function<std::string(const Plan& plan, std::span<const std::string> outputs)>;

// A plan and what has to be said about it. The account is complete but for what the run itself tells.
struct Transform {
  Plan plan;
  Account account;
  std::shared_ptr<std::vector<DeclaredTensor>> tensors;  // in output order; counts are there after the run

  // Of a tool that names its outputs itself.
  std::vector<std::string> notes{};  // sentences that are no warnings
  // Input files that the plan is done with once its outputs are durable: what --delete-source removes.
  std::vector<std::string> consumed{};
  std::vector<std::string> needed_later{};  // those with tensors that are not in the output folder
  std::string manifest_name{};              // empty: there is no manifest
  Manifest manifest{};

  // The account after the run: values that became infinite with a warning per tensor, sizes, resumed.
  Account final_account(uint64_t bytes_read, uint64_t bytes_written, bool resumed) const;
};

// Makes the models that operations take tensors from part of the one that they are put into.
void join_others(Checkpoint& checkpoint, std::span<const Operation> operations);

// A pump, like the reader: serve want() until it is empty, then take().
class Planner {
 public:
  // `checkpoint` must outlive the planner; what operations take from other models it has by join_others().
  Planner(const Checkpoint& checkpoint, TransformRequest request);
  ~Planner();
  Planner(Planner&&) noexcept;
  Planner& operator=(Planner&&) noexcept;

  // Ranges that can be read now: headers (they are fingerprinted) and small values that decide.
  std::vector<ReadRequest> want();
  void supply(const ReadRequest& request, Bytes bytes);
  void fail(const ReadRequest& request, const std::string& reason);
  // Errors: kUsage for operations that are wrong by themselves; refusals of whatever headers, configuration and
  // small values show; kIoRead for what could not be read.
  Result<Transform> take();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tftf
