#include "session.h"

int main(int argc, char** argv) {
  tftf::cli::Session session(tftf::Program::kLint);
  return tftf::cli::run_program(session, argc, argv);
}
