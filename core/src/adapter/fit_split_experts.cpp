// Pairs of single experts: kept, or put together where the base has one tensor of all (spec experts 6.2).
#include <algorithm>

#include "adapter/fit_experts.h"
#include "tftf/base/escape.h"

namespace tftf::fitting {
namespace {

// The type whose module says that its parameters lie (in, out).
constexpr std::string_view kDeclaresTransposed = "gpt_oss";

class SplitFit {
 public:
  explicit SplitFit(ExpertFit& fit) : fit_(fit) {}

  Result<void> place(const SplitExperts& set) {
    const BaseExperts* there = nullptr;
    if (fit_.base != nullptr) {
      there = fit_.base->container(set.prefix + std::string(set.kind->path[set.under]));
      if (there == nullptr) there = fit_.base->container(set.container);
    }
    if (fit_.wanted(there, ExpertForm::kSplit) == ExpertForm::kSplit) {
      for (const auto& [number, units] : set.experts)
        for (const ExpertName::Part part : kExpertParts) {
          const Unit* unit = units[static_cast<size_t>(part)];
          if (unit == nullptr) continue;
          TFTF_TRY(fit_.keep(*unit));
          if (there != nullptr)
            fit_.pairs.back().path = there->split_path + "." + std::to_string(number) + "." +
                                     std::string(expert_part_name(*set.kind, part));
        }
      return {};
    }
    return fuse(set, there);
  }

 private:
  Error uneven(const SplitExperts& set, ErrorCode code, const std::string& what,
               std::string_view tensor = "") const {
    return fit_error(fit_.input, code,
                     "The experts of " + quote_name(set.container) + " cannot be fused: " + what + ".",
                     tensor);
  }

  // All experts alike: returns rank and alpha.
  Result<std::pair<uint64_t, double>> check_alike(const SplitExperts& set, const BaseExperts* there) const {
    const uint64_t count = set.experts.rbegin()->first + 1;
    const uint64_t expected = there != nullptr && there->experts != 0 ? there->experts : count;
    if (set.experts.size() != expected || count != expected) {
      return uneven(set, ErrorCode::kRefusedMissing,
                    std::to_string(set.experts.size()) + " of " + std::to_string(expected) +
                        " are adapted, and one pair for all needs every one (" + std::to_string(expected) +
                        ")");
    }
    const auto& like = set.experts.begin()->second;
    std::optional<uint64_t> rank;
    double scale = 0, alpha = 0;
    for (const auto& [number, units] : set.experts) {
      for (const ExpertName::Part part : kExpertParts) {
        const Unit* unit = units[static_cast<size_t>(part)];
        const Unit* first = like[static_cast<size_t>(part)];
        const std::string where =
            "expert " + std::to_string(number) + " of part " + std::string(expert_part_name(*set.kind, part));
        if ((unit == nullptr) != (first == nullptr))
          return uneven(set, ErrorCode::kRefusedMissing,
                        where + " is adapted in some experts and not in all");
        if (unit == nullptr) continue;
        const TensorInfo& a = fit_.input.info(unit->pairs.front().a);
        const TensorInfo& b = fit_.input.info(unit->pairs.front().b);
        const uint64_t own = a.shape[0];
        auto own_scale = fit_.scale_of(unit->own, own);
        if (!own_scale) return std::move(own_scale).error();
        if (!rank) {
          rank = own;
          scale = *own_scale;
          auto own_alpha = fit_.alpha_of(unit->own, own, own);
          if (!own_alpha) return std::move(own_alpha).error();
          alpha = *own_alpha;
        }
        if (own != *rank)
          return uneven(set, ErrorCode::kRefusedShape,
                        where + " has rank " + std::to_string(own) + ", others " + std::to_string(*rank),
                        a.name);
        if (*own_scale != scale)
          return uneven(set, ErrorCode::kRefusedShape, where + " has another scale (alpha) than others",
                        a.name);
        const TensorInfo& first_a = fit_.input.info(first->pairs.front().a);
        const TensorInfo& first_b = fit_.input.info(first->pairs.front().b);
        if (a.shape != first_a.shape || b.shape != first_b.shape || a.dtype != dtype_of(set))
          return uneven(set, ErrorCode::kRefusedShape, where + " has another shape or dtype than others",
                        a.name);
      }
    }
    if (set.kind->gated() && (like[0] == nullptr) != (like[1] == nullptr)) {
      return uneven(set, ErrorCode::kRefusedMissing,
                    "only one of " + std::string(set.kind->gate) + " and " + std::string(set.kind->up) +
                        " is adapted, and they are one parameter");
    }
    return std::pair(*rank, alpha);
  }

  DType dtype_of(const SplitExperts& set) const {
    for (const Unit* unit : set.experts.begin()->second)
      if (unit != nullptr) return fit_.input.info(unit->pairs.front().a).dtype;
    return DType::F32;
  }

  // Whether gate and up of every expert have the same A, bit by bit.
  std::optional<bool> share_first(const SplitExperts& set) {
    bool known = true, same = true;
    for (const auto& [number, units] : set.experts) {
      const auto first = fit_.input.scans.digest(units[0]->pairs.front().a);
      const auto second = fit_.input.scans.digest(units[1]->pairs.front().a);
      if (!first || !second) {
        known = false;
      } else if (*first != *second || first->empty()) {
        same = false;
      }
    }
    if (!same) return false;
    return known ? std::optional(true) : std::nullopt;
  }

  Result<void> fuse(const SplitExperts& set, const BaseExperts* there) {
    auto alike = check_alike(set, there);
    if (!alike) return std::move(alike).error();
    const auto [rank, alpha] = *alike;
    const ExpertKind& kind = *set.kind;
    std::string container = set.prefix + std::string(kind.path.in5);
    if (there != nullptr) {
      container = there->fused_path;
    } else if (fit_.names) {
      container =
          fit_.names
              ->convert(set.prefix + std::string(kind.path[set.under]) + ".", NameLayout::kTransformers5)
              .name;
      if (!container.empty() && container.back() == '.') container.pop_back();
    }
    // PEFT reads parameters that lie (in, out) crosswise, where the module does not say that they do.
    const bool crosswise =
        kind.axes.in5 == ExpertAxes::kInOut && fit_.entry->type->name != kDeclaresTransposed;
    const auto& like = set.experts.begin()->second;
    const bool has_down = like[2] != nullptr;
    if (like[1] != nullptr) {
      const bool two = kind.gated();
      uint64_t wide = rank;
      if (two) {
        const auto shared = share_first(set);
        if (!shared) {
          fit_.pending = true;
          return {};
        }
        if (!*shared) wide = 2 * rank;
      }
      add_fused(set, container, std::string(kind.fused_up), has_down ? 1 : 0, two, rank, wide, alpha,
                crosswise);
    }
    if (has_down)
      add_fused(set, container, std::string(kind.fused_down), 0, false, rank, rank, alpha, crosswise, true);
    return {};
  }

  void add_fused(const SplitExperts& set, const std::string& container, std::string parameter,
                 uint32_t nesting, bool two, uint64_t rank, uint64_t wide, double alpha, bool crosswise,
                 bool down = false) {
    const ExpertKind& kind = *set.kind;
    const uint64_t experts = set.experts.size();
    const Unit& one = *set.experts.begin()->second[down ? 2 : 1];
    const uint64_t in = fit_.input.info(one.pairs.front().a).shape[1],
                   part_rows = fit_.input.info(one.pairs.front().b).shape[0];
    const uint64_t out = two ? 2 * part_rows : part_rows;
    const DType dtype = dtype_of(set);
    FittedPair made{.path = container,
                    .parameter = std::move(parameter),
                    .nesting = nesting,
                    .a = empty_recipe(dtype, experts * wide, crosswise ? out : in),
                    .b = empty_recipe(dtype, crosswise ? in : out, wide * experts),
                    .rank = wide,
                    .alpha = wide == rank ? alpha : 2 * alpha};
    for (const auto& [e, units] : set.experts) {
      for (const ExpertName::Part part : kExpertParts) {
        if (down != (part == ExpertName::Part::kDown) || (part == ExpertName::Part::kGate && !two)) continue;
        const FactorPair& pair = units[static_cast<size_t>(part)]->pairs.front();
        const bool second = two && part == ExpertName::Part::kUp;
        const uint64_t first = second && wide != rank ? rank : 0;
        const uint64_t row = second ? (kind.interleaved ? 1 : part_rows) : 0,
                       step = two && kind.interleaved ? 2 : 1;
        const bool lower_too = !second || wide != rank;
        if (crosswise) {
          // A' = B^T and B' = A^T of each expert.
          put_cut(made.a, {.source = pair.b, .width = fit_.input.info(pair.b).shape[1], .transposed = true},
                  rank, part_rows, {.row = e * wide + first, .col = row, .col_step = step});
          if (second && wide == rank) continue;
          put_cut(made.b, {.source = pair.a, .width = fit_.input.info(pair.a).shape[1], .transposed = true},
                  in, rank, {.col = first * experts + e, .col_step = experts});
          continue;
        }
        if (lower_too)
          put_cut(made.a, {.source = pair.a, .width = fit_.input.info(pair.a).shape[1]}, rank, in,
                  {.row = e * wide + first});
        put_cut(made.b, {.source = pair.b, .width = fit_.input.info(pair.b).shape[1]}, part_rows, rank,
                {.row = row, .col = first * experts + e, .row_step = step, .col_step = experts});
      }
    }
    fit_.pairs.push_back(std::move(made));
  }

  ExpertFit& fit_;
};

}  // namespace

Result<void> fit_split_experts(ExpertFit& fit, const SplitExperts& set) { return SplitFit(fit).place(set); }

}  // namespace tftf::fitting
