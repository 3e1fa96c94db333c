#include "tftf/adapter/survey.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>

#include "tftf/base/escape.h"

namespace tftf {
namespace {

constexpr std::string_view kKinds[] = {"adapter", "checkpoint", "embedding", "unknown"};
std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

std::string number_text(double value) {
  if (value == std::floor(value) && std::fabs(value) < 9007199254740992.0)
    return std::to_string(static_cast<int64_t>(value));
  return json_float(value).dump();
}

class Surveyor {
 public:
  Surveyor(const Checkpoint& checkpoint, SmallValues& values) : checkpoint_(checkpoint), values_(values) {}

  AdapterSurvey run() {
    collect();
    choose_families();
    name_other_method();
    count();
    find_alphas();
    out_.base_family = adapter_base_family(out_.modules, checkpoint_, base_evidence_);
    if (!base_evidence_.empty()) out_.evidence.push_back(base_evidence_);
    decide_kind();
    return std::move(out_);
  }

 private:
  void collect();
  void choose_families();
  void name_other_method();
  void count();
  void find_alphas();
  void decide_kind();

  const Checkpoint& checkpoint_;
  SmallValues& values_;
  AdapterSurvey out_;
  std::string base_evidence_;
  std::map<AdapterFamily, uint64_t> saved_;  // plain tensors by the family that explains them
};

void Surveyor::collect() {
  std::vector<std::string_view> names;
  names.reserve(checkpoint_.order.size());
  for (TensorRef tensor : checkpoint_.order) names.push_back(checkpoint_.info(tensor).name);
  const AdapterFileFacts facts = adapter_file_facts(names);
  std::unordered_map<std::string_view, size_t> known[kAdapterFamilyCount];
  for (size_t i = 0; i < names.size(); ++i) {
    const std::optional<AdapterName> parsed = parse_adapter_name(names[i], facts);
    if (!parsed) {
      ++out_.unexplained;
      continue;
    }
    if (parsed->part == AdapterPart::kSaved) {
      ++saved_[parsed->family];
      out_.saved.emplace_back(parsed->family, checkpoint_.order[i]);
      continue;
    }
    const auto [found, fresh] =
        known[static_cast<size_t>(parsed->family)].emplace(parsed->module, out_.modules.size());
    if (fresh) out_.modules.push_back({parsed->family, parsed->module, {}});
    out_.modules[found->second].parts.emplace_back(parsed->part, checkpoint_.order[i]);
  }
  // An alpha or a magnitude alone makes no module.
  const auto stray = std::stable_partition(
      out_.modules.begin(), out_.modules.end(),
      [&](const AdapterModule& module) { return !adapter_form(module, checkpoint_).empty(); });
  for (auto it = stray; it != out_.modules.end(); ++it) out_.unexplained += it->parts.size();
  out_.modules.erase(stray, out_.modules.end());
}

// Text encoder halves go with the other half; the family of most modules is the file's.
void Surveyor::choose_families() {
  std::map<AdapterFamily, uint64_t> halves;
  for (const AdapterModule& module : out_.modules)
    if (!is_text_encoder_name(module.name)) ++halves[module.family];
  if (halves.size() == 1) {
    const AdapterFamily whole = halves.begin()->first;
    const bool diffusers = whole == AdapterFamily::kDiffusersPeft || whole == AdapterFamily::kDiffusersOld ||
                           whole == AdapterFamily::kDiffusersMid;
    for (AdapterModule& module : out_.modules) {
      if (module.family == whole || !is_text_encoder_name(module.name)) continue;
      const bool kohya_half = module.family == AdapterFamily::kKohya &&
                              (whole == AdapterFamily::kOnetrainer || whole == AdapterFamily::kWanFun ||
                               whole == AdapterFamily::kHunyuanOld);
      const bool diffusers_half = diffusers && (module.family == AdapterFamily::kDiffusersPeft ||
                                                module.family == AdapterFamily::kDiffusersOld ||
                                                module.family == AdapterFamily::kDiffusersMid);
      if (kohya_half || diffusers_half) module.family = whole;
    }
  }
  std::map<AdapterFamily, uint64_t> modules;
  for (const AdapterModule& module : out_.modules) ++modules[module.family];
  for (const auto& [family, count] : modules) {
    out_.families.push_back(family);
    out_.evidence.push_back(std::to_string(count) + (count == 1 ? " module" : " modules") + " named like " +
                            std::string(adapter_family_id(family)) + " (" +
                            std::string(adapter_family_names(family)) + ")");
  }
  std::sort(out_.families.begin(), out_.families.end(),
            [](AdapterFamily a, AdapterFamily b) { return adapter_family_id(a) < adapter_family_id(b); });
  for (AdapterFamily family : out_.families)
    if (!out_.family || modules[family] > modules[*out_.family]) out_.family = family;
  out_.ambiguous = out_.families.size() > 1;
  // Plain tensors are explained by an adapter's prefix only where there is such an adapter.
  for (const auto& [family, count] : saved_) {
    const bool ours =
        std::any_of(out_.families.begin(), out_.families.end(), [family = family](AdapterFamily one) {
          return one == family || (is_peft_family(one) && is_peft_family(family));
        });
    if (!ours && !(is_peft_family(family) && adapter_config_of(checkpoint_))) out_.unexplained += count;
  }
}

// A peft_type that is taken apart nowhere: its lower-case name is the form.
void Surveyor::name_other_method() {
  const JsonValue* config = adapter_config_of(checkpoint_);
  const auto type = config ? config->string("peft_type") : std::nullopt;
  if (!type || !out_.modules.empty() || checkpoint_.order.empty()) return;
  const std::string form = lower(*type);
  std::set<std::string_view> stems;
  for (TensorRef tensor : checkpoint_.order) {
    const std::string_view name = checkpoint_.info(tensor).name;
    const size_t dot = name.rfind('.');
    if (dot != std::string_view::npos && name.substr(dot).find(form) != std::string_view::npos)
      stems.insert(name.substr(0, dot));
  }
  out_.family = AdapterFamily::kPeft;
  out_.families = {AdapterFamily::kPeft};
  const uint64_t modules = std::max<uint64_t>(1, stems.size());
  out_.forms.emplace_back(form, modules);
  out_.evidence.push_back("adapter_config.json says peft_type " + quote_name(*type));
  if (const int64_t rank = config->integer("r").value_or(0); rank > 0)
    out_.ranks[static_cast<uint64_t>(rank)] = modules;
}

void Surveyor::count() {
  for (const AdapterModule& module : out_.modules) {
    const std::string_view form = adapter_form(module, checkpoint_);
    const auto known =
        std::find_if(out_.forms.begin(), out_.forms.end(), [&](const auto& f) { return f.first == form; });
    if (known != out_.forms.end())
      ++known->second;
    else
      out_.forms.emplace_back(form, 1);
    if (const auto rank = adapter_rank(module, checkpoint_)) ++out_.ranks[*rank];
    auto has = [&](AdapterPart part) { return module.has(part); };
    const bool hada = has(AdapterPart::kHadaW1A) || has(AdapterPart::kHadaW1B) ||
                      has(AdapterPart::kHadaW2A) || has(AdapterPart::kHadaW2B);
    const bool lokr = form == "lokr" || has(AdapterPart::kLokrW1) || has(AdapterPart::kLokrW2) ||
                      has(AdapterPart::kLokrW1A) || has(AdapterPart::kLokrW2A);
    bool whole = has(AdapterPart::kDown) == has(AdapterPart::kUp) &&
                 has(AdapterPart::kEmbeddingDown) == has(AdapterPart::kEmbeddingUp);
    if (hada)
      whole = whole && has(AdapterPart::kHadaW1A) && has(AdapterPart::kHadaW1B) &&
              has(AdapterPart::kHadaW2A) && has(AdapterPart::kHadaW2B);
    if (lokr)
      whole = whole &&
              (has(AdapterPart::kLokrW1) || (has(AdapterPart::kLokrW1A) && has(AdapterPart::kLokrW1B))) &&
              (has(AdapterPart::kLokrW2) || (has(AdapterPart::kLokrW2A) && has(AdapterPart::kLokrW2B)));
    if (!whole) out_.unpaired.emplace_back(module.name);
  }
  std::stable_sort(out_.forms.begin(), out_.forms.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
}

void Surveyor::find_alphas() {
  const AdapterScales found = find_adapter_scales(checkpoint_, values_, out_.modules, out_.family);
  out_.scale = found.kind;
  std::map<double, uint64_t> alphas;
  for (const std::optional<double>& alpha : found.alphas)
    if (alpha) ++alphas[*alpha];
  for (const auto& [value, count] : alphas) out_.alphas.emplace_back(number_text(value), count);
  for (const std::string& note : found.notes) out_.evidence.push_back(note);
}

void Surveyor::decide_kind() {
  if (!out_.forms.empty()) {
    out_.kind = AdapterKind::kAdapter;
    return;
  }
  out_.scale = AdapterScale::kUnknown;
  if (checkpoint_.order.empty()) return;
  bool tokens = true, marker = false;
  for (TensorRef tensor : checkpoint_.order) {
    const std::string_view name = checkpoint_.info(tensor).name;
    marker = marker || name == "emb_params" || name == "clip_l" || name == "clip_g";
    tokens = tokens && name.size() > 2 && name.front() == '<' && name.back() == '>';
  }
  out_.kind = marker || tokens ? AdapterKind::kEmbedding : AdapterKind::kCheckpoint;
  if (marker || tokens) out_.evidence.emplace_back("the names are those of a textual inversion");
}

}  // namespace

std::optional<TensorRef> AdapterModule::find(AdapterPart part) const {
  for (const auto& [own, tensor] : parts)
    if (own == part) return tensor;
  return std::nullopt;
}

std::string_view adapter_kind_name(AdapterKind kind) { return kKinds[static_cast<size_t>(kind)]; }

AdapterSurvey survey_adapter(const Checkpoint& checkpoint, SmallValues& values) {
  return Surveyor(checkpoint, values).run();
}

std::string_view adapter_form(const AdapterModule& module, const Checkpoint& checkpoint) {
  auto any = [&](std::initializer_list<AdapterPart> parts) {
    return std::any_of(parts.begin(), parts.end(), [&](AdapterPart part) { return module.has(part); });
  };
  using P = AdapterPart;
  const bool hada = any({P::kHadaW1A, P::kHadaW1B, P::kHadaW2A, P::kHadaW2B});
  const bool lokr = any({P::kLokrW1, P::kLokrW1A, P::kLokrW1B, P::kLokrW2, P::kLokrW2A, P::kLokrW2B});
  const bool lora = any({P::kDown, P::kUp, P::kEmbeddingDown, P::kEmbeddingUp});
  if ((hada || lokr || lora) && module.has(P::kMagnitude)) return "dora";
  if (hada) return "loha";
  if (lokr) return "lokr";
  if (lora) return "lora";
  if (any({P::kGloraA1, P::kGloraA2, P::kGloraB1, P::kGloraB2})) return "glora";
  if (const auto oft = module.find(P::kOft)) return checkpoint.info(*oft).shape.size() == 4 ? "boft" : "oft";
  if (module.has(P::kIa3)) return "ia3";
  if (module.has(P::kVera)) return "vera";
  if (any({P::kDiff, P::kDiffBias})) return "full";
  if (any({P::kNormWeight, P::kNormBias})) return "norm";
  if (any({P::kSetWeight})) return "set";
  return {};
}

std::optional<uint64_t> adapter_rank(const AdapterModule& module, const Checkpoint& checkpoint) {
  auto dimension = [&](AdapterPart part, size_t from_end_of_two) -> std::optional<uint64_t> {
    const auto tensor = module.find(part);
    if (!tensor) return std::nullopt;
    const Shape& shape = checkpoint.info(*tensor).shape;
    if (shape.empty()) return std::nullopt;
    return from_end_of_two == 0 || shape.size() < 2 ? shape[0] : shape[shape.size() - from_end_of_two];
  };
  using P = AdapterPart;
  if (module.family == AdapterFamily::kMlx) {
    // [in, r], for experts [E, r, in].
    const auto down = module.find(P::kDown);
    if (down && checkpoint.info(*down).shape.size() == 3) return dimension(P::kDown, 2);
    if (const auto rank = dimension(P::kDown, 1)) return rank;
    return dimension(P::kUp, 2);
  }
  if (const auto rank = dimension(P::kDown, 0)) return rank;
  if (const auto up = module.find(P::kUp); up && checkpoint.info(*up).shape.size() >= 2)
    return checkpoint.info(*up).shape[1];
  if (const auto rank = dimension(P::kEmbeddingDown, 0)) return rank;
  if (const auto rank = dimension(P::kHadaW1B, 0)) return rank;
  if (const auto rank = dimension(P::kLokrW2B, 0)) return rank;
  return dimension(P::kLokrW1B, 0);
}

OrderedJson adapter_json(const AdapterSurvey& survey) {
  OrderedJson out;
  out["kind"] = adapter_kind_name(survey.kind);
  out["family"] = survey.family ? OrderedJson(adapter_family_id(*survey.family)) : OrderedJson();
  out["families"] = OrderedJson::array();
  for (AdapterFamily family : survey.families) out["families"].push_back(adapter_family_id(family));
  out["base_family"] = survey.base_family.empty() ? OrderedJson() : OrderedJson(survey.base_family);
  out["forms"] = OrderedJson::object();
  for (const auto& [form, count] : survey.forms) out["forms"][form] = json_integer(count);
  uint64_t modules = survey.modules.size();
  if (modules == 0)
    for (const auto& [form, count] : survey.forms) modules += count;
  out["modules"] = json_integer(modules);
  out["ranks"] = OrderedJson::object();
  for (const auto& [rank, count] : survey.ranks) out["ranks"][std::to_string(rank)] = json_integer(count);
  out["alphas"] = OrderedJson::object();
  for (const auto& [alpha, count] : survey.alphas) out["alphas"][alpha] = json_integer(count);
  out["scale"] = adapter_scale_name(survey.scale);
  out["ambiguous"] = survey.ambiguous;
  out["unpaired"] = survey.unpaired;
  out["evidence"] = survey.evidence;
  out["unexplained"] = json_integer(survey.unexplained);
  return out;
}

}  // namespace tftf
