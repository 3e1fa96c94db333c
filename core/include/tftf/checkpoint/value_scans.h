// Looking at the values of whole tensors before any plan exists: is this all zero, are these two the same? In pieces, in
// order, and no further than the answer needs, so that no tensor is ever held.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tftf/base/bytes.h"
#include "tftf/base/sha256.h"
#include "tftf/checkpoint/checkpoint.h"

namespace tftf {

// Asked twice like SmallValues: the first time a question is noted, once want() has been served the answer is there.
class ValueScans {
 public:
  static constexpr uint64_t kPiece = uint64_t{1} << 20;
  // Sees bytes [begin, begin + size) of the tensor's data, piece after piece; false: it has seen enough.
  using Look = std::function<bool(uint64_t begin, Bytes bytes)>;

  explicit ValueScans(const Checkpoint& checkpoint) : checkpoint_(&checkpoint) {}

  // Whether `look` has seen the tensor to its end. False also when it could not be read. `question`: tells several questions
  // about one tensor apart.
  std::optional<bool> seen_whole(TensorRef tensor, std::string_view question, Look look);
  // SHA-256 of its data, hexadecimal; empty when it could not be read.
  std::optional<std::string> digest(TensorRef tensor);
  // Whether every byte but the sign bits of floats is zero.
  std::optional<bool> all_zero(TensorRef tensor);

  std::vector<ReadRequest> want();
  // False when the request is none of these.
  bool supply(const ReadRequest& request, Bytes bytes);
  bool fail(const ReadRequest& request);

 private:
  struct Scan {
    TensorRef tensor{};
    Look look{};
    uint64_t next = 0;  // byte of the tensor
    bool asked = false;
    std::optional<bool> whole{};
    std::optional<Sha256> hash{};
    std::string digest{};
  };
  using Key = std::pair<uint64_t, std::string>;

  ReadRequest request_of(const Scan& scan) const;
  Scan* asked_for(const ReadRequest& request);

  const Checkpoint* checkpoint_;
  std::map<Key, Scan> scans_;
};

}  // namespace tftf
