// How adapter tensors meet the base's: names taken apart, modules looked up, what remains refused.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "adapter/merge_forms.h"
#include "adapter/name_moves.h"
#include "adapter/stack_choice.h"

namespace tftf::merging {

class Resolver {
 public:
  // The pairs of one module, from the outermost wrapper on.
  using Wrappers = std::vector<const ModuleParts*>;

  Resolver(const std::shared_ptr<const Adapter>& adapter, std::span<const TensorView> base,
           const MergeOptions& options, const MergeModel& model);
  Result<MergeResolution> resolve();

 private:
  struct Saved {
    std::string name;    // in the base
    std::string module;  // without the parameter
    std::string own;     // the module in the adapter
    const NamedTensor* tensor = nullptr;
  };
  struct Slot {
    const NamedTensor* replacement = nullptr;
    Shape replaced_shape;  // what the base's tensor is afterwards
    std::shared_ptr<const MergeProgram> program;
    std::string by;  // the adapter tensor that the program is of
  };
  Error refuse(ErrorCode code, const std::string& what) const;
  Result<void> check_config();
  Result<void> group();
  Result<void> place_saved();
  std::vector<std::string> saved_modules(const std::vector<std::string>& names) const;
  Error twice(const std::string& tensor, const std::string& name) const;
  // The names that the options give to the adapter's modules, and those of --fit.
  Result<std::string> renamed(std::string module) const;
  Result<void> fit_names();
  bool lands(const std::string& module) const;
  std::vector<std::string> adapted_modules() const;
  Result<void> check_replacement(const NamedTensor& tensor, const TensorView& base);
  // What the weights of the adapter say about square ones among them.
  void find_axes();
  // Tensors by their module, where target_parameters names any.
  void find_parameters();
  std::vector<uint32_t> parameters_of(const ModuleParts& parts) const;
  TensorView view(uint32_t i) const;
  Result<void> place_all(const Wrappers& wrappers);
  Result<void> place(const ModuleParts& parts);
  // Stacked parameters (merge_experts.cpp). The entry of target_parameters that names a tensor; whether one names a
  // parameter of the module.
  std::optional<size_t> parameter_entry(std::string_view name) const;
  bool owns_parameter(std::string_view own) const;
  Result<std::vector<StackParameter>> stack_parameters(
      const std::vector<std::pair<std::string, Shape>>& named) const;
  StoredAxes axes_of_container(const std::string& module) const;
  Result<StackChoice> choose_stack(const Wrappers& wrappers, const std::vector<StackParameter>& parameters,
                                   StoredAxes axes);
  Result<void> place_stacks(const Wrappers& wrappers, const std::vector<uint32_t>& candidates);
  // Experts that the base keeps one by one, their weights by number.
  struct SplitExperts {
    std::vector<uint32_t> gate{}, up{}, down{};
    bool gated() const { return !gate.empty(); }
  };
  // Experts that the adapter has one by one and the base fused (merge_fused.cpp).
  struct SinglePairs;
  Result<void> place_single_experts();
  Result<void> place_fused(const std::string& container, const std::string& parameter,
                           const SinglePairs& first, const SinglePairs& second);
  std::optional<SplitExperts> find_split_experts(const std::string& module) const;
  Result<void> place_on_split_experts(const Wrappers& wrappers, const SplitExperts& experts);
  // The MultiheadAttention that a module is the output projection of: it is targeted, and its rank given, by that name.
  std::optional<std::string> attention_of(const ModuleParts& parts) const;
  // What rank and alpha patterns are matched against.
  std::string pattern_path(const ModuleParts& parts) const { return attention_of(parts).value_or(parts.own); }
  Result<bool> is_target(const ModuleParts& parts) const;
  std::optional<uint32_t> find_weight(const ModuleParts& parts) const;
  Result<void> check_pair(const ModuleParts& parts) const;
  // `make` gives the program for the weight.
  using Make = std::function<Program(const TensorView&)>;
  Result<void> place_program(const ModuleParts& parts, uint32_t i, const Make& make);
  // The program of the configured method. `scales_bias`: whether IA3 scales the bias, too.
  Program place_form(const ModuleParts& parts, const TensorView& base, const std::string& path,
                     bool* scales_bias = nullptr);
  Result<void> place_at(const ModuleParts& parts, uint32_t i);
  Result<void> check_dtype(uint32_t i) const;
  Result<void> place_tokens();
  Result<void> set_rows(const Saved& token, const TokenIndices& indices, uint32_t i);
  // An output head that shares the table gets the same rows where it is stored on its own.
  Result<void> set_tied_rows(const Saved& token, const TokenIndices& indices, uint32_t i);
  void note_tied_weights();
  // Heads that are tied to the embeddings (merge_tied.cpp).
  void find_tied();
  bool is_tied_head(std::string_view module) const;
  // A tensor saved for a tied head: true when it stays the embeddings'.
  bool stays_tied(const Saved& saved) const;
  Error tied_error(const std::string& tensor, const std::string& module) const;
  Result<void> place_apart(const ModuleParts& parts);
  void follow_embeddings();
  // modules_to_save whose tensors the adapter lacks, although the base has such modules.
  void note_unsaved_modules();
  // Magnitudes that use_dora does not announce.
  void note_undeclared_dora();
  std::string coverage() const;
  Result<void> check_coverage();
  // The moves that would put the modules on the base.
  std::string rename_hint(const std::vector<std::string>& modules) const;

  const std::shared_ptr<const Adapter>& adapter_;
  const PeftConfig& config_;
  std::span<const TensorView> base_;
  const MergeOptions& options_;
  const MergeModel& model_;
  std::optional<Targeting> targeting_;
  LinearAxes axes_;
  FormContext context_{};
  std::unordered_map<std::string_view, uint32_t> by_name_;
  std::vector<std::string_view> sorted_;  // the base's names
  std::vector<Slot> by_base_;
  std::vector<ModuleParts> modules_;
  std::set<const ModuleParts*> placed_;  // before their turn
  ModuleParts shared_;                   // VeRA's projections
  std::vector<Saved> saved_, tokens_;
  std::map<std::string, std::vector<uint32_t>, std::less<>> parameters_;
  bool tied_ = false;
  std::optional<uint32_t> embeddings_;
  std::map<std::string, MergeResolution::Added> added_;
  std::vector<std::string> foreign_;  // tensors of other adapter names
  std::set<std::string> foreign_adapters_;
  std::vector<std::string> unmatched_;  // modules
  uint64_t tables_ = 0;
  MergeResolution result_;
};

}  // namespace tftf::merging
