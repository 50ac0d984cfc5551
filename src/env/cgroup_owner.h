// Ownership of groups: the process that creates a group holds a lock on its directory. The lock
// ends with the process, however it ends. So the group of a dead process can be distinguished from
// the group of a living process that is empty for now.
#pragma once

#include <functional>
#include <string>

#include "env/fd.h"

namespace mainspring::cgroup {

// Creates or removes a group's directory: returns 0 or an errno.
using DirectoryCall = std::function<int(const std::string&)>;

// Creates a group that belongs to this process while `owner` is open. If directories cannot be
// locked, the group is created without a lock. Returns 0 or an errno.
int make_owned(const std::string& directory, const DirectoryCall& make, Fd& owner);

// Takes over an existing group; returns false if it belongs to a living process.
bool take_over(const std::string& directory, Fd& owner);

// Removes the groups in `parent` that are of the same family as `name` (equal up to the first dot),
// have no processes, and whose owners are dead; at most kMaxDead of them. A name without a dot has
// no family. "<name>.self" belongs to the owner of "<name>". Returns the number of removed groups.
int remove_dead(const std::string& parent, const std::string& name, const DirectoryCall& remove);
inline constexpr int kMaxDead = 1000;

}  // namespace mainspring::cgroup
