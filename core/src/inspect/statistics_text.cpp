// `stats` for people: a line per tensor, and bars for histograms.
#include <algorithm>

#include "inspect/text_table.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"
#include "tftf/inspect/statistics.h"

namespace tftf {
namespace {

constexpr size_t kBarCells = 40;

std::string extreme_text(const ValueStatistics& one, int64_t key) {
  if (!one.scan.has_range()) return "-";
  const DType dtype = one.values.dtype();
  if (is_floating(dtype) || dtype == DType::C64) return short_number(scan_value(dtype, key));
  const uint64_t bits = scan_bits(dtype, key);
  return dtype_info(dtype).kind == DTypeClass::kSigned ? std::to_string(key) : std::to_string(bits);
}

std::string count_or_dash(uint64_t count) { return count == 0 ? "-" : grouped_digits(count); }

std::string histogram_text(const ValueHistogram& histogram) {
  uint64_t most = 1;
  for (uint64_t count : histogram.counts) most = std::max(most, count);
  const double width =
      (histogram.high / 2 - histogram.low / 2) / static_cast<double>(histogram.counts.size());
  std::string out;
  for (size_t i = 0; i < histogram.counts.size(); ++i) {
    const uint64_t count = histogram.counts[i];
    const double share = static_cast<double>(count) / static_cast<double>(most);
    // Whatever is there is seen.
    const size_t cells =
        count == 0 ? 0 : std::max<size_t>(1, static_cast<size_t>(share * static_cast<double>(kBarCells)));
    const std::string from = short_number(histogram.low + 2 * width * static_cast<double>(i));
    out += "  " + padded(from, 13) + padded(std::string(cells, '#'), kBarCells + 1) + grouped_digits(count) +
           "\n";
  }
  return out;
}

std::string holders_text(uint64_t tensors, std::string_view what) {
  if (tensors == 0) return "";
  return ", " + grouped_digits(tensors) + (tensors == 1 ? " holds " : " hold ") + std::string(what);
}

// "38 tensors, 285,460 values, 2 hold NaN".
std::string totals_text(const StatisticsReport& report) {
  uint64_t values = 0, nan = 0, infinite = 0;
  for (const ValueStatistics& one : report.tensors) {
    values += one.scan.count;
    nan += one.scan.nan > 0 ? 1 : 0;
    infinite += one.scan.inf > 0 ? 1 : 0;
  }
  return grouped_digits(report.tensors.size()) + (report.tensors.size() == 1 ? " tensor, " : " tensors, ") +
         grouped_digits(values) + (values == 1 ? " value" : " values") + holders_text(nan, "NaN") +
         holders_text(infinite, "infinities");
}

}  // namespace

std::string statistics_text(const StatisticsReport& report, uint32_t width, bool ascii) {
  std::string out;
  for (const std::string& note : report.notes) out += "Note     : " + note + "\n";
  if (report.tensors.empty()) return ascii ? ascii_text(out) : out;
  if (!out.empty()) out += "\n";
  TextTable table({"Key", "Dtype", "Shape", "Min", "Max", "Mean", "Std", "Zeros", "Subnormal", "NaN", "Inf"});
  for (const ValueStatistics& one : report.tensors) {
    const bool moments = one.spread.count > 0;
    std::string dtype(dtype_info(one.values.stored_dtype()).torch);
    if (!one.values.layout().empty())
      dtype = std::string(one.values.layout()) + " " + std::string(dtype_info(one.values.dtype()).torch);
    table.add({escape_text(one.values.name()), std::move(dtype), cross(one.values.shape()),
               extreme_text(one, one.scan.min_key), extreme_text(one, one.scan.max_key),
               moments ? short_number(one.spread.mean) : "-", moments ? short_number(one.deviation()) : "-",
               count_or_dash(one.scan.zero), count_or_dash(one.scan.subnormal), count_or_dash(one.scan.nan),
               count_or_dash(one.scan.inf)});
  }
  table.print(out, width, ascii);
  out += "\n" + totals_text(report) + "\n";
  for (const ValueStatistics& one : report.tensors)
    if (one.histogram)
      out += "\n" + escape_text(one.values.name()) + ", from:\n" + histogram_text(*one.histogram);
  return ascii ? ascii_text(out) : out;
}

}  // namespace tftf
