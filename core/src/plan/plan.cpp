#include "tftf/plan/plan.h"

#include <algorithm>

#include "plan/state.h"
#include "plan/text.h"

namespace tftf {

std::string_view Plan::command() const { return state_->command; }
uint64_t Plan::tile_bytes() const { return state_->options.tile_bytes; }
std::span<const Input> Plan::inputs() const { return state_->inputs; }
std::span<const Output> Plan::outputs() const { return state_->outputs; }
std::span<const Phase> Plan::phases() const { return state_->phases; }
std::span<const Resident> Plan::residents() const { return state_->residents; }
std::span<const Copy> Plan::copies() const { return state_->copies; }
std::span<const Literal> Plan::literals() const { return state_->literals; }
std::span<const Item> Plan::items() const { return state_->items; }
std::span<const PlanEntry> Plan::entries() const { return state_->entries; }
std::span<const SideOutput> Plan::sides() const { return state_->sides; }

uint64_t Plan::step_count() const {
  return state_->phases.empty() ? 0 : state_->phases.back().first + state_->phases.back().count;
}

uint32_t Plan::item_of(uint64_t step) const {
  // Items without steps share their first_step with the next item: the last of equal ones owns the step.
  const auto& items = state_->items;
  const auto after = std::upper_bound(items.begin(), items.end(), step,
                                      [](uint64_t s, const Item& item) { return s < item.first_step; });
  return static_cast<uint32_t>(after - items.begin() - 1);
}

void Plan::io(uint64_t step, StepIo& io) const {
  const Item& item = state_->items[item_of(step)];
  io.in.clear();
  io.out.clear();
  item.op->io(item, step - item.first_step, state_->tables, io);
}

std::span<const uint32_t> Plan::residents_of(uint64_t step) const {
  const Item& item = state_->items[item_of(step)];
  return item.residents;
}

void Plan::prepare(uint32_t resident, Bytes raw, MutableBytes ready) const noexcept {
  const Resident& r = state_->residents[resident];
  if (r.prepare != nullptr) {
    r.prepare(raw, ready, r.context.get());
  } else {
    std::copy(raw.begin(), raw.end(), ready.begin());
  }
}

uint64_t Plan::gather_tiles(uint32_t resident) const {
  const Resident& r = state_->residents[resident];
  return r.gather == nullptr ? 0 : r.gather->tiles;
}

void Plan::gather_io(uint32_t resident, uint64_t tile, StepIo& io) const {
  const Item& item = *state_->residents[resident].gather;
  io.in.clear();
  io.out.clear();
  item.op->io(item, tile, state_->tables, io);
}

void Plan::gather(uint32_t resident, uint64_t tile, const KernelTable& kernels, const Slot& slot,
                  MutableBytes ready) const noexcept {
  const Item& item = *state_->residents[resident].gather;
  std::byte* const out[] = {ready.data()};
  Slot own = slot;
  own.out = out;
  Value value;
  item.op->run(item, tile, state_->tables, kernels, own, value);
}

void Plan::run(uint64_t step, const KernelTable& kernels, const Slot& slot, Value& value) const noexcept {
  const Item& item = state_->items[item_of(step)];
  item.op->run(item, step - item.first_step, state_->tables, kernels, slot, value);
}

void Plan::merge_values(uint64_t step, Value& into, const Value& from) const {
  const TileOp& op = *state_->items[item_of(step)].op;
  if (op.merge != nullptr) {
    op.merge(into, from);
    return;
  }
  for (size_t i = 0; i < into.n.size(); ++i) into.n[i] += from.n[i];
  for (size_t i = 0; i < into.x.size(); ++i) into.x[i] = std::max(into.x[i], from.x[i]);
}

Result<void> Plan::finish(size_t phase, std::span<const Value> values) {
  PlanState& state = *state_;
  if (phase != state.finished || phase >= state.phases.size())
    return Error{.message = "Phase " + std::to_string(phase) + " of the plan was finished out of turn."};
  if (values.size() != state.phases[phase].value_count())
    return Error{.message =
                     "Phase " + std::to_string(phase) + " of the plan got the wrong number of values."};
  if (state.hash.empty()) state.hash = hash();
  ++state.finished;
  if (state.extend) {
    PlanBuilder more(state_);
    TFTF_TRY(state.extend(phase, values, state.tables, more));
    TFTF_TRY(more.seal());
  }
  // Tables are final for the next phase: what it reads is known now.
  if (state.finished < state.phases.size() && state.ready_phases == state.finished)
    TFTF_TRY(walk_phase(state, state.finished));
  return {};
}

uint64_t Plan::read_bytes() const {
  uint64_t bytes = 0;
  for (const Phase& phase : state_->phases) bytes += phase.read_bytes;
  for (const Resident& resident : state_->residents)
    bytes += resident.users == 0 ? 0 : resident.raw_bytes + resident.gather_read_bytes;
  return bytes;
}

uint64_t Plan::written_bytes() const {
  uint64_t bytes = 0;
  for (const Output& output : state_->outputs) bytes += output.known ? output.size : 0;
  return bytes;
}

// Most bytes of a copy that a worker holds at a time.
constexpr uint64_t kCopyBuffer = 256 << 10;

uint64_t Plan::memory_bytes(uint32_t threads) const {
  const PlanState& state = *state_;
  uint64_t slot = 0;
  for (const Phase& phase : state.phases) {
    // Copies go through a buffer where the system cannot do them by itself.
    uint64_t copied = 0;
    for (const Copy& copy : std::span(state.copies).subspan(phase.first_copy, phase.copy_count))
      copied = std::max(copied, std::min(copy.from.row_bytes, kCopyBuffer));
    slot = std::max(slot, phase.in_bytes + phase.out_bytes + phase.scratch_bytes + copied);
  }

  // Workers take steps in order, so the residents alive at a time are those of a window of threads + 1 items;
  // one that is being prepared needs its raw bytes too.
  struct Life {
    uint64_t first = UINT64_MAX, last = 0;
  };
  std::vector<Life> lives(state.residents.size());
  for (size_t i = 0; i < state.items.size(); ++i) {
    const Item& item = state.items[i];
    if (item.tiles == 0) continue;
    for (uint32_t r : item.residents) {
      lives[r].first = std::min<uint64_t>(lives[r].first, i);
      lives[r].last = i;
    }
  }
  std::vector<std::pair<uint64_t, int64_t>> changes;
  uint64_t raw = 0;
  for (size_t r = 0; r < lives.size(); ++r) {
    if (lives[r].first == UINT64_MAX) continue;
    const Resident& resident = state.residents[r];
    if (resident.prepare != nullptr) raw = std::max(raw, resident.raw_bytes);
    if (resident.gather != nullptr)
      raw = std::max(raw, resident.gather_in_bytes + resident.gather_scratch_bytes);
    const auto bytes = static_cast<int64_t>(resident.ready_bytes);
    changes.emplace_back(lives[r].first - std::min<uint64_t>(lives[r].first, threads), bytes);
    changes.emplace_back(lives[r].last + 1, -bytes);
  }
  std::sort(changes.begin(), changes.end());
  int64_t alive = 0;
  int64_t most = 0;
  for (const auto& [at, bytes] : changes) {
    alive += bytes;
    most = std::max(most, alive);
  }
  return (slot + raw) * threads + static_cast<uint64_t>(most) + state.held_bytes;
}

std::string Plan::to_text(bool steps) const {
  std::string text;
  write_text(*this, {.steps = steps}, [&](std::string_view line) { text += line; });
  return text;
}

std::string Plan::hash() const {
  if (!state_->hash.empty()) return state_->hash;
  Sha256 hash;
  write_text(*this, {.tiles = false}, [&](std::string_view line) { hash.update(line); });
  return hash.hex_digest();
}

}  // namespace tftf
