#include "tftf/inspect/heat_map.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "inspect/json_parts.h"
#include "inspect/piece_order.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/base/version.h"

namespace tftf {
namespace {

// What is left out between two rows of a part is read along when it is at most so long.
constexpr uint64_t kReadThrough = 1 << 16;
// Rows that are read together when others are left out make up at least so many bytes.
constexpr uint64_t kSampleBytes = 1 << 16;

struct HeatCell {
  double sum = 0;
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  uint64_t finite = 0;
  uint64_t count = 0;
};

struct HeatFound final : ValuePass::Found {
  uint64_t first_cell = 0;  // in its row of cells
  std::vector<HeatCell> cells;
};

// Adds one run: 16 interleaved partial sums, joined as a tree.
void add_run(const double* x, size_t count, HeatCell& cell) {
  double sum[16] = {};
  uint64_t finite = 0;
  double low = cell.low, high = cell.high;
  for (size_t i = 0; i < count; ++i) {
    if (!(std::fabs(x[i]) <= std::numeric_limits<double>::max())) continue;
    ++finite;
    sum[i % 16] += x[i];
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) sum[i] += sum[i + half];
  cell.sum += sum[0];
  cell.low = low;
  cell.high = high;
  cell.finite += finite;
  cell.count += count;
}

}  // namespace

// Pieces never leave their row of cells. A piece is a number of whole rows of the part, or a part of one row.
struct HeatMapPass::State {
  State(const Checkpoint& model, HeatMapRequest asked) : checkpoint(model), request(asked), small(model) {}

  const Checkpoint& checkpoint;
  HeatMapRequest request;
  SmallValues small;
  std::optional<LayoutReport> layouts;
  std::optional<TensorValues> values;
  HeatCells map;
  uint64_t unit_rows = 1;     // of a piece; the last of a row of cells may have fewer
  uint64_t row_parts = 1;     // pieces of a row that is longer than one
  uint64_t part_columns = 0;  // of such a piece
  uint64_t units_per_cell =
      1;  // pieces (by rows) that a full row of cells has, and how many of them are read
  uint64_t kept_per_cell = 1;
  uint64_t pieces = 0;
  uint64_t bytes = 0;
  uint64_t piece_bytes = 0;
  PieceOrder order;
  std::vector<HeatCell> cells;

  // Rows and columns of a piece.
  struct Area {
    uint64_t cell_row = 0;
    uint64_t row = 0, rows = 0;
    uint64_t column = 0, columns = 0;
  };
  Area area(uint64_t piece) const {
    const uint64_t part = piece % row_parts, unit = piece / row_parts;
    Area out;
    out.cell_row = unit / kept_per_cell;
    const uint64_t begin = map.row_begin + out.cell_row * map.cell_rows;
    const uint64_t rows = std::min(map.cell_rows, map.row_end - begin);
    const uint64_t units = ceil_div(rows, unit_rows), kept = std::min(kept_per_cell, units);
    // floor(j * units / kept): spread evenly.
    const uint64_t number = unit % kept_per_cell * units / kept;
    out.row = begin + number * unit_rows;
    out.rows = std::min(unit_rows, begin + rows - out.row);
    out.column = map.column_begin + part * part_columns;
    out.columns = std::min(part_columns, map.column_end - out.column);
    return out;
  }
  ElementRange elements(const Area& area) const {
    const uint64_t columns = values->columns();
    const uint64_t first = area.row * columns + area.column;
    return {first, (area.rows - 1) * columns + area.columns};
  }
  Result<void> check();
  void cut();
};

Result<void> HeatMapPass::State::check() {
  const TensorInfo& info = checkpoint.info(request.tensor);
  const auto refused = [&](ErrorCode code, const std::string& what) {
    const std::string& file = checkpoint.shards[request.tensor.shard].name;
    return Error{.code = code,
                 .message = "Tensor " + quote_name(info.name) + " of " + quote_name(file) + " " + what + ".",
                 .file = file,
                 .tensor = info.name};
  };
  if (checkpoint.shards[request.tensor.shard].status != ShardStatus::kOk)
    return refused(ErrorCode::kRefusedInput, "lies in a file that is not sound");
  if (request.logical) {
    Result<TensorValues> logical = TensorValues::logical(checkpoint, *layouts, request.tensor);
    if (!logical) return std::move(logical).error();
    values = *std::move(logical);
  } else {
    values = TensorValues::stored(checkpoint, request.tensor);
  }
  if (values->dtype() == DType::C64)
    return refused(ErrorCode::kRefusedUnsupported, "holds complex numbers, which have no heat map");
  constexpr uint32_t kMost = HeatMapRequest::kMaxCells;
  if (request.height < 1 || request.width < 1 || request.height > kMost || request.width > kMost)
    return Error{.code = ErrorCode::kUsage,
                 .message = "A heat map has 1 to " + std::to_string(kMost) + " cells down and across."};
  map.row_begin = request.row_begin;
  map.row_end = std::min(request.row_end, values->rows());
  map.column_begin = request.column_begin;
  map.column_end = std::min(request.column_end, values->columns());
  if (values->elements() == 0) {
    map.row_end = map.row_begin = map.column_end = map.column_begin = 0;
    return {};
  }
  if (map.row_begin >= map.row_end || map.column_begin >= map.column_end)
    return Error{
        .code = ErrorCode::kUsage,
        .message = "The part of the heat map is empty, or outside of " + quote_name(info.name) + ".",
        .tensor = info.name,
        .expected = "[" + std::to_string(values->rows()) + "," + std::to_string(values->columns()) + "]"};
  return {};
}

void HeatMapPass::State::cut() {
  const uint64_t rows = map.row_end - map.row_begin, columns = map.column_end - map.column_begin;
  if (rows == 0 || columns == 0) return;
  map.cell_rows = ceil_div(rows, request.height);
  map.cell_columns = ceil_div(columns, request.width);
  map.height = ceil_div(rows, map.cell_rows);
  map.width = ceil_div(columns, map.cell_columns);
  cells.resize(static_cast<size_t>(map.height * map.width));

  const uint64_t bits = dtype_bits(values->stored_dtype());
  const uint64_t all_columns = values->columns();
  const uint64_t gap_bytes = (all_columns - columns) * bits / 8;
  part_columns = std::min(columns, kPieceElements);
  row_parts = ceil_div(columns, part_columns);
  unit_rows = gap_bytes > kReadThrough ? 1 : std::max<uint64_t>(1, kPieceElements / all_columns);
  unit_rows = std::min(unit_rows, map.cell_rows);
  const uint64_t row_bytes = std::max<uint64_t>(1, (unit_rows > 1 ? all_columns : columns) * bits / 8);
  kept_per_cell = ceil_div(map.cell_rows, unit_rows);
  if (rows > request.max_bytes / row_bytes) {
    unit_rows = std::min(unit_rows, std::max<uint64_t>(1, kSampleBytes / row_bytes));
    units_per_cell = ceil_div(map.cell_rows, unit_rows);
    const uint64_t budget = request.max_bytes / (row_bytes * unit_rows) / map.height;
    kept_per_cell = std::clamp<uint64_t>(budget, 1, units_per_cell);
    map.sampled = kept_per_cell < units_per_cell;
  }
  const uint64_t last_rows = rows - (map.height - 1) * map.cell_rows;
  const uint64_t last_kept = std::min(kept_per_cell, ceil_div(last_rows, unit_rows));
  pieces = ((map.height - 1) * kept_per_cell + last_kept) * row_parts;
  for (uint64_t i = 0; i < pieces; ++i) {
    const std::vector<ShardRange> ranges = values->ranges(elements(area(i)));
    uint64_t held = kChunkElements * 3 * sizeof(double);
    for (size_t r = 0; r < ranges.size(); ++r) {
      bytes += ranges[r].bytes();
      held += ranges[r].bytes() * (r == 0 ? 1 : 5);
    }
    piece_bytes = std::max(piece_bytes, held);
  }
}

HeatMapPass::HeatMapPass(const Checkpoint& checkpoint, HeatMapRequest request)
    : state_(std::make_unique<State>(checkpoint, request)) {}
HeatMapPass::~HeatMapPass() = default;

std::vector<ValuePass::SmallRead> HeatMapPass::want() {
  std::vector<SmallRead> out;
  if (!state_->request.logical) return out;
  state_->layouts = detect_layouts(state_->checkpoint, state_->small);
  for (ReadRequest& request : state_->small.want()) out.push_back({0, std::move(request)});
  return out;
}

void HeatMapPass::supply(const SmallRead& read, Bytes bytes) { state_->small.supply(read.request, bytes); }
void HeatMapPass::fail(const SmallRead& read) { state_->small.fail(read.request); }

Result<void> HeatMapPass::start() {
  State& s = *state_;
  if (s.request.logical && !s.layouts) s.layouts = detect_layouts(s.checkpoint, s.small);
  TFTF_TRY(s.check());
  s.cut();
  return {};
}

uint64_t HeatMapPass::piece_count() const { return state_->pieces; }
uint64_t HeatMapPass::bytes() const { return state_->bytes; }
uint64_t HeatMapPass::piece_bytes() const { return state_->piece_bytes; }

ValuePass::Piece HeatMapPass::piece(uint64_t index) const {
  const std::vector<ShardRange> ranges = state_->values->ranges(state_->elements(state_->area(index)));
  Piece out;
  for (const ShardRange& range : ranges) out.push_back({0, range});
  return out;
}

std::unique_ptr<ValuePass::Found> HeatMapPass::run(uint64_t index, std::span<const Bytes> bytes,
                                                   const KernelTable& kernels) const {
  const State& s = *state_;
  const State::Area area = s.area(index);
  const ValueRun run(kernels, *s.values, s.elements(area), bytes);
  const uint64_t all_columns = s.values->columns(), cell_columns = s.map.cell_columns;
  // Columns count from the left edge of the part here.
  const uint64_t left = area.column - s.map.column_begin;
  auto found = std::make_unique<HeatFound>();
  found->first_cell = left / cell_columns;
  found->cells.resize(static_cast<size_t>((left + area.columns - 1) / cell_columns - found->first_cell + 1));
  std::vector<double> x(static_cast<size_t>(kChunkElements));
  auto* const out = reinterpret_cast<std::byte*>(x.data());
  const auto add_segment = [&](const double* at, uint64_t column, uint64_t count) {
    while (count > 0) {
      const uint64_t cell = column / cell_columns;
      const uint64_t length = std::min(count, (cell + 1) * cell_columns - column);
      add_run(at, static_cast<size_t>(length), found->cells[static_cast<size_t>(cell - found->first_cell)]);
      at += static_cast<size_t>(length);
      column += length;
      count -= length;
    }
  };
  if (area.columns > kChunkElements || all_columns > kChunkElements) {
    for (uint64_t row = 0; row < area.rows; ++row)
      for (uint64_t done = 0; done < area.columns; done += kChunkElements) {
        const uint64_t count = std::min(kChunkElements, area.columns - done);
        run.read(row * all_columns + done, count, DType::F64, out);
        add_segment(x.data(), left + done, count);
      }
    return found;
  }
  // Several short rows at a time.
  const uint64_t together = kChunkElements / all_columns;
  for (uint64_t row = 0; row < area.rows; row += together) {
    const uint64_t rows = std::min(together, area.rows - row);
    run.read(row * all_columns, (rows - 1) * all_columns + area.columns, DType::F64, out);
    for (uint64_t i = 0; i < rows; ++i)
      add_segment(x.data() + static_cast<size_t>(i * all_columns), left, area.columns);
  }
  return found;
}

void HeatMapPass::add(uint64_t index, std::unique_ptr<Found> found) {
  State& s = *state_;
  s.order.add(index, std::move(found), [&](uint64_t piece, const Found& one) {
    const auto& seen = static_cast<const HeatFound&>(one);
    const uint64_t first = s.area(piece).cell_row * s.map.width + seen.first_cell;
    for (size_t i = 0; i < seen.cells.size(); ++i) {
      HeatCell& cell = s.cells[static_cast<size_t>(first) + i];
      cell.sum += seen.cells[i].sum;
      cell.low = std::min(cell.low, seen.cells[i].low);
      cell.high = std::max(cell.high, seen.cells[i].high);
      cell.finite += seen.cells[i].finite;
      cell.count += seen.cells[i].count;
    }
  });
}

bool HeatMapPass::next_stage() {
  HeatCells& map = state_->map;
  map.mean.clear(), map.low.clear(), map.high.clear(), map.non_finite.clear();
  for (const HeatCell& cell : state_->cells) {
    const double none = std::numeric_limits<double>::quiet_NaN();
    map.mean.push_back(cell.finite > 0 ? cell.sum / static_cast<double>(cell.finite) : none);
    map.low.push_back(cell.finite > 0 ? cell.low : none);
    map.high.push_back(cell.finite > 0 ? cell.high : none);
    map.non_finite.push_back(cell.finite < cell.count ? 1 : 0);
  }
  return false;
}

const HeatCells& HeatMapPass::map() const { return state_->map; }

std::string HeatMapPass::to_json() const {
  const TensorValues& values = *state_->values;
  const HeatCells& map = state_->map;
  OrderedJson head;
  head["tool"] = {{"name", "tftf"}, {"version", version()}};
  head["input"] = state_->checkpoint.listing.given;
  head["name"] = values.name();
  head["dtype"] = dtype_name(values.stored_dtype());
  head["shape"] = shape_json(values.shape());
  head["layout"] = text_or_null(values.layout());
  head["rows"] = {json_integer(map.row_begin), json_integer(map.row_end)};
  head["columns"] = {json_integer(map.column_begin), json_integer(map.column_end)};
  head["height"] = json_integer(map.height);
  head["width"] = json_integer(map.width);
  head["cell_rows"] = json_integer(map.cell_rows);
  head["cell_columns"] = json_integer(map.cell_columns);
  head["sampled"] = map.sampled;
  std::string out = open_document(head);
  const auto write = [&out](std::string_view key, const std::vector<double>& numbers) {
    ArrayWriter array(out, key);
    for (double number : numbers) array.add(std::isnan(number) ? OrderedJson() : json_float(number));
    array.close();
  };
  write("mean", map.mean);
  write("low", map.low);
  write("high", map.high);
  ArrayWriter bad(out, "non_finite");
  for (size_t i = 0; i < map.non_finite.size(); ++i)
    if (map.non_finite[i] != 0) bad.add(json_integer(uint64_t{i}));
  bad.close();
  return out.append(kDocumentEnd);
}

std::string heat_map_text(const HeatCells& map) {
  constexpr std::string_view kShades = " .:-=+*#%@";
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (double mean : map.mean) {
    if (std::isnan(mean)) continue;
    low = std::min(low, mean);
    high = std::max(high, mean);
  }
  std::string out;
  for (size_t i = 0; i < map.mean.size(); ++i) {
    if (std::isnan(map.mean[i])) {
      out += '!';
    } else {
      const double share = high > low ? (map.mean[i] / 2 - low / 2) / (high / 2 - low / 2) : 0;
      out += kShades[std::min<size_t>(static_cast<size_t>(share * 10), 9)];
    }
    if ((i + 1) % static_cast<size_t>(map.width) == 0) out += '\n';
  }
  return out;
}

}  // namespace tftf
