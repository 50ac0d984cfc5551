// Reads /proc/self/stat. Source: proc(5).
#include "env/process_stats.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace mainspring {
namespace {

// The seconds since 1970 of the boot, from the line "btime" of /proc/stat.
std::int64_t boot_seconds() {
  std::ifstream stat("/proc/stat");
  for (std::string word; stat >> word;) {
    std::int64_t seconds = 0;
    if (word == "btime" && stat >> seconds) return seconds;
  }
  return 0;
}

std::int64_t count_open_files() {
  std::error_code failed;
  std::int64_t files = 0;
  for (std::filesystem::directory_iterator it("/proc/self/fd", failed), end; !failed && it != end;
       it.increment(failed))
    ++files;
  return files > 0 ? files - 1 : 0;  // one reads the directory
}

}  // namespace

ProcessStats read_process_stats() {
  ProcessStats stats;
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  // The second field is the program's name in parentheses, and may contain both blanks and them.
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return stats;
  std::istringstream fields(line.substr(name_end + 1));
  constexpr int kState = 3, kUserTime = 14, kSystemTime = 15, kThreads = 20, kStart = 22,
                kVirtual = 23, kResident = 24;
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  std::string text;
  for (int field = kState; field <= kResident && fields >> text; ++field) {
    if (field == kState) continue;
    const std::int64_t value = std::stoll(text);
    if (field == kUserTime || field == kSystemTime)
      stats.cpu_seconds += static_cast<double>(value) / ticks;
    if (field == kThreads) stats.threads = value;
    if (field == kStart) {
      stats.started =
          WallTime::from_us(boot_seconds() * 1'000'000 +
                            static_cast<std::int64_t>(static_cast<double>(value) / ticks * 1e6));
    }
    if (field == kVirtual) stats.virtual_bytes = value;
    if (field == kResident) stats.resident_bytes = value * sysconf(_SC_PAGESIZE);
  }
  stats.open_files = count_open_files();
  stats.max_files = open_file_limit();
  return stats;
}

std::int64_t open_file_limit() {
  rlimit limit{};
  const bool limited = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return limited ? static_cast<std::int64_t>(limit.rlim_cur) : 0;
}

}  // namespace mainspring
