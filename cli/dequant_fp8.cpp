#include "commands.h"
#include "operation_options.h"
#include "options.h"
#include "transform_run.h"

namespace tftf::cli {

void add_dequant_fp8(CLI::App& app, Session& session) {
  struct Options {
    std::string input;
    Operation dequant, merge;
    WriteOptions write;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(
      app, session, "dequant-fp8", "Turn FP8 weights with their scales into plain floats",
      [&session, options] {
        std::vector<Operation> operations{options->dequant};
        if (options->merge.find("adapter") != nullptr) {
          operations.push_back(options->merge);
        } else if (!options->merge.options.empty()) {
          return session.fail({.code = ErrorCode::kUsage,
                               .message = "Options of the merge need --merge-lora (" +
                                          options->merge.options[0].name + ")."});
        }
        return run_transform(session, "dequant-fp8", options->input, std::move(operations), options->write);
      });
  command->add_option("-i,--input", options->input, "Model: a file, a folder or an index")
      ->type_name("MODEL")
      ->required()
      ->take_last();
  add_operation_options(*command, *find_operation("dequant-fp8"), options->dequant);
  add_operation_options(*command, *find_operation("merge-lora"), options->merge, true,
                        {{"adapter", "--merge-lora"},
                         {"adapter-config", "--lora-config"},
                         {"adapter-name", "--lora-adapter-name"},
                         {"scale", "--lora-scale"},
                         {"device", ""}});
  add_write_options(*command, options->write);
}

}  // namespace tftf::cli
