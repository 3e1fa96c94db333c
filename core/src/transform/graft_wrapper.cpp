#include "graft_wrapper.h"

#include <algorithm>

#include "layout_change.h"
#include "module_lists.h"
#include "tftf/base/affix.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"

namespace tftf::transform {
namespace {

constexpr std::string_view kTextBody = "model.", kTextHead = "lm_head.";
constexpr std::string_view kQuantisation = "quantization_config";
constexpr std::string_view kTie = "tie_word_embeddings";
// What the text model's configuration says of itself, not of the wrapper's part.
constexpr std::string_view kOwn[] = {"model_type", "architectures", "transformers_version", "auto_map",
                                     kQuantisation};
constexpr std::string_view kDtypes[] = {"dtype", "torch_dtype"};
constexpr std::string_view kRope[] = {"rope_parameters", "rope_scaling"};

template <size_t N>
bool is_one_of(const std::string_view (&list)[N], std::string_view key) {
  return std::find(std::begin(list), std::end(list), key) != std::end(list);
}

// A name of the text model inside of the wrapper, in the names of transformers 5; nothing for another name.
std::optional<std::string> wrapped_name(const TextPart& part, std::string_view name) {
  if (starts_with(name, kTextBody))
    return std::string(part.body.in5) + std::string(name.substr(kTextBody.size()));
  if (starts_with(name, kTextHead))
    return std::string(part.head.in5) + std::string(name.substr(kTextHead.size()));
  return std::nullopt;
}

// The wrapper's configuration with the text model's values.
class WrapperConfig {
 public:
  WrapperConfig(const SideFile& wrapper, const std::string& text, const JsonValue& text_root,
                const WrappedPart& part)
      : config_(wrapper.name, wrapper.text), text_(text), root_(text_root), part_(part) {}

  ConfigText made() {
    const TextPart& place = *part_.wrapper.type->text;
    std::vector<std::string_view> within;
    if (part_.nested) within.push_back(place.config);
    const JsonValue* section = part_.nested ? config_.root().find(place.config) : &config_.root();
    std::vector<std::string> keys;
    for (const JsonValue::Member& member : section->members) keys.push_back(member.first);
    for (const std::string& key : keys) {
      if (follows(key)) set(within, key);
    }
    for (const std::string_view key : kDtypes) {
      set_or_cut({}, key);
      if (part_.nested && root_.find(key) == nullptr) config_.cut(path_of(within, key));
    }
    if (part_.nested) {
      config_.cut(path_of(within, kQuantisation));
      if (config_.root().find(kTie) != nullptr) set({}, kTie);
    }
    set_or_cut({}, kQuantisation);
    return std::move(config_);
  }

 private:
  static std::vector<std::string_view> path_of(std::vector<std::string_view> within, std::string_view key) {
    within.push_back(key);
    return within;
  }

  bool follows(std::string_view key) const {
    if (is_one_of(kOwn, key)) return false;
    if (part_.equivalent == nullptr) return true;
    return !is_one_of(kRope, key) && key != part_.equivalent->set_true;
  }

  // The text model's value, as it is written there, when it has one.
  bool set(const std::vector<std::string_view>& within, std::string_view key) {
    const JsonValue* value = root_.find(key);
    if (value == nullptr) return false;
    const std::string json = text_.substr(to_size(value->begin), to_size(value->end - value->begin));
    const JsonValue* there = &config_.root();
    for (const std::string_view step : path_of(within, key))
      there = there != nullptr && there->is_object() ? there->find(step) : nullptr;
    const bool same =
        there != nullptr &&
        config_.text().compare(to_size(there->begin), to_size(there->end - there->begin), json) == 0;
    if (!same) config_.set(path_of(within, key), json);
    return true;
  }

  void set_or_cut(const std::vector<std::string_view>& within, std::string_view key) {
    if (!set(within, key)) config_.cut(path_of(within, key));
  }

  ConfigText config_;
  const std::string& text_;
  const JsonValue& root_;
  const WrappedPart& part_;
};

Error outside(const Stream& model, const StreamTensor& tensor) {
  return {.code = ErrorCode::kRefusedMissing,
          .message = "Tensor " + model.described(tensor) +
                     " is neither below model. nor lm_head.: the wrapper has no place for it.",
          .file = model.file_of(tensor.source),
          .tensor = tensor.name};
}

// The text of config.json as it is now.
const std::string& config_text_of(const Stream& stream) {
  return stream.rewritten != nullptr ? stream.rewritten->text : stream.home->side_file("config.json")->text;
}

}  // namespace

std::optional<WrappedPart> find_wrapped_part(const JsonValue* wrapper_config, const std::string& text) {
  const auto entry = known_model_entry(wrapper_config);
  if (text.empty() || !entry || entry->type->text == nullptr) return std::nullopt;
  const TextPart& place = *entry->type->text;
  const JsonValue* section = wrapper_config->get(place.config);
  WrappedPart part{.wrapper = *entry, .nested = section != nullptr && section->is_object()};
  const std::string type(part.nested ? section->string("model_type").value_or("") : place.flat);
  if (type == text) return part;
  part.equivalent = find_text_equivalent(type);
  if (part.equivalent == nullptr || part.equivalent->type != text) return std::nullopt;
  return part;
}

Result<void> put_into_wrapper(Stream& model, const Stream& source, const WrappedPart& part,
                              const GraftNaming& naming) {
  const TextPart& place = *part.wrapper.type->text;
  const auto type = model.config()->string("model_type");
  if (type && find_model_type(*type) != nullptr) {
    TFTF_TRY(change_layout(model, {.to = NameLayout::kTransformers5,
                                   .model_type = std::string(*type),
                                   .allow_unmapped = naming.allow_unmapped}));
  }
  for (StreamTensor& tensor : model.tensors) {
    auto name = wrapped_name(place, tensor.name);
    if (!name) return outside(model, tensor);
    tensor.name = *std::move(name);
  }
  const SideFile* wrapper = source.home->side_file("config.json");
  const std::string text = config_text_of(model);  // the rewritten one goes
  const JsonDocument document = parse_json(text, JsonDialect::kPython);
  ConfigText config = WrapperConfig(*wrapper, text, document.root, part).made();
  const auto move = [&place](const std::string& entry) {
    auto moved = wrapped_name(place, entry + ".");
    if (!moved) return ModuleMove{entry};
    moved->pop_back();
    return ModuleMove{*std::move(moved)};
  };
  move_module_lists(move, "The text model goes into its wrapper", config, model.warnings);
  model.rewritten.reset();
  model.rewrite_config(std::move(config));
  model.renamed = false;
  model.lists_current = true;
  for (StreamTensor& tensor : model.tensors) tensor.listed_name.reset();
  model.relaid = true;
  Result<uint64_t> moved = bring_to_layout_of(source, model, part.wrapper, naming);
  if (!moved) return std::move(moved).error();
  return {};
}

}  // namespace tftf::transform
