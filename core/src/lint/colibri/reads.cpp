#include "lint/colibri/reads.h"

#include <algorithm>

#include "quant/colibri/rans_frame.h"
#include "tftf/base/affix.h"
#include "tftf/base/checked.h"
#include "tftf/quant/colibri/rans_check.h"
#include "tftf/quant/colibri/stamps.h"

namespace tftf {
namespace {

constexpr uint64_t kNear = 4096;  // a gap that is cheaper to read than a request

bool is_tag(const TensorInfo& tensor) {
  return tensor.dtype == DType::F32 && tensor.bytes() == 4 && ends_with(tensor.name, ".qs");
}

}  // namespace

void ColibriReads::choose(const HeaderScan& scan) {
  if (!scan.sound) return;
  const Header& header = scan.header;
  colibri::StampMap stamps(UINT64_MAX);
  if (stamps.ingest("", header)) stamps = colibri::StampMap(UINT64_MAX);
  for (uint32_t i = 0; i < header.tensors.size(); ++i) {
    const TensorInfo& tensor = header.tensors[i];
    const bool record = tensor.dtype == DType::U8 && tensor.bytes() >= colibri::kRansRecordHeader &&
                        stamps.find(tensor.name) == colibri::kRansStamp;
    if (record || is_tag(tensor)) wanted_.push_back({header.data_offset() + tensor.begin, i});
  }
  std::sort(wanted_.begin(), wanted_.end());
  for (const auto& [offset, tensor] : wanted_) {
    const uint64_t end = offset + (is_tag(header.tensors[tensor]) ? 4 : colibri::kRansRecordHeader);
    if (!ranges_.empty()) {
      ByteRange& last = ranges_.back();
      if (offset <= last.offset + last.length + kNear && end - last.offset <= kMaxRange) {
        last.length = std::max(last.length, end - last.offset);
        continue;
      }
    }
    ranges_.push_back({offset, end - offset});
  }
}

void ColibriReads::supply(const HeaderScan& scan, ByteRange range, Bytes bytes) {
  if (bytes.size() != range.length) return;
  auto at = std::lower_bound(wanted_.begin(), wanted_.end(), std::pair(range.offset, uint32_t{0}));
  for (; at != wanted_.end() && at->first < range.offset + range.length; ++at) {
    const TensorInfo& tensor = scan.header.tensors[at->second];
    const uint64_t length = is_tag(tensor) ? 4 : colibri::kRansRecordHeader;
    if (at->first + length > range.offset + range.length) continue;
    const Bytes here = bytes.subspan(to_size(at->first - range.offset), to_size(length));
    if (is_tag(tensor)) {
      tags_[at->second] = load_le<float>(here.data());
      continue;
    }
    colibri::RansFrame frame;
    Record record;
    record.failure = colibri::read_rans_frame(here, tensor.bytes(), frame);
    record.packed_bytes = frame.bytes;
    if (!record.failure)
      for (uint32_t i = 0; i < colibri::kRansStreams; ++i)
        record.longest_stream = std::max(record.longest_stream, static_cast<uint32_t>(frame.stream_bytes(i)));
    if (!record.failure && frame.pad_nonzero)
      record.failure = colibri::RansFailure{colibri::RansFault::kPadNonzero, "padding bytes are not zero"};
    records_[at->second] = std::move(record);
  }
}

std::optional<float> ColibriReads::tag(uint32_t tensor) const {
  const auto entry = tags_.find(tensor);
  if (entry == tags_.end()) return std::nullopt;
  return entry->second;
}

const ColibriReads::Record* ColibriReads::record(uint32_t tensor) const {
  const auto entry = records_.find(tensor);
  return entry == records_.end() ? nullptr : &entry->second;
}

}  // namespace tftf
