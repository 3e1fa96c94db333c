// What the names of weight files and indexes say (spec lint-rules 4, safetensors 7).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/file_names.h"

namespace tftf {

// The families, PREFIX with VARIANT, that an index is for: STEM with its variant, and in older naming the prefix
// STEM.VARIANT without one.
std::vector<std::pair<std::string, std::string>> families_of(const IndexName& index);
// The index of a family, for messages: PREFIX.safetensors.index[.VARIANT].json.
std::string family_index_name(std::string_view prefix, std::string_view variant);
// The single file of the same weights: STEM.safetensors or STEM.VARIANT.safetensors.
std::string single_file_name(const IndexName& index);

// The variant that a component's weight file belongs to ("fp16"), empty for the default one; nothing when the
// name is not of a known stem (model, diffusion_pytorch_model, adapter_model). `extension` is cut off first.
std::optional<std::string_view> weight_variant(std::string_view name, std::string_view extension);

// ASCII letters lowered.
std::string fold_case(std::string_view text);

}  // namespace tftf
