// Words of adapter tensor names as PEFT and its wrappers write them (spec tftf 4, adapters 1).
#pragma once

#include <string>
#include <string_view>

namespace tftf {

// True when a component of `name` marks an adapter tensor: lora_A, lora_B, lora_embedding_A/B,
// lora_magnitude_vector, hada_*, lokr_*, ia3_l, vera_*, oft_*, token_adapter, modules_to_save …, and the last
// component is none of an optimizer's states.
bool has_adapter_marker(std::string_view name);

// `name` without the components that training wrappers insert anywhere (_fsdp_wrapped_module, _orig_mod,
// module), and cut before "base_model.model." where that occurs.
std::string unwrapped_name(std::string_view name);

}  // namespace tftf
