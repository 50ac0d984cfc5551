// Lock, marker and reserve of a store directory.
#include "store_sqlite/guard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mainspring::sqlite {
namespace {

Error system_error(ErrorCode code, std::string_view what, const std::string& path) {
  return Error{.code = code, .message = fmt::format("{} {}: {}", what, path, std::strerror(errno))};
}

std::string read_small(int fd) {
  char buffer[64] = {};
  const ssize_t n = pread(fd, buffer, sizeof buffer - 1, 0);
  std::string text(buffer, static_cast<std::size_t>(n > 0 ? n : 0));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// mkdir -p.
Result<void> make_directory(const std::string& path) {
  for (std::size_t at = 1; at <= path.size(); ++at) {
    if (at < path.size() && path[at] != '/') continue;
    const std::string part = path.substr(0, at);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      return system_error(ErrorCode::io_error, "making the store's directory", part);
    }
  }
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return invalid("data", fmt::format("data \"{}\": must be a directory", path));
  }
  return {};
}

}  // namespace

Result<void> sync_directory(const std::string& directory) {
  const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return system_error(ErrorCode::io_error, "opening directory", directory);
  const int failed = fsync(fd);
  close(fd);
  if (failed != 0) return system_error(ErrorCode::io_error, "syncing directory", directory);
  return {};
}

FileGuard::FileGuard(std::string directory, int owner_fd, std::size_t reserve_bytes)
    : directory_(std::move(directory)), owner_fd_(owner_fd), reserve_bytes_(reserve_bytes) {
  // A small file system must not lose most of its space to the reserve.
  struct statvfs space {};
  if (statvfs(directory_.c_str(), &space) == 0) {
    reserve_bytes_ = std::min<std::size_t>(reserve_bytes_, space.f_blocks * space.f_frsize / 16);
  }
}

FileGuard::~FileGuard() {
  close(owner_fd_);
}

Result<std::unique_ptr<FileGuard>> FileGuard::lock(const std::string& directory,
                                                   const std::string& database,
                                                   std::size_t reserve_bytes) {
  MS_TRY(make_directory(directory));
  const std::string owner = directory + "/OWNER";
  const int fd = open(owner.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return system_error(ErrorCode::io_error, "opening", owner);
  std::unique_ptr<FileGuard> guard(new FileGuard(directory, fd, reserve_bytes));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return system_error(ErrorCode::io_error, "locking", owner);
    return Error{.code = ErrorCode::conflict,
                 .message = fmt::format(
                     "the store {} is open in process {}: one process owns a store; stop that one, "
                     "or talk to it over HTTP",
                     directory, read_small(fd))};
  }
  const std::string marker = directory + "/INITIALISED";
  const bool initialised = access(marker.c_str(), F_OK) == 0;
  if (!initialised && errno != ENOENT) return system_error(ErrorCode::io_error, "reading", marker);
  struct stat info {};
  const bool gone = stat(database.c_str(), &info) != 0;
  if (gone && errno != ENOENT) return system_error(ErrorCode::io_error, "reading", database);
  if (initialised && (gone || info.st_size == 0)) {
    return Error{
        .code = ErrorCode::conflict,
        .message = fmt::format(
            "{} held a store and {} is {}: it will not be replaced by an empty one. Restore it "
            "from a backup, or remove {}/INITIALISED to start with an empty store",
            directory, database, gone ? "gone" : "empty (0 bytes)", directory)};
  }
  guard->initialised_ = initialised;
  const std::string pid = fmt::format("{}\n", getpid());
  if (ftruncate(fd, 0) != 0 || pwrite(fd, pid.data(), pid.size(), 0) < 0) {
    // Only the pid in a later refusal is missing: a full disk must not keep a store from opening.
  }
  return guard;
}

Result<void> FileGuard::mark_initialised() {
  const std::string path = directory_ + "/INITIALISED";
  if (access(path.c_str(), F_OK) == 0) return {};
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return system_error(ErrorCode::io_error, "creating", path);
  const int failed = fsync(fd);
  close(fd);
  if (failed != 0) return system_error(ErrorCode::io_error, "syncing", path);
  return sync_directory(directory_);
}

bool FileGuard::has_room() {
  struct stat info {};
  const std::string path = directory_ + "/RESERVE";
  if (stat(path.c_str(), &info) == 0 && static_cast<std::size_t>(info.st_size) >= reserve_bytes_)
    return true;
  return take_reserve();
}

bool FileGuard::take_reserve() {
  const std::string path = directory_ + "/RESERVE";
  struct stat info {};
  if (stat(path.c_str(), &info) == 0 && static_cast<std::size_t>(info.st_size) >= reserve_bytes_)
    return true;
  struct statvfs space {};
  if (statvfs(directory_.c_str(), &space) != 0) return false;
  if (space.f_bavail * space.f_frsize < reserve_bytes_ + reserve_bytes_ / 2) return false;
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  const int failed = posix_fallocate(fd, 0, static_cast<off_t>(reserve_bytes_));
  close(fd);
  if (failed != 0) unlink(path.c_str());
  return failed == 0;
}

void FileGuard::give_up_reserve() {
  unlink((directory_ + "/RESERVE").c_str());
}

}  // namespace mainspring::sqlite
