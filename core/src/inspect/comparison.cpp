#include "tftf/inspect/comparison.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "inspect/comparison_report.h"
#include "inspect/name_selection.h"
#include "inspect/pair_sums.h"
#include "inspect/piece_order.h"
#include "inspect/text_differences.h"
#include "inspect/value_choice.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/simd/cast.h"

namespace tftf {
namespace {

struct BytesFound final : ValuePass::Found {
  bool equal = false;
};
struct DistanceFound final : ValuePass::Found {
  PairDistance distance;
};

ElementRange pair_run(const TensorPair& pair, uint64_t number) {
  const uint64_t first = number * kPieceElements;
  return {first, std::min(kPieceElements, pair.left->elements() - first)};
}

// Equal bytes mean equal values.
bool same_form(const TensorValues& a, const TensorValues& b) {
  if (a.stored_dtype() != b.stored_dtype() || a.layout() != b.layout() || a.shape() != b.shape())
    return false;
  if (!a.quantised() || !b.quantised()) return !a.quantised() && !b.quantised();
  return a.weight()->word == b.weight()->word && a.weight()->key == b.weight()->key && a.dtype() == b.dtype();
}

// What a quantised weight is dequantised to beside `other`: what a conversion to the other's dtype would write.
DType read_as(const TensorValues& one, const TensorValues& other) {
  const DType wanted = other.dtype();
  const bool plain =
      !other.quantised() && (wanted == DType::BF16 || wanted == DType::F16 || wanted == DType::F32);
  return one.quantised() && plain ? wanted : one.dtype();
}

// One side is a quantised weight and the other what it can be dequantised to: equal bytes after that mean equal
// values.
bool meet(const TensorValues& a, const TensorValues& b) {
  return a.quantised() != b.quantised() && read_as(a, b) == read_as(b, a);
}

// Whether a run dequantises to the bytes of the other.
bool dequantises_to(const ValueRun& coded, const ValueRun& plain, DType as, uint64_t count) {
  const size_t size = dtype_bits(as) / 8;
  std::vector<std::byte> narrow(static_cast<size_t>(kChunkElements) * size);
  for (uint64_t at = 0; at < count; at += kChunkElements) {
    const uint64_t length = std::min(kChunkElements, count - at);
    coded.read(at, length, as, narrow.data());
    if (std::memcmp(narrow.data(), plain.stored(at), static_cast<size_t>(length) * size) != 0) return false;
  }
  return true;
}

// Elements [at, at + count) of a side as doubles.
void read_side(const ValueRun& run, DType as, const KernelTable& kernels, uint64_t at, uint64_t count,
               std::vector<std::byte>& narrow, std::vector<double>& out) {
  auto* const doubles = reinterpret_cast<std::byte*>(out.data());
  if (as == DType::F64) return run.read(at, count, DType::F64, doubles);
  run.read(at, count, as, narrow.data());
  cast(kernels, as, DType::F64, narrow.data(), doubles, count);
}

// 64-bit integers that are not equal and whose doubles are.
uint64_t hidden_differences(const std::byte* a, const std::byte* b, const double* x, const double* y,
                            uint64_t count) {
  uint64_t hidden = 0;
  for (size_t i = 0; i < count; ++i)
    hidden += load_le<uint64_t>(a + 8 * i) != load_le<uint64_t>(b + 8 * i) && x[i] == y[i] ? 1 : 0;
  return hidden;
}

bool is_wide_integer(DType dtype) { return dtype == DType::I64 || dtype == DType::U64; }

}  // namespace

struct Comparison::State {
  State(const Checkpoint& a, const Checkpoint& b, ComparisonRequest asked)
      : model{&a, &b}, request(std::move(asked)), small{SmallValues(a), SmallValues(b)} {}

  const Checkpoint* model[2];
  ComparisonRequest request;
  SmallValues small[2];
  std::optional<LayoutReport> layouts[2];
  ComparisonReport report;
  bool measuring = false;       // the second stage
  std::vector<uint32_t> tasks;  // pairs of the stage at hand, in the order of the left files
  std::vector<bool> unequal;    // by pair, after the first stage: to be measured
  PieceTable pieces;
  PieceOrder order;
  uint64_t bytes = 0;
  uint64_t piece_bytes = 0;

  Result<void> pair_up();
  void judge_headers(TensorPair& pair, std::string_view unreadable_left, std::string_view unreadable_right);
  void plan_stage();
  void settle();
  bool waits(const TensorPair& pair) const {
    return pair.left && pair.right && pair.status == PairStatus::kSame && pair.left->elements() > 0;
  }
  std::pair<const TensorPair*, ElementRange> place(uint64_t piece) const {
    const size_t task = pieces.task_of(piece);
    const TensorPair& pair = report.pairs[tasks[task]];
    return {&pair, pair_run(pair, piece - pieces.first_of(task))};
  }
};

// What headers decide; kSame stands for "to be read" with values.
void Comparison::State::judge_headers(TensorPair& pair, std::string_view unreadable_left,
                                      std::string_view unreadable_right) {
  const TensorValues &a = *pair.left, &b = *pair.right;
  if (a.shape() != b.shape()) {
    pair.status = PairStatus::kShape;
    return;
  }
  const bool dtypes = a.stored_dtype() == b.stored_dtype();
  if (!request.values) {
    pair.status = dtypes ? PairStatus::kSame : PairStatus::kDType;
    return;
  }
  const auto refuse = [&pair](std::string reason) {
    pair.status = PairStatus::kNotComparable;
    pair.reason = std::move(reason);
  };
  // Codes of an unknown meaning compare with their like alone.
  const std::string_view layout = !unreadable_left.empty() ? unreadable_left : unreadable_right;
  if (unreadable_left != unreadable_right || (!layout.empty() && !dtypes))
    return refuse("the layout " + std::string(layout) + " cannot be read");
  if ((a.dtype() == DType::C64) != (b.dtype() == DType::C64)) refuse("one side is complex");
}

Result<void> Comparison::State::pair_up() {
  ValueChoice left = choose_values(*model[0], layouts[0] ? &*layouts[0] : nullptr);
  ValueChoice right = choose_values(*model[1], layouts[1] ? &*layouts[1] : nullptr);
  const NameSelection selection(request.include, request.exclude, request.names);
  std::unordered_map<std::string_view, size_t> of_right;
  for (size_t i = 0; i < right.values.size(); ++i) of_right.emplace(right.values[i].name(), i);
  std::vector<bool> paired(right.values.size());
  for (size_t i = 0; i < left.values.size(); ++i) {
    const TensorValues& one = left.values[i];
    if (!selection.takes(one.name())) continue;
    TensorPair pair;
    pair.left = one;
    const auto other = of_right.find(one.name());
    if (other == of_right.end() || paired[other->second]) {
      pair.status = PairStatus::kOnlyLeft;
    } else {
      paired[other->second] = true;
      pair.right = right.values[other->second];
      judge_headers(pair, left.unreadable[i], right.unreadable[other->second]);
    }
    report.pairs.push_back(std::move(pair));
  }
  for (size_t i = 0; i < right.values.size(); ++i) {
    if (paired[i] || !selection.takes(right.values[i].name())) continue;
    TensorPair pair;
    pair.right = right.values[i];
    pair.status = PairStatus::kOnlyRight;
    report.pairs.push_back(std::move(pair));
  }
  std::unordered_map<std::string_view, bool> there;
  for (const TensorPair& pair : report.pairs) there[pair.name()] = true;
  for (const std::string& name : request.names)
    if (there.count(name) == 0)
      return Error{.code = ErrorCode::kRefusedMissing,
                   .message = "There is no tensor " + quote_name(name) + " to be compared in " +
                              quote_name(model[0]->listing.given) + " or " +
                              quote_name(model[1]->listing.given) + ".",
                   .tensor = name};
  for (std::string& note : left.notes) report.notes.push_back("left: " + std::move(note));
  for (std::string& note : right.notes) report.notes.push_back("right: " + std::move(note));
  return {};
}

void Comparison::State::plan_stage() {
  tasks.clear();
  pieces.clear();
  order.restart();
  bytes = 0;
  for (uint32_t i = 0; i < report.pairs.size(); ++i) {
    if (!request.values || !waits(report.pairs[i])) continue;
    const TensorPair& pair = report.pairs[i];
    const bool by_bytes = same_form(*pair.left, *pair.right) || meet(*pair.left, *pair.right);
    if (measuring ? !by_bytes || unequal[i] : by_bytes) tasks.push_back(i);
  }
  const auto position = [&](uint32_t pair) {
    const TensorRef tensor = report.pairs[pair].left->tensor();
    return std::pair(tensor.shard, model[0]->info(tensor).begin);
  };
  std::stable_sort(tasks.begin(), tasks.end(),
                   [&](uint32_t a, uint32_t b) { return position(a) < position(b); });
  for (const uint32_t task : tasks) {
    const TensorPair& pair = report.pairs[task];
    const uint64_t count = ceil_div(pair.left->elements(), kPieceElements);
    pieces.add_task(count);
    for (uint64_t i = 0; i < count; ++i) {
      uint64_t held = kChunkElements * 6 * sizeof(double);
      for (const TensorValues* side : {&*pair.left, &*pair.right}) {
        const std::vector<ShardRange> ranges = side->ranges(pair_run(pair, i));
        for (size_t r = 0; r < ranges.size(); ++r) {
          bytes += ranges[r].bytes();
          held += ranges[r].bytes() * (r == 0 ? 1 : 5);  // scales are widened
        }
      }
      piece_bytes = std::max(piece_bytes, held);
    }
  }
}

// Turns distances into verdicts.
void Comparison::State::settle() {
  for (size_t i = 0; i < report.pairs.size(); ++i) {
    TensorPair& pair = report.pairs[i];
    if (!waits(pair)) {
      // Nothing to be read: empty tensors differ in form only.
      if (pair.left && pair.right && pair.status == PairStatus::kSame && !same_form(*pair.left, *pair.right))
        pair.status = PairStatus::kEqualValues;
      continue;
    }
    if (pair.distance) {
      const PairDistance& distance = *pair.distance;
      if (distance.differing == 0)
        pair.status = PairStatus::kEqualValues;
      else if (report.tolerance > 0 && distance.unmatched == 0 && distance.relative() <= report.tolerance)
        pair.status = PairStatus::kClose;
      else
        pair.status = PairStatus::kDifferent;
    } else if (unequal[i]) {
      pair.status = PairStatus::kDifferent;  // complex
    } else if (!same_form(*pair.left, *pair.right)) {
      pair.status = PairStatus::kEqualValues;
    }
  }
}

Comparison::Comparison(const Checkpoint& left, const Checkpoint& right, ComparisonRequest request)
    : state_(std::make_unique<State>(left, right, std::move(request))) {}
Comparison::~Comparison() = default;

std::vector<ValuePass::SmallRead> Comparison::want() {
  std::vector<SmallRead> out;
  if (!state_->request.values) return out;
  for (uint32_t m = 0; m < 2; ++m) {
    state_->layouts[m] = detect_layouts(*state_->model[m], state_->small[m]);
    for (ReadRequest& request : state_->small[m].want()) out.push_back({m, std::move(request)});
  }
  return out;
}

void Comparison::supply(const SmallRead& read, Bytes bytes) {
  state_->small[read.model].supply(read.request, bytes);
}
void Comparison::fail(const SmallRead& read) { state_->small[read.model].fail(read.request); }

Result<void> Comparison::start() {
  State& s = *state_;
  if (!(s.request.tolerance >= 0))
    return Error{.code = ErrorCode::kUsage, .message = "The tolerance is no number from 0 on."};
  s.report.values = s.request.values;
  s.report.tolerance = s.request.tolerance;
  s.report.strict = s.request.strict;
  for (uint32_t m = 0; m < 2; ++m)
    if (s.request.values && !s.layouts[m]) s.layouts[m] = detect_layouts(*s.model[m], s.small[m]);
  TFTF_TRY(s.pair_up());
  s.report.metadata = metadata_differences(*s.model[0], *s.model[1]);
  s.report.config = config_differences(*s.model[0], *s.model[1]);
  s.unequal.resize(s.report.pairs.size());
  s.plan_stage();
  return {};
}

uint64_t Comparison::piece_count() const { return state_->pieces.count(); }
uint64_t Comparison::bytes() const { return state_->bytes; }
uint64_t Comparison::piece_bytes() const { return state_->piece_bytes; }

ValuePass::Piece Comparison::piece(uint64_t index) const {
  const auto [pair, elements] = state_->place(index);
  Piece out;
  for (uint32_t m = 0; m < 2; ++m) {
    for (const ShardRange& range : (m == 0 ? pair->left : pair->right)->ranges(elements))
      out.push_back({m, range});
  }
  return out;
}

std::unique_ptr<ValuePass::Found> Comparison::run(uint64_t index, std::span<const Bytes> bytes,
                                                  const KernelTable& kernels) const {
  const auto [pair, elements] = state_->place(index);
  const TensorValues &left = *pair->left, &right = *pair->right;
  const size_t of_left = left.range_count();
  if (!state_->measuring && same_form(left, right)) {
    auto found = std::make_unique<BytesFound>();
    found->equal = true;
    for (size_t i = 0; i < of_left; ++i)
      found->equal =
          found->equal && std::memcmp(bytes[i].data(), bytes[of_left + i].data(), bytes[i].size()) == 0;
    return found;
  }
  const ValueRun a(kernels, left, elements, bytes.subspan(0, of_left));
  const ValueRun b(kernels, right, elements, bytes.subspan(of_left));
  if (!state_->measuring) {
    auto found = std::make_unique<BytesFound>();
    found->equal = left.quantised() ? dequantises_to(a, b, right.dtype(), elements.count)
                                    : dequantises_to(b, a, left.dtype(), elements.count);
    return found;
  }
  const DType as_left = read_as(left, right), as_right = read_as(right, left);
  const bool exact = is_wide_integer(left.dtype()) && left.dtype() == right.dtype();
  std::vector<std::byte> narrow(static_cast<size_t>(kChunkElements) * 8);
  std::vector<double> x(static_cast<size_t>(kChunkElements)), y(x.size());
  PairSums sums;
  for (uint64_t at = 0; at < elements.count; at += kChunkElements) {
    const uint64_t count = std::min(kChunkElements, elements.count - at);
    read_side(a, as_left, kernels, at, count, narrow, x);
    read_side(b, as_right, kernels, at, count, narrow, y);
    sums.add(x.data(), y.data(), static_cast<size_t>(count), elements.first + at);
    if (exact) sums.add_differing(hidden_differences(a.stored(at), b.stored(at), x.data(), y.data(), count));
  }
  auto found = std::make_unique<DistanceFound>();
  found->distance = sums.take();
  return found;
}

void Comparison::add(uint64_t index, std::unique_ptr<Found> found) {
  State& s = *state_;
  s.order.add(index, std::move(found), [&](uint64_t piece, const Found& one) {
    const uint32_t number = s.tasks[s.pieces.task_of(piece)];
    if (!s.measuring) {
      if (!static_cast<const BytesFound&>(one).equal) s.unequal[number] = true;
      return;
    }
    std::optional<PairDistance>& distance = s.report.pairs[number].distance;
    if (!distance) distance.emplace();
    append(*distance, static_cast<const DistanceFound&>(one).distance);
  });
}

bool Comparison::next_stage() {
  State& s = *state_;
  if (!s.request.values) return false;
  if (s.measuring) {
    s.settle();
    return false;
  }
  s.measuring = true;
  for (size_t i = 0; i < s.report.pairs.size(); ++i) {
    TensorPair& pair = s.report.pairs[i];
    if (s.unequal[i] && pair.left->dtype() == DType::C64) pair.status = PairStatus::kDifferent;
  }
  s.plan_stage();
  if (s.pieces.count() > 0) return true;
  s.settle();
  return false;
}

const ComparisonReport& Comparison::report() const { return state_->report; }

std::string Comparison::to_json() const {
  return comparison_json(state_->report, state_->model[0]->listing.given, state_->model[1]->listing.given);
}

}  // namespace tftf
