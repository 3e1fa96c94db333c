// The 22 element types of safetensors (spec safetensors 3.1). Sizes are in bits: F4 and F6 are sub-byte.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tftf {

enum class DType : uint8_t {
#define TFTF_DTYPE(name, bits, rank, align, since, torch, kind) name,
#include "tftf/base/dtypes.def"
#undef TFTF_DTYPE
};

enum class DTypeClass : uint8_t { kBool, kSigned, kUnsigned, kFloat, kComplex };

struct DTypeInfo {
  DType dtype;
  std::string_view name;   // as in a header, case-sensitive
  uint32_t bits;           // of one element
  uint32_t rank;           // the reference writer lays tensors out by descending rank
  uint32_t align;          // bytes of one component
  std::string_view since;  // first version of the reference reader that knows it
  std::string_view torch;  // torch's name, lower-case safetensors name where torch has none
  DTypeClass kind;
};

// All dtypes in rank order.
std::span<const DTypeInfo> all_dtypes();
const DTypeInfo& dtype_info(DType dtype);
inline std::string_view dtype_name(DType dtype) { return dtype_info(dtype).name; }
inline uint32_t dtype_bits(DType dtype) { return dtype_info(dtype).bits; }
inline bool is_floating(DType dtype) { return dtype_info(dtype).kind == DTypeClass::kFloat; }
// The five 8-bit floats with a mantissa (E4M3, E5M2 and their FNUZ forms); F8_E8M0 is a scale, not a weight
// type.
bool is_fp8(DType dtype);
// By header name (case-sensitive); nothing when unknown.
std::optional<DType> find_dtype(std::string_view name);
// By torch or common long name ("bfloat16", "float32", …), ASCII case ignored.
std::optional<DType> find_torch_dtype(std::string_view name);

using Shape = std::vector<uint64_t>;

// Product of the dimensions, left to right, nothing on overflow (an overflow before a 0 counts: spec 3.2). []
// gives 1.
std::optional<uint64_t> element_count(const Shape& shape);
// Bytes of `elements` values: nothing on overflow or when the bits are no whole number of bytes.
std::optional<uint64_t> byte_count(uint64_t elements, DType dtype);
// "[2,3]".
std::string shape_text(const Shape& shape);

}  // namespace tftf
