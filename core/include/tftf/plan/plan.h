// A plan: what a command will do, as data. Phases of independent steps, copies and literals; a host executes
// it with any number of threads and gets the same bytes (docs/architecture.md, "The plan").
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/base/bytes.h"
#include "tftf/base/dtype.h"
#include "tftf/base/result.h"

namespace tftf {

struct KernelTable;  // simd/kernels.h
struct Item;
struct PlanState;

// A byte range of a file, or (rows > 1) a strided rectangle: `rows` runs of `row_bytes`, `stride` apart.
struct Extent {
  uint32_t file = 0;  // index into Plan::inputs() (reads) or Plan::outputs() (writes)
  uint32_t rows = 1;
  uint64_t offset = 0;
  uint64_t row_bytes = 0;
  uint64_t stride = 0;
  uint64_t bytes() const { return row_bytes * rows; }
};

// Bytes [begin, begin + bytes) of a contiguous extent.
inline Extent slice(const Extent& whole, uint64_t begin, uint64_t bytes) {
  return {.file = whole.file, .offset = whole.offset + begin, .row_bytes = bytes};
}

// How many units (elements, rows) of `bits_per_unit` fit a tile, rounded down to `multiple`, at least one
// multiple. The larger of the two sides of a step counts. Elements smaller than a byte need a multiple that
// fills bytes.
inline uint64_t tile_units(uint64_t tile_bytes, uint64_t bits_per_unit, uint64_t multiple = 1) {
  const uint64_t units = bits_per_unit == 0 ? multiple : tile_bytes * 8 / bits_per_unit;
  return units < multiple ? multiple : units - units % multiple;
}

// What one step reads and writes. The caller's, refilled by Plan::io(): no allocation after the first steps.
struct StepIo {
  std::vector<Extent> in;
  std::vector<Extent> out;
};

// What a step reports: counts and numbers whose meaning the TileOp defines. Zero-initialised by the host.
struct Value {
  std::array<uint64_t, 4> n{};
  std::array<double, 2> x{};
};

// Buffers of a step start at multiples of this many bytes; Phase's sizes count it in.
inline constexpr uint64_t kSlotAlign = 64;

// The buffers of one step: in/out in the order of StepIo, each exactly as long as its extent (rows back to
// back) and aligned to kSlotAlign. Inputs may be read only, outputs must be written whole.
struct Slot {
  std::span<const std::byte* const> in;
  std::span<std::byte* const> out;
  std::span<std::byte> scratch;
  std::span<const std::span<const std::byte>> residents;  // prepared, in the order of Plan::residents_of()
};

struct Copy {
  Extent from{};
  Extent to{};
};

// Bytes made while planning: headers, weight_shape, alpha …
struct Literal {
  Extent to{};
  std::string bytes{};
};

// Small data that several steps need whole (scales that are no extent, LoRA factors): loaded by the first
// step that needs it, freed after the last.
struct Resident {
  std::vector<Extent> from{};
  uint64_t raw_bytes = 0;    // sum of `from`
  uint64_t ready_bytes = 0;  // after prepare()
  uint32_t users = 0;        // steps that need it (filled by the builder)
  // raw → ready; null: the raw bytes are used as they are (ready_bytes == raw_bytes).
  void (*prepare)(std::span<const std::byte> raw, std::span<std::byte> ready,
                  const void* context) noexcept = nullptr;
  std::shared_ptr<const void> context{};
  // Made of more than can be held (norms of columns): `ready_bytes` zeros, then the tiles of this item, one after the
  // other, each with the ready bytes as its only output. They see the residents before this one in the list of the step
  // that needs it. Then `from` and `prepare` mean nothing.
  std::shared_ptr<const Item> gather{};
  uint64_t gather_in_bytes = 0;  // largest buffers of its tiles (filled by the builder)
  uint64_t gather_scratch_bytes = 0;
  uint64_t gather_read_bytes = 0;  // of all its tiles
};

struct Input {
  std::string path{};  // name relative to the model (Checkpoint::shards), or as the host resolves it
  uint64_t size = 0;
  std::string header_sha256{};  // hexadecimal, of the first 8+N bytes
};

struct Output {
  std::string name{};  // final name, relative to the output
  uint64_t size = 0;
  uint64_t header_bytes = 0;
  bool known = true;  // false: a later finish() lays it out, size and header_bytes mean nothing yet
};

// A run of steps without dependencies among them; the maxima (buffers rounded up to kSlotAlign each) size the
// slots and are final once the phase before is finished. Copies and literals belong to one writing phase.
struct Phase {
  uint64_t first = 0;  // step
  uint64_t count = 0;
  uint32_t first_item = 0;
  uint32_t item_count = 0;
  uint32_t first_copy = 0;
  uint32_t copy_count = 0;
  uint32_t first_literal = 0;
  uint32_t literal_count = 0;
  uint64_t in_bytes = 0;
  uint64_t out_bytes = 0;
  uint64_t scratch_bytes = 0;
  uint64_t read_bytes = 0;  // by its steps and copies, residents not counted
  bool writes = true;
  bool keeps_values = false;  // finish() gets one Value per step; otherwise one per item, merged
  // Values one gets for finish(), in order of steps or items.
  uint64_t value_count() const { return keeps_values ? count : item_count; }
};

// Results of finish() that later steps read (scales, row offsets); read-only while steps run.
struct Tables {
  std::vector<std::vector<std::byte>> table{};
};

struct Item;

// What the tiles of one kind of item do. One constant per kind; function pointers, no virtuals.
struct TileOp {
  std::string_view id{};  // word of the text form: "cast", "dequant fp8-block", …
  // Fills `io` for tile t of the item: ranges derived from the item's whole-tensor extents.
  void (*io)(const Item& item, uint64_t tile, const Tables& tables, StepIo& io);
  // The pure function. Allocates nothing, bounds every index that comes from data.
  void (*run)(const Item& item, uint64_t tile, const Tables& tables, const KernelTable& kernels,
              const Slot& slot, Value& value) noexcept;
  // Bytes of scratch for any tile of the item; null: none.
  uint64_t (*scratch)(const Item& item) = nullptr;
  // io() reads `tables`: it is not called before the phase before has been finished.
  bool io_from_tables = false;
  // How Values of steps of this kind are merged: associative, in any order, a zero Value changes nothing.
  // Null: sums of n, maxima of x.
  void (*merge)(Value& into, const Value& from) = nullptr;
};

// One output tensor (or a part of one) in one phase. Geometry is in units: elements for flat ops, rows for
// row ops.
struct Item {
  const TileOp* op = nullptr;
  uint64_t first_step = 0;  // filled by the builder
  uint64_t tiles = 0;       // filled by the builder: ceil(units / units_per_tile); no units, no steps
  uint64_t units = 0;
  uint64_t units_per_tile = 1;
  std::vector<Extent> in{};   // whole ranges; tiles cut them
  std::vector<Extent> out{};  // contiguous; tile t continues in each of them where tile t - 1 ended
  DType in_dtype{};
  DType out_dtype{};
  std::vector<uint32_t> residents{};  // indices into Plan::residents(); every step of the item needs them
  std::array<uint64_t, 6> arg{};      // op's own: rows, columns, block sizes …
  float scale = 1.0f;
  uint32_t tensor = 0;                    // index of its PlanEntry; an entry's items follow each other
  std::shared_ptr<const void> context{};  // op's own, for what does not fit
};

// One line of the text form.
struct PlanEntry {
  enum class Kind { kTensor, kAlso, kCopy, kLiteral, kValue, kMeasure, kDrop, kSide };
  Kind kind = Kind::kTensor;
  std::string name{};
  DType dtype{};
  Shape shape{};
  Extent to{};                 // kTensor, kAlso, kCopy, kLiteral: output range
  bool to_known = true;        // false: place() gives it in a later finish()
  std::vector<Extent> from{};  // kCopy, kTensor (first: the data), kValue, kMeasure
  std::vector<Extent> with{};  // kTensor: companions
  std::string word{};          // kTensor, kMeasure: op id; kDrop: reason; kSide: "copied", "rewritten" …
  std::string bytes{};         // kLiteral, kValue
  uint32_t item = 0;           // kTensor, kMeasure: first item (for the tile count), filled by the builder
  uint32_t items = 0;
};

// A small file that is written whole, last (config.json, index): copied from the input's folder or made by
// the core.
struct SideOutput {
  std::string name{};
  bool copied = true;     // host copies the input's file of that name, mode and mtime too
  std::string from{};     // copied: the name that the file has there, where it is another
  std::string bytes{};    // otherwise: the content
  bool is_index = false;  // renamed after everything else
};

// Largest piece of the larger side of a tile, in bytes.
inline constexpr uint64_t kDefaultTileBytes = 1 << 20;

struct PlanOptions {
  uint64_t tile_bytes = kDefaultTileBytes;
};

class Plan {
 public:
  std::string_view command() const;  // "dequant-fp8 dtype=bfloat16": operation and its options
  uint64_t tile_bytes() const;
  std::span<const Input> inputs() const;
  std::span<const Output> outputs() const;
  std::span<const Phase> phases() const;
  std::span<const Resident> residents() const;
  std::span<const Copy> copies() const;  // done first in the writing phase; neighbours are already joined
  std::span<const Literal> literals() const;
  std::span<const Item> items() const;
  std::span<const PlanEntry> entries() const;
  std::span<const SideOutput> sides() const;

  uint64_t step_count() const;
  // Index of the item that owns a step (binary search).
  uint32_t item_of(uint64_t step) const;
  // What a step reads and writes. Refills `io`.
  void io(uint64_t step, StepIo& io) const;
  std::span<const uint32_t> residents_of(uint64_t step) const;
  void prepare(uint32_t resident, std::span<const std::byte> raw, std::span<std::byte> ready) const noexcept;
  // Tiles of Resident::gather (0: it has none), what one of them reads, and the tile itself: `ready` is zero before the
  // first; `slot.residents` are those before it.
  uint64_t gather_tiles(uint32_t resident) const;
  void gather_io(uint32_t resident, uint64_t tile, StepIo& io) const;
  void gather(uint32_t resident, uint64_t tile, const KernelTable& kernels, const Slot& slot,
              std::span<std::byte> ready) const noexcept;
  // Pure; allocates nothing; safe from any number of threads.
  void run(uint64_t step, const KernelTable& kernels, const Slot& slot, Value& value) const noexcept;
  // Merges a step's value into its item's total (phases without keeps_values), associative and order-free.
  void merge_values(uint64_t step, Value& into, const Value& from) const;
  // After all steps of a phase, in order of phases: may refuse, fix the layout, append the next phase.
  // `values`: phase.value_count() of them. Invalidates the spans above when it appends.
  Result<void> finish(size_t phase, std::span<const Value> values);

  // Bytes that phases and residents read, and bytes of all outputs (those known so far).
  uint64_t read_bytes() const;
  uint64_t written_bytes() const;
  // Bytes of slots for `threads` workers plus the residents of threads + 1 items plus what is held throughout (an
  // adapter's tensors): what --max-memory limits.
  uint64_t memory_bytes(uint32_t threads) const;
  // The text form (docs/architecture.md, "Text form of a plan"); `steps`: with the steps of each tensor.
  std::string to_text(bool steps = false) const;
  // SHA-256 (hexadecimal) of the text form without tile sizes and counts, as it was before the first
  // finish(): names the work, whatever the tiling.
  std::string hash() const;

 private:
  friend class PlanBuilder;
  std::shared_ptr<PlanState> state_;
};

// Collects a plan. Not a pump: the transform layer calls it once everything is known. Also what a Finish
// appends with. Mistakes of the caller come out of build() (or finish()) as kInternal.
class PlanBuilder {
 public:
  PlanBuilder(std::string command, PlanOptions options);
  uint32_t add_input(Input input);
  // `header`: the 8+N bytes, becomes a literal at offset 0. With output.known false: empty, see set_output().
  uint32_t add_output(Output output, std::string header);
  uint32_t add_resident(Resident resident);
  // Memory that lives as long as the plan, beside residents.
  void hold(uint64_t bytes);
  // A phase is opened implicitly; begin_phase() starts another (measure phases come first).
  void begin_phase(bool writes, bool keeps_values);
  // An output tensor made of one or more items (experts, ranks) or (kMeasure) a step without output: first
  // the entry, then its items. Returns the entry's index, for Item::tensor and place().
  uint32_t add_tensor(PlanEntry entry);
  void add_item(Item item);
  // One output range from contiguous input ranges, joined with its neighbours where both touch.
  uint32_t add_copy(PlanEntry entry);
  uint32_t add_literal(PlanEntry entry);
  // kAlso, kValue, kDrop lines.
  uint32_t add_note(PlanEntry entry);
  // Adds the kSide line too: "copied", "rewritten", or "index".
  void add_side(SideOutput side);

  // In a Finish: what was unknown before. place() adds a copy's or literal's bytes to the writing phase.
  void set_output(uint32_t output, uint64_t size, std::string header);
  void place(uint32_t entry, Extent to);

  // What happens after a phase's steps: merge, refuse, fill tables; the second form may append phases with
  // the builder it is given. Default: nothing.
  using Finish = std::function<Result<void>(size_t phase, std::span<const Value> values, Tables& tables)>;
  using Extend = std::function<Result<void>(size_t phase, std::span<const Value> values, Tables& tables,
                                            PlanBuilder& more)>;
  void on_finish(Finish finish);
  void on_finish(Extend extend);
  // Checks that every byte of every output is written exactly once (as soon as there is a writing phase;
  // kInternal otherwise) and counts the steps. Spends the builder.
  Result<Plan> build();

 private:
  friend class Plan;
  explicit PlanBuilder(std::shared_ptr<PlanState> state) : state_(std::move(state)) {}
  Result<void> seal();
  void check_residents();

  std::shared_ptr<PlanState> state_;
};

}  // namespace tftf
