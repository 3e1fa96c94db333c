// A tensor of a converted adapter as rectangles of stored tensors, zero elsewhere: rows cut out, stacked, put on a
// diagonal, scaled, transposed. Copies of bytes but for what is scaled (spec adapters 6.3, 7).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tftf/checkpoint/checkpoint.h"

namespace tftf {

// Element (i, j) of a piece of rows x cols, at (to_row + i, to_col + j) of the result, is element (row + i, col + j) of
// the source, with `transposed` element (row + j, col + i). A source is a matrix of its first dimension by all others.
// With steps other than 1 rows and columns lie so far apart, in the source or in the result.
// Scaled: widened to F32 (F64 stays), times the scale as F32, rounded to the dtype.
struct AdapterPiece {
  TensorRef source{};
  uint64_t width = 0;  // columns of the source
  uint64_t row = 0, col = 0;
  uint64_t rows = 0, cols = 0;
  uint64_t to_row = 0, to_col = 0;
  double scale = 1;
  bool transposed = false;
  uint32_t slot = 0;  // of the source among those of the recipe: number_sources()
  uint64_t row_step = 1, col_step = 1;
  uint64_t to_row_step = 1, to_col_step = 1;

  bool has_steps() const { return row_step != 1 || col_step != 1 || to_row_step != 1 || to_col_step != 1; }
};

struct AdapterRecipe {
  std::string name{};
  DType dtype{};
  Shape shape{};
  uint64_t rows = 0, cols = 0;  // shape as a matrix; a scalar is 1 x 1, a vector n x 1
  std::vector<AdapterPiece> pieces{};
  std::optional<std::string> literal{};  // the bytes themselves; then there are no pieces
  // The middle factor [r, k, h, w] of a Tucker form: element (p, c * h * w + x) of the result is the sum over q, in order,
  // of mid[p][q][x] * source[q][c] in F32, rounded once. Then `pieces` is the source [k, c], whole.
  std::optional<TensorRef> mid{};
  DType mid_dtype{};

  // The stored tensor that it is, byte for byte; nothing when it is made.
  std::optional<TensorRef> copy_of(const Checkpoint& checkpoint) const;
};

// The tensor as it is stored.
AdapterRecipe stored_recipe(const Checkpoint& checkpoint, TensorRef tensor);
// Rows [first, first + count) of a matrix whose pieces have no steps.
AdapterRecipe rows_of_recipe(const AdapterRecipe& recipe, uint64_t first, uint64_t count);
// Columns likewise; of a matrix of two dimensions.
AdapterRecipe columns_of_recipe(const AdapterRecipe& recipe, uint64_t first, uint64_t count);
// Puts `part` at a place of `into`, whose rows and columns hold it.
void place_recipe(AdapterRecipe& into, const AdapterRecipe& part, uint64_t row, uint64_t col);
// Two dimensions exchanged.
AdapterRecipe transposed_recipe(const AdapterRecipe& recipe);
// Every element times `scale`.
AdapterRecipe scaled_recipe(AdapterRecipe recipe, double scale);
// All zero.
AdapterRecipe empty_recipe(DType dtype, uint64_t rows, uint64_t cols);

// The stored tensors that carrying it out needs, each once: those of its pieces, then the middle factor.
std::vector<TensorRef> recipe_sources(const AdapterRecipe& recipe);
// Notes in the pieces which of these each of them is taken from. Once, when the pieces are complete.
void number_sources(AdapterRecipe& recipe);
// The bytes of rows [first, first + count) of a recipe without literal whose sources are numbered: `sources` are
// recipe_sources(), whole. What a plan's tiles do, and a merge that has everything in memory.
void cook_rows(const AdapterRecipe& recipe, std::span<const Bytes> sources, uint64_t first, uint64_t count,
               std::byte* out) noexcept;

}  // namespace tftf
