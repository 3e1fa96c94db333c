#include "toy_model.h"

#include "toy_ops.h"

namespace tftf::test {
namespace {

constexpr uint64_t kHeader = 16;
constexpr uint64_t kRow = 24;  // of the strided tensor: this many bytes of kStride
constexpr uint64_t kStride = 40;

std::string header(char of) { return std::string(kHeader, of); }

PlanEntry entry(std::string name, Extent to, std::vector<Extent> from) {
  PlanEntry e;
  e.name = std::move(name);
  e.dtype = DType::U8;
  e.shape = {to.row_bytes};
  e.to = to;
  e.from = std::move(from);
  return e;
}

char byte(uint64_t value) { return static_cast<char>(static_cast<unsigned char>(value)); }

}  // namespace

std::string ToyModel::output_name(size_t i) {
  return "toy-0000" + std::to_string(i + 1) + "-of-00003.safetensors";
}

ToyModel::ToyModel(size_t size) {
  inputs = {pattern(size + 7, 11), pattern(size / kStride * kStride + 64, 12)};
  const std::string& a = inputs[0];
  const std::string& b = inputs[1];
  const std::string large = a.substr(0, size);
  for (const char c : large) sum += static_cast<unsigned char>(c);

  std::string first = header('A');  // xor by the table, then the whole second input copied
  for (const char c : large) first += byte(static_cast<unsigned char>(c) ^ sum);
  first += b;
  std::string second = header('B');  // two outputs of one step: every byte three times, and its complement
  std::string complement;
  for (const char c : large) {
    second.append(3, c);
    complement += byte(~static_cast<unsigned>(static_cast<unsigned char>(c)));
  }
  second += complement;
  std::string third =
      header('C');  // a strided rectangle plus the resident's first byte plus one, then a literal
  const unsigned add = static_cast<unsigned char>(a[size]) + 1u;
  for (size_t row = 0; row < size / kStride; ++row)
    for (size_t i = 0; i < kRow; ++i) third += byte(static_cast<unsigned char>(b[row * kStride + i]) + add);
  third += "literal!";
  outputs = {std::move(first), std::move(second), std::move(third)};
}

Result<Plan> ToyModel::plan(uint64_t tile_bytes, bool sides, const std::string& command) const {
  PlanBuilder builder(command, {.tile_bytes = tile_bytes});
  const uint64_t size = inputs[0].size() - 7;
  builder.add_input({"in0", inputs[0].size(), std::string(64, '0')});
  builder.add_input({"in1", inputs[1].size(), std::string(64, '1')});
  for (size_t i = 0; i < 3; ++i)
    builder.add_output({.name = output_name(i), .size = outputs[i].size()},
                       header(static_cast<char>('A' + i)));

  const Extent large{.file = 0, .offset = 0, .row_bytes = size};
  builder.begin_phase(false, false);
  PlanEntry measured = entry("large", {}, {large});
  measured.kind = PlanEntry::Kind::kMeasure;
  Item item = toy_item(kMeasure, builder.add_tensor(measured), large, {}, tile_units(tile_bytes, 8));
  item.out.clear();
  builder.add_item(item);

  builder.begin_phase(true, false);
  const Extent xored{.file = 0, .offset = kHeader, .row_bytes = size};
  builder.add_item(toy_item(kXorTable, builder.add_tensor(entry("xored", xored, {large})), large, xored,
                            tile_units(tile_bytes, 8)));
  const Extent whole{.file = 1, .offset = 0, .row_bytes = inputs[1].size()};
  const Extent copied{.file = 0, .offset = kHeader + size, .row_bytes = whole.row_bytes};
  builder.add_copy(entry("copied", copied, {whole}));

  const Extent spread{.file = 1, .offset = kHeader, .row_bytes = 3 * size};
  item = toy_item(kSpread, builder.add_tensor(entry("spread", spread, {large})), large, spread,
                  tile_units(tile_bytes, 24));
  item.arg[0] = 3;
  item.out.push_back({.file = 1, .offset = kHeader + 3 * size, .row_bytes = size});
  builder.add_item(item);
  PlanEntry also = entry("complement", item.out[1], {});
  also.kind = PlanEntry::Kind::kAlso;
  builder.add_note(also);

  const auto rows = static_cast<uint32_t>(size / kStride);
  const Extent strided{.file = 1, .rows = rows, .offset = 0, .row_bytes = kRow, .stride = kStride};
  const Extent columns{.file = 2, .offset = kHeader, .row_bytes = kRow * rows};
  Resident resident;
  resident.from = {{.file = 0, .offset = size, .row_bytes = 7}};
  resident.ready_bytes = 7;
  resident.prepare = add_one;
  item = toy_item(kColumns, builder.add_tensor(entry("columns", columns, {strided})), strided, columns,
                  tile_units(tile_bytes, 8 * kRow));
  item.units = rows;
  item.residents = {builder.add_resident(resident)};
  builder.add_item(item);
  PlanEntry literal = entry("literal", {.file = 2, .offset = kHeader + kRow * rows, .row_bytes = 8}, {});
  literal.bytes = "literal!";
  builder.add_literal(literal);
  PlanEntry drop;
  drop.kind = PlanEntry::Kind::kDrop;
  drop.name = "unused";
  drop.word = "companion";
  builder.add_note(drop);

  if (sides) {
    builder.add_side({.name = "config.json", .copied = true});
    builder.add_side({.name = "note.txt", .copied = false, .bytes = "a note\n"});
    builder.add_side(
        {.name = "toy.safetensors.index.json", .copied = false, .bytes = "{}", .is_index = true});
  }
  builder.on_finish([](size_t phase, std::span<const Value> values, Tables& tables) -> Result<void> {
    if (phase == 0) tables.table = {{static_cast<std::byte>(values[0].n[0])}};
    return {};
  });
  return builder.build();
}

}  // namespace tftf::test
