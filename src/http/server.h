// HttpServer: the HTTP API of one node, on Boost.Asio, as callbacks.
//
//   sockets ─▶ io thread: parse, plan ──submit──▶ broker ──answers──▶ mailbox ─▶ io thread: reply
//                              └──────read──────▶ reader threads ───────┘
//
// The io thread never waits: changes go through the broker, reads of the store (and the parsing of
// large bodies) to a small pool of reader threads. A parked claim costs its socket and some 300
// bytes; there is no timer and no buffer for it. Several servers may live in one process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/secret.h"
#include "env/clock.h"
#include "http/health_part.h"
#include "store/store.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace mainspring {

class Broker;
class TlsServer;

struct HttpOptions {
  std::string host = "127.0.0.1";  // an address, or "localhost"
  std::uint16_t port = 8080;       // 0 = any free one, see HttpServer::port()
  // A socket in the file system instead, which only its owner may use (0600); then host and port
  // mean nothing. One that a dead server left is replaced; it goes when the server stops.
  std::string unix_path;
  // Speaks TLS, each connection with the context of its beginning; nullptr = plain. Outlives the
  // server.
  const TlsServer* tls = nullptr;
  // Names that a Host header may have, beside loopback ones and the address itself. A browser that
  // was lured to a name pointing here (DNS rebinding) is refused by this.
  std::vector<std::string> allowed_hosts;

  // Threads that serve sockets. Raise on machines with many cores when one is at 100 %.
  int io_threads = 1;
  // Threads that read the store (get, list, queues, verify). Writes go on meanwhile.
  int reader_threads = 2;
  std::size_t max_waiting_reads = 4096;  // beyond: overloaded

  std::size_t max_connections = 20'000;  // beyond: answered 503 and closed
  std::size_t max_header_bytes = 16 << 10;
  std::size_t max_body_bytes = 1 << 20;         // of requests about one thing
  std::size_t max_batch_body_bytes = 16 << 20;  // of enqueue, finish, renew
  // Bodies that are arriving or being parsed, all connections together. Beyond: overloaded.
  std::size_t max_buffered_bytes = 512 << 20;
  // Bodies from this size on are parsed by the reader threads, so that others do not wait for them.
  std::size_t large_body_bytes = 64 << 10;

  Duration header_timeout = std::chrono::seconds(10);  // first to last byte of a head
  Duration idle_timeout = std::chrono::seconds(60);    // between requests
  // Of a body that arrives or a reply that is taken, on average, after 10 s.
  std::size_t min_bytes_per_second = 1024;

  // -- who comes in: whoever presents a token that is good, and, without one, peers on this machine
  // (loopback addresses, unix sockets)
  bool require_token = false;  // of those too
  // Requests per second of one token that has no rate of its own. 0 = without limit.
  int rate_per_token = 0;
  // Requests without a good token that an address may send before it is told to wait; one is
  // forgotten every 6 s.
  int free_failures = 10;
  // Signs job tokens, and checks them: the same for all servers of a store. Empty = there are none.
  Secret job_token_key = {};
  // A record in the audit for each request that enqueues, claims or finishes too, not only for
  // changes that people make.
  bool audit_all = false;
  // Of one address that is not on this machine; beyond: answered 503 and closed. Raise for many
  // workers behind one address.
  std::size_t max_connections_per_address = 1024;

  // Streams of events at once; beyond: overloaded.
  std::size_t max_event_streams = 1000;
  // A stream with nothing to tell says so, so often.
  Duration event_heartbeat = std::chrono::seconds(15);

  std::string version = "0.1.0";  // of the program, for GET /v1/version
  // What GET /readyz says of the store; "" = nothing.
  std::string durability = "every commit is synced to disk before it is answered";
  // Of a shared store: why this node should get no requests now, if it should not; called by every
  // GET /readyz, on any thread, and must not block. And its state, as JSON, which may ask the
  // database.
  std::function<std::optional<std::string>()> unready;
  std::function<std::string()> store_state;

  // Parts of GET /healthz?verbose that the server does not know by itself. Each is called on a
  // reader thread, at most once in a second, and must be bounded.
  std::vector<std::function<HealthPart()>> health_parts;

  // May a callback go to this URL? Field url of what it answers; called by requests that enqueue,
  // on any thread, and must not block. Empty: any may.
  std::function<Result<void>(const std::string& url)> check_callback;

  // All mistakes; empty = none.
  std::vector<Error> validate() const;
};

class HostControl;
// What a server shows of job folders.
struct HostRoutes {
  bool webjobs_api = false;                     // the routes of Azure WebJobs too, below /api
  std::size_t max_upload_bytes = 256ULL << 20;  // of a job's file or zip
  int threads = 4;                              // that read and write job folders
};

class TestControl;

class HttpServer {
 public:
  // All outlive the server. Metrics are registered in `registry`.
  HttpServer(HttpOptions options, Broker& broker, const Store& store, const Clock& clock, Log& log,
             Registry& registry);
  ~HttpServer();  // stops, with no grace
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Serves job folders too: /v1/host and, if wanted, the WebJobs API. Before start(). `host`
  // outlives the server's stop().
  void serve_host(HostControl& host, HostRoutes host_routes);

  // Serves /v1/test too, and meets requests with the faults of `test`. Before start(); not with the
  // WebJobs API. `test` outlives the server's stop().
  void serve_test(TestControl& test);

  // Binds and serves. Once. Errors: invalid_argument (the first of validate()), conflict (the
  // address is in use), io_error.
  Result<void> start();
  // The bound port; 0 before start() and of a unix socket.
  std::uint16_t port() const;
  // http://HOST:PORT or https://HOST:PORT, as bound; unix:PATH.
  std::string url() const;

  // From now on /readyz says 503, so that balancers turn away; all else goes on. Also for a store
  // that failed: `why` is shown.
  void set_not_ready(std::string why);
  // Closes the listening socket. New connections are refused.
  void stop_accepting();
  // stop_accepting(), answers parked claims empty (Broker::stop_claims) and waiting reads with the
  // present state, lets running requests finish for up to `grace`, then closes every connection and
  // joins the threads. May be called twice, before start too; waits.
  void stop(Duration grace);

  // Calls `turned` once, on an I/O thread, when every I/O thread has run its loop since. For health
  // checks: one that hangs delays the call. Between start() and stop(), from every thread.
  void ping(std::function<void()> turned);

  std::size_t connections() const;
  // The document at /openapi.json.
  static std::string openapi(std::string_view version);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainspring
