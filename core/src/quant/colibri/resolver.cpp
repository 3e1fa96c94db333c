#include "tftf/quant/colibri/resolver.h"

#include "tftf/base/checked.h"

namespace tftf::colibri {
namespace {

constexpr std::string_view kRefusalClasses[] = {
    "fmt6-collision",        "unknown-weight-bytes", "int8-fp8-ambiguous-stamp",
    "ue8m0-not-implemented", "scale-bytes-mismatch", "stamp-unrecognized",
    "stamp-mismatch"};

bool is_weight(const Pair& pair, Format format) {
  return weight_bytes(format, pair.rows, pair.columns) == pair.weight_bytes;
}

bool has_scales(const Pair& pair, std::optional<uint64_t> count, uint64_t bytes_each) {
  if (!count) return false;
  const auto bytes = checked_mul(*count, bytes_each);
  return bytes == pair.scale_bytes;
}

Resolution refuse(Refusal refusal, Format inferred) {
  Resolution result;
  result.refusal = refusal;
  result.inferred = inferred;
  return result;
}

// E and F: the scales of the chosen format, then the stamp.
Resolution confirm(const Pair& pair, Format format, uint64_t group_size,
                   const std::optional<std::string>& stamp, bool landmine) {
  const uint64_t group = format == Format::kInt4Grouped ? group_size : 1;
  const auto count = scale_count(format, pair.rows, pair.columns, group);
  if (!has_scales(pair, count, 4)) return refuse(Refusal::kScaleBytesMismatch, format);
  if (stamp) {
    const auto stamped = find_stamp(*stamp);
    if (!stamped) return refuse(Refusal::kStampUnrecognized, format);
    if (*stamped != format) return refuse(Refusal::kStampMismatch, format);
  }
  Resolution result;
  result.format = format;
  result.inferred = format;
  result.group_size = format == Format::kInt4Grouped ? group_size : 0;
  result.landmine = landmine;
  return result;
}

// A: the sizes say E8, yet another reading may fit as well (only at 98 columns).
Resolution resolve_e8_signature(const Pair& pair, const std::optional<std::string>& stamp) {
  const bool plain = is_weight(pair, Format::kInt8Row);
  const auto blocks = checked_mul(blocks128(pair.rows), blocks128(pair.columns));
  const bool fp8 = plain && blocks == 1;
  const bool ue8m0 = plain && blocks == 4;
  const bool int8 = plain && pair.rows == 1;
  if (!fp8 && !ue8m0 && !int8) return confirm(pair, Format::kE8Lattice, 0, stamp, false);
  const auto stamped = stamp ? find_stamp(*stamp) : std::nullopt;
  if (stamped == Format::kE8Lattice) return confirm(pair, Format::kE8Lattice, 0, stamp, false);
  if (stamped == Format::kFp8Block128 && fp8) return confirm(pair, Format::kFp8Block128, 0, stamp, false);
  if (stamped == Format::kInt8Row && int8) return confirm(pair, Format::kInt8Row, 0, stamp, false);
  return refuse(Refusal::kFmt6Collision, Format::kE8Lattice);
}

// C: the first probed group size whose scale count fits.
std::optional<uint64_t> probe_group_size(const Pair& pair) {
  for (uint64_t group : kProbedGroupSizes) {
    if (group > pair.columns) break;
    if (has_scales(pair, scale_count(Format::kInt4Grouped, pair.rows, pair.columns, group), 4)) return group;
  }
  return std::nullopt;
}

// D: one byte per weight is int8 with row scales, FP8 with block scales, or FP8 with one-byte scales.
Resolution resolve_byte_weights(const Pair& pair, const std::optional<std::string>& stamp) {
  const auto blocks = scale_count(Format::kFp8Block128, pair.rows, pair.columns, 1);
  const bool row = has_scales(pair, pair.rows, 4);
  const bool block = has_scales(pair, blocks, 4);
  const bool ue8m0 = has_scales(pair, blocks, 1);
  const auto stamped = stamp ? find_stamp(*stamp) : std::nullopt;
  if (row && block) {
    if (!stamp || stamped == Format::kInt8Row) return confirm(pair, Format::kInt8Row, 0, stamp, true);
    if (stamped == Format::kFp8Block128) return confirm(pair, Format::kFp8Block128, 0, stamp, true);
    return refuse(Refusal::kInt8Fp8AmbiguousStamp, Format::kInt8Row);
  }
  if (ue8m0) {
    if (stamped == Format::kInt8Row && row) return confirm(pair, Format::kInt8Row, 0, stamp, false);
    return refuse(Refusal::kUe8m0NotImplemented, Format::kFp8Block128);
  }
  return confirm(pair, block && !row ? Format::kFp8Block128 : Format::kInt8Row, 0, stamp, false);
}

}  // namespace

std::string_view refusal_class(Refusal refusal) { return kRefusalClasses[static_cast<size_t>(refusal)]; }

Resolution resolve(const Pair& pair) {
  const std::optional<std::string> stamp = pair.routed ? std::nullopt : pair.stamp;
  if (pair.scale_bytes == 4 && is_weight(pair, Format::kE8Lattice)) return resolve_e8_signature(pair, stamp);
  if (is_weight(pair, Format::kInt8Row)) return resolve_byte_weights(pair, stamp);
  if (is_weight(pair, Format::kInt4Row)) {
    const auto row_bytes = checked_mul(pair.rows, 4);
    if (row_bytes && pair.scale_bytes > *row_bytes)
      if (const auto group = probe_group_size(pair))
        return confirm(pair, Format::kInt4Grouped, *group, stamp, false);
    return confirm(pair, Format::kInt4Row, 0, stamp, false);
  }
  if (is_weight(pair, Format::kInt2Row)) return confirm(pair, Format::kInt2Row, 0, stamp, false);
  if (is_weight(pair, Format::kInt3G64)) return confirm(pair, Format::kInt3G64, 0, stamp, false);
  return refuse(Refusal::kUnknownWeightBytes, Format::kF32);
}

}  // namespace tftf::colibri
