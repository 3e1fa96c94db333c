#include "container/foreign_content.h"

#include <algorithm>

#include "tftf/base/affix.h"
#include "tftf/base/json_reader.h"

namespace tftf {
namespace {

using namespace std::string_view_literals;

struct Magic {
  std::string_view bytes;
  std::string_view format;
};

constexpr std::string_view kZip = "PK\x03\x04"sv;
constexpr std::string_view kPe = "MZ"sv;
constexpr Magic kMagics[] = {
    {"GGUF"sv, "GGUF"},
    {"\x1F\x8B\x08"sv, "gzip"},
    {"\x89HDF\r\n\x1A\n"sv, "HDF5"},
    {"\x93NUMPY"sv, "NumPy"},
    {"\x7F"
     "ELF"sv,
     "ELF"},
    {"%PDF-"sv, "PDF"},
    {"7z\xBC\xAF\x27\x1C"sv, "7z"},
    {"Rar!"sv, "RAR"},
    {"\x28\xB5\x2F\xFD"sv, "Zstandard"},
    {"\xFD"
     "7zXZ\x00"sv,
     "XZ"},
    {"\x89PNG"sv, "PNG"},
};
constexpr std::string_view kPageStarts[] = {"<!doctype", "<html", "<?xml", "<head", "<body"};
constexpr size_t kSniffed = 64;
constexpr size_t kShown = 16;

bool is_ascii_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

bool is_text(std::string_view head) {
  head = head.substr(0, kSniffed);
  const bool printable = std::all_of(head.begin(), head.end(),
                                     [](char c) { return (c >= 0x20 && c < 0x7F) || is_ascii_space(c); });
  if (printable) return true;
  while (!head.empty() && is_ascii_space(head.front())) head.remove_prefix(1);
  if (starts_with(head, "{") || starts_with(head, "[")) return true;
  return std::any_of(std::begin(kPageStarts), std::end(kPageStarts),
                     [&](std::string_view mark) { return starts_with_ignoring_case(head, mark); });
}

std::string_view magic_format(std::string_view head) {
  for (const Magic& magic : kMagics)
    if (starts_with(head, magic.bytes)) return magic.format;
  return {};
}

// The rest of the pointer's line that begins with `key`, empty when there is none.
std::string_view pointer_line(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (starts_with(line, key)) {
      const std::string_view value = line.substr(key.size());
      return value.substr(0, value.find('\r'));
    }
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return {};
}

}  // namespace

bool add_foreign_content(std::string_view head, uint64_t size, uint64_t length, FailedCheck failed,
                         FindingList& findings) {
  const bool over_cap = length > kDefaultMaxHeader;
  if (failed == FailedCheck::kLength && starts_with(head, kZip)) {
    if (Diagnostic* finding = findings.add(Rule::ST005)) finding->values = {{"size", size}};
    return true;
  }
  if (over_cap && head.size() >= 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5) {
    if (Diagnostic* finding = findings.add(Rule::ST006))
      finding->values = {{"protocol", static_cast<uint64_t>(head[1])}};
    return true;
  }
  std::string_view format = magic_format(head);
  if (format.empty() && over_cap && starts_with(head, kPe)) format = "PE";
  if (!format.empty()) {
    if (Diagnostic* finding = findings.add(Rule::ST007)) finding->values = {{"format", std::string(format)}};
    return true;
  }
  if (is_text(head)) {
    if (Diagnostic* finding = findings.add(Rule::ST004))
      finding->values = {{"head", std::string(head.substr(0, kShown))}};
    return true;
  }
  return false;
}

bool add_lfs_pointer(std::string_view head, uint64_t size, FindingList& findings) {
  if (!starts_with(head, "version https://git-lfs.github.com/spec/")) return false;
  if (Diagnostic* finding = findings.add(Rule::ST003)) {
    const std::string_view oid = pointer_line(head, "oid sha256:");
    const auto object_size = json_unsigned(pointer_line(head, "size "));
    finding->values = {{"size", size}, {"lfs_size", {}}, {"oid", {}}};
    if (object_size) finding->values[1].second = *object_size;
    if (!oid.empty()) finding->values[2].second = cut_text(oid);
  }
  return true;
}

std::string foreign_format(std::string_view bytes) {
  if (starts_with(bytes, kZip)) return "ZIP archive";
  const std::string_view format = magic_format(bytes);
  return format.empty() ? std::string() : std::string(format) + " file";
}

}  // namespace tftf
