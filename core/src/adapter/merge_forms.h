// The forms of adapters: from the tensors of one module and the shape of one weight to the program that merges them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "adapter/linear_axes.h"
#include "tftf/adapter/merge.h"
#include "tftf/adapter/peft_key.h"
#include "tftf/adapter/targeting.h"

namespace tftf::merging {

// Tensors of one module and wrapper.
struct ModuleParts {
  std::string module;    // path in the base
  std::string own{};     // path in the adapter, wrappers taken out: what its configuration is about
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
  const LinearAxes* axes = nullptr;
  const PeftConfig& config() const { return adapter->config; }
};

// Ways in which a weight can lie so that it fits the module's tensors.
struct Fits {
  bool straight = false;  // (out, in)
  bool turned = false;    // (in, out)
  bool any() const { return straight || turned; }
};
// Of a matrix, by the tensors of the configured method; neither where the method does not say.
Fits linear_fits(const FormContext& context, const ModuleParts& parts, const Shape& weight);
// Which of the two it is: the shape decides, else LinearAxes, else --linear-axes; refused where none does.
Result<bool> is_turned(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                       Fits fits);

using Program = Result<std::shared_ptr<MergeProgram>>;

// `path`: the weight's name without `.weight`, for rank and alpha patterns.
Program low_rank_program(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                         std::string_view path);
Program embedding_program(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                          std::string_view path);
// A parameter of a module (target_parameters): stacked matrices, or one. `turned`: each is the transpose of B * A.
Program parameter_program(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                          std::string_view path, bool turned);
// One of `matrices` experts that the adapter has stacked, and of its matrix every `step`-th row from `row` on.
struct ExpertRows {
  uint64_t matrices = 1, expert = 0;
  bool turned = false;
  uint64_t row = 0, step = 1;
};
Program expert_program(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                       std::string_view path, const ExpertRows& rows);
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
Program butterfly_program(const FormContext& context, const ModuleParts& parts, const TensorView& base);
Program reflection_program(const FormContext& context, const ModuleParts& parts, const TensorView& base);
Program miss_program(const FormContext& context, const ModuleParts& parts, const TensorView& base);
// AdaLora: B * (A o E).
Program svd_program(const FormContext& context, const ModuleParts& parts, const TensorView& base,
                    std::string_view path);
// Rows of an embedding table; `rows` in the order of the stored ones.
Program token_program(const FormContext& context, const NamedTensor& stored,
                      const std::vector<uint64_t>& rows, const TensorView& base);

// Errors that name the adapter's tensor and the base's.
Error form_error(ErrorCode code, const FormContext& context, std::string_view tensor, std::string what,
                 std::string expected = "", std::string found = "");

}  // namespace tftf::merging
