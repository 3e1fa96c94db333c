// Names in messages and paths, for the resolution of merges.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tftf/adapter/peft_config.h"
#include "tftf/adapter/peft_key.h"

namespace tftf::merging {

std::string listed(const std::vector<std::string>& names);
std::string counted(uint64_t count, std::string_view what);
bool ends_with_component(std::string_view name, std::string_view tail);
// Wrappers inside a path: `attn.base_layer.out_proj` is the base's `attn.out_proj`.
std::string without_wrappers(std::string_view module);
std::string joined(const std::string& module, std::string_view parameter);
// Parts that a method writes.
bool belongs(PeftPart part, PeftMethod method);

}  // namespace tftf::merging
