// The job host's options, and the paths of its files.
#include "host/options.h"

#include <fmt/format.h>

#include <cstdio>

#include "env/processes.h"
#include "host/files.h"
#include "host/job_folder.h"

namespace mainspring {

std::vector<Error> HostOptions::validate() const {
  std::vector<Error> errors;
  const auto check = [&](bool ok, std::string field, const std::string& value,
                         std::string_view rule) {
    if (ok) return;
    std::string message = fmt::format("{} {}: must be {}", field, value, rule);
    errors.push_back(invalid(std::move(field), std::move(message)));
  };
  check(!roots.empty() && !roots.front().empty(), "jobs", "\"\"", "a directory");
  check(!data.empty(), "host_data", "\"\"", "a directory");
  check(lease >= kMinLease && lease <= kMaxLease, "lease", format_duration(lease), "1s to 12h");
  check(quiet >= Duration(0), "quiet", format_duration(quiet), "0s or more");
  check(root_retry > Duration(0), "root_retry", format_duration(root_retry), "more than 0s");
  check(rescan > Duration(0), "rescan", format_duration(rescan), "more than 0s");
  check(retention > Duration(0), "folder_retention", format_duration(retention), "more than 0s");
  check(log_roll_bytes >= 4096, "log_roll_bytes", fmt::to_string(log_roll_bytes), "at least 4096");
  check(log_generations >= 0 && log_generations <= 1000, "log_generations",
        fmt::to_string(log_generations), "0 to 1000");
  check(log_cap_bytes >= 0, "log_cap_bytes", fmt::to_string(log_cap_bytes), "0 or more");
  if (auto good = check_name("queue", queue); !good) errors.push_back(good.error());
  return errors;
}

namespace {

std::string below(const HostOptions& options, std::string_view what, JobType type,
                  const std::string& name) {
  return fmt::format("{}/{}/{}/{}", options.data, what, folder_of(type), name);
}

}  // namespace

std::string job_data_path(const HostOptions& options, JobType type, const std::string& name) {
  return below(options, "data/jobs", type, name);
}

std::string user_data_path(const HostOptions& options, JobType type, const std::string& name) {
  return below(options, "users", type, name);
}

std::string working_copies_path(const HostOptions& options, JobType type, const std::string& name) {
  return below(options, "tmp/jobs", type, name);
}

std::string deployed_files_path(const HostOptions& options, JobType type, const std::string& name) {
  return below(options, "deployed", type, name);
}

std::string shutdown_files_path(const HostOptions& options, JobType type, const std::string& name) {
  return below(options, "tmp/JobsShutdown", type, name);
}

std::string job_log_path(const HostOptions& options, JobType type, const std::string& name) {
  return job_data_path(options, type, name) + "/job_log.txt";
}

namespace {

// Atomic for readers: a run whose files are removed one by one looks like an aborted run.
void remove_at_once(const std::string& path) {
  const std::string aside = fmt::format("{}/{}{}", parent_of(path), kBeingRemoved, base_name(path));
  (void)remove_tree(aside);
  const bool moved = std::rename(path.c_str(), aside.c_str()) == 0;
  (void)remove_tree(moved ? aside : path);
}

}  // namespace

void remove_job_data(const HostOptions& options, JobType type, const std::string& name) {
  for (const std::string& path :
       {job_data_path(options, type, name), user_data_path(options, type, name),
        working_copies_path(options, type, name), shutdown_files_path(options, type, name),
        deployed_files_path(options, type, name)}) {
    remove_at_once(path);
  }
}

std::string instance6(const HostVariables& variables) {
  std::string name = variables.instance_id;
  if (name.empty()) {
    name = process_name();
    name.resize(name.find(':'));
  }
  name.resize(6, '0');
  return name;
}

}  // namespace mainspring
