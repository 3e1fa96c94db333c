// Findings about a checkpoint as data. Words are made at the edge (message()), policy sits in lint/.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tftf {

enum class Severity : uint8_t { kError = 0, kWarning = 1, kInfo = 2, kHint = 3 };
// "error", "warning", "info", "hint".
std::string_view severity_name(Severity severity);
std::optional<Severity> find_severity(std::string_view name);

enum class Rule : uint16_t {
#define TFTF_RULE(id, name, severity, checks, message, peers, example) id,
#include "tftf/diagnostic/rules.def"
#undef TFTF_RULE
};

struct RuleInfo {
  Rule rule;
  std::string_view id;    // "ST041"
  std::string_view name;  // "TRAILING_BYTES"
  Severity severity;
  std::string_view checks;   // what is checked, Markdown
  std::string_view message;  // template: {name} is replaced by the value, {{ and }} are literal braces
  std::string_view peers;    // what known readers do
  std::string_view example;
};

// The catalogue in its order.
std::span<const RuleInfo> all_rules();
const RuleInfo& rule_info(Rule rule);
std::optional<Rule> find_rule(std::string_view id);

// A value of a finding. An absent thing is std::monostate: null in JSON, "missing" in messages.
using DiagnosticValue = std::variant<std::monostate, std::string, uint64_t, int64_t, double,
                                     std::vector<std::string>, std::vector<uint64_t>>;

struct Diagnostic {
  Rule rule{};
  std::string file;  // path relative to the linted PATH, '/' separators; "." or "SUB/" for folder rules
  std::optional<std::string> subject;  // tensor, key, shard, module …: exact text (spec lint-rules 2.4)
  std::string pointer;                 // JSON Pointer, empty when there is none
  std::optional<uint64_t> offset;      // byte offset in the file
  uint64_t line = 0;                   // of text files, from 1; 0 when there is none
  uint64_t column = 0;                 // code points from 1
  std::vector<std::pair<std::string, DiagnosticValue>> values;  // by template name
  std::optional<Severity> severity;  // where it is not the rule's: what the data have settled
};

using Diagnostics = std::vector<Diagnostic>;

// The English sentence: the rule's template with the values, names escaped and quoted (base/escape.h) where
// the value is a name (keys tensor, other, key, shard, module, field … that hold exact text from files);
// lists joined by ", ".
std::string message(const Diagnostic& diagnostic);

// JSON Pointer of a path of keys (RFC 6901: ~ and / escaped).
std::string json_pointer(std::span<const std::string_view> keys);

}  // namespace tftf
