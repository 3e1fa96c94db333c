// The other half of SmallValues: a pass over tensors whose size in the result depends on their zeros.
#include <algorithm>

#include "tftf/base/checked.h"
#include "tftf/checkpoint/small_values.h"

namespace tftf {
namespace {

constexpr uint64_t kPiece = uint64_t{1} << 20;
constexpr size_t kPiecesAtOnce = 8;

bool is_nonzero_element(const std::byte* element, uint64_t size, bool floats) {
  std::byte any = element[to_size(size - 1)];
  if (floats) any &= std::byte{0x7F};
  for (uint64_t b = 0; b + 1 < size; ++b) any |= element[to_size(b)];
  return any != std::byte{0};
}

}  // namespace

std::shared_ptr<const std::vector<uint32_t>> SmallValues::nonzero(TensorRef tensor, uint64_t row_bytes,
                                                                  uint64_t size, bool floats) {
  const auto [at, fresh] = counts_.emplace(key(tensor), Count());
  Count& count = at->second;
  const TensorInfo& info = checkpoint_->info(tensor);
  if (fresh) {
    const Shard& shard = checkpoint_->shards[tensor.shard];
    const uint64_t data = shard.header.data_offset();
    count.row_bytes = row_bytes;
    count.size = size;
    count.floats = floats;
    count.rows = std::make_shared<std::vector<uint32_t>>(to_size(info.bytes() / row_bytes));
    count.failed = data > shard.size || info.end > shard.size - data || row_bytes > UINT32_MAX * size;
  }
  if (count.failed || count.answered < info.bytes()) return nullptr;
  return count.rows;
}

std::vector<ReadRequest> SmallValues::want_counts() {
  std::vector<ReadRequest> out;
  for (auto& [packed, count] : counts_) {
    const TensorRef tensor{static_cast<uint32_t>(packed >> 32), static_cast<uint32_t>(packed)};
    const Shard& shard = checkpoint_->shards[tensor.shard];
    const TensorInfo& info = shard.header.tensors[tensor.tensor];
    while (!count.failed && count.asked < info.bytes() && out.size() < kPiecesAtOnce) {
      const uint64_t length = std::min(kPiece - kPiece % count.size, info.bytes() - count.asked);
      const uint64_t offset = shard.header.data_offset() + info.begin + count.asked;
      pieces_[{shard.name, offset}] = {packed, count.asked};
      out.push_back({shard.name, {offset, length}});
      count.asked += length;
    }
  }
  return out;
}

// Whether the request was one of these; no bytes: it failed.
bool SmallValues::count(const ReadRequest& request, Bytes bytes) {
  const auto piece = pieces_.find({request.file, request.range.offset});
  if (piece == pieces_.end()) return false;
  Count& count = counts_.at(piece->second.first);
  const uint64_t begin = piece->second.second;
  pieces_.erase(piece);
  if (bytes.size() != request.range.length) {
    count.failed = true;
    return true;
  }
  for (uint64_t i = 0; i < bytes.size(); i += count.size)
    if (is_nonzero_element(bytes.data() + to_size(i), count.size, count.floats))
      ++(*count.rows)[to_size((begin + i) / count.row_bytes)];
  count.answered += bytes.size();
  return true;
}

}  // namespace tftf
