// Modules of an adapter in the form that its base has: experts from one pair each to one pair for all, and back (spec
// experts 6.2, 6.3).
#include "adapter/fit_experts.h"

#include <algorithm>
#include <memory>
#include <set>

#include "tftf/base/escape.h"

namespace tftf::fitting {

void put_cut(AdapterRecipe& into, const Cut& cut, uint64_t rows, uint64_t cols, const Place& place) {
  into.pieces.push_back({.source = cut.source,
                         .width = cut.width,
                         .row = cut.row,
                         .col = cut.col,
                         .rows = rows,
                         .cols = cols,
                         .to_row = place.row,
                         .to_col = place.col,
                         .transposed = cut.transposed,
                         .row_step = cut.row_step,
                         .col_step = cut.col_step,
                         .to_row_step = place.row_step,
                         .to_col_step = place.col_step});
}

ExpertForm ExpertFit::wanted(const BaseExperts* there, ExpertForm own) const {
  if (input.options.experts) return *input.options.experts;
  if (there == nullptr) return own;
  return there->split ? ExpertForm::kSplit : ExpertForm::kFused;
}

Result<double> ExpertFit::scale_of(const std::string& path, uint64_t rank) const {
  return input.targeting->scale(path, rank);
}

Result<double> ExpertFit::alpha_of(const std::string& path, uint64_t rank, uint64_t new_rank) const {
  if (input.config.use_rslora) {
    auto scale = scale_of(path, rank);
    if (!scale) return scale;
    return *scale * static_cast<double>(new_rank);
  }
  auto alpha = input.targeting->alpha(path);
  if (!alpha) return std::move(alpha).error();
  const double is = alpha->value_or(static_cast<double>(rank));
  return new_rank == rank ? is : is * (static_cast<double>(new_rank) / static_cast<double>(rank));
}

Result<void> ExpertFit::keep(const Unit& unit) {
  const FactorPair& pair = unit.pairs.front();
  const uint64_t rank = input.info(pair.a).shape[0];
  auto alpha = alpha_of(unit.own, rank, rank);
  if (!alpha) return std::move(alpha).error();
  pairs.push_back({.path = unit.path,
                   .a = stored_recipe(input.adapter, pair.a),
                   .b = stored_recipe(input.adapter, pair.b),
                   .rank = rank,
                   .alpha = *alpha});
  return {};
}

namespace {

// Sorts units: plain modules stay, experts go to the functions of their form.
class UnitSorter {
 public:
  explicit UnitSorter(ExpertFit& fit) : fit_(fit) {}

  Result<void> sort() {
    bool any = false;
    for (const Unit& unit : fit_.input.units) {
      const auto name = expert_of(unit);
      any = any || unit.flat || name.has_value();
      if (unit.flat) {
        if (!name) return not_experts(unit);
        TFTF_TRY(fit_flat_experts(fit_, unit, *name));
      } else if (name) {
        TFTF_TRY(collect(unit, *name));
      } else {
        TFTF_TRY(fit_.keep(unit));
      }
    }
    if (!any && fit_.input.options.experts) {
      return fit_error(fit_.input, ErrorCode::kRefusedMissing,
                       "The adapter adapts no experts, so there is nothing to bring to the form " +
                           std::string(expert_form_text(*fit_.input.options.experts)) + ".");
    }
    for (const SplitExperts& set : sets_) TFTF_TRY(fit_split_experts(fit_, set));
    return {};
  }

 private:
  std::optional<ExpertName> expert_of(const Unit& unit) {
    if (!fit_.entry) return std::nullopt;
    for (const ExpertKind& kind : fit_.entry->experts()) {
      // The answer's views point into the name.
      auto held = std::make_unique<std::string>(unit.flat ? unit.path + "." + std::string(kind.fused_up)
                                                          : unit.path + ".weight");
      const auto name = parse_expert_name({&kind, 1}, *held);
      const ExpertName::What wanted = unit.flat ? ExpertName::What::kFused : ExpertName::What::kSplit;
      if (!name || name->what != wanted) continue;
      held_.push_back(std::move(held));
      return name;
    }
    return std::nullopt;
  }

  Error not_experts(const Unit& unit) const {
    return fit_error(
        fit_.input, ErrorCode::kRefusedUnsupported,
        "Module " + quote_name(unit.own) + " has pairs for parameters (target_parameters), and " +
            (fit_.entry ? "is no container of experts of the model type."
                        : "the model type, which tells what they are, is not known; --model-type names it."),
        unit.own);
  }

  Result<void> collect(const Unit& unit, const ExpertName& name) {
    const std::string container = std::string(name.prefix) + std::string(name.kind->split_at(name.under));
    const auto [at, fresh] = set_of_.emplace(container, sets_.size());
    if (fresh) sets_.push_back({name.kind, std::string(name.prefix), name.under, container});
    const auto number = json_unsigned(name.number);
    if (!number || (name.number.size() > 1 && name.number[0] == '0') || *number >= UINT32_MAX) {
      return fit_error(
          fit_.input, ErrorCode::kRefusedShape,
          "Expert number " + quote_name(name.number) + " of " + quote_name(unit.own) + " is no plain number.",
          unit.own);
    }
    sets_[at->second].experts[*number][static_cast<size_t>(name.part)] = &unit;
    return {};
  }

  ExpertFit& fit_;
  std::vector<SplitExperts> sets_;  // in the order in which they come up
  std::map<std::string, size_t> set_of_;
  std::vector<std::unique_ptr<std::string>> held_;
};

}  // namespace

Result<std::optional<std::vector<FittedPair>>> form_experts(Input& input, const FitBase* base,
                                                            const std::optional<ModelEntry>& entry) {
  ExpertFit fit{.input = input, .base = base, .entry = entry};
  if (entry) fit.names.emplace(*entry);
  TFTF_TRY(UnitSorter(fit).sort());
  if (fit.pending) return std::optional<std::vector<FittedPair>>();
  std::set<std::pair<std::string, std::string>> seen;
  for (const FittedPair& pair : fit.pairs) {
    if (seen.emplace(pair.path, pair.parameter).second) continue;
    return fit_error(input, ErrorCode::kRefusedCollision,
                     "Two pairs of the adapter become those of " + quote_name(pair.path) +
                         ": it has the experts in both forms.",
                     pair.path);
  }
  return std::optional(std::move(fit.pairs));
}

}  // namespace tftf::fitting
