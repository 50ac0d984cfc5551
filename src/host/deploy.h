// Deploying job folders: single files and zips from the network, replaced at once or not at all.
//
// A deployment is made in a folder beside the job's (".deploy-…", which discovery passes over),
// synced, then exchanged with it in one step (renameat2 RENAME_EXCHANGE), so that at every moment
// there is the old job or the new one. Nothing of a zip is trusted: entries outside of the folder,
// links, devices, encrypted entries, too many, too large or too well packed are refused, and the
// job stays as it was.
#pragma once

#include <string>
#include <string_view>

#include "host/job_folder.h"

namespace mainspring {

struct DeployLimits {
  std::size_t max_entries = 10'000;
  std::int64_t max_file_bytes = std::int64_t{512} << 20;
  std::int64_t max_total_bytes = std::int64_t{2} << 30;
  int max_ratio = 200;  // unpacked to packed, of archives that unpack to more than 10 MiB
  std::size_t max_path_bytes = 1024;
  bool strict_webjobs = false;  // values of settings.job that break their rule are accepted
};

// `directory` is the job's folder, made if it is new; `name` as in read_job_folder. Returns the
// job. A job that was disabled or frozen stays so. Errors: invalid_argument (the name; file names
// that are not plain; a zip that breaks a rule; "No runnable script file was found."; settings.job,
// with field "settings"), too_large, io_error, storage_full. After an error the job is as before.
Result<JobFolder> deploy_file(JobType type, const std::string& directory,
                              std::string_view file_name, std::string_view content,
                              const std::vector<ScriptHost>& hosts,
                              const DeployLimits& limits = {});
Result<JobFolder> deploy_zip(JobType type, const std::string& directory, std::string_view zip,
                             const std::vector<ScriptHost>& hosts, const DeployLimits& limits = {});
// Gone at once (renamed away first). Succeeds if it was not there. Errors: io_error.
Result<void> remove_folder(const std::string& directory);
// Replaces a file in one step: written beside it, synced, renamed. It keeps its mode; a new one
// gets `new_mode`. Errors: io_error, storage_full.
Result<void> write_file_atomically(const std::string& path, std::string_view content,
                                   unsigned new_mode = 0644);
// What a deployment that was cut off by a crash left below `root`/{continuous,…}.
void remove_deployment_leftovers(const std::string& root);

}  // namespace mainspring
