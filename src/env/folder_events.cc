// Detects files that arrive in a directory, with inotify.
#include "env/folder_events.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace mainspring {
namespace {

constexpr std::uint32_t kEvents =
    IN_CLOSE_WRITE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK;
constexpr std::size_t kBufferBytes = 64 << 10;
constexpr int kMaxReads = 64;  // of one wait: a folder that is written to without an end
constexpr std::chrono::milliseconds kMaxPoll = std::chrono::hours(24);

Error folder_error(const std::string& path, int number) {
  std::string_view advice;
  if (number == ENOSPC) advice = ": raise fs.inotify.max_user_watches";
  if (number == EMFILE) advice = ": raise fs.inotify.max_user_instances or the limit of open files";
  return Error{number == ENOENT || number == ENOTDIR ? ErrorCode::not_found : ErrorCode::io_error,
               fmt::format("cannot watch {}: {}{}", path, std::strerror(number), advice)};
}

void take_events(const char* buffer, std::size_t bytes, FolderEvents::Arrived& into) {
  for (std::size_t at = 0; at + sizeof(inotify_event) <= bytes;) {
    inotify_event event;
    std::memcpy(&event, buffer + at, sizeof event);
    const char* const name = buffer + at + sizeof event;
    at += sizeof event + event.len;
    if ((event.mask & IN_Q_OVERFLOW) != 0) into.all = true;
    if ((event.mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT)) != 0)
      into.gone = true;
    if (event.len > 0 && (event.mask & IN_ISDIR) == 0) into.names.emplace(name);
  }
}

}  // namespace

Result<std::unique_ptr<FolderEvents>> FolderEvents::open(const std::string& directory) {
  const int inotify = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (inotify < 0) return folder_error(directory, errno);
  const int wake = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (wake < 0) {
    const int number = errno;
    ::close(inotify);
    return folder_error(directory, number);
  }
  std::unique_ptr<FolderEvents> out(new FolderEvents(inotify, wake));
  if (::inotify_add_watch(inotify, directory.c_str(), kEvents) < 0)
    return folder_error(directory, errno);
  return out;
}

FolderEvents::~FolderEvents() {
  ::close(inotify_);
  ::close(wake_);
}

Result<FolderEvents::Arrived> FolderEvents::wait(Duration limit) {
  std::array<pollfd, 2> wanted = {pollfd{inotify_, POLLIN, 0}, pollfd{wake_, POLLIN, 0}};
  const auto ms = std::clamp(std::chrono::ceil<std::chrono::milliseconds>(limit),
                             std::chrono::milliseconds(0), kMaxPoll);
  const int ready = ::poll(wanted.data(), wanted.size(), static_cast<int>(ms.count()));
  if (ready < 0 && errno != EINTR)
    return Error{ErrorCode::io_error, fmt::format("poll: {}", std::strerror(errno))};
  std::uint64_t count = 0;
  if (::read(wake_, &count, sizeof count) < 0 && errno != EAGAIN && errno != EINTR)
    return Error{ErrorCode::io_error, fmt::format("eventfd: {}", std::strerror(errno))};
  Arrived out;
  alignas(inotify_event) std::array<char, kBufferBytes> buffer;
  for (int reads = 0; reads < kMaxReads; ++reads) {
    const ssize_t got = ::read(inotify_, buffer.data(), buffer.size());
    if (got > 0) {
      take_events(buffer.data(), static_cast<std::size_t>(got), out);
      continue;
    }
    if (got < 0 && errno != EAGAIN && errno != EINTR)
      return Error{ErrorCode::io_error, fmt::format("inotify: {}", std::strerror(errno))};
    break;
  }
  return out;
}

void FolderEvents::wake() {
  const std::uint64_t one = 1;
  // Only a full counter refuses, and then it wakes anyway.
  [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof one);
}

std::optional<DirectoryIdentity> identity_of_directory(const std::string& path) {
  struct stat is {};
  if (::stat(path.c_str(), &is) != 0) return std::nullopt;
  return DirectoryIdentity{.device = is.st_dev, .inode = is.st_ino};
}

std::optional<FileVersion> version_of_file(const std::string& path) {
  struct stat is {};
  if (::lstat(path.c_str(), &is) != 0 || !S_ISREG(is.st_mode)) return std::nullopt;
  return FileVersion{
      .size = is.st_size,
      .modified_ns = std::int64_t{is.st_mtim.tv_sec} * 1'000'000'000 + is.st_mtim.tv_nsec,
      .inode = is.st_ino,
      .changed_at = WallTime::from_us(std::int64_t{is.st_ctim.tv_sec} * 1'000'000 +
                                      is.st_ctim.tv_nsec / 1000)};
}

namespace {

// On a network file system a lease may be refused for other reasons, and other machines may write.
bool is_on_network(int file) {
  struct statfs is {};
  if (::fstatfs(file, &is) != 0) return true;
  switch (static_cast<std::uint32_t>(is.f_type)) {
    case NFS_SUPER_MAGIC:
    case SMB_SUPER_MAGIC:
    case SMB2_SUPER_MAGIC:
    case CIFS_SUPER_MAGIC:
      return true;
    default:
      return false;
  }
}

}  // namespace

// A read lease is refused on a file that is open for writing. The lease is released at once. A
// writer that opens the file meanwhile waits for that, and this process gets a signal that it
// ignores. Source: fcntl(2), F_SETLEASE.
bool is_being_written(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return errno == EWOULDBLOCK;  // another process has a write lease
  if (is_on_network(file)) {
    ::close(file);
    return false;
  }
  (void)::fcntl(file, F_SETSIG, SIGURG);
  const bool given = ::fcntl(file, F_SETLEASE, F_RDLCK) == 0;
  const bool written = !given && errno == EAGAIN;
  if (given) (void)::fcntl(file, F_SETLEASE, F_UNLCK);
  ::close(file);
  return written;
}

Result<std::vector<std::string>> files_of_folder(const std::string& directory, std::size_t limit) {
  DIR* const open = ::opendir(directory.c_str());
  if (open == nullptr) return folder_error(directory, errno);
  std::vector<std::string> out;
  while (out.size() < limit) {
    errno = 0;
    const dirent* const entry = ::readdir(open);
    if (entry == nullptr) {
      const int number = errno;
      if (number == 0) break;
      ::closedir(open);
      return folder_error(directory, number);
    }
    if (entry->d_type == DT_REG || entry->d_type == DT_UNKNOWN) out.emplace_back(entry->d_name);
  }
  ::closedir(open);
  return out;
}

}  // namespace mainspring
