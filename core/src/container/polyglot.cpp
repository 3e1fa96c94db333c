#include "container/polyglot.h"

#include <algorithm>

#include "container/foreign_content.h"
#include "tftf/base/bytes.h"

namespace tftf {
namespace {

constexpr uint64_t kZipRecord = 22;
constexpr uint64_t kZipComment = 65'535;
constexpr size_t kPdfHead = 1024;
constexpr size_t kTarMagic = 257;

void add_polyglot(FindingList& findings, std::string_view format, uint64_t offset) {
  if (Diagnostic* finding = findings.add(Rule::ST070)) {
    finding->offset = offset;
    finding->values = {{"format", std::string(format)}, {"offset", offset}};
  }
}

}  // namespace

ByteRange polyglot_tail(uint64_t file_size) {
  const uint64_t length = std::min(file_size, kZipRecord + kZipComment);
  return {file_size - length, length};
}

void check_polyglot_head(std::string_view head, FindingList& findings) {
  if (head.size() > kTarMagic && head.substr(kTarMagic, 5) == "ustar")
    add_polyglot(findings, "tar", kTarMagic);
  const size_t pdf = head.substr(0, kPdfHead).find("%PDF-");
  if (pdf != std::string_view::npos) add_polyglot(findings, "PDF", pdf);
}

void check_polyglot_tail(std::string_view tail, uint64_t file_size, FindingList& findings) {
  if (tail.size() < kZipRecord) return;
  for (size_t at = tail.size() - kZipRecord + 1; at-- > 0;) {
    if (tail.substr(at, 4) != "PK\x05\x06") continue;
    const auto comment = load_le<uint16_t>(as_bytes(tail).data() + at + 20);
    if (at + kZipRecord + comment != tail.size()) continue;
    add_polyglot(findings, "ZIP", file_size - tail.size() + at);
    return;
  }
}

std::string trailing_sniff(std::string_view bytes) {
  const std::string format = foreign_format(bytes);
  return format.empty() ? std::string() : " (they begin like a " + format + ")";
}

}  // namespace tftf
