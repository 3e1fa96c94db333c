// A PEFT adapter fitted to a base: its names brought to those that the base has, its adapted experts to the form in which
// the base holds them (spec experts 6). Nothing is computed: factors are cut, stacked and turned.
#pragma once

#include <optional>
#include <string>

#include "tftf/adapter/convert.h"
#include "tftf/base/result.h"
#include "tftf/checkpoint/model_types.h"
#include "tftf/checkpoint/value_scans.h"

namespace tftf {

struct FitOptions {
  const Checkpoint* base = nullptr;     // null: names stay
  std::optional<ExpertForm> experts{};  // kSplit or kFused; nothing: the base's
  std::string model_type{};             // of the base, instead of what its config.json says
  std::string single_name{};            // one file of this name; empty: a folder
};

// Nothing while `scans` wants something: supply it and ask again.
// Refused: what is no PEFT LoRA with a configuration, tensors other than pairs of factors (kRefusedUnsupported), a factor
// without its twin (kRefusedMissing), modules that no naming puts on the base (kRefusedUnmatched) or several do
// (kRefusedAmbiguous), experts that do not fill a container alike, flat factors that have no reading or several.
Result<std::optional<AdapterConversion>> fit_adapter(const Checkpoint& adapter, ValueScans& scans,
                                                     const FitOptions& options);

}  // namespace tftf
