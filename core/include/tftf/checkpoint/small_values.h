// The bytes of small tensors that a decision needs (JSON held in a tensor, an alpha, zero points): read
// before any plan exists, so bounded.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tftf/base/bytes.h"
#include "tftf/checkpoint/checkpoint.h"

namespace tftf {

// A question asked twice: the first time the answer is noted as wanted, the second time it is there. So a
// decision is one pure function, run again when want() has been answered.
class SmallValues {
 public:
  static constexpr uint64_t kMaxTensor = uint64_t{1} << 20;
  static constexpr uint64_t kMaxTotal = uint64_t{64} << 20;

  explicit SmallValues(const Checkpoint& checkpoint, uint64_t max_total = kMaxTotal)
      : checkpoint_(&checkpoint), left_(max_total) {}

  // The first `length` bytes of the tensor's data (all of it when it is shorter). Nothing while they are
  // wanted, and for good when they are too many, could not be read, or lie behind the end of a cut file.
  std::optional<Bytes> get(TensorRef tensor, uint64_t length = kMaxTensor);
  // True when get() will answer after want() has been served.
  bool pending(TensorRef tensor) const;

  // For each row of so many bytes, how many of its elements of `size` bytes are not zero (of `floats` -0 is): the whole
  // tensor is read, in pieces that nobody keeps. Nothing while that goes on, and for good when it could not be read.
  std::shared_ptr<const std::vector<uint32_t>> nonzero(TensorRef tensor, uint64_t row_bytes, uint64_t size,
                                                       bool floats);

  // Ranges noted since the last call, and some pieces of what is counted; empty when nothing is open.
  std::vector<ReadRequest> want();
  void supply(const ReadRequest& request, Bytes bytes);
  void fail(const ReadRequest& request);

 private:
  enum class State : uint8_t { kNoted, kAsked, kKnown, kRefused };
  struct Value {
    State state = State::kNoted;
    uint64_t length = 0;
    std::string bytes;
  };
  static uint64_t key(TensorRef tensor) { return uint64_t{tensor.shard} << 32 | tensor.tensor; }

  struct Count {
    uint64_t row_bytes = 0, size = 0;
    bool floats = false, failed = false;
    uint64_t asked = 0, answered = 0;  // bytes
    std::shared_ptr<std::vector<uint32_t>> rows{};
  };
  std::vector<ReadRequest> want_counts();
  bool count(const ReadRequest& request, Bytes bytes);

  const Checkpoint* checkpoint_;
  uint64_t left_;
  std::unordered_map<uint64_t, Value> values_;
  std::vector<TensorRef> noted_;
  std::unordered_map<uint64_t, Count> counts_;
  // Of counts, pieces in flight: file and offset to tensor and position in it.
  std::map<std::pair<std::string, uint64_t>, std::pair<uint64_t, uint64_t>> pieces_;
  // Requests in flight: file and offset to the tensors they answer (empty tensors may share an offset).
  std::map<std::pair<std::string, uint64_t>, std::vector<TensorRef>> asked_;
};

}  // namespace tftf
