// What a writer of colibri containers asks before it writes a pair: would its reader take it for what it is
// (spec colibri 2.4)?
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tftf/base/json_value.h"
#include "tftf/quant/colibri/format.h"

namespace tftf::colibri {

// A NAME / NAME.qs pair that is about to be written.
struct WrittenPair {
  std::string name{};         // of the weight
  uint64_t rows = 0;          // O
  uint64_t columns = 0;       // I
  uint64_t weight_bytes = 0;  // of NAME
  uint64_t scale_bytes = 0;   // of NAME.qs
  Format format{};            // what is written, not kF32
  uint64_t group_size = 0;    // of kInt4Grouped
  // What the reader will find when it looks the weight up: nothing for routed experts, for catch-all tensors
  // and for what is written without stamps.
  std::optional<std::string> stamp{};
};

enum class WriteVerdict : uint8_t {
  kFine,        // read as what it is, or as something of the same values
  kMisread,     // read as something else, silently
  kUnreadable,  // refused by the reader, or nothing that it can use
};

struct WriteCheck {
  WriteVerdict verdict = WriteVerdict::kFine;
  bool refused = false;       // it must not be written; a misread one that is not refused gets a warning
  std::string_view reason{};  // "write-misread", "write-unreadable", empty when fine
  std::string sentence{};     // why, naming tensor, [O,I], the format written and what is read
};

// `strict`: a misreading is refused whatever the format (FP8 always is).
WriteCheck check_written(const WrittenPair& pair, bool strict);

// A reader takes rows and columns from config.json: a sentence when those are others than the weight's, nothing when
// they agree or the configuration (null: none) does not tell.
std::optional<std::string> shape_warning(std::string_view name, uint64_t rows, uint64_t columns,
                                         const JsonValue* config);

}  // namespace tftf::colibri
