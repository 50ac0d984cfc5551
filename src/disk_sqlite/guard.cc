// Lock, marker, file modes and reserve of a store directory.
#include "disk_sqlite/guard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/mutant.h"
#include "env/private_files.h"

namespace mainspring::sqlite {
namespace {

// The part of the reserve that opening a store needs (the index of the log, a few pages).
constexpr std::size_t kToOpen = 1 << 20;
constexpr std::size_t kSlices = 8;

std::string read_small(int fd) {
  char buffer[64] = {};
  const ssize_t n = pread(fd, buffer, sizeof buffer - 1, 0);
  std::string text(buffer, static_cast<std::size_t>(n > 0 ? n : 0));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

Result<void> make_directory(const std::string& path) {
  if (const int problem = make_private_directories(path); problem != 0)
    return access_error("creating the data directory", path, problem);
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return access_error("opening", path, errno);
  if (!S_ISDIR(info.st_mode))
    return invalid("data", fmt::format("data \"{}\": must be a directory", path));
  return {};
}

// Opening a pipe would block. A missing file counts as regular.
Result<void> check_regular(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode)) return {};
  return Error{.code = ErrorCode::io_error,
               .message = fmt::format("{}: must be a regular file: remove it, or restore the "
                                      "directory from a backup",
                                      path)};
}

std::size_t size_of(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? static_cast<std::size_t>(info.st_size) : 0;
}

}  // namespace

Error access_error(std::string_view what, const std::string& path, int error_number) {
  std::string message = fmt::format("{} {}: {}", what, path, std::strerror(error_number));
  if (error_number == EACCES || error_number == EPERM)
    message +=
        fmt::format(": {}: run as the owner, or change owner or mode", describe_access(path));
  if (error_number == EROFS) message += ": mount the file system for writing";
  const bool full = error_number == ENOSPC || error_number == EDQUOT;
  return Error{.code = full ? ErrorCode::storage_full : ErrorCode::io_error, .message = message};
}

Result<bool> database_exists(const std::string& database) {
  struct stat info {};
  if (stat(database.c_str(), &info) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return access_error("opening", database, errno);
}

Result<void> sync_directory(const std::string& directory) {
  const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return access_error("opening directory", directory, errno);
  const int failed = fsync(fd) != 0 ? errno : 0;
  close(fd);
  if (failed != 0) return access_error("syncing directory", directory, failed);
  return {};
}

FileGuard::FileGuard(std::string directory, int owner_fd, std::size_t reserve_bytes)
    : directory_(std::move(directory)),
      reserve_(directory_ + "/RESERVE"),
      owner_fd_(owner_fd),
      reserve_bytes_(reserve_bytes) {
  // A small file system must not lose most of its space to the reserve.
  struct statvfs space {};
  if (statvfs(directory_.c_str(), &space) == 0) {
    const std::size_t most = space.f_blocks * space.f_frsize / 4;
    small_disk_ = reserve_bytes_ > most;
    reserve_bytes_ = std::min(reserve_bytes_, most);
  }
}

FileGuard::~FileGuard() {
  close(owner_fd_);
  if (directory_fd_ >= 0) close(directory_fd_);
}

Result<std::unique_ptr<FileGuard>> FileGuard::lock(const std::string& directory,
                                                   const std::string& database,
                                                   std::size_t reserve_bytes) {
  MS_TRY(make_directory(directory));
  const std::string owner = directory + "/OWNER", marker = directory + "/INITIALISED";
  const std::vector<std::string> files = {database, database + "-wal",      database + "-shm",
                                          owner,    directory + "/RESERVE", marker};
  for (const std::string& path : files) MS_TRY(check_regular(path));
  const int fd = open_private(owner, O_RDWR | O_CREAT);
  if (fd < 0) return access_error("opening", owner, errno);
  std::unique_ptr<FileGuard> guard(new FileGuard(directory, fd, reserve_bytes));
  guard->database_ = database;
  const auto lock_directory = [&] {
    guard->directory_fd_ = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    // Some network file systems lock no directories.
    return MS_MUTANT(directory_not_locked) || flock(guard->directory_fd_, LOCK_EX | LOCK_NB) == 0 ||
           errno != EWOULDBLOCK;
  };
  if (flock(fd, LOCK_EX | LOCK_NB) != 0 || !lock_directory()) {
    if (errno != EWOULDBLOCK) return access_error("locking", owner, errno);
    const std::string owner_pid = read_small(fd);  // empty: OWNER was removed
    return Error{.code = ErrorCode::conflict,
                 .message = fmt::format(
                     "the store {} is open in {}: one process owns a store; "
                     "stop that process first",
                     directory, owner_pid.empty() ? "another process" : "process " + owner_pid)};
  }
  MS_TRY_ASSIGN(guard->initialised_, database_exists(marker));
  MS_TRY(guard->check_database(database));
  for (const std::string& path : files) {
    if (const auto mode = make_private(path))
      guard->were_open_.push_back(fmt::format("{} ({:04o})", path, *mode));
  }
  const std::string pid = fmt::format("{}\n", getpid());
  if (ftruncate(fd, 0) != 0 || pwrite(fd, pid.data(), pid.size(), 0) < 0) {
    // Only the pid in a later refusal is missing: a full disk must not keep a store from opening.
  }
  return guard;
}

// SQLite takes an empty file for a new database, and removes the log beside it.
Result<void> FileGuard::check_database(const std::string& database) const {
  MS_TRY_ASSIGN(const bool exists, database_exists(database));
  const bool empty = exists && size_of(database) == 0 && !MS_MUTANT(empty_database_accepted);
  const std::string log = database + "-wal";
  if ((!exists || empty) && (initialised_ || size_of(log) > 0)) {
    const std::string marker = initialised_ ? directory_ + "/INITIALISED" : log;
    return Error{
        .code = ErrorCode::conflict,
        .message = fmt::format("{} held a store and {} is {}: it will not be replaced by "
                               "an empty one. Restore it from a backup, or remove {} to "
                               "start with an empty store",
                               directory_, database, empty ? "empty (0 bytes)" : "gone", marker)};
  }
  // The log and its index get the mode of the database.
  const int fd = open_private(database, exists ? O_RDWR : O_RDWR | O_CREAT);
  if (fd < 0) return access_error("opening", database, errno);
  close(fd);
  return {};
}

Result<void> FileGuard::mark_initialised() {
  const std::string path = directory_ + "/INITIALISED";
  for (const std::string& file : {database_, database_ + "-wal"}) remember(file);
  if (access(path.c_str(), F_OK) == 0) return {};
  const int fd = open_private(path, O_WRONLY | O_CREAT);
  if (fd < 0) return access_error("creating", path, errno);
  const int failed = fsync(fd) != 0 ? errno : 0;
  close(fd);
  if (failed != 0) return access_error("syncing", path, failed);
  return sync_directory(directory_);
}

void FileGuard::remember(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) == 0) open_files_.push_back({path, info.st_dev, info.st_ino});
}

Result<void> FileGuard::check_files() const {
  for (const OpenFile& file : open_files_) {
    struct stat info {};
    const bool there = stat(file.path.c_str(), &info) == 0;
    if (there && info.st_dev == file.device && info.st_ino == file.inode) continue;
    if (!there && errno != ENOENT && errno != ENOTDIR) continue;  // unknown: not an answer
    return Error{.code = ErrorCode::io_error,
                 .message = fmt::format(
                     "{} was {} while the store was open: new writes would be lost at a restart",
                     file.path, there ? "replaced" : "removed or moved away")};
  }
  return {};
}

std::size_t FileGuard::reserved() const {
  return size_of(reserve_);
}

bool FileGuard::is_whole() const {
  return reserved() >= reserve_bytes_;
}

bool FileGuard::take_reserve(std::size_t free_in_database) {
  const std::size_t there = reserved();
  const std::size_t wanted =
      std::max(last_slice(), reserve_bytes_ - std::min(reserve_bytes_, free_in_database));
  if (there >= wanted) return true;
  struct statvfs space {};
  if (statvfs(directory_.c_str(), &space) != 0) return false;
  if (space.f_bavail * space.f_frsize < wanted - there + reserve_bytes_ / kSlices) return false;
  const int fd = open_private(reserve_, O_WRONLY | O_CREAT);
  if (fd < 0) return false;
  const bool allocated = posix_fallocate(fd, 0, static_cast<off_t>(wanted)) == 0;
  if (!allocated && ftruncate(fd, static_cast<off_t>(there)) != 0) unlink(reserve_.c_str());
  close(fd);
  return allocated;
}

std::size_t FileGuard::last_slice() const {
  return std::min(kToOpen, reserve_bytes_ / kSlices);
}

bool FileGuard::give_up_slice(For use) {
  const std::size_t there = reserved(), last = last_slice();
  if (there == 0 || (use == For::finishing && there <= last)) return false;
  const std::size_t left = there <= last ? 0 : std::max(last, there - reserve_bytes_ / kSlices);
  return truncate(reserve_.c_str(), static_cast<off_t>(left)) == 0 || unlink(reserve_.c_str()) == 0;
}

std::size_t FileGuard::log_bytes() const {
  return small_disk_ ? reserve_bytes_ / 4 : reserve_bytes_ / 16 * 15;
}

bool FileGuard::too_full_to_open() const {
  struct statvfs space {};
  return statvfs(directory_.c_str(), &space) == 0 && space.f_bavail * space.f_frsize < kToOpen;
}

}  // namespace mainspring::sqlite
