// Support for tests of the server: a real node in a temporary directory, and a literal HTTP peer.
//
// With MAINSPRING_TEST_TLS=1 in the environment everything uses TLS, so that each HTTP test also
// covers TLS.
#pragma once

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "api/shapes.h"
#include "broker/broker.h"
#include "disk_sqlite/sqlite_store.h"
#include "env/clock.h"
#include "env/random.h"
#include "http/server.h"
#include "model/token_text.h"
#include "scheduler/scheduler.h"
#include "tls/tls_testing.h"

namespace mainspring::test {

class TempDir {
 public:
  TempDir() {
    std::string name = std::filesystem::temp_directory_path() / "mainspring-http-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// The system's clock, which a test can set forward while the server runs.
class MovedClock final : public Clock {
 public:
  Now now() const override {
    const Now now = SystemClock().now();
    const Duration moved(moved_us_.load());
    return {.instant = now.instant + moved, .wall = now.wall + moved};
  }
  void advance(Duration by) { moved_us_ += by.count(); }

 private:
  std::atomic<std::int64_t> moved_us_ = 0;
};

// A log line of level error fails the test.
class StrictLog final : public Log {
 public:
  void write(LogLevel level, std::string_view message, const Fields& fields) override {
    if (level == LogLevel::debug && message == "request") requests_ += fields.size() == 4 ? 1 : 0;
    if (level == LogLevel::debug && message == "batch") ++batches_;
    const char* const expected = expected_;
    if (level != LogLevel::error) return;
    if (expected == nullptr || !message.starts_with(expected)) FAIL_CHECK(std::string(message));
  }
  // Allows messages that start with this text; of static lifetime.
  void expect(const char* message) { expected_ = message; }
  int requests() const { return requests_; }  // logged ones
  int batches() const { return batches_; }

 private:
  std::atomic<const char*> expected_ = nullptr;
  std::atomic<int> requests_ = 0, batches_ = 0;
};

inline bool over_tls() {
  return std::getenv("MAINSPRING_TEST_TLS") != nullptr;
}

// The TLS setup of all test servers; a client accepts it for localhost.
struct TestTls {
  TestTls() {
    certificates.issue("server", {"localhost", "127.0.0.1"});
    server = *TlsServer::open(certificates.server());
    client = *make_client_context(certificates.client());
  }
  mainspring::testing::Certificates certificates;
  std::unique_ptr<TlsServer> server;
  std::shared_ptr<SSL_CTX> client;
};
inline TestTls& test_tls() {
  static TestTls tls;
  return tls;
}

struct TestServer {
  explicit TestServer(HttpOptions options = {}, BrokerOptions broker_options = {},
                      HostControl* host = nullptr, HostRoutes host_routes = {}) {
    SqliteOptions sqlite;
    sqlite.directory = directory.path() + "/data";
    auto opened = open_sqlite_store(sqlite, clock.now(), log);
    REQUIRE_MESSAGE(opened.has_value(), opened.error().message);
    store = std::move(*opened);
    broker = std::make_unique<Broker>(*store, clock, log, registry, broker_options);
    scheduler = std::make_unique<Scheduler>(*broker, clock, log, registry);
    options.port = 0;
    if (over_tls() && options.tls == nullptr) options.tls = test_tls().server.get();
    server = std::make_unique<HttpServer>(options, *broker, *store, clock, log, registry);
    if (host != nullptr) server->serve_host(*host, host_routes);
    broker->start();
    scheduler->start();
    auto started = server->start();
    REQUIRE_MESSAGE(started.has_value(), started.error().message);
  }
  ~TestServer() {
    server->stop(std::chrono::seconds(5));
    scheduler->stop();
    broker->stop();
  }

  TempDir directory;
  MovedClock clock;
  StrictLog log;
  Registry registry;
  std::unique_ptr<Store> store;
  std::unique_ptr<Broker> broker;
  std::unique_ptr<Scheduler> scheduler;
  std::unique_ptr<HttpServer> server;
};

// Bytes of bodies and answers that the server holds.
inline std::size_t buffered_bytes(const TestServer& server) {
  static const std::string kName = "\nmainspring_http_buffered_bytes ";
  const std::string metrics = server.registry.render();
  return static_cast<std::size_t>(std::stod(metrics.substr(metrics.find(kName) + kName.size())));
}

struct Answer {
  int status = 0;  // 0 = the connection ended
  std::map<std::string, std::string> headers;
  std::string body;
};

// One connection. Reads give up after 30 s, so that a broken server fails and does not hang.
class Peer {
 public:
  explicit Peer(std::uint16_t port, SSL_CTX* tls = over_tls() ? test_tls().client.get() : nullptr)
      : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    const timeval limit{30, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (tls == nullptr || !connected_) return;
    ssl_ = SSL_new(tls);
    attach_socket(ssl_, fd_);
    expect_host(ssl_, "localhost");
    SSL_connect(ssl_);  // if it fails, all later calls fail too
  }
  explicit Peer(TestServer& server) : Peer(server.server->port()) { REQUIRE(connected_); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  Peer(Peer&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)),
        ssl_(std::exchange(other.ssl_, nullptr)),
        connected_(other.connected_),
        in_(other.in_) {}
  ~Peer() { close(); }

  bool connected() const { return connected_; }
  SSL* ssl() { return ssl_; }
  int fd() const { return fd_; }
  void close() {
    SSL_free(std::exchange(ssl_, nullptr));
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  void send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ssl_ != nullptr
                               ? SSL_write(ssl_, text.data(), static_cast<int>(text.size()))
                               : ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  static std::string request(std::string_view method, std::string_view target,
                             std::string_view body = "", std::string_view headers = "") {
    std::string out = std::string(method) + " " + std::string(target) +
                      " HTTP/1.1\r\nHost: localhost\r\n" + std::string(headers);
    if (!body.empty()) {
      out += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
             "\r\n";
    }
    return out + "\r\n" + std::string(body);
  }
  Answer call(std::string_view method, std::string_view target, std::string_view body = "",
              std::string_view headers = "") {
    send(request(method, target, body, headers));
    return receive(method == "HEAD");
  }
  // Skips 100 Continue only if it is asked to.
  Answer receive(bool head_only = false) {
    Answer out;
    std::size_t end = 0;
    while ((end = in_.find("\r\n\r\n")) == std::string::npos) {
      if (!fill()) return out;
    }
    out.status = std::stoi(in_.substr(9, 3));
    std::size_t at = in_.find("\r\n") + 2;
    while (at < end + 2) {
      const std::size_t line_end = in_.find("\r\n", at);
      const std::string line = in_.substr(at, line_end - at);
      out.headers[line.substr(0, line.find(':'))] = line.substr(line.find(':') + 2);
      at = line_end + 2;
    }
    in_.erase(0, end + 4);
    const auto length = out.headers.find("Content-Length");
    const std::size_t bytes =
        head_only || length == out.headers.end() ? 0 : std::stoul(length->second);
    while (in_.size() < bytes) {
      if (!fill()) return {};
    }
    out.body = in_.substr(0, bytes);
    in_.erase(0, bytes);
    return out;
  }
  // The next chunk of a chunked body; "" = the last one. "cut" if the connection ended.
  std::string chunk() {
    std::size_t end = 0;
    while ((end = in_.find("\r\n")) == std::string::npos) {
      if (!fill()) return "cut";
    }
    const std::size_t bytes = std::stoul(in_.substr(0, end), nullptr, 16);
    while (in_.size() < end + 2 + bytes + 2) {
      if (!fill()) return "cut";
    }
    const std::string out = in_.substr(end + 2, bytes);
    in_.erase(0, end + 2 + bytes + 2);
    return out;
  }
  // Reads until the connection ends.
  std::string rest() {
    while (fill()) {
    }
    return std::exchange(in_, {});
  }
  // Returns whether the server has closed and all input is read.
  bool ended() { return in_.empty() && !fill(); }

 private:
  bool fill() {
    char buffer[65536];
    const ssize_t got = ssl_ != nullptr ? SSL_read(ssl_, buffer, sizeof buffer)
                                        : ::recv(fd_, buffer, sizeof buffer, 0);
    if (got <= 0) return false;
    in_.append(buffer, static_cast<std::size_t>(got));
    return true;
  }

  int fd_;
  SSL* ssl_ = nullptr;
  bool connected_ = false;
  std::string in_;
};

// -- what an answer says

inline std::string code_of(const Answer& answer) {
  return std::string(decode_error(answer.status, answer.body).name());
}
inline std::string field_of(const Answer& answer) {
  return decode_error(answer.status, answer.body).field;
}
inline std::string message_of(const Answer& answer) {
  return decode_error(answer.status, answer.body).message;
}
inline bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

struct Refusal {
  std::string_view method, target, body;
  int status;
  std::string_view code, field;
};
inline void check_refusals(Peer& peer, std::initializer_list<Refusal> refusals) {
  for (const Refusal& c : refusals) {
    CAPTURE(c.method);
    CAPTURE(c.target);
    CAPTURE(c.body);
    const Answer answer = peer.call(c.method, c.target, c.body);
    CAPTURE(answer.body);
    CHECK(answer.status == c.status);
    CHECK(code_of(answer) == c.code);
    CHECK(field_of(answer) == c.field);
  }
}

inline int threads_of_process() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Threads:")) return std::stoi(line.substr(8));
  }
  return 0;
}

// Waits for the broker, without a fixed sleep.
template <class Condition>
void wait_until(Condition condition) {
  const SystemClock clock;
  const Instant limit = clock.now().instant + std::chrono::minutes(1);
  while (!condition()) {
    REQUIRE(clock.now().instant < limit);
    std::this_thread::yield();
  }
}

// Creates a token with `scopes` ("read admin=photos") and returns its text. Two tokens of a server
// need different names.
inline std::string new_token(TestServer& s, const std::string& scopes,
                             const std::string& name = "t") {
  SystemRandom random;
  const Secret text = make_token_text(random);
  TokenRecord record;
  record.name = name;
  record.digest = *digest_of_token(text.reveal());
  record.scopes = *Scopes::parse(scopes);
  std::atomic<int> done = 0;
  s.broker->submit(CreateToken{record}, [&](const OperationResult& result) {
    done = std::holds_alternative<Error>(result) ? 2 : 1;
  });
  wait_until([&] { return done != 0; });
  REQUIRE(done == 1);
  return text.reveal();
}

// The same, as a header line.
inline std::string scoped_token(TestServer& s, const std::string& scopes,
                                const std::string& name = "t") {
  return "Authorization: Bearer " + new_token(s, scopes, name) + "\r\n";
}

}  // namespace mainspring::test
