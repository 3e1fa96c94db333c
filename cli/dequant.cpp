#include "commands.h"
#include "operation_options.h"
#include "options.h"
#include "transform_run.h"

namespace tftf::cli {
namespace {

void add_codec_command(CLI::App& app, Session& session, const char* name, const char* description) {
  struct Options {
    std::string input;
    Operation operation;
    WriteOptions write;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(app, session, name, description, [&session, options, name] {
    return run_transform(session, name, options->input, {options->operation}, options->write);
  });
  command->add_option("-i,--input", options->input, "Model: a file, a folder or an index")
      ->type_name("MODEL")
      ->required()
      ->take_last();
  add_operation_options(*command, *find_operation(name), options->operation);
  add_write_options(*command, options->write);
}

}  // namespace

void add_dequant(CLI::App& app, Session& session) {
  add_codec_command(app, session, "dequant", "Turn quantised weights into plain floats");
}

void add_quantize(CLI::App& app, Session& session) {
  add_codec_command(app, session, "quantize", "Round float weights to a quantised layout");
}

void add_repack(CLI::App& app, Session& session) {
  add_codec_command(app, session, "repack", "Put quantised weights into another container, codes untouched");
}

}  // namespace tftf::cli
