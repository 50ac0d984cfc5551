// HttpServer: the HTTP API of one node, on Boost.Asio, with callbacks.
//
//   sockets ─▶ io thread: parse, plan ──submit──▶ broker ──answers──▶ mailbox ─▶ io thread: reply
//                              └──────read──────▶ reader threads ───────┘
//
// The io thread never waits. Changes go through the broker; reads of the store, and the parsing of
// large bodies, go to a small pool of reader threads. A parked claim costs its socket and about 300
// bytes, without a timer or a buffer. Several servers may run in one process.
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
#include "http/shown_setting.h"
#include "scale/pools.h"
#include "store/store.h"
#include "store/store_size.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace mainspring {

class Broker;
class Leadership;
class LinkKeys;
class TlsServer;

struct HttpOptions {
  std::string host = "127.0.0.1";  // an address, or "localhost"
  std::uint16_t port = 8080;       // 0 = any free one, see HttpServer::port()
  // Uses a socket in the file system instead, which only its owner may use (0600); `host` and
  // `port` are ignored then. A socket of a dead server is replaced. The socket is removed at the
  // stop.
  std::string unix_path;
  // Speaks TLS; a connection keeps the TLS context it started with. nullptr = plain. Outlives the
  // server.
  const TlsServer* tls = nullptr;
  // For a node of a cluster: requests are relayed to the node that leads, and relayed requests of
  // other nodes are accepted. nullptr = this server stands alone. Both or none; they outlive the
  // server.
  Leadership* leadership = nullptr;
  const LinkKeys* links = nullptr;
  // Names allowed in a Host header, besides loopback names and the address itself. Protects against
  // DNS rebinding: a foreign name that resolves to this server is refused.
  std::vector<std::string> allowed_hosts;

  // Threads that serve sockets. Raise on machines with many cores when one is at 100 %.
  int io_threads = 1;
  // Threads that read the store (get, list, queues, verify). Writes continue meanwhile.
  int reader_threads = 2;
  std::size_t max_waiting_reads = 4096;  // beyond: overloaded

  std::size_t max_connections = 20'000;  // beyond: answered 503 and closed
  std::size_t max_header_bytes = 16 << 10;
  std::size_t max_body_bytes = 1 << 20;         // of requests about one object
  std::size_t max_batch_body_bytes = 16 << 20;  // of enqueue, finish, renew
  // Bodies and answers in memory, all connections together; shares: see Room. Beyond: overloaded.
  std::size_t max_buffered_bytes = 512 << 20;
  // Bodies of this size and more are parsed by the reader threads, so that other requests do not
  // wait for them.
  std::size_t large_body_bytes = 64 << 10;

  Duration header_timeout = std::chrono::seconds(10);  // first to last byte of a head
  Duration idle_timeout = std::chrono::seconds(60);    // between requests
  // Rate of an arriving body or an outgoing reply, in each 10 s.
  std::size_t min_bytes_per_second = 1024;

  // -- access: callers with a valid token; without one, peers on this machine (loopback addresses,
  // unix sockets)
  bool require_token = false;  // also from peers on this machine
  // Requests per second of a token without its own rate. 0 = unlimited.
  int rate_per_token = 0;
  // Requests without a valid token that an address may send before it must wait; one is forgotten
  // every 6 s.
  int free_failures = 10;
  // Signs and checks job tokens: the same for all servers of a store. Empty = no job tokens.
  Secret job_token_key = {};
  // Also writes an audit record for each request that enqueues, claims or finishes, not only for
  // changes that people make.
  bool audit_all = false;
  // Connections of one remote address; beyond: answered 503 and closed. Raise for many workers that
  // share an address.
  std::size_t max_connections_per_address = 1024;

  // Logs a line of level debug for each request.
  bool log_requests = false;

  // Concurrent event streams; beyond: overloaded.
  std::size_t max_event_streams = 1000;
  // Interval of the heartbeat in a stream without events.
  Duration event_heartbeat = std::chrono::seconds(15);

  std::string version = "0.1.0";  // of the program, for GET /v1/version
  // The text of GET /readyz about the store; "" = none.
  std::string durability = "every commit is synced to disk before it is answered";
  // For a shared store: why this node should get no requests now; nullopt = it should. Called by
  // every GET /readyz, on any thread; must not block. And the store's state as JSON, which may read
  // the database.
  std::function<std::optional<std::string>()> unready;
  std::function<std::string()> store_state;

  // Further parts of GET /healthz?verbose. Each is called on a reader thread, at most once per
  // second, and must be bounded in time.
  std::vector<std::function<HealthPart()>> health_parts;

  // Pools of GET /v1/scale; their windows are on the timeline of schedules.
  ScalePools scale_pools;

  // What GET /v1/settings shows.
  std::vector<ShownSetting> settings;
  // What GET /v1/store shows. Called on a reader thread, at most once in 10 s; must be bounded in
  // time.
  std::function<Result<StoreSize>()> store_size;

  // Called when a verification found no problem, on a reader thread. May be empty.
  std::function<void()> verified;

  // Checks whether a callback may go to this URL; the error has the field url. Called by requests
  // that enqueue, on any thread; must not block. Empty: every URL is allowed.
  std::function<Result<void>(const std::string& url)> check_callback;

  // All mistakes; empty = none.
  std::vector<Error> validate() const;
};

class HostControl;
// Options of the routes of job folders.
struct HostRoutes {
  bool webjobs_api = false;                     // also the routes of Azure WebJobs, below /api
  std::size_t max_upload_bytes = 256ULL << 20;  // of a job's file or zip
  int threads = 4;                              // that read and write job folders
};

class TestControl;

class HttpServer {
 public:
  // All outlive the server. Metrics are registered in `registry`.
  HttpServer(HttpOptions options, Broker& broker, const Store& store, const Clock& clock, Log& log,
             Registry& registry);
  ~HttpServer();  // stops without grace
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Also serves job folders: /v1/host and optionally the WebJobs API. Before start(). `host`
  // outlives the server's stop().
  void serve_host(HostControl& host, HostRoutes host_routes);

  // Also serves /v1/test, and injects the faults of `test`. Before start(); not with the WebJobs
  // API. `test` outlives the server's stop().
  void serve_test(TestControl& test);

  // Binds and serves. May be called once. Errors: invalid_argument (the first of validate()),
  // conflict (the address is in use), io_error.
  Result<void> start();
  // The bound port; 0 before start() and for a unix socket.
  std::uint16_t port() const;
  // http://HOST:PORT or https://HOST:PORT, as bound; unix:PATH.
  std::string url() const;

  // From now on /readyz returns 503, so that load balancers avoid this node; all else continues.
  // Also for a store that failed: `why` is shown.
  void set_not_ready(std::string why);
  // Closes the listening socket. New connections are refused.
  void stop_accepting();
  // Calls stop_accepting(), answers parked claims empty (Broker::stop_claims) and waiting reads
  // with the current state, lets running requests finish for up to `grace`, then closes every
  // connection and joins the threads. Blocks. May be called twice, and before start.
  void stop(Duration grace);

  // Calls `turned` once, on an I/O thread, after every I/O thread has run its loop. For health
  // checks: a thread that hangs delays the call. Between start() and stop(); thread-safe.
  void ping(std::function<void()> turned);

  std::size_t connections() const;
  // The document at /openapi.json.
  static std::string openapi(std::string_view version);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainspring
