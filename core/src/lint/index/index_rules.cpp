#include "lint/index/index_rules.h"

#include <algorithm>
#include <iterator>

#include "lint/file_names.h"
#include "lint/side_text.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

std::string kind_text(JsonKind kind) { return std::string(json_kind_name(kind)); }

// What stands where an integer is expected, as messages show it.
std::string declared_text(const DeclaredNumber& number) {
  if (number.kind == JsonKind::kNumber) return cut_text(number.text);
  if (number.kind == JsonKind::kString) return quote_name(number.text);
  return "a JSON " + std::string(json_kind_name(number.kind));
}

void check_map(FindingList& findings, const IndexDocument& index) {
  if (!index.weight_map_kind) {
    findings.add(Rule::IX002);
    return;
  }
  if (!index.usable()) {
    if (Diagnostic* finding = findings.add(Rule::IX003)) {
      finding->pointer = "/weight_map";
      finding->offset = index.weight_map_offset;
      finding->values = {{"at", std::string()},
                         {"kind", kind_text(*index.weight_map_kind)},
                         {"want", std::string("an object")}};
    }
    return;
  }
  if (index.map.empty()) {
    if (Diagnostic* finding = findings.add(Rule::IX004)) {
      finding->pointer = "/weight_map";
      finding->offset = index.weight_map_offset;
    }
  }
  for (const MappedTensor& entry : index.map) {
    if (entry.shard != kNotText) continue;
    if (Diagnostic* finding = findings.add(Rule::IX003)) {
      const std::string_view key = index.tensors.name(entry.name);
      finding->subject = std::string(key);
      finding->pointer = pointer_of({"weight_map", key});
      finding->offset = entry.offset;
      finding->values = {{"at", "[" + quote_name(key) + "]"},
                         {"kind", kind_text(entry.kind)},
                         {"want", std::string("a string")}};
    }
  }
}

void check_metadata(FindingList& findings, const IndexDocument& index) {
  if (index.metadata_kind != JsonKind::kObject) {
    findings.add(Rule::IX006);
    return;
  }
  if (!index.total_size.present) {
    if (Diagnostic* finding = findings.add(Rule::IX007)) finding->pointer = "/metadata";
    return;
  }
  if (index.total_size.is_plain_integer()) return;
  if (Diagnostic* finding = findings.add(Rule::IX009)) {
    finding->pointer = "/metadata/total_size";
    finding->offset = index.total_size.offset;
    finding->values = {{"value", declared_text(index.total_size)}};
  }
}

}  // namespace

void check_index_document(FindingList& findings, const TreeFile& file) {
  constexpr std::string_view kKnownStems[] = {"model", "diffusion_pytorch_model", "adapter_model"};
  const std::optional<IndexName> name = parse_index_name(file.name);
  if (name && std::find(std::begin(kKnownStems), std::end(kKnownStems), name->stem) == std::end(kKnownStems))
    findings.add(Rule::IX027);

  const IndexDocument& index = *file.index;
  if (index.problem) {
    if (Diagnostic* finding = findings.add(Rule::IX001)) {
      finding->offset = index.problem_offset;
      finding->values = {{"detail", *index.problem}};
    }
    return;
  }
  for (const RepeatedKey& key : index.repeated) {
    if (Diagnostic* finding = findings.add(Rule::IX005)) {
      finding->subject = key.key;
      finding->pointer = key.top_level ? pointer_of({key.key}) : pointer_of({"weight_map", key.key});
      finding->offset = key.offset;
      finding->values = {{"key", key.key},
                         {"count", key.count},
                         {"where", std::string(key.top_level ? "the top level" : "weight_map")}};
    }
  }
  check_map(findings, index);
  check_metadata(findings, index);
}

}  // namespace tftf
