// How many singular values are kept: the rules of sd-scripts' resize_lora.py, the rank so far never exceeded.
#include <algorithm>
#include <cmath>

#include "tftf/adapter/low_rank.h"
#include "tftf/base/checked.h"
#include "tftf/base/json_text.h"

namespace tftf {
namespace {

constexpr double kZeroMatrix = 1e-6;  // the largest value of one

struct RankMethodName {
  std::string_view word;
  RankChoice::Method method;
};
constexpr RankMethodName kRankMethods[] = {{"sv_ratio", RankChoice::Method::kRatio},
                                           {"sv_cumulative", RankChoice::Method::kCumulative},
                                           {"sv_fro", RankChoice::Method::kFrobenius}};

// The first position at which the share of the sum reaches `share`; values.size() when none does.
template <class Weight>
uint64_t first_reaching(std::span<const double> values, double share, Weight weight) {
  double whole = 0, sum = 0;
  for (const double value : values) whole += weight(value);
  for (uint64_t i = 0; i < values.size(); ++i) {
    sum += weight(values[to_size(i)]);
    if (sum / whole >= share) return i;
  }
  return values.size();
}

}  // namespace

std::optional<RankChoice::Method> find_rank_method(std::string_view word) {
  for (const RankMethodName& one : kRankMethods)
    if (one.word == word) return one.method;
  return std::nullopt;
}

Result<void> check_rank_choice(const RankChoice& choice) {
  using Method = RankChoice::Method;
  if (choice.method == Method::kFixed) return {};
  const bool ratio = choice.method == Method::kRatio;
  if (ratio ? choice.param >= 1 : choice.param > 0 && choice.param <= 1) return {};
  return Error{.code = ErrorCode::kUsage,
               .message = std::string("--param ") + json_float(choice.param).dump() + " is no " +
                          (ratio ? "ratio of singular values: sv_ratio takes 1 or more."
                                 : "share: this method takes more than 0 and at most 1."),
               .expected = ratio ? ">= 1" : "> 0, <= 1",
               .found = json_float(choice.param).dump()};
}

uint64_t choose_rank(const RankChoice& choice, std::span<const double> values, uint64_t side) noexcept {
  using Method = RankChoice::Method;
  const uint64_t most = std::max<uint64_t>(1, std::min({choice.most, uint64_t{values.size()}, side}));
  if (values.empty() || values[0] <= kZeroMatrix) return 1;
  uint64_t index = 0;
  switch (choice.method) {
    case Method::kFixed:
      return most;
    case Method::kRatio:
      for (const double value : values) index += value > values[0] / choice.param ? 1 : 0;
      break;
    case Method::kCumulative:
      index = first_reaching(values, choice.param, [](double s) { return s; }) + 1;
      break;
    case Method::kFrobenius:
      index = first_reaching(values, choice.param * choice.param, [](double s) { return s * s; }) + 1;
      break;
  }
  index = std::max<uint64_t>(1, std::min(index, side > 0 ? side - 1 : 0));
  return std::min(index + 1, most);
}

double retained_norm(std::span<const double> values, uint64_t n) noexcept {
  double kept = 0, whole = 0;
  for (uint64_t i = 0; i < values.size(); ++i) {
    const double square = values[to_size(i)] * values[to_size(i)];
    whole += square;
    if (i < n) kept += square;
  }
  return whole > 0 ? std::sqrt(kept / whole) : 1;
}

}  // namespace tftf
