// What the rules about quantised models ask of a folder.
#include <algorithm>

#include "lint/config/model_facts.h"
#include "lint/layout/quant_rules.h"
#include "tftf/base/affix.h"

namespace tftf {
namespace {

bool names_it(const JsonValue& value) {
  if (value.is_array()) return std::any_of(value.elements.begin(), value.elements.end(), names_it);
  return std::any_of(value.members.begin(), value.members.end(), [](const JsonValue::Member& member) {
    return contains(member.first, "quant") || member.first == "compression_config" || names_it(member.second);
  });
}

// JSON Pointer of a value by the places of those around it; empty when it does not stand in `root`.
bool find_pointer(const JsonValue& root, const JsonValue* value, std::string& out) {
  if (&root == value) return true;
  const size_t length = out.size();
  for (const JsonValue::Member& member : root.members) {
    if (value->begin < member.second.begin || value->end > member.second.end) continue;
    out += json_pointer({{member.first}});
    if (find_pointer(member.second, value, out)) return true;
    out.resize(length);
  }
  for (size_t i = 0; i < root.elements.size(); ++i) {
    if (value->begin < root.elements[i].begin || value->end > root.elements[i].end) continue;
    out += "/" + std::to_string(i);
    if (find_pointer(root.elements[i], value, out)) return true;
    out.resize(length);
  }
  return false;
}

}  // namespace

bool QuantFacts::is_method(std::initializer_list<std::string_view> any) const {
  return std::find(any.begin(), any.end(), method) != any.end();
}

std::optional<TensorRef> QuantFacts::find(std::string_view path, std::string_view suffix) const {
  return checkpoint->find(std::string(path).append(suffix));
}

bool QuantFacts::ties_embeddings() const { return config && ModelConfig(*config).ties_anywhere(); }

bool describes_itself(const Checkpoint& checkpoint) {
  for (const Shard& shard : checkpoint.shards)
    for (const auto& [key, value] : shard.header.metadata)
      if (key == "tensor_names" || key == "_quantization_metadata") return true;
  return std::any_of(checkpoint.order.begin(), checkpoint.order.end(), [&](TensorRef ref) {
    const std::string_view last = split_name(checkpoint.info(ref).name).last;
    return last == "comfy_quant" || last == "scaled_fp8" || last == "scale_weight";
  });
}

bool names_quantisation(const JsonValue& config) { return names_it(config); }

Diagnostic* add_quant_finding(FileFindings& out, const QuantFacts& facts, Rule rule, std::string subject,
                              const JsonValue* value) {
  Diagnostic* finding = out.of(facts.config_path).add(rule);
  if (!finding) return nullptr;
  finding->subject = std::move(subject);
  if (std::string pointer; value && facts.config && find_pointer(*facts.config, value, pointer)) {
    finding->pointer = std::move(pointer);
    finding->offset = value->begin;
  }
  return finding;
}

}  // namespace tftf
