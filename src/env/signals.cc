// SIGTERM, SIGINT and SIGHUP, read from a signalfd.
#include "env/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/assert.h"
#include "env/processes.h"

namespace mainspring {
namespace {

constexpr int kExitHurried = 130;

sigset_t signals_taken(bool hangup) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  if (hangup) sigaddset(&set, SIGHUP);
  return set;
}

// The name of a process that may have ended by now; "" = not known.
std::string name_of_process(std::uint32_t pid) {
  const int fd = open(fmt::format("/proc/{}/comm", pid).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  char name[64];
  const ssize_t n = read(fd, name, sizeof name);
  close(fd);
  std::string out(name, n > 0 ? static_cast<std::size_t>(n) : 0);
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < ' ' || c == 0x7f; }, ' ');
  while (out.ends_with(' ')) out.pop_back();
  return out;
}

// A blocked signal is queued even if it is ignored, so it must not be blocked.
bool ignores_hangup() {
  struct sigaction present {};
  return sigaction(SIGHUP, nullptr, &present) == 0 && present.sa_handler == SIG_IGN;
}

std::string reason_of(const signalfd_siginfo& info) {
  const std::string name = signal_name(static_cast<int>(info.ssi_signo));
  // Above 0 the signal is from the kernel, and has no sender.
  if (info.ssi_code > 0 || info.ssi_pid == 0) {
    return info.ssi_code > 0 ? name + " from the kernel"
                             : name + " from a process of another PID namespace";
  }
  const std::string program = name_of_process(info.ssi_pid);
  return fmt::format("{} from process {}{} of user {}", name, info.ssi_pid,
                     program.empty() ? "" : fmt::format(" ({})", program), info.ssi_uid);
}

}  // namespace

StopSignals::StopSignals(std::function<void()> hangup)
    : hangup_(std::move(hangup)), takes_hangup_(hangup_ != nullptr || !ignores_hangup()) {
  const sigset_t set = signals_taken(takes_hangup_);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal_fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  end_fd_ = eventfd(0, EFD_CLOEXEC);
  MS_ASSERT(signal_fd_ >= 0 && end_fd_ >= 0,
            "a program can have two more descriptors at its start");
  thread_ = std::thread([this] { run(); });
}

StopSignals::~StopSignals() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(end_fd_, &one, sizeof one);
  thread_.join();
  close(signal_fd_);
  close(end_fd_);
  const sigset_t set = signals_taken(takes_hangup_);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void StopSignals::run() {
  for (;;) {
    pollfd fds[] = {{signal_fd_, POLLIN, 0}, {end_fd_, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR) return;
    if (fds[1].revents != 0) return;
    signalfd_siginfo info{};
    if (read(signal_fd_, &info, sizeof info) != sizeof info) continue;
    const bool hung_up = info.ssi_signo == SIGHUP;
    if (hung_up && hangup_) {
      hangup_();
      continue;
    }
    if (hung_up && stop_.stop_requested()) continue;
    {
      const std::lock_guard lock(mutex_);
      if (why_.empty()) why_ = reason_of(info);
    }
    int none = 0;
    first_.compare_exchange_strong(none, static_cast<int>(info.ssi_signo));
    if (stop_.request_stop()) continue;
    if (!handles_hurry_) _exit(kExitHurried);
    hurry_.request_stop();
  }
}

void StopSignals::wait() const {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  changed.wait(lock, stop_.get_token(), [] { return false; });
}

std::string StopSignals::why() const {
  const std::lock_guard lock(mutex_);
  return why_;
}

void StopSignals::request() {
  stop_.request_stop();
}

}  // namespace mainspring
