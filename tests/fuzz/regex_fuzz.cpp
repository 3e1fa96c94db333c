// Patterns, templates and texts. What compiles also runs or says why not, in bounded time; what it finds lies inside the
// text, and the ways of asking agree. Format: pattern, template and text, apart by NUL.
#include "input.h"
#include "tftf/base/regex.h"
#include "tftf/base/utf8.h"

using namespace tftf;
using tftf::fuzz::require;

namespace {

std::string_view next(std::string_view& rest) {
  const size_t end = rest.find('\0');
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return part;
}

void check_groups(const RegexMatch& match, std::string_view text, uint32_t groups) {
  require(match.groups.size() == groups + size_t{1} && match.groups[0].has_value());
  for (const auto& group : match.groups)
    if (group) require(group->first <= group->second && group->second <= text.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 2048) return 0;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const std::string_view pattern = next(rest), replacement = next(rest), text = rest;
  auto regex = Regex::compile(pattern);
  if (!regex.ok()) {
    require(!regex.error().message.empty());
    return 0;
  }
  require(regex->pattern() == pattern);
  const auto found = regex->search(text);
  const auto at_start = regex->match(text);
  const auto whole = regex->fullmatch(text);
  if (found.ok() && *found) check_groups(**found, text, regex->group_count());
  if (at_start.ok() && *at_start && found.ok()) require((*found)->groups[0]->first == 0);
  if (whole.ok() && *whole && at_start.ok()) require(*at_start);
  const auto parsed = regex->parse_template(replacement);
  if (!parsed.ok()) {
    require(!parsed.error().message.empty());
    return 0;
  }
  for (const RegexTemplate::Piece& piece : parsed->pieces)
    if (piece.group) require(*piece.group <= regex->group_count());
  const auto result = regex->substitute(text, *parsed);
  if (!result.ok()) return 0;
  if (found.ok() && !*found) require(*result == text);
  if (replacement == "\\g<0>") require(*result == text);
  return 0;
}
