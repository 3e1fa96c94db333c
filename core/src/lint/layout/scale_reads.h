// The values of single scales, which are always read, and of codes where a scale of zero makes them matter.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "lint/layout/quant_rules.h"

namespace tftf {

// A range of a shard of the checkpoint.
struct ShardRead {
  uint32_t shard = 0;
  ByteRange range;
};

class ScaleReads {
 public:
  // The scales of one element of the quantised modules; `facts` must outlive this.
  void choose(const QuantFacts& facts);
  // Ranges not given before; more may come after their answers.
  std::vector<ShardRead> want();
  // False when the range is not one of these. No bytes: it could not be read.
  bool supply(const ShardRead& range, Bytes bytes);

  // By number in QuantModules::scales; nothing when it was not read.
  std::optional<double> value(uint32_t scale) const;
  // All codes of the module are zero; nothing when that is not known.
  std::optional<bool> zero_codes(uint32_t module) const;

 private:
  struct Codes {
    uint32_t module = 0;
    uint64_t done = 0;  // bytes seen, all of them zero
    std::optional<bool> zero;
    bool asked = false;
    bool failed = false;
  };
  void start_codes();
  void supply_scales(const ShardRead& range, Bytes bytes);
  void supply_codes(Codes& codes, Bytes bytes);

  const QuantFacts* facts_ = nullptr;
  std::vector<std::pair<std::pair<uint32_t, uint64_t>, uint32_t>>
      places_;                                               // shard and offset, scale: by place
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> asked_;  // ranges of scales in flight
  std::map<std::pair<uint32_t, uint64_t>, size_t> asked_codes_;
  std::vector<std::optional<double>> values_;
  std::vector<Codes> codes_;
  bool chosen_ = false;
  bool codes_started_ = false;
};

// Whether U8 scales of such a module are exponents of two.
bool has_exponent_scales(ModuleKind kind);
// Whether a scale's value can be judged: a float, or an exponent.
bool is_judged_scale(const QuantFacts& facts, const ModuleScale& scale);
// One of weight_scale_2, weight_scale, weight_scale_inv.
bool is_weight_scale(std::string_view role);
// The bits of a byte of codes that a zero of either sign leaves unset; 0 when the codes are not known.
uint8_t code_value_mask(const QuantFacts& facts, const QuantModule& module);

// QT350, QT351 and QT354 by these values.
void check_scale_values(FileFindings& out, const QuantFacts& facts, const ScaleReads& reads);
// What the data pass is to look at. `place_of` gives a tensor's place in the result.
void add_value_checks(LintResult& result, const QuantFacts& facts, bool single_scales_judged,
                      const std::function<TensorPlace(TensorRef)>& place_of);

}  // namespace tftf
