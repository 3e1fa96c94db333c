#include "tftf/base/json_value.h"
#include "tftf/quant/colibri/rans_check.h"

namespace tftf::colibri {
namespace {

constexpr uint64_t kMaxManifestValues = 2'000'000;  // a record each; the largest model has 60,000

// A shard's entry, or what is wrong with it.
std::optional<std::string> read_shard(const JsonValue& entry, std::string& file, RansManifest::Shard& shard) {
  if (!entry.is_object()) return "an entry of shards is no object";
  const auto name = entry.string("file");
  const auto digest = entry.string("sha256");
  const JsonValue* records = entry.find("records");
  if (!name) return "an entry of shards has no file";
  if (!digest || !records || !records->is_object()) return "a shard's entry has no sha256 or no records";
  file = *name;
  shard.sha256 = *digest;
  for (const auto& [tensor, value] : records->members) {
    if (!value.is_string()) return "the digest of a record is not a string";
    shard.records.insert_or_assign(tensor, value.text);
  }
  return std::nullopt;
}

}  // namespace

RansManifest::RansManifest(std::string_view text) {
  const JsonDocument document = parse_json(text, JsonDialect::kPython, kMaxManifestValues);
  if (document.error) {
    problem_ = "it is not JSON: " + document.error->detail;
    return;
  }
  const JsonValue* list = document.root.is_object() ? document.root.find("shards") : nullptr;
  if (!list || !list->is_array()) {
    problem_ = "it holds no list of shards";
    return;
  }
  for (const JsonValue& entry : list->elements) {
    std::string file;
    Shard shard;
    if ((problem_ = read_shard(entry, file, shard))) break;
    if (!shards_.try_emplace(file, std::move(shard)).second) {
      problem_ = "it lists a shard twice";
      break;
    }
  }
  if (problem_) shards_.clear();
}

const RansManifest::Shard* RansManifest::find(std::string_view shard) const {
  const auto entry = shards_.find(shard);
  return entry == shards_.end() ? nullptr : &entry->second;
}

}  // namespace tftf::colibri
