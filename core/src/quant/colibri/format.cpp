#include "tftf/quant/colibri/format.h"

#include "tftf/base/checked.h"

namespace tftf::colibri {
namespace {

constexpr FormatInfo kFormats[] = {
    {Format::kF32, "f32", "colibri-f32", true},
    {Format::kInt8Row, "int8-row", "colibri-int8-row", true},
    {Format::kInt4Row, "int4-row", "colibri-int4-row", true},
    {Format::kInt2Row, "int2-row", "colibri-int2-row", true},
    {Format::kInt4Grouped, "int4-grouped", "colibri-int4-grouped", true},
    {Format::kInt3G64, "int3-g64", "colibri-int3-g64", true},
    {Format::kE8Lattice, "e8-iq3-lattice", "colibri-e8-iq3-lattice", true},
    {Format::kMxfp4, "mxfp4", "colibri-mxfp4", false},
    {Format::kFp8Block128, "fp8-e4m3-b128", "colibri-fp8-e4m3-b128", true},
};

}  // namespace

std::span<const FormatInfo> all_formats() { return kFormats; }

const FormatInfo& format_info(Format format) { return kFormats[static_cast<size_t>(format)]; }

std::optional<Format> find_format(std::string_view name) {
  for (const FormatInfo& info : kFormats)
    if (info.name == name) return info.format;
  return std::nullopt;
}

std::optional<Format> find_stamp(std::string_view stamp) {
  const auto format = find_format(stamp);
  if (format && !format_info(*format).stampable) return std::nullopt;
  return format;
}

std::optional<uint64_t> weight_bytes(Format format, uint64_t rows, uint64_t columns) {
  switch (format) {
    case Format::kF32: {
      const auto elements = checked_mul(rows, columns);
      return elements ? checked_mul(*elements, 4) : std::nullopt;
    }
    case Format::kInt8Row:
    case Format::kFp8Block128:
      return checked_mul(rows, columns);
    case Format::kInt4Row:
    case Format::kInt4Grouped:
    case Format::kMxfp4:
      return checked_mul(rows, ceil_div(columns, 2));
    case Format::kInt2Row:
      return checked_mul(rows, ceil_div(columns, 4));
    case Format::kInt3G64: {
      const auto row = checked_mul(ceil_div(columns, 64), 24);
      return row ? checked_mul(rows, *row) : std::nullopt;
    }
    case Format::kE8Lattice: {
      const auto row = checked_mul(ceil_div(columns, 256), 98);
      return row ? checked_mul(rows, *row) : std::nullopt;
    }
  }
  return std::nullopt;
}

std::optional<uint64_t> scale_count(Format format, uint64_t rows, uint64_t columns, uint64_t group_size) {
  switch (format) {
    case Format::kF32:
    case Format::kMxfp4:
      return 0;
    case Format::kInt8Row:
    case Format::kInt4Row:
    case Format::kInt2Row:
      return rows;
    case Format::kInt4Grouped:
      return checked_mul(rows, ceil_div(columns, group_size));
    case Format::kInt3G64:
      return checked_mul(rows, ceil_div(columns, 64));
    case Format::kE8Lattice:
      return 1;
    case Format::kFp8Block128:
      return checked_mul(blocks128(rows), blocks128(columns));
  }
  return std::nullopt;
}

bool is_routed_expert(std::string_view name) { return name.find(".mlp.experts.") != std::string_view::npos; }

}  // namespace tftf::colibri
