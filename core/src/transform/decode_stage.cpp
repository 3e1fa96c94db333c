// The stage that makes elements of a quantised weight, whatever its layout.
#include "stage.h"

namespace tftf::transform {
namespace {

std::string decode_word(const Stage& stage) { return "dequant " + stage.weight->word; }

void decode_io(const Stage& stage, const Item& item, ElementRange tile, StepIo& step) {
  PartRanges ranges;
  stage.weight->decoder->reads(*stage.weight, tile, ranges);
  for (const PartRange& range : ranges) {
    const Extent& whole = item.in[range.part];
    step.in.push_back({.file = whole.file,
                       .rows = range.rows,
                       .offset = whole.offset + range.offset,
                       .row_bytes = range.row_bytes,
                       .stride = range.stride});
  }
}

DecodeTask task_of(const TileView& view) { return {*view.kernels, view.tile, view.in, view.scratch}; }

uint64_t decode_scratch(const Stage& stage, const Item& item, uint64_t units) {
  const Decoder& decoder = *stage.weight->decoder;
  if (decoder.scratch == nullptr || item.units == 0) return 0;
  return ceil_div(decoder.scratch(*stage.weight, std::min(units, item.units)), kSlotAlign) * kSlotAlign;
}

void decode_begin(const Stage& stage, const TileView& view) noexcept {
  const Decoder& decoder = *stage.weight->decoder;
  if (decoder.begin != nullptr && !decoder.begin(*stage.weight, task_of(view)))
    view.value->x[1] = kBrokenCodes;
}

uint64_t decode_run(const Stage& stage, const TileView& view, ElementRange piece, const std::byte*,
                    std::byte* out) noexcept {
  return stage.weight->decoder->decode(*stage.weight, task_of(view), piece, stage.to, out);
}

uint64_t decode_unit(const Stage& stage) { return stage.weight->unit; }
uint64_t decode_tile_unit(const Stage& stage) {
  return std::max(stage.weight->tile_unit, stage.weight->unit);
}
uint64_t decode_piece(const Stage& stage) { return stage.weight->piece; }
uint64_t decode_bits(const Stage& stage) { return stage.weight->bits; }
uint32_t decode_stretch(const Stage& stage) { return stage.weight->stretch; }

}  // namespace

const StageOp kDecodeStage{.word = decode_word,
                           .run = decode_run,
                           .io = decode_io,
                           .scratch = decode_scratch,
                           .begin = decode_begin,
                           .unit = decode_unit,
                           .piece = decode_piece,
                           .decodes = true,
                           .tile_unit = decode_tile_unit,
                           .bits = decode_bits,
                           .stretch = decode_stretch};

Stage decode_stage(std::shared_ptr<const Weight> weight, DType to) {
  Stage stage{.op = &kDecodeStage, .from = DType::U8, .to = weight->decoder->rounds ? to : DType::F32};
  stage.weight = std::move(weight);
  return stage;
}

}  // namespace tftf::transform
