// The stage that makes codes and scales of elements, whatever the layout; and the phase before it, for layouts that have to
// measure a whole tensor first.
#include <cstring>

#include "stage.h"

namespace tftf::transform {
namespace {

std::string encode_word(const Stage& stage) { return "quantize " + stage.encoded->word; }

void encode_io(const Stage& stage, const Item& item, ElementRange tile, StepIo& step) {
  if (item.out.empty()) return;  // while measuring
  PartRanges ranges;
  stage.encoded->encoder->writes(*stage.encoded, tile, ranges);
  for (const PartRange& range : ranges)
    step.out.push_back(slice(item.out[range.part], range.offset, range.row_bytes));
}

EncodeTask task_of_tile(const Stage& stage, const TileView& view) {
  return {*view.kernels, view.tile, stage.from, view.out, view.scratch, view.measured};
}

uint64_t encode_scratch(const Stage& stage, const Item& item, uint64_t units) {
  const Encoder& encoder = *stage.encoded->encoder;
  if (encoder.scratch == nullptr || item.units == 0) return 0;
  return ceil_div(encoder.scratch(*stage.encoded, std::min(units, item.units)), kSlotAlign) * kSlotAlign;
}

uint64_t encode_run(const Stage& stage, const TileView& view, ElementRange piece, const std::byte* in,
                    std::byte*) noexcept {
  const Encoder& encoder = *stage.encoded->encoder;
  if (view.measure != nullptr) {
    encoder.measure(*stage.encoded, task_of_tile(stage, view), piece, in, *view.measure);
  } else {
    view.value->n[3] += encoder.encode(*stage.encoded, task_of_tile(stage, view), piece, in);
  }
  return 0;
}

uint64_t encode_unit(const Stage& stage) { return stage.encoded->unit; }
uint64_t encode_tile_unit(const Stage& stage) {
  return std::max(stage.encoded->tile_unit, stage.encoded->unit);
}
uint64_t encode_piece(const Stage& stage) { return stage.encoded->piece; }
uint64_t encode_bits(const Stage& stage) { return stage.encoded->bits; }

void table_io(const Item& item, uint64_t, const Tables&, StepIo& step) { step.out.push_back(item.out[0]); }

void table_run(const Item& item, uint64_t, const Tables& tables, const KernelTable&, const Slot& slot,
               Value&) noexcept {
  const std::vector<std::byte>& table = tables.table[to_size(item.arg[2])];
  std::memcpy(slot.out[0], table.data() + to_size(item.arg[3]), to_size(item.out[0].row_bytes));
}

}  // namespace

const StageOp kEncodeStage{.word = encode_word,
                           .run = encode_run,
                           .io = encode_io,
                           .scratch = encode_scratch,
                           .unit = encode_unit,
                           .piece = encode_piece,
                           .encodes = true,
                           .tile_unit = encode_tile_unit,
                           .bits = encode_bits};
const TileOp kTableOp{.id = "measured", .io = table_io, .run = table_run};

Stage encode_stage(std::shared_ptr<const Encoded> encoded, DType from) {
  Stage stage{.op = &kEncodeStage, .from = from, .to = DType::U8};
  stage.encoded = std::move(encoded);
  return stage;
}

}  // namespace tftf::transform
