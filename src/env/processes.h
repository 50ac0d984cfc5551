// Processes: runs programs, feeds and reads them, and ends them with all that they started.
//
//   this process ──▶ keeper ──▶ program ──▶ its children, daemons, …
//       ▲   └─ "end it" ──▲        │
//       └── output, fd 3, end ─────┘
//
// For each program, a small forked "keeper" is the sub-reaper of all its descendants. Processes
// that the program leaves running or moves to other sessions (double fork, setsid) become children
// of the keeper. The keeper kills them when the program ends, on request, and when this process
// dies in any way. Process groups alone cannot guarantee that. Source: prctl(2)
// PR_SET_CHILD_SUBREAPER.
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

// Limits and identity of a program, set between fork and exec; absent, empty or false = as this
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
  // Files to write "0" into to join control groups, before the change of user.
  std::vector<std::string> cgroup_procs;
  std::string user;  // a name or number, including its groups; "" = this process's. Needs root
};

enum class OutputStream : std::uint8_t { out, err };

// The pids of a running program and of the keeper above it.
struct ProcessIds {
  int program = 0;
  int keeper = 0;
};

struct ProcessEnd;

// The program to run. There is no shell: argv is passed unchanged.
struct ProcessSpec {
  std::vector<std::string> argv;  // argv[0]: a path, or a name to be found in PATH of `environment`
  std::vector<std::string> environment;  // all of it, "NAME=value"; nothing is inherited
  std::string directory;                 // "" = this process's
  std::string input;                     // standard input: a file in memory with this content
  // Uses this process's own standard input, output and error: no input is fed, no output captured.
  bool inherit_streams = false;
  // How many of the last bytes of standard output and error are kept, each; the rest is only
  // counted. 0 = none, for callers with `output`.
  std::size_t output_cap_bytes = 256 << 10;
  // Lines on fd 3 that are longer are dropped and counted.
  std::size_t message_cap_bytes = 2 << 20;
  // Called for each such line as soon as it is over the cap, with its first message_cap_bytes, on
  // the calling thread of run(); may be empty.
  std::function<void(std::string_view)> message_dropped;
  // Between TERM and KILL when the program is to be stopped.
  Duration kill_grace = std::chrono::seconds(10);
  // If set, replaces kill_grace: called when stop is requested, on the calling thread of run().
  std::function<Duration()> kill_grace_at_stop;
  // At a stop, send TERM only to a program that handles it; others get only the KILL. For programs
  // that are also notified in another way, which TERM would interrupt.
  bool term_if_handled = false;
  bool no_term = false;  // only KILL, at the end of the grace
  // Receives standard output and error as they arrive, on the calling thread of run(). While it
  // blocks nothing is read: the pipes fill, and the program waits. All output of the program is
  // passed before the end.
  std::function<void(OutputStream, std::string_view)> output;
  // A descriptor that becomes standard input instead of `input`; -1 = none. Not closed here.
  int input_fd = -1;
  // A descriptor that becomes descriptor 4, where the program reads answers to its messages on 3;
  // -1 = none. Not closed here.
  int answer_fd = -1;
  ProcessLimits limits;
  // Called once on the calling thread of run() when the program runs, before its output and
  // messages.
  std::function<void(ProcessIds)> started;
  // Called with the end of the program before run() returns, on the same thread; may add facts, for
  // example of a control group.
  std::function<void(ProcessEnd&)> ended;
  // Kills processes of the tree beyond the keeper's reach (in a control group). Called on the same
  // thread after the program's end, and instead of waiting when the tree is to be killed.
  std::function<void()> kill_rest;
};

// The last output of a stream, and its total size.
struct Captured {
  std::string tail;
  std::int64_t bytes = 0;
  bool cut() const { return bytes > static_cast<std::int64_t>(tail.size()); }
};

struct ProcessEnd {
  int exit_code = -1;  // 0 to 255; -1 = a signal ended it
  int signal = 0;      // that ended it; 0 = it exited
  Captured out;
  Captured err;
  std::int64_t messages_dropped = 0;  // lines on fd 3 over the cap
  bool stopped = false;               // it was asked to stop, whatever it did then
  // Peak memory in bytes of the largest of its processes; nullopt: at most what this process had
  // when it started the program, or not known. With a control group: of all processes together.
  std::optional<std::int64_t> peak_memory{};
  bool oom = false;  // a process was killed because its control group had no more memory
};

class Processes {
 public:
  virtual ~Processes() = default;
  // Runs a program to its end and to the end of all its descendants, in a session of its own. Each
  // line that it writes to fd 3 is passed to `message`, on the calling thread. A request on `stop`
  // sends TERM to its process group, and after kill_grace KILL to the whole tree. Waits for output
  // at most kDrain after the end. Errors: not_found (no such program), forbidden (not executable),
  // invalid_argument (empty argv, NUL bytes, bad directory), io_error (no more processes, memory or
  // descriptors; nothing ran or all of it was killed). Thread-safe.
  virtual Result<ProcessEnd> run(const ProcessSpec& spec,
                                 const std::function<void(std::string_view)>& message,
                                 std::stop_token stop) = 0;

  // How long the pipes may stay open after every process of the tree was killed (a process outside
  // the tree may hold an end).
  static constexpr Duration kDrain = std::chrono::seconds(1);
};

// Linux. Needs no global state: no signal handlers, no waitpid(-1) in this process.
class SystemProcesses final : public Processes {
 public:
  Result<ProcessEnd> run(const ProcessSpec& spec,
                         const std::function<void(std::string_view)>& message,
                         std::stop_token stop) override;
};

// Whether this errno says that the machine is short of descriptors, processes, memory or space.
bool is_shortage(int number);

// This process's environment as "NAME=value", without those whose names begin with `prefix`
// ("" = all of it).
std::vector<std::string> inherited_environment(std::string_view without_prefix = "");

// "host:pid" of this process, in characters allowed in names: shows people which process holds
// what.
std::string process_name();

// "SIGKILL" for 9, "SIGRTMIN+6" for 40; "signal 99" if it has no name.
std::string signal_name(int signal);
// The inverse; 0 = no signal has that name.
int parse_signal_name(std::string_view name);

}  // namespace mainspring
