// DeployedFiles: the deployed files of a folder, for jobs that run in the folder itself and also
// write there.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "host/folder_signature.h"
#include "host/job_folder.h"

namespace mainspring {

// The files that were in the folder when the host first loaded it. A directory that replaces the
// folder, by a deployment or by hand, counts as loaded for the first time.
struct DeployedFiles {
  std::string directory;  // without links
  std::uint64_t inode = 0;
  std::set<std::string> paths;  // relative to the folder

  bool is_of(const FolderSignature& signature) const;
};

// The files of a folder, from its signature by sign_folder.
DeployedFiles deployed_files_of(const FolderSignature& signature);
// The script, settings.job and disable.job: they always count, even if the job wrote them.
std::set<std::string> fixed_files_of(const JobFolder& folder);

// Reads them from `path`, a file of the host's data directory. nullopt = no usable file.
std::optional<DeployedFiles> read_deployed_files(const std::string& path);
// Errors: as of write_file_atomically; too_large.
Result<void> write_deployed_files(const std::string& path, const DeployedFiles& files);

}  // namespace mainspring
