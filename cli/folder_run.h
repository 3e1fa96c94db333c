// The colibri tools that turn a folder of shards into another: options they share, and how they run.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "session.h"
#include "tftf/transform/colibri/folder_plan.h"
#include "tftf_native/model_reader.h"

namespace tftf::cli {

struct FolderOptions {
  std::string input;
  std::string output;
  bool dry_run = false;
  bool strict = false;
  bool overwrite = false;
  bool no_resume = false;
  bool delete_source = false;
  std::optional<uint64_t> tile_size;  // for tests
};

// --indir, --outdir and the rest of FolderOptions.
void add_folder_options(CLI::App& command, FolderOptions& options);

// A folder whose shards all count, whatever an index says. kUsagePath for a file.
Result<NativeModel> open_shard_folder(const Session& session, const std::string& path);

// Runs the tool to its end and gives the exit status.
int run_folder_tool(const Session& session, const FolderOptions& options,
                    std::shared_ptr<const colibri::FolderTool> tool);

}  // namespace tftf::cli
