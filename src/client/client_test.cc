// Calls reach a server, return results or its errors, and are retried only where it is safe.
#include "client/client.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <latch>
#include <list>
#include <mutex>
#include <thread>

#include "client/connection.h"

using namespace mainspring;
using namespace std::chrono_literals;

namespace {

struct Seen {
  std::string method, target, body, key, authorization = {};
};

// A server with one response at a time. A function of the test handles each request.
class FakeServer {
 public:
  // Returns the whole response; "" closes the connection without one.
  using Behave = std::function<std::string(const Seen&)>;

  explicit FakeServer(Behave behave) : behave_(std::move(behave)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    socklen_t size = sizeof address;
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    listen(listener_, 100);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~FakeServer() {
    ending_ = true;
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    {
      std::lock_guard lock(mutex_);
      for (int fd : open_) shutdown(fd, SHUT_RDWR);
    }
    for (std::thread& thread : threads_) thread.join();
    close(listener_);
  }
  std::string url() const { return fmt::format("http://127.0.0.1:{}", port_); }
  std::vector<Seen> seen() {
    std::lock_guard lock(mutex_);
    return seen_;
  }

 private:
  void accept_all() {
    while (!ending_) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      {
        std::lock_guard lock(mutex_);
        open_.push_back(fd);
      }
      threads_.emplace_back([this, fd] { serve(fd); });
    }
  }
  void serve(int fd) {
    std::string text;
    while (std::optional<Seen> request = next(fd, text)) {
      {
        std::lock_guard lock(mutex_);
        seen_.push_back(*request);
      }
      const std::string answer = behave_(*request);
      if (answer.empty()) break;
      if (send(fd, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) break;
      if (answer.find("Connection: close") != std::string::npos) break;
    }
    std::lock_guard lock(mutex_);
    open_.remove(fd);
    close(fd);
  }
  static std::optional<Seen> next(int fd, std::string& text) {
    for (;;) {
      const std::size_t end = text.find("\r\n\r\n");
      if (end != std::string::npos) {
        const std::string head = text.substr(0, end);
        const auto header = [&](std::string_view name) -> std::string {
          const std::size_t at = head.find(fmt::format("\r\n{}: ", name));
          if (at == std::string::npos) return "";
          const std::size_t from = at + name.size() + 4;
          return head.substr(from, head.find("\r\n", from) - from);
        };
        const std::string length = header("Content-Length");
        const std::size_t body = length.empty() ? 0 : std::stoul(length);
        if (text.size() >= end + 4 + body) {
          const std::size_t space = head.find(' ');
          Seen seen{head.substr(0, space),
                    head.substr(space + 1, head.find(' ', space + 1) - space - 1),
                    text.substr(end + 4, body), header("Idempotency-Key"), header("Authorization")};
          text.erase(0, end + 4 + body);
          return seen;
        }
      }
      char buffer[65536];
      const ssize_t n = recv(fd, buffer, sizeof buffer, 0);
      if (n <= 0) return std::nullopt;
      text.append(buffer, static_cast<std::size_t>(n));
    }
  }

  Behave behave_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> ending_ = false;
  std::thread acceptor_;
  std::mutex mutex_;
  std::list<int> open_;
  std::list<std::thread> threads_;
  std::vector<Seen> seen_;
};

std::string answer(int status, std::string_view body, std::string_view headers = "") {
  return fmt::format("HTTP/1.1 {} X\r\nContent-Length: {}\r\n{}\r\n{}", status, body.size(),
                     headers, body);
}

struct Rig {
  SystemRandom random;
  std::unique_ptr<Client> client;
  explicit Rig(std::string url, Duration retry_for = 10s) {
    ClientOptions options;
    options.url = std::move(url);
    options.retry_for = retry_for;
    options.connect_timeout = 2s;
    auto opened = Client::open(std::move(options), random);
    REQUIRE(opened.has_value());
    client = std::move(*opened);
  }
};

Enqueue one_job() {
  Enqueue enqueue;
  enqueue.jobs.push_back({.queue = "q", .kind = "k"});
  return enqueue;
}

}  // namespace

TEST_CASE("a stream is passed on as it arrives; a response that is not a stream is an error") {
  FakeServer server([](const Seen& seen) -> std::string {
    if (seen.target == "/v1/none") return answer(403, R"({"error":{"code":"forbidden"}})");
    const std::string head =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
    if (seen.target == "/v1/cut") return head + "3\r\none\r\n4\r\ntw";
    return head + "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n";
  });
  Rig rig(server.url(), 0s);
  std::string got;
  const auto sink = [&](std::string_view piece) {
    got += piece;
    return true;
  };
  CHECK(rig.client->stream("/v1/all", sink, {}).has_value());
  CHECK(got == "onetwo");
  CHECK(rig.client->stream("/v1/none", sink, {}).error().code == ErrorCode::forbidden);
  CHECK(got == "onetwo");
  CHECK(rig.client->stream("/v1/cut", sink, {}).error().code == ErrorCode::unavailable);
  CHECK(got == "onetwoonetw");
  const auto enough = [](std::string_view) { return false; };
  CHECK(rig.client->stream("/v1/all", enough, {}).error().code == ErrorCode::unavailable);
}

TEST_CASE("each request carries the token if there is one") {
  FakeServer server([](const Seen&) { return answer(200, "{}"); });
  SystemRandom random;
  for (const char* token : {"", "mst_abc"}) {
    ClientOptions options;
    options.url = server.url();
    options.token = Secret(token);
    const auto client = *Client::open(std::move(options), random);
    CHECK(client->ready());
    CHECK(client->request("POST", "/v1/x", "{}"));
  }
  const std::vector<Seen> seen = server.seen();
  REQUIRE(seen.size() == 4);
  CHECK(seen[1].authorization == "");
  CHECK(seen[2].authorization == "Bearer mst_abc");
  CHECK(seen[3].authorization == "Bearer mst_abc");
}

TEST_CASE("a URL has the scheme http, a host and a port") {
  CHECK(parse_http_url("http://localhost:8080")->port == "8080");
  CHECK(parse_http_url("http://example.com/")->port == "80");
  CHECK(parse_http_url("http://[::1]:99")->host == "::1");
  CHECK(parse_http_url("http://[::1]:99/a/b/")->prefix == "/a/b");
  CHECK(parse_http_url("https://example.com/jobs")->authority == "example.com");
  for (const char* bad :
       {"", "localhost:8080", "unix:", "http://", "http://:80", "http://x:0", "http://x:99999",
        "http://x:a", "http:///y", "http://u@x", "http://x/y?z", "http://x/y z", "http://[::1"}) {
    CHECK_MESSAGE(!parse_http_url(bad), bad);
  }
  CHECK(parse_http_urls("http://a:1/x,https://b,unix:/c")->at(2).unix_path == "/c");
  for (const char* bad : {"http://a,", ",http://a", "http://a,b"}) CHECK(!parse_http_urls(bad));
  CHECK(
      parse_http_urls("unix:/a,b")
          .error()
          .message.ends_with("commas separate URLs, so the path of a unix: URL must not have one"));
}

namespace {

constexpr const char* kNoWorkers = R"({"workers":[]})";
constexpr const char* kMade = R"({"jobs":[{"id":7,"state":"available"}]})";

// The URL of a port on which no server listens: its socket is bound, so that no other gets it.
struct Refusing {
  int socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::string url;
  Refusing() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(bind(socket_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    url = fmt::format("http://127.0.0.1:{}", ntohs(address.sin_port));
  }
  ~Refusing() { close(socket_); }
};

}  // namespace

TEST_CASE("the path of a URL comes before each path of the API") {
  FakeServer server([](const Seen&) { return answer(200, kNoWorkers); });
  Rig rig(server.url() + "/jobs/");
  CHECK(rig.client->workers());
  CHECK(server.seen().at(0).target == "/jobs/v1/workers");
}

TEST_CASE("every call reaches the next server of the list while one refuses connections") {
  const Refusing first;
  FakeServer second([](const Seen& seen) {
    return answer(200, seen.target == "/v1/workers" ? kNoWorkers : R"({"jobs":[]})");
  });
  Rig rig(first.url + "," + second.url(), 0s);
  CHECK(rig.client->claim({.worker = "w", .queues = {"q"}}, 0s, {}));  // the client repeats none
  CHECK(rig.client->workers());
  CHECK(rig.client->connections_made() == 1);  // the second call begins at the second server
}

TEST_CASE("a request that may have been executed is repeated only with a key") {
  FakeServer dying([](const Seen&) -> std::string { return ""; });
  FakeServer other([](const Seen& seen) {
    return answer(200, seen.target == "/v1/jobs" ? kMade : R"({"jobs":[]})");
  });
  Rig rig(dying.url() + "," + other.url(), 0s);
  CHECK_FALSE(rig.client->request("POST", "/v1/jobs/7/clone", "{}"));
  CHECK(other.seen().empty());
  CHECK(rig.client->claim({.worker = "w", .queues = {"q"}}, 0s, {}));  // goes to the next server
  CHECK(dying.seen().size() == 1);
  Rig keyed(dying.url() + "," + other.url(), 0s);
  CHECK(keyed.client->enqueue(one_job()));
  CHECK(dying.seen().at(1).key == other.seen().at(1).key);
}

TEST_CASE("a server that asks to come back later is left, one that refuses the token is not") {
  FakeServer draining([](const Seen&) {
    return answer(503, R"({"error":{"code":"unavailable"}})", "Retry-After: 9\r\n");
  });
  FakeServer strict([](const Seen&) {
    return answer(401, R"({"error":{"code":"unauthenticated"}})", "WWW-Authenticate: Bearer\r\n");
  });
  FakeServer last([](const Seen&) { return answer(200, R"({"jobs":[]})"); });
  Rig rig(draining.url() + "," + strict.url() + "," + last.url(), 0s);
  for (int i = 0; i < 2; ++i) {
    CHECK(rig.client->claim({.worker = "w", .queues = {"q"}}, 0s, {}).error().code ==
          ErrorCode::unauthenticated);
  }
  CHECK(draining.seen().size() == 1);
  CHECK(strict.seen().size() == 2);
  CHECK(last.seen().empty());
  Rig none(draining.url() + "," + draining.url(), 0s);
  CHECK(none.client->enqueue(one_job()).error().retry_after_ms == 9000);
}

TEST_CASE("calls are requests over one keep-alive connection") {
  FakeServer server([](const Seen& seen) {
    if (seen.target == "/v1/jobs") return answer(201, R"({"id":7,"state":"available"})");
    if (seen.target.starts_with("/v1/queues/"))
      return answer(200, R"({"name":"a/b","paused":true})");
    return answer(200, R"({"id":7,"state":"cancelled"})");
  });
  Rig rig(server.url());
  const auto made = rig.client->enqueue(one_job());
  REQUIRE(made.has_value());
  CHECK(made->jobs.at(0).id == 7);
  CHECK(rig.client->cancel({7, "why \"not\""})->state == JobState::cancelled);
  CHECK(rig.client->pause_queue({"a/b", true, false}).has_value());
  CHECK(rig.client->pause_queue({"a/b", true, true}).has_value());
  const std::vector<Seen> seen = server.seen();
  CHECK(seen[0].method == "POST");
  CHECK(seen[0].key.starts_with("auto-"));
  CHECK(seen[1].target == "/v1/jobs/7/cancel");
  CHECK(seen[1].body == R"({"reason":"why \"not\""})");
  CHECK(seen[2].target == "/v1/queues/a%2Fb/pause");
  CHECK(seen[3].target == "/v1/queues/a%2Fb/pause?create=true");
  CHECK(rig.client->connections_made() == 1);
}

TEST_CASE("a server's error is the caller's error") {
  FakeServer server([](const Seen& seen) {
    if (seen.target == "/v1/jobs") {
      return answer(
          400,
          R"({"error":{"code":"invalid_argument","message":"priority 12","field":"priority"}})");
    }
    if (seen.method == "GET")
      return answer(404, R"({"error":{"code":"not_found","message":"no"}})");
    return answer(502, "<html>a proxy</html>");
  });
  Rig rig(server.url(), 0s);
  const Error error = rig.client->enqueue(one_job()).error();
  CHECK(error.code == ErrorCode::invalid_argument);
  CHECK(error.field == "priority");
  CHECK(rig.client->get(1).error().code == ErrorCode::not_found);
  CHECK_FALSE(rig.client->retry({1}).has_value());
}

TEST_CASE("an enqueue is retried with one idempotency key until the server answers") {
  std::atomic<int> calls = 0;
  FakeServer server([&](const Seen&) -> std::string {
    switch (++calls) {
      case 1:
        return "";  // read, then the connection breaks: the outcome is unknown
      case 2:
        return answer(503, R"({"error":{"code":"unavailable","message":"stopping"}})");
      case 3:
        return answer(429, R"({"error":{"code":"overloaded","message":"full"}})");
      default:
        return answer(200, R"({"id":7,"state":"running","duplicate":true})");
    }
  });
  Rig rig(server.url());
  const auto made = rig.client->enqueue(one_job());
  REQUIRE(made.has_value());
  CHECK(made->jobs.at(0).duplicate);
  const std::vector<Seen> seen = server.seen();
  REQUIRE(seen.size() == 4);
  CHECK(seen[0].key == seen[3].key);
  CHECK(seen[0].body == seen[3].body);
}

TEST_CASE("an unreachable server is unavailable after the time for retries") {
  int port = 0;
  {
    FakeServer server([](const Seen&) { return answer(200, "{}"); });
    port = std::stoi(server.url().substr(server.url().rfind(':') + 1));
  }
  Rig rig(fmt::format("http://127.0.0.1:{}", port), 50ms);
  const Error error = rig.client->enqueue(one_job()).error();
  CHECK(error.code == ErrorCode::unavailable);
  CHECK(error.message.find("127.0.0.1") != std::string::npos);
}

TEST_CASE("an enqueue without a response is not reported as not done") {
  FakeServer server([](const Seen&) -> std::string { return ""; });
  Rig rig(server.url(), 50ms);
  const Error error = rig.client->enqueue(one_job()).error();
  CHECK(error.code == ErrorCode::timeout);
  CHECK(error.message.find("may have executed the request") != std::string::npos);
  CHECK(rig.client->get(7).error().code == ErrorCode::unavailable);  // a read changes nothing
}

TEST_CASE("a proxy whose server is unavailable is retried") {
  std::atomic<int> calls = 0;
  FakeServer server([&](const Seen&) {
    const int call = ++calls;
    if (call == 1) return answer(502, "bad gateway");
    if (call == 2) return answer(504, "no answer");
    if (call == 3) return answer(503, "<h1>no upstream</h1>");
    return answer(200, R"({"jobs":[{"id":7,"state":"available"}]})");
  });
  Rig rig(server.url());
  CHECK(rig.client->enqueue(one_job()));
  const std::vector<Seen> seen = server.seen();
  REQUIRE(seen.size() == 4);
  CHECK(seen[0].key == seen[3].key);
}

TEST_CASE("Retry-After is in seconds, or a date relative to the response's Date") {
  const std::string date = "Mon, 01 Jan 2001 00:00:00 GMT";
  CHECK(retry_after_seconds("7", "") == 7);
  CHECK(retry_after_seconds("Mon, 01 Jan 2001 00:00:09 GMT", date) == 9);
  CHECK(retry_after_seconds("Sun, 31 Dec 2000 23:59:59 GMT", date) == 0);
  CHECK(retry_after_seconds("Mon, 01 Jan 2001 00:00:09 GMT", "") == 0);
  for (const char* bad : {"", "soon", "-5", "1.5", "7s", "Mon, 01 Jan 2001 00:00:09 GMT+1"}) {
    CAPTURE(bad);
    CHECK(retry_after_seconds(bad, date) == 0);
  }
  CHECK(retry_after_seconds("99999999999", "") == 24 * 3600);
}

TEST_CASE("a keep-alive connection that the server closed is replaced silently") {
  FakeServer server(
      [](const Seen&) { return answer(200, R"({"workers":[]})", "Connection: close\r\n"); });
  Rig rig(server.url(), 0s);
  for (int i = 0; i < 5; ++i) CHECK(rig.client->workers().has_value());
  CHECK(rig.client->connections_made() == 5);
}

TEST_CASE("claims and renewals are not retried by the client") {
  FakeServer server([](const Seen&) -> std::string { return ""; });
  Rig rig(server.url());
  CHECK(rig.client->claim({.worker = "w", .queues = {"q"}}, 0s, {}).error().code ==
        ErrorCode::unavailable);
  CHECK(rig.client->renew({.worker = "w", .leases = {{1, 1, {}, {}}}}).error().code ==
        ErrorCode::unavailable);
  CHECK(server.seen().size() == 2);
}

TEST_CASE("a parked claim does not delay other calls, and a stop ends it at once") {
  std::latch parked(1);
  std::latch release(1);
  FakeServer server([&](const Seen& seen) {
    if (seen.target == "/v1/claim") {
      parked.count_down();
      release.wait();
      return answer(200, R"({"jobs":[]})");
    }
    return answer(200,
                  R"({"renewed":[{"id":1,"lease_expires_in_ms":30000}],"lost":[],"cancel":[]})");
  });
  Rig rig(server.url());
  std::stop_source stop;
  Result<ClaimResult> claimed{ClaimResult{}};
  std::thread claimer([&] {
    claimed = rig.client->claim({.worker = "w", .queues = {"q"}}, 60s, stop.get_token());
  });
  parked.wait();
  const auto renewed = rig.client->renew({.worker = "w", .leases = {{1, 1, {}, {}}}});
  REQUIRE(renewed.has_value());
  CHECK(renewed->renewed.at(0).lease == Duration(30s));
  stop.request_stop();
  claimer.join();
  CHECK(claimed.has_value());
  CHECK(claimed->jobs.empty());
  release.count_down();
}

TEST_CASE("jobs that arrive while a claim is stopped are not lost") {
  std::stop_source stop;
  FakeServer server([&](const Seen&) {
    stop.request_stop();
    return answer(200, R"({"jobs":[{"id":3,"token":9,"attempt":1,"max_attempts":20,"queue":"q",)"
                       R"("kind":"k","args":{},"priority":5,"run_at":"2026-01-01T00:00:00Z",)"
                       R"("timeout_ms":null,"lease_expires_in_ms":30000}]})");
  });
  Rig rig(server.url());
  const auto claimed = rig.client->claim({.worker = "w", .queues = {"q"}}, 60s, stop.get_token());
  REQUIRE(claimed.has_value());
  REQUIRE(claimed->jobs.size() == 1);
  CHECK(claimed->jobs[0].token == 9);
}

TEST_CASE("a claimed job that cannot be read is reported dead, and the others run") {
  std::string finished;
  FakeServer server([&](const Seen& seen) {
    if (seen.target == "/v1/finish") {
      finished = seen.body;
      return answer(200, R"({"results":[{"id":3,"status":"ok"}]})");
    }
    return answer(200, R"({"jobs":[{"id":3,"token":9,"queue":"q","kind":"k","args":{"n":1e400}},)"
                       R"({"id":4,"token":9,"queue":"q","kind":"k","args":{}}]})");
  });
  Rig rig(server.url());
  const auto claimed = rig.client->claim({.worker = "w", .queues = {"q"}}, 60s, {});
  REQUIRE(claimed.has_value());
  REQUIRE(claimed->jobs.size() == 1);
  CHECK(claimed->jobs[0].id == 4);
  CAPTURE(finished);
  CHECK(finished.find("job.args.n 1e400: must be") != std::string::npos);
}

TEST_CASE("calls on leases and schedules are requests, also for names with a slash") {
  FakeServer server([](const Seen& seen) {
    if (seen.target.starts_with("/v1/leases?")) return answer(200, R"({"leases":[]})");
    if (seen.target.starts_with("/v1/leases/"))
      return answer(200, R"({"name":"a/b","token":7,"expires_in_ms":15000,"value":[1]})");
    if (seen.target.ends_with("/trigger")) return answer(201, R"({"job":9})");
    if (seen.target.ends_with("/backfill"))
      return answer(200, R"({"fired":2,"skipped":1,"next":"2026-01-01T00:00:00Z"})");
    if (seen.method == "PUT")
      return answer(201, R"({"outcome":"created","version":4,"name":"a/b"})");
    return answer(200, R"({"ticks":[],"schedules":[],"next_cursor":null})");
  });
  Rig rig(server.url());
  const WallTime t = *parse_wall_time("2026-01-01T00:00:00Z");
  const auto grant = rig.client->acquire_lease({.name = "a/b", .holder = "h"}, 0s, {});
  REQUIRE(grant);
  CHECK(grant->token == 7);
  CHECK(grant->value == "[1]");
  CHECK(rig.client->renew_lease({.name = "a/b", .holder = "h", .token = 7, .value = "2"}));
  CHECK(rig.client->release_lease({.name = "a/b", .holder = "h", .token = 7}));
  CHECK(rig.client->get_lease("a/b"));
  CHECK(rig.client->leases("a/a", 5));
  Schedule schedule;
  schedule.name = "a/b";
  schedule.every = 5min;
  schedule.job.kind = "k";
  const auto put = rig.client->put_schedule(schedule, true);
  REQUIRE(put);
  CHECK(put->version == 4);
  CHECK(put->outcome == PutOutcome::created);
  CHECK(rig.client->pause_schedule({.name = "a/b", .paused = true, .reason = "r"}));
  CHECK(rig.client->pause_schedule({.name = "a/b", .paused = false, .reason = {}}));
  CHECK(rig.client->set_timer({.name = "a/b", .timeout = 5min}));
  const auto fired = rig.client->trigger_schedule("a/b", TickSource::trigger, Overlap::allow);
  REQUIRE(fired);
  CHECK(fired->jobs == std::vector<JobId>{9});
  const auto filled = rig.client->backfill_schedule({"a/b", t, t + 1h, std::nullopt});
  REQUIRE(filled);
  CHECK(filled->fired == 2);
  CHECK(filled->next == t);
  CHECK(rig.client->schedules("", 10));
  CHECK(rig.client->ledger("a/b", 10, 44));
  CHECK(rig.client->preview_schedule("a/b", t, 3));
  CHECK(rig.client->remove_schedule("a/b"));
  std::vector<std::string> lines;
  for (const Seen& seen : server.seen()) lines.push_back(seen.method + " " + seen.target);
  CHECK(lines == std::vector<std::string>{
                     "POST /v1/leases/a%2Fb/acquire", "POST /v1/leases/a%2Fb/renew",
                     "POST /v1/leases/a%2Fb/release", "GET /v1/leases/a%2Fb",
                     "GET /v1/leases?limit=5&after=a%2Fa", "PUT /v1/schedules/a%2Fb",
                     "POST /v1/schedules/a%2Fb/pause", "POST /v1/schedules/a%2Fb/resume",
                     "PUT /v1/schedules/a%2Fb/timer", "POST /v1/schedules/a%2Fb/trigger",
                     "POST /v1/schedules/a%2Fb/backfill", "GET /v1/schedules?limit=10",
                     "GET /v1/schedules/a%2Fb/ledger?limit=10&cursor=44",
                     "GET /v1/schedules/a%2Fb/preview?count=3&from=2026-01-01T00%3A00%3A00Z",
                     "DELETE /v1/schedules/a%2Fb"});
  CHECK(server.seen().at(5).body.ends_with(R"("paused":true})"));
}

TEST_CASE("a run that the server may have started is not requested again, a refused one is") {
  std::atomic<int> calls = 0;
  FakeServer server([&](const Seen& seen) -> std::string {
    if (seen.target.starts_with("/v1/schedules/broken/")) return "";
    if (++calls == 1)
      return answer(503, R"({"error":{"code":"unavailable","message":"stopping"}})");
    return answer(201, R"({"job":9})");
  });
  Rig rig(server.url());
  CHECK(rig.client->trigger_schedule("s", TickSource::wake, std::nullopt)->fired == 1);
  CHECK(server.seen().size() == 2);
  const auto broken = rig.client->trigger_schedule("broken", TickSource::trigger, std::nullopt);
  CHECK(broken.error().code ==
        ErrorCode::timeout);         // not `unavailable`, which would mean that nothing was done
  CHECK(server.seen().size() == 3);  // also not over a keep-alive connection
}

TEST_CASE("a run that was skipped is an answer, not an error") {
  FakeServer server([](const Seen&) {
    return answer(409, R"({"error":{"code":"conflict","message":"overlap: job 3 has not ended"}})");
  });
  Rig rig(server.url());
  const auto fired = rig.client->trigger_schedule("s", TickSource::trigger, std::nullopt);
  REQUIRE(fired);
  CHECK(fired->skipped == 1);
  CHECK(fired->jobs == std::vector<JobId>{0});
}

TEST_CASE("an acquire is retried during its wait, and a stop ends it at once") {
  std::latch parked(1);
  std::latch release(1);
  std::atomic<int> calls = 0;
  FakeServer server([&](const Seen&) -> std::string {
    const std::string held =
        answer(409, R"({"error":{"code":"lease_held","message":"w has it","retry_after_ms":5}})");
    switch (++calls) {
      case 1:
        return "";  // unknown whether the lease was granted: the same holder asks again
      case 2:
        return held;  // before the end of the wait: the server stops
      case 3:
        return answer(200, R"({"token":7,"expires_in_ms":15000,"held":true})");
      case 4:
        return held;
      default:
        parked.count_down();
        release.wait();
        return held;
    }
  });
  Rig rig(server.url());
  const auto grant = rig.client->acquire_lease({.name = "a", .holder = "h"}, 20s, {});
  REQUIRE(grant);
  CHECK(grant->token == 7);
  CHECK(calls == 3);
  CHECK(rig.client->acquire_lease({.name = "a", .holder = "h"}, 0s, {}).error().code ==
        ErrorCode::lease_held);
  std::stop_source stop;
  std::thread stopper([&] {
    parked.wait();
    stop.request_stop();
  });
  CHECK(
      rig.client->acquire_lease({.name = "a", .holder = "h"}, 1h, stop.get_token()).error().code ==
      ErrorCode::lease_held);
  stopper.join();
  release.count_down();
}

TEST_CASE("bodies of many megabytes go through, both ways") {
  const std::string big(3 << 20, 'x');
  FakeServer server(
      [&](const Seen& seen) { return answer(200, fmt::format("\"{}\"", seen.body)); });
  Rig rig(server.url());
  const auto body = rig.client->request("POST", "/v1/echo", big);
  REQUIRE(body.has_value());
  CHECK(body->size() == big.size() + 2);
}

TEST_CASE("responses that are not HTTP, too long or truncated are errors, not crashes") {
  int n = 0;
  FakeServer server([&](const Seen&) -> std::string {
    switch (++n) {
      case 1:
        return "SSH-2.0-OpenSSH\r\n\r\n";
      case 2:
        return "HTTP/1.1 200 OK\r\nX: " + std::string(200'000, 'y') + "\r\n\r\n";
      default:
        return "HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\nhalf";
    }
  });
  Rig rig(server.url(), 0s);
  for (int i = 0; i < 3; ++i) CHECK_FALSE(rig.client->request("GET", "/x", "").has_value());
}

TEST_CASE("a chunked response is assembled") {
  FakeServer server([](const Seen&) -> std::string {
    return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n "
           "world\r\n0\r\n\r\n";
  });
  Rig rig(server.url());
  for (int i = 0; i < 3; ++i) CHECK(*rig.client->request("GET", "/x", "") == "hello world");
  CHECK(rig.client->connections_made() == 1);
}

TEST_CASE("all errors in the options are named at once") {
  ClientOptions options;
  options.url = "ftp://x";
  options.read_timeout = 0s;
  options.retry_for = Duration(-1);
  CHECK(options.validate().size() == 3);
}
