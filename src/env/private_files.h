// Files and directories that only this user may read, and who may access a path.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <optional>
#include <string>

namespace mainspring {

// open(2), close-on-exec. A file that it creates has mode 0600 whatever the umask. -1: see errno.
int open_private(const std::string& path, int flags);
// mkdir -p. A directory that it creates has mode 0700 whatever the umask. Returns 0, or an errno.
int make_private_directories(const std::string& path);
// The same with mode 0711: other users can traverse it to a file whose name they know. For jobs
// that run as other users.
int make_traversable_directories(const std::string& path);
// Removes the permissions of group and others from a file, if there are any. Returns its old mode;
// nullopt if it was private, is missing, or belongs to another user.
std::optional<mode_t> make_private(const std::string& path);
// Returns whether unauthorised users can read or change a secret. A file of root may be readable by
// its group, as the credentials of systemd (0440, by an access control list) and the secrets of
// Kubernetes are (0440, by a group of the pod). PostgreSQL has the same rule.
bool is_exposed(const struct stat& info);
// For error messages: owner and mode of `path`, or of the directory that denies access to it, and
// the user of this process. "/srv/x belongs to root and has mode 0700; this process runs as ann"
std::string describe_access(const std::string& path);

}  // namespace mainspring
