// The forms of adapters: from the tensors of one module and the shape of one weight to the program that merges them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tftf/adapter/merge.h"
#include "tftf/adapter/peft_key.h"
#include "tftf/adapter/targeting.h"

namespace tftf::merge {

// Tensors of one module and wrapper.
struct ModuleParts {
  std::string module;    // path in the base, wrappers taken out
  uint32_t nesting = 0;  // how deep the wrapper sits
  std::map<PeftPart, const NamedTensor*> parts;

  const TensorData* find(PeftPart part) const;
  bool has(PeftPart part) const { return find(part) != nullptr; }
  bool has_pair() const { return has(PeftPart::kLoraA) && has(PeftPart::kLoraB); }
  bool has_embedding_pair() const { return has(PeftPart::kEmbeddingA) && has(PeftPart::kEmbeddingB); }
  const std::string& first_name() const { return parts.begin()->second->name; }
};

struct FormContext {
  std::shared_ptr<const Adapter> adapter;
  const Targeting* targeting = nullptr;
  const MergeOptions* options = nullptr;
  std::vector<std::string>* notices = nullptr;
  const PeftConfig& config() const { return adapter->config; }
};

using Program = Result<std::shared_ptr<MergeProgram>>;

// `path`: the weight's name without `.weight`, for rank and alpha patterns.
Program low_rank_program(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                         std::string_view path);
Program embedding_program(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                          std::string_view path);
// A parameter of a module (target_parameters): stacked matrices, or one.
Program parameter_program(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                          std::string_view path);
// Whether the pair has the shape of the parameter, in either orientation.
bool fits_parameter(const ModuleParts& parts, const Shape& shape);
// base bias + s * lora_B.bias; `rank`: of the module's pair.
Program bias_program(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                     std::string_view path, uint64_t rank);
Program hadamard_program(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                         std::string_view path);
Program kronecker_program(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                          std::string_view path);
Program vera_program(const FormContext& context, const ModuleParts& parts, const ModuleParts& shared,
                     const TensorView& base, std::string_view path);
// `bias`: the module's bias is scaled too, in a program of its own, when the vector is one of outputs.
Program ia3_program(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                    std::string_view path, bool& scales_bias);
Program ia3_bias_program(const FormContext& context, const ModuleParts& parts, const TensorView& base);
Program rotation_program(const FormContext& context, const ModuleParts& parts, const TensorView& base);
// Rows of an embedding table; `rows` in the order of the stored ones.
Program token_program(const FormContext& context, const NamedTensor& stored,
                      const std::vector<uint64_t>& rows, const TensorView& base);

// Errors that name the adapter's tensor and the base's.
Error form_error(ErrorCode code, const FormContext& context, std::string_view tensor, std::string what,
                 std::string expected = "", std::string found = "");

}  // namespace tftf::merge
