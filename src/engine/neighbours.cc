// The bell and the channel, wired; and the watch over what the database promises.
#include "engine/neighbours.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "api/json.h"
#include "base/mutant.h"
#include "bell/bell.h"
#include "broker/broker.h"
#include "engine/event_relay.h"
#include "store_postgres/node_channel.h"

namespace mainspring {
namespace {

// How often --require-rpo0 asks whether it still holds.
constexpr Duration kWatchEvery = std::chrono::seconds(2);

NodeChannelOptions channel_options(const NeighbourOptions& options,
                                   const PostgresOptions& postgres) {
  NodeChannelOptions channel;
  channel.url = options.listen_url.empty() ? postgres.url : options.listen_url;
  channel.schema = postgres.schema;
  channel.prepared = postgres.prepared || !options.listen_url.empty();
  channel.incarnation = postgres.incarnation;
  channel.program = MAINSPRING_VERSION;
  channel.connect_timeout = postgres.connect_timeout;
  return channel;
}

}  // namespace

Result<void> check_rpo0(const Durability& durability) {
  const std::string& commit = durability.synchronous_commit;
  if (commit != "on" && commit != "remote_apply") {
    return Error{.code = ErrorCode::conflict,
                 .message = fmt::format(
                     "require_rpo0: synchronous_commit is {}: must be on or remote_apply", commit)};
  }
  if (durability.synchronous_standbys < 1) {
    return Error{.code = ErrorCode::conflict,
                 .message =
                     "require_rpo0: no standby is synchronous: must be at least 1; see "
                     "synchronous_standby_names of the server, or synchronous_mode of "
                     "Patroni"};
  }
  return {};
}

std::vector<Error> NeighbourOptions::validate() const {
  if (wake != Wake::automatic) return {};
  BellOptions bell{.listen = bell_listen, .advertise = bell_advertise};
  bell.key = Secret(std::string(64, '0'));  // the true one is in the database
  return bell.validate();
}

struct Neighbours::Impl {
  Impl(NeighbourOptions options_, SharedStore& store_, Broker& broker_, Log& log_)
      : options(std::move(options_)), store(store_), broker(broker_), log(log_) {}

  void set_peers(const std::vector<NodeChannel::Peer>& peers);
  void watch(const std::stop_token& stop);
  void note_rpo0(const Result<void>& holds);

  const NeighbourOptions options;
  SharedStore& store;
  Broker& broker;
  Log& log;
  Registry* registry = nullptr;
  std::atomic<int> others{0};
  std::unique_ptr<EventRelay> relay;  // outlives the bell
  std::unique_ptr<Bell> bell;
  std::unique_ptr<NodeChannel> channel;

  mutable Mutex mutex;
  CondVar stopping;
  std::string rpo0_broken MS_GUARDED_BY(mutex);  // "" = it holds, or nobody asked for it
  std::jthread watcher;
};

void Neighbours::Impl::set_peers(const std::vector<NodeChannel::Peer>& peers) {
  others = static_cast<int>(peers.size());
  if (!bell) return;
  std::vector<Bell::Peer> ring;
  for (const auto& peer : peers) ring.push_back({peer.node, peer.address});
  bell->set_peers(std::move(ring));
}

void Neighbours::Impl::note_rpo0(const Result<void>& holds) {
  const std::string now = holds ? "" : holds.error().message;
  {
    MutexLock lock(mutex);
    if (now == rpo0_broken) return;
    rpo0_broken = now;
  }
  broker.hold(now);
  if (holds) {
    log.info("require_rpo0 holds again: this node is ready", {});
  } else {
    log.error("require_rpo0 does not hold: this node is not ready and refuses changes",
              {{"why", now}});
  }
}

void Neighbours::Impl::watch(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const auto durability = store.durability();
    if (durability) note_rpo0(check_rpo0(*durability));
    MutexLock lock(mutex);
    if (!stop.stop_requested()) stopping.wait_for(mutex, kWatchEvery);
  }
}

namespace {

constexpr const char* kOldestSnapshot = "mainspring_store_oldest_snapshot_seconds";
constexpr const char* kOldestSnapshotHelp =
    "How long a transaction has kept the database from removing dead rows.";
constexpr const char* kDeadRows = "mainspring_store_dead_rows";
constexpr const char* kDeadRowsHelp = "Dead rows in the store's tables, estimated.";

// Asked with each scrape; nothing while the database is away.
void register_health(SharedStore& store, Registry& registry) {
  const auto sample = [&store](auto value) {
    return [&store, value] {
      Registry::Samples samples;
      if (store.away()) return samples;
      if (const auto health = store.health()) samples.push_back({{}, value(*health)});
      return samples;
    };
  };
  registry.gauges(kOldestSnapshot, kOldestSnapshotHelp, sample([](const StoreHealth& health) {
                    return static_cast<double>(health.oldest_snapshot.count()) / 1e6;
                  }));
  registry.gauges(kDeadRows, kDeadRowsHelp, sample([](const StoreHealth& health) {
                    return static_cast<double>(health.dead_rows);
                  }));
}

}  // namespace

Result<std::unique_ptr<Neighbours>> Neighbours::open(NeighbourOptions options,
                                                     const PostgresOptions& postgres,
                                                     SharedStore& store, Broker& broker,
                                                     const Clock& clock, Random& random, Log& log,
                                                     Registry& registry) {
  if (options.require_rpo0) {
    MS_TRY_ASSIGN(const Durability durability, store.durability());
    MS_TRY(check_rpo0(durability));
  }
  auto impl = std::make_unique<Impl>(std::move(options), store, broker, log);
  NodeChannelOptions channel = channel_options(impl->options, postgres);
  channel.node = store.node_number();
  const auto hear = [&broker](const Heard& what) { broker.hear(what); };
  if (impl->options.wake == Wake::automatic) {
    NodeChannelOptions key_from = channel;
    key_from.url = postgres.url;
    key_from.prepared = postgres.prepared;
    BellOptions bell{.listen = impl->options.bell_listen,
                     .advertise = impl->options.bell_advertise};
    MS_TRY_ASSIGN(bell.key, shared_bell_key(key_from, clock, random));
    bell.node = store.node_number();
    MS_TRY_ASSIGN(impl->bell, Bell::open(std::move(bell), clock, random, log, registry, hear));
    channel.address = impl->bell->address();
    impl->relay = std::make_unique<EventRelay>(broker.events(), clock, store.node_number());
    impl->bell->carry(*impl->relay);
  }
  if (impl->options.wake != Wake::poll) {
    impl->channel = std::make_unique<NodeChannel>(
        std::move(channel), clock, random, log, registry,
        NodeChannel::Handlers{.heard = hear, .peers = [raw = impl.get()](const auto& peers) {
                                raw->set_peers(peers);
                              }});
  }
  register_health(store, registry);
  auto out = std::unique_ptr<Neighbours>(new Neighbours(std::move(impl)));
  out->impl_->registry = &registry;
  broker.share(store, random, [raw = out.get()](const Heard& what) { raw->tell(what); });
  if (Bell* bell = out->impl_->bell.get(); bell != nullptr) {
    bell->ask_who_waits([&broker] { return broker.waits_for_news(); });
    broker.on_wait([bell] { bell->somebody_waits(); });
  }
  return out;
}

Neighbours::Neighbours(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Neighbours::~Neighbours() {
  stop();
  impl_->broker.on_wait({});
  // The registry lives on: what it asks must not lead here any more.
  if (impl_->registry == nullptr) return;
  impl_->registry->gauges(kOldestSnapshot, kOldestSnapshotHelp, {});
  impl_->registry->gauges(kDeadRows, kDeadRowsHelp, {});
}

void Neighbours::start() {
  if (impl_->bell) impl_->bell->start();
  if (impl_->channel) impl_->channel->start();
  if (impl_->options.require_rpo0 && !impl_->watcher.joinable()) {
    impl_->watcher =
        std::jthread([impl = impl_.get()](const std::stop_token& stop) { impl->watch(stop); });
  }
}

void Neighbours::stop() {
  if (impl_->watcher.joinable()) {
    {
      MutexLock lock(impl_->mutex);
      impl_->watcher.request_stop();
      impl_->stopping.notify_all();
    }
    impl_->watcher.join();
  }
  // The bell first: others hear its last words before they hear that the node has left.
  if (impl_->bell) impl_->bell->stop();
  if (impl_->channel) impl_->channel->stop();
}

void Neighbours::tell(const Heard& what) {
  if (impl_->options.wake == Wake::poll || impl_->others == 0) return;
  if (impl_->bell && !MS_MUTANT(bell_not_rung)) impl_->bell->ring(what);
  if (impl_->channel && (!impl_->bell || !impl_->bell->reaches_all())) impl_->channel->say(what);
}

std::optional<std::string> Neighbours::not_ready() const {
  if (impl_->store.away()) return "the database cannot be reached";
  MutexLock lock(impl_->mutex);
  if (impl_->rpo0_broken.empty()) return std::nullopt;
  return impl_->rpo0_broken;
}

std::string Neighbours::describe() const {
  std::string text;
  JsonWriter out(text);
  out.begin_object().key("kind").string("postgres").key("away").boolean(impl_->store.away());
  if (const auto durability = impl_->store.durability()) {
    out.key("durability").begin_object();
    out.key("synchronous_commit").string(durability->synchronous_commit);
    out.key("standbys").number(durability->synchronous_standbys).end_object();
  }
  out.key("node").number(impl_->store.node_number()).key("others").number(impl_->others.load());
  if (impl_->bell) out.key("bell_reaches").number(impl_->bell->reached());
  if (impl_->channel) out.key("listen").string(std::string(to_string(impl_->channel->listening())));
  out.end_object();
  return text;
}

}  // namespace mainspring
