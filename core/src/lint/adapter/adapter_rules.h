// The rules of adapters (spec lint-rules 6).
#pragma once

#include <optional>
#include <string>

#include "lint/adapter/base_model.h"
#include "lint/tree.h"
#include "tftf/lint/linter.h"

namespace tftf {

// The folder has adapter_config.json or adapter_model.safetensors.
bool is_adapter_folder(const Tree& tree, const TreeFolder& folder);

struct AdapterOutcome {
  AdapterFacts facts;
  const TreeFile* values = nullptr;  // the weight file whose values LO007 and LO014 judge
};
// LO001 to LO029 but LO014 and the values of alphas, for an adapter folder. `base`: null without --base.
AdapterOutcome check_adapter_folder(Diagnostics& findings, const Tree& tree, const TreeFolder& folder,
                                    const BaseModel* base);

// LO005, LO006, LO007 (alpha tensors), LO016, LO021 to LO029 for a sound file elsewhere. False when it is no
// adapter.
bool check_adapter_file(Diagnostics& findings, const TreeFile& file);

}  // namespace tftf
