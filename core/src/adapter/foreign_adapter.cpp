// Bringing adapters of all families to a base, for merging.
#include "adapter/foreign_adapter.h"

#include <algorithm>
#include <unordered_map>

#include "adapter/convert_module.h"
#include "tftf/base/affix.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"

namespace tftf {
namespace {

using converting::Component;
using converting::Module;
using converting::NameStyle;
using converting::Wanted;
using converting::Work;

// Where the models of a pipeline lie in a checkpoint that has all of them.
constexpr std::string_view kModelPrefixes[] = {"", "model.diffusion_model.", "diffusion_model.", "unet.",
                                               "transformer."};
constexpr std::string_view kText1Prefixes[] = {"", "text_encoder.", "cond_stage_model.transformer.",
                                               "conditioner.embedders.0.transformer.",
                                               "text_encoders.clip_l.transformer."};
constexpr std::string_view kText2Prefixes[] = {"text_encoder_2.", "text_encoders.clip_g.transformer.",
                                               "conditioner.embedders.1.transformer.", ""};
constexpr std::string_view kText3Prefixes[] = {"text_encoder_3.", "text_encoder_2.",
                                               "text_encoders.t5xxl.transformer.", ""};

std::span<const std::string_view> prefixes_of(Component component) {
  switch (component) {
    case Component::kText1:
      return kText1Prefixes;
    case Component::kText2:
      return kText2Prefixes;
    case Component::kText3:
      return kText3Prefixes;
    default:
      return kModelPrefixes;
  }
}

// The adapter's tensors as a checkpoint whose bytes are in memory.
Checkpoint checkpoint_of(const Adapter& adapter) {
  Checkpoint checkpoint;
  checkpoint.listing.given = adapter.given;
  Shard& shard = checkpoint.shards.emplace_back();
  shard.name = adapter.file;
  shard.readable = true;
  shard.header.has_metadata = !adapter.metadata.empty();
  shard.header.metadata = adapter.metadata;
  uint64_t at = 0;
  for (const NamedTensor& tensor : adapter.tensors) {
    const uint64_t end = at + tensor.data.bytes.size();
    shard.header.tensors.push_back({tensor.name, tensor.data.dtype, tensor.data.shape, at, end});
    checkpoint.order.push_back({0, static_cast<uint32_t>(checkpoint.order.size())});
    at = end;
  }
  shard.size = shard.header.data_offset() + at;
  for (const TensorRef tensor : checkpoint.order)
    checkpoint.by_name.emplace(checkpoint.info(tensor).name, tensor);
  if (!adapter.config_text.empty()) {
    checkpoint.side_files.push_back(
        {"adapter_config.json", adapter.config_text, parse_json(adapter.config_text, JsonDialect::kPython)});
  }
  return checkpoint;
}

Bytes bytes_of(const Adapter& adapter, TensorRef tensor) { return adapter.tensors[tensor.tensor].data.bytes; }

template <class Pump>
bool serve(const Adapter& adapter, const Checkpoint& checkpoint, Pump& pump) {
  const std::vector<ReadRequest> requests = pump.want();
  for (const ReadRequest& request : requests) {
    const uint64_t begin = request.range.offset - checkpoint.shards[0].header.data_offset();
    const auto& tensors = checkpoint.shards[0].header.tensors;
    const auto after =
        std::upper_bound(tensors.begin(), tensors.end(), begin,
                         [](uint64_t at, const TensorInfo& tensor) { return at < tensor.begin; });
    const auto index = static_cast<uint32_t>(after - tensors.begin() - 1);
    const Bytes bytes = bytes_of(adapter, {0, index});
    pump.supply(request, bytes.subspan(static_cast<size_t>(begin - tensors[index].begin),
                                       static_cast<size_t>(request.range.length)));
  }
  return !requests.empty();
}

// Modules of the base by their names with underscores.
class BaseModules {
 public:
  explicit BaseModules(std::span<const TensorView> base) {
    for (const TensorView& tensor : base) {
      if (!ends_with(tensor.name, ".weight")) continue;
      const std::string_view stem = tensor.name.substr(0, tensor.name.size() - 7);
      const auto [at, fresh] = stems_.emplace(flat_name(stem), stem);
      if (!fresh && at->second != stem) twice_.emplace(at->first, stem);
    }
  }
  // The base's name of a module; empty when it has none.
  std::string_view find(const Module& module) const {
    for (const std::string_view prefix : prefixes_of(module.component)) {
      const auto at = stems_.find(flat_name(prefix) + module.flat);
      if (at != stems_.end() && twice_.count(at->first) == 0) return at->second;
    }
    return "";
  }

 private:
  std::unordered_map<std::string, std::string_view> stems_;
  std::unordered_map<std::string, std::string_view> twice_;
};

struct Attempt {
  std::vector<Module> modules;
  std::vector<std::string_view> names;  // in the base, of each module; empty: it has none
  std::map<uint64_t, Work::Told> fates;
  std::vector<std::string> notes;
  size_t missing = 0;
};

Attempt look_up(const Work& work, const BaseModules& base) {
  Attempt attempt{work.modules, {}, work.fates, work.notes};
  for (const Module& module : attempt.modules) {
    attempt.names.push_back(base.find(module));
    attempt.missing += attempt.names.back().empty() ? 1 : 0;
  }
  return attempt;
}

// Components of which the base has nothing are another model's.
std::map<Component, size_t> matched_components(const Attempt& attempt) {
  std::map<Component, size_t> matched;
  for (size_t m = 0; m < attempt.modules.size(); ++m)
    matched[attempt.modules[m].component] += attempt.names[m].empty() ? 0 : 1;
  return matched;
}

Result<void> take_base_names(Work& work, Attempt attempt) {
  const std::map<Component, size_t> matched = matched_components(attempt);
  const bool any =
      std::any_of(matched.begin(), matched.end(), [](const auto& one) { return one.second > 0; });
  work.modules.clear();
  work.fates = std::move(attempt.fates);
  work.notes = std::move(attempt.notes);
  std::map<Component, size_t> left;
  for (size_t m = 0; m < attempt.modules.size(); ++m) {
    Module& module = attempt.modules[m];
    if (attempt.names[m].empty()) {
      if (!any || matched.at(module.component) > 0) {
        work.leave(module, "is adapted and is no weight of the base");
        continue;
      }
      ++left[module.component];
      for (const TensorRef tensor : module.tensors) work.drop(tensor, "of another model of the pipeline");
      continue;
    }
    module.path = std::string(attempt.names[m]);
    module.component = Component::kNone;
    work.modules.push_back(std::move(module));
  }
  for (const auto& [component, count] : left)
    work.warnings.push_back("Of the adapter " + quote_name(work.checkpoint.listing.given) + " " +
                            grouped_digits(count) + " modules of " +
                            std::string(component_folder(component, work.base_family)) +
                            " are left out: the base is another model of the pipeline.");
  return {};
}

constexpr NameStyle kStyles[] = {{.wanted = Wanted::kAsTheyAre, .keep_flat = true},
                                 {.wanted = Wanted::kOriginal, .keep_flat = true},
                                 {.wanted = Wanted::kOriginal, .original_unet = true, .keep_flat = true},
                                 {.wanted = Wanted::kDiffusers, .keep_flat = true}};

// Nothing while values are still to come.
Result<std::optional<AdapterConversion>> convert_for_base(Work& work, const BaseModules& base) {
  work.survey = survey_adapter(work.checkpoint, work.values);
  for (const AdapterModule& module : work.survey.modules)
    if (const auto alpha = module.find(AdapterPart::kAlpha); alpha && work.values.pending(*alpha))
      return std::optional<AdapterConversion>();
  work.based = true;
  TFTF_TRY(read_modules(work));
  TFTF_TRY(place_modules(work));
  const std::vector<Module> placed = work.modules;
  const std::map<uint64_t, Work::Told> fates = work.fates;
  std::optional<Attempt> best;
  for (const NameStyle& style : kStyles) {
    work.modules = placed;
    work.fates = fates;
    work.notes.clear();
    // Names that another form of the model does not have are no mistake as long as one form fits.
    const Result<void> renamed = rename_modules(work, style);
    if (work.pending) return std::optional<AdapterConversion>();
    if (!renamed) continue;
    Attempt attempt = look_up(work, base);
    if (!best || attempt.missing < best->missing) best = std::move(attempt);
    if (best->missing == 0) break;
  }
  if (!best) {
    work.modules = placed;
    return rename_modules(work, kStyles[0]).error();
  }
  TFTF_TRY(take_base_names(work, *std::move(best)));
  AdapterConversion out;
  out.from = work.from;
  TFTF_TRY(write_peft(work, out));
  if (work.pending) return std::optional<AdapterConversion>();
  for (const TensorRef tensor : work.checkpoint.order) {
    const Work::Told& told = work.fates[Work::key(tensor)];
    if (told.fate != Work::Fate::kOpen) continue;
    return Error{.code = ErrorCode::kRefusedUnmatched,
                 .message = "Adapter tensor " + quote_name(work.info(tensor).name) + " of " +
                            quote_name(work.checkpoint.listing.given) + " (family " +
                            std::string(adapter_family_id(work.from)) + ") " + told.reason + ".",
                 .file = work.checkpoint.shards[0].name,
                 .tensor = work.info(tensor).name};
  }
  return std::optional<AdapterConversion>(std::move(out));
}

std::vector<NamedTensor> cooked(const Adapter& adapter, const Checkpoint& checkpoint,
                                const AdapterConversion& converted) {
  std::vector<NamedTensor> tensors;
  for (const AdapterConversion::File& file : converted.files)
    for (AdapterRecipe recipe : file.tensors) {
      number_sources(recipe);
      NamedTensor& made = tensors.emplace_back();
      made.name = recipe.name;
      made.data.dtype = recipe.dtype;
      made.data.shape = recipe.shape;
      if (const auto copied = recipe.copy_of(checkpoint)) {
        made.data.bytes = adapter.tensors[copied->tensor].data.bytes;
        continue;
      }
      std::vector<Bytes> sources;
      for (const TensorRef source : recipe_sources(recipe)) sources.push_back(bytes_of(adapter, source));
      made.data.bytes.resize(static_cast<size_t>(recipe.rows * recipe.cols * (dtype_bits(recipe.dtype) / 8)));
      cook_rows(recipe, sources, 0, recipe.rows, made.data.bytes.data());
    }
  return tensors;
}

}  // namespace

Result<std::shared_ptr<const Adapter>> adapt_to_base(const std::shared_ptr<const Adapter>& foreign,
                                                     std::span<const TensorView> base) {
  const Checkpoint checkpoint = checkpoint_of(*foreign);
  const BaseModules modules(base);
  SmallValues values(checkpoint, UINT64_MAX);
  ValueScans scans(checkpoint);
  AdapterConvertOptions options{.to = AdapterTarget::kPeft};
  while (true) {
    Work work{checkpoint, values, scans, options};
    Result<std::optional<AdapterConversion>> converted = convert_for_base(work, modules);
    if (!converted) return std::move(converted).error();
    if (!*converted) {
      const bool small = serve(*foreign, checkpoint, values), whole = serve(*foreign, checkpoint, scans);
      if (small || whole) continue;
      return Error{.message = "An adapter waits for values that nobody wants."};
    }
    std::vector<std::string> notices;
    for (std::string& warning : work.warnings) notices.push_back(std::move(warning));
    for (std::string& note : work.notes) notices.push_back(std::move(note));
    const AdapterConfigText config{foreign->file, (*converted)->sides.front().second};
    return make_adapter(foreign->given, foreign->file, cooked(*foreign, checkpoint, **converted), config,
                        std::move(notices));
  }
}

}  // namespace tftf
