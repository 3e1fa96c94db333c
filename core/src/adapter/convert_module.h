// An adapter between two families: its modules with dotted names, a scale each, and their tensors as recipes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adapter/name_patterns.h"
#include "tftf/adapter/convert.h"
#include "tftf/adapter/survey.h"

namespace tftf::converting {

using P = AdapterPart;

// Which model of a pipeline a module belongs to; kNone: the names do not say, or it is a language model.
enum class Component : uint8_t { kNone, kUnet, kTransformer, kText1, kText2, kText3 };
inline bool is_text(Component component) { return component >= Component::kText1; }

struct Part {
  AdapterPart part{};
  AdapterRecipe recipe{};
  std::string suffix{};  // of the stored name, for what is carried as it is
};

struct Module {
  std::string stored{};  // for messages: its name in the input, of a fused one the first
  AdapterFamily family{};
  Component component = Component::kNone;
  std::string path{};  // dotted; empty while nobody knows where the dots are
  std::string flat{};  // with underscores
  NameSpace space = NameSpace::kPlain;
  std::string form{};
  uint64_t rank = 0;     // 0: the form has none
  double scale = 1;      // s
  bool experts = false;  // PEFT's factors of all experts of a parameter; `rank` is that of one
  bool whole_lokr = false;
  std::optional<TensorRef> alpha{};  // whose value over `rank` is `scale`
  std::vector<Part> parts{};
  std::vector<TensorRef> tensors{};  // of the input, that it stands for

  const AdapterRecipe* find(AdapterPart part) const;
  AdapterRecipe* find(AdapterPart part);
  bool has(AdapterPart part) const { return find(part) != nullptr; }
  void erase(AdapterPart part);
};

// A tensor that stands for the base's: path and parameter.
struct Whole {
  TensorRef tensor{};
  std::string path{};
  std::string parameter{};
  NameSpace space = NameSpace::kPlain;
};

struct Work {
  const Checkpoint& checkpoint;
  SmallValues& values;
  ValueScans& scans;
  const AdapterConvertOptions& options;
  AdapterSurvey survey{};
  AdapterFamily from{};
  AdapterScale scale_kind{};
  std::string base_family{};
  std::vector<Module> modules{};
  std::vector<Whole> wholes{};
  std::vector<std::string> notes{};
  std::vector<std::string> warnings{};
  bool based = false;    // a base decides about names
  bool pending = false;  // values are still to come: what follows from them is not final

  enum class Fate : uint8_t { kOpen, kMapped, kDropped };
  struct Told {
    Fate fate = Fate::kOpen;
    std::string reason;
  };
  std::map<uint64_t, Told> fates{};  // by tensor

  static uint64_t key(TensorRef tensor) { return uint64_t{tensor.shard} << 32 | tensor.tensor; }
  const TensorInfo& info(TensorRef tensor) const { return checkpoint.info(tensor); }
  void map(TensorRef tensor) { fates[key(tensor)] = {Fate::kMapped, {}}; }
  void drop(TensorRef tensor, std::string reason) {
    fates[key(tensor)] = {Fate::kDropped, std::move(reason)};
  }
  // It has no place in the result.
  void leave(TensorRef tensor, std::string reason) { fates[key(tensor)] = {Fate::kOpen, std::move(reason)}; }
  void leave(const Module& module, const std::string& reason);
  // The tensors of a part that is written, or not.
  bool all_zero(const AdapterRecipe& recipe);
};

Error convert_error(const Work& work, ErrorCode code, std::string what, std::string_view tensor = "");

// The steps, in their order. Each may leave modules out with a reason.
Result<void> read_modules(Work& work);
Result<void> place_modules(Work& work);
// Names of modules from the base's, and whether the base has them.
Result<void> settle_on_base(Work& work, const Checkpoint& base);
// Which of a model's two sets of names.
enum class Wanted : uint8_t { kAsTheyAre, kOriginal, kDiffusers };
struct NameStyle {
  Wanted wanted = Wanted::kAsTheyAre;
  bool original_unet = false;  // the UNet of SD1, SD2, SDXL in the original code's names, too
  bool keep_qkv = false;       // x-labs' part of linear1 stays a module of its own
  bool keep_flat = false;      // names whose dots nobody knows stay
};
NameStyle name_style(AdapterTarget target);
// Modules under the names that the target wants: renamed, fused, split.
Result<void> rename_modules(Work& work, const NameStyle& style);
// The result's files; only once nothing is pending.
Result<void> write_kohya(Work& work, AdapterConversion& out);
Result<void> write_comfy(Work& work, AdapterConversion& out);
Result<void> write_diffusers(Work& work, AdapterConversion& out);
Result<void> write_mlx(Work& work, AdapterConversion& out);
Result<void> write_peft(Work& work, AdapterConversion& out);

// Splits a module whose up factor holds several parts' rows, and joins parts (convert_fuse.cpp). `rows` of each part.
Result<std::vector<Module>> split_module(Work& work, const Module& module,
                                         const std::vector<std::pair<std::string, uint64_t>>& parts);
// `modules`: by part, null where there is none.
Result<std::optional<Module>> fuse_modules(Work& work, const std::vector<const Module*>& modules,
                                           const std::vector<uint64_t>& rows, std::string path);

// Halves of all that has the rows of the up factor exchanged.
Result<void> swap_module_halves(const Work& work, Module& module);

// "up" factor's rows and "down" factor's columns; 0 where there is none.
uint64_t outputs_of(const Module& module);
uint64_t inputs_of(const Module& module);
// A magnitude's axis: false when it is that of the inputs.
bool magnitude_of_outputs(const Module& module);

// What all targets share.
std::string_view component_folder(Component component, std::string_view base_family);
AdapterRecipe named(AdapterRecipe recipe, std::string name);
// Four bytes of F32, as a scalar.
AdapterRecipe alpha_recipe(double alpha);
// The magnitude in the shape that PEFT (kohya: [out,1(,1,1)]) gives it.
AdapterRecipe peft_magnitude(const Module& module);
AdapterRecipe kohya_magnitude(const Module& module);
// s into both factors, as a power of two where it is one (spec adapters 7).
void fold_scale(Module& module);
// The middle factor of a Tucker form into the lower one.
Result<void> contract_mid(Work& work, Module& module);
// Differences of biases and norms that a target cannot hold: dropped when they are zero, else left.
void drop_differences(Work& work, Module& module);
Result<void> check_scalable(const Work& work, const Module& module);

}  // namespace tftf::converting
