// Factors that PEFT has made for the parameters of experts: whether they can be read at all.
#pragma once

#include "container/finding_list.h"
#include "lint/adapter/base_model.h"

namespace tftf {

// LO035. `base`: null without one.
void check_flat_factors(FindingList& list, const Header& header, const JsonValue& config,
                        const BaseModel* base);

}  // namespace tftf
