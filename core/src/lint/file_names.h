// What the names of weight files and indexes say (spec lint-rules 4, safetensors 7).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/file_names.h"

namespace tftf {

// Whether `index` is an index of the family PREFIX with VARIANT: PREFIX.safetensors.index[.VARIANT].json; a
// prefix STEM.V without variant (older naming) also has STEM.safetensors.index.V.json.
bool is_family_index(const IndexName& index, std::string_view prefix, std::string_view variant);
// The first of these names, for messages.
std::string family_index_name(std::string_view prefix, std::string_view variant);
// The single file of the same weights: STEM.safetensors or STEM.VARIANT.safetensors.
std::string single_file_name(const IndexName& index);

// The variant that a component's weight file belongs to ("fp16"), empty for the default one; nothing when the
// name is not of a known stem (model, diffusion_pytorch_model, adapter_model). `extension` is cut off first.
std::optional<std::string_view> weight_variant(std::string_view name, std::string_view extension);

// ASCII letters lowered.
std::string fold_case(std::string_view text);

}  // namespace tftf
