#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>

#include "adapter/merge_forms.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"

namespace tftf {
namespace {

using merge::form_error;
using merge::FormContext;
using merge::ModuleParts;

constexpr size_t kNamed = 5;  // names shown in a message before "and N more"
constexpr std::string_view kHeadTasks[] = {"SEQ_CLS", "TOKEN_CLS", "QUESTION_ANS"};

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kNamed); ++i)
    text += (text.empty() ? "" : ", ") + quote_name(names[i]);
  if (names.size() > kNamed) text += " and " + grouped_digits(names.size() - kNamed) + " more";
  return text;
}

std::string counted(uint64_t count, std::string_view what) {
  return grouped_digits(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

bool ends_with_component(std::string_view name, std::string_view tail) {
  return name == tail ||
         (name.size() > tail.size() && name.ends_with(tail) && name[name.size() - tail.size() - 1] == '.');
}

// Wrappers inside a path: `attn.base_layer.out_proj` is the base's `attn.out_proj`.
std::string without_wrappers(std::string_view module) {
  constexpr std::string_view kWrapper = "base_layer";
  std::string out;
  for (size_t begin = 0; begin <= module.size();) {
    const size_t dot = std::min(module.find('.', begin), module.size());
    const std::string_view component = module.substr(begin, dot - begin);
    if (component != kWrapper) {
      if (!out.empty()) out += '.';
      out += component;
    }
    begin = dot + 1;
  }
  return out;
}

std::string joined(const std::string& module, std::string_view parameter) {
  return module.empty() ? std::string(parameter) : module + "." + std::string(parameter);
}

// Parts that a method writes.
bool belongs(PeftPart part, PeftMethod method) {
  using P = PeftPart;
  using M = PeftMethod;
  switch (part) {
    case P::kSaved:
    case P::kTokenRows:
      return true;
    case P::kLoraA:
    case P::kLoraB:
    case P::kLoraBBias:
    case P::kEmbeddingA:
    case P::kEmbeddingB:
    case P::kMagnitude:
      return method == M::kLora;
    case P::kHadaW1A:
    case P::kHadaW1B:
    case P::kHadaW2A:
    case P::kHadaW2B:
    case P::kHadaT1:
    case P::kHadaT2:
      return method == M::kLoha;
    case P::kLokrW1:
    case P::kLokrW1A:
    case P::kLokrW1B:
    case P::kLokrW2:
    case P::kLokrW2A:
    case P::kLokrW2B:
    case P::kLokrT2:
      return method == M::kLokr;
    case P::kIa3:
      return method == M::kIa3;
    case P::kVeraA:
    case P::kVeraB:
    case P::kVeraLambdaB:
    case P::kVeraLambdaD:
      return method == M::kVera;
    case P::kOftR:
    case P::kOftEmbeddingR:
      return method == M::kOft;
    case P::kLoraE:
    case P::kLoraDiag:
    case P::kBoftR:
    case P::kBoftS:
    case P::kOldOft:
      break;
  }
  return false;
}

class Resolver {
 public:
  Resolver(const std::shared_ptr<const Adapter>& adapter, std::span<const TensorView> base,
           const MergeOptions& options, bool tied)
      : adapter_(adapter), config_(adapter->config), base_(base), options_(options), tied_(tied) {
    by_name_.reserve(base.size());
    for (uint32_t i = 0; i < base.size(); ++i) by_name_.emplace(base[i].name, i);
    by_base_.resize(base.size());
  }

  Result<MergeResolution> resolve() {
    TFTF_TRY(check_config());
    Result<Targeting> targeting = Targeting::compile(config_);
    if (!targeting) return std::move(targeting).error();
    targeting_.emplace(*std::move(targeting));
    context_ = {adapter_, &*targeting_, &options_, &result_.notices};
    TFTF_TRY(group());
    TFTF_TRY(place_saved());
    find_parameters();
    for (const ModuleParts& parts : modules_) TFTF_TRY(place(parts));
    TFTF_TRY(place_tokens());
    TFTF_TRY(check_coverage());
    for (uint32_t i = 0; i < by_base_.size(); ++i) {
      Slot& slot = by_base_[i];
      if (slot.replacement == nullptr && slot.program == nullptr) continue;
      TFTF_TRY(check_dtype(i));
      result_.changes.push_back(
          {i, slot.replacement == nullptr ? nullptr : &slot.replacement->data, slot.program});
    }
    note_tied_weights();
    std::sort(result_.added.begin(), result_.added.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    return std::move(result_);
  }

 private:
  struct Saved {
    std::string name;    // in the base
    std::string module;  // without the parameter
    const NamedTensor* tensor = nullptr;
  };

  struct Slot {
    const NamedTensor* replacement = nullptr;
    Shape replaced_shape;  // what the base's tensor is afterwards
    std::shared_ptr<const MergeProgram> program;
    std::string by;  // the adapter tensor that the program is of
  };

  Error refuse(ErrorCode code, const std::string& what) const {
    return {.code = code,
            .message = "Adapter " + quote_name(adapter_->file) + " " + what + ".",
            .file = adapter_->file};
  }

  Result<void> check_config() {
    if (!config_.present) {
      if (options_.strict) return refuse(ErrorCode::kRefusedMissing, "has no adapter_config.json");
      result_.notices.push_back(
          "Adapter " + quote_name(adapter_->file) +
          " has no adapter_config.json: alpha is taken to be the rank of each pair, so that its "
          "own scale is 1, and every module with a pair is merged.");
    }
    switch (config_.method) {
      case PeftMethod::kBoft:
      case PeftMethod::kAdaLora:
        return refuse(ErrorCode::kRefusedUnsupported, "is of the method " +
                                                          std::string(peft_method_name(config_.method)) +
                                                          ", which cannot be merged here");
      case PeftMethod::kIa3:
      case PeftMethod::kOft:
        if (options_.scale != 1) {
          return Error{.code = ErrorCode::kUsage,
                       .message = "--scale has no meaning for an adapter of the method " +
                                  std::string(peft_method_name(config_.method)) +
                                  ", which multiplies the weights; only 1 is taken.",
                       .found = std::to_string(options_.scale)};
        }
        break;
      default:
        break;
    }
    if (!config_.residual_init.empty() && !options_.base_is_residual) {
      return refuse(
          ErrorCode::kRefusedUnsupported,
          "was started by " + quote_name(config_.residual_init) +
              ", which takes its part out of the base: merged into the original model it would be counted "
              "twice. --base-is-residual says that the base is the one it left behind");
    }
    return {};
  }

  // --- the adapter's tensors, by module ------------------------------------------------------------------------

  Result<void> group() {
    std::map<std::pair<std::string, uint32_t>, ModuleParts> by_module;
    std::vector<std::string> strange;
    for (const NamedTensor& tensor : adapter_->tensors) {
      PeftKey key = parse_peft_key(tensor.name);
      if (!key.adapter.empty() && key.adapter != options_.adapter_name) {
        foreign_.push_back(tensor.name);
        foreign_adapters_.insert(key.adapter);
        continue;
      }
      if (!belongs(key.part, config_.method)) {
        if (key.part == PeftPart::kOldOft)
          return form_error(ErrorCode::kRefusedUnsupported, context_, tensor.name,
                            "is of an old OFT, whose meaning differs");
        strange.push_back(tensor.name);
        continue;
      }
      const std::string module = without_wrappers(key.module);
      if (key.part == PeftPart::kSaved) {
        saved_.push_back({joined(module, key.parameter), module, &tensor});
      } else if (key.part == PeftPart::kTokenRows) {
        tokens_.push_back({module, module, &tensor});
      } else {
        ModuleParts& parts = by_module[{module, key.nesting}];
        parts.module = module;
        parts.nesting = key.nesting;
        const auto [other, fresh] = parts.parts.emplace(key.part, &tensor);
        if (!fresh) {
          return form_error(ErrorCode::kRefusedAmbiguous, context_, tensor.name,
                            "and " + quote_name(other->second->name) + " are the same tensor of one module");
        }
        const DType dtype = tensor.data.dtype;
        if (!is_floating(dtype) || dtype_bits(dtype) < 16) {
          return form_error(ErrorCode::kRefusedUnsupported, context_, tensor.name,
                            "is " + std::string(dtype_name(dtype)) + ", which is no dtype of a factor",
                            "F32, F16, BF16 or F64", std::string(dtype_name(dtype)));
        }
      }
    }
    if (!strange.empty()) {
      return Error{
          .code = ErrorCode::kRefusedUnmatched,
          .message = "Adapter " + quote_name(adapter_->file) + " is of the method " +
                     std::string(peft_method_name(config_.method)) +
                     " and has tensors of another: " + listed(strange) +
                     (config_.present ? "." : "; it has no adapter_config.json that would say more."),
          .file = adapter_->file,
          .tensor = strange[0]};
    }
    for (auto& [key, parts] : by_module) {
      if (parts.has(PeftPart::kVeraA) || parts.has(PeftPart::kVeraB)) {
        shared_ = std::move(parts);
      } else {
        modules_.push_back(std::move(parts));
      }
    }
    result_.modules = modules_.size();
    return {};
  }

  // --- plain tensors ---------------------------------------------------------------------------------------------

  Result<void> place_saved() {
    std::vector<std::string> unknown;
    std::set<std::string> added;
    for (const Saved& saved : saved_) {
      const NamedTensor& tensor = *saved.tensor;
      const auto at = by_name_.find(saved.name);
      if (at == by_name_.end()) {
        const bool head = targeting_->saved_whole(saved.module) ||
                          std::find(std::begin(kHeadTasks), std::end(kHeadTasks), config_.task_type) !=
                              std::end(kHeadTasks);
        if (!head || saved.name.empty() || saved.name == "__metadata__") {
          unknown.push_back(tensor.name);
          continue;
        }
        if (!added.insert(saved.name).second) return twice(tensor.name, saved.name);
        result_.added.push_back({saved.name, &tensor.data});
        continue;
      }
      Slot& slot = by_base_[at->second];
      if (slot.replacement != nullptr) return twice(tensor.name, saved.name);
      TFTF_TRY(check_replacement(tensor, base_[at->second]));
      slot.replacement = &tensor;
      slot.replaced_shape = tensor.data.shape;
    }
    if (!unknown.empty()) {
      return Error{
          .code = ErrorCode::kRefusedUnmatched,
          .message = "Adapter " + quote_name(adapter_->file) + " has " + counted(unknown.size(), "tensor") +
                     " that neither belong to its method nor name a tensor of the base: " + listed(unknown) +
                     "." + rename_hint(saved_modules(unknown)),
          .file = adapter_->file,
          .tensor = unknown[0]};
    }
    if (!result_.added.empty()) {
      std::vector<std::string> names;
      for (const auto& a : result_.added) names.push_back(a.name);
      result_.notices.push_back(
          "The base has no " + listed(names) +
          ": added as saved with the adapter; architectures and num_labels in config.json do "
          "not know of it.");
    }
    return {};
  }

  std::vector<std::string> saved_modules(const std::vector<std::string>& names) const {
    std::vector<std::string> modules;
    for (const Saved& saved : saved_)
      if (std::find(names.begin(), names.end(), saved.tensor->name) != names.end())
        modules.push_back(saved.module);
    return modules;
  }

  Error twice(const std::string& tensor, const std::string& name) const {
    return form_error(ErrorCode::kRefusedAmbiguous, context_, tensor,
                      "is the second one that replaces " + quote_name(name));
  }

  Result<void> check_replacement(const NamedTensor& tensor, const TensorView& base) {
    const Shape &is = tensor.data.shape, &was = *base.shape;
    const bool floats = is_floating(base.dtype) && dtype_bits(base.dtype) >= 16 &&
                        is_floating(tensor.data.dtype) && dtype_bits(tensor.data.dtype) >= 16;
    if (!floats && tensor.data.dtype != base.dtype) {
      return form_error(ErrorCode::kRefusedUnsupported, context_, tensor.name,
                        "is " + std::string(dtype_name(tensor.data.dtype)) + " and replaces " +
                            quote_name(base.name) + ", which is " + std::string(dtype_name(base.dtype)),
                        std::string(dtype_name(base.dtype)), std::string(dtype_name(tensor.data.dtype)));
    }
    if (is == was) return {};
    const bool resized =
        is.size() == was.size() && !is.empty() && std::equal(is.begin() + 1, is.end(), was.begin() + 1);
    if (!resized) {
      return form_error(ErrorCode::kRefusedShape, context_, tensor.name,
                        "of shape " + shape_text(is) + " cannot replace " + quote_name(base.name) +
                            " of shape " + shape_text(was) + ": more than the number of rows differs",
                        shape_text(was), shape_text(is));
    }
    result_.notices.push_back("Tensor " + quote_name(base.name) + " becomes " + shape_text(is) +
                              " instead of " + shape_text(was) +
                              ", as saved with the adapter; vocab_size or num_labels in config.json "
                              "must follow.");
    return {};
  }

  // --- pairs and other forms -------------------------------------------------------------------------------------

  // Parameters that target_parameters names, by their module.
  void find_parameters() {
    if (config_.target_parameters.empty()) return;
    for (uint32_t i = 0; i < base_.size(); ++i) {
      const std::string_view name = base_[i].name;
      const bool named =
          std::any_of(config_.target_parameters.begin(), config_.target_parameters.end(),
                      [&](const std::string& entry) { return ends_with_component(name, entry); });
      if (!named) continue;
      const size_t dot = name.rfind('.');
      parameters_[std::string(dot == std::string_view::npos ? "" : name.substr(0, dot))].push_back(i);
    }
  }

  TensorView view(uint32_t i) const {
    TensorView view = base_[i];
    if (by_base_[i].replacement != nullptr) view.shape = &by_base_[i].replaced_shape;
    return view;
  }

  Result<void> place(const ModuleParts& parts) {
    if (config_.method == PeftMethod::kLora) TFTF_TRY(check_pair(parts));
    if (const auto at = parameters_.find(parts.module); at != parameters_.end()) {
      auto done = place_parameter(parts, at->second);
      if (!done) return std::move(done).error();
      if (*done) return {};
    }
    auto verdict = is_target(parts.module);
    if (!verdict) return std::move(verdict).error();
    if (!*verdict) {
      if (parameters_.count(parts.module) > 0) {
        unmatched_.push_back(parts.module);
      } else {
        ++result_.skipped;
      }
      return {};
    }
    const std::optional<uint32_t> base = find_weight(parts);
    if (!base) {
      unmatched_.push_back(parts.module);
      return {};
    }
    return place_at(parts, *base);
  }

  Result<bool> is_target(const std::string& module) const {
    auto verdict = targeting_->verdict(module);
    if (!verdict) return std::move(verdict).error();
    if (*verdict == TargetVerdict::kTargeted) return true;
    // The projections of a MultiheadAttention are targeted by the name of the whole.
    constexpr std::string_view kOut = ".out_proj";
    if (*verdict != TargetVerdict::kNotTargeted || !module.ends_with(kOut)) return false;
    const std::string whole = module.substr(0, module.size() - kOut.size());
    if (by_name_.count(whole + ".in_proj_weight") == 0) return false;
    auto of_whole = targeting_->verdict(whole);
    if (!of_whole) return std::move(of_whole).error();
    return *of_whole == TargetVerdict::kTargeted;
  }

  std::optional<uint32_t> find_weight(const ModuleParts& parts) const {
    for (const std::string& name :
         {joined(parts.module, "weight"), joined(parts.module, "in_proj_weight"), parts.module}) {
      if (const auto at = by_name_.find(name); at != by_name_.end()) return at->second;
    }
    return std::nullopt;
  }

  Result<void> check_pair(const ModuleParts& parts) const {
    using P = PeftPart;
    const bool linear = parts.has(P::kLoraA) || parts.has(P::kLoraB);
    const bool embedding = parts.has(P::kEmbeddingA) || parts.has(P::kEmbeddingB);
    if ((linear && !parts.has_pair()) || (embedding && !parts.has_embedding_pair()) ||
        (!linear && !embedding)) {
      return form_error(
          ErrorCode::kRefusedMissing, context_, parts.first_name(),
          "has no twin: its module " + quote_name(parts.module) + " lacks one of the pair A and B");
    }
    if (linear && embedding)
      return form_error(ErrorCode::kRefusedAmbiguous, context_, parts.first_name(),
                        "belongs to a module that has a pair of an embedding, too");
    return {};
  }

  Result<bool> place_parameter(const ModuleParts& parts, const std::vector<uint32_t>& candidates) {
    std::vector<uint32_t> fits;
    for (const uint32_t i : candidates)
      if (merge::fits_parameter(parts, *base_[i].shape)) fits.push_back(i);
    if (fits.empty()) return false;
    if (fits.size() > 1) {
      std::vector<std::string> names;
      for (const uint32_t i : fits) names.emplace_back(base_[i].name);
      return form_error(ErrorCode::kRefusedAmbiguous, context_, parts.first_name(),
                        "fits several parameters alike: " + listed(names));
    }
    TFTF_TRY(place_program(parts, fits[0], [&](const TensorView& base, std::string_view path) {
      return merge::parameter_program(context_, parts, base, path);
    }));
    ++result_.merged;
    return true;
  }

  // `make` gives the program for the weight.
  template <class Make>
  Result<void> place_program(const ModuleParts& parts, uint32_t i, Make make) {
    TFTF_TRY(check_dtype(i));
    Slot& slot = by_base_[i];
    if (slot.program != nullptr) {
      return form_error(ErrorCode::kRefusedAmbiguous, context_, parts.first_name(),
                        "and " + quote_name(slot.by) + " are both for " + quote_name(base_[i].name));
    }
    const TensorView base = view(i);
    std::string_view path = base.name;
    if (path.ends_with(".weight")) path.remove_suffix(7);
    auto program = make(base, path);
    if (!program) return std::move(program).error();
    slot.program = *std::move(program);
    slot.by = parts.first_name();
    return {};
  }

  Result<void> place_at(const ModuleParts& parts, uint32_t i) {
    bool scales_bias = false;
    TFTF_TRY(place_program(parts, i, [&](const TensorView& base, std::string_view path) -> merge::Program {
      switch (config_.method) {
        case PeftMethod::kLoha:
          return merge::hadamard_program(context_, parts, base, path);
        case PeftMethod::kLokr:
          return merge::kronecker_program(context_, parts, base, path);
        case PeftMethod::kVera:
          return merge::vera_program(context_, parts, shared_, base, path);
        case PeftMethod::kIa3:
          return merge::ia3_program(context_, parts, base, path, scales_bias);
        case PeftMethod::kOft:
          return merge::rotation_program(context_, parts, base, path);
        case PeftMethod::kLora:
        case PeftMethod::kBoft:
        case PeftMethod::kAdaLora:
          break;
      }
      return parts.has_embedding_pair() ? merge::embedding_program(context_, parts, base, path)
                                        : merge::low_rank_program(context_, parts, base, path);
    }));
    ++result_.merged;
    const auto bias = by_name_.find(joined(parts.module, "bias"));
    if (parts.has(PeftPart::kLoraBBias)) {
      if (bias == by_name_.end() || parts.has_embedding_pair()) {
        return form_error(
            ErrorCode::kRefusedMissing, context_, parts.parts.at(PeftPart::kLoraBBias)->name,
            "is added to a bias, and the base has no " + quote_name(joined(parts.module, "bias")));
      }
      const uint64_t rank = by_base_[i].program->right.rows;  // of the pair that was taken
      std::string_view path = base_[i].name;
      if (path.ends_with(".weight")) path.remove_suffix(7);
      return place_program(parts, bias->second, [&](const TensorView& base, std::string_view) {
        return merge::bias_program(context_, parts, base, path, rank);
      });
    }
    if (scales_bias && bias != by_name_.end()) {
      return place_program(parts, bias->second, [&](const TensorView& base, std::string_view) {
        return merge::ia3_bias_program(context_, parts, base);
      });
    }
    return {};
  }

  Result<void> check_dtype(uint32_t i) const {
    const TensorView& base = base_[i];
    if (is_floating(base.dtype) && dtype_bits(base.dtype) >= 16) return {};
    const Slot& slot = by_base_[i];
    if (slot.program == nullptr && slot.replacement != nullptr) return {};  // checked by check_replacement()
    return Error{.code = ErrorCode::kRefusedUnsupported,
                 .message = "Tensor " + quote_name(base.name) + " of the base is " +
                            std::string(dtype_name(base.dtype)) + ", into which nothing can be merged; " +
                            (is_fp8(base.dtype) ? "dequantise it in the same run: dequant-fp8 --merge-lora."
                                                : "the weights must be plain floats."),
                 .tensor = std::string(base.name),
                 .expected = "F32, F16, BF16 or F64",
                 .found = std::string(dtype_name(base.dtype))};
  }

  // --- rows of token tables --------------------------------------------------------------------------------------

  Result<void> place_tokens() {
    std::vector<bool> used(config_.trainable_tokens.size());
    for (const Saved& token : tokens_) {
      const TokenIndices* indices = nullptr;
      for (size_t t = 0; t < used.size(); ++t) {
        const TokenIndices& candidate = config_.trainable_tokens[t];
        if (!candidate.module.empty() && !ends_with_component(token.module, candidate.module)) continue;
        if (indices != nullptr)
          return form_error(ErrorCode::kRefusedAmbiguous, context_, token.tensor->name,
                            "is named by several entries of trainable_token_indices");
        indices = &candidate;
        used[t] = true;
      }
      if (indices == nullptr) {
        return form_error(ErrorCode::kRefusedMissing, context_, token.tensor->name,
                          "has no trainable_token_indices that say which rows it replaces");
      }
      const DType dtype = token.tensor->data.dtype;
      if (!is_floating(dtype) || dtype_bits(dtype) < 16)
        return form_error(ErrorCode::kRefusedUnsupported, context_, token.tensor->name,
                          "is " + std::string(dtype_name(dtype)) + ", which is no dtype of a weight");
      const auto at = by_name_.find(joined(token.module, "weight"));
      if (at == by_name_.end()) {
        unmatched_.push_back(token.module);
        continue;
      }
      TFTF_TRY(set_rows(token, *indices, at->second));
      ++tables_;
      TFTF_TRY(set_tied_rows(token, *indices, at->second));
    }
    if (!tokens_.empty() && options_.scale != 1)
      result_.notices.push_back("--scale does not touch the rows of trained tokens: they are stored whole.");
    return {};
  }

  Result<void> set_rows(const Saved& token, const TokenIndices& indices, uint32_t i) {
    TFTF_TRY(check_dtype(i));
    auto rows = merge::token_program(context_, *token.tensor, indices.rows, view(i));
    if (!rows) return std::move(rows).error();
    Slot& slot = by_base_[i];
    if (slot.program == nullptr) {
      slot.program = *std::move(rows);
      slot.by = token.tensor->name;
      return {};
    }
    if (slot.program->set_rows != nullptr) return twice(token.tensor->name, std::string(base_[i].name));
    auto both = std::make_shared<MergeProgram>(*slot.program);
    both->set_rows = (*rows)->set_rows;
    both->set_row_numbers = std::move((*rows)->set_row_numbers);
    both->word += " + " + (*rows)->word;
    slot.program = std::move(both);
    return {};
  }

  // An output head that shares the table gets the same rows where it is stored on its own.
  Result<void> set_tied_rows(const Saved& token, const TokenIndices& indices, uint32_t i) {
    if (!tied_) return {};
    const auto head = by_name_.find("lm_head.weight");
    if (head == by_name_.end() || head->second == i || *base_[head->second].shape != *base_[i].shape)
      return {};
    const bool own = std::any_of(tokens_.begin(), tokens_.end(),
                                 [&](const Saved& other) { return other.module == "lm_head"; });
    if (own || by_base_[head->second].replacement != nullptr) return {};
    result_.notices.push_back("\"lm_head.weight\" is tied to " + quote_name(base_[i].name) +
                              " and gets the same rows.");
    return set_rows(token, indices, head->second);
  }

  void note_tied_weights() {
    if (!tied_ || by_name_.count("lm_head.weight") > 0) return;
    for (const auto& change : result_.changes) {
      if (change.program == nullptr || change.program->delta == MergeProgram::Delta::kNone) continue;
      if (!base_[change.base].name.ends_with("embed_tokens.weight") &&
          !base_[change.base].name.ends_with("wte.weight"))
        continue;
      result_.notices.push_back("The output head is tied to " + quote_name(base_[change.base].name) +
                                ", so that merging into it changes the output, too.");
    }
  }

  // --- what met what ---------------------------------------------------------------------------------------------

  std::string coverage() const {
    return " Of " + counted(result_.modules, "module") + " of the adapter " + grouped_digits(result_.merged) +
           " met a weight, " + grouped_digits(unmatched_.size()) + " met none, " +
           grouped_digits(result_.skipped) + " are left out by the configuration; " +
           counted(foreign_.size(), "tensor") + " not used.";
  }

  Result<void> check_coverage() {
    if (!foreign_.empty()) {
      std::vector<std::string> others(foreign_adapters_.begin(), foreign_adapters_.end());
      return Error{.code = ErrorCode::kRefusedUnmatched,
                   .message = "Adapter " + quote_name(adapter_->file) +
                              " has tensors of other adapters than " + quote_name(options_.adapter_name) +
                              ": " + listed(others) +
                              (others.size() == 1 && result_.modules == 0
                                   ? "; --adapter-name " + escape_text(others[0]) + " merges it."
                                   : "; they would not be used.") +
                              coverage(),
                   .file = adapter_->file,
                   .tensor = foreign_[0],
                   .expected = options_.adapter_name,
                   .found = others[0]};
    }
    if (!unmatched_.empty()) {
      return Error{.code = ErrorCode::kRefusedUnmatched,
                   .message = "Modules of adapter " + quote_name(adapter_->file) +
                              " have no weight in the base: " + listed(unmatched_) + "." +
                              rename_hint(unmatched_) + coverage(),
                   .file = adapter_->file,
                   .tensor = unmatched_[0]};
    }
    const bool changes = result_.merged > 0 || tables_ > 0 || !saved_.empty();
    if (!changes || (result_.modules > 0 && result_.merged == 0)) {
      return Error{.code = ErrorCode::kRefusedUnmatched,
                   .message = "Nothing of adapter " + quote_name(adapter_->file) +
                              " is merged: the configuration targets none of its modules." + coverage(),
                   .file = adapter_->file};
    }
    if (result_.skipped > 0) {
      result_.notices.push_back(counted(result_.skipped, "module") +
                                " of the adapter left out, as its configuration asks.");
    }
    if (!saved_.empty() && options_.scale != 1)
      result_.notices.push_back("--scale does not touch tensors that are saved whole with the adapter.");
    return {};
  }

  // A leading prefix that one side has and the other lacks, the same for all modules.
  std::string rename_hint(const std::vector<std::string>& modules) const {
    std::optional<std::string> missing, extra;  // in the base's names
    constexpr size_t kLooked = 64;              // enough to see a habit, and no work for a hostile list
    for (size_t m = 0; m < std::min(modules.size(), kLooked); ++m) {
      const std::string& module = modules[m];
      std::optional<std::string> here_missing, here_extra;
      for (size_t dot = module.find('.'); dot != std::string::npos; dot = module.find('.', dot + 1)) {
        if (by_name_.count(joined(module.substr(dot + 1), "weight")) == 0) continue;
        here_missing = module.substr(0, dot + 1);
        break;
      }
      const std::string tail = "." + joined(module, "weight");
      for (const TensorView& base : base_) {
        if (!base.name.ends_with(tail)) continue;
        here_extra = std::string(base.name.substr(0, base.name.size() - tail.size() + 1));
        break;
      }
      if (&module == &modules.front()) {
        missing = here_missing;
        extra = here_extra;
      }
      if (missing != here_missing) missing.reset();
      if (extra != here_extra) extra.reset();
    }
    if (missing)
      return " The base's names lack a prefix: --rename '^' '" + escape_text(*missing) + "' would join them.";
    if (!extra) return "";
    std::string pattern;
    for (const char c : *extra) pattern += c == '.' ? "\\." : std::string(1, c);
    return " The base's names have a prefix more: --rename '^" + escape_text(pattern) +
           "' '' would join them.";
  }

  const std::shared_ptr<const Adapter>& adapter_;
  const PeftConfig& config_;
  std::span<const TensorView> base_;
  const MergeOptions& options_;
  bool tied_;
  std::optional<Targeting> targeting_;
  FormContext context_{};
  std::unordered_map<std::string_view, uint32_t> by_name_;
  std::vector<Slot> by_base_;
  std::vector<ModuleParts> modules_;
  ModuleParts shared_;  // VeRA's projections
  std::vector<Saved> saved_, tokens_;
  std::map<std::string, std::vector<uint32_t>> parameters_;
  std::vector<std::string> foreign_;  // tensors of other adapter names
  std::set<std::string> foreign_adapters_;
  std::vector<std::string> unmatched_;  // modules
  uint64_t tables_ = 0;
  MergeResolution result_;
};

}  // namespace

Result<MergeResolution> resolve_merge(const std::shared_ptr<const Adapter>& adapter,
                                      std::span<const TensorView> base, const MergeOptions& options,
                                      bool tied) {
  return Resolver(adapter, base, options, tied).resolve();
}

}  // namespace tftf
