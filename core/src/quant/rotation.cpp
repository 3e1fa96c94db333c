// Rotates blocks.
#include "quant/rotation.h"

namespace tftf {
namespace {

constexpr uint64_t kSylvester = 512;
constexpr float kSylvesterNorm = 0.04419417382415922f;

void pass_of_twos(float* block, uint64_t size, uint64_t step) noexcept {
  for (uint64_t first = 0; first < size; first += 2 * step) {
    for (uint64_t i = first; i < first + step; ++i) {
      const float a = block[i], b = block[i + step];
      block[i] = a + b;
      block[i + step] = a - b;
    }
  }
}

void pass_of_fours(float* block, uint64_t size, uint64_t step) noexcept {
  for (uint64_t first = 0; first < size; first += 4 * step) {
    for (uint64_t i = first; i < first + step; ++i) {
      const float a = block[i], b = block[i + step], c = block[i + 2 * step], d = block[i + 3 * step];
      block[i] = a + b + c - d;
      block[i + step] = a + b - c + d;
      block[i + 2 * step] = a - b + c + d;
      block[i + 3 * step] = b - a + c + d;
    }
  }
}

}  // namespace

bool is_rotation_size(uint64_t size) {
  if (size == kSylvester) return true;
  if (size < 4 || size > kLargestRotation) return false;
  while (size % 4 == 0) size /= 4;
  return size == 1;
}

void rotate_block(float* block, uint64_t size) noexcept {
  float norm = 1.0f;
  if (size == kSylvester) {
    for (uint64_t step = 1; step < size; step *= 2) pass_of_twos(block, size, step);
    norm = kSylvesterNorm;
  } else {
    for (uint64_t step = 1; step < size; step *= 4) {
      pass_of_fours(block, size, step);
      norm *= 0.5f;
    }
  }
  for (uint64_t i = 0; i < size; ++i) block[i] *= norm;
}

}  // namespace tftf
