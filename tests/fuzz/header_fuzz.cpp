// The header reader: any file. What it calls sound is checked again by other means, and reads back when written.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "input.h"
#include "tftf/base/bytes.h"
#include "tftf/container/header.h"

namespace {

using tftf::fuzz::require;

using namespace tftf;

HeaderScan scan(std::string_view file, HeaderOptions options) {
  HeaderReader reader("fuzz", file.size(), options);
  while (const auto range = reader.want()) {
    require(range->length > 0 && range->offset <= file.size() &&
            range->length <= file.size() - range->offset);
    const std::string piece(file.substr(range->offset, range->length));
    reader.supply(as_bytes(piece));
  }
  return reader.take();
}

// A sound table tiles the data section.
void check_tiling(const HeaderScan& result) {
  std::vector<std::pair<uint64_t, uint64_t>> spans;
  for (const TensorInfo& tensor : result.header.tensors) {
    const auto elements = element_count(tensor.shape);
    require(elements && byte_count(*elements, tensor.dtype) == tensor.bytes());
    spans.emplace_back(tensor.begin, tensor.end);
  }
  std::sort(spans.begin(), spans.end());
  uint64_t cursor = 0;
  for (const auto& [begin, end] : spans) {
    require(begin == cursor);
    cursor = end;
  }
  require(result.header.data_offset() + cursor == result.file_size);
}

void check_rewrite(const HeaderScan& result) {
  std::vector<OutputEntry> entries;
  for (const TensorInfo& tensor : result.header.tensors)
    entries.push_back({tensor.name, tensor.dtype, tensor.shape});
  for (const HeaderForm form : {HeaderForm::kTftf, HeaderForm::kReference}) {
    std::vector<uint64_t> begins;
    const auto header = write_header(entries, result.header.metadata, form, &begins);
    if (!header) continue;  // an empty name
    HeaderOptions options;
    options.tail = false;
    HeaderReader reader("again", header->size() + begins.back(), options);
    while (const auto range = reader.want()) {
      std::string piece(range->length, '\0');
      if (range->offset < header->size()) header->copy(piece.data(), range->length, range->offset);
      reader.supply(as_bytes(piece));
    }
    const HeaderScan again = reader.take();
    require(again.sound && again.header.metadata == result.header.metadata);
    require(again.header.tensors.size() == entries.size());
    for (size_t i = 0; i < entries.size(); ++i) {
      require(again.header.tensors[i].name == entries[i].name);
      require(again.header.tensors[i].shape == entries[i].shape);
      require(again.header.tensors[i].dtype == entries[i].dtype);
    }
  }
}

void check(std::string_view file) {
  const HeaderScan result = scan(file, {});
  bool error = false;
  for (const Diagnostic& finding : result.findings) {
    require(!message(finding).empty());
    error = error || rule_info(finding.rule).severity == Severity::kError;
  }
  require(result.sound == (result.readable && !error));
  require(result.readable || error);
  if (result.sound) {
    check_tiling(result);
    check_rewrite(result);
  }
  HeaderOptions few;
  few.max_findings = 1;
  few.tail = false;
  require(scan(file, few).sound == result.sound);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  check(file);
  // The same bytes as a header text: a random length rarely fits.
  std::string framed(8, '\0');
  store_le(reinterpret_cast<std::byte*>(framed.data()), uint64_t{size});
  framed += file;
  check(framed);
  framed.append(16, '\0');
  check(framed);
  return 0;
}
