// Tools that make adapters of lower rank: resized, combined, or extracted from two models (spec adapters 9, 10, 13). Their
// plans run like those of any operation.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/adapter/low_rank.h"
#include "tftf/adapter/scales.h"
#include "tftf/adapter/survey.h"
#include "tftf/checkpoint/small_values.h"
#include "tftf/plan/plan.h"
#include "tftf/transform/account.h"

namespace tftf {

// One of the files or folders that a tool reads, as kTransform opens it. A pump: serve want() until it is empty.
class AdapterInput {
 public:
  enum class Kind : uint8_t { kAdapter, kModel };
  // `checkpoint` must outlive it.
  AdapterInput(const Checkpoint& checkpoint, Kind kind);

  // Headers, which are fingerprinted, and the alphas of an adapter.
  std::vector<ReadRequest> want();
  void supply(const ReadRequest& request, Bytes bytes);
  void fail(const ReadRequest& request, const std::string& reason);

  // Once everything is there. kIoRead for what could not be read; of an adapter kRefusedInput when it is none, and
  // kRefusedAmbiguous when it mixes families.
  Result<void> check() const;
  const Checkpoint& checkpoint() const { return *checkpoint_; }
  const std::string& header_sha256(uint32_t shard) const { return header_sha256_[shard]; }
  const AdapterSurvey& survey() const { return survey_; }
  const AdapterScales& scales() const { return scales_; }

 private:
  const Checkpoint* checkpoint_;
  Kind kind_;
  SmallValues values_;
  bool due_ = true;
  bool headers_asked_ = false;
  std::vector<std::string> header_sha256_;
  AdapterSurvey survey_;
  AdapterScales scales_;
  std::optional<Error> error_;
};

// What all tools are told.
struct AdapterToolRequest {
  std::string command{};  // "adapter resize"
  std::string input{};    // as given, for the account
  std::string output{};
  bool dry_run = false;
  std::string single_name{};  // one file of this name; empty: a folder
  std::vector<FileEntry>
      folder{};  // of the first input, when it is a folder: what is copied beside a resized adapter
  uint64_t tile_bytes = kDefaultTileBytes;
};

struct AdapterToolPlan {
  Plan plan;
  std::shared_ptr<Account> account;    // complete after the run but for bytes
  std::vector<uint32_t> input_source;  // by Plan::inputs(): which of the inputs it belongs to

  Account final_account(uint64_t bytes_read, uint64_t bytes_written, bool resumed) const;
};

struct ResizeOptions {
  RankChoice choice{};
  std::optional<uint64_t> conv_rank{};  // of convolutions larger than 1 x 1; nothing: choice.most
};
// Factors of rank n by the best approximation; every scale stays what it was. Tensors that are no factors or alphas are
// copied. Refused: an unknown scale (kRefusedMissing), a pair without its twin or with two ranks (kRefusedShape), stacked
// factors of experts, an adapter without any pair (kRefusedUnsupported), values that are not finite (kRefusedValues).
Result<AdapterToolPlan> plan_resize(const AdapterInput& input, const ResizeOptions& options,
                                    const AdapterToolRequest& request);

enum class CombineMode : uint8_t { kConcat, kSvd, kLinear };
std::optional<CombineMode> find_combine_mode(std::string_view word);
struct CombineOptions {
  CombineMode mode = CombineMode::kConcat;
  std::vector<double> weights{};   // one for each input
  std::optional<uint64_t> rank{};  // of kSvd
};
// The sum over inputs of weight * s * B * A, in the family of the first input, with scale 1. Refused besides the above:
// forms other than LoRA, DoRA and biases among them (kRefusedUnsupported), modules of different shapes (kRefusedShape),
// kLinear with different ranks (kRefusedShape), modules of another family whose names in that of the first are not known
// (kRefusedUnmatched).
Result<AdapterToolPlan> plan_combine(std::span<const AdapterInput* const> inputs,
                                     const CombineOptions& options, const AdapterToolRequest& request);

struct ExtractOptions {
  uint64_t rank = 1;
  std::optional<uint64_t> conv_rank{};
  bool kohya = false;          // names of kohya, else of PEFT
  bool allow_partial = false;  // what differs and has no low-rank form is left out
};
// The difference of two models of equal names and shapes. Reads both in strips, several times. Refused: equal models,
// differences that are no matrices, tensors that only one of them has, names without a form in kohya's (kRefusedUnmatched;
// but the first all but with allow_partial), different shapes (kRefusedShape), quantised weights (kRefusedUnsupported).
Result<AdapterToolPlan> plan_extract(const AdapterInput& original, const AdapterInput& tuned,
                                     const ExtractOptions& options, const AdapterToolRequest& request);

}  // namespace tftf
