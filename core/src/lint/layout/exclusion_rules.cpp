// The modules that the configuration leaves out of quantisation against those that are stored plain.
#include <algorithm>
#include <unordered_set>

#include "lint/layout/quant_rules.h"
#include "lint/other_prefixes.h"
#include "tftf/base/affix.h"

namespace tftf {
namespace {

// QT345.
void check_excluded(FileFindings& out, const QuantFacts& facts, Exclusions& exclusions) {
  const bool fp8 = facts.is_method({"fp8", "fbgemm-fp8", "mxfp8"});
  if (!fp8 && !facts.is_method({"modelopt", "awq", "quark", "bitsandbytes"})) return;
  const ExclusionDialect dialect = fp8 ? ExclusionDialect::kTransformersFp8 : ExclusionDialect::kEqualOrGlob;
  for (const QuantModule& module : facts.modules.all) {
    const Exclusion* entry = exclusions.find(module.name, dialect);
    if (!entry) continue;
    if (Diagnostic* finding =
            add_quant_finding(out, facts, Rule::QT345, std::string(module.name), entry->value))
      finding->values = {{"module", std::string(module.name)}, {"entry", entry->text}};
  }
}

// A path with '#' for every number.
std::string numberless(std::string_view path) {
  std::string out;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string_view component = path.substr(begin, end - begin);
    const bool number = !component.empty() && std::all_of(component.begin(), component.end(), is_digit);
    if (begin != 0) out += '.';
    out += number ? std::string_view("#") : component;
    begin = end + 1;
  }
  return out;
}

// Whether auto-round's list of blocks (a name, several with commas, or an array) leaves the module out.
bool is_outside_blocks(const JsonValue* blocks, std::string_view module) {
  if (!blocks) return false;
  bool any = false, inside = false;
  const auto look = [&](std::string_view text) {
    while (!text.empty()) {
      const size_t comma = std::min(text.find(','), text.size());
      const std::string_view block = text.substr(0, comma);
      text.remove_prefix(std::min(comma + 1, text.size()));
      if (block.empty()) continue;
      any = true;
      inside = inside || (starts_with(module, block) && module.substr(block.size(), 1) == ".");
    }
  };
  if (blocks->is_string()) look(blocks->text);
  for (const JsonValue& element : blocks->elements) {
    if (element.is_string()) look(element.text);
    for (const JsonValue& inner : element.elements)
      if (inner.is_string()) look(inner.text);
  }
  return any && !inside;
}

bool has_stale_scale(const QuantFacts& facts, std::string_view module) {
  if (!facts.is_method({"fp8", "fbgemm-fp8", "mxfp8", "modelopt", "quark"})) return false;
  for (const std::string_view scale : {".weight_scale_inv", ".weight_scale", ".weight_scale_2"})
    if (facts.find(module, scale)) return true;
  return false;
}

// QT347 and QT349.
void check_plain(FileFindings& out, const QuantFacts& facts, Exclusions& exclusions) {
  const bool head = facts.is_method({"fp8", "mxfp8"}) && !facts.ties_embeddings() && facts.quant.section &&
                    facts.quant.section->get("modules_to_not_convert") &&
                    facts.quant.section->get("modules_to_not_convert")->is_array();
  const bool listed =
      facts.is_method({"gptq", "awq", "auto-round", "fp8", "fbgemm-fp8", "modelopt", "mxfp8", "quark"}) &&
      !facts.quant.get("modules_in_block_to_quantize") && !facts.quant.get("quantized_layers");
  if ((!head && !listed) || facts.modules.all.empty()) return;
  std::unordered_map<std::string, uint64_t> quantised;
  for (const QuantModule& module : facts.modules.all) ++quantised[numberless(module.name)];
  const JsonValue* blocks = facts.quant.get("block_name_to_quantize");
  for (const TensorRef ref : facts.checkpoint->order) {
    const TensorInfo& tensor = facts.info(ref);
    const SplitName name = split_name(tensor.name);
    if (name.last != "weight" || name.path.empty() || tensor.shape.size() != 2 ||
        !is_plain_dtype(tensor.dtype))
      continue;
    const bool is_head = head && split_name(name.path).last == "lm_head";
    uint64_t peers = 0;
    if (listed && is_projection(name.path) && !facts.modules.holds(name.path) &&
        !is_outside_blocks(blocks, name.path) && !has_stale_scale(facts, name.path))
      if (const auto found = quantised.find(numberless(name.path)); found != quantised.end())
        peers = found->second;
    if ((peers == 0 && !is_head) || exclusions.may_cover(name.path)) continue;
    Diagnostic* finding = out.of(facts.file_of(ref)).add(is_head ? Rule::QT349 : Rule::QT347);
    if (!finding) continue;
    finding->subject = std::string(name.path);
    finding->values = {{"module", std::string(name.path)}};
    if (!is_head) finding->values.emplace_back("quantised", peers);
  }
}

// Longer paths name no module: each of their many ends and beginnings would have to be looked at.
constexpr size_t kLongestPath = 1000;

// QT348: all modules and the paths above them, and which of some entries name one, also as its end.
class StoredPaths {
 public:
  explicit StoredPaths(const QuantFacts& facts) {
    for (const TensorRef ref : facts.checkpoint->order) {
      std::string_view path = facts.info(ref).name;
      if (path.size() > kLongestPath) continue;
      while (!path.empty() && paths_.insert(path).second) path = split_name(path).path;
    }
  }

  bool holds(std::string_view path) const { return paths_.count(path) != 0; }

  // Marks the entries that are the end of a stored path, component by component.
  void mark_tails(const std::unordered_map<std::string_view, uint32_t>& entries,
                  std::vector<bool>& named) const {
    size_t longest = 0;
    for (const auto& [text, entry] : entries) longest = std::max(longest, text.size());
    for (const std::string_view path : paths_)
      for (size_t dot = path.rfind('.'); dot != std::string_view::npos && path.size() - dot - 1 <= longest;
           dot = dot == 0 ? std::string_view::npos : path.rfind('.', dot - 1))
        if (const auto found = entries.find(path.substr(dot + 1)); found != entries.end())
          named[found->second] = true;
  }

 private:
  std::unordered_set<std::string_view> paths_;
};

void check_prefixes(FileFindings& out, const QuantFacts& facts, const Exclusions& exclusions) {
  if (!facts.known_method()) return;
  constexpr std::string_view kEnd = ".weight";
  std::unordered_map<std::string_view, uint32_t> entries;  // texts without `.weight`, each once
  const std::vector<Exclusion>& all = exclusions.entries();
  for (uint32_t i = 0; i < all.size(); ++i) {
    std::string_view text = all[i].text;
    if (text.find_first_of("*?^$[(\\") != std::string_view::npos || !contains(text, ".")) continue;
    if (text.size() > kLongestPath) continue;
    if (ends_with(text, kEnd)) text.remove_suffix(kEnd.size());
    entries.emplace(text, i);
  }
  if (entries.empty()) return;
  const StoredPaths stored(facts);
  std::vector<bool> named(all.size());
  stored.mark_tails(entries, named);
  for (uint32_t i = 0; i < all.size(); ++i) {
    std::string_view text = all[i].text;
    if (ends_with(text, kEnd)) text.remove_suffix(kEnd.size());
    const auto entry = entries.find(text);
    if (entry == entries.end() || entry->second != i || named[i] || stored.holds(text)) continue;
    for (const std::string& other : other_prefixes(text)) {
      if (!stored.holds(other)) continue;
      if (Diagnostic* finding = add_quant_finding(out, facts, Rule::QT348, all[i].text, all[i].value))
        finding->values = {{"entry", all[i].text}, {"other", other}};
      break;
    }
  }
}

}  // namespace

void check_exclusions(FileFindings& out, const QuantFacts& facts) {
  if (!facts.judged() || !facts.complete) return;
  Exclusions exclusions(facts.quant);
  check_excluded(out, facts, exclusions);
  check_plain(out, facts, exclusions);
  check_prefixes(out, facts, exclusions);
}

}  // namespace tftf
