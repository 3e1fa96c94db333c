// Brings a stream into another layout of names and another form of experts (spec experts 3 and 4).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "stream.h"
#include "tftf/checkpoint/layout_names.h"
#include "tftf/checkpoint/model_types.h"

namespace tftf::transform {

struct LayoutRequest {
  std::optional<NameLayout> to{};
  std::optional<ExpertForm> experts{};  // kSplit or kFused
  bool text_part = false;
  std::string model_type{};  // empty: config.json's
  bool allow_unmapped = false;
};
// All that the request says, names, experts and configuration. Refusals name tensors and what was expected.
Result<void> change_layout(Stream& stream, const LayoutRequest& request);

// The steps that it consists of. They count what they do in `counts`.
using LayoutCounts = Account::LayoutChange;

// Names of the stream's tensors to `to`. kRefusedMissing for a name that the type does not know (unless allowed),
// kRefusedCollision for names that meet or do not come back.
Result<void> convert_names(Stream& stream, const LayoutNames& names, NameLayout to, bool allow_unmapped,
                           LayoutCounts& counts);
// Matrices that are one thing in a layout and several in the other. Names are those of transformers 5.
Result<void> convert_joins(Stream& stream, std::span<const JoinedMatrix> joins, NameLayout to,
                           LayoutCounts& counts);

struct ExpertRequest {
  std::string type{};  // for messages
  std::span<const ExpertKind> kinds{};
  const LayoutNames* names = nullptr;
  std::optional<NameLayout> to{};
  std::optional<ExpertForm> form{};
  std::optional<ExpertAxes> also_stored{};  // axes that are taken although the type does not store them
  bool names_move = false;                  // some name of the stream is not one of transformers 5
};
// While small values are pending the stream is left as it is.
Result<void> convert_experts(Stream& stream, const ExpertRequest& request, LayoutCounts& counts);

// No two tensors of one name. `stream.tensors` only.
Result<void> check_unique_names(const Stream& stream);

// Takes tensors out of a stream and puts others in their place.
class StreamRebuild {
 public:
  explicit StreamRebuild(Stream& stream) : stream_(stream) {}
  // What a lane is taken of; the same object for every use. kRefusedUnsupported for codes that this run has made.
  Result<GatherSource> source(size_t tensor);
  // `made` stands where `at` stood, behind what was put there before; `at` goes.
  void put(size_t at, StreamTensor made);
  void remove(size_t tensor) { gone_.emplace(tensor, 0); }
  bool changes() const { return !gone_.empty(); }
  void apply();

 private:
  Stream& stream_;
  std::unordered_map<size_t, size_t> gone_;  // tensor to its list in made_, from 1 on; 0: it has none
  std::vector<std::vector<StreamTensor>> made_;
  std::unordered_map<size_t, std::shared_ptr<const StreamTensor>> ways_;
};

}  // namespace tftf::transform
