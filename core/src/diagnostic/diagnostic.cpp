#include "tftf/diagnostic/diagnostic.h"

#include <algorithm>
#include <array>

#include "tftf/base/escape.h"
#include "tftf/base/json_text.h"

namespace tftf {
namespace {

constexpr RuleInfo kRules[] = {
#define TFTF_RULE(id, name, severity, checks, message, peers, example) \
  {Rule::id, #id, #name, Severity::severity, checks, message, peers, example},
#include "tftf/diagnostic/rules.def"
#undef TFTF_RULE
};

constexpr std::string_view kSeverities[] = {"error", "warning", "info", "hint"};

// Values that are exact text from a file and so are shown in quotes.
constexpr std::string_view kQuotedKeys[] = {"tensor",  "other",     "key",    "shard",  "module", "field",
                                            "entry",   "component", "target", "prefix", "token",  "actual",
                                            "variant", "head",      "single", "index",  "example"};

// Literals and details are shown up to here: a hostile number may have a million digits.
constexpr uint64_t kMaxShownText = 500;

std::string value_text(std::string_view key, const DiagnosticValue& value) {
  struct Visitor {
    bool quoted;
    std::string operator()(std::monostate) const { return "missing"; }
    std::string operator()(const std::string& text) const {
      return quoted ? quote_name(text) : escape_text_cut(text, kMaxShownText);
    }
    std::string operator()(uint64_t number) const { return std::to_string(number); }
    std::string operator()(int64_t number) const { return std::to_string(number); }
    std::string operator()(double number) const { return json_float(number).dump(); }
    std::string operator()(const std::vector<std::string>& list) const {
      std::string out;
      for (const std::string& item : list) out += (out.empty() ? "" : ", ") + (*this)(item);
      return out;
    }
    std::string operator()(const std::vector<uint64_t>& list) const {
      std::string out;
      for (uint64_t item : list) out += (out.empty() ? "" : ", ") + std::to_string(item);
      return "[" + out + "]";
    }
  };
  const bool quoted = std::find(std::begin(kQuotedKeys), std::end(kQuotedKeys), key) != std::end(kQuotedKeys);
  return std::visit(Visitor{quoted}, value);
}

}  // namespace

std::string_view severity_name(Severity severity) { return kSeverities[static_cast<size_t>(severity)]; }

std::optional<Severity> find_severity(std::string_view name) {
  for (size_t i = 0; i < std::size(kSeverities); ++i)
    if (kSeverities[i] == name) return static_cast<Severity>(i);
  return std::nullopt;
}

std::span<const RuleInfo> all_rules() { return kRules; }

const RuleInfo& rule_info(Rule rule) { return kRules[static_cast<size_t>(rule)]; }

std::optional<Rule> find_rule(std::string_view id) {
  for (const RuleInfo& info : kRules)
    if (info.id == id) return info.rule;
  return std::nullopt;
}

std::string message(const Diagnostic& diagnostic) {
  const std::string_view text = rule_info(diagnostic.rule).message;
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if ((c == '{' || c == '}') && text.substr(at + 1, 1) == text.substr(at, 1)) {
      out += c;
      ++at;
      continue;
    }
    if (c != '{') {
      out += c;
      continue;
    }
    const size_t close = text.find('}', at);
    const std::string_view key = text.substr(at + 1, close - at - 1);
    const auto value = std::find_if(diagnostic.values.begin(), diagnostic.values.end(),
                                    [&](const auto& entry) { return entry.first == key; });
    if (value != diagnostic.values.end())
      out += value_text(key, value->second);
    else if (key == "file" || key == "folder")
      out += escape_text(diagnostic.file);
    else if (diagnostic.subject && key == "tensor")
      out += quote_name(*diagnostic.subject);
    else
      out += "missing";
    at = close;
  }
  return out;
}

std::string json_pointer(std::span<const std::string_view> keys) {
  std::string out;
  for (std::string_view key : keys) {
    out += '/';
    for (char c : key) {
      if (c == '~')
        out += "~0";
      else if (c == '/')
        out += "~1";
      else
        out += c;
    }
  }
  return out;
}

}  // namespace tftf
