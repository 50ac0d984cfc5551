// A server of a test: a program that is watched, signalled and never outlives the test.
//
// The keeper of SystemProcesses is its parent: however this process ends, the server and all its
// children end too, also stopped ones.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mainspring/result.h"
#include "mainspring/time.h"

namespace mainspring::pg_testing {

struct ServerSpec {
  std::vector<std::string> argv;
  std::string directory;
  std::string user;             // "" = as this process
  std::string ready;            // a line that contains this means that the server is ready
  std::int64_t file_bytes = 0;  // RLIMIT_FSIZE; 0 = none
};

// All methods may be called from every thread.
class ServerProcess {
 public:
  ServerProcess();
  ~ServerProcess();  // SIGKILL if it still runs
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  // Returns when it is ready. Errors: conflict (it runs), unavailable (it ended, or was not ready
  // within `limit`, and has been killed): with the end of its output.
  Result<void> start(const ServerSpec& spec, Duration limit);
  void signal(int number) const;
  // True if it has ended; waits up to `limit`.
  bool await_end(Duration limit);
  // Sends SIGKILL to it and then to its remaining children; waits.
  void kill();

  int pid() const;          // 0 = it does not run
  int times_ready() const;  // since start(): more than one for a server that restarts itself
  // Waits until times_ready() is at least `times`; false at its end or after `limit`.
  bool await_ready(int times, Duration limit);
  std::string log() const;  // the end of its output

  static constexpr std::size_t kLogBytes = 256 << 10;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Runs a program to its end. Errors: internal, with its output.
Result<void> run_program(const std::vector<std::string>& argv, const std::string& user,
                         const std::string& directory);

}  // namespace mainspring::pg_testing
