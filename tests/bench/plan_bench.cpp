// Making a plan of 90,000 tensors in 163 files, as many as a model of 671 billion parameters has: 720,000 steps over
// 690 GB. Time is processor time, the median of five; memory is what it took at most, beyond what stood before. Prints a
// table; --json FILE writes the same.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tftf/plan/plan.h"

using namespace tftf;

namespace {

constexpr uint32_t kTensors = 90'000, kFiles = 163, kTensorsPerFile = 553;
constexpr uint64_t kTensorBytes = 7'600'000;

void copy_io(const Item& item, uint64_t tile, const Tables&, StepIo& io) {
  const uint64_t begin = tile * item.units_per_tile;
  const uint64_t count = std::min(item.units_per_tile, item.units - begin);
  io.in.push_back(slice(item.in[0], begin, count));
  io.out.push_back(slice(item.out[0], begin, count));
}

void copy_run(const Item&, uint64_t, const Tables&, const KernelTable&, const Slot&, Value&) noexcept {}

const TileOp kCopy{.id = "copy", .io = copy_io, .run = copy_run};

Result<Plan> make_plan() {
  PlanBuilder builder("copy", {});
  for (uint32_t f = 0; f < kFiles; ++f)
    builder.add_input({"model-" + std::to_string(f), kTensorsPerFile * kTensorBytes, std::string(64, '0')});
  for (uint32_t f = 0; f < kFiles; ++f) {
    const uint64_t tensors = std::min<uint64_t>(kTensorsPerFile, kTensors - f * kTensorsPerFile);
    builder.add_output({.name = "out-" + std::to_string(f), .size = 8 + tensors * kTensorBytes}, "HEADER__");
  }
  for (uint32_t t = 0; t < kTensors; ++t) {
    const uint64_t at = t % kTensorsPerFile * kTensorBytes;
    const uint32_t file = t / kTensorsPerFile;
    const Extent from{.file = file, .offset = at, .row_bytes = kTensorBytes};
    const Extent to{.file = file, .offset = 8 + at, .row_bytes = kTensorBytes};
    PlanEntry entry;
    entry.name = "model.layers." + std::to_string(t) + ".mlp.experts.3.down_proj.weight";
    entry.dtype = DType::U8;
    entry.shape = {kTensorBytes};
    entry.to = to;
    entry.from = {from};
    Item item;
    item.op = &kCopy;
    item.tensor = builder.add_tensor(std::move(entry));
    item.units = kTensorBytes;
    item.units_per_tile = tile_units(kDefaultTileBytes, 8);
    item.in = {from};
    item.out = {to};
    builder.add_item(std::move(item));
  }
  return builder.build();
}

double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  const char* json = argc == 3 && std::string_view(argv[1]) == "--json" ? argv[2] : nullptr;
  if (argc != 1 && !json) {
    std::fprintf(stderr, "usage: %s [--json FILE]\n", argv[0]);
    return 2;
  }
  const double before = peak_megabytes();
  std::vector<double> times;
  uint64_t steps = 0;
  for (int run = 0; run < 5; ++run) {
    const std::clock_t begin = std::clock();
    const auto plan = make_plan();
    times.push_back(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    if (!plan.ok()) {
      std::fprintf(stderr, "%s\n", plan.error().message.c_str());
      return 1;
    }
    steps = plan->step_count();
  }
  std::sort(times.begin(), times.end());
  const double milliseconds = times[2] * 1e3, megabytes = peak_megabytes() - before;
  const std::string what =
      "plan of " + std::to_string(kTensors) + " tensors, " + std::to_string(steps) + " steps";
  std::printf("%-44s %10s %10s\n%-44s %10.1f %10.1f\n", "", "ms", "MB", what.c_str(), milliseconds,
              megabytes);
  if (json)
    std::ofstream(json)
        << nlohmann::ordered_json::array({{{"what", what}, {"ms", milliseconds}, {"MB", megabytes}}}).dump(2)
        << "\n";
  return 0;
}
