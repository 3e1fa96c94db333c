// Plans of random items, copies and literals, and journals of random text. What build() lets through writes every
// byte once and reads only what is there; what it does not is an error, never a crash.
#include <cstdio>
#include <cstdlib>

#include "../unit/plan/memory_host.h"
#include "tftf/plan/journal.h"
#include "tftf/plan/plan.h"

using namespace tftf;

namespace {

class Data {
 public:
  Data(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  uint64_t number(uint64_t limit) {
    uint64_t value = byte();
    if (limit > 256) value = value << 8 | byte();
    return limit == 0 ? 0 : value % limit;
  }
  // Mostly a plausible size, now and then an absurd one.
  uint64_t size() {
    const uint64_t kind = byte();
    return kind == 255 ? UINT64_MAX - byte() : kind == 254 ? uint64_t{1} << (byte() % 64) : number(1 << 10);
  }
  bool flag() { return (byte() & 1) != 0; }
  bool empty() const { return at_ >= size_; }
  std::string_view rest() const { return {reinterpret_cast<const char*>(data_) + at_, size_ - at_}; }

 private:
  uint8_t byte() { return at_ < size_ ? data_[at_++] : 0; }
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

// Tiles as the item's arguments say, right or wrong: arg 0 and 1 = input bytes of a unit and their distance, 2 = output
// bytes of a unit, 3 = an error added to the last tile's output.
void io(const Item& item, uint64_t tile, const Tables&, StepIo& to) {
  const uint64_t begin = tile * item.units_per_tile;
  const uint64_t count = std::min(item.units_per_tile, item.units - begin);
  for (size_t k = 0; k < item.in.size(); ++k) {
    Extent in = item.in[k];
    if (item.arg[1] != 0) {
      in.rows = static_cast<uint32_t>(count);
      in.row_bytes = item.arg[0];
      in.stride = item.arg[1];
      in.offset += begin * item.arg[1];
    } else {
      in = slice(in, begin * item.arg[0], count * item.arg[0]);
    }
    to.in.push_back(in);
  }
  for (size_t k = 0; k < item.out.size(); ++k) {
    Extent out = slice(item.out[k], begin * item.arg[2], count * item.arg[2]);
    if (tile + 1 == item.tiles) out.row_bytes += item.arg[3];
    to.out.push_back(out);
  }
}

void run(const Item& item, uint64_t tile, const Tables&, const KernelTable&, const Slot& slot,
         Value& value) noexcept {
  const uint64_t begin = tile * item.units_per_tile;
  const uint64_t count = std::min(item.units_per_tile, item.units - begin);
  for (size_t k = 0; k < item.in.size(); ++k)
    for (uint64_t i = 0; i < count * item.arg[0]; ++i) value.n[0] += std::to_integer<uint64_t>(slot.in[k][i]);
  for (size_t k = 0; k < item.out.size(); ++k)
    std::fill_n(slot.out[k], count * item.arg[2] + (tile + 1 == item.tiles ? item.arg[3] : 0), std::byte{1});
}

const TileOp kOp{.id = "fuzz", .io = io, .run = run};

Extent extent(Data& data) {
  return {.file = static_cast<uint32_t>(data.number(3)), .offset = data.size(), .row_bytes = data.size()};
}

// Outputs are mostly filled in turn, so that some plans are sound.
struct Fill {
  std::vector<uint64_t> ends;
  Extent next(Data& data, uint64_t bytes) {
    if (data.number(16) == 15) return extent(data);
    const auto file = static_cast<uint32_t>(data.number(ends.size() + 1));
    if (file == ends.size()) return {.file = file, .row_bytes = bytes};
    const Extent to{.file = file, .offset = ends[file], .row_bytes = bytes};
    ends[file] += bytes;
    return to;
  }
};

void add(Data& data, PlanBuilder& builder, Fill& fill, uint32_t residents) {
  PlanEntry entry;
  entry.name = "t";
  entry.dtype = DType::U8;
  const uint64_t kind = data.number(8);
  if (kind == 0) {
    entry.bytes = std::string(data.number(64), 'x');
    entry.to = fill.next(data, entry.bytes.size());
    builder.add_literal(entry);
    return;
  }
  if (kind == 1) {
    const Extent from = extent(data);
    entry.from = {from};
    entry.to = fill.next(data, from.row_bytes);
    builder.add_copy(entry);
    return;
  }
  if (kind == 2) builder.begin_phase(data.flag(), data.flag());
  Item item;
  item.op = &kOp;
  item.units = data.number(1 << 12);
  item.units_per_tile = data.number(1 << 9);
  item.arg[0] = data.number(9);
  item.arg[1] = data.number(4) == 0 ? data.number(20) : 0;
  item.arg[2] = data.number(5);
  item.arg[3] = data.number(32) == 31 ? data.number(3) : 0;
  item.in.resize(data.number(5));
  item.out.resize(data.number(4));
  for (Extent& in : item.in) in = extent(data);
  item.residents.resize(data.number(3));
  for (uint32_t& r : item.residents)
    r = static_cast<uint32_t>(data.number(residents + (data.number(16) == 15 ? 1 : 0)));
  if (residents == 0 && data.number(16) != 15) item.residents.clear();
  item.tensor = builder.add_tensor(entry);
  for (Extent& out : item.out) out = fill.next(data, item.units * item.arg[2]);
  builder.add_item(item);
}

void fuzz_plan(Data& data) {
  PlanBuilder builder("fuzz", {});
  std::vector<std::string> inputs;
  for (uint64_t i = 0, count = data.number(3); i < count; ++i) {
    inputs.emplace_back(static_cast<size_t>(data.number(1 << 14)), 'i');
    builder.add_input({"in", inputs.back().size(), ""});
  }
  Fill fill;
  fill.ends.resize(static_cast<size_t>(data.number(3)));
  uint32_t residents = 0;
  for (uint64_t count = data.number(3); residents < count; ++residents) {
    Resident resident;
    resident.from = {extent(data)};
    builder.add_resident(resident);
  }
  while (!data.empty()) add(data, builder, fill, residents);
  for (const uint64_t end : fill.ends) builder.add_output({.name = "out", .size = end}, "");

  auto plan = builder.build();
  if (!plan.ok()) {
    require(!plan.error().message.empty(), "an error without words");
    return;
  }
  require(plan->to_text(true).find("plan 1 fuzz") == 0, "the text form");
  (void)plan->hash();
  (void)plan->memory_bytes(3);
  if (plan->written_bytes() > 1 << 22) return;
  auto run = test::run_in_memory(*plan, inputs, {.seed = 1});
  require(run.ok(), "a sound plan does not run");
  for (const std::string& fault : run->faults) require(false, fault.c_str());
}

void fuzz_journal(std::string_view text) {
  auto journal = parse_journal(text, "j");
  if (!journal.ok() || !*journal) return;
  const uint64_t length = (*journal)->length;
  require(length <= text.size() && text[static_cast<size_t>(length) - 1] == '\n', "the length of a journal");
  auto again = parse_journal(text.substr(0, static_cast<size_t>(length)), "j");
  require(again.ok() && *again && (*again)->length == length, "a journal cut at its length");
  require((*again)->head.plan == (*journal)->head.plan && (*again)->done.size() == (*journal)->done.size(),
          "a journal says the same again");
  PlanBuilder builder("fuzz", {});
  builder.add_output({.name = "out", .size = 4}, "HEAD");
  auto plan = builder.build();
  (void)check_journal(**journal, journal_head(*plan, {}), "j");
  if (check_journal_state(**journal, *plan, "j").ok() && !(*journal)->done.empty())
    require((*journal)->done[0].spans().empty() || (*journal)->done[0].spans().back().end <= 4,
            "a range outside");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size == 0) return 0;
  Data data(bytes + 1, size - 1);
  if (bytes[0] % 4 == 0) {
    fuzz_journal(data.rest());
  } else {
    fuzz_plan(data);
  }
  return 0;
}
