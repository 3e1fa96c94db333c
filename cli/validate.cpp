#include <chrono>

#include "commands.h"
#include "options.h"
#include "progress.h"
#include "tftf/base/escape.h"
#include "tftf/transform/validation.h"
#include "transform_run.h"

namespace tftf::cli {
namespace {

// "dtype:float16", "filter:GLOB", "exclude:GLOB" (spec tftf 1.2); the dtype's spelling is exact here.
Result<Operation> parse_pipe(const std::string& spec) {
  const size_t colon = spec.find(':');
  const std::string kind = spec.substr(0, colon);
  const std::string value = colon == std::string::npos ? "" : spec.substr(colon + 1);
  if (colon != std::string::npos && kind == "filter") return Operation{"filter", {{"include", {value}}}};
  if (colon != std::string::npos && kind == "exclude") return Operation{"filter", {{"exclude", {value}}}};
  if (colon != std::string::npos && kind == "dtype") {
    const auto& choices = find_operation("cast")->option("dtype")->choices;
    if (std::find(choices.begin(), choices.end(), value) != choices.end()) {
      return Operation{"cast", {{"dtype", {value}}}};
    }
    std::string known;
    for (const std::string_view choice : choices) known += (known.empty() ? "" : ", ") + std::string(choice);
    return Error{
        .code = ErrorCode::kUsage,
        .message = "--pipe names the dtype " + quote_name(value) + ", which is not one of " + known + ".",
        .found = value};
  }
  return Error{.code = ErrorCode::kUsage,
               .message = "--pipe is " + quote_name(spec) + ", not dtype:D, filter:GLOB or exclude:GLOB.",
               .found = spec};
}

int validate(const Session& session, const std::string& path, const std::optional<std::string>& spec) {
  const auto start = std::chrono::steady_clock::now();
  TransformRequest request{.command = "validate", .input = path, .dry_run = true};
  request.examine = true;
  if (spec) {
    Result<Operation> pipe = parse_pipe(*spec);
    if (!pipe) return session.fail(pipe.error());
    request.operations.push_back(*std::move(pipe));
  }
  Result<NativeModel> model = open_model(session, path);
  if (!model) return session.fail(model.error());
  Result<Transform> transform = make_plan(*model, std::move(request));
  if (!transform) return session.fail(transform.error());
  if (auto fits = check_memory(session, transform->plan); !fits) return session.fail(fits.error());
  {
    ProgressBar bar(session.common);
    ExecuteOptions how = execute_options(session);
    how.progress = [&bar](const Progress& progress) { bar.update("reading", progress.done, progress.total); };
    const auto done = examine(transform->plan, run_inputs(*model, transform->plan), how);
    if (!done) return session.fail(done.error());
  }
  const auto elapsed = std::chrono::steady_clock::now() - start;
  const ValidationReport report{
      &*transform,
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(elapsed).count())};
  const bool verbose = session.common.verbose > 0;
  warn_all(session, transform->account.warnings);
  if (session.common.json) {
    session.print_json(report.to_json(verbose));
  } else {
    session.print(report.to_text(verbose));
  }
  return 0;
}

}  // namespace

void add_validate(CLI::App& app, Session& session) {
  struct Options {
    std::string input;
    std::optional<std::string> pipe;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      add_command(app, session, "validate", "Run a model through a pipe with all its data, writing nothing",
                  [&session, options] { return validate(session, options->input, options->pipe); });
  command->add_option("MODEL", options->input, "Model: a file, a folder or an index")
      ->required()
      ->type_name("");
  command
      ->add_option_function<std::string>(
          "--pipe", [options](const std::string& text) { options->pipe = text; },
          "What to run: dtype:D, filter:GLOB or exclude:GLOB; without it the model as it is")
      ->type_name("SPEC")
      ->take_last();
}

}  // namespace tftf::cli
