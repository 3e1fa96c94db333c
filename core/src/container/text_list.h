// Strings of a JSON text in order, in eight bytes each as long as they stand in the text without escapes: a
// hostile header can hold some twenty million of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tftf {

class TextList {
 public:
  // `text` outlives the list and is shorter than 2^31 bytes.
  explicit TextList(std::string_view text) : text_(text) {}

  // The number of the string whose token (its quote) begins at `token_at`. `decoded` is a view of the text
  // just behind the quote or, when the string has escapes, text elsewhere that is copied.
  uint32_t add(std::string_view decoded, uint64_t token_at) {
    const auto at = static_cast<uint32_t>(token_at);
    if (decoded.data() == text_.data() + token_at + 1) {
      items_.push_back({at, static_cast<uint32_t>(decoded.size())});
    } else {
      items_.push_back({at, kCopied + static_cast<uint32_t>(copies_.size())});
      copies_.emplace_back(decoded);
    }
    return static_cast<uint32_t>(items_.size() - 1);
  }
  std::string_view operator[](uint32_t number) const {
    const Item& item = items_[number];
    if (item.length >= kCopied) return copies_[item.length - kCopied];
    return text_.substr(item.at + 1, item.length);
  }
  uint64_t token_at(uint32_t number) const { return items_[number].at; }
  uint32_t size() const { return static_cast<uint32_t>(items_.size()); }
  void clear() {
    items_.clear();
    copies_.clear();
  }

 private:
  struct Item {
    uint32_t at;
    uint32_t length;  // kCopied + the number of the copy when it is not in the text
  };
  static constexpr uint32_t kCopied = 0x8000'0000;
  std::string_view text_;
  std::vector<Item> items_;
  std::vector<std::string> copies_;
};

}  // namespace tftf
