#include "tftf/quant/colibri/readings.h"

#include <algorithm>
#include <tuple>

#include "tftf/base/checked.h"

namespace tftf::colibri {

std::pair<uint64_t, uint64_t> group_sizes(uint64_t columns, uint64_t groups) {
  if (groups < 2 || groups > columns) return {0, 0};
  const uint64_t least = ceil_div(columns, groups);
  const uint64_t most = ceil_div(columns, groups - 1) - 1;
  if (least > most) return {0, 0};
  return {least, std::min(most, columns - 1)};
}

std::vector<Reading> possible_readings(uint64_t rows, uint64_t columns, uint64_t weight_bytes_found,
                                       uint64_t scale_bytes) {
  std::vector<Reading> readings;
  if (rows == 0 || columns == 0 || scale_bytes % 4 != 0) return readings;
  for (const FormatInfo& info : all_formats()) {
    if (info.format == Format::kF32 || info.format == Format::kMxfp4) continue;
    if (weight_bytes(info.format, rows, columns) != weight_bytes_found) continue;
    Reading reading;
    reading.format = info.format;
    if (info.format == Format::kInt4Grouped) {
      if (scale_bytes / 4 % rows != 0) continue;
      std::tie(reading.least_group, reading.most_group) = group_sizes(columns, scale_bytes / 4 / rows);
      if (reading.least_group == 0) continue;
    } else if (scale_count(info.format, rows, columns, 1) != scale_bytes / 4) {
      continue;
    }
    readings.push_back(reading);
  }
  return readings;
}

}  // namespace tftf::colibri
