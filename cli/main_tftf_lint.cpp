#include "commands.h"

int main(int argc, char** argv) {
  tftf::cli::Session session("tftf-lint");
  return tftf::cli::run_program(session, argc, argv, tftf::cli::set_up_lint_program);
}
