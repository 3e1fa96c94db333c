#include "tftf/checkpoint/value_scans.h"

#include <algorithm>

namespace tftf {
namespace {

// Requests of one round: each is a piece in memory.
constexpr size_t kMostAtOnce = 16;

uint64_t key_of(TensorRef tensor) { return uint64_t{tensor.shard} << 32 | tensor.tensor; }

}  // namespace

std::optional<bool> ValueScans::seen_whole(TensorRef tensor, std::string_view question, Look look) {
  const auto [at, fresh] = scans_.try_emplace(Key(key_of(tensor), question));
  Scan& scan = at->second;
  if (fresh) {
    scan.tensor = tensor;
    scan.look = std::move(look);
    if (checkpoint_->info(tensor).bytes() == 0) scan.whole = true;
  }
  return scan.whole;
}

std::optional<std::string> ValueScans::digest(TensorRef tensor) {
  const auto [at, fresh] = scans_.try_emplace(Key(key_of(tensor), "digest"));
  Scan& scan = at->second;
  if (fresh) {
    scan.tensor = tensor;
    scan.hash.emplace();
    // A map's entries stay where they are.
    scan.look = [&scan](uint64_t, Bytes bytes) {
      scan.hash->update(bytes);
      return true;
    };
    if (checkpoint_->info(tensor).bytes() == 0) scan.whole = true;
  }
  if (!scan.whole) return std::nullopt;
  if (*scan.whole && scan.digest.empty()) scan.digest = scan.hash->hex_digest();
  return scan.digest;
}

std::optional<bool> ValueScans::all_zero(TensorRef tensor) {
  const DType dtype = checkpoint_->info(tensor).dtype;
  const uint64_t size = std::max<uint64_t>(1, dtype_bits(dtype) / 8);
  const bool sign = is_floating(dtype);
  return seen_whole(tensor, "zero", [size, sign](uint64_t begin, Bytes bytes) {
    for (size_t i = 0; i < bytes.size(); ++i) {
      const bool last = (begin + i) % size == size - 1;
      const auto byte = static_cast<uint8_t>(bytes[i]);
      if ((sign && last ? byte & 0x7F : byte) != 0) return false;
    }
    return true;
  });
}

ReadRequest ValueScans::request_of(const Scan& scan) const {
  const Shard& shard = checkpoint_->shard(scan.tensor.shard);
  const TensorInfo& info = checkpoint_->info(scan.tensor);
  return {shard.name,
          {shard.header.data_offset() + info.begin + scan.next, std::min(kPiece, info.bytes() - scan.next)}};
}

std::vector<ReadRequest> ValueScans::want() {
  std::vector<ReadRequest> requests;
  for (auto& [key, scan] : scans_) {
    if (scan.whole || scan.asked || requests.size() == kMostAtOnce) continue;
    scan.asked = true;
    requests.push_back(request_of(scan));
  }
  return requests;
}

ValueScans::Scan* ValueScans::asked_for(const ReadRequest& request) {
  for (auto& [key, scan] : scans_) {
    if (!scan.asked) continue;
    const ReadRequest own = request_of(scan);
    if (own.file == request.file && own.range.offset == request.range.offset &&
        own.range.length == request.range.length)
      return &scan;
  }
  return nullptr;
}

bool ValueScans::supply(const ReadRequest& request, Bytes bytes) {
  bool any = false;
  // Two questions about one tensor want the same bytes.
  while (Scan* scan = asked_for(request)) {
    any = true;
    scan->asked = false;
    const uint64_t whole = checkpoint_->info(scan->tensor).bytes();
    if (bytes.size() < request.range.length || !scan->look(scan->next, bytes)) {
      scan->whole = false;
      continue;
    }
    scan->next += bytes.size();
    if (scan->next >= whole) scan->whole = true;
  }
  return any;
}

bool ValueScans::fail(const ReadRequest& request) {
  bool any = false;
  while (Scan* scan = asked_for(request)) {
    any = true;
    scan->asked = false;
    scan->whole = false;
  }
  return any;
}

}  // namespace tftf
