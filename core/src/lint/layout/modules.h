// Quantised modules as readers tell them by their tensors' names and dtypes, whatever the configuration says.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tftf/checkpoint/checkpoint.h"

namespace tftf {

enum class ModuleKind : uint8_t {
  kPackedInt,
  kFpQuant,
  kCtPacked,
  kFp8Inv,
  kFp8Scale,
  kMxfp8,
  kFp4I8,
  kNvfp4,
  kMxfp4,
  kU8Scaled,
  kInt8,
  kIntQuark,
  kEetq,
  kBnb,
  kMlx,
  kMxfp4Blocks,
  kAqlm,
  kVptq,
  kHqq,
  kExl3,
  kExl2,
  kQuip,
  kQuanto,
  kSpqr,
  kHiggs
};
std::string_view module_kind_name(ModuleKind kind);
// The codes are small floats, so that a scale's sign and its zero mean something.
bool has_float_codes(ModuleKind kind);

// Views into the checkpoint's names.
struct QuantModule {
  std::string_view name;  // "model.layers.0.self_attn.q_proj"; a stacked expert tensor is its own module
  ModuleKind kind{};
  TensorRef lead;  // the tensor that told it: the codes, where they are one tensor
};

// A tensor that scales a quantised module.
struct ModuleScale {
  TensorRef tensor;
  uint32_t module = 0;    // in QuantModules::all
  std::string_view role;  // "weight_scale_2", …
};

struct QuantModules {
  std::vector<QuantModule> all;  // by name bytes
  std::vector<ModuleScale> scales;
  std::unordered_map<std::string_view, uint32_t> by_name;  // of `all`

  bool holds(std::string_view module) const { return by_name.count(module) != 0; }
};
// Linear in the number of tensors.
QuantModules find_quant_modules(const Checkpoint& checkpoint);

// A name without its last component, and that component; the path is empty without a dot.
struct SplitName {
  std::string_view path;
  std::string_view last;
};
SplitName split_name(std::string_view name);
// gate_up_proj, gate_proj, up_proj, down_proj: tensors of that very name may stack experts.
bool is_stack_name(std::string_view last);
// Whether a path's last component is the name of a projection.
bool is_projection(std::string_view path);
// F16, BF16, F32, F64.
bool is_plain_dtype(DType dtype);

}  // namespace tftf
