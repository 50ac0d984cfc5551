// The channel's thread: connects, announces the node, listens, pings, and reconnects.
#include "store_postgres/node_channel.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/mutant.h"
#include "base/mutex.h"
#include "env/fd.h"
#include "store/change_hint_set.h"
#include "store_postgres/connection.h"

namespace mainspring {
namespace {

using pg::Connection;
using pg::params;
using pg::PgError;
using pg::Rows;
using pg::Statement;

constexpr Duration kRetryFrom = std::chrono::milliseconds(200);
constexpr Duration kRetryTo = std::chrono::seconds(5);
constexpr int kMaxPeersRead = 1000;

std::string quoted(const std::string& name) {
  std::string out = "\"";
  for (const char c : name) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

struct ChannelSql {
  explicit ChannelSql(const std::string& schema)
      : join(schema,
             "INSERT INTO $schema.nodes (id, incarnation, address, program, started_at, seen_at) "
             "VALUES ($1, $2, $3, $4, $schema.now_us(), $schema.now_us()) ON CONFLICT (id) DO "
             "UPDATE SET address = excluded.address, program = excluded.program, seen_at = "
             "excluded.seen_at"),
        peers(schema,
              "SELECT id, address FROM $schema.nodes WHERE id <> $1 AND seen_at "
              "> $schema.now_us() - $2 ORDER BY id LIMIT $3"),
        forget(schema, "DELETE FROM $schema.nodes WHERE seen_at < $schema.now_us() - $1"),
        leave(schema, "UPDATE $schema.nodes SET seen_at = 0 WHERE id = $1"),
        notify(schema, "SELECT pg_notify($1, $2)"),
        make_key(schema,
                 "INSERT INTO $schema.secrets (name, secret) VALUES ($1, $2) ON CONFLICT "
                 "(name) DO NOTHING"),
        key(schema, "SELECT secret FROM $schema.secrets WHERE name = $1") {}
  Statement join, peers, forget, leave, notify, make_key, key;
};

pg::ConnectionOptions connection_options(const NodeChannelOptions& options) {
  return {.url = options.url,
          .connect_timeout = options.connect_timeout,
          .timeout = options.answer_timeout,
          .prepared = options.prepared,
          .writable = true,
          .name = "mainspring channel"};
}

}  // namespace

struct NodeChannel::Impl {
  Impl(NodeChannelOptions options_, const Clock& clock_, Random& random_, Log& log_,
       Registry& registry_, Handlers handlers_)
      : options(std::move(options_)),
        sql(quoted(options.schema)),
        clock(clock_),
        random(random_),
        log(log_),
        registry(registry_),
        handlers(std::move(handlers_)),
        wake_up(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        sent_total(registry.counter("mainspring_notify_sent_total",
                                    "NOTIFY sent because a peer was unreachable.")),
        received_total(registry.counter("mainspring_notify_received_total", "NOTIFY received.")) {
    registry.gauge("mainspring_notify_listens", "1 while LISTEN works.",
                   [this] { return state == Listening::works ? 1.0 : 0.0; });
  }
  ~Impl() {
    stop();
    registry.gauge("mainspring_notify_listens", "1 while LISTEN works.", [] { return 0.0; });
  }

  void start();
  void stop();
  void wake() const {
    const std::uint64_t one = 1;
    (void)!::write(wake_up.get(), &one, sizeof one);
  }
  void run(const std::stop_token& stop);
  void serve(const std::stop_token& stop);
  void connect();
  void leave();
  void listen(const std::stop_token& stop);
  void read_peers();
  void hear_all();
  void hear(std::string_view payload);
  void say_now();
  void notify(const std::string& payload);
  void wait(Instant until) const;
  void away(const std::string& why);
  bool has_to_say() {
    MutexLock lock(mutex);
    return !to_say.empty();
  }
  Instant now() const { return clock.now().instant; }

  const NodeChannelOptions options;
  const ChannelSql sql;
  const Clock& clock;
  Random& random;
  Log& log;
  Registry& registry;
  const Handlers handlers;
  const Fd wake_up;
  Counter& sent_total;
  Counter& received_total;
  std::atomic<Listening> state{Listening::not_yet};

  // of the thread
  std::unique_ptr<Connection> connection;
  std::string echo;  // this node's message to itself
  bool echoed = false;
  bool peers_stale = true;
  bool logged_silent = false;  // already logged: LISTEN does not work
  bool logged_away = false;
  Duration pause = kRetryFrom;
  Instant next_ping, next_peers, next_forget, last_said;

  Mutex mutex;
  ChangeHintSet to_say MS_GUARDED_BY(mutex);
  std::jthread thread;
};

void NodeChannel::Impl::start() {
  if (thread.joinable()) return;
  thread = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void NodeChannel::Impl::stop() {
  if (!thread.joinable()) return;
  thread.request_stop();
  wake();
  thread.join();
}

void NodeChannel::Impl::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    try {
      connect();
      listen(stop);
      serve(stop);
    } catch (const PgError& error) {
      away(error.message);
      const auto spread = static_cast<std::int64_t>(random.below(1000));
      const Instant until = now() + pause * 4 / 5 + pause * 2 / 5 * spread / 1000;
      pause = std::min(2 * pause, kRetryTo);
      while (!stop.stop_requested() && now() < until) wait(until);
    }
  }
  if (connection) leave();
  connection.reset();
}

// So that other nodes do not try to notify a node that has left.
void NodeChannel::Impl::leave() {
  try {
    connection->run(sql.leave, params(options.node));
    notify(fmt::format(R"({{"node":{},"joined":true}})", options.node));
  } catch (const PgError& error) {
    log.debug("could not report that this node leaves", {{"why", error.message}});
  }
}

void NodeChannel::Impl::away(const std::string& why) {
  connection.reset();
  state = Listening::away;
  if (std::exchange(logged_away, true)) return;
  log.warn("the channel to the database is lost: polling and reconnecting", {{"why", why}});
}

// Waits until data can be read, something is to be sent, or `until`.
void NodeChannel::Impl::wait(Instant until) const {
  const auto left = std::max<std::int64_t>(0, (until - now()).count() / 1000 + 1);
  pollfd fds[2] = {
      {.fd = wake_up.get(), .events = POLLIN, .revents = 0},
      {.fd = connection ? PQsocket(connection->handle()) : -1, .events = POLLIN, .revents = 0}};
  (void)::poll(fds, 2, static_cast<int>(std::min<std::int64_t>(left, 60'000)));
  std::uint64_t count = 0;
  (void)!::read(wake_up.get(), &count, sizeof count);
}

void NodeChannel::Impl::connect() {
  connection.reset();
  connection = std::make_unique<Connection>(connection_options(options), clock);
  // Hints need not wait for the disk.
  connection->execute("SET synchronous_commit = off; LISTEN " + quoted(options.schema));
  connection->run(sql.join,
                  params(options.node, options.incarnation, options.address, options.program));
}

// Checks that this node receives its own message: a pooler may accept LISTEN and never deliver
// anything. The message is sent on another connection, because a pooler delivers the echo of
// messages sent on this one.
void NodeChannel::Impl::listen(const std::stop_token& stop) {
  echo = random.hex128();
  echoed = false;
  const std::string payload =
      fmt::format(R"({{"node":{},"joined":true,"echo":"{}"}})", options.node, echo);
  Connection(connection_options(options), clock).run(sql.notify, params(options.schema, payload));
  const Instant limit = now() + options.echo_limit;
  for (hear_all(); !echoed && now() < limit && !stop.stop_requested(); hear_all()) wait(limit);
  if (stop.stop_requested()) return;
  const bool back = std::exchange(logged_away, false);
  state = echoed ? Listening::works : Listening::does_not_work;
  if (echoed) {
    logged_silent = false;
  } else if (!std::exchange(logged_silent, true)) {
    log.warn(
        "LISTEN does not work, perhaps because of a pooler: unreachable peers are noticed by "
        "polling only; set listen_url to a direct URL",
        {{"channel", options.schema}});
  }
  if (back) log.info("the channel to the database is restored", {});
  pause = kRetryFrom;
  peers_stale = true;
  next_ping = now() + options.ping_every;
  // Messages sent meanwhile were missed.
  handlers.heard({.catalog = true, .everything = true});
}

void NodeChannel::Impl::serve(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    hear_all();
    Instant next = next_ping;
    if (has_to_say()) {
      if (now() >= last_said + options.least_gap)
        say_now();
      else
        next = std::min(next, last_said + options.least_gap);
    }
    if (peers_stale || now() >= next_peers) read_peers();
    if (now() >= next_ping) {
      if (!MS_MUTANT(channel_never_pings)) connection->ping();
      next_ping = now() + options.ping_every;
    } else if (next > now()) {
      wait(std::min(next, next_peers));
    }
  }
}

void NodeChannel::Impl::read_peers() {
  peers_stale = false;
  next_peers = now() + options.peers_every;
  if (now() >= next_forget) {
    next_forget = now() + options.forget;
    connection->run(sql.forget, params(options.forget.count()));
  }
  const Rows rows =
      connection->run(sql.peers, params(options.node, options.alive.count(), kMaxPeersRead));
  std::vector<Peer> peers;
  for (int i = 0; i < rows.size(); ++i) peers.push_back({rows.integer(i, 0), rows.string(i, 1)});
  handlers.peers(peers);
}

void NodeChannel::Impl::hear_all() {
  PGconn* raw = connection->handle();
  if (PQconsumeInput(raw) != 1 || PQstatus(raw) == CONNECTION_BAD)
    throw PgError{"", PQerrorMessage(raw), true};
  while (PGnotify* one = PQnotifies(raw)) {
    const std::unique_ptr<PGnotify, void (*)(void*)> free_it(one, PQfreemem);
    hear(one->extra);
  }
}

void NodeChannel::Impl::hear(std::string_view payload) {
  if (!echo.empty() && payload.find(echo) != std::string_view::npos) {
    echoed = true;
    if (state != Listening::does_not_work) return;
    // The database or this machine was slow.
    state = Listening::works;
    logged_silent = false;
    log.info("LISTEN works: the message of this node arrived late", {});
    return;
  }
  const auto notice = decode_notice(payload);
  // Any database client can send anything. An unreadable message means that something changed.
  if (!notice) return handlers.heard({.everything = true});
  if (notice->node == options.node) return;
  received_total.add();
  if (notice->joined) peers_stale = true;
  if (!notice->heard.empty()) handlers.heard(notice->heard);
}

void NodeChannel::Impl::notify(const std::string& payload) {
  connection->run(sql.notify, params(options.schema, payload));
}

void NodeChannel::Impl::say_now() {
  ChangeHints what;
  {
    MutexLock lock(mutex);
    what = to_say.take();
  }
  last_said = now();
  try {
    notify(encode_notice(what, options.node));
  } catch (const PgError&) {
    MutexLock lock(mutex);
    to_say.add(what);  // sent when the database is back
    throw;
  }
  sent_total.add();
}

NodeChannel::NodeChannel(NodeChannelOptions options, const Clock& clock, Random& random, Log& log,
                         Registry& registry, Handlers handlers)
    : impl_(std::make_unique<Impl>(std::move(options), clock, random, log, registry,
                                   std::move(handlers))) {}
NodeChannel::~NodeChannel() = default;

void NodeChannel::start() {
  impl_->start();
}
void NodeChannel::stop() {
  impl_->stop();
}

void NodeChannel::say(const ChangeHints& what) {
  {
    MutexLock lock(impl_->mutex);
    const bool first = impl_->to_say.empty();
    impl_->to_say.add(what);
    if (!first) return;
  }
  impl_->wake();
}

NodeChannel::Listening NodeChannel::listening() const {
  return impl_->state;
}

std::string_view to_string(NodeChannel::Listening listening) {
  constexpr std::string_view kNames[] = {"not_yet", "works", "does_not_work", "away"};
  return kNames[static_cast<int>(listening)];
}

Result<Secret> shared_secret(const NodeChannelOptions& options, const std::string& name,
                             const Clock& clock, Random& random) {
  try {
    const ChannelSql sql(quoted(options.schema));
    Connection connection(connection_options(options), clock);
    const auto find = [&] {
      pg::Params all;
      return connection.run(sql.key, all.add(name));
    };
    Rows rows = find();
    if (rows.empty()) {
      std::string bytes;
      while (bytes.size() < kSharedSecretBytes) {
        const std::uint64_t part = random.next();
        for (int i = 0; i < 8; ++i) bytes += static_cast<char>(part >> 8 * i & 0xff);
      }
      pg::Params all;
      connection.run(sql.make_key, all.add(name).bytes(bytes));
      rows = find();  // another node's, if it was first
    }
    if (rows.empty() || rows.text(0, 0).size() != kSharedSecretBytes) {
      return Error{.code = ErrorCode::conflict,
                   .message = fmt::format("{}.secrets: the row '{}' must have {} bytes; remove it "
                                          "and restart all nodes",
                                          options.schema, name, kSharedSecretBytes)};
    }
    return Secret(std::string(rows.text(0, 0)));
  } catch (const PgError& error) {
    return pg::to_error(error);
  }
}

Result<Secret> shared_peer_key(const NodeChannelOptions& options, const Clock& clock,
                               Random& random) {
  MS_TRY_ASSIGN(const Secret bytes, shared_secret(options, "notifier", clock, random));
  std::string hex;
  for (const char c : bytes.reveal()) {
    hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  }
  return Secret(std::move(hex));
}

}  // namespace mainspring
