// Places the outputs of a folder tool.
#include "transform/colibri/folder_pass.h"

#include <algorithm>

#include "quant/colibri/weights.h"
#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"
#include "tftf/quant/colibri/stamps.h"
#include "tftf/transform/output_layout.h"
#include "transform/encoded.h"

namespace tftf::colibri {

using transform::StreamTensor;

std::string numbered_name(std::string_view prefix, uint64_t number) {
  const std::string digits = std::to_string(number);
  return std::string(prefix) + std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits +
         ".safetensors";
}

Metadata shard_metadata(const Metadata& input, const Metadata& own) {
  Metadata all = own;
  for (const auto& [key, value] : input)
    if (!key.starts_with("colibri.") && !is_data_hash_key(key)) all.emplace_back(key, value);
  std::sort(all.begin(), all.end());
  return all;
}

FolderPass::FolderPass(FolderSource folder, transform::Stream& into, bool strict)
    : source(std::move(folder)), stream(into), strict_(strict) {
  stream.tensors.clear();
  stream.dropped.clear();
  for (const uint32_t shard : source.shards())
    placed_.tensors_in += source.shard(shard).header.tensors.size();
  if (const Checkpoint* existing = stream.request->existing) {
    for (const Shard& shard : existing->shards)
      for (const TensorInfo& tensor : shard.header.tensors) existing_.insert(tensor.name);
  }
}

void FolderPass::begin_shard(uint32_t shard) {
  shard_ = shard;
  begin_ = stream.tensors.size();
  stamps_.clear();
}

StreamTensor& FolderPass::copy(TensorRef from, OutputEntry to) {
  StreamTensor& tensor = stream.tensors.emplace_back();
  tensor.name = std::move(to.name);
  tensor.dtype = to.dtype;
  tensor.shape = std::move(to.shape);
  tensor.source = from;
  return tensor;
}

Result<void> FolderPass::encode(StreamTensor matrix, const CodeLayout& layout,
                                std::optional<std::string> stamp) {
  if (matrix.shape[0] == 0 || matrix.shape[1] == 0) {
    return Error{.code = ErrorCode::kRefusedShape,
                 .message = "Tensor " + quote_name(matrix.name) + " of shape " + shape_text(matrix.shape) +
                            " has no elements (write-unreadable).",
                 .tensor = matrix.name};
  }
  ++placed_.left_quantised;
  auto& tensors = stream.tensors;
  TFTF_TRY(transform::encode_matrix(
      stream, std::move(matrix), kColibriEncoders[static_cast<size_t>(layout.format)],
      {.bits = layout.bits, .group_size = layout.group_size, .strict = strict_}, std::move(stamp), tensors));
  // The order is part of the plan's text, by which an interrupted run knows its journal.
  if (tensors.back().literal) std::swap(tensors.back(), tensors[tensors.size() - 2]);
  return {};
}

void FolderPass::drop(TensorRef tensor, std::string_view reason) {
  const std::string& name = source.info(tensor).name;
  if (reason != kCompanionReason && existing_.count(name) == 0) placed_.needed.insert(tensor.shard);
  stream.dropped.push_back({name, std::string(reason)});
}

void FolderPass::stamp(const std::string& weight, Format format) {
  stamps_[weight] = std::string(format_info(format).name);
}

void FolderPass::declare(Format format) { declared_.emplace(format_info(format).name); }

Result<void> FolderPass::check(const WrittenPair& pair) {
  const WriteCheck seen = check_written(pair, strict_);
  if (seen.refused) {
    return Error{.code = ErrorCode::kRefusedUnsupported, .message = seen.sentence, .tensor = pair.name};
  }
  if (seen.verdict != WriteVerdict::kFine) warn(seen.sentence);
  ++placed_.left_quantised;
  if (auto warning = shape_warning(pair.name, pair.rows, pair.columns, source.checkpoint().config()))
    warn(*std::move(warning));
  return {};
}

void FolderPass::end_shard(std::string name, std::optional<Metadata> metadata) {
  const auto& tensors = stream.tensors;
  if (tensors.size() == begin_) return;
  if (!metadata) {
    Metadata own;
    if (!declared_.empty())
      own.emplace_back(kDeclarationKey, declaration_text({declared_.begin(), declared_.end()}));
    if (!stamps_.empty()) own.emplace_back(kStampKey, stamp_text(stamps_));
    metadata = shard_metadata(source.shard(shard_).header.metadata, own);
  }
  PlannedFile& file = files_.emplace_back();
  file.name = name;
  for (size_t i = begin_; i < tensors.size(); ++i) file.tensors.push_back(tensors[i].name);
  file.stamps = std::move(stamps_);
  placed_.files.push_back({.name = std::move(name), .end = tensors.size(), .metadata = *std::move(metadata)});
}

void FolderPass::copy_file(uint32_t shard) {
  const Shard& whole = source.shard(shard);
  PlannedFile& file = files_.emplace_back();
  file.name = whole.name;
  for (const TensorInfo& tensor : whole.header.tensors) file.tensors.push_back(tensor.name);
  placed_.files.push_back({.name = whole.name, .end = stream.tensors.size(), .whole = shard});
}

Result<bool> FolderPass::side(std::string_view name, bool required) {
  const auto& files = source.checkpoint().listing.files;
  const auto entry =
      std::find_if(files.begin(), files.end(), [&](const FileEntry& file) { return file.name == name; });
  if (entry == files.end() && required) {
    return Error{.code = ErrorCode::kRefusedMissing,
                 .message = quote_name(name) + " is not in " + quote_name(stream.request->input) +
                            ": a container without it cannot be loaded.",
                 .file = std::string(name)};
  }
  if (entry == files.end()) return false;
  if (entry->regular && entry->unreadable.empty()) {
    placed_.sides.emplace_back(name);
    return true;
  }
  const std::string reason = entry->unreadable.empty() ? "it is not a regular file" : entry->unreadable;
  if (required || entry->regular) {
    return Error{.code = ErrorCode::kIoRead,
                 .message = "File " + quote_name(name) +
                            " would be copied and cannot be read: " + escape_text(reason) + ".",
                 .file = std::string(name)};
  }
  warn("File " + quote_name(name) + " is not taken along: " + escape_text(reason) + ".");
  return false;
}

Result<void> FolderPass::wanted_sides(std::span<const std::string_view> names) {
  std::string missing;
  for (const std::string_view name : names) {
    const Result<bool> there = side(name, false);
    if (!there) return there.error();
    if (!*there) missing += (missing.empty() ? "" : ", ") + std::string(name);
  }
  if (!missing.empty()) warn("[META] not found in the source: " + missing + ".");
  return {};
}

void FolderPass::warn_of_missing_shards() {
  std::string first;
  uint64_t missing = 0;
  for (const Shard& shard : source.checkpoint().shards) {
    if (!shard.listed || shard.status != ShardStatus::kMissing) continue;
    if (missing++ == 0) first = shard.name;
  }
  if (missing == 0) return;
  warn("The index of the source names " + grouped_digits(missing) +
       (missing == 1 ? " shard that is" : " shards that are") + " not there, " + quote_name(first) +
       " first: the result lacks what they hold.");
}

void FolderPass::warn_of_other_converters() {
  if (stream.request->existing == nullptr) return;
  for (const FileEntry& file : stream.request->existing->listing.files) {
    if (file.name.starts_with(".") && file.name.ends_with("progress.json"))
      warn(quote_name(file.name) + " of another converter is in the output folder and is ignored.");
  }
}

Result<void> FolderPass::finish() {
  const Result<uint64_t> stamps = check_outputs(stream.request->existing, files_);
  if (!stamps) return stamps.error();
  if (*stamps > 0) {
    note(grouped_digits(*stamps) + " of at most " + grouped_digits(kStampCap) +
         " stamps are used, all passes in the output folder together.");
  }
  hand_over();
  return {};
}

void FolderPass::hand_over() {
  warn_of_missing_shards();
  warn_of_other_converters();
  stream.placement = std::move(placed_);
}

Result<void> FolderTool::apply(transform::Stream& stream) const {
  Result<FolderSource> source = FolderSource::open(*stream.checkpoint);
  if (!source) return std::move(source).error();
  FolderPass pass(*std::move(source), stream, strict_);
  return place(pass);
}

}  // namespace tftf::colibri
