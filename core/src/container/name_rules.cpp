#include "container/name_rules.h"

#include "tftf/base/affix.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/base/utf8.h"

namespace tftf {
namespace {

constexpr size_t kLongName = 4095;
constexpr size_t kMaxPointerName = 65'536;

// What a byte can contribute to, so that plain names cost one table look-up a byte.
enum : uint8_t { kControl = 1, kNul = 2, kMarkup = 4, kPath = 8, kWide = 16 };

struct ByteClasses {
  uint8_t of[256] = {};
  constexpr ByteClasses() {
    for (int c = 0; c < 0x20; ++c) of[c] = kControl;
    of[0] = kNul;
    of[0x7F] = kControl;
    for (char c : {'<', '>', '&', '"', '\'', '`'}) of[static_cast<unsigned char>(c)] = kMarkup;
    for (char c : {'/', '\\', ':'}) of[static_cast<unsigned char>(c)] = kPath;
    of[static_cast<unsigned char>('.')] = kPath;
    for (int c = 0x80; c < 0x100; ++c) of[c] = kWide;
  }
};
constexpr ByteClasses kClasses;

std::string code_text(uint32_t code) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string text;
  for (int shift = 28; shift >= 0; shift -= 4)
    if (shift < 16 || code >> shift != 0) text += kDigits[code >> shift & 15];
  return text;
}

bool is_path_like(std::string_view name) {
  if (name.empty()) return false;
  if (name.front() == '/' || name.find('\\') != std::string_view::npos) return true;
  const char drive = name.front();
  const bool letter = (drive >= 'A' && drive <= 'Z') || (drive >= 'a' && drive <= 'z');
  if (letter && name.size() >= 3 && name[1] == ':' && name[2] == '/') return true;
  for (size_t at = name.find(".."); at != std::string_view::npos; at = name.find("..", at + 1)) {
    const bool begins = at == 0 || name[at - 1] == '/';
    const bool ends = at + 2 == name.size() || name[at + 2] == '/';
    if (begins && ends) return true;
  }
  return false;
}

// The first control character (a C0 one but NUL, DEL, or a C1 one) and the first invisible one.
struct Marked {
  std::optional<uint32_t> control;
  std::optional<uint32_t> invisible;
};
Marked find_marked(std::string_view name) {
  Marked marked;
  for (uint64_t at = 0; at < name.size();) {
    const CodePoint point = code_point_at(name, at);
    const uint32_t code = point.value;
    if (!marked.control && code != 0 && (code < 0x20 || (code >= 0x7F && code <= 0x9F)))
      marked.control = code;
    if (!marked.invisible && is_invisible(code)) marked.invisible = code;
    at += point.length;
  }
  return marked;
}

}  // namespace

std::string entry_pointer(std::string_view name, std::string_view field) {
  if (name.size() > kMaxPointerName) return {};
  const std::string_view keys[] = {name, field};
  return json_pointer({keys, field.empty() ? size_t{1} : size_t{2}});
}

void check_name(std::string_view name, uint64_t offset, FindingList& findings) {
  auto add = [&](Rule rule) {
    Diagnostic* finding = findings.add(rule);
    if (finding) {
      finding->subject = name;
      finding->pointer = entry_pointer(name);
      finding->offset = offset;
    }
    return finding;
  };
  uint8_t seen = 0;
  for (char c : name) seen |= kClasses.of[static_cast<unsigned char>(c)];
  if (name.empty()) add(Rule::ST060);
  if (seen & kNul)
    if (Diagnostic* finding = add(Rule::ST061))
      finding->values = {{"prefix", std::string(name.substr(0, name.find('\0')))}};
  if (seen & (kControl | kWide)) {
    const Marked marked = find_marked(name);
    if (marked.control)
      if (Diagnostic* finding = add(Rule::ST062)) finding->values = {{"code", code_text(*marked.control)}};
    if (marked.invisible)
      if (Diagnostic* finding = add(Rule::ST065)) finding->values = {{"code", code_text(*marked.invisible)}};
  }
  if ((seen & kMarkup) || starts_with_ignoring_case(name, "javascript:") ||
      starts_with_ignoring_case(name, "data:"))
    add(Rule::ST063);
  if ((seen & kPath) && is_path_like(name)) add(Rule::ST064);
  if (name.size() > kLongName) {
    Diagnostic* finding = findings.add(Rule::ST068);
    if (finding) {
      auto first_characters = [name](size_t count) {
        uint64_t at = 0;
        for (; count > 0 && at < name.size(); --count) at += code_point_at(name, at).length;
        return std::string(name.substr(0, to_size(at)));
      };
      finding->subject = first_characters(32);
      finding->pointer = entry_pointer(name);
      finding->offset = offset;
      finding->values = {{"length", uint64_t{name.size()}}, {"prefix", first_characters(16)}};
    }
  }
}

}  // namespace tftf
