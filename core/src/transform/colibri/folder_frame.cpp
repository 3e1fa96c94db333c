#include "transform/colibri/folder_frame.h"

#include <algorithm>

#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"
#include "tftf/quant/registry.h"

namespace tftf::colibri {

Extent FolderFrame::whole_input(uint32_t shard) {
  const auto [at, fresh] = input_of_.emplace(shard, 0);
  const Shard& file = context.source.shard(shard);
  if (fresh) {
    at->second = builder.add_input(
        {.path = file.name, .size = file.size, .header_sha256 = context.header_sha256[shard]});
  }
  return {.file = at->second, .row_bytes = file.size};
}

Extent FolderFrame::stored(TensorRef ref) {
  const TensorInfo& tensor = context.source.info(ref);
  return slice(whole_input(ref.shard), context.source.shard(ref.shard).header.data_offset() + tensor.begin,
               tensor.bytes());
}

bool FolderFrame::is_in_output(const std::string& name) {
  if (!looked_ && context.existing != nullptr) {
    for (const Shard& shard : context.existing->shards)
      for (const TensorInfo& tensor : shard.header.tensors) existing_.insert(tensor.name);
  }
  looked_ = true;
  return existing_.count(name) != 0;
}

void FolderFrame::drop(TensorRef tensor, std::string reason) {
  if (reason != kCompanionReason && !is_in_output(context.source.info(tensor).name))
    kept_.insert(tensor.shard);
  dropped_.emplace_back(context.source.info(tensor).name, std::move(reason));
}

Result<bool> FolderFrame::side(std::string_view name, bool required) {
  const auto& files = context.source.checkpoint().listing.files;
  const auto entry =
      std::find_if(files.begin(), files.end(), [&](const FileEntry& file) { return file.name == name; });
  const bool there = context.source.has_file(name);
  const bool unusable = entry != files.end() && (!there || !entry->unreadable.empty());
  const std::string reason = !unusable                   ? ""
                             : entry->unreadable.empty() ? "it is not a regular file"
                                                         : entry->unreadable;
  if (unusable && (required || there)) {
    return Error{.code = ErrorCode::kIoRead,
                 .message = "File " + quote_name(name) +
                            " would be copied and cannot be read: " + escape_text(reason) + ".",
                 .file = std::string(name)};
  }
  if (there) {
    sides_.push_back({.name = std::string(name)});
  } else if (unusable) {
    account.warnings.push_back("File " + quote_name(name) + " is not taken along: " + escape_text(reason) +
                               ".");
  } else if (required) {
    return Error{.code = ErrorCode::kRefusedMissing,
                 .message = quote_name(name) + " is not in " + quote_name(context.request.input) +
                            ": a container without it cannot be loaded.",
                 .file = std::string(name)};
  }
  return there;
}

void FolderFrame::fill_account() {
  account.input = context.request.input;
  account.output = context.request.output;
  account.dry_run = context.request.dry_run;
  for (const uint32_t s : context.source.shards())
    account.tensors_in += context.source.shard(s).header.tensors.size();
  for (const auto& [name, reason] : dropped_) {
    auto group = std::find_if(account.dropped.begin(), account.dropped.end(),
                              [&reason = reason](const Account::Dropped& d) { return d.reason == reason; });
    if (group == account.dropped.end()) group = account.dropped.insert(group, {reason, {}});
    group->names.push_back(name);
    builder.add_note({.kind = PlanEntry::Kind::kDrop, .name = name, .word = reason});
  }
  const LayoutReport layouts = detect_layouts(context.source.checkpoint(), context.values);
  for (const QuantFinding& finding : layouts.findings)
    account.layouts.push_back({std::string(finding.layout), finding.matches.size(), finding.evidence});
  warn_of_missing_shards();
  if (context.existing == nullptr) return;
  for (const FileEntry& file : context.existing->listing.files) {
    if (file.name.starts_with(".") && file.name.ends_with("progress.json")) {
      account.warnings.push_back(quote_name(file.name) +
                                 " of another converter is in the output folder and is ignored.");
    }
  }
}

void FolderFrame::warn_of_missing_shards() {
  std::string first;
  uint64_t missing = 0;
  for (const Shard& shard : context.source.checkpoint().shards) {
    if (!shard.listed || shard.status != ShardStatus::kMissing) continue;
    if (missing++ == 0) first = shard.name;
  }
  if (missing == 0) return;
  account.warnings.push_back("The index of the source names " + grouped_digits(missing) +
                             (missing == 1 ? " shard that is" : " shards that are") + " not there, " +
                             quote_name(first) + " first: the result lacks what they hold.");
}

Result<FolderPlan> FolderFrame::finish() {
  fill_account();
  for (SideOutput& side : sides_) builder.add_side(std::move(side));
  Result<Plan> plan = builder.build();
  if (!plan) return std::move(plan).error();
  account.bytes_read = plan->read_bytes();
  account.bytes_written = plan->written_bytes();
  FolderPlan result{.plan = *std::move(plan), .account = std::move(account), .notes = std::move(notes)};
  for (const uint32_t shard : context.source.shards()) {
    if (input_of_.count(shard) == 0) continue;
    const std::string& name = context.source.shard(shard).name;
    (kept_.count(shard) == 0 ? result.consumed : result.needed_later).push_back(name);
  }
  return result;
}

}  // namespace tftf::colibri
