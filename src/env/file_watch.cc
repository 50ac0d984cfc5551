// Watches a tree with inotify, which watches single directories and reports them by number.
//
// Directories may be created, removed and moved while their events wait to be read, so the order of
// events is not reliable. For example, an exchange of two directories reports for one of them that
// it appeared and then that it disappeared. So events only mark paths. After each batch the marked
// paths are compared with the disk: their watches are removed and created again.
#include "env/file_watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <vector>

namespace mainspring {
namespace {

using std::chrono::ceil;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::uint32_t kWatchEvents = IN_CREATE | IN_DELETE | IN_MODIFY | IN_CLOSE_WRITE |
                                       IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | IN_DELETE_SELF |
                                       IN_MOVE_SELF | IN_EXCL_UNLINK | IN_ONLYDIR;
constexpr std::size_t kWatchBufferBytes = 64 << 10;
// Reads per wait, so that continuous writes to the tree cannot hold it forever.
constexpr int kMaxWatchReads = 64;
constexpr int kMaxWatchDepth = 128;
constexpr milliseconds kMaxWatchPoll = std::chrono::hours(24);

bool passed_over(std::string_view name) {
  return name.empty() || name[0] == '.';
}

std::string join(const std::string& directory, std::string_view name) {
  return directory.empty() ? std::string(name) : fmt::format("{}/{}", directory, name);
}

std::string cut(const std::string& path, int depth) {
  std::size_t end = 0;
  for (int i = 0; i < depth; ++i) {
    end = path.find('/', i == 0 ? 0 : end + 1);
    if (end == std::string::npos) return path;
  }
  return path.substr(0, end);
}

Error watch_error(const std::string& path, int number) {
  std::string_view advice;
  if (number == ENOSPC) advice = ": raise fs.inotify.max_user_watches";
  if (number == EMFILE) advice = ": raise fs.inotify.max_user_instances or the limit of open files";
  return Error{number == ENOENT || number == ENOTDIR ? ErrorCode::not_found : ErrorCode::io_error,
               fmt::format("cannot watch {}: {}{}", path, std::strerror(number), advice)};
}

}  // namespace

struct FileWatch::Impl {
  std::string root;
  int inotify = -1;
  int wake = -1;
  int root_watch = -1;
  bool gone = false;
  std::map<int, std::string> paths;    // of watches; relative to root, "" = root
  std::map<std::string, int> watches;  // of paths

  ~Impl() {
    if (inotify >= 0) ::close(inotify);
    if (wake >= 0) ::close(wake);
  }

  std::string full(const std::string& path) const {
    return path.empty() ? root : root + "/" + path;
  }

  void forget(int watch) {
    const auto found = paths.find(watch);
    if (found == paths.end()) return;
    const auto back = watches.find(found->second);
    if (back != watches.end() && back->second == watch) watches.erase(back);
    paths.erase(found);
  }

  // Drops the watches of `path` and all below; adds their paths to `changed`.
  void drop(const std::string& path, int depth, std::set<std::string>& changed) {
    std::vector<int> dropped;
    const std::string below = path.empty() ? "" : path + "/";
    if (const auto own = watches.find(path); own != watches.end()) dropped.push_back(own->second);
    for (auto at = watches.lower_bound(below);
         at != watches.end() && at->first.compare(0, below.size(), below) == 0; ++at) {
      if (at->first != path) dropped.push_back(at->second);
      changed.insert(cut(at->first, depth));
    }
    for (const int watch : dropped) {
      ::inotify_rm_watch(inotify, watch);
      forget(watch);
    }
  }

  // Watches `path` and all below; adds the found paths to `changed`. Skips paths that disappear
  // meanwhile or are not readable: their events report them.
  Result<void> add(const std::string& path, int depth, std::set<std::string>& changed,
                   int level = 0) {
    const std::uint32_t events = path.empty() ? kWatchEvents : kWatchEvents | IN_DONT_FOLLOW;
    const int watch = ::inotify_add_watch(inotify, full(path).c_str(), events);
    if (watch < 0) {
      const bool passing = errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ELOOP;
      if (!path.empty() && passing) return {};
      return watch_error(full(path), errno);
    }
    forget(watch);
    paths[watch] = path;
    watches[path] = watch;
    if (path.empty()) root_watch = watch;
    // Watched first, then listed: an entry that is created in between is reported twice, not
    // missed.
    for (const auto& [name, is_directory] : list(path)) {
      const std::string entry = join(path, name);
      changed.insert(cut(entry, depth));
      if (is_directory && level < kMaxWatchDepth) MS_TRY(add(entry, depth, changed, level + 1));
    }
    return {};
  }

  std::vector<std::pair<std::string, bool>> list(const std::string& path) const {
    std::vector<std::pair<std::string, bool>> entries;
    DIR* const directory = ::opendir(full(path).c_str());
    if (directory == nullptr) return entries;
    while (const dirent* const entry = ::readdir(directory)) {
      if (passed_over(entry->d_name)) continue;
      bool is_directory = entry->d_type == DT_DIR;
      if (entry->d_type == DT_UNKNOWN) {
        struct stat status {};
        is_directory =
            ::fstatat(::dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISDIR(status.st_mode);
      }
      entries.emplace_back(entry->d_name, is_directory);
    }
    ::closedir(directory);
    return entries;
  }

  // Adds paths whose watches may be wrong to `moved`.
  void take(const inotify_event& event, int depth, Changes& changes, std::set<std::string>& moved) {
    if ((event.mask & IN_Q_OVERFLOW) != 0) {
      changes.all = true;
      moved.insert("");
      return;
    }
    const auto directory = paths.find(event.wd);
    if (directory == paths.end()) return;  // of a watch that was dropped
    if (event.wd == root_watch &&
        (event.mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED)) != 0) {
      gone = true;
      return;
    }
    const std::string_view name = event.len == 0 ? "" : event.name;
    if (event.len != 0 && passed_over(name)) return;
    const std::string path = event.len == 0 ? directory->second : join(directory->second, name);
    if (!path.empty() && (event.mask & IN_IGNORED) == 0) changes.entries.insert(cut(path, depth));
    if ((event.mask & IN_IGNORED) != 0) forget(event.wd);
    if ((event.mask & IN_ISDIR) != 0 && event.len != 0) moved.insert(path);
  }

  // Reads one buffer of events. Returns false if there are none.
  Result<bool> read_some(int depth, Changes& changes) {
    alignas(inotify_event) std::array<char, kWatchBufferBytes> buffer;
    const ssize_t count = ::read(inotify, buffer.data(), buffer.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (count <= 0) return watch_error(root, errno);
    std::set<std::string> moved;
    for (std::size_t at = 0; at < static_cast<std::size_t>(count);) {
      const auto* const event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
      take(*event, depth, changes, moved);
      at += sizeof(inotify_event) + event->len;
    }
    if (gone) return true;
    for (const std::string& path : moved) {
      drop(path, depth, changes.entries);
      auto added = add(path, depth, changes.entries);
      if (added) continue;
      if (added.error().code != ErrorCode::not_found) return std::move(added.error());
      gone = true;  // only root must exist: its removal was among the dropped events
      return true;
    }
    changes.entries.erase("");
    return true;
  }

  // Waits for events or wake(); false = the limit has passed.
  Result<bool> poll_until(steady_clock::time_point end, bool forever, bool& woken) {
    std::array<pollfd, 2> polled{{{inotify, POLLIN, 0}, {wake, POLLIN, 0}}};
    const auto left = forever ? kMaxWatchPoll : ceil<milliseconds>(end - steady_clock::now());
    const auto limit = std::clamp<milliseconds>(left, milliseconds(0), kMaxWatchPoll);
    const int ready = ::poll(polled.data(), polled.size(), static_cast<int>(limit.count()));
    if (ready < 0 && errno != EINTR) return watch_error(root, errno);
    if (ready > 0 && polled[1].revents != 0) {
      std::uint64_t ignored = 0;
      woken = ::read(wake, &ignored, sizeof ignored) == sizeof ignored;
    }
    return ready != 0 || forever || left > kMaxWatchPoll;
  }
};

FileWatch::FileWatch(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FileWatch::~FileWatch() = default;

Result<std::unique_ptr<FileWatch>> FileWatch::open(const std::string& root) {
  auto impl = std::make_unique<Impl>();
  impl->root = root;
  impl->inotify = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (impl->inotify < 0) return watch_error(root, errno);
  impl->wake = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (impl->wake < 0) return watch_error(root, errno);
  std::set<std::string> ignored;
  MS_TRY(impl->add("", 1, ignored));
  return std::unique_ptr<FileWatch>(new FileWatch(std::move(impl)));
}

Result<FileWatch::Changes> FileWatch::wait(int depth, Duration limit) {
  Changes changes;
  const bool forever = limit == kForever;
  const auto end =
      steady_clock::now() +
      (forever ? Duration(0) : std::min<Duration>(limit, std::chrono::hours(24 * 365)));
  bool woken = false;
  while (!woken && !impl_->gone) {
    MS_TRY_ASSIGN(const bool in_time, impl_->poll_until(end, forever, woken));
    for (int reads = 0; reads < kMaxWatchReads && !impl_->gone; ++reads) {
      MS_TRY_ASSIGN(const bool more, impl_->read_some(depth, changes));
      if (!more) break;
    }
    if (!in_time || !changes.entries.empty() || changes.all) break;
  }
  changes.gone = impl_->gone;
  return changes;
}

void FileWatch::wake() {
  const std::uint64_t one = 1;
  // Fails only if it is already set.
  [[maybe_unused]] const ssize_t written = ::write(impl_->wake, &one, sizeof one);
}

}  // namespace mainspring
