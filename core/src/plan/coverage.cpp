#include <algorithm>
#include <optional>

#include "plan/state.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

struct Interval {
  uint32_t file;
  uint64_t begin;
  uint64_t end;
  bool operator<(const Interval& other) const {
    return file != other.file ? file < other.file : begin < other.begin;
  }
};

Error fault(std::string what) { return {.message = "The plan is inconsistent: " + std::move(what) + "."}; }

// All bytes of `extent` lie in a file of `size` bytes.
bool inside(const Extent& extent, uint64_t size) {
  if (extent.rows == 0) return true;
  const auto last = checked_mul(extent.rows - 1, extent.stride);
  const auto start = last ? checked_add(extent.offset, *last) : std::nullopt;
  const auto end = start ? checked_add(*start, extent.row_bytes) : std::nullopt;
  return end && *end <= size;
}

// What a tile reads: buffers rounded up, and bytes.
struct TileReads {
  uint64_t buffers = 0;
  uint64_t bytes = 0;
};

// Asks a tile for its `io`; nothing when it reads outside of an input.
std::optional<TileReads> ask_tile(const PlanState& state, const Item& item, uint64_t tile, StepIo& io) {
  io.in.clear();
  io.out.clear();
  item.op->io(item, tile, state.tables, io);
  TileReads reads;
  for (const Extent& in : io.in) {
    if (in.file >= state.inputs.size() || !inside(in, state.inputs[in.file].size)) return std::nullopt;
    reads.buffers += slot_bytes(in.bytes());
    reads.bytes += in.bytes();
  }
  return reads;
}

}  // namespace

Result<void> check_coverage(const PlanState& state) {
  for (const Output& output : state.outputs)
    if (!output.known) return fault("output " + quote_name(output.name) + " has no layout");
  std::vector<Interval> intervals;
  bool outside = false;
  const auto add = [&](const Extent& extent) {
    const auto end = checked_add(extent.offset, extent.bytes());
    // An empty range must be somewhere, too: hosts index their files by it.
    outside =
        outside || !end || extent.file >= state.outputs.size() || *end > state.outputs[extent.file].size;
    if (extent.bytes() != 0) intervals.push_back({extent.file, extent.offset, end.value_or(0)});
  };
  for (const Item& item : state.items)
    for (const Extent& out : item.out) add(out);
  for (const Copy& copy : state.copies) add(copy.to);
  for (const Literal& literal : state.literals) add(literal.to);
  if (outside) return fault("a range lies outside of its output");

  std::sort(intervals.begin(), intervals.end());
  size_t at = 0;
  for (uint32_t file = 0; file < state.outputs.size(); ++file) {
    const Output& output = state.outputs[file];
    uint64_t end = 0;
    for (; at < intervals.size() && intervals[at].file == file; ++at) {
      if (intervals[at].begin != end)
        return fault("byte " + std::to_string(std::min(end, intervals[at].begin)) + " of output " +
                     quote_name(output.name) + " is written " +
                     (intervals[at].begin < end ? "twice" : "never"));
      end = intervals[at].end;
    }
    if (end != output.size)
      return fault("output " + quote_name(output.name) + " has " + std::to_string(output.size) +
                   " bytes, of which " + std::to_string(end) + " are written");
  }
  return {};
}

void walk_gather(PlanState& state, Resident& resident) {
  const Item& item = *resident.gather;
  if (item.op->scratch != nullptr) resident.gather_scratch_bytes = slot_bytes(item.op->scratch(item));
  StepIo io;
  for (uint64_t tile = 0; tile < item.tiles; ++tile) {
    const auto reads = ask_tile(state, item, tile, io);
    if (!reads) return state.fault("what gathers a resident reads outside of its input");
    if (!io.out.empty()) return state.fault("what gathers a resident writes");
    resident.gather_in_bytes = std::max(resident.gather_in_bytes, reads->buffers);
    resident.gather_read_bytes += reads->bytes;
  }
}

Result<void> walk_phase(PlanState& state, size_t index) {
  Phase& phase = state.phases[index];
  StepIo io;
  std::vector<uint64_t> ends;
  const auto name = [&](const Item& item) { return quote_name(state.entries[item.tensor].name); };
  for (uint32_t i = phase.first_item; i < phase.first_item + phase.item_count; ++i) {
    const Item& item = state.items[i];
    ends.clear();
    for (const Extent& out : item.out) ends.push_back(out.offset);
    if (item.op->scratch != nullptr)
      phase.scratch_bytes = std::max(phase.scratch_bytes, slot_bytes(item.op->scratch(item)));
    for (uint64_t tile = 0; tile < item.tiles; ++tile) {
      const auto reads = ask_tile(state, item, tile, io);
      if (!reads) return fault("a step of " + name(item) + " reads outside of its input");
      phase.read_bytes += reads->bytes;
      if (io.out.size() != item.out.size()) return fault("a step of " + name(item) + " lacks an output");
      uint64_t out_bytes = 0;
      for (size_t k = 0; k < io.out.size(); ++k) {
        const Extent& out = io.out[k];
        if (out.file != item.out[k].file || out.rows != 1 || out.offset != ends[k])
          return fault("the tiles of " + name(item) + " do not follow each other");
        ends[k] += out.row_bytes;
        out_bytes += slot_bytes(out.row_bytes);
      }
      phase.in_bytes = std::max(phase.in_bytes, reads->buffers);
      phase.out_bytes = std::max(phase.out_bytes, out_bytes);
    }
    for (size_t k = 0; k < item.out.size(); ++k)
      if (ends[k] != item.out[k].offset + item.out[k].bytes())
        return fault("the tiles of " + name(item) + " do not fill it");
  }
  state.ready_phases = index + 1;
  return {};
}

}  // namespace tftf
