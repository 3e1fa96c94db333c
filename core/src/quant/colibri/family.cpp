// colibri containers: NAME (U8) with NAME.qs, told by byte counts as their reader tells them (spec colibri 1,
// 2).
#include <algorithm>

#include "quant/colibri/weights.h"
#include "quant/families.h"
#include "quant/layout_scan.h"
#include "tftf/base/escape.h"
#include "tftf/quant/colibri/resolver.h"
#include "tftf/quant/colibri/stamps.h"
#include "tftf/quant/colibri/tensor_kind.h"

namespace tftf {
namespace {

constexpr QuantFormat kInt8Row = {.id = "colibri-int8-row",
                                  .title = "colibri int8, one scale per row",
                                  .open = colibri::open_colibri,
                                  .encoder = &colibri::kColibriEncoders[1]};
constexpr QuantFormat kInt4Row = {.id = "colibri-int4-row",
                                  .title = "colibri int4, one scale per row",
                                  .open = colibri::open_colibri,
                                  .encoder = &colibri::kColibriEncoders[2]};
constexpr QuantFormat kInt2Row = {.id = "colibri-int2-row",
                                  .title = "colibri int2, one scale per row",
                                  .open = colibri::open_colibri,
                                  .encoder = &colibri::kColibriEncoders[3]};
constexpr QuantFormat kInt4Grouped = {.id = "colibri-int4-grouped",
                                      .title = "colibri int4, grouped scales",
                                      .open = colibri::open_colibri,
                                      .encoder = &colibri::kColibriEncoders[4]};
constexpr QuantFormat kInt3 = {.id = "colibri-int3-g64",
                               .title = "colibri int3, groups of 64",
                               .open = colibri::open_colibri,
                               .encoder = &colibri::kColibriEncoders[5]};
constexpr QuantFormat kE8 = {.id = "colibri-e8-iq3-lattice",
                             .title = "colibri E8 lattice",
                             .open = colibri::open_colibri,
                             .encoder = &colibri::kColibriEncoders[6]};
constexpr QuantFormat kColibriFp8 = {.id = "colibri-fp8-e4m3-b128",
                                     .title = "colibri FP8, blocks of 128",
                                     .open = colibri::open_colibri,
                                     .encoder = &colibri::kColibriEncoders[8],
                                     .codes = &colibri::kColibriFp8Codes};
constexpr QuantFormat kRans = {
    .id = "colibri-int4-rans256-g0", .title = "colibri int4, range coded", .open = colibri::open_rans_record};
constexpr std::string_view kSuffix = ".qs";
constexpr std::string_view kRansStamp = "int4-rans256-g0";

const QuantFormat* format_of(colibri::Format format) {
  switch (format) {
    case colibri::Format::kInt8Row:
      return &kInt8Row;
    case colibri::Format::kInt4Row:
      return &kInt4Row;
    case colibri::Format::kInt2Row:
      return &kInt2Row;
    case colibri::Format::kInt4Grouped:
      return &kInt4Grouped;
    case colibri::Format::kInt3G64:
      return &kInt3;
    case colibri::Format::kE8Lattice:
      return &kE8;
    case colibri::Format::kFp8Block128:
      return &kColibriFp8;
    case colibri::Format::kF32:
    case colibri::Format::kMxfp4:
      break;
  }
  return nullptr;
}

uint32_t bits_of(const QuantFormat& format) {
  if (&format == &kInt8Row || &format == &kColibriFp8) return 8;
  if (&format == &kInt2Row) return 2;
  return &format == &kInt3 || &format == &kE8 ? 3 : 4;
}

// Stamps of all shards in path order; the first refusal is a note, and what came before it still counts.
colibri::StampMap read_stamps(LayoutScan& scan) {
  colibri::StampMap stamps;
  std::vector<const Shard*> shards;
  for (const Shard& shard : scan.checkpoint().shards) shards.push_back(&shard);
  std::sort(shards.begin(), shards.end(), [](const Shard* a, const Shard* b) { return a->name < b->name; });
  for (const Shard* shard : shards) {
    if (const auto refusal = stamps.ingest(shard->name, shard->header)) {
      scan.note("colibri stamps: " + refusal->detail);
      break;
    }
  }
  return stamps;
}

void detect_pair(LayoutScan& scan, TensorRef scales, const colibri::StampMap& stamps) {
  const std::string_view name = scan.stem(scales, kSuffix);
  const std::optional<TensorRef> weight = scan.find(name);
  if (!weight || scan.info(*weight).dtype != DType::U8) return;
  const TensorInfo& codes = scan.info(*weight);
  auto broken = [&](std::string_view layout, std::string what) {
    scan.problem(layout, name, std::move(what), {weight, scales});
  };
  const TensorInfo& values = scan.info(scales);
  if (values.dtype != DType::F32 || values.shape.size() != 1)
    return broken("colibri", ".qs is " + std::string(dtype_name(values.dtype)) + " " +
                                 shape_text(values.shape) + ", not a row of F32");
  const JsonValue* config = scan.checkpoint().config();
  std::optional<std::pair<uint64_t, uint64_t>> shape;
  if (codes.shape.size() == 2) shape = {codes.shape[0], codes.shape[1]};
  if (config)
    if (const auto implied = colibri::implied_shape(name, *config)) shape = implied;
  QuantMatch match;
  match.module = std::string(name);
  match.weight = *weight;
  match.role = "weight";
  match.companions.push_back({"qs", scales});
  match.logical_dtype = DType::F32;
  const std::optional<std::string> stamp = stamps.find(name);
  if (stamp && *stamp == kRansStamp) {
    match.layout = kRans.id;
    match.bits = 4;
    if (shape) match.logical_shape = Shape{shape->first, shape->second};
    return scan.claim(std::move(match));
  }
  if (!shape)
    return broken("colibri",
                  "its rows and columns are in no config.json, and byte counts alone do not tell the format");
  colibri::Pair pair;
  pair.rows = shape->first;
  pair.columns = shape->second;
  pair.weight_bytes = codes.bytes();
  pair.scale_bytes = values.bytes();
  pair.routed = colibri::is_routed_expert(name);
  if (!pair.routed) pair.stamp = stamp;
  const colibri::Resolution resolution = colibri::resolve(pair);
  const QuantFormat* format = resolution.format ? format_of(*resolution.format) : nullptr;
  if (!format)
    return broken(
        "colibri",
        "[" + std::to_string(pair.rows) + "," + std::to_string(pair.columns) + "] with " +
            std::to_string(pair.weight_bytes) + " and " + std::to_string(pair.scale_bytes) +
            " bytes is refused: " +
            (resolution.refusal ? std::string(colibri::refusal_class(*resolution.refusal)) : "no format"));
  match.layout = format->id;
  match.logical_shape = Shape{pair.rows, pair.columns};
  match.bits = bits_of(*format);
  match.group_size = format == &kInt3 ? 64 : resolution.group_size;
  if (format == &kColibriFp8) match.block[0] = match.block[1] = 128;
  scan.claim(std::move(match));
}

void detect_colibri(LayoutScan& scan) {
  const std::vector<TensorRef> all = scan.ending(kSuffix);
  if (all.empty()) return;
  const colibri::StampMap stamps = read_stamps(scan);
  for (TensorRef scales : all) detect_pair(scan, scales, stamps);
}

constexpr const QuantFormat* kColibriFormats[] = {&kInt8Row, &kInt4Row, &kInt2Row,    &kInt4Grouped,
                                                  &kInt3,    &kE8,      &kColibriFp8, &kRans};

}  // namespace

constexpr QuantFamily kColibriFamily = {"colibri", kColibriFormats, detect_colibri};

}  // namespace tftf
