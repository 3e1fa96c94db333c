// A folder's tensors against the table of their family (rules CF004, CF005, CF010..CF028, CF030, CF033).
#pragma once

#include <optional>

#include "lint/config/family_table.h"
#include "tftf/lint/config_rules.h"

namespace tftf {

struct FamilyCheckInput {
  const ConfigInput& folder;
  const JsonValue& config;  // an object
  std::string_view model_type;
  FamilyChoice choice;
  bool quantised = false;
  std::string file;  // that the findings carry
};

Diagnostics check_family(const FamilyCheckInput& input, std::optional<TiedTensors>* tied);

}  // namespace tftf
