#include "tftf/lint/linter.h"

#include <algorithm>
#include <set>
#include <utility>

#include "lint/adapter/adapter_rules.h"
#include "lint/adapter/base_model.h"
#include "lint/colibri/rules.h"
#include "lint/config/base_parts.h"
#include "lint/file_names.h"
#include "lint/header/header_facts.h"
#include "lint/index/folder_rules.h"
#include "lint/index/index_rules.h"
#include "lint/layout/layout_checks.h"
#include "lint/side_text.h"
#include "lint/tree_reader.h"
#include "tftf/base/escape.h"
#include "tftf/lint/config_rules.h"

namespace tftf {
namespace {

constexpr uint64_t kMaxFindings = 10'000;  // of one rule in one index

// All rules over what was read.
class Run {
 public:
  Run(Tree& tree, const BaseModel* base, LayoutChecks& layouts)
      : tree_(tree), base_(base), layouts_(layouts), references_(tree.files.size()) {}

  LintResult run() {
    number_weights();
    report_unreadable();
    if (tree_.input.main.empty()) {
      find_references();
      for (uint32_t i = 0; i < tree_.folders.size(); ++i) check_one_folder(i);
      check_other_adapters();
    } else if (const std::optional<uint32_t> main = tree_.find(tree_.input.main)) {
      check_main(tree_.files[*main]);
    }
    Diagnostics layout_findings = std::exchange(out_.findings, {});
    layouts_.take(out_, [this](const TreeFile& file) { return weight_number(file); });
    position_layouts();
    for (Diagnostic& finding : layout_findings) out_.findings.push_back(std::move(finding));
    collect_scans();
    sort_findings(out_.findings);
    return std::move(out_);
  }

 private:
  bool is_index_run() const {
    return !tree_.input.main.empty() &&
           is_index_name(tree_.input.main.substr(tree_.input.main.rfind('/') + 1));
  }

  // Weight files of the result, by path; of an index given alone those that it names.
  void number_weights() {
    if (is_index_run()) {
      const std::optional<uint32_t> main = tree_.find(tree_.input.main);
      if (!main || !tree_.files[*main].index || !tree_.files[*main].index->usable()) return;
      for (const ShardUse& use : find_shards(tree_, tree_.folders.front(), *tree_.files[*main].index))
        if (use.file && tree_.files[*use.file].scan) weights_.push_back(*use.file);
      std::sort(weights_.begin(), weights_.end());
      weights_.erase(std::unique(weights_.begin(), weights_.end()), weights_.end());
      return;
    }
    for (uint32_t i = 0; i < tree_.files.size(); ++i)
      if (tree_.files[i].scan) weights_.push_back(i);
  }

  void report_unreadable() {
    auto report = [&](std::string file, const std::string& reason) {
      Diagnostic& finding = out_.findings.emplace_back();
      finding.rule = Rule::ST009;
      finding.file = std::move(file);
      finding.values = {{"reason", reason}};
    };
    for (const TreeFolder& folder : tree_.folders)
      if (!folder.unreadable.empty()) report(folder.path, folder.unreadable);
    for (const TreeFile& file : tree_.files) {
      const bool side = file.wanted == TreeFile::Wanted::kText || file.wanted == TreeFile::Wanted::kIndex;
      if (side && !file.unreadable.empty()) report(std::string(file.path), file.unreadable);
    }
  }

  void find_references() {
    indexes_.resize(tree_.folders.size());
    for (uint32_t i = 0; i < tree_.folders.size(); ++i) {
      const TreeFolder& folder = tree_.folders[i];
      for (uint32_t number : folder.files) {
        const TreeFile& file = tree_.files[number];
        if (file.wanted != TreeFile::Wanted::kIndex) continue;
        FolderIndex& index = indexes_[i].emplace_back();
        index.file = &file;
        if (!file.index || !file.index->usable()) continue;
        index.shards = find_shards(tree_, folder, *file.index);
        for (const ShardUse& use : index.shards) {
          if (!use.used() || !use.file) continue;
          const TreeFile& shard = tree_.files[*use.file];
          references_[*use.file].by_any = true;
          if (shard.path.size() != folder.path.size() + shard.name.size())
            references_[*use.file].from_above = true;
        }
      }
    }
  }

  // `list`'s findings, with the places of those that have an offset.
  void take(FindingList& list, const TreeFile& file) {
    for (const auto& [rule, count] : list.omitted())
      out_.omitted.push_back({std::string(file.path), rule, count});
    take(list.take(), file);
  }
  void take(Diagnostics findings, const TreeFile& file) {
    set_positions(findings, file.path, file.text);
    for (Diagnostic& finding : findings) out_.findings.push_back(std::move(finding));
  }

  void check_index(const FolderIndex& index) {
    if (!index.file->index) return;
    FindingList list(std::string(index.file->path), kMaxFindings);
    check_index_document(list, *index.file);
    if (index.file->index->usable()) check_index_shards(list, tree_, *index.file->index, index.shards);
    take(list, *index.file);
  }

  void check_one_folder(uint32_t number) {
    const TreeFolder& folder = tree_.folders[number];
    for (const FolderIndex& index : indexes_[number]) check_index(index);
    check_folder(out_.findings, tree_, folder, indexes_[number], references_);
    const TreeFile* pipeline = tree_.file_in(folder, "model_index.json");
    if (pipeline && pipeline->has_text()) {
      Diagnostics findings;
      check_pipeline(findings, tree_, folder, *pipeline);
      take(std::move(findings), *pipeline);
    }

    LintedFolder facts;
    facts.folder = folder.shown();
    for (uint32_t file : folder.files)
      if (tree_.files[file].scan) facts.shards.emplace_back(tree_.files[file].name);
    for (const FolderIndex& index : indexes_[number]) facts.indexes.emplace_back(index.file->name);
    const bool adapter = is_adapter_folder(tree_, folder);
    if (adapter) {
      Diagnostics findings;
      AdapterOutcome outcome = check_adapter_folder(findings, tree_, folder, base_);
      if (outcome.values) adapters_.push_back(outcome.values);
      facts.adapter = std::move(outcome.facts);
      const TreeFile* config = tree_.file_in(folder, "adapter_config.json");
      if (config) set_positions(findings, config->path, config->text);
      for (Diagnostic& finding : findings) out_.findings.push_back(std::move(finding));
    }
    check_folder_config(folder, adapter, facts);
    check_empty_index(out_.findings, tree_, folder, checked_files(tree_, folder).index, facts.model_type);
    check_colibri_folder(folder);
    const bool any = !facts.shards.empty() || !facts.indexes.empty() || adapter || pipeline ||
                     tree_.file_in(folder, "config.json");
    if (any) out_.folders.push_back(std::move(facts));
  }

  void check_folder_config(const TreeFolder& folder, bool adapter, LintedFolder& facts) {
    const TreeFile* file = tree_.file_in(folder, "config.json");
    if (file && !file->has_text()) return;
    ConfigInput input;
    input.folder = folder.path;
    JsonDocument parsed;
    if (file) {
      const auto* known = layouts_.configuration(static_cast<uint32_t>(&folder - tree_.folders.data()));
      if (known) {
        input.quant = &known->quant;
        input.config = known->document;
      } else {
        parsed = parse_json(file->text, JsonDialect::kPython);
      }
      const JsonDocument& document = known ? *known->document : parsed;
      if (const auto type = document.root.string("model_type")) facts.model_type = std::string(*type);
      input.config_text = file->text;
    }
    if (adapter) return;
    if (const TreeFile* tokenizer = tree_.file_in(folder, "tokenizer.json");
        tokenizer && tokenizer->has_text())
      input.tokenizer_text = tokenizer->text;
    input.has_model_index = tree_.file_in(folder, "model_index.json") != nullptr;
    input.has_sentence_files =
        tree_.file_in(folder, "modules.json") || tree_.file_in(folder, "config_sentence_transformers.json");
    for (uint32_t number : folder.files) {
      const std::string_view name = tree_.files[number].name;
      if (starts_with(name, "model") && ends_with(name, ".safetensors")) input.has_model_file = true;
    }

    std::vector<ConfigWeightFile> files;
    std::vector<ConfigTensor> tensors;
    std::vector<TensorPlace> places;
    CheckedFiles checked;
    if (file) {
      checked = checked_files(tree_, folder);
      input.has_checked_file = checked.named;
      input.incomplete = checked.incomplete;
      for (const TreeFile* weights : checked.files) {
        if (!weights->scan || !all_entries_usable(*weights->scan)) input.incomplete = true;
        if (!weights->sound()) input.unsound = true;
        if (!weights->readable()) continue;
        const Header& header = weights->scan->header;
        ConfigWeightFile& checked_file = files.emplace_back();
        checked_file.path = std::string(weights->path);
        checked_file.has_metadata = header.has_metadata;
        for (const auto& [key, value] : header.metadata)
          if (key == "format") checked_file.format = value;
        const uint32_t place = weight_number(*weights);
        for (uint32_t i = 0; i < header.tensors.size(); ++i) {
          const TensorInfo& tensor = header.tensors[i];
          tensors.push_back({tensor.name, tensor.dtype, &tensor.shape, tensor.bytes()});
          places.push_back({place, i});
        }
      }
    }
    std::vector<const TreeFile*> readable;
    std::vector<std::string_view> other_names;
    for (const uint32_t number : folder.files) {
      const TreeFile& one = tree_.files[number];
      if (!one.readable()) continue;
      readable.push_back(&one);
      if (std::find(checked.files.begin(), checked.files.end(), &one) != checked.files.end()) continue;
      for (const TensorInfo& tensor : one.scan->header.tensors) other_names.push_back(tensor.name);
    }
    input.other_names = other_names;
    input.is_colibri = ColibriContainer::is_one(readable);
    input.files = files;
    input.tensors = tensors;
    std::optional<TiedTensors> tied;
    Diagnostics findings = check_config(input, &tied);
    if (base_) check_base_parts(findings, input, *base_);
    if (tied)
      out_.tied_heads.push_back({std::string(file->path), places[tied->head], places[tied->embedding]});
    if (file) return take(std::move(findings), *file);
    for (Diagnostic& finding : findings) out_.findings.push_back(std::move(finding));
  }

  void check_colibri_folder(const TreeFolder& folder) {
    std::vector<const TreeFile*> shards;
    ColibriInput input;
    input.place = folder.shown();
    input.is_folder = input.complete = true;
    for (uint32_t number : folder.files) {
      const TreeFile& file = tree_.files[number];
      if (!file.scan) continue;
      input.shard_names.emplace_back(file.name);
      input.complete = input.complete && file.readable() && all_entries_usable(*file.scan);
      if (file.readable()) shards.push_back(&file);
    }
    if (!ColibriContainer::is_one(shards)) return;
    JsonDocument document;
    const TreeFile* config = tree_.file_in(folder, "config.json");
    if (config && config->has_text()) document = parse_json(config->text, JsonDialect::kPython);
    const bool usable = !document.error && document.root.is_object();
    if (config) input.config_path = std::string(config->path);
    std::optional<colibri::RansManifest> manifest;
    const TreeFile* digests = tree_.file_in(folder, colibri::kRansManifest);
    if (digests && digests->has_text()) manifest.emplace(digests->text);
    input.manifest = manifest ? &*manifest : nullptr;
    check_colibri(shards, usable ? &document.root : nullptr, input);
  }

  void check_colibri(std::vector<const TreeFile*> shards, const JsonValue* config, ColibriInput& input) {
    const ColibriContainer container(std::move(shards), config);
    input.container = &container;
    FileFindings findings;
    check_colibri_pairs(findings, input);
    check_colibri_stamps(findings, input);
    check_colibri_model(findings, input);
    input.place_of = [this](const ColibriTensor& tensor) {
      return TensorPlace{weight_number(*tensor.file), tensor.number};
    };
    check_colibri_rans(findings, input, out_);
    for (ColibriCheck& check : colibri_checks(input)) out_.colibri_checks.push_back(std::move(check));
    findings.take(out_.findings, out_.omitted);
  }

  // Findings about configurations have offsets in files of several folders.
  void position_layouts() {
    std::set<std::string> files;
    for (const Diagnostic& finding : out_.findings)
      if (finding.offset) files.insert(finding.file);
    for (const std::string& path : files)
      if (const std::optional<uint32_t> file = tree_.find(path))
        set_positions(out_.findings, path, tree_.files[*file].text);
  }

  uint32_t weight_number(const TreeFile& file) const {
    const auto number = static_cast<uint32_t>(&file - tree_.files.data());
    return static_cast<uint32_t>(std::lower_bound(weights_.begin(), weights_.end(), number) -
                                 weights_.begin());
  }

  // Adapter tensors outside adapter folders.
  void check_other_adapters() {
    for (const TreeFolder& folder : tree_.folders) {
      if (is_adapter_folder(tree_, folder)) continue;
      for (uint32_t number : folder.files) check_other_adapter(tree_.files[number]);
    }
  }
  void check_other_adapter(const TreeFile& file) {
    if (file.sound() && check_adapter_file(out_.findings, file)) adapters_.push_back(&file);
  }

  // PATH is a file.
  void check_main(const TreeFile& file) {
    if (file.wanted == TreeFile::Wanted::kIndex) {
      FolderIndex index;
      index.file = &file;
      if (file.index && file.index->usable())
        index.shards = find_shards(tree_, tree_.folders.front(), *file.index);
      check_index(index);
      LintedFolder& facts = out_.folders.emplace_back();
      facts.folder = ".";
      facts.indexes.emplace_back(file.name);
      for (const ShardUse& use : index.shards)
        if (use.present()) facts.shards.emplace_back(use.name);
      return;
    }
    check_other_adapter(file);
    if (file.readable() && ColibriContainer::is_one({&file})) {
      ColibriInput input;
      input.place = std::string(file.path);
      input.complete = all_entries_usable(*file.scan);
      input.shard_names.emplace_back(file.name);
      check_colibri({&file}, nullptr, input);
    }
    if (!file.sound()) return;
    std::string list = mixed_dtypes({&file.scan->header});
    if (list.empty()) return;
    Diagnostic& finding = out_.findings.emplace_back();
    finding.rule = Rule::ST090;
    finding.file = std::string(file.path);
    finding.values = {{"list", std::move(list)}};
  }

  // Hands the headers over. Nothing points into the tree's scans any more after this.
  void collect_scans() {
    std::sort(adapters_.begin(), adapters_.end());
    for (uint32_t number : weights_) {
      TreeFile& file = tree_.files[number];
      LintedFile& linted = out_.files.emplace_back();
      linted.entry = file.entry;
      linted.path = std::string(file.path);
      linted.adapter = std::binary_search(adapters_.begin(), adapters_.end(), &file);
      for (const auto& [rule, count] : file.scan->omitted) out_.omitted.push_back({linted.path, rule, count});
      for (Diagnostic& finding : file.scan->findings) out_.findings.push_back(std::move(finding));
      file.scan->findings.clear();
      linted.scan = std::move(*file.scan);
    }
  }

  Tree& tree_;
  const BaseModel* base_;
  LayoutChecks& layouts_;
  LintResult out_;
  std::vector<uint32_t> weights_;                  // in Tree::files; positions are LintResult::files
  std::vector<std::vector<FolderIndex>> indexes_;  // by folder
  std::vector<FileReferences> references_;
  std::vector<const TreeFile*> adapters_;
};

}  // namespace

struct Linter::State {
  State(LintInput given, uint64_t max_header) : input(LintSource::kInput, std::move(given), max_header) {}
  TreeReader input;
  std::optional<TreeReader> base;
  uint64_t unanswered = 0;
  std::optional<LayoutChecks> layouts;  // once both trees were read
};

Linter::Linter(LintInput input, LintOptions options)
    : state_(std::make_unique<State>(std::move(input), options.max_header)) {
  if (options.base) state_->base.emplace(LintSource::kBase, std::move(*options.base), options.max_header);
}
Linter::~Linter() = default;
Linter::Linter(Linter&&) noexcept = default;
Linter& Linter::operator=(Linter&&) noexcept = default;

std::vector<LintRequest> Linter::want() {
  std::vector<LintRequest> requests = state_->input.want();
  if (state_->base)
    for (LintRequest& request : state_->base->want()) requests.push_back(std::move(request));
  if (requests.empty() && state_->unanswered == 0) {
    if (!state_->layouts) state_->layouts.emplace(state_->input.tree);
    requests = state_->layouts->want();
  }
  state_->unanswered += requests.size();
  return requests;
}

void Linter::supply(const LintRequest& request, Bytes bytes) {
  --state_->unanswered;
  if (state_->layouts) return state_->layouts->supply(request, bytes);
  TreeReader& reader = request.source == LintSource::kBase ? *state_->base : state_->input;
  reader.supply(request, bytes);
}

void Linter::fail(const LintRequest& request, std::string reason) {
  --state_->unanswered;
  if (state_->layouts) return state_->layouts->fail(request);
  TreeReader& reader = request.source == LintSource::kBase ? *state_->base : state_->input;
  reader.fail(request, std::move(reason));
}

LintResult Linter::take() {
  std::optional<BaseModel> base;
  if (state_->base) base.emplace(state_->base->tree);
  if (!state_->layouts) state_->layouts.emplace(state_->input.tree);
  state_->layouts->finish();
  LintResult result = Run(state_->input.tree, base ? &*base : nullptr, *state_->layouts).run();
  if (base) result.base_problem = base->problem();
  return result;
}

Result<void> check_linted(const LintResult& result, const std::string& given) {
  if (!result.files.empty() || !result.folders.empty() || !result.findings.empty()) return {};
  return Error{
      .code = ErrorCode::kRefusedMissing,
      .message = quote_name(given) + " holds nothing to check: no .safetensors file, index or configuration.",
      .file = given};
}

void sort_findings(Diagnostics& findings) {
  std::stable_sort(findings.begin(), findings.end(), [](const Diagnostic& a, const Diagnostic& b) {
    if (a.file != b.file) return a.file < b.file;
    if (a.offset != b.offset) return a.offset < b.offset;
    if (a.rule != b.rule) return rule_info(a.rule).id < rule_info(b.rule).id;
    return a.subject < b.subject;
  });
}

}  // namespace tftf
