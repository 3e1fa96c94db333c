// Recipes: put together, and carried out.
#include "tftf/adapter/recipe.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "adapter/element_values.h"
#include "tftf/base/checked.h"

namespace tftf {

std::optional<TensorRef> AdapterRecipe::copy_of(const Checkpoint& checkpoint) const {
  if (literal || mid || pieces.size() != 1) return std::nullopt;
  const AdapterPiece& piece = pieces.front();
  const TensorInfo& info = checkpoint.info(piece.source);
  const auto elements = element_count(info.shape);
  const bool whole = piece.row == 0 && piece.col == 0 && piece.to_row == 0 && piece.to_col == 0 &&
                     piece.rows == rows && piece.cols == cols && elements && *elements == rows * cols;
  const bool line = rows == 1 || cols == 1;  // a transposed line is the same bytes
  if (!whole || piece.has_steps() || piece.scale != 1 || (piece.transposed && !line) || info.dtype != dtype)
    return std::nullopt;
  return piece.source;
}

AdapterRecipe stored_recipe(const Checkpoint& checkpoint, TensorRef tensor) {
  const TensorInfo& info = checkpoint.info(tensor);
  AdapterRecipe recipe{.dtype = info.dtype, .shape = info.shape};
  recipe.rows = info.shape.empty() ? 1 : info.shape[0];
  const uint64_t elements = info.bytes() * 8 / dtype_bits(info.dtype);
  recipe.cols = recipe.rows == 0 ? 0 : elements / recipe.rows;
  recipe.pieces.push_back({.source = tensor, .width = recipe.cols, .rows = recipe.rows, .cols = recipe.cols});
  return recipe;
}

AdapterRecipe rows_of_recipe(const AdapterRecipe& recipe, uint64_t first, uint64_t count) {
  AdapterRecipe part{.dtype = recipe.dtype, .shape = recipe.shape, .rows = count, .cols = recipe.cols};
  if (!part.shape.empty()) part.shape[0] = count;
  for (AdapterPiece piece : recipe.pieces) {
    const uint64_t begin = std::max(piece.to_row, first);
    const uint64_t end = std::min(piece.to_row + piece.rows, first + count);
    if (begin >= end) continue;
    (piece.transposed ? piece.col : piece.row) += begin - piece.to_row;
    piece.rows = end - begin;
    piece.to_row = begin - first;
    part.pieces.push_back(piece);
  }
  return part;
}

AdapterRecipe columns_of_recipe(const AdapterRecipe& recipe, uint64_t first, uint64_t count) {
  AdapterRecipe part{
      .dtype = recipe.dtype, .shape = {recipe.rows, count}, .rows = recipe.rows, .cols = count};
  for (AdapterPiece piece : recipe.pieces) {
    const uint64_t begin = std::max(piece.to_col, first);
    const uint64_t end = std::min(piece.to_col + piece.cols, first + count);
    if (begin >= end) continue;
    (piece.transposed ? piece.row : piece.col) += begin - piece.to_col;
    piece.cols = end - begin;
    piece.to_col = begin - first;
    part.pieces.push_back(piece);
  }
  return part;
}

void place_recipe(AdapterRecipe& into, const AdapterRecipe& part, uint64_t row, uint64_t col) {
  for (AdapterPiece piece : part.pieces) {
    piece.to_row += row;
    piece.to_col += col;
    into.pieces.push_back(piece);
  }
}

AdapterRecipe transposed_recipe(const AdapterRecipe& recipe) {
  AdapterRecipe turned{
      .dtype = recipe.dtype, .shape = recipe.shape, .rows = recipe.cols, .cols = recipe.rows};
  if (turned.shape.size() == 2) std::swap(turned.shape[0], turned.shape[1]);
  for (AdapterPiece piece : recipe.pieces) {
    std::swap(piece.rows, piece.cols);
    std::swap(piece.to_row, piece.to_col);
    std::swap(piece.to_row_step, piece.to_col_step);
    piece.transposed = !piece.transposed;
    turned.pieces.push_back(piece);
  }
  return turned;
}

AdapterRecipe scaled_recipe(AdapterRecipe recipe, double scale) {
  for (AdapterPiece& piece : recipe.pieces) piece.scale *= scale;
  return recipe;
}

AdapterRecipe empty_recipe(DType dtype, uint64_t rows, uint64_t cols) {
  return {.dtype = dtype, .shape = {rows, cols}, .rows = rows, .cols = cols};
}

namespace {

// Each source once, in the order in which they come up; `seen` hears of every piece.
template <class Seen>
std::vector<TensorRef> sources_of(const AdapterRecipe& recipe, const Seen& seen) {
  std::vector<TensorRef> sources;
  std::unordered_map<uint64_t, uint32_t> slots;
  const auto slot_of = [&](TensorRef tensor) {
    const auto [at, fresh] =
        slots.emplace(uint64_t{tensor.shard} << 32 | tensor.tensor, static_cast<uint32_t>(sources.size()));
    if (fresh) sources.push_back(tensor);
    return at->second;
  };
  for (size_t p = 0; p < recipe.pieces.size(); ++p) seen(p, slot_of(recipe.pieces[p].source));
  if (recipe.mid) slot_of(*recipe.mid);
  return sources;
}

}  // namespace

std::vector<TensorRef> recipe_sources(const AdapterRecipe& recipe) {
  return sources_of(recipe, [](size_t, uint32_t) {});
}

void number_sources(AdapterRecipe& recipe) {
  std::vector<uint32_t> slots(recipe.pieces.size());
  (void)sources_of(recipe, [&](size_t piece, uint32_t slot) { slots[piece] = slot; });
  for (size_t p = 0; p < slots.size(); ++p) recipe.pieces[p].slot = slots[p];
}

namespace {

void contract_rows(const AdapterRecipe& recipe, std::span<const Bytes> sources, uint64_t first,
                   uint64_t count, std::byte* out) noexcept {
  const AdapterPiece& piece = recipe.pieces.front();
  const std::byte* const down = sources[piece.slot].data();
  const bool same = piece.source.shard == recipe.mid->shard && piece.source.tensor == recipe.mid->tensor;
  const std::byte* const mid = same ? down : sources[1].data();
  const uint64_t k = piece.rows, columns = piece.cols, kernel = recipe.cols / columns;
  for (uint64_t r = 0; r < count; ++r)
    for (uint64_t c = 0; c < columns; ++c)
      for (uint64_t x = 0; x < kernel; ++x) {
        float sum = 0;
        for (uint64_t q = 0; q < k; ++q) {
          const float product = value_at(recipe.mid_dtype, mid, ((first + r) * k + q) * kernel + x) *
                                value_at(recipe.dtype, down, q * columns + c);
          sum += product;
        }
        put_value(recipe.dtype, out, r * recipe.cols + c * kernel + x, sum);
      }
}

}  // namespace

void cook_rows(const AdapterRecipe& recipe, std::span<const Bytes> sources, uint64_t first, uint64_t count,
               std::byte* out) noexcept {
  if (recipe.mid) return contract_rows(recipe, sources, first, count, out);
  const uint64_t size = dtype_bits(recipe.dtype) / 8;
  std::memset(out, 0, to_size(count * recipe.cols * size));
  for (const AdapterPiece& piece : recipe.pieces) {
    const std::byte* const from = sources[piece.slot].data();
    // The first and the last of the piece's rows that are among those.
    const uint64_t step = piece.to_row_step;
    const uint64_t skipped = first > piece.to_row ? ceil_div(first - piece.to_row, step) : 0;
    for (uint64_t i = skipped; i < piece.rows && piece.to_row + i * step < first + count; ++i) {
      const uint64_t row = piece.to_row + i * step - first;
      std::byte* const to = out + to_size((row * recipe.cols + piece.to_col) * size);
      if (piece.transposed || piece.col_step != 1 || piece.to_col_step != 1) {
        for (uint64_t j = 0; j < piece.cols; ++j) {
          const uint64_t r = piece.row + (piece.transposed ? j : i) * piece.row_step;
          const uint64_t c = piece.col + (piece.transposed ? i : j) * piece.col_step;
          std::memcpy(to + to_size(j * piece.to_col_step * size),
                      from + to_size((r * piece.width + c) * size), to_size(size));
        }
      } else {
        std::memcpy(to, from + to_size(((piece.row + i * piece.row_step) * piece.width + piece.col) * size),
                    to_size(piece.cols * size));
      }
      if (piece.scale != 1) scale_values(recipe.dtype, to, piece.cols, piece.scale);
    }
  }
}

}  // namespace tftf
