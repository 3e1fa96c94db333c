#include "commands.h"
#include "operation_options.h"
#include "options.h"
#include "transform_run.h"

namespace tftf::cli {

// filter, then cast (spec tftf 1.2).
void add_passthrough(CLI::App& app, Session& session) {
  struct Options {
    std::string input;
    Operation filter, cast;
    WriteOptions write;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(
      app, session, "passthrough", "Copy a model: filtered, cast, packed anew, or just as it is",
      [&session, options] {
        std::vector<Operation> operations;
        if (!options->filter.options.empty()) operations.push_back(options->filter);
        if (options->cast.find("dtype") != nullptr) {
          operations.push_back(options->cast);
        } else if (!options->cast.options.empty()) {
          return session.fail({.code = ErrorCode::kUsage,
                               .message = "--" + options->cast.options[0].name + " needs --dtype."});
        }
        return run_transform(session, "passthrough", options->input, std::move(operations), options->write);
      });
  command->add_option("-i,--input", options->input, "Model: a file, a folder or an index")
      ->type_name("MODEL")
      ->required()
      ->take_last();
  add_operation_options(*command, *find_operation("filter"), options->filter);
  add_operation_options(*command, *find_operation("cast"), options->cast, true);
  add_write_options(*command, options->write);
}

}  // namespace tftf::cli
