#include "tftf/base/escape.h"
#include "tftf/base/json_value.h"
#include "tftf/plan/journal.h"

namespace tftf {
namespace {

// More outputs than any model has files: bounds what a hostile journal makes us allocate.
constexpr uint64_t kMaxOutputs = 1 << 20;

std::optional<uint64_t> number(const JsonValue* value) {
  if (value == nullptr || !value->is_number()) return std::nullopt;
  return json_unsigned(value->text);
}

std::optional<std::string> string(const JsonValue* value) {
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return value->text;
}

std::optional<double> from_bits_text(const JsonValue& value) {
  if (!value.is_string() || value.text.size() != 16) return std::nullopt;
  uint64_t bits = 0;
  for (const char c : value.text) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return std::nullopt;
    bits = bits << 4 | static_cast<uint64_t>(digit);
  }
  return bit_cast<double>(bits);
}

// The reading of one line changes a journal whole or not at all: each function parses first.

std::optional<std::vector<JournalOutput>> read_outputs(const JsonValue& list) {
  if (!list.is_array() || list.elements.size() > kMaxOutputs) return std::nullopt;
  std::vector<JournalOutput> outputs;
  for (const JsonValue& element : list.elements) {
    const auto name = string(element.find("name"));
    const auto size = number(element.find("size"));
    if (!element.is_object() || !name || !size) return std::nullopt;
    outputs.push_back({*name, *size});
  }
  return outputs;
}

std::optional<JournalHead> read_head(const JsonValue& root) {
  JournalHead head;
  const auto plan = string(root.find("plan"));
  const auto tile = number(root.find("tile"));
  const JsonValue* inputs = root.find("inputs");
  const JsonValue* outputs = root.find("outputs");
  if (!plan || !tile || inputs == nullptr || !inputs->is_array() || outputs == nullptr) return std::nullopt;
  head.plan = *plan;
  head.tile = *tile;
  for (const JsonValue& element : inputs->elements) {
    if (!element.is_object()) return std::nullopt;
    const auto path = string(element.find("path"));
    const auto size = number(element.find("size"));
    const auto mtime = element.integer("mtime_ns");
    const auto sha = string(element.find("header_sha256"));
    if (!path || !size || !mtime || !sha) return std::nullopt;
    head.inputs.push_back({*path, *size, *mtime, *sha});
  }
  if (!outputs->is_null()) {
    head.outputs = read_outputs(*outputs);
    if (!head.outputs) return std::nullopt;
  }
  return head;
}

using Values = std::vector<std::pair<uint64_t, Value>>;

std::optional<Values> read_values(const JsonValue* list) {
  if (list == nullptr || !list->is_array()) return std::nullopt;
  Values values;
  for (const JsonValue& row : list->elements) {
    if (!row.is_array() || row.elements.size() != 7) return std::nullopt;
    Value value;
    const auto index = number(&row.elements[0]);
    if (!index) return std::nullopt;
    for (size_t i = 0; i < value.n.size(); ++i) {
      const auto n = number(&row.elements[1 + i]);
      if (!n) return std::nullopt;
      value.n[i] = *n;
    }
    for (size_t i = 0; i < value.x.size(); ++i) {
      const auto x = from_bits_text(row.elements[5 + i]);
      if (!x) return std::nullopt;
      value.x[i] = *x;
    }
    values.emplace_back(*index, value);
  }
  return values;
}

template <class Vector>
void grow(Vector& list, uint64_t index) {
  if (list.size() <= index) list.resize(static_cast<size_t>(index + 1));
}

bool read_done(Journal& journal, uint64_t phase, const JsonValue& list, const JsonValue* values) {
  auto parsed = read_values(values);
  if (!list.is_array() || !parsed) return false;
  std::vector<std::pair<uint64_t, ByteSpan>> spans;
  for (const JsonValue& row : list.elements) {
    if (!row.is_array() || row.elements.size() != 3) return false;
    const auto output = number(&row.elements[0]);
    const auto begin = number(&row.elements[1]);
    const auto end = number(&row.elements[2]);
    if (!output || !begin || !end || *output >= kMaxOutputs || *begin >= *end) return false;
    spans.push_back({*output, {*begin, *end}});
  }
  for (const auto& [output, span] : spans) {
    grow(journal.done, output);
    journal.done[static_cast<size_t>(output)].add(span.begin, span.end);
  }
  if (!parsed->empty()) {
    Values& partial = journal.partial[static_cast<size_t>(phase)];
    partial.insert(partial.end(), parsed->begin(), parsed->end());
  }
  return true;
}

bool read_line(Journal& journal, const JsonValue& root) {
  if (!root.is_object()) return false;
  if (const JsonValue* outputs = root.find("outputs")) {
    auto parsed = read_outputs(*outputs);
    if (!parsed || journal.head.outputs) return false;
    journal.head.outputs = std::move(parsed);
    return true;
  }
  if (const auto output = number(root.find("out"))) {
    const JsonValue* renamed = root.find("renamed");
    if (renamed == nullptr || !renamed->is_true() || *output >= kMaxOutputs) return false;
    grow(journal.renamed, *output);
    journal.renamed[static_cast<size_t>(*output)] = true;
    return true;
  }
  const auto phase = number(root.find("phase"));
  if (!phase || *phase > UINT32_MAX) return false;
  if (const JsonValue* result = root.find("result")) {
    auto parsed = read_values(result);
    if (!parsed) return false;
    journal.results[static_cast<size_t>(*phase)] = *std::move(parsed);
    return true;
  }
  const JsonValue* done = root.find("done");
  return done != nullptr && read_done(journal, *phase, *done, root.find("values"));
}

Error journal_refused(const std::string& file, const std::string& why) {
  return {.code = ErrorCode::kRefusedJournal,
          .message = "Cannot continue from journal " + quote_name(file) + ": " + why +
                     "; --no-resume discards it and starts anew.",
          .file = file};
}

}  // namespace

Result<std::optional<Journal>> parse_journal(std::string_view text, const std::string& file) {
  Journal journal;
  size_t number_of_line = 0;
  while (journal.length < text.size()) {
    const std::string_view rest = text.substr(static_cast<size_t>(journal.length));
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) break;  // torn
    const std::string_view line = rest.substr(0, end);
    const JsonDocument document = parse_json(line, JsonDialect::kStrict, UINT64_MAX);  // the file has a bound
    bool good = !document.error && document.root.is_object();
    if (good && number_of_line == 0) {
      const JsonValue* version = document.root.find("tftf_journal");
      if (version == nullptr) return journal_refused(file, "it is no journal of this program");
      if (number(version) != 1) return journal_refused(file, "its format is of another version");
      auto head = read_head(document.root);
      good = head.has_value();
      if (good) journal.head = *std::move(head);
    } else if (good) {
      good = read_line(journal, document.root);
    }
    // A crash may leave lines whole in length and not in content. What stands before them is a state of its
    // own.
    if (!good) break;
    journal.length += end + 1;
    ++number_of_line;
  }
  if (number_of_line == 0) return std::optional<Journal>();
  return std::optional<Journal>(std::move(journal));
}

}  // namespace tftf
