// Tiles of tensors that are put together: rows of the result from whole sources.
#include "recipe_items.h"

#include <algorithm>

#include "tftf/base/checked.h"

namespace tftf::transform {
namespace {

struct RowsOfTile {
  uint64_t first = 0, count = 0;
};
RowsOfTile rows_of_tile(const Item& item, uint64_t tile) {
  const uint64_t first = tile * item.units_per_tile;
  return {first, std::min(item.units_per_tile, item.units - first)};
}

const AdapterRecipe& recipe_of(const Item& item) {
  return *static_cast<const AdapterRecipe*>(item.context.get());
}

uint64_t row_bytes_of(const AdapterRecipe& recipe) { return recipe.cols * (dtype_bits(recipe.dtype) / 8); }

void recipe_io(const Item& item, uint64_t tile, const Tables&, StepIo& io) {
  const RowsOfTile rows = rows_of_tile(item, tile);
  const uint64_t row = row_bytes_of(recipe_of(item));
  io.out.push_back(slice(item.out[0], rows.first * row, rows.count * row));
}

void recipe_run(const Item& item, uint64_t tile, const Tables&, const KernelTable&, const Slot& slot,
                Value&) noexcept {
  const RowsOfTile rows = rows_of_tile(item, tile);
  cook_rows(recipe_of(item), slot.residents, rows.first, rows.count, slot.out[0]);
}

const TileOp kRecipeOp{.id = "assemble", .io = recipe_io, .run = recipe_run};

}  // namespace

std::optional<std::vector<StoredRun>> runs_of_recipe(const AdapterRecipe& recipe) {
  if (recipe.mid || recipe.literal) return std::nullopt;
  std::vector<const AdapterPiece*> pieces;
  for (const AdapterPiece& piece : recipe.pieces) pieces.push_back(&piece);
  std::sort(pieces.begin(), pieces.end(),
            [](const AdapterPiece* a, const AdapterPiece* b) { return a->to_row < b->to_row; });
  std::vector<StoredRun> runs;
  uint64_t row = 0;
  const uint64_t size = dtype_bits(recipe.dtype) / 8;
  for (const AdapterPiece* piece : pieces) {
    const bool line = piece->rows == 1 && piece->transposed && piece->width == 1;
    const bool standing = piece->cols == 1 && piece->transposed;
    const bool straight = !piece->transposed && piece->col == 0 && piece->width == recipe.cols;
    if (piece->has_steps() || piece->to_row != row || piece->to_col != 0 || piece->cols != recipe.cols ||
        piece->scale != 1)
      return std::nullopt;
    if (!straight && !line && !standing) return std::nullopt;
    const uint64_t begin = piece->row * piece->width + piece->col;
    runs.push_back({piece->source, begin * size, piece->rows * piece->cols * size});
    row += piece->rows;
  }
  if (row != recipe.rows) return std::nullopt;
  return runs;
}

Item RecipeItems::item(std::shared_ptr<const AdapterRecipe> recipe, const std::vector<Extent>& stored,
                       const Extent& to) {
  Item item{.op = &kRecipeOp};
  item.units = recipe->rows;
  item.units_per_tile =
      std::min(std::max<uint64_t>(1, item.units), tile_units(tile_bytes_, row_bytes_of(*recipe) * 8));
  item.out = {to};
  item.in_dtype = item.out_dtype = recipe->dtype;
  const std::vector<TensorRef> sources = recipe_sources(*recipe);
  for (size_t i = 0; i < sources.size(); ++i) {
    const uint64_t key = uint64_t{sources[i].shard} << 32 | sources[i].tensor;
    const auto [at, fresh] = residents_.try_emplace(key, 0);
    if (fresh) {
      Resident resident{.from = {stored[i]}};
      resident.raw_bytes = resident.ready_bytes = stored[i].bytes();
      at->second = builder_.add_resident(std::move(resident));
    }
    item.residents.push_back(at->second);
  }
  item.context = std::move(recipe);
  return item;
}

}  // namespace tftf::transform
