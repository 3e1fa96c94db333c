// Names of the tensors in a PEFT adapter file, taken apart (spec tftf 4, "Key forms in a saved adapter").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tftf {

// What a tensor is to its module.
enum class PeftPart : uint8_t {
  kLoraA,
  kLoraB,
  kLoraBBias,
  kEmbeddingA,
  kEmbeddingB,
  kMagnitude,
  kLoraE,
  kLoraDiag,
  kHadaW1A,
  kHadaW1B,
  kHadaW2A,
  kHadaW2B,
  kHadaT1,
  kHadaT2,
  kLokrW1,
  kLokrW1A,
  kLokrW1B,
  kLokrW2,
  kLokrW2A,
  kLokrW2B,
  kLokrT2,
  kIa3,
  kVeraLambdaB,
  kVeraLambdaD,
  kVeraA,
  kVeraB,
  kOftR,
  kOftEmbeddingR,
  kBoftR,
  kBoftS,
  kOldOft,
  kHraU,
  kMissBlock,
  kTokenRows,
  kOriginal,  // PEFT's own copy of the base's tensor, beside one of modules_to_save
  kSaved,     // a plain tensor: replaces the base's tensor of that name, or is a new head
};
// The word in names: "lora_A", …; "" for kSaved.
std::string_view peft_part_name(PeftPart part);

struct PeftKey {
  std::string
      module;  // path without prefix, adapter word, trailing `.base_layer`s and `.modules_to_save.<name>`
  PeftPart part = PeftPart::kSaved;
  std::string adapter;    // name of the adapter when the key holds one, else empty
  uint32_t nesting = 0;   // `.base_layer` components at the end of the path: how deep the wrapper sits
  std::string parameter;  // kSaved: last component ("weight", "bias", …); then module + "." + parameter is
                          // the base's name
};

// Takes a name apart. The prefix `base_model.model.` (for VeRA's shared projections `base_model.`) is
// optional; factors are spelled
// `.lora_A.<name>.weight`, `.lora_A.weight`, `.lora_A.<name>` or `.lora_A`. Every name has a reading: kSaved
// when no part word is found.
PeftKey parse_peft_key(std::string_view name);

}  // namespace tftf
