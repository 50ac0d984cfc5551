// The watchdog is notified only while the commit loop and every I/O thread run.
#include "cli/watchdog.h"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <latch>

#include "broker/broker.h"
#include "engine/node.h"
#include "http/server.h"

using namespace mainspring;
using namespace mainspring::cli;

namespace {

using namespace std::chrono_literals;

struct NotifyRig {
  NotifyRig() {
    std::string name = std::filesystem::temp_directory_path() / "mainspring-notify-XXXXXX";
    directory = ::mkdtemp(name.data());
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path().c_str());
    REQUIRE(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  ~NotifyRig() {
    close(fd);
    std::filesystem::remove_all(directory);
  }
  std::string path() const { return directory + "/notify"; }
  std::string next(bool wait = false) const {
    char text[512];
    const ssize_t size = recv(fd, text, sizeof text, wait ? 0 : MSG_DONTWAIT);
    return size < 0 ? "" : std::string(text, static_cast<std::size_t>(size));
  }
  // Whether this message has arrived.
  bool has_come(const std::string& message) const {
    bool found = false;
    for (std::string one = next(); !one.empty(); one = next()) found = found || one == message;
    return found;
  }

  std::string directory;
  int fd = -1;
};

struct WatchLines final : Log {
  void write(LogLevel level, std::string_view message, const Fields& fields) override {
    if (level < LogLevel::info) return;
    lines.push_back(std::string(message) + (fields.empty() ? "" : " " + fields[0].second));
  }
  std::vector<std::string> lines;
};

// A node and its server; /readyz asks `readiness` on an I/O thread.
struct ServedRig {
  explicit ServedRig(std::function<void()> readiness = [] {}) {
    NodeOptions options;
    options.sqlite.directory = notify.directory + "/store";
    node = *Node::open(options, clock, log, registry);
    HttpOptions http;
    http.port = 0;
    http.io_threads = 2;
    http.unready = [readiness]() -> std::optional<std::string> {
      readiness();
      return std::nullopt;
    };
    server = std::make_unique<HttpServer>(std::move(http), node->broker(), node->store(), clock,
                                          log, registry);
    node->start();
    REQUIRE(server->start());
    watchdog = std::make_unique<Watchdog>(
        manager,
        std::vector<Watchdog::Loop>{
            {"the commit loop", [this](auto turned) { node->broker().ping(std::move(turned)); }},
            {"an I/O thread", [this](auto turned) { server->ping(std::move(turned)); }}},
        clock, log);
  }
  ~ServedRig() {
    server->stop(0s);
    node->stop();
  }
  // A round after every loop has run, so that earlier pings are answered.
  bool fed_when_turned() {
    std::latch turned(2);
    node->broker().ping([&turned] { turned.count_down(); });
    server->ping([&turned] { turned.count_down(); });
    turned.wait();
    return watchdog->step(clock.now());
  }
  // The previous ping may have been answered; later ones are not.
  bool hangs() {
    (void)watchdog->step(clock.now());
    (void)notify.has_come("");
    return !watchdog->step(clock.now()) && !watchdog->step(clock.now());
  }

  NotifyRig notify;
  ServiceManager manager{notify.path(), 20s};
  SystemClock clock;
  NullLog log;
  Registry registry;
  std::unique_ptr<Node> node;
  std::unique_ptr<HttpServer> server;
  std::unique_ptr<Watchdog> watchdog;
};

// GET /readyz, without waiting for the answer.
class ReadyzRequest {
 public:
  explicit ReadyzRequest(std::uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    const std::string_view text = "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    REQUIRE(send(fd_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
  }
  ~ReadyzRequest() { close(fd_); }

 private:
  int fd_;
};

}  // namespace

TEST_CASE("the watchdog is notified while every loop runs, and not before it is asked") {
  ServedRig rig;
  CHECK(!rig.watchdog->step(rig.clock.now()));
  CHECK(!rig.notify.has_come("WATCHDOG=1"));
  CHECK(rig.fed_when_turned());
  CHECK(rig.notify.has_come("WATCHDOG=1"));
  CHECK(rig.fed_when_turned());
}

TEST_CASE("a commit loop that hangs stops the notifications until it runs again") {
  ServedRig rig;
  std::latch hangs(1), released(1);
  // The commit loop calls the callbacks.
  rig.node->broker().submit(Cancel{.id = 1}, [&](OperationResult) {
    hangs.count_down();
    released.wait();
  });
  hangs.wait();
  CHECK(rig.hangs());
  CHECK(!rig.notify.has_come("WATCHDOG=1"));
  released.count_down();
  CHECK(rig.fed_when_turned());
  CHECK(rig.notify.has_come("WATCHDOG=1"));
}

TEST_CASE("one hanging I/O thread of several stops the notifications until it runs again") {
  std::latch hangs(1), released(1);
  ServedRig rig([&] {
    if (!hangs.try_wait()) hangs.count_down();
    released.wait();
  });
  const ReadyzRequest request(rig.server->port());
  hangs.wait();
  CHECK(rig.hangs());
  CHECK(!rig.notify.has_come("WATCHDOG=1"));
  released.count_down();
  CHECK(rig.fed_when_turned());
}

TEST_CASE("a loop that hangs is logged once, and once when it runs again") {
  const NotifyRig notify;
  const ServiceManager manager(notify.path(), 20s);
  ManualClock clock;
  WatchLines log;
  std::function<void()> answer;
  Watchdog watchdog(manager, {{"the loop", [&](auto turned) { answer = std::move(turned); }}},
                    clock, log);
  CHECK(watchdog.interval() == Duration(5s));
  for (int i = 0; i < 4; ++i) CHECK(!watchdog.step(clock.now()));
  CHECK(notify.next() == "STATUS=the loop does not respond");
  CHECK(notify.next() == "");
  answer();
  CHECK(watchdog.step(clock.now()));
  CHECK(notify.next() == "STATUS=the loop responds again");
  CHECK(notify.next() == "WATCHDOG=1");
  answer();
  CHECK(watchdog.step(clock.now()));
  CHECK(log.lines ==
        std::vector<std::string>{"a thread of the server does not respond; the service manager "
                                 "restarts the server unless it recovers the loop",
                                 "the thread responds again the loop"});
}

TEST_CASE("a service that stops is not restarted because its loops end") {
  const NotifyRig notify;
  const ServiceManager manager(notify.path(), 20s);
  const ManualClock clock;
  NullLog log;
  Watchdog watchdog(manager, {{"the loop", [](auto) {}}}, clock, log);
  CHECK(!watchdog.step(clock.now()));
  CHECK(!watchdog.step(clock.now()));
  watchdog.release();
  CHECK(watchdog.step(clock.now()));
}

TEST_CASE("a slow start asks the service manager for more time") {
  const NotifyRig notify;
  const ServiceManager manager(notify.path(), Duration(0));
  const SystemClock clock;
  const StartNotice notice(manager, "opening the store in /srv", clock);
  CHECK(notify.next(true) == "EXTEND_TIMEOUT_USEC=60000000\nSTATUS=opening the store in /srv");
}
