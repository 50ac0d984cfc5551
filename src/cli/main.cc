// The program: the command line in, the exit code out.
//
// What it wires is visible in three functions: run_serve (serve.cc) puts HTTP in front of a node,
// run_work (work.cc) puts a worker on a client, connect (support.cc) makes the client of the rest.
#include "cli/command.h"

int main(int argc, char** argv) {
  using namespace mainspring::cli;
  Io io = system_io();
  return run_cli(std::vector<std::string>(argv, argv + argc), io);
}
