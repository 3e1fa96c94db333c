#include "tftf/checkpoint/small_values.h"

#include <algorithm>

namespace tftf {

std::optional<Bytes> SmallValues::get(TensorRef tensor, uint64_t length) {
  const auto [found, fresh] = values_.emplace(key(tensor), Value());
  Value& value = found->second;
  if (!fresh) {
    if (value.state == State::kKnown) return as_bytes(value.bytes);
    return std::nullopt;
  }
  const Shard& shard = checkpoint_->shard(tensor.shard);
  const TensorInfo& info = shard.header.tensors[tensor.tensor];
  value.length = std::min(length, info.bytes());
  const uint64_t data = shard.header.data_offset();
  const bool inside = info.end <= shard.size && data <= shard.size && info.end <= shard.size - data;
  if (!inside || value.length > kMaxTensor || value.length > left_) {
    value.state = State::kRefused;
  } else if (value.length == 0) {
    value.state = State::kKnown;
    return as_bytes(value.bytes);
  } else {
    left_ -= value.length;
    noted_.push_back(tensor);
  }
  return std::nullopt;
}

bool SmallValues::pending(TensorRef tensor) const {
  const auto found = values_.find(key(tensor));
  return found != values_.end() &&
         (found->second.state == State::kNoted || found->second.state == State::kAsked);
}

std::vector<ReadRequest> SmallValues::want() {
  std::vector<ReadRequest> out = want_counts();
  for (TensorRef tensor : noted_) {
    const Shard& shard = checkpoint_->shard(tensor.shard);
    Value& value = values_.at(key(tensor));
    value.state = State::kAsked;
    const ByteRange range = {shard.header.data_offset() + shard.header.tensors[tensor.tensor].begin,
                             value.length};
    std::vector<TensorRef>& asked = asked_[{shard.name, range.offset}];
    asked.push_back(tensor);
    out.push_back({shard.name, range});
  }
  noted_.clear();
  return out;
}

void SmallValues::supply(const ReadRequest& request, Bytes bytes) {
  if (count(request, bytes)) return;
  const auto asked = asked_.find({request.file, request.range.offset});
  if (asked == asked_.end()) return;
  for (TensorRef tensor : asked->second) {
    Value& value = values_.at(key(tensor));
    if (value.state != State::kAsked || value.length != bytes.size()) continue;
    value.bytes = as_text(bytes);
    value.state = State::kKnown;
  }
}

void SmallValues::fail(const ReadRequest& request) {
  if (count(request, {})) return;
  const auto asked = asked_.find({request.file, request.range.offset});
  if (asked == asked_.end()) return;
  for (TensorRef tensor : asked->second) {
    Value& value = values_.at(key(tensor));
    if (value.state == State::kAsked && value.length == request.range.length) value.state = State::kRefused;
  }
}

}  // namespace tftf
