// HostOptions: the options of a job host.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "host/settings.h"
#include "mainspring/job.h"
#include "mainspring/result.h"
#include "worker/program_access.h"

namespace mainspring {

struct HostOptions {
  // Directories that contain continuous/, triggered/ and queues/; of two jobs with one name the one
  // in the first directory counts. The first may be created later; deployments go there.
  std::vector<std::string> roots;
  // Logs, histories, working copies, the host's identity. Created if missing; one process at a
  // time.
  std::string data;
  // Only what WebJobs does: no TERM, no shutdown file for triggered jobs, the server's whole
  // environment, 200 lines of output per continuous run, no back-off, no warnings about settings.
  bool strict = false;
  HostVariables variables;
  // The server's environment; jobs get the variables on the allow-list.
  std::vector<std::string> environment;

  // The user of the jobs of pools that name none. "" = this process's, unless that is root: then
  // those jobs are refused. Root runs as root only the jobs that get it from here.
  std::string user;

  // How scripts connect to the server.
  ProgramAccess access;

  // The engine's queue of all runs.
  std::string queue = "host";
  // If other nodes hear nothing from this one for this long, they take over its singletons and
  // repeat its runs. Raise for machines that stall.
  Duration lease = kDefaultLease;
  // A folder is read again when it has not changed for this long.
  Duration quiet = std::chrono::seconds(5);
  // How often a missing directory of jobs is looked for.
  Duration root_retry = std::chrono::seconds(2);
  // How often all folders are read again, for changes that the system did not report.
  Duration rescan = std::chrono::seconds(60);
  // How long the data, history and schedule of a job are kept after its folder was last seen.
  Duration retention = std::chrono::hours(24 * 30);
  // A log of a continuous job or a queue folder is rolled at this size; log_generations older files
  // are kept.
  std::int64_t log_roll_bytes = std::int64_t{1} << 20;
  int log_generations = 10;
  // Limit of the kept output of one triggered run; 0 = all.
  std::int64_t log_cap_bytes = std::int64_t{2} << 30;
  // What hooks may reach beyond public addresses: ranges, addresses, names (OutgoingOptions).
  std::vector<std::string> outgoing_allow;

  // All mistakes; empty = none.
  std::vector<Error> validate() const;
};

// Directories below HostOptions::data.
std::string job_data_path(const HostOptions& options, JobType type, const std::string& name);
// The directory that a job of another user may write to. It is separate from the files that the
// host writes and serves: a link there could lead the host to files that the user may not access.
std::string user_data_path(const HostOptions& options, JobType type, const std::string& name);
// The list of deployed files: see DeployedFiles.
std::string deployed_files_path(const HostOptions& options, JobType type, const std::string& name);
std::string working_copies_path(const HostOptions& options, JobType type, const std::string& name);
std::string shutdown_files_path(const HostOptions& options, JobType type, const std::string& name);
// The one log of a continuous job or a queue folder.
std::string job_log_path(const HostOptions& options, JobType type, const std::string& name);

// Six characters that identify this host's lines in logs.
std::string instance6(const HostVariables& variables);
// Prefix of directories that are being removed; a crash may leave some.
inline constexpr std::string_view kBeingRemoved = ".gone-";
// Removes all that is kept of a job, as far as it can be.
void remove_job_data(const HostOptions& options, JobType type, const std::string& name);

}  // namespace mainspring
