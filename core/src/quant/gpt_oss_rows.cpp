// Decodes blocks of E2M1 codes along columns of the weight. A unit is what one block of every output makes: 32 rows of one
// expert. A tile may end one expert and begin another: it reads strips of the first and of the last, and what is between.
#include "quant/gpt_oss_rows.h"

#include <algorithm>

#include "quant/nibble_groups.h"
#include "tftf/base/bytes.h"
#include "tftf/base/checked.h"
#include "tftf/simd/floats.h"

namespace tftf {
namespace {

constexpr uint64_t kBlockCodes = 32;
constexpr uint64_t kBlockBytes = 16;
constexpr uint64_t kBlocksAtOnce = 48;
constexpr uint64_t kMostTimes = 8;  // that a tile is larger than usual for that

uint64_t unit_of(const TransposedBlocks& spec) { return kBlockCodes * spec.outputs; }

// Blocks [first, first + count) of every output of an expert.
struct Strip {
  uint64_t expert = 0, first = 0, count = 0;
};

// The strips that a tile of whole units consists of; those in the middle are whole experts, one behind the other.
struct Strips {
  Strip head{}, tail{};
  uint64_t middle = 0;  // experts between
};
Strips strips_of(const TransposedBlocks& spec, ElementRange tile) {
  const uint64_t first = tile.first / unit_of(spec), end = first + tile.count / unit_of(spec);
  Strips strips;
  strips.head = {first / spec.blocks, first % spec.blocks, 0};
  strips.head.count = std::min(end - first, spec.blocks - strips.head.first);
  const uint64_t rest = end - first - strips.head.count;
  strips.middle = rest / spec.blocks;
  strips.tail = {strips.head.expert + 1 + strips.middle, 0, rest % spec.blocks};
  return strips;
}

void push_strip(uint32_t part, uint64_t size, const TransposedBlocks& spec, const Strip& strip,
                PartRanges& ranges) {
  const uint64_t whole = spec.outputs * spec.blocks * size;
  if (strip.count == 0) return ranges.push({.part = part, .rows = 1, .offset = 0, .row_bytes = 0});
  ranges.push({.part = part,
               .rows = static_cast<uint32_t>(spec.outputs),
               .offset = strip.expert * whole + strip.first * size,
               .row_bytes = strip.count * size,
               .stride = spec.blocks * size});
}

bool reads_all_exponents(const TransposedBlocks& spec) {
  return spec.outputs * spec.blocks <= spec.few_exponents;
}

// Three ranges of codes, then three of exponents, some of which may be empty.
void read_transposed(const Weight& weight, ElementRange tile, PartRanges& ranges) {
  const auto& spec = weight.as<TransposedBlocks>();
  const Strips strips = strips_of(spec, tile);
  for (uint32_t part = 0; part < 2; ++part) {
    const uint64_t size = part == 0 ? kBlockBytes : 1;
    const uint64_t whole = spec.outputs * spec.blocks * size;
    if (part == 1 && reads_all_exponents(spec)) {
      const uint64_t experts = 1 + strips.middle + (strips.tail.count > 0 ? 1 : 0);
      ranges.push({.part = part, .offset = strips.head.expert * whole, .row_bytes = experts * whole});
      ranges.push({.part = part});
      ranges.push({.part = part});
      continue;
    }
    push_strip(part, size, spec, strips.head, ranges);
    ranges.push({.part = part,
                 .offset = strips.middle == 0 ? 0 : (strips.head.expert + 1) * whole,
                 .row_bytes = strips.middle * whole});
    push_strip(part, size, spec, strips.tail, ranges);
  }
}

constexpr uint64_t kOutputsAtOnce = 32;  // their rows fill whole cache lines

// One unit: a block for each output, so many blocks apart.
struct BlockColumn {
  const std::byte* first = nullptr;
  uint64_t stride = 0;
};
struct UnitBlocks {
  BlockColumn codes, exponents;
};

// Unit `u` of a tile.
UnitBlocks unit_of_tile(const TransposedBlocks& spec, const DecodeTask& task, uint64_t u) {
  const Strips strips = strips_of(spec, task.tile);
  const auto column = [&](size_t range, uint64_t size, uint64_t skipped, uint64_t stride) {
    return BlockColumn{task.bytes[range] + to_size(skipped * size), stride};
  };
  const uint64_t expert = spec.outputs * spec.blocks;
  // Where it lies: in which range of three, how many blocks behind its begin, and how far apart.
  size_t range = 0;
  uint64_t skipped = u, stride = strips.head.count;
  if (u >= strips.head.count) {
    const uint64_t behind = u - strips.head.count, middle = strips.middle * spec.blocks;
    range = behind < middle ? 1 : 2;
    skipped = range == 1 ? behind / spec.blocks * expert + behind % spec.blocks : behind - middle;
    stride = range == 1 ? spec.blocks : strips.tail.count;
  }
  UnitBlocks unit;
  unit.codes = column(range, kBlockBytes, skipped, stride);
  if (reads_all_exponents(spec)) {
    const uint64_t block = strips.head.first + u;  // counted from the first expert's
    unit.exponents = column(3, 1, block / spec.blocks * expert + block % spec.blocks, spec.blocks);
  } else {
    unit.exponents = column(3 + range, 1, skipped, stride);
  }
  return unit;
}

// 16 bits for a value: looked up by outputs, turned over by blocks.
uint64_t decode_unit_16(const TransposedBlocks& spec, const DecodeTask& task, const UnitBlocks& unit,
                        DType to, std::byte* out) {
  uint64_t infinite = 0;
  for (uint64_t first = 0; first < spec.outputs; first += kOutputsAtOnce) {
    const uint64_t count = std::min(kOutputsAtOnce, spec.outputs - first);
    alignas(16) std::byte rows[kOutputsAtOnce * kBlockCodes * 2];
    uint8_t which[kOutputsAtOnce];
    for (uint64_t o = 0; o < count; ++o)
      which[o] = static_cast<uint8_t>(unit.exponents.first[to_size((first + o) * unit.exponents.stride)]);
    const uint64_t stride = unit.codes.stride * kBlockBytes;
    infinite += decode_by_scale_tables(
        task.kernels, to, task.scratch, which,
        {.codes = unit.codes.first + to_size(first * stride), .groups = count, .group_codes = kBlockCodes},
        stride, rows);
    task.kernels.transpose_16({.in = rows,
                               .in_stride = kBlockCodes * 2,
                               .rows = count,
                               .columns = kBlockCodes,
                               .out = out + to_size(first * 2),
                               .out_stride = spec.outputs * 2});
  }
  return infinite;
}

uint64_t decode_unit_32(const TransposedBlocks& spec, const DecodeTask& task, const UnitBlocks& unit,
                        std::byte* out) {
  uint64_t infinite = 0;
  for (uint64_t o = 0; o < spec.outputs; ++o) {
    const auto which = static_cast<uint8_t>(unit.exponents.first[to_size(o * unit.exponents.stride)]);
    std::byte row[kBlockCodes * sizeof(float)];
    infinite +=
        decode_by_scale_tables(task.kernels, DType::F32, task.scratch, &which,
                               {.codes = unit.codes.first + to_size(o * unit.codes.stride * kBlockBytes),
                                .groups = 1,
                                .group_codes = kBlockCodes},
                               0, row);
    for (uint64_t r = 0; r < kBlockCodes; ++r)
      std::memcpy(out + to_size((r * spec.outputs + o) * sizeof(float)), row + r * sizeof(float),
                  sizeof(float));
  }
  return infinite;
}

uint64_t transposed_scratch(const Weight&, uint64_t) { return kScaleTableBytes; }

bool begin_transposed(const Weight&, const DecodeTask& task) noexcept {
  make_scale_tables(task.kernels, f4_values(), f8_values(DType::F8_E8M0), nullptr, task.scratch);
  return true;
}

uint64_t decode_transposed(const Weight& weight, const DecodeTask& task, ElementRange piece, DType to,
                           std::byte* out) noexcept {
  const auto& spec = weight.as<TransposedBlocks>();
  const uint64_t skipped = (piece.first - task.tile.first) / unit_of(spec);
  uint64_t infinite = 0;
  for (uint64_t u = skipped; u < skipped + piece.count / unit_of(spec); ++u) {
    const UnitBlocks unit = unit_of_tile(spec, task, u);
    infinite +=
        to == DType::F32 ? decode_unit_32(spec, task, unit, out) : decode_unit_16(spec, task, unit, to, out);
    out += to_size(unit_of(spec) * dtype_bits(to) / 8);
  }
  return infinite;
}

constexpr Decoder kTransposedDecoder{.reads = read_transposed,
                                     .decode = decode_transposed,
                                     .rounds = true,
                                     .scratch = transposed_scratch,
                                     .begin = begin_transposed};

}  // namespace

Weight transposed_blocks_weight(const TransposedBlocks& spec, std::string_view word, TensorRef codes,
                                TensorRef exponents) {
  Weight weight;
  weight.decoder = &kTransposedDecoder;
  weight.word = std::string(word) + " transposed";
  weight.key =
      std::to_string(spec.experts) + ' ' + std::to_string(spec.outputs) + ' ' + std::to_string(spec.blocks);
  weight.shape = {spec.experts, spec.blocks * kBlockCodes, spec.outputs};
  weight.elements = spec.experts * spec.blocks * unit_of(spec);
  weight.parts = {{"blocks", codes}, {"scales", exponents}};
  weight.unit = unit_of(spec);
  // Some blocks of every output at once, so that codes are read in rows of some hundred bytes.
  const uint64_t bytes =
      checked_mul(std::min(kBlocksAtOnce, spec.blocks) * 2, unit_of(spec)).value_or(UINT64_MAX);
  weight.stretch =
      static_cast<uint32_t>(std::clamp<uint64_t>(ceil_div(bytes, uint64_t{1} << 20), 1, kMostTimes));
  weight.bits = 5;
  weight.reads = 6;
  weight.state = std::make_shared<const TransposedBlocks>(spec);
  return weight;
}

}  // namespace tftf
