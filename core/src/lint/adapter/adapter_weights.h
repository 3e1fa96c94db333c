// An adapter's tensors among themselves, against its configuration and against the base.
#pragma once

#include "container/finding_list.h"
#include "lint/adapter/base_model.h"
#include "lint/adapter/lora_names.h"
#include "tftf/base/json_value.h"

namespace tftf {

// Distinct modules with LoRA factors.
uint64_t count_modules(const Header& header);

// What holds without a configuration: LO005, LO006, LO007 (alpha tensors), LO016.
void check_lora_names(FindingList& list, const LoraTensors& tensors);

// LO031: the file is a whole checkpoint. False when it is not.
bool report_checkpoint(FindingList& list, const Header& header);

// The rules that need a valid LORA configuration and a sound weight file: LO004 to LO020, LO030, LO031. Findings of the
// weight file go to `weights`, those of the configuration to `config_list`. False when LO012 or LO031 ended them.
bool check_adapter_weights(FindingList& weights, FindingList& config_list, const Header& header,
                           const JsonValue& config, const BaseModel* base);

}  // namespace tftf
