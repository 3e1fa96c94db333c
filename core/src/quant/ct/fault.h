// What does not fit of a module, and the rule that it breaks.
#pragma once

#include <string>
#include <utility>

#include "tftf/diagnostic/diagnostic.h"

namespace tftf::ct {

struct Fault {
  std::string what{};  // a phrase with expected and found; empty: everything fits
  Rule rule = Rule::QT300;

  Fault() = default;
  Fault(const char* text) : what(text) {}
  Fault(std::string text) : what(std::move(text)) {}
  Fault(Rule broken, std::string text) : what(std::move(text)), rule(broken) {}
  bool empty() const { return what.empty(); }
};

}  // namespace tftf::ct
