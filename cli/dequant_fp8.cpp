#include "commands.h"
#include "operation_options.h"
#include "options.h"
#include "transform_run.h"

namespace tftf::cli {

void add_dequant_fp8(CLI::App& app, Session& session) {
  struct Options {
    std::string input;
    Operation dequant;
    WriteOptions write;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(
      app, session, "dequant-fp8", "Turn FP8 weights with their scales into plain floats",
      [&session, options] {
        return run_transform(session, "dequant-fp8", options->input, {options->dequant}, options->write);
      });
  command->add_option("-i,--input", options->input, "Model: a file, a folder or an index")
      ->type_name("MODEL")
      ->required()
      ->take_last();
  add_operation_options(*command, *find_operation("dequant-fp8"), options->dequant);
  add_write_options(*command, options->write);
}

}  // namespace tftf::cli
