// The listener, the shards, and the order in which they start and stop.
#include "http/server.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

#include "base/assert.h"
#include "broker/broker.h"
#include "cluster/leader.h"
#include "http/connection.h"
#include "http/listener.h"
#include "http/shard.h"
#include "http/test_routes.h"
#include "http/webjobs_routes.h"

namespace mainspring {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

// On a test server, each request that waits for a drain or a state occupies one.
constexpr int kTestThreads = 64;
constexpr auto kAcceptPause = std::chrono::milliseconds(100);  // after running out of descriptors

// How many connections the limit of open files allows. Raises that limit, which is often 1024 at
// first, as far as possible, and leaves some files for the store.
std::size_t possible_connections(std::size_t wanted, Log& log) {
  constexpr rlim_t kOthers = 512;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  const rlim_t needed = static_cast<rlim_t>(wanted) + kOthers;
  if (limit.rlim_cur < needed) {
    limit.rlim_cur = std::min(needed, limit.rlim_max);
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) getrlimit(RLIMIT_NOFILE, &limit);
  }
  if (limit.rlim_cur >= needed) return wanted;
  const std::size_t possible = limit.rlim_cur > 2 * kOthers ? limit.rlim_cur - kOthers : kOthers;
  if (possible >= wanted) return wanted;
  log.info("connections are limited by the limit of open files",
           {{"max_connections", fmt::to_string(possible)}, {"wanted", fmt::to_string(wanted)}});
  return possible;
}

http::Authenticator::Source token_source(const Store& store) {
  return {[&store] { return store.tokens(); }, [&store] { return store.tokens_version(); }};
}

// The health of a node of a cluster includes its leader.
HttpOptions with_leader_part(HttpOptions options) {
  if (options.leadership == nullptr) return options;
  options.health_parts.push_back([leader = options.leadership] {
    const auto why = leader->not_ready();
    return HealthPart{.name = "leader",
                      .state = why ? PartState::warn : PartState::ok,
                      .message = why.value_or(leader->describe())};
  });
  return options;
}

}  // namespace

std::vector<Error> HttpOptions::validate() const {
  std::vector<Error> mistakes;
  const auto demand = [&](bool good, std::string_view field, std::string_view rule) {
    if (!good) mistakes.push_back(invalid(std::string(field), fmt::format("{}: {}", field, rule)));
  };
  if (unix_path.empty()) {
    if (auto address = http::parse_host(host); !address) mistakes.push_back(address.error());
  } else if (auto good = http::check_unix_path(unix_path); !good) {
    mistakes.push_back(good.error());
  }
  demand(unix_path.empty() || tls == nullptr, "unix_path",
         "a unix socket has no TLS, because its traffic stays on the machine");
  demand(io_threads >= 1 && io_threads <= 64, "io_threads", "must be 1 to 64");
  demand(reader_threads >= 1 && reader_threads <= 64, "reader_threads", "must be 1 to 64");
  demand(max_waiting_reads >= 1, "max_waiting_reads", "must be at least 1");
  demand(max_connections >= 1, "max_connections", "must be at least 1");
  demand(max_header_bytes >= 1024 && max_header_bytes <= 64 << 10, "max_header_bytes",
         "must be 1024 to 65536");
  demand(max_body_bytes >= 1024, "max_body_bytes", "must be at least 1024");
  demand(max_batch_body_bytes >= max_body_bytes, "max_batch_body_bytes",
         "must be at least max_body_bytes");
  demand(max_buffered_bytes >= max_batch_body_bytes, "max_buffered_bytes",
         "must be at least max_batch_body_bytes");
  demand((leadership == nullptr) == (links == nullptr), "links", "needs leadership");
  demand(header_timeout > Duration(0), "header_timeout", "must be more than 0");
  demand(idle_timeout > Duration(0), "idle_timeout", "must be more than 0");
  demand(rate_per_token >= 0 && rate_per_token <= kMaxTokenRate, "rate_per_token",
         "must be 0 to 1000000");
  demand(free_failures >= 1 && free_failures <= 1'000'000, "free_failures", "must be 1 to 1000000");
  demand(max_connections_per_address >= 1, "max_connections_per_address", "must be at least 1");
  demand(max_event_streams >= 1, "max_event_streams", "must be at least 1");
  demand(event_heartbeat > Duration(0), "event_heartbeat", "must be more than 0");
  demand(min_bytes_per_second >= 1, "min_bytes_per_second", "must be at least 1");
  return mistakes;
}

struct HttpServer::Impl {
  Impl(HttpOptions given, Broker& broker, const Store& store, const Clock& clock, Log& log,
       Registry& registry)
      : options(with_leader_part(std::move(given))),
        shared{.services = {broker, store, clock, registry, options, openapi(options.version)},
               .log = log,
               .readers = http::ReaderPool(options.max_waiting_reads),
               .host_readers = http::ReaderPool(options.max_waiting_reads),
               .authenticator = http::Authenticator({.require_token = options.require_token,
                                                     .rate_per_token = options.rate_per_token,
                                                     .free_failures = options.free_failures,
                                                     .job_token_key = options.job_token_key},
                                                    token_source(store), registry),
               .addresses = http::AddressBook(options.max_connections_per_address),
               .room = std::make_shared<http::Room>(options.max_buffered_bytes),
               .refused = registry.counter("mainspring_http_refused_connections_total",
                                           "Connections refused because of max_connections or "
                                           "max_connections_per_address.")} {
    registry.gauge("mainspring_http_buffered_bytes", "Bytes of bodies and answers in memory.",
                   [room = shared.room] { return static_cast<double>(room->used()); });
    registry.gauge("mainspring_http_connections", "Open connections.",
                   [count = shared.connections] { return static_cast<double>(count->load()); });
  }

  void accept();
  void on_accept(http::Shard& shard, http::Socket socket);

  const HttpOptions options;
  http::Shared shared;
  std::vector<std::unique_ptr<http::Shard>> shards;
  std::unique_ptr<http::Listener> listener;          // on the first shard
  std::unique_ptr<asio::steady_timer> accept_pause;  // likewise
  std::size_t next_shard = 0;
  std::int64_t max_connections = 0;
  bool started = false;
  bool stopped = false;

  Mutex mutex;
  CondVar changed;
  std::size_t shards_drained MS_GUARDED_BY(mutex) = 0;
};

HttpServer::HttpServer(HttpOptions options, Broker& broker, const Store& store, const Clock& clock,
                       Log& log, Registry& registry)
    : impl_(std::make_unique<Impl>(std::move(options), broker, store, clock, log, registry)) {
  http::Health& health = impl_->shared.services.health;
  health.watch("the commit loop",
               [&broker](std::function<void()> turned) { broker.ping(std::move(turned)); });
  health.watch("an I/O thread", [this](std::function<void()> turned) { ping(std::move(turned)); });
}

HttpServer::~HttpServer() {
  stop(Duration(0));
}

void HttpServer::serve_host(HostControl& host, HostRoutes host_routes) {
  Impl& impl = *impl_;
  MS_ASSERT(!impl.started, "job folders are served before the start");
  http::Services& services = impl.shared.services;
  // A body over this size could never be accepted, and its client would retry forever.
  host_routes.max_upload_bytes =
      std::min(host_routes.max_upload_bytes, impl.options.max_buffered_bytes);
  services.host = &host;
  services.host_routes = host_routes;
  services.host_epoch = services.clock.now().wall.us();
  if (host_routes.webjobs_api) impl.shared.more_routes = http::webjobs_routes();
}

void HttpServer::serve_test(TestControl& test) {
  Impl& impl = *impl_;
  MS_ASSERT(!impl.started, "a test server is one before the start");
  impl.shared.services.test = &test;
  impl.shared.more_routes = http::test_routes();
}

Result<void> HttpServer::start() {
  Impl& impl = *impl_;
  if (impl.started || impl.stopped) {
    return Error{ErrorCode::conflict, "a server is started once"};
  }
  const auto mistakes = impl.options.validate();
  if (!mistakes.empty()) return mistakes.front();
  impl.max_connections = static_cast<std::int64_t>(
      possible_connections(impl.options.max_connections, impl.shared.log));
  impl.shared.drained = [&impl] {
    MutexLock lock(impl.mutex);
    ++impl.shards_drained;
    impl.changed.notify_all();
  };
  for (int i = 0; i < impl.options.io_threads; ++i) {
    impl.shards.push_back(std::make_unique<http::Shard>(impl.shared));
  }
  impl.listener = std::make_unique<http::Listener>(impl.shards.front()->io());
  impl.accept_pause = std::make_unique<asio::steady_timer>(impl.shards.front()->io());
  if (auto listening = impl.listener->open(impl.options); !listening) {
    impl.listener.reset();
    impl.accept_pause.reset();
    impl.shards.clear();
    return listening.error();
  }
  impl.shared.host_names = impl.options.allowed_hosts;
  impl.shared.host_names.push_back("localhost");
  if (impl.options.unix_path.empty()) impl.shared.host_names.push_back(impl.listener->address());
  impl.shared.readers.start(impl.options.reader_threads);
  if (impl.shared.services.test != nullptr) {
    impl.shared.host_readers.start(kTestThreads);
  } else if (impl.shared.services.host != nullptr) {
    impl.shared.host_readers.start(impl.shared.services.host_routes.threads);
  }
  impl.started = true;
  impl.accept();
  for (auto& shard : impl.shards) shard->start();
  impl.shared.log.info("listening", {{"url", url()}});
  return {};
}

void HttpServer::Impl::accept() {
  http::Shard& shard = *shards[next_shard];
  next_shard = (next_shard + 1) % shards.size();
  auto& acceptor = listener->acceptor();
  acceptor.async_accept(shard.io(), [this, &shard](const error_code& problem, http::Socket socket) {
    if (!listener->is_open()) return;
    if (!problem) {
      on_accept(shard, std::move(socket));
      return accept();
    }
    if (problem == asio::error::operation_aborted) return;
    // Usually no descriptors are left. Connections in the backlog are not lost.
    shared.log.warn("cannot accept a connection", {{"problem", problem.message()}});
    accept_pause->expires_after(kAcceptPause);
    accept_pause->async_wait([this](const error_code& cancelled) {
      if (!cancelled && listener->is_open()) accept();
    });
  });
}

void HttpServer::Impl::on_accept(http::Shard& shard, http::Socket socket) {
  if (shared.connections->fetch_add(1) >= max_connections) {
    shared.connections->fetch_sub(1);
    shared.refused.add();
    if (options.tls == nullptr) http::turn_away(socket);  // with TLS a reply costs too much
    return;
  }
  asio::dispatch(shard.io(), [&shard, socket = std::move(socket)]() mutable {
    shard.adopt(std::move(socket));
  });
}

std::uint16_t HttpServer::port() const {
  return impl_->listener == nullptr ? std::uint16_t{0} : impl_->listener->port();
}

std::string HttpServer::url() const {
  if (impl_->listener == nullptr) return "";
  if (!impl_->options.unix_path.empty()) return "unix:" + impl_->options.unix_path;
  return fmt::format("{}://{}", impl_->options.tls == nullptr ? "http" : "https",
                     impl_->listener->host_and_port());
}

void HttpServer::set_not_ready(std::string why) {
  impl_->shared.services.set_not_ready(std::move(why));
}

void HttpServer::stop_accepting() {
  if (!impl_->started || impl_->stopped) return;
  asio::post(impl_->shards.front()->io(), [impl = impl_.get()] {
    impl->listener->close();
    impl->accept_pause->cancel();
  });
}

void HttpServer::stop(Duration grace) {
  Impl& impl = *impl_;
  if (!impl.started || impl.stopped) return;
  set_not_ready("the server is stopping");
  stop_accepting();
  // In this order: the replies to the claims then already announce that the connection closes.
  for (auto& shard : impl.shards) shard->begin_stop();
  impl.shared.services.broker.stop_claims();
  const Instant until = impl.shared.services.clock.now().instant + grace;
  {
    MutexLock lock(impl.mutex);
    while (impl.shards_drained < impl.shards.size()) {
      const Duration left = until - impl.shared.services.clock.now().instant;
      if (left <= Duration(0)) break;
      impl.changed.wait_for(impl.mutex, left);
    }
  }
  impl.stopped = true;
  const auto cut = impl.shared.connections->load();
  impl.shared.readers.stop();
  impl.shared.host_readers.stop();
  for (auto& shard : impl.shards) shard->stop();
  if (cut > 0) impl.shared.log.warn("connections cut", {{"connections", fmt::to_string(cut)}});
}

void HttpServer::ping(std::function<void()> turned) {
  // Its last copy is destroyed on the last I/O thread that has run.
  struct Round {
    std::function<void()> turned;
    std::atomic<std::size_t> left;
  };
  auto round = std::make_shared<Round>(std::move(turned), impl_->shards.size());
  for (auto& shard : impl_->shards) {
    asio::post(shard->io(), [round] {
      if (round->left.fetch_sub(1) == 1) round->turned();
    });
  }
}

std::size_t HttpServer::connections() const {
  return static_cast<std::size_t>(impl_->shared.connections->load());
}

}  // namespace mainspring
