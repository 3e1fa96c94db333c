// The file that a tool writes, its configuration, and their account.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tftf/container/header.h"
#include "tftf/transform/adapter_tools.h"

namespace tftf::lowrank {

// Inputs of a plan: files of several checkpoints.
class PlanInputs {
 public:
  explicit PlanInputs(PlanBuilder& builder) : builder_(builder) {}
  Extent stored(uint32_t source, const AdapterInput& input, TensorRef tensor);
  std::vector<uint32_t> take_sources() { return std::move(sources_); }

 private:
  PlanBuilder& builder_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> numbers_;  // source and shard
  std::vector<uint32_t> sources_;
};

// Tensors of one file, laid out once all their shapes are known.
class AdapterFile {
 public:
  // Each gives the tensor's number.
  size_t copy(std::string name, DType dtype, Shape shape, Extent from);
  size_t literal(std::string name, DType dtype, Shape shape, std::string bytes);
  size_t scalar(std::string name, DType dtype, double value);  // F32 where the dtype does not hold it
  size_t made(std::string name, DType dtype, Shape shape);
  // Makes tensors `outputs`, whose first announces it in the plan's text.
  void add_item(Item item, std::vector<size_t> outputs);
  Metadata metadata{};

  // Gives the output its header, and adds everything to the phase that has been begun. `names`: gets the first tensor of each
  // item. Errors: those of write_header().
  Result<void> lay_out(PlanBuilder& builder, uint32_t output, Account& account,
                       std::vector<std::string>& names);

 private:
  struct Tensor {
    OutputEntry entry;
    Extent from{};
    std::string bytes{};
    enum class Kind : uint8_t { kCopy, kLiteral, kMade } kind = Kind::kMade;
  };
  struct Work {
    Item item;
    std::vector<size_t> outputs;
  };
  std::vector<Tensor> tensors_;
  std::vector<Work> items_;
};

// A module's rank and scale, as a configuration has to say them.
struct ConfiguredModule {
  std::string path;  // without `base_model.model.`
  uint64_t rank = 0;
  double alpha = 0;
};

// adapter_config.json of PEFT for these modules: `text` (an object; empty: none is there) with r, lora_alpha, their patterns
// and use_rslora set, and with `retarget` target_modules.
std::string peft_config_text(const std::string& text, const std::vector<ConfiguredModule>& modules,
                             bool retarget, std::vector<ConfigChange>* changes);
// That of MLX: its rank, and its scale where one is given.
std::string mlx_config_text(const std::string& text, uint64_t rank, std::optional<double> scale,
                            std::vector<ConfigChange>* changes);

// The name of the file in a folder.
std::string adapter_file_name(AdapterFamily family);
// Where the family keeps its scale: in a configuration rather than in tensors.
bool keeps_configuration(AdapterFamily family);

// Metadata of the result, and the side file, for an adapter whose modules are these. `input`: the first, or nothing.
// `scales_stored`: alphas are written as tensors.
struct Announcement {
  const AdapterInput* input = nullptr;
  AdapterFamily family{};
  std::vector<ConfiguredModule> modules{};
  bool retarget = false;
  bool scales_stored = false;
  std::optional<double> mlx_scale{};
};
void announce(const Announcement& what, const AdapterToolRequest& request, AdapterFile& file,
              PlanBuilder& builder, Account& account);

// The refusal of a run whose data are not finite.
Error not_finite_factors(const std::string& module);

}  // namespace tftf::lowrank
