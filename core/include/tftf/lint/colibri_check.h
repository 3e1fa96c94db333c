// What the data pass settles about colibri containers (spec colibri 2.3): whether the codes are those of the format that a
// reader takes, and whether every stream of a range-coded record decodes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tftf/base/bytes.h"
#include "tftf/lint/tensor_place.h"
#include "tftf/quant/colibri/format.h"
#include "tftf/quant/colibri/rans.h"

namespace tftf {

// A pair whose reading the data can confirm or refute.
struct ColibriCheck {
  struct Candidate {
    colibri::Format format = colibri::Format::kF32;
    uint64_t group = 0;  // kInt4Grouped
  };
  TensorPlace weight;
  TensorPlace scales;
  uint64_t rows = 0;
  uint64_t columns = 0;
  uint64_t row_bytes = 0;
  uint64_t row_scales = 0;            // 0: one value for all rows (E8's tag)
  bool tag_is_six = false;            // of the E8 tag
  std::vector<Candidate> candidates;  // the reading taken first
};

// What was seen of one candidate. Merges in any order.
struct ColibriSeen {
  bool impossible = false;      // a code that no writer makes
  uint32_t least = UINT32_MAX;  // over groups that are not zero: their largest magnitude
  uint32_t most = 0;            // of all

  bool failed() const { return impossible || (most != 0 && least != most); }
  void merge(const ColibriSeen& other) {
    impossible = impossible || other.impossible;
    least = other.least < least ? other.least : least;
    most = other.most > most ? other.most : most;
  }
};

// Looks at whole rows: `codes` and `scales` are those of as many rows. `seen` is parallel to the candidates.
void scan_colibri_rows(const ColibriCheck& check, Bytes codes, Bytes scales, std::span<ColibriSeen> seen);
// Whether the data are of that candidate: every group that is not zero reaches the largest code of its format's writers.
bool colibri_fits(const ColibriCheck& check, size_t candidate, const ColibriSeen& seen);

// A range-coded record whose streams are to be decoded.
struct RansCheck {
  TensorPlace record;
  uint32_t table = 0;  // in LintResult::rans_tables
};

}  // namespace tftf
