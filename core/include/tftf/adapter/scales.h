// Where the factor s of an adapter's modules comes from, delta = s * B * A (spec adapters 2).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/adapter/families.h"
#include "tftf/base/result.h"
#include "tftf/checkpoint/small_values.h"

namespace tftf {

struct AdapterModule;

// Where the factor comes from.
enum class AdapterScale : uint8_t { kAlpha, kConfig, kMetadata, kImplicit, kUnknown };
// "alpha", "config", "metadata", "implicit", "unknown".
std::string_view adapter_scale_name(AdapterScale scale);

struct AdapterScales {
  AdapterScale kind = AdapterScale::kUnknown;
  std::vector<std::optional<double>> alphas{};   // by module, as it is written; nothing where nothing is
  std::vector<std::optional<double>> factors{};  // by module: s; nothing where it is not known
  std::vector<int64_t> ranks{};      // by module: what a configuration says, 0 where it says nothing
  std::vector<std::string> notes{};  // what was not looked at, sentences without a stop
  std::optional<Error> error{};      // the configuration cannot be used
};

// `family`: the one of the file. Alphas are read through `values`: when it wants something afterwards, supply it and ask
// again. A tensor counts before a configuration, that before metadata. An alpha of a LoHa or LoKr that is 0 means the
// rank, and a LoKr whose two factors are whole has no scale but in PEFT.
AdapterScales find_adapter_scales(const Checkpoint& checkpoint, SmallValues& values,
                                  const std::vector<AdapterModule>& modules,
                                  std::optional<AdapterFamily> family);

// adapter_config.json beside the adapter, when it is an object; else null.
const JsonValue* adapter_config_of(const Checkpoint& checkpoint);
// True of the configuration that MLX writes.
bool is_mlx_adapter_config(const JsonValue& config);
// Families whose scale stands in a configuration: PEFT's.
bool is_peft_family(AdapterFamily family);
// A PEFT module's path as its configuration names it: without `base_model.model.` and trailing `.base_layer`s.
std::string_view peft_module_path(std::string_view module);

}  // namespace tftf
