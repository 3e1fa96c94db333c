// The three kinds of steps that range-code a tensor: its nibbles are counted, its record measured, then written.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "tftf/plan/plan.h"
#include "tftf/quant/colibri/rans.h"

namespace tftf::colibri {

// Most bytes of a counting step: at most 2^21 nibbles of a kind, which is what a Value has room for.
inline constexpr uint64_t kMostCounted = uint64_t{1} << 20;

// What finish() of the counting phase finds out; the context of the items of the other two phases.
struct SharedRansTable {
  RansTable table;
};

// Item: in[0] packed bytes, units bytes. Value: 16 counts for add_nibble_counts().
extern const TileOp kCountNibblesOp;
// Item: in[0] all packed bytes of a tensor, one tile. Value: n[0] bytes of the record, n[1] 1 for a symbol that was not
// there when they were counted.
extern const TileOp kMeasureRansOp;
// The same with out[0] the record. Value: n the SHA-256 of the record, x[0] 1 when it did not come out as measured.
extern const TileOp kEncodeRansOp;

void add_nibble_counts(const Value& value, std::array<uint64_t, 16>& counts);
// Of a Value of kEncodeRansOp, hexadecimal.
std::string record_digest(const Value& value);

}  // namespace tftf::colibri
