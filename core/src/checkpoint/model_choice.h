// Which files of a listing are the model (spec tftf 1.1, cli 1).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tftf/checkpoint/checkpoint.h"

namespace tftf {

struct ModelChoice {
  std::string index;                   // the index file, empty when there is none
  std::vector<std::string> shards;     // without index: the files, in order
  std::optional<std::string> problem;  // nothing was chosen: why, one sentence
};

// A folder: model.safetensors.index.json or its fp16 or bf16 twin; model.safetensors; the weights of an
// adapter folder; the only index; the only .safetensors file; one complete numbered family without index, or the files of one colibri
// container (out-NNNNN), which have none. An index that stands alone is taken before a lone file, since the file may be one of its shards.
ModelChoice choose_model(const ModelListing& listing);

}  // namespace tftf
