// Finds and ends processes by a mark in their environment: each round reads /proc again.
#include "env/leftovers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <map>
#include <set>

#include "env/fd.h"

namespace mainspring {
namespace {

using Steady = std::chrono::steady_clock;
// More than the kernel allows a program (a quarter of its stack's limit, at most 6 MiB).
constexpr std::size_t kMaxEnvironmentBytes = 8 << 20;
constexpr std::size_t kMaxStatBytes = 4096;
// How many more looks find processes that one look misses, and the pause for a process whose
// environment is not readable yet. A process without any environment uses all looks.
constexpr int kMaxLooks = 100, kBetweenLooksMs = 1;
constexpr Duration kLongestLimit = std::chrono::hours(24);

// Reads a file of /proc, up to `cap` bytes; "" if it cannot be read (the process has ended, is
// ending, or belongs to another user).
std::string read_file(const std::string& path, std::size_t cap) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string out;
  if (!file) return out;
  std::array<char, 16384> buffer;
  while (out.size() < cap) {
    const ssize_t n = read(file.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    out.append(buffer.data(), static_cast<std::size_t>(n));
  }
  return out;
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> out;
  DIR* proc = opendir("/proc");
  if (proc == nullptr) return out;
  while (const dirent* entry = readdir(proc)) {
    const std::string_view name = entry->d_name;
    pid_t pid = 0;
    const auto end = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (end.ec == std::errc() && end.ptr == name.data() + name.size()) out.push_back(pid);
  }
  closedir(proc);
  return out;
}

// Source: proc(5). The fields after the name, from the third on: the name may contain blanks and
// brackets, and ends at the last ')'.
std::string stat_after_name(pid_t pid) {
  std::string text = read_file(fmt::format("/proc/{}/stat", pid), kMaxStatBytes);
  const std::size_t name_end = text.rfind(')');
  return name_end == std::string::npos ? std::string() : text.substr(name_end + 1);
}

enum class Marked { yes, no, unknown };

// During an exec the environment is not readable: it is being replaced.
Marked without_environment(pid_t pid) {
  constexpr unsigned kKernelThread = 0x00200000;  // PF_KTHREAD; the ninth field
  char state = 0;
  unsigned flags = 0;
  const std::string stat = stat_after_name(pid);
  if (sscanf(stat.c_str(), " %c %*d %*d %*d %*d %*d %u", &state, &flags) != 2) return Marked::no;
  return state == 'Z' || state == 'X' || (flags & kKernelThread) != 0 ? Marked::no
                                                                      : Marked::unknown;
}

Marked marked(pid_t pid, std::string_view mark) {
  const std::string path = fmt::format("/proc/{}/environ", pid);
  const std::string text = read_file(path, kMaxEnvironmentBytes);
  if (text.empty()) return access(path.c_str(), R_OK) == 0 ? without_environment(pid) : Marked::no;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = rest.find('\0');
    if (rest.substr(0, end) == mark) return Marked::yes;
    if (end == std::string_view::npos) return Marked::no;
    rest.remove_prefix(end + 1);
  }
  return Marked::no;
}

std::string numbers(const std::vector<pid_t>& pids) {
  return fmt::format("{}", fmt::join(pids, ", "));
}

// One call of end_marked.
class Ending {
 public:
  Ending(const std::string& mark, Steady::time_point deadline) : mark_(mark), deadline_(deadline) {}

  Result<int> run() {
    for (;;) {
      forbidden_.clear();
      killed_.clear();
      sweep();
      if (killed_.empty() && forbidden_.empty()) return static_cast<int>(ended_.size());
      if (killed_.empty()) {
        return Error{.code = ErrorCode::forbidden,
                     .message = fmt::format("ending leftover processes {}: not permitted; run as "
                                            "their user or as root",
                                            numbers(forbidden_))};
      }
      for (auto& [pid, file] : killed_) wait_for(pid, file);
      if (left() > Duration(0)) continue;
      const std::vector<pid_t> still = find_marked(mark_);
      if (still.empty()) return static_cast<int>(ended_.size());
      return Error{
          .code = ErrorCode::timeout,
          .message = fmt::format("leftover processes {} do not end after KILL", numbers(still))};
    }
  }

 private:
  Duration left() const { return std::chrono::duration_cast<Duration>(deadline_ - Steady::now()); }

  // Kills marked processes at once. One look at all processes may miss those that fork and exit:
  // the child appears at a number that was passed already, and the parent is gone before its
  // number. So looks until one finds no new process; then every process was seen without the mark,
  // or killed.
  void sweep() {
    std::set<pid_t> seen = {getpid()};
    for (int look = 0; look < kMaxLooks && left() > Duration(0); ++look) {
      bool news = false, unknown = false;
      for (const pid_t pid : all_processes()) {
        if (seen.count(pid) != 0) continue;
        news = true;
        if (kill_marked(pid) == Marked::unknown) {
          unknown = true;
        } else {
          seen.insert(pid);
        }
      }
      if (!news) return;
      if (unknown) poll(nullptr, 0, kBetweenLooksMs);
    }
  }

  Marked kill_marked(pid_t pid) {
    Fd file(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    // From here on the descriptor refers to one process, and its mark shows whether it is the right
    // one.
    if (!file) return Marked::no;
    const Marked is = marked(pid, mark_);
    if (is != Marked::yes) return is;
    if (syscall(SYS_pidfd_send_signal, file.get(), SIGKILL, nullptr, 0) == 0) {
      killed_.emplace_back(pid, std::move(file));
    } else if (errno == EPERM) {
      forbidden_.push_back(pid);
    }
    return is;
  }

  void wait_for(pid_t pid, const Fd& file) {
    for (;;) {
      const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left()).count();
      pollfd end = {file.get(), POLLIN, 0};
      const int ready = poll(&end, 1, static_cast<int>(std::clamp<std::int64_t>(ms, 0, 60'000)));
      if (ready < 0 && errno == EINTR) continue;
      if (ready > 0) ended_.insert(pid);
      if (ready != 0 || ms <= 60'000) return;
    }
  }

  const std::string& mark_;
  const Steady::time_point deadline_;
  std::set<pid_t> ended_;
  std::vector<std::pair<pid_t, Fd>> killed_;
  std::vector<pid_t> forbidden_;
};

struct Stat {
  pid_t parent = 0;
  std::int64_t ticks = 0;  // of itself and of its dead children
};

std::optional<Stat> read_stat(pid_t pid) {
  const std::string text = stat_after_name(pid);
  if (text.empty()) return std::nullopt;
  constexpr int kParent = 4, kUserTime = 14, kChildrenSystemTime = 17;
  Stat stat;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  for (int field = 3; field <= kChildrenSystemTime; ++field) {
    while (at < end && *at == ' ') ++at;
    std::int64_t value = 0;
    const char* const begin = at;
    while (at < end && *at != ' ') ++at;
    std::from_chars(begin, at, value);  // the third is a letter: 0
    if (field == kParent) stat.parent = static_cast<pid_t>(value);
    if (field >= kUserTime) stat.ticks += value;
  }
  return stat;
}

}  // namespace

std::vector<pid_t> find_marked(const std::string& mark) {
  std::vector<pid_t> out;
  const pid_t self = getpid();
  for (const pid_t pid : all_processes()) {
    if (pid != self && marked(pid, mark) == Marked::yes) out.push_back(pid);
  }
  return out;
}

Result<int> end_marked(const std::string& mark, Duration limit) {
  return Ending(mark, Steady::now() + std::min(limit, kLongestLimit)).run();
}

std::optional<Duration> cpu_time_of_tree(pid_t root) {
  std::multimap<pid_t, std::pair<pid_t, std::int64_t>> by_parent;
  for (const pid_t pid : all_processes()) {
    const std::optional<Stat> stat = read_stat(pid);
    if (stat && pid != root) by_parent.emplace(stat->parent, std::pair(pid, stat->ticks));
  }
  const std::optional<Stat> top = read_stat(root);
  if (!top) return std::nullopt;
  std::int64_t ticks = top->ticks;
  std::vector<pid_t> open{root};
  while (!open.empty()) {
    const pid_t parent = open.back();
    open.pop_back();
    const auto [begin, end] = by_parent.equal_range(parent);
    for (auto at = begin; at != end; ++at) {
      ticks += at->second.second;
      open.push_back(at->second.first);
    }
    by_parent.erase(begin, end);  // so that a reused pid cannot cause a cycle
  }
  return std::chrono::microseconds(ticks * 1'000'000 / sysconf(_SC_CLK_TCK));
}

}  // namespace mainspring
