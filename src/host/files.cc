// Descriptors, directories and trees.
#include "host/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

namespace mainspring {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

Result<void> remove_at(int parent, const std::string& name, const std::string& shown, int depth) {
  if (::unlinkat(parent, name.c_str(), 0) == 0 || errno == ENOENT) return {};
  if (errno != EISDIR && errno != EPERM) return file_error("remove", shown, errno);
  if (depth == kMaxTreeDepth) {
    return Error{ErrorCode::io_error, fmt::format("cannot remove {}: nested too deeply", shown)};
  }
  {
    const Fd fd(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd) return file_error("remove", shown, errno);
    MS_TRY_ASSIGN(const std::vector<Entry> entries, list_directory(fd.get(), shown));
    for (const Entry& entry : entries) {
      MS_TRY(remove_at(fd.get(), entry.name, shown + "/" + entry.name, depth + 1));
    }
  }
  if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return {};
  return file_error("remove", shown, errno);
}

}  // namespace

Error file_error(std::string_view what, const std::string& path, int error_number) {
  ErrorCode code = ErrorCode::io_error;
  // EFBIG: the limit of this process (RLIMIT_FSIZE), which tests use to simulate a full disk.
  if (error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG)
    code = ErrorCode::storage_full;
  if (error_number == EROFS) code = ErrorCode::unavailable;
  return Error{code, fmt::format("cannot {} {}: {}", what, path, std::strerror(error_number))};
}

Result<std::optional<std::string>> read_whole_file(const std::string& path, std::size_t max) {
  // Non-blocking: opening a pipe without a writer would block.
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    if (errno == ENOENT || errno == ENOTDIR) return std::optional<std::string>();
    return file_error("open", path, errno);
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return file_error("look at", path, errno);
  if (!S_ISREG(status.st_mode)) {
    return Error{ErrorCode::io_error, fmt::format("cannot read {}: not a regular file", path)};
  }
  std::string out;
  char buffer[16384];
  for (;;) {
    const ssize_t count = ::read(fd.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return file_error("read", path, errno);
    if (count == 0) return std::optional<std::string>(std::move(out));
    out.append(buffer, static_cast<std::size_t>(count));
    if (out.size() > max) {
      return Error{ErrorCode::too_large, fmt::format("{}: over {} bytes", path, max)};
    }
  }
}

Result<std::vector<Entry>> list_directory(int directory, const std::string& shown) {
  // A separate descriptor: reading moves the position.
  const int own = ::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (own < 0) return file_error("list", shown, errno);
  const std::unique_ptr<DIR, CloseDirectory> stream(::fdopendir(own));
  if (!stream) return file_error("list", shown, errno);
  std::vector<Entry> entries;
  for (;;) {
    errno = 0;
    const dirent* const found = ::readdir(stream.get());
    if (found == nullptr) {
      if (errno != 0) return file_error("list", shown, errno);
      break;
    }
    const std::string_view name = found->d_name;
    if (name == "." || name == "..") continue;
    if (entries.size() == kMaxDirectoryEntries) {
      return Error{ErrorCode::too_large,
                   fmt::format("{}: more than {} entries", shown, kMaxDirectoryEntries)};
    }
    Entry entry{std::string(name), found->d_type};
    if (entry.type == DT_UNKNOWN) {
      struct stat status {};
      if (::fstatat(directory, found->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
      entry.type = static_cast<unsigned char>(IFTODT(status.st_mode));
    }
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

Result<std::vector<Entry>> list_directory(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd && (errno == ENOENT || errno == ENOTDIR)) {
    return Error{ErrorCode::not_found, fmt::format("{}: no such directory", path)};
  }
  if (!fd) return file_error("list", path, errno);
  return list_directory(fd.get(), path);
}

Result<void> remove_tree(const std::string& path) {
  return remove_at(AT_FDCWD, path, path, 0);
}

Result<void> write_all(int fd, std::string_view bytes, const std::string& shown) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return file_error("write", shown, errno);
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

Result<void> sync_directory(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fsync(fd.get()) != 0) return file_error("sync", path, errno);
  return {};
}

std::string base_name(const std::string& path) {
  const std::size_t end = path.find_last_not_of('/');
  if (end == std::string::npos) return "";
  const std::size_t slash = path.rfind('/', end);
  const std::size_t begin = slash == std::string::npos ? 0 : slash + 1;
  return path.substr(begin, end + 1 - begin);
}

std::string parent_of(const std::string& path) {
  const std::size_t end = path.find_last_not_of('/');
  const std::size_t slash = end == std::string::npos ? end : path.rfind('/', end);
  if (slash == std::string::npos) return path.empty() || path[0] != '/' ? "." : "/";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace mainspring
