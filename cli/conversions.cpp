// Commands whose operations are those of their line, and merges whose adapter lies in several files.
#include <algorithm>

#include "commands.h"
#include "tftf_native/adapter_reader.h"
#include "transform_run.h"

namespace tftf::cli {
namespace {

std::optional<std::string> config_of(const Operation& merge) {
  const auto* config = merge.find("adapter-config");
  return config == nullptr ? std::nullopt : std::optional(config->front());
}

Operation& merge_of(std::vector<Operation>& operations) {
  return *std::find_if(operations.begin(), operations.end(),
                       [](const Operation& one) { return one.id == "merge-lora"; });
}

// Runs a merge whose adapter has been read.
int run_with(const Session& session, const CommandLine& line, std::vector<Operation> operations,
             Result<std::shared_ptr<const Adapter>> adapter, std::vector<std::string> sources) {
  if (!adapter) return session.fail(adapter.error());
  Operation& merge = merge_of(operations);
  merge.options.push_back({"adapter", {(*adapter)->given}});
  merge.adapter = *std::move(adapter);
  return run_transform(session, line, std::move(operations), std::move(sources));
}

}  // namespace

int run_conversion(Session& session, const CommandLine& line) {
  return run_transform(session, line, line.operations);
}

int run_sharded_merge(Session& session, const CommandLine& line) {
  std::vector<Operation> operations = line.operations;
  ShardedAdapterRequest ranks;
  ranks.files = line.values("shards");
  if (line.has("shard-dir")) ranks.folder = line.value("shard-dir");
  ranks.dim = static_cast<decltype(ranks.dim)>(line.number("shard-dim").value_or(0));
  ranks.config = config_of(merge_of(operations));
  ranks.max_header = session.common.max_header;
  std::vector<std::string> sources;
  ranks.sources = &sources;
  auto adapter = read_sharded_adapter(ranks);
  return run_with(session, line, std::move(operations), std::move(adapter), std::move(sources));
}

int run_distributed_merge(Session& session, const CommandLine& line) {
  std::vector<Operation> operations = line.operations;
  AdapterRequest request{
      .path = line.value("checkpoint-dir"), .config = config_of(merge_of(operations)), .dcp_only = true};
  request.tokenizer = takes_tokenizer(merge_of(operations));
  request.max_header = session.common.max_header;
  std::vector<std::string> sources;
  request.sources = &sources;
  auto adapter = read_adapter(request);
  return run_with(session, line, std::move(operations), std::move(adapter), std::move(sources));
}

}  // namespace tftf::cli
