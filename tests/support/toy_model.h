// A small model whose conversion uses everything a plan has: a phase that measures, a table made of what it
// found, tensors of one and of two outputs, strided inputs, a resident, copies, literals, several output
// files, side files.
#pragma once

#include <string>
#include <vector>

#include "tftf/plan/plan.h"

namespace tftf::test {

struct ToyModel {
  std::vector<std::string> inputs;   // contents of "in0", "in1"
  std::vector<std::string> outputs;  // what must come out as "toy-00001-of-00003.safetensors" …
  uint64_t sum = 0;                  // what the first phase finds

  // `size`: bytes of the large tensors.
  explicit ToyModel(size_t size);
  static std::string output_name(size_t i);
  // Sides are asked for by name: "config.json" copied, "note.txt" and the index made.
  Result<Plan> plan(uint64_t tile_bytes, bool sides = false, const std::string& command = "toy") const;
};

}  // namespace tftf::test
