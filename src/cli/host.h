// Shared by the commands about job folders.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/support.h"
#include "host/options.h"

namespace mainspring::cli {

// The options from --jobs, related settings, and the WEBJOBS_* variables; nullopt = no job host.
// `data`: the parent of host_data "auto". Errors: invalid_argument.
Result<std::optional<HostOptions>> host_options(const Options& options, const std::string& data,
                                                Log& log);

// The parts of a job of /v1/host that the command line uses.
struct HostJob {
  std::string type, name, directory, run_file, host, pool, error, status;
  bool disabled = false, frozen = false, missing = false;
  std::int64_t port = 0, children = 0, job = 0;
  std::string latest_run;  // JSON, "" = none
  std::string settings;    // JSON
  std::vector<std::string> warnings;
  std::string json;  // the whole job
};
struct HostRun {
  std::string id, status, trigger, started, ended;
  std::int64_t job = 0;
  std::optional<int> exit_code;
  std::optional<std::int64_t> peak_memory;
  std::string json;
};
Result<HostJob> decode_host_job(std::string json);
Result<std::vector<HostJob>> decode_host_jobs(std::string_view json);
Result<HostRun> decode_host_run(std::string json);
Result<std::vector<HostRun>> decode_host_runs(std::string_view json);

// Finds the job for NAME: "report" if only one type has it, or "triggered/report". `type`: only of
// that one; "" = any. Errors: not_found, invalid_argument (several).
Result<HostJob> find_host_job(Connection& connection, const std::string& name,
                              std::string_view type);
// "/v1/host/jobs/triggered/report".
std::string host_job_path(const HostJob& job);

// Zips a file or directory in memory. Errors: not_found, io_error, too_large.
Result<std::string> zip_directory(const std::string& directory, std::size_t limit);

}  // namespace mainspring::cli
