#include "tftf_native/rans_verify.h"

#include <algorithm>
#include <mutex>
#include <thread>

#include "lint_file.h"
#include "tftf/base/checked.h"
#include "tftf/base/escape.h"
#include "tftf/base/sha256.h"
#include "tftf_native/model_reader.h"
#include "workers.h"

namespace tftf {
namespace {

using colibri::RansRecord;
using colibri::RansRefusal;
using colibri::RansShard;

constexpr uint64_t kVerifyPiece = 1 << 20;
constexpr uint64_t kMaxManifest = uint64_t{1} << 30;

// Reads a range of a file in pieces; what went wrong, or nothing.
std::optional<std::string> read_pieces(const std::string& path, uint64_t begin, uint64_t end,
                                       std::vector<std::byte>& buffer,
                                       const std::function<bool(Bytes)>& take) {
  LintFile file;
  buffer.resize(to_size(kVerifyPiece));
  for (uint64_t at = begin; at < end;) {
    const uint64_t count = std::min(kVerifyPiece, end - at);
    const MutableBytes piece(buffer.data(), to_size(count));
    if (auto reason = file.read(path, at, piece)) return reason;
    if (!take(piece)) return std::nullopt;
    at += count;
  }
  return std::nullopt;
}

HeaderScan read_scan(const std::string& path, const FileEntry& entry, uint64_t max_header) {
  HeaderOptions options;
  options.max_header = max_header;
  options.tail = false;
  HeaderReader reader(entry.name, entry.size, options);
  LintFile file;
  std::vector<std::byte> buffer;
  if (!entry.regular) reader.fail(kNotRegular);
  while (const std::optional<ByteRange> range = reader.want()) {
    buffer.resize(to_size(range->length));
    if (auto reason = file.read(path, range->offset, buffer))
      reader.fail(std::move(*reason));
    else
      reader.supply(buffer);
  }
  return reader.take();
}

// The digest of one shard and its records, on threads.
class ShardPass {
 public:
  ShardPass(std::string path, const std::string& name, const HeaderScan& scan, const RansShard& shard,
            const RansVerifyOptions& options, RansVerifyProgress& progress)
      : path_(std::move(path)),
        name_(name),
        scan_(scan),
        shard_(shard),
        options_(options),
        progress_(progress) {}

  // False when it was stopped. Refusals of records in their order.
  bool run(std::optional<RansRefusal>& digest, std::vector<RansRefusal>& records) {
    results_.resize(shard_.records.size() + 1);
    uint32_t count =
        options_.threads != 0 ? options_.threads : std::max(1u, std::thread::hardware_concurrency());
    count = static_cast<uint32_t>(std::min<size_t>(count, results_.size()));
    run_workers(
        count, [this] { work(); }, [this] { report(); });
    digest = std::move(results_[0]);
    for (size_t i = 1; i < results_.size(); ++i)
      if (results_[i]) records.push_back(*std::move(results_[i]));
    return !stopped();
  }

 private:
  bool stopped() const { return options_.stop != nullptr && options_.stop->load(); }

  void report() {
    if (!options_.progress) return;
    const std::lock_guard lock(mutex_);
    options_.progress(progress_);
  }
  void count(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    progress_.done += bytes;
  }

  void work() {
    std::vector<std::byte> buffer;
    while (!stopped()) {
      const size_t index = next_.fetch_add(1);
      if (index >= results_.size()) break;
      results_[index] = index == 0 ? check_digest(buffer) : check_record(shard_.records[index - 1], buffer);
    }
  }

  std::optional<RansRefusal> check_digest(std::vector<std::byte>& buffer) {
    if (shard_.sha256.empty()) return std::nullopt;
    Sha256 hash;
    const auto reason = read_pieces(path_, 0, scan_.file_size, buffer, [&](Bytes piece) {
      hash.update(piece);
      count(piece.size());
      return !stopped();
    });
    if (reason) return RansRefusal{name_, "", "E_INTERNAL", "it cannot be read: " + *reason};
    const std::string found = hash.hex_digest();
    if (found == shard_.sha256) return std::nullopt;
    return RansRefusal{
        name_, "", "E_SHARD_DIGEST_MISMATCH",
        "its SHA-256 is " + found + ", the manifest says " + escape_text_cut(shard_.sha256, 64)};
  }

  std::optional<RansRefusal> check_record(const RansRecord& record, std::vector<std::byte>& buffer) {
    const TensorInfo& tensor = scan_.header.tensors[record.tensor];
    const auto refuse = [&](std::string_view reason, std::string detail) {
      return RansRefusal{name_, tensor.name, reason, std::move(detail)};
    };
    colibri::RansRecordCheck check(*shard_.table, tensor.bytes());
    check.stop = [this] { return stopped(); };
    Sha256 hash;
    const uint64_t data = scan_.header.data_offset();
    const auto reason = read_pieces(path_, data + tensor.begin, data + tensor.end, buffer, [&](Bytes piece) {
      if (!record.sha256.empty()) hash.update(piece);
      check.feed(piece);
      count(piece.size());
      return !stopped();
    });
    if (reason) return refuse("E_INTERNAL", "it cannot be read: " + *reason);
    if (!record.sha256.empty()) {
      const std::string found = hash.hex_digest();
      if (found != record.sha256)
        return refuse("E_DIGEST_MISMATCH", "its SHA-256 is " + found + ", the manifest says " +
                                               escape_text_cut(record.sha256, 64));
    }
    const auto failure = check.finish();
    if (!failure) return std::nullopt;
    return refuse(colibri::rans_fault_class(failure->fault), failure->detail);
  }

  std::string path_;
  const std::string& name_;
  const HeaderScan& scan_;
  const RansShard& shard_;
  const RansVerifyOptions& options_;
  RansVerifyProgress& progress_;
  std::vector<std::optional<RansRefusal>> results_;  // of the shard, then of the records
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
};

Result<std::optional<colibri::RansManifest>> read_manifest(const NativeListing& listing) {
  using Manifest = std::optional<colibri::RansManifest>;
  for (const FileEntry& entry : listing.listing.files) {
    if (entry.name != colibri::kRansManifest) continue;
    const std::string path = listing.folder + "/" + entry.name;
    const auto refuse = [&](const std::string& why) {
      return Error{.code = ErrorCode::kIoRead,
                   .message = "Cannot read " + quote_name(path) + ": " + why + ".",
                   .file = path};
    };
    if (!entry.regular) return refuse(kNotRegular);
    if (entry.size > kMaxManifest) return refuse("it is larger than 1 GiB");
    std::string text(to_size(entry.size), '\0');
    LintFile file;
    if (auto reason = file.read(path, 0, {reinterpret_cast<std::byte*>(text.data()), text.size()}))
      return refuse(*reason);
    return Manifest(colibri::RansManifest(text));
  }
  return Manifest();
}

}  // namespace

Result<RansVerdict> verify_rans(const std::string& folder, const RansVerifyOptions& options) {
  Result<NativeListing> listing = list_model(folder);
  if (!listing) return listing.error();
  if (listing->listing.kind != ModelListing::Kind::kFolder)
    return Error{
        .code = ErrorCode::kUsagePath, .message = quote_name(folder) + " is not a folder.", .file = folder};
  Result<std::optional<colibri::RansManifest>> manifest = read_manifest(*listing);
  if (!manifest) return manifest.error();
  const colibri::RansManifest* digests = *manifest ? &**manifest : nullptr;
  std::map<std::string, const FileEntry*> entries;
  std::vector<std::string> names;
  for (const FileEntry& entry : listing->listing.files) {
    if (entry.folder) continue;
    entries.emplace(entry.name, &entry);
    names.push_back(entry.name);
  }
  RansVerdict verdict;
  verdict.has_manifest = digests != nullptr;
  verdict.shards = colibri::choose_rans_shards(names);
  if (verdict.shards.empty())
    return Error{.code = ErrorCode::kRefusedMissing,
                 .message = quote_name(folder) + " holds no .safetensors file.",
                 .file = folder};
  RansVerifyProgress progress;
  for (const std::string& name : verdict.shards) progress.total += entries.at(name)->size;
  if (digests) progress.total *= 2;
  std::vector<std::string> missing;
  if (digests)
    for (const auto& [name, shard] : digests->shards())
      if (!std::binary_search(verdict.shards.begin(), verdict.shards.end(), name)) missing.push_back(name);
  for (const std::string& name : verdict.shards) {
    const std::string path = listing->folder + "/" + name;
    const HeaderScan scan = read_scan(path, *entries.at(name), options.max_header);
    RansShard shard = colibri::check_rans_shard(name, scan, digests);
    std::optional<RansRefusal> digest;
    std::vector<RansRefusal> records;
    if (!shard.ended) {
      ShardPass pass(path, name, scan, shard, options, progress);
      if (!pass.run(digest, records))
        return Error{.code = ErrorCode::kInterrupted, .message = "Stopped while the records were read."};
    }
    verdict.records += shard.records.size();
    if (digest) verdict.refusals.push_back(*std::move(digest));
    records.insert(records.end(), shard.refusals.begin(), shard.refusals.end());
    std::stable_sort(records.begin(), records.end(),
                     [](const RansRefusal& a, const RansRefusal& b) { return a.tensor < b.tensor; });
    for (RansRefusal& refusal : records) verdict.refusals.push_back(std::move(refusal));
  }
  for (const std::string& name : missing)
    verdict.refusals.push_back(
        {name, "", "E_SHARD_MALFORMED", "the manifest lists it and the folder lacks it"});
  std::stable_sort(verdict.refusals.begin(), verdict.refusals.end(),
                   [](const RansRefusal& a, const RansRefusal& b) { return a.shard < b.shard; });
  return verdict;
}

}  // namespace tftf
