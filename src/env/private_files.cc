// Files of mode 0600, directories of mode 0700, and checks of ownership.
#include "env/private_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <vector>

namespace mainspring {
namespace {

constexpr mode_t kFile = 0600, kDirectory = 0700, kTraversable = 0711, kOthers = 0077,
                 kModeBits = 07777;

// By name if the system knows one.
std::string user_name(uid_t uid) {
  std::vector<char> space(16 << 10);
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(uid, &entry, space.data(), space.size(), &found) == 0 && found != nullptr)
    return entry.pw_name;
  return fmt::format("user {}", uid);
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string owned(const std::string& path, const struct stat& info) {
  return fmt::format("{} belongs to {} and has mode {:04o}", path, user_name(info.st_uid),
                     info.st_mode & kModeBits);
}

int make_directories(const std::string& path, mode_t mode) {
  for (std::size_t at = 1; at <= path.size(); ++at) {
    if (at < path.size() && path[at] != '/') continue;
    const std::string part = path.substr(0, at);
    if (mkdir(part.c_str(), mode) == 0) {
      (void)chmod(part.c_str(), mode);
      continue;
    }
    const int problem = errno;
    // A read-only parent that exists returns EROFS or EACCES.
    struct stat info {};
    if (problem != EEXIST && stat(part.c_str(), &info) != 0) return problem;
  }
  return 0;
}

}  // namespace

int open_private(const std::string& path, int flags) {
  if ((flags & O_CREAT) == 0) return open(path.c_str(), flags | O_CLOEXEC);
  const int made = open(path.c_str(), flags | O_EXCL | O_CLOEXEC, kFile);
  if (made >= 0) {
    (void)fchmod(made, kFile);  // the umask may have taken more away
    return made;
  }
  if (errno != EEXIST || (flags & O_EXCL) != 0) return -1;
  return open(path.c_str(), flags | O_CLOEXEC, kFile);
}

int make_private_directories(const std::string& path) {
  return make_directories(path, kDirectory);
}

int make_traversable_directories(const std::string& path) {
  return make_directories(path, kTraversable);
}

std::optional<mode_t> make_private(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  struct stat info {};
  std::optional<mode_t> before;
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && (info.st_mode & kOthers) != 0 &&
      fchmod(fd, info.st_mode & kModeBits & ~kOthers) == 0) {
    before = info.st_mode & kModeBits;
  }
  close(fd);
  return before;
}

bool is_exposed(const struct stat& info) {
  const bool given_by_root = info.st_uid == 0 && geteuid() != 0;
  return (info.st_mode & (given_by_root ? 0037 : kOthers)) != 0;
}

std::string describe_access(const std::string& path) {
  std::string at = path;
  struct stat info {};
  // The first accessible directory from below is the one that denies access to the rest.
  while (stat(at.c_str(), &info) != 0 && at != "/" && at != ".") at = directory_of(at);
  std::string text = owned(at, info);
  if (!S_ISDIR(info.st_mode)) {
    const std::string directory = directory_of(at);
    if (stat(directory.c_str(), &info) == 0) text += "; " + owned(directory, info);
  }
  struct statvfs system {};
  if (statvfs(at.c_str(), &system) == 0 && (system.f_flag & ST_RDONLY) != 0)
    text += "; its file system is read-only";
  return fmt::format("{}; this process runs as {}", text, user_name(geteuid()));
}

}  // namespace mainspring
