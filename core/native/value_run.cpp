#include "tftf_native/value_run.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <thread>

#include "tftf/base/escape.h"
#include "tftf/base/size_text.h"
#include "workers.h"

namespace tftf {
namespace {

// Files of one worker: per range of a piece the one that was read last stays open.
class WorkerFiles {
 public:
  explicit WorkerFiles(std::span<const NativeModel* const> models) : models_(models) {}

  Result<Bytes> read(size_t slot, const ValuePass::Range& range) {
    if (slots_.size() <= slot) slots_.resize(slot + 1);
    Slot& at = slots_[slot];
    if (!at.source || at.model != range.model || at.shard != range.range.shard) {
      at.source = nullptr;
      const NativeModel& model = *models_[range.model];
      const std::string path = model.path_of(model.checkpoint.shards[range.range.shard].name);
      Result<std::shared_ptr<ByteSource>> source = open_file_source(path);
      if (!source) return std::move(source).error();
      Result<Fingerprint> now = (*source)->fingerprint();
      if (!now) return std::move(now).error();
      const std::optional<Fingerprint>& seen = model.seen[range.range.shard];
      if (seen && !(*seen == *now))
        return Error{.code = ErrorCode::kIoChanged,
                     .message = "Input " + quote_name(path) + " has changed since its header was read.",
                     .file = path};
      at.source = *std::move(source);
      at.model = range.model;
      at.shard = range.range.shard;
    }
    const ShardRange& wanted = range.range;
    if (at.buffer.size() < wanted.bytes()) at.buffer.resize(static_cast<size_t>(wanted.bytes()));
    for (uint32_t row = 0; row < wanted.rows; ++row) {
      const MutableBytes into(at.buffer.data() + static_cast<size_t>(row * wanted.row_bytes),
                              static_cast<size_t>(wanted.row_bytes));
      if (auto done = at.source->read(wanted.offset + row * wanted.stride, into); !done)
        return std::move(done).error();
    }
    return Bytes(at.buffer.data(), static_cast<size_t>(wanted.bytes()));
  }

 private:
  struct Slot {
    std::shared_ptr<ByteSource> source;
    uint32_t model = 0;
    uint32_t shard = 0;
    std::vector<std::byte> buffer;
  };
  std::span<const NativeModel* const> models_;
  std::vector<Slot> slots_;
};

void serve_small_reads(ValuePass& pass, std::span<const NativeModel* const> models) {
  std::vector<std::byte> buffer;
  for (auto wanted = pass.want(); !wanted.empty(); wanted = pass.want())
    for (const ValuePass::SmallRead& read : wanted) {
      const auto source = open_file_source(models[read.model]->path_of(read.request.file));
      buffer.resize(static_cast<size_t>(read.request.range.length));
      if (source && (*source)->read(read.request.range.offset, buffer).ok())
        pass.supply(read, buffer);
      else
        pass.fail(read);
    }
}

// One stage: pieces are taken in order, results are added under a lock.
class ValueStage {
 public:
  ValueStage(ValuePass& pass, std::span<const NativeModel* const> models, const ValueRunOptions& options,
             uint32_t number)
      : pass_(pass),
        models_(models),
        options_(options),
        kernels_(options.kernels != nullptr ? *options.kernels : best_kernels()),
        number_(number) {}

  Result<void> run(uint32_t most) {
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(most, pass_.piece_count()));
    run_workers(
        count, [this] { work(); }, [this] { report(); });
    if (error_) return *std::move(error_);
    if (stopped())
      return Error{.code = ErrorCode::kInterrupted, .message = "Stopped while the data was read."};
    return {};
  }

 private:
  bool stopped() const { return options_.stop != nullptr && options_.stop->load(); }

  void work() {
    WorkerFiles files(models_);
    while (!stopped() && !failed_.load()) {
      const uint64_t index = next_.fetch_add(1);
      if (index >= pass_.piece_count()) break;
      if (auto done = step(index, files); !done) {
        const std::lock_guard lock(mutex_);
        if (!error_) error_ = std::move(done).error();
        failed_.store(true);
      }
    }
  }

  void report() {
    if (!options_.progress) return;
    const std::lock_guard lock(mutex_);
    options_.progress({done_, pass_.bytes(), number_});
  }

  Result<void> step(uint64_t index, WorkerFiles& files) {
    const ValuePass::Piece piece = pass_.piece(index);
    std::vector<Bytes> bytes(piece.size());
    uint64_t total = 0;
    for (size_t i = 0; i < piece.size(); ++i) {
      Result<Bytes> range = files.read(i, piece[i]);
      if (!range) return std::move(range).error();
      bytes[i] = *range;
      total += range->size();
    }
    std::unique_ptr<ValuePass::Found> found = pass_.run(index, bytes, kernels_);
    const std::lock_guard lock(mutex_);
    pass_.add(index, std::move(found));
    done_ += total;
    return {};
  }

  ValuePass& pass_;
  std::span<const NativeModel* const> models_;
  const ValueRunOptions& options_;
  const KernelTable& kernels_;
  uint32_t number_;
  std::atomic<uint64_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  uint64_t done_ = 0;
  std::optional<Error> error_;
};

}  // namespace

Result<void> run_value_pass(ValuePass& pass, std::span<const NativeModel* const> models,
                            const ValueRunOptions& options) {
  serve_small_reads(pass, models);
  TFTF_TRY(pass.start());
  const uint32_t threads =
      options.threads != 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  uint32_t stage = 0;
  do {
    const uint64_t each = std::max<uint64_t>(1, pass.piece_bytes());
    const uint64_t fit = options.max_memory / each;
    if (fit == 0)
      return Error{.code = ErrorCode::kRefusedMemory,
                   .message = "The values need " + size_text(each) +
                              " of memory at a time, more than --max-memory allows.",
                   .expected = std::to_string(options.max_memory),
                   .found = std::to_string(each)};
    TFTF_TRY(ValueStage(pass, models, options, stage++)
                 .run(static_cast<uint32_t>(std::min<uint64_t>(threads, fit))));
  } while (pass.next_stage());
  return {};
}

}  // namespace tftf
