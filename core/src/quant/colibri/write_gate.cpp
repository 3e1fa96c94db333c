#include "tftf/quant/colibri/write_gate.h"

#include "tftf/base/escape.h"
#include "tftf/quant/colibri/resolver.h"
#include "tftf/quant/colibri/tensor_kind.h"

namespace tftf::colibri {
namespace {

std::string format_text(Format format, uint64_t group_size) {
  std::string text(format_info(format).name);
  if (format == Format::kInt4Grouped) text += " of groups of " + std::to_string(group_size);
  return text;
}

// The engine looks rows up in these itself, and knows formats 0 to 5 there.
bool is_looked_up(std::string_view name) {
  return layer_index(name) < 0 && (name == "embed_tokens.weight" || name.ends_with(".embed_tokens.weight") ||
                                   name == "lm_head.weight" || name.ends_with(".lm_head.weight"));
}

}  // namespace

WriteCheck check_written(const WrittenPair& pair, bool strict) {
  const std::string what = "Tensor " + quote_name(pair.name) + " [" + std::to_string(pair.rows) + "," +
                           std::to_string(pair.columns) + "], written as " +
                           format_text(pair.format, pair.group_size);
  const auto unreadable = [&](const std::string& why) {
    return WriteCheck{.verdict = WriteVerdict::kUnreadable,
                      .refused = true,
                      .reason = "write-unreadable",
                      .sentence = what + ", " + why + " (write-unreadable)."};
  };
  if (pair.rows == 0 || pair.columns == 0)
    return unreadable("has no elements, which is the same in every format");
  if (is_looked_up(pair.name) && (pair.format == Format::kE8Lattice || pair.format == Format::kFp8Block128))
    return unreadable("could not be used by its reader, which looks up embeddings in formats 0 to 5 only");

  Pair sizes;
  sizes.rows = pair.rows;
  sizes.columns = pair.columns;
  sizes.weight_bytes = pair.weight_bytes;
  sizes.scale_bytes = pair.scale_bytes;
  sizes.stamp = pair.stamp;
  sizes.routed = is_routed_expert(pair.name);
  const Resolution read = resolve(sizes);
  if (!read.format) {
    return unreadable("would be refused by its reader: " +
                      (read.refusal ? std::string(refusal_class(*read.refusal)) : "no format") + ", with " +
                      std::to_string(pair.weight_bytes) + " and " + std::to_string(pair.scale_bytes) +
                      " bytes and " + (sizes.stamp && !sizes.routed ? "its stamp" : "no stamp to consult"));
  }
  const bool grouped = pair.format == Format::kInt4Grouped;
  if (*read.format == pair.format && (!grouped || read.group_size == pair.group_size)) return {};
  // One group per row: the same codes, scales and values.
  if (grouped && pair.columns <= pair.group_size && *read.format == Format::kInt4Row) return {};
  return {.verdict = WriteVerdict::kMisread,
          .refused = strict || pair.format == Format::kFp8Block128,
          .reason = "write-misread",
          .sentence = what + ", would be read as " + format_text(*read.format, read.group_size) +
                      " (write-misread)."};
}

std::optional<std::string> shape_warning(std::string_view name, uint64_t rows, uint64_t columns,
                                         const JsonValue* config) {
  const auto implied = config == nullptr ? std::nullopt : implied_shape(name, *config);
  if (!implied || *implied == std::pair{rows, columns}) return std::nullopt;
  return "Tensor " + quote_name(name) + " is [" + std::to_string(rows) + "," + std::to_string(columns) +
         "], and its reader takes [" + std::to_string(implied->first) + "," +
         std::to_string(implied->second) + "] from config.json.";
}

}  // namespace tftf::colibri
