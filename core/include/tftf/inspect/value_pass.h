// Work over the values of tensors, as pieces for a host: statistics, heat maps, comparisons. A pump in two
// parts: first small values are asked for, then pieces are read and looked at, stage by stage. Pieces may be
// run in any order and by any number of threads; the result is the same to the last bit.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tftf/checkpoint/checkpoint.h"
#include "tftf/simd/kernels.h"

namespace tftf {

// Bytes of one of a checkpoint's files, never none: a run of them, or `rows` runs, `stride` apart.
struct ShardRange {
  uint32_t shard = 0;
  uint32_t rows = 1;
  uint64_t offset = 0;
  uint64_t row_bytes = 0;
  uint64_t stride = 0;
  uint64_t bytes() const { return row_bytes * rows; }
};

class ValuePass {
 public:
  // A small value that is wanted before the work is known: of checkpoint number `model` (0, or 1 for the right
  // side of a comparison).
  struct SmallRead {
    uint32_t model = 0;
    ReadRequest request;
  };
  // Of checkpoint number `model`.
  struct Range {
    uint32_t model = 0;
    ShardRange range;
  };
  using Piece = std::vector<Range>;
  // What run() saw.
  class Found {
   public:
    virtual ~Found() = default;
  };

  virtual ~ValuePass() = default;

  // Serve until it gives nothing, then start().
  virtual std::vector<SmallRead> want() = 0;
  virtual void supply(const SmallRead& read, Bytes bytes) = 0;
  virtual void fail(const SmallRead& read) = 0;
  // Errors: kUsage for a request that is wrong by itself, kRefusedMissing and kRefusedUnsupported for what was
  // named and is not there or cannot be read.
  virtual Result<void> start() = 0;

  // Of the stage at hand, in reading order.
  virtual uint64_t piece_count() const = 0;
  virtual Piece piece(uint64_t index) const = 0;
  // Bytes that the stage reads.
  virtual uint64_t bytes() const = 0;
  // Most bytes that one worker holds for a piece, in any stage.
  virtual uint64_t piece_bytes() const = 0;
  // Pure: from any thread. `bytes[i]` is exactly range i, rows back to back.
  virtual std::unique_ptr<Found> run(uint64_t index, std::span<const Bytes> bytes,
                                     const KernelTable& kernels) const = 0;
  // One thread at a time, in any order, each piece once. Results are joined in order of the pieces, so the
  // nearer to that order the less has to be kept.
  virtual void add(uint64_t index, std::unique_ptr<Found> found) = 0;
  // When all pieces of the stage were added: goes to the next one, false when there is none.
  virtual bool next_stage() = 0;
  // The document, after the last stage (spec cli 5).
  virtual std::string to_json() const = 0;
};

}  // namespace tftf
