// What `validate` reports: a model run through pipes with its data, nothing written (spec tftf 3.4).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tftf/base/json_text.h"
#include "tftf/transform/planner.h"

namespace tftf {

// The report of a transform whose examining run is done. Whatever does not fit (broken shards, colliding names,
// shapes and sizes) has been refused before, so the lists of the original that name such things stay empty;
// NaN and infinite values are told and are no failure.
struct ValidationReport {
  const Transform* transform = nullptr;
  uint64_t elapsed_ms = 0;

  // The names of spec tftf 3.4; `with_elapsed`: else null.
  OrderedJson to_json(bool with_elapsed) const;
  // `shards`: with the files that a writing command would make.
  std::string to_text(bool shards) const;
};

}  // namespace tftf
