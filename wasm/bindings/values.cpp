// Values of tensors for JavaScript: passes over them (statistics, heat maps, comparisons), and decoded runs.
#include <limits>
#include <memory>
#include <optional>

#include "border.h"
#include "model.h"
#include "tftf/inspect/comparison.h"
#include "tftf/inspect/heat_map.h"
#include "tftf/inspect/statistics.h"

namespace tftf::wasm {
namespace {

// As extentAt() of the package reads it.
void push_range(std::vector<double>& numbers, const ShardRange& range) {
  for (const uint64_t number :
       {uint64_t{range.shard}, uint64_t{range.rows}, range.offset, range.row_bytes, range.stride})
    numbers.push_back(to_number(number));
}

// A pass: a pump, then pieces by their numbers.
class ValueWork {
 public:
  using Models = std::vector<std::shared_ptr<const Checkpoint>>;
  ValueWork(Models models, std::unique_ptr<ValuePass> pass)
      : models_(std::move(models)), pass_(std::move(pass)) {}

  // [{"base": of the second model, "file", "offset", "length", "id"}]
  std::string want() {
    OrderedJson list = OrderedJson::array();
    for (ValuePass::SmallRead& read : pass_->want()) {
      OrderedJson line = range_line(read.request.file, read.request.range.offset, read.request.range.length);
      line["base"] = read.model == 1;
      requests_.add(list, std::move(line), std::move(read));
    }
    return json_text(list);
  }
  void supply(uint32_t id, uintptr_t data, uint32_t length) {
    pass_->supply(requests_.at(id), bytes_at(data, length));
  }
  void fail(uint32_t id, const std::string&) { pass_->fail(requests_.at(id)); }
  void start() { need(pass_->start()); }

  double piece_count() const { return to_number(pass_->piece_count()); }
  double bytes() const { return to_number(pass_->bytes()); }
  // Number of ranges, then model, shard, rows, offset, bytes of a row and stride of each.
  uintptr_t piece(double index) {
    const ValuePass::Piece piece = pass_->piece(from_number(index));
    numbers_.clear();
    numbers_.push_back(static_cast<double>(piece.size()));
    for (const ValuePass::Range& range : piece) {
      numbers_.push_back(range.model);
      push_range(numbers_, range.range);
    }
    return reinterpret_cast<uintptr_t>(numbers_.data());
  }
  std::string file(uint32_t model, uint32_t shard) const { return models_[model]->shards[shard].name; }
  // `pointers`: where the ranges of the piece lie.
  void run_piece(double index, uintptr_t pointers) {
    const uint64_t at = from_number(index);
    const ValuePass::Piece piece = pass_->piece(at);
    const auto* table = reinterpret_cast<const uintptr_t*>(pointers);
    std::vector<Bytes> bytes;
    for (size_t i = 0; i < piece.size(); ++i)
      bytes.push_back(bytes_at(table[i], static_cast<uint32_t>(piece[i].range.bytes())));
    pass_->add(at, pass_->run(at, bytes, best_kernels()));
  }
  bool next_stage() { return pass_->next_stage(); }

  std::string json() const { return pass_->to_json(); }
  std::string text(uint32_t width, bool ascii) const {
    if (const auto* statistics = dynamic_cast<const Statistics*>(pass_.get()))
      return statistics_text(statistics->report(), width, ascii);
    if (const auto* comparison = dynamic_cast<const Comparison*>(pass_.get()))
      return comparison_text(comparison->report(), width, ascii);
    return heat_map_text(map());
  }
  // Of a comparison: what is different, empty when nothing counts as it.
  std::string difference() const {
    const auto* comparison = dynamic_cast<const Comparison*>(pass_.get());
    if (comparison == nullptr || !comparison->report().different()) return {};
    return difference_sentence(comparison->report());
  }
  // Tensors that were selected.
  double selected() const {
    if (const auto* statistics = dynamic_cast<const Statistics*>(pass_.get()))
      return to_number(statistics->report().tensors.size());
    const auto* comparison = dynamic_cast<const Comparison*>(pass_.get());
    return comparison == nullptr ? 1 : to_number(comparison->report().pairs.size());
  }
  // Of a heat map: height, width, rows and columns of a cell, whether rows were left out, where means, least,
  // largest (F64) and flags (bytes) lie.
  uintptr_t cells() {
    const HeatCells& picture = map();
    numbers_.clear();
    for (const uint64_t number : {picture.height, picture.width, picture.cell_rows, picture.cell_columns,
                                  uint64_t{picture.sampled ? 1u : 0u}})
      numbers_.push_back(to_number(number));
    for (const void* data :
         {static_cast<const void*>(picture.mean.data()), static_cast<const void*>(picture.low.data()),
          static_cast<const void*>(picture.high.data()), static_cast<const void*>(picture.non_finite.data())})
      numbers_.push_back(static_cast<double>(reinterpret_cast<uintptr_t>(data)));
    return reinterpret_cast<uintptr_t>(numbers_.data());
  }

 private:
  const HeatCells& map() const {
    const auto* pass = dynamic_cast<const HeatMapPass*>(pass_.get());
    if (pass == nullptr) throw Failure{{.code = ErrorCode::kInternal, .message = "This is no heat map."}};
    return pass->map();
  }

  Models models_;  // before the pass, which looks at them to its end
  std::unique_ptr<ValuePass> pass_;
  Requests<ValuePass::SmallRead> requests_;
  std::vector<double> numbers_;
};

// {"include", "exclude", "names", "logical", "bins"}
ValueWork* open_statistics(const Model& model, const std::string& request) {
  const JsonValue given = parse_argument(request);
  StatisticsRequest out;
  out.include = texts_of(given, "include");
  out.exclude = texts_of(given, "exclude");
  out.names = texts_of(given, "names");
  out.logical = flag_of(given, "logical");
  out.bins =
      static_cast<uint32_t>(std::min<uint64_t>(number_of(given, "bins", 0), StatisticsRequest::kMaxBins));
  return new ValueWork({model.shared()}, std::make_unique<Statistics>(model.checkpoint(), std::move(out)));
}

// {"row": of info, or "name", "logical", "rowBegin", "rowEnd", "columnBegin", "columnEnd", "height", "width",
// "maxBytes"}
ValueWork* open_heat_map(Model& model, const std::string& request) {
  const JsonValue given = parse_argument(request);
  constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
  HeatMapRequest out;
  out.tensor = given.get("name") != nullptr
                   ? model.tensor_named(text_of(given, "name"))
                   : model.tensor_ref(static_cast<uint32_t>(number_of(given, "row", 0)));
  out.logical = flag_of(given, "logical");
  out.row_begin = number_of(given, "rowBegin", 0);
  out.row_end = number_of(given, "rowEnd", kNone);
  out.column_begin = number_of(given, "columnBegin", 0);
  out.column_end = number_of(given, "columnEnd", kNone);
  out.height = static_cast<uint32_t>(std::min<uint64_t>(number_of(given, "height", 64), UINT32_MAX));
  out.width = static_cast<uint32_t>(std::min<uint64_t>(number_of(given, "width", 64), UINT32_MAX));
  out.max_bytes = number_of(given, "maxBytes", kNone);
  return new ValueWork({model.shared()}, std::make_unique<HeatMapPass>(model.checkpoint(), out));
}

// {"include", "exclude", "names", "values", "tolerance", "strict"}
ValueWork* open_comparison(const Model& left, const Model& right, const std::string& request) {
  const JsonValue given = parse_argument(request);
  ComparisonRequest out;
  out.include = texts_of(given, "include");
  out.exclude = texts_of(given, "exclude");
  out.names = texts_of(given, "names");
  out.values = flag_of(given, "values");
  out.strict = flag_of(given, "strict");
  out.tolerance = real_of(given, "tolerance", 0);
  return new ValueWork({left.shared(), right.shared()},
                       std::make_unique<Comparison>(left.checkpoint(), right.checkpoint(), std::move(out)));
}

// One tensor, run by run, as stored or as its layout means it.
class TensorView {
 public:
  TensorView(std::shared_ptr<const Checkpoint> checkpoint, TensorRef tensor, bool logical)
      : kept_(std::move(checkpoint)),
        checkpoint_(*kept_),
        tensor_(tensor),
        logical_(logical),
        values_(checkpoint_) {}

  std::string want() {
    OrderedJson list = OrderedJson::array();
    if (!logical_) return json_text(list);
    layouts_ = detect_layouts(checkpoint_, values_);
    for (ReadRequest& request : values_.want()) {
      OrderedJson line = range_line(request.file, request.range.offset, request.range.length);
      requests_.add(list, std::move(line), std::move(request));
    }
    return json_text(list);
  }
  void supply(uint32_t id, uintptr_t data, uint32_t length) {
    values_.supply(requests_.at(id), bytes_at(data, length));
  }
  void fail(uint32_t id, const std::string&) { values_.fail(requests_.at(id)); }

  // {"dtype", "shape", "elements", "rows", "columns"} of what is looked at.
  std::string start() {
    if (logical_) {
      view_ = need(TensorValues::logical(checkpoint_, layouts_, tensor_));
    } else {
      const Shard& shard = checkpoint_.shards[tensor_.shard];
      if (shard.status != ShardStatus::kOk)
        throw Failure{{.code = ErrorCode::kRefusedInput,
                       .message = "The file of this tensor is not sound.",
                       .file = shard.name}};
      view_ = TensorValues::stored(checkpoint_, tensor_);
    }
    if (view_->dtype() == DType::C64)
      throw Failure{{.code = ErrorCode::kRefusedUnsupported,
                     .message = "Complex values cannot be shown.",
                     .tensor = std::string(view_->name())}};
    OrderedJson out;
    out["dtype"] = std::string(dtype_name(view_->dtype()));
    out["shape"] = OrderedJson::array();
    for (const uint64_t dimension : view_->shape()) out["shape"].push_back(to_number(dimension));
    out["elements"] = to_number(view_->elements());
    out["rows"] = to_number(view_->rows());
    out["columns"] = to_number(view_->columns());
    return json_text(out);
  }
  // Number of ranges, then shard, rows, offset, bytes of a row and stride of each.
  uintptr_t ranges(double first, double count) {
    const std::vector<ShardRange> ranges = view_->ranges({from_number(first), from_number(count)});
    numbers_.clear();
    numbers_.push_back(static_cast<double>(ranges.size()));
    lengths_.clear();
    for (const ShardRange& range : ranges) {
      push_range(numbers_, range);
      lengths_.push_back(static_cast<uint32_t>(range.bytes()));
    }
    return reinterpret_cast<uintptr_t>(numbers_.data());
  }
  std::string file(uint32_t shard) const { return checkpoint_.shards[shard].name; }
  // The run of the last ranges(), whose bytes lie at `pointers`, as F64.
  void read(double first, double count, uintptr_t pointers, uintptr_t out) {
    const auto* table = reinterpret_cast<const uintptr_t*>(pointers);
    std::vector<Bytes> bytes;
    for (size_t i = 0; i < lengths_.size(); ++i) bytes.push_back(bytes_at(table[i], lengths_[i]));
    const ElementRange run{from_number(first), from_number(count)};
    const ValueRun values(best_kernels(), *view_, run, bytes);
    values.read(0, run.count, DType::F64, reinterpret_cast<std::byte*>(out));
  }

 private:
  std::shared_ptr<const Checkpoint> kept_;
  const Checkpoint& checkpoint_;
  TensorRef tensor_;
  bool logical_;
  SmallValues values_;
  LayoutReport layouts_;
  Requests<ReadRequest> requests_;
  std::optional<TensorValues> view_;
  std::vector<double> numbers_;
  std::vector<uint32_t> lengths_;
};

TensorView* open_tensor(Model& model, uint32_t row, bool logical) {
  return new TensorView(model.shared(), model.tensor_ref(row), logical);
}

}  // namespace

EMSCRIPTEN_BINDINGS(tftf_values) {
  using namespace emscripten;
  function("openStatistics", guard<&open_statistics>, allow_raw_pointers());
  function("openHeatMap", guard<&open_heat_map>, allow_raw_pointers());
  function("openComparison", guard<&open_comparison>, allow_raw_pointers());
  function("openTensor", guard<&open_tensor>, allow_raw_pointers());
  class_<ValueWork>("ValueWork")
      .function("want", guard<&ValueWork::want>)
      .function("supply", guard<&ValueWork::supply>)
      .function("fail", guard<&ValueWork::fail>)
      .function("start", guard<&ValueWork::start>)
      .function("pieceCount", guard<&ValueWork::piece_count>)
      .function("bytes", guard<&ValueWork::bytes>)
      .function("piece", guard<&ValueWork::piece>)
      .function("file", guard<&ValueWork::file>)
      .function("runPiece", guard<&ValueWork::run_piece>)
      .function("nextStage", guard<&ValueWork::next_stage>)
      .function("json", guard<&ValueWork::json>)
      .function("text", guard<&ValueWork::text>)
      .function("difference", guard<&ValueWork::difference>)
      .function("selected", guard<&ValueWork::selected>)
      .function("cells", guard<&ValueWork::cells>);
  class_<TensorView>("TensorView")
      .function("want", guard<&TensorView::want>)
      .function("supply", guard<&TensorView::supply>)
      .function("fail", guard<&TensorView::fail>)
      .function("start", guard<&TensorView::start>)
      .function("ranges", guard<&TensorView::ranges>)
      .function("file", guard<&TensorView::file>)
      .function("read", guard<&TensorView::read>);
}

}  // namespace tftf::wasm
