// The modules of an adapter that are pairs of factors, with all that a new pair has to agree with.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tftf/transform/adapter_tools.h"

namespace tftf::lowrank {

struct PairModule {
  size_t index = 0;    // in the survey
  std::string stored;  // its name in the file
  AdapterFamily family{};
  TensorRef up{}, down{};
  std::optional<TensorRef> mid{}, alpha{};  // a Tucker form's middle factor
  bool embedding = false;
  bool up_rank_last = true, down_rank_last = false;  // how they are stored
  uint64_t rank = 0, rows = 0, cols = 0;             // of the product; cols with the kernel
  uint64_t down_rank = 0;                            // of the lower factor before `mid`
  Shape kernel{};                                    // of a convolution
  Shape up_tail{};                                   // dimensions of 1 behind those of the upper factor
  double scale = 1;                                  // s
  std::vector<TensorRef> others{};                   // parts that are no factors and no alpha
  bool dora = false;

  bool wide_kernel() const;  // larger than 1 x 1
};

struct AdapterPairs {
  std::vector<PairModule> modules{};
  std::vector<size_t> other_modules{};  // in the survey: forms without a pair
  std::vector<TensorRef> rest{};        // tensors of no module
};

Result<AdapterPairs> read_pairs(const AdapterInput& input);

// The dtype that new factors get: that of the stored ones, wide enough; F8 becomes BF16.
DType factor_dtype(DType a, DType b);

}  // namespace tftf::lowrank
