// Model types of the transformers library whose tensors have other names or another form in its version 5 than in
// released files, as one table: names, experts, joined matrices, where the text model of a wrapper lies (spec experts 3).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tftf/base/json_value.h"
#include "tftf/base/result.h"

namespace tftf {

// kTransformers4: names of released files. kTransformers5: names of the modules of transformers 5.
enum class NameLayout : uint8_t { kTransformers4, kTransformers5 };
// "transformers-4", "transformers-5".
std::string_view name_layout_text(NameLayout layout);
std::optional<NameLayout> find_name_layout(std::string_view text);
constexpr NameLayout other_layout(NameLayout layout) {
  return layout == NameLayout::kTransformers4 ? NameLayout::kTransformers5 : NameLayout::kTransformers4;
}

// What is one thing in one layout and another in the other.
template <class T>
struct InLayouts {
  T in4{};
  T in5{};
  constexpr const T& operator[](NameLayout layout) const {
    return layout == NameLayout::kTransformers4 ? in4 : in5;
  }
};

// A name, or a begin of names, in either layout. One that begins with a dot stands anywhere after the first component;
// without a dot at its end it is the end of the name (spec experts 3.1).
struct NameRule {
  enum class Use : uint8_t {
    kBoth,
    kTo5,   // read in that direction only
    kKeep,  // nothing that begins so is ever touched
  };
  InLayouts<std::string_view> side{};
  Use use = Use::kBoth;
  constexpr bool inside() const { return !side.in4.empty() && side.in4[0] == '.'; }
};

// kSplit: a tensor per expert. kFused: one of all, the expert first. kKept: both are released, the form stays.
enum class ExpertForm : uint8_t { kSplit, kFused, kKept };
// "split", "fused", "kept".
std::string_view expert_form_text(ExpertForm form);
// Of fused tensors: kOutIn [E, 2F, H] and [E, H, F], kInOut [E, H, 2F] and [E, F, H].
enum class ExpertAxes : uint8_t { kOutIn, kInOut };
// "out-in", "in-out".
std::string_view expert_axes_text(ExpertAxes axes);

// A kind of container of experts.
struct ExpertKind {
  InLayouts<std::string_view> path{};  // end of the container's path
  std::string_view split_path{};       // where the split form lies; empty: at `path`
  std::string_view gate{};             // parts of the split form; empty: there is no gate
  std::string_view up{};
  std::string_view down{};
  std::string_view fused_up{};  // gate over up, or up alone where there is no gate
  std::string_view fused_down{};
  InLayouts<ExpertForm> form{ExpertForm::kSplit, ExpertForm::kFused};
  InLayouts<ExpertAxes> axes{};
  bool interleaved = false;  // rows of gate and up alternate; else all of gate come first
  bool bias = false;         // the type has biases of experts
  constexpr bool gated() const { return !gate.empty(); }
  constexpr std::string_view split_at(NameLayout layout) const {
    return split_path.empty() ? path[layout] : split_path;
  }
};

// A matrix that is `parts` in the other layout, one below the other, equal in rows. Ends of names.
struct JoinedMatrix {
  std::string_view whole;
  std::span<const std::string_view> parts;
  NameLayout whole_in;
};

// Where a wrapper keeps its text model.
struct TextPart {
  std::string_view config;             // member of config.json
  InLayouts<std::string_view> body{};  // begin of its names, for "model."
  InLayouts<std::string_view> head{};  // for "lm_head."
  std::string_view flat{};             // its type where an old config has no such member
};

struct ModelType {
  std::string_view name;
  std::span<const NameRule> names{};
  std::span<const ExpertKind> experts{};
  std::span<const JoinedMatrix> joins{};
  // Ends of last components, with their dot.
  std::span<const InLayouts<std::string_view>> suffixes{};
  const TextPart* text = nullptr;
  bool only_to5 = false;  // cannot be brought back
};

// The whole table, by family.
std::span<const ModelType> model_types();
// Nothing for a type outside of the table.
const ModelType* find_model_type(std::string_view name);
// Why a type is left out on purpose, a phrase; empty for any other.
std::string_view left_out_reason(std::string_view name);

// The class that runs a text model alone, by its type; empty: none does.
std::string_view text_architecture(std::string_view type);

// A type that exists in wrappers only, whose arithmetic on text is that of another type.
struct TextEquivalent {
  std::string_view name;
  std::string_view type;
  bool plain_rope = false;      // the sections of multimodal rope go, its type becomes "default"
  std::string_view set_true{};  // a member that the config has to have then; empty: none
};
const TextEquivalent* find_text_equivalent(std::string_view name);
std::span<const TextEquivalent> text_equivalents();

// Members of a config that count experts, in the order in which they are looked for.
std::span<const std::string_view> expert_count_keys();
// How many experts a config tells of: the first of those members in text_config, then at the top. A list counts when all
// are equal. Nothing when it does not say.
std::optional<uint64_t> expert_count(const JsonValue* config);

// A model's entry, with what a wrapper takes from the entry of its text model: experts and joins where it has none, and
// the inside rules for names below the body.
struct ModelEntry {
  const ModelType* type = nullptr;
  const ModelType* inner = nullptr;  // null: nothing is taken
  std::span<const ExpertKind> experts() const { return inner != nullptr ? inner->experts : type->experts; }
  std::span<const JoinedMatrix> joins() const { return inner != nullptr ? inner->joins : type->joins; }
};
// `given`: a type that somebody has named, which counts more than config.json's; empty: none.
// Errors: kRefusedMissing when neither names one, kRefusedUnsupported for a type outside of the table.
Result<ModelEntry> find_model_entry(const JsonValue* config, std::string_view given);
// The same without the sentence: nothing for what would be refused.
std::optional<ModelEntry> known_model_entry(const JsonValue* config);

}  // namespace tftf
