// A quantised module whose geometry has been checked, and what turns its stored bytes into elements. Every layout that is
// read opens its modules as weights (QuantFormat::open); whoever wants values asks them: plans, merges, statistics,
// comparisons, heat maps.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/base/checked.h"
#include "tftf/base/result.h"
#include "tftf/checkpoint/checkpoint.h"
#include "tftf/quant/config.h"
#include "tftf/quant/format.h"
#include "tftf/simd/kernels.h"

namespace tftf {

class SmallValues;

// Elements [first, first + count) of a tensor or weight, in row-major order of its shape.
struct ElementRange {
  uint64_t first = 0;
  uint64_t count = 0;
};

// A part of a weight (its codes, its scales, …) or of what an encoder writes: bytes [offset, offset + row_bytes) from the
// begin of that tensor, or `rows` such runs, `stride` apart.
struct PartRange {
  uint32_t part = 0;
  uint32_t rows = 1;
  uint64_t offset = 0;
  uint64_t row_bytes = 0;
  uint64_t stride = 0;
  uint64_t bytes() const { return row_bytes * rows; }
};

// The ranges of one tile. More than fit end the program: how many there are is a constant of each layout.
class PartRanges {
 public:
  void push(const PartRange& range) {
    if (count_ == ranges_.size()) __builtin_trap();
    ranges_[count_++] = range;
  }
  size_t size() const { return count_; }
  const PartRange& operator[](size_t i) const { return ranges_[i]; }
  const PartRange* begin() const { return ranges_.data(); }
  const PartRange* end() const { return ranges_.data() + count_; }

 private:
  std::array<PartRange, 12> ranges_{};
  size_t count_ = 0;
};

struct Decoder;

struct WeightPart {
  std::string_view role;  // "weight", "scales", "g_idx", …
  TensorRef tensor;
};

// Immutable. Weights with equal `word` and `key` read and decode alike; only their parts differ.
struct Weight {
  const Decoder* decoder = nullptr;
  std::string word{};  // in the plan's text: "fp8-block", "gptq-v1 b4 g128"
  std::string key{};   // all of the geometry that is not in `word`
  Shape shape{};       // of the elements
  uint64_t elements = 0;
  std::vector<WeightPart> parts{};  // the codes first; a part that is not stored is left out
  // Tiles and pieces are multiples of this many elements, counted from the first: 1, a row, … A tile, unlike a piece, may
  // have to be a multiple of more: `tile_unit` (0: of `unit`). `piece`: elements that suit the decoder at once.
  uint64_t unit = 1;
  uint64_t tile_unit = 0;
  uint64_t piece = 0;
  uint32_t stretch =
      1;               // times the usual bytes of a tile: more where smaller ones would be read in short rows
  uint32_t bits = 8;   // that a tile reads per element, rounded up, parts read whole not counted
  uint32_t reads = 1;  // ranges that Decoder::reads appends
  std::shared_ptr<const void> state{};

  template <class T>
  const T& as() const {
    return *static_cast<const T*>(state.get());
  }
};

// What is the same for every module of a checkpoint, made once.
struct OpenContext {
  const Checkpoint& checkpoint;
  QuantConfig config;
  SmallValues* values = nullptr;  // of tensors that detection has asked for already
  // A decoder's own, by a name it chooses: tables of a file, read once.
  std::map<std::string, std::shared_ptr<const void>> kept{};
};

// A tile in hand.
struct DecodeTask {
  const KernelTable& kernels;
  ElementRange tile;                        // what reads() was asked for
  std::span<const std::byte* const> bytes;  // of those ranges, in their order; rows back to back
  std::byte* scratch = nullptr;             // scratch() bytes, as begin() has left them
};

struct Decoder {
  // What a tile (at least one element) needs: always weight.reads ranges.
  void (*reads)(const Weight& weight, ElementRange tile, PartRanges& ranges) = nullptr;
  // Elements of a piece of the tile as `to`: F32, or BF16 and F16 where `rounds` (one rounding of the F32). Bounds every
  // index that comes from data. Returns how many elements with a finite code became infinite.
  uint64_t (*decode)(const Weight& weight, const DecodeTask& task, ElementRange piece, DType to,
                     std::byte* out) noexcept = nullptr;
  bool rounds = false;
  // Bytes of scratch for any tile of at most `units` elements, and what is done once per tile before decode(): false when
  // the codes are broken. Null: none, nothing.
  uint64_t (*scratch)(const Weight& weight, uint64_t units) = nullptr;
  bool (*begin)(const Weight& weight, const DecodeTask& task) noexcept = nullptr;
};

// Rows of a range that consists of whole ones.
struct RowRange {
  uint64_t first = 0;
  uint64_t count = 0;
};
inline RowRange rows_of(ElementRange range, uint64_t columns) {
  return {range.first / columns, range.count / columns};
}
// The rows of a part that has `row_bytes` in each.
inline PartRange rows_of_part(uint32_t part, RowRange rows, uint64_t row_bytes) {
  return {.part = part, .offset = rows.first * row_bytes, .row_bytes = rows.count * row_bytes};
}

// A module's geometry does not fit its layout: `what` continues "Module NAME (LAYOUT) …".
Error weight_fault(ErrorCode code, const OpenContext& context, const QuantMatch& match,
                   const std::string& what);

// Opens a module of any layout. kRefusedUnsupported when its layout is not read.
Result<Weight> open_weight(OpenContext& context, const QuantMatch& match);

}  // namespace tftf
