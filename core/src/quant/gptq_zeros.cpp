#include "quant/gptq_zeros.h"

#include <algorithm>
#include <array>

#include "quant/qweight.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"

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

// What the configuration says. auto-round has packings of its own (spec quant-layouts-2 4): those named after GPTQ hold v1,
// and so does what is symmetric; all others v2.
GptqZeros::Declared GptqZeros::declared() const {
  const JsonValue* format = scan_.config().get("checkpoint_format");
  const std::string& method = scan_.config().method;
  if (method != "auto-round" && method != "auto_round" && method != "intel/auto-round") {
    if (!format || !format->is_string()) return {};
    return {"checkpoint_format", format->text, format->text == "gptq_v2", false};
  }
  const JsonValue* packing = scan_.config().get("packing_format");
  if (!packing || !packing->is_string()) return {"", "", false, true};
  const JsonValue* symmetric = scan_.config().get("sym");
  const bool gptqmodel = packing->text.find("gptqmodel") != std::string::npos;
  const bool v1 = !gptqmodel && (packing->text.find("gptq") != std::string::npos ||
                                 (symmetric != nullptr && symmetric->is_true()));
  return {"packing_format", packing->text, !v1, true};
}

void GptqZeros::claim_all(const QuantFormat& v1, const QuantFormat& v2) {
  const Declared declared = this->declared();
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
    bool is_v2 = declared.v2;
    if (verdicts[i] == ZeroVerdict::kV1 || verdicts[i] == ZeroVerdict::kV2)
      is_v2 = verdicts[i] == ZeroVerdict::kV2;
    else if (verdicts[i] == ZeroVerdict::kUnknown && follow)
      is_v2 = said_v2 > 0;
    if (declared.auto_round && declared.key.empty() &&
        (verdicts[i] == ZeroVerdict::kMixed || verdicts[i] == ZeroVerdict::kUnknown)) {
      scan_.problem(
          v1.id, matches_[i].module,
          "the configuration of auto-round has no packing_format, and its zero points do not tell what "
          "they mean",
          {matches_[i].weight});
      matches_[i].layout = {};
      continue;
    }
    matches_[i].layout = is_v2 ? v2.id : v1.id;
    // Its readers add 1 without a modulus.
    if (declared.auto_round) matches_[i].detail = std::make_shared<const GptqDetail>(GptqDetail{false});
  }
  const size_t against = declared.v2 ? said_v1 : said_v2;
  if (!declared.key.empty() && against > 0) {
    scan_.note(std::string(declared.key) + " says " + escape_text(declared.value) +
               ", but all zero points of " + std::to_string(against) + " modules are those of " +
               (declared.v2 ? "v1" : "v2") + ": the values count");
  }
  if (unread > 0 && unread < matches_.size())
    scan_.note("the zero points of " + std::to_string(matches_.size() - unread) + " of " +
               std::to_string(matches_.size()) + " GPTQ modules were read to tell v1 from v2");
  for (QuantMatch& match : matches_)
    if (!match.layout.empty()) scan_.claim(std::move(match));
  matches_.clear();
}

}  // namespace tftf
