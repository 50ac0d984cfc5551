// Messages reach the socket of the service manager; child processes do not inherit its variables.
#include "env/service_manager.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

using namespace mainspring;

namespace {

// What systemd holds: a socket in the abstract namespace.
class ManagerSocket {
 public:
  ManagerSocket() : name_("@mainspring-test-" + std::to_string(getpid())) {
    fd_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name_.data(), name_.size());
    address.sun_path[0] = '\0';
    REQUIRE(bind(fd_, reinterpret_cast<sockaddr*>(&address),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name_.size())) == 0);
  }
  ~ManagerSocket() { close(fd_); }
  const std::string& name() const { return name_; }
  std::string next() const {
    char text[512];
    const ssize_t size = recv(fd_, text, sizeof text, MSG_DONTWAIT);
    return size < 0 ? "" : std::string(text, static_cast<std::size_t>(size));
  }

 private:
  std::string name_;
  int fd_ = -1;
};

struct Variables {
  Variables(const char* socket, const char* usec, const char* pid) {
    if (socket != nullptr) setenv("NOTIFY_SOCKET", socket, 1);
    if (usec != nullptr) setenv("WATCHDOG_USEC", usec, 1);
    if (pid != nullptr) setenv("WATCHDOG_PID", pid, 1);
  }
  ~Variables() {
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) unsetenv(name);
  }
};

}  // namespace

TEST_CASE("a service manager receives one datagram per message") {
  const ManagerSocket socket;
  const ServiceManager manager(socket.name(), Duration(0));
  manager.ready("listening on http://127.0.0.1:8080");
  CHECK(socket.next() == "READY=1\nSTATUS=listening on http://127.0.0.1:8080");
  manager.status("one line\nREADY=0");
  CHECK(socket.next() == "STATUS=one line READY=0");
  manager.reloading();
  CHECK(socket.next().starts_with("RELOADING=1\nMONOTONIC_USEC="));
  manager.stopping("waiting");
  CHECK(socket.next() == "STOPPING=1\nSTATUS=waiting");
  manager.feed_watchdog();
  CHECK(socket.next() == "WATCHDOG=1");
  manager.extend_start(std::chrono::seconds(30), "opening");
  CHECK(socket.next() == "EXTEND_TIMEOUT_USEC=30000000\nSTATUS=opening");
  CHECK(socket.next() == "");
}

TEST_CASE("without a service manager messages go nowhere, and a socket that is gone is an error") {
  CHECK(!ServiceManager().is_there());
  CHECK(ServiceManager().send("READY=1"));
  const auto gone = ServiceManager("/nowhere/notify", Duration(0)).send("READY=1");
  REQUIRE(!gone);
  CHECK(gone.error().code == ErrorCode::unavailable);
  CHECK(gone.error().message ==
        "the service manager at /nowhere/notify does not listen: No such file or directory");
}

TEST_CASE("the variables of the service manager are read once and removed") {
  const Variables variables("/run/notify", "30000000", std::to_string(getpid()).c_str());
  const auto manager = ServiceManager::from_environment();
  REQUIRE(manager);
  CHECK(manager->is_there());
  CHECK(manager->watchdog() == Duration(std::chrono::seconds(30)));
  CHECK(std::getenv("NOTIFY_SOCKET") == nullptr);
  CHECK(std::getenv("WATCHDOG_USEC") == nullptr);
  CHECK(std::getenv("WATCHDOG_PID") == nullptr);
}

TEST_CASE("the watchdog of another process is not ours") {
  const Variables variables("/run/notify", "30000000", "1");
  const auto manager = ServiceManager::from_environment();
  REQUIRE(manager);
  CHECK(manager->watchdog() == Duration(0));
}

TEST_CASE("values that sd_notify(3) does not allow are refused by name") {
  const auto message = [](const char* socket, const char* usec) {
    const Variables variables(socket, usec, nullptr);
    const auto manager = ServiceManager::from_environment();
    return manager ? std::string() : manager.error().message;
  };
  CHECK(message(nullptr, "30") == "");  // without a socket nothing is watched
  CHECK(message("relative", nullptr) ==
        "NOTIFY_SOCKET \"relative\": must be an absolute path or @NAME of up to 107 bytes");
  CHECK(message(("/" + std::string(200, 'x')).c_str(), nullptr).starts_with("NOTIFY_SOCKET \"/xx"));
  CHECK(message("/run/notify", "soon") == "WATCHDOG_USEC \"soon\": must be a whole number above 0");
  CHECK(message("/run/notify", "0") == "WATCHDOG_USEC \"0\": must be a whole number above 0");
}
