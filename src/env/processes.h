// Processes: runs programs, feeds and reads them, and ends them with all that they started.
//
//   this process ──▶ keeper ──▶ program ──▶ its children, daemons, …
//       ▲   └─ "end it" ──▲        │
//       └── output, fd 3, end ─────┘
//
// Per program a small forked "keeper" is the sub-reaper of everything below it: what the program
// leaves behind or hides in other sessions (double fork, setsid) comes back to the keeper, which
// kills it when the program ends, when it is told to, and when this process dies, however it dies.
// Process groups alone cannot promise that. Source: prctl(2) PR_SET_CHILD_SUBREAPER.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "mainspring/result.h"
#include "mainspring/time.h"

namespace mainspring {

// What a program may do and use, set between fork and exec; absent, empty and false = as this
// process.
struct ProcessLimits {
  std::optional<int> nice;                  // -20 to 19, also of its autogroup
  std::optional<std::int64_t> cpu_seconds;  // RLIMIT_CPU, of each process
  std::optional<std::int64_t> address_space_bytes;
  std::optional<std::int64_t> file_bytes;  // RLIMIT_FSIZE
  std::optional<std::int64_t> open_files;  // RLIMIT_NOFILE
  std::optional<std::int64_t> processes;   // RLIMIT_NPROC, of its user
  std::optional<int> umask;
  bool no_core = false;       // RLIMIT_CORE 0
  bool no_new_privs = false;  // set-uid programs give it nothing
  // Files into which it writes "0" to join control groups, before it gives up its user.
  std::vector<std::string> cgroup_procs;
  std::string user;  // a name or number; with its groups; "" = this process's. Needs root
};

enum class OutputStream : std::uint8_t { out, err };

// A program that runs: its own number, and that of the keeper above it (see above).
struct ProcessIds {
  int program = 0;
  int keeper = 0;
};

struct ProcessEnd;

// What to run. There is no shell: argv is passed as it is.
struct ProcessSpec {
  std::vector<std::string> argv;  // argv[0]: a path, or a name to be found in PATH of `environment`
  std::vector<std::string> environment;  // all of it, "NAME=value"; nothing is inherited
  std::string directory;                 // "" = this process's
  std::string input;                     // standard input: a file in memory with this content
  // This process's own standard input, output and error instead: nothing is fed or captured.
  bool inherit_streams = false;
  // Bytes kept of each of standard output and error: the last ones; the rest is only counted. 0 =
  // none, for those who have `output`.
  std::size_t output_cap_bytes = 256 << 10;
  // Lines on fd 3 that are longer are dropped and counted.
  std::size_t message_cap_bytes = 2 << 20;
  // Called for each of those as soon as it is over the cap, with its first message_cap_bytes, on
  // the thread that runs; may be empty.
  std::function<void(std::string_view)> message_dropped;
  // Between TERM and KILL when the program is to be stopped.
  Duration kill_grace = std::chrono::seconds(10);
  // Asked instead when the stop is requested, if it depends on why; on the thread that runs.
  std::function<Duration()> kill_grace_at_stop;
  // At a stop TERM goes only to a program that handles it; others have until the KILL. For
  // programs that are told in another way too, which TERM would cut off.
  bool term_if_handled = false;
  bool no_term = false;  // only KILL, at the end of the grace
  // Takes standard output and error as they come, on the thread that runs. While it does not return
  // nothing is read: the pipes fill, and the program waits. Called with all that was written before
  // the end, then no more.
  std::function<void(OutputStream, std::string_view)> output;
  // A descriptor that becomes standard input instead of `input`; -1 = none. Not closed here.
  int input_fd = -1;
  // One that becomes descriptor 4, where the program finds answers to what it says on 3; -1 = none.
  // Not closed here.
  int answer_fd = -1;
  ProcessLimits limits;
  // Called once, on the thread that runs, when the program runs: before its output and messages.
  std::function<void(ProcessIds)> started;
  // Told at its end how it ended, before run() returns, on the thread that runs; may add what it
  // knows of that: of a control group.
  std::function<void(ProcessEnd&)> ended;
  // Kills what the tree's processes may have become beyond the keeper's reach (a control group):
  // called on the thread that runs after the program's end, and instead of waiting when the tree
  // is to be killed.
  std::function<void()> kill_rest;
};

// The end of a stream's output, and how much there was.
struct Captured {
  std::string tail;
  std::int64_t bytes = 0;
  bool cut() const { return bytes > static_cast<std::int64_t>(tail.size()); }
};

struct ProcessEnd {
  int exit_code = -1;  // 0 to 255; -1 = a signal ended it
  int signal = 0;      // what ended it; 0 = it exited
  Captured out;
  Captured err;
  std::int64_t messages_dropped = 0;  // lines on fd 3 over the cap
  bool stopped = false;               // it was told to stop, whatever it did then
  // Bytes of memory that the largest of its processes had at once; nullopt: no more than this
  // process had when it started the program, or not known. Of a control group: all of it.
  std::optional<std::int64_t> peak_memory{};
  bool oom = false;  // something of it was killed because its control group had no more memory
};

class Processes {
 public:
  virtual ~Processes() = default;
  // Runs a program to its end and to the end of everything it started, in a session of its own.
  // Each line that it writes to fd 3 goes to `message`, on the calling thread. A request on `stop`
  // sends TERM to its process group, after kill_grace KILL to all of the tree. Never waits for
  // output longer than kDrain after the end. Errors: not_found (no such program), forbidden (not
  // executable), invalid_argument (empty argv, NUL bytes, bad directory), io_error (no more
  // processes, memory or descriptors; nothing ran or all of it was killed). Callable from every
  // thread.
  virtual Result<ProcessEnd> run(const ProcessSpec& spec,
                                 const std::function<void(std::string_view)>& message,
                                 std::stop_token stop) = 0;

  // How long the pipes may stay open when every process of the tree has been killed (somebody
  // outside of it may have been handed an end).
  static constexpr Duration kDrain = std::chrono::seconds(1);
};

// Linux. Needs no global state: no signal handlers, no waitpid(-1) in this process.
class SystemProcesses final : public Processes {
 public:
  Result<ProcessEnd> run(const ProcessSpec& spec,
                         const std::function<void(std::string_view)>& message,
                         std::stop_token stop) override;
};

// This process's environment as "NAME=value", without those whose names begin with `prefix`
// ("" = all of it).
std::vector<std::string> inherited_environment(std::string_view without_prefix = "");

// "host:pid" of this process, in letters that names are made of: to tell people who holds what.
std::string process_name();

// "SIGKILL" for 9, "SIGRTMIN+6" for 40; "signal 99" if it has no name.
std::string signal_name(int signal);
// The other way; 0 = no signal has that name.
int parse_signal_name(std::string_view name);

}  // namespace mainspring
