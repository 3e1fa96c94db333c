#include "container/dtype_suggestion.h"

#include <optional>

#include "tftf/base/dtype.h"

namespace tftf {
namespace {

struct Alias {
  std::string_view name;  // upper case
  DType dtype;
};
constexpr Alias kAliases[] = {
    {"FP64", DType::F64},
    {"DOUBLE", DType::F64},
    {"FP32", DType::F32},
    {"FLOAT", DType::F32},
    {"FP16", DType::F16},
    {"HALF", DType::F16},
    {"BFLOAT", DType::BF16},
    {"BFP16", DType::BF16},
    {"F8_E4M3FN", DType::F8_E4M3},
    {"FP8_E4M3", DType::F8_E4M3},
    {"FP8_E5M2", DType::F8_E5M2},
    {"E4M3", DType::F8_E4M3},
    {"E5M2", DType::F8_E5M2},
    {"F8_E8M0FNU", DType::F8_E8M0},
    {"E8M0", DType::F8_E8M0},
    {"F4_E2M1", DType::F4},
    {"FP4", DType::F4},
    {"BYTE", DType::U8},
    {"CHAR", DType::I8},
    {"SHORT", DType::I16},
    {"INT", DType::I32},
    {"LONG", DType::I64},
    {"BOOLEAN", DType::BOOL},
    {"COMPLEX64", DType::C64},
};

std::optional<DType> find_near(std::string_view name) {
  if (name.substr(0, 6) == "torch.") name.remove_prefix(6);
  if (auto dtype = find_torch_dtype(name)) return dtype;
  std::string upper(name);
  for (char& c : upper)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
  if (auto dtype = find_dtype(upper)) return dtype;
  for (const Alias& alias : kAliases)
    if (alias.name == upper) return alias.dtype;
  return std::nullopt;
}

}  // namespace

std::string dtype_suggestion(std::string_view name) {
  const auto near = find_near(name);
  return near ? " (did you mean " + std::string(dtype_name(*near)) + "?)" : std::string();
}

}  // namespace tftf
