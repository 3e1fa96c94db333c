// What the configuration files say about quantisation, wherever they say it.
#pragma once

#include <string>
#include <string_view>

#include "tftf/base/json_value.h"
#include "tftf/checkpoint/checkpoint.h"

namespace tftf {

// Pointers live as long as the checkpoint.
struct QuantConfig {
  // config.json's (or params.json's) `quantization_config`, at the top level or in `text_config`, else
  // `compression_config` (spec compressed-tensors 1.1); null when there is none.
  const JsonValue* section = nullptr;
  std::string section_place;             // "config.json quantization_config", …
  const JsonValue* mlx = nullptr;        // config.json `quantization`
  const JsonValue* hf_quant = nullptr;   // hf_quant_config.json `quantization`
  const JsonValue* gptq_file = nullptr;  // quantize_config.json, when it holds GPTQ's keys
  const JsonValue* awq_file = nullptr;   // quant_config.json, when it holds AWQ's keys
  // Lower case: `quant_method`, or what stands in for it ("modelopt", "gptq", "awq", "mlx",
  // "compressed-tensors"); empty without any.
  std::string method;
  std::string method_place;  // where that was found

  // A member of `section`, else of the file that stands in for it.
  const JsonValue* get(std::string_view key) const;
};

QuantConfig read_quant_config(const Checkpoint& checkpoint);

}  // namespace tftf
