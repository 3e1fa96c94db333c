// What a colibri reader makes of a NAME / NAME.qs pair: byte counts, the shape the model's configuration
// implies, and a stamp give a format or a named refusal (spec colibri 2). Writers run it before they write,
// the linter after.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tftf/quant/colibri/format.h"

namespace tftf::colibri {

enum class Refusal : uint8_t {
  kFmt6Collision,
  kUnknownWeightBytes,
  kInt8Fp8AmbiguousStamp,
  kUe8m0NotImplemented,
  kScaleBytesMismatch,
  kStampUnrecognized,
  kStampMismatch,
};
// "fmt6-collision", "unknown-weight-bytes", …
std::string_view refusal_class(Refusal refusal);

struct Pair {
  uint64_t rows = 0;                 // O
  uint64_t columns = 0;              // I
  uint64_t weight_bytes = 0;         // of NAME
  uint64_t scale_bytes = 0;          // of NAME.qs
  std::optional<std::string> stamp;  // format name found for NAME, not necessarily a known one
  bool routed = false;               // routed experts never consult their stamp
};

struct Resolution {
  std::optional<Format> format;    // set when the reader accepts
  uint64_t group_size = 0;         // kInt4Grouped only
  std::optional<Refusal> refusal;  // set when it refuses
  Format inferred = Format::kF32;  // what the sizes said before a stamp check refused (for messages)
  bool landmine = false;           // decision D1: both int8-row and fp8 fit the sizes (spec colibri 2 D)
};

// The decisions A to F in their order. Never overflows: sizes that do not fit 64 bits match nothing.
Resolution resolve(const Pair& pair);

}  // namespace tftf::colibri
