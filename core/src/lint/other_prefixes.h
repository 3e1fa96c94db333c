// The prefixes under which the same modules are stored by the classes of one model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tftf {

inline constexpr std::string_view kModulePrefixes[] = {
    "model.language_model.", "language_model.model.", "model.", "language_model.", "model.text_model.", ""};

// The path with each prefix that it begins with exchanged for each of the others, likeliest first.
inline std::vector<std::string> other_prefixes(std::string_view path) {
  std::vector<std::string> out;
  for (const std::string_view prefix : kModulePrefixes) {
    if (!path.starts_with(prefix)) continue;
    for (const std::string_view other : kModulePrefixes)
      if (other != prefix) out.push_back(std::string(other).append(path.substr(prefix.size())));
  }
  return out;
}

}  // namespace tftf
