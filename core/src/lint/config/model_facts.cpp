#include "lint/config/model_facts.h"

#include <algorithm>
#include <iterator>

#include "lint/file_names.h"
#include "tftf/base/affix.h"

namespace tftf {
namespace {

constexpr std::string_view kTextKeys[] = {"text_config", "llm_config", "language_config"};
constexpr std::string_view kVisionWords[] = {"vision", "vis",       "vit",       "image",   "img",
                                             "patch",  "clip",      "siglip",    "mm_proj", "multi_modal",
                                             "vpm",    "resampler", "connector", "aligner", "merger"};
constexpr std::string_view kAudioWords[] = {"audio", "speech", "whisper", "mel", "sound", "conformer"};
constexpr std::string_view kTies = "tie_word_embeddings";

template <size_t kCount>
bool before_last_holds(std::string_view name, const std::string_view (&words)[kCount]) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return false;
  const std::string path = fold_case(name.substr(0, dot));
  return std::any_of(std::begin(words), std::end(words),
                     [&](std::string_view word) { return contains(path, word); });
}

}  // namespace

ModelConfig::ModelConfig(const JsonValue& root) : root_(root) {
  for (const std::string_view key : kTextKeys) {
    const JsonValue* value = root.get(key);
    if (text_ || !value || !value->is_object()) continue;
    text_ = value;
    text_key_ = key;
  }
}

const JsonValue* ModelConfig::get(std::string_view key) const {
  if (const JsonValue* value = text_ ? text_->get(key) : nullptr) return value;
  return root_.get(key);
}

std::optional<int64_t> ModelConfig::integer(std::string_view key) const {
  const JsonValue* value = get(key);
  return value ? value->as_integer() : std::nullopt;
}

std::string ModelConfig::pointer(std::string_view key) const {
  if (text_ && text_->get(key)) {
    const std::string_view keys[] = {text_key_, key};
    return json_pointer(keys);
  }
  return json_pointer({{key}});
}

bool ModelConfig::ties_everywhere(bool value) const {
  bool given = false;
  for (const JsonValue* place : {&root_, text_}) {
    const JsonValue* tie = place ? place->get(kTies) : nullptr;
    if (!tie) continue;
    if (tie->kind != JsonKind::kBoolean || tie->boolean != value) return false;
    given = true;
  }
  return given;
}

bool ModelConfig::ties_anywhere() const {
  for (const JsonValue* place : {&root_, text_})
    if (const JsonValue* tie = place ? place->get(kTies) : nullptr; tie && tie->is_true()) return true;
  return false;
}

bool ModelConfig::generates() const {
  const JsonValue* list = root_.get("architectures");
  if (!list) return false;
  return std::any_of(list->elements.begin(), list->elements.end(), [](const JsonValue& name) {
    return name.is_string() && (ends_with(name.text, "ForCausalLM") || ends_with(name.text, "LMHeadModel") ||
                                ends_with(name.text, "ForConditionalGeneration"));
  });
}

ModelFacts::ModelFacts(const ConfigInput& input, const JsonValue& root, std::string_view type, bool family,
                       std::string path)
    : folder(input), config(root), model_type(type), has_family(family), file(std::move(path)) {
  is_mlx = is_mlx_folder(root, input.files);
}

bool is_mlx_folder(const JsonValue& config, std::span<const ConfigWeightFile> files) {
  const JsonValue* section = config.get("quantization");
  if (section && section->is_object()) return true;
  return std::any_of(files.begin(), files.end(),
                     [](const ConfigWeightFile& file) { return file.format == "mlx"; });
}

void add_config_finding(Diagnostics& out, const ModelFacts& facts, Rule rule,
                        std::optional<std::string> subject, RuleValues values, std::string_view key) {
  Diagnostic& finding = out.emplace_back();
  finding.rule = rule;
  finding.file = facts.file;
  finding.subject = std::move(subject);
  finding.values = std::move(values);
  if (const JsonValue* value = key.empty() ? nullptr : facts.config.get(key)) {
    finding.pointer = facts.config.pointer(key);
    finding.offset = value->begin;
  }
}

std::optional<uint32_t> component_number(std::string_view component) {
  if (component.empty() || component.size() > 9 || (component[0] == '0' && component.size() > 1))
    return std::nullopt;
  uint32_t number = 0;
  for (const char c : component) {
    if (!is_digit(c)) return std::nullopt;
    number = number * 10 + static_cast<uint32_t>(c - '0');
  }
  return number;
}

bool in_vision_tower(std::string_view name) { return before_last_holds(name, kVisionWords); }
bool in_audio_tower(std::string_view name) { return before_last_holds(name, kAudioWords); }

}  // namespace tftf
