// Measures the bare disk, and describes the machine.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cli/bench.h"
#include "cli/support.h"

namespace mainspring::cli::bench {
namespace {

constexpr std::int64_t kBlock = 4096;
constexpr std::int64_t kFileBytes = 16 << 20;  // the maximum size of the store's log
constexpr long kTmpfs = 0x01021994;
constexpr long kRamfs = 0x858458f6;

Error disk_error(std::string_view what, const std::string& path) {
  return Error{.code = ErrorCode::io_error,
               .message = fmt::format("{} {}: {}", what, path, std::strerror(errno))};
}

std::string line_with(const char* file, std::string_view key) {
  std::FILE* const in = std::fopen(file, "r");
  if (in == nullptr) return "";
  char line[512];
  std::string found;
  while (found.empty() && std::fgets(line, sizeof line, in) != nullptr) {
    std::string_view text(line);
    if (!text.starts_with(key)) continue;
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) continue;
    text.remove_prefix(text.find_first_not_of(" \t", colon + 1));
    found = std::string(text.substr(0, text.find('\n')));
  }
  (void)std::fclose(in);
  return found;
}

std::string file_system_name(const std::string& directory) {
  struct statfs info {};
  if (statfs(directory.c_str(), &info) != 0) return "unknown";
  switch (static_cast<unsigned long>(info.f_type)) {
    case 0xef53:
      return "ext4";
    case 0x58465342:
      return "xfs";
    case 0x9123683e:
      return "btrfs";
    case 0x794c7630:
      return "overlayfs";
    case static_cast<unsigned long>(kTmpfs):
      return "tmpfs";
    default:
      return fmt::format("type 0x{:x}", info.f_type);
  }
}

Result<double> measure(const std::string& path, std::int64_t bytes) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return disk_error("opening", path);
  const std::int64_t size = std::max(kFileBytes, bytes * 4);
  const std::string zeros(1 << 20, '\0');
  for (std::int64_t at = 0; at < size; at += static_cast<std::int64_t>(zeros.size())) {
    if (pwrite(fd, zeros.data(), zeros.size(), at) < 0) {
      close(fd);
      return disk_error("writing", path);
    }
  }
  (void)fsync(fd);
  const std::string content(static_cast<std::size_t>(bytes), 'm');
  const SystemClock clock;
  std::vector<double> times;
  const Instant begin = clock.now().instant;
  const std::int64_t room = size / bytes * bytes;
  std::int64_t at = 0;
  while (times.size() < 400 && (times.size() < 30 || clock.now().instant - begin < 1s)) {
    const Instant before = clock.now().instant;
    const bool ok =
        pwrite(fd, content.data(), content.size(), at) == static_cast<ssize_t>(content.size()) &&
        fdatasync(fd) == 0;
    if (!ok) {
      close(fd);
      return disk_error("writing and syncing", path);
    }
    times.push_back(microseconds(clock.now().instant - before));
    at = (at + bytes) % room;
  }
  close(fd);
  (void)unlink(path.c_str());
  return median(std::move(times));
}

}  // namespace

Result<double> Disk::sync_us(std::int64_t bytes) {
  std::int64_t size = kBlock;
  while (size < bytes) size = (size & (size - 1)) == 0 ? size + size / 2 : size / 3 * 4;
  size = (size + kBlock - 1) / kBlock * kBlock;
  const auto known = measured_.find(size);
  if (known != measured_.end()) return known->second;
  MS_TRY_ASSIGN(const double us, measure(directory_ + "/disk", size));
  measured_[size] = us;
  return us;
}

Result<double> Disk::ratio(double seconds, std::int64_t commits, std::int64_t bytes) {
  if (commits <= 0) return 0;
  MS_TRY_ASSIGN(const double us, sync_us(bytes / commits));
  return seconds * 1e6 / (static_cast<double>(commits) * us);
}

std::int64_t bytes_written() {
  const std::string value = line_with("/proc/self/io", "write_bytes");
  return value.empty() ? 0 : std::stoll(value);
}

std::vector<std::pair<std::string, std::string>> machine_facts(const std::string& directory) {
  utsname name{};
  (void)uname(&name);
  struct sysinfo info {};
  (void)sysinfo(&info);
  const double gib = static_cast<double>(info.totalram) * info.mem_unit / (1 << 30);
  std::string processor = line_with("/proc/cpuinfo", "model name");
  if (processor.empty()) processor = name.machine;
  return {{"processor", processor},
          {"cores", fmt::to_string(sysconf(_SC_NPROCESSORS_ONLN))},
          {"memory", fmt::format("{:.0f} GiB", gib)},
          {"kernel", fmt::format("{} {}", name.sysname, name.release)},
          {"file_system", file_system_name(directory)},
          {"time", format_wall_time(SystemClock().now().wall).substr(0, 19) + "Z"}};
}

bool is_memory_file_system(const std::string& directory) {
  struct statfs info {};
  if (statfs(directory.c_str(), &info) != 0) return false;
  return info.f_type == kTmpfs || info.f_type == kRamfs;
}

Result<void> make_directory(const std::string& path) {
  for (std::size_t at = 1; at <= path.size(); ++at) {
    if (at < path.size() && path[at] != '/') continue;
    if (mkdir(path.substr(0, at).c_str(), 0700) != 0 && errno != EEXIST) {
      return disk_error("making directory", path.substr(0, at));
    }
  }
  return {};
}

void remove_directory(const std::string& path) {
  DIR* const directory = opendir(path.c_str());
  if (directory == nullptr) return;
  while (const dirent* entry = readdir(directory)) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    const std::string below = path + "/" + name;
    struct stat info {};
    if (lstat(below.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) {
      remove_directory(below);
    } else {
      (void)unlink(below.c_str());
    }
  }
  (void)closedir(directory);
  (void)rmdir(path.c_str());
}

}  // namespace mainspring::cli::bench
