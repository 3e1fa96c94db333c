// Lays a result out in files.
#include "result_files.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "tftf/base/escape.h"
#include "tftf/transform/output_layout.h"

namespace tftf::transform {
namespace {

// Headers are checked for equal names by write_header(); across files it is done here.
Result<void> check_names(const std::vector<DeclaredTensor>& tensors) {
  std::unordered_set<std::string_view> names;
  names.reserve(tensors.size());
  for (const DeclaredTensor& tensor : tensors) {
    if (names.insert(tensor.name).second) continue;
    return Error{.code = ErrorCode::kRefusedCollision,
                 .message = "Tensor " + quote_name(tensor.name) + " would be written twice.",
                 .tensor = tensor.name};
  }
  return {};
}

}  // namespace

// Shards are packed in reading order, and ordered inside.
void ResultFiles::align() {
  std::vector<uint64_t> bytes;
  for (const StreamTensor& tensor : stream_.tensors) {
    const auto elements = element_count(tensor.shape);
    bytes.push_back(elements ? byte_count(*elements, tensor.dtype).value_or(0) : 0);
  }
  starts_ = starts(bytes);
  for (size_t s = 0; s < starts_.size(); ++s) {
    const auto first = stream_.tensors.begin() + static_cast<ptrdiff_t>(starts_[s]);
    const auto end = s + 1 < starts_.size() ? stream_.tensors.begin() + static_cast<ptrdiff_t>(starts_[s + 1])
                                            : stream_.tensors.end();
    std::sort(first, end, [](const StreamTensor& a, const StreamTensor& b) {
      const uint32_t rank_a = dtype_info(a.dtype).rank, rank_b = dtype_info(b.dtype).rank;
      return rank_a != rank_b ? rank_a > rank_b : a.name < b.name;
    });
  }
}

std::vector<size_t> ResultFiles::starts(const std::vector<uint64_t>& bytes) const {
  if (request_.layout.single_file || names_.one_file) return {0};
  return pack_shards(bytes, request_.layout.max_shard_size);
}

void ResultFiles::pack(const std::vector<DeclaredTensor>& tensors, const Account& account) {
  std::vector<uint64_t> bytes;
  for (const DeclaredTensor& tensor : tensors) bytes.push_back(tensor.bytes);
  if (!request_.layout.align) starts_ = starts(bytes);
  const bool changed = account.changed > 0 || !stream_.dropped.empty() || stream_.renamed || stream_.relaid;
  const Metadata metadata = metadata_of_result(changed);
  for (size_t s = 0; s < starts_.size(); ++s) {
    files_.push_back({.name = request_.layout.single_file ? request_.layout.single_name
                              : names_.one_file           ? names_.stem + ".safetensors"
                                                          : shard_name(s, starts_.size(), names_.stem),
                      .end = s + 1 < starts_.size() ? starts_[s + 1] : tensors.size(),
                      .metadata = metadata});
  }
}

Metadata ResultFiles::metadata_of_result(bool changed) const {
  const bool sharded = stream_.checkpoint->index || stream_.checkpoint->shards.size() > 1;
  Metadata metadata = output_metadata(*stream_.checkpoint, sharded || stream_.adds_format, changed);
  for (const auto& [key, value] : stream_.metadata) {
    const auto at = std::find_if(metadata.begin(), metadata.end(),
                                 [&key = key](const auto& member) { return member.first == key; });
    if (value.empty()) {
      if (at != metadata.end()) metadata.erase(at);
    } else if (at != metadata.end()) {
      at->second = value;
    } else {
      metadata.emplace_back(key, value);
    }
  }
  return metadata;
}

Result<void> ResultFiles::lay_out(const std::vector<DeclaredTensor>& tensors, PlanBuilder& builder,
                                  Account& account) {
  if (stream_.placement) {
    files_ = stream_.placement->files;
  } else {
    pack(tensors, account);
  }
  ranges_.resize(tensors.size());
  size_t first = 0;
  for (uint32_t f = 0; f < files_.size(); ++f) {
    const PlacedFile& file = files_[f];
    if (!file.whole) {
      TFTF_TRY(lay_out_file(f, first, tensors, builder, account));
      first = file.end;
      continue;
    }
    const Shard& shard = stream_.checkpoint->shards[*file.whole];
    const uint64_t count = shard.header.tensors.size();
    builder.add_output({.name = file.name, .size = shard.size, .header_bytes = shard.header.data_offset()},
                       {});
    account.files.push_back({file.name, count, shard.size});
    account.tensors_out += count;
    account.copied += count;
  }
  return check_names(tensors);
}

// The file's tensors begin with `first`. In a placed file they lie in another order.
Result<void> ResultFiles::lay_out_file(uint32_t f, size_t first, const std::vector<DeclaredTensor>& tensors,
                                       PlanBuilder& builder, Account& account) {
  const PlacedFile& file = files_[f];
  std::vector<OutputEntry> entries;
  for (size_t i = first; i < file.end; ++i)
    entries.push_back({tensors[i].name, tensors[i].dtype, tensors[i].shape});
  if (stream_.placement) sort_in_reference_order(entries);
  std::vector<uint64_t> begins;
  Result<std::string> header = write_header(
      entries, file.metadata, stream_.placement ? HeaderForm::kReference : HeaderForm::kTftf, &begins);
  if (!header) return std::move(header).error();
  const uint64_t size = header->size() + begins.back();
  std::unordered_map<std::string_view, uint64_t> begin_of;
  for (size_t i = 0; stream_.placement && i < entries.size(); ++i) begin_of[entries[i].name] = begins[i];
  for (size_t i = first; i < file.end; ++i) {
    const uint64_t begin = stream_.placement ? begin_of.at(tensors[i].name) : begins[i - first];
    ranges_[i] = {.file = f, .offset = header->size() + begin, .row_bytes = tensors[i].bytes};
  }
  account.files.push_back({file.name, entries.size(), size});
  if (!request_.examine) builder.add_output({.name = file.name, .size = size}, *std::move(header));
  return {};
}

}  // namespace tftf::transform
