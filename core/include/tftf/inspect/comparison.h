// Two checkpoints, tensor by tensor: what is there on one side only, dtypes, shapes, bytes, and how far values lie
// apart (spec cli 2; docs/numerics.md, "Distances").
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/inspect/tensor_values.h"
#include "tftf/inspect/value_pass.h"

namespace tftf {

struct ComparisonRequest {
  // As in StatisticsRequest; a name must be on one side at least.
  std::vector<std::string> include{};
  std::vector<std::string> exclude{};
  std::vector<std::string> names{};
  // Read the data. Quantised weights of layouts that can be read are then compared as the weights that they stand
  // for, and their scales are no tensors of their own. Without: headers and configuration only.
  bool values = false;
  // Greatest relative distance ||left - right|| / ||left|| of a tensor that still counts as close.
  double tolerance = 0;
  // With values: dtypes, layouts, metadata and configuration count, too.
  bool strict = false;
};

// In the order of the summary.
enum class PairStatus : uint8_t {
  kSame,           // dtype, shape and (with values) bytes are equal
  kEqualValues,    // bytes or dtypes differ, no value does
  kClose,          // within the tolerance
  kDifferent,      // values differ
  kDType,          // without values: dtypes differ
  kShape,          // shapes differ
  kOnlyLeft,       //
  kOnlyRight,      //
  kNotComparable,  // of a layout that cannot be read, or complex and of different dtypes
};
inline constexpr size_t kPairStatuses = 9;
// "same", "equal_values", …
std::string_view pair_status_name(PairStatus status);

// How far the values of two tensors x (left) and y (right) lie apart. A NaN equals a NaN, -0 equals +0, an infinity
// one of its sign. Distances are over pairs of finite values.
struct PairDistance {
  uint64_t count = 0;
  uint64_t finite = 0;     // pairs of finite values
  uint64_t differing = 0;  // pairs that are not equal
  uint64_t nan_left = 0;
  uint64_t nan_right = 0;
  uint64_t infinite_left = 0;
  uint64_t infinite_right = 0;
  uint64_t unmatched = 0;  // of the differing ones: where a value is not finite
  double max_abs = 0;      // largest |x - y|
  uint64_t max_abs_at = 0;
  double max_relative = 0;  // largest |x - y| / max(|x|, |y|)
  // Sums of |x - y|, (x - y)^2, x^2, y^2, x * y.
  double sum_abs = 0;
  double sum_difference = 0;
  double sum_left = 0;
  double sum_right = 0;
  double sum_product = 0;

  double mean_abs() const;
  // ||x - y|| / ||x||; infinite when x is zero and y is not.
  double relative() const;
  // Nothing when one side is zero.
  std::optional<double> cosine() const;
  // 10 log10(||x||^2 / ||x - y||^2); infinite when all values are equal, nothing when x is zero.
  std::optional<double> sqnr() const;
};

struct TensorPair {
  std::optional<TensorValues> left{};
  std::optional<TensorValues> right{};
  PairStatus status = PairStatus::kSame;
  std::string reason{};                    // of kNotComparable
  std::optional<PairDistance> distance{};  // where values had to be measured
  std::string_view name() const { return left ? left->name() : right->name(); }
};

// A value of `__metadata__` or of a configuration file that is not the same on both sides; absent: nothing.
struct TextDifference {
  std::string file{};  // empty for metadata
  std::string key{};   // JSON pointer in a file; empty: the whole file
  std::optional<std::string> left{};
  std::optional<std::string> right{};
};

struct ComparisonReport {
  bool values = false;
  double tolerance = 0;
  bool strict = false;
  std::vector<TensorPair> pairs{};  // the left side's reading order, then what only the right side has
  std::vector<TextDifference> metadata{};
  std::vector<TextDifference> config{};
  std::vector<std::string> notes{};

  uint64_t count(PairStatus status) const;
  // The answer. Without values: anything at all differs. With values: names, shapes or values beyond the
  // tolerance; with `strict` dtypes, layouts, metadata and configuration too.
  bool different() const;
};

// Checkpoint number 0 is the left one. Stages: bytes of tensors of one dtype or layout, and of what a quantised
// weight dequantises to; then the values of those that are not equal.
class Comparison final : public ValuePass {
 public:
  // Both must outlive this.
  Comparison(const Checkpoint& left, const Checkpoint& right, ComparisonRequest request);
  ~Comparison() override;

  std::vector<SmallRead> want() override;
  void supply(const SmallRead& read, Bytes bytes) override;
  void fail(const SmallRead& read) override;
  Result<void> start() override;
  uint64_t piece_count() const override;
  Piece piece(uint64_t index) const override;
  uint64_t bytes() const override;
  uint64_t piece_bytes() const override;
  std::unique_ptr<Found> run(uint64_t index, std::span<const Bytes> bytes,
                             const KernelTable& kernels) const override;
  void add(uint64_t index, std::unique_ptr<Found> found) override;
  bool next_stage() override;
  // Tensors that are the same are counted, not listed.
  std::string to_json() const override;

  const ComparisonReport& report() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// For people: `left` and `right` as they were given. `width`: no row of the table is
// longer, 0: nothing is cut. `ascii`: nothing but ASCII.
std::string comparison_text(const ComparisonReport& report, uint32_t width, bool ascii = false);
// "3 tensors differ, 1 is only in the left model." Empty when nothing differs.
std::string difference_sentence(const ComparisonReport& report);

}  // namespace tftf
