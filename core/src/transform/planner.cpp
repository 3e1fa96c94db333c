#include "tftf/transform/planner.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "pipe.h"
#include "plan_writer.h"
#include "tftf/base/escape.h"
#include "tftf/base/sha256.h"
#include "tftf/base/size_text.h"
#include "tftf/quant/registry.h"

namespace tftf {

using transform::Pipe;
using transform::Stream;

Result<void> apply_reshard(const Operation& operation, OutputLayout& layout) {
  TFTF_TRY(check_operation(operation));
  if (const auto* size = operation.find("max-shard-size")) layout.max_shard_size = *parse_size(size->front());
  if (operation.find("single") != nullptr) layout.single_file = true;
  if (operation.find("align") != nullptr) layout.align = true;
  return {};
}

void join_others(Checkpoint& checkpoint, std::span<const Operation> operations) {
  for (const Operation& operation : operations)
    if (operation.other != nullptr) checkpoint.others.push_back(operation.other->checkpoint);
}

struct Planner::State {
  const Checkpoint& checkpoint;
  TransformRequest request;
  SmallValues values;
  ValueScans scans;
  std::vector<std::shared_ptr<const Pipe>> pipes;
  std::optional<Error> error;  // certain whatever the values are

  // Of the models that operations take tensors from.
  struct Other {
    std::shared_ptr<const OtherModel> model;
    SmallValues values;
    LayoutReport layouts{};
  };
  std::vector<Other> others;

  bool due = true;  // the pipes have to be run (again)
  std::optional<Result<Stream>> stream;
  LayoutReport layouts;
  std::map<std::string, uint32_t> headers_wanted;  // file to shard
  std::vector<std::string> header_sha256;          // by shard

  State(const Checkpoint& c, TransformRequest r) : checkpoint(c), request(std::move(r)), values(c), scans(c) {
    header_sha256.resize(checkpoint.first_shard(checkpoint.others.size()));
    if (request.tool != nullptr) pipes.push_back(request.tool);
    for (const Operation& operation : request.operations) {
      if (Result<void> made = add_pipe(operation); !made) {
        error = std::move(made).error();
        return;
      }
    }
  }

  Result<void> add_pipe(const Operation& operation) {
    const OperationInfo* info = find_operation(operation.id);
    if (info != nullptr && info->make == nullptr) return apply_reshard(operation, request.layout);
    TFTF_TRY(check_operation(operation));
    if (operation.other != nullptr) {
      const size_t number = others.size();
      if (number >= checkpoint.others.size() || checkpoint.others[number] != operation.other->checkpoint) {
        return Error{.code = ErrorCode::kInternal,
                     .message = "The models that tensors are taken from do not belong to the model."};
      }
      others.push_back({operation.other, SmallValues(*operation.other->checkpoint)});
    }
    Result<std::unique_ptr<Pipe>> pipe = info->make(operation);
    if (!pipe) return std::move(pipe).error();
    pipes.push_back(*std::move(pipe));
    return {};
  }

  // The whole first pass; run again when values that it asked for are there.
  Result<Stream> pass() {
    layouts = detect_layouts(checkpoint, values);
    Stream next = transform::open_stream(checkpoint, values, layouts, request);
    for (size_t i = 0; i < others.size(); ++i) {
      others[i].layouts = detect_layouts(*others[i].model->checkpoint, others[i].values);
      transform::renumber(others[i].layouts, checkpoint.first_shard(i));
      next.others.push_back({others[i].model.get(), &others[i].layouts});
    }
    next.scans = &scans;
    for (const auto& pipe : pipes) {
      TFTF_TRY(pipe->apply(next));
      for (const transform::StreamTensor& tensor : next.tensors) {
        if (tensor.stages.size() + (tensor.gather != nullptr ? 1 : 0) > transform::kMaxStages) {
          return Error{.code = ErrorCode::kUsage,
                       .message = "Tensor " + next.described(tensor) + " would pass through more than " +
                                  std::to_string(transform::kMaxStages) + " conversions in one run.",
                       .tensor = tensor.name};
        }
        const size_t gatherings = transform::Chain{.stages = tensor.stages}.gatherings().size();
        if (gatherings > transform::kMaxGatherings) {
          return Error{
              .code = ErrorCode::kRefusedUnsupported,
              .message = "Tensor " + next.described(tensor) + " would be brought to norms of its columns " +
                         std::to_string(gatherings) + " times in one run, more than " +
                         std::to_string(transform::kMaxGatherings) + "; merge the adapters in several runs.",
              .tensor = tensor.name};
        }
      }
    }
    return next;
  }

  // Headers of the shards that are there.
  std::vector<ReadRequest> want_headers() {
    std::vector<ReadRequest> requests;
    for (uint32_t s = 0; s < header_sha256.size(); ++s) {
      const Shard& shard = checkpoint.shard(s);
      if (shard.status != ShardStatus::kOk || !headers_wanted.emplace(shard.name, s).second) continue;
      requests.push_back({shard.name, {0, shard.header.data_offset()}});
    }
    return requests;
  }
};

Planner::Planner(const Checkpoint& checkpoint, TransformRequest request)
    : state_(std::make_unique<State>(checkpoint, std::move(request))) {}
Planner::~Planner() = default;
Planner::Planner(Planner&&) noexcept = default;
Planner& Planner::operator=(Planner&&) noexcept = default;

std::vector<ReadRequest> Planner::want() {
  State& state = *state_;
  if (state.error) return {};
  if (state.due) {
    state.due = false;
    state.stream.emplace(state.pass());
  }
  std::vector<ReadRequest> requests = state.values.want();
  for (State::Other& other : state.others)
    for (ReadRequest& request : other.values.want()) requests.push_back(std::move(request));
  for (ReadRequest& scan : state.scans.want()) requests.push_back(std::move(scan));
  if (!requests.empty()) state.due = true;
  if (requests.empty() && state.stream->ok()) requests = state.want_headers();
  return requests;
}

void Planner::supply(const ReadRequest& request, Bytes bytes) {
  State& state = *state_;
  const auto header = state.headers_wanted.find(request.file);
  if (request.range.offset == 0 && header != state.headers_wanted.end()) {
    if (bytes.size() < request.range.length) return fail(request, "the file has become shorter");
    const std::string digest = sha256_hex(bytes);
    state.header_sha256[header->second] = digest;
    // The same model may be named twice.
    for (uint32_t s = header->second + 1; s < state.header_sha256.size(); ++s)
      if (!state.others.empty() && state.checkpoint.shard(s).name == request.file)
        state.header_sha256[s] = digest;
  } else if (!state.scans.supply(request, bytes)) {
    state.values.supply(request, bytes);
    for (State::Other& other : state.others) other.values.supply(request, bytes);
  }
}

void Planner::fail(const ReadRequest& request, const std::string& reason) {
  State& state = *state_;
  if (request.range.offset == 0 && state.headers_wanted.count(request.file) > 0) {
    state.error =
        Error{.code = ErrorCode::kIoRead,
              .message = "The header of " + quote_name(request.file) + " could not be read: " + reason + ".",
              .file = request.file};
  } else if (!state.scans.fail(request)) {
    state.values.fail(request);
    for (State::Other& other : state.others) other.values.fail(request);
  }
}

Result<Transform> Planner::take() {
  State& state = *state_;
  if (state.due) (void)want();
  if (state.error) return *std::move(state.error);
  if (!state.stream->ok()) return std::move(*state.stream).error();
  std::string work;
  for (const auto& pipe : state.pipes) work += (work.empty() ? "" : " | ") + pipe->text();
  const std::string& command = state.request.command;
  // "dequant-fp8 dtype=bfloat16" for a command that is one pipe, else "run: filter … | cast …".
  if (state.pipes.size() != 1 || work.substr(0, command.size()) != command) {
    work = command + (work.empty() ? "" : ": ") + work;
  }
  Stream& stream = **state.stream;
  const std::shared_ptr<const LayoutReport> own = stream.own_layouts;
  const LayoutReport& layouts = own != nullptr ? *own : state.layouts;
  return transform::write_plan(std::move(stream), layouts, state.header_sha256, state.request, work);
}

Account Transform::final_account(uint64_t bytes_read, uint64_t bytes_written, bool resumed) const {
  Account result = account;
  result.bytes_read = bytes_read;
  result.bytes_written = bytes_written;
  result.resumed = resumed;
  // Sizes that the data decided.
  for (size_t i = 0; i < plan.outputs().size(); ++i) result.files[i].bytes = plan.outputs()[i].size;
  for (const DeclaredTensor& tensor : *tensors) {
    if (tensor.norm_clamped) {
      result.warnings.push_back(
          "In tensor " + quote_name(tensor.name) +
          " a row or column was zero before it got its magnitude: its norm was taken as 1e-8.");
    }
    if (tensor.became_infinite == 0) continue;
    result.non_finite.push_back({tensor.name, tensor.became_infinite});
    result.warnings.push_back("In tensor " + quote_name(tensor.name) + " " +
                              grouped_digits(tensor.became_infinite) + " finite value" +
                              (tensor.became_infinite == 1 ? "" : "s") + " became infinite in " +
                              std::string(dtype_info(tensor.dtype).torch) + ".");
  }
  return result;
}

}  // namespace tftf
