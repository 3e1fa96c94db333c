// GB/s of every kernel in every table, beside memcpy of the same output. One tile (1 MiB of the larger side)
// is used over and over, so the figures are those of cached data, as in the executor. Prints a table; --json
// FILE writes the same.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tftf/base/bytes.h"
#include "tftf/quant/colibri/e8.h"
#include "tftf/quant/colibri/integer_codes.h"
#include "tftf/simd/cast.h"
#include "tftf/simd/floats.h"
#include "tftf/simd/product.h"

using namespace tftf;

namespace {

constexpr size_t kTile = size_t{1} << 20;

struct Row {
  std::string kernel, table;
  double gigabytes;  // per second, of the larger side
};

// Processor time, so that other work on the machine disturbs less; the median of seven.
double seconds_of(const std::function<void()>& work) {
  std::vector<double> times;
  work();
  for (int run = 0; run < 7; ++run) {
    uint64_t repeats = 0;
    const std::clock_t begin = std::clock();
    double passed = 0;
    do {
      work();
      ++repeats;
      passed = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    } while (passed < 0.03);
    times.push_back(passed / static_cast<double>(repeats));
  }
  std::nth_element(times.begin(), times.begin() + 3, times.end());
  return times[3];
}

struct Data {
  std::vector<std::byte> in = std::vector<std::byte>(2 * kTile), out = std::vector<std::byte>(2 * kTile);
  std::vector<float> delta = std::vector<float>(kTile / 2), scales = std::vector<float>(kTile);

  // Weights as they are: around 0.02, no specials.
  explicit Data(DType dtype) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 0.02f);
    for (float& x : delta) x = normal(random);
    for (float& x : scales) x = 0.001f + 0.002f * static_cast<float>(random() % 1000) / 1000.0f;
    const size_t size = dtype_bits(dtype) / 8;
    for (size_t i = 0; i + size <= in.size(); i += size) {
      const float x = normal(random);
      switch (dtype) {
        case DType::BF16:
          store_le(in.data() + i, bf16_from_f32(x));
          break;
        case DType::F16:
          store_le(in.data() + i, f16_from_f32(x));
          break;
        case DType::F32:
          store_le(in.data() + i, x);
          break;
        case DType::F64:
          store_le(in.data() + i, static_cast<double>(x));
          break;
        default:
          if (is_fp8(dtype)) {
            store_le(in.data() + i, f8_from_f32(dtype, x * 5000, Overflow::kSaturate));
          } else {
            in[i] = static_cast<std::byte>(random());
          }
      }
    }
  }
};

class Bench {
 public:
  // Only kernels whose name contains `part` are run.
  explicit Bench(std::string part) : part_(std::move(part)) {}
  void add(const std::string& kernel, const std::string& table, size_t bytes,
           const std::function<void()>& work) {
    if (kernel.find(part_) == std::string::npos) return;
    const double rate = static_cast<double>(bytes) / seconds_of(work) / 1e9;
    rows_.push_back({kernel, table, rate});
    std::printf("%-44s %-8s %8.2f\n", kernel.c_str(), table.c_str(), rate);
    std::fflush(stdout);
  }
  bool write_json(const char* path) const {
    std::ofstream file(path);
    file << "{\"unit\": \"GB/s of the larger side\", \"kernels\": [";
    for (size_t i = 0; i < rows_.size(); ++i)
      file << (i == 0 ? "\n" : ",\n") << "  {\"kernel\": \"" << rows_[i].kernel << "\", \"table\": \""
           << rows_[i].table << "\", \"gb_per_s\": " << rows_[i].gigabytes << "}";
    file << "\n]}\n";
    return file.good();
  }

 private:
  std::string part_;
  std::vector<Row> rows_;
};

void bench_dequantize(Bench& bench, const KernelTable& table) {
  for (DType from : {DType::F8_E4M3, DType::F8_E5M2, DType::F8_E4M3FNUZ, DType::F8_E5M2FNUZ}) {
    Data data(from);
    for (DType to : {DType::BF16, DType::F16, DType::F32}) {
      struct Grid {
        const char* name;
        uint64_t block_rows, block_cols, row_stride, col_stride;
      };
      const Grid grids[] = {{"128x128", 128, 128, 32, 1},
                            {"row", 1, 4096, 1, 0},
                            {"column", 1u << 20, 1, 0, 1},
                            {"1x32", 1, 32, 128, 1}};
      for (const Grid& grid : grids) {
        if (grid.block_rows != 128 && (from != DType::F8_E4M3 || to != DType::BF16)) continue;
        for (bool divide : {false, true}) {
          if (divide && (from != DType::F8_E4M3 || to != DType::BF16 || grid.block_rows != 128)) continue;
          const size_t size = dtype_bits(to) / 8;
          ScaledRun run;
          run.from = from;
          run.to = to;
          run.divide = divide;
          run.cols = 4096;
          run.count = kTile / size;
          run.block_rows = grid.block_rows;
          run.block_cols = grid.block_cols;
          run.row_stride = grid.row_stride;
          run.col_stride = grid.col_stride;
          run.scales = data.scales.data();
          bench.add(std::string(divide ? "divide " : "dequantize ") + std::string(dtype_name(from)) + " to " +
                        std::string(dtype_name(to)) + " " + grid.name,
                    table.name, kTile, [&] { table.dequantize_f8(run, data.in.data(), data.out.data()); });
        }
      }
    }
  }
}

void bench_casts(Bench& bench, const KernelTable& table) {
  const DType pairs[][2] = {
      {DType::BF16, DType::F32}, {DType::F32, DType::BF16}, {DType::F16, DType::F32},
      {DType::F32, DType::F16},  {DType::F16, DType::BF16}, {DType::BF16, DType::F16},
      {DType::F64, DType::F32},  {DType::F64, DType::BF16}, {DType::F32, DType::F64},
      {DType::I64, DType::F32},  {DType::I8, DType::BF16},  {DType::F8_E4M3, DType::BF16}};
  for (const auto& [from, to] : pairs) {
    Data data(from);
    const size_t count = kTile * 8 / std::max(dtype_bits(from), dtype_bits(to));
    bench.add("cast " + std::string(dtype_name(from)) + " to " + std::string(dtype_name(to)), table.name,
              kTile,
              [&, from = from, to = to] { cast(table, from, to, data.in.data(), data.out.data(), count); });
  }
}

void bench_data_pass(Bench& bench, const KernelTable& table) {
  for (DType dtype : {DType::BF16, DType::F16, DType::F32, DType::F64, DType::F8_E4M3, DType::F8_E5M2,
                      DType::U8, DType::I32, DType::I64, DType::C64, DType::F4}) {
    Data data(dtype == DType::C64 || dtype == DType::F4 ? DType::F32 : dtype);
    const uint64_t count = kTile * 8 / dtype_bits(dtype);
    bench.add("scan " + std::string(dtype_name(dtype)), table.name, kTile, [&] {
      Scan scan;
      table.scan(dtype, data.in.data(), 0, count, scan);
    });
  }
  for (DType dtype : {DType::BF16, DType::F16, DType::F32, DType::F8_E4M3, DType::I32}) {
    Data data(dtype);
    const uint64_t count = kTile * 8 / dtype_bits(dtype);
    bench.add("moments " + std::string(dtype_name(dtype)), table.name, kTile, [&] {
      Moments moments;
      table.moments(dtype, data.in.data(), 0, count, moments);
    });
  }
  Data data(DType::F32);
  bench.add("sum of squares F32", table.name, kTile, [&] {
    volatile double sink = table.sum_squares_f32(data.delta.data(), kTile / 4);
    (void)sink;
  });
}

// W is 128 rows of 4096: 1 MiB of BF16.
void bench_merge(Bench& bench, const KernelTable& table) {
  Data data(DType::BF16);
  constexpr uint64_t kRows = 128, kCols = 4096;
  bench.add("merge BF16, delta at hand", table.name, kTile, [&] {
    table.merge_f32(DType::BF16, DType::BF16, data.in.data(), 0.5f, data.delta.data(), data.out.data(),
                    kRows * kCols);
  });
  for (uint64_t rank : {8u, 16u, 64u, 128u}) {
    std::vector<float> panels(panel_elements(rank, kCols), 0.01f);
    PanelProduct<float> task;
    task.panels = panels.data();
    task.b = data.delta.data();
    task.b_stride = task.rank = rank;
    task.rows = kRows;
    task.col_end = kCols;
    bench.add("product and merge BF16, rank " + std::to_string(rank), table.name, kTile, [&] {
      merge_product(table, task, DType::BF16, DType::BF16, 0.5f, data.in.data(), data.out.data(), kCols);
    });
  }
  std::vector<double> panels(panel_elements(16, 1024), 0.01), b(128 * 16, 0.5);
  PanelProduct<double> task;
  task.panels = panels.data();
  task.b = b.data();
  task.b_stride = task.rank = 16;
  task.rows = kRows;
  task.col_end = 1024;
  bench.add("product and merge F64, rank 16", table.name, kTile,
            [&] { merge_product(table, task, 0.5, data.in.data(), data.out.data(), 1024); });
}

// Codes of four bits to values of 16; bytes of the values.
void bench_lookup(Bench& bench, const KernelTable& table) {
  Data data(DType::U8);
  std::vector<uint16_t> tables(kTile / 2, 0x3F80);
  for (const uint64_t codes : {16, 32, 64, 128}) {
    const NibbleLookup task{.tables = tables.data(),
                            .codes = data.in.data(),
                            .groups = kTile / 2 / codes,
                            .group_bytes = codes / 2,
                            .stride = codes / 2,
                            .out = data.out.data()};
    bench.add("look up nibbles, groups of " + std::to_string(codes), table.name, kTile,
              [&] { table.look_up_nibbles(task); });
  }
  const Transposition turn{.in = data.in.data(),
                           .in_stride = 64,
                           .rows = kTile / 64,
                           .columns = 32,
                           .out = data.out.data(),
                           .out_stride = kTile / 32};
  bench.add("turn over 32 columns of 16 bits", table.name, kTile, [&] { table.transpose_16(turn); });
}

// Rows of weights to codes; bytes of the F32 side.
void bench_quantize(Bench& bench, const KernelTable& table) {
  Data data(DType::F32);
  constexpr uint64_t kCount = kTile / 4;
  bench.add("largest magnitude F32", table.name, kTile, [&] {
    volatile uint32_t sink = table.largest_magnitude(data.delta.data(), kCount);
    (void)sink;
  });
  std::vector<std::byte> codes(colibri::row_bytes({colibri::Format::kInt8Row, 8, 0}, kCount));
  std::vector<float> scales(kCount / 64);
  for (const auto& [name, spec] :
       {std::pair{"int8-row", colibri::IntegerSpec{colibri::Format::kInt8Row, 8, 0}},
        {"int4-grouped 64", {colibri::Format::kInt4Grouped, 4, 64}},
        {"int3-g64", {colibri::Format::kInt3G64, 3, 64}}}) {
    bench.add(std::string("quantize ") + name, table.name, kTile, [&, spec = spec] {
      colibri::encode_row(table, spec, {data.delta.data(), kCount},
                          {codes.data(), colibri::row_bytes(spec, kCount)},
                          {scales.data(), colibri::row_scales(spec, kCount)});
    });
  }
  bench.add("quantize E4M3", table.name, kTile,
            [&] { table.quantize_e4m3(data.delta.data(), kCount, 0.0005f, data.out.data()); });
  // A few blocks: a thousand times slower than the rest.
  constexpr uint64_t kBlocks = 8;
  bench.add("quantize e8-iq3-lattice", table.name, kBlocks * colibri::kE8Block * 4, [&] {
    for (uint64_t b = 0; b < kBlocks; ++b) {
      colibri::encode_e8_block(table,
                               std::span<const float, colibri::kE8Block>(
                                   data.delta.data() + b * colibri::kE8Block, colibri::kE8Block),
                               std::span<std::byte, colibri::kE8BlockBytes>(
                                   codes.data() + b * colibri::kE8BlockBytes, colibri::kE8BlockBytes));
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  const char* json = nullptr;
  std::string only, part;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--json" && i + 1 < argc) {
      json = argv[++i];
    } else if (argument == "--simd" && i + 1 < argc) {
      only = argv[++i];
    } else if (argument == "--only" && i + 1 < argc) {
      part = argv[++i];
    } else {
      std::fprintf(stderr, "usage: %s [--json FILE] [--simd TABLE] [--only PART]\n", argv[0]);
      return 2;
    }
  }
  if (!only.empty() && find_kernels(only) == nullptr) {
    std::fprintf(stderr, "no kernel table '%s' here\n", only.c_str());
    return 2;
  }
  Bench bench(part);
  std::printf("%-44s %-8s %8s\n", "kernel", "table", "GB/s");
  Data data(DType::F32);
  bench.add("memcpy", "libc", kTile, [&] { std::memcpy(data.out.data(), data.in.data(), kTile); });
  for (const KernelTable* table : available_kernels()) {
    if (!only.empty() && only != table->name) continue;
    bench_dequantize(bench, *table);
    bench_casts(bench, *table);
    bench_data_pass(bench, *table);
    bench_merge(bench, *table);
    bench_quantize(bench, *table);
    bench_lookup(bench, *table);
  }
  return json != nullptr && !bench.write_json(json) ? 1 : 0;
}
