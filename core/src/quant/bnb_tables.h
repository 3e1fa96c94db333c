// The tables of bitsandbytes: what a code stands for before the scale of its block, as its writer saves them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tftf {

// By code. FP4 is not E2M1; its code 8 is +0.
extern const std::array<float, 16> kBnbNf4Map;
extern const std::array<float, 16> kBnbFp4Map;
// Signed dynamic map of 8 bits, for the scales of nested scales: ascending, without -1.
const std::array<float, 256>& bnb_dynamic_map();

// Finds the code of a value: the one with the least |x - map[code]| in F32, the lowest code on ties; 0 for NaN. As steps: the
// code changes at fixed values.
class BnbSteps {
 public:
  explicit BnbSteps(std::span<const float> map);

  size_t size() const { return count_; }
  uint8_t code(float x) const;
  // codes[i] of x[i], for a map of 16. No NaN among them.
  void codes16(const float* x, size_t count, uint8_t* codes) const noexcept;

 private:
  size_t count_ = 0;                  // of codes that are ever chosen
  std::array<float, 255> steps_{};    // from steps_[i] on code order_[i + 1] is nearer than order_[i]
  std::array<uint8_t, 256> order_{};  // codes by ascending value
};

}  // namespace tftf
