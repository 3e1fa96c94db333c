// `adapter combine`: weighted sums of adapters.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"
#include "transform/lowrank/tool_plan.h"

namespace tftf {

using namespace lowrank;

namespace {

constexpr size_t kMostInputs = 64;

struct CombineModeName {
  std::string_view word;
  CombineMode mode;
};
constexpr CombineModeName kCombineModes[] = {
    {"concat", CombineMode::kConcat}, {"svd", CombineMode::kSvd}, {"linear", CombineMode::kLinear}};

struct PathPrefix {
  std::string_view prefix;
  std::string_view component;  // "": any
};
// Prefixes of modules' names and the model of a pipeline that they mean, the longest first.
constexpr PathPrefix kPathPrefixes[] = {
    {"base_model.model.", ""}, {"base_model.", ""},  {"lora_transformer_", "unet"}, {"lora_unet__", "unet"},
    {"lora_unet_", "unet"},    {"lora_te1_", "te1"}, {"lora_te2_", "te2"},          {"lora_te3_", "te3"},
    {"lora_te_", "te1"},       {"lycoris_", "unet"}, {"diffusion_model.", "unet"},
};
constexpr PathPrefix kDottedComponents[] = {{"unet.", "unet"},
                                            {"transformer.", "unet"},
                                            {"text_encoder_2.", "te2"},
                                            {"text_encoder_3.", "te3"},
                                            {"text_encoder.", "te1"}};

// A module by a name that does not depend on the family: dots and underscores are one.
struct PlainName {
  std::string_view component;
  std::string flat;
};

PlainName plain_name(std::string_view module) {
  PlainName name;
  for (const PathPrefix& one : kPathPrefixes) {
    if (!module.starts_with(one.prefix)) continue;
    module.remove_prefix(one.prefix.size());
    name.component = one.component;
    break;
  }
  for (const PathPrefix& one : kDottedComponents) {
    if (!name.component.empty() || !module.starts_with(one.prefix)) continue;
    module.remove_prefix(one.prefix.size());
    name.component = one.component;
    break;
  }
  name.flat = module;
  std::replace(name.flat.begin(), name.flat.end(), '.', '_');
  return name;
}

bool same_component(const PlainName& a, const PlainName& b) {
  return a.component == b.component || a.component.empty() || b.component.empty();
}

// One module of the result, and which input gives it what.
struct Combined {
  struct Part {
    size_t input = 0;
    const PairModule* pair = nullptr;
  };
  std::vector<Part> parts;
};

class Combiner {
 public:
  Combiner(std::span<const AdapterInput* const> inputs, const CombineOptions& options,
           const AdapterToolRequest& request)
      : inputs_(inputs), options_(options), request_(request) {}

  Result<AdapterToolPlan> plan() {
    TFTF_TRY(check_options());
    for (const AdapterInput* input : inputs_) {
      Result<AdapterPairs> pairs = read_pairs(*input);
      if (!pairs) return std::move(pairs).error();
      TFTF_TRY(check_additive(*input, *pairs));
      pairs_.push_back(*std::move(pairs));
    }
    family_ = inputs_[0]->survey().family.value_or(AdapterFamily::kKohya);
    for (size_t i = 0; i < inputs_.size(); ++i) TFTF_TRY(collect(i));
    return build();
  }

 private:
  Result<void> check_options() const {
    const auto usage = [](std::string message) {
      return Error{.code = ErrorCode::kUsage, .message = std::move(message)};
    };
    if (inputs_.empty() || inputs_.size() > kMostInputs)
      return usage("Between 1 and " + std::to_string(kMostInputs) + " adapters can be combined.");
    if (options_.weights.size() != inputs_.size()) {
      return usage("Each adapter needs its weight: -i IN -w W; " + std::to_string(inputs_.size()) +
                   " adapters and " + std::to_string(options_.weights.size()) + " weights are given.");
    }
    if (options_.mode == CombineMode::kSvd && !options_.rank)
      return usage("--mode svd needs --rank N, the rank of the result.");
    if (options_.mode != CombineMode::kSvd && options_.rank)
      return usage("--rank goes with --mode svd alone: the other modes take the ranks of the adapters.");
    return {};
  }

  static Result<void> check_additive(const AdapterInput& input, const AdapterPairs& pairs) {
    const std::string& given = input.checkpoint().listing.given;
    const auto refuse = [&](const std::string& module, const std::string& what) {
      return Error{.code = ErrorCode::kRefusedUnsupported,
                   .message = "Module " + quote_name(module) + " of " + quote_name(given) + " " + what + ".",
                   .file = given,
                   .tensor = module};
    };
    for (const PairModule& pair : pairs.modules) {
      if (pair.dora)
        return refuse(pair.stored,
                      "is DoRA, which is not added to a weight: such adapters have no weighted sum");
      if (!pair.others.empty()) {
        return refuse(pair.stored, "has a tensor besides its factors, " +
                                       quote_name(input.checkpoint().info(pair.others.front()).name) +
                                       ", which a combination would lose");
      }
    }
    if (!pairs.other_modules.empty()) {
      return refuse(std::string(input.survey().modules[pairs.other_modules.front()].name),
                    "is no pair of LoRA factors, of which alone combinations are made");
    }
    if (!pairs.rest.empty()) {
      return refuse(input.checkpoint().info(pairs.rest.front()).name,
                    "is no factor of an adapter and would be lost");
    }
    return {};
  }

  Result<void> collect(size_t input) {
    const AdapterFamily family = inputs_[input]->survey().family.value_or(family_);
    const bool same = spelling(family) == spelling(family_);
    size_t met = 0;
    std::vector<Combined> added;
    for (const PairModule& pair : pairs_[input].modules) {
      Combined* into = find(pair, same);
      if (into != nullptr) {
        const PairModule& first = *into->parts.front().pair;
        if (first.rows != pair.rows || first.cols != pair.cols || first.kernel != pair.kernel) {
          return Error{.code = ErrorCode::kRefusedShape,
                       .message = "Module " + quote_name(pair.stored) + " of " +
                                  quote_name(inputs_[input]->checkpoint().listing.given) +
                                  " is for a weight of " + std::to_string(pair.rows) + " x " +
                                  std::to_string(pair.cols) + ", in " +
                                  quote_name(inputs_[into->parts.front().input]->checkpoint().listing.given) +
                                  " for one of " + std::to_string(first.rows) + " x " +
                                  std::to_string(first.cols) + ".",
                       .tensor = pair.stored,
                       .expected = std::to_string(first.rows) + " x " + std::to_string(first.cols),
                       .found = std::to_string(pair.rows) + " x " + std::to_string(pair.cols)};
        }
        for (const Combined::Part& part : into->parts) {
          if (part.input != input) continue;
          return Error{.code = ErrorCode::kRefusedCollision,
                       .message = "Modules " + quote_name(part.pair->stored) + " and " +
                                  quote_name(pair.stored) + " of " +
                                  quote_name(inputs_[input]->checkpoint().listing.given) +
                                  " have one name in the family of the first adapter.",
                       .tensor = pair.stored};
        }
        into->parts.push_back({input, &pair});
        ++met;
        continue;
      }
      if (input > 0 && !same) {
        return Error{.code = ErrorCode::kRefusedUnmatched,
                     .message = "Module " + quote_name(pair.stored) + " of " +
                                quote_name(inputs_[input]->checkpoint().listing.given) +
                                " is not in the first adapter, which is of another family (" +
                                std::string(adapter_family_id(family_)) +
                                "): `adapter convert` gives it the names of that family first.",
                     .file = inputs_[input]->checkpoint().listing.given,
                     .tensor = pair.stored};
      }
      added.push_back({{{input, &pair}}});
    }
    for (Combined& module : added) add(std::move(module));
    return {};
  }

  // Families that spell a module alike.
  static AdapterFamily spelling(AdapterFamily family) { return family; }

  Combined* find(const PairModule& pair, bool same) {
    const auto named = by_name_.find(pair.stored);
    if (named != by_name_.end()) return &modules_[named->second];
    if (same) return nullptr;
    const PlainName name = plain_name(pair.stored);
    const auto [begin, end] = by_flat_.equal_range(name.flat);
    for (auto at = begin; at != end; ++at) {
      Combined& module = modules_[at->second];
      if (same_component(name, plain_name(module.parts.front().pair->stored))) return &module;
    }
    return nullptr;
  }

  void add(Combined module) {
    const std::string& stored = module.parts.front().pair->stored;
    by_name_.emplace(stored, modules_.size());
    by_flat_.emplace(plain_name(stored).flat, modules_.size());
    modules_.push_back(std::move(module));
  }

  std::string text() const {
    std::string text = "adapter combine mode=";
    for (const CombineModeName& one : kCombineModes)
      if (one.mode == options_.mode) text += one.word;
    if (options_.rank) text += " rank=" + std::to_string(*options_.rank);
    text += " weights=";
    for (size_t i = 0; i < options_.weights.size(); ++i)
      text += (i == 0 ? "" : ",") + json_float(options_.weights[i]).dump();
    return text;
  }

  Result<AdapterToolPlan> build() {
    PlanBuilder builder(text(), PlanOptions{.tile_bytes = request_.tile_bytes});
    PlanInputs inputs(builder);
    auto made = std::make_shared<NewAdapter>();
    const bool stored = inputs_[0]->scales().kind == AdapterScale::kAlpha;
    made->announcement = {.input = inputs_[0],
                          .family = family_,
                          .retarget = true,
                          .scales_stored = !keeps_configuration(family_),
                          .mlx_scale = 1};
    uint64_t tensors_in = 0;
    for (const AdapterInput* input : inputs_) tensors_in += input->checkpoint().order.size();
    Account account =
        begin_account(request_, tensors_in,
                      request_.single_name.empty() ? adapter_file_name(family_) : request_.single_name);
    account.coverage = Account::Coverage{.mapped = tensors_in};
    for (const Combined& combined : modules_) {
      Result<NewModule> module = make_module(combined, inputs);
      if (!module) return std::move(module).error();
      // Where the first adapter has alphas every module gets one; without any the family means 1.
      module->stored_alpha = stored;
      made->modules.push_back(*std::move(module));
    }
    return plan_new_adapter(std::move(made), std::move(builder), inputs, std::move(account), request_);
  }

  Result<NewModule> make_module(const Combined& combined, PlanInputs& inputs) {
    const PairModule& first = *combined.parts.front().pair;
    const Checkpoint& named = inputs_[combined.parts.front().input]->checkpoint();
    NewModule module;
    module.module = first.stored;
    module.path = std::string(peft_module_path(first.stored));
    module.up_name = named.info(first.up).name;
    module.down_name = named.info(first.down).name;
    module.alpha_name = first.alpha ? named.info(*first.alpha).name : first.stored + ".alpha";
    module.kernel = first.kernel;
    module.up_tail = first.up_tail;
    auto task = std::make_shared<FactorTask>();
    task->rows = first.rows;
    task->cols = first.cols;
    task->up_rank_last = first.up_rank_last;
    task->down_rank_last = first.down_rank_last;
    bool begun = false;
    for (const Combined::Part& part : combined.parts) {
      const Checkpoint& checkpoint = inputs_[part.input]->checkpoint();
      const PairModule& pair = *part.pair;
      if (options_.mode == CombineMode::kLinear && pair.rank != first.rank) {
        return Error{
            .code = ErrorCode::kRefusedShape,
            .message = "Module " + quote_name(pair.stored) + " has rank " + std::to_string(pair.rank) +
                       " in " + quote_name(checkpoint.listing.given) + " and " + std::to_string(first.rank) +
                       " in " + quote_name(named.listing.given) +
                       ": --mode linear adds the factors themselves and needs equal ranks; concat and svd "
                       "do not.",
            .tensor = pair.stored,
            .expected = std::to_string(first.rank),
            .found = std::to_string(pair.rank)};
      }
      PairInput input;
      input.up_dtype = checkpoint.info(pair.up).dtype;
      input.down_dtype = checkpoint.info(pair.down).dtype;
      input.up_rank_last = pair.up_rank_last;
      input.down_rank_last = pair.down_rank_last;
      input.rank = pair.rank;
      input.down_rank = pair.down_rank;
      module.in.push_back(inputs.stored(static_cast<uint32_t>(part.input), *inputs_[part.input], pair.up));
      module.in.push_back(inputs.stored(static_cast<uint32_t>(part.input), *inputs_[part.input], pair.down));
      if (pair.mid) {
        input.has_mid = true;
        input.mid_dtype = checkpoint.info(*pair.mid).dtype;
        for (const uint64_t side : pair.kernel) input.kernel *= side;
        module.in.push_back(
            inputs.stored(static_cast<uint32_t>(part.input), *inputs_[part.input], *pair.mid));
      }
      const double weight = options_.weights[part.input] * pair.scale;
      if (options_.mode == CombineMode::kLinear) {
        input.up_scale = std::sqrt(std::fabs(weight));
        input.down_scale = weight < 0 ? -input.up_scale : input.up_scale;
      } else {
        input.up_scale = weight;
      }
      task->up_to =
          begun ? factor_dtype(task->up_to, input.up_dtype) : factor_dtype(input.up_dtype, input.up_dtype);
      task->down_to = begun ? factor_dtype(task->down_to, input.down_dtype)
                            : factor_dtype(input.down_dtype, input.down_dtype);
      begun = true;
      task->pairs.push_back(input);
    }
    const uint64_t rank = task->rank();
    if (rank > kMaxDecomposedRank) {
      return Error{.code = ErrorCode::kRefusedUnsupported,
                   .message = "Module " + quote_name(first.stored) + " would get rank " +
                              std::to_string(rank) + ", and no more than " +
                              std::to_string(kMaxDecomposedRank) + " can be worked with.",
                   .tensor = first.stored};
    }
    module.old_rank = rank;
    if (options_.mode == CombineMode::kSvd) {
      task->choice.most = *options_.rank;
      task->most = std::min({*options_.rank, rank, task->rows, task->cols});
    } else {
      const bool linear = options_.mode == CombineMode::kLinear;
      task->kind = linear ? FactorTask::Kind::kSum : FactorTask::Kind::kStack;
      task->kept = task->most = linear ? first.rank : rank;
    }
    module.task = std::move(task);
    return module;
  }

  std::span<const AdapterInput* const> inputs_;
  const CombineOptions& options_;
  const AdapterToolRequest& request_;
  AdapterFamily family_{};
  std::vector<AdapterPairs> pairs_;
  std::vector<Combined> modules_;
  std::unordered_map<std::string, size_t> by_name_;
  std::unordered_multimap<std::string, size_t> by_flat_;
};

}  // namespace

std::optional<CombineMode> find_combine_mode(std::string_view word) {
  for (const CombineModeName& one : kCombineModes)
    if (one.word == word) return one.mode;
  return std::nullopt;
}

Result<AdapterToolPlan> plan_combine(std::span<const AdapterInput* const> inputs,
                                     const CombineOptions& options, const AdapterToolRequest& request) {
  return Combiner(inputs, options, request).plan();
}

}  // namespace tftf
