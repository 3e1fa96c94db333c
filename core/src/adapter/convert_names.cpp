// Modules under the names that the target wants (spec adapters 6.2, 6.4, 13).
#include <algorithm>
#include <map>

#include "adapter/convert_module.h"
#include "adapter/name_maps.h"
#include "tftf/base/escape.h"

namespace tftf::converting {
namespace {

bool is_original_family(AdapterFamily family) {
  return family == AdapterFamily::kKohya || family == AdapterFamily::kComfyGeneric ||
         family == AdapterFamily::kWanFun || family == AdapterFamily::kHunyuanOld ||
         family == AdapterFamily::kXlabs || family == AdapterFamily::kBflControl;
}
bool is_diffusers_family(AdapterFamily family) {
  return family == AdapterFamily::kDiffusersPeft || family == AdapterFamily::kDiffusersOld ||
         family == AdapterFamily::kDiffusersMid || family == AdapterFamily::kOnetrainer;
}

// Qwen-Image is called the same everywhere.
bool same_everywhere(const Work& work) { return work.base_family == "qwen-image"; }

class Renamer {
 public:
  Renamer(Work& work, const NameStyle& style) : work_(work), style_(style), wanted_(style.wanted) {}

  Result<void> run() {
    std::vector<Module> modules = std::move(work_.modules);
    for (Module& module : modules) TFTF_TRY(take(std::move(module)));
    TFTF_TRY(join());
    work_.modules = std::move(out_);
    rename_wholes();
    return check_collisions();
  }

 private:
  Result<void> take(Module module) {
    if (module.path.empty()) return take_flat(std::move(module));
    if (is_text(module.component)) {
      out_.push_back(std::move(module));
      return {};
    }
    switch (module.space) {
      case NameSpace::kUnet:
      case NameSpace::kSgm:
        return take_unet(std::move(module));
      case NameSpace::kFlux:
      case NameSpace::kZImage:
        if (wanted_ == Wanted::kDiffusers) return split(std::move(module));
        return take_original(std::move(module));
      case NameSpace::kFluxDiffusers:
      case NameSpace::kZImageDiffusers:
        if (wanted_ == Wanted::kOriginal) return collect(std::move(module));
        out_.push_back(std::move(module));
        return {};
      default:
        return take_plain(std::move(module));
    }
  }

  // A name whose dots nobody knows stays as it is among underscored ones.
  Result<void> take_flat(Module module) {
    const bool diffusers_names = is_diffusers_family(module.family) && !is_text(module.component);
    if (style_.keep_flat && (work_.based || !diffusers_names)) {
      out_.push_back(std::move(module));
      return {};
    }
    work_.leave(module, "has a name whose dots no table tells; --base MODEL does");
    return {};
  }

  Result<void> take_plain(Module module) {
    const bool based = work_.based || same_everywhere(work_);
    const bool original = is_original_family(module.family), diffusers = is_diffusers_family(module.family);
    if (!based && wanted_ == Wanted::kDiffusers && original)
      work_.leave(module, "has a name for which no table has diffusers' own");
    else if (!based && wanted_ == Wanted::kOriginal && diffusers)
      work_.leave(module, "has a name for which no table has the original one");
    else
      out_.push_back(std::move(module));
    return {};
  }

  Result<void> take_unet(Module module) {
    const bool sgm = module.space == NameSpace::kSgm;
    std::optional<std::string> path = module.path;
    if (sgm && wanted_ == Wanted::kDiffusers) path = unet_of_sgm(module.path);
    if (!sgm && style_.original_unet) {
      std::optional<bool> sdxl;
      if (work_.base_family == "sdxl") sdxl = true;
      if (work_.base_family == "sd1" || work_.base_family == "sd2") sdxl = false;
      path = sgm_of_unet(module.path, sdxl);
      if (!path && !sdxl) {
        return convert_error(work_, ErrorCode::kRefusedAmbiguous,
                             "Where " + quote_name(module.stored) +
                                 " lies in the original model differs between SD1, SD2 and SDXL; "
                                 "--base-family says which it is.",
                             module.stored);
      }
    }
    if (!path) {
      work_.leave(module, "has no place in a UNet of SD1, SD2 or SDXL");
      return {};
    }
    module.path = *std::move(path);
    module.flat = flat_name(module.path);
    out_.push_back(std::move(module));
    return {};
  }

  // x-labs' part of linear1: with zeros for the MLP where the whole layer is wanted.
  Result<void> take_original(Module module) {
    const std::optional<FusedName> fused = fused_by_original(module.space, module.path);
    const bool part = fused && fused->rows == FusedRows::kQkv;
    if (!part || style_.keep_qkv) {
      out_.push_back(std::move(module));
      return {};
    }
    AdapterRecipe* up = module.find(P::kUp);
    const uint64_t h = inputs_of(module);
    if (up == nullptr || up->rows != 3 * h) {
      return convert_error(work_, ErrorCode::kRefusedShape,
                           "Module " + quote_name(module.stored) + " is not three times as high as wide.",
                           module.stored);
    }
    up->rows = 7 * h;
    up->shape[0] = up->rows;
    module.path.erase(module.path.size() - std::string_view("_qkv").size());
    module.flat = flat_name(module.path);
    work_.notes.push_back("The MLP's rows of " + module.path + " are zero.");
    out_.push_back(std::move(module));
    return {};
  }

  // Only pairs of matrices can be cut and joined by rows.
  bool is_row_pair(const Module& module) const {
    const AdapterRecipe *up = module.find(P::kUp), *down = module.find(P::kDown);
    if (up == nullptr || down == nullptr || module.has(P::kMid)) return false;
    if (up->shape.size() != 2 || down->shape.size() != 2) return false;
    for (const Part& part : module.parts)
      if (part.part != P::kUp && part.part != P::kDown && part.part != P::kUpBias &&
          part.part != P::kMagnitude && part.part != P::kDiffBias)
        return false;
    const AdapterRecipe* magnitude = module.find(P::kMagnitude);
    return magnitude == nullptr || (magnitude->rows == up->rows && magnitude->cols == 1);
  }

  Result<void> split(Module module) {
    const std::optional<FusedName> fused = fused_by_original(module.space, module.path);
    if (!fused) {
      work_.leave(module, "has no name in diffusers");
      return {};
    }
    if (fused->parts.size() == 1) {
      module.path = fused->parts.front();
      module.flat = flat_name(module.path);
      if (fused->rows == FusedRows::kHalves) TFTF_TRY(swap_module_halves(work_, module));
      out_.push_back(std::move(module));
      return {};
    }
    drop_differences(work_, module);
    if (!is_row_pair(module)) {
      work_.leave(module, "cannot be split into query, key and value in the form " + module.form);
      return {};
    }
    const uint64_t rows = outputs_of(module), h = inputs_of(module);
    std::vector<std::pair<std::string, uint64_t>> parts;
    for (const std::string& name : fused->parts)
      parts.emplace_back(name, fused->rows == FusedRows::kLinear1 ? h : rows / 3);
    if (fused->rows == FusedRows::kLinear1) {
      if (rows <= 3 * h) {
        return convert_error(work_, ErrorCode::kRefusedShape,
                             "Module " + quote_name(module.stored) + " has " + std::to_string(rows) +
                                 " rows, no more than three times its " + std::to_string(h) + " inputs.",
                             module.stored);
      }
      parts.back().second = rows - 3 * h;
    }
    // The scale goes into a dense factor before it is cut.
    if (module.scale != 1) {
      TFTF_TRY(check_scalable(work_, module));
    }
    Result<std::vector<Module>> pieces = split_module(work_, module, parts);
    if (!pieces) return std::move(pieces).error();
    for (Module& piece : *pieces) out_.push_back(std::move(piece));
    return {};
  }

  Result<void> collect(Module module) {
    size_t part = 0;
    const std::optional<FusedName> fused = fused_by_part(module.space, module.path, part);
    const bool flux = module.space == NameSpace::kFluxDiffusers;
    if (flux && work_.base_family != "flux.1") {
      return convert_error(
          work_, ErrorCode::kRefusedAmbiguous,
          "The names of " + quote_name(work_.checkpoint.listing.given) + " (" + quote_name(module.stored) +
              ") are those of several models, which the target calls differently; --base-family "
              "says which it is.",
          module.stored);
    }
    if (!fused) {
      out_.push_back(std::move(module));  // called the same
      return {};
    }
    if (fused->parts.size() == 1) {
      module.path = fused->original;
      module.flat = flat_name(module.path);
      if (fused->rows == FusedRows::kHalves) TFTF_TRY(swap_module_halves(work_, module));
      out_.push_back(std::move(module));
      return {};
    }
    if (!is_row_pair(module)) {
      work_.leave(module, "cannot be joined with its neighbours in the form " + module.form);
      return {};
    }
    Group& group = groups_[fused->original];
    if (group.modules.empty()) {
      group.rows = fused->rows;
      group.modules.resize(fused->parts.size());
      order_.push_back(fused->original);
    }
    if (group.modules[part]) {
      return convert_error(work_, ErrorCode::kRefusedCollision,
                           "Module " + quote_name(module.stored) + " is there twice, also as " +
                               quote_name(group.modules[part]->stored) + ".",
                           module.stored);
    }
    group.modules[part] = std::move(module);
    return {};
  }

  Result<void> join() {
    for (const std::string& original : order_) {
      Group& group = groups_[original];
      std::vector<const Module*> members;
      uint64_t h = 0, rows = 0;
      for (size_t p = 0; p < group.modules.size(); ++p) {
        const Module* module = group.modules[p] ? &*group.modules[p] : nullptr;
        members.push_back(module);
        if (module == nullptr) continue;
        if (h == 0) h = inputs_of(*module);
        if (p < 3 && rows == 0) rows = outputs_of(*module);
      }
      // Parts that are not there have the rows of their neighbours; the MLP has four times the width.
      std::vector<uint64_t> part_rows(members.size(), group.rows == FusedRows::kLinear1 ? h : rows);
      if (group.rows == FusedRows::kLinear1)
        part_rows[3] = members[3] != nullptr ? outputs_of(*members[3]) : 4 * h;
      Result<std::optional<Module>> fused = fuse_modules(work_, members, part_rows, original);
      if (!fused) return std::move(fused).error();
      if (*fused) out_.push_back(**std::move(fused));
    }
    return {};
  }

  void rename_wholes() {
    for (Whole& whole : work_.wholes) {
      size_t part = 0;
      std::optional<FusedName> fused;
      if (wanted_ == Wanted::kDiffusers) fused = fused_by_original(whole.space, whole.path);
      if (wanted_ == Wanted::kOriginal) fused = fused_by_part(whole.space, whole.path, part);
      if (!fused || fused->parts.size() != 1) continue;
      whole.path = wanted_ == Wanted::kDiffusers ? fused->parts.front() : fused->original;
      if (wanted_ == Wanted::kDiffusers && whole.parameter == "scale") whole.parameter = "weight";
    }
  }

  // Two modules of one name in the result.
  Result<void> check_collisions() const {
    const bool flat = style_.keep_flat;
    std::map<std::pair<Component, std::string>, const Module*> names;
    for (const Module& module : work_.modules) {
      const auto [at, fresh] = names.emplace(
          std::pair(module.component, flat || module.path.empty() ? module.flat : module.path), &module);
      if (fresh) continue;
      return convert_error(work_, ErrorCode::kRefusedCollision,
                           "Modules " + quote_name(at->second->stored) + " and " + quote_name(module.stored) +
                               " would both be called " + quote_name(at->first.second) + ".",
                           module.stored);
    }
    return {};
  }

  struct Group {
    FusedRows rows{};
    std::vector<std::optional<Module>> modules{};
  };

  Work& work_;
  NameStyle style_;
  Wanted wanted_;
  std::vector<Module> out_;
  std::map<std::string, Group> groups_;
  std::vector<std::string> order_;
};

}  // namespace

NameStyle name_style(AdapterTarget target) {
  switch (target) {
    case AdapterTarget::kDiffusers:
      return {.wanted = Wanted::kDiffusers};
    case AdapterTarget::kKohya:
      return {.wanted = Wanted::kOriginal, .keep_flat = true};
    case AdapterTarget::kComfy:
      return {.wanted = Wanted::kOriginal, .original_unet = true, .keep_qkv = true};
    default:
      return {};
  }
}

Result<void> rename_modules(Work& work, const NameStyle& style) { return Renamer(work, style).run(); }

}  // namespace tftf::converting
