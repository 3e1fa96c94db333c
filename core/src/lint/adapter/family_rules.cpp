#include "lint/adapter/family_rules.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "tftf/adapter/survey.h"
#include "tftf/base/affix.h"

namespace tftf {
namespace {

using P = AdapterPart;

constexpr size_t kMostKeys = 6;

// Metadata that tells of the training data.
constexpr std::string_view kPrivateKeys[] = {"ss_dataset_dirs", "ss_reg_dataset_dirs", "ss_tag_frequency",
                                             "ss_datasets"};
constexpr std::string_view kHomes[] = {"/home/", "/Users/", ":\\Users\\", "/root/", "/mnt/"};

// Prefixes that only adapters' tensors have: what follows them has to be a known part.
constexpr std::string_view kOwnPrefixes[] = {"lora_unet_",        "lora_te_",    "lora_te1_",
                                             "lora_te2_",         "lora_te3_",   "lycoris_",
                                             "lora_transformer_", "lora_prior_", "diffusion_model."};

bool stores_alpha(AdapterFamily family) {
  switch (family) {
    case AdapterFamily::kKohya:
    case AdapterFamily::kOnetrainer:
    case AdapterFamily::kWanFun:
    case AdapterFamily::kHunyuanOld:
    case AdapterFamily::kComfyGeneric:
      return true;
    default:
      return false;
  }
}

// Pairs that check_lora_names() judges by their own names.
bool is_plain_pair(std::string_view name) {
  return contains(name, ".lora_A") || contains(name, ".lora_B") || contains(name, ".lora_down") ||
         contains(name, ".lora_up") || contains(name, ".lora_embedding_");
}

std::string_view part_word(P part) {
  switch (part) {
    case P::kDown:
      return "down";
    case P::kUp:
      return "up";
    case P::kHadaW1A:
      return "hada_w1_a";
    case P::kHadaW1B:
      return "hada_w1_b";
    case P::kHadaW2A:
      return "hada_w2_a";
    case P::kHadaW2B:
      return "hada_w2_b";
    case P::kLokrW1:
      return "lokr_w1";
    case P::kLokrW2:
      return "lokr_w2";
    default:
      return "a factor";
  }
}

// One file's adapter, as a checkpoint of its own.
class FamilyRules {
 public:
  FamilyRules(FindingList& list, const Header& header, bool configured)
      : list_(list), header_(header), configured_(configured) {
    Shard& shard = checkpoint_.shards.emplace_back();
    shard.header = header;
    for (uint32_t t = 0; t < header.tensors.size(); ++t) checkpoint_.order.push_back({0, t});
    SmallValues none(checkpoint_, 0);
    survey_ = survey_adapter(checkpoint_, none);
  }

  // False when it is no adapter.
  bool run() {
    if (survey_.kind != AdapterKind::kAdapter || survey_.modules.empty()) return false;
    check_pairs();
    check_mixture();
    check_alphas();
    check_duplicates();
    check_suffixes();
    check_dora();
    check_scale();
    check_transposed();
    check_metadata();
    check_base_family();
    return true;
  }

 private:
  const TensorInfo& info(TensorRef tensor) const { return checkpoint_.info(tensor); }

  Diagnostic* report(Rule rule, std::string_view subject) {
    Diagnostic* finding = list_.add(rule);
    if (finding != nullptr) finding->subject = std::string(subject);
    return finding;
  }

  // LO005, LO006 of names that are no plain pairs'.
  void check_pairs() {
    for (const AdapterModule& module : survey_.modules) {
      if (is_plain_pair(info(module.parts.front().second).name)) continue;
      const std::optional<P> lacks = lacking(module);
      if (lacks) {
        P have = module.parts.front().first;
        for (const auto& [part, tensor] : module.parts)
          if (part != P::kAlpha) have = part;
        if (Diagnostic* finding = report(Rule::LO006, module.name))
          finding->values = {{"module", std::string(module.name)},
                             {"have", std::string(part_word(have))},
                             {"lacks", std::string(part_word(*lacks))}};
        continue;
      }
      check_ranks(module);
    }
  }

  static std::optional<P> lacking(const AdapterModule& module) {
    const auto lone = [&](P one, P other) { return module.has(one) && !module.has(other); };
    if (lone(P::kDown, P::kUp)) return P::kUp;
    if (lone(P::kUp, P::kDown)) return P::kDown;
    const P hada[] = {P::kHadaW1A, P::kHadaW1B, P::kHadaW2A, P::kHadaW2B};
    if (std::any_of(std::begin(hada), std::end(hada), [&](P part) { return module.has(part); })) {
      for (const P part : hada)
        if (!module.has(part)) return part;
    }
    const auto factor = [&](P whole, P a, P b) {
      return module.has(whole) || (module.has(a) && module.has(b));
    };
    const bool first = factor(P::kLokrW1, P::kLokrW1A, P::kLokrW1B);
    const bool second = factor(P::kLokrW2, P::kLokrW2A, P::kLokrW2B);
    const bool any = first || second || module.has(P::kLokrW1A) || module.has(P::kLokrW2A);
    if (any && !first) return P::kLokrW1;
    if (any && !second) return P::kLokrW2;
    return std::nullopt;
  }

  void check_ranks(const AdapterModule& module) {
    const auto down = module.find(P::kDown), up = module.find(P::kUp);
    if (!down || !up) return;
    const Shape &a = info(*down).shape, &b = info(*up).shape;
    if (a.size() < 2 || b.size() < 2) return;
    const bool mlx = module.family == AdapterFamily::kMlx;
    if (mlx && a.size() > 2) return;
    const uint64_t of_a = mlx ? a[1] : a[0], of_b = mlx ? b[0] : b[1];
    if (of_a == of_b) return;
    if (Diagnostic* finding = report(Rule::LO005, module.name))
      finding->values = {{"module", std::string(module.name)}, {"a", of_a}, {"b", of_b}};
  }

  // LO016 of families other than PEFT's and kohya's.
  void check_mixture() {
    if (!survey_.ambiguous) return;
    // PEFT's names with and without prefix are LO013.
    if (std::all_of(survey_.families.begin(), survey_.families.end(), is_peft_family)) return;
    std::map<AdapterFamily, std::string_view> first;
    bool dotted = false, flat = false;
    for (const AdapterModule& module : survey_.modules) {
      const std::string_view name = info(module.parts.front().second).name;
      first.emplace(module.family, name);
      dotted = dotted || contains(name, ".lora_A") || contains(name, ".lora_B");
      flat = flat || contains(name, ".lora_down") || contains(name, ".lora_up");
    }
    if (dotted && flat) return;  // check_lora_names() has told it
    if (Diagnostic* finding = list_.add(Rule::LO016))
      finding->values = {{"a", std::string(first.begin()->second)},
                         {"b", std::string(first.rbegin()->second)}};
  }

  void check_alphas() {
    uint64_t lacking_one = 0, with = 0;
    std::string_view first;
    for (const AdapterModule& module : survey_.modules) {
      const std::string_view form = adapter_form(module, checkpoint_);
      const bool scaled = form == "lora" || form == "dora" || form == "loha" || form == "lokr";
      if (!stores_alpha(module.family) || !scaled) continue;
      if (module.has(P::kAlpha)) {
        ++with;
      } else if (lacking_one++ == 0) {
        first = module.name;
      }
    }
    if (with == 0 || lacking_one == 0) return;
    if (Diagnostic* finding = report(Rule::LO021, first))
      finding->values = {
          {"count", lacking_one}, {"total", lacking_one + with}, {"module", std::string(first)}};
  }

  // A module's path without what the family puts before it.
  static std::string_view bare_path(const AdapterModule& module) {
    // Wrappers (`.base_layer`) stay: each is another parameter of its module.
    for (const std::string_view prefix :
         {"base_model.model.", "diffusion_model.", "lora_unet_", "lycoris_", "unet.", "transformer."})
      if (starts_with(module.name, prefix)) return module.name.substr(prefix.size());
    return module.name;
  }

  void check_duplicates() {
    std::map<std::string, const AdapterModule*> seen;
    for (const AdapterModule& module : survey_.modules) {
      check_parts(module);
      const std::string_view path = bare_path(module);
      std::string flat(path);
      std::replace(flat.begin(), flat.end(), '.', '_');
      const auto [at, fresh] = seen.emplace(std::move(flat), &module);
      if (fresh) continue;
      const AdapterModule& other = *at->second;
      // The same name, or the same once its dots are underscores.
      const bool dots = bare_path(other) != path && other.family == module.family;
      if (Diagnostic* finding = report(dots ? Rule::LO026 : Rule::LO022, module.name))
        finding->values = {{"module", std::string(module.name)}, {"other", std::string(other.name)}};
    }
  }

  // The same factor under two spellings.
  void check_parts(const AdapterModule& module) {
    if (module.family == AdapterFamily::kPeftNamed) return;  // a file may hold several adapters by name
    std::map<P, TensorRef> parts;
    for (const auto& [part, tensor] : module.parts) {
      if (part != P::kDown && part != P::kUp && part != P::kMagnitude && part != P::kAlpha) continue;
      const auto [at, fresh] = parts.emplace(part, tensor);
      if (fresh) continue;
      if (Diagnostic* finding = report(Rule::LO022, info(tensor).name))
        finding->values = {{"module", info(tensor).name}, {"other", info(at->second).name}};
      return;
    }
  }

  void check_suffixes() {
    std::vector<std::string_view> names;
    for (const TensorInfo& tensor : header_.tensors) names.emplace_back(tensor.name);
    const AdapterFileFacts facts = adapter_file_facts(names);
    uint64_t count = 0;
    std::string_view first;
    for (const std::string_view name : names) {
      const bool own = std::any_of(std::begin(kOwnPrefixes), std::end(kOwnPrefixes),
                                   [&](std::string_view prefix) { return starts_with(name, prefix); });
      if (!own || parse_adapter_name(name, facts)) continue;
      if (count++ == 0 || name < first) first = name;
    }
    if (count == 0) return;
    if (Diagnostic* finding = report(Rule::LO023, first))
      finding->values = {{"count", count}, {"tensor", std::string(first)}};
  }

  void check_dora() {
    uint64_t count = 0;
    std::string_view first;
    for (const AdapterModule& module : survey_.modules) {
      const auto magnitude = module.find(P::kMagnitude);
      if (!magnitude || !ends_with(info(*magnitude).name, ".dora_scale")) continue;
      if (count++ == 0) first = module.name;
    }
    if (count == 0) return;
    if (Diagnostic* finding = report(Rule::LO024, first)) finding->values = {{"count", count}};
  }

  void check_scale() {
    if (survey_.scale != AdapterScale::kUnknown || configured_ || !survey_.family) return;
    if (!is_peft_family(*survey_.family) && *survey_.family != AdapterFamily::kMlx) return;
    if (Diagnostic* finding = list_.add(Rule::LO025))
      finding->values = {{"family", std::string(adapter_family_id(*survey_.family))}};
  }

  // The factors of MLX under another family's names.
  void check_transposed() {
    for (const AdapterModule& module : survey_.modules) {
      if (module.family == AdapterFamily::kMlx) continue;
      const auto down = module.find(P::kDown), up = module.find(P::kUp);
      if (!down || !up) continue;
      const Shape &a = info(*down).shape, &b = info(*up).shape;
      if (a.size() != 2 || b.size() != 2) continue;
      if (a[1] != b[0] || a[0] <= a[1] || b[1] <= b[0]) continue;
      // Factors of stacked experts have a rank for each expert, which may be more than the sides.
      if (a[0] == b[1] && (ends_with(module.name, "experts") || contains(module.name, "experts.base_layer")))
        continue;
      if (Diagnostic* finding = report(Rule::LO027, module.name))
        finding->values = {{"module", std::string(module.name)}, {"a", shape_text(a)}, {"b", shape_text(b)}};
    }
  }

  void check_metadata() {
    std::string keys;
    size_t count = 0;
    for (const auto& [key, value] : header_.metadata) {
      const bool named =
          std::find(std::begin(kPrivateKeys), std::end(kPrivateKeys), key) != std::end(kPrivateKeys);
      const bool path =
          std::any_of(std::begin(kHomes), std::end(kHomes),
                      [&, &text = value](std::string_view home) { return contains(text, home); });
      const bool empty = value.empty() || value == "{}" || value == "None" || value == "[]";
      if ((!named && !path) || empty) continue;
      if (count++ < kMostKeys) keys += (keys.empty() ? "" : ", ") + key;
    }
    if (count == 0) return;
    if (count > kMostKeys) keys += ", ...";
    if (Diagnostic* finding = list_.add(Rule::LO028))
      finding->values = {{"count", static_cast<uint64_t>(count)}, {"keys", std::move(keys)}};
  }

  // What the metadata calls the base; empty when it is none that is known.
  static std::string_view declared_family(std::string_view key, std::string_view value) {
    struct Word {
      std::string_view start, family;
    };
    constexpr Word kVersions[] = {{"sdxl", "sdxl"}, {"sd_v1", "sd1"},    {"sd_v2", "sd2"},
                                  {"sd3", "sd3"},   {"flux1", "flux.1"}, {"flux2", "flux.2"}};
    constexpr Word kArchitectures[] = {
        {"stable-diffusion-xl-v1", "sdxl"}, {"stable-diffusion-v1", "sd1"}, {"stable-diffusion-v2", "sd2"},
        {"stable-diffusion-3", "sd3"},      {"flux-1", "flux.1"},           {"flux-2", "flux.2"}};
    if (key == "ss_base_model_version") {
      for (const Word& word : kVersions)
        if (starts_with(value, word.start)) return word.family;
    } else if (key == "modelspec.architecture") {
      for (const Word& word : kArchitectures)
        if (starts_with(value, word.start)) return word.family;
    }
    return "";
  }

  void check_base_family() {
    if (survey_.base_family.empty()) return;
    for (const auto& [key, value] : header_.metadata) {
      const std::string_view family = declared_family(key, value);
      if (family.empty() || family == survey_.base_family) continue;
      if (Diagnostic* finding = report(Rule::LO029, key))
        finding->values = {{"key", key}, {"value", value}, {"family", std::string(survey_.base_family)}};
      return;
    }
  }

  FindingList& list_;
  const Header& header_;
  bool configured_;
  Checkpoint checkpoint_;
  AdapterSurvey survey_;
};

bool names_an_adapter(const Header& header) {
  std::vector<std::string_view> names;
  names.reserve(header.tensors.size());
  for (const TensorInfo& tensor : header.tensors) names.emplace_back(tensor.name);
  const AdapterFileFacts facts = adapter_file_facts(names);
  return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
    const auto parsed = parse_adapter_name(name, facts);
    return parsed && parsed->part != P::kSaved;
  });
}

}  // namespace

bool check_adapter_family(FindingList& list, const Header& header, bool configured) {
  return names_an_adapter(header) && FamilyRules(list, header, configured).run();
}

}  // namespace tftf
