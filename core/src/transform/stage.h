// A tensor's way from stored bytes to written ones: a chain of stages, each rounding to the dtype it announces,
// run piece by piece inside one tile so that one pass gives the bytes of separate commands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/adapter/merge.h"
#include "tftf/base/checked.h"
#include "tftf/plan/plan.h"
#include "tftf/quant/encoder.h"
#include "tftf/quant/weight.h"
#include "tftf/simd/kernels.h"

namespace tftf::transform {

struct Stage;
struct GatherStep;

// What a stage sees of its tile.
struct TileView {
  const Item* item = nullptr;
  const KernelTable* kernels = nullptr;
  ElementRange tile;
  std::span<const std::byte* const> in;  // of a stage that decodes: its inputs, in the order of its io()
  std::span<std::byte* const> out;       // of a stage that encodes: its outputs, in the order of its io()
  std::byte* scratch = nullptr;          // its own, aligned to kSlotAlign
  const std::byte* ready = nullptr;      // its own part of the item's resident
  std::span<const std::span<const std::byte>> residents{};  // of the whole step
  Value* value = nullptr;                                   // the step's, for what run() cannot return
  const std::byte* measured = nullptr;  // of a stage that encodes: what the phase before has found
  Measure* measure = nullptr;           // that phase: what is filled then
  // What the stage has gathered over the whole item beforehand, when it asks for that; while that is done, `gathering`
  // (and run() has nothing to write).
  const std::byte* gathered = nullptr;
  std::byte* gathering = nullptr;
};

// One kind of stage: cast, merge, decode, encode. Layouts are no stages of their own (quant/weight.h, quant/encoder.h).
struct StageOp {
  // Word in the plan's text: "cast float16", "dequant fp8-block".
  std::string (*word)(const Stage& stage);
  // Converts a piece of the tile. Returns how many finite values became infinite. The ranges don't overlap.
  uint64_t (*run)(const Stage& stage, const TileView& view, ElementRange piece, const std::byte* in,
                  std::byte* out) noexcept;
  // Appends what the stage reads, or writes, itself.
  void (*io)(const Stage& stage, const Item& item, ElementRange tile, StepIo& io) = nullptr;
  // Bytes of scratch for any tile of at most `units` elements, a multiple of kSlotAlign; null: none.
  uint64_t (*scratch)(const Stage& stage, const Item& item, uint64_t units) = nullptr;
  // Once per tile, before run(); null: nothing.
  void (*begin)(const Stage& stage, const TileView& view) noexcept = nullptr;
  // Elements that tiles and pieces must be multiples of (counted from the item's start), and a number of elements that
  // suits it for a piece; null: any.
  uint64_t (*unit)(const Stage& stage) = nullptr;
  uint64_t (*piece)(const Stage& stage) = nullptr;
  // Bytes of small data that it needs for one of `matrices` equal parts of the tensor, a multiple of kSlotAlign, and how
  // they are made for part `matrix`; null: none.
  uint64_t (*ready_bytes)(const Stage& stage) = nullptr;
  void (*prepare)(const Stage& stage, uint64_t matrix, std::byte* ready) noexcept = nullptr;
  // Bytes of what has to be known of a whole item of so many matrices before its first tile (0: nothing), collected by
  // run() over all tiles in order; gathered() follows the last.
  uint64_t (*gathered_bytes)(const Stage& stage, uint64_t matrices) = nullptr;
  void (*gathered)(const Stage& stage, const TileView& view) noexcept = nullptr;
  // The first stage of a chain only: codes become elements. Then io() appends every input, and run() is given no `in`.
  // Item::units are the elements that come out.
  bool decodes = false;
  // The last stage of a chain only: elements become codes with their scales. Then io() appends the outputs too, and
  // run() is given no `out`. Value: n[3] elements that are not finite, which no code can stand for.
  bool encodes = false;
  // Elements that a tile, unlike a piece, must be a multiple of; null: those of unit().
  uint64_t (*tile_unit)(const Stage& stage) = nullptr;
  // Of those two: bits that io() reads, or writes, per element, rounded up.
  uint64_t (*bits)(const Stage& stage) = nullptr;
  // Of a stage that decodes: times the usual bytes of a tile; null: once.
  uint32_t (*stretch)(const Stage& stage) = nullptr;
};

// A tensor passes through no more stages than this.
inline constexpr size_t kMaxStages = 16;
// Of them, those that gather: an item has a resident for each, and one for what is ready.
inline constexpr size_t kMaxGatherings = 2;

struct Stage {
  const StageOp* op = nullptr;
  DType from{};
  DType to{};
  std::shared_ptr<const Weight> weight{};  // decode; what is shared by equal ones holds for their parts alone
  std::shared_ptr<const GatherStep> gather{};  // gather
  std::shared_ptr<const Encoded> encoded{};    // encode; likewise
  // merge
  std::shared_ptr<const MergeProgram> merge{};
  bool allow_nonfinite = false;
};

extern const StageOp kCastStage;
// Item::in are the parts of the weight. Value: x[1] 1 where the codes are broken.
extern const StageOp kDecodeStage;
// Item::out are the parts of `encoded` that are outputs; Item::arg[2] is the table of what was measured.
extern const StageOp kEncodeStage;
// `to`: F32, or BF16 or F16 where the decoder rounds.
Stage decode_stage(std::shared_ptr<const Weight> weight, DType to);
// Elements of a weight to codes. `from`: F32, BF16 or F16.
Stage encode_stage(std::shared_ptr<const Encoded> encoded, DType from);

// Puts elements of several tensors together (gather.h). Item::in are the lanes, or (ways of their own) nothing.
extern const StageOp kGatherStage;
Stage gather_stage(std::shared_ptr<const GatherStep> step, DType dtype);

// Adds an adapter's change. Item::arg[0] is the first of its matrices, arg[1] their number. Value: n[3] finite values
// that are not finite afterwards (unless allowed: those are in run()'s count), x[0] 1 where a DoRA norm was clamped.
extern const StageOp kMergeStage;

// The stages of an item, as its context. Shared by all tensors with equal ones.
struct Chain {
  std::vector<Stage> stages;
  DType in{};   // of the stored data
  DType out{};  // of the result
  // Stands for stored data: then the item has no in[0].
  std::shared_ptr<const TensorData> provided{};

  // Indices of the stages that gather something.
  std::vector<size_t> gatherings() const;
  // The resident of an item of `matrices` parts: the stages' own data, one behind the other.
  uint64_t ready_bytes(uint64_t matrices) const;
  void prepare(uint64_t first_matrix, uint64_t matrices, std::byte* ready) const noexcept;
  std::string word() const;  // ids joined by " + "
  bool decodes() const { return !stages.empty() && stages.front().op->decodes; }
  bool encodes() const { return !stages.empty() && stages.back().op->encodes; }
  // The columns of a tile that is a strip of them (Encoded::strip); 0: tiles are runs of elements.
  uint64_t strip() const { return encodes() ? stages.back().encoded->strip : 0; }
  // Elements per tile for `tile_bytes` of the larger side.
  uint64_t units_per_tile(uint64_t tile_bytes) const;
};

// Item: in[0] data, out[0] result, context a Chain, units elements. Value: n[0] values that became infinite, x[1] 1 where
// stored codes are broken.
extern const TileOp kConvertOp;
// The same without output (Item::out_count 0): runs the chain and looks at the result. Value: n[0] as above,
// n[1] NaN, n[2] infinite values in the result.
extern const TileOp kExamineOp;
// Resident::gather: context a Chain that ends with the stage that gathers.
extern const TileOp kGatherOp;
// The first phase of a chain whose encoder measures: no output. Value: n and x are the encoder's Measure.
extern const TileOp kMeasureOp;
// Writes bytes of a table: Item::arg[2] is the table, arg[3] the offset in it, one unit.
extern const TileOp kTableOp;
// Item: in[0] a scale tensor in_dtype. Value: n[0] zeros, n[1] NaN or infinite.
extern const TileOp kCheckScaleOp;

}  // namespace tftf::transform
