// Operations of no use but simple to predict, for tests of the plan and of its hosts.
#pragma once

#include <cstdint>
#include <string>

#include "tftf/plan/plan.h"

namespace tftf::test {

// out = in xor arg[0], byte by byte, unit = a byte; reports n[0] = sum of the bytes read, x[0] = the largest
// byte.
extern const TileOp kXor;
// One input byte becomes `arg[0]` equal bytes of the first output and, when there is a second one, its
// complement there.
extern const TileOp kSpread;
// Reads a strided rectangle: unit = a row of arg[0] bytes out of arg[1], written back to back, each byte plus
// the first byte of the resident.
extern const TileOp kColumns;
// Reads only; reports as kXor.
extern const TileOp kMeasure;
// As kXor, with the first byte of the first table.
extern const TileOp kXorTable;
// For a resident: every byte plus one.
void add_one(std::span<const std::byte> raw, std::span<std::byte> ready, const void* context) noexcept;

// Bytes that differ from place to place and from seed to seed.
std::string pattern(size_t size, uint32_t seed);

// An item over one whole input and its outputs.
Item toy_item(const TileOp& op, uint32_t tensor, Extent in, Extent out, uint64_t units_per_tile);

}  // namespace tftf::test
