// serve: runs a node with HTTP until a signal.
#include "cli/serve.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <limits>

#include "api/access_shapes.h"
#include "broker/broker.h"
#include "cli/cluster.h"
#include "cli/exposure.h"
#include "cli/handlers.h"
#include "cli/health_parts.h"
#include "cli/host.h"
#include "cli/process_metrics.h"
#include "cli/serve_test.h"
#include "cli/server_settings.h"
#include "cli/shared_store.h"
#include "cli/store_metrics.h"
#include "cli/support.h"
#include "cli/tls_reload.h"
#include "cli/version.h"
#include "cli/watchdog.h"
#include "disk_sqlite/inspect.h"
#include "engine/callback_keys.h"
#include "engine/node.h"
#include "env/clock.h"
#include "env/private_files.h"
#include "env/private_memory.h"
#include "env/random.h"
#include "env/service_manager.h"
#include "env/signals.h"
#include "host/job_host.h"
#include "http/server.h"
#include "model/job_token.h"
#include "model/token_text.h"
#include "scale/pools.h"
#include "store/access_operations.h"
#include "store/shared_store.h"
#include "store_postgres/inspect.h"
#include "test_server/test_control.h"
#include "tls/tls.h"
#include "tracing/settings.h"

namespace mainspring::cli {
namespace {

constexpr std::size_t kMaxScalePoolsBytes = 1 << 20;

std::size_t size_of(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

// Every parked claim is a socket, so the limit of open files bounds max_connections. The default of
// max_connections silently shrinks to that limit.
constexpr std::int64_t kOtherFiles = 512;
void fit_connections(const Origins& origins, Options& options) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
  const auto possible = static_cast<std::int64_t>(
      std::min<rlim_t>(limit.rlim_cur, std::numeric_limits<std::int32_t>::max()));
  if (origins.at("max_connections") == "default") {
    options.max_connections =
        std::clamp<std::int64_t>(possible - kOtherFiles, 1, options.max_connections);
  }
}

void print_start(const Invocation& invocation, Io& io, const HttpServer& server) {
  if (invocation.json) {
    print_line(io, fmt::format("{{\"url\":\"{}\",\"pid\":{},\"version\":\"{}\"}}", server.url(),
                               getpid(), kVersion));
    return;
  }
  print_line(io, fmt::format("Mainspring {} listens on {}, its data is in {}. Ctrl-C stops it.",
                             kVersion, server.url(), shown_store(invocation.options)));
  if (!invocation.has("hints")) return;
  if (server.url().starts_with("http")) io.out(fmt::format("Dashboard: {}/ui/\n", server.url()));
  const std::string at =
      server.url() == Options().server ? "" : fmt::format(" --server {}", server.url());
  io.out(
      fmt::format("\nTry in another terminal:\n"
                  "  {0} enqueue hello greet '{{\"name\":\"you\"}}'{1}\n"
                  "  {0} work --queue hello --exec 'cat' --drain{1}\n"
                  "  {0} jobs list{1}\n",
                  invocation.program, at));
}

// The node, its job host if any, and its HTTP server: wired but not started.
struct Wired {
  SystemRandom random;
  SystemProcesses processes;
  std::unique_ptr<TestControl> test;  // of a test server; the node's broker calls it
  std::unique_ptr<Node> node;
  std::unique_ptr<JobHost> host;
  std::unique_ptr<TlsServer> tls;
  std::unique_ptr<TlsReload> tls_reload;
  ServedCluster cluster;
  std::unique_ptr<HttpServer> server;
};

// The names in the certificate are allowed hosts: clients use them.
Result<void> open_tls(const Options& options, HttpOptions& http, const Clock& clock, Log& log,
                      Registry& registry, Wired& wired) {
  if (!has_tls(options)) return {};
  TlsServerOptions tls{
      .certificate_file = options.tls_cert,
      .key_file = options.tls_key,
      .client_ca_file = options.tls_client_ca == "none" ? std::string() : options.tls_client_ca,
      .client_optional = options.tls_clients == "optional"};
  MS_TRY_ASSIGN(wired.tls, TlsServer::open(std::move(tls)));
  MS_TRY_ASSIGN(const CertificateInfo info, read_certificate(options.tls_cert));
  http.allowed_hosts.insert(http.allowed_hosts.end(), info.hosts.begin(), info.hosts.end());
  http.tls = wired.tls.get();
  wired.tls_reload = std::make_unique<TlsReload>(*wired.tls, clock, log, registry);
  return {};
}

// Reloads the certificate on SIGHUP, and notifies the service manager.
class Reload {
 public:
  explicit Reload(const ServiceManager& manager) : manager_(manager) {}
  // nullptr: there is nothing to reload (any more).
  void set(TlsReload* target) {
    const MutexLock lock(mutex_);
    target_ = target;
    if (target_ != nullptr)
      target_->on_reloaded([this](const Result<void>& done) {
        manager_.ready(done ? "certificate reloaded"
                            : "the reload failed, the old certificate stays in use: " +
                                  done.error().message);
      });
  }
  void request() {
    const MutexLock lock(mutex_);
    manager_.reloading();
    if (target_ == nullptr) return manager_.ready("nothing to reload: there is no certificate");
    target_->reload_soon();
  }

 private:
  const ServiceManager& manager_;
  Mutex mutex_;
  TlsReload* target_ MS_GUARDED_BY(mutex_) = nullptr;
};

// SQLite replays the store's log, and does not report its progress.
std::string start_text(const Options& options) {
  const std::string store = shown_store(options);
  struct stat log {};
  if (has_shared_store(options) ||
      ::stat((options.data + "/mainspring.db-wal").c_str(), &log) != 0 || log.st_size == 0) {
    return "opening the store in " + store;
  }
  return fmt::format("replaying the log of the store in {} ({} KiB)", store,
                     (log.st_size + 1023) / 1024);
}

std::vector<Watchdog::Loop> loops_of(Wired& wired) {
  return {
      {.name = "the commit loop",
       .ping = [&broker = wired.node->broker()](auto turned) { broker.ping(std::move(turned)); }},
      {.name = "an I/O thread",
       .ping = [&server = *wired.server](auto turned) { server.ping(std::move(turned)); }}};
}

bool has_usable_token(const Store& store, WallTime now) {
  const auto tokens = store.tokens();
  return std::any_of(tokens->begin(), tokens->end(),
                     [&](const auto& entry) { return entry.second.usable(now); });
}

// Creates a first token from a file if the store has no usable token, so that secrets alone can set
// up a server. Errors: those of the file; invalid_argument (not a valid token).
Result<void> make_first_token(const Options& options, Store& store, Now now) {
  if (options.first_token_file == "none" || has_usable_token(store, now.wall)) return {};
  const std::string& file = options.first_token_file;
  struct stat info {};
  if (::stat(file.c_str(), &info) == 0 && S_ISREG(info.st_mode) && is_exposed(info)) {
    return invalid("first_token_file",
                   fmt::format("--first-token-file {}: other users can read it (mode {:04o}): must "
                               "be 0600 or stricter",
                               file, info.st_mode & 07777));
  }
  MS_TRY_ASSIGN(std::string text, read_file(file, 4096));
  text.resize(std::min(text.find_first_of("\r\n"), text.size()));
  const auto digest = digest_of_token(text);
  if (!digest) {
    return invalid(
        "first_token_file",
        fmt::format("--first-token-file {}: its first line must be {} and 32 random bytes "
                    "in base64url, {} characters in all",
                    file, kTokenPrefix, kTokenBytes));
  }
  CreateToken create;
  create.token.name = "admin";
  create.token.digest = *digest;
  create.token.scopes = Scopes::all();
  create.token.created_by = std::string(kLocalCaller);
  const std::vector<Operation> batch{std::move(create), Audit{.who = std::string(kLocalCaller),
                                                              .from = "first_token_file",
                                                              .action = "create_token",
                                                              .object = "token/admin"}};
  MS_TRY_ASSIGN(const BatchReport report, store.apply(batch, now));
  const auto* error = std::get_if<Error>(&report.results.front());
  if (error == nullptr) return {};
  if (error->code != ErrorCode::conflict) return *error;
  // Another server of the same database was faster: load its token.
  if (auto* shared = dynamic_cast<SharedStore*>(&store)) {
    shared->heard({.everything = true});
    MS_TRY(shared->refresh(now));
  }
  return {};
}

// The key that signs job tokens. If it cannot be stored (the disk is full), this process uses its
// own key: its job tokens end with it.
Secret key_of_job_tokens(const NodeOptions& node, const Clock& clock, Random& random, Log& log) {
  auto key = job_token_key(
      {.file = "", .directory = node.sqlite.directory, .postgres = node.postgres}, clock, random);
  if (key) return std::move(*key);
  log.warn("the key of job tokens cannot be kept; a restart of the server invalidates them",
           {{"why", key.error().message}});
  return make_signing_key(random);
}

std::optional<std::string> variable(std::string_view name) {
  const char* const value = std::getenv(std::string(name).c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

// How programs of job folders connect to this server: at MAINSPRING_SERVER, or at the address that
// it listens on.
ProgramAccess access_to(const Invocation& invocation, const HttpServer& server, const Clock& time,
                        const Secret& key) {
  ProgramAccess access;
  const char* const given = std::getenv("MAINSPRING_SERVER");
  access.server = [&server, given = std::string(given == nullptr ? "" : given)] {
    if (!given.empty()) return given;
    std::string url = server.url();
    for (const std::string_view any : {"//0.0.0.0:", "//[::]:"}) {
      if (const auto at = url.find(any); at != url.npos)
        url.replace(at, any.size(), "//localhost:");
    }
    return url;
  };
  const char* const ca_file = std::getenv("MAINSPRING_CA_FILE");
  if (ca_file != nullptr) access.ca_file = ca_file;
  const auto listen = parse_listen(invocation.options.listen);
  if (!invocation.options.require_token && listen && listen->local()) return access;
  access.token = [&time, key](const std::string& queue, const std::string& folder, Duration limit) {
    constexpr Duration kMargin = 5min;  // for requests of a program after its time limit
    const Duration lifetime =
        limit >= kMaxJobTokenLifetime - kMargin ? kMaxJobTokenLifetime : limit + kMargin;
    return sign_job_token(
        {.queue = queue, .folder = folder, .issuer = 0, .expires_at = time.now().wall + lifetime},
        key);
  };
  return access;
}

// The parts of a test server that are created before its node.
struct TestParts {
  const TestMode& mode;
  VirtualClock& clock;
  std::shared_ptr<std::atomic<bool>> full = std::make_shared<std::atomic<bool>>(false);
};

std::string store_of(const TestMode& mode) {
  return mode.directory + "/store";
}

// Nothing outlives the test: no fsync, no lock files, no orderly shutdown.
Result<void> fit_to_tests(const TestParts& test, NodeOptions& node) {
  std::error_code failed;
  std::filesystem::create_directory(store_of(test.mode), failed);  // usually the lock file does it
  if (failed) {
    return Error{.code = ErrorCode::io_error,
                 .message = fmt::format("making {}: {}", store_of(test.mode), failed.message())};
  }
  node.sqlite.directory = store_of(test.mode);
  node.sqlite.guard_files = false;
  node.sqlite.close_in_order = false;
  node.sqlite.synced = false;
  node.sqlite.full = [full = test.full] { return full->load(); };
  node.scheduler.prune_interval = 1ms;
  return {};
}

void serve_test(const TestParts& test, Log& log, Wired& wired) {
  TestOptions options{.directory = store_of(test.mode),
                      .state_file = test.mode.directory + "/state.json",
                      .seed = test.mode.seed,
                      .crash = [] { (void)kill(getpid(), SIGKILL); },
                      .full = test.full};
  wired.test =
      std::make_unique<TestControl>(TestControl::Parts{.broker = wired.node->broker(),
                                                       .scheduler = wired.node->scheduler(),
                                                       .store = wired.node->store(),
                                                       .clock = test.clock,
                                                       .random = wired.random,
                                                       .log = log},
                                    std::move(options));
  wired.server->serve_test(*wired.test);
}

// After a crash the token exists already.
void add_test_token(Broker& broker, WallTime now) {
  TokenRecord token{
      .name = "test", .scopes = Scopes::all(), .created_at = now, .created_by = "serve --test"};
  token.digest = *digest_of_token(kTestToken);
  const auto added = std::make_shared<std::promise<void>>();
  broker.submit(CreateToken{std::move(token)},
                [added](const OperationResult&) { added->set_value(); });
  added->get_future().wait();
}

// A connection of its own asks a database: rarely, see HttpOptions::store_size.
Result<StoreSize> size_of_store(const std::string& directory,
                                const std::optional<PostgresOptions>& postgres) {
  if (!postgres) return size_of_sqlite_store(directory);
  MS_TRY_ASSIGN(const SharedStoreInfo info, inspect_postgres_store(*postgres));
  return StoreSize{.kind = "postgresql", .schema = info.schema, .bytes = info.bytes};
}

// For the spans. A wildcard address and a chosen port are not where clients connect.
TraceServer trace_server(const HttpOptions& http) {
  const bool known =
      !http.host.empty() && http.host != "0.0.0.0" && http.host != "::" && http.port != 0;
  if (!known) return {};
  return {.address = http.host, .port = http.port};
}

// Their windows also become marks, which the leader adds.
Result<void> add_scale_pools(const Options& options, HttpOptions& http, NodeOptions& node) {
  if (options.scale_pools == "none") return {};
  MS_TRY_ASSIGN(const std::string text, read_file(options.scale_pools, kMaxScalePoolsBytes));
  MS_TRY_ASSIGN(http.scale_pools, parse_scale_pools(options.scale_pools, text));
  node.scheduler.next_mark = [pools = http.scale_pools](WallTime after, const std::string& last) {
    return next_window_mark(pools, after, last);
  };
  return {};
}

Result<void> wire(const Invocation& invocation, const Clock& clock, Log& log, Registry& registry,
                  const TestParts* test, Wired& wired) {
  Options options = invocation.options;
  if (test != nullptr) options.data = store_of(test->mode);
  fit_connections(invocation.origins, options);
  MS_TRY_ASSIGN(HttpOptions http, http_options(options));
  http.settings = shown_settings(options, invocation.origins);
  // Checked before a store is created: a new store has no token.
  bool store_is_there = has_shared_store(options);
  if (test == nullptr && !store_is_there) {
    MS_TRY_ASSIGN(store_is_there, sqlite_store_exists(options.data));
  }
  MS_TRY(check_exposure(options, store_is_there || options.first_token_file != "none"));
  MS_TRY(open_tls(options, http, clock, log, registry, wired));
  MS_TRY_ASSIGN(std::optional<HostOptions> host, host_options(options, options.data, log));
  MS_TRY_ASSIGN(NodeOptions of_node, node_options(invocation.options));
  MS_TRY(add_scale_pools(options, http, of_node));
  std::vector<std::string> warnings;
  MS_TRY_ASSIGN(of_node.traces, trace_settings(&variable, warnings));
  for (const std::string& warning : warnings) log.warn(warning);
  if (of_node.traces) of_node.traces->server = trace_server(http);
  if (of_node.traces)
    log.info("traces are exported", {{"collector", shown_endpoint(of_node.traces->url)}});
  if (test != nullptr) MS_TRY(fit_to_tests(*test, of_node));
  MS_TRY_ASSIGN(wired.node, Node::open(of_node, clock, log, registry));
  const Secret job_token_key = key_of_job_tokens(of_node, clock, wired.random, log);
  http.job_token_key = job_token_key;
  // The store's clock, which all servers of a database share.
  const Clock& time = wired.node->clock();
  MS_TRY(make_first_token(options, wired.node->store(), time.now()));
  MS_TRY(check_exposure(options, has_usable_token(wired.node->store(), time.now().wall)));
  ClusterPeers* const peers = wired.node->peers();
  const Store& store = wired.node->store();
  http.unready = [peers, &store]() -> std::optional<std::string> {
    if (const std::string place = store.moved_to(); !place.empty())
      return "the store has moved to " + place;
    return peers == nullptr ? std::nullopt : peers->not_ready();
  };
  if (peers != nullptr) {
    http.durability.clear();
    http.store_state = [peers] { return peers->describe(); };
  }
  if (test != nullptr)
    http.durability = "test server: writes are not synced, and the store is removed at the end";
  http.health_parts = health_parts({.directory = peers == nullptr ? options.data : "",
                                    .store = &store,
                                    .tls = wired.tls.get(),
                                    .clock = &time});
  http.store_size = [directory = options.data, postgres = of_node.postgres] {
    return size_of_store(directory, postgres);
  };
  if (peers == nullptr)
    http.verified = [directory = options.data] { stamp(directory, kLastVerify); };
  register_store_metrics(registry, options.data, store);
  http.check_callback = [callbacks = wired.node->callbacks()](const std::string& url) {
    return callbacks->check(url);
  };
  MS_TRY(open_cluster(http, time, log, registry, wired.cluster));
  wired.server = std::make_unique<HttpServer>(std::move(http), wired.node->broker(),
                                              wired.node->store(), time, log, registry);
  if (test != nullptr) serve_test(*test, log, wired);
  if (!host) return {};
  host->access = access_to(invocation, *wired.server, time, job_token_key);
  MS_TRY_ASSIGN(wired.host, JobHost::open(std::move(*host), wired.node->broker(), wired.processes,
                                          time, wired.random, log, registry));
  wired.server->serve_host(*wired.host, {.webjobs_api = options.webjobs_api,
                                         .max_upload_bytes = size_of(options.max_upload_bytes)});
  return {};
}

void pause(const std::stop_token& stop, Duration at_most) {
  std::promise<void> stopped;
  const std::stop_callback at_stop(stop, [&stopped] { stopped.set_value(); });
  (void)stopped.get_future().wait_for(at_most);
}

constexpr Duration kAskStore = 2s;
constexpr Duration kLogWait = 1min;
constexpr Duration kManagedWait = 5min;  // default of wait_for_store under a service manager

// Waits until the database of a shared store answers. After the longest wait, or a stop, opening
// the store reports what is wrong.
void wait_for_store(const Options& options, const PostgresOptions& postgres, Duration at_most,
                    const std::stop_token& stop, const Clock& clock, Log& log) {
  const Instant end = clock.now().instant + at_most;
  Instant next_log = clock.now().instant;
  for (Instant now = next_log; !stop.stop_requested() && now < end; now = clock.now().instant) {
    const auto found = inspect_postgres_store(postgres);
    if (found || found.error().code != ErrorCode::unavailable) return;
    if (now >= next_log) {
      log.warn("waiting for the store", {{"store", shown_store(options)},
                                         {"why", found.error().message},
                                         {"at_most", short_duration(end - now)}});
      next_log = now + kLogWait;
    }
    pause(stop, std::min(kAskStore, end - now));
  }
}

Result<void> wait_for_store(const Invocation& invocation, const ServiceManager& manager,
                            const std::stop_token& stop, const Clock& clock, Log& log) {
  const Options& options = invocation.options;
  if (!has_shared_store(options)) return {};
  MS_TRY_ASSIGN(const PostgresOptions postgres, postgres_options(options));
  const bool managed = manager.is_there() && invocation.origins.at("wait_for_store") == "default";
  wait_for_store(options, postgres, managed ? kManagedWait : options.wait_for_store, stop, clock,
                 log);
  return {};
}

Result<void> start(Wired& wired, const std::string& listen) {
  wired.node->start();
  if (wired.test) wired.test->start();
  auto started = wired.server->start();
  if (!started && wired.test) wired.test->stop();
  if (!started && started.error().code == ErrorCode::conflict) {
    return Error{.code = ErrorCode::unavailable,
                 .message = fmt::format("--listen {}: {}", listen, started.error().message)};
  }
  if (started) {
    wired.node->callbacks()->start();
    wired.node->redrives()->start();
  }
  if (started && wired.host) wired.host->start();
  if (started && wired.tls_reload) wired.tls_reload->start();
  return started;
}

// The longest wait for renewals: a third of the default lease, plus a margin.
constexpr Duration kTellWorkers = 11s;

// Remote workers keep their programs during a server restart if they know of it. They learn it from
// the answer to a renewal; workers whose claims end renew at once.
void announce_restart(Wired& wired, const Options& options, Log& log) {
  if (options.restart_allowance == Duration(0)) return;
  Broker& broker = wired.node->broker();
  if (const auto allowed = broker.allow_restart(options.restart_allowance); !allowed) {
    log.warn(
        "cannot grant the restart allowance: programs of workers end with their leases",
        {{"error", std::string(allowed.error().name())}, {"message", allowed.error().message}});
    return;
  }
  broker.stop_claims();
  const Duration most =
      std::min({Duration(kTellWorkers), options.restart_allowance, options.stop_timeout / 2});
  broker.wait_for_renewals(wired.node->clock().now().instant + most);
}

// Load balancers see that the server is not ready before its listener closes.
void delay_shutdown(Wired& wired, const Options& options, const StopSignals& signals) {
  if (options.shutdown_delay == Duration(0)) return;
  wired.server->set_not_ready("the server is stopping");
  pause(signals.hurry(), options.shutdown_delay);
}

// Ends child processes first, while the broker still accepts their outcomes; then the rest.
void stop_all(Wired& wired, const Options& options, Log& log, bool store_failed) {
  wired.server->set_not_ready("the server is stopping");
  if (wired.test) wired.test->stop();
  if (wired.tls_reload) wired.tls_reload->stop();
  if (wired.host) wired.host->stop();
  wired.node->stop_workers();
  if (!store_failed) announce_restart(wired, options, log);
  wired.server->stop(store_failed ? Duration(2s) : options.stop_timeout * 4 / 5);
  wired.node->stop();
}

}  // namespace

Result<HttpOptions> http_options(const Options& options) {
  HttpOptions http;
  MS_TRY_ASSIGN(ListenOn listen, parse_listen(options.listen));
  http.host = std::move(listen.host);
  http.port = listen.port;
  http.unix_path = std::move(listen.unix_path);
  http.allowed_hosts = split_names(options.allowed_hosts);
  http.io_threads = static_cast<int>(options.io_threads);
  http.reader_threads = static_cast<int>(options.reader_threads);
  http.max_waiting_reads = size_of(options.max_waiting_reads);
  http.max_connections = size_of(options.max_connections);
  http.max_event_streams = size_of(options.max_event_streams);
  http.max_header_bytes = size_of(options.max_header_bytes);
  http.max_body_bytes = size_of(options.max_body_bytes);
  http.max_batch_body_bytes = size_of(options.max_batch_body_bytes);
  http.max_buffered_bytes = size_of(options.max_buffered_bytes);
  http.header_timeout = options.header_timeout;
  http.idle_timeout = options.idle_timeout;
  http.require_token = options.require_token;
  http.rate_per_token = static_cast<int>(options.rate_per_token);
  http.max_connections_per_address = size_of(options.max_connections_per_address);
  http.audit_all = options.audit == "all";
  http.log_requests = log_level_of(options) == LogLevel::debug;
  http.version = kVersion;
  return http;
}

Result<NodeOptions> node_options(const Options& options) {
  NodeOptions node;
  if (has_shared_store(options)) {
    MS_TRY_ASSIGN(node.postgres, postgres_options(options));
    MS_TRY_ASSIGN(node.peers, cluster_options(options));
  }
  node.broker.poll = options.store_poll;
  node.sqlite.directory = options.data;
  node.sqlite.reserve_bytes = size_of(options.store_reserve_bytes);
  node.sqlite.cache_bytes = size_of(options.store_cache_bytes);
  node.sqlite.store.retention_completed = options.retention_completed;
  node.sqlite.store.retention_dead = options.retention_dead;
  node.sqlite.store.retention_replies = options.retention_replies;
  node.sqlite.store.max_finished_jobs = options.max_finished_jobs;
  node.sqlite.store.audit_retention = options.audit_retention;
  node.sqlite.store.history = {options.history_minutes, options.history_hours};
  node.sqlite.store.max_live_jobs = options.max_live_jobs;
  node.broker.max_waiting_jobs = size_of(options.max_waiting_jobs);
  node.broker.max_waiting_bytes = size_of(options.max_waiting_bytes);
  node.broker.max_parked_claims = size_of(options.max_parked_claims);
  node.broker.max_waiting_urgent = size_of(options.max_waiting_urgent);
  node.broker.max_batch_jobs = size_of(options.max_batch_jobs);
  node.broker.max_batch_bytes = size_of(options.max_batch_bytes);
  node.broker.worker_memory = options.worker_memory;
  node.broker.log_batches = log_level_of(options) == LogLevel::debug;
  node.broker.watch_roots = split_names(options.watch_root);
  node.broker.events.buffer = size_of(options.event_buffer);
  node.redrive_slots = Redrives::kServerSlots;
  node.callbacks = CallbackOptions{.slots = static_cast<int>(options.callback_slots),
                                   .timeout = options.callback_timeout,
                                   .outgoing_allow = split_names(options.outgoing_allow)};
  if (options.callback_key_file != "none") node.callback_key_file = options.callback_key_file;
  node.scheduler.batch = static_cast<int>(options.scheduler_batch);
  node.scheduler.max_sleep = options.scheduler_max_sleep;
  node.scheduler.prune_interval = options.prune_interval;
  node.scheduler.forget_queues = options.forget_queues;
  return node;
}

Result<int> run_serve(const Invocation& invocation, Io& io) {
  if (invocation.has("test")) return run_test_server(invocation, io);
  if (invocation.has("seed")) return invalid("seed", "--seed: only with --test");
  return serve_node(invocation, io, nullptr);
}

Result<int> serve_node(const Invocation& invocation, Io& io, const TestMode* test) {
  MS_TRY_ASSIGN(const ServiceManager manager, ServiceManager::from_environment());
  Reload reload(manager);
  // A service manager's reload must not stop a server that has nothing to reload. Without a
  // manager, SIGHUP (the terminal closed) stops the server, unless there is a certificate to
  // reload.
  const bool takes_hangup = has_tls(invocation.options) || manager.is_there();
  // First, so that every thread inherits its signal mask.
  StopSignals signals(takes_hangup ? std::function<void()>([&reload] { reload.request(); })
                                   : nullptr);
  if (!invocation.options.allow_core) MS_TRY(keep_memory_private());
  (void)std::signal(SIGPIPE, SIG_IGN);
  (void)std::signal(SIGXFSZ, SIG_IGN);  // the write fails instead, and is reported
  const SystemClock system_clock;
  VirtualClock test_clock(system_clock);
  const Clock& clock = test == nullptr ? static_cast<const Clock&>(system_clock) : test_clock;
  StderrLog log(log_level_of(invocation.options), log_format_of(invocation.options));
  Registry registry;
  register_process_metrics(registry, has_shared_store(invocation.options) ? "postgres" : "sqlite");
  Wired wired;
  std::optional<StartNotice> starting(std::in_place, manager, start_text(invocation.options),
                                      clock);
  std::optional<TestParts> test_parts;
  if (test != nullptr) test_parts.emplace(TestParts{.mode = *test, .clock = test_clock});
  if (test == nullptr) MS_TRY(wait_for_store(invocation, manager, signals.stop(), clock, log));
  if (signals.stop().stop_requested()) return kExitOk;
  MS_TRY(wire(invocation, clock, log, registry, test_parts ? &*test_parts : nullptr, wired));
  reload.set(wired.tls_reload.get());
  const auto forget =
      std::unique_ptr<Reload, void (*)(Reload*)>(&reload, [](Reload* gone) { gone->set(nullptr); });

  std::atomic<bool> store_failed{false};
  wired.node->on_fatal([&](const Error& error) {
    store_failed = true;
    wired.server->set_not_ready("the store failed: " + error.message);
    log.error("the store failed; stopping", {{"why", error.message}});
    signals.request();
  });
  MS_TRY(start(wired, invocation.options.listen));
  starting.reset();
  manager.ready(fmt::format("listening on {}, data in {}", wired.server->url(),
                            shown_store(invocation.options)));
  Watchdog watchdog(manager, loops_of(wired), clock, log);
  watchdog.start();
  if (test != nullptr) {
    add_test_token(wired.node->broker(), clock.now().wall);
    const std::string line = wired.server->url() + "\n";
    [[maybe_unused]] const auto written = write(test->ready_fd, line.data(), line.size());
  }
  print_start(invocation, io, *wired.server);

  signals.wait();
  watchdog.release();
  manager.stopping("waiting for workers and pending replies");
  log_stop(log, signals);
  const std::stop_callback hurry(signals.hurry(), [] { _exit(130); });
  if (io.err_is_terminal) io.err("Stopping. Press Ctrl-C again to stop at once.\n");
  if (!store_failed) delay_shutdown(wired, invocation.options, signals);
  stop_all(wired, invocation.options, log, store_failed);
  if (store_failed) {
    return Error{.code = ErrorCode::io_error,
                 .message =
                     "the disk or the store failed, see the log line above. Acknowledged jobs are "
                     "on disk, unless files of the data directory were removed. Check the disk, "
                     "then restart"};
  }
  log.info("stopped");
  return kExitOk;
}

}  // namespace mainspring::cli
