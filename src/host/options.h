// HostOptions: what a job host is told when it is made.
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
  // Directories with continuous/, triggered/ and queues/ in them; of two jobs with one name the
  // first directory's counts. The first may be made later; it is where deployments go.
  std::vector<std::string> roots;
  // Logs, histories, working copies, the host's identity. Made if it is not there; one process at a
  // time.
  std::string data;
  // Only what WebJobs does: no TERM, no shutdown file for triggered jobs, the server's whole
  // environment, 200 lines of output per continuous run, no back-off, no warnings about settings.
  bool strict = false;
  HostVariables variables;
  // The server's environment, of which jobs get what the allow-list lets through.
  std::vector<std::string> environment;

  // How scripts reach the server.
  ProgramAccess access;

  // The engine's queue of all runs.
  std::string queue = "host";
  // How long another node waits for news of this one before it takes over a singleton or repeats a
  // run. Raise for machines that stall.
  Duration lease = kDefaultLease;
  // A folder is read again when it has not changed for so long.
  Duration quiet = std::chrono::seconds(5);
  // How often a directory of jobs that is not there is looked for.
  Duration root_retry = std::chrono::seconds(2);
  // How often all folders are read again, for changes that the system did not report.
  Duration rescan = std::chrono::seconds(60);
  // How long the data, history and schedule of a job are kept after its folder was last seen.
  Duration retention = std::chrono::hours(24 * 30);
  // A log of a continuous job or a queue folder is rolled at this size, and so many older files are
  // kept.
  std::int64_t log_roll_bytes = std::int64_t{1} << 20;
  int log_generations = 10;
  // What is kept of the output of one triggered run; 0 = all.
  std::int64_t log_cap_bytes = std::int64_t{2} << 30;
  // What hooks may reach beyond public addresses: ranges, addresses, names (OutgoingOptions).
  std::vector<std::string> outgoing_allow;

  // All mistakes; empty = none.
  std::vector<Error> validate() const;
};

// Directories below HostOptions::data.
std::string job_data_path(const HostOptions& options, JobType type, const std::string& name);
// What a job that runs as another user may write in: not among the files that the host writes and
// serves, where a link would lead the host where that user may not go.
std::string user_data_path(const HostOptions& options, JobType type, const std::string& name);
// A list of the files that were deployed: see DeployedFiles.
std::string deployed_files_path(const HostOptions& options, JobType type, const std::string& name);
std::string working_copies_path(const HostOptions& options, JobType type, const std::string& name);
std::string shutdown_files_path(const HostOptions& options, JobType type, const std::string& name);
// The one log of a continuous job or a queue folder.
std::string job_log_path(const HostOptions& options, JobType type, const std::string& name);

// Six characters that tell this host's lines from others' in logs.
std::string instance6(const HostVariables& variables);
// Names of directories that were being removed begin with this: what a crash leaves.
inline constexpr std::string_view kBeingRemoved = ".gone-";
// Removes all that is kept of a job, as far as it can be.
void remove_job_data(const HostOptions& options, JobType type, const std::string& name);

}  // namespace mainspring
