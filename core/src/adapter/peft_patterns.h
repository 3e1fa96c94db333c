// What adapter_config.json says of modules one by one: a value that most have, and patterns for the others.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tftf/base/json_text.h"

namespace tftf {

// A number of a configuration: whole ones below 1e15 without a point.
OrderedJson config_number(double value);

// A key of rank_pattern or alpha_pattern for this path and those that end in it, as a regular expression: PEFT takes the
// first key that matches behind a dot or at the start.
std::string path_pattern(const std::string& path);

struct PatternedValues {
  double common = 0;  // what most have; of equals the first
  OrderedJson patterns =
      OrderedJson::object();  // for the others, and for modules that a pattern of another would catch
};
// `modules`: their paths without `base_model.model.`, and the value of each.
PatternedValues patterned_values(const std::vector<std::pair<std::string, double>>& modules);

}  // namespace tftf
