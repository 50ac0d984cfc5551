// postgres_wake: the time from an enqueue at one server to the answer of a claim at another server.
//
//   postgres_wake ENQUEUE_PORT CLAIM_PORT COUNT
//
// One thread, two raw sockets, prebuilt requests. A claim is sent to the second server and left to
// park; after 5 to 15 ms (so that wakes fall anywhere between two beats of anything) one job is
// enqueued at the first, and both answers are awaited by poll(). Prints one line of JSON: the
// time from the first byte of the enqueue to the claim's answer, the time from the enqueue's answer
// to the claim's answer (zero if the claim was answered first), and the cost of this client and a
// server's sockets alone: a request that does not use the store.
#include <fmt/format.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <random>

#include "cli/bench_http.h"

namespace mainspring::cli::bench {
namespace {

constexpr int kWarmUp = 20;
constexpr int kLimitMs = 20'000;  // a wake that takes longer is a failure

Error failure(std::string what) {
  return Error{.code = ErrorCode::io_error, .message = "postgres_wake: " + what};
}

// A connection with at most one request in flight.
class Peer {
 public:
  static Result<Peer> open(int port) {
    MS_TRY_ASSIGN(const int fd, connect_loopback(static_cast<std::uint16_t>(port)));
    return Peer(fd);
  }
  Peer(Peer&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Peer() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }
  const std::string& answer() const { return in_; }
  Result<void> ask(std::string_view request) {
    in_.clear();
    const ssize_t sent = send(fd_, request.data(), request.size(), MSG_NOSIGNAL);
    if (sent == static_cast<ssize_t>(request.size())) return {};
    return failure("a request was not sent whole");
  }
  // True = the response is complete.
  Result<bool> receive() {
    char chunk[4096];
    const ssize_t got = recv(fd_, chunk, sizeof chunk, 0);
    if (got <= 0) return failure("a server closed its connection");
    in_.append(chunk, static_cast<std::size_t>(got));
    const std::size_t blank = in_.find("\r\n\r\n");
    if (blank == std::string::npos) return false;
    const std::size_t length = in_.find("ontent-Length:");
    if (length == std::string::npos || length > blank) return failure("an answer without length");
    const auto body = static_cast<std::size_t>(std::atoll(in_.c_str() + length + 14));
    if (in_.size() < blank + 4 + body) return false;
    if (in_.compare(9, 1, "2") != 0) return failure(in_);
    return true;
  }
  Result<void> await() {
    for (;;) {
      MS_TRY_ASSIGN(const bool whole, receive());
      if (whole) return {};
    }
  }

 private:
  explicit Peer(int fd) : fd_(fd) {}
  int fd_;
  std::string in_;
};

struct Times {
  std::vector<double> whole, after_ack, floor;
};

std::string digits_behind(const std::string& text, std::string_view name) {
  const std::size_t at = text.find(name);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + name.size();
  return text.substr(begin, text.find_first_not_of("0123456789", begin) - begin);
}

// Polls both until both have answered. Returns the time of each, in microseconds.
Result<std::pair<double, double>> await_both(Peer& a, Peer& b, const Clock& clock, Instant begin) {
  double at[2] = {-1, -1};
  Peer* const peers[2] = {&a, &b};
  while (at[0] < 0 || at[1] < 0) {
    pollfd fds[2];
    for (int i = 0; i < 2; ++i)
      fds[i] = {.fd = at[i] < 0 ? peers[i]->fd() : -1, .events = POLLIN, .revents = 0};
    if (poll(fds, 2, kLimitMs) <= 0) return failure("a wake did not come");
    for (int i = 0; i < 2; ++i) {
      if (fds[i].revents == 0) continue;
      MS_TRY_ASSIGN(const bool whole, peers[i]->receive());
      if (whole) at[i] = microseconds(clock.now().instant - begin);
    }
  }
  return std::pair(at[0], at[1]);
}

Result<Times> measure(int enqueue_port, int claim_port, int count) {
  MS_TRY_ASSIGN(Peer giver, Peer::open(enqueue_port));
  MS_TRY_ASSIGN(Peer taker, Peer::open(claim_port));
  const SystemClock clock;
  std::minstd_rand gaps(7);
  const std::string ping = http_request("GET", "/healthz", "");
  const std::string enqueue =
      http_request("POST", "/v1/jobs",
                   fmt::format(R"({{"queue":"wake","kind":"wake","args":{}}})", payload_of(200)));
  const std::string claim =
      http_request("POST", "/v1/claim", R"({"worker":"w","queues":["wake"],"max":1,"wait":"30s"})");
  Times times;
  for (int i = 0; i < count + kWarmUp; ++i) {
    Instant begin = clock.now().instant;
    MS_TRY(giver.ask(ping));
    MS_TRY(giver.await());
    const double floor = microseconds(clock.now().instant - begin);
    MS_TRY(taker.ask(claim));
    pass(5ms + Duration(gaps() % 10'000));
    begin = clock.now().instant;
    MS_TRY(giver.ask(enqueue));
    MS_TRY_ASSIGN(const auto both, await_both(giver, taker, clock, begin));
    const std::string id = digits_behind(taker.answer(), R"("id":)");
    const std::string token = digits_behind(taker.answer(), R"("token":)");
    if (id.empty() || token.empty()) return failure("an empty claim: " + taker.answer());
    MS_TRY(taker.ask(http_request(
        "POST", "/v1/finish",
        fmt::format(R"({{"worker":"w","results":[{{"id":{},"token":{},"outcome":"complete"}}]}})",
                    id, token))));
    MS_TRY(taker.await());
    if (i < kWarmUp) continue;
    times.floor.push_back(floor);
    times.whole.push_back(both.second);
    times.after_ack.push_back(std::max(0.0, both.second - both.first));
  }
  return times;
}

}  // namespace
}  // namespace mainspring::cli::bench

int main(int argc, char** argv) {
  using namespace mainspring::cli::bench;
  if (argc != 4) {
    std::cerr << "usage: postgres_wake ENQUEUE_PORT CLAIM_PORT COUNT\n";
    return 64;
  }
  const auto times = measure(std::atoi(argv[1]), std::atoi(argv[2]), std::atoi(argv[3]));
  if (!times) {
    std::cerr << times.error().message << std::endl;
    return 1;
  }
  const auto both = [](const std::vector<double>& values) {
    return fmt::format("[{:.3f},{:.3f}]", percentile(values, 0.5) / 1000,
                       percentile(values, 0.99) / 1000);
  };
  std::cout << fmt::format(R"({{"wakes":{},"whole_ms":{},"after_ack_ms":{},"floor_ms":{}}})",
                           times->whole.size(), both(times->whole), both(times->after_ack),
                           both(times->floor))
            << std::endl;
}
