// An adapter in the names, the layout and the scale of another family (spec adapters 6 to 8, 13): what its tensors become,
// decided from headers, the configuration, alphas, and the few values that decide something.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tftf/adapter/families.h"
#include "tftf/adapter/recipe.h"
#include "tftf/base/result.h"
#include "tftf/checkpoint/model_types.h"
#include "tftf/checkpoint/small_values.h"
#include "tftf/checkpoint/value_scans.h"

namespace tftf {

// What can be written.
enum class AdapterTarget : uint8_t { kPeft, kKohya, kDiffusers, kComfy, kMlx };
// "peft", "kohya", "diffusers", "comfy", "mlx".
std::string_view adapter_target_id(AdapterTarget target);
std::optional<AdapterTarget> find_adapter_target(std::string_view id);
// Families of base models that --base-family takes: those that decide about names.
std::span<const std::string_view> adapter_base_families();

struct AdapterConvertOptions {
  AdapterTarget to = AdapterTarget::kPeft;
  std::optional<AdapterFamily> from{};  // of a file that mixes families: the one to convert
  std::string base_family{};            // of the base model, where names do not decide
  std::optional<double> scale{};        // s, where the adapter does not say it
  std::optional<double> alpha{};        // alpha over rank is s, likewise
  bool allow_partial = false;           // what cannot be mapped is left out
  std::string single_name{};            // one file of this name; empty: a folder
  const Checkpoint* base =
      nullptr;  // whose names decide where dots are; PEFT's adapters are fitted to it (fit.h)
  // Of that fit: the form of adapted experts, and the base's type, instead of what the base says.
  std::optional<ExpertForm> experts{};
  std::string model_type{};
};

struct AdapterConversion {
  struct File {
    std::string name;  // relative to the output, '/' between folders
    std::vector<AdapterRecipe> tensors;
  };
  AdapterFamily from{};
  AdapterTarget to{};
  std::string base_family{};
  uint64_t modules = 0;                                       // of the result
  uint64_t mapped = 0;                                        // input tensors, alphas too
  std::vector<std::pair<TensorRef, std::string>> unmapped{};  // with the reason; empty without allow_partial
  std::vector<std::pair<TensorRef, std::string>> dropped{};   // left out on purpose
  std::vector<File> files{};
  std::vector<std::pair<std::string, std::string>> sides{};  // configurations: name and text
  // Metadata of every file: keys that go, and what is added.
  std::vector<std::string> stale_metadata{};
  Metadata metadata{};
  std::vector<std::string> notes{};     // good to know, sentences
  std::vector<std::string> warnings{};  // sentences
};

// Nothing while `values` or `scans` want something: supply it and ask again. Refused: what is no adapter, of several
// families without `from` (kRefusedAmbiguous), positional names (kRefusedUnsupported), an unknown scale (kRefusedMissing), two
// ranks in a pair (kRefusedShape), names that become one (kRefusedCollision), a configuration that cannot be used, and
// without `allow_partial` tensors that have no place in the result (kRefusedUnmatched), with the reason of each kind.
Result<std::optional<AdapterConversion>> convert_adapter(const Checkpoint& checkpoint, SmallValues& values,
                                                         ValueScans& scans,
                                                         const AdapterConvertOptions& options);

}  // namespace tftf
