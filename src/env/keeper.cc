// The keeper's body: start, watch, kill, reap, report.
#include "env/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace mainspring::keeper {
namespace {

constexpr int kLink = 3;  // where the keeper puts its end of the link, after the program was forked
constexpr int kFirstUnused = 4;

void report(int link, Report what, int value) {
  const Record record{what, value};
  while (send(link, &record, sizeof record, MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

void default_signals() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, &action, nullptr);
}

[[noreturn]] void become_program(const Plan& plan, pid_t keeper) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // should somebody kill the keeper
  if (getppid() != keeper) _exit(127);
  if (plan.directory != nullptr && chdir(plan.directory) != 0) {
    report(plan.link, Report::chdir_failed, errno);
    _exit(127);
  }
  dup2(plan.input, 0);
  dup2(plan.out, 1);
  dup2(plan.err, 2);
  dup2(plan.messages, 3);
  close_range(4, ~0U, CLOSE_RANGE_CLOEXEC);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(plan.path, plan.argv, plan.environment);
  report(plan.link, Report::exec_failed, errno);
  _exit(127);
}

// KILL to every child of this process. Returns false if the kernel does not list them.
bool kill_children() {
  const int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char text[4096];
  pid_t pid = 0;
  for (ssize_t n = 0; (n = read(fd, text, sizeof text)) > 0;) {
    for (ssize_t i = 0; i < n; ++i) {
      if (text[i] >= '0' && text[i] <= '9') {
        pid = pid * 10 + (text[i] - '0');
      } else {
        if (pid > 0) kill(pid, SIGKILL);
        pid = 0;
      }
    }
  }
  if (pid > 0) kill(pid, SIGKILL);
  close(fd);
  return true;
}

// Kills and reaps until nothing is left below us. When a child dies its children become ours before
// it can be reaped, so that listing and killing after each reaping finds everybody in the end.
// `status` is set when the program is among the reaped.
void kill_all(pid_t program, int& status) {
  kill(-program, SIGKILL);
  for (;;) {
    const bool listed = kill_children();
    int ended = 0;
    const pid_t pid = waitpid(-1, &ended, listed ? 0 : WNOHANG);
    if (pid == program) status = ended;
    if (pid > 0 || (pid < 0 && errno == EINTR)) continue;
    return;  // nobody left, or nobody whom we could name
  }
}

// Waits until the program has ended or is to be killed. Returns true if it has ended.
bool watch(pid_t program, int child_fd, int& status) {
  for (;;) {
    pollfd fds[] = {{kLink, POLLIN, 0}, {child_fd, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR) return false;
    if (fds[1].revents != 0) {
      signalfd_siginfo info;
      [[maybe_unused]] const ssize_t n = read(child_fd, &info, sizeof info);
      int ended = 0;
      for (pid_t pid = 0; (pid = waitpid(-1, &ended, WNOHANG)) > 0;) {
        if (pid != program) continue;  // an orphan that came to us
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
  setpgid(program, program);  // both sides, so that it is done before either goes on
  // Hold nothing of the parent's: no pipe's end, no lock's descriptor, no terminal.
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
  kill_all(program, status);
  report(kLink, Report::ended, status);
  _exit(0);
}

}  // namespace mainspring::keeper
