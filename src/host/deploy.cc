// Deploying: a new folder is built next to the job, checked, then swapped in with one rename.
//
//   jobs/triggered/report              the job
//   jobs/triggered/.deploy-x7Gk2A/     private to one deployment, locked
//                                report   the new job; after the exchange the old one
#include "host/deploy.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "api/json.h"
#include "host/files.h"
#include "host/zip.h"

namespace mainspring {
namespace {

constexpr std::string_view kDefer = ".deploy-";
constexpr mode_t kFolderMode = 0755, kFileMode = 0644, kProgramMode = 0755;
constexpr std::size_t kMaxFileNameBytes = 255;
constexpr int kMaxExchanges = 5;  // retries if others deploy or remove the same job meanwhile

// A private folder next to the jobs; its destructor removes it and its content.
class Aside {
 public:
  static Result<Aside> make(const std::string& beside) {
    const std::string parent = parent_of(beside);
    std::error_code problem;
    std::filesystem::create_directories(parent, problem);
    if (problem) return file_error("make", parent, problem.value());
    Aside aside;
    std::string path = fmt::format("{}/{}XXXXXX", parent, kDefer);
    if (::mkdtemp(path.data()) == nullptr) return file_error("make a folder in", parent, errno);
    aside.path_ = path;
    aside.fd_ = Fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!aside.fd_) return file_error("open", path, errno);
    // The lock marks the folder as in use for remove_deployment_leftovers of any process.
    (void)::flock(aside.fd_.get(), LOCK_EX | LOCK_NB);
    return aside;
  }
  Aside(Aside&& other) noexcept
      : path_(std::exchange(other.path_, {})), fd_(std::move(other.fd_)) {}
  Aside& operator=(Aside&& other) = delete;
  // What cannot be removed now is removed at the next start.
  ~Aside() {
    if (!path_.empty()) (void)remove_tree(path_);
  }

  std::string path(const std::string& name) const { return path_ + "/" + name; }
  int fd() const { return fd_.get(); }

 private:
  Aside() = default;
  std::string path_;
  Fd fd_;
};

Fd open_folder(int parent, const std::string& name) {
  return Fd(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

Result<Fd> make_folder(int parent, const std::string& name, const std::string& shown) {
  if (::mkdirat(parent, name.c_str(), 0700) != 0 && errno != EEXIST) {
    return file_error("make", shown, errno);
  }
  Fd folder = open_folder(parent, name);
  // The mode is set explicitly: this process's umask must not affect jobs.
  if (!folder || ::fchmod(folder.get(), kFolderMode) != 0) {
    return file_error("make", shown, errno);
  }
  return folder;
}

Result<Fd> make_file(int folder, const std::string& name, mode_t mode, const std::string& shown) {
  Fd file(
      ::openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file || ::fchmod(file.get(), mode) != 0) return file_error("make", shown, errno);
  return file;
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

// Readable by all and writable by the owner; of the zip's bits only the executable bit is used.
// Systems without modes cannot mark a run.* as executable, so it always is.
mode_t mode_of(const ZipEntry& entry, std::string_view name) {
  if (lower_case(name.substr(0, name.rfind('.'))) == "run") return kProgramMode;
  return static_cast<mode_t>((entry.mode & kProgramMode) | kFileMode);
}

// Stays below `root`: each part is opened from its parent, and no part may be a link.
Result<void> write_entry(int root, const ZipEntry& entry, const UnpackEntry& unpack) {
  Fd folder;
  const auto at = [&] { return folder ? folder.get() : root; };
  std::string_view left = entry.path;
  for (;;) {
    const std::size_t slash = left.find('/');
    const std::string name(left.substr(0, slash));
    if (slash == std::string_view::npos && !entry.directory) {
      MS_TRY_ASSIGN(const Fd file, make_file(at(), name, mode_of(entry, name), entry.path));
      return unpack(
          [&](std::string_view piece) { return write_all(file.get(), piece, entry.path); });
    }
    MS_TRY_ASSIGN(folder, make_folder(at(), name, entry.path));
    if (slash == std::string_view::npos) return {};
    left.remove_prefix(slash + 1);
  }
}

// Exchanges `made` and `directory`.
Result<void> exchange(const std::string& made, const std::string& directory) {
  for (int i = 0; i < kMaxExchanges; ++i) {
    for (const unsigned how : {unsigned{RENAME_EXCHANGE}, unsigned{RENAME_NOREPLACE}}) {
      if (::renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, directory.c_str(), how) == 0) return {};
      if (errno == EINVAL || errno == EXDEV || errno == ENOSYS) {
        return Error{ErrorCode::io_error,
                     fmt::format("cannot replace {}: its file system cannot exchange folders in "
                                 "one step",
                                 directory)};
      }
      if (errno != (how == RENAME_EXCHANGE ? ENOENT : EEXIST)) {
        return file_error("replace", directory, errno);
      }
    }
  }
  return Error{
      ErrorCode::io_error,
      fmt::format("cannot replace {}: it is being created and removed concurrently", directory)};
}

// A frozen job stays frozen, unless the new settings set `freeze`.
Result<void> keep_frozen(const JobFolder& made) {
  bool said = false, empty = true;
  JsonReader in(made.settings_json, JsonReader::Unknown::skip);
  const bool read = in.members([&](std::string_view key) {
    empty = false;
    said = said || lower_case(key) == "freeze";
    return in.skip();
  });
  if (!read || said) return {};
  std::string json = made.settings_json;
  json.insert(json.find('{') + 1, empty ? R"("freeze":true)" : R"("freeze":true,)");
  return write_file_atomically(made.script_dir + "/" + made.settings_file, json, kFileMode);
}

// A deployment replaces files. It does not start a job that an operator has stopped.
Result<void> keep_disabled(const JobFolder& made) {
  if (made.disabled) return {};
  return write_file_atomically(made.script_dir + "/disable.job", "", kFileMode);
}

// The common part of deploying single files and zips; `fill` writes into the new folder.
Result<JobFolder> deploy(JobType type, const std::string& directory,
                         const std::vector<ScriptHost>& hosts, const DeployLimits& limits,
                         const std::function<Result<void>(int folder)>& fill) {
  const std::string name = base_name(directory);
  MS_TRY(check_job_name(name));
  MS_TRY_ASSIGN(const Aside aside, Aside::make(directory));
  const std::string made = aside.path(name);
  MS_TRY_ASSIGN(const Fd folder, make_folder(aside.fd(), name, made));
  MS_TRY(fill(folder.get()));
  const auto job = read_job_folder(type, made, hosts);
  if (!job) {
    if (job.error().code != ErrorCode::not_found) return job.error();
    return invalid("", job.error().message);
  }
  const std::string error = job->refusal(limits.strict_webjobs);
  if (!error.empty()) return invalid("settings", error);
  const auto before = read_job_folder(type, directory, hosts);
  if (!before && before.error().code != ErrorCode::not_found) return before.error();
  // A folder without a script may also be stopped.
  const bool disabled =
      before ? before->disabled : ::access((directory + "/disable.job").c_str(), F_OK) == 0;
  if (disabled) MS_TRY(keep_disabled(*job));
  if (before && before->settings.freeze) MS_TRY(keep_frozen(*job));
  // One sync for all files: they are on disk before they become visible.
  if (::syncfs(folder.get()) != 0) return file_error("sync", made, errno);
  MS_TRY(exchange(made, directory));
  MS_TRY(sync_directory(parent_of(directory)));
  auto after = read_job_folder(type, directory, hosts);
  // Checks again: the job may have been stopped since.
  const auto replaced = read_job_folder(type, made, hosts);
  if (after && replaced && replaced->disabled && !after->disabled) {
    MS_TRY(keep_disabled(*after));
    after->disabled = true;
  }
  return after;
}

Result<void> check_file_name(std::string_view name) {
  const bool plain =
      !name.empty() && name.size() <= kMaxFileNameBytes && name[0] != '.' &&
      std::none_of(name.begin(), name.end(), [](char c) {
        return static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '/' || c == '\\';
      });
  if (plain) return {};
  return invalid("filename",
                 fmt::format("file name of {} bytes: must be 1 to {} bytes without '/', '\\' and "
                             "control characters, not beginning with '.'",
                             name.size(), kMaxFileNameBytes));
}

}  // namespace

Result<JobFolder> deploy_file(JobType type, const std::string& directory,
                              std::string_view file_name, std::string_view content,
                              const std::vector<ScriptHost>& hosts, const DeployLimits& limits) {
  MS_TRY(check_file_name(file_name));
  if (content.size() > static_cast<std::uint64_t>(limits.max_file_bytes)) {
    return Error{ErrorCode::too_large, fmt::format("the file has {} bytes, more than {}",
                                                   content.size(), limits.max_file_bytes)};
  }
  return deploy(type, directory, hosts, limits, [&](int folder) -> Result<void> {
    const std::string name(file_name);
    MS_TRY_ASSIGN(const Fd file, make_file(folder, name, kProgramMode, name));
    return write_all(file.get(), content, name);
  });
}

Result<JobFolder> deploy_zip(JobType type, const std::string& directory, std::string_view zip,
                             const std::vector<ScriptHost>& hosts, const DeployLimits& limits) {
  return deploy(type, directory, hosts, limits, [&](int folder) {
    return unpack_zip(zip, limits, [&](const ZipEntry& entry, const UnpackEntry& unpack) {
      return write_entry(folder, entry, unpack);
    });
  });
}

Result<void> remove_folder(const std::string& directory) {
  struct stat status {};
  if (::lstat(directory.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return {};
    return file_error("remove", directory, errno);
  }
  MS_TRY_ASSIGN(const Aside aside, Aside::make(directory));
  if (::rename(directory.c_str(), aside.path("old").c_str()) != 0) {
    if (errno == ENOENT) return {};
    return file_error("remove", directory, errno);
  }
  return sync_directory(parent_of(directory));
}

Result<void> write_file_atomically(const std::string& path, std::string_view content,
                                   unsigned new_mode) {
  std::string beside = fmt::format("{}/{}XXXXXX", parent_of(path), kDefer);
  const Fd file(::mkostemp(beside.data(), O_CLOEXEC));
  if (!file) return file_error("write", path, errno);
  struct stat old {};
  const mode_t mode = ::lstat(path.c_str(), &old) == 0 && S_ISREG(old.st_mode)
                          ? old.st_mode & 0777
                          : static_cast<mode_t>(new_mode);
  Result<void> written = write_all(file.get(), content, path);
  if (written && (::fchmod(file.get(), mode) != 0 || ::fsync(file.get()) != 0 ||
                  ::rename(beside.c_str(), path.c_str()) != 0)) {
    written = file_error("write", path, errno);
  }
  if (!written) {
    ::unlink(beside.c_str());
    return written;
  }
  return sync_directory(parent_of(path));
}

void remove_deployment_leftovers(const std::string& root) {
  for (const JobType type : {JobType::continuous, JobType::triggered, JobType::queue}) {
    const std::string folder = fmt::format("{}/{}", root, folder_of(type));
    const auto entries = list_directory(folder);
    if (!entries) continue;
    for (const Entry& entry : *entries) {
      const std::string path = folder + "/" + entry.name;
      if (entry.name.starts_with(kDefer)) {
        const Fd fd(open_folder(AT_FDCWD, path));
        // Another process that shares the folder is deploying.
        if (fd && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) continue;
        (void)remove_tree(path);
        continue;
      }
      const auto inside = list_directory(path);
      if (!inside) continue;
      for (const Entry& file : *inside) {  // files of write_file_atomically
        if (file.type != DT_REG || !file.name.starts_with(kDefer)) continue;
        (void)remove_tree(path + "/" + file.name);
      }
    }
  }
}

}  // namespace mainspring
