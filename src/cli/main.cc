// The program: runs the command line and returns its exit code.
//
// Three functions show how it is wired: run_serve (serve.cc) adds HTTP to a node, run_work
// (work.cc) adds a worker to a client, connect (support.cc) creates the client of all other
// commands.
#include <fcntl.h>
#include <unistd.h>

#include "cli/command.h"

namespace {

// A caller may have closed descriptors 0 to 2. Without this, the next file that is opened would be
// standard output or receive the log.
void open_standard_descriptors() {
  int fd = open("/dev/null", O_RDWR);
  while (fd >= 0 && fd <= STDERR_FILENO) fd = dup(fd);
  if (fd > STDERR_FILENO) close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace mainspring::cli;
  open_standard_descriptors();
  Io io = system_io();
  const int code = run_cli(std::vector<std::string>(argv, argv + argc), io);
  const std::string failure = output_failure();
  if (code != 0 || failure.empty()) return code;
  io.err("mainspring: " + failure + "\n");
  return mainspring::info(mainspring::ErrorCode::io_error).exit_code;
}
