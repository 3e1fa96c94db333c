// How GPTQ and AWQ name a module's tensors, and what config.json says of models in them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tftf {

// Of a weight "x.weight": "x.qweight", …
struct QweightNames {
  explicit QweightNames(const std::string& weight);
  std::string qweight, scales, qzeros, g_idx;
};

struct GptqDescription {
  uint32_t bits = 4;
  int64_t group = 128;  // -1: whole rows
  bool symmetric = true;
  bool act_order = false;
  bool v2 = false;
  // Modules that differ from the rest, by the names of their weights.
  struct Other {
    std::string weight;
    uint32_t bits = 4;
    int64_t group = 128;
  };
  std::vector<Other> others{};
};

// The quantization_config as GPTQModel, transformers and vLLM read it. Modules that are no linear layers by their names are
// left out of what is said of `plain_modules`: no reader looks for their codes.
std::string gptq_config(const GptqDescription& description, const std::vector<std::string>& plain_modules);
// As AutoAWQ writes it.
std::string awq_config(int64_t group, const std::vector<std::string>& plain_modules);

}  // namespace tftf
