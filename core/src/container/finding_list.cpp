#include "container/finding_list.h"

namespace tftf {
namespace {

// All text of all findings of one file; one finding may pass it.
constexpr uint64_t kMaxTextBytes = 64'000'000;
constexpr size_t kMaxShownRank = 64;

uint64_t text_bytes(const Diagnostic& finding) {
  uint64_t bytes = finding.pointer.size() + (finding.subject ? finding.subject->size() : 0);
  for (const auto& [key, value] : finding.values)
    if (const auto* text = std::get_if<std::string>(&value)) bytes += text->size();
  return bytes;
}

}  // namespace

size_t FindingList::counter(Rule rule) {
  if (kept_.empty()) {
    kept_.resize(all_rules().size());
    omitted_.resize(all_rules().size());
  }
  return static_cast<size_t>(rule);
}

Diagnostic* FindingList::add(Rule rule) {
  if (rule_info(rule).severity == Severity::kError) has_error_ = true;
  const size_t index = counter(rule);
  // The caller has filled in the last one by now.
  for (; measured_ < list_.size(); ++measured_) text_bytes_ += text_bytes(list_[measured_]);
  if (kept_[index] >= per_rule_ || text_bytes_ > kMaxTextBytes) {
    ++omitted_[index];
    return nullptr;
  }
  ++kept_[index];
  Diagnostic& finding = list_.emplace_back();
  finding.rule = rule;
  finding.file = file_;
  return &finding;
}

void FindingList::count(Rule rule, uint64_t more) {
  if (more == 0) return;
  if (rule_info(rule).severity == Severity::kError) has_error_ = true;
  omitted_[counter(rule)] += more;
}

void FindingList::append(FindingList&& other) {
  for (Diagnostic& finding : other.list_) list_.push_back(std::move(finding));
  has_error_ = has_error_ || other.has_error_;
  for (const auto& [rule, more] : other.omitted()) count(rule, more);
}

std::vector<std::pair<Rule, uint64_t>> FindingList::omitted() const {
  std::vector<std::pair<Rule, uint64_t>> out;
  for (size_t i = 0; i < omitted_.size(); ++i)
    if (omitted_[i] != 0) out.emplace_back(static_cast<Rule>(i), omitted_[i]);
  return out;
}

std::string cut_text(std::string_view text, size_t limit) {
  if (text.size() <= limit) return std::string(text);
  size_t end = limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "…";
}

DiagnosticValue shape_value(const Shape& shape) {
  if (shape.size() <= kMaxShownRank) return shape;
  std::string text = shape_text(Shape(shape.begin(), shape.begin() + kMaxShownRank));
  text.back() = ',';
  return text + "…] (" + std::to_string(shape.size()) + " dimensions)";
}

std::string hex_byte(unsigned char byte) {
  constexpr char kDigits[] = "0123456789abcdef";
  return {kDigits[byte >> 4], kDigits[byte & 15]};
}

}  // namespace tftf
