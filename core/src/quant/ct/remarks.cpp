// The rules of spec compressed-tensors 3 that break nothing by themselves: what the configuration says against what is stored.
#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "quant/ct/stored_module.h"
#include "quant/ct/written_scheme.h"
#include "quant/layout_scan.h"
#include "tftf/base/affix.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"
#include "tftf/quant/registry.h"

namespace tftf {
namespace {

using ct::Args;
using ct::Group;
using ct::StoredModule;

constexpr std::string_view kKnownFormats[] = {
    "dense",           "int-quantized",        "pack-quantized",       "sparse-bitmask",
    "marlin-24",       "float-quantized",      "naive-quantized",      "sparse-24-bitmask",
    "mixed-precision", "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized",
    "fakequant"};
constexpr std::string_view kLegacyLayouts[] = {"ct-sparse-bitmask", "ct-sparse-24-bitmask", "ct-marlin-24"};

class Remarks {
 public:
  Remarks(const Checkpoint& checkpoint, const LayoutReport& report)
      : checkpoint_(checkpoint), config_(read_quant_config(checkpoint)) {
    for (const QuantFinding& finding : report.findings) {
      if (!starts_with(finding.layout, "ct-")) continue;
      for (const QuantMatch& match : finding.matches) {
        StoredModule module{stem_of(match.module), &match};
        if (finding.layout != "ct-marlin-24")
          module.layout = static_cast<const ct::Layout*>(match.detail.get());
        modules_.push_back(std::move(module));
      }
    }
    for (const QuantProblem& problem : report.problems) broken_.insert(stem_of(problem.module));
    if (config_.method != "compressed-tensors" || config_.section == nullptr ||
        config_.section->find("config_groups") == nullptr)
      return;
    Result<ct::Config> config = ct::parse_config(*config_.section);
    if (config) schemes_.emplace(*std::move(config));
  }

  std::vector<QuantRemark> take() {
    if (config_.section != nullptr && config_.method == "compressed-tensors") of_section();
    if (modules_.empty() && !schemes_) return std::move(out_);
    if (schemes_)
      for (StoredModule& module : modules_)
        module.groups = schemes_->candidates(module.name, ct::guessed_class(module.name));
    of_names();
    for (const StoredModule& module : modules_) of_module(module);
    if (schemes_) of_schemes();
    of_cache();
    for (const auto& [rule, tally] : tallies_) {
      const std::string more =
          tally.count == 1 ? "" : ", and so " + grouped_digits(tally.count - 1) + " more";
      out_.push_back({rule, tally.first, tally.what + more});
    }
    return std::move(out_);
  }

 private:
  struct Tally {
    uint64_t count = 0;
    std::string first, what;
  };

  static std::string stem_of(const std::string& weight) {
    return ends_with(weight, ".weight") ? weight.substr(0, weight.size() - 7) : weight;
  }
  void say(Rule rule, const std::string& subject, std::string what) {
    out_.push_back({rule, subject, std::move(what)});
  }
  // Once for all modules, with the first.
  void count(Rule rule, const std::string& subject, const std::string& what) {
    Tally& tally = tallies_[rule];
    if (tally.count++ == 0) tally = {1, subject, what};
  }
  const std::string& place() const { return config_.section_place; }

  void of_section() {
    const JsonValue& section = *config_.section;
    const auto format = section.string("format");
    if (format &&
        std::find(std::begin(kKnownFormats), std::end(kKnownFormats), *format) == std::end(kKnownFormats))
      say(Rule::QT001, place(), "format is " + quote_name(std::string(*format)) + ", which no release knows");
    if (ends_with(place(), "compression_config"))
      say(Rule::QT016, place(), "current loaders look for quantization_config");
    const JsonValue* sparsity = section.get("sparsity_config");
    if (sparsity != nullptr && sparsity->is_object() && sparsity->string("format") == "dense")
      say(Rule::QT019, place(), "sparsity_config says dense, which means nothing");
    const std::string status(section.string("quantization_status").value_or("compressed"));
    const bool finished = status == "compressed";
    if (!modules_.empty() && !finished && !all_dense())
      say(Rule::QT017, place(),
          "quantization_status is " + status + ", and " + grouped_digits(modules_.size()) +
              " modules are stored quantised");
    if (modules_.empty() && broken_.empty() && finished && schemes_ && has_weights() &&
        section.find("quantization_status") != nullptr)
      say(Rule::QT017, place(), "quantization_status is compressed, and no module is");
  }
  bool all_dense() const {
    return std::all_of(modules_.begin(), modules_.end(),
                       [](const StoredModule& module) { return module.match->layout == "ct-dense"; });
  }
  bool has_weights() const {
    const std::vector<Group>& groups = schemes_->config().groups;
    return std::any_of(groups.begin(), groups.end(),
                       [](const Group& group) { return group.weights.has_value(); });
  }

  // What names of tensors alone show.
  void of_names() {
    std::unordered_set<std::string_view> roots;
    for (const StoredModule& module : modules_) roots.insert(module.name);
    std::set<uint32_t> without_pt;
    for (const TensorRef ref : checkpoint_.order) {
      const TensorInfo& info = checkpoint_.info(ref);
      if (info.shape.size() > 2 && ends_with(info.name, "_proj_packed"))
        count(Rule::QT008, info.name, "no release writes stacked experts like this");
      if (config_.method == "compressed-tensors" && ends_with(info.name, ".weight_scale_2"))
        count(Rule::QT058, info.name,
              "this is ModelOpt's name, of a multiplier; weight_global_scale divides");
      for (const std::string_view suffix : {".weight_scale", ".weight_zero_point", ".weight_shape",
                                            ".weight_g_idx", ".weight_global_scale"}) {
        if (config_.method != "compressed-tensors" || !ends_with(info.name, suffix)) continue;
        const std::string module = info.name.substr(0, info.name.size() - suffix.size());
        if (roots.count(module) > 0 || broken_.count(module) > 0 || has_root(module)) continue;
        count(Rule::QT103, info.name, "it belongs to a weight that is not stored");
      }
    }
    for (const StoredModule& module : modules_) {
      const Metadata& metadata = checkpoint_.shards[module.match->weight.shard].header.metadata;
      const bool pt = std::any_of(metadata.begin(), metadata.end(), [](const auto& entry) {
        return entry.first == "format" && entry.second == "pt";
      });
      if (!pt && without_pt.insert(module.match->weight.shard).second)
        say(Rule::QT018, checkpoint_.shards[module.match->weight.shard].name,
            "its metadata has no format, which is pt in such files");
    }
  }
  bool has_root(const std::string& module) const {
    for (const char* root : {".weight", ".weight_packed", ".compressed", ".weight.compressed"})
      if (checkpoint_.find(module + root)) return true;
    return false;
  }

  void of_module(const StoredModule& module) {
    const QuantMatch& match = *module.match;
    for (const std::string_view legacy : kLegacyLayouts)
      if (match.layout == legacy)
        count(Rule::QT201, module.name,
              "it is " + std::string(legacy.substr(3)) + ", which nothing reads since 0.15");
    for (const QuantCompanion& companion : match.companions)
      if (companion.tensor.shard != match.weight.shard) {
        count(Rule::QT011, module.name,
              std::string(companion.role) + " is in " + checkpoint_.shards[companion.tensor.shard].name +
                  ", its codes are in " + checkpoint_.shards[match.weight.shard].name);
        break;
      }
    if (module.layout != nullptr && module.layout->scaled) of_scales(module);
    if (module.layout != nullptr && module.layout->sparse == ct::Sparse::kTwoOfFour &&
        module.layout->columns % 4 != 0)
      count(Rule::QT173, module.name,
            grouped_digits(module.layout->columns) + " columns are no multiple of 4");
    if (schemes_) of_activations(module);
  }

  void of_scales(const StoredModule& module) {
    const ct::Layout& layout = *module.layout;
    const QuantMatch& match = *module.match;
    const TensorInfo* scale = part(match, "weight_scale");
    const TensorInfo* global = part(match, "weight_global_scale");
    if (scale->shape == Shape{layout.rows} && layout.rows > 1)
      count(Rule::QT122, module.name,
            "weight_scale is " + shape_text(scale->shape) + ", expected " + shape_text({layout.rows, 1}));
    if (layout.scale_rows > 1 && layout.grid_rows > 1 &&
        (layout.rows % layout.scale_rows != 0 || layout.columns % layout.scale_columns != 0))
      count(Rule::QT124, module.name,
            shape_text({layout.rows, layout.columns}) + " in blocks of " +
                shape_text({layout.scale_rows, layout.scale_columns}) + " leaves ragged edges");
    if (layout.codes == ct::Codes::kWords && layout.padded && 32 % layout.bits != 0)
      count(Rule::QT047, module.name,
            std::to_string(layout.bits) + " bits are padded to words, as releases before 0.18 wrote them");
    if (scale->dtype == DType::F8_E8M0)
      count(Rule::QT161, module.name, "weight_scale is F8_E8M0, expected U8");
    if (global != nullptr && global->shape.empty())
      count(Rule::QT152, module.name, "weight_global_scale is a scalar, expected [1]");
    const Args* args = module.args();
    const bool zeros = match.find("weight_zero_point") != nullptr;
    if (args != nullptr && args->symmetric && zeros && match.layout != "ct-dense")
      count(Rule::QT026, module.name, "its scheme is symmetric, and weight_zero_point is stored");
    if (args != nullptr && args->actorder == ct::ActOrder::kGroup && args->grouped() &&
        match.find("weight_g_idx") == nullptr)
      count(Rule::QT145, module.name, "actorder is group, and weight_g_idx is not stored");
    of_parallelism(module);
  }

  void of_parallelism(const StoredModule& module) {
    const ct::Layout& layout = *module.layout;
    const bool blocks = layout.scale_rows > 1 && layout.grid_rows > 1;
    const bool groups = layout.scale_rows == 1 && layout.grid_columns > 1;
    if (!blocks && !groups) return;
    uint64_t most = 8;
    while (most > 1 && ((blocks && layout.rows % (most * layout.scale_rows) != 0) ||
                        layout.columns % (most * layout.scale_columns) != 0))
      most /= 2;
    if (most >= 8) return;
    count(Rule::QT091, module.name,
          shape_text({layout.rows, layout.columns}) + (blocks ? " in blocks of " : " in groups of ") +
              (blocks ? shape_text({layout.scale_rows, layout.scale_columns})
                      : std::to_string(layout.scale_columns)) +
              (most == 1 ? " cannot be split evenly"
                         : " can be split into " + std::to_string(most) + " parts at most"));
  }

  void of_activations(const StoredModule& module) {
    const Group* group = module.group();
    if (group == nullptr) return;
    const QuantMatch& match = *module.match;
    const TensorInfo* scale = part(match, "input_scale");
    const bool fixed = group->inputs && !group->inputs->dynamic;
    if (fixed && (scale == nullptr || element_count(scale->shape) != 1))
      count(Rule::QT030, module.name,
            scale == nullptr ? "activations are static, and input_scale is not stored"
                             : "input_scale is " + shape_text(scale->shape) + ", expected [1]");
    if (!fixed && scale != nullptr)
      count(Rule::QT130, module.name,
            group->inputs ? "activations are dynamic, and input_scale is stored"
                          : "activations are not quantised, and input_scale is stored");
    if (match.layout == "ct-nvfp4-pack-quantized" && group->inputs && group->inputs->local &&
        match.find("input_global_scale") == nullptr)
      count(Rule::QT057, module.name, "activations are quantised, and input_global_scale is not stored");
  }

  const TensorInfo* part(const QuantMatch& match, std::string_view role) const {
    const TensorRef* found = match.find(role);
    return found == nullptr ? nullptr : &checkpoint_.info(*found);
  }

  void of_schemes() {
    const ct::Config& config = schemes_->config();
    std::unordered_map<std::string_view, const StoredModule*> by_name;
    for (const StoredModule& module : modules_) {
      by_name.emplace(module.name, &module);
      if (module.layout != nullptr && !module.layout->scaled) continue;
      if (schemes_->ignores(module.name))
        count(Rule::QT006, module.name, "ignore covers it, and it is quantised");
      else if (module.groups.empty())
        count(Rule::QT004, module.name, "it is quantised, and no group means it");
      else if (module.layout != nullptr && !agrees(module))
        count(Rule::QT005, module.name,
              "its tensors are " + stored_text(module) + ", and the configuration says " +
                  ct::args_text(*module.args()));
      if (module.groups.size() > 1 && by_expression(module))
        count(Rule::QT013, module.name,
              "groups " + quote_name(module.groups[0]->name) + " and " + quote_name(module.groups[1]->name) +
                  " mean it with other arguments");
    }
    of_plain(by_name);
    of_entries();
    of_groups(config);
  }

  // Two groups with different arguments match it by expressions.
  bool by_expression(const StoredModule& module) const {
    const Group *first = module.groups[0], *second = module.groups[1];
    const auto matches = [&](const Group* group) {
      return std::any_of(group->targets.begin(), group->targets.end(), [&](const std::string& target) {
        return starts_with(target, "re:") && ct::Patterns({target}).matches(module.name);
      });
    };
    const auto text = [](const Group* group) { return group->weights ? ct::args_text(*group->weights) : ""; };
    return text(first) != text(second) && matches(first) && matches(second);
  }

  void of_plain(const std::unordered_map<std::string_view, const StoredModule*>& by_name) {
    const JsonValue* sparsity = config_.section->get("sparsity_config");
    const bool sparse = sparsity != nullptr && sparsity->is_object() && !sparsity->members.empty();
    std::map<std::string, std::vector<std::string>> sets;
    for (const TensorRef ref : checkpoint_.order) {
      const TensorInfo& info = checkpoint_.info(ref);
      if (info.shape.size() != 2 || !ends_with(info.name, ".weight") || !is_scale_float(info.dtype)) continue;
      const std::string module = stem_of(info.name);
      if (by_name.count(module) > 0 || broken_.count(module) > 0) continue;
      if (std::string set = ct::fused_set(module); !set.empty()) sets[set].push_back(module);
      const Group* group = schemes_->assign(module, ct::guessed_class(module));
      if (group != nullptr && group->weights && group->format != "dense" && !sparse)
        count(Rule::QT007, module, "its weight is plain, and group " + quote_name(group->name) + " means it");
    }
    std::map<std::string, const StoredModule*> first_of;
    for (const StoredModule& module : modules_) {
      const std::string set = ct::fused_set(module.name);
      if (set.empty()) continue;
      if (const auto plain = sets.find(set); plain != sets.end()) {
        count(
            Rule::QT014, module.name,
            "it is quantised, and " + quote_name(plain->second.front()) + ", which is fused with it, is not");
        continue;
      }
      const auto [at, fresh] = first_of.emplace(set, &module);
      if (fresh || same_scheme(*at->second, module)) continue;
      count(Rule::QT014, module.name,
            "it is quantised otherwise than " + quote_name(at->second->name) + ", which is fused with it");
    }
  }
  void of_entries() {
    std::unordered_set<std::string> modules, parents;
    for (const TensorRef ref : checkpoint_.order) {
      std::string_view name = checkpoint_.info(ref).name;
      const size_t dot = name.rfind('.');
      if (dot == std::string_view::npos) continue;
      name = name.substr(0, dot);
      if (!modules.emplace(name).second) continue;
      for (size_t end = name.rfind('.'); end != std::string_view::npos && end > 0;
           end = name.rfind('.', end - 1))
        if (!parents.emplace(name.substr(0, end)).second) break;
    }
    const auto check = [&](const std::string& entry, const std::string& where, bool ignore) {
      const bool expression = starts_with(entry, "re:");
      if (!expression && (ends_with(entry, ".linear") || ends_with(entry, ".")))
        return say(Rule::QT012, where,
                   quote_name(entry) + " ends in " + (entry.back() == '.' ? "a dot" : ".linear"));
      if (!expression && modules.count(entry) > 0) return;
      if (!expression && parents.count(entry) > 0)
        return ignore ? say(Rule::QT212, where, quote_name(entry) + " only contains modules")
                      : say(Rule::QT012, where, quote_name(entry) + " has no weight of its own");
      // Names of classes have no dots.
      if (!expression && !entry.empty() && entry[0] >= 'A' && entry[0] <= 'Z' &&
          entry.find('.') == std::string::npos)
        return;
      const ct::Patterns pattern({entry});
      if (expression && std::any_of(modules.begin(), modules.end(),
                                    [&](const std::string& module) { return pattern.matches(module); }))
        return;
      say(Rule::QT012, where, quote_name(entry) + " matches no module");
    };
    for (const std::string& entry : schemes_->config().ignore) check(entry, "ignore", true);
    for (const Group& group : schemes_->config().groups)
      for (const std::string& target : group.targets) check(target, "targets of " + group.name, false);
  }

  void of_groups(const ct::Config& config) {
    std::map<std::string, std::string> targets;
    for (const Group& group : config.groups) {
      for (const std::string& target : group.targets)
        if (const auto [at, fresh] = targets.emplace(target, group.name); !fresh && at->second != group.name)
          say(Rule::QT020, group.name,
              "the target " + quote_name(target) + " is one of " + at->second + ", too");
      if (config.format == "mixed-precision" && !group.format_given && group.weights)
        say(Rule::QT215, group.name, "it has no format; " + group.format + " is inferred");
      if (!group.weights) continue;
      const Args& w = *group.weights;
      const bool mx = starts_with(group.format, "mxfp");
      if (mx && group.format_given && (w.group_size != 32 || (w.scale_dtype && *w.scale_dtype != DType::U8)))
        say(Rule::QT064, group.name,
            group.format + " with groups of " + std::to_string(w.group_size) +
                (w.scale_dtype ? " and scales of " + std::string(dtype_info(*w.scale_dtype).torch) : ""));
      const bool usual = w.group_size == 32 || w.group_size == 64 || w.group_size == 128;
      if (!w.is_float && w.strategy == ct::Strategy::kGroup && !usual)
        say(Rule::QT092, group.name, "groups of " + std::to_string(w.group_size) + " integers");
    }
    const bool one = config.groups.size() == 1 && config.groups.front().format_given;
    if (one && !config.format.empty() && config.format != "fakequant" && config.format != "mixed-precision" &&
        config.format != config.groups.front().format)
      say(Rule::QT015, place(),
          "format is " + config.format + ", that of its only group " + config.groups.front().format);
  }

  void of_cache() {
    std::map<std::string, uint32_t> sides;  // 1: k, 2: v
    for (const TensorRef ref : checkpoint_.order) {
      const TensorInfo& info = checkpoint_.info(ref);
      const bool k = ends_with(info.name, ".k_scale"), v = ends_with(info.name, ".v_scale");
      if ((!k && !v) || config_.method != "compressed-tensors") continue;
      std::string module = info.name.substr(0, info.name.size() - 8);
      // ModelOpt's places: k_proj.k_scale.
      for (const char* part : {".k_proj", ".v_proj"})
        if (ends_with(module, part)) module.resize(module.size() - 7);
      sides[module] |= k ? 1u : 2u;
      const bool heads = info.shape.size() == 3 && info.shape[1] == 1 && info.shape[2] == 1;
      if (!heads && element_count(info.shape) != 1)
        count(Rule::QT083, info.name, "it is " + shape_text(info.shape) + ", expected [1] or [heads,1,1]");
    }
    for (const auto& [module, side] : sides)
      if (side != 3)
        count(Rule::QT081, module,
              std::string(side == 1 ? "k_scale" : "v_scale") + " has no " +
                  (side == 1 ? "v_scale" : "k_scale"));
    if (!schemes_) return;
    if (schemes_->config().cache && !schemes_->config().cache->dynamic && sides.empty())
      say(Rule::QT082, place(), "kv_cache_scheme is static, and no k_scale is stored");
    if (!schemes_->config().cache && !sides.empty())
      say(Rule::QT082, sides.begin()->first, "k_scale is stored, and there is no kv_cache_scheme");
  }

  const Checkpoint& checkpoint_;
  QuantConfig config_;
  std::optional<ct::Schemes> schemes_{};
  std::vector<StoredModule> modules_{};
  std::unordered_set<std::string> broken_{};
  std::map<Rule, Tally> tallies_{};
  std::vector<QuantRemark> out_{};
};

}  // namespace

std::vector<QuantRemark> compressed_tensors_remarks(const Checkpoint& checkpoint,
                                                    const LayoutReport& report) {
  return Remarks(checkpoint, report).take();
}

}  // namespace tftf
