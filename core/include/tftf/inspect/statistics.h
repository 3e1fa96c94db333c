// Statistics of tensors' values: extremes, mean, deviation, counts, histogram (spec cli 2; docs/numerics.md,
// "Reductions").
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/inspect/tensor_values.h"
#include "tftf/inspect/value_pass.h"
#include "tftf/simd/scan.h"

namespace tftf {

struct StatisticsRequest {
  // Globs over whole names: kept are those that an include matches (all without any) and no exclude.
  std::vector<std::string> include{};
  std::vector<std::string> exclude{};
  // When not empty: only these, by exact name; one that is not there is kRefusedMissing.
  std::vector<std::string> names{};
  // Quantised weights as their layout means them, in its own result dtype, and their scales left out. Layouts
  // that cannot be read are looked at as stored, with a note.
  bool logical = false;
  uint32_t bins = 0;  // of the histogram, at most kMaxBins; 0: none

  static constexpr uint32_t kMaxBins = 65536;
};

// Over the finite values: bin i counts low + i * w <= x < low + (i + 1) * w with w = (high - low) / bins, the last
// one its end too. One bin when all values are equal.
struct ValueHistogram {
  double low = 0;
  double high = 0;
  std::vector<uint64_t> counts{};
};

struct ValueStatistics {
  TensorValues values;
  Scan scan{};
  MeanSpread spread{};  // not for C64
  std::optional<ValueHistogram> histogram{};

  // Population standard deviation.
  double deviation() const;
};

struct StatisticsReport {
  bool logical = false;
  std::vector<ValueStatistics> tensors{};  // in the checkpoint's reading order
  std::vector<std::string> notes{};
};

// Tensors of the checkpoint's sound shards. Two stages when a histogram is wanted, else one.
class Statistics final : public ValuePass {
 public:
  // `checkpoint` must outlive this.
  Statistics(const Checkpoint& checkpoint, StatisticsRequest request);
  ~Statistics() override;

  std::vector<SmallRead> want() override;
  void supply(const SmallRead& read, Bytes bytes) override;
  void fail(const SmallRead& read) override;
  Result<void> start() override;
  uint64_t piece_count() const override;
  Piece piece(uint64_t index) const override;
  uint64_t bytes() const override;
  uint64_t piece_bytes() const override;
  std::unique_ptr<Found> run(uint64_t index, std::span<const Bytes> bytes,
                             const KernelTable& kernels) const override;
  void add(uint64_t index, std::unique_ptr<Found> found) override;
  bool next_stage() override;
  std::string to_json() const override;

  const StatisticsReport& report() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// For people. `width`: no row of the table is longer, 0: nothing is cut. `ascii`: nothing but ASCII.
std::string statistics_text(const StatisticsReport& report, uint32_t width, bool ascii = false);

}  // namespace tftf
