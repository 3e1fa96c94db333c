#include "lint/side_text.h"

#include <algorithm>
#include <vector>

#include "lint/file_names.h"
#include "tftf/base/checked.h"
#include "tftf/base/utf8.h"

namespace tftf {
namespace {

// What stands there instead of JSON, empty when it cannot be told.
std::string_view foreign_text(std::string_view text) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) return "the file is empty";
  if (starts_with(text, "version https://git-lfs.github.com/spec/"))
    return "it is a Git LFS pointer, not the file itself";
  const size_t start = text.find_first_not_of(" \t\r\n");
  const std::string head = fold_case(text.substr(start, 64));
  for (std::string_view mark : {"<!doctype", "<html", "<head", "<body", "<?xml"})
    if (starts_with(head, mark)) return "it is an HTML or XML page";
  return {};
}

SideFault fault_of(std::string_view text, const JsonError& error) {
  if (const std::string_view foreign = foreign_text(text); !foreign.empty()) return {std::string(foreign), 0};
  for (std::string_view mark : {"<<<<<<<", "=======", ">>>>>>>", "|||||||"})
    if (error.offset < text.size() && starts_with(text.substr(to_size(error.offset)), mark))
      return {"a line left by a git merge conflict stands at offset " + std::to_string(error.offset),
              error.offset};
  switch (error.kind) {
    case JsonError::Kind::kDepth:
      return {"it is nested deeper than 127 levels", error.offset};
    case JsonError::Kind::kLoneSurrogate:
      return {"it holds an unpaired surrogate escape", error.offset};
    case JsonError::Kind::kSyntax:
      break;
  }
  return {error.detail + " (offset " + std::to_string(error.offset) + ")", error.offset};
}

}  // namespace

std::optional<SideFault> read_side_json(std::string_view text, JsonHandler& handler) {
  auto fail = [&](uint64_t at, std::string detail) {
    return fault_of(text, {JsonError::Kind::kSyntax, at, std::move(detail)});
  };
  if (starts_with(text, "\xEF\xBB\xBF")) return fail(0, "the text begins with a byte order mark");
  if (auto at = find_invalid_utf8(text)) return fail(*at, "a byte is not valid UTF-8");
  uint64_t end = 0;
  if (auto error = read_json(text, JsonDialect::kPython, handler, end)) return fault_of(text, *error);
  const size_t rest = text.find_first_not_of(" \t\r\n", to_size(end));
  if (rest != std::string_view::npos) return fail(rest, "something follows the JSON value");
  return std::nullopt;
}

std::optional<SideFault> object_fault(std::string_view text, const JsonDocument& document) {
  if (document.error) return fault_of(text, *document.error);
  if (document.root.is_object()) return std::nullopt;
  return SideFault{"the text is a JSON " + std::string(json_kind_name(document.root.kind)),
                   document.root.begin};
}

void set_positions(Diagnostics& findings, std::string_view file, std::string_view text) {
  std::vector<Diagnostic*> wanted;
  for (Diagnostic& finding : findings)
    if (finding.file == file && finding.offset && finding.line == 0 && *finding.offset <= text.size())
      wanted.push_back(&finding);
  std::sort(wanted.begin(), wanted.end(),
            [](const Diagnostic* a, const Diagnostic* b) { return *a->offset < *b->offset; });
  uint64_t at = 0;
  uint64_t line = 1;
  uint64_t column = 1;
  for (Diagnostic* finding : wanted) {
    for (; at < *finding->offset; ++at) {
      const auto byte = static_cast<unsigned char>(text[to_size(at)]);
      if (byte == '\n') {
        ++line;
        column = 1;
      } else if ((byte & 0xC0) != 0x80) {
        ++column;
      }
    }
    finding->line = line;
    finding->column = column;
  }
}

}  // namespace tftf
