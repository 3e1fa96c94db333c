// Layouts that are read and have no reference bytes of their producer's own code among the golden cases, each with the
// reason and what stands in for them.
#pragma once

#include <string_view>

namespace tftf {

struct LayoutWithoutReference {
  std::string_view layout;
  std::string_view reason;
};

inline constexpr LayoutWithoutReference kLayoutsWithoutReference[] = {
    {"colibri-int4-rans256-g0", "its records must decode to the bytes of int4-row, which have references"},
    {"modelopt-fp8-channel", "one product, as modelopt-fp8, with a scale per row"},
    {"modelopt-int8", "one product, as comfy-int8, which has references"},
    {"deepseek-v4-fp4", "the codes of modelopt-mxfp4, which has references, in tensors of another name"},
    {"comfy-convrot-w4a4", "the rotation of comfy-int8, which has references, over nibbles"},
    {"quark-mxfp6-e3m2",
     "the order of quark-mxfp6-e2m3, which has references, with the other table of values"},
    {"torchao-intx", "the decoder of torchao-int8, which has one; tests/unit/quant/method_layouts_test.cpp"},
    {"torchao-int4", "packed on a GPU only; tests/unit/quant/method_formulas_test.cpp"},
    {"mlx-mxfp8", "MLX runs on Apple's machines; tests/unit/quant/method_formulas_test.cpp"},
    {"mlx-nvfp4", "MLX runs on Apple's machines; tests/unit/quant/method_formulas_test.cpp"},
    {"gemma-int2", "no file of it is seen; tests/unit/quant/method_formulas_test.cpp"},
    {"quanto-qfloat8", "no file of it is seen; tests/unit/quant/method_formulas_test.cpp"},
    {"quanto-qint2", "no file of it is seen; tests/unit/quant/method_formulas_test.cpp"},
};

}  // namespace tftf
