// Which names a pass takes: exact ones, globs.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "tftf/base/glob.h"

namespace tftf {

class NameSelection {
 public:
  NameSelection(const std::vector<std::string>& include, const std::vector<std::string>& exclude,
                const std::vector<std::string>& names)
      : include_(globs_of(include)), exclude_(globs_of(exclude)), names_(names.begin(), names.end()) {}

  bool takes(std::string_view name) const {
    return (names_.empty() || names_.count(name) > 0) && glob_selects(include_, exclude_, name);
  }

 private:
  static std::vector<Glob> globs_of(const std::vector<std::string>& patterns) {
    std::vector<Glob> globs;
    for (const std::string& pattern : patterns) globs.emplace_back(pattern);
    return globs;
  }

  std::vector<Glob> include_;
  std::vector<Glob> exclude_;
  std::unordered_set<std::string_view> names_;
};

}  // namespace tftf
