#include "run_program.h"

#ifndef __EMSCRIPTEN__

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

namespace tftf::test {

ProgramRun run_program(const std::vector<std::string>& command, const std::string& folder,
                       const std::vector<std::string>& environment) {
  ProgramRun run;
  std::array<std::array<int, 2>, 2> pipes{};
  for (auto& ends : pipes)
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return run;
  const pid_t child = ::fork();
  if (child == 0) {
    const int nothing = ::open("/dev/null", O_RDONLY);
    ::dup2(nothing, 0);
    ::dup2(pipes[0][1], 1);
    ::dup2(pipes[1][1], 2);
    if (!folder.empty() && ::chdir(folder.c_str()) != 0) ::_exit(126);
    for (const std::string& entry : environment) ::putenv(const_cast<char*>(entry.c_str()));
    std::vector<char*> arguments;
    for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  for (auto& ends : pipes) ::close(ends[1]);
  std::array<std::string*, 2> texts = {&run.out, &run.err};
  int open = 2;
  while (open > 0) {
    std::array<pollfd, 2> waiting = {pollfd{pipes[0][0], POLLIN, 0}, pollfd{pipes[1][0], POLLIN, 0}};
    if (::poll(waiting.data(), waiting.size(), -1) < 0) continue;
    for (size_t i = 0; i < 2; ++i) {
      if (waiting[i].revents == 0) continue;
      char buffer[65536];
      const ssize_t got = ::read(pipes[i][0], buffer, sizeof(buffer));
      if (got > 0) {
        texts[i]->append(buffer, static_cast<size_t>(got));
      } else if (got == 0) {
        ::close(pipes[i][0]);
        pipes[i][0] = -1;
        --open;
      }
    }
  }
  int status = 0;
  rusage usage{};
  ::wait4(child, &status, 0, &usage);
  run.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  run.peak_kib = static_cast<uint64_t>(usage.ru_maxrss);
  return run;
}

}  // namespace tftf::test

#endif
