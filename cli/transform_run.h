// What all commands that transform a model share: read it, plan, show or execute, account.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "session.h"
#include "tftf/transform/planner.h"
#include "tftf_native/executor.h"
#include "tftf_native/model_reader.h"

namespace tftf::cli {

// The first of them on stderr, with -v all.
void warn_all(const Session& session, const std::vector<std::string>& warnings);

// Reads a model that is to be transformed. Says so when it is one shard of a model whose index lies beside it.
Result<NativeModel> open_model(const Session& session, const std::string& path);

// Serves the planner until it has all it wants.
Result<Transform> make_plan(const NativeModel& model, TransformRequest request);

// kRefusedMemory when the plan needs more than --max-memory.
Result<void> check_memory(const Session& session, const Plan& plan);

// Threads, kernels and Ctrl-C.
ExecuteOptions execute_options(const Session& session);

// Where a line's --output means the result to go. kUsagePath for a file where a folder is needed, and the other way round.
struct Destination {
  OutputTarget target;
  bool nowhere = false;  // /dev/null of a dry run
};
Result<Destination> choose_destination(const CommandLine& line);
// A model that operations take tensors from, and its files as they were when they were read.
struct OtherFiles {
  std::shared_ptr<const OtherModel> model;
  std::vector<std::optional<Fingerprint>> seen;
};

// The plan's inputs as files.
std::vector<RunInput> run_inputs(const NativeModel& model, const Plan& plan,
                                 const std::vector<OtherFiles>& others = {});

// Runs a writing command to its end and gives the exit status. `operations`: of the line, adapters read or not;
// `also_read`: files and folders that were read for them already.
int run_transform(const Session& session, const CommandLine& line, std::vector<Operation> operations,
                  std::vector<std::string> also_read = {});

}  // namespace tftf::cli
