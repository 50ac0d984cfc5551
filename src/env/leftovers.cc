// Finding and ending processes by a mark in their environment: /proc is read anew in every round.
#include "env/leftovers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
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
// More than the kernel lets a program have (a quarter of its stack's limit, at most 6 MiB).
constexpr std::size_t kMaxEnvironmentBytes = 8 << 20;
constexpr std::size_t kMaxStatBytes = 4096;
constexpr Duration kLongestLimit = std::chrono::hours(24);

// What a file of /proc says, up to `cap` bytes; "" if it cannot be read (the process has ended, is
// ending, or belongs to somebody else).
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

bool has_mark(pid_t pid, std::string_view mark) {
  const std::string text = read_file(fmt::format("/proc/{}/environ", pid), kMaxEnvironmentBytes);
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = rest.find('\0');
    if (rest.substr(0, end) == mark) return true;
    if (end == std::string_view::npos) return false;
    rest.remove_prefix(end + 1);
  }
  return false;
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
      const std::vector<pid_t> found = find_marked(mark_);
      if (found.empty()) return static_cast<int>(ended_.size());
      forbidden_.clear();
      std::vector<std::pair<pid_t, Fd>> killed;
      for (const pid_t pid : found) kill_one(pid, killed);
      if (forbidden_.size() == found.size()) {
        return Error{.code = ErrorCode::forbidden,
                     .message = fmt::format("ending leftover processes {}: not permitted; run as "
                                            "their user or as root",
                                            numbers(forbidden_))};
      }
      for (auto& [pid, file] : killed) wait_for(pid, file);
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

  void kill_one(pid_t pid, std::vector<std::pair<pid_t, Fd>>& killed) {
    Fd file(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    // From here on the descriptor means one process, and its mark tells whether it is the right
    // one.
    if (!file || !has_mark(pid, mark_)) return;
    if (syscall(SYS_pidfd_send_signal, file.get(), SIGKILL, nullptr, 0) == 0) {
      killed.emplace_back(pid, std::move(file));
    } else if (errno == EPERM) {
      forbidden_.push_back(pid);
    }
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
  std::vector<pid_t> forbidden_;
};

struct Stat {
  pid_t parent = 0;
  std::int64_t ticks = 0;  // of itself and of its dead children
};

// Source: proc(5). The name, second, may hold blanks and brackets: the last ')' ends it.
std::optional<Stat> read_stat(pid_t pid) {
  const std::string text = read_file(fmt::format("/proc/{}/stat", pid), kMaxStatBytes);
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  constexpr int kParent = 4, kUserTime = 14, kChildrenSystemTime = 17;
  Stat stat;
  const char* at = text.data() + name_end + 1;
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
    if (pid != self && has_mark(pid, mark)) out.push_back(pid);
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
    by_parent.erase(begin, end);  // a number that was taken anew meanwhile makes no circle
  }
  return std::chrono::microseconds(ticks * 1'000'000 / sysconf(_SC_CLK_TCK));
}

}  // namespace mainspring
