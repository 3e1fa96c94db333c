// Makes the configuration of a text model of that of its wrapper.
#include "text_part.h"

#include <algorithm>

#include "tftf/base/affix.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"

namespace tftf::transform {
namespace {

// Taken from the wrapper where the text model's own configuration lacks them.
constexpr std::string_view kInherited[] = {
    "dtype",        "torch_dtype",         "bos_token_id",        "eos_token_id",
    "pad_token_id", "quantization_config", "transformers_version"};
// What an old configuration has that is not of the text model.
constexpr std::string_view kOfWrapper[] = {"architectures", "model_type",          "vision_config",
                                           "audio_config",  "quantization_config", "auto_map"};
// Without them a reader takes its class's own values.
constexpr std::string_view kSizes[] = {"hidden_size", "intermediate_size", "num_hidden_layers",
                                       "num_attention_heads"};

bool is_vision_token(std::string_view key) {
  const bool of_picture =
      starts_with(key, "vision_") || starts_with(key, "image_") || starts_with(key, "video_");
  return of_picture && contains(key, "token");
}

bool among(std::span<const std::string_view> list, std::string_view key) {
  return std::find(list.begin(), list.end(), key) != list.end();
}

// A document of one object, member by member.
class ObjectText {
 public:
  void add(std::string_view key, const std::string& value) {
    text_ += (text_.empty() ? "{\n  " : ",\n  ") + json_ascii_string(key) + ": " + value;
  }
  std::string text() const { return text_.empty() ? "{}\n" : text_ + "\n}\n"; }

 private:
  std::string text_;
};

// A value as it stands in `text`, brought `out` steps of two spaces to the left.
std::string value_text_of(const JsonValue& value, std::string_view text, bool out) {
  const std::string raw(text.substr(to_size(value.begin), to_size(value.end - value.begin)));
  if (!out) return raw;
  std::string moved;
  for (size_t i = 0; i < raw.size(); ++i) {
    moved += raw[i];
    if (raw[i] == '\n' && raw.compare(i + 1, 2, "  ") == 0) i += 2;
  }
  return moved;
}

// Rope without the sections of pictures.
void make_rope_plain(ConfigText& config) {
  for (const std::string_view member : {"rope_parameters", "rope_scaling"}) {
    for (const std::string_view key : {"mrope_section", "mrope_interleaved"}) config.cut({member, key});
    for (const std::string_view key : {"type", "rope_type"}) {
      const JsonValue* rope = config.root().find(member);
      const auto type = rope != nullptr && rope->is_object() ? rope->string(key) : std::nullopt;
      if (type == "mrope") config.replace_string({member, key}, "default");
    }
  }
}

}  // namespace

Result<TextModel> find_text_model(const JsonValue* config, const ModelType& wrapper) {
  const auto refused = [&](const std::string& what) {
    return Error{.code = ErrorCode::kRefusedUnsupported,
                 .message = "Model type " + quote_name(wrapper.name) + " " + what + ".",
                 .found = std::string(wrapper.name)};
  };
  if (wrapper.text == nullptr)
    return refused("is no wrapper with a text model of its own, so that --part text has nothing to take out");
  if (config == nullptr || !config->is_object())
    return refused("has its text model described by config.json, which is not there");
  TextModel model;
  model.config = config->get(wrapper.text->config);
  if (model.config != nullptr && !model.config->is_object()) model.config = nullptr;
  std::string type;
  if (model.config != nullptr) {
    type = model.config->string("model_type").value_or("");
    if (type.empty()) return refused("has a text model whose configuration names no model_type");
  } else {
    type = wrapper.text->flat;
    if (type.empty())
      return refused("keeps its text model in " + quote_name(wrapper.text->config) +
                     " of config.json, which is not there");
  }
  model.equivalent = find_text_equivalent(type);
  model.type = model.equivalent != nullptr ? std::string(model.equivalent->type) : type;
  model.architecture = text_architecture(model.type);
  if (model.architecture.empty())
    return refused("has a text model of type " + quote_name(type) + ", which no class runs alone");
  return model;
}

std::string text_config(const TextModel& model, const JsonValue& root, std::string_view text,
                        std::vector<std::string>& warnings) {
  const JsonValue& from = model.config != nullptr ? *model.config : root;
  const bool nested = model.config != nullptr;
  const JsonValue* tie = root.find("tie_word_embeddings");
  ObjectText made;
  made.add("architectures", "[\n    " + json_ascii_string(model.architecture) + "\n  ]");
  bool typed = false, tied = false;
  for (const JsonValue::Member& member : from.members) {
    const std::string& key = member.first;
    if (from.find(key) != &member.second || key == "architectures") continue;
    if (key == "model_type") {
      made.add(key, json_ascii_string(model.type));
      typed = true;
    } else if (!nested && (among(kOfWrapper, key) || is_vision_token(key))) {
      continue;
    } else if (key == "tie_word_embeddings" && tie != nullptr) {
      made.add(key, value_text_of(*tie, text, false));
      tied = true;
    } else {
      made.add(key, value_text_of(member.second, text, nested));
    }
  }
  if (!typed) made.add("model_type", json_ascii_string(model.type));
  if (tie != nullptr && !tied) made.add("tie_word_embeddings", value_text_of(*tie, text, false));
  for (const std::string_view key : kInherited) {
    const JsonValue* value = root.find(key);
    if (value != nullptr && (nested ? from.find(key) == nullptr : among(kOfWrapper, key)))
      made.add(key, value_text_of(*value, text, false));
  }
  ConfigText config("config.json", made.text());
  if (model.equivalent != nullptr && model.equivalent->plain_rope) make_rope_plain(config);
  if (model.equivalent != nullptr && !model.equivalent->set_true.empty())
    config.set({model.equivalent->set_true}, "true");
  for (const std::string_view key : kSizes) {
    if (config.root().get(key) != nullptr) continue;
    warnings.push_back("config.json of the text model has no " + std::string(key) +
                       ": readers take the value that its class has by itself.");
  }
  return config.text();
}

}  // namespace tftf::transform
