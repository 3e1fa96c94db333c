// One model per layout, in its smallest complete form: what detection must find, and what each loss of a part
// must take away.
#pragma once

#include "header_model.h"

namespace tftf {

struct LayoutCase {
  std::string_view layout;
  std::vector<HeaderTensor> tensors;
  std::string config;
  Metadata metadata;
  std::optional<Shape> logical;  // of the first module
  DType dtype;
  std::vector<std::string> required;  // tensors without which the layout is not there
};

std::vector<LayoutCase> layout_cases();
// Those of the methods that are known by transformers' configuration or by names alone; layout_cases() has them too.
std::vector<LayoutCase> method_layout_cases();

}  // namespace tftf
