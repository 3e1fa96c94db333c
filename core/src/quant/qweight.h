// GPTQ and AWQ modules, their geometry checked: what reading, writing and repacking them share.
#pragma once

#include "tftf/quant/encoder.h"
#include "tftf/quant/weight.h"

namespace tftf {

enum class QweightPacking : uint8_t {
  kGptq,  // words along inputs: qweight [K*b/32,N], qzeros along outputs [groups,N*b/32]
  kGemm,  // AWQ: words along outputs, in kAwqOrder: qweight [K,N/8], qzeros [groups,N/8]
  kGemv,  // AWQ: words along inputs: qweight [N,K/8], qzeros [N,Zw], scales [N,8*Zw]
};

// w[n,k] = scales[g,n] * (q[k,n] - z[g,n]), g = g_idx[k], or k / group.
struct QweightGeometry {
  QweightPacking packing{};
  uint32_t bits = 4;
  uint64_t outputs = 0;      // N
  uint64_t inputs = 0;       // K
  uint64_t group = 0;        // inputs of a group; the last may be short
  uint64_t groups = 0;       // rows of scales (of kGemv: columns that count)
  uint64_t scale_width = 0;  // columns of scales
  uint32_t zero_shift = 0;   // z is the stored field and so much more, …
  bool zero_wraps = false;   // … modulo 2^bits
  DType scale = DType::F16;  // F16, BF16 or F32
  bool has_zeros = false;    // else z is 2^(bits-1)
  bool has_index = false;    // g_idx
  uint32_t flip = 0;         // 4 bits: 8 where fields are in two's complement, and z without has_zeros is 8
  bool in_order = false;     // of kGemm: fields are in the order of the columns
  uint64_t words_of_column() const { return inputs * bits / 32 + (inputs * bits % 32 != 0 ? 1 : 0); }
};

// What detection says of a GPTQ module beyond its match (QuantMatch::detail).
struct GptqDetail {
  bool zero_wraps = true;  // auto-round's readers add 1 without
};

struct QweightParts {
  TensorRef codes, scales;
  std::optional<TensorRef> zeros{}, index{};
};
// A module whose tensors the caller has checked.
Weight qweight_weight(const QweightGeometry& geometry, std::string_view layout, const QweightParts& parts);

Result<QweightGeometry> qweight_geometry(const OpenContext& context, const QuantMatch& match);
Result<Weight> open_qweight(OpenContext& context, const QuantMatch& match);

extern const Encoder kGptqV1Encoder;  // qweight_encoder.cpp
extern const Encoder kGptqV2Encoder;
extern const Encoder kAwqGemmEncoder;

extern const CodeLayout kGptqV1Codes;  // qweight_codes.cpp
extern const CodeLayout kGptqV2Codes;
extern const CodeLayout kAwqGemmCodes;

}  // namespace tftf
