#include "adapter/merge_resolver.h"

#include <algorithm>

#include "adapter/foreign_adapter.h"
#include "adapter/merge_names.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"

namespace tftf::merging {
namespace {

constexpr std::string_view kHeadTasks[] = {"SEQ_CLS", "TOKEN_CLS", "QUESTION_ANS"};

bool same_data(const TensorData& a, const TensorData& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.bytes == b.bytes;
}

}  // namespace

Resolver::Resolver(const std::shared_ptr<const Adapter>& adapter, std::span<const TensorView> base,
                   const MergeOptions& options, const MergeModel& model)
    : adapter_(adapter),
      config_(adapter->config),
      base_(base),
      options_(options),
      model_(model),
      axes_(adapter->config.fan_in_fan_out, model.types) {
  by_name_.reserve(base.size());
  for (uint32_t i = 0; i < base.size(); ++i) by_name_.emplace(base[i].name, i);
  for (const TensorView& tensor : base) sorted_.push_back(tensor.name);
  std::sort(sorted_.begin(), sorted_.end());
  by_base_.resize(base.size());
}

Result<MergeResolution> Resolver::resolve() {
  TFTF_TRY(check_config());
  Result<Targeting> targeting = Targeting::compile(config_);
  if (!targeting) return std::move(targeting).error();
  targeting_.emplace(*std::move(targeting));
  context_ = {adapter_, &*targeting_, &options_, &result_.notices, &axes_};
  TFTF_TRY(group());
  TFTF_TRY(fit_names());
  find_tied();
  TFTF_TRY(place_saved());
  find_parameters();
  find_axes();
  TFTF_TRY(place_single_experts());
  for (size_t first = 0; first < modules_.size();) {
    if (placed_.count(&modules_[first]) > 0) {
      ++first;
      continue;
    }
    Wrappers wrappers;  // modules_ are sorted by module and nesting
    for (size_t i = first; i < modules_.size() && modules_[i].own == modules_[first].own; ++i)
      wrappers.push_back(&modules_[i]);
    first += wrappers.size();
    TFTF_TRY(place_all(wrappers));
  }
  TFTF_TRY(place_tokens());
  TFTF_TRY(check_coverage());
  for (uint32_t i = 0; i < by_base_.size(); ++i) {
    Slot& slot = by_base_[i];
    if (slot.replacement == nullptr && slot.program == nullptr) continue;
    TFTF_TRY(check_dtype(i));
    result_.changes.push_back(
        {i, slot.replacement == nullptr ? nullptr : &slot.replacement->data, slot.program});
  }
  follow_embeddings();
  note_tied_weights();
  note_unsaved_modules();
  note_undeclared_dora();
  for (auto& [name, added] : added_) result_.added.push_back(std::move(added));
  return std::move(result_);
}

Error Resolver::refuse(ErrorCode code, const std::string& what) const {
  return {.code = code,
          .message = "Adapter " + quote_name(adapter_->file) + " " + what + ".",
          .file = adapter_->file};
}

Result<void> Resolver::check_config() {
  if (!config_.present) {
    if (options_.strict) return refuse(ErrorCode::kRefusedMissing, "has no adapter_config.json");
    result_.notices.push_back(
        "Adapter " + quote_name(adapter_->file) +
        " has no adapter_config.json: alpha is taken to be the rank of each pair, so that its "
        "own scale is 1, and every module with a pair is merged.");
  }
  switch (config_.method) {
    case PeftMethod::kIa3:
    case PeftMethod::kOft:
    case PeftMethod::kBoft:
    case PeftMethod::kHra:
    case PeftMethod::kMiss:
    case PeftMethod::kLnTuning:
    case PeftMethod::kTrainableTokens:
      if (options_.scale != 1) {
        return Error{.code = ErrorCode::kUsage,
                     .message = "--scale has no meaning for an adapter of the method " +
                                std::string(peft_method_name(config_.method)) +
                                ", whose change has no strength; only 1 is taken.",
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

Result<void> Resolver::group() {
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
    if (key.part == PeftPart::kOriginal) continue;
    if (key.part == PeftPart::kSaved) {
      auto name = renamed(module);
      if (!name) return std::move(name).error();
      saved_.push_back({joined(*name, key.parameter), *name, module, &tensor});
    } else if (key.part == PeftPart::kTokenRows) {
      auto name = renamed(module);
      if (!name) return std::move(name).error();
      tokens_.push_back({*name, *name, module, &tensor});
    } else {
      auto name = renamed(module);
      if (!name) return std::move(name).error();
      ModuleParts& parts = by_module[{module, key.nesting}];
      parts.module = *std::move(name);
      parts.own = module;
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
    return Error{.code = ErrorCode::kRefusedUnmatched,
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

Result<void> Resolver::place_saved() {
  std::vector<std::string> unknown, added;
  for (const Saved& saved : saved_) {
    const NamedTensor& tensor = *saved.tensor;
    const auto at = by_name_.find(saved.name);
    if (is_tied_head(saved.module)) {
      if (stays_tied(saved)) {
        if (at == by_name_.end()) continue;
      } else {
        const bool whole = targeting_->saved_whole(saved.own);
        if (!whole && !options_.untie_head) return tied_error(tensor.name, saved.module);
        result_.unties = true;
        if (at == by_name_.end()) {
          added_[saved.name] = {.name = saved.name, .data = &tensor.data};
          continue;
        }
      }
    }
    if (at == by_name_.end()) {
      const bool head =
          targeting_->saved_whole(saved.own) ||
          std::find(std::begin(kHeadTasks), std::end(kHeadTasks), config_.task_type) != std::end(kHeadTasks);
      if (!head || saved.name.empty() || saved.name == "__metadata__") {
        unknown.push_back(tensor.name);
        continue;
      }
      const auto [before, fresh] =
          added_.emplace(saved.name, MergeResolution::Added{.name = saved.name, .data = &tensor.data});
      if (!fresh && !same_data(*before->second.data, tensor.data)) return twice(tensor.name, saved.name);
      if (fresh) added.push_back(saved.name);
      continue;
    }
    Slot& slot = by_base_[at->second];
    if (slot.replacement != nullptr) {
      if (same_data(slot.replacement->data, tensor.data)) continue;
      return twice(tensor.name, saved.name);
    }
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
  if (!added.empty()) {
    result_.notices.push_back(
        "The base has no " + listed(added) +
        ": added as saved with the adapter; architectures and num_labels in config.json do "
        "not know of it.");
  }
  return {};
}

std::vector<std::string> Resolver::saved_modules(const std::vector<std::string>& names) const {
  std::vector<std::string> modules;
  for (const Saved& saved : saved_)
    if (std::find(names.begin(), names.end(), saved.tensor->name) != names.end())
      modules.push_back(saved.module);
  return modules;
}

Error Resolver::twice(const std::string& tensor, const std::string& name) const {
  return form_error(ErrorCode::kRefusedAmbiguous, context_, tensor,
                    "is the second one that replaces " + quote_name(name));
}

Result<void> Resolver::check_replacement(const NamedTensor& tensor, const TensorView& base) {
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
  const bool embeddings = embeddings_ && base_[*embeddings_].name == base.name;
  result_.notices.push_back("Tensor " + quote_name(base.name) + " becomes " + shape_text(is) +
                            " instead of " + shape_text(was) + ", as saved with the adapter" +
                            (embeddings
                                 ? "; vocab_size follows it."
                                 : "; num_labels in config.json must follow if it is a head of classes."));
  return {};
}

std::string Resolver::coverage() const {
  return " Of " + counted(result_.modules, "module") + " of the adapter " + grouped_digits(result_.merged) +
         " met a weight, " + grouped_digits(unmatched_.size()) + " met none, " +
         grouped_digits(result_.skipped) + " are left out by the configuration; " +
         counted(foreign_.size(), "tensor") + " not used.";
}

Result<void> Resolver::check_coverage() {
  if (!foreign_.empty()) {
    std::vector<std::string> others(foreign_adapters_.begin(), foreign_adapters_.end());
    return Error{.code = ErrorCode::kRefusedUnmatched,
                 .message = "Adapter " + quote_name(adapter_->file) + " has tensors of other adapters than " +
                            quote_name(options_.adapter_name) + ": " + listed(others) +
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

}  // namespace tftf::merging

namespace tftf {

Result<MergeResolution> resolve_merge(const std::shared_ptr<const Adapter>& adapter,
                                      std::span<const TensorView> base, const MergeOptions& options,
                                      const MergeModel& model) {
  if (!adapter->foreign) return merging::Resolver(adapter, base, options, model).resolve();
  const Result<std::shared_ptr<const Adapter>> adapted = adapt_to_base(adapter, base);
  if (!adapted) return adapted.error();
  Result<MergeResolution> resolution = merging::Resolver(*adapted, base, options, model).resolve();
  if (resolution.ok()) {
    resolution->adapted = *adapted;
    for (const std::string& notice : (*adapted)->notices) resolution->notices.push_back(notice);
  }
  return resolution;
}

}  // namespace tftf
