// The text form of a plan, line by line: a model of 90,000 tensors has 15 MB of it, which is hashed unseen.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "tftf/base/sha256.h"
#include "tftf/plan/plan.h"

namespace tftf {

struct TextOptions {
  bool steps = false;  // the steps of each tensor
  bool tiles = true;   // tile size and counts
};

// `emit` gets pieces of whole lines.
void write_text(const Plan& plan, TextOptions options, const std::function<void(std::string_view)>& emit);

// "FILE:OFFSET+BYTES", a strided one "FILE:OFFSET+BYTESxROWS/STRIDE".
std::string extent_text(const Extent& extent);

// Word that starts the line of an entry, and its name in JSON.
std::string_view entry_kind_name(PlanEntry::Kind kind);

}  // namespace tftf
