// Tensor names of LoRA factors (spec lint-rules 6): PEFT's dotted names and the flat ones of kohya's tools.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tftf/container/header.h"

namespace tftf {

enum class LoraPart : uint8_t { kA, kB, kEmbeddingA, kEmbeddingB, kDown, kUp, kMagnitude };
// "lora_A", …, "lora_magnitude_vector".
std::string_view lora_part_name(LoraPart part);

// MODULE.PART, MODULE.PART.weight, MODULE.PART.bias, each also with an adapter's name after PART. Views into
// the tensor's name.
struct LoraName {
  LoraPart part{};
  std::string_view module;   // as stored
  std::string_view adapter;  // empty without one
  bool bias = false;
};
std::optional<LoraName> parse_lora_name(std::string_view tensor);

// "base_model.model.", which PEFT puts before module paths.
inline constexpr std::string_view kPeftPrefix = "base_model.model.";
// The path without it.
std::string_view without_peft_prefix(std::string_view module);

// The two factors of one module.
enum class LoraKind : uint8_t { kLinear, kEmbedding, kFlat };
struct LoraPair {
  std::string_view module;  // as stored
  std::string_view adapter;
  LoraKind kind{};
  const TensorInfo* a = nullptr;
  const TensorInfo* b = nullptr;

  std::string_view path() const { return without_peft_prefix(module); }
  // The factor that starts at zero: B, for embeddings A.
  const TensorInfo* zero_factor() const { return kind == LoraKind::kEmbedding ? a : b; }
  std::optional<uint64_t> rank_a() const;  // dimension 0 of A
  std::optional<uint64_t> rank_b() const;  // dimension 1 of B
};

// All adapter tensors of a header. Views and pointers into it.
struct LoraTensors {
  std::vector<LoraPair> pairs;                // by module, adapter, kind
  std::vector<std::string_view> modules;      // of pairs, by bytes, unique
  std::vector<const TensorInfo*> magnitudes;  // lora_magnitude_vector
  std::vector<const TensorInfo*> factors;     // members of pairs and biases, by name
  std::vector<const TensorInfo*> others;      // no LoRA part, by name
  // First name of each style by bytes, empty without one.
  std::string_view first_peft;
  std::string_view first_flat;
};
LoraTensors find_lora_tensors(const Header& header);
// A module's alpha: MODULE.alpha of a module of these, or any flat `lora_….alpha`.
bool is_alpha_name(const LoraTensors& tensors, std::string_view name);
// Whether any name is that of a factor.
bool has_lora_factors(const Header& header);

}  // namespace tftf
