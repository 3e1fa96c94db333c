#include "session.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>

#include <CLI/CLI.hpp>

#include "tftf/base/error_json.h"
#include "tftf/base/escape.h"

namespace tftf::cli {
namespace {

std::atomic<bool> g_stop{false};

extern "C" void on_stop_signal(int signal) {
  // The first one asks for an orderly end; from then on the signal has its usual effect.
  g_stop.store(true);
  std::signal(signal, SIG_DFL);
}

void write(std::FILE* stream, std::string_view text) { std::fwrite(text.data(), 1, text.size(), stream); }

// A sentence of CLI11, with the command whose help tells more.
Error usage_error(const Session& session, const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* chosen = &app;
  while (!chosen->get_subcommands().empty()) chosen = chosen->get_subcommands().front();
  std::string path;
  for (const CLI::App* at = chosen; at != nullptr && at->get_parent() != nullptr; at = at->get_parent()) {
    path = " " + at->get_name() + path;
  }
  std::string what = error.what();
  while (!what.empty() && (what.back() == '\n' || what.back() == '.')) what.pop_back();
  for (char& c : what) {
    if (c == '\n') c = ' ';
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    // CLI11 lists them backwards.
    const std::vector<std::string> extras = app.remaining(true);
    std::string list;
    for (const std::string& extra : extras) list += (list.empty() ? "" : " ") + extra;
    const bool needs_command = app.get_require_subcommand_max() == 1;
    if (chosen == &app && needs_command) {
      what = "there is no such command, or an option stands before the command: " + list;
    } else {
      what = (extras.size() == 1 ? "an argument was not expected: " : "arguments were not expected: ") + list;
    }
  }
  if (!what.empty() && what[0] >= 'a' && what[0] <= 'z') what[0] = static_cast<char>(what[0] - 'a' + 'A');
  return Error{.code = ErrorCode::kUsage,
               .message = escape_text(what) + " (see " + session.program() + path + " --help)."};
}

// Output that could not be written is a failure of its own, whatever the command said.
int finish(const Session& session, int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  write(stderr, session.program() + ": The standard output could not be written.\n");
  return status == 0 ? error_exit_status(ErrorCode::kIoWrite) : status;
}

int parse_and_run(Session& session, std::vector<std::string> arguments, CLI::App& app) {
  if (arguments.empty() && session.help_without_arguments) {
    session.print(app.help());
    return 0;
  }
  for (const std::string& argument : arguments) {
    if (argument == "--json") session.common.json = true;  // also for errors in the arguments themselves
  }
  try {
    if (session.before_parse) session.before_parse(app, arguments);
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 wants them
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    session.print(app.help());  // of the command that was chosen
    return 0;
  } catch (const CLI::CallForVersion& version) {
    session.print(std::string(version.what()) + "\n");
    return 0;
  } catch (const CLI::ParseError& error) {
    return session.fail(usage_error(session, app, error));
  }
  if (!session.command)
    return session.fail({.code = ErrorCode::kUsage,
                         .message = "There is no command; " + session.program() + " --help lists them."});
  if (auto kernels = session.kernels(); !kernels) return session.fail(kernels.error());
  return session.command();
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
  write(stderr, program_ + ": " + error.message + "\n");
  return error_exit_status(error.code);
}

const std::atomic<bool>& Session::stop_requested() { return g_stop; }

std::string Session::command_line(std::initializer_list<std::string_view> without) const {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+%@";
  std::string text = program_;
  for (const std::string& argument : arguments) {
    if (std::find(without.begin(), without.end(), argument) != without.end()) continue;
    if (!argument.empty() && argument.find_first_not_of(kPlain) == std::string::npos) {
      text += " " + argument;
      continue;
    }
    text += " '";
    for (const char c : argument) {
      if (c == '\'') {
        text += "'\\''";
      } else {
        text += c;
      }
    }
    text += '\'';
  }
  return text;
}

int run_program(Session& session, int argc, char** argv, void (*build)(CLI::App&, Session&)) {
  std::signal(SIGINT, on_stop_signal);
  std::signal(SIGTERM, on_stop_signal);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // EFBIG says more
  int status = 0;
  try {
    CLI::App app;
    build(app, session);
    session.arguments.assign(argv + (argc > 0 ? 1 : 0), argv + argc);
    status = parse_and_run(session, session.arguments, app);
  } catch (const std::bad_alloc&) {
    status = session.fail({.code = ErrorCode::kInternal, .message = "There was not enough memory."});
  } catch (const std::exception& error) {
    status = session.fail({.code = ErrorCode::kInternal,
                           .message = "A defect of this program: " + escape_text(error.what()) + "."});
  }
  return finish(session, status);
}

}  // namespace tftf::cli
