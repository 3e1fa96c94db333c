// Recipes: put together, and carried out.
#include "tftf/adapter/recipe.h"

#include <algorithm>
#include <cstring>

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
  if (!whole || piece.scale != 1 || (piece.transposed && !line) || info.dtype != dtype) return std::nullopt;
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

std::vector<TensorRef> recipe_sources(const AdapterRecipe& recipe) {
  std::vector<TensorRef> sources;
  const auto add = [&](TensorRef tensor) {
    for (const TensorRef known : sources)
      if (known.shard == tensor.shard && known.tensor == tensor.tensor) return;
    sources.push_back(tensor);
  };
  for (const AdapterPiece& piece : recipe.pieces) add(piece.source);
  if (recipe.mid) add(*recipe.mid);
  return sources;
}

namespace {

const std::byte* source_of(const AdapterRecipe& recipe, std::span<const Bytes> sources,
                           TensorRef wanted) noexcept {
  size_t at = 0;  // in the order of recipe_sources()
  for (size_t p = 0; p < recipe.pieces.size(); ++p) {
    const TensorRef own = recipe.pieces[p].source;
    bool seen = false;
    for (size_t q = 0; q < p && !seen; ++q)
      seen = recipe.pieces[q].source.shard == own.shard && recipe.pieces[q].source.tensor == own.tensor;
    if (seen) continue;
    if (own.shard == wanted.shard && own.tensor == wanted.tensor) return sources[at].data();
    ++at;
  }
  return sources[std::min(at, sources.size() - 1)].data();
}

void contract_rows(const AdapterRecipe& recipe, std::span<const Bytes> sources, uint64_t first,
                   uint64_t count, std::byte* out) noexcept {
  const AdapterPiece& piece = recipe.pieces.front();
  const std::byte* const down = source_of(recipe, sources, piece.source);
  const std::byte* const mid = source_of(recipe, sources, *recipe.mid);
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
    const uint64_t begin = std::max(piece.to_row, first);
    const uint64_t end = std::min(piece.to_row + piece.rows, first + count);
    if (begin >= end) continue;
    const std::byte* const from = source_of(recipe, sources, piece.source);
    for (uint64_t r = begin; r < end; ++r) {
      const uint64_t i = r - piece.to_row;
      std::byte* const to = out + to_size(((r - first) * recipe.cols + piece.to_col) * size);
      if (piece.transposed) {
        for (uint64_t j = 0; j < piece.cols; ++j)
          std::memcpy(to + to_size(j * size),
                      from + to_size(((piece.row + j) * piece.width + piece.col + i) * size), to_size(size));
      } else {
        std::memcpy(to, from + to_size(((piece.row + i) * piece.width + piece.col) * size),
                    to_size(piece.cols * size));
      }
      if (piece.scale != 1) scale_values(recipe.dtype, to, piece.cols, piece.scale);
    }
  }
}

}  // namespace tftf
