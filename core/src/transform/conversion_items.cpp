// Makes the items of conversions.
#include "conversion_items.h"

#include <algorithm>

#include "chain_run.h"

namespace tftf::transform {
namespace {

// What the stages of an item need ready: factors of adapters.
struct ReadyContext {
  std::shared_ptr<const Chain> chain;
  uint64_t first_matrix = 0, matrices = 1;
};

void prepare_chain(Bytes, std::span<std::byte> ready, const void* context) noexcept {
  const auto& c = *static_cast<const ReadyContext*>(context);
  c.chain->prepare(c.first_matrix, c.matrices, ready.data());
}

}  // namespace

std::vector<Extent> Conversion::reads() const {
  std::vector<Extent> all = from;
  for (const Conversion& way : ways) {
    const std::vector<Extent> more = way.reads();
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

std::string Conversion::word() const {
  std::string text = provided == nullptr ? "" : "saved";
  if (gather != nullptr) {
    text = gather->form.word();
    std::string before;  // of ways that differ each
    for (const Conversion& way : ways) {
      std::string word = way.word();
      if (word == before) continue;
      if (!word.empty()) text += " of (" + word + ")";
      before = std::move(word);
    }
    if (!ways.empty() && gather->lanes.front().base != 0)
      text += " from " + std::to_string(gather->lanes.front().base);
  }
  for (const Stage& stage : stages) text += (text.empty() ? "" : " + ") + stage.op->word(stage);
  return text;
}

// Equal parts of the tensor with something of their own: an adapter's factors for each expert.
uint64_t Conversion::matrices() const {
  uint64_t count = 1;
  for (const Stage& stage : stages)
    if (stage.merge != nullptr) count = std::max(count, stage.merge->matrices);
  return count;
}

size_t ConversionItems::add(Conversion conversion, PlanEntry entry, const TileOp* op,
                            std::vector<Extent> outputs, std::vector<PlanEntry> also) {
  const bool by_ways = !conversion.ways.empty();
  const std::shared_ptr<const Chain> shared = by_ways ? nullptr : shared_chain(conversion);
  // An expert's factors of its own are a reason for items of their own; codes are read across matrices.
  const uint64_t matrices = conversion.matrices();
  uint64_t parts = 1;
  if (by_ways) {
    const uint64_t made = conversion.gather->form.matrices;
    if (matrices == 1 || (made != 0 && matrices % made == 0)) parts = made;
  } else if (!shared->decodes() && shared->strip() == 0) {
    parts = matrices;
  }
  entry.word = conversion.word();
  if (entry.word.empty()) entry.word = op->id;
  const std::vector<Extent> reads = conversion.reads();
  if (!reads.empty()) {
    entry.from = {reads.front()};
    entry.with.assign(reads.begin() + 1, reads.end());
  }
  const uint32_t index = builder_.add_tensor(std::move(entry));
  for (PlanEntry& note : also) builder_.add_note(std::move(note));
  if (conversion.elements == 0) return 0;
  for (uint64_t part = 0; part < parts; ++part) {
    Item item{.op = op, .tensor = index};
    const std::shared_ptr<const Chain> chain =
        by_ways ? chain_of_ways(conversion, part * (conversion.gather->form.matrices / parts),
                                conversion.gather->form.matrices / parts, item.residents)
                : shared;
    item.in_dtype = chain->in;
    item.out_dtype = chain->out;
    item.context = chain;
    item.arg[4] = item.residents.size();
    const auto cut = [part, parts](const Extent& extent) {
      return slice(extent, extent.row_bytes / parts * part, extent.row_bytes / parts);
    };
    item.units = conversion.elements / parts;
    item.units_per_tile = std::min(chain->units_per_tile(tile_bytes_), std::max<uint64_t>(item.units, 1));
    for (const Extent& from : conversion.from) item.in.push_back(cut(from));
    for (const Extent& output : outputs) item.out.push_back(cut(output));
    item.arg[1] = std::max<uint64_t>(1, matrices / parts);
    item.arg[0] = part * item.arg[1];
    item.arg[2] = conversion.table;
    add_resident(item, chain);
    add_gatherings(item, *chain);
    builder_.add_item(std::move(item));
  }
  return to_size(parts);
}

// The chain of matrices [first, first + matrices) of what is gathered from ways of its own: nobody else's.
std::shared_ptr<const Chain> ConversionItems::chain_of_ways(const Conversion& conversion, uint64_t first,
                                                            uint64_t matrices,
                                                            std::vector<uint32_t>& residents) {
  auto step = std::make_shared<GatherStep>();
  step->form = conversion.gather->form;
  step->form.matrices = matrices;
  auto chain = std::make_shared<Chain>();
  chain->stages = {gather_stage(step, conversion.in)};
  chain->stages.insert(chain->stages.end(), conversion.stages.begin(), conversion.stages.end());
  chain->in = conversion.in;
  chain->out = conversion.out;
  const auto tile_units =
      std::min(chain->units_per_tile(tile_bytes_), std::max<uint64_t>(1, step->form.elements()));
  const uint64_t lanes = step->form.per_matrix;
  for (uint64_t lane = first * lanes; lane < (first + matrices) * lanes; ++lane) {
    const GatherLane& at = conversion.gather->lanes[to_size(lane)];
    step->ways.push_back(way_of(conversion.ways[at.source], at.base, step->form, tile_units, residents));
  }
  return chain;
}

GatherStep::Way ConversionItems::way_of(const Conversion& way, uint64_t base, const GatherForm& form,
                                        uint64_t tile_units, std::vector<uint32_t>& residents) {
  auto item = std::make_shared<Item>();
  item->op = &kExamineOp;
  const std::shared_ptr<const Chain> chain =
      way.ways.empty() ? shared_chain(way) : chain_of_ways(way, 0, way.gather->form.matrices, residents);
  item->in_dtype = chain->in;
  item->out_dtype = chain->out;
  item->context = chain;
  // A lane inside of one expert's matrix needs no factors of the others.
  uint64_t parts = chain->decodes() ? 1 : way.matrices(), part = 0;
  const uint64_t matrices = way.matrices(), size = way.elements / parts;
  if (parts > 1 && base / size == (base + form.span() - 1) / size) {
    part = base / size;
    base -= part * size;
  } else {
    parts = 1;
  }
  item->units = way.elements / parts;
  for (const Extent& from : way.from)
    item->in.push_back(slice(from, from.row_bytes / parts * part, from.row_bytes / parts));
  item->arg[1] = std::max<uint64_t>(1, matrices / parts);
  item->arg[0] = part * item->arg[1];
  item->arg[4] = residents.size();
  const uint64_t unit = chain_unit(*chain);
  // The longest range that a tile asks for.
  const uint64_t rows = std::min(form.rows, tile_units / std::max<uint64_t>(1, form.out_cols()) + 2);
  const uint64_t run = form.turned() ? (rows - 1) * form.row_stride + 1 : form.cols;
  const uint64_t stride = form.turned() ? form.col_stride : form.row_stride;
  const bool joined = stride < run + unit;
  const uint64_t whole = form.turned() ? form.span() : (rows - 1) * form.row_stride + form.cols;
  item->units_per_tile = std::min(item->units, (joined ? whole : run) + 2 * unit);
  item->residents = residents;
  add_resident(*item, chain);
  add_gatherings(*item, *chain);
  residents = item->residents;
  GatherStep::Way made{.item = item, .base = base, .unit = unit};
  made.scratch = chain_scratch(*item);
  return made;
}

void ConversionItems::add_resident(Item& item, const std::shared_ptr<const Chain>& chain) {
  const uint64_t bytes = chain->ready_bytes(item.arg[1]);
  if (bytes == 0) return;
  Resident resident;
  resident.ready_bytes = bytes;
  resident.context = std::make_shared<const ReadyContext>(ReadyContext{chain, item.arg[0], item.arg[1]});
  resident.prepare = prepare_chain;
  item.residents.push_back(builder_.add_resident(std::move(resident)));
}

// What stages have to know of the whole item first: norms of columns.
void ConversionItems::add_gatherings(Item& item, const Chain& chain) {
  for (const size_t stage : chain.gatherings()) {
    auto first = std::make_shared<Chain>();
    first->stages.assign(chain.stages.begin(), chain.stages.begin() + static_cast<ptrdiff_t>(stage) + 1);
    first->in = chain.in;
    first->out = chain.stages[stage].to;
    first->provided = chain.provided;
    auto gather = std::make_shared<Item>(item);
    gather->op = &kGatherOp;
    gather->out.clear();
    gather->out_dtype = first->out;
    gather->units_per_tile = std::min(first->units_per_tile(tile_bytes_), std::max<uint64_t>(item.units, 1));
    gather->context = std::move(first);
    Resident resident;
    resident.ready_bytes = chain.stages[stage].op->gathered_bytes(chain.stages[stage], item.arg[1]);
    resident.gather = std::move(gather);
    item.residents.push_back(builder_.add_resident(std::move(resident)));
  }
}

std::shared_ptr<const Chain> ConversionItems::shared_chain(const Conversion& conversion) {
  std::string key(dtype_name(conversion.in));
  if (conversion.gather != nullptr)
    key +=
        ' ' + conversion.gather->form.word() + " e" + std::to_string(conversion.gather->form.element_bytes);
  key += ' ' + std::string(dtype_name(conversion.out));
  if (conversion.provided != nullptr) key += " saved " + conversion.name;
  for (const Stage& stage : conversion.stages) {
    key += ' ' + stage.op->word(stage) + ' ' + std::string(dtype_name(stage.from)) + ' ' +
           std::string(dtype_name(stage.to));
    if (stage.weight != nullptr) key += ' ' + stage.weight->key;
    if (stage.encoded != nullptr) key += ' ' + stage.encoded->key;
    // A merge is one tensor's own.
    if (stage.merge != nullptr) key += ' ' + conversion.name;
  }
  std::shared_ptr<const Chain>& chain = chains_[key];
  if (chain == nullptr) {
    auto made =
        std::make_shared<Chain>(Chain{conversion.stages, conversion.in, conversion.out, conversion.provided});
    if (conversion.gather != nullptr) {
      auto step = std::make_shared<const GatherStep>(GatherStep{conversion.gather->form});
      made->stages.insert(made->stages.begin(), gather_stage(std::move(step), conversion.in));
    }
    chain = std::move(made);
  }
  return chain;
}

}  // namespace tftf::transform
