// Query, key and value in one weight or in three (spec adapters 6.3), and the names that differ between models' forms.
#include <algorithm>

#include "adapter/convert_module.h"
#include "adapter/name_maps.h"
#include "tftf/base/escape.h"

namespace tftf::converting {
namespace {

Error fuse_error(const Work& work, const Module& module, const std::string& what) {
  return convert_error(work, ErrorCode::kRefusedShape,
                       "Module " + quote_name(module.stored) + " " + what + ".", module.stored);
}

// Whether columns outside the parts' own are zero in every row, told by looking at the up factor as it is stored.
std::optional<bool> is_block_diagonal(Work& work, const AdapterRecipe& up,
                                      const std::vector<std::pair<std::string, uint64_t>>& parts) {
  const auto stored = up.copy_of(work.checkpoint);
  const uint64_t size = dtype_bits(up.dtype) / 8;
  if (!stored || size == 0 || up.cols % parts.size() != 0) return false;
  std::vector<uint64_t> ends;
  uint64_t rows = 0;
  for (const auto& part : parts) ends.push_back(rows += part.second);
  const uint64_t width = up.cols, block = up.cols / parts.size();
  const bool sign = is_floating(up.dtype);
  return work.scans.seen_whole(*stored, "block-diagonal " + std::to_string(parts.size()),
                               [ends, width, block, size, sign](uint64_t begin, Bytes bytes) {
                                 for (size_t i = 0; i < bytes.size(); ++i) {
                                   const auto byte = static_cast<uint8_t>(bytes[i]);
                                   const bool last = (begin + i) % size == size - 1;
                                   if ((sign && last ? byte & 0x7F : byte) == 0) continue;
                                   const uint64_t element = (begin + i) / size;
                                   const uint64_t row = element / width;
                                   const auto part = static_cast<uint64_t>(
                                       std::upper_bound(ends.begin(), ends.end(), row) - ends.begin());
                                   if (element % width / block != part) return false;
                                 }
                                 return true;
                               });
}

void cut_rows(const Module& module, Module& part, P which, uint64_t first, uint64_t count) {
  if (const AdapterRecipe* whole = module.find(which))
    part.parts.push_back({which, rows_of_recipe(*whole, first, count), ""});
}

// The first and the second half of the rows exchanged.
AdapterRecipe swapped_halves(const AdapterRecipe& recipe) {
  const uint64_t half = recipe.rows / 2;
  AdapterRecipe swapped = rows_of_recipe(recipe, 0, 0);
  swapped.rows = recipe.rows;
  swapped.shape = recipe.shape;
  place_recipe(swapped, rows_of_recipe(recipe, half, half), 0, 0);
  place_recipe(swapped, rows_of_recipe(recipe, 0, half), half, 0);
  return swapped;
}

// Rows of the inputs' axis: what follows the up factor's.
constexpr P kRowParts[] = {P::kUp, P::kUpBias, P::kMagnitude, P::kDiff, P::kDiffBias};

Result<void> swap_halves(const Work& work, Module& module) {
  for (const P part : kRowParts) {
    AdapterRecipe* recipe = module.find(part);
    if (recipe == nullptr) continue;
    if (recipe->rows % 2 != 0) return fuse_error(work, module, "has an odd number of rows to be halved");
    *recipe = swapped_halves(*recipe);
  }
  return {};
}

bool same_leading_bytes(Work& work, TensorRef a, TensorRef b, bool& pending) {
  constexpr uint64_t kHead = 4096;
  const auto first = work.values.get(a, kHead), second = work.values.get(b, kHead);
  if (work.values.pending(a) || work.values.pending(b)) pending = true;
  return first && second && std::equal(first->begin(), first->end(), second->begin(), second->end());
}

// Whether all parts that are there have one and the same down factor, byte for byte.
std::optional<bool> same_down(Work& work, const std::vector<const Module*>& modules) {
  std::optional<TensorRef> first;
  std::string digest;
  size_t present = 0;
  for (const Module* module : modules) {
    if (module == nullptr) continue;
    ++present;
    const AdapterRecipe& down = *module->find(P::kDown);
    const auto stored = down.copy_of(work.checkpoint);
    if (!stored) return false;
    if (!first) {
      first = stored;
      continue;
    }
    const TensorInfo &a = work.info(*first), &b = work.info(*stored);
    if (a.shape != b.shape || a.dtype != b.dtype) return false;
    bool pending = false;
    if (!same_leading_bytes(work, *first, *stored, pending)) {
      if (pending) return std::nullopt;
      return false;
    }
    const auto one = work.scans.digest(*first), other = work.scans.digest(*stored);
    if (!one || !other) return std::nullopt;
    if (one->empty() || *one != *other) return false;
  }
  return present > 1;
}

}  // namespace

Result<std::vector<Module>> split_module(Work& work, const Module& module,
                                         const std::vector<std::pair<std::string, uint64_t>>& parts) {
  const AdapterRecipe* up = module.find(P::kUp);
  const AdapterRecipe* down = module.find(P::kDown);
  uint64_t rows = 0;
  for (const auto& part : parts) rows += part.second;
  if (up == nullptr || down == nullptr || up->rows != rows || up->shape.size() != 2)
    return fuse_error(work, module,
                      "has to be split into " + std::to_string(rows) + " rows and has " +
                          std::to_string(up == nullptr ? 0 : up->rows));
  const std::optional<bool> diagonal = is_block_diagonal(work, *up, parts);
  if (!diagonal) work.pending = true;
  const bool cut = diagonal.value_or(false) && parts.size() > 1;
  std::vector<Module> result;
  uint64_t first = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    Module part = module;
    part.parts.clear();
    part.path = parts[p].first;
    part.flat = flat_name(part.path);
    const uint64_t count = parts[p].second, share = module.rank / parts.size();
    AdapterRecipe own_up = rows_of_recipe(*up, first, count);
    if (cut) {
      part.rank = share;
      part.alpha.reset();
      part.parts.push_back({P::kDown, rows_of_recipe(*down, p * share, share), ""});
      own_up = columns_of_recipe(own_up, p * share, share);
    } else {
      part.parts.push_back({P::kDown, *down, ""});
    }
    part.parts.push_back({P::kUp, std::move(own_up), ""});
    for (const P other : {P::kUpBias, P::kMagnitude, P::kDiffBias})
      cut_rows(module, part, other, first, count);
    first += count;
    result.push_back(std::move(part));
  }
  return result;
}

Result<std::optional<Module>> fuse_modules(Work& work, const std::vector<const Module*>& modules,
                                           const std::vector<uint64_t>& rows, std::string path) {
  const Module& model =
      **std::find_if(modules.begin(), modules.end(), [](const Module* m) { return m != nullptr; });
  const auto same = same_down(work, modules);
  if (!same) {
    work.pending = true;
    return std::optional<Module>();
  }
  const AdapterRecipe& first_down = *model.find(P::kDown);
  bool one_scale = true, biased = false, magnitudes = false;
  uint64_t rank = 0, total = 0, whole = 0;
  for (size_t p = 0; p < modules.size(); ++p) {
    total += rows[p];
    if (modules[p] == nullptr) continue;
    ++whole;
    const Module& part = *modules[p];
    const AdapterRecipe &down = *part.find(P::kDown), &up = *part.find(P::kUp);
    if (up.rows != rows[p] || down.cols != first_down.cols || down.shape.size() != 2 ||
        up.shape.size() != 2 || down.dtype != first_down.dtype || up.dtype != model.find(P::kUp)->dtype)
      return fuse_error(work, part,
                        "cannot be joined with its neighbours: its factors are " + shape_text(down.shape) +
                            " and " + shape_text(up.shape));
    one_scale = one_scale && part.scale == model.scale;
    biased = biased || part.has(P::kUpBias);
    magnitudes = magnitudes || part.has(P::kMagnitude);
    rank += down.rows;
  }
  if (*same) rank = first_down.rows;
  Module fused = model;
  fused.parts.clear();
  fused.tensors.clear();
  fused.alpha.reset();
  fused.path = std::move(path);
  fused.flat = flat_name(fused.path);
  fused.rank = rank;
  fused.scale = one_scale ? model.scale : 1;
  AdapterRecipe down = empty_recipe(first_down.dtype, rank, first_down.cols);
  AdapterRecipe up = empty_recipe(model.find(P::kUp)->dtype, total, rank);
  AdapterRecipe bias = empty_recipe(up.dtype, total, 1), magnitude = empty_recipe(up.dtype, total, 1);
  bias.shape = magnitude.shape = {total};
  uint64_t row = 0, column = 0;
  for (size_t p = 0; p < modules.size(); row += rows[p], ++p) {
    if (modules[p] == nullptr) continue;
    const Module& part = *modules[p];
    fused.tensors.insert(fused.tensors.end(), part.tensors.begin(), part.tensors.end());
    if (!one_scale) TFTF_TRY(check_scalable(work, part));
    const double scale = one_scale ? 1 : part.scale;
    place_recipe(up, scaled_recipe(*part.find(P::kUp), scale), row, column);
    if (const AdapterRecipe* own = part.find(P::kUpBias)) {
      bias.dtype = own->dtype;
      place_recipe(bias, scaled_recipe(*own, scale), row, 0);
    }
    if (const AdapterRecipe* own = part.find(P::kMagnitude)) {
      magnitude.dtype = own->dtype;
      place_recipe(magnitude, *own, row, 0);
    }
    if (*same && column == 0 && !down.pieces.empty()) continue;
    place_recipe(down, *part.find(P::kDown), *same ? 0 : column, 0);
    if (!*same) column += part.find(P::kDown)->rows;
  }
  if (magnitudes && whole != modules.size())
    return fuse_error(work, model,
                      "has a magnitude, and not all of the parts that it is joined with are there");
  fused.parts.push_back({P::kDown, std::move(down), ""});
  fused.parts.push_back({P::kUp, std::move(up), ""});
  if (biased) fused.parts.push_back({P::kUpBias, std::move(bias), ""});
  if (magnitudes) fused.parts.push_back({P::kMagnitude, std::move(magnitude), ""});
  return std::optional<Module>(std::move(fused));
}

Result<void> swap_module_halves(const Work& work, Module& module) { return swap_halves(work, module); }

}  // namespace tftf::converting
