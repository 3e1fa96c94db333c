// Factors for all experts of a container: read, and given to the experts one by one where the base has them so (spec experts
// 6.1, 6.3).
#include <algorithm>

#include "adapter/fit_experts.h"
#include "adapter/stack_choice.h"
#include "tftf/base/escape.h"

namespace tftf::fitting {
namespace {

class FlatFit {
 public:
  explicit FlatFit(ExpertFit& fit) : fit_(fit) {}

  Result<void> place(const Unit& unit, const ExpertName& name) {
    const ExpertKind& kind = *name.kind;
    const BaseExperts* there = fit_.base == nullptr ? nullptr : fit_.base->container(unit.path);
    FlatExperts experts{.gated = kind.gated()};
    const std::string up = std::string(kind.fused_up), down = std::string(kind.fused_down);
    TFTF_TRY(adapted(unit, up, experts.up, experts.up_rank));
    TFTF_TRY(adapted(unit, down, experts.down, experts.down_rank));
    if (there != nullptr) {
      experts.experts = there->experts;
      experts.inner = there->inner;
      experts.outer = there->outer;
    }
    std::vector<FlatPair> pairs;
    for (const FactorPair& pair : unit.pairs)
      pairs.push_back({fit_.input.info(pair.a).shape[0], fit_.input.info(pair.a).shape[1],
                       fit_.input.info(pair.b).shape[0]});
    std::vector<FlatReading> readings = flat_readings(pairs, experts);
    const bool both =
        std::any_of(readings.begin(), readings.end(), [](const FlatReading& r) { return r.crosswise; }) &&
        std::any_of(readings.begin(), readings.end(), [](const FlatReading& r) { return !r.crosswise; });
    if (both && merging::reads_stacks_straight(fit_.input.config.peft_version) && stores_out_in(kind)) {
      readings.erase(
          std::remove_if(readings.begin(), readings.end(), [](const FlatReading& r) { return r.crosswise; }),
          readings.end());
    }
    if (readings.size() != 1) return no_reading(unit, pairs, experts, !readings.empty());
    const FlatReading& reading = readings.front();
    const bool split = fit_.wanted(there, ExpertForm::kFused) == ExpertForm::kSplit;
    for (size_t p = 0; p < unit.pairs.size(); ++p) {
      const bool is_down = reading.is_down[p];
      const std::string& parameter = is_down ? down : up;
      const uint64_t rank = pairs[p].rows / reading.experts;
      const std::string own = unit.own + "." + parameter;
      if (!split) {
        auto alpha = fit_.alpha_of(own, rank, rank);
        if (!alpha) return std::move(alpha).error();
        fit_.pairs.push_back({.path = unit.path,
                              .parameter = parameter,
                              .nesting = unit.pairs[p].nesting,
                              .a = stored_recipe(fit_.input.adapter, unit.pairs[p].a),
                              .b = stored_recipe(fit_.input.adapter, unit.pairs[p].b),
                              .rank = rank,
                              .alpha = *alpha});
        continue;
      }
      TFTF_TRY(split_pair(unit, name, there, p, reading, rank, own));
    }
    return {};
  }

 private:
  Result<void> adapted(const Unit& unit, const std::string& parameter, bool& is, uint64_t& rank) const {
    const std::string own = unit.own + "." + parameter;
    const auto& entries = fit_.input.config.target_parameters;
    is = entries.empty() || std::any_of(entries.begin(), entries.end(), [&](const std::string& entry) {
           return own == entry || (own.size() > entry.size() && own.ends_with(entry) &&
                                   own[own.size() - entry.size() - 1] == '.');
         });
    auto configured = fit_.input.targeting->rank(own);
    if (!configured) return std::move(configured).error();
    rank = *configured && **configured > 0 ? static_cast<uint64_t>(**configured) : 0;
    return {};
  }

  static bool stores_out_in(const ExpertKind& kind) {
    return kind.axes.in4 == ExpertAxes::kOutIn && kind.axes.in5 == ExpertAxes::kOutIn;
  }

  Error no_reading(const Unit& unit, const std::vector<FlatPair>& pairs, const FlatExperts& experts,
                   bool several) const {
    std::string shapes;
    for (const FlatPair& pair : pairs)
      shapes += (shapes.empty() ? "" : ", ") + std::string("lora_A ") + shape_text({pair.rows, pair.in}) +
                " with lora_B " + shape_text({pair.out, pair.rows});
    std::string why;
    if (several) {
      why = "can be read in several ways; which is meant cannot be told from shapes and peft_version";
    } else if (pairs.size() == 1 && experts.inner == 0) {
      why = "is the only one of its container; how it lies cannot be told without the base's sizes (--base)";
    } else {
      why = "fit the experts' parameters in no way with the rank that " + quote_name(fit_.input.config.file) +
            " says (" + std::to_string(experts.up_rank) + ")" +
            (experts.inner == 0
                 ? std::string()
                 : " and the base's sizes (" + std::to_string(experts.experts) + " experts of " +
                       std::to_string(experts.inner) + " x " + std::to_string(experts.outer) + ")");
    }
    return fit_error(fit_.input,
                     several || experts.inner == 0 ? ErrorCode::kRefusedAmbiguous : ErrorCode::kRefusedShape,
                     "The factors of " + quote_name(unit.own) + " (" + shapes + ") " + why + ".",
                     fit_.input.info(unit.pairs.front().a).name);
  }

  // The columns of B_e (rows of the logical matrix from `row` on, `step` apart), or crosswise columns of A_e; `first`: of
  // the ranks.
  Cut upper(const FactorPair& pair, const FlatReading& reading, uint64_t rank, uint64_t expert, uint64_t row,
            uint64_t step, uint64_t first) const {
    if (reading.crosswise)
      return {.source = pair.a,
              .width = fit_.input.info(pair.a).shape[1],
              .row = expert * rank + first,
              .col = row,
              .col_step = step,
              .transposed = true};
    return {.source = pair.b,
            .width = fit_.input.info(pair.b).shape[1],
            .row = row,
            .col = first * reading.experts + expert,
            .row_step = step,
            .col_step = reading.experts};
  }
  Cut lower(const FactorPair& pair, const FlatReading& reading, uint64_t rank, uint64_t expert,
            uint64_t first) const {
    if (reading.crosswise)
      return {.source = pair.b,
              .width = fit_.input.info(pair.b).shape[1],
              .col = first * reading.experts + expert,
              .col_step = reading.experts,
              .transposed = true};
    return {.source = pair.a, .width = fit_.input.info(pair.a).shape[1], .row = expert * rank + first};
  }

  // Whether gate and up use ranks of their own: the second half of gate's columns and the first half of up's are zero, for
  // every expert. Nothing while values are pending.
  std::optional<bool> is_diagonal(const FactorPair& pair, const FlatReading& reading, uint64_t rank,
                                  uint64_t inner, bool interleaved) {
    if (rank % 2 != 0) return false;
    const TensorRef source = reading.crosswise ? pair.a : pair.b;
    const TensorInfo& info = fit_.input.info(source);
    const uint64_t size = dtype_bits(info.dtype) / 8, width = info.shape[1], experts = reading.experts;
    const bool crosswise = reading.crosswise;
    return fit_.input.scans.seen_whole(source, "halves", [=](uint64_t begin, Bytes bytes) {
      for (size_t i = 0; i < bytes.size(); ++i) {
        const bool sign = (begin + i) % size == size - 1;
        const auto byte = static_cast<uint8_t>(bytes[i]);
        if ((sign ? byte & 0x7F : byte) == 0) continue;
        const uint64_t element = (begin + i) / size, row = element / width, col = element % width;
        const uint64_t out = crosswise ? col : row;
        const uint64_t k = crosswise ? row % rank : col / experts;
        const bool gate = interleaved ? out % 2 == 0 : out < inner;
        if (gate != (k < rank / 2)) return false;
      }
      return true;
    });
  }

  Result<void> split_pair(const Unit& unit, const ExpertName& name, const BaseExperts* there, size_t p,
                          const FlatReading& reading, uint64_t rank, const std::string& own) {
    const ExpertKind& kind = *name.kind;
    const FactorPair& pair = unit.pairs[p];
    const DType dtype = fit_.input.info(pair.a).dtype;
    const TensorInfo &a = fit_.input.info(pair.a), &b = fit_.input.info(pair.b);
    const uint64_t out = reading.crosswise ? a.shape[1] : b.shape[0],
                   in = reading.crosswise ? b.shape[0] : a.shape[1];
    const std::string container = there != nullptr
                                      ? there->split_path
                                      : std::string(name.prefix) + std::string(kind.split_at(name.under));
    const bool is_down = reading.is_down[p], two = !is_down && kind.gated();
    const uint64_t inner = out / 2;
    uint64_t new_rank = rank;
    if (two) {
      const auto diagonal = is_diagonal(pair, reading, rank, inner, kind.interleaved);
      if (!diagonal) {
        fit_.pending = true;
        return {};
      }
      if (*diagonal) new_rank = rank / 2;
    }
    auto alpha = fit_.alpha_of(own, rank, new_rank);
    if (!alpha) return std::move(alpha).error();
    for (uint64_t e = 0; e < reading.experts; ++e) {
      for (const ExpertName::Part part : kExpertParts) {
        if (is_down != (part == ExpertName::Part::kDown) || expert_part_name(kind, part).empty()) continue;
        const uint64_t rows = two ? inner : out, step = two && kind.interleaved ? 2 : 1;
        const uint64_t row = two && part == ExpertName::Part::kUp ? (kind.interleaved ? 1 : inner) : 0;
        const uint64_t first = new_rank != rank && part == ExpertName::Part::kUp ? new_rank : 0;
        FittedPair made{
            .path = container + "." + std::to_string(e) + "." + std::string(expert_part_name(kind, part)),
            .a = empty_recipe(dtype, new_rank, in),
            .b = empty_recipe(dtype, rows, new_rank),
            .rank = new_rank,
            .alpha = *alpha};
        put_cut(made.a, lower(pair, reading, rank, e, first), new_rank, in, {});
        put_cut(made.b, upper(pair, reading, rank, e, row, step, first), rows, new_rank, {});
        fit_.pairs.push_back(std::move(made));
      }
    }
    return {};
  }

  ExpertFit& fit_;
};

}  // namespace

Result<void> fit_flat_experts(ExpertFit& fit, const Unit& unit, const ExpertName& name) {
  return FlatFit(fit).place(unit, name);
}

}  // namespace tftf::fitting
