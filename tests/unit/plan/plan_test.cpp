#include "tftf/plan/plan.h"

#include <catch2/catch.hpp>

#include "memory_host.h"
#include "toy_model.h"
#include "toy_ops.h"

using namespace tftf;
using namespace tftf::test;

namespace {

PlanEntry entry(std::string name, Extent to, std::vector<Extent> from = {}) {
  PlanEntry e;
  e.name = std::move(name);
  e.dtype = DType::U8;
  e.shape = {to.row_bytes};
  e.to = to;
  e.from = std::move(from);
  return e;
}

// A plan of one tensor of `size` bytes in tiles of `tile`, xor 1.
Result<Plan> one_tensor(uint64_t size, uint64_t tile) {
  PlanBuilder builder("toy", {.tile_bytes = tile});
  builder.add_input({"in", size, ""});
  builder.add_output({.name = "out", .size = size}, "");
  const Extent extent{.row_bytes = size};
  Item item = toy_item(kXor, builder.add_tensor(entry("a", extent)), extent, extent, tile);
  item.arg[0] = 1;
  builder.add_item(item);
  return builder.build();
}

// What build() says about a plan of one output of 100 bytes.
template <class Add>
std::string fault_of(Add add) {
  PlanBuilder builder("toy", {});
  builder.add_input({"in", 100, ""});
  builder.add_output({.name = "out", .size = 100}, "");
  add(builder);
  auto plan = builder.build();
  if (plan.ok()) return "";
  CHECK(plan.error().code == ErrorCode::kInternal);
  return plan.error().message;
}

Extent out(uint64_t begin, uint64_t end) { return {.offset = begin, .row_bytes = end - begin}; }

}  // namespace

TEST_CASE("tiles of any size and steps in any order give the same bytes") {
  const ToyModel model(50'021);
  for (const uint64_t tile : {1u << 10, 1u << 16, 1u << 20, 1u << 22})
    for (const uint32_t seed : {0, 1, 2}) {
      INFO("tile " << tile << ", seed " << seed);
      auto plan = model.plan(tile);
      REQUIRE(plan.ok());
      auto run = run_in_memory(*plan, model.inputs, {.seed = seed});
      REQUIRE(run.ok());
      CHECK(run->faults == std::vector<std::string>{});
      CHECK((run->outputs == model.outputs));
      CHECK(run->steps == plan->step_count());
      CHECK(plan->phases()[0].read_bytes == 50'021);
    }
}

TEST_CASE("a tensor of no bytes, of one, of a tile less and more than one") {
  for (const uint64_t size : {0, 1, 1023, 1024, 1025, 4096}) {
    auto plan = one_tensor(size, 1024);
    REQUIRE(plan.ok());
    CHECK(plan->step_count() == (size + 1023) / 1024);
    auto run = run_in_memory(*plan, {pattern(size, 1)});
    REQUIRE(run.ok());
    CHECK(run->faults.empty());
    CHECK(run->outputs[0].size() == size);
  }
}

TEST_CASE("a step finds its item between items without steps") {
  PlanBuilder builder("toy", {});
  builder.add_input({"in", 10, ""});
  builder.add_output({.name = "out", .size = 10}, "");
  uint64_t at = 0;
  for (const uint64_t size : {0, 3, 0, 0, 5, 2, 0}) {
    const Extent extent = out(at, at + size);
    builder.add_item(
        toy_item(kXor, builder.add_tensor(entry("t" + std::to_string(at), extent)), extent, extent, 2));
    at += size;
  }
  auto plan = builder.build();
  REQUIRE(plan.ok());
  REQUIRE(plan->step_count() == 6);
  const uint32_t owners[] = {1, 1, 4, 4, 4, 5};
  for (uint64_t step = 0; step < 6; ++step) CHECK(plan->item_of(step) == owners[step]);
}

TEST_CASE("tile_units keeps multiples and never gives nothing") {
  CHECK(tile_units(1 << 20, 16) == 1 << 19);
  CHECK(tile_units(1 << 20, 4, 2) == 1 << 21);
  CHECK(tile_units(1000, 8, 128) == 896);
  CHECK(tile_units(10, 8 * 4096) == 1);
  CHECK(tile_units(10, 8, 128) == 128);
  CHECK(tile_units(1024, 0, 3) == 3);
}

TEST_CASE("every byte of an output must be written exactly once") {
  const auto literal = [](uint64_t begin, uint64_t end) {
    PlanEntry e = entry("l", out(begin, end));
    e.bytes = std::string(end - begin, 'x');
    return e;
  };
  CHECK(fault_of([&](PlanBuilder& b) { b.add_literal(literal(0, 100)); }) == "");
  CHECK(fault_of([&](PlanBuilder& b) {
          b.add_literal(literal(50, 100));
          b.add_copy(entry("c", out(0, 50), {out(0, 20), out(70, 100)}));
        }) == "");
  CHECK(fault_of([&](PlanBuilder&) {}).find("0 are written") != std::string::npos);
  CHECK(fault_of([&](PlanBuilder& b) { b.add_literal(literal(0, 99)); }).find("99 are written") !=
        std::string::npos);
  CHECK(fault_of([&](PlanBuilder& b) {
          b.add_literal(literal(0, 60));
          b.add_literal(literal(50, 100));
        }).find("byte 50") != std::string::npos);
  CHECK(fault_of([&](PlanBuilder& b) {
          b.add_literal(literal(0, 40));
          b.add_literal(literal(50, 100));
        }).find("byte 40 of output \"out\" is written never") != std::string::npos);
  CHECK(fault_of([&](PlanBuilder& b) { b.add_literal(literal(0, 101)); }) != "");
  CHECK(fault_of([&](PlanBuilder& b) {
          PlanEntry e = literal(0, 100);
          e.to.file = 1;
          b.add_literal(e);
        }) != "");
  // An empty range must be somewhere, too.
  const auto with_empty = [&](uint32_t file, uint64_t at) {
    return fault_of([&](PlanBuilder& b) {
      b.add_literal(literal(0, 100));
      const Extent empty{.file = file, .offset = at};
      b.add_item(toy_item(kXor, b.add_tensor(entry("e", empty)), {}, empty, 10));
    });
  };
  CHECK(with_empty(0, 50) == "");
  CHECK(with_empty(0, 100) == "");
  CHECK(with_empty(0, 101) != "");
  CHECK(with_empty(1, 0) != "");
}

TEST_CASE("mistakes of whoever builds a plan come out of build()") {
  const auto item = [](PlanBuilder& b, auto change) {
    Item i = toy_item(kXor, b.add_tensor(entry("t", out(0, 100))), out(0, 100), out(0, 100), 10);
    change(i);
    b.add_item(i);
  };
  CHECK(fault_of([&](PlanBuilder& b) { item(b, [](Item&) {}); }) == "");
  CHECK(fault_of([&](PlanBuilder& b) { item(b, [](Item& i) { i.op = nullptr; }); }) != "");
  CHECK(fault_of([&](PlanBuilder& b) { item(b, [](Item& i) { i.tensor = 7; }); }) != "");
  CHECK(fault_of([&](PlanBuilder& b) { item(b, [](Item& i) { i.units_per_tile = 0; }); }) != "");
  CHECK(fault_of([&](PlanBuilder& b) { item(b, [](Item& i) { i.residents = {3}; }); }) != "");
  // Tiles beyond the input, and tiles that do not fill the output.
  CHECK(fault_of([&](PlanBuilder& b) { item(b, [](Item& i) { i.in[0].offset = 1; }); }) != "");
  CHECK(fault_of([&](PlanBuilder& b) { item(b, [](Item& i) { i.in[0].file = 1; }); }) != "");
  CHECK(fault_of([&](PlanBuilder& b) { item(b, [](Item& i) { i.in[0].offset = UINT64_MAX - 5; }); }) != "");
  CHECK(fault_of([&](PlanBuilder& b) { item(b, [](Item& i) { i.units = 90; }); }) != "");
  CHECK(fault_of([&](PlanBuilder& b) { b.add_copy(entry("c", out(0, 100), {out(1, 101)})); }) != "");
  CHECK(fault_of([&](PlanBuilder& b) { b.add_copy(entry("c", out(0, 100), {out(0, 99)})); }) != "");
  CHECK(fault_of([&](PlanBuilder& b) {
          b.add_copy(entry("c", out(0, 100), {out(0, 100)}));
          Resident r;
          r.from = {{.rows = 3, .offset = 0, .row_bytes = 10, .stride = 50}};
          b.add_resident(r);
        }) != "");
  CHECK(fault_of([&](PlanBuilder& b) {
          b.begin_phase(false, false);
          item(b, [](Item&) {});
        }).find("measuring") != std::string::npos);
  // Items of two tensors in turn.
  CHECK(fault_of([&](PlanBuilder& b) {
          const uint32_t first = b.add_tensor(entry("a", out(0, 50)));
          const uint32_t second = b.add_tensor(entry("b", out(50, 100)));
          b.add_item(toy_item(kXor, first, out(0, 10), out(0, 10), 10));
          b.add_item(toy_item(kXor, second, out(50, 100), out(50, 100), 10));
          b.add_item(toy_item(kXor, first, out(10, 50), out(10, 50), 10));
        }) != "");
}

TEST_CASE("copies that touch on both sides are one") {
  const auto copies = [](std::vector<std::pair<uint64_t, uint64_t>> from) {
    PlanBuilder builder("toy", {});
    builder.add_input({"in", 1000, ""});
    builder.add_output({.name = "out", .size = 10 * from.size()}, "");
    for (size_t i = 0; i < from.size(); ++i)
      builder.add_copy(entry("c", out(10 * from[i].first, 10 * from[i].first + 10),
                             {out(from[i].second, from[i].second + 10)}));
    auto plan = builder.build();
    REQUIRE(plan.ok());
    auto run = run_in_memory(*plan, {pattern(1000, 4)});
    REQUIRE(run.ok());
    CHECK(run->faults.empty());
    return plan->copies().size();
  };
  CHECK(copies({{0, 0}, {1, 10}, {2, 20}}) == 1);
  CHECK(copies({{2, 20}, {0, 0}, {1, 10}}) == 1);
  CHECK(copies({{0, 0}, {1, 20}, {2, 10}}) == 3);
  CHECK(copies({{0, 0}, {1, 10}, {2, 30}}) == 2);
}

TEST_CASE("residents are alive from their first to their last step") {
  // Ten tensors of 100 bytes, two residents each, in steps of 10.
  PlanBuilder builder("toy", {});
  builder.add_input({"in", 1000, ""});
  builder.add_output({.name = "out", .size = 1000}, "");
  for (uint32_t t = 0; t < 10; ++t) {
    const Extent extent = out(100 * t, 100 * t + 100);
    Item item = toy_item(kXor, builder.add_tensor(entry("t", extent)), extent, extent, 10);
    for (uint32_t r = 0; r < 2; ++r) {
      Resident resident;
      resident.from = {out(t, t + 16)};
      if (r == 1) {
        resident.prepare = add_one;
        resident.ready_bytes = 48;
      }
      item.residents.push_back(builder.add_resident(resident));
    }
    builder.add_item(item);
  }
  auto plan = builder.build();
  REQUIRE(plan.ok());
  CHECK(plan->residents()[3].users == 10);
  auto run = run_in_memory(*plan, {pattern(1000, 4)});
  REQUIRE(run.ok());
  CHECK(run->faults.empty());
  CHECK(run->most_residents == 64);
  // Two slots of 64 + 64 bytes, a raw buffer of 16 each, and the residents of three tensors.
  CHECK(plan->memory_bytes(2) == 2 * (128 + 16) + 3 * 64);
  CHECK(plan->memory_bytes(100) == 100 * (128 + 16) + 10 * 64);
  CHECK(plan->read_bytes() == 1000 + 20 * 16);
}

TEST_CASE("a resident of many tensors counts once") {
  PlanBuilder builder("toy", {});
  builder.add_input({"in", 1000, ""});
  builder.add_output({.name = "out", .size = 1000}, "");
  Resident resident;
  resident.from = {out(0, 500)};
  const uint32_t shared = builder.add_resident(resident);
  for (uint32_t t = 0; t < 10; ++t) {
    const Extent extent = out(100 * t, 100 * t + 100);
    Item item = toy_item(kXor, builder.add_tensor(entry("t", extent)), extent, extent, 100);
    item.residents = {shared};
    builder.add_item(item);
  }
  auto plan = builder.build();
  REQUIRE(plan.ok());
  CHECK(plan->memory_bytes(4) == 4 * 256 + 500);
}

TEST_CASE("values are merged per item, or kept per step, whatever the order") {
  const std::string in = pattern(1000, 9);
  for (const bool keeps : {false, true})
    for (const uint32_t seed : {0, 3}) {
      PlanBuilder builder("toy", {});
      builder.add_input({"in", 1000, ""});
      builder.begin_phase(false, keeps);
      for (const auto& [begin, end] : {std::pair(0, 600), std::pair(600, 1000)}) {
        PlanEntry e = entry("m", {}, {out(begin, end)});
        e.kind = PlanEntry::Kind::kMeasure;
        Item item = toy_item(kMeasure, builder.add_tensor(e), out(begin, end), {}, 128);
        item.out.clear();
        builder.add_item(item);
      }
      std::vector<uint64_t> sums;
      builder.on_finish([&](size_t, std::span<const Value> values, Tables&) -> Result<void> {
        for (const Value& value : values) sums.push_back(value.n[0]);
        return {};
      });
      auto plan = builder.build();
      REQUIRE(plan.ok());
      REQUIRE(run_in_memory(*plan, {in}, {.seed = seed}).ok());
      const auto sum = [&](size_t begin, size_t end) {
        uint64_t total = 0;
        for (size_t i = begin; i < end; ++i) total += static_cast<unsigned char>(in[i]);
        return total;
      };
      if (keeps) {
        REQUIRE(sums.size() == 9);
        CHECK(sums[4] == sum(512, 600));
        CHECK(sums[5] == sum(600, 728));
      } else {
        REQUIRE(sums.size() == 2);
        CHECK(sums[0] == sum(0, 600));
        CHECK(sums[1] == sum(600, 1000));
      }
    }
}

TEST_CASE("finish() may lay out what only the data told, and append the phase that writes it") {
  const std::string in = pattern(1000, 9);
  PlanBuilder builder("toy", {});
  builder.add_input({"in", 1000, ""});
  const uint32_t output = builder.add_output({.name = "out", .known = false}, "");
  builder.begin_phase(false, false);
  PlanEntry e = entry("m", {}, {out(0, 1000)});
  e.kind = PlanEntry::Kind::kMeasure;
  Item item = toy_item(kMeasure, builder.add_tensor(e), out(0, 1000), {}, 128);
  item.out.clear();
  builder.add_item(item);
  PlanEntry later = entry("t", {});
  later.to_known = false;
  const uint32_t tensor = builder.add_tensor(later);
  PlanEntry copy = entry("c", {}, {out(0, 10)});
  copy.to_known = false;
  const uint32_t copied = builder.add_copy(copy);
  size_t calls = 0;
  builder.on_finish(
      [&](size_t phase, std::span<const Value> values, Tables& tables, PlanBuilder& more) -> Result<void> {
        ++calls;
        if (phase != 0) return {};
        const uint64_t size = values[0].n[0] % 500 + 1;
        tables.table = {{std::byte{0x21}}};
        more.set_output(output, 8 + size + 10, "HEADER__");
        more.place(tensor, out(8, 8 + size));
        more.place(copied, out(8 + size, 18 + size));
        more.begin_phase(true, false);
        more.add_item(toy_item(kXorTable, tensor, out(0, size), out(8, 8 + size), 100));
        return {};
      });
  auto plan = builder.build();
  REQUIRE(plan.ok());
  CHECK(plan->to_text().find("output 0 \"out\" ? header ?\n") != std::string::npos);
  CHECK(plan->to_text().find("tensor \"t\" U8 [0] out ?") != std::string::npos);
  const std::string hash = plan->hash();
  auto run = run_in_memory(*plan, {in});
  REQUIRE(run.ok());
  CHECK(run->faults.empty());
  CHECK(calls == 2);
  CHECK(plan->hash() == hash);
  uint64_t sum = 0;
  for (const char c : in) sum += static_cast<unsigned char>(c);
  std::string expected = "HEADER__" + in.substr(0, sum % 500 + 1) + in.substr(0, 10);
  for (size_t i = 8; i < expected.size() - 10; ++i) expected[i] = static_cast<char>(expected[i] ^ 0x21);
  CHECK((run->outputs[0] == expected));
}

TEST_CASE("an appended phase that leaves a gap is refused before it runs") {
  PlanBuilder builder("toy", {});
  builder.add_input({"in", 1000, ""});
  const uint32_t output = builder.add_output({.name = "out", .known = false}, "");
  builder.begin_phase(false, false);
  builder.on_finish([&](size_t, std::span<const Value>, Tables&, PlanBuilder& more) -> Result<void> {
    more.set_output(output, 100, "HEADER__");
    return {};
  });
  auto plan = builder.build();
  REQUIRE(plan.ok());
  auto run = run_in_memory(*plan, {pattern(1000, 9)});
  REQUIRE_FALSE(run.ok());
  CHECK(run.error().code == ErrorCode::kInternal);
}

TEST_CASE("phases are finished in turn and with all their values") {
  const ToyModel model(1000);
  auto plan = model.plan(100);
  REQUIRE(plan.ok());
  std::vector<Value> one(1);
  std::vector<Value> none;
  CHECK_FALSE(plan->finish(1, one).ok());
  CHECK_FALSE(plan->finish(0, none).ok());
  CHECK(plan->finish(0, one).ok());
  CHECK_FALSE(plan->finish(0, one).ok());
}

TEST_CASE("a plan of 90,000 tensors asks each of its 720,000 steps once, and for the memory of one") {
  // Shapes as in a model of 671 billion parameters: FP8 weights with their scales, and norms. 690 GB.
  constexpr uint32_t kTensors = 90'000;
  constexpr uint64_t kBytes = 7'600'000;
  static uint64_t asked;
  asked = 0;
  static const TileOp counted{.id = "xor",
                              .io =
                                  [](const Item& item, uint64_t tile, const Tables& tables, StepIo& io) {
                                    ++asked;
                                    kXor.io(item, tile, tables, io);
                                  },
                              .run = kXor.run};
  PlanBuilder builder("toy", {});
  for (uint32_t f = 0; f < 163; ++f)
    builder.add_input({"model-" + std::to_string(f), 600 * kBytes, std::string(64, '0')});
  for (uint32_t f = 0; f < 163; ++f) {
    const uint64_t tensors = f < 162 ? 553 : kTensors - 162 * 553;
    builder.add_output({.name = "out-" + std::to_string(f), .size = 8 + tensors * kBytes}, "HEADER__");
  }
  for (uint32_t t = 0; t < kTensors; ++t) {
    const uint32_t file = t / 553;
    const Extent from{.file = file, .offset = t % 553 * kBytes, .row_bytes = kBytes};
    const Extent to{.file = file, .offset = 8 + t % 553 * kBytes, .row_bytes = kBytes};
    PlanEntry e = entry("model.layers." + std::to_string(t) + ".mlp.experts.3.down_proj.weight", to, {from});
    e.with = {from};
    builder.add_item(
        toy_item(counted, builder.add_tensor(std::move(e)), from, to, tile_units(kDefaultTileBytes, 8)));
  }
  auto plan = builder.build();
  REQUIRE(plan.ok());
  CHECK(plan->step_count() == kTensors * 8);
  CHECK(asked == plan->step_count());
  REQUIRE(plan->phases().size() == 1);
  CHECK(plan->phases()[0].in_bytes <= kDefaultTileBytes);
  CHECK(plan->phases()[0].out_bytes <= kDefaultTileBytes);
  CHECK(plan->phases()[0].read_bytes == kTensors * kBytes);
  StepIo io;
  uint64_t sum = 0;
  for (uint64_t step = 0; step < plan->step_count(); ++step) {
    plan->io(step, io);
    sum += io.out[0].row_bytes;
  }
  CHECK(sum == kTensors * kBytes);
}
