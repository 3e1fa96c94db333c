// GPTQ v1 or v2: whether the zero points are stored minus one, by the configuration and by their values (spec
// other-quant-layouts 1).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "quant/layout_scan.h"

namespace tftf {

enum class ZeroVerdict : uint8_t {
  kUnknown,  // not read
  kV1,       // every field is 2^(b-1)-1
  kV2,       // every field is 2^(b-1)
  kMixed,
};

// What packed zero points say. `words` holds whole rows of `row_words` I32 each, fields of `bits` bits packed
// along the row (3 bits: 32 fields in three words).
ZeroVerdict judge_zeros(Bytes words, uint64_t row_words, uint32_t bits);

// Collects GPTQ modules and gives each its version once all are known.
class GptqZeros {
 public:
  // Zero points are read while they are at most this many bytes together; the rest follows those read.
  static constexpr uint64_t kSampled = uint64_t{4} << 20;

  explicit GptqZeros(LayoutScan& scan) : scan_(scan) {}
  void add(QuantMatch match) { matches_.push_back(std::move(match)); }
  void claim_all(const QuantFormat& v1, const QuantFormat& v2);

 private:
  struct Declared {
    std::string_view key{};  // of the configuration; empty: it says nothing
    std::string value{};
    bool v2 = false;
    bool auto_round = false;
  };
  Declared declared() const;
  ZeroVerdict read(const QuantMatch& match, uint64_t& budget);

  LayoutScan& scan_;
  std::vector<QuantMatch> matches_;
};

}  // namespace tftf
