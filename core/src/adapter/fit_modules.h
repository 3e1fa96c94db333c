// An adapter on its way to a base: the pairs that it has, what of the base they meet, and what becomes of them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "adapter/fit_flat.h"
#include "tftf/adapter/fit.h"
#include "tftf/adapter/peft_config.h"
#include "tftf/adapter/targeting.h"
#include "tftf/checkpoint/layout_names.h"

namespace tftf::fitting {

// Two factors: A (rank, in) and B (out, rank).
struct FactorPair {
  TensorRef a{}, b{};
  uint32_t nesting = 0;
};

// A module, or a container of experts whose parameters are adapted together: then there is a pair for each parameter, the
// outermost first.
struct Unit {
  std::string own{};   // its path in the adapter
  std::string path{};  // its path once names are moved
  std::vector<FactorPair> pairs{};
  bool flat = false;
};

struct Input {
  const Checkpoint& adapter;
  ValueScans& scans;
  const FitOptions& options;
  PeftConfig config{};
  std::optional<Targeting> targeting{};
  std::vector<Unit> units{};
  const TensorInfo& info(TensorRef tensor) const { return adapter.info(tensor); }
  const std::string& file() const { return adapter.shards.front().name; }
};

Error fit_error(const Input& input, ErrorCode code, std::string message, std::string_view tensor = "");
// Reads configuration and names. Everything but complete pairs is refused.
Result<void> read_units(Input& input);

// The experts of one layer of the base.
struct BaseExperts {
  const ExpertKind* kind = nullptr;
  std::string fused_path{}, split_path{};
  bool fused = false, split = false;
  uint64_t experts = 0;
  uint64_t inner = 0, outer = 0;  // F, H; 0: the shapes do not tell
};

// What of the base counts: its modules and containers.
class FitBase {
 public:
  FitBase(const Checkpoint& base, std::optional<ModelEntry> entry);

  // Whether the module, the container, or an expert of a container in either form is there.
  bool has(const Unit& unit, std::string_view path) const;
  // Of a container by the path of its fused or its split form; null when there is none.
  const BaseExperts* container(std::string_view path) const;
  const std::optional<ModelEntry>& entry() const { return entry_; }
  const LayoutNames* names() const { return names_ ? &*names_ : nullptr; }
  const std::string& given() const { return given_; }

 private:
  void add(const TensorInfo& tensor);
  void size_up(const ExpertName& name, const TensorInfo& tensor, BaseExperts& experts);

  std::optional<ModelEntry> entry_;
  std::optional<LayoutNames> names_;
  std::string given_;
  std::unordered_set<std::string> modules_;
  std::unordered_map<std::string, std::shared_ptr<BaseExperts>> containers_;  // by either path
  std::map<const BaseExperts*, std::pair<Shape, Shape>> fused_shapes_;        // up and down
};

// Gives every unit the path that it has in the base, by the one way of moving all names that leads there. Returns that way
// in words, empty when names stay.
Result<std::string> move_names(Input& input, const FitBase& base);

// What is written.
struct FittedPair {
  std::string path{};       // of the module, or of the container
  std::string parameter{};  // of the container; empty: a module
  uint32_t nesting = 0;
  AdapterRecipe a{}, b{};
  uint64_t rank = 0;  // of one expert
  double alpha = 0;
};
// Experts in the form that is wanted; other modules as they are. Nothing while values are pending.
Result<std::optional<std::vector<FittedPair>>> form_experts(Input& input, const FitBase* base,
                                                            const std::optional<ModelEntry>& entry);

// The configuration of what is written, as text.
std::string fitted_config(const Input& input, const std::vector<FittedPair>& pairs);

}  // namespace tftf::fitting
