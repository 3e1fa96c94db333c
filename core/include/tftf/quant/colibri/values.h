// A colibri weight as rows of values, decoded one at a time (spec colibri 1).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "tftf/quant/colibri/e8.h"
#include "tftf/quant/colibri/integer_codes.h"
#include "tftf/quant/format.h"

namespace tftf::colibri {

struct RowDecoder {
  IntegerSpec spec;
  uint64_t rows = 0;
  uint64_t columns = 0;
  uint64_t row_bytes = 0;                           // of NAME
  uint64_t row_scales = 0;                          // of NAME.qs; 0: E8, whose one value is a tag
  std::shared_ptr<const E8Rotation> rotation = {};  // E8

  // Numeric contract: decode_row(), and for E8 decode_e8_block() and the inverse rotation.
  void decode(std::span<const std::byte> codes, std::span<const float> scales, std::span<float> row) const;
};

// Of a module of the layouts colibri-int8-row, int4-row, int2-row, int4-grouped, int3-g64 and e8-iq3-lattice; nothing for
// other layouts, an unknown shape, or E8 at columns that no writer makes.
std::optional<RowDecoder> row_decoder(const QuantMatch& match);

}  // namespace tftf::colibri
