// Names of tensors in the layouts of transformers 4 and 5, and what a name below a container of experts means
// (spec experts 3 and 4.1).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tftf/checkpoint/model_types.h"

namespace tftf {

// The rules of one model, made ready. A name takes time proportional to its length, however many rules there are.
class LayoutNames {
 public:
  explicit LayoutNames(const ModelEntry& entry);

  struct Answer {
    std::string name{};
    bool moved = false;
    bool known = true;     // false: the type knows which names it has, and this is none of them
    bool one_way = false;  // moved by a rule that is read in this direction only
  };
  // What a name of either layout, of a tensor or of a module with a dot behind, is called in layout `to`. A name that is
  // there already, or that no rule speaks of, stays.
  Answer convert(std::string_view name, NameLayout to) const;
  // Below a start that is never touched, names and experts alike.
  bool keeps(std::string_view name) const;
  // Whether there are any rules at all.
  bool has_rules() const { return !starts_.empty() || !inside_.empty(); }

 private:
  struct Side {
    const NameRule* rule = nullptr;
    NameLayout layout{};
    bool below_body = false;  // of the text model: for names below its body
    std::string_view text() const { return rule->side[layout]; }
  };
  struct Found {
    Side side{};
    size_t at = 0;
    explicit operator bool() const { return side.rule != nullptr; }
  };
  // Without the rules of ends. `there`: a rule has found the name to be there already.
  Answer by_rules(std::string_view name, NameLayout to, bool& there) const;
  Found start_of(std::string_view name, NameLayout to) const;
  Found inside_of(std::string_view name, NameLayout to) const;
  void add_inside(const ModelType& type, bool below_body);

  ModelEntry entry_;
  std::vector<Side> starts_;                                        // by falling length
  std::unordered_map<std::string_view, std::vector<Side>> inside_;  // by their first component
};

// Which layout names have, by what most of them would be moved by.
class LayoutVote {
 public:
  explicit LayoutVote(const LayoutNames& names) : names_(names) {}
  void add(std::string_view name);
  NameLayout layout() const { return to4_ > to5_ ? NameLayout::kTransformers5 : NameLayout::kTransformers4; }
  // How many of the names would move to transformers 5, and to transformers 4.
  uint64_t to5() const { return to5_; }
  uint64_t to4() const { return to4_; }

 private:
  const LayoutNames& names_;
  uint64_t to5_ = 0, to4_ = 0;
};

// A name below a container of experts.
struct ExpertName {
  enum class What : uint8_t {
    kSplit,     // CONTAINER.NUMBER.PART.REST
    kFused,     // CONTAINER.FUSED REST
    kStray,     // CONTAINER.NUMBER.ANYTHING ELSE: `rest` is behind the number
    kAboveTail  // CONTAINER.FUSED.ANYTHING: `rest` is behind the fused name's dot
  };
  enum class Part : uint8_t { kGate, kUp, kDown };  // kFused: kUp stands for gate and up
  What what = What::kSplit;
  const ExpertKind* kind = nullptr;
  std::string_view prefix{};     // before the path, with its dot; may be empty
  std::string_view container{};  // prefix and path
  NameLayout under{};            // whose path it is; with equal paths kTransformers4
  InLayouts<bool> at{};          // the layouts whose path it is
  Part part = Part::kGate;
  std::string_view number{};  // kSplit, kStray: digits as written
  std::string_view rest{};    // kSplit: suffix ("weight"); kFused: tail ("", "_bias")
};
// Nothing for a name that is below no container.
std::optional<ExpertName> parse_expert_name(std::span<const ExpertKind> kinds, std::string_view name);

// "weight_scale" to "_scale", "weight" to "", "bias" to "_bias"; and back.
std::string tail_of_suffix(std::string_view suffix);
std::string suffix_of_tail(std::string_view tail);

}  // namespace tftf
