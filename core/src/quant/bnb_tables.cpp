// The tables of bitsandbytes, and the steps between their codes.
#include "quant/bnb_tables.h"

#include <algorithm>
#include <cmath>

#include "tftf/base/bytes.h"

namespace tftf {
namespace {

// The positive values of the dynamic map below 1: seven decades of 1, 2, 4, … 64 means of even steps, as the writer's own
// sums round them.
constexpr uint32_t kDynamicPositive[127] = {
    0x3513A3B7, 0x365A1A94, 0x370205FF, 0x37B24206, 0x38378034, 0x388AEFB3, 0x38BA1F4B, 0x3923D70B,
    0x398CE705, 0x39C7E283, 0x3A016F01, 0x3A1EECC1, 0x3A3C6A80, 0x3A59E83E, 0x3A7765FF, 0x3AA7EF9D,
    0x3AF1A9FC, 0x3B1DB22D, 0x3B428F5C, 0x3B676C8A, 0x3B8624DD, 0x3B989374, 0x3BAB020D, 0x3BBD70A4,
    0x3BCFDF3B, 0x3BE24DD3, 0x3BF4BC6A, 0x3C039581, 0x3C0CCCCD, 0x3C160418, 0x3C1F3B64, 0x3C3AE148,
    0x3C68F5C3, 0x3C8B851F, 0x3CA28F5D, 0x3CB9999A, 0x3CD0A3D7, 0x3CE7AE15, 0x3CFEB852, 0x3D0AE148,
    0x3D166667, 0x3D21EB85, 0x3D2D70A3, 0x3D38F5C3, 0x3D447AE1, 0x3D500000, 0x3D5B851F, 0x3D670A3D,
    0x3D728F5D, 0x3D7E147B, 0x3D84CCCD, 0x3D8A8F5D, 0x3D9051EB, 0x3D96147B, 0x3D9BD70A, 0x3DA1999A,
    0x3DA75C2A, 0x3DAD1EB8, 0x3DB2E148, 0x3DB8A3D7, 0x3DBE6667, 0x3DC428F7, 0x3DC9EB85, 0x3DDB3334,
    0x3DF80000, 0x3E0A6666, 0x3E18CCCD, 0x3E273333, 0x3E35999A, 0x3E440000, 0x3E526666, 0x3E60CCCD,
    0x3E6F3333, 0x3E7D9999, 0x3E860000, 0x3E8D3334, 0x3E946666, 0x3E9B999A, 0x3EA2CCCC, 0x3EAA0000,
    0x3EB13333, 0x3EB86666, 0x3EBF999A, 0x3EC6CCCC, 0x3ECE0000, 0x3ED53333, 0x3EDC6666, 0x3EE3999A,
    0x3EEACCCC, 0x3EF20000, 0x3EF93332, 0x3F003333, 0x3F03CCCC, 0x3F076666, 0x3F0B0000, 0x3F0E999A,
    0x3F123334, 0x3F15CCCD, 0x3F196666, 0x3F1D0000, 0x3F20999A, 0x3F243334, 0x3F27CCCD, 0x3F2B6666,
    0x3F2F0000, 0x3F32999A, 0x3F363334, 0x3F39CCCD, 0x3F3D6666, 0x3F410000, 0x3F44999A, 0x3F483333,
    0x3F4BCCCD, 0x3F4F6666, 0x3F530000, 0x3F56999A, 0x3F5A3333, 0x3F5DCCCD, 0x3F616666, 0x3F650000,
    0x3F68999A, 0x3F6C3333, 0x3F6FCCCD, 0x3F736666, 0x3F770000, 0x3F7A999A, 0x3F7E3333};

// Floats as integers in their own order.
int64_t float_rank(float x) {
  const auto bits = bit_cast<uint32_t>(x);
  return (bits >> 31) != 0 ? -static_cast<int64_t>(bits & 0x7FFFFFFF) : static_cast<int64_t>(bits);
}
float float_of_rank(int64_t rank) {
  return bit_cast<float>(rank < 0 ? 0x80000000u | static_cast<uint32_t>(-rank) : static_cast<uint32_t>(rank));
}

// The least x between `low` and `high` that takes the code of `high`.
float step_between(float low, float high, bool high_wins_ties) {
  const auto takes_high = [&](float x) {
    const float to_high = std::abs(x - high), to_low = std::abs(x - low);
    return high_wins_ties ? to_high <= to_low : to_high < to_low;
  };
  int64_t below = float_rank(low), from = float_rank(high);
  while (from - below > 1) {
    const int64_t middle = below + (from - below) / 2;
    (takes_high(float_of_rank(middle)) ? from : below) = middle;
  }
  return float_of_rank(from);
}

}  // namespace

const std::array<float, 16> kBnbNf4Map = {-1.0f,
                                          -0.6961928009986877f,
                                          -0.5250730514526367f,
                                          -0.39491748809814453f,
                                          -0.28444138169288635f,
                                          -0.18477343022823334f,
                                          -0.09105003625154495f,
                                          0.0f,
                                          0.07958029955625534f,
                                          0.16093020141124725f,
                                          0.24611230194568634f,
                                          0.33791524171829224f,
                                          0.44070982933044434f,
                                          0.5626170039176941f,
                                          0.7229568362236023f,
                                          1.0f};
const std::array<float, 16> kBnbFp4Map = {0.0f,
                                          0.0052083334885537624f,
                                          0.6666666865348816f,
                                          1.0f,
                                          0.3333333432674408f,
                                          0.5f,
                                          0.1666666716337204f,
                                          0.25f,
                                          0.0f,
                                          -0.0052083334885537624f,
                                          -0.6666666865348816f,
                                          -1.0f,
                                          -0.3333333432674408f,
                                          -0.5f,
                                          -0.1666666716337204f,
                                          -0.25f};

const std::array<float, 256>& bnb_dynamic_map() {
  static const std::array<float, 256> map = [] {
    std::array<float, 256> out{};
    for (size_t i = 0; i < 127; ++i) {
      out[128 + i] = bit_cast<float>(kDynamicPositive[i]);
      out[126 - i] = -out[128 + i];
    }
    out[255] = 1.0f;
    return out;
  }();
  return map;
}

BnbSteps::BnbSteps(std::span<const float> map) : count_(0) {
  std::array<uint8_t, 256> all{};
  for (size_t i = 0; i < map.size(); ++i) all[i] = static_cast<uint8_t>(i);
  std::stable_sort(all.begin(), all.begin() + static_cast<ptrdiff_t>(map.size()),
                   [&](uint8_t a, uint8_t b) { return map[a] < map[b]; });
  for (size_t i = 0; i < map.size(); ++i)  // of equal values the first alone is chosen
    if (count_ == 0 || map[order_[count_ - 1]] < map[all[i]]) order_[count_++] = all[i];
  for (size_t i = 0; i + 1 < count_; ++i)
    steps_[i] = step_between(map[order_[i]], map[order_[i + 1]], order_[i + 1] < order_[i]);
}

uint8_t BnbSteps::code(float x) const {
  if (std::isnan(x)) return 0;
  const float* const end = steps_.data() + (count_ - 1);
  return order_[static_cast<size_t>(std::upper_bound(steps_.data(), end, x) - steps_.data())];
}

void BnbSteps::codes16(const float* x, size_t count, uint8_t* codes) const noexcept {
  constexpr size_t kRun = 64;
  for (size_t done = 0; done < count; done += kRun) {
    const size_t n = std::min(kRun, count - done);
    int32_t place[kRun] = {};
    for (size_t s = 0; s + 1 < count_; ++s) {
      const float step = steps_[s];
      for (size_t i = 0; i < n; ++i) place[i] += x[done + i] >= step ? 1 : 0;
    }
    for (size_t i = 0; i < n; ++i) codes[done + i] = order_[static_cast<size_t>(place[i])];
  }
}

}  // namespace tftf
