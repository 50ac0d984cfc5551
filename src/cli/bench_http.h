// HttpLoad: a server in this process on a real socket, and a client that costs as little as
// possible.
//
// The client is one thread with epoll and raw sockets: prebuilt requests, answers scanned for their
// length and for "id" and "token". A lifecycle is two requests per batch: an enqueue, and a finish
// of the previously claimed batch that claims the next one.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cli/bench_local.h"
#include "http/server.h"

namespace mainspring::cli::bench {

// A node with an HTTP server on a free port.
class LocalServer {
 public:
  static Result<std::unique_ptr<LocalServer>> open(const Plan& plan, const std::string& name);
  ~LocalServer();
  LocalNode& node() { return *node_; }
  std::uint16_t port() const { return server_->port(); }
  std::string url() const { return server_->url(); }

 private:
  LocalServer() = default;
  std::unique_ptr<LocalNode> node_;
  SystemClock clock_;
  StderrLog log_{LogLevel::error};
  std::unique_ptr<HttpServer> server_;
};

// A connected TCP socket without delay. Errors: io_error.
Result<int> connect_loopback(std::uint16_t port);
// A request as sent over the network.
std::string http_request(std::string_view method, std::string_view path, std::string_view body);
// Sends one request on a blocking socket; returns the status. Errors: io_error.
Result<int> exchange(int fd, std::string_view request, std::string& buffer);

class HttpLoad {
 public:
  HttpLoad(std::uint16_t port, const LoadOptions& options);
  ~HttpLoad();
  Result<void> start();
  std::int64_t done() const { return done_.load(std::memory_order_relaxed); }
  Result<void> stop();

 private:
  struct Connection {
    int fd = -1;
    std::string worker;
    std::string out;
    std::size_t sent = 0;
    std::string in;
    bool enqueued = false;  // the current request is the enqueue
    bool waits_for_room = false;
    std::string finish;  // body of the next finish, "" = nothing claimed yet
    int claimed = 0;     // jobs in it
  };
  void run();
  void next_request(Connection& connection);
  bool flush(Connection& connection);
  void watch(Connection& connection, bool for_room);
  bool receive(Connection& connection);
  bool answered(Connection& connection, std::string_view head, std::string_view body);
  bool fail(std::string message);

  const std::uint16_t port_;
  const LoadOptions options_;
  std::string enqueue_;  // the whole request
  std::vector<Connection> connections_;
  int epoll_ = -1;
  std::atomic<std::int64_t> done_{0};
  std::atomic<bool> stopping_{false};
  std::string failed_;  // set by the thread; read after it is joined
  std::thread thread_;
};

}  // namespace mainspring::cli::bench
