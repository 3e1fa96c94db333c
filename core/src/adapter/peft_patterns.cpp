#include "adapter/peft_patterns.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace tftf {

OrderedJson config_number(double value) {
  if (value == std::floor(value) && std::fabs(value) < 1e15) return OrderedJson(static_cast<int64_t>(value));
  return json_float(value);
}

std::string path_pattern(const std::string& path) {
  std::string pattern;
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    if (!plain) pattern += '\\';
    pattern += c;
  }
  return pattern + "$";
}

PatternedValues patterned_values(const std::vector<std::pair<std::string, double>>& modules) {
  PatternedValues values;
  std::map<double, size_t> counts;
  for (const auto& [path, value] : modules) ++counts[value];
  size_t most = 0;
  for (const auto& [path, value] : modules) {
    if (counts[value] <= most) continue;
    most = counts[value];
    values.common = value;
  }
  std::set<std::string_view> keys;
  for (const auto& [path, value] : modules)
    if (value != values.common) keys.insert(path);
  const auto caught = [&](std::string_view path) {
    for (size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.', dot + 1))
      if (keys.count(path.substr(dot + 1)) > 0) return true;
    return false;
  };
  std::vector<std::pair<std::string, double>> chosen;
  for (const auto& [path, value] : modules)
    if (value != values.common || caught(path)) chosen.emplace_back(path, value);
  // The first key that matches decides: the longer path before the one that it ends in.
  std::stable_sort(chosen.begin(), chosen.end(),
                   [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
  for (const auto& [path, value] : chosen) values.patterns[path_pattern(path)] = config_number(value);
  return values;
}

}  // namespace tftf
