// Makes the items of conversions.
#include "conversion_items.h"

#include <algorithm>

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

size_t ConversionItems::add(Conversion conversion, PlanEntry entry, const TileOp* op,
                            std::vector<Extent> outputs, std::vector<PlanEntry> also) {
  const std::shared_ptr<const Chain> chain = shared_chain(conversion);
  // An expert's factors of its own are a reason for items of their own; codes are read across matrices.
  uint64_t matrices = 1;
  for (const Stage& stage : conversion.stages)
    if (stage.merge != nullptr) matrices = std::max(matrices, stage.merge->matrices);
  const uint64_t parts = chain->decodes() || chain->strip() != 0 ? 1 : matrices;
  entry.word = chain->word();
  if (entry.word.empty()) entry.word = op->id;
  if (!conversion.from.empty()) {
    entry.from = {conversion.from.front()};
    entry.with.assign(conversion.from.begin() + 1, conversion.from.end());
  }
  const uint32_t index = builder_.add_tensor(std::move(entry));
  for (PlanEntry& note : also) builder_.add_note(std::move(note));
  if (conversion.elements == 0) return 0;
  for (uint64_t part = 0; part < parts; ++part) {
    Item item{.op = op, .in_dtype = chain->in, .out_dtype = chain->out, .tensor = index, .context = chain};
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

void ConversionItems::add_resident(Item& item, const std::shared_ptr<const Chain>& chain) {
  const uint64_t bytes = chain->ready_bytes(item.arg[1]);
  if (bytes == 0) return;
  Resident resident;
  resident.ready_bytes = bytes;
  resident.context = std::make_shared<const ReadyContext>(ReadyContext{chain, item.arg[0], item.arg[1]});
  resident.prepare = prepare_chain;
  item.residents = {builder_.add_resident(std::move(resident))};
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
  if (chain == nullptr)
    chain = std::make_shared<const Chain>(
        Chain{conversion.stages, conversion.in, conversion.out, conversion.provided});
  return chain;
}

}  // namespace tftf::transform
