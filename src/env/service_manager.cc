// sd_notify(3), without libsystemd.
#include "env/service_manager.h"

#include <errno.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "env/fd.h"

namespace mainspring {
namespace {

constexpr timeval kSendTimeout{.tv_sec = 1, .tv_usec = 0};

// Reads a variable and removes it from the environment; "" = not set.
std::string take_variable(const char* name) {
  const char* const value = std::getenv(name);
  std::string out = value == nullptr ? "" : value;
  unsetenv(name);
  return out;
}

Result<std::int64_t> number_of(std::string_view name, std::string_view text) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, problem] = std::from_chars(text.data(), end, value);
  if (problem != std::errc{} || stopped != end || value <= 0) {
    return invalid(std::string(name),
                   fmt::format("{} \"{}\": must be a whole number above 0", name, text));
  }
  return value;
}

// A line break would start another assignment.
std::string one_line(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return out;
}

std::int64_t monotonic_us() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000 + now.tv_nsec / 1000;
}

}  // namespace

Result<ServiceManager> ServiceManager::from_environment() {
  std::string socket = take_variable("NOTIFY_SOCKET");
  const std::string usec = take_variable("WATCHDOG_USEC");
  const std::string pid = take_variable("WATCHDOG_PID");
  if (socket.empty()) return ServiceManager();
  if ((socket[0] != '/' && socket[0] != '@') || socket.size() < 2 ||
      socket.size() >= sizeof(sockaddr_un::sun_path)) {
    return invalid("NOTIFY_SOCKET",
                   fmt::format("NOTIFY_SOCKET \"{}\": must be an absolute path or @NAME of up to "
                               "{} bytes",
                               socket, sizeof(sockaddr_un::sun_path) - 1));
  }
  Duration watchdog(0);
  if (!usec.empty()) {
    MS_TRY_ASSIGN(const std::int64_t every, number_of("WATCHDOG_USEC", usec));
    std::int64_t whose = getpid();
    if (!pid.empty()) {
      MS_TRY_ASSIGN(whose, number_of("WATCHDOG_PID", pid));
    }
    if (whose == getpid()) watchdog = Duration(every);
  }
  return ServiceManager(std::move(socket), watchdog);
}

Result<void> ServiceManager::send(std::string_view assignments) const {
  if (!is_there()) return {};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  const Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (fd) (void)setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kSendTimeout, sizeof kSendTimeout);
  while (fd) {
    if (::sendto(fd.get(), assignments.data(), assignments.size(), MSG_NOSIGNAL,
                 reinterpret_cast<const sockaddr*>(&address), size) >= 0) {
      return {};
    }
    if (errno != EINTR) break;
  }
  return Error{.code = ErrorCode::unavailable,
               .message = fmt::format("the service manager at {} does not listen: {}", socket_,
                                      std::strerror(errno))};
}

void ServiceManager::status(std::string_view text) const {
  (void)send("STATUS=" + one_line(text));
}

void ServiceManager::ready(std::string_view status) const {
  (void)send(fmt::format("READY=1\nSTATUS={}", one_line(status)));
}

void ServiceManager::reloading() const {
  (void)send(fmt::format("RELOADING=1\nMONOTONIC_USEC={}", monotonic_us()));
}

void ServiceManager::stopping(std::string_view status) const {
  (void)send(fmt::format("STOPPING=1\nSTATUS={}", one_line(status)));
}

void ServiceManager::feed_watchdog() const {
  (void)send("WATCHDOG=1");
}

void ServiceManager::extend_start(Duration more, std::string_view status) const {
  (void)send(fmt::format("EXTEND_TIMEOUT_USEC={}\nSTATUS={}", more.count(), one_line(status)));
}

}  // namespace mainspring
