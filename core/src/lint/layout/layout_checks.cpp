#include "lint/layout/layout_checks.h"

#include <algorithm>

#include "lint/adapter/adapter_rules.h"
#include "lint/adapter/base_model.h"
#include "lint/colibri/facts.h"
#include "lint/config/model_facts.h"
#include "lint/file_names.h"
#include "lint/header/header_facts.h"
#include "lint/layout/layout_problems.h"
#include "tftf/base/affix.h"
#include "tftf/quant/registry.h"

namespace tftf {
namespace {

constexpr uint64_t kMostExperts = 65'536;  // slices of one tensor that are told apart

// One of several files of a model: what it lacks may stand in the others.
bool is_part_of_many(const TreeFile& file) {
  const std::optional<ShardName> shard = parse_shard_name(file.name);
  return shard && shard->total > 1;
}

bool names_quantisation_beside(const Tree& tree, const TreeFolder& folder) {
  return std::any_of(folder.files.begin(), folder.files.end(), [&](uint32_t number) {
    const std::string_view name = tree.files[number].name;
    return ends_with(name, ".json") && (contains(name, "quant") || contains(name, "qmap"));
  });
}

// How many JSON values the folder's side files can have at most: each takes two bytes or more.
uint64_t most_values(const Tree& tree, const TreeFolder& folder) {
  uint64_t values = 0;
  for (const std::string_view name : side_file_names())
    if (const TreeFile* file = tree.file_in(folder, name); file && file->has_text())
      values += std::min<uint64_t>(file->text.size() / 2, kMaxJsonValues);
  return values;
}

bool is_expert_stack(const TensorInfo& tensor) {
  if (tensor.shape.size() < 3 || tensor.shape[0] < 2 || tensor.shape[0] > kMostExperts) return false;
  if (!is_plain_dtype(tensor.dtype) && !is_fp8(tensor.dtype)) return false;
  if (tensor.bytes() == 0 || tensor.bytes() % tensor.shape[0] != 0) return false;
  bool experts = false;
  for_each_component(tensor.name,
                     [&](std::string_view component) { experts = experts || component == "experts"; });
  return experts;
}

}  // namespace

// One checkpoint.
struct LayoutChecks::Unit {
  Unit(Tree& tree, std::vector<uint32_t> files, const TreeFolder* folder)
      : view(tree, std::move(files), folder) {}

  CheckpointView view;
  Configuration configuration;
  QuantFacts facts;
  bool detect = false;  // the layouts are looked for
  std::optional<SmallValues> values;
  LayoutReport report;
  bool detected = false;
  ScaleReads reads;
};

LayoutChecks::LayoutChecks(Tree& tree) : tree_(tree), by_folder_(tree.folders.size()) {
  if (!tree.input.main.empty()) {
    const std::optional<uint32_t> main = tree.find(tree.input.main);
    if (main && tree.files[*main].wanted == TreeFile::Wanted::kHeader) add_alone(*main);
    return;
  }
  std::vector<bool> claimed(tree.files.size());
  // Folders stand before their subfolders: an index claims the shards below it.
  for (uint32_t i = 0; i < tree.folders.size(); ++i) add_folder(i, claimed);
}

LayoutChecks::~LayoutChecks() = default;

LayoutChecks::Unit& LayoutChecks::add(std::vector<uint32_t> files, const TreeFolder* folder) {
  Unit& unit = *units_.emplace_back(std::make_unique<Unit>(tree_, std::move(files), folder));
  unit.view.lend();
  for (uint32_t s = 0; s < unit.view.size(); ++s)
    by_entry_[tree_.files[unit.view.file_of(s)].entry] = {&unit, s};
  unit.facts.checkpoint = &unit.view.checkpoint();
  unit.facts.quant = read_quant_config(unit.view.checkpoint());
  return unit;
}

void LayoutChecks::add_alone(uint32_t number) {
  const TreeFile& file = tree_.files[number];
  if (!file.sound() || is_part_of_many(file) || ColibriContainer::is_one({&file})) return;
  add({number}, nullptr).detect = true;
}

void LayoutChecks::add_folder(uint32_t number, std::vector<bool>& claimed) {
  const TreeFolder& folder = tree_.folders[number];
  const TreeFile* config = tree_.file_in(folder, "config.json");
  const bool configured = config && config->has_text();
  const bool adapter = is_adapter_folder(tree_, folder);
  const CheckedFiles checked = checked_files(tree_, folder);
  const bool whole = configured || checked.index;
  std::vector<uint32_t> files;
  std::vector<const TreeFile*> readable;
  bool complete = !checked.incomplete && !checked.files.empty();
  for (const TreeFile* file : checked.files) {
    const auto position = static_cast<uint32_t>(file - tree_.files.data());
    complete = complete && file->sound() && all_entries_usable(*file->scan);
    if (!file->readable()) continue;
    readable.push_back(file);
    if (claimed[position]) {
      complete = complete && !whole;  // it is a shard of a folder above
      continue;
    }
    files.push_back(position);
  }
  const bool colibri = !readable.empty() && ColibriContainer::is_one(readable);
  if (adapter || colibri || !whole) {
    if (!adapter && !colibri)
      for (const uint32_t file : files) add_alone(file);
    files.clear();
  }
  for (const uint32_t file : files) claimed[file] = true;
  if (!configured && files.empty()) return;
  const uint64_t values = most_values(tree_, folder);
  if (values > values_left_) return;
  values_left_ -= values;
  Unit& unit = add(std::move(files), &folder);
  QuantFacts& facts = unit.facts;
  facts.config = facts.checkpoint->config();
  facts.config_path = folder.path + "config.json";
  if (configured) {
    unit.configuration = {&facts.checkpoint->side_file("config.json")->document, facts.quant};
    by_folder_[number] = &unit.configuration;
  }
  if (unit.view.size() == 0) return;
  facts.complete = complete;
  facts.model_folder = !adapter && facts.config && facts.config->string("model_type");
  unit.detect = complete && !unit.view.has_duplicates();
  if (!facts.model_folder) return;
  std::vector<ConfigWeightFile> formats;
  for (const Shard& shard : facts.checkpoint->shards)
    for (const auto& [key, value] : shard.header.metadata)
      if (key == "format") formats.emplace_back().format = value;
  facts.method = declared_method(facts.quant);
  facts.self_described = describes_itself(*facts.checkpoint);
  facts.mlx = is_mlx_folder(*facts.config, formats);
  facts.declared = names_quantisation(*facts.config) || names_quantisation_beside(tree_, folder);
  facts.modules = find_quant_modules(*facts.checkpoint);
  unit.reads.choose(facts);
}

std::vector<LintRequest> LayoutChecks::want() {
  std::vector<LintRequest> out;
  for (const std::unique_ptr<Unit>& unit : units_) {
    const auto request = [&](uint32_t shard, ByteRange range) {
      const TreeFile& file = tree_.files[unit->view.file_of(shard)];
      out.push_back({LintSource::kInput, file.entry, std::string(file.path), range});
    };
    if (unit->detect && !unit->detected) {
      if (!unit->values) unit->values.emplace(unit->view.checkpoint());
      unit->report = detect_layouts(unit->view.checkpoint(), *unit->values);
      const std::vector<ReadRequest> wanted = unit->values->want();
      unit->detected = wanted.empty();
      for (const ReadRequest& one : wanted) {
        const std::optional<uint32_t> file = tree_.find(one.file);
        if (file) request(by_entry_.at(tree_.files[*file].entry).second, one.range);
      }
    }
    if (!unit->facts.model_folder) continue;
    for (const ShardRead& one : unit->reads.want()) request(one.shard, one.range);
  }
  return out;
}

// The same range may be wanted twice: as a small value of the detection and as a scale.
void LayoutChecks::supply(const LintRequest& request, Bytes bytes) {
  const auto found = by_entry_.find(request.entry);
  if (found == by_entry_.end()) return;
  const auto& [unit, shard] = found->second;
  if (unit->facts.model_folder) unit->reads.supply({shard, request.range}, bytes);
  if (!unit->values) return;
  const ReadRequest small{unit->view.checkpoint().shards[shard].name, request.range};
  if (bytes.size() == request.range.length)
    unit->values->supply(small, bytes);
  else
    unit->values->fail(small);
}

void LayoutChecks::fail(const LintRequest& request) { supply(request, {}); }

void LayoutChecks::judge(Unit& unit) {
  if (unit.facts.model_folder) {
    check_quant_modules(findings_, unit.facts);
    check_exclusions(findings_, unit.facts);
    check_scale_values(findings_, unit.facts, unit.reads);
    const auto place = [&](TensorRef ref) { return TensorPlace{unit.view.file_of(ref.shard), ref.tensor}; };
    add_value_checks(checks_, unit.facts, unit.facts.complete, place);
    for (const TensorRef ref : unit.facts.checkpoint->order) {
      const TensorInfo& tensor = unit.facts.info(ref);
      if (is_expert_stack(tensor))
        checks_.expert_stacks.push_back({place(ref), tensor.shape[0], tensor.bytes() / tensor.shape[0]});
    }
  }
  if (unit.detect) {
    const std::unordered_set<std::string> named = modules_with_findings(findings_, unit.facts);
    report_layout_problems(findings_, unit.facts, unit.report, named);
  }
}

void LayoutChecks::finish() {
  for (const std::unique_ptr<Unit>& unit : units_) {
    judge(*unit);
    unit->view.give_back();
  }
}

const LayoutChecks::Configuration* LayoutChecks::configuration(uint32_t folder) const {
  return by_folder_[folder];
}

void LayoutChecks::take(LintResult& result, const std::function<uint32_t(const TreeFile&)>& weight_number) {
  findings_.take(result.findings, result.omitted);
  const auto renumber = [&](TensorPlace& place) { place.file = weight_number(tree_.files[place.file]); };
  for (ScaleCheck& check : checks_.scale_checks) {
    renumber(check.scales);
    if (check.signs) renumber(check.codes);
  }
  for (TensorPlace& place : checks_.code_checks) renumber(place);
  for (TensorPlace& place : checks_.ternary_checks) renumber(place);
  for (ExpertStack& stack : checks_.expert_stacks) renumber(stack.tensor);
  result.scale_checks = std::move(checks_.scale_checks);
  result.code_checks = std::move(checks_.code_checks);
  result.ternary_checks = std::move(checks_.ternary_checks);
  result.expert_stacks = std::move(checks_.expert_stacks);
}

}  // namespace tftf
