// Findings of one file, bounded in number and size.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tftf/container/header.h"
#include "tftf/diagnostic/diagnostic.h"

namespace tftf {

// Keeps the first `per_rule` findings of each rule and counts the others. Callers add the findings of a rule
// in order of their offset, so that those kept are those a report shows first.
class FindingList {
 public:
  FindingList(std::string file, uint64_t per_rule) : file_(std::move(file)), per_rule_(per_rule) {}

  // The new finding to be filled in, valid until the next call; null when it is only counted. So the text of
  // a finding that is not kept is never made.
  Diagnostic* add(Rule rule);
  // Counts `more` findings that are not kept.
  void count(Rule rule, uint64_t more);
  // True when a finding of severity error was added, kept or not.
  bool has_error() const { return has_error_; }
  // An empty list for the same file; append() joins it. For findings that may have to be taken back.
  FindingList sibling() const { return FindingList(file_, per_rule_); }
  void append(FindingList&& other);

  Diagnostics take() { return std::move(list_); }
  std::vector<std::pair<Rule, uint64_t>> omitted() const;
  size_t size() const { return list_.size(); }
  Diagnostic& operator[](size_t number) { return list_[number]; }

 private:
  // The first use allocates the counters.
  size_t counter(Rule rule);

  std::string file_;
  uint64_t per_rule_;
  Diagnostics list_;
  size_t measured_ = 0;  // how many of them text_bytes_ covers
  uint64_t text_bytes_ = 0;
  bool has_error_ = false;
  std::vector<uint64_t> kept_;
  std::vector<uint64_t> omitted_;
};

// At most `limit` bytes of `text`, cut between characters, with "…" when something was cut.
std::string cut_text(std::string_view text, size_t limit = 120);
// A shape as a value: the dimensions, or text when there are too many to show.
DiagnosticValue shape_value(const Shape& shape);
// Two lower-case hexadecimal digits.
std::string hex_byte(unsigned char byte);

}  // namespace tftf
