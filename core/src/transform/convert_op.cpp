#include <algorithm>
#include <array>
#include <numeric>

#include "chain_run.h"
#include "gather.h"
#include "stage.h"
#include "tftf/base/checked.h"
#include "tftf/simd/cast.h"
#include "tftf/simd/scan.h"

namespace tftf::transform {
namespace {

// Between two stages a tile passes through buffers of this many elements: they stay in the first-level cache.
// A stage may ask for more.
constexpr uint64_t kPiece = 2048;
// Elements smaller than a byte fill whole bytes in eights.
constexpr uint64_t kSubByteMultiple = 8;

const Chain& chain_of(const Item& item) { return *static_cast<const Chain*>(item.context.get()); }

ElementRange range_of(const Item& item, uint64_t tile) {
  const uint64_t first = tile * item.units_per_tile;
  return {first, std::min(item.units_per_tile, item.units - first)};
}

uint64_t bytes_of(uint64_t elements, DType dtype) { return elements * dtype_bits(dtype) / 8; }

// Of two units; the larger of what could not be a tile anyway.
uint64_t common_multiple(uint64_t a, uint64_t b) {
  if (a == 0 || b == 0) return std::max(a, b);
  return checked_mul(a / std::gcd(a, b), b).value_or(std::max(a, b));
}

// Whether the elements themselves are an input of the item.
bool reads_data(const Chain& chain) { return chain.provided == nullptr && !chain.decodes(); }

// The stored elements of a tile: a run of them, or a strip of columns.
Extent data_extent(const Chain& chain, const Item& item, ElementRange range) {
  const uint64_t strip = chain.strip();
  if (strip == 0) return slice(item.in[0], bytes_of(range.first, chain.in), bytes_of(range.count, chain.in));
  const Encoded& encoded = *chain.stages.back().encoded;
  return {.file = item.in[0].file,
          .rows = static_cast<uint32_t>(encoded.rows),
          .offset = item.in[0].offset + bytes_of(range.first / encoded.rows, chain.in),
          .row_bytes = bytes_of(range.count / encoded.rows, chain.in),
          .stride = bytes_of(encoded.columns, chain.in)};
}

void convert_io(const Item& item, uint64_t tile, const Tables&, StepIo& step) {
  const Chain& chain = chain_of(item);
  const ElementRange range = range_of(item, tile);
  if (reads_data(chain)) step.in.push_back(data_extent(chain, item, range));
  for (const Stage& stage : chain.stages) {
    if (stage.op->io != nullptr) stage.op->io(stage, item, range, step);
  }
  if (!item.out.empty() && !chain.encodes()) {
    step.out.push_back(
        slice(item.out[0], bytes_of(range.first, chain.out), bytes_of(range.count, chain.out)));
  }
}

// Elements and bytes of one of the buffers between stages.
uint64_t piece_units(const Chain& chain, const Item& item) {
  if (chain.strip() != 0) return item.units_per_tile;  // a matrix of its own
  uint64_t units = kPiece;
  for (const Stage& stage : chain.stages) {
    if (stage.op->piece != nullptr) units = std::max(units, stage.op->piece(stage));
  }
  uint64_t unit = 1;
  for (const Stage& stage : chain.stages) {
    if (stage.op->unit != nullptr) unit = common_multiple(unit, stage.op->unit(stage));
  }
  units = std::max(unit, units - units % unit);
  return std::min(units, std::max(item.units_per_tile, kPiece));
}

// One stage that writes to the outputs itself needs no buffer: the tile is one piece.
bool is_direct(const Chain& chain, bool has_output) { return chain.stages.size() <= 1 && has_output; }

uint64_t piece_bytes(const Chain& chain, uint64_t units) {
  uint64_t bits = dtype_bits(chain.out);
  for (const Stage& stage : chain.stages) bits = std::max<uint64_t>(bits, dtype_bits(stage.to));
  return ceil_div(units * bits, 8 * kSlotAlign) * kSlotAlign;
}

uint64_t convert_scratch(const Item& item) {
  uint64_t bytes = 0;
  const Chain& chain = chain_of(item);
  for (const Stage& stage : chain.stages) {
    if (stage.op->scratch != nullptr) bytes += stage.op->scratch(stage, item, item.units_per_tile);
  }
  if (is_direct(chain, !item.out.empty() && item.op == &kConvertOp)) return bytes;
  return bytes + 2 * piece_bytes(chain, piece_units(chain, item));
}

// The views of an item's stages over one tile. `gathering`: what the last one fills.
using Views = std::array<TileView, kMaxStages>;
std::byte* open_views(const Item& item, ElementRange range, const Tables& tables, const KernelTable& kernels,
                      const Slot& slot, std::byte* gathering, Value& value, Views& views) noexcept {
  const Chain& chain = chain_of(item);
  const size_t stages = chain.stages.size();
  std::byte* free = slot.scratch.data();
  size_t resident = to_size(item.arg[4]);
  const std::byte* ready = nullptr;
  if (chain.ready_bytes(1) != 0) ready = slot.residents[resident++].data();
  for (size_t s = 0; s < stages; ++s) {
    const Stage& stage = chain.stages[s];
    views[s] = {.item = &item,
                .kernels = &kernels,
                .tile = range,
                .in = stage.op->decodes ? slot.in : std::span<const std::byte* const>(),
                .out = slot.out,
                .scratch = free,
                .ready = ready,
                .residents = slot.residents,
                .value = &value};
    if (stage.op->encodes && stage.encoded->encoder->measure != nullptr && !slot.out.empty())
      views[s].measured = tables.table[to_size(item.arg[2])].data();
    if (stage.op->ready_bytes != nullptr) ready += stage.op->ready_bytes(stage) * item.arg[1];
    if (stage.op->scratch != nullptr) free += stage.op->scratch(stage, item, item.units_per_tile);
    if (gathering != nullptr && s + 1 == stages) {
      views[s].gathering = gathering;
    } else if (stage.op->gathered_bytes != nullptr && stage.op->gathered_bytes(stage, item.arg[1]) != 0) {
      views[s].gathered = slot.residents[resident++].data();
    }
    if (stage.op->begin != nullptr) stage.op->begin(stage, views[s]);
  }
  return free;
}

// Null for a chain that decodes.
const std::byte* data_of(const Chain& chain, const Slot& slot, ElementRange range) {
  if (chain.provided != nullptr) return chain.provided->bytes.data() + bytes_of(range.first, chain.in);
  return reads_data(chain) ? slot.in[0] : nullptr;
}
const std::byte* advanced(const std::byte* data, uint64_t bytes) {
  return data == nullptr ? nullptr : data + bytes;
}

// Sends a tile through the stages, piece by piece. The last one writes to `out`, or (null) to a buffer, in which `look` is
// shown the result. `direct`: the tile is one piece and there is no buffer. Returns how many finite values became infinite.
template <class Look>
uint64_t run_stages(const Item& item, ElementRange range, const Slot& slot, const Views& views,
                    std::byte* free, bool direct, std::byte* out, Look look) noexcept {
  const Chain& chain = chain_of(item);
  const size_t stages = chain.stages.size();
  const std::byte* const data = data_of(chain, slot, range);
  const uint64_t step = direct ? range.count : piece_units(chain, item);
  std::byte* const buffers[2] = {free, direct ? free : free + piece_bytes(chain, step)};
  uint64_t infinite = 0;
  for (uint64_t done = 0; done < range.count; done += step) {
    const ElementRange piece{range.first + done, std::min(step, range.count - done)};
    const std::byte* from = advanced(data, bytes_of(done, chain.in));
    for (size_t s = 0; s < stages; ++s) {
      const Stage& stage = chain.stages[s];
      const bool last = s + 1 == stages;
      std::byte* to = last && out != nullptr ? out + bytes_of(done, chain.out) : buffers[s % 2];
      infinite += stage.op->run(stage, views[s], piece, from, to);
      from = to;
    }
    look(piece, from);
  }
  return infinite;
}

void convert_run(const Item& item, uint64_t tile, const Tables& tables, const KernelTable& kernels,
                 const Slot& slot, Value& value) noexcept {
  const Chain& chain = chain_of(item);
  const ElementRange range = range_of(item, tile);
  Views views;
  std::byte* const free = open_views(item, range, tables, kernels, slot, nullptr, value, views);
  const bool writes = !slot.out.empty();
  Scan seen;
  value.n[0] += run_stages(item, range, slot, views, free, is_direct(chain, writes),
                           writes && !chain.encodes() ? slot.out[0] : nullptr,
                           [&](ElementRange piece, const std::byte* elements) {
                             if (!writes) kernels.scan(chain.out, elements, piece.first, piece.count, seen);
                           });
  value.n[1] += seen.nan;
  value.n[2] += seen.inf;
}

void gather_run(const Item& item, uint64_t tile, const Tables& tables, const KernelTable& kernels,
                const Slot& slot, Value& value) noexcept {
  const ElementRange range = range_of(item, tile);
  Views views;
  std::byte* const free = open_views(item, range, tables, kernels, slot, slot.out[0], value, views);
  run_stages(item, range, slot, views, free, false, nullptr, [](ElementRange, const std::byte*) {});
  const size_t last = chain_of(item).stages.size() - 1;
  const Stage& stage = chain_of(item).stages[last];
  if (tile + 1 == item.tiles) stage.op->gathered(stage, views[last]);
}

void measure_run(const Item& item, uint64_t tile, const Tables& tables, const KernelTable& kernels,
                 const Slot& slot, Value& value) noexcept {
  const ElementRange range = range_of(item, tile);
  Views views;
  std::byte* const free = open_views(item, range, tables, kernels, slot, nullptr, value, views);
  Measure measure;
  views[chain_of(item).stages.size() - 1].measure = &measure;
  run_stages(item, range, slot, views, free, false, nullptr, [](ElementRange, const std::byte*) {});
  value.n = {measure.n[0], measure.n[1], measure.n[2], measure.lost};
  value.x[0] = measure.largest;
}

std::string cast_word(const Stage& stage) { return "cast " + std::string(dtype_info(stage.to).torch); }

uint64_t cast_run(const Stage& stage, const TileView& view, ElementRange piece, const std::byte* in,
                  std::byte* out) noexcept {
  return cast(*view.kernels, stage.from, stage.to, in, out, piece.count);
}

void check_io(const Item& item, uint64_t tile, const Tables&, StepIo& step) {
  const ElementRange range = range_of(item, tile);
  step.in.push_back(
      slice(item.in[0], bytes_of(range.first, item.in_dtype), bytes_of(range.count, item.in_dtype)));
}

uint64_t check_scratch(const Item& item) {
  return item.in_dtype == DType::F64 ? item.units_per_tile * sizeof(float) : 0;
}

void check_run(const Item& item, uint64_t tile, const Tables&, const KernelTable& kernels, const Slot& slot,
               Value& value) noexcept {
  const ElementRange range = range_of(item, tile);
  Scan seen;
  if (item.in_dtype == DType::F64) {  // what counts is the F32 that divides
    cast(kernels, DType::F64, DType::F32, slot.in[0], slot.scratch.data(), range.count);
    kernels.scan(DType::F32, slot.scratch.data(), range.first, range.count, seen);
  } else {
    kernels.scan(item.in_dtype, slot.in[0], range.first, range.count, seen);
  }
  value.n[0] += seen.zero;
  value.n[1] += seen.nan + seen.inf;
}

}  // namespace

void chain_io(const Item& item, ElementRange range, StepIo& io) {
  const Chain& chain = chain_of(item);
  if (reads_data(chain)) io.in.push_back(data_extent(chain, item, range));
  for (const Stage& stage : chain.stages)
    if (stage.op->io != nullptr) stage.op->io(stage, item, range, io);
}

uint64_t chain_inputs(const Item& item, ElementRange range) noexcept {
  const Chain& chain = chain_of(item);
  if (reads_data(chain)) return 1;
  if (!chain.decodes()) return 0;
  const Stage& first = chain.stages.front();
  return first.gather != nullptr ? first.gather->inputs(range) : first.weight->reads;
}

uint64_t chain_unit(const Chain& chain) {
  uint64_t unit = 1;
  for (const Stage& stage : chain.stages) {
    if (stage.op->unit != nullptr) unit = common_multiple(unit, stage.op->unit(stage));
    if (stage.op->tile_unit != nullptr && stage.op != &kGatherStage)
      unit = common_multiple(unit, stage.op->tile_unit(stage));
  }
  return unit;
}

uint64_t chain_scratch(const Item& item) { return convert_scratch(item); }

void run_chain(const Item& item, ElementRange range, const KernelTable& kernels, const Slot& slot,
               const ChainSink& sink, Value& value) noexcept {
  Views views;
  std::byte* const free = open_views(item, range, {}, kernels, slot, nullptr, value, views);
  value.n[0] +=
      run_stages(item, range, slot, views, free, false, nullptr,
                 [&](ElementRange piece, const std::byte* elements) { sink.take(sink.to, piece, elements); });
}

std::string Chain::word() const {
  std::string text = provided == nullptr ? "" : "saved";
  for (const Stage& stage : stages) text += (text.empty() ? "" : " + ") + stage.op->word(stage);
  return text;
}

uint64_t Chain::units_per_tile(uint64_t tile_bytes) const {
  if (strip() != 0) return strip() * stages.back().encoded->rows;
  const uint64_t read = decodes() ? stages.front().op->bits(stages.front()) : dtype_bits(in);
  uint64_t multiple = dtype_bits(in) < 8 && !decodes() ? kSubByteMultiple : 1, rows = 1;
  for (const Stage& stage : stages) {
    if (stage.op->unit != nullptr) multiple = common_multiple(multiple, stage.op->unit(stage));
    if (stage.op->tile_unit != nullptr) multiple = common_multiple(multiple, stage.op->tile_unit(stage));
    if (stage.merge != nullptr) rows = std::max<uint64_t>(stage.merge->cols, 1);
  }
  const uint64_t written = encodes() ? stages.back().op->bits(stages.back()) : dtype_bits(out);
  const uint64_t bits = std::max<uint64_t>(read, written);
  // Whole rows where a tile holds any: products go faster over several rows.
  if (decodes() && stages.front().op->stretch != nullptr)
    tile_bytes *= stages.front().op->stretch(stages.front());
  const uint64_t units = tile_units(tile_bytes, bits, multiple);
  return multiple == 1 && units > rows ? units - units % rows : units;
}

std::vector<size_t> Chain::gatherings() const {
  std::vector<size_t> found;
  for (size_t s = 0; s < stages.size(); ++s)
    if (stages[s].op->gathered_bytes != nullptr && stages[s].op->gathered_bytes(stages[s], 1) != 0)
      found.push_back(s);
  return found;
}

uint64_t Chain::ready_bytes(uint64_t matrices) const {
  uint64_t bytes = 0;
  for (const Stage& stage : stages) {
    if (stage.op->ready_bytes != nullptr) bytes += stage.op->ready_bytes(stage) * matrices;
  }
  return bytes;
}

void Chain::prepare(uint64_t first_matrix, uint64_t matrices, std::byte* ready) const noexcept {
  for (const Stage& stage : stages) {
    if (stage.op->ready_bytes == nullptr) continue;
    for (uint64_t m = 0; m < matrices; ++m) {
      stage.op->prepare(stage, first_matrix + m, ready);
      ready += stage.op->ready_bytes(stage);
    }
  }
}

const StageOp kCastStage{.word = cast_word, .run = cast_run};
const TileOp kConvertOp{.id = "convert", .io = convert_io, .run = convert_run, .scratch = convert_scratch};
const TileOp kExamineOp{.id = "examine", .io = convert_io, .run = convert_run, .scratch = convert_scratch};
const TileOp kMeasureOp{.id = "measure", .io = convert_io, .run = measure_run, .scratch = convert_scratch};
const TileOp kGatherOp{.id = "gather", .io = convert_io, .run = gather_run, .scratch = convert_scratch};
const TileOp kCheckScaleOp{.id = "scale-check", .io = check_io, .run = check_run, .scratch = check_scratch};

}  // namespace tftf::transform
