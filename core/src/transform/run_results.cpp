// Looks at what the steps of a phase have reported.
#include "run_results.h"

#include <algorithm>
#include <map>

#include "stage.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"

namespace tftf::transform {
namespace {

Error broken_codes(const std::string& name) {
  return {.code = ErrorCode::kRefusedInput,
          .message = "The codes that tensor " + quote_name(name) +
                     " is made of are broken: what they point to is not there, or their stream does not end "
                     "where it should.",
          .tensor = name};
}

Error unfit_values(const std::string& name, uint64_t values, const std::string& word,
                   const std::string& unfit) {
  return {.code = ErrorCode::kRefusedValues,
          .message = "Tensor " + quote_name(name) + " holds " + grouped_digits(values) + " value" +
                     (values == 1 ? "" : "s") + " that " + (values == 1 ? "is" : "are") + " " +
                     (unfit.empty() ? "NaN, infinite or too large to be quantised" : unfit) + " (" + word +
                     ").",
          .tensor = name};
}

Error not_finite(const DeclaredTensor& tensor, uint64_t values) {
  if (!tensor.quantised_to.empty())
    return unfit_values(tensor.name, values, tensor.quantised_to, tensor.unfit);
  return {.code = ErrorCode::kRefusedValues,
          .message = "Merging makes " + grouped_digits(values) + " finite value" + (values == 1 ? "" : "s") +
                     " of tensor " + quote_name(tensor.name) +
                     " infinite or NaN; --allow-nonfinite writes them.",
          .tensor = tensor.name};
}

Error bad_divisor(const std::pair<std::string, std::string>& divisor, const Value& value) {
  return {.code = ErrorCode::kRefusedValues,
          .message = "Tensor " + quote_name(divisor.first) + " of " + quote_name(divisor.second) +
                     " is a divisor and holds " + grouped_digits(value.n[0]) + " zeros and " +
                     grouped_digits(value.n[1]) + " values that are not finite.",
          .file = divisor.second,
          .tensor = divisor.first};
}

}  // namespace

void RunResults::item_of_divisor(std::string name, std::string file) {
  owners_.back().push_back({Kind::kDivisor, static_cast<uint32_t>(divisors_.size())});
  divisors_.emplace_back(std::move(name), std::move(file));
}

void RunResults::item_of_check(std::shared_ptr<const PlaneCheck> check) {
  owners_.back().push_back({Kind::kCheck, static_cast<uint32_t>(checks_.size())});
  checks_.push_back(std::move(check));
}

uint32_t RunResults::item_of_measure(std::shared_ptr<const Encoded> encoded, std::string name) {
  const auto table = static_cast<uint32_t>(measured_.size());
  owners_.back().push_back({Kind::kMeasure, table});
  measured_.push_back({std::move(encoded), std::move(name)});
  return table;
}

// Measures of weights that are measured as one are merged first.
Result<void> RunResults::fill_tables(size_t phase, std::span<const Value> values, Tables& tables) const {
  std::map<std::string, Measure> shared;
  std::vector<Measure> own(measured_.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const Owner owner = owners_[phase][i];
    if (owner.kind != Kind::kMeasure) continue;
    const Measured& measured = measured_[owner.index];
    const Value& value = values[i];
    if (value.x[1] == kBrokenCodes) return broken_codes(measured.name);
    const Measure all{{value.n[0], value.n[1], value.n[2]}, value.n[3], value.x[0], value.x[1]};
    if (all.lost > 0) return unfit_values(measured.name, all.lost, measured.encoded->word, "");
    own[owner.index] = all;
    if (measured.encoded->measured_with.empty()) continue;
    Measure& into = shared[measured.encoded->measured_with];
    for (size_t n = 0; n < into.n.size(); ++n) into.n[n] += all.n[n];
    into.largest = std::max(into.largest, all.largest);
    into.second = std::max(into.second, all.second);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const Owner owner = owners_[phase][i];
    if (owner.kind != Kind::kMeasure) continue;
    const Encoded& encoded = *measured_[owner.index].encoded;
    const auto together = shared.find(encoded.measured_with);
    const std::string bytes =
        encoded.encoder->measured(encoded, together == shared.end() ? own[owner.index] : together->second);
    if (tables.table.size() <= owner.index) tables.table.resize(owner.index + size_t{1});
    const auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
    tables.table[owner.index].assign(begin, begin + bytes.size());
  }
  return {};
}

Result<void> RunResults::finish(size_t phase, std::span<const Value> values, Tables& tables) {
  TFTF_TRY(fill_tables(phase, values, tables));
  const DeclaredTensor* spoilt = nullptr;
  uint64_t spoilt_values = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const Owner owner = owners_[phase][i];
    const Value& value = values[i];
    if (owner.kind == Kind::kNobody) continue;
    if (owner.kind == Kind::kDivisor) {
      if (value.n[0] + value.n[1] > 0) return bad_divisor(divisors_[owner.index], value);
      continue;
    }
    if (owner.kind == Kind::kCheck) {
      if (value.n[0] > 0) return checks_[owner.index]->refusal;
      continue;
    }
    if (owner.kind == Kind::kMeasure) continue;
    DeclaredTensor& tensor = (*tensors_)[owner.index];
    tensor.became_infinite += value.n[0];
    tensor.nan += value.n[1];
    tensor.infinite += value.n[2];
    tensor.norm_clamped = tensor.norm_clamped || value.x[0] > 0;
    if (value.x[1] > 0) return broken_codes(tensor.name);
    if (value.n[3] > 0 && spoilt == nullptr) {
      spoilt = &tensor;
      spoilt_values = value.n[3];
    }
  }
  if (spoilt != nullptr) return not_finite(*spoilt, spoilt_values);
  return {};
}

}  // namespace tftf::transform
