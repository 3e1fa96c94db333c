#include "commands.h"

int main(int argc, char** argv) {
  tftf::cli::Session session("tftf");
  return tftf::cli::run_program(session, argc, argv, tftf::cli::add_commands);
}
