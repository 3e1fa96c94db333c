#include "lint/index/folder_rules.h"

#include <map>
#include <set>
#include <utility>

#include "lint/file_names.h"

namespace tftf {
namespace {

// The shard files of PREFIX with VARIANT.
struct Family {
  std::set<uint32_t> totals;
  std::set<uint32_t> numbers;        // present, those of a parent's index left out
  std::vector<const TreeFile*> own;  // in this folder, those of a parent's index left out
  uint64_t several = 0;              // of `own`: with a total above 1
  std::vector<const FolderIndex*> indexes;
};
using Families = std::map<std::pair<std::string, std::string>, Family>;

Families find_families(const Tree& tree, const TreeFolder& folder, const std::vector<FolderIndex>& indexes,
                       const std::vector<FileReferences>& references) {
  Families families;
  for (uint32_t number : folder.files) {
    const TreeFile& file = tree.files[number];
    const std::optional<ShardName> shard = parse_shard_name(file.name);
    if (!shard) continue;
    Family& family = families[{std::string(shard->prefix), std::string(shard->variant)}];
    family.totals.insert(shard->total);
    if (references[number].from_above) continue;
    family.numbers.insert(shard->number);
    family.own.push_back(&file);
    if (shard->total > 1) ++family.several;
  }
  // Shards that an index finds in subfolders belong to the family of its own folder.
  for (const FolderIndex& index : indexes) {
    for (const ShardUse& use : index.shards) {
      if (!use.used() || !use.file) continue;
      const TreeFile& file = tree.files[*use.file];
      const std::optional<ShardName> shard = parse_shard_name(file.name);
      if (!shard || file.path.size() == folder.path.size() + file.name.size()) continue;
      Family& family = families[{std::string(shard->prefix), std::string(shard->variant)}];
      family.totals.insert(shard->total);
      family.numbers.insert(shard->number);
    }
  }
  for (const FolderIndex& index : indexes)
    for (const auto& [prefix, variant] : families_of(*parse_index_name(index.file->name)))
      if (const auto family = families.find({prefix, variant}); family != families.end())
        family->second.indexes.push_back(&index);
  return families;
}

// "3", "5..8": the numbers of 1..total or 0..total-1 that are not there, as runs.
std::vector<std::string> missing_runs(const std::set<uint32_t>& present, uint32_t first, uint32_t last) {
  std::vector<std::string> runs;
  auto add = [&](uint32_t from, uint32_t to) {
    runs.push_back(from == to ? std::to_string(from) : std::to_string(from) + ".." + std::to_string(to));
  };
  uint32_t next = first;
  for (uint32_t number : present) {
    if (number < first || number > last) continue;
    if (number > next) add(next, number - 1);
    next = number + 1;
  }
  if (next <= last) add(next, last);
  return runs;
}

void check_numbers(Diagnostics& findings, const TreeFolder& folder, const std::string& prefix,
                   const Family& family) {
  if (family.totals.size() > 1) {
    Diagnostic& finding = findings.emplace_back();
    finding.rule = Rule::IX019;
    finding.file = folder.shown();
    finding.subject = prefix;
    std::vector<std::string> totals;
    for (uint32_t total : family.totals) totals.push_back(std::to_string(total));
    finding.values = {{"prefix", prefix}, {"totals", std::move(totals)}};
    return;
  }
  if (family.numbers.empty()) return;
  const uint32_t total = *family.totals.begin();
  const uint32_t first = family.numbers.count(0) ? 0 : 1;
  const bool whole = family.numbers.size() == total && *family.numbers.begin() == first;
  // Without a gap from `first` on, `total` numbers end where they should.
  if (whole && *family.numbers.rbegin() + 1 == first + total) return;
  Diagnostic& finding = findings.emplace_back();
  finding.rule = Rule::IX018;
  finding.file = folder.shown();
  finding.subject = prefix;
  std::vector<std::string> missing;
  if (total > 0) missing = missing_runs(family.numbers, first, first + total - 1);
  if (missing.empty())
    missing.push_back("none (numbers up to " + std::to_string(*family.numbers.rbegin()) + ")");
  finding.values = {{"prefix", prefix}, {"missing", std::move(missing)}, {"total", uint64_t{total}}};
}

void check_family(Diagnostics& findings, const Tree& tree, const TreeFolder& folder,
                  const std::pair<std::string, std::string>& name, const Family& family,
                  const std::vector<FileReferences>& references) {
  check_numbers(findings, folder, name.first, family);
  if (family.indexes.empty()) {
    if (family.several == 0) return;
    Diagnostic& finding = findings.emplace_back();
    finding.rule = Rule::IX022;
    finding.file = folder.shown();
    finding.subject = name.first;
    finding.values = {{"prefix", name.first},
                      {"count", family.several},
                      {"index", family_index_name(name.first, name.second)}};
    return;
  }
  for (const FolderIndex* index : family.indexes)
    if (!index->file->index || !index->file->index->usable()) return;
  for (const TreeFile* file : family.own) {
    if (references[static_cast<size_t>(file - tree.files.data())].by_any) continue;
    Diagnostic& finding = findings.emplace_back();
    finding.rule = Rule::IX020;
    finding.file = std::string(file->path);
    finding.values = {{"folder", folder.shown()}, {"shard", std::string(file->name)}};
  }
}

void check_single(Diagnostics& findings, const Tree& tree, const TreeFolder& folder,
                  const FolderIndex& index) {
  const IndexName name = *parse_index_name(index.file->name);
  const std::string single = single_file_name(name);
  const TreeFile* file = tree.file_in(folder, single);
  if (!file) return;
  for (const ShardUse& use : index.shards)
    if (use.used() && use.file && &tree.files[*use.file] == file) return;
  Diagnostic& finding = findings.emplace_back();
  finding.rule = Rule::IX021;
  finding.file = folder.shown();
  finding.subject = std::string(name.stem);
  finding.values = {{"single", single}, {"index", std::string(index.file->name)}};
}

void check_other_formats(Diagnostics& findings, const Tree& tree, const TreeFolder& folder) {
  bool weights = false;
  std::vector<std::string> others;
  for (uint32_t number : folder.files) {
    const std::string_view name = tree.files[number].name;
    const bool consolidated = starts_with(name, "consolidated") && ends_with(name, ".safetensors");
    if (ends_with(name, ".safetensors") && !consolidated) weights = true;
    if (consolidated || (starts_with(name, "pytorch_model") && ends_with(name, ".bin")) ||
        ends_with(name, ".gguf") || name == "tf_model.h5" || name == "flax_model.msgpack")
      others.emplace_back(name);
  }
  if (!weights || others.empty()) return;
  Diagnostic& finding = findings.emplace_back();
  finding.rule = Rule::IX025;
  finding.file = folder.shown();
  finding.values = {{"files", std::move(others)}};
}

void check_dtypes(Diagnostics& findings, const Tree& tree, const TreeFolder& folder) {
  std::vector<const Header*> headers;
  for (uint32_t number : folder.files)
    if (tree.files[number].sound()) headers.push_back(&tree.files[number].scan->header);
  std::string list = mixed_dtypes(headers);
  if (list.empty()) return;
  Diagnostic& finding = findings.emplace_back();
  finding.rule = Rule::ST090;
  finding.file = folder.shown();
  finding.values = {{"list", std::move(list)}};
}

}  // namespace

void check_folder(Diagnostics& findings, const Tree& tree, const TreeFolder& folder,
                  const std::vector<FolderIndex>& indexes, const std::vector<FileReferences>& references) {
  for (const auto& [name, family] : find_families(tree, folder, indexes, references))
    check_family(findings, tree, folder, name, family, references);
  for (const FolderIndex& index : indexes) check_single(findings, tree, folder, index);
  check_other_formats(findings, tree, folder);
  check_dtypes(findings, tree, folder);
}

void check_empty_index(Diagnostics& findings, const Tree& tree, const TreeFolder& folder,
                       const TreeFile* index, std::string_view model_type) {
  if (!index || !index->index->map.empty() || model_type.empty()) return;
  if (tree.file_in(folder, "adapter_config.json") || tree.file_in(folder, "adapter_model.safetensors"))
    return;
  const std::optional<IndexName> name = parse_index_name(index->name);
  if (name && tree.file_in(folder, single_file_name(*name))) return;
  Diagnostic& finding = findings.emplace_back();
  finding.rule = Rule::IX040;
  finding.file = std::string(index->path);
}

}  // namespace tftf
