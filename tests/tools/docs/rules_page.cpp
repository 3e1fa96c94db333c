#include <array>

#include "pages.h"
#include "tftf/diagnostic/diagnostic.h"

namespace tftf::docs {
namespace {

struct Family {
  std::string_view prefix;
  std::string_view title;
  std::string_view about;
};
constexpr Family kFamilies[] = {
    {"ST", "The file", "A single `.safetensors` file: what it really is, its header, its entries, its data."},
    {"IX", "Index and folder", "Shards, their index, and folders of diffusers pipelines."},
    {"CF", "config.json against the tensors", "Names and shapes that the configuration promises."},
    {"LO", "Adapters", "LoRA files and their adapter_config.json."},
    {"QT", "Quantised weights",
     "The declared method against what is stored, scales, and layouts whose parts do not fit."},
    {"CO", "colibri", "Containers whose format is inferred from byte counts."},
};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return out;
}

// As a report prints it: doubled braces single.
std::string shown_template(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    out += text[at];
    if ((text[at] == '{' || text[at] == '}') && at + 1 < text.size() && text[at + 1] == text[at]) ++at;
  }
  return out;
}

std::string rule_section(const RuleInfo& info) {
  std::string out = "<a id=\"" + lower(info.id) + "\"></a>\n\n### " + std::string(info.id) + " " +
                    std::string(info.name) + "\n\n";
  out += "**" + std::string(severity_name(info.severity)) + ".** " + std::string(info.checks) + "\n\n";
  out += "- Says: " + code(shown_template(info.message)) + "\n";
  if (info.peers != "-") out += "- Readers: " + std::string(info.peers) + "\n";
  if (!info.example.empty()) out += "- Example: " + std::string(info.example) + "\n";
  return out + "\n";
}

}  // namespace

std::string rules_page() {
  std::array<uint64_t, 4> counts{};
  for (const RuleInfo& info : all_rules()) ++counts[static_cast<size_t>(info.severity)];
  std::string out = page_head("Rules of tftf-lint");
  out += std::to_string(all_rules().size()) + " rules: " + std::to_string(counts[0]) + " errors, " +
         std::to_string(counts[1]) + " warnings, " + std::to_string(counts[2]) + " infos, " +
         std::to_string(counts[3]) +
         " hints. Ids never change their meaning and are never reused. `tftf-lint rules ID` prints the same, "
         "`tftf-lint rules --json` gives it as data.\n\n";
  out +=
      "| severity | number | meaning |\n|---|---|---|\n"
      "| error | 0 | A mainstream loader refuses the input or loads something other than what is stored or "
      "configured; or two "
      "conforming readers can see different tensors. |\n"
      "| warning | 1 | Loads in the reference reader, but breaks the written format, is unsafe, or very "
      "probably is a mistake. "
      "|\n"
      "| info | 2 | A fact a user wants to know; no fault. |\n"
      "| hint | 3 | Style, performance, portability. |\n\n"
      "*Readers*: \"ref\" is the reference implementation (the safetensors crate and its Python package); "
      "others are named.\n\n";
  for (const Family& family : kFamilies) {
    std::string table;
    std::string sections;
    for (const RuleInfo& info : all_rules()) {
      if (info.id.substr(0, 2) != family.prefix) continue;
      table += "| [" + std::string(info.id) + "](#" + lower(info.id) + ") | " + std::string(info.name) +
               " | " + std::string(severity_name(info.severity)) + " |\n";
      sections += rule_section(info);
    }
    if (table.empty()) continue;
    out += "## " + std::string(family.prefix) + ": " + std::string(family.title) + "\n\n" +
           std::string(family.about) + "\n\n| id | name | severity |\n|---|---|---|\n" + table + "\n" +
           sections;
  }
  out.pop_back();
  return out;
}

}  // namespace tftf::docs
