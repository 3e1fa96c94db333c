// The result as MLX stores it: factors transposed, one scale for all (spec adapters 13).
#include <algorithm>
#include <map>
#include <set>

#include "adapter/convert_module.h"
#include "adapter/element_values.h"
#include "tftf/base/escape.h"
#include "tftf/base/json_text.h"

namespace tftf::converting {
namespace {

// The module's name inside its layer: what MLX looks for.
std::string key_of(const std::string& path) {
  for (const std::string_view head : {"model.layers.#", "layers.#", "transformer.h.#", "h.#"}) {
    size_t dots = 0;
    for (const char c : head) dots += c == '.';
    size_t end = 0;
    for (size_t seen = 0; end < path.size(); ++end)
      if (path[end] == '.' && seen++ == dots) break;
    if (end < path.size() && match_name(head, std::string_view(path).substr(0, end), false))
      return path.substr(end + 1);
  }
  return path;
}

std::string mlx_obstacle(const Module& module) {
  if (module.experts) return "holds the factors of all experts of a parameter, which are others in mlx";
  const bool plain = module.has(P::kDown), embedding = module.has(P::kEmbeddingDown);
  if (!plain && !embedding) return "is of the form " + module.form + ", which mlx does not have";
  for (const Part& part : module.parts) {
    switch (part.part) {
      case P::kDown:
      case P::kUp:
      case P::kEmbeddingDown:
      case P::kEmbeddingUp:
        if (part.recipe.shape.size() != 2) return "is a convolution, which mlx does not adapt";
        break;
      case P::kMagnitude:
        if (!magnitude_of_outputs(module)) return "has a magnitude along its inputs, which mlx does not have";
        break;
      default:
        return "has a tensor " + part.suffix + ", which mlx does not have";
    }
  }
  return "";
}

// The value of most modules; of several the first.
template <class T, class Value>
T commonest(const std::vector<Module>& modules, Value value) {
  std::map<T, size_t> counts;
  T best{};
  size_t most = 0;
  for (const Module& module : modules) ++counts[value(module)];
  for (const Module& module : modules) {
    const T own = value(module);
    if (counts[own] > most) {
      most = counts[own];
      best = own;
    }
  }
  return best;
}

}  // namespace

Result<void> write_mlx(Work& work, AdapterConversion& out) {
  AdapterConversion::File file{
      work.options.single_name.empty() ? "adapters.safetensors" : work.options.single_name, {}};
  std::vector<Module> kept;
  std::set<Component> components;
  for (Module& module : work.modules) {
    drop_differences(work, module);
    if (const std::string why = mlx_obstacle(module); !why.empty()) {
      work.leave(module, why);
      continue;
    }
    components.insert(module.component);
    kept.push_back(std::move(module));
  }
  if (components.size() > 1) {
    return convert_error(work, ErrorCode::kRefusedUnsupported,
                         quote_name(work.checkpoint.listing.given) +
                             " adapts several models of a pipeline, and an adapter of mlx belongs to one.");
  }
  const double scale = commonest<double>(kept, [](const Module& module) { return module.scale; });
  const auto rank = commonest<uint64_t>(kept, [](const Module& module) { return module.rank; });
  bool dora = false, other_ranks = false;
  std::set<std::string> keys;
  for (Module& module : kept) {
    const bool embedding = module.has(P::kEmbeddingDown);
    AdapterRecipe down = transposed_recipe(*module.find(embedding ? P::kEmbeddingDown : P::kDown));
    AdapterRecipe up = transposed_recipe(*module.find(embedding ? P::kEmbeddingUp : P::kUp));
    if (module.scale != scale) {
      if (!can_scale(up.dtype)) TFTF_TRY(check_scalable(work, module));
      up = scaled_recipe(std::move(up), module.scale / scale);
    }
    file.tensors.push_back(named(std::move(down), module.path + ".lora_a"));
    file.tensors.push_back(named(std::move(up), module.path + ".lora_b"));
    if (module.has(P::kMagnitude)) {
      dora = true;
      file.tensors.push_back(named(peft_magnitude(module), module.path + ".m"));
    }
    other_ranks = other_ranks || module.rank != rank;
    keys.insert(key_of(module.path));
    for (const TensorRef tensor : module.tensors) work.map(tensor);
    ++out.modules;
  }
  if (other_ranks)
    work.warnings.push_back("Modules have several ranks; mlx-lm makes all of them with rank " +
                            std::to_string(rank) + " and cannot load the others.");
  OrderedJson config;
  config["fine_tune_type"] = dora ? "dora" : "lora";
  config["num_layers"] = -1;
  OrderedJson parameters;
  parameters["rank"] = json_integer(rank);
  parameters["scale"] = json_float(scale);
  parameters["dropout"] = 0.0;
  parameters["keys"] = OrderedJson(std::vector<std::string>(keys.begin(), keys.end()));
  config["lora_parameters"] = std::move(parameters);
  if (work.options.single_name.empty()) {
    out.sides.emplace_back("adapter_config.json", json_text(config));
  } else {
    work.warnings.push_back("One file holds no adapter_config.json, which says lora_parameters.scale " +
                            json_float(scale).dump() + "; mlx-lm wants it beside the file.");
  }
  out.files.push_back(std::move(file));
  return {};
}

}  // namespace tftf::converting
