// Connects the notifier and the database channel, and watches the database's durability.
#include "engine/cluster_peers.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "api/json.h"
#include "base/mutant.h"
#include "broker/broker.h"
#include "engine/event_relay.h"
#include "peer/notifier.h"
#include "store_postgres/node_channel.h"

namespace mainspring {
namespace {

// How often --require-rpo0 is checked.
constexpr Duration kWatchEvery = std::chrono::seconds(2);

NodeChannelOptions channel_options(const ClusterPeersOptions& options,
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

std::vector<Error> ClusterPeersOptions::validate() const {
  if (wake != Wake::automatic) return {};
  PeerOptions notifier{.listen = peer_listen, .advertise = peer_advertise};
  notifier.key = Secret(std::string(64, '0'));  // placeholder: the real key is in the database
  return notifier.validate();
}

struct ClusterPeers::Impl {
  Impl(ClusterPeersOptions options_, SharedStore& store_, Broker& broker_, Log& log_)
      : options(std::move(options_)), store(store_), broker(broker_), log(log_) {}

  void set_peers(const std::vector<NodeChannel::Peer>& peers);
  void watch(const std::stop_token& stop);
  void note_rpo0(const Result<void>& holds);

  const ClusterPeersOptions options;
  SharedStore& store;
  Broker& broker;
  Log& log;
  Registry* registry = nullptr;
  std::atomic<int> others{0};
  std::unique_ptr<EventRelay> relay;  // outlives the notifier
  std::unique_ptr<PeerNotifier> notifier;
  std::unique_ptr<NodeChannel> channel;

  mutable Mutex mutex;
  CondVar stopping;
  std::string rpo0_broken MS_GUARDED_BY(mutex);  // "" = satisfied, or not required
  std::jthread watcher;
};

void ClusterPeers::Impl::set_peers(const std::vector<NodeChannel::Peer>& peers) {
  others = static_cast<int>(peers.size());
  if (!notifier) return;
  std::vector<PeerNotifier::Peer> ring;
  for (const auto& peer : peers) ring.push_back({peer.node, peer.address});
  notifier->set_peers(std::move(ring));
}

void ClusterPeers::Impl::note_rpo0(const Result<void>& holds) {
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

void ClusterPeers::Impl::watch(const std::stop_token& stop) {
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
    "Age of the oldest transaction that keeps the database from removing dead rows.";
constexpr const char* kDeadRows = "mainspring_store_dead_rows";
constexpr const char* kDeadRowsHelp = "Estimated dead rows in the store's tables.";

// Evaluated at each scrape; no samples while the database is unreachable.
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

Result<std::unique_ptr<ClusterPeers>> ClusterPeers::open(ClusterPeersOptions options,
                                                         const PostgresOptions& postgres,
                                                         SharedStore& store, Broker& broker,
                                                         const Clock& clock, Random& random,
                                                         Log& log, Registry& registry) {
  if (options.require_rpo0) {
    MS_TRY_ASSIGN(const Durability durability, store.durability());
    MS_TRY(check_rpo0(durability));
  }
  auto impl = std::make_unique<Impl>(std::move(options), store, broker, log);
  NodeChannelOptions channel = channel_options(impl->options, postgres);
  channel.node = store.node_number();
  const auto hear = [&broker](const ChangeHints& what) { broker.hear(what); };
  if (impl->options.wake == Wake::automatic) {
    NodeChannelOptions key_from = channel;
    key_from.url = postgres.url;
    key_from.prepared = postgres.prepared;
    PeerOptions notifier{.listen = impl->options.peer_listen,
                         .advertise = impl->options.peer_advertise};
    MS_TRY_ASSIGN(notifier.key, shared_peer_key(key_from, clock, random));
    notifier.node = store.node_number();
    MS_TRY_ASSIGN(impl->notifier,
                  PeerNotifier::open(std::move(notifier), clock, random, log, registry, hear));
    channel.address = impl->notifier->address();
    impl->relay = std::make_unique<EventRelay>(broker.events(), clock, store.node_number());
    impl->notifier->carry(*impl->relay);
  }
  if (impl->options.wake != Wake::poll) {
    impl->channel = std::make_unique<NodeChannel>(
        std::move(channel), clock, random, log, registry,
        NodeChannel::Handlers{.heard = hear, .peers = [raw = impl.get()](const auto& peers) {
                                raw->set_peers(peers);
                              }});
  }
  register_health(store, registry);
  auto out = std::unique_ptr<ClusterPeers>(new ClusterPeers(std::move(impl)));
  out->impl_->registry = &registry;
  broker.share(store, random, [raw = out.get()](const ChangeHints& what) { raw->tell(what); });
  if (PeerNotifier* notifier = out->impl_->notifier.get(); notifier != nullptr) {
    notifier->set_waiting_check([&broker] { return broker.waits_for_news(); });
    broker.on_wait([notifier] { notifier->note_waiting(); });
  }
  return out;
}

ClusterPeers::ClusterPeers(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ClusterPeers::~ClusterPeers() {
  stop();
  impl_->broker.on_wait({});
  // The registry outlives this object: remove the callbacks into it.
  if (impl_->registry == nullptr) return;
  impl_->registry->gauges(kOldestSnapshot, kOldestSnapshotHelp, {});
  impl_->registry->gauges(kDeadRows, kDeadRowsHelp, {});
}

void ClusterPeers::start() {
  if (impl_->notifier) impl_->notifier->start();
  if (impl_->channel) impl_->channel->start();
  if (impl_->options.require_rpo0 && !impl_->watcher.joinable()) {
    impl_->watcher =
        std::jthread([impl = impl_.get()](const std::stop_token& stop) { impl->watch(stop); });
  }
}

void ClusterPeers::stop() {
  if (impl_->watcher.joinable()) {
    {
      MutexLock lock(impl_->mutex);
      impl_->watcher.request_stop();
      impl_->stopping.notify_all();
    }
    impl_->watcher.join();
  }
  // Stop the notifier first: other nodes then receive its last frames before they learn that this
  // node has left.
  if (impl_->notifier) impl_->notifier->stop();
  if (impl_->channel) impl_->channel->stop();
}

void ClusterPeers::tell(const ChangeHints& what) {
  if (impl_->options.wake == Wake::poll || impl_->others == 0) return;
  if (impl_->notifier && !MS_MUTANT(peer_not_notified)) impl_->notifier->notify(what);
  if (impl_->channel && (!impl_->notifier || !impl_->notifier->reaches_all()))
    impl_->channel->say(what);
}

std::optional<std::string> ClusterPeers::not_ready() const {
  if (impl_->store.away()) return "the database cannot be reached";
  MutexLock lock(impl_->mutex);
  if (impl_->rpo0_broken.empty()) return std::nullopt;
  return impl_->rpo0_broken;
}

std::string ClusterPeers::describe() const {
  std::string text;
  JsonWriter out(text);
  out.begin_object().key("kind").string("postgres").key("away").boolean(impl_->store.away());
  if (const auto durability = impl_->store.durability()) {
    out.key("durability").begin_object();
    out.key("synchronous_commit").string(durability->synchronous_commit);
    out.key("standbys").number(durability->synchronous_standbys).end_object();
  }
  out.key("node").number(impl_->store.node_number()).key("others").number(impl_->others.load());
  if (impl_->notifier) out.key("peers_reached").number(impl_->notifier->reached());
  if (impl_->channel) out.key("listen").string(std::string(to_string(impl_->channel->listening())));
  out.end_object();
  return text;
}

}  // namespace mainspring
