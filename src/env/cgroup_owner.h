// Whose a group is: the process that makes one holds a lock on its directory, which goes with the
// process, however it ends. So a group of a dead process can be told from one of a living process
// in which nothing runs just now.
#pragma once

#include <functional>
#include <string>

#include "env/fd.h"

namespace mainspring::cgroup {

// How directories of groups are made and removed: 0 or an errno.
using DirectoryCall = std::function<int(const std::string&)>;

// Makes a group that is this process's for as long as `owner` is open. Where directories cannot be
// locked the group is made without. Answers 0 or an errno.
int make_owned(const std::string& directory, const DirectoryCall& make, Fd& owner);

// Takes over a group that is there; false if it belongs to a living process.
bool take_over(const std::string& directory, Fd& owner);

// Removes the groups in `parent` that are of the same family as `name` (what stands before the
// first dot is the same), without processes, and whose owners are dead; at most kMaxDead of them.
// One without a dot is of no family. "<name>.self" belongs to the owner of "<name>". Answers how
// many were removed.
int remove_dead(const std::string& parent, const std::string& name, const DirectoryCall& remove);
inline constexpr int kMaxDead = 1000;

}  // namespace mainspring::cgroup
