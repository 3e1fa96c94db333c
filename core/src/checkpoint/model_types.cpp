// Look-ups in the table of model types, and the small tables beside it.
#include "tftf/checkpoint/model_types.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "tftf/base/escape.h"

namespace tftf {
namespace {

// What has rules that a file cannot tell, or forms that are no fused or split experts.
struct LeftOutType {
  std::string_view name;
  std::string_view reason;
};
constexpr std::string_view kHeadClass = "its names hang on the head class, which a file does not record";
constexpr LeftOutType kLeftOut[] = {
    {"ernie4_5_vl_moe",
     "one list of experts becomes two fused sets, for text and vision, and its router is turned"},
    {"deepseek_ocr2", "it has the names of three foreign models inside"},
    {"longcat_flash", "transformers 5 makes room for its zero experts in one of two fused tensors only"},
    {"dbrx", "its experts are flat rows [E*F, H]"},
    {"jetmoe", "its attention has experts"},
    {"aria", "its grouped matrices are fc1 and fc2"},
    {"vit", kHeadClass},
    {"beit", kHeadClass},
    {"deit", kHeadClass},
    {"segformer", kHeadClass},
    {"swin", kHeadClass},
    {"detr", kHeadClass},
    {"rt_detr", kHeadClass},
    {"clip", kHeadClass},
    {"clip_text_model", kHeadClass},
    {"clip_vision_model", kHeadClass},
    {"sapiens2", kHeadClass},
    {"sam3", kHeadClass}};

constexpr std::pair<std::string_view, std::string_view> kTextArchitectures[] = {
    {"llama", "LlamaForCausalLM"},           {"mistral", "MistralForCausalLM"},
    {"ministral3", "Ministral3ForCausalLM"}, {"qwen2", "Qwen2ForCausalLM"},
    {"qwen3", "Qwen3ForCausalLM"},           {"qwen3_moe", "Qwen3MoeForCausalLM"},
    {"gemma", "GemmaForCausalLM"},           {"gemma2", "Gemma2ForCausalLM"},
    {"gemma3_text", "Gemma3ForCausalLM"},    {"gemma4_text", "Gemma4ForCausalLM"},
    {"cohere2", "Cohere2ForCausalLM"},       {"llama4_text", "Llama4ForCausalLM"},
    {"qwen3_5_text", "Qwen3_5ForCausalLM"},  {"qwen3_5_moe_text", "Qwen3_5MoeForCausalLM"},
    {"glm4_moe", "Glm4MoeForCausalLM"},      {"persimmon", "PersimmonForCausalLM"},
    {"granite", "GraniteForCausalLM"}};

constexpr TextEquivalent kTextEquivalents[] = {
    {.name = "qwen2_vl_text", .type = "qwen2", .plain_rope = true},
    {.name = "qwen2_5_vl_text", .type = "qwen2", .plain_rope = true},
    {.name = "qwen3_vl_text", .type = "qwen3", .plain_rope = true},
    {.name = "qwen3_vl_moe_text", .type = "qwen3_moe", .plain_rope = true, .set_true = "norm_topk_prob"},
    {.name = "glm4v_moe_text", .type = "glm4_moe", .plain_rope = true}};

constexpr std::string_view kExpertCountKeys[] = {"num_local_experts", "num_experts", "n_routed_experts",
                                                 "moe_num_experts"};

std::optional<uint64_t> count_in(const JsonValue& config) {
  for (const std::string_view key : kExpertCountKeys) {
    const JsonValue* value = config.get(key);
    if (value == nullptr) continue;
    const JsonValue* one = value;
    if (value->is_array()) {
      if (value->elements.empty()) return std::nullopt;
      one = &value->elements.front();
      for (const JsonValue& element : value->elements)
        if (element.as_integer() != one->as_integer()) return std::nullopt;
    }
    const auto count = one->as_integer();
    return count && *count >= 0 ? std::optional(static_cast<uint64_t>(*count)) : std::nullopt;
  }
  return std::nullopt;
}

const JsonValue* object_member(const JsonValue* object, std::string_view key) {
  const JsonValue* value = object != nullptr && object->is_object() ? object->get(key) : nullptr;
  return value != nullptr && value->is_object() ? value : nullptr;
}

std::optional<std::string_view> type_of(const JsonValue* config) {
  return config != nullptr && config->is_object() ? config->string("model_type") : std::nullopt;
}

ModelEntry entry_of(const ModelType& type, const JsonValue* config) {
  ModelEntry entry{&type};
  if (type.text == nullptr || !type.experts.empty()) return entry;
  const auto inner = type_of(object_member(config, type.text->config));
  if (inner) entry.inner = find_model_type(*inner);
  return entry;
}

}  // namespace

std::string_view name_layout_text(NameLayout layout) {
  return layout == NameLayout::kTransformers4 ? "transformers-4" : "transformers-5";
}

std::optional<NameLayout> find_name_layout(std::string_view text) {
  for (const NameLayout layout : {NameLayout::kTransformers4, NameLayout::kTransformers5})
    if (text == name_layout_text(layout)) return layout;
  return std::nullopt;
}

std::string_view expert_form_text(ExpertForm form) {
  return form == ExpertForm::kSplit ? "split" : form == ExpertForm::kFused ? "fused" : "kept";
}

std::string_view expert_axes_text(ExpertAxes axes) {
  return axes == ExpertAxes::kOutIn ? "out-in" : "in-out";
}

const ModelType* find_model_type(std::string_view name) {
  static const auto* const by_name = [] {
    auto* map = new std::unordered_map<std::string_view, const ModelType*>();
    for (const ModelType& type : model_types()) map->emplace(type.name, &type);
    return map;
  }();
  const auto found = by_name->find(name);
  return found == by_name->end() ? nullptr : found->second;
}

std::string_view left_out_reason(std::string_view name) {
  for (const LeftOutType& type : kLeftOut)
    if (type.name == name) return type.reason;
  return "";
}

std::string_view text_architecture(std::string_view type) {
  for (const auto& [name, architecture] : kTextArchitectures)
    if (name == type) return architecture;
  return "";
}

std::span<const TextEquivalent> text_equivalents() { return kTextEquivalents; }

const TextEquivalent* find_text_equivalent(std::string_view name) {
  for (const TextEquivalent& equivalent : kTextEquivalents)
    if (equivalent.name == name) return &equivalent;
  return nullptr;
}

std::span<const std::string_view> expert_count_keys() { return kExpertCountKeys; }

std::optional<uint64_t> expert_count(const JsonValue* config) {
  if (config == nullptr || !config->is_object()) return std::nullopt;
  if (const JsonValue* text = object_member(config, "text_config")) {
    const auto has = [text](std::string_view key) { return text->get(key) != nullptr; };
    if (std::any_of(std::begin(kExpertCountKeys), std::end(kExpertCountKeys), has)) return count_in(*text);
  }
  return count_in(*config);
}

Result<ModelEntry> find_model_entry(const JsonValue* config, std::string_view given) {
  const std::string name(given.empty() ? type_of(config).value_or("") : given);
  if (name.empty()) {
    return Error{.code = ErrorCode::kRefusedMissing,
                 .message =
                     "The model type is not known: there is no config.json with a model_type; "
                     "--model-type names it.",
                 .expected = "model_type"};
  }
  if (const ModelType* type = find_model_type(name)) return entry_of(*type, config);
  const std::string_view reason = left_out_reason(name);
  return Error{.code = ErrorCode::kRefusedUnsupported,
               .message = "Model type " + quote_name(name) +
                          (reason.empty() ? std::string(" is not in the table of layouts and experts.")
                                          : " is left out of the table: " + std::string(reason) + "."),
               .found = name};
}

std::optional<ModelEntry> known_model_entry(const JsonValue* config) {
  const auto name = type_of(config);
  const ModelType* type = name ? find_model_type(*name) : nullptr;
  return type == nullptr ? std::nullopt : std::optional(entry_of(*type, config));
}

}  // namespace tftf
