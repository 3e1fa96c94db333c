// Matrices of codes in rows, with a scale, and perhaps a zero, for every group of a row: what most integer layouts are.
#pragma once

#include <optional>

#include "tftf/quant/weight.h"

namespace tftf {

// w = code * scale, (code - zero) * scale or code * scale + zero, then * the tensor's scale, * the column's scale, * factor:
// all in F32, each step rounded. NaN is canonical.
struct GroupedMatrix {
  enum class Codes : uint8_t { kUnsigned, kSigned, kTable };  // kSigned: two's complement
  enum class Order : uint8_t {
    kRows,        // scales [rows / rows_per_scale, groups]
    kTransposed,  // [groups, rows]
    kSwizzled,    // 128 x 4 tiles of scales, one byte each (spec other-quant-layouts 0)
  };
  enum class Zero : uint8_t { kNone, kSubtract, kAdd };

  uint64_t rows = 0;
  uint64_t columns = 0;
  uint32_t bits = 8;        // of a code: 1 to 8. Codes fill the bytes of their row from the low bits up
  uint64_t code_bytes = 0;  // of a row; 0: as many as the codes need
  Codes codes = Codes::kUnsigned;
  int32_t offset = 0;            // taken from kUnsigned codes
  const float* table = nullptr;  // of kTable: 2^bits values

  uint64_t group = 1;  // columns under one scale; the last group may be shorter
  uint64_t rows_per_scale = 1;
  Order order = Order::kRows;
  DType scale_dtype = DType::F32;  // F8_E8M0 and F8_E4M3 also for those stored as U8
  Zero zero = Zero::kNone;
  DType zero_dtype = DType::F32;    // in the order of the scales
  DType column_dtype = DType::F32;  // of the scales of columns
  std::optional<float> factor{};

  uint64_t groups() const { return group == 0 ? 0 : ceil_div(columns, group); }
  uint64_t row_bytes() const { return code_bytes != 0 ? code_bytes : ceil_div(columns * bits, 8); }
  // Scales that must be stored.
  uint64_t scale_count() const;
};

struct GroupedParts {
  TensorRef codes;
  TensorRef scales;
  std::optional<TensorRef> zeros{};
  std::optional<TensorRef> tensor_scale{};   // one F32
  std::optional<TensorRef> column_scales{};  // one for each column
};

// What every decoder owes its finished F32 rows: NaN made canonical. Returns how many elements are infinite; with a `table`, of
// those whose value there is finite.
uint64_t settle_row(const KernelTable& kernels, const float* table, const uint8_t* codes, float* row,
                    uint64_t count) noexcept;

// Refuses parts whose bytes are not those of the geometry, and rows that are too long to be decoded at once. `word` tells
// the table.
Result<Weight> grouped_weight(const OpenContext& context, const QuantMatch& match,
                              const GroupedMatrix& matrix, const std::string& word, const Shape& shape,
                              const GroupedParts& parts);

}  // namespace tftf
