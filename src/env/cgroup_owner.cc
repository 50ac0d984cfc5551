// Locks on directories. To remove a directory, a process holds its lock and checks that it is still
// the directory at its path. To create one, a process checks again after locking. So when two
// processes do both at once, neither ends up without its group.
#include "env/cgroup_owner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <chrono>
#include <string_view>
#include <vector>

#include "env/cgroup_tree.h"

namespace mainspring::cgroup {
namespace {

using Steady = std::chrono::steady_clock;
// A process that removes dead groups holds a lock only for a moment.
constexpr auto kLockLimit = std::chrono::seconds(1);
constexpr int kPause_ms = 5;
constexpr int kMaxTries = 10;
constexpr std::string_view kSelf = ".self";

enum class Lock { taken, held_by_another, not_possible, gone };

bool is_at(int fd, const std::string& path) {
  struct stat open_one {};
  struct stat there {};
  return fstat(fd, &open_one) == 0 && stat(path.c_str(), &there) == 0 &&
         open_one.st_ino == there.st_ino && open_one.st_dev == there.st_dev;
}

// Tries once.
Lock lock(const std::string& directory, Fd& out) {
  Fd fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return errno == ENOENT ? Lock::gone : Lock::not_possible;
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    return errno == EWOULDBLOCK ? Lock::held_by_another : Lock::not_possible;
  }
  if (!is_at(fd.get(), directory)) return Lock::gone;
  out = std::move(fd);
  return Lock::taken;
}

Lock lock_patiently(const std::string& directory, Fd& out) {
  const auto deadline = Steady::now() + kLockLimit;
  for (;;) {
    const Lock result = lock(directory, out);
    if (result != Lock::held_by_another || Steady::now() >= deadline) return result;
    poll(nullptr, 0, kPause_ms);
  }
}

bool remove_if_dead(const std::string& directory, const DirectoryCall& remove) {
  Fd owner;
  if (lock(directory, owner) != Lock::taken || !processes_below(directory).empty()) return false;
  each_group(directory, [&remove](const std::string& group) { remove(group); });
  return !exists(directory);
}

}  // namespace

int make_owned(const std::string& directory, const DirectoryCall& make, Fd& owner) {
  for (int tries = 0; tries < kMaxTries; ++tries) {
    if (const int error = make(directory); error != 0) return error;
    switch (lock_patiently(directory, owner)) {
      case Lock::taken:
      case Lock::not_possible:
        return 0;
      case Lock::held_by_another:
        return EEXIST;
      case Lock::gone:
        break;  // another process took it for a dead one's
    }
  }
  return EAGAIN;
}

bool take_over(const std::string& directory, Fd& owner) {
  return lock_patiently(directory, owner) != Lock::held_by_another;
}

int remove_dead(const std::string& parent, const std::string& name, const DirectoryCall& remove) {
  const std::size_t dot = name.find('.');
  if (dot == std::string::npos) return 0;
  const std::string family = name.substr(0, dot + 1);
  int removed = 0;
  std::vector<std::string> selves;
  for (const std::string& group : groups_in(parent)) {
    const std::string_view base = std::string_view(group).substr(parent.size() + 1);
    if (!base.starts_with(family) || base == name || removed == kMaxDead) continue;
    if (base.ends_with(kSelf)) {
      if (base.substr(0, base.size() - kSelf.size()) != name) selves.push_back(group);
    } else if (remove_if_dead(group, remove)) {
      ++removed;
    }
  }
  for (const std::string& self : selves) {  // the owner's own is made first and removed first
    const std::string owner = self.substr(0, self.size() - kSelf.size());
    if (removed == kMaxDead || exists(owner) || !processes_below(self).empty()) continue;
    if (remove(self) == 0) ++removed;
  }
  return removed;
}

}  // namespace mainspring::cgroup
