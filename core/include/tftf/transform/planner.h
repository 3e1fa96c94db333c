// From a checkpoint and operations to a plan (spec tftf 2.1, cli 1; docs/architecture.md, "Planning").
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
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
  std::string input{};                  // as given, for the account
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
};

// A plan and what has to be said about it. The account is complete but for what the run itself tells.
struct Transform {
  Plan plan;
  Account account;
  std::shared_ptr<std::vector<DeclaredTensor>> tensors;  // in output order; counts are there after the run

  // The account after the run: values that became infinite with a warning per tensor, bytes, resumed.
  Account final_account(uint64_t bytes_read, uint64_t bytes_written, bool resumed) const;
};

// A pump, like the reader: serve want() until it is empty, then take().
class Planner {
 public:
  // `checkpoint` must outlive the planner.
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
