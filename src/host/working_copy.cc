// Working copies: a job runs in a copy of its folder, so that the folder can be replaced meanwhile.
//
// A copy is made under a name that begins with '.' and renamed when it is complete. Each time it is
// compared entry by entry with the folder. Additional files in the copy do not count, as a job
// writes next to its script. The copy's name shows that a file was deleted from the folder: the
// name ends in a hash of the copied names and of the folder's path without links. The path is
// included because releases that a link switches may differ only in the bytes of their files.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "env/private_files.h"
#include "host/files.h"
#include "host/job_folder.h"

namespace mainspring {
namespace {

constexpr std::size_t kMaxCopiedEntries = 200'000;
constexpr std::size_t kMaxLinkBytes = 4096;
constexpr mode_t kModeBits = 0777;  // not set-user-id: the copy may belong to another user
constexpr std::string_view kUnfinished = ".copy-";

// A hash of a set of paths, independent of their order (FNV-1a, summed).
class NamesHash {
 public:
  void add(std::string_view path) {
    std::uint64_t hash = 14695981039346656037U;
    for (const char c : path) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
    sum_ += hash;
  }
  std::string text() const { return fmt::format("-{:016x}", sum_); }

 private:
  std::uint64_t sum_ = 0;
};

// One level of a walk through the folder.
struct Level {
  int directory;
  std::string shown;
  int depth;
  NamesHash& names;  // of all levels
};

bool left_out(const Level& level, const Entry& entry) {
  return level.depth == 0 && entry.name == "disable.job";
}

Error refuse(const std::string& path, std::string_view why) {
  return Error{ErrorCode::invalid_argument, fmt::format("cannot copy {}: {}", path, why)};
}

Result<std::string> link_target(int directory, const std::string& name, const std::string& shown) {
  std::string target(kMaxLinkBytes, '\0');
  const ssize_t count = ::readlinkat(directory, name.c_str(), target.data(), target.size());
  if (count < 0) return file_error("read the link", shown, errno);
  target.resize(static_cast<std::size_t>(count));
  return target;
}

Fd open_directory(int parent, const std::string& name) {
  return Fd(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// -- comparing

bool same_file(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec &&
         (a.st_mode & kModeBits) == (b.st_mode & kModeBits);
}

// Returns whether `copy` has everything of `from`. An error counts as no: then it is copied again,
// which reports the error.
bool is_current(const Level& from, int copy) {
  const auto entries = list_directory(from.directory, from.shown);
  if (!entries || from.depth == kMaxTreeDepth) return false;
  for (const Entry& entry : *entries) {
    if (left_out(from, entry)) continue;
    from.names.add(from.shown + "/" + entry.name);
    const char* const name = entry.name.c_str();
    struct stat theirs {
    }, ours{};
    if (::fstatat(from.directory, name, &theirs, AT_SYMLINK_NOFOLLOW) != 0 ||
        ::fstatat(copy, name, &ours, AT_SYMLINK_NOFOLLOW) != 0 ||
        (theirs.st_mode & S_IFMT) != (ours.st_mode & S_IFMT)) {
      return false;
    }
    if (S_ISDIR(theirs.st_mode)) {
      const Fd below = open_directory(from.directory, entry.name);
      const Fd below_copy = open_directory(copy, entry.name);
      if (!below || !below_copy) return false;
      const Level level{below.get(), from.shown + "/" + entry.name, from.depth + 1, from.names};
      if (!is_current(level, below_copy.get())) return false;
    } else if (S_ISLNK(theirs.st_mode)) {
      const auto target = link_target(from.directory, entry.name, from.shown);
      const auto copied = link_target(copy, entry.name, from.shown);
      if (!target || !copied || *target != *copied) return false;
    } else if (!S_ISREG(theirs.st_mode) || !same_file(theirs, ours)) {
      return false;
    }
  }
  return true;
}

// -- copying

Result<void> copy_bytes(int from, int to, const std::string& shown) {
  std::string buffer(std::size_t{256} << 10, '\0');
  for (;;) {
    const ssize_t count = ::read(from, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return file_error("read", shown, errno);
    if (count == 0) return {};
    MS_TRY(write_all(to, std::string_view(buffer.data(), static_cast<std::size_t>(count)),
                     "the copy of " + shown));
  }
}

Result<void> copy_file(int from_directory, int to_directory, const std::string& name,
                       const std::string& shown) {
  const Fd from(
      ::openat(from_directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  // The time is read before the bytes: a change meanwhile causes a new copy next time.
  if (!from || ::fstat(from.get(), &status) != 0) return file_error("open", shown, errno);
  if (!S_ISREG(status.st_mode)) return refuse(shown, "it is not a regular file any more");
  const Fd to(::openat(to_directory, name.c_str(),
                       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!to) return file_error("make the copy of", shown, errno);
  MS_TRY(copy_bytes(from.get(), to.get(), shown));
  const timespec times[] = {status.st_mtim, status.st_mtim};
  if (::fchmod(to.get(), status.st_mode & kModeBits) != 0 || ::futimens(to.get(), times) != 0) {
    return file_error("make the copy of", shown, errno);
  }
  return {};
}

Result<void> copy_level(const Level& from, int to, std::size_t& left);

Result<void> copy_directory(const Level& from, int to, const std::string& name,
                            const std::string& shown, std::size_t& left) {
  const Fd below = open_directory(from.directory, name);
  struct stat status {};
  if (!below || ::fstat(below.get(), &status) != 0) return file_error("open", shown, errno);
  if (::mkdirat(to, name.c_str(), 0700) != 0) return file_error("make the copy of", shown, errno);
  const Fd copy = open_directory(to, name);
  if (!copy) return file_error("open the copy of", shown, errno);
  MS_TRY(copy_level({below.get(), shown, from.depth + 1, from.names}, copy.get(), left));
  if (::fchmod(copy.get(), status.st_mode & kModeBits) != 0) {
    return file_error("make the copy of", shown, errno);
  }
  return {};
}

// `left`: how many entries may still be copied.
Result<void> copy_level(const Level& from, int to, std::size_t& left) {
  if (from.depth == kMaxTreeDepth) return refuse(from.shown, "nested too deeply");
  MS_TRY_ASSIGN(const std::vector<Entry> entries, list_directory(from.directory, from.shown));
  for (const Entry& entry : entries) {
    if (left_out(from, entry)) continue;
    const std::string shown = from.shown + "/" + entry.name;
    from.names.add(shown);
    if (left == 0) {
      return refuse(from.shown, fmt::format("more than {} entries", kMaxCopiedEntries));
    }
    --left;
    if (entry.type == DT_DIR) {
      MS_TRY(copy_directory(from, to, entry.name, shown, left));
    } else if (entry.type == DT_LNK) {
      MS_TRY_ASSIGN(const std::string target, link_target(from.directory, entry.name, shown));
      if (::symlinkat(target.c_str(), to, entry.name.c_str()) != 0) {
        return file_error("make the copy of", shown, errno);
      }
    } else if (entry.type == DT_REG) {
      MS_TRY(copy_file(from.directory, to, entry.name, shown));
    } else {
      return refuse(shown, "neither a file, a directory nor a link");
    }
  }
  return {};
}

// The path of an open directory without links; `path` where /proc is not mounted.
std::string resolved_path(int directory, const std::string& path) {
  const std::string own = fmt::format("/proc/self/fd/{}", directory);
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(own.c_str(), nullptr), ::free);
  return real ? real.get() : path;
}

Result<std::string> make_copy(const Level& from, const std::string& copies) {
  std::string path = fmt::format("{}/{}XXXXXX", copies, kUnfinished);
  if (::mkdtemp(path.data()) == nullptr) return file_error("make a directory in", copies, errno);
  std::size_t left = kMaxCopiedEntries;
  const Fd to = open_directory(AT_FDCWD, path);
  struct stat status {};
  Result<void> copied;
  if (!to || ::fstat(from.directory, &status) != 0) {
    copied = file_error("open", path, errno);
  } else {
    copied = copy_level(from, to.get(), left);
  }
  const std::string name = path.substr(copies.size() + 1 + kUnfinished.size()) + from.names.text();
  const std::string final_path = copies + "/" + name;
  if (copied &&
      (::fchmod(to.get(), status.st_mode & kModeBits) != 0 ||
       ::renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, final_path.c_str(), RENAME_NOREPLACE) != 0)) {
    copied = file_error("rename", path, errno);
  }
  if (copied) return final_path;
  // A remainder has a name that begins with '.', and the next call removes it.
  (void)remove_tree(path);
  return std::move(copied.error());
}

}  // namespace

Result<std::string> update_working_copy(const std::string& source, const std::string& copies,
                                        const std::vector<std::string>& keep) {
  if (const int problem = make_traversable_directories(copies); problem != 0)
    return file_error("make", copies, problem);
  const Fd from(::open(source.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!from) return file_error("open", source, errno);
  const std::string resolved = resolved_path(from.get(), source);
  MS_TRY_ASSIGN(const std::vector<Entry> existing, list_directory(copies));
  std::string current;
  for (const Entry& entry : existing) {
    if (entry.type != DT_DIR || entry.name[0] == '.') continue;
    const Fd copy(open_directory(AT_FDCWD, copies + "/" + entry.name));
    NamesHash names;
    names.add(resolved);
    if (!copy || !is_current({from.get(), source, 0, names}, copy.get()) ||
        !entry.name.ends_with(names.text())) {
      continue;
    }
    current = copies + "/" + entry.name;
    break;
  }
  if (current.empty()) {
    NamesHash names;
    names.add(resolved);
    MS_TRY_ASSIGN(current, make_copy({from.get(), source, 0, names}, copies));
  }
  for (const Entry& entry : existing) {
    const std::string path = copies + "/" + entry.name;
    if (path == current || std::count(keep.begin(), keep.end(), path) != 0) continue;
    // A copy that cannot be removed only costs space; the next call tries again.
    (void)remove_tree(path);
  }
  return current;
}

}  // namespace mainspring
