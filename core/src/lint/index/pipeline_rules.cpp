// model_index.json of a diffusers pipeline against its component folders.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "container/finding_list.h"
#include "lint/file_names.h"
#include "lint/index/folder_rules.h"
#include "lint/name_table.h"
#include "lint/side_text.h"

namespace tftf {
namespace {

constexpr std::string_view kWeightFiles[] = {".safetensors", ".bin", ".msgpack", ".h5",  ".onnx",
                                             ".pt",          ".pth", ".ckpt",    ".gguf"};
constexpr std::string_view kWeightless[] = {"Scheduler", "Tokenizer", "FeatureExtractor", "Processor"};

// The extension when the name is that of a weight file, else empty.
std::string_view weight_extension(std::string_view name) {
  for (std::string_view extension : kWeightFiles)
    if (ends_with(name, extension)) return extension;
  return {};
}

struct Component {
  std::string_view name;
  std::string_view class_name;
  uint64_t offset = 0;
  const TreeFolder* folder = nullptr;
  bool has_weights = false;
  std::set<std::string_view> variants;  // of its weight files, "" for the default one
};

bool is_text_or_null(const JsonValue& value) { return value.is_string() || value.is_null(); }

void look_into(Component& component, const Tree& tree, const TreeFolder& parent) {
  component.folder = tree.find_folder(parent.path + std::string(component.name));
  if (!component.folder) return;
  for (uint32_t number : component.folder->files) {
    const std::string_view name = tree.files[number].name;
    const std::string_view extension = weight_extension(name);
    if (extension.empty()) continue;
    component.has_weights = true;
    if (auto variant = weight_variant(name, extension)) component.variants.insert(*variant);
  }
}

bool has_safetensors(const Tree& tree, const TreeFolder& folder) {
  return std::any_of(folder.files.begin(), folder.files.end(),
                     [&](uint32_t number) { return ends_with(tree.files[number].name, ".safetensors"); });
}

// IX028: a variant that some components have as .safetensors and others in no form.
void check_variants(Diagnostics& findings, const Tree& tree, const TreeFolder& folder,
                    const std::vector<Component>& components) {
  std::set<std::string_view> variants;
  for (const Component& component : components) {
    if (!component.has_weights) continue;
    for (uint32_t number : component.folder->files)
      if (auto variant = weight_variant(tree.files[number].name, ".safetensors");
          variant && !variant->empty())
        variants.insert(*variant);
  }
  for (std::string_view variant : variants) {
    std::vector<std::string> lacking;
    for (const Component& component : components)
      if (component.has_weights && !component.variants.count(variant)) lacking.emplace_back(component.name);
    if (lacking.empty()) continue;
    Diagnostic& finding = findings.emplace_back();
    finding.rule = Rule::IX028;
    finding.file = folder.shown();
    finding.subject = std::string(variant);
    finding.values = {{"variant", std::string(variant)}, {"components", std::move(lacking)}};
  }
}

}  // namespace

void check_pipeline(Diagnostics& findings, const Tree& tree, const TreeFolder& folder, const TreeFile& file) {
  const JsonDocument document = parse_json(file.text, JsonDialect::kPython);
  FindingList list(std::string(file.path), HeaderOptions().max_findings);
  if (auto fault = object_fault(file.text, document)) {
    Diagnostic* finding = list.add(Rule::IX031);
    finding->offset = fault->offset;
    finding->values = {{"detail", "not a JSON object: " + fault->detail}};
    for (Diagnostic& found : list.take()) findings.push_back(std::move(found));
    return;
  }

  // Of equal keys the last counts.
  NameTable keys;
  std::vector<size_t> last;
  for (size_t i = 0; i < document.root.members.size(); ++i) {
    const uint32_t number = keys.insert(document.root.members[i].first);
    if (number == last.size()) last.push_back(i);
    last[number] = i;
  }
  std::vector<Component> components;
  for (size_t i : last) {
    const auto& [key, value] = document.root.members[i];
    const bool scalar = !value.is_array() && !value.is_object();
    if (starts_with(key, "_") || scalar) continue;
    if (!value.is_array() || value.elements.size() != 2 || !is_text_or_null(value.elements[0]) ||
        !is_text_or_null(value.elements[1])) {
      if (Diagnostic* finding = list.add(Rule::IX031)) {
        finding->subject = key;
        finding->pointer = pointer_of({key});
        finding->offset = document.root.key_offsets[i];
        finding->values = {
            {"detail", "component " + key + " is " + value.brief() + ", not [library, class]"}};
      }
      continue;
    }
    const std::string_view class_name = value.elements[1].text;
    const bool weightless =
        value.elements[1].is_null() ||
        std::any_of(std::begin(kWeightless), std::end(kWeightless),
                    [&](std::string_view part) { return class_name.find(part) != std::string_view::npos; });
    if (weightless) continue;
    Component& component = components.emplace_back();
    component.name = key;
    component.class_name = class_name;
    component.offset = document.root.key_offsets[i];
    look_into(component, tree, folder);
    const bool unknown = component.folder && !component.folder->unreadable.empty();
    if (component.has_weights || unknown) continue;
    if (Diagnostic* finding = list.add(Rule::IX029)) {
      finding->subject = key;
      finding->pointer = pointer_of({key});
      finding->offset = component.offset;
      finding->values = {{"component", key},
                         {"class", std::string(class_name)},
                         {"what", std::string(component.folder ? "weight file" : "folder")}};
    }
  }
  for (uint32_t number : folder.folders) {
    const TreeFolder& sub = tree.folders[number];
    const std::string_view name =
        std::string_view(sub.path).substr(folder.path.size(), sub.path.size() - folder.path.size() - 1);
    if (keys.find(name) || !has_safetensors(tree, sub)) continue;
    if (Diagnostic* finding = list.add(Rule::IX030)) {
      finding->subject = std::string(name);
      finding->values = {{"component", std::string(name)}};
    }
  }
  for (Diagnostic& found : list.take()) findings.push_back(std::move(found));
  check_variants(findings, tree, folder, components);
}

}  // namespace tftf
