#include "lint/config/family_check.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "lint/config/dimensions.h"
#include "lint/config/family_survey.h"
#include "lint/config/tokenizer_ids.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

// More skipped layers than this in one stack help nobody, and their number is one that the file chooses.
constexpr uint64_t kMaxSkippedLayers = 1000;

// The tensors that break one shape rule: the first by bytes is shown.
struct Mismatch {
  uint64_t count = 0;
  std::string_view tensor;
  std::string key;
  std::optional<uint64_t> expected;
  uint64_t found = 0;
};

class FamilyChecker {
 public:
  explicit FamilyChecker(const FamilyCheckInput& input)
      : input_(input),
        family_(*input.choice.family),
        tensors_(input.folder.tensors),
        dimensions_(family_, input.config),
        survey_(survey_family(family_, tensors_, input.quantised)) {}

  Diagnostics run(std::optional<TiedTensors>* tied) {
    for (const FamilySymbol& symbol : family_.symbols)
      symbols_.push_back(dimensions_.evaluate(symbol.expression));
    for (const FamilyStack& stack : family_.stacks)
      counts_.push_back(dimensions_.key_or(stack.count_key, stack.count_otherwise));
    if (!check_needed_values()) return std::move(findings_);
    nextn_ = static_cast<uint64_t>(
        std::max<int64_t>(0, input_.config.integer("num_nextn_predict_layers").value_or(0)));
    check_heads();
    check_names();
    check_shapes();
    check_expert_numbers();
    check_layers();
    check_head(tied);
    check_tokens();
    return std::move(findings_);
  }

 private:
  using Values = std::vector<std::pair<std::string, DiagnosticValue>>;

  void add(Rule rule, std::optional<std::string> subject, Values values, std::string_view key = {}) {
    Diagnostic finding;
    finding.rule = rule;
    finding.file = input_.file;
    finding.subject = std::move(subject);
    finding.values = std::move(values);
    if (const JsonValue* value = key.empty() ? nullptr : input_.config.find(key)) {
      finding.pointer = json_pointer({{key}});
      finding.offset = value->begin;
    }
    findings_.push_back(std::move(finding));
  }
  // A name of the table as the files spell it.
  std::string spelled(std::string_view name) const {
    std::string out(survey_.wrapper);
    if (survey_.prefixed && name != family_.head) out += family_.optional_prefix;
    return out += name;
  }
  const FamilyEntry& entry_of(const FamilyPlace& place) const {
    if (place.kind == FamilyPlace::Kind::kTop) return family_.top.entries[place.entry];
    const FamilyStack& stack = family_.stacks[place.stack];
    return (place.kind == FamilyPlace::Kind::kLayer ? stack.names : stack.experts).entries[place.entry];
  }
  bool ignored_layer(const FamilyPlace& place) const {
    return place.in_layers() && counts_[place.stack].value && place.layer >= *counts_[place.stack].value;
  }
  // Absence proves nothing while files are missing or the names are wrapped.
  bool absence_counts() const { return !input_.folder.incomplete && survey_.wrapper.empty(); }
  bool head_is_embedding() const;
  bool is_packed(const ConfigTensor& tensor) const { return input_.quantised && !is_floating(tensor.dtype); }

  bool check_needed_values();
  void check_heads();
  void check_names();
  void check_shapes();
  bool check_dimension(const ConfigTensor& tensor, const FamilyDimension& dimension, Rule literal_rule,
                       uint64_t found, std::vector<Rule>& broken);
  void check_expert_numbers();
  void check_layers();
  void check_stack(size_t number);
  void check_head(std::optional<TiedTensors>* tied);
  void check_tokens();

  const FamilyCheckInput& input_;
  const Family& family_;
  std::span<const ConfigTensor> tensors_;
  Dimensions dimensions_;
  FamilySurvey survey_;
  std::vector<DimensionValue> symbols_;  // parallel to the family's
  std::vector<DimensionValue> counts_;   // parallel to its stacks
  uint64_t nextn_ = 0;
  std::vector<std::pair<Rule, Mismatch>> mismatches_;
  Diagnostics findings_;
};

// CF004, for the values that required tensors or layer counts use. Members of a group count when one of them
// is stored: a model without dense layers needs no intermediate_size.
bool FamilyChecker::check_needed_values() {
  std::vector<std::string_view> bad;
  auto need = [&](const DimensionValue& value) {
    for (std::string_view key : value.bad_keys)
      if (std::find(bad.begin(), bad.end(), key) == bad.end()) bad.push_back(key);
  };
  auto need_entry = [&](const FamilyEntry& entry) {
    for (const FamilyDimension& dimension : entry.shape)
      if (dimension.symbol != FamilyDimension::kLiteral) need(symbols_[dimension.symbol]);
  };
  for (const FamilyEntry& entry : family_.top.entries)
    if (!entry.optional) need_entry(entry);
  for (size_t i = 0; i < family_.stacks.size(); ++i) {
    const FamilyStack& stack = family_.stacks[i];
    const StoredStack& stored = survey_.stacks[i];
    if (i > 0 && stored.layers.empty()) continue;
    need(counts_[i]);
    uint64_t present = 0;
    for (const auto& [layer, bits] : stored.layers) present |= bits;
    bool group_stored[2] = {};
    for (size_t e = 0; e < stack.names.entries.size(); ++e)
      if (const char group = stack.names.entries[e].group; group != 0 && (present >> e & 1))
        group_stored[group - 'A'] = true;
    for (const FamilyEntry& entry : stack.names.entries)
      if (!entry.optional && (entry.group == 0 || group_stored[entry.group - 'A'])) need_entry(entry);
    if (!stack.has_groups || group_stored[1] || !stored.experts.empty())
      for (const FamilyEntry& entry : stack.experts.entries) need_entry(entry);
  }
  for (std::string_view key : bad) {
    const JsonValue* value = input_.config.get(key);
    add(Rule::CF004, std::string(key),
        {{"key", std::string(key)}, {"value", value ? DiagnosticValue(value->brief()) : DiagnosticValue()}},
        key);
  }
  return bad.empty();
}

void FamilyChecker::check_heads() {
  auto positive = [&](std::string_view key) {
    const int64_t value = input_.config.integer(key).value_or(0);
    return value > 0 ? static_cast<uint64_t>(value) : 0;
  };
  const uint64_t heads = positive(family_.heads_key);
  if (family_.heads_key.empty() || heads == 0) return;
  auto check = [&](std::string_view key, uint64_t value, std::string_view by, uint64_t divisor) {
    if (value == 0 || divisor == 0 || value % divisor == 0) return;
    add(Rule::CF005, std::nullopt,
        {{"detail", std::string(key) + " " + std::to_string(value) + " is not divisible by " +
                        std::string(by) + " " + std::to_string(divisor)}},
        key);
  };
  if (!dimensions_.present("head_dim"))
    check("hidden_size", positive("hidden_size"), family_.heads_key, heads);
  const bool grouped = std::any_of(family_.derived.begin(), family_.derived.end(),
                                   [](const FamilyDerived& d) { return d.key == "num_key_value_heads"; });
  if (grouped) check(family_.heads_key, heads, "num_key_value_heads", positive("num_key_value_heads"));
}

// One of two tied tensors is stored, and it is the head.
bool FamilyChecker::head_is_embedding() const {
  const JsonValue* declared = input_.config.get("tie_word_embeddings");
  const bool tied =
      declared ? declared->kind == JsonKind::kBoolean && declared->is_true() : input_.choice.tied;
  return tied && survey_.head && !survey_.embedding && absence_counts();
}

// CF026, CF027, CF028, CF033.
void FamilyChecker::check_names() {
  struct Group {
    uint64_t count = 0;
    std::string_view first;
    void take(std::string_view name) {
      if (count++ == 0 || name < first) first = name;
    }
  } unknown, buffers;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const FamilyPlace& place = survey_.places[i];
    if (place.in_table()) continue;
    if (is_legacy_buffer(tensors_[i].name)) {
      buffers.take(tensors_[i].name);
      continue;
    }
    const auto& count = counts_[place.stack].value;
    const bool next_token_layer = ignored_layer(place) && place.layer - *count < nextn_;
    const FamilyStack& stack = family_.stacks[place.stack];
    const bool fused =
        place.in_layers() && fused_layer(stack, tensors_[i], spelled(stack.prefix)).has_value();
    if (!next_token_layer && !fused) unknown.take(tensors_[i].name);
  }
  if (!survey_.wrapper.empty())
    add(Rule::CF028, std::string(survey_.wrapper), {{"prefix", std::string(survey_.wrapper)}});
  if (unknown.count > 0 && survey_.wrapper.empty())
    add(Rule::CF026, std::string(unknown.first),
        {{"count", unknown.count},
         {"model_type", std::string(input_.model_type)},
         {"tensor", std::string(unknown.first)}});
  if (buffers.count > 0)
    add(Rule::CF033, std::string(buffers.first),
        {{"count", buffers.count}, {"tensor", std::string(buffers.first)}});
  for (size_t e = 0; absence_counts() && e < family_.top.entries.size(); ++e) {
    const FamilyEntry& entry = family_.top.entries[e];
    if (entry.optional || (survey_.top >> e & 1)) continue;
    if (entry.name == family_.embedding && head_is_embedding()) continue;
    const std::string name = spelled(entry.name);
    add(Rule::CF027, name, {{"tensor", name}});
  }
}

// One dimension of one tensor; each rule counts a tensor once.
bool FamilyChecker::check_dimension(const ConfigTensor& tensor, const FamilyDimension& dimension,
                                    Rule literal_rule, uint64_t found, std::vector<Rule>& broken) {
  const bool literal = dimension.symbol == FamilyDimension::kLiteral;
  if (!literal && !symbols_[dimension.symbol].usable()) return true;
  const std::optional<uint64_t> expected = literal ? dimension.literal : symbols_[dimension.symbol].value;
  if (expected == found) return true;
  const Rule rule = literal ? literal_rule : family_.symbols[dimension.symbol].rule;
  if (std::find(broken.begin(), broken.end(), rule) != broken.end()) return false;
  broken.push_back(rule);
  auto slot =
      std::find_if(mismatches_.begin(), mismatches_.end(), [&](const auto& m) { return m.first == rule; });
  if (slot == mismatches_.end()) slot = mismatches_.insert(slot, {rule, Mismatch()});
  Mismatch& mismatch = slot->second;
  if (mismatch.count++ > 0 && tensor.name >= mismatch.tensor) return false;
  mismatch.tensor = tensor.name;
  mismatch.key =
      literal ? "a fixed dimension" : dimensions_.spelled(family_.symbols[dimension.symbol].expression);
  mismatch.expected = expected;
  mismatch.found = found;
  return false;
}

// CF010, CF011, CF015..CF019 for the tensors that the model uses.
void FamilyChecker::check_shapes() {
  std::vector<Rule> broken;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const ConfigTensor& tensor = tensors_[i];
    const FamilyPlace& place = survey_.places[i];
    if (!place.in_table() || !place.exact || ignored_layer(place) || is_packed(tensor)) continue;
    const FamilyEntry& entry = entry_of(place);
    if (tensor.shape->size() != entry.shape.size()) {
      add(Rule::CF019, std::string(tensor.name),
          {{"tensor", std::string(tensor.name)},
           {"shape", *tensor.shape},
           {"expected", static_cast<uint64_t>(entry.shape.size())}});
      continue;
    }
    broken.clear();
    Rule literal_rule = Rule::CF011;
    for (const FamilyDimension& dimension : entry.shape)
      if (dimension.symbol != FamilyDimension::kLiteral) {
        literal_rule = family_.symbols[dimension.symbol].rule;
        break;
      }
    for (size_t d = 0; d < entry.shape.size(); ++d)
      check_dimension(tensor, entry.shape[d], literal_rule, (*tensor.shape)[d], broken);
  }
  for (const auto& [rule, mismatch] : mismatches_) {
    DiagnosticValue expected = std::string("more than 18446744073709551615");
    if (mismatch.expected) expected = *mismatch.expected;
    add(rule, std::string(mismatch.tensor),
        {{"tensor", std::string(mismatch.tensor)},
         {"key", mismatch.key},
         {"expected", std::move(expected)},
         {"found", mismatch.found},
         {"count", mismatch.count}},
        mismatch.key);
  }
}

// CF017 for the numbers of the experts, when the routers agree. While files are missing only numbers beyond
// the count say something.
void FamilyChecker::check_expert_numbers() {
  for (const auto& [rule, mismatch] : mismatches_)
    if (rule == Rule::CF017) return;
  for (size_t i = 0; i < family_.stacks.size(); ++i) {
    const FamilyStack& stack = family_.stacks[i];
    if (stack.expert_prefix.empty()) continue;
    const FamilySymbol* symbol = nullptr;
    std::optional<uint64_t> expected;
    for (size_t s = 0; s < family_.symbols.size(); ++s)
      if (family_.symbols[s].rule == Rule::CF017) {
        symbol = &family_.symbols[s];
        expected = symbols_[s].value;
      }
    const auto fused = fused_experts(stack, tensors_, spelled(stack.prefix));
    for (const auto& [layer, tensor] : fused) {
      if (!expected || !counts_[i].value || layer >= *counts_[i].value) break;
      const uint64_t found = (*tensor->shape)[0];
      if (found == *expected) continue;
      add(Rule::CF017, std::string(tensor->name),
          {{"tensor", std::string(tensor->name)},
           {"key", std::string(symbol->expression)},
           {"expected", *expected},
           {"found", found}},
          symbol->expression);
      return;
    }
    uint64_t router = 0;
    for (size_t e = 0; e < stack.names.entries.size(); ++e)
      if (stack.names.entries[e].group == 'B') router |= uint64_t{1} << e;
    for (const auto& [layer, bits] : survey_.stacks[i].layers) {
      if (!counts_[i].value || layer >= *counts_[i].value || !expected) break;
      const std::span<const StoredExpert> experts = survey_.stacks[i].experts_of(layer);
      if (stack.has_groups && experts.empty() && (bits & router) == 0) continue;  // a dense layer
      if (experts.empty() && fused.count(layer) != 0) continue;
      const bool beyond = !experts.empty() && experts.back().expert >= *expected;
      if (!beyond && (experts.size() == *expected || input_.folder.incomplete)) continue;
      DiagnosticValue found = static_cast<uint64_t>(experts.size());
      if (experts.size() == *expected)
        found =
            std::to_string(experts.size()) + " with numbers up to " + std::to_string(experts.back().expert);
      std::string path = spelled(stack.prefix) + std::to_string(layer) + ".";
      path += stack.expert_prefix.substr(0, stack.expert_prefix.size() - 1);
      add(Rule::CF017, path,
          {{"tensor", path},
           {"key", std::string(symbol->expression)},
           {"expected", *expected},
           {"found", std::move(found)}},
          symbol->expression);
      return;
    }
  }
}

// CF012, CF013, CF014 of one stack.
void FamilyChecker::check_stack(size_t number) {
  const FamilyStack& stack = family_.stacks[number];
  const StoredStack& stored = survey_.stacks[number];
  if (!counts_[number].value || (number > 0 && stored.layers.empty())) return;
  const uint64_t count = *counts_[number].value;
  const std::string prefix = spelled(stack.prefix);
  const std::string_view key = dimensions_.present(stack.count_key) || stack.count_otherwise.empty()
                                   ? stack.count_key
                                   : stack.count_otherwise;
  const uint64_t height = stored.height();
  if (height > count + nextn_)
    add(Rule::CF013, prefix, {{"key", std::string(key)}, {"expected", count}, {"found", height - 1}}, key);
  if (!absence_counts()) return;
  if (height < count)
    add(Rule::CF012, prefix, {{"key", std::string(key)}, {"expected", count}, {"found", height}}, key);
  auto report = [&](uint32_t layer, uint64_t bits) {
    std::vector<std::string> missing = missing_in_layer(stack, stored, layer, bits);
    if (missing.empty()) return;
    const std::string path = prefix + std::to_string(layer);
    add(Rule::CF014, path, {{"layer", uint64_t{layer}}, {"tensors", std::move(missing)}});
  };
  uint64_t next = 0, skipped = 0;
  for (const auto& [layer, bits] : stored.layers) {
    for (; next < std::min<uint64_t>(layer, count) && skipped < kMaxSkippedLayers; ++next, ++skipped)
      report(static_cast<uint32_t>(next), 0);
    if (layer >= count) break;
    report(layer, bits);
    next = uint64_t{layer} + 1;
  }
}

void FamilyChecker::check_layers() {
  if (!survey_.wrapper.empty()) return;
  for (size_t i = 0; i < family_.stacks.size(); ++i) check_stack(i);
}

// CF020..CF024.
void FamilyChecker::check_head(std::optional<TiedTensors>* tied) {
  if (family_.head.empty()) return;
  constexpr std::string_view kTie = "tie_word_embeddings";
  const JsonValue* declared = input_.config.get(kTie);
  const std::string head = survey_.head ? std::string(tensors_[*survey_.head].name) : spelled(family_.head);
  const std::string embedding =
      survey_.embedding ? std::string(tensors_[*survey_.embedding].name) : spelled(family_.embedding);
  const bool known = !declared || declared->kind == JsonKind::kBoolean;
  const bool is_tied = declared ? declared->is_true() : input_.choice.tied;
  bool generates = false;
  if (const JsonValue* list = input_.config.get("architectures"))
    for (const JsonValue& name : list->elements)
      for (std::string_view end : {"ForCausalLM", "LMHeadModel", "ForConditionalGeneration"})
        generates = generates || (name.is_string() && name.text.size() >= end.size() &&
                                  std::string_view(name.text).substr(name.text.size() - end.size()) == end);
  if (known && is_tied && survey_.head_stored) {
    const bool alone = head_is_embedding();
    add(Rule::CF021, head,
        {{"tensor", head},
         {"detail", alone ? "the head is the embedding, " + quote_name(embedding) + " is not stored"
                          : std::string("loaders drop it")}},
        kTie);
    if (alone) findings_.back().severity = Severity::kInfo;
  }
  if (known && generates && !survey_.head_stored && !input_.folder.incomplete) {
    if (!is_tied && survey_.wrapper.empty()) add(Rule::CF020, head, {{"tensor", head}}, kTie);
    if (is_tied && declared) add(Rule::CF022, head, {{"tensor", head}, {"other", embedding}}, kTie);
    if (is_tied && !declared)
      add(Rule::CF023, head, {{"tensor", head}, {"model_type", std::string(input_.model_type)}});
  }
  if (!survey_.head || !survey_.embedding) return;
  const ConfigTensor& a = tensors_[*survey_.head];
  const ConfigTensor& b = tensors_[*survey_.embedding];
  if (is_packed(a) || is_packed(b)) return;
  if (*a.shape != *b.shape)
    add(Rule::CF024, head,
        {{"tensor", head}, {"shape", *a.shape}, {"other", embedding}, {"oshape", *b.shape}});
  else if (known && is_tied && tied)
    *tied = TiedTensors{*survey_.head, *survey_.embedding};
}

void FamilyChecker::check_tokens() {
  const std::optional<size_t> embedding = head_is_embedding() ? survey_.head : survey_.embedding;
  if (!input_.folder.tokenizer_text || !embedding) return;
  const Shape& shape = *tensors_[*embedding].shape;
  if (shape.size() != 2) return;
  for (const auto& [token, id] : tokens_beyond(*input_.folder.tokenizer_text, shape[0]))
    add(Rule::CF030, token, {{"id", id}, {"token", token}, {"rows", shape[0]}});
}

}  // namespace

Diagnostics check_family(const FamilyCheckInput& input, std::optional<TiedTensors>* tied) {
  return FamilyChecker(input).run(tied);
}

}  // namespace tftf
