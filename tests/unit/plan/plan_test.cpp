#include "tftf/plan/plan.h"

#include <catch2/catch.hpp>

#include "memory_host.h"
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

std::string xored(std::string text, unsigned with) {
  for (char& c : text) c = static_cast<char>(static_cast<unsigned char>(c) ^ with);
  return text;
}

}  // namespace

TEST_CASE("tiles of any size and any order of steps give the same bytes") {
  const std::string in = pattern(300'001, 1);
  std::string expected = "HEADER__" + xored(in, 0x5A) + in.substr(0, 1000);
  for (uint64_t tile : {1u << 10, 1u << 16, 1u << 20, 1u << 22}) {
    for (uint32_t seed : {0, 1, 2}) {
      PlanBuilder builder("toy", {.tile_bytes = tile});
      builder.add_input({"in.safetensors", in.size(), "00"});
      builder.add_output({.name = "out.safetensors", .size = expected.size()}, "HEADER__");
      const Extent from{.file = 0, .offset = 0, .row_bytes = in.size()};
      const Extent to{.file = 0, .offset = 8, .row_bytes = in.size()};
      Item item = toy_item(kXor, builder.add_tensor(entry("a", to, {from})), from, to, tile_units(tile, 8));
      item.arg[0] = 0x5A;
      builder.add_item(item);
      builder.add_copy(entry("b", {.offset = 8 + in.size(), .row_bytes = 1000}, {{.row_bytes = 1000}}));
      auto plan = builder.build();
      REQUIRE(plan.ok());
      CHECK(plan->step_count() == (in.size() + tile - 1) / tile);
      auto run = run_in_memory(*plan, {in}, {.seed = seed});
      REQUIRE(run.ok());
      CHECK(run->faults.empty());
      CHECK(run->outputs[0] == expected);
    }
  }
}
