#include <mutex>
#include <system_error>
#include <thread>

#include "lint_file.h"
#include "tftf/lint/data_pass.h"
#include "tftf_native/lint_tree.h"
#include "workers.h"

namespace tftf {

std::string error_phrase(int error) {
  std::string text = std::generic_category().message(error);
  if (text.size() > 1 && text[0] >= 'A' && text[0] <= 'Z' && !(text[1] >= 'A' && text[1] <= 'Z'))
    text[0] = static_cast<char>(text[0] - 'A' + 'a');
  return text;
}

std::optional<std::string> LintFile::read(const std::string& path, uint64_t offset, MutableBytes into) {
  if (!fd_ || path != path_) {
    path_ = path;
    // What was a file during the walk may be a FIFO now.
    fd_ = open_to_read(path);
    if (!fd_) return error_phrase(errno);
    struct stat info {};
    const int error = retry([&] { return ::fstat(fd_.get(), &info); }) == 0 ? 0 : errno;
    if (error != 0 || !S_ISREG(info.st_mode)) {
      fd_ = Descriptor();
      return error != 0 ? error_phrase(error) : kNotRegular;
    }
  }
  while (!into.empty()) {
    const ssize_t got =
        retry([&] { return ::pread(fd_.get(), into.data(), into.size(), static_cast<off_t>(offset)); });
    if (got < 0) return error_phrase(errno);
    if (got == 0) return "it became shorter while it was read";
    into = into.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return std::nullopt;
}

LintResult run_linter(const LintTree& tree, const LintTree* base, uint64_t max_header) {
  LintOptions options;
  options.max_header = max_header;
  if (base != nullptr) options.base = base->input;
  Linter linter(tree.input, std::move(options));
  LintFile file;
  std::vector<std::byte> buffer;
  for (std::vector<LintRequest> wanted = linter.want(); !wanted.empty(); wanted = linter.want()) {
    for (const LintRequest& request : wanted) {
      const LintTree& from = request.source == LintSource::kBase ? *base : tree;
      buffer.resize(request.range.length);
      if (std::optional<std::string> reason =
              file.read(from.paths[request.entry], request.range.offset, buffer))
        linter.fail(request, std::move(*reason));
      else
        linter.supply(request, buffer);
    }
  }
  return linter.take();
}

namespace {

// One stage of the data pass on threads: pieces are taken in order, results are added under a lock.
class Stage {
 public:
  Stage(DataPass& pass, const LintTree& tree, const LintResult& result, const DataPassOptions& options,
        bool comparing)
      : pass_(pass),
        tree_(tree),
        result_(result),
        options_(options),
        comparing_(comparing),
        kernels_(options.kernels != nullptr ? *options.kernels : best_kernels()) {}

  // False when it was stopped.
  bool run() {
    uint32_t count =
        options_.threads != 0 ? options_.threads : std::max(1u, std::thread::hardware_concurrency());
    count = static_cast<uint32_t>(std::min<uint64_t>(count, pass_.piece_count()));
    run_workers(
        count, [this] { work(); }, [this] { report(); });
    return !stopped();
  }

 private:
  bool stopped() const { return options_.stop != nullptr && options_.stop->load(); }

  void work() {
    LintFile files[2];
    std::vector<std::byte> buffers[2];
    while (!stopped()) {
      const uint64_t index = next_.fetch_add(1);
      if (index >= pass_.piece_count()) break;
      step(index, files, buffers);
    }
  }

  void report() {
    if (!options_.progress) return;
    const std::lock_guard lock(mutex_);
    options_.progress({done_, pass_.bytes(), comparing_});
  }

  void step(uint64_t index, LintFile (&files)[2], std::vector<std::byte> (&buffers)[2]) {
    const DataPass::Piece piece = pass_.piece(index);
    std::array<Bytes, 2> bytes;
    uint64_t total = 0;
    for (uint32_t i = 0; i < piece.count; ++i) {
      const DataPass::Part& part = piece.parts[i];
      if (buffers[i].size() < part.range.length)
        buffers[i].resize(static_cast<size_t>(std::max(part.range.length, DataPass::kMaxPiece)));
      const MutableBytes into(buffers[i].data(), static_cast<size_t>(part.range.length));
      total += part.range.length;
      {
        const std::lock_guard lock(mutex_);
        if (pass_.failed(part.file)) return;
      }
      const std::string& path = tree_.paths[result_.files[part.file].entry];
      if (std::optional<std::string> reason = files[i].read(path, part.range.offset, into)) {
        const std::lock_guard lock(mutex_);
        pass_.fail(part.file, std::move(*reason));
        return;
      }
      bytes[i] = into;
    }
    const DataPass::Found found = pass_.run(index, bytes, kernels_);
    const std::lock_guard lock(mutex_);
    pass_.add(index, found);
    done_ += total;
  }

  DataPass& pass_;
  const LintTree& tree_;
  const LintResult& result_;
  const DataPassOptions& options_;
  bool comparing_;
  const KernelTable& kernels_;
  std::atomic<uint64_t> next_{0};
  std::mutex mutex_;
  uint64_t done_ = 0;
};

}  // namespace

Result<void> run_data_pass(const LintTree& tree, LintResult& result, const DataPassOptions& options) {
  DataPass pass(result);
  bool comparing = false;
  bool more = true;
  while (more) {
    if (!Stage(pass, tree, result, options, comparing).run())
      return Error{.code = ErrorCode::kInterrupted, .message = "Stopped while the data was read."};
    more = pass.next_stage();
    comparing = true;
  }
  pass.amend(result);
  Diagnostics findings = check_data(result, pass.take());
  result.findings.insert(result.findings.end(), std::make_move_iterator(findings.begin()),
                         std::make_move_iterator(findings.end()));
  sort_findings(result.findings);
  return {};
}

}  // namespace tftf
