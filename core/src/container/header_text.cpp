#include "container/header_text.h"

#include "container/entry_table.h"
#include "container/foreign_content.h"
#include "container/layout.h"
#include "container/metadata_table.h"
#include "tftf/base/checked.h"
#include "tftf/base/utf8.h"

namespace tftf {
namespace {

constexpr uint64_t kTextOffset = 8;  // of the header text in the file
constexpr uint64_t kManyTensors = 65'536;

bool is_json_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Hands the events of the parse to the table they belong to.
class Dispatcher final : public JsonHandler {
 public:
  Dispatcher(EntryTable& entries, MetadataTable& metadata) : entries_(entries), metadata_(metadata) {}

  JsonKind root_kind() const { return root_kind_; }

  void on_null(uint64_t at) override { put_value(JsonKind::kNull, "null", at); }
  void on_boolean(bool value, uint64_t at) override {
    put_value(JsonKind::kBoolean, value ? "true" : "false", at);
  }
  void on_number(std::string_view literal, uint64_t at) override {
    if (where_ == Where::kArray)
      entries_.element(literal, at);
    else
      put_value(JsonKind::kNumber, literal, at);
  }
  void on_string(std::string_view text, uint64_t at) override { put_value(JsonKind::kString, text, at); }
  void on_key(std::string_view text, uint64_t at) override {
    switch (where_) {
      case Where::kTable:
        in_metadata_ = text == "__metadata__";
        in_metadata_ ? metadata_.begin(at) : entries_.key(text, at);
        break;
      case Where::kEntry:
        entries_.field(text, at);
        break;
      case Where::kMetadata:
        metadata_.key(text, at);
        break;
      default:
        break;
    }
  }
  void on_start_object(uint64_t at) override {
    if (where_ == Where::kStart) {
      root_kind_ = JsonKind::kObject;
      where_ = Where::kTable;
    } else if (where_ == Where::kTable && in_metadata_) {
      metadata_.begin_object();
      where_ = Where::kMetadata;
    } else if (where_ == Where::kTable) {
      where_ = Where::kEntry;
    } else {
      skip(JsonKind::kObject, at);
    }
  }
  void on_start_array(uint64_t at) override {
    if (where_ == Where::kEntry && entries_.begin_array(at))
      where_ = Where::kArray;
    else
      skip(JsonKind::kArray, at);
  }
  void on_end_object(uint64_t) override {
    switch (where_) {
      case Where::kEntry:
        entries_.end_object();
        where_ = Where::kTable;
        break;
      case Where::kMetadata:
        where_ = Where::kTable;
        break;
      default:
        end_skipped();
    }
  }
  void on_end_array(uint64_t at) override {
    if (where_ == Where::kArray) {
      entries_.end_array(at + 1);
      where_ = Where::kEntry;
    } else {
      end_skipped();
    }
  }

 private:
  enum class Where : uint8_t { kStart, kTable, kMetadata, kEntry, kArray, kSkipped };

  // A value of the place where we are; `text` is decoded or as written, empty for arrays and objects.
  void put_value(JsonKind kind, std::string_view text, uint64_t at) {
    switch (where_) {
      case Where::kStart:
        root_kind_ = kind;
        break;
      case Where::kTable:
        in_metadata_ ? metadata_.not_object(kind) : entries_.not_object(kind, at);
        break;
      case Where::kMetadata:
        metadata_.value(kind, text, at);
        break;
      case Where::kEntry:
        entries_.value(kind, text, at);
        break;
      case Where::kArray:
        entries_.bad_element();
        break;
      case Where::kSkipped:
        break;
    }
  }
  // An object or array whose content is of no interest.
  void skip(JsonKind kind, uint64_t at) {
    put_value(kind, {}, at);
    if (skipped_++ == 0) {
      back_ = where_;
      where_ = Where::kSkipped;
    }
  }
  void end_skipped() {
    if (skipped_ > 0 && --skipped_ == 0) where_ = back_;
  }

  EntryTable& entries_;
  MetadataTable& metadata_;
  JsonKind root_kind_ = JsonKind::kNull;
  Where where_ = Where::kStart;
  Where back_ = Where::kStart;  // where the skipped value stands
  uint32_t skipped_ = 0;        // how many skipped brackets are open
  bool in_metadata_ = false;
};

void add_at(FindingList& findings, Rule rule, uint64_t offset) {
  if (Diagnostic* finding = findings.add(rule)) {
    finding->offset = offset;
    finding->values = {{"offset", offset}};
  }
}

void add_json_error(const JsonError& error, std::string_view head, uint64_t file_size, uint64_t length,
                    FindingList& findings) {
  const uint64_t offset = kTextOffset + error.offset;
  switch (error.kind) {
    case JsonError::Kind::kDepth:
      return add_at(findings, Rule::ST029, offset);
    case JsonError::Kind::kLoneSurrogate:
      return add_at(findings, Rule::ST066, offset);
    case JsonError::Kind::kSyntax:
      break;
  }
  if (add_foreign_content(head, file_size, length, FailedCheck::kText, findings)) return;
  if (Diagnostic* finding = findings.add(Rule::ST020)) {
    finding->offset = offset;
    finding->values = {{"offset", offset}, {"detail", error.detail}};
  }
}

// What follows the value that ends at `end`: ST019 (says so: evaluation stops) or ST018.
bool check_padding(std::string_view text, uint64_t end, FindingList& findings) {
  const size_t garbage = text.find_first_not_of(" \t\n\r", to_size(end));
  if (garbage != std::string_view::npos) {
    if (Diagnostic* finding = findings.add(Rule::ST019)) {
      finding->offset = kTextOffset + garbage;
      finding->values = {{"count", uint64_t{text.size() - garbage}},
                         {"offset", kTextOffset + garbage},
                         {"byte", hex_byte(static_cast<unsigned char>(text[garbage]))}};
    }
    return true;
  }
  const size_t odd = text.find_first_not_of(' ', to_size(end));
  if (odd != std::string_view::npos)
    if (Diagnostic* finding = findings.add(Rule::ST018)) {
      finding->offset = kTextOffset + odd;
      finding->values = {{"byte", hex_byte(static_cast<unsigned char>(text[odd]))}};
    }
  return false;
}

void check_counts(const EntryTable& entries, FindingList& findings) {
  const uint64_t tensors = entries.names().size();
  if (tensors == 0) findings.add(Rule::ST055);
  if (tensors > kManyTensors)
    if (Diagnostic* finding = findings.add(Rule::ST059)) finding->values = {{"count", tensors}};
  if (const uint64_t doubles = entries.dtype_counts()[static_cast<size_t>(DType::F64)])
    if (Diagnostic* finding = findings.add(Rule::ST091)) finding->values = {{"count", doubles}};
}

}  // namespace

TextScan scan_header_text(std::string_view text, std::string_view head, uint64_t file_size, Header& header,
                          FindingList& findings) {
  TextScan scan;
  header.header_length = text.size();
  if (auto invalid = find_invalid_utf8(text)) {
    if (!add_foreign_content(head, file_size, text.size(), FailedCheck::kText, findings))
      add_at(findings, Rule::ST015, kTextOffset + *invalid);
    return scan;
  }
  if (text.substr(0, 3) == "\xEF\xBB\xBF") {
    if (Diagnostic* finding = findings.add(Rule::ST016)) finding->offset = kTextOffset;
    return scan;
  }
  uint64_t spaces = 0;
  while (spaces < text.size() && is_json_space(text[to_size(spaces)])) ++spaces;
  if (spaces > 0)
    if (Diagnostic* finding = findings.add(Rule::ST017)) {
      finding->offset = kTextOffset;
      finding->values = {{"count", spaces}};
    }

  // The entries are judged while they are parsed; a stop rule takes back what was said about them.
  FindingList entry_findings = findings.sibling();
  EntryTable entries(text, kTextOffset, entry_findings);
  MetadataTable metadata(text, kTextOffset);
  Dispatcher dispatcher(entries, metadata);
  uint64_t end = 0;
  if (const auto error = read_json(text, JsonDialect::kStrict, dispatcher, end)) {
    add_json_error(*error, head, file_size, text.size(), findings);
    return scan;
  }
  if (check_padding(text, end, findings)) return scan;
  if (dispatcher.root_kind() != JsonKind::kObject) {
    if (Diagnostic* finding = findings.add(Rule::ST021)) {
      finding->offset = kTextOffset + spaces;
      finding->values = {{"kind", std::string(json_kind_name(dispatcher.root_kind()))}};
    }
    return scan;
  }

  scan.readable = true;
  metadata.check(entry_findings);
  entries.finish();
  header.has_metadata = metadata.is_object();
  header.metadata = metadata.take();
  header.other_metadata = metadata.take_others();
  header.tensors = entries.take_tensors();
  const DataSection data{header.data_offset(), file_size - header.data_offset()};
  entries.sort_spans();
  if (entries.all_have_spans()) scan.trailing = check_layout(entries, data, entry_findings);
  check_alignment(entries, data, entry_findings);
  scan.sound = !entry_findings.has_error();
  if (scan.sound) {
    check_reference_order(entries, data, entry_findings);
    check_header_order(header.tensors, data, entry_findings);
  }
  check_counts(entries, entry_findings);
  if (scan.trailing) *scan.trailing += findings.size();
  findings.append(std::move(entry_findings));
  return scan;
}

}  // namespace tftf
