// What an adapter file is: families, modules, ranks, alphas, where its scale comes from (spec adapters 5,
// 13).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tftf/adapter/families.h"
#include "tftf/adapter/scales.h"
#include "tftf/base/json_text.h"
#include "tftf/checkpoint/small_values.h"

namespace tftf {

struct AdapterModule {
  AdapterFamily family{};
  std::string_view name;  // as stored, without the parts' suffixes; a view into the checkpoint's headers
  std::vector<std::pair<AdapterPart, TensorRef>> parts;

  std::optional<TensorRef> find(AdapterPart part) const;
  bool has(AdapterPart part) const { return find(part).has_value(); }
};

// "adapter", "checkpoint", "embedding" or "unknown" (no tensor at all).
enum class AdapterKind : uint8_t { kAdapter, kCheckpoint, kEmbedding, kUnknown };
std::string_view adapter_kind_name(AdapterKind kind);

struct AdapterSurvey {
  AdapterKind kind = AdapterKind::kUnknown;
  std::optional<AdapterFamily> family;  // the one of most modules
  std::vector<AdapterFamily> families;  // all found, by id; text encoder halves counted with the other half
  std::string_view base_family;         // "sd1", "flux.1", … ; empty when nothing decides
  std::vector<std::pair<std::string, uint64_t>> forms;     // "lora" → modules
  std::vector<AdapterModule> modules;                      // by first tensor in reading order
  std::vector<std::pair<AdapterFamily, TensorRef>> saved;  // plain tensors that a family explains
  std::map<uint64_t, uint64_t> ranks;                      // rank → modules
  std::vector<std::pair<std::string, uint64_t>> alphas;    // alpha as a number's text → modules, by value
  AdapterScale scale = AdapterScale::kUnknown;
  bool ambiguous = false;
  std::vector<std::string> unpaired;
  std::vector<std::string> evidence;
  uint64_t unexplained = 0;
};

// Reads alphas through `values`: when it wants something afterwards, supply it and survey again.
AdapterSurvey survey_adapter(const Checkpoint& checkpoint, SmallValues& values);

// The form of a module: "lora", "dora", "loha", "lokr", "full", …
std::string_view adapter_form(const AdapterModule& module, const Checkpoint& checkpoint);
// Its rank, nothing where the form has none.
std::optional<uint64_t> adapter_rank(const AdapterModule& module, const Checkpoint& checkpoint);
// The base model's family from module names and shapes, with the reason; empty when nothing decides.
std::string_view adapter_base_family(const std::vector<AdapterModule>& modules, const Checkpoint& checkpoint,
                                     std::string& evidence);

// The object of `adapter info --json`.
OrderedJson adapter_json(const AdapterSurvey& survey);

}  // namespace tftf
