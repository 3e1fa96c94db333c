// The QT rules of a model folder: its configuration against the quantised modules that are stored.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lint/file_findings.h"
#include "lint/layout/exclusions.h"
#include "lint/layout/method.h"
#include "lint/layout/modules.h"
#include "tftf/checkpoint/checkpoint.h"

namespace tftf {

// What the rules look at. Shard names are paths relative to the linted PATH.
struct QuantFacts {
  const Checkpoint* checkpoint = nullptr;
  QuantConfig quant;
  const JsonValue* config = nullptr;  // config.json's object; null without one
  std::string config_path;
  std::string method;  // declared_method()
  QuantModules modules;
  bool model_folder = false;    // config.json names a model_type
  bool complete = false;        // every checked file is there and sound
  bool self_described = false;  // torchao's or ComfyUI's marks: no rule of this page
  bool mlx = false;
  bool declared = false;  // any configuration file so much as names quantisation

  // The rules about single modules and scales hold: a model folder that does not describe itself.
  bool judged() const { return model_folder && !self_described; }
  bool known_method() const { return is_known_method(method); }
  bool is_method(std::initializer_list<std::string_view> any) const;
  const TensorInfo& info(TensorRef ref) const { return checkpoint->info(ref); }
  const std::string& file_of(TensorRef ref) const { return checkpoint->shards[ref.shard].name; }
  // The tensor `path` + `suffix`.
  std::optional<TensorRef> find(std::string_view path, std::string_view suffix) const;
  // `key` in the text part of config.json or at the top level is true.
  bool ties_embeddings() const;
};

// Torchao's metadata, or ComfyUI's metadata and markers.
bool describes_itself(const Checkpoint& checkpoint);
// A key of config.json, at any depth, names quantisation.
bool names_quantisation(const JsonValue& config);

// A finding about config.json, pointing at `value` when it stands there.
Diagnostic* add_quant_finding(FileFindings& out, const QuantFacts& facts, Rule rule, std::string subject,
                              const JsonValue* value = nullptr);

// QT340 to QT344, QT346.
void check_quant_modules(FileFindings& out, const QuantFacts& facts);
// QT345, QT347 to QT349.
void check_exclusions(FileFindings& out, const QuantFacts& facts);

}  // namespace tftf
