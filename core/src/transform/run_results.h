// What the steps of a plan report, brought to the tensors of the result, and what of it ends a run.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plane_ops.h"
#include "tftf/plan/plan.h"
#include "tftf/quant/encoder.h"
#include "tftf/transform/planner.h"

namespace tftf::transform {

class RunResults {
 public:
  explicit RunResults(std::shared_ptr<std::vector<DeclaredTensor>> tensors) : tensors_(std::move(tensors)) {}

  void begin_phase() { owners_.emplace_back(); }
  // Whose values the next item of the phase reports: a tensor of the result, by its index …
  void item_of_tensor(uint32_t tensor) { owners_.back().push_back({Kind::kTensor, tensor}); }
  // … a scale that divides: zero or not finite is refused …
  void item_of_divisor(std::string name, std::string file);
  // … what an encoder measures: gives the number of the table that holds the result.
  uint32_t item_of_measure(std::shared_ptr<const Encoded> encoded, std::string name);
  // … a plane that must hold nothing of what the check counts …
  void item_of_check(std::shared_ptr<const PlaneCheck> check);
  // … nobody's.
  void item_of_nobody() { owners_.back().push_back({Kind::kNobody, 0}); }

  // To be called with the values of a phase: fills tables and the counts of the tensors, or refuses.
  Result<void> finish(size_t phase, std::span<const Value> values, Tables& tables);

 private:
  enum class Kind : uint8_t { kTensor, kDivisor, kMeasure, kCheck, kNobody };
  struct Owner {
    Kind kind;
    uint32_t index;
  };
  struct Measured {
    std::shared_ptr<const Encoded> encoded;
    std::string name;
  };
  Result<void> fill_tables(size_t phase, std::span<const Value> values, Tables& tables) const;

  std::shared_ptr<std::vector<DeclaredTensor>> tensors_;
  std::vector<std::vector<Owner>> owners_;                     // by phase and item
  std::vector<std::pair<std::string, std::string>> divisors_;  // name, file
  std::vector<std::shared_ptr<const PlaneCheck>> checks_;
  std::vector<Measured> measured_;  // by table
};

}  // namespace tftf::transform
