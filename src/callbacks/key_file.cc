// Written under another name, synced, and linked: a second process reads the first one's file.
#include "callbacks/key_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "env/fd.h"
#include "env/private_files.h"

namespace mainspring {
namespace {

constexpr std::size_t kMaxKeyFileBytes = 4 << 10;
constexpr std::string_view kField = "callback_key_file";

Error failed(std::string_view what, const std::string& path, int problem) {
  const bool full = problem == ENOSPC || problem == EDQUOT;
  return Error{.code = full ? ErrorCode::storage_full : ErrorCode::io_error,
               .message = fmt::format("{} {}: {}", what, path, std::strerror(problem)),
               .field = std::string(kField)};
}

Result<Secret> read_text(const Fd& file, const std::string& path) {
  std::string text(kMaxKeyFileBytes + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("reading", path, errno);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > kMaxKeyFileBytes) {
    return invalid(std::string(kField),
                   fmt::format("{}: must have at most {} bytes", path, kMaxKeyFileBytes));
  }
  text.resize(size);
  return Secret(std::move(text));
}

Result<void> write_key(const std::string& path, const Secret& key) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return failed("writing", path, errno);
  const Secret text(signing_key_text(key).reveal() + "\n");
  const ssize_t written = ::write(file.get(), text.reveal().data(), text.reveal().size());
  if (written != static_cast<ssize_t>(text.reveal().size()) || ::fsync(file.get()) != 0) {
    return failed("writing", path, errno);
  }
  return {};
}

Result<void> make_key(const std::string& directory, const std::string& path, Random& random) {
  const std::string draft = fmt::format("{}.{}", path, random.hex128());
  auto written = write_key(draft, make_signing_key(random));
  if (written && ::link(draft.c_str(), path.c_str()) != 0 && errno != EEXIST) {
    written = failed("writing", path, errno);
  }
  (void)::unlink(draft.c_str());
  if (!written) return written;
  const Fd folder(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || ::fsync(folder.get()) != 0) return failed("writing", directory, errno);
  return {};
}

}  // namespace

Result<SigningKeys> read_key_file(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return failed("reading", path, errno);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return failed("reading", path, errno);
  if (is_exposed(info)) {
    return invalid(std::string(kField),
                   fmt::format("{}: others than its owner can read or change it (mode {:o}): must "
                               "be 600",
                               path, info.st_mode & 0777));
  }
  MS_TRY_ASSIGN(const Secret text, read_text(file, path));
  return parse_signing_keys(path, text.reveal());
}

Result<SigningKeys> key_of_directory(const std::string& directory, Random& random,
                                     std::string_view name) {
  const std::string path = fmt::format("{}/{}", directory, name);
  if (::access(path.c_str(), F_OK) != 0) MS_TRY(make_key(directory, path, random));
  return read_key_file(path);
}

}  // namespace mainspring
