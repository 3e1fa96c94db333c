// The values of scales: those that were read, and what is left to the data pass.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "lint/layout/scale_reads.h"
#include "tftf/base/affix.h"
#include "tftf/base/checked.h"

namespace tftf {
namespace {

// Modules of one parent that runtimes compute as one.
constexpr std::string_view kFusedGroups[][3] = {{"q_proj", "k_proj", "v_proj"},
                                                {"gate_proj", "up_proj", {}},
                                                {"w1", "w3", {}},
                                                {"q_a_proj", "kv_a_proj_with_mqa", {}}};
constexpr double kSameScale = 1.00001;

Diagnostic* report_scale(FileFindings& out, const QuantFacts& facts, Rule rule, TensorRef tensor) {
  Diagnostic* finding = out.of(facts.file_of(tensor)).add(rule);
  if (!finding) return nullptr;
  finding->subject = facts.info(tensor).name;
  finding->values = {{"tensor", facts.info(tensor).name}};
  return finding;
}

void check_single_scale(FileFindings& out, const QuantFacts& facts, const ScaleReads& reads,
                        uint32_t number) {
  const ModuleScale& scale = facts.modules.scales[number];
  const std::optional<double> value = reads.value(number);
  if (!value) return;
  if (!std::isfinite(*value)) {
    if (Diagnostic* finding = report_scale(out, facts, Rule::QT350, scale.tensor)) {
      finding->values.emplace_back("count", uint64_t{1});
      finding->values.emplace_back("index", uint64_t{0});
    }
    return;
  }
  const ModuleKind kind = facts.modules.all[scale.module].kind;
  const bool judged = kind == ModuleKind::kNvfp4 || kind == ModuleKind::kFp8Scale ||
                      kind == ModuleKind::kFp8Inv || kind == ModuleKind::kU8Scaled;
  if (!judged || !is_weight_scale(scale.role) || *value > 0) return;
  if (*value == 0 && kind != ModuleKind::kU8Scaled && reads.zero_codes(scale.module) != false) return;
  if (Diagnostic* finding = report_scale(out, facts, Rule::QT351, scale.tensor))
    finding->values.emplace_back("value", *value);
}

// At least 1, with three significant digits, without zeros behind the point.
std::string three_digits(double ratio) {
  constexpr double kMostShown = 1e15;
  if (!(ratio < kMostShown)) return "more than 1e15";
  uint64_t unit = 1;  // of the last digit, above 1
  while (ratio >= 1000.0 * static_cast<double>(unit)) unit *= 10;
  const uint64_t parts = unit > 1 ? 1 : ratio < 10 ? 100 : ratio < 100 ? 10 : 1;
  const auto count =
      static_cast<uint64_t>(std::llround(ratio * static_cast<double>(parts) / static_cast<double>(unit)));
  std::string text = std::to_string(count / parts * unit);
  uint64_t rest = count % parts;
  if (rest == 0) return text;
  text += '.';
  for (uint64_t place = parts / 10; rest != 0; place /= 10) {
    text += static_cast<char>('0' + rest / place);
    rest %= place;
  }
  return text;
}

// QT354.
class FusedScales {
 public:
  FusedScales(const QuantFacts& facts, const ScaleReads& reads) : facts_(facts) {
    for (uint32_t i = 0; i < facts.modules.scales.size(); ++i) {
      const ModuleScale& scale = facts.modules.scales[i];
      if (scale.role != "weight_scale_2") continue;
      const auto [at, fresh] = values_.emplace(scale.module, reads.value(i));
      if (!fresh) at->second = std::nullopt;
    }
  }

  void check(FileFindings& out, std::string_view parent, size_t group) const {
    const std::string_view last = split_name(parent).last;
    if (group == 0 && (contains(last, "cross") || last == "encoder_attn")) return;
    std::vector<std::string> stored;
    uint32_t first = 0;
    double least = 0, most = 0;
    for (const std::string_view word : kFusedGroups[group]) {
      if (word.empty()) continue;
      const std::string path = std::string(parent).append(".").append(word);
      const auto module = facts_.modules.by_name.find(path);
      if (module == facts_.modules.by_name.end() ||
          facts_.modules.all[module->second].kind != ModuleKind::kNvfp4)
        continue;
      const auto found = values_.find(module->second);
      const std::optional<double> value = found == values_.end() ? std::nullopt : found->second;
      if (!value || !std::isfinite(*value) || *value <= 0) return;
      if (stored.empty()) {
        first = module->second;
        least = most = *value;
      }
      least = std::min(least, *value);
      most = std::max(most, *value);
      stored.push_back(path);
    }
    if (stored.size() < 2 || most / least <= kSameScale) return;
    const QuantModule& module = facts_.modules.all[first];
    Diagnostic* finding = out.of(facts_.file_of(module.lead)).add(Rule::QT354);
    if (!finding) return;
    finding->subject = std::string(module.name);
    finding->values = {{"modules", std::move(stored)}, {"ratio", three_digits(most / least)}};
  }

 private:
  const QuantFacts& facts_;
  std::unordered_map<uint32_t, std::optional<double>> values_;  // by module
};

// Where each group is looked at once: at the first of its words that is stored.
void check_fused(FileFindings& out, const QuantFacts& facts, const ScaleReads& reads) {
  const FusedScales scales(facts, reads);
  for (const QuantModule& module : facts.modules.all) {
    if (module.kind != ModuleKind::kNvfp4) continue;
    const SplitName name = split_name(module.name);
    if (name.path.empty()) continue;
    for (size_t group = 0; group < std::size(kFusedGroups); ++group) {
      const auto words = std::begin(kFusedGroups[group]);
      const auto word = std::find(words, std::end(kFusedGroups[group]), name.last);
      if (word == std::end(kFusedGroups[group])) continue;
      const bool earlier = std::any_of(words, word, [&](std::string_view other) {
        const auto found = facts.modules.by_name.find(std::string(name.path).append(".").append(other));
        return found != facts.modules.by_name.end() &&
               facts.modules.all[found->second].kind == ModuleKind::kNvfp4;
      });
      if (!earlier) scales.check(out, name.path, group);
    }
  }
}

// The grid of a scale tensor over its codes (rule QT352); leaves block_rows 0 when it is not known.
void find_grid(ScaleCheck& check, const QuantFacts& facts, const ModuleScale& scale) {
  const QuantModule& module = facts.modules.all[scale.module];
  const TensorInfo& scales = facts.info(scale.tensor);
  const TensorInfo& codes = facts.info(module.lead);
  const uint8_t mask = code_value_mask(facts, module);
  if (mask == 0 || scales.shape.size() != 2 || codes.shape.size() != 2) return;
  const uint64_t rows = codes.shape[0], packed = module.kind == ModuleKind::kNvfp4 ? 2 : 1;
  const auto columns = checked_mul(codes.shape[1], packed);
  if (!columns || rows == 0 || *columns == 0 || scales.shape[1] == 0) return;
  uint64_t block_rows = 1, block_columns = 0;
  if (scales.shape[0] == rows && *columns % scales.shape[1] == 0) {
    block_columns = *columns / scales.shape[1];
  } else {
    block_rows = block_columns = 128;
    if (const JsonValue* size = facts.quant.get("weight_block_size"); size && size->elements.size() == 2) {
      const auto declared_rows = size->elements[0].as_integer(),
                 declared_columns = size->elements[1].as_integer();
      if (!declared_rows || !declared_columns || *declared_rows < 1 || *declared_columns < 1) return;
      block_rows = static_cast<uint64_t>(*declared_rows);
      block_columns = static_cast<uint64_t>(*declared_columns);
    }
    if (scales.shape[0] != ceil_div(rows, block_rows) || scales.shape[1] != ceil_div(*columns, block_columns))
      return;
  }
  if (block_columns % packed != 0) return;
  check.block_rows = std::min(block_rows, rows);
  check.block_bytes = block_columns / packed;
  check.rows = rows;
  check.row_bytes = codes.shape[1];
  check.scale_columns = scales.shape[1];
  check.value_mask = mask;
}

}  // namespace

bool has_exponent_scales(ModuleKind kind) {
  return kind == ModuleKind::kMxfp4 || kind == ModuleKind::kMxfp8 || kind == ModuleKind::kMxfp4Blocks ||
         kind == ModuleKind::kFp8Inv;
}

bool is_judged_scale(const QuantFacts& facts, const ModuleScale& scale) {
  const DType dtype = facts.info(scale.tensor).dtype;
  if (dtype == DType::U8) return has_exponent_scales(facts.modules.all[scale.module].kind);
  return is_floating(dtype) && dtype_bits(dtype) >= 8;
}

bool is_weight_scale(std::string_view role) {
  return role == "weight_scale_2" || role == "weight_scale" || role == "weight_scale_inv";
}

uint8_t code_value_mask(const QuantFacts& facts, const QuantModule& module) {
  switch (facts.info(module.lead).dtype) {
    case DType::F8_E4M3:
    case DType::F8_E5M2:
      return 0x7F;
    case DType::F8_E4M3FNUZ:
    case DType::F8_E5M2FNUZ:
      return 0xFF;
    case DType::U8:
      return module.kind == ModuleKind::kNvfp4 ? 0x77 : 0;
    default:
      return 0;
  }
}

void check_scale_values(FileFindings& out, const QuantFacts& facts, const ScaleReads& reads) {
  for (uint32_t i = 0; i < facts.modules.scales.size(); ++i) check_single_scale(out, facts, reads, i);
  check_fused(out, facts, reads);
}

void add_value_checks(LintResult& result, const QuantFacts& facts, bool single_scales_judged,
                      const std::function<TensorPlace(TensorRef)>& place_of) {
  if (!facts.judged()) return;
  if (facts.method != "compressed-tensors")
    for (const ModuleScale& scale : facts.modules.scales) {
      const bool single = element_count(facts.info(scale.tensor).shape) == 1;
      if (!is_judged_scale(facts, scale) || (single && single_scales_judged)) continue;
      const QuantModule& module = facts.modules.all[scale.module];
      const DType dtype = facts.info(scale.tensor).dtype;
      ScaleCheck& check = result.scale_checks.emplace_back();
      check.scales = place_of(scale.tensor);
      check.exponents = dtype == DType::U8;
      check.signs = !single && dtype != DType::U8 && dtype != DType::F8_E8M0 &&
                    has_float_codes(module.kind) &&
                    (scale.role == "weight_scale" || scale.role == "weight_scale_inv");
      if (!check.signs) continue;
      check.codes = place_of(module.lead);
      find_grid(check, facts, scale);
    }
  for (const QuantModule& module : facts.modules.all) {
    const bool fp8 = module.kind == ModuleKind::kFp8Inv || module.kind == ModuleKind::kFp8Scale ||
                     module.kind == ModuleKind::kMxfp8;
    if (fp8) result.code_checks.push_back(place_of(module.lead));
  }
  if (facts.method != "bitnet") return;
  for (const TensorRef ref : facts.checkpoint->order)
    if (facts.info(ref).dtype == DType::U8 && split_name(facts.info(ref).name).last == "weight")
      result.ternary_checks.push_back(place_of(ref));
}

}  // namespace tftf
