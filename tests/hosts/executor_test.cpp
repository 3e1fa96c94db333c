#include "tftf_native/executor.h"

#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "toy_ops.h"

using namespace tftf;
using namespace tftf::test;
namespace fs = std::filesystem;

namespace {

struct Scratch {
  fs::path path;
  Scratch() {
    std::string name = (fs::temp_directory_path() / "tftf-test-XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~Scratch() { fs::remove_all(path); }
  std::string operator/(const std::string& name) const { return (path / name).string(); }
};

std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void spill(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace

TEST_CASE("a plan of copies and steps comes out the same for every number of threads") {
  Scratch scratch;
  const std::string in = pattern(5'000'001, 3);
  spill(scratch / "in", in);
  for (uint32_t threads : {1, 2, 8}) {
    PlanBuilder builder("toy", {});
    builder.add_input({"in", in.size(), "00"});
    builder.add_output({.name = "a", .size = 8 + 2 * in.size()}, "HEADER__");
    const Extent from{.row_bytes = in.size()};
    PlanEntry entry;
    entry.name = "t";
    entry.to = {.offset = 8, .row_bytes = in.size()};
    entry.from = {from};
    Item item = toy_item(kXor, builder.add_tensor(entry), from, entry.to, 4096);
    item.arg[0] = 0x11;
    builder.add_item(item);
    entry.to.offset += in.size();
    builder.add_copy(entry);
    auto plan = builder.build();
    REQUIRE(plan.ok());
    auto report = execute(*plan, {{scratch / "in", {}}},
                          {.path = scratch / ("out" + std::to_string(threads))}, {.threads = threads});
    if (!report.ok()) FAIL(report.error().message);
    std::string expected = in;
    for (char& c : expected) c = static_cast<char>(c ^ 0x11);
    CHECK(slurp(scratch / ("out" + std::to_string(threads) + "/a")) == "HEADER__" + expected + in);
    CHECK(report->bytes_written == 8 + 2 * in.size());
  }
}
