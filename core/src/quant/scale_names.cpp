// Finds scales by their names.
#include "quant/scale_names.h"

namespace tftf {
namespace {

constexpr std::string_view kWord = "scale";

}  // namespace

void ScaleNames::add(std::string_view name, DType dtype) {
  if (!is_floating(dtype) && dtype != DType::U8) return;
  const size_t dot = name.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? name : name.substr(dot + 1);
  const size_t at = last.find(kWord);
  if (at == std::string_view::npos) return;
  // What stands before the last name, a module or a tensor; "" for names without a dot.
  by_owner_.emplace(dot == std::string_view::npos ? std::string_view() : name.substr(0, dot), name);
  // "X_scale…": the tensor X.
  const size_t word = name.size() - last.size() + at;
  if (at > 1 && name[word - 1] == '_') by_owner_.emplace(name.substr(0, word - 1), name);
}

std::optional<std::string_view> ScaleNames::beside(std::string_view name) const {
  const auto found = [&](std::string_view owner) -> std::optional<std::string_view> {
    const auto at = by_owner_.find(owner);
    if (at == by_owner_.end() || at->second == name) return std::nullopt;
    return at->second;
  };
  if (const auto own = found(name)) return own;
  // A module's scale is that of its weight, whatever else the module holds.
  constexpr std::string_view kWeight = "weight";
  const size_t dot = name.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? name : name.substr(dot + 1);
  if (last.find(kWeight) == std::string_view::npos) return std::nullopt;
  return found(dot == std::string_view::npos ? std::string_view() : name.substr(0, dot));
}

}  // namespace tftf
