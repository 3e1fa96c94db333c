// The weight containers of colibri (spec colibri 1): NAME holds raw bytes (U8), NAME.qs the scales (F32). No
// format number is stored; a reader infers it from byte counts (resolver.h). Formats are named by their
// public names.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace tftf::colibri {

// The reader's internal numbers; kMxfp4 is recognised only and never resolved to.
enum class Format : uint8_t {
  kF32 = 0,
  kInt8Row = 1,
  kInt4Row = 2,
  kInt2Row = 3,
  kInt4Grouped = 4,
  kInt3G64 = 5,
  kE8Lattice = 6,
  kMxfp4 = 7,
  kFp8Block128 = 8,
};

struct FormatInfo {
  Format format;
  std::string_view name;  // public name, as in stamps
  std::string_view id;    // layout id of the registry
  bool stampable;         // the reader's table of stamp names holds it
};

// All nine, in number order. kMxfp4 has no public stamp name.
std::span<const FormatInfo> all_formats();
const FormatInfo& format_info(Format format);
// By public name (spec colibri 1), no aliases.
std::optional<Format> find_format(std::string_view name);
// By stamp text: exactly the eight stampable names.
std::optional<Format> find_stamp(std::string_view stamp);

// Blocks of 128 along a dimension, rounded up.
constexpr uint64_t blocks128(uint64_t n) { return n / 128 + (n % 128 != 0 ? 1 : 0); }

// Bytes of NAME for a [rows, columns] weight; nothing on 64-bit overflow. kF32: the plain tensor.
std::optional<uint64_t> weight_bytes(Format format, uint64_t rows, uint64_t columns);
// Number of F32 values in NAME.qs (0 for kF32 and kMxfp4); `group_size` matters for kInt4Grouped only and
// must be > 0 there.
std::optional<uint64_t> scale_count(Format format, uint64_t rows, uint64_t columns, uint64_t group_size);

// Group sizes that a reader probes for kInt4Grouped, in this order (spec colibri 2 C).
inline constexpr uint64_t kProbedGroupSizes[] = {16, 32, 48, 64, 96, 128, 192, 256};

// True for names that hold ".mlp.experts.": resolved without a stamp (spec colibri 2).
bool is_routed_expert(std::string_view name);

}  // namespace tftf::colibri
