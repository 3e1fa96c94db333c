// How adapter tensors meet the base's: names taken apart, modules looked up, what remains refused.
#pragma once

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

namespace tftf::merge {

class Resolver {
 public:
  Resolver(const std::shared_ptr<const Adapter>& adapter, std::span<const TensorView> base,
           const MergeOptions& options, bool tied);
  Result<MergeResolution> resolve();

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
  Error refuse(ErrorCode code, const std::string& what) const;
  Result<void> check_config();
  Result<void> group();
  Result<void> place_saved();
  std::vector<std::string> saved_modules(const std::vector<std::string>& names) const;
  Error twice(const std::string& tensor, const std::string& name) const;
  Result<void> check_replacement(const NamedTensor& tensor, const TensorView& base);
  // Parameters that target_parameters names, by their module.
  void find_parameters();
  TensorView view(uint32_t i) const;
  Result<void> place(const ModuleParts& parts);
  // The MultiheadAttention that a module is the output projection of: it is targeted, and its rank given, by that name.
  std::optional<std::string> attention_of(const std::string& module) const;
  // What rank and alpha patterns are matched against.
  std::string pattern_path(const std::string& module) const { return attention_of(module).value_or(module); }
  Result<bool> is_target(const std::string& module) const;
  std::optional<uint32_t> find_weight(const ModuleParts& parts) const;
  Result<void> check_pair(const ModuleParts& parts) const;
  Result<bool> place_parameter(const ModuleParts& parts, const std::vector<uint32_t>& candidates);
  // `make` gives the program for the weight.
  template <class Make>
  Result<void> place_program(const ModuleParts& parts, uint32_t i, Make make);
  Result<void> place_at(const ModuleParts& parts, uint32_t i);
  Result<void> check_dtype(uint32_t i) const;
  Result<void> place_tokens();
  Result<void> set_rows(const Saved& token, const TokenIndices& indices, uint32_t i);
  // An output head that shares the table gets the same rows where it is stored on its own.
  Result<void> set_tied_rows(const Saved& token, const TokenIndices& indices, uint32_t i);
  void note_tied_weights();
  // modules_to_save whose tensors the adapter lacks, although the base has such modules.
  void note_unsaved_modules();
  // Magnitudes that use_dora does not announce.
  void note_undeclared_dora();
  std::string coverage() const;
  Result<void> check_coverage();
  // A leading prefix that one side has and the other lacks, the same for all modules.
  std::string rename_hint(const std::vector<std::string>& modules) const;

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

}  // namespace tftf::merge
