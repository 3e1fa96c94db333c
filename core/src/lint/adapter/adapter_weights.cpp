#include "lint/adapter/adapter_weights.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>

#include "lint/adapter/flat_factors.h"
#include "lint/adapter/module_pattern.h"
#include "lint/file_names.h"
#include "lint/name_table.h"
#include "lint/side_text.h"
#include "tftf/base/affix.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

DiagnosticValue or_missing(std::optional<uint64_t> value) {
  if (!value) return {};
  return *value;
}

std::string_view part_of(const LoraPair& pair, bool first) {
  if (pair.kind == LoraKind::kFlat) return lora_part_name(first ? LoraPart::kDown : LoraPart::kUp);
  if (pair.kind == LoraKind::kEmbedding)
    return lora_part_name(first ? LoraPart::kEmbeddingA : LoraPart::kEmbeddingB);
  return lora_part_name(first ? LoraPart::kA : LoraPart::kB);
}

// A finding about a module: subject as stored, shown without PEFT's prefix.
Diagnostic* report_module(FindingList& list, Rule rule, std::string_view module) {
  Diagnostic* finding = list.add(rule);
  if (!finding) return nullptr;
  finding->subject = std::string(module);
  finding->values = {{"module", std::string(without_peft_prefix(module))}};
  return finding;
}

bool is_whole(const LoraPair& pair) { return pair.a && pair.b; }
bool ranks_agree(const LoraPair& pair) { return pair.rank_a() && pair.rank_a() == pair.rank_b(); }

void check_pairs(FindingList& list, const LoraTensors& tensors) {
  for (const LoraPair& pair : tensors.pairs) {
    if (!is_whole(pair)) {
      if (Diagnostic* finding = report_module(list, Rule::LO006, pair.module)) {
        finding->values.emplace_back("have", std::string(part_of(pair, pair.a != nullptr)));
        finding->values.emplace_back("lacks", std::string(part_of(pair, pair.a == nullptr)));
      }
    } else if (!ranks_agree(pair)) {
      if (Diagnostic* finding = report_module(list, Rule::LO005, pair.module)) {
        finding->values.emplace_back("a", or_missing(pair.rank_a()));
        finding->values.emplace_back("b", or_missing(pair.rank_b()));
      }
    }
  }
}

// LO007: the alpha of a module is one number.
void check_alphas(FindingList& list, const LoraTensors& tensors) {
  for (const TensorInfo* tensor : tensors.others) {
    if (!is_alpha_name(tensors, tensor->name) || element_count(tensor->shape) == 1) continue;
    if (Diagnostic* finding = list.add(Rule::LO007)) {
      finding->subject = tensor->name;
      finding->values = {{"what", tensor->name}, {"value", "of shape " + shape_text(tensor->shape)}};
    }
  }
}

void check_styles(FindingList& list, const LoraTensors& tensors) {
  if (tensors.first_peft.empty() || tensors.first_flat.empty()) return;
  if (Diagnostic* finding = list.add(Rule::LO016))
    finding->values = {{"a", std::string(tensors.first_peft)}, {"b", std::string(tensors.first_flat)}};
}

// rank_pattern or alpha_pattern: unique keys in their order, with the last value of each.
struct PatternKey {
  std::string_view text;
  const JsonValue* value = nullptr;
  uint64_t offset = 0;
  ModulePattern pattern;
  bool used = false;       // matches a module
  bool undecided = false;  // that could not be told for one
};
std::vector<PatternKey> pattern_keys(const JsonValue& config, std::string_view which) {
  std::vector<PatternKey> keys;
  const JsonValue* map = config.get(which);
  if (!map || !map->is_object()) return keys;
  NameTable numbers;
  for (size_t i = 0; i < map->members.size(); ++i) {
    const auto& [key, value] = map->members[i];
    const uint32_t number = numbers.insert(key);
    if (number == keys.size()) keys.push_back({key, nullptr, 0, ModulePattern(key), false, false});
    keys[number].value = &value;
    keys[number].offset = map->key_offsets[i];
  }
  return keys;
}

void match_all(std::vector<PatternKey>& keys, const LoraTensors& tensors) {
  for (PatternKey& key : keys) {
    for (std::string_view module : tensors.modules) {
      const std::optional<bool> matched = key.pattern.matches(without_peft_prefix(module));
      if (!matched) key.undecided = true;
      if (matched.value_or(false)) key.used = true;
      if (key.used || key.undecided) break;
    }
  }
}

void check_ranks(FindingList& list, const LoraTensors& tensors, std::vector<PatternKey>& keys, int64_t rank,
                 const TargetModules& targets) {
  for (const LoraPair& pair : tensors.pairs) {
    if (!is_whole(pair) || !ranks_agree(pair)) continue;
    std::optional<int64_t> expected = rank;
    DiagnosticValue shown = static_cast<uint64_t>(rank);
    bool undecided = false;
    for (PatternKey& key : keys) {
      const std::optional<bool> matched = key.pattern.matches(pair.path());
      undecided = !matched;
      if (undecided) break;
      if (!*matched) continue;
      expected = key.value->as_integer();
      shown = key.value->brief();
      break;
    }
    if (undecided) continue;
    const uint64_t found = *pair.rank_a();
    if (expected && *expected > 0) {
      const auto want = static_cast<uint64_t>(*expected);
      // The factors of a stack of experts lie in one tensor: its rank is a multiple.
      const bool stacked = targets.is_parameter_module(pair.path()) && found != 0 && found % want == 0;
      if (found == want || stacked) continue;
      shown = want;
    }
    if (Diagnostic* finding = report_module(list, Rule::LO004, pair.module)) {
      finding->values.emplace_back("found", found);
      finding->values.emplace_back("expected", std::move(shown));
    }
  }
}

void check_targets(FindingList& weights, FindingList& config_list, const LoraTensors& tensors,
                   TargetModules& targets) {
  if (targets.undecided()) return;
  std::vector<std::string_view> strangers;
  for (std::string_view module : tensors.modules)
    if (!targets.match(without_peft_prefix(module))) strangers.push_back(module);
  if (targets.undecided()) return;
  for (std::string_view module : strangers) report_module(weights, Rule::LO009, module);
  for (const TargetModules::Entry& entry : targets.entries()) {
    if (entry.matched) continue;
    if (Diagnostic* finding = config_list.add(Rule::LO008)) {
      finding->subject = entry.text;
      finding->pointer = entry.pointer;
      finding->offset = entry.offset;
      finding->values = {{"target", entry.text}};
    }
  }
}

// Output and input width of the base weight as the adapter's B and A must have them.
struct Widths {
  uint64_t out = 0;
  uint64_t in = 0;
};

void check_shape(FindingList& list, const LoraPair& pair, const TensorInfo& weight, bool transposed) {
  const DTypeClass kind = dtype_info(weight.dtype).kind;
  if (kind == DTypeClass::kSigned || kind == DTypeClass::kUnsigned || kind == DTypeClass::kBool) return;
  if (!is_whole(pair) || pair.a->shape.size() < 2 || pair.b->shape.empty() || weight.shape.size() < 2) return;
  const Widths adapter = {pair.b->shape[0], pair.a->shape[1]};
  Widths base = {weight.shape[0], weight.shape[1]};
  if (transposed || pair.kind == LoraKind::kEmbedding) std::swap(base.out, base.in);
  if (adapter.out == base.out && adapter.in == base.in) return;
  // A grouped convolution stores in/groups channels; the adapter's A has all of them.
  const bool grouped = weight.shape.size() > 2 && base.in != 0 && adapter.in % base.in == 0;
  if (adapter.out == base.out && grouped) return;
  if (Diagnostic* finding = report_module(list, Rule::LO011, pair.module)) {
    finding->values.emplace_back("out", adapter.out);
    finding->values.emplace_back("inn", adapter.in);
    finding->values.emplace_back("bout", base.out);
    finding->values.emplace_back("bin", base.in);
  }
}

// A parameter that target_parameters names in the module and the base lacks, when it lacks all of them: experts that it
// keeps one by one, mostly. Such a pair has no place, whatever else the module holds.
std::optional<std::string> missing_parameter(std::string_view module, const JsonValue& config,
                                             const BaseModel& base) {
  const JsonValue* parameters = config.get("target_parameters");
  if (!parameters || !parameters->is_array()) return std::nullopt;
  std::optional<std::string> missing;
  for (const JsonValue& entry : parameters->elements) {
    const size_t dot = entry.text.rfind('.');
    if (!entry.is_string() || dot == std::string::npos) continue;
    const std::string_view owner = std::string_view(entry.text).substr(0, dot);
    const bool owns = module == owner || (module.size() > owner.size() && ends_with(module, owner) &&
                                          module[module.size() - owner.size() - 1] == '.');
    if (!owns) continue;
    std::string name = std::string(module) + entry.text.substr(dot);
    if (base.find(name)) return std::nullopt;
    if (!missing) missing = std::move(name);
  }
  return missing;
}

void check_base(FindingList& list, const LoraTensors& tensors, const TargetModules& targets,
                const JsonValue& config, const BaseModel& base) {
  const JsonValue* flag = config.get("fan_in_fan_out");
  const bool transposed = flag && flag->is_true();
  std::string_view missing;  // the last one reported: a module may have several pairs
  uint64_t modules = 0, elsewhere = 0;
  std::string example;  // where the first one is
  std::string_view last;
  for (const LoraPair& pair : tensors.pairs) {
    if (pair.kind == LoraKind::kFlat) continue;  // their names are no paths
    const std::string_view path = without_base_layer(pair.path());
    if (modules == 0 || last != pair.module) ++modules;
    last = pair.module;
    std::string_view there = path;
    if (!base.holds(path)) {
      const size_t dot = path.find('.');
      there = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
      if (there.empty() || !base.holds(there)) {
        if (!base.complete() || missing == pair.module) continue;
        missing = pair.module;
        const std::string other = base.find_elsewhere(path);
        if (!other.empty() && elsewhere++ == 0) example = other;
        if (Diagnostic* finding = report_module(list, Rule::LO010, pair.module)) {
          finding->values.emplace_back("tensor", std::string(path) + ".weight");
          finding->values.emplace_back("hint", other.empty()
                                                   ? std::string()
                                                   : " It has " + quote_name(other) +
                                                         "; the adapter was made for another "
                                                         "wrapping of this model. `tftf adapter "
                                                         "convert --to peft --base BASE` moves it.");
        }
        continue;
      }
    }
    const TensorInfo* weight = base.find(std::string(there) + ".weight");
    if (!weight && base.complete() && missing != pair.module) {
      if (const auto parameter = missing_parameter(there, config, base)) {
        missing = pair.module;
        if (Diagnostic* finding = report_module(list, Rule::LO010, pair.module))
          finding->values.emplace_back("tensor", *parameter);
        continue;
      }
    }
    if (weight && !targets.is_parameter_module(pair.path())) check_shape(list, pair, *weight, transposed);
  }
  if (modules == 0 || elsewhere != modules) return;
  if (Diagnostic* finding = list.add(Rule::LO030))
    finding->values = {{"count", modules}, {"example", std::move(example)}};
}

void check_prefixes(FindingList& list, const LoraTensors& tensors) {
  uint64_t count = 0;
  const TensorInfo* first = nullptr;
  auto look = [&](const TensorInfo* tensor) {
    const LoraName name = *parse_lora_name(tensor->name);
    const bool flat = name.part == LoraPart::kDown || name.part == LoraPart::kUp;
    if (flat || (starts_with(name.module, kPeftPrefix) && name.adapter.empty())) return;
    ++count;
    if (!first || tensor->name < first->name) first = tensor;
  };
  for (const TensorInfo* tensor : tensors.factors) look(tensor);
  for (const TensorInfo* tensor : tensors.magnitudes) look(tensor);
  if (count == 0) return;
  if (Diagnostic* finding = list.add(Rule::LO013)) {
    finding->subject = first->name;
    finding->values = {{"count", count}, {"tensor", first->name}};
  }
}

// Whether `name` has `entry` as path components before its last one.
bool is_saved(std::string_view name, std::string_view entry) {
  const std::string_view path = name.substr(0, name.rfind('.'));
  for (size_t at = path.find(entry); at != std::string_view::npos; at = path.find(entry, at + 1)) {
    const size_t end = at + entry.size();
    if ((at == 0 || path[at - 1] == '.') && (end == path.size() || path[end] == '.')) return true;
  }
  return false;
}

void check_saved(FindingList& config_list, const LoraTensors& tensors, const JsonValue& config) {
  const JsonValue* entries = config.get("modules_to_save");
  if (!entries || !entries->is_array()) return;
  NameTable components;  // of the paths of tensors that are no LoRA part: decides entries without a dot
  for (const TensorInfo* tensor : tensors.others) {
    std::string_view rest = tensor->name;
    for (size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
      components.insert(rest.substr(0, dot));
      rest.remove_prefix(dot + 1);
    }
  }
  NameTable seen;
  for (size_t i = 0; i < entries->elements.size(); ++i) {
    const JsonValue& entry = entries->elements[i];
    if (!entry.is_string()) continue;
    if (const uint32_t known = seen.size(); seen.insert(entry.text) != known) continue;
    bool there = components.find(std::string_view(entry.text).substr(0, entry.text.find('.'))).has_value();
    if (there && entry.text.find('.') != std::string::npos)
      there = std::any_of(tensors.others.begin(), tensors.others.end(),
                          [&](const TensorInfo* tensor) { return is_saved(tensor->name, entry.text); });
    if (there) continue;
    if (Diagnostic* finding = config_list.add(Rule::LO015)) {
      finding->subject = entry.text;
      finding->pointer = "/modules_to_save/" + std::to_string(i);
      finding->offset = entry.begin;
      finding->values = {{"module", entry.text}};
    }
  }
}

void check_magnitudes(FindingList& list, const LoraTensors& tensors, bool use_dora) {
  if (!use_dora) {
    if (tensors.magnitudes.empty()) return;
    if (Diagnostic* finding = list.add(Rule::LO020))
      finding->values = {{"count", static_cast<uint64_t>(tensors.magnitudes.size())}};
    return;
  }
  std::unordered_map<std::string_view, const TensorInfo*> by_module;
  for (const TensorInfo* tensor : tensors.magnitudes)
    by_module.emplace(parse_lora_name(tensor->name)->module, tensor);
  std::string_view missing;
  for (const LoraPair& pair : tensors.pairs) {
    if (pair.kind == LoraKind::kFlat) continue;
    const auto found = by_module.find(pair.module);
    std::string detail;
    if (found == by_module.end()) {
      if (missing == pair.module) continue;
      missing = pair.module;
      detail = "no lora_magnitude_vector";
    } else if (pair.b && !pair.b->shape.empty()) {
      const std::optional<uint64_t> length = element_count(found->second->shape);
      if (length == pair.b->shape[0]) continue;
      detail = "lora_magnitude_vector is of shape " + shape_text(found->second->shape) + ", B has " +
               std::to_string(pair.b->shape[0]) + " outputs";
    }
    if (detail.empty()) continue;
    if (Diagnostic* finding = report_module(list, Rule::LO018, pair.module))
      finding->values.emplace_back("detail", std::move(detail));
  }
}

void check_unused(FindingList& config_list, std::vector<PatternKey>& keys, std::string_view which,
                  const LoraTensors& tensors) {
  match_all(keys, tensors);
  for (const PatternKey& key : keys) {
    if (key.used || key.undecided) continue;
    if (Diagnostic* finding = config_list.add(Rule::LO019)) {
      finding->subject = std::string(key.text);
      finding->pointer = pointer_of({which, key.text});
      finding->offset = key.offset;
      finding->values = {{"which", std::string(which)}, {"key", std::string(key.text)}};
    }
  }
}

// A `.weight` below a numbered layer.
bool is_layer_weight(std::string_view name) {
  if (!ends_with(name, ".weight")) return false;
  bool after_layers = false;
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view component = name.substr(begin, end - begin);
    if (after_layers && !component.empty() && std::all_of(component.begin(), component.end(), is_digit))
      return true;
    after_layers = component == "layers" || component == "h" || component == "block" || component == "blocks";
    begin = end + 1;
  }
  return false;
}

bool has_data(const LoraTensors& tensors) {
  auto filled = [](const TensorInfo* tensor) { return tensor->bytes() != 0; };
  return std::any_of(tensors.factors.begin(), tensors.factors.end(), filled) ||
         std::any_of(tensors.magnitudes.begin(), tensors.magnitudes.end(), filled);
}

}  // namespace

bool report_checkpoint(FindingList& list, const Header& header) {
  if (has_lora_factors(header)) return false;
  uint64_t count = 0;
  std::string_view first;
  for (const TensorInfo& tensor : header.tensors) {
    if (tensor.shape.size() != 2 || !is_layer_weight(tensor.name)) continue;
    if (count++ == 0 || tensor.name < first) first = tensor.name;
  }
  if (count == 0) return false;
  if (Diagnostic* finding = list.add(Rule::LO031)) {
    finding->subject = std::string(first);
    finding->values = {{"count", count}, {"tensor", std::string(first)}};
  }
  return true;
}

uint64_t count_modules(const Header& header) { return find_lora_tensors(header).modules.size(); }

void check_lora_names(FindingList& list, const LoraTensors& tensors) {
  check_pairs(list, tensors);
  check_alphas(list, tensors);
  check_styles(list, tensors);
}

bool check_adapter_weights(FindingList& weights, FindingList& config_list, const Header& header,
                           const JsonValue& config, const BaseModel* base) {
  const LoraTensors tensors = find_lora_tensors(header);
  if (!has_data(tensors)) {
    if (!report_checkpoint(weights, header)) weights.add(Rule::LO012);
    return false;
  }
  TargetModules targets(config);
  std::vector<PatternKey> ranks = pattern_keys(config, "rank_pattern");
  std::vector<PatternKey> alphas = pattern_keys(config, "alpha_pattern");
  check_lora_names(weights, tensors);
  check_ranks(weights, tensors, ranks, config.integer("r").value_or(0), targets);
  check_targets(weights, config_list, tensors, targets);
  if (base && !base->problem()) check_base(weights, tensors, targets, config, *base);
  check_flat_factors(weights, header, config, base && !base->problem() ? base : nullptr);
  check_prefixes(weights, tensors);
  check_saved(config_list, tensors, config);
  const JsonValue* dora = config.get("use_dora");
  check_magnitudes(weights, tensors, dora && dora->is_true());
  check_unused(config_list, ranks, "rank_pattern", tensors);
  check_unused(config_list, alphas, "alpha_pattern", tensors);
  return true;
}

}  // namespace tftf
