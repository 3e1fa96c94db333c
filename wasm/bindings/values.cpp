// One tensor's values for the page: decoded runs, statistics, heat maps.
#include "border.h"
#include "tftf/base/escape.h"
#include "tftf/inspect/value_view.h"

namespace tftf::wasm {
namespace {

DType viewed_dtype(const std::string& name) {
  const std::optional<DType> dtype = find_dtype(name);
  if (!dtype || !can_view(*dtype))
    throw Failure{{.code = ErrorCode::kRefusedUnsupported,
                   .message = "Values of dtype " + quote_name(name) + " cannot be shown."}};
  return *dtype;
}

void decode(const std::string& dtype, uintptr_t data, uint32_t count, uintptr_t out) {
  decode_values(best_kernels(), viewed_dtype(dtype), reinterpret_cast<const std::byte*>(data), count,
                reinterpret_cast<double*>(out));
}

class Statistics {
 public:
  explicit Statistics(DType dtype) : statistics_(best_kernels(), dtype) {}
  void add(uintptr_t data, uint32_t count) {
    statistics_.add(reinterpret_cast<const std::byte*>(data), count);
  }
  void begin_histogram(uint32_t bins) { statistics_.begin_histogram(bins); }
  void add_histogram(uintptr_t data, uint32_t count) {
    statistics_.add_histogram(reinterpret_cast<const std::byte*>(data), count);
  }
  std::string json() const { return json_text(statistics_.to_json()); }

 private:
  RunStatistics statistics_;
};

Statistics* open_statistics(const std::string& dtype) { return new Statistics(viewed_dtype(dtype)); }

class Heat {
 public:
  Heat(DType dtype, uint64_t cols, uint64_t cell_cols, uint32_t height)
      : map_(best_kernels(), dtype, cols, cell_cols, height) {}
  uint32_t width() const { return map_.width(); }
  void add(uint32_t cell_row, double begin, uintptr_t data, uint32_t count) {
    map_.add(cell_row, from_number(begin), reinterpret_cast<const std::byte*>(data), count);
  }
  void finish() { map_.finish(); }
  // Where the cells lie: F32, F32, F32 and bytes.
  uintptr_t mean() const { return reinterpret_cast<uintptr_t>(map_.mean().data()); }
  uintptr_t low() const { return reinterpret_cast<uintptr_t>(map_.low().data()); }
  uintptr_t high() const { return reinterpret_cast<uintptr_t>(map_.high().data()); }
  uintptr_t non_finite() const { return reinterpret_cast<uintptr_t>(map_.non_finite().data()); }

 private:
  HeatMap map_;
};

Heat* open_heat_map(const std::string& dtype, double cols, double cell_cols, uint32_t height) {
  return new Heat(viewed_dtype(dtype), from_number(cols), from_number(cell_cols), height);
}

}  // namespace

EMSCRIPTEN_BINDINGS(tftf_values) {
  using namespace emscripten;
  function("decode", guard<&decode>);
  function("openStatistics", guard<&open_statistics>, allow_raw_pointers());
  function("openHeatMap", guard<&open_heat_map>, allow_raw_pointers());
  class_<Statistics>("Statistics")
      .function("add", guard<&Statistics::add>)
      .function("beginHistogram", guard<&Statistics::begin_histogram>)
      .function("addHistogram", guard<&Statistics::add_histogram>)
      .function("json", guard<&Statistics::json>);
  class_<Heat>("HeatMap")
      .function("width", guard<&Heat::width>)
      .function("add", guard<&Heat::add>)
      .function("finish", guard<&Heat::finish>)
      .function("mean", guard<&Heat::mean>)
      .function("low", guard<&Heat::low>)
      .function("high", guard<&Heat::high>)
      .function("nonFinite", guard<&Heat::non_finite>);
}

}  // namespace tftf::wasm
