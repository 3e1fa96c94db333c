// Rows whose names differ in numbers only, joined.
#include <unordered_map>

#include "tftf/base/affix.h"
#include "tftf/inspect/info.h"

namespace tftf {
namespace {

// Numbers that are whole components become '#'. Components are cut at '.' and ':'; in names that write their
// path with underscores (kohya's and home-made ones) at '_' too, up to the first dot.
std::string fold_name(std::string_view name) {
  bool underscores = false;
  for (std::string_view begin : {"lora_", "lycoris_", "w_a_", "w_b_", "Hunyuan_"})
    underscores = underscores || name.substr(0, begin.size()) == begin;
  std::string out;
  out.reserve(name.size());
  bool start = true;
  for (size_t at = 0; at < name.size();) {
    size_t end = at;
    while (end < name.size() && is_digit(name[end])) ++end;
    auto cuts = [&](char c) { return c == '.' || c == ':' || (underscores && c == '_'); };
    if (start && end > at && (end == name.size() || cuts(name[end]))) {
      out += '#';
      at = end;
      start = false;
      continue;
    }
    start = cuts(name[at]);
    if (name[at] == '.') underscores = false;
    out += name[at++];
  }
  return out;
}

}  // namespace

std::vector<FoldedRow> fold_rows(const ModelInfo& info, const std::vector<const TensorRow*>& rows) {
  std::vector<FoldedRow> out;
  std::unordered_map<std::string, size_t> places;
  for (const TensorRow* row : rows) {
    const TensorInfo& stored = info.checkpoint->info(row->tensor);
    std::string pattern = fold_name(stored.name);
    // Dtype and shape are part of the key: one pattern may need several rows.
    std::string key = pattern;
    key.append("\0", 1).append(dtype_name(stored.dtype)).append(shape_text(stored.shape));
    const auto [place, fresh] = places.emplace(std::move(key), out.size());
    if (fresh) out.push_back({stored.name, 0, stored.dtype, stored.shape, 0});
    FoldedRow& folded = out[place->second];
    if (++folded.count == 2) folded.pattern = std::move(pattern);
    folded.bytes += stored.bytes();
  }
  return out;
}

}  // namespace tftf
