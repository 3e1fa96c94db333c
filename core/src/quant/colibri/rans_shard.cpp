// A shard's header, stamps and table, and what the manifest says of it.
#include <algorithm>

#include "tftf/base/affix.h"
#include "tftf/quant/colibri/rans_check.h"
#include "tftf/quant/colibri/stamps.h"

namespace tftf::colibri {
namespace {

// Faults of a header that the check of records does not care about: what lies between the tensors, and metadata of other
// kinds (that of the stamps has its own class).
bool is_tolerated(Rule rule) {
  return rule == Rule::ST041 || rule == Rule::ST042 || rule == Rule::ST043 || rule == Rule::ST047;
}

std::optional<std::string> header_fault(const HeaderScan& scan) {
  for (const Diagnostic& finding : scan.findings)
    if (rule_info(finding.rule).severity == Severity::kError && !is_tolerated(finding.rule))
      return std::string(rule_info(finding.rule).id) + " " + std::string(rule_info(finding.rule).name);
  for (const auto& [rule, count] : scan.omitted)
    if (rule_info(rule).severity == Severity::kError && !is_tolerated(rule))
      return std::string(rule_info(rule).id) + " " + std::string(rule_info(rule).name);
  if (!scan.readable) return "its header cannot be read";
  return std::nullopt;
}

const std::string* metadata(const Header& header, std::string_view key) {
  for (const auto& [name, value] : header.metadata)
    if (name == key) return &value;
  return nullptr;
}

bool is_other(const Header& header, std::string_view key) {
  return std::find(header.other_metadata.begin(), header.other_metadata.end(), key) !=
         header.other_metadata.end();
}

}  // namespace

RansShard check_rans_shard(std::string_view name, const HeaderScan& scan, const RansManifest* manifest) {
  RansShard shard;
  const auto end = [&](std::string_view reason, std::string detail) {
    shard.refusals.push_back({std::string(name), "", reason, std::move(detail)});
    shard.ended = true;
    return std::move(shard);
  };
  if (auto fault = header_fault(scan)) return end("E_SHARD_MALFORMED", *std::move(fault));
  const Header& header = scan.header;
  const std::string* stamp_text = metadata(header, kStampKey);
  if (!stamp_text && !is_other(header, kStampKey)) return end("E_STAMP_MISSING", "it has no colibri.fmt");
  StampMap stamps(UINT64_MAX);
  if (const auto refusal = stamps.ingest(name, header)) return end("E_STAMP_MALFORMED", refusal->detail);
  const std::string* table_text = metadata(header, kRansTableKey);
  if (!table_text && !is_other(header, kRansTableKey))
    return end("E_TABLE_MISSING", "it has no " + std::string(kRansTableKey));
  if (!table_text) return end("E_TABLE_MALFORMED", "the table is not a string");
  RansTableReading reading = read_rans_table(*table_text);
  if (!reading.table) return end(reading.reason, std::move(reading.detail));
  shard.table = std::move(reading.table);
  const RansManifest::Shard* digests = nullptr;
  if (manifest) {
    if (manifest->problem()) return end("E_MANIFEST_MALFORMED", *manifest->problem());
    digests = manifest->find(name);
    if (!digests) return end("E_DIGEST_MISSING", "the manifest does not list it");
    shard.sha256 = digests->sha256;
  }
  std::map<std::string_view, uint32_t> tensors;
  for (uint32_t i = 0; i < header.tensors.size(); ++i) tensors.emplace(header.tensors[i].name, i);
  for (const auto& [tensor, format] : stamps.all()) {
    if (format != kRansStamp) continue;
    const auto refuse = [&, of = tensor](std::string_view reason, std::string detail) {
      shard.refusals.push_back({std::string(name), of, reason, std::move(detail)});
    };
    const auto held = tensors.find(tensor);
    if (held == tensors.end()) {
      refuse("E_STAMP_DANGLING", "the shard does not hold it");
      continue;
    }
    const TensorInfo& info = header.tensors[held->second];
    if (info.dtype != DType::U8) {
      refuse("E_STAMP_DTYPE", "it is " + std::string(dtype_name(info.dtype)) + ", not U8");
      continue;
    }
    RansRecord record;
    record.tensor = held->second;
    if (digests) {
      const auto digest = digests->records.find(tensor);
      if (digest == digests->records.end()) {
        refuse("E_DIGEST_MISSING", "the manifest has no digest of it");
        continue;
      }
      record.sha256 = digest->second;
    }
    shard.records.push_back(std::move(record));
  }
  return shard;
}

std::vector<std::string> choose_rans_shards(const std::vector<std::string>& names) {
  std::vector<std::string> coded;
  std::vector<std::string> all;
  for (const std::string& name : names) {
    if (!ends_with(name, ".safetensors")) continue;
    if (starts_with(name, kRansShardPrefix)) coded.push_back(name);
    all.push_back(name);
  }
  std::vector<std::string>& chosen = coded.empty() ? all : coded;
  std::sort(chosen.begin(), chosen.end());
  return std::move(chosen);
}

}  // namespace tftf::colibri
