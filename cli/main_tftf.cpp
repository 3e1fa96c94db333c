#include "session.h"

int main(int argc, char** argv) {
  tftf::cli::Session session(tftf::Program::kTftf);
  return tftf::cli::run_program(session, argc, argv);
}
