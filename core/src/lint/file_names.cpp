#include "lint/file_names.h"

#include <algorithm>
#include <iterator>

#include "tftf/lint/linter.h"

namespace tftf {
namespace {

constexpr std::string_view kWeightsEnd = ".safetensors";
constexpr std::string_view kIndex = ".safetensors.index";
constexpr std::string_view kJson = ".json";
constexpr std::string_view kStems[] = {"model", "diffusion_pytorch_model", "adapter_model"};

}  // namespace

std::string fold_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

bool is_index_name(std::string_view name) { return parse_index_name(name).has_value(); }

std::vector<std::pair<std::string, std::string>> families_of(const IndexName& index) {
  const std::string stem(index.stem);
  const std::string variant(index.variant);
  if (variant.empty()) return {{stem, ""}};
  return {{stem, variant}, {stem + "." + variant, ""}};
}

std::string family_index_name(std::string_view prefix, std::string_view variant) {
  std::string name = std::string(prefix) + std::string(kIndex);
  if (!variant.empty()) name += "." + std::string(variant);
  return name + std::string(kJson);
}

std::string single_file_name(const IndexName& index) {
  std::string name(index.stem);
  if (!index.variant.empty()) name += "." + std::string(index.variant);
  return name + std::string(kWeightsEnd);
}

std::optional<std::string_view> weight_variant(std::string_view name, std::string_view extension) {
  if (!ends_with(name, extension)) return std::nullopt;
  name.remove_suffix(extension.size());
  std::string_view variant;
  if (auto shard = parse_shard_numbers(name)) {
    name = shard->prefix;
  } else if (const size_t dot = name.rfind('.'); dot != std::string_view::npos) {
    variant = name.substr(dot + 1);
    name = name.substr(0, dot);
    if (auto numbered = parse_shard_numbers(name)) name = numbered->prefix;
  }
  if (variant.empty()) {
    if (const size_t dot = name.find('.'); dot != std::string_view::npos) {
      variant = name.substr(dot + 1);
      name = name.substr(0, dot);
    }
  }
  if (std::find(std::begin(kStems), std::end(kStems), name) == std::end(kStems)) return std::nullopt;
  if (variant.find('.') != std::string_view::npos) return std::nullopt;
  return variant;
}

}  // namespace tftf
