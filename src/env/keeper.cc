// The keeper: start, watch, kill, reap, report.
#include "env/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace mainspring::keeper {
namespace {

constexpr int kLink = 3;  // where the keeper puts its end of the link, after the program was forked
constexpr int kFirstUnused = 4;
constexpr int kReapedPerTurn = 256;  // then it checks for orders
constexpr int kPlainRounds = 4;      // of killing, before all are stopped first
constexpr int kStopRounds = 64;
constexpr int kMaxProcessDepth = 200;  // levels of descendants that are examined: 0.6 KiB each
constexpr int kCalmRounds = 32;        // of killing, before the keeper raises its own priority

// The kernel lets non-root users change autogroup priorities ten times a second, for all of them
// together.
constexpr int kAutogroupTries = 20;
constexpr int kAutogroupPause_ms = 50;

void report(int link, Report what, int value, int which = 0) {
  const Record record{what, value, which};
  while (send(link, &record, sizeof record, MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

void default_signals() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, &action, nullptr);
}

[[noreturn]] void give_up(const Plan& plan, Report what, int which = 0) {
  report(plan.link, what, errno, which);
  _exit(127);
}

// A session has its own autogroup: the kernel shares the processor between autogroups by their
// priority, and a process's priority counts only inside its autogroup. Source: sched(7).
void set_autogroup_nice(int nice) {
  const int fd = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;  // a kernel without them
  char text[4];
  std::size_t size = 0;
  if (nice < 0) text[size++] = '-';
  const int value = nice < 0 ? -nice : nice;
  if (value >= 10) text[size++] = static_cast<char>('0' + value / 10);
  text[size++] = static_cast<char>('0' + value % 10);
  for (int i = 0; write(fd, text, size) < 0 && errno == EAGAIN && i < kAutogroupTries; ++i) {
    poll(nullptr, 0, kAutogroupPause_ms);
  }
  close(fd);
}

void set_resource(const Plan& plan, std::size_t which) {
  const ResourceLimit& limit = plan.limits.resources[which];
  rlimit now{};
  getrlimit(static_cast<__rlimit_resource_t>(limit.resource), &now);
  rlimit next{limit.soft, limit.hard};
  // Raising the hard limit may not be allowed, and is not needed.
  if (next.rlim_max > now.rlim_max && next.rlim_cur <= now.rlim_max) next.rlim_max = now.rlim_max;
  if (setrlimit(static_cast<__rlimit_resource_t>(limit.resource), &next) != 0) {
    give_up(plan, Report::limit_failed, static_cast<int>(which));
  }
}

// Uses bare system calls: the library's functions signal all threads to change too, and only this
// thread survived the fork.
void change_user(const Plan& plan) {
  const Limits& limits = plan.limits;
  if (syscall(SYS_setgroups, limits.user_group_count, limits.user_groups) != 0 ||
      syscall(SYS_setresgid, limits.gid, limits.gid, limits.gid) != 0 ||
      syscall(SYS_setresuid, limits.uid, limits.uid, limits.uid) != 0) {
    give_up(plan, Report::user_failed);
  }
}

// Groups come first, while it may still join them; the user last, after all steps that need root.
void apply_limits(const Plan& plan) {
  const Limits& limits = plan.limits;
  for (std::size_t i = 0; i < limits.groups_to_join_count; ++i) {
    if (write(limits.groups_to_join[i], "0", 1) != 1) {
      give_up(plan, Report::cgroup_failed, static_cast<int>(i));
    }
  }
  if (limits.set_nice) {
    if (setpriority(PRIO_PROCESS, 0, limits.nice) != 0) give_up(plan, Report::nice_failed);
    set_autogroup_nice(limits.nice);
  }
  for (std::size_t i = 0; i < limits.resource_count; ++i) set_resource(plan, i);
  if (limits.umask >= 0) umask(static_cast<mode_t>(limits.umask));
  if (limits.change_user) change_user(plan);
  if (limits.no_new_privs && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    give_up(plan, Report::privs_failed);
  }
}

[[noreturn]] void become_program(const Plan& plan, pid_t keeper) {
  report(plan.link, Report::forked, getpid());  // before anything that it writes
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // in case another process kills the keeper
  apply_limits(plan);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // again, as a change of user resets it
  if (getppid() != keeper) _exit(127);
  if (plan.directory != nullptr && chdir(plan.directory) != 0) give_up(plan, Report::chdir_failed);
  dup2(plan.input, 0);
  dup2(plan.out, 1);
  dup2(plan.err, 2);
  dup2(plan.messages, 3);
  if (plan.answers >= 0) dup2(plan.answers, 4);
  close_range(plan.answers >= 0 ? 5 : 4, ~0U, CLOSE_RANGE_CLOEXEC);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(plan.path, plan.argv, plan.environment);
  give_up(plan, Report::exec_failed);
}

// "1234" into `out`; returns its end.
char* put_number(char* out, pid_t number) {
  char digits[12];
  int size = 0;
  do {
    digits[size++] = static_cast<char>('0' + number % 10);
  } while ((number /= 10) > 0);
  while (size > 0) *out++ = digits[--size];
  return out;
}

char* put(char* out, const char* text) {
  while (*text != 0) *out++ = *text++;
  return out;
}

// Opens the list of children of a process's first thread; 0 = this process.
int open_children(pid_t parent) {
  char path[64];
  char* end = put(path, "/proc/");
  if (parent == 0) {
    end = put(end, "thread-self");
  } else {
    end = put_number(end, parent);
    end = put(end, "/task/");
    end = put_number(end, parent);
  }
  *put(end, "/children") = 0;
  return open(path, O_RDONLY | O_CLOEXEC);
}

// Sends `signal` to all descendants of `parent` (0 = this process): STOP from the top, so that a
// list does not change after it is read; KILL from the bottom. Returns their number, or -1 if the
// kernel does not list children. Descendants that it does not see (children of other threads, too
// deep ones) become our children when the processes between are dead.
int signal_below(pid_t parent, int signal, int depth) {
  if (depth == kMaxProcessDepth) return 0;
  const int fd = open_children(parent);
  if (fd < 0) return -1;
  char text[512];
  pid_t pid = 0;
  int count = 0;
  const auto one = [&] {
    if (pid == 0) return;
    if (signal == SIGSTOP) kill(pid, signal);
    const int below = signal_below(pid, signal, depth + 1);
    if (signal != SIGSTOP) kill(pid, signal);
    count += 1 + (below > 0 ? below : 0);
    pid = 0;
  };
  for (ssize_t n = 0; (n = read(fd, text, sizeof text)) > 0;) {
    for (ssize_t i = 0; i < n; ++i) {
      if (text[i] >= '0' && text[i] <= '9') {
        pid = pid * 10 + (text[i] - '0');
      } else {
        one();
      }
    }
  }
  one();
  close(fd);
  return count;
}

// Processes of a fork bomb fork as fast as others are killed, so all are stopped before any is
// killed. Two equal counts in a row mean that there is no new process.
void stop_all() {
  int before = -1;
  for (int i = 0; i < kStopRounds; ++i) {
    const int count = signal_below(0, SIGSTOP, 0);
    if (count == before) return;
    before = count;
  }
}

// A fork bomb that creates sessions competes for the processor. Best effort: only root may raise
// the priority.
void hurry() {
  setpriority(PRIO_PROCESS, 0, -20);
  sched_param param{};
  param.sched_priority = 1;
  sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param);
}

// Kills and reaps until no descendant is left. When a process dies, its children become ours before
// it can be reaped, so listing and killing after each reaping finds all of them in the end. The
// signal to the process group reaches all its members at once, including those being forked;
// processes that left the group are killed one by one. Sets `status` if the program is reaped.
void kill_descendants(pid_t program, int& status) {
  kill(-program, SIGKILL);
  for (int round = 0;; ++round) {
    if (round == kCalmRounds) hurry();
    const bool plain = round < kPlainRounds;
    if (!plain) stop_all();
    // A pid that was read from a running process may belong to another process by now. Then only
    // our own children are safe to signal: no other process reaps them.
    const bool listed = signal_below(0, SIGKILL, plain ? kMaxProcessDepth - 1 : 0) >= 0;
    // Reaps all that have ended by now: listing after each one would be too slow.
    int flags = listed ? 0 : WNOHANG;
    for (;;) {
      int ended = 0;
      const pid_t pid = waitpid(-1, &ended, flags);
      if (pid == program) status = ended;
      if (pid < 0 && errno == EINTR) continue;
      if (pid < 0) return;              // no descendant left
      if (pid == 0 && !listed) return;  // no child that we could signal
      if (pid == 0) break;
      flags = WNOHANG;
    }
  }
}

// Waits until the program has ended or is to be killed. Returns true if it has ended.
bool watch(pid_t program, int child_fd, int& status) {
  int reaped = 0;
  for (;;) {
    pollfd fds[] = {{kLink, POLLIN, 0}, {child_fd, POLLIN, 0}};
    const int timeout = reaped == kReapedPerTurn ? 0 : -1;  // there may be more
    if (poll(fds, 2, timeout) < 0 && errno != EINTR) return false;
    if (fds[1].revents != 0 || reaped == kReapedPerTurn) {
      signalfd_siginfo info;
      [[maybe_unused]] const ssize_t n = read(child_fd, &info, sizeof info);
      int ended = 0;
      for (reaped = 0; reaped < kReapedPerTurn; ++reaped) {
        const pid_t pid = waitpid(-1, &ended, WNOHANG);
        if (pid <= 0) break;
        if (pid != program) continue;  // an adopted orphan
        status = ended;
        return true;
      }
    }
    if (fds[0].revents != 0) {
      char what = kKill;
      const ssize_t n = recv(kLink, &what, 1, MSG_DONTWAIT);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (n <= 0 || what == kKill) return false;
      kill(-program, SIGTERM);
    }
  }
}

// Peak memory of all ended descendants. A forked process starts with its parent's memory, which the
// kernel's number includes: up to that size nothing is known about the program.
void report_peak_memory() {
  rusage own{}, children{};
  if (getrusage(RUSAGE_SELF, &own) != 0 || getrusage(RUSAGE_CHILDREN, &children) != 0) return;
  if (children.ru_maxrss <= own.ru_maxrss || children.ru_maxrss > INT32_MAX) return;
  report(kLink, Report::peak_memory, static_cast<int>(children.ru_maxrss));
}

}  // namespace

void keep(const Plan& plan) {
  setsid();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  default_signals();
  const pid_t self = getpid();
  const pid_t program = _Fork();
  if (program == 0) become_program(plan, self);
  if (program < 0) {
    report(plan.link, Report::fork_failed, errno);
    _exit(127);
  }
  setpgid(program, program);  // on both sides, so that it is done before either continues
  // Closes everything of the parent: pipe ends, lock descriptors, the terminal.
  const int null = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) dup2(null, fd);
  dup2(plan.link, kLink);
  close_range(kFirstUnused, ~0U, 0);
  prctl(PR_SET_NAME, "ms-keeper");
  sigset_t children;
  sigemptyset(&children);
  sigaddset(&children, SIGCHLD);
  const int child_fd = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
  int status = 0;
  if (child_fd >= 0) watch(program, child_fd, status);
  report(kLink, Report::killing, 0);
  kill_descendants(program, status);
  report_peak_memory();
  report(kLink, Report::ended, status);
  _exit(0);
}

}  // namespace mainspring::keeper
