// Modules of a model made in memory, opened and decoded.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "header_model.h"
#include "tftf/quant/weight.h"

namespace tftf::test {

// The last module found in that layout.
Result<Weight> open_module(const HeaderModel& model, std::string_view layout);

// Bytes of the elements of one tile as `to`, decoded in pieces of `step` elements; empty when its codes are broken.
std::string decode_tile(const HeaderModel& model, const Weight& weight, ElementRange tile, uint64_t step,
                        const KernelTable& kernels, DType to = DType::F32);
// The same as numbers.
std::vector<float> tile_values(const HeaderModel& model, const Weight& weight, ElementRange tile,
                               uint64_t step, const KernelTable& kernels);

// All elements of the module, which must open.
std::vector<float> module_values(const HeaderModel& model, std::string_view layout);

}  // namespace tftf::test
