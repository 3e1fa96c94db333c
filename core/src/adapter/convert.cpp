// The conversion as a whole: its steps, and what became of each tensor.
#include "tftf/adapter/convert.h"

#include <algorithm>

#include "adapter/convert_module.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"

namespace tftf {
namespace {

constexpr std::string_view kTargets[] = {"peft", "kohya", "diffusers", "comfy", "mlx"};
constexpr std::string_view kBaseFamilies[] = {
    "sd1", "sd2", "sdxl", "sd3", "flux.1", "flux.2", "qwen-image", "wan", "hunyuan-video", "z-image", "llm"};
// Metadata that gives a scale: wrong, or said twice, where the scale is in the factors or in a configuration.
constexpr const char* kScaleKeys[] = {"lora_adapter_metadata", "lora_alpha", "network_alpha", "alpha",
                                      "ss_network_alpha"};
constexpr size_t kShownTensors = 3;

using converting::Work;

bool alphas_pending(const Work& work) {
  for (const AdapterModule& module : work.survey.modules)
    if (const auto alpha = module.find(AdapterPart::kAlpha); alpha && work.values.pending(*alpha))
      return true;
  return false;
}

Result<void> write_target(Work& work, AdapterConversion& out) {
  switch (out.to) {
    case AdapterTarget::kPeft:
      return write_peft(work, out);
    case AdapterTarget::kKohya:
      return write_kohya(work, out);
    case AdapterTarget::kDiffusers:
      return write_diffusers(work, out);
    case AdapterTarget::kComfy:
      return write_comfy(work, out);
    case AdapterTarget::kMlx:
      break;
  }
  return write_mlx(work, out);
}

// Two loaders take the norm of a DoRA differently: names and shapes say nothing of it.
void note_dora(const Work& work, AdapterConversion& out) {
  const auto peft_like = [](AdapterFamily family) {
    return is_peft_family(family) || family == AdapterFamily::kMlx || family == AdapterFamily::kDiffusersPeft;
  };
  const bool to_peft =
      out.to == AdapterTarget::kPeft || out.to == AdapterTarget::kMlx || out.to == AdapterTarget::kDiffusers;
  for (const auto& [form, count] : work.survey.forms) {
    if (form != "dora" || peft_like(work.from) == to_peft) continue;
    out.notes.emplace_back(
        "DoRA: PEFT and mlx take the norm of the changed weight, some loaders of kohya's names that of the "
        "unchanged "
        "one (dora-norm-convention).");
  }
}

void count_fates(const Work& work, AdapterConversion& out) {
  for (const TensorRef tensor : work.checkpoint.order) {
    const auto at = work.fates.find(Work::key(tensor));
    const Work::Told told = at == work.fates.end() ? Work::Told{} : at->second;
    switch (told.fate) {
      case Work::Fate::kMapped:
        ++out.mapped;
        break;
      case Work::Fate::kDropped:
        out.dropped.emplace_back(tensor, told.reason);
        break;
      case Work::Fate::kOpen:
        out.unmapped.emplace_back(tensor, told.reason);
        break;
    }
  }
}

Result<void> check_unmapped(const Work& work, const AdapterConversion& out) {
  if (out.mapped == 0) {
    const std::string why = out.unmapped.empty() ? ""
                                                 : ": " + quote_name(work.info(out.unmapped[0].first).name) +
                                                       " " + out.unmapped[0].second;
    return convert_error(work, ErrorCode::kRefusedUnmatched,
                         "Nothing of " + quote_name(work.checkpoint.listing.given) + " has a " +
                             std::string(adapter_target_id(out.to)) + " form" + why + ".");
  }
  if (out.unmapped.empty() || work.options.allow_partial) return {};
  std::string shown;
  for (size_t i = 0; i < std::min(out.unmapped.size(), kShownTensors); ++i)
    shown += (i > 0 ? "; " : "") + quote_name(work.info(out.unmapped[i].first).name) + " " +
             out.unmapped[i].second;
  if (out.unmapped.size() > kShownTensors) shown += "; ...";
  return Error{.code = ErrorCode::kRefusedUnmatched,
               .message = "Of " + grouped_digits(work.checkpoint.order.size()) + " tensors " +
                          grouped_digits(out.mapped) + " are mapped, " + grouped_digits(out.dropped.size()) +
                          " dropped and " + grouped_digits(out.unmapped.size()) + " unmapped: " + shown +
                          ". --allow-partial leaves them out.",
               .file = work.checkpoint.shards.front().name,
               .tensor = work.info(out.unmapped[0].first).name,
               .expected = "0",
               .found = std::to_string(out.unmapped.size())};
}

void choose_metadata(AdapterConversion& out) {
  const bool keeps_alphas = out.to == AdapterTarget::kKohya || out.to == AdapterTarget::kComfy;
  for (const char* key : kScaleKeys)
    if (!keeps_alphas || std::string_view(key) == "lora_adapter_metadata")
      out.stale_metadata.emplace_back(key);
}

}  // namespace

std::string_view adapter_target_id(AdapterTarget target) { return kTargets[static_cast<size_t>(target)]; }

std::optional<AdapterTarget> find_adapter_target(std::string_view id) {
  for (size_t i = 0; i < std::size(kTargets); ++i)
    if (kTargets[i] == id) return static_cast<AdapterTarget>(i);
  return std::nullopt;
}

std::span<const std::string_view> adapter_base_families() { return kBaseFamilies; }

Result<std::optional<AdapterConversion>> convert_adapter(const Checkpoint& checkpoint, SmallValues& values,
                                                         ValueScans& scans,
                                                         const AdapterConvertOptions& options) {
  Work work{checkpoint, values, scans, options};
  work.survey = survey_adapter(checkpoint, values);
  if (alphas_pending(work)) return std::optional<AdapterConversion>();
  TFTF_TRY(read_modules(work));
  TFTF_TRY(place_modules(work));
  work.based = options.base != nullptr;
  TFTF_TRY(rename_modules(work, converting::name_style(options.to)));
  AdapterConversion out;
  out.from = work.from;
  out.to = options.to;
  out.base_family = work.base_family;
  if (!work.pending) TFTF_TRY(write_target(work, out));
  if (work.pending) return std::optional<AdapterConversion>();
  count_fates(work, out);
  TFTF_TRY(check_unmapped(work, out));
  choose_metadata(out);
  out.notes = std::move(work.notes);
  out.warnings = std::move(work.warnings);
  note_dora(work, out);
  return std::optional<AdapterConversion>(std::move(out));
}

}  // namespace tftf
