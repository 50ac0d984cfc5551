// One run of a job's script: from its folder to its end, with its log, environment and fences.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "broker/jobs.h"
#include "env/clock.h"
#include "env/processes.h"
#include "env/random.h"
#include "host/isolation.h"
#include "host/job_log.h"
#include "host/log_book.h"
#include "host/ticker.h"

namespace mainspring {

// What all jobs of a host share. Everything outlives them.
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
  std::string node;      // 8 letters, the same after each restart
  std::string instance;  // six, for logs
};

struct ScriptRun {
  const JobFolder& folder;
  std::vector<std::string> arguments;
  std::string arguments_text;  // as they were given
  std::string run_id;          // "" for continuous jobs
  JobLog& log;
  Duration idle_timeout{0};  // 0 = none
  bool liveness = false;
  // The end is asked for: the shutdown file is written, and a program that handles TERM gets it.
  std::stop_token stop;
  // How long it may take then, before KILL to the whole tree.
  std::function<Duration()> grace;
  // The script runs now; `port`: WEBJOBS_PORT, 0 = none.
  std::function<void(int port)> on_running;
};

struct ScriptEnd {
  ProcessEnd process;
  Duration lived{0};
  bool idle = false;  // it was ended for that
  // "exit code 3", "killed by SIGKILL (out of memory: over its limit), peak memory 50.0 MiB", …
  std::string how() const;
  bool succeeded() const { return !idle && process.signal == 0 && process.exit_code == 0; }
};

// Copies (unless in place), runs, waits. Writes output to the log as it comes, and of the host's
// own lines that which script is run by which script host. Errors: the job cannot be started.
Result<ScriptEnd> run_script(const HostParts& host, const ScriptRun& run);

// The process that a folder's script is started as: argv, directory, environment (all of B4's
// variables but WEBJOBS_PORT and WEBJOBS_SHUTDOWN_FILE). `directory`: the working copy.
ProcessSpec script_spec(const HostParts& host, const JobFolder& folder,
                        const std::string& directory, const std::vector<std::string>& arguments);

// Where the script is run: a working copy, kept up to date, or its own directory.
Result<std::string> run_directory(const HostParts& host, const JobFolder& folder);

// settings.job's, or the default of the type.
Duration stopping_wait_time(const JobFolder& folder);

}  // namespace mainspring
