// Other software between a client and the server: HTTP libraries and proxies.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sstream>

#include "testing.h"

using namespace blackbox;

namespace {

// A network namespace with a loopback interface for this thread and the processes that it starts.
class OwnNetwork {
 public:
  OwnNetwork() : before_(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
    if (before_ < 0 || unshare(CLONE_NEWNET) != 0) return;
    const int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    ok_ = ioctl(control, SIOCSIFFLAGS, &request) == 0;
    close(control);
  }
  ~OwnNetwork() {
    if (before_ >= 0) setns(before_, CLONE_NEWNET);
    close(before_);
  }
  OwnNetwork(const OwnNetwork&) = delete;
  OwnNetwork& operator=(const OwnNetwork&) = delete;
  bool ok() const { return ok_; }

  // A counter of the group TcpExt; -1 if the kernel has none of that name.
  static long counter(const std::string& name) {
    std::ifstream file("/proc/thread-self/net/netstat");
    for (std::string names, values; std::getline(file, names) && std::getline(file, values);) {
      std::istringstream name_words(names), value_words(values);
      for (std::string one, value; name_words >> one && value_words >> value;) {
        if (one == name) return std::stol(value);
      }
    }
    return -1;
  }

 private:
  int before_ = -1;
  bool ok_ = false;
};

int connect_to(std::uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  return fd;
}

// Reads until `end` is in what arrived, the connection ends or nothing comes for a minute.
std::string read_until(int fd, const std::string& end) {
  std::string text;
  char bytes[4096];
  pollfd readable{fd, POLLIN, 0};
  while (!has(text, end) && poll(&readable, 1, 60'000) == 1) {
    const ssize_t got = recv(fd, bytes, sizeof bytes, 0);
    if (got <= 0) break;
    text.append(bytes, static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace

TEST_CASE("a head and a body that arrive in two segments are acknowledged without delay") {
  OwnNetwork network;
  if (!network.ok()) {
    MESSAGE("skipped: this user may not make a network namespace");
    return;
  }
  Served server;
  REQUIRE(server.start());
  const int fd = connect_to(server.port());  // Nagle's algorithm is on, as in many HTTP libraries
  const std::string body = R"({"queue":"q","kind":"k"})";
  const std::string head = fmt::format(
      "POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
      "Content-Length: {}\r\n\r\n",
      body.size());
  constexpr int kRequests = 20, kRounds = 20;
  REQUIRE(OwnNetwork::counter("DelayedACKs") >= 0);
  const auto delayed = [&] {
    const long before = OwnNetwork::counter("DelayedACKs");
    for (int i = 0; i < kRequests; ++i) {
      REQUIRE(send(fd, head.data(), head.size(), MSG_NOSIGNAL) > 0);
      REQUIRE(send(fd, body.data(), body.size(), MSG_NOSIGNAL) > 0);
      REQUIRE(has(read_until(fd, "\"available\"}"), " 201 "));
    }
    return OwnNetwork::counter("DelayedACKs") - before;
  };
  // The last answer of a connection may be acknowledged late by the client; no request may be. On a
  // busy machine either process may sleep through the 40 ms of a delay, but not in every round.
  // Without the option each round has a delay per request.
  bool prompt = false;
  for (int round = 0; round < kRounds && !prompt; ++round) prompt = delayed() <= kRequests / 4;
  CHECK(prompt);
  close(fd);
  CHECK(server.stop() == 0);
}

TEST_CASE("proxies are asked not to collect an event stream") {
  Served server;
  REQUIRE(server.start());
  const int fd = connect_to(server.port());
  const std::string request =
      "GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n";
  REQUIRE(send(fd, request.data(), request.size(), MSG_NOSIGNAL) > 0);
  const std::string answer = read_until(fd, "\r\n\r\n");
  CHECK(has(answer, " 200 "));
  CHECK(has(answer, "\r\nX-Accel-Buffering: no\r\n"));
  close(fd);
  CHECK(server.stop() == 0);
}
