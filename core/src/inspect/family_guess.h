// A model family guessed from tensor names, when no configuration says it.
#pragma once

#include <string>
#include <string_view>

#include "tftf/checkpoint/checkpoint.h"

namespace tftf {

// The model_type that files with such names usually have, and what gave it away; empty when nothing does.
struct FamilyGuess {
  std::string_view family;
  std::string_view evidence;
};
FamilyGuess guess_family(const Checkpoint& checkpoint);

}  // namespace tftf
