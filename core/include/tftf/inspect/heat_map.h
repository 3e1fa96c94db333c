// A tensor as a picture: means of blocks of its values (docs/numerics.md, "Heat maps").
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tftf/inspect/tensor_values.h"
#include "tftf/inspect/value_pass.h"

namespace tftf {

struct HeatMapRequest {
  TensorRef tensor{};
  bool logical = false;  // as its quantised layout means it
  // The part to look at, of the tensor as a matrix (TensorValues::rows()); ends are cut to its size.
  uint64_t row_begin = 0;
  uint64_t row_end = UINT64_MAX;
  uint64_t column_begin = 0;
  uint64_t column_end = UINT64_MAX;
  // Most cells down and across, 1 to kMaxCells; smaller parts get one cell per value.
  uint32_t height = 64;
  uint32_t width = 64;
  // Beyond these bytes rows are left out evenly; every row of cells keeps some.
  uint64_t max_bytes = UINT64_MAX;

  static constexpr uint32_t kMaxCells = 4096;
};

// Cell (i, j), at i * width + j, stands for rows row_begin + [i * cell_rows, (i + 1) * cell_rows) and columns
// likewise, the last ones for fewer.
struct HeatCells {
  uint64_t row_begin = 0, row_end = 0, column_begin = 0, column_end = 0;
  uint64_t height = 0;
  uint64_t width = 0;
  uint64_t cell_rows = 0;
  uint64_t cell_columns = 0;
  bool sampled = false;  // not every row was read
  // Of the finite values of a cell, NaN when it has none.
  std::vector<double> mean{};
  std::vector<double> low{};
  std::vector<double> high{};
  std::vector<uint8_t> non_finite{};  // 1: the cell holds a NaN or an infinity
};

// One stage. start(): kUsage for an empty part or impossible sizes, kRefusedUnsupported for C64 and for layouts
// that cannot be read, kRefusedInput for a tensor of a file that is not sound.
class HeatMapPass final : public ValuePass {
 public:
  // `checkpoint` must outlive this.
  HeatMapPass(const Checkpoint& checkpoint, HeatMapRequest request);
  ~HeatMapPass() override;

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

  const HeatCells& map() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The picture in characters, from ' ' (lowest mean) to '@' (highest); '!' where no value is finite.
std::string heat_map_text(const HeatCells& map);

}  // namespace tftf
