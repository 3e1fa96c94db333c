// The data pass (spec lint-rules 3.9) as work for a host: pieces to read, each looked at by a pure function,
// in any order and by any number of threads, with the same result.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tftf/base/bytes.h"
#include "tftf/base/content_hash.h"
#include "tftf/lint/linter.h"
#include "tftf/simd/kernels.h"

namespace tftf {

class DataPass {
 public:
  // Longest run of bytes that a piece reads from a file; only range-coded records, and the codes under one row of
  // scales, are read whole.
  static constexpr uint64_t kMaxPiece = 1 << 20;

  // A byte range of one file; in the second stage two of equal length that must be compared, or scales with the codes
  // under them.
  struct Part {
    uint32_t file = 0;  // position in LintResult::files
    ByteRange range;    // in the file
  };
  struct Piece {
    std::array<Part, 2> parts;
    uint32_t count = 1;
  };
  // What run() saw in a piece.
  struct Found {
    Scan scan;
    ContentHash hash;
    double first = 0;                    // value of element 0, in the piece that holds it
    bool equal = false;                  // second stage: the bytes of both parts
    std::vector<ColibriSeen> colibri{};  // of rows with their scales: by candidate
    std::optional<colibri::RansFailure> rans{};
    std::vector<std::pair<uint32_t, uint32_t>> live_experts{};  // runs of an ExpertStack's, first and last
    ScaleSeen scales{};                                         // second stage
  };

  // All non-empty tensors of the sound files. `result` must outlive this.
  explicit DataPass(const LintResult& result);
  ~DataPass();
  DataPass(DataPass&&) noexcept;
  DataPass& operator=(DataPass&&) noexcept;

  // Pieces of the stage at hand, ordered by file and offset; after those of the first stage come rows of colibri weights
  // with their scales (two parts), and range-coded records.
  uint64_t piece_count() const;
  Piece piece(uint64_t index) const;
  // Bytes that the stage reads.
  uint64_t bytes() const;
  // Pure: from any thread. `bytes[i]` is exactly the range of part i.
  Found run(uint64_t index, std::array<Bytes, 2> bytes, const KernelTable& kernels) const noexcept;

  // One thread at a time, in any order, each piece once; pieces of a failed file may be left out.
  void add(uint64_t index, const Found& found);
  // The file could not be read; the first reason is kept.
  void fail(uint32_t file, std::string reason);
  bool failed(uint32_t file) const;

  // When all pieces of the stage were added: goes to the next one, false when there is none. The second stage
  // compares the bytes of tensors whose hashes are equal, and looks at scales where the first saw zeros or
  // negative values.
  bool next_stage();
  // Applies what was found about colibri containers to the findings of `result`, which must be the one that this was made
  // with. Before take().
  void amend(LintResult& result) const;
  // Parallel to LintResult::files. Hashes are equal for tensors whose bytes were compared and found equal,
  // for no others.
  std::vector<FileStatistics> take();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tftf
