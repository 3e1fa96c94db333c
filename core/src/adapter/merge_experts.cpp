// Pairs of stacked parameters find theirs (spec experts 6.1), also where the base keeps its experts one by one (6.3).
#include <algorithm>

#include "adapter/merge_names.h"
#include "adapter/merge_parts.h"
#include "adapter/merge_resolver.h"
#include "adapter/stack_choice.h"
#include "tftf/base/escape.h"

namespace tftf::merging {
namespace {

constexpr uint64_t kMostExperts = 1 << 20;

// How experts that are stored one by one are called: gate, up, down.
struct SplitNames {
  std::string_view gate, up, down;
};
constexpr SplitNames kSplitNames[] = {{"gate_proj", "up_proj", "down_proj"}, {"w1", "w3", "w2"}};

std::string_view last_component(std::string_view name) { return name.substr(name.rfind('.') + 1); }

StackedPair stacked_pair(const ModuleParts& parts) {
  const TensorData *a = parts.find(PeftPart::kLoraA), *b = parts.find(PeftPart::kLoraB);
  if (a == nullptr || b == nullptr || a->shape.size() != 2 || b->shape.size() != 2 ||
      a->shape[0] != b->shape[1])
    return {};
  return {.rows = a->shape[0], .in = a->shape[1], .out = b->shape[0]};
}

std::vector<StackedPair> stacked_pairs(const Resolver::Wrappers& wrappers) {
  std::vector<StackedPair> pairs;
  for (const ModuleParts* parts : wrappers) pairs.push_back(stacked_pair(*parts));
  return pairs;
}

std::string pair_shapes(const Resolver::Wrappers& wrappers) {
  std::string text;
  for (const ModuleParts* parts : wrappers)
    for (const auto& [part, tensor] : parts->parts)
      text += (text.empty() ? "" : ", ") + std::string(peft_part_name(part)) + " " +
              shape_text(tensor->data.shape);
  return text;
}

std::string parameter_shapes(const std::vector<StackParameter>& parameters) {
  std::string text;
  for (const StackParameter& parameter : parameters)
    text += (text.empty() ? "" : ", ") + quote_name(parameter.name) + " " + shape_text(parameter.shape);
  return text;
}

// Only what the option says about stacked parameters; matrices lie as they do.
bool lies_so(const StackChoice& choice, Axes axes) { return choice.turned == (axes == Axes::kInOut); }

}  // namespace

std::optional<size_t> Resolver::parameter_entry(std::string_view name) const {
  const auto& entries = config_.target_parameters;
  for (size_t i = 0; i < entries.size(); ++i)
    if (ends_with_component(name, entries[i])) return i;
  return std::nullopt;
}

bool Resolver::owns_parameter(std::string_view own) const {
  return std::any_of(
      config_.target_parameters.begin(), config_.target_parameters.end(), [&](const std::string& entry) {
        const size_t dot = entry.rfind('.');
        return dot == std::string::npos || ends_with_component(own, std::string_view(entry).substr(0, dot));
      });
}

Result<std::vector<StackParameter>> Resolver::stack_parameters(
    const std::vector<std::pair<std::string, Shape>>& named) const {
  std::vector<StackParameter> parameters;
  for (const auto& [name, shape] : named) {
    StackParameter parameter{.name = name, .shape = shape, .entry = parameter_entry(name).value_or(0)};
    if (config_.present) {
      auto rank = targeting_->rank(name);
      if (!rank) return std::move(rank).error();
      parameter.rank = static_cast<uint64_t>(rank->value_or(kDefaultRank));
    }
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

StoredAxes Resolver::axes_of_container(const std::string& module) const {
  const auto shape = [&](std::string_view parameter) {
    const auto at = by_name_.find(joined(module, parameter));
    return at == by_name_.end() ? Shape{} : *base_[at->second].shape;
  };
  const StoredAxes axes = axes_of_shapes(shape("gate_up_proj"), shape("down_proj"));
  return axes == StoredAxes::kUnknown ? stored_expert_axes(model_.types) : axes;
}

Result<StackChoice> Resolver::choose_stack(const Wrappers& wrappers,
                                           const std::vector<StackParameter>& parameters, StoredAxes axes) {
  const std::string& name = wrappers.front()->first_name();
  const std::vector<StackedPair> pairs = stacked_pairs(wrappers);
  if (pairs.size() > kMostStackedPairs || parameters.size() > kMostStackParameters)
    return form_error(ErrorCode::kRefusedUnsupported, context_, name,
                      "is of a module with " + counted(pairs.size(), "pair") + " and " +
                          counted(parameters.size(), "parameter") + ", more than can be told apart");
  std::vector<StackChoice> choices = stack_choices(pairs, parameters);
  if (choices.empty()) {
    std::vector<StackParameter> any_rank = parameters;
    for (StackParameter& parameter : any_rank) parameter.rank = 0;
    const bool by_rank = !stack_choices(pairs, any_rank).empty();
    return form_error(
        ErrorCode::kRefusedShape, context_, name,
        "and the other pairs of its module fit the parameters " + parameter_shapes(parameters) +
            (by_rank ? " with another rank than " + quote_name(config_.file) + " says"
                     : std::string(" in no way, each with one of its own and all the same way round")) +
            " (" + pair_shapes(wrappers) + ")",
        parameter_shapes(parameters), pair_shapes(wrappers));
  }
  const auto keep = [&](auto wanted) {
    choices.erase(
        std::remove_if(choices.begin(), choices.end(), [&](const StackChoice& c) { return !wanted(c); }),
        choices.end());
  };
  const auto both_ways = [&] {
    return std::any_of(choices.begin(), choices.end(), [](const StackChoice& c) { return c.turned; }) &&
           std::any_of(choices.begin(), choices.end(), [](const StackChoice& c) { return !c.turned; });
  };
  const std::vector<StackChoice> all = choices;
  if (both_ways()) {
    if (options_.expert_axes) {
      keep([&](const StackChoice& c) { return lies_so(c, *options_.expert_axes); });
    } else if (axes == StoredAxes::kOutIn && reads_stacks_straight(config_.peft_version)) {
      keep([](const StackChoice& c) { return !c.turned; });
    } else {
      return form_error(
          ErrorCode::kRefusedAmbiguous, context_, name,
          "fits " + parameter_shapes(parameters) +
              " both ways round, and neither another parameter of the module nor PEFT's version tells "
              "which is meant; --expert-axes out-in (or in-out) says how the parameter is stored");
    }
  } else if (options_.expert_axes && !lies_so(choices.front(), *options_.expert_axes) &&
             std::any_of(parameters.begin(), parameters.end(),
                         [](const StackParameter& p) { return p.shape.size() == 3; })) {
    result_.notices.push_back("--expert-axes is not needed for " + quote_name(wrappers.front()->module) +
                              ": the shapes tell that its parameters lie the other way.");
  }
  if (choices.size() > 1 && options_.parameters_in_order) {
    // Wrappers from the innermost on, parameters as they are listed.
    keep([&](const StackChoice& c) {
      for (size_t i = 0; i + 1 < wrappers.size(); ++i)
        for (size_t j = i + 1; j < wrappers.size(); ++j) {
          const bool inner = wrappers[i]->nesting > wrappers[j]->nesting;
          if (inner != (parameters[c.parameters[i]].entry < parameters[c.parameters[j]].entry)) return false;
        }
      return true;
    });
  }
  if (choices.size() == 1) return choices.front();
  return form_error(
      ErrorCode::kRefusedAmbiguous, context_, name,
      "fits several parameters alike: " + parameter_shapes(parameters) +
          (options_.parameters_in_order
               ? "; their order in target_parameters does not tell, either"
               : "; --parameters-in-order takes the innermost pair for the first of target_parameters"));
}

Result<void> Resolver::place_stacks(const Wrappers& wrappers, const std::vector<uint32_t>& candidates) {
  const std::string& module = wrappers.front()->module;
  std::vector<std::pair<std::string, Shape>> named;
  for (const uint32_t i : candidates)
    named.emplace_back(joined(wrappers.front()->own, last_component(base_[i].name)), *view(i).shape);
  auto parameters = stack_parameters(named);
  if (!parameters) return std::move(parameters).error();
  auto choice = choose_stack(wrappers, *parameters, axes_of_container(module));
  if (!choice) return std::move(choice).error();
  for (size_t p = 0; p < wrappers.size(); ++p) {
    const size_t taken = choice->parameters[p];
    TFTF_TRY(place_program(*wrappers[p], candidates[taken], [&](const TensorView& base) {
      return parameter_program(context_, *wrappers[p], base, (*parameters)[taken].name,
                               choice->turned && base.shape->size() == 3);
    }));
    ++result_.merged;
  }
  return {};
}

std::optional<Resolver::SplitExperts> Resolver::find_split_experts(const std::string& module) const {
  for (const SplitNames& names : kSplitNames) {
    const auto weight = [&](uint64_t expert, std::string_view part) {
      const auto at =
          by_name_.find(module + "." + std::to_string(expert) + "." + std::string(part) + ".weight");
      return at == by_name_.end() ? std::optional<uint32_t>() : at->second;
    };
    SplitExperts found;
    for (uint64_t e = 0; e < kMostExperts; ++e) {
      const auto gate = weight(e, names.gate), up = weight(e, names.up), down = weight(e, names.down);
      if (!up || !down || (e > 0 && gate.has_value() != found.gated())) break;
      if (gate) found.gate.push_back(*gate);
      found.up.push_back(*up);
      found.down.push_back(*down);
    }
    if (!found.up.empty()) return found;
  }
  return std::nullopt;
}

Result<void> Resolver::place_on_split_experts(const Wrappers& wrappers, const SplitExperts& experts) {
  const std::string& module = wrappers.front()->module;
  if (!options_.fit) {
    return form_error(ErrorCode::kRefusedUnmatched, context_, wrappers.front()->first_name(),
                      "is of experts in one tensor, and the base has " +
                          counted(experts.up.size(), "single expert") + " below " + quote_name(module) +
                          "; --fit splits the pairs over them");
  }
  const Shape &up = *view(experts.up[0]).shape, &down = *view(experts.down[0]).shape;
  if (up.size() != 2 || down.size() != 2 || up[0] > UINT64_MAX / 2)
    return refuse(ErrorCode::kRefusedShape,
                  "cannot be split over the experts of " + quote_name(module) + ": they are no matrices");
  const uint64_t count = experts.up.size();
  std::vector<std::pair<std::string, Shape>> named;
  for (const std::string& entry : config_.target_parameters) {
    const std::string name = joined(wrappers.front()->own, last_component(entry));
    if (!ends_with_component(name, entry)) continue;
    const std::string_view parameter = last_component(entry);
    const bool above = parameter == (experts.gated() ? "gate_up_proj" : "up_proj");
    if (!above && parameter != "down_proj") {
      return form_error(ErrorCode::kRefusedUnmatched, context_, wrappers.front()->first_name(),
                        "is of a module whose parameter " + quote_name(name) +
                            " is no matrix of the base's single experts");
    }
    named.emplace_back(name, above ? Shape{count, experts.gated() ? 2 * up[0] : up[0], up[1]}
                                   : Shape{count, down[0], down[1]});
  }
  auto parameters = stack_parameters(named);
  if (!parameters) return std::move(parameters).error();
  // The matrices of single experts are (out, in).
  auto choice = choose_stack(wrappers, *parameters, StoredAxes::kOutIn);
  if (!choice) return std::move(choice).error();
  for (size_t p = 0; p < wrappers.size(); ++p) {
    const std::string& path = (*parameters)[choice->parameters[p]].name;
    const auto place_all = [&](const std::vector<uint32_t>& weights, uint64_t row,
                               uint64_t step) -> Result<void> {
      for (uint64_t e = 0; e < weights.size(); ++e) {
        TFTF_TRY(place_program(*wrappers[p], weights[static_cast<size_t>(e)], [&](const TensorView& base) {
          return expert_program(
              context_, *wrappers[p], base, path,
              {.matrices = count, .expert = e, .turned = choice->turned, .row = row, .step = step});
        }));
      }
      return {};
    };
    if (last_component(path) == "down_proj") {
      TFTF_TRY(place_all(experts.down, 0, 1));
    } else if (!experts.gated()) {
      TFTF_TRY(place_all(experts.up, 0, 1));
    } else {
      const bool woven = interleaves_gate(model_.types);
      TFTF_TRY(place_all(experts.gate, 0, woven ? 2 : 1));
      TFTF_TRY(place_all(experts.up, woven ? 1 : up[0], woven ? 2 : 1));
    }
    ++result_.merged;
  }
  result_.notices.push_back("The experts that the adapter holds in one tensor are split over the " +
                            counted(count, "single expert") + " of " + quote_name(module) + ".");
  return {};
}

}  // namespace tftf::merging
