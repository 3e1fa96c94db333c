// What every fuzz target needs: the input taken apart from its front, and a property that must hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace tftf::fuzz {

// Ends the process where libFuzzer sees it.
inline void require(bool condition) {
  if (!condition) std::abort();
}

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  explicit Input(std::string_view bytes)
      : Input(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()) {}

  bool empty() const { return at_ >= size_; }
  // 0 at the end.
  uint8_t byte() { return empty() ? 0 : data_[at_++]; }
  // One of `from`, by a byte.
  template <class T, size_t N>
  const T& pick(const T (&from)[N]) {
    return from[byte() % N];
  }
  // The next `length` bytes, or what is left.
  std::string text(size_t length) {
    if (length > size_ - at_) length = size_ - at_;
    const std::string part(reinterpret_cast<const char*>(data_) + at_, length);
    at_ += length;
    return part;
  }
  // `count` bytes of what is left, over and over; nothing is taken.
  std::string repeated(size_t count) const {
    std::string out;
    for (size_t i = 0; i < count; ++i)
      out += static_cast<char>(empty() ? i * 37 : data_[at_ + i % (size_ - at_)]);
    return out;
  }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

}  // namespace tftf::fuzz
