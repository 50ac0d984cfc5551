// Starting and ending a test server.
#include "testing/server_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

extern char** environ;

namespace mainspring::testing {
namespace {

std::string binary_of(const ServerOptions& options) {
  if (!options.binary.empty()) return options.binary;
  const char* const given = std::getenv("MAINSPRING_BINARY");
  return given == nullptr || *given == '\0' ? "mainspring" : given;
}

struct PipeEnds {
  Fd read, write;
};
PipeEnds make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Failure(fmt::format("pipe: {}", std::strerror(errno)));
  return {Fd(ends[0]), Fd(ends[1])};
}

std::string first_line(int fd) {
  std::string line;
  for (char c = 0; read(fd, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

}  // namespace

ServerProcess::ServerProcess(const ServerOptions& options) {
  const std::string binary = binary_of(options);
  std::vector<std::string> words = {binary, "serve", "--test"};
  if (options.seed) {
    words.emplace_back("--seed");
    words.push_back(fmt::to_string(*options.seed));
  }
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  PipeEnds input = make_pipe(), output = make_pipe();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input.read.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output.write.get(), STDOUT_FILENO);
  const int failed = posix_spawnp(&pid_, binary.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    throw Failure(
        fmt::format("starting {}: {}; put mainspring on the PATH or set MAINSPRING_BINARY", binary,
                    std::strerror(failed)));
  }
  input_ = std::move(input.write);
  output.write.reset();
  line_ = first_line(output.read.get());
  if (!line_.empty()) return;
  int status = 0;
  input_.reset();
  waitpid(pid_, &status, 0);
  throw Failure(fmt::format("{} serve --test ended with {} before it was ready", binary,
                            WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)));
}

ServerProcess::~ServerProcess() {
  input_.reset();
  int status = 0;
  waitpid(pid_, &status, 0);
}

}  // namespace mainspring::testing
