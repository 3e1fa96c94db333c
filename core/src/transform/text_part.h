// The text model of a wrapper, by itself: its tensors, and what config.json says of it (spec experts 8).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stream.h"
#include "tftf/checkpoint/model_types.h"

namespace tftf::transform {

struct TextModel {
  std::string type{};          // that runs it alone
  std::string architecture{};  // its class
  const TextEquivalent* equivalent = nullptr;
  const JsonValue* config =
      nullptr;  // the member; null: an old configuration without one, which is the whole
};
// What a wrapper's configuration says of its text model. kRefusedUnsupported where it has none, or none that a class
// runs alone.
Result<TextModel> find_text_model(const JsonValue* config, const ModelType& wrapper);
// config.json of the text model alone. `root` with its text; warnings are added.
std::string text_config(const TextModel& model, const JsonValue& root, std::string_view text,
                        std::vector<std::string>& warnings);

}  // namespace tftf::transform
