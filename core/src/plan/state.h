// What a Plan and its PlanBuilder share.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tftf/plan/plan.h"

namespace tftf {

struct PlanState {
  std::string command;
  PlanOptions options;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<Phase> phases;
  std::vector<Resident> residents;
  std::vector<Copy> copies;
  std::vector<Literal> literals;
  std::vector<Item> items;
  std::vector<PlanEntry> entries;
  std::vector<SideOutput> sides;
  Tables tables;
  uint64_t held_bytes = 0;
  PlanBuilder::Extend extend;
  bool extends = false;  // `extend` may append phases

  // Not yet given to a writing phase.
  std::vector<Copy> pending_copies;
  std::vector<Literal> pending_literals;

  size_t sealed_phases = 0;  // those that seal() has been over
  size_t sealed_residents = 0;
  size_t ready_phases = 0;  // those whose steps have been walked
  size_t finished = 0;
  std::string hash;              // as of the first finish()
  std::optional<Error> mistake;  // the first one of the builder's caller

  void fault(std::string what) {
    if (!mistake) mistake = Error{.message = "The plan is inconsistent: " + std::move(what) + "."};
  }
};

// Every byte of every output is written exactly once by the items, copies and literals there are.
Result<void> check_coverage(const PlanState& state);
// Calls io() for every step of a phase: inputs lie inside their files, outputs continue where the tile before
// ended; sets the phase's maxima and adds to its read_bytes.
Result<void> walk_phase(PlanState& state, size_t phase);

// Calls io() for every tile of what gathers a resident: inputs lie inside their files; sets its sizes.
void walk_gather(PlanState& state, Resident& resident);

// Rounds a buffer up so that the next one is aligned.
constexpr uint64_t slot_bytes(uint64_t bytes) { return (bytes + kSlotAlign - 1) / kSlotAlign * kSlotAlign; }

}  // namespace tftf
