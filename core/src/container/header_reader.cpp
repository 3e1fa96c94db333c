#include <algorithm>
#include <array>

#include "container/finding_list.h"
#include "container/foreign_content.h"
#include "container/header_text.h"
#include "container/polyglot.h"
#include "tftf/base/checked.h"

namespace tftf {
namespace {

// Enough for every test of foreign content, a git-lfs pointer, and the whole header of most adapters.
constexpr uint64_t kHeadBytes = 16'384;
constexpr uint64_t kSniffedBytes = 1024;  // what tests of the beginning look at
constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kHubCap = 25'000'000;
constexpr uint64_t kLargeHeader = 5'242'872;
constexpr uint64_t kTrailingBytes = 64;

}  // namespace

struct HeaderReader::State {
  enum class Stage { kHead, kText, kTail, kTrailing, kDone };

  State(std::string file, uint64_t size_in, HeaderOptions options_in)
      : options(options_in), size(size_in), findings(std::move(file), options_in.max_findings) {}

  void ask(Stage next, ByteRange range) {
    stage = next;
    want = range;
  }
  void read_head();
  void read_text(std::string_view text);
  void read_tail(std::string_view tail);
  void read_trailing(std::string_view bytes);

  Stage stage = Stage::kDone;
  ByteRange want;
  HeaderOptions options;
  uint64_t size;
  std::string head;
  HeaderScan scan;
  FindingList findings;
  size_t trailing = 0;  // number of the finding that waits for the first trailing bytes
};

// Steps 1 and 2.
void HeaderReader::State::read_head() {
  if (add_lfs_pointer(head, size, findings)) return;
  if (size < kLengthBytes) {
    if (Diagnostic* finding = findings.add(Rule::ST002)) finding->values = {{"size", size}};
    return;
  }
  const auto length = load_le<uint64_t>(as_bytes(head).data());
  const uint64_t available = size - kLengthBytes;
  if (length > std::min(options.max_header, kLargestHeader)) {
    if (add_foreign_content(head, size, length, FailedCheck::kLength, findings)) return;
    if (Diagnostic* finding = findings.add(Rule::ST010)) {
      finding->offset = 0;
      finding->values = {{"n", length}, {"limit", std::min(options.max_header, kLargestHeader)}};
    }
    return;
  }
  if (length > available) {
    if (add_foreign_content(head, size, length, FailedCheck::kLength, findings)) return;
    if (Diagnostic* finding = findings.add(Rule::ST011)) {
      finding->offset = 0;
      finding->values = {{"n", length}, {"available", available}};
    }
    return;
  }
  if (length == 0) {
    if (Diagnostic* finding = findings.add(Rule::ST012)) finding->offset = 0;
    return;
  }
  if (length > kLargeHeader)
    if (Diagnostic* finding = findings.add(length > kHubCap ? Rule::ST013 : Rule::ST014)) {
      finding->offset = 0;
      finding->values = {{"n", length}};
    }
  if (head.size() - kLengthBytes >= length)
    return read_text(std::string_view(head).substr(kLengthBytes, to_size(length)));
  // A host may begin thousands of files before it goes on with the first.
  head.resize(to_size(std::min<uint64_t>(head.size(), kSniffedBytes)));
  head.shrink_to_fit();
  ask(Stage::kText, {kLengthBytes, length});
}

void HeaderReader::State::read_text(std::string_view text) {
  const TextScan result = scan_header_text(text, head, size, scan.header, findings);
  scan.readable = result.readable;
  if (result.sound) {
    check_polyglot_head(head, findings);
    if (!options.tail) return;
    if (head.size() == size)
      check_polyglot_tail(std::string_view(head).substr(to_size(polyglot_tail(size).offset)), size, findings);
    else
      ask(Stage::kTail, polyglot_tail(size));
  } else if (result.trailing && options.tail) {
    trailing = *result.trailing;
    const uint64_t offset = *findings[trailing].offset;
    ask(Stage::kTrailing, {offset, std::min(size - offset, kTrailingBytes)});
  }
}

void HeaderReader::State::read_tail(std::string_view tail) { check_polyglot_tail(tail, size, findings); }

void HeaderReader::State::read_trailing(std::string_view bytes) {
  for (auto& [key, value] : findings[trailing].values)
    if (key == "sniff") value = trailing_sniff(bytes);
}

HeaderReader::HeaderReader(std::string file, uint64_t file_size, HeaderOptions options)
    : state_(std::make_unique<State>(std::move(file), file_size, options)) {
  if (file_size == 0)
    state_->findings.add(Rule::ST001);
  else
    state_->ask(State::Stage::kHead, {0, std::min(file_size, kHeadBytes)});
}

HeaderReader::~HeaderReader() = default;
HeaderReader::HeaderReader(HeaderReader&&) noexcept = default;
HeaderReader& HeaderReader::operator=(HeaderReader&&) noexcept = default;

std::optional<ByteRange> HeaderReader::want() const {
  if (state_->stage == State::Stage::kDone) return std::nullopt;
  return state_->want;
}

void HeaderReader::supply(Bytes bytes) {
  using Stage = State::Stage;
  if (state_->stage == Stage::kDone) return;
  if (bytes.size() != state_->want.length) {
    fail("it is shorter than it was when it was listed");
    return;
  }
  const std::string_view text = as_text(bytes);
  switch (std::exchange(state_->stage, Stage::kDone)) {
    case Stage::kHead:
      state_->head = text;
      state_->read_head();
      break;
    case Stage::kText:
      state_->read_text(text);
      break;
    case Stage::kTail:
      state_->read_tail(text);
      break;
    case Stage::kTrailing:
      state_->read_trailing(text);
      break;
    case Stage::kDone:
      break;
  }
}

void HeaderReader::fail(std::string reason) {
  state_->stage = State::Stage::kDone;
  state_->scan.readable = false;
  state_->scan.header = {};
  if (state_->size == 0) state_->findings.take();  // the size of what cannot be read says nothing: no ST001
  if (Diagnostic* finding = state_->findings.add(Rule::ST009))
    finding->values = {{"reason", std::move(reason)}};
}

HeaderScan HeaderReader::take() {
  HeaderScan& scan = state_->scan;
  scan.file_size = state_->size;
  scan.sound = scan.readable && !state_->findings.has_error();
  scan.omitted = state_->findings.omitted();
  scan.findings = state_->findings.take();
  return std::move(scan);
}

std::string mixed_dtypes(const std::vector<const Header*>& headers) {
  std::array<uint64_t, 32> counts{};
  for (const Header* header : headers)
    for (const TensorInfo& tensor : header->tensors) ++counts[static_cast<size_t>(tensor.dtype)];
  std::vector<std::string> parts;
  for (const DTypeInfo& info : all_dtypes()) {
    const uint64_t count = counts[static_cast<size_t>(info.dtype)];
    if (count != 0 && is_floating(info.dtype))
      parts.push_back(std::string(info.name) + ":" + std::to_string(count));
  }
  if (parts.size() < 2) return {};
  std::sort(parts.begin(), parts.end());
  std::string list;
  for (const std::string& part : parts) list += (list.empty() ? "" : ",") + part;
  return list;
}

}  // namespace tftf
