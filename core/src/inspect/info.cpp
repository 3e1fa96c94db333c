#include "tftf/inspect/info.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "inspect/family_guess.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/quant/config.h"

namespace tftf {
namespace {

constexpr std::string_view kKinds[] = {"checkpoint", "adapter", "embedding", "data",
                                       "index",      "pointer", "config",    "broken"};
// Kinds of broken modules that are shown; more are counted.
constexpr size_t kMaxProblems = 20;

uint64_t key(TensorRef tensor) { return uint64_t{tensor.shard} << 32 | tensor.tensor; }

// Sums of an unsound file's claims may pass 64 bits: they stay at the top.
void add_to(uint64_t& sum, uint64_t value) { sum = checked_add(sum, value).value_or(UINT64_MAX); }

uint64_t elements_of(const TensorInfo& info) { return element_count(info.shape).value_or(UINT64_MAX); }

class Builder {
 public:
  Builder(const Checkpoint& checkpoint, LayoutReport layouts, AdapterSurvey adapter)
      : checkpoint_(checkpoint), layouts_(std::move(layouts)), adapter_(std::move(adapter)) {
    info_.checkpoint = &checkpoint;
  }

  ModelInfo build() {
    read_config();
    total_tensors();
    total_layouts();
    merge_metadata();
    for (const Shard& shard : checkpoint_.shards)
      if (shard.status == ShardStatus::kMissing) info_.missing_shards.push_back(shard.name);
    choose_kind();
    choose_family();
    if (info_.kind == ModelKind::kCheckpoint) info_.names = find_name_facts(checkpoint_);
    add_notes();
    return std::move(info_);
  }

 private:
  void read_config();
  void total_tensors();
  void total_layouts();
  void merge_metadata();
  void choose_kind();
  void choose_family();
  void add_notes();
  void note_problems();
  bool looks_like_a_model() const;

  const Checkpoint& checkpoint_;
  LayoutReport layouts_;
  AdapterSurvey adapter_;
  ModelInfo info_;
};

void Builder::read_config() {
  const JsonValue* config = checkpoint_.config();
  const QuantConfig quant = read_quant_config(checkpoint_);
  if (config) {
    info_.model_type = config->string("model_type").value_or("");
    info_.dtype = config->string("dtype").value_or(config->string("torch_dtype").value_or(""));
  }
  const auto written = quant.section ? quant.section->string("quant_method") : std::nullopt;
  info_.quant_method = written ? std::string(*written) : quant.method;
  info_.has_config = config != nullptr || !info_.quant_method.empty();
}

void Builder::total_tensors() {
  std::unordered_map<uint64_t, size_t> row_of;
  for (TensorRef tensor : checkpoint_.order) {
    const TensorInfo& stored = checkpoint_.info(tensor);
    row_of.emplace(key(tensor), info_.rows.size());
    info_.rows.push_back({tensor, {}, std::nullopt, std::nullopt, std::nullopt});
    add_to(info_.data_bytes, stored.bytes());
    add_to(info_.stored_elements, elements_of(stored));
    auto total = std::find_if(info_.dtypes.begin(), info_.dtypes.end(),
                              [&](const DTypeTotal& one) { return one.dtype == stored.dtype; });
    if (total == info_.dtypes.end()) total = info_.dtypes.insert(total, DTypeTotal{stored.dtype, 0, 0, 0});
    ++total->tensors;
    add_to(total->elements, elements_of(stored));
    add_to(total->bytes, stored.bytes());
  }
  std::stable_sort(info_.dtypes.begin(), info_.dtypes.end(),
                   [](const DTypeTotal& a, const DTypeTotal& b) { return a.tensors > b.tensors; });
  for (const QuantFinding& finding : layouts_.findings) {
    for (const QuantMatch& match : finding.matches) {
      TensorRow& row = info_.rows[row_of.at(key(match.weight))];
      row.layout = finding.layout;
      row.logical_dtype = match.logical_dtype;
      row.logical_shape = match.logical_shape;
      for (const QuantCompanion& companion : match.companions) {
        TensorRow& other = info_.rows[row_of.at(key(companion.tensor))];
        other.layout = finding.layout;
        other.companion_of = match.weight;
      }
    }
    for (TensorRef extra : finding.extras) info_.rows[row_of.at(key(extra))].layout = finding.layout;
  }
}

void Builder::total_layouts() {
  uint64_t parameters = 0;
  bool hidden = false;
  for (const QuantFinding& finding : layouts_.findings) {
    LayoutTotal total;
    total.id = finding.layout;
    total.modules = finding.matches.size();
    total.evidence = finding.evidence;
    uint64_t own = 0;
    bool known = true;
    for (const QuantMatch& match : finding.matches) {
      const auto count = match.logical_shape ? element_count(*match.logical_shape) : std::nullopt;
      known = known && count.has_value();
      add_to(own, count.value_or(0));
      add_to(total.bytes, checkpoint_.info(match.weight).bytes());
      for (const QuantCompanion& companion : match.companions)
        add_to(total.bytes, checkpoint_.info(companion.tensor).bytes());
    }
    for (TensorRef extra : finding.extras) add_to(total.bytes, checkpoint_.info(extra).bytes());
    if (known) total.logical_parameters = own;
    hidden = hidden || !known;
    add_to(parameters, own);
    info_.layouts.push_back(std::move(total));
  }
  for (const TensorRow& row : info_.rows)
    if (row.layout.empty()) add_to(parameters, elements_of(checkpoint_.info(row.tensor)));
  // Pairs of colibri's whose format is not told are weights all the same, of a number of elements that nothing tells.
  for (const QuantProblem& problem : layouts_.problems) hidden = hidden || problem.layout == "colibri";
  if (!hidden) info_.logical_parameters = parameters;
}

void Builder::merge_metadata() {
  std::unordered_set<std::string_view> known;
  for (const Shard& shard : checkpoint_.shards)
    for (const auto& [name, value] : shard.header.metadata)
      if (known.insert(name).second) info_.metadata.emplace_back(name, value);
}

// A configuration, an index, a quantised layout or names of parameters.
bool Builder::looks_like_a_model() const {
  const JsonValue* config = checkpoint_.config();
  if (config && (config->get("model_type") || config->get("architectures"))) return true;
  if (checkpoint_.index || checkpoint_.side_file("model_index.json") || !layouts_.findings.empty())
    return true;
  for (TensorRef tensor : checkpoint_.order) {
    const std::string_view name = checkpoint_.info(tensor).name;
    const std::string_view last = name.substr(name.rfind('.') + 1);
    for (std::string_view word : {"weight", "bias", "kernel", "gamma", "beta", "embedding", "running_mean"})
      if (last == word) return true;
  }
  return false;
}

void Builder::choose_kind() {
  bool ok = false, broken = false, pointer = false;
  for (const Shard& shard : checkpoint_.shards) {
    ok = ok || shard.status == ShardStatus::kOk;
    broken = broken || shard.status == ShardStatus::kBroken;
    pointer = pointer || shard.status == ShardStatus::kPointer;
  }
  const bool adapter = adapter_.kind == AdapterKind::kAdapter;
  info_.adapter_kind = adapter_.kind;
  info_.adapter_evidence = adapter_.evidence;
  if (adapter) info_.adapter = std::move(adapter_);
  if (!ok && broken)
    info_.kind = ModelKind::kBroken;
  else if (!ok && pointer)
    info_.kind = ModelKind::kPointer;
  else if (!ok && checkpoint_.index)
    info_.kind = ModelKind::kIndex;
  else if (!ok)
    info_.kind = ModelKind::kConfig;
  else if (adapter)
    info_.kind = ModelKind::kAdapter;
  else if (adapter_.kind == AdapterKind::kEmbedding)
    info_.kind = ModelKind::kEmbedding;
  else
    info_.kind = looks_like_a_model() ? ModelKind::kCheckpoint : ModelKind::kData;
}

void Builder::choose_family() {
  if (!info_.model_type.empty()) {
    info_.family = info_.model_type;
    return;
  }
  if (info_.adapter) {
    info_.family = info_.adapter->base_family;
    if (!info_.family.empty())
      info_.notes.push_back("the base model's family " + info_.family +
                            " is a guess from the adapter's names and shapes");
    return;
  }
  const FamilyGuess guess = guess_family(checkpoint_);
  if (guess.family.empty()) return;
  info_.family = guess.family;
  info_.notes.push_back("the family " + info_.family + " is a guess from tensor names (" +
                        std::string(guess.evidence) + ")");
}

// One note per layout and reason, with the first module: a whole model may be broken in one way.
void Builder::note_problems() {
  struct Group {
    const QuantProblem* first;
    uint64_t count;
  };
  std::vector<Group> groups;
  std::unordered_map<std::string, size_t> places;
  for (const QuantProblem& problem : layouts_.problems) {
    const auto [place, fresh] =
        places.emplace(std::string(problem.layout) + " " + problem.what, groups.size());
    if (fresh) groups.push_back({&problem, 0});
    ++groups[place->second].count;
  }
  for (size_t i = 0; i < groups.size() && i < kMaxProblems; ++i) {
    const auto& [first, count] = groups[i];
    info_.notes.push_back(std::string(first->layout) + ": " + quote_name(first->module) +
                          (count > 1 ? " and " + std::to_string(count - 1) + " more" : "") + ": " +
                          first->what);
  }
  if (groups.size() > kMaxProblems)
    info_.notes.push_back(std::to_string(groups.size() - kMaxProblems) + " more kinds of broken modules");
}

void Builder::add_notes() {
  for (const Shard& shard : checkpoint_.shards) {
    if (shard.status != ShardStatus::kBroken) continue;
    const auto error = std::find_if(
        shard.findings.begin(), shard.findings.end(),
        [](const Diagnostic& finding) { return rule_info(finding.rule).severity == Severity::kError; });
    std::string note =
        error != shard.findings.end() ? message(*error) : escape_text(shard.name) + " cannot be used.";
    info_.notes.push_back(std::move(note));
  }
  uint64_t pointers = 0;
  std::string pointer;
  for (const Shard& shard : checkpoint_.shards)
    for (const Diagnostic& finding : shard.findings)
      if (finding.rule == Rule::ST003 && pointers++ == 0) pointer = message(finding);
  if (pointers > 1)
    pointer = std::to_string(pointers) + " of " + std::to_string(checkpoint_.shards.size()) +
              " files are Git LFS pointers, not the weights.";
  if (pointers > 0) info_.notes.push_back(std::move(pointer));
  if (checkpoint_.index && checkpoint_.index->problem)
    info_.notes.push_back("the index " + quote_name(checkpoint_.index->file) +
                          " cannot be used: " + *checkpoint_.index->problem);
  for (const SideFile& file : checkpoint_.side_files)
    if (file.document.error)
      info_.notes.push_back(quote_name(file.name) +
                            " is not JSON: " + escape_text(file.document.error->detail));
  for (std::string& note : layouts_.notes) info_.notes.push_back(std::move(note));
  note_problems();
  for (const LayoutTotal& layout : info_.layouts) {
    if (layout.id == "fp8-unscaled")
      info_.notes.emplace_back("warning: FP8 weights without scales are taken as plain values");
    if (layout.id == "nvfp4-ambiguous")
      info_.notes.emplace_back(
          "what the scales and the order of nibbles mean is in no header: dequant wants --layout "
          "modelopt-nvfp4, "
          "comfy-nvfp4 or ct-nvfp4-pack-quantized");
  }
}

}  // namespace

std::string_view model_kind_name(ModelKind kind) { return kKinds[static_cast<size_t>(kind)]; }

Inspector::Inspector(const Checkpoint& checkpoint) : checkpoint_(checkpoint), values_(checkpoint) {}

void Inspector::look() {
  layouts_ = detect_layouts(checkpoint_, values_);
  adapter_ = survey_adapter(checkpoint_, values_);
  looked_ = true;
}

std::vector<ReadRequest> Inspector::want() {
  look();
  return values_.want();
}

ModelInfo Inspector::take() {
  if (!looked_) look();
  return Builder(checkpoint_, std::move(layouts_), std::move(adapter_)).build();
}

std::vector<const TensorRow*> filtered_rows(const ModelInfo& info, std::string_view filter) {
  std::vector<const TensorRow*> out;
  for (const TensorRow& row : info.rows)
    if (info.checkpoint->info(row.tensor).name.find(filter) != std::string::npos) out.push_back(&row);
  return out;
}

}  // namespace tftf
