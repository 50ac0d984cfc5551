// The program: runs the command line and returns its exit code.
//
// Three functions show how it is wired: run_serve (serve.cc) adds HTTP to a node, run_work
// (work.cc) adds a worker to a client, connect (support.cc) creates the client of all other
// commands.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "cli/command.h"

namespace {

// A caller may have closed descriptors 0 to 2. Without this, the next file that is opened would be
// standard output or receive the log.
void open_standard_descriptors() {
  int fd = open("/dev/null", O_RDWR);
  while (fd >= 0 && fd <= STDERR_FILENO) fd = dup(fd);
  if (fd > STDERR_FILENO) close(fd);
}

// Programs and scripts that we start call `mainspring` by its name. If we were started by a path,
// PATH may not have it: then our directory becomes its last part.
void add_to_path() {
  namespace fs = std::filesystem;
  std::error_code problem;
  const fs::path self = fs::read_symlink("/proc/self/exe", problem);
  const std::string directory = self.parent_path().string();
  if (self.filename() != "mainspring" || directory.find(':') != std::string::npos) return;
  const char* const set = getenv("PATH");
  const std::string path = set != nullptr ? set : "/usr/bin:/bin";
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    if (access((path.substr(at, end - at) + "/mainspring").c_str(), X_OK) == 0) return;
    at = end + 1;
  }
  setenv("PATH", (path + ":" + directory).c_str(), 1);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace mainspring::cli;
  open_standard_descriptors();
  add_to_path();
  Io io = system_io();
  const int code = run_cli(std::vector<std::string>(argv, argv + argc), io);
  const std::string failure = output_failure();
  if (code != 0 || failure.empty()) return code;
  io.err("mainspring: " + failure + "\n");
  return mainspring::info(mainspring::ErrorCode::io_error).exit_code;
}
