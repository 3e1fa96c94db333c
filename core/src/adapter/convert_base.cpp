// Names that the base model decides: where the dots of an underscored name are, and whether a module is there at all.
#include <algorithm>
#include <unordered_map>

#include "adapter/convert_module.h"
#include "tftf/base/affix.h"
#include "tftf/base/escape.h"

namespace tftf::converting {
namespace {

// What a whole checkpoint has before the names of its parts.
constexpr std::string_view kModelPrefixes[] = {"model.diffusion_model.", "diffusion_model."};

std::string_view without_prefix(std::string_view name) {
  for (const std::string_view prefix : kModelPrefixes)
    if (starts_with(name, prefix)) return name.substr(prefix.size());
  return name;
}

struct BaseName {
  std::string_view path;
  uint32_t hits = 0;
};

}  // namespace

Result<void> settle_on_base(Work& work, const Checkpoint& base) {
  std::unordered_map<std::string, BaseName> flat;
  for (const TensorRef tensor : base.order) {
    std::string_view name = base.info(tensor).name;
    if (!ends_with(name, ".weight")) continue;
    name.remove_suffix(7);
    name = without_prefix(name);
    BaseName& at = flat[flat_name(name)];
    if (at.hits == 0 || at.path != name) ++at.hits;
    at.path = name;
  }
  std::vector<Module> kept;
  for (Module& module : work.modules) {
    if (is_text(module.component) && !module.path.empty()) {
      kept.push_back(std::move(module));
      continue;
    }
    const auto found = flat.find(module.flat);
    if (found != flat.end() && found->second.hits > 1) {
      return convert_error(work, ErrorCode::kRefusedAmbiguous,
                           "Module " + quote_name(module.stored) + " is the name of " +
                               std::to_string(found->second.hits) + " weights of " +
                               quote_name(base.listing.given) + ", " + quote_name(found->second.path) +
                               " and others.",
                           module.stored);
    }
    if (found != flat.end()) {
      if (module.path.empty()) module.path = std::string(found->second.path);
      kept.push_back(std::move(module));
      continue;
    }
    // A table has named it, in the names of another form of the same model.
    if (module.space != NameSpace::kPlain) {
      kept.push_back(std::move(module));
      continue;
    }
    work.leave(module, "is no weight of " + quote_name(base.listing.given));
  }
  work.modules = std::move(kept);
  return {};
}

}  // namespace tftf::converting
