#include "session.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

#include "commands.h"
#include "tftf/base/error_json.h"
#include "tftf/base/escape.h"
#include "tftf/base/version.h"
#include "tftf/command/help.h"

namespace tftf::cli {
namespace {

std::atomic<bool> g_stop{false};
int g_write_error = 0;  // of stdout, the first one

extern "C" void on_stop_signal(int signal) {
  // The first one asks for an orderly end; from then on the signal has its usual effect.
  g_stop.store(true);
  std::signal(signal, SIG_DFL);
}

void write(std::FILE* stream, std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stream) == text.size()) return;
  if (stream == stdout && g_write_error == 0) g_write_error = errno;
}

// Output that could not be written is a failure of its own, whatever the command said; but not a reader that has gone.
int finish(const Session& session, int status) {
  errno = 0;
  if (std::fflush(stdout) != 0 && g_write_error == 0) g_write_error = errno;
  if (std::ferror(stdout) == 0 && g_write_error == 0) return status;
  if (g_write_error == EPIPE) return status;
  write(stderr, std::string(session.program()) + ": The standard output could not be written.\n");
  return status == 0 ? error_exit_status(ErrorCode::kIoWrite) : status;
}

int parse_and_run(Session& session) {
  for (const std::string& argument : session.arguments) {
    if (argument == "--json") session.common.json = true;  // also for errors in the arguments themselves
  }
  const Result<CommandLine> line = read_command_line(session.which(), Host::kNative, session.arguments);
  if (!line) return session.fail(line.error());
  session.take(*line);
  if (line->wish == CommandLine::Wish::kHelp) {
    session.print(help_text(session.which(), Host::kNative, *line->command));
    return 0;
  }
  if (line->wish == CommandLine::Wish::kVersion) {
    session.print(std::string(session.program()) + ", version " + std::string(version()) + "\n");
    return 0;
  }
  if (auto kernels = session.kernels(); !kernels) return session.fail(kernels.error());
  return run_command(session, *line);
}

}  // namespace

Result<const KernelTable*> Session::kernels() const {
  std::string name = common.simd;
  if (name.empty()) {
    if (const char* variable = std::getenv("TFTF_SIMD")) name = variable;
  }
  if (name.empty()) return &best_kernels();
  if (const KernelTable* table = find_kernels(name)) return table;
  std::string known;
  for (const KernelTable* table : available_kernels())
    known += (known.empty() ? "" : ", ") + std::string(table->name);
  return Error{.code = ErrorCode::kUsage,
               .message = "There are no kernels named " + quote_name(name) + " here, only " + known + ".",
               .expected = known,
               .found = name};
}

void Session::print(std::string_view text) const { write(stdout, text); }
void Session::print_json(const OrderedJson& value) const { write(stdout, json_text(value)); }
void Session::warn(std::string_view sentence) const {
  write(stderr, "warning: " + std::string(sentence) + "\n");
}
void Session::note(std::string_view sentence) const {
  if (!common.quiet) write(stderr, std::string(sentence) + "\n");
}

int Session::fail(const Error& error) const {
  if (common.json) print_json(error_json(error));
  std::fflush(stdout);
  write(stderr, std::string(program()) + ": " + error.message + "\n");
  return error_exit_status(error.code);
}

const std::atomic<bool>& Session::stop_requested() { return g_stop; }

void Session::take(const CommandLine& line) {
  common.json = line.has("json");
  common.no_progress = line.has("no-progress");
  common.quiet = line.has("quiet");
  common.verbose = line.has("verbose");
  common.threads = static_cast<uint32_t>(line.number("threads").value_or(0));
  common.max_memory = line.number("max-memory");
  common.simd = line.value("simd");
  common.max_header = line.number("max-header").value_or(kDefaultMaxHeader);
}

std::string Session::command_line(const CommandLine& line) const {
  const CommandLine::Given* anew = line.find("no-resume");
  std::string text = shell_quoted(started_as);
  for (size_t i = 0; i < arguments.size(); ++i)
    if (anew == nullptr || anew->at != i) text += " " + shell_quoted(arguments[i]);
  return text;
}

int run_program(Session& session, int argc, char** argv) {
  std::signal(SIGINT, on_stop_signal);
  std::signal(SIGTERM, on_stop_signal);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // EFBIG says more
  int status = 0;
  try {
    session.arguments.assign(argv + (argc > 0 ? 1 : 0), argv + argc);
    session.started_as = argc > 0 ? argv[0] : session.program();
    status = parse_and_run(session);
  } catch (const std::bad_alloc&) {
    status = session.fail({.code = ErrorCode::kInternal, .message = "There was not enough memory."});
  } catch (const std::exception& error) {
    status = session.fail({.code = ErrorCode::kInternal,
                           .message = "A defect of this program: " + escape_text(error.what()) + "."});
  }
  return finish(session, status);
}

}  // namespace tftf::cli
