// Names of modules as patterns: "down_blocks.#.resnets.#.conv1", '#' for a number. The same pattern reads a dotted name
// and one whose dots have become underscores.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tftf {

using PatternNumbers = std::vector<uint64_t>;

// The numbers of a name that is the pattern; nothing when it is not. `flat`: the name has '_' for every '.'.
std::optional<PatternNumbers> match_name(std::string_view pattern, std::string_view name, bool flat);
// The pattern with its numbers filled in, from the first on. Numbers that are left over are not used.
std::string fill_name(std::string_view pattern, std::span<const uint64_t> numbers);
// A dotted name with '_' for every '.'.
std::string flat_name(std::string_view path);

// What a model's modules are called. kPlain: no table knows the name.
enum class NameSpace : uint8_t {
  kPlain,
  kUnet,           // diffusers' UNet of SD1, SD2, SDXL
  kSgm,            // the original code's UNet of the same
  kClip,           // CLIP text encoders
  kT5,             // T5 encoders
  kFlux,           // Flux.1 as its authors and kohya name it, fused
  kFluxDiffusers,  // as diffusers names it, split
  kZImage,         // Z-Image as ComfyUI names it, fused
  kZImageDiffusers
};

struct KnownName {
  NameSpace space = NameSpace::kPlain;
  std::string path;  // dotted
};
// The tables' reading of a name; nothing when none of them has it. `text`: of a text encoder, else of a UNet or a
// transformer.
std::optional<KnownName> find_name(std::string_view name, bool flat, bool text);

}  // namespace tftf
