// CO025: range-coded records, by the library of rans-verify.
#include <algorithm>

#include "lint/colibri/judgement.h"
#include "lint/colibri/rules.h"
#include "tftf/base/affix.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"

namespace tftf {
namespace {

// A record that claims more is left to rans-verify, which can be stopped: no expert is near it, and the time of decoding is
// that of the symbols claimed.
constexpr uint64_t kMostDecoded = uint64_t{1} << 30;

void report_rans(FileFindings& findings, const std::string& file, const std::string& tensor,
                 std::string_view reason, std::string detail) {
  if (Diagnostic* finding = findings.of(file).add(Rule::CO025))
    *finding = rans_finding(file, tensor, reason, std::move(detail));
}

// A shard of the coder's, or one that says it holds records.
bool holds_records(const ColibriContainer& container, const TreeFile& file) {
  if (starts_with(file.name, colibri::kRansShardPrefix)) return true;
  const Header& header = file.scan->header;
  for (const auto& [key, value] : header.metadata)
    if (key == colibri::kRansTableKey) return true;
  for (const std::string& key : header.other_metadata)
    if (key == colibri::kRansTableKey) return true;
  return std::any_of(container.stamps.begin(), container.stamps.end(), [&](const auto& stamp) {
    return stamp.first == &file && stamp.second.second == colibri::kRansStamp;
  });
}

// The decoded bytes must be int4-row at O, I; where these are unknown, whole rows.
void check_decoded_size(FileFindings& findings, const ColibriPair& pair) {
  const auto* record = pair.weight.file->colibri.record(pair.weight.number);
  if (!pair.rans || !record || record->failure) return;
  const std::string file(pair.weight.file->path);
  const std::string& name = pair.weight.info().name;
  const uint64_t scale_bytes = pair.scales.info().bytes();
  const auto refuse = [&](std::string detail) {
    report_rans(findings, file, name, "stamp-mismatch", std::move(detail));
  };
  if (pair.scales.info().dtype != DType::F32 || scale_bytes == 0) return;  // CO002
  if (!pair.shape) {
    if (record->packed_bytes % (scale_bytes / 4) != 0)
      refuse("it decodes to " + std::to_string(record->packed_bytes) +
             " bytes, which are no whole number of bytes for each of " + std::to_string(scale_bytes / 4) +
             " rows");
    return;
  }
  const auto [rows, columns] = *pair.shape;
  colibri::Pair sizes{rows, columns, record->packed_bytes, scale_bytes, std::nullopt, true};
  const colibri::Resolution resolution = colibri::resolve(sizes);
  if (resolution.format == colibri::Format::kInt4Row) return;
  refuse("it decodes to " + std::to_string(record->packed_bytes) + " bytes with " +
         std::to_string(scale_bytes) + " of scales, which at [" + std::to_string(rows) + "," +
         std::to_string(columns) + "] are " +
         (resolution.format ? colibri_format_text(*resolution.format, resolution.group_size)
                            : std::string(colibri::refusal_class(*resolution.refusal))) +
         ", not int4-row");
}

}  // namespace

void check_colibri_rans(FileFindings& findings, const ColibriInput& input, LintResult& result) {
  for (const TreeFile* file : input.container->shards()) {
    if (!holds_records(*input.container, *file)) continue;
    // The scan's findings are still its own here.
    const colibri::RansShard shard = colibri::check_rans_shard(file->name, *file->scan, input.manifest);
    for (const colibri::RansRefusal& refusal : shard.refusals)
      report_rans(findings, std::string(file->path), refusal.tensor, refusal.reason, refusal.detail);
    if (shard.table && !shard.records.empty()) result.rans_tables.push_back(*shard.table);
    for (const colibri::RansRecord& record : shard.records) {
      const std::string& name = file->scan->header.tensors[record.tensor].name;
      const auto* head = file->colibri.record(record.tensor);
      if (head && head->failure)
        report_rans(findings, std::string(file->path), name, colibri::rans_fault_class(head->failure->fault),
                    head->failure->detail);
      else if (!head && file->scan->header.tensors[record.tensor].bytes() < colibri::kRansRecordHeader)
        report_rans(findings, std::string(file->path), name, "E_TRUNCATED",
                    "the record is shorter than its header");
      else if (head && head->packed_bytes <= kMostDecoded)
        result.rans_checks.push_back(
            {input.place_of({file, record.tensor}), static_cast<uint32_t>(result.rans_tables.size() - 1)});
    }
  }
  for (const ColibriPair& pair : input.container->pairs) check_decoded_size(findings, pair);
  if (!input.manifest || input.manifest->problem()) return;
  for (const auto& [name, shard] : input.manifest->shards())
    if (std::find(input.shard_names.begin(), input.shard_names.end(), name) == input.shard_names.end())
      report_rans(findings, input.place, "", "E_SHARD_MALFORMED",
                  "the manifest lists " + quote_name(name) + ", which the folder lacks");
}

}  // namespace tftf
