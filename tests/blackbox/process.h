// A child process under test: start it, signal it, wait for its end; never outlives its parent.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace blackbox {

// Microseconds on CLOCK_MONOTONIC, which every process of this host shares.
std::int64_t now_us();

// Waits for `microseconds`; for a nemesis that must strike at a random moment.
void pause_for(std::int64_t microseconds);

struct Command {
  std::vector<std::string> args;                                 // args[0] is the program
  std::vector<std::pair<std::string, std::string>> environment;  // added to ours
  std::string output;              // file that gets its stdout and stderr, appended; "" = inherited
  std::int64_t max_memory_kb = 0;  // RLIMIT_AS; 0 = no limit
  unsigned uid = 0;                // user and group to become, if we are root; 0 = stay as we are
};

class Process {
 public:
  Process() = default;
  ~Process();  // SIGKILL if it still runs
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // False if it could not be started. A process that is still running is killed first.
  bool start(const Command& command);
  void signal(int number) const;
  // True once it has ended; waits up to `milliseconds`.
  bool wait(int milliseconds);
  // SIGKILL and wait.
  void kill();

  bool running() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }
  // Of the last end: 0 to 255, or 128 + signal. -1 = it has not ended.
  int exit_code() const { return exit_code_; }
  // Resident memory in KiB; 0 if unknown.
  std::int64_t rss_kb() const;

 private:
  pid_t pid_ = 0;
  int pidfd_ = -1;
  int exit_code_ = -1;
};

// Runs to the end and returns its output, stdout and stderr together.
struct Finished {
  int exit_code = -1;
  std::string output;
};
Finished run(const std::vector<std::string>& args, int milliseconds,
             const std::vector<std::pair<std::string, std::string>>& environment = {});

// A port on 127.0.0.1 for a server with SO_REUSEADDR, below the range from which the kernel picks
// ports of outgoing connections (a client that connects while the server is down could connect to
// itself). No other process can bind it without that option, and no other call returns it, until
// this process ends.
std::uint16_t free_port();

std::string read_file(const std::string& path);

}  // namespace blackbox
