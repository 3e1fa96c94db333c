// Strings of a JSON text in order, in eight bytes each as long as they stand in the text without escapes: a
// hostile header can hold some twenty million of them.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace tftf {

class TextList {
 public:
  // `text` outlives the list and is shorter than 2^31 bytes.
  explicit TextList(std::string_view text) : text_(text) {}

  // The number of the string whose token (its quote) begins at `token_at`. `decoded` is a view of the text just
  // behind the quote or, when the string has escapes, text elsewhere that is copied.
  uint32_t add(std::string_view decoded, uint64_t token_at) {
    const auto at = static_cast<uint32_t>(token_at);
    if (decoded.data() == text_.data() + token_at + 1) {
      items_.push_back({at, static_cast<uint32_t>(decoded.size())});
    } else {
      items_.push_back({at, kCopied + static_cast<uint32_t>(copies_.size())});
      copies_.push_back({static_cast<uint32_t>(copied_.size()), static_cast<uint32_t>(decoded.size())});
      copied_ += decoded;
    }
    return static_cast<uint32_t>(items_.size() - 1);
  }
  // Valid until the next add().
  std::string_view operator[](uint32_t number) const {
    const Piece& item = items_[number];
    if (item.length < kCopied) return text_.substr(item.at + 1, item.length);
    const Piece& copy = copies_[item.length - kCopied];
    return std::string_view(copied_).substr(copy.at, copy.length);
  }
  uint64_t token_at(uint32_t number) const { return items_[number].at; }
  uint32_t size() const { return static_cast<uint32_t>(items_.size()); }
  void clear() {
    items_.clear();
    copies_.clear();
    copied_.clear();
  }

 private:
  struct Piece {
    uint32_t at;
    uint32_t length;  // of an item: kCopied + the number of the copy when it is not in the text
  };
  static constexpr uint32_t kCopied = 0x8000'0000;
  std::string_view text_;
  // Not vectors: growing one of hundreds of megabytes would need as much again.
  std::deque<Piece> items_;
  std::deque<Piece> copies_;
  std::string copied_;  // shorter than the text: escapes only shrink
};

}  // namespace tftf
