// mainspring_store_*: what alerts on storage need.
#include "cli/store_metrics.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "store/shared_store.h"

namespace mainspring::cli {
namespace {

double bytes_of(const std::string& file) {
  struct stat info {};
  return ::stat(file.c_str(), &info) == 0 ? static_cast<double>(info.st_size) : 0;
}

double time_of(const std::string& file) {
  struct stat info {};
  return ::stat(file.c_str(), &info) == 0 ? static_cast<double>(info.st_mtim.tv_sec) : 0;
}

double free_bytes(const std::string& directory) {
  std::error_code failed;
  const auto space = std::filesystem::space(directory, failed);
  return failed ? 0 : static_cast<double>(space.available);
}

}  // namespace

void stamp(const std::string& directory, const char* name) {
  const std::string file = directory + "/" + name;
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return;
  (void)::futimens(fd, nullptr);
  ::close(fd);
}

void register_store_metrics(Registry& registry, const std::string& directory, const Store& store) {
  registry.gauge("mainspring_store_full",
                 "1 while new jobs are refused because the store has no space.",
                 [&store] { return store.shortage().empty() ? 0.0 : 1.0; });
  if (const auto* shared = dynamic_cast<const SharedStore*>(&store)) {
    registry.gauge("mainspring_store_reachable", "1 while the database answers this server.",
                   [shared] { return shared->away() ? 0.0 : 1.0; });
    return;
  }
  const auto of_directory = [&](const char* name, const char* help, auto read) {
    registry.gauge(name, help, [directory, read] { return read(directory); });
  };
  of_directory("mainspring_store_disk_free_bytes", "Free space of the store's file system.",
               free_bytes);
  of_directory("mainspring_store_bytes", "Size of the database file, free pages included.",
               [](const std::string& at) { return bytes_of(at + "/mainspring.db"); });
  of_directory("mainspring_store_wal_bytes", "Size of the write-ahead log.",
               [](const std::string& at) { return bytes_of(at + "/mainspring.db-wal"); });
  of_directory("mainspring_store_reserve_bytes",
               "Disk space kept for finishing jobs on a full disk. Alert if it is 0.",
               [](const std::string& at) { return bytes_of(at + "/RESERVE"); });
  of_directory("mainspring_store_last_backup_timestamp_seconds",
               "End of the last `mainspring store backup`, seconds since 1970; 0 = none.",
               [](const std::string& at) { return time_of(at + "/" + kLastBackup); });
  of_directory("mainspring_store_last_verify_timestamp_seconds",
               "End of the last verification that found no problem, seconds since 1970; 0 = none.",
               [](const std::string& at) { return time_of(at + "/" + kLastVerify); });
}

}  // namespace mainspring::cli
