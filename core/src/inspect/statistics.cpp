#include "tftf/inspect/statistics.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "inspect/json_parts.h"
#include "inspect/name_selection.h"
#include "inspect/piece_order.h"
#include "inspect/value_choice.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/base/version.h"
#include "tftf/simd/floats.h"

namespace tftf {
namespace {

struct ScanFound final : ValuePass::Found {
  Scan scan;
  MeanSpread spread;
};
struct BinsFound final : ValuePass::Found {
  std::vector<uint64_t> counts;
};

// A tensor to be read: its place in the report.
struct StatisticsTask {
  uint32_t tensor = 0;
  uint64_t pieces = 0;
};

ElementRange piece_run(const TensorValues& values, uint64_t number) {
  const uint64_t first = number * kPieceElements;
  return {first, std::min(kPieceElements, values.elements() - first)};
}

// The values of a chunk where a kernel can read them: in place, or decoded into `buffer`.
const std::byte* chunk_of(const ValueRun& run, const TensorValues& values, uint64_t at, uint64_t count,
                          std::vector<std::byte>& buffer) {
  if (const std::byte* stored = run.stored(at)) return stored;
  buffer.resize(static_cast<size_t>(kChunkElements * sizeof(double)));
  run.read(at, count, values.dtype(), buffer.data());
  return buffer.data();
}

void count_bins(const std::vector<double>& x, size_t count, const ValueHistogram& histogram,
                std::vector<uint64_t>& counts) {
  const auto bins = static_cast<double>(counts.size());
  // Halves, where the distance of the extremes would pass the largest number.
  const double shrink = std::isinf(histogram.high - histogram.low) ? 0.5 : 1;
  const double low = histogram.low * shrink;
  const double width = histogram.high * shrink - low;
  const size_t last = counts.size() - 1;
  for (size_t i = 0; i < count; ++i) {
    const double share = width > 0 ? (x[i] * shrink - low) / width : x[i] * shrink - low;
    if (!(share >= 0 && share <= 1)) continue;  // NaN and infinities
    counts[std::min(static_cast<size_t>(share * bins), last)] += 1;
  }
}

// The exact value of an integer, else the nearest double.
OrderedJson extreme_json(DType dtype, const Scan& scan, int64_t key) {
  if (!scan.has_range()) return OrderedJson();
  const uint64_t bits = scan_bits(dtype, key);
  switch (dtype_info(dtype).kind) {
    case DTypeClass::kUnsigned:
    case DTypeClass::kBool:
      return json_integer(bits);
    case DTypeClass::kSigned:
      return json_integer(key);
    default:
      return json_float(scan_value(dtype, key));
  }
}

OrderedJson position_json(uint64_t index) {
  return index == Scan::kNone ? OrderedJson() : json_integer(index);
}

OrderedJson statistics_json(const ValueStatistics& one) {
  const TensorValues& values = one.values;
  const Scan& scan = one.scan;
  const bool moments = values.dtype() != DType::C64 && one.spread.count > 0;
  OrderedJson out;
  out["name"] = values.name();
  out["file"] = values.tensor().shard;
  out["dtype"] = dtype_name(values.stored_dtype());
  out["shape"] = shape_json(values.stored_shape());
  out["layout"] = text_or_null(values.layout());
  if (values.layout().empty())
    out["logical"] = OrderedJson();
  else
    out["logical"] = {{"dtype", dtype_name(values.dtype())}, {"shape", shape_json(values.shape())}};
  out["count"] = json_integer(scan.count);
  out["nan"] = json_integer(scan.nan);
  out["infinite"] = json_integer(scan.inf);
  out["zero"] = json_integer(scan.zero);
  out["subnormal"] = json_integer(scan.subnormal);
  out["negative"] = json_integer(scan.negative);
  out["first_nan"] = position_json(scan.first_nan);
  out["first_infinite"] = position_json(scan.first_inf);
  out["constant"] = scan.count > 0 && scan.constant;
  out["min"] = extreme_json(values.dtype(), scan, scan.min_key);
  out["max"] = extreme_json(values.dtype(), scan, scan.max_key);
  out["mean"] = moments ? json_float(one.spread.mean) : OrderedJson();
  out["std"] = moments ? json_float(one.deviation()) : OrderedJson();
  out["histogram"] = OrderedJson();
  if (one.histogram) {
    OrderedJson counts = OrderedJson::array();
    for (uint64_t count : one.histogram->counts) counts.push_back(json_integer(count));
    out["histogram"] = {{"low", json_float(one.histogram->low)},
                        {"high", json_float(one.histogram->high)},
                        {"counts", std::move(counts)}};
  }
  return out;
}

}  // namespace

double ValueStatistics::deviation() const {
  return spread.count == 0 ? 0 : std::sqrt(spread.spread / static_cast<double>(spread.count));
}

struct Statistics::State {
  State(const Checkpoint& model, StatisticsRequest asked)
      : checkpoint(model), request(std::move(asked)), values(model) {}

  const Checkpoint& checkpoint;
  StatisticsRequest request;
  SmallValues values;
  std::optional<LayoutReport> layouts;
  StatisticsReport report;
  bool binning = false;               // the second stage
  std::vector<StatisticsTask> tasks;  // of the stage, in the order of the files
  PieceTable pieces;
  PieceOrder order;
  uint64_t bytes = 0;
  uint64_t piece_bytes = 0;

  Result<void> select(ValueChoice choice);
  void plan_stage();
  // Tensor and elements of a piece.
  std::pair<const ValueStatistics*, ElementRange> place(uint64_t piece) const {
    const size_t task = pieces.task_of(piece);
    const ValueStatistics& tensor = report.tensors[tasks[task].tensor];
    return {&tensor, piece_run(tensor.values, piece - pieces.first_of(task))};
  }
};

Result<void> Statistics::State::select(ValueChoice choice) {
  const NameSelection selection(request.include, request.exclude, request.names);
  std::unordered_set<std::string_view> found;
  for (const TensorValues& one : choice.values) {
    if (!selection.takes(one.name())) continue;
    found.insert(one.name());
    report.tensors.push_back({one});
  }
  for (const std::string& name : request.names)
    if (found.count(name) == 0)
      return Error{.code = ErrorCode::kRefusedMissing,
                   .message = "There is no tensor " + quote_name(name) + " to be looked at in " +
                              quote_name(checkpoint.listing.given) + ".",
                   .file = checkpoint.listing.given,
                   .tensor = name};
  report.notes = std::move(choice.notes);
  return {};
}

void Statistics::State::plan_stage() {
  tasks.clear();
  pieces.clear();
  order.restart();
  bytes = 0;
  for (uint32_t i = 0; i < report.tensors.size(); ++i) {
    const ValueStatistics& one = report.tensors[i];
    if (one.values.elements() == 0 || (binning && !one.histogram)) continue;
    tasks.push_back({i, ceil_div(one.values.elements(), kPieceElements)});
  }
  const auto position = [&](const StatisticsTask& task) {
    const TensorRef tensor = report.tensors[task.tensor].values.tensor();
    return std::pair(tensor.shard, checkpoint.info(tensor).begin);
  };
  std::stable_sort(tasks.begin(), tasks.end(), [&](const StatisticsTask& a, const StatisticsTask& b) {
    return position(a) < position(b);
  });
  for (const StatisticsTask& task : tasks) {
    pieces.add_task(task.pieces);
    const TensorValues& one = report.tensors[task.tensor].values;
    for (uint64_t i = 0; i < task.pieces; ++i) {
      const std::vector<ShardRange> ranges = one.ranges(piece_run(one, i));
      uint64_t held = kChunkElements * 3 * sizeof(double);
      for (size_t r = 0; r < ranges.size(); ++r) {
        bytes += ranges[r].bytes();
        held += ranges[r].bytes() * (r == 0 ? 1 : 5);  // scales are widened
      }
      piece_bytes = std::max(piece_bytes, held);
    }
  }
}

Statistics::Statistics(const Checkpoint& checkpoint, StatisticsRequest request)
    : state_(std::make_unique<State>(checkpoint, std::move(request))) {}
Statistics::~Statistics() = default;

std::vector<ValuePass::SmallRead> Statistics::want() {
  std::vector<SmallRead> out;
  if (!state_->request.logical) return out;
  state_->layouts = detect_layouts(state_->checkpoint, state_->values);
  for (ReadRequest& request : state_->values.want()) out.push_back({0, std::move(request)});
  return out;
}

void Statistics::supply(const SmallRead& read, Bytes bytes) { state_->values.supply(read.request, bytes); }
void Statistics::fail(const SmallRead& read) { state_->values.fail(read.request); }

Result<void> Statistics::start() {
  State& s = *state_;
  if (s.request.bins > StatisticsRequest::kMaxBins)
    return Error{.code = ErrorCode::kUsage,
                 .message = "A histogram has at most " + std::to_string(StatisticsRequest::kMaxBins) +
                            " bins, not " + std::to_string(s.request.bins) + ".",
                 .expected = std::to_string(StatisticsRequest::kMaxBins),
                 .found = std::to_string(s.request.bins)};
  s.report.logical = s.request.logical;
  if (s.request.logical && !s.layouts) s.layouts = detect_layouts(s.checkpoint, s.values);
  TFTF_TRY(s.select(choose_values(s.checkpoint, s.layouts ? &*s.layouts : nullptr)));
  s.plan_stage();
  return {};
}

uint64_t Statistics::piece_count() const { return state_->pieces.count(); }
uint64_t Statistics::bytes() const { return state_->bytes; }
uint64_t Statistics::piece_bytes() const { return state_->piece_bytes; }

ValuePass::Piece Statistics::piece(uint64_t index) const {
  const auto [tensor, elements] = state_->place(index);
  const std::vector<ShardRange> ranges = tensor->values.ranges(elements);
  Piece out;
  for (const ShardRange& range : ranges) out.push_back({0, range});
  return out;
}

std::unique_ptr<ValuePass::Found> Statistics::run(uint64_t index, std::span<const Bytes> bytes,
                                                  const KernelTable& kernels) const {
  const auto [tensor, elements] = state_->place(index);
  const TensorValues& values = tensor->values;
  const ValueRun run(kernels, values, elements, bytes);
  if (state_->binning) {
    auto found = std::make_unique<BinsFound>();
    found->counts.resize(tensor->histogram->counts.size());
    std::vector<double> x(static_cast<size_t>(kChunkElements));
    for (uint64_t at = 0; at < elements.count; at += kChunkElements) {
      const uint64_t count = std::min(kChunkElements, elements.count - at);
      run.read(at, count, DType::F64, reinterpret_cast<std::byte*>(x.data()));
      count_bins(x, static_cast<size_t>(count), *tensor->histogram, found->counts);
    }
    return found;
  }
  auto found = std::make_unique<ScanFound>();
  Moments moments;
  std::vector<std::byte> buffer;
  for (uint64_t at = 0; at < elements.count; at += kChunkElements) {
    const uint64_t count = std::min(kChunkElements, elements.count - at);
    const std::byte* data = chunk_of(run, values, at, count, buffer);
    kernels.scan(values.dtype(), data, elements.first + at, count, found->scan);
    if (values.dtype() != DType::C64) kernels.moments(values.dtype(), data, at, count, moments);
  }
  found->spread = block_result(moments);
  return found;
}

void Statistics::add(uint64_t index, std::unique_ptr<Found> found) {
  State& s = *state_;
  s.order.add(index, std::move(found), [&](uint64_t piece, const Found& one) {
    ValueStatistics& tensor = s.report.tensors[s.tasks[s.pieces.task_of(piece)].tensor];
    if (s.binning) {
      const auto& counts = static_cast<const BinsFound&>(one).counts;
      for (size_t i = 0; i < counts.size(); ++i) tensor.histogram->counts[i] += counts[i];
      return;
    }
    const auto& seen = static_cast<const ScanFound&>(one);
    merge(tensor.scan, seen.scan);
    append(tensor.spread, seen.spread);
  });
}

bool Statistics::next_stage() {
  State& s = *state_;
  if (s.binning || s.request.bins == 0) return false;
  s.binning = true;
  for (ValueStatistics& one : s.report.tensors) {
    if (!one.scan.has_range() || one.values.dtype() == DType::C64) continue;
    ValueHistogram histogram;
    histogram.low = scan_value(one.values.dtype(), one.scan.min_key);
    histogram.high = scan_value(one.values.dtype(), one.scan.max_key);
    histogram.counts.resize(histogram.low < histogram.high ? s.request.bins : 1);
    one.histogram = std::move(histogram);
  }
  s.plan_stage();
  return s.pieces.count() > 0;
}

const StatisticsReport& Statistics::report() const { return state_->report; }

std::string Statistics::to_json() const {
  const StatisticsReport& report = state_->report;
  OrderedJson head;
  head["tool"] = {{"name", "tftf"}, {"version", version()}};
  head["input"] = state_->checkpoint.listing.given;
  head["logical"] = report.logical;
  std::string out = open_document(head);
  ArrayWriter tensors(out, "tensors");
  for (const ValueStatistics& one : report.tensors) tensors.add(statistics_json(one));
  tensors.close();
  ArrayWriter notes(out, "notes");
  for (const std::string& note : report.notes) notes.add(note);
  notes.close();
  return out.append(kDocumentEnd);
}

}  // namespace tftf
