#include "lint/adapter/lora_names.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "lint/file_names.h"

namespace tftf {
namespace {

constexpr std::string_view kParts[] = {"lora_A",    "lora_B",  "lora_embedding_A",     "lora_embedding_B",
                                       "lora_down", "lora_up", "lora_magnitude_vector"};

// What follows PART: nothing, ".weight", ".bias", ".NAME", ".NAME.weight" or ".NAME.bias".
bool parse_rest(std::string_view rest, LoraName& name) {
  if (rest.empty()) return true;
  rest.remove_prefix(1);
  auto is_leaf = [&](std::string_view leaf) {
    name.bias = leaf == "bias";
    return leaf == "weight" || leaf == "bias";
  };
  if (is_leaf(rest)) return true;
  const size_t dot = rest.find('.');
  name.adapter = rest.substr(0, dot);
  return !name.adapter.empty() && (dot == std::string_view::npos || is_leaf(rest.substr(dot + 1)));
}

bool is_factor(const LoraName& name) { return name.part != LoraPart::kMagnitude; }

LoraKind kind_of(LoraPart part) {
  if (part == LoraPart::kDown || part == LoraPart::kUp) return LoraKind::kFlat;
  return part == LoraPart::kA || part == LoraPart::kB ? LoraKind::kLinear : LoraKind::kEmbedding;
}

bool is_first(LoraPart part) {
  return part == LoraPart::kA || part == LoraPart::kEmbeddingA || part == LoraPart::kDown;
}

auto key_of(const LoraPair& pair) { return std::tie(pair.module, pair.adapter, pair.kind); }

std::optional<uint64_t> dimension(const TensorInfo* tensor, size_t axis) {
  if (!tensor || tensor->shape.size() <= axis) return std::nullopt;
  return tensor->shape[axis];
}

}  // namespace

std::string_view lora_part_name(LoraPart part) { return kParts[static_cast<size_t>(part)]; }

std::optional<LoraName> parse_lora_name(std::string_view tensor) {
  constexpr std::string_view kMark = ".lora_";
  for (size_t at = tensor.rfind(kMark); at != std::string_view::npos;
       at = at == 0 ? std::string_view::npos : tensor.rfind(kMark, at - 1)) {
    const std::string_view tail = tensor.substr(at + 1);
    const std::string_view part = tail.substr(0, tail.find('.'));
    const auto found = std::find(std::begin(kParts), std::end(kParts), part);
    if (found == std::end(kParts)) continue;
    LoraName name;
    name.part = static_cast<LoraPart>(found - std::begin(kParts));
    name.module = tensor.substr(0, at);
    if (name.module.empty() || !parse_rest(tail.substr(part.size()), name)) return std::nullopt;
    return name;
  }
  return std::nullopt;
}

std::string_view without_peft_prefix(std::string_view module) {
  if (starts_with(module, kPeftPrefix)) module.remove_prefix(kPeftPrefix.size());
  return module;
}

std::optional<uint64_t> LoraPair::rank_a() const { return dimension(a, 0); }
std::optional<uint64_t> LoraPair::rank_b() const { return dimension(b, 1); }

LoraTensors find_lora_tensors(const Header& header) {
  std::vector<const TensorInfo*> by_name;
  by_name.reserve(header.tensors.size());
  for (const TensorInfo& tensor : header.tensors) by_name.push_back(&tensor);
  std::sort(by_name.begin(), by_name.end(),
            [](const TensorInfo* a, const TensorInfo* b) { return a->name < b->name; });

  LoraTensors out;
  for (const TensorInfo* tensor : by_name) {
    const std::optional<LoraName> name = parse_lora_name(tensor->name);
    if (!name) {
      out.others.push_back(tensor);
      continue;
    }
    if (!is_factor(*name)) {
      out.magnitudes.push_back(tensor);
      continue;
    }
    out.factors.push_back(tensor);
    if (name->bias) continue;
    LoraPair& pair = out.pairs.emplace_back();
    pair.module = name->module;
    pair.adapter = name->adapter;
    pair.kind = kind_of(name->part);
    (is_first(name->part) ? pair.a : pair.b) = tensor;
    std::string_view& first = pair.kind == LoraKind::kFlat ? out.first_flat : out.first_peft;
    if (first.empty()) first = tensor->name;
  }
  std::stable_sort(out.pairs.begin(), out.pairs.end(),
                   [](const LoraPair& a, const LoraPair& b) { return key_of(a) < key_of(b); });
  size_t kept = 0;
  for (const LoraPair& pair : out.pairs) {
    if (kept > 0 && key_of(out.pairs[kept - 1]) == key_of(pair)) {
      LoraPair& whole = out.pairs[kept - 1];
      if (!whole.a) whole.a = pair.a;
      if (!whole.b) whole.b = pair.b;
      continue;
    }
    out.pairs[kept++] = pair;
  }
  out.pairs.resize(kept);
  for (const LoraPair& pair : out.pairs)
    if (out.modules.empty() || out.modules.back() != pair.module) out.modules.push_back(pair.module);
  return out;
}

bool is_alpha_name(const LoraTensors& tensors, std::string_view name) {
  constexpr std::string_view kAlpha = ".alpha";
  if (!ends_with(name, kAlpha)) return false;
  return starts_with(name, "lora_") || std::binary_search(tensors.modules.begin(), tensors.modules.end(),
                                                          name.substr(0, name.size() - kAlpha.size()));
}

bool has_lora_factors(const Header& header) {
  return std::any_of(header.tensors.begin(), header.tensors.end(), [](const TensorInfo& tensor) {
    const std::optional<LoraName> name = parse_lora_name(tensor.name);
    return name && is_factor(*name);
  });
}

}  // namespace tftf
