#include "tftf/base/dtype.h"

#include "tftf/base/checked.h"

namespace tftf {
namespace {

using enum DTypeClass;

constexpr DTypeInfo kDTypes[] = {
#define TFTF_DTYPE(name, bits, rank, align, since, torch, kind) \
  {DType::name, #name, bits, rank, align, since, torch, kind},
#include "tftf/base/dtypes.def"
#undef TFTF_DTYPE
};

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  for (size_t i = 0; i < a.size(); ++i)
    if (lower(a[i]) != lower(b[i])) return false;
  return true;
}

}  // namespace

std::span<const DTypeInfo> all_dtypes() { return kDTypes; }

const DTypeInfo& dtype_info(DType dtype) { return kDTypes[static_cast<size_t>(dtype)]; }

bool is_fp8(DType dtype) {
  return dtype == DType::F8_E4M3 || dtype == DType::F8_E5M2 || dtype == DType::F8_E4M3FNUZ ||
         dtype == DType::F8_E5M2FNUZ;
}

std::optional<DType> find_dtype(std::string_view name) {
  for (const DTypeInfo& info : kDTypes)
    if (info.name == name) return info.dtype;
  return std::nullopt;
}

std::optional<DType> find_torch_dtype(std::string_view name) {
  for (const DTypeInfo& info : kDTypes)
    if (equal_ignoring_case(info.torch, name)) return info.dtype;
  return std::nullopt;
}

std::optional<uint64_t> element_count(const Shape& shape) {
  uint64_t n = 1;
  for (uint64_t d : shape) {
    auto product = checked_mul(n, d);
    if (!product) return std::nullopt;
    n = *product;
  }
  return n;
}

std::optional<uint64_t> byte_count(uint64_t elements, DType dtype) {
  auto bits = checked_mul(elements, dtype_bits(dtype));
  if (!bits || *bits % 8 != 0) return std::nullopt;
  return *bits / 8;
}

std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i) text += ',';
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace tftf
