#include "lint/layout/scale_reads.h"

#include <algorithm>
#include <tuple>

#include "tftf/base/checked.h"
#include "tftf/simd/floats.h"

namespace tftf {
namespace {

constexpr uint64_t kNearScales = 4096;       // a gap that is cheaper to read than a request
constexpr uint64_t kLongestRange = 1 << 16;  // of scales
constexpr uint64_t kFirstCodes = 4096;       // nearly always enough to see a code that is not zero
constexpr uint64_t kMoreCodes = 1 << 20;

}  // namespace

void ScaleReads::choose(const QuantFacts& facts) {
  facts_ = &facts;
  const QuantModules& modules = facts.modules;
  values_.resize(modules.scales.size());
  if (!facts.judged() || !facts.complete || facts.method == "compressed-tensors") return;
  for (uint32_t i = 0; i < modules.scales.size(); ++i) {
    const ModuleScale& scale = modules.scales[i];
    const TensorInfo& tensor = facts.info(scale.tensor);
    if (element_count(tensor.shape) != 1 || !is_judged_scale(facts, scale)) continue;
    const Shard& shard = facts.checkpoint->shards[scale.tensor.shard];
    places_.push_back({{scale.tensor.shard, shard.header.data_offset() + tensor.begin}, i});
  }
  std::sort(places_.begin(), places_.end());
}

std::vector<ShardRead> ScaleReads::want() {
  std::vector<ShardRead> out;
  if (!chosen_) {
    chosen_ = true;
    for (const auto& [place, scale] : places_) {
      const uint64_t end = place.second + facts_->info(facts_->modules.scales[scale].tensor).bytes();
      if (!out.empty() && out.back().shard == place.first) {
        ByteRange& last = out.back().range;
        if (place.second <= last.offset + last.length + kNearScales && end - last.offset <= kLongestRange) {
          last.length = std::max(last.length, end - last.offset);
          continue;
        }
      }
      out.push_back({place.first, {place.second, end - place.second}});
    }
    for (const ShardRead& range : out) asked_[{range.shard, range.range.offset}] = range.range.length;
    if (!out.empty()) return out;
  }
  if (!asked_.empty()) return out;
  if (!codes_started_) start_codes();
  for (size_t i = 0; i < codes_.size(); ++i) {
    Codes& codes = codes_[i];
    if (codes.asked || codes.zero || codes.failed) continue;
    const TensorRef lead = facts_->modules.all[codes.module].lead;
    const TensorInfo& tensor = facts_->info(lead);
    const uint64_t length = std::min(tensor.bytes() - codes.done, codes.done == 0 ? kFirstCodes : kMoreCodes);
    const uint64_t offset =
        facts_->checkpoint->shards[lead.shard].header.data_offset() + tensor.begin + codes.done;
    codes.asked = true;
    asked_codes_[{lead.shard, offset}] = i;
    out.push_back({lead.shard, {offset, length}});
  }
  return out;
}

// The modules whose single scale is zero.
void ScaleReads::start_codes() {
  codes_started_ = true;
  std::vector<bool> seen(facts_->modules.all.size());
  for (uint32_t i = 0; i < values_.size(); ++i) {
    const ModuleScale& scale = facts_->modules.scales[i];
    const QuantModule& module = facts_->modules.all[scale.module];
    if (values_[i] != 0.0 || !is_weight_scale(scale.role) || seen[scale.module] ||
        module.kind == ModuleKind::kU8Scaled || code_value_mask(*facts_, module) == 0)
      continue;
    seen[scale.module] = true;
    Codes& codes = codes_.emplace_back();
    codes.module = scale.module;
    if (facts_->info(module.lead).bytes() == 0) codes.zero = true;
  }
  std::sort(codes_.begin(), codes_.end(), [](const Codes& a, const Codes& b) { return a.module < b.module; });
}

bool ScaleReads::supply(const ShardRead& range, Bytes bytes) {
  const std::pair<uint32_t, uint64_t> place{range.shard, range.range.offset};
  if (const auto scales = asked_.find(place);
      scales != asked_.end() && scales->second == range.range.length) {
    asked_.erase(scales);
    if (bytes.size() == range.range.length) supply_scales(range, bytes);
    return true;
  }
  const auto codes = asked_codes_.find(place);
  if (codes == asked_codes_.end()) return false;
  Codes& to = codes_[codes->second];
  asked_codes_.erase(codes);
  to.asked = false;
  if (bytes.size() != range.range.length)
    to.failed = true;
  else
    supply_codes(to, bytes);
  return true;
}

void ScaleReads::supply_scales(const ShardRead& range, Bytes bytes) {
  auto at = std::lower_bound(places_.begin(), places_.end(),
                             std::pair(std::pair(range.shard, range.range.offset), uint32_t{0}));
  for (; at != places_.end() && at->first.first == range.shard; ++at) {
    const ModuleScale& scale = facts_->modules.scales[at->second];
    const TensorInfo& tensor = facts_->info(scale.tensor);
    const uint64_t begin = at->first.second - range.range.offset;
    if (begin + tensor.bytes() > bytes.size()) break;
    const DType dtype = tensor.dtype == DType::U8 ? DType::F8_E8M0 : tensor.dtype;
    values_[at->second] = element_as_f64(dtype, bytes.data() + to_size(begin), 0);
  }
}

void ScaleReads::supply_codes(Codes& codes, Bytes bytes) {
  const QuantModule& module = facts_->modules.all[codes.module];
  const uint8_t mask = code_value_mask(*facts_, module);
  codes.done += bytes.size();
  if (std::any_of(bytes.begin(), bytes.end(),
                  [&](std::byte byte) { return (static_cast<uint8_t>(byte) & mask) != 0; }))
    codes.zero = false;
  else if (codes.done == facts_->info(module.lead).bytes())
    codes.zero = true;
}

std::optional<double> ScaleReads::value(uint32_t scale) const { return values_[scale]; }

std::optional<bool> ScaleReads::zero_codes(uint32_t module) const {
  const auto found =
      std::lower_bound(codes_.begin(), codes_.end(), module,
                       [](const Codes& codes, uint32_t number) { return codes.module < number; });
  if (found == codes_.end() || found->module != module) return std::nullopt;
  return found->zero;
}

}  // namespace tftf
