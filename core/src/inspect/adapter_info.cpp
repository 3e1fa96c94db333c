// Documents and texts of `adapter info`.
#include "tftf/inspect/adapter_info.h"

#include <algorithm>

#include "tftf/base/affix.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"

namespace tftf {
namespace {

constexpr size_t kMostShown = 8;

// "2 (lora), 1 (dora)": the first few of pairs of a word and a count of modules.
template <class Pairs>
std::string counts_text(const Pairs& pairs) {
  std::string text;
  size_t shown = 0;
  for (const auto& [word, count] : pairs) {
    if (shown == kMostShown) return text + ", ...";
    std::string name;
    if constexpr (std::is_integral_v<std::decay_t<decltype(word)>>)
      name = std::to_string(word);
    else
      name = escape_text(word);
    text += (shown++ > 0 ? ", " : "") + name + " (" + grouped_digits(count) + ")";
  }
  return text;
}

std::string line_of(std::string_view key, const std::string& value) {
  std::string text(key);
  text.resize(9, ' ');
  return text + ": " + value + "\n";
}

std::string scale_words(AdapterScale scale) {
  switch (scale) {
    case AdapterScale::kAlpha:
      return "alpha tensors over rank";
    case AdapterScale::kConfig:
      return "from adapter_config.json";
    case AdapterScale::kMetadata:
      return "from the file's metadata";
    case AdapterScale::kImplicit:
      return "1, as the family means";
    case AdapterScale::kUnknown:
      break;
  }
  return "unknown: nothing in the file says it";
}

// "model-00001-of-00002.safetensors" and its like.
bool is_shard_name(std::string_view name) {
  const size_t of = name.rfind("-of-");
  return of != std::string_view::npos && of > 0 && name[of - 1] >= '0' && name[of - 1] <= '9';
}

AdapterSurvey survey_of(const ModelInfo& info) {
  if (info.adapter) return *info.adapter;
  AdapterSurvey survey;
  survey.kind = info.adapter_kind;
  survey.evidence = info.adapter_evidence;
  if (survey.evidence.empty())
    survey.evidence.emplace_back(info.rows.empty() ? "there is no tensor"
                                                   : "no tensor has the name of an adapter's");
  survey.unexplained = info.rows.size();
  return survey;
}

}  // namespace

OrderedJson adapter_info_json(const ModelInfo& info) { return adapter_json(survey_of(info)); }

std::string adapter_info_text(const ModelInfo& info) {
  const AdapterSurvey survey = survey_of(info);
  std::string text = line_of("Adapter", escape_text(info.checkpoint->listing.given));
  if (survey.kind != AdapterKind::kAdapter) {
    text += line_of("Kind", std::string(adapter_kind_name(survey.kind)) + ", not an adapter");
    for (const std::string& evidence : survey.evidence) text += line_of("Evidence", evidence);
    return text;
  }
  std::string family = survey.family ? std::string(adapter_family_id(*survey.family)) : "unknown";
  if (survey.ambiguous) {
    family += ", mixed with";
    for (const AdapterFamily other : survey.families)
      if (other != survey.family) family += " " + std::string(adapter_family_id(other));
    family += " (--from chooses one)";
  }
  text += line_of("Family", family);
  text += line_of("For", survey.base_family.empty() ? "a model that the names do not tell"
                                                    : std::string(survey.base_family));
  text += line_of("Modules", grouped_digits(survey.modules.size()) + ": " + counts_text(survey.forms));
  if (!survey.ranks.empty()) text += line_of("Ranks", counts_text(survey.ranks));
  if (!survey.alphas.empty()) text += line_of("Alphas", counts_text(survey.alphas));
  text += line_of("Scale", scale_words(survey.scale));
  for (const std::string& evidence : survey.evidence) text += line_of("Evidence", evidence);
  for (size_t i = 0; i < std::min(survey.unpaired.size(), kMostShown); ++i)
    text += line_of("Unpaired", quote_name(survey.unpaired[i]) + " lacks a factor");
  if (survey.unpaired.size() > kMostShown)
    text += line_of("Unpaired", grouped_digits(survey.unpaired.size() - kMostShown) + " more");
  if (survey.unexplained > 0)
    text += line_of("Other", grouped_digits(survey.unexplained) + " tensor" +
                                 (survey.unexplained == 1 ? "" : "s") + " that no family explains");
  return text;
}

std::optional<Error> no_adapter(const ModelInfo& info) {
  if (info.adapter) return std::nullopt;
  const std::string& given = info.checkpoint->listing.given;
  return Error{.code = ErrorCode::kRefusedInput,
               .message = quote_name(given) + " is not an adapter: " +
                          (info.rows.empty() ? "it has no tensors"
                           : info.adapter_kind == AdapterKind::kEmbedding
                               ? "it is a textual inversion"
                               : "its tensors are named like those of a checkpoint") +
                          ".",
               .file = given};
}

std::vector<std::string> separate_adapters(std::span<const FileEntry> folder) {
  constexpr std::string_view kComponents[] = {"unet", "transformer", "text_encoder", "text_encoder_2",
                                              "text_encoder_3"};
  std::vector<std::string> names, components;
  for (const FileEntry& file : folder) {
    if (ends_with(file.name, ".safetensors.index.json")) return {};
    if (file.name == "adapter_model.safetensors" || file.name == "adapters.safetensors") return {};
    if (file.folder &&
        std::find(std::begin(kComponents), std::end(kComponents), file.name) != std::end(kComponents))
      components.push_back(file.name);
    if (!file.regular || !ends_with(file.name, ".safetensors") || contains(file.name, "/")) continue;
    if (is_shard_name(file.name)) return {};
    names.push_back(file.name);
  }
  // A pipeline of PEFT: a folder each for its models.
  if (names.empty())
    names = std::move(components);
  else if (names.size() < 2)
    return {};
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace tftf
