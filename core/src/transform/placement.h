// Where the tensors of a result go when they are not packed into shards of the usual names: files that a pipe names and
// fills itself, and what lies beside them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tftf/container/header.h"
#include "tftf/plan/plan.h"
#include "tftf/transform/planner.h"

namespace tftf::transform {

struct PlacedFile {
  std::string name{};
  size_t end = 0;  // behind the last of its tensors in the stream; the first file begins at 0
  Metadata metadata{};
  std::optional<uint32_t> whole{};  // the shard that it is, byte for byte, without tensors of the stream
};

struct Placement {
  // Their headers are laid out as the reference writer does it.
  std::vector<PlacedFile> files{};
  // Adds outputs, phases and their account in place of all that, when what is written depends on what is read.
  std::function<void(PlanBuilder& builder, const std::function<Extent(TensorRef)>& stored, Account& account)>
      fill{};
  std::vector<std::string> sides{};                               // files of the input's folder, copied
  std::vector<std::pair<std::string, std::string>> made_sides{};  // files that are made: name and text
  uint64_t tensors_in = 0;
  uint64_t left_quantised = 0;
  std::unordered_set<uint32_t> needed{};  // shards with tensors that no output holds
  std::vector<std::string> notes{};       // as Transform has them
  std::string manifest_name{};
  Manifest manifest{};
};

}  // namespace tftf::transform
