// Deploys job folders: single files and zips from the network, replaced atomically or not at all.
//
// A deployment is built in a folder next to the job's (".deploy-…", which discovery skips), synced,
// then exchanged with the job's folder in one step (renameat2 RENAME_EXCHANGE). So there is always
// either the old job or the new one. Nothing in a zip is trusted: entries outside the folder,
// links, devices, encrypted entries, and too many, too large or too compressed entries are refused,
// and the job stays as it was.
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
  bool strict_webjobs = false;  // accept invalid values in settings.job
};

// `directory` is the job's folder, created if new; `name` as in read_job_folder. Returns the job. A
// disabled or frozen job stays so. Errors: invalid_argument (the name; file names that are not
// plain; an invalid zip; "No runnable script file was found."; settings.job, with field
// "settings"), too_large, io_error, storage_full. After an error the job is unchanged.
Result<JobFolder> deploy_file(JobType type, const std::string& directory,
                              std::string_view file_name, std::string_view content,
                              const std::vector<ScriptHost>& hosts,
                              const DeployLimits& limits = {});
Result<JobFolder> deploy_zip(JobType type, const std::string& directory, std::string_view zip,
                             const std::vector<ScriptHost>& hosts, const DeployLimits& limits = {});
// Renames the folder away first, so that it disappears at once. Succeeds if there is none. Errors:
// io_error.
Result<void> remove_folder(const std::string& directory);
// Replaces a file in one step: written beside it, synced, renamed. It keeps its mode; a new one
// gets `new_mode`. Errors: io_error, storage_full.
Result<void> write_file_atomically(const std::string& path, std::string_view content,
                                   unsigned new_mode = 0644);
// Removes remains of deployments that a crash interrupted, below `root`/{continuous,…}.
void remove_deployment_leftovers(const std::string& root);

}  // namespace mainspring
