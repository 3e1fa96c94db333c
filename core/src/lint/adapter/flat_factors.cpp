#include "lint/adapter/flat_factors.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "adapter/fit_flat.h"
#include "adapter/merge_names.h"
#include "tftf/adapter/peft_config.h"
#include "tftf/adapter/peft_key.h"
#include "tftf/adapter/targeting.h"
#include "tftf/base/affix.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

constexpr std::string_view kGated = "gate_up_proj", kUngated = "up_proj", kDown = "down_proj";

struct Factors {
  const TensorInfo* a = nullptr;
  const TensorInfo* b = nullptr;
};

std::optional<fitting::FlatPair> flat_pair(const Factors& factors) {
  if (factors.a == nullptr || factors.b == nullptr) return std::nullopt;
  const Shape &a = factors.a->shape, &b = factors.b->shape;
  if (a.size() != 2 || b.size() != 2 || a[0] != b[1]) return std::nullopt;  // other rules say so
  return fitting::FlatPair{a[0], a[1], b[0]};
}

// The parameters that are adapted in the module: which of those that stand for experts.
struct Adapted {
  bool gated = false, ungated = false, down = false;
};

Adapted adapted_in(const PeftConfig& config, std::string_view module) {
  Adapted adapted;
  for (const std::string& entry : config.target_parameters) {
    const size_t dot = entry.rfind('.');
    if (dot == std::string::npos ||
        !merging::ends_with_component(module, std::string_view(entry).substr(0, dot)))
      continue;
    const std::string_view parameter = std::string_view(entry).substr(dot + 1);
    adapted.gated = adapted.gated || parameter == kGated;
    adapted.ungated = adapted.ungated || parameter == kUngated;
    adapted.down = adapted.down || parameter == kDown;
  }
  return adapted;
}

uint64_t rank_of(const Targeting& targeting, const std::string& parameter) {
  const auto rank = targeting.rank(parameter);
  return rank && *rank && **rank > 0 ? static_cast<uint64_t>(**rank) : 0;
}

// E, F and H of the base's experts, where it has them in one tensor.
void take_sizes(const BaseModel* base, const std::string& module, fitting::FlatExperts& experts) {
  const auto stack = [&](std::string_view parameter) {
    const TensorInfo* tensor = base == nullptr ? nullptr : base->find(module + "." + std::string(parameter));
    return tensor != nullptr && tensor->shape.size() == 3 ? &tensor->shape : nullptr;
  };
  const Shape *up = stack(kGated), *down = stack(kDown);
  if (!experts.gated || up == nullptr || down == nullptr || (*up)[0] != (*down)[0]) return;
  experts.experts = (*up)[0];
  const auto twice = [](uint64_t whole, uint64_t half) { return whole % 2 == 0 && whole / 2 == half; };
  if ((*down)[1] == (*up)[2] && twice((*up)[1], (*down)[2])) {
    experts.inner = (*down)[2];
    experts.outer = (*up)[2];
  } else if ((*down)[2] == (*up)[1] && twice((*up)[2], (*down)[1])) {
    experts.inner = (*down)[1];
    experts.outer = (*up)[1];
  }
}

}  // namespace

void check_flat_factors(FindingList& list, const Header& header, const JsonValue& document,
                        const BaseModel* base) {
  const JsonValue* parameters = document.get("target_parameters");
  if (parameters == nullptr || !parameters->is_array()) return;
  const Result<PeftConfig> config = read_peft_config("adapter_config.json", document);
  if (!config || config->target_parameters.empty()) return;
  const Result<Targeting> targeting = Targeting::compile(*config);
  if (!targeting) return;
  std::map<std::string, std::map<uint32_t, Factors>> modules;
  for (const TensorInfo& tensor : header.tensors) {
    const PeftKey key = parse_peft_key(tensor.name);
    if (key.part != PeftPart::kLoraA && key.part != PeftPart::kLoraB) continue;
    Factors& factors = modules[key.module][key.nesting];
    (key.part == PeftPart::kLoraA ? factors.a : factors.b) = &tensor;
  }
  for (const auto& [module, wrappers] : modules) {
    const Adapted adapted = adapted_in(*config, module);
    if (!adapted.down && !adapted.gated && !adapted.ungated) continue;
    std::vector<fitting::FlatPair> pairs;
    std::string shapes;
    for (const auto& [nesting, factors] : wrappers) {
      const auto pair = flat_pair(factors);
      if (!pair) break;
      pairs.push_back(*pair);
      shapes += (shapes.empty() ? "A " : ", A ") + shape_text(factors.a->shape) + " B " +
                shape_text(factors.b->shape);
    }
    fitting::FlatExperts experts{.gated = adapted.gated || !adapted.ungated,
                                 .up = adapted.gated || adapted.ungated,
                                 .down = adapted.down};
    experts.up_rank = rank_of(*targeting, module + "." + std::string(experts.gated ? kGated : kUngated));
    experts.down_rank = rank_of(*targeting, module + "." + std::string(kDown));
    take_sizes(base, module, experts);
    // Where no configured rank divides the rows, LO004 says so.
    const bool ranked = std::all_of(pairs.begin(), pairs.end(), [&](const fitting::FlatPair& pair) {
      return (experts.up_rank != 0 && pair.rows % experts.up_rank == 0) ||
             (experts.down_rank != 0 && pair.rows % experts.down_rank == 0);
    });
    if (!ranked) continue;
    const bool tells = pairs.size() == 2 || (pairs.size() == 1 && experts.inner != 0);
    if (pairs.size() != wrappers.size() || !tells || !flat_readings(pairs, experts).empty()) continue;
    Diagnostic* finding = list.add(Rule::LO035);
    if (finding == nullptr) return;
    finding->subject = module;
    finding->values = {{"module", module}, {"shapes", std::move(shapes)}};
  }
}

}  // namespace tftf
