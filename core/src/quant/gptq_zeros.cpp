#include "quant/gptq_zeros.h"

#include <algorithm>
#include <array>
#include "tftf/base/checked.h"

namespace tftf {
namespace {

// Every field of a row holds `value`: the words repeat after one (2, 4, 8 bits) or three (3 bits).
std::array<uint32_t, 3> repeated_fields(uint32_t value, uint32_t bits) {
  std::array<uint32_t, 3> words{};
  for (uint32_t bit = 0; bit < 96; ++bit) words[bit / 32] |= (value >> (bit % bits) & 1u) << (bit % 32);
  return words;
}

}  // namespace

ZeroVerdict judge_zeros(Bytes words, uint64_t row_words, uint32_t bits) {
  if (words.size() < 4 || row_words == 0) return ZeroVerdict::kUnknown;
  const uint32_t half = 1u << (bits - 1);
  const std::array<uint32_t, 3> v1 = repeated_fields(half - 1, bits), v2 = repeated_fields(half, bits);
  bool all_v1 = true, all_v2 = true;
  for (uint64_t i = 0; i < words.size() / 4 && (all_v1 || all_v2); ++i) {
    const uint32_t word = load_le<uint32_t>(words.data() + 4 * i);
    const uint64_t phase = i % row_words % 3;
    all_v1 = all_v1 && word == v1[to_size(phase)];
    all_v2 = all_v2 && word == v2[to_size(phase)];
  }
  return all_v1 ? ZeroVerdict::kV1 : all_v2 ? ZeroVerdict::kV2 : ZeroVerdict::kMixed;
}

ZeroVerdict GptqZeros::read(const QuantMatch& match, uint64_t& budget) {
  const TensorRef* qzeros = match.find("qzeros");
  if (!qzeros) return ZeroVerdict::kUnknown;
  const TensorInfo& info = scan_.info(*qzeros);
  if (info.dtype != DType::I32 || info.bytes() > budget || info.bytes() > SmallValues::kMaxTensor)
    return ZeroVerdict::kUnknown;
  budget -= info.bytes();
  const std::optional<Bytes> bytes = scan_.values().get(*qzeros);
  return bytes ? judge_zeros(*bytes, info.shape[1], match.bits) : ZeroVerdict::kUnknown;
}

void GptqZeros::claim_all(const QuantFormat& v1, const QuantFormat& v2) {
  const JsonValue* format = scan_.config().get("checkpoint_format");
  const bool config_v2 = format && format->text == "gptq_v2";
  uint64_t budget = kSampled;
  std::vector<ZeroVerdict> verdicts;
  size_t said_v1 = 0, said_v2 = 0, unread = 0;
  for (const QuantMatch& match : matches_) {
    verdicts.push_back(read(match, budget));
    said_v1 += verdicts.back() == ZeroVerdict::kV1;
    said_v2 += verdicts.back() == ZeroVerdict::kV2;
    unread += verdicts.back() == ZeroVerdict::kUnknown;
  }
  const bool follow = (said_v1 > 0) != (said_v2 > 0) && said_v1 + said_v2 + unread == matches_.size();
  for (size_t i = 0; i < matches_.size(); ++i) {
    bool is_v2 = config_v2;
    if (verdicts[i] == ZeroVerdict::kV1 || verdicts[i] == ZeroVerdict::kV2)
      is_v2 = verdicts[i] == ZeroVerdict::kV2;
    else if (verdicts[i] == ZeroVerdict::kUnknown && follow)
      is_v2 = said_v2 > 0;
    if (is_v2)
      matches_[i].layout = v2.id;
    else
      matches_[i].layout = v1.id;
  }
  if (format && config_v2 ? said_v1 > 0 : format && said_v2 > 0)
    scan_.note("checkpoint_format says " + std::string(config_v2 ? "gptq_v2" : format->text) +
               ", but all zero points of " + std::to_string(config_v2 ? said_v1 : said_v2) +
               " modules are those of " + (config_v2 ? "v1" : "v2") + ": the values count");
  if (unread > 0 && unread < matches_.size())
    scan_.note("the zero points of " + std::to_string(matches_.size() - unread) + " of " +
               std::to_string(matches_.size()) + " GPTQ modules were read to tell v1 from v2");
  for (QuantMatch& match : matches_) scan_.claim(std::move(match));
  matches_.clear();
}

}  // namespace tftf
