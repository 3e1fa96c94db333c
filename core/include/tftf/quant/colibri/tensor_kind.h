// Which colibri pass takes a source tensor, and as what (spec colibri 4.1.3); the shapes a configuration
// implies (section 5).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "tftf/base/json_value.h"

namespace tftf::colibri {

enum class TensorKind : uint8_t {
  kSkip,
  kConsumed,
  kF32,
  kIo,
  kRouted,
  kShared,
  kOutput,
  kKvB,
  kAttention,
  kDenseMlp,
  kCatchAll
};
// The original's short names: skip, consumed, f32, io, x, sh, o, kvb, attn, dmlp, q.
std::string_view kind_name(TensorKind kind);

struct Pass {
  int64_t layers = 78;   // --n-layers
  bool mtp = false;      // the pass over layer `layers` only
  bool indexer = false;  // the pass over the sparse-attention indexer
};

// First rule that fits, in the order of the specification.
TensorKind classify(std::string_view name, const Pass& pass);
// The kinds whose stamp a reader looks up: sh, o, attn, dmlp, kvb.
bool is_stampable(TensorKind kind);
// The index in "model.layers.<digits>.…", or -1.
int64_t layer_index(std::string_view name);

// [O, I] of a weight by its name, from config.json (spec colibri 5); nothing for names outside the table or
// when the configuration lacks a number it needs (or the product overflows).
std::optional<std::pair<uint64_t, uint64_t>> implied_shape(std::string_view name, const JsonValue& config);

}  // namespace tftf::colibri
