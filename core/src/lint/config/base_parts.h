// A model against the one that it was made from: modules that are gone.
#pragma once

#include "lint/adapter/base_model.h"
#include "tftf/lint/config_rules.h"

namespace tftf {

// CF062. Nothing where the base is another model, or not whole.
void check_base_parts(Diagnostics& out, const ConfigInput& input, const BaseModel& base);

}  // namespace tftf
