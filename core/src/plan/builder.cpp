#include <algorithm>

#include "plan/state.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/base/json_text.h"

namespace tftf {
namespace {

bool inside_input(const PlanState& state, const Extent& extent) {
  return extent.rows == 1 && extent.file < state.inputs.size() &&
         extent.row_bytes <= state.inputs[extent.file].size &&
         extent.offset <= state.inputs[extent.file].size - extent.row_bytes;
}

bool continues(const Extent& before, const Extent& after) {
  return before.file == after.file && before.offset + before.row_bytes == after.offset;
}

// In the order of the outputs, neighbours joined.
std::vector<Copy> join(std::vector<Copy> copies) {
  std::sort(copies.begin(), copies.end(), [](const Copy& a, const Copy& b) {
    return a.to.file != b.to.file ? a.to.file < b.to.file : a.to.offset < b.to.offset;
  });
  std::vector<Copy> joined;
  for (const Copy& copy : copies) {
    if (!joined.empty() && continues(joined.back().to, copy.to) && continues(joined.back().from, copy.from)) {
      joined.back().to.row_bytes += copy.to.row_bytes;
      joined.back().from.row_bytes += copy.from.row_bytes;
    } else {
      joined.push_back(copy);
    }
  }
  return joined;
}

}  // namespace

PlanBuilder::PlanBuilder(std::string command, PlanOptions options) : state_(std::make_shared<PlanState>()) {
  state_->command = std::move(command);
  state_->options = options;
  if (options.tile_bytes == 0) state_->fault("a tile has no bytes");
}

uint32_t PlanBuilder::add_input(Input input) {
  state_->inputs.push_back(std::move(input));
  return static_cast<uint32_t>(state_->inputs.size() - 1);
}

uint32_t PlanBuilder::add_output(Output output, std::string header) {
  const auto index = static_cast<uint32_t>(state_->outputs.size());
  const bool known = output.known;
  state_->outputs.push_back(std::move(output));
  if (known) set_output(index, state_->outputs[index].size, std::move(header));
  return index;
}

void PlanBuilder::set_output(uint32_t index, uint64_t size, std::string header) {
  if (index >= state_->outputs.size()) return state_->fault("an output is not there");
  Output& output = state_->outputs[index];
  output.size = size;
  output.header_bytes = header.size();
  output.known = true;
  const Extent to{.file = index, .row_bytes = header.size()};
  if (!header.empty()) state_->pending_literals.push_back({to, std::move(header)});
}

void PlanBuilder::hold(uint64_t bytes) { state_->held_bytes += bytes; }

uint32_t PlanBuilder::add_resident(Resident resident) {
  uint64_t raw = 0;
  for (const Extent& extent : resident.from) raw += extent.bytes();
  resident.raw_bytes = raw;
  if (resident.gather != nullptr) {
    auto item = std::make_shared<Item>(*resident.gather);
    if (!item->out.empty()) state_->fault("what gathers a resident writes");
    item->tiles = item->units_per_tile == 0 ? 0 : ceil_div(item->units, item->units_per_tile);
    resident.gather = std::move(item);
  } else if (resident.prepare == nullptr) {
    resident.ready_bytes = raw;
  }
  resident.users = 0;
  state_->residents.push_back(std::move(resident));
  return static_cast<uint32_t>(state_->residents.size() - 1);
}

void PlanBuilder::begin_phase(bool writes, bool keeps_values) {
  state_->phases.push_back({.first_item = static_cast<uint32_t>(state_->items.size()),
                            .writes = writes,
                            .keeps_values = keeps_values});
}

uint32_t PlanBuilder::add_note(PlanEntry entry) {
  state_->entries.push_back(std::move(entry));
  return static_cast<uint32_t>(state_->entries.size() - 1);
}

uint32_t PlanBuilder::add_tensor(PlanEntry entry) {
  entry.item = static_cast<uint32_t>(state_->items.size());
  entry.items = 0;
  return add_note(std::move(entry));
}

void PlanBuilder::add_item(Item item) {
  PlanState& state = *state_;
  if (item.op == nullptr || item.op->io == nullptr || item.op->run == nullptr)
    return state.fault("an item has no operation");
  if (item.tensor >= state.entries.size()) return state.fault("an item belongs to no tensor");
  PlanEntry& entry = state.entries[item.tensor];
  const std::string name = quote_name(entry.name);
  if (entry.items == 0) entry.item = static_cast<uint32_t>(state.items.size());
  if (entry.item + entry.items != state.items.size())
    return state.fault("the items of " + name + " do not follow each other");
  if (item.units_per_tile == 0) return state.fault("the tiles of " + name + " are empty");
  for (const Extent& out : item.out)
    if (out.rows != 1) return state.fault("an output of " + name + " is strided");
  if (state.phases.size() == state.sealed_phases) begin_phase(true, false);
  Phase& phase = state.phases.back();
  if (!phase.writes && !item.out.empty()) return state.fault(name + " is written while measuring");
  item.tiles = ceil_div(item.units, item.units_per_tile);
  for (uint32_t r : item.residents) {
    if (r >= state.residents.size()) return state.fault("a resident of " + name + " is not there");
    const uint64_t users = state.residents[r].users + item.tiles;
    if (users > UINT32_MAX) return state.fault("a resident of " + name + " has too many steps");
    state.residents[r].users = static_cast<uint32_t>(users);
  }
  if (entry.word.empty()) entry.word = item.op->id;
  ++entry.items;
  ++phase.item_count;
  state.items.push_back(std::move(item));
}

uint32_t PlanBuilder::add_copy(PlanEntry entry) {
  entry.kind = PlanEntry::Kind::kCopy;
  const uint32_t index = add_note(std::move(entry));
  if (state_->entries[index].to_known) place(index, state_->entries[index].to);
  return index;
}

uint32_t PlanBuilder::add_literal(PlanEntry entry) {
  entry.kind = PlanEntry::Kind::kLiteral;
  const uint32_t index = add_note(std::move(entry));
  if (state_->entries[index].to_known) place(index, state_->entries[index].to);
  return index;
}

void PlanBuilder::place(uint32_t index, Extent to) {
  if (index >= state_->entries.size()) return state_->fault("an entry is not there");
  PlanEntry& entry = state_->entries[index];
  entry.to = to;
  entry.to_known = true;
  const std::string name = quote_name(entry.name);
  if (to.rows != 1) return state_->fault("the output of " + name + " is strided");
  if (entry.kind == PlanEntry::Kind::kLiteral) {
    if (entry.bytes.size() != to.bytes()) return state_->fault(name + " has the wrong size");
    state_->pending_literals.push_back({to, entry.bytes});
  } else if (entry.kind == PlanEntry::Kind::kCopy) {
    uint64_t done = 0;
    for (const Extent& from : entry.from) {
      if (!inside_input(*state_, from)) return state_->fault(name + " is copied from outside of its input");
      if (from.row_bytes > to.row_bytes - done) return state_->fault(name + " has the wrong size");
      if (from.row_bytes != 0) state_->pending_copies.push_back({from, slice(to, done, from.row_bytes)});
      done += from.row_bytes;
    }
    if (done != to.row_bytes) return state_->fault(name + " has the wrong size");
  }
}

void PlanBuilder::add_side(SideOutput side) {
  PlanEntry line;
  line.kind = PlanEntry::Kind::kSide;
  line.name = side.name;
  line.word = side.copied ? "copied" : side.is_index ? "index" : "rewritten";
  if (!side.from.empty()) line.word += " from " + json_ascii_string(side.from);
  add_note(std::move(line));
  state_->sides.push_back(std::move(side));
}

void PlanBuilder::on_finish(Finish finish) {
  state_->extend = [finish = std::move(finish)](size_t phase, std::span<const Value> values, Tables& tables,
                                                PlanBuilder&) { return finish(phase, values, tables); };
  state_->extends = false;
}

void PlanBuilder::on_finish(Extend extend) {
  state_->extend = std::move(extend);
  state_->extends = true;
}

void PlanBuilder::check_residents() {
  PlanState& state = *state_;
  for (; state.sealed_residents < state.residents.size(); ++state.sealed_residents) {
    Resident& resident = state.residents[state.sealed_residents];
    for (const Extent& from : resident.from) {
      Extent whole = from;
      whole.rows = 1;
      const auto rows = checked_mul(from.rows == 0 ? 0 : from.rows - 1, from.stride);
      const auto bytes = rows ? checked_add(*rows, from.row_bytes) : std::nullopt;
      whole.row_bytes = bytes.value_or(UINT64_MAX);
      if (!inside_input(state, whole)) state.fault("a resident lies outside of its input");
    }
    if (resident.gather != nullptr) walk_gather(state, resident);
  }
}

// Takes in what was added since the last time: numbers the steps, gives copies and literals to the first new
// writing phase, checks.
Result<void> PlanBuilder::seal() {
  PlanState& state = *state_;
  uint64_t step = 0;
  if (state.sealed_phases != 0) {
    const Phase& last = state.phases[state.sealed_phases - 1];
    step = last.first + last.count;
  }
  const auto writes = [](const Phase& phase) { return phase.writes; };
  auto unsealed = state.phases.begin() + static_cast<std::ptrdiff_t>(state.sealed_phases);
  auto writing = std::find_if(unsealed, state.phases.end(), writes);
  const bool pending = !state.pending_copies.empty() || !state.pending_literals.empty();
  // A plan of copies alone has no items to open a phase for it; one that measures first may get it later.
  const bool last_chance = !state.extends || state.phases.empty() || state.finished == state.phases.size();
  if (writing == state.phases.end() && pending && last_chance) {
    begin_phase(true, false);
    writing = state.phases.end() - 1;
  }
  if (writing != state.phases.end() && pending) {
    std::vector<Copy> copies = join(std::move(state.pending_copies));
    writing->first_copy = static_cast<uint32_t>(state.copies.size());
    writing->copy_count = static_cast<uint32_t>(copies.size());
    writing->first_literal = static_cast<uint32_t>(state.literals.size());
    writing->literal_count = static_cast<uint32_t>(state.pending_literals.size());
    state.copies.insert(state.copies.end(), copies.begin(), copies.end());
    std::move(state.pending_literals.begin(), state.pending_literals.end(),
              std::back_inserter(state.literals));
    state.pending_copies.clear();
    state.pending_literals.clear();
    for (const Copy& copy : copies) writing->read_bytes += copy.from.row_bytes;
  }
  for (size_t p = state.sealed_phases; p < state.phases.size(); ++p) {
    Phase& phase = state.phases[p];
    phase.first = step;
    for (uint32_t i = phase.first_item; i < phase.first_item + phase.item_count; ++i) {
      state.items[i].first_step = step;
      const auto next = checked_add(step, state.items[i].tiles);
      if (!next) state.fault("there are too many steps");
      step = next.value_or(step);
    }
    phase.count = step - phase.first;
  }
  check_residents();
  if (state.mistake) return *state.mistake;
  state.sealed_phases = state.phases.size();

  const bool any_writes = std::any_of(state.phases.begin(), state.phases.end(), writes);
  if (any_writes || !state.extends) TFTF_TRY(check_coverage(state));
  for (size_t p = state.ready_phases; p < state.phases.size(); ++p) {
    const auto items = std::span(state.items).subspan(state.phases[p].first_item, state.phases[p].item_count);
    const bool waits =
        std::any_of(items.begin(), items.end(), [](const Item& item) { return item.op->io_from_tables; });
    if (waits && p > state.finished) break;
    TFTF_TRY(walk_phase(state, p));
  }
  return {};
}

Result<Plan> PlanBuilder::build() {
  TFTF_TRY(seal());
  Plan plan;
  plan.state_ = state_;
  return plan;
}

}  // namespace tftf
