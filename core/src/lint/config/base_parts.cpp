#include "lint/config/base_parts.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>

#include "lint/config/model_facts.h"
#include "tftf/base/affix.h"
#include "tftf/checkpoint/layout_names.h"

namespace tftf {
namespace {

constexpr std::string_view kWeightEnd = ".weight";

// Modules under names that do not depend on layout and form: experts are one module, whichever way they are stored.
class ModuleNames {
 public:
  explicit ModuleNames(const JsonValue* config) : entry_(known_model_entry(config)) {
    if (entry_) names_.emplace(*entry_);
  }

  std::string of(std::string_view name) const {
    // Bitsandbytes hangs its state below the weight.
    if (const size_t below = name.find(".weight."); below != std::string_view::npos)
      name = name.substr(0, below + kWeightEnd.size());
    if (entry_) {
      if (const auto expert = parse_expert_name(entry_->experts(), name))
        return converted(std::string(expert->prefix) + std::string(expert->kind->path[expert->under]));
    }
    return converted(std::string(name.substr(0, std::min(name.rfind('.'), name.size()))));
  }

 private:
  std::string converted(std::string module) const {
    if (!names_ || !names_->has_rules()) return module;
    std::string moved = names_->convert(module + ".", NameLayout::kTransformers5).name;
    if (!moved.empty() && moved.back() == '.') moved.pop_back();
    return moved;
  }

  std::optional<ModelEntry> entry_;
  std::optional<LayoutNames> names_;
};

bool ties(const JsonValue& config) {
  const ModelConfig model(config);
  return model.ties_anywhere();
}

}  // namespace

void check_base_parts(Diagnostics& out, const ConfigInput& input, const BaseModel& base) {
  if (input.adapter_folder || input.incomplete || input.unsound || input.is_colibri || !input.config_text ||
      input.tensors.empty() || base.problem() || !base.complete())
    return;
  JsonDocument parsed;
  if (input.config == nullptr) parsed = parse_json(*input.config_text, JsonDialect::kPython);
  const JsonDocument& document = input.config ? *input.config : parsed;
  if (!document.root.is_object() || is_mlx_folder(document.root, input.files)) return;
  const ModuleNames names(&document.root);
  std::unordered_set<std::string> ours;
  for (const ConfigTensor& tensor : input.tensors) ours.insert(names.of(tensor.name));
  for (const std::string_view name : input.other_names) ours.insert(names.of(name));
  const bool tied = ties(document.root);
  std::set<std::string> all, gone;
  for (const std::string_view name : base.names()) {
    const TensorInfo* tensor = base.find(name);
    const bool stack = tensor != nullptr && tensor->shape.size() == 3 && contains(name, "experts");
    if (!ends_with(name, kWeightEnd) && !stack) continue;
    const std::string module = names.of(name);
    all.insert(module);
    const bool head = module == "lm_head" || ends_with(module, ".lm_head");
    if (ours.count(module) == 0 && !(head && tied)) gone.insert(module);
  }
  // A base of which hardly anything is there is another model.
  if (gone.empty() || gone.size() * 2 > all.size()) return;
  Diagnostic& finding = out.emplace_back();
  finding.rule = Rule::CF062;
  finding.file = input.folder + "config.json";
  finding.subject = *gone.begin();
  finding.values = {{"count", static_cast<uint64_t>(gone.size())}, {"module", *gone.begin()}};
}

}  // namespace tftf
