// One run of a job's script from start to end, with its log, environment and isolation.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "broker/jobs.h"
#include "env/clock.h"
#include "env/processes.h"
#include "env/random.h"
#include "host/folder_slots.h"
#include "host/isolation.h"
#include "host/job_log.h"
#include "host/log_book.h"
#include "host/ticker.h"

namespace mainspring {

// Shared by all jobs of a host; outlives them.
struct HostParts {
  const HostOptions& options;
  Jobs& jobs;
  Processes& processes;
  const Clock& clock;
  Random& random;
  Log& log;
  Isolation& isolation;
  Ticker& ticker;
  LogBook& logs;
  FolderSlots& slots;
  std::string node;      // 8 letters, the same after each restart
  std::string instance;  // six, for logs
};

struct ScriptRun {
  const JobFolder& folder;
  std::vector<std::string> arguments;
  std::string arguments_text;  // as given
  std::string run_id;          // "" for continuous jobs
  JobLog& log;
  Duration idle_timeout{0};  // 0 = none
  bool liveness = false;
  // Asks the run to end: the shutdown file is written, and a program that handles TERM gets it.
  std::stop_token stop;
  // How long it may take to end, before KILL to the whole tree.
  std::function<Duration()> grace;
  // Called when the script runs; `port`: WEBJOBS_PORT, 0 = none.
  std::function<void(int port)> on_running;
};

struct ScriptEnd {
  ProcessEnd process;
  Duration lived{0};
  bool idle = false;  // it was ended because it was idle
  // "exit code 3", "killed by SIGKILL (out of memory: over its limit), peak memory 50.0 MiB", …
  std::string how() const;
  bool succeeded() const { return !idle && process.signal == 0 && process.exit_code == 0; }
};

// Copies (unless in place), runs, waits. Writes the output to the log as it arrives, and a system
// line with the script and its script host. Errors: start failures, and io_error.
Result<ScriptEnd> run_script(const HostParts& host, const ScriptRun& run);

// The process of a folder's script: argv, directory, environment (all variables of WebJobs except
// WEBJOBS_PORT and WEBJOBS_SHUTDOWN_FILE). `directory`: the working copy.
ProcessSpec script_spec(const HostParts& host, const JobFolder& folder,
                        const std::string& directory, const std::vector<std::string>& arguments);

// The directory that the script runs in: an up-to-date working copy, or its own directory.
Result<std::string> run_directory(const HostParts& host, const JobFolder& folder);

// settings.job's, or the default of the type.
Duration stopping_wait_time(const JobFolder& folder);

}  // namespace mainspring
