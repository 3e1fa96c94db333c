// A model folder's configuration and tensor names as the rules against silent loss see them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tftf/lint/config_rules.h"

namespace tftf {

// config.json with the text model's part, which multimodal configurations nest.
class ModelConfig {
 public:
  explicit ModelConfig(const JsonValue& root);

  const JsonValue& root() const { return root_; }
  // The key's value in the text part, when absent there at the top level.
  const JsonValue* get(std::string_view key) const;
  std::optional<int64_t> integer(std::string_view key) const;
  // JSON Pointer of what get() finds.
  std::string pointer(std::string_view key) const;
  // `tie_word_embeddings` is given at the top level or in the text part, and is `value` wherever it is given.
  bool ties_everywhere(bool value) const;
  // It is true somewhere.
  bool ties_anywhere() const;
  // An architecture that has an output head.
  bool generates() const;

 private:
  const JsonValue& root_;
  const JsonValue* text_ = nullptr;
  std::string_view text_key_;
};

struct ModelFacts {
  const ConfigInput& folder;
  ModelConfig config;
  std::string_view model_type;
  bool has_family = false;  // a table of its tensors exists
  bool is_mlx = false;
  std::string file;  // path of config.json

  ModelFacts(const ConfigInput& input, const JsonValue& root, std::string_view type, bool family,
             std::string path);
  // Absence proves something.
  bool complete() const { return !folder.incomplete && !folder.unsound; }
};

using RuleValues = std::vector<std::pair<std::string, DiagnosticValue>>;
// A finding about config.json; `key`, when not empty, gives its place.
void add_config_finding(Diagnostics& out, const ModelFacts& facts, Rule rule,
                        std::optional<std::string> subject, RuleValues values, std::string_view key = {});

// MLX's mark: the object `quantization`, or its name in the metadata of a weight file.
bool is_mlx_folder(const JsonValue& config, std::span<const ConfigWeightFile> files);

// Calls `visit` with every part of a name between dots.
template <class Visit>
void for_each_component(std::string_view name, Visit visit) {
  while (true) {
    const size_t dot = name.find('.');
    visit(name.substr(0, dot));
    if (dot == std::string_view::npos) return;
    name.remove_prefix(dot + 1);
  }
}
// A number without leading zeros, of at most nine digits.
std::optional<uint32_t> component_number(std::string_view component);
// Whether a component before the last contains a word of a vision (audio) tower.
bool in_vision_tower(std::string_view name);
bool in_audio_tower(std::string_view name);
inline bool in_tower(std::string_view name) { return in_vision_tower(name) || in_audio_tower(name); }

// CF040, CF042.
void check_parts(Diagnostics& out, const ModelFacts& facts);
// CF043, CF044.
void check_experts(Diagnostics& out, const ModelFacts& facts);
// CF060, CF061.
void check_layout(Diagnostics& out, const ModelFacts& facts);
// CF045, CF046.
void check_wrappers(Diagnostics& out, const ModelFacts& facts);
// CF047, CF048, and for model types without a family table CF021, CF030; `tied` as in check_config.
void check_embeddings(Diagnostics& out, const ModelFacts& facts, std::optional<TiedTensors>* tied);

}  // namespace tftf
