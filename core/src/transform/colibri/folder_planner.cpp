#include <map>
#include <optional>

#include "tftf/base/escape.h"
#include "tftf/base/sha256.h"
#include "tftf/base/size_text.h"
#include "transform/colibri/folder_tool.h"

namespace tftf::colibri {

Account FolderPlan::final_account(uint64_t bytes_read, uint64_t bytes_written, bool resumed) const {
  Account result = account;
  result.bytes_read = bytes_read;
  result.bytes_written = bytes_written;
  result.resumed = resumed;
  // Sizes that the data decided.
  for (size_t i = 0; i < result.files.size(); ++i) result.files[i].bytes = plan.outputs()[i].size;
  return result;
}

struct FolderPlanner::State {
  const Checkpoint& checkpoint;
  const Checkpoint* existing;
  FolderRequest request;
  std::shared_ptr<const FolderTool> tool;
  SmallValues values;
  std::optional<Result<FolderSource>> source;
  std::optional<Error> error;  // of reading
  std::optional<Result<FolderPlan>> plan;
  bool due = true;  // the tool has to be asked (again)
  std::map<std::string, uint32_t> headers_wanted;
  std::vector<std::string> header_sha256;  // by shard

  State(const Checkpoint& c, const Checkpoint* e, FolderRequest r, std::shared_ptr<const FolderTool> t)
      : checkpoint(c), existing(e), request(std::move(r)), tool(std::move(t)), values(c) {
    header_sha256.resize(checkpoint.shards.size());
    source.emplace(FolderSource::open(checkpoint));
    if (!source->ok()) error = std::move(*source).error();
  }

  std::vector<ReadRequest> want_headers() {
    std::vector<ReadRequest> requests;
    for (const uint32_t s : (*source)->shards()) {
      const Shard& shard = checkpoint.shards[s];
      if (!headers_wanted.emplace(shard.name, s).second) continue;
      requests.push_back({shard.name, {0, shard.header.data_offset()}});
    }
    return requests;
  }

  void ask() {
    due = false;
    plan.emplace(tool->plan({**source, existing, values, request, header_sha256}));
    if (!plan->ok()) return;
    Account& account = (*plan)->account;
    account.command = "colibri " + tool->command();
  }
};

FolderPlanner::FolderPlanner(const Checkpoint& source, const Checkpoint* existing, FolderRequest request,
                             std::shared_ptr<const FolderTool> tool)
    : state_(std::make_unique<State>(source, existing, std::move(request), std::move(tool))) {}
FolderPlanner::~FolderPlanner() = default;
FolderPlanner::FolderPlanner(FolderPlanner&&) noexcept = default;
FolderPlanner& FolderPlanner::operator=(FolderPlanner&&) noexcept = default;

std::vector<ReadRequest> FolderPlanner::want() {
  State& state = *state_;
  if (state.error) return {};
  std::vector<ReadRequest> requests = state.want_headers();
  if (!requests.empty()) return requests;
  if (state.due) {
    state.ask();
    requests = state.values.want();
    state.due = !requests.empty();
  }
  return requests;
}

void FolderPlanner::supply(const ReadRequest& request, Bytes bytes) {
  State& state = *state_;
  const auto header = state.headers_wanted.find(request.file);
  if (request.range.offset == 0 && header != state.headers_wanted.end()) {
    if (bytes.size() < request.range.length) return fail(request, "the file has become shorter");
    state.header_sha256[header->second] = sha256_hex(bytes);
  } else {
    state.values.supply(request, bytes);
  }
}

void FolderPlanner::fail(const ReadRequest& request, const std::string& reason) {
  State& state = *state_;
  if (request.range.offset == 0 && state.headers_wanted.count(request.file) > 0) {
    state.error =
        Error{.code = ErrorCode::kIoRead,
              .message = "The header of " + quote_name(request.file) + " could not be read: " + reason + ".",
              .file = request.file};
  } else {
    state.values.fail(request);
  }
}

Result<FolderPlan> FolderPlanner::take() {
  State& state = *state_;
  if (!state.error && state.due) state.ask();
  if (state.error) return *std::move(state.error);
  return *std::move(state.plan);
}

}  // namespace tftf::colibri
