// Reads an adapter that is to be fitted.
#include <algorithm>

#include "adapter/fit_modules.h"
#include "adapter/merge_names.h"
#include "tftf/adapter/peft_key.h"
#include "tftf/adapter/scales.h"
#include "tftf/base/escape.h"

namespace tftf::fitting {
namespace {

Error not_a_pair(const Input& input, const std::string& name, PeftPart part) {
  const std::string_view word = peft_part_name(part);
  const std::string what = part == PeftPart::kMagnitude ? "a magnitude of DoRA (lora_magnitude_vector)"
                           : word.empty()               ? std::string("a whole tensor")
                                                        : "a part " + quote_name(word);
  return fit_error(input, ErrorCode::kRefusedUnsupported,
                   "Adapter tensor " + quote_name(name) + " is " + what +
                       "; only pairs of lora_A and lora_B can be fitted to a base.",
                   name);
}

struct Halves {
  std::optional<TensorRef> a{}, b{};
};

// The last component of the names of a container's parameters that the configuration adapts.
bool adapts_parameters(const PeftConfig& config, std::string_view module) {
  return std::any_of(config.target_parameters.begin(), config.target_parameters.end(),
                     [&](const std::string& entry) {
                       const size_t dot = entry.rfind('.');
                       return dot != std::string::npos &&
                              merging::ends_with_component(module, std::string_view(entry).substr(0, dot));
                     });
}

Result<void> check_pair(const Input& input, const Unit& unit, const FactorPair& pair) {
  const TensorInfo &a = input.info(pair.a), &b = input.info(pair.b);
  if (a.shape.size() == 2 && b.shape.size() == 2 && a.shape[0] == b.shape[1] && a.shape[0] > 0 &&
      a.dtype == b.dtype && is_floating(a.dtype) && dtype_bits(a.dtype) >= 16)
    return {};
  return fit_error(input, ErrorCode::kRefusedShape,
                   "The factors of " + quote_name(unit.own) +
                       " are no pair of matrices with one rank and dtype: lora_A " +
                       std::string(dtype_name(a.dtype)) + " " + shape_text(a.shape) + ", lora_B " +
                       std::string(dtype_name(b.dtype)) + " " + shape_text(b.shape) + ".",
                   a.name);
}

// Of a module that is adapted as a whole: what its tensors have and what the configuration says.
Result<void> check_rank(const Input& input, const Unit& unit) {
  const uint64_t rank = input.info(unit.pairs.front().a).shape[0];
  auto configured = input.targeting->rank(unit.own);
  if (!configured) return std::move(configured).error();
  if (!*configured || static_cast<uint64_t>(**configured) == rank) return {};
  return fit_error(input, ErrorCode::kRefusedShape,
                   "The factors of " + quote_name(unit.own) + " have rank " + std::to_string(rank) +
                       ", and " + quote_name(input.config.file) + " says " + std::to_string(**configured) +
                       "; they do not fit.",
                   input.info(unit.pairs.front().a).name);
}

Result<void> read_config(Input& input) {
  constexpr std::string_view kFile = "adapter_config.json";
  const JsonValue* config = adapter_config_of(input.adapter);
  if (config == nullptr) {
    return fit_error(input, ErrorCode::kRefusedMissing,
                     "There is no adapter_config.json beside " + quote_name(input.file()) +
                         ", which says rank and scale; an adapter is fitted with its configuration only.");
  }
  Result<PeftConfig> read = read_peft_config(kFile, *config);
  if (!read) return std::move(read).error();
  input.config = *std::move(read);
  const std::string refused = input.config.method != PeftMethod::kLora
                                  ? "is of the method " + std::string(peft_method_name(input.config.method))
                              : input.config.use_dora       ? std::string("uses DoRA (lora_magnitude_vector)")
                              : input.config.fan_in_fan_out ? std::string("has fan_in_fan_out")
                                                            : std::string();
  if (!refused.empty())
    return fit_error(
        input, ErrorCode::kRefusedUnsupported,
        "Adapter " + quote_name(input.file()) + " " + refused + "; only plain LoRA can be fitted to a base.");
  Result<Targeting> targeting = Targeting::compile(input.config);
  if (!targeting) return std::move(targeting).error();
  input.targeting.emplace(*std::move(targeting));
  return {};
}

}  // namespace

Error fit_error(const Input& input, ErrorCode code, std::string message, std::string_view tensor) {
  return {.code = code, .message = std::move(message), .file = input.file(), .tensor = std::string(tensor)};
}

Result<void> read_units(Input& input) {
  std::map<std::string, std::map<uint32_t, Halves>> modules;
  std::vector<std::string> order;
  for (const TensorRef ref : input.adapter.order) {
    const std::string& name = input.info(ref).name;
    const PeftKey key = parse_peft_key(name);
    const bool factor = key.part == PeftPart::kLoraA || key.part == PeftPart::kLoraB;
    if (!factor || !key.adapter.empty()) return not_a_pair(input, name, key.part);
    const std::string module = merging::without_wrappers(key.module);
    const auto [at, fresh] = modules.try_emplace(module);
    if (fresh) order.push_back(module);
    std::optional<TensorRef>& half =
        key.part == PeftPart::kLoraA ? at->second[key.nesting].a : at->second[key.nesting].b;
    if (half) {
      return fit_error(input, ErrorCode::kRefusedCollision,
                       "Adapter tensors " + quote_name(input.info(*half).name) + " and " + quote_name(name) +
                           " are the same factor of one module.",
                       name);
    }
    half = ref;
  }
  // After the names: what is no LoRA says so by them, too.
  TFTF_TRY(read_config(input));
  for (const std::string& module : order) {
    Unit unit{.own = module, .path = module};
    for (const auto& [nesting, halves] : modules.at(module)) {
      if (!halves.a || !halves.b) {
        const std::string& there = input.info(halves.a ? *halves.a : *halves.b).name;
        return fit_error(input, ErrorCode::kRefusedMissing,
                         "The factor " + quote_name(there) + " has no twin: " +
                             (halves.a ? "lora_B" : "lora_A") + " of " + quote_name(module) + " is missing.",
                         there);
      }
      unit.pairs.push_back({*halves.a, *halves.b, nesting});
      TFTF_TRY(check_pair(input, unit, unit.pairs.back()));
    }
    unit.flat =
        unit.pairs.size() > 1 || unit.pairs.front().nesting > 0 || adapts_parameters(input.config, module);
    if (!unit.flat) TFTF_TRY(check_rank(input, unit));
    input.units.push_back(std::move(unit));
  }
  if (input.units.empty())
    return fit_error(input, ErrorCode::kRefusedInput,
                     "Adapter " + quote_name(input.file()) + " has no factors.");
  return {};
}

}  // namespace tftf::fitting
