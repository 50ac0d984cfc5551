// Connects the parts of a node in the order of their dependencies.
#include "engine/node.h"

#include <fmt/format.h>

#include <cstdlib>

#include "broker/broker.h"
#include "engine/callback_keys.h"
#include "engine/gate_watch.h"
#include "env/processes.h"
#include "env/random.h"
#include "folders/folder_watcher.h"
#include "tracing/exporter.h"
#include "tracing/job_traces.h"

namespace mainspring {
namespace {

// See BrokerOptions::standstill. A commit to a busy database may take seconds.
constexpr Duration kStandstill = std::chrono::seconds(3);
constexpr Duration kSharedStandstill = std::chrono::seconds(6);

// Collects errors; `rule` is the rule that was broken.
class Checks {
 public:
  explicit Checks(std::vector<Error>& errors) : errors_(errors) {}
  void operator()(bool ok, std::string_view field, std::string_view value, std::string_view rule) {
    if (ok) return;
    errors_.push_back(
        invalid(std::string(field), fmt::format("{} {}: must be {}", field, value, rule)));
  }
  template <class T>
  void at_least(std::string_view field, T value, T least) {
    (*this)(value >= least, field, fmt::to_string(value), fmt::format("at least {}", least));
  }
  void positive(std::string_view field, Duration value) {
    (*this)(value > Duration(0), field, format_duration(value), "more than 0s");
  }

 private:
  std::vector<Error>& errors_;
};

}  // namespace

std::vector<Error> NodeOptions::validate() const {
  std::vector<Error> errors;
  Checks check(errors);
  const StoreOptions& store = postgres ? postgres->store : sqlite.store;
  if (postgres) {
    check(!postgres->url.empty(), "store", "\"\"", "postgres://…");
    check.positive("patience", postgres->patience);
    auto more = peers.validate();
    errors.insert(errors.end(), more.begin(), more.end());
  } else {
    check(!sqlite.directory.empty(), "data", "\"\"", "a directory");
    check.at_least<std::size_t>("cache_bytes", sqlite.cache_bytes, 1 << 20);
  }
  check.positive("retention_completed", store.retention_completed);
  check.positive("retention_dead", store.retention_dead);
  check.positive("retention_replies", store.retention_replies);
  check.at_least<std::int64_t>("max_finished_jobs", store.max_finished_jobs, 0);
  check.at_least<std::int64_t>("max_live_jobs", store.max_live_jobs, 1);
  check.at_least<std::size_t>("max_waiting_jobs", broker.max_waiting_jobs, 1);
  check.at_least<std::size_t>("max_waiting_bytes", broker.max_waiting_bytes, 1 << 20);
  check.at_least<std::size_t>("max_parked_claims", broker.max_parked_claims, 1);
  check.at_least<std::size_t>("max_waiting_urgent", broker.max_waiting_urgent, 1);
  check.at_least<std::size_t>("max_batch_jobs", broker.max_batch_jobs, 1);
  check.at_least<std::size_t>("max_batch_bytes", broker.max_batch_bytes, 1);
  check.positive("worker_memory", broker.worker_memory);
  check.at_least<std::size_t>("event_buffer", broker.events.buffer, 1);
  check.positive("event_memory", broker.events.memory);
  check.positive("poll", broker.poll);
  for (const std::string& root : broker.watch_roots) {
    check(root.starts_with('/') && root.find("/../") == std::string::npos, "watch_root", root,
          "an absolute path without ..");
  }
  check.at_least("scheduler_batch", scheduler.batch, 1);
  check.positive("max_sleep", scheduler.max_sleep);
  check.positive("prune_interval", scheduler.prune_interval);
  check.positive("forget_queues", scheduler.forget_queues);
  check(scheduler.leadership >= kMinLease, "leadership", format_duration(scheduler.leadership),
        "at least 1s");
  check(scheduler.leadership_renew > Duration(0) &&
            3 * scheduler.leadership_renew <= scheduler.leadership,
        "leadership_renew", format_duration(scheduler.leadership_renew),
        "at most a third of leadership");
  check.positive("duty_bound", scheduler.duty_bound);
  if (callbacks) {
    auto more = callbacks->validate();
    errors.insert(errors.end(), more.begin(), more.end());
  }
  return errors;
}

// The store of a node, SQLite or PostgreSQL, and its clock.
struct Node::StoreLocation {
  std::unique_ptr<DatabaseClock> database_clock;  // of a shared store
  std::unique_ptr<Store> store;
  SharedStore* shared = nullptr;  // the store, if it is shared
  // Further connections to the database: see broker/writer_connections.cc.
  std::unique_ptr<SharedStore> enqueues, completions;
};

struct Node::Impl {
  Impl(NodeOptions options_, const Clock& clock_, Log& log_, Registry& registry,
       StoreLocation location_)
      : options(std::move(options_)),
        location(std::move(location_)),
        clock(location.database_clock ? *location.database_clock : clock_),
        log(log_),
        broker(*location.store, clock, log, registry, options.broker),
        scheduler(broker, clock, log, registry, options.scheduler) {
    broker.on_fatal([this](const Error& error) { fail(error); });
  }
  ~Impl() { stop(); }

  void fail(const Error& error) {
    log.error("the store failed",
              {{"error", std::string(error.name())}, {"message", error.message}});
    if (!fatal) std::abort();
    fatal(error);
  }
  void stop() {
    if (gates) gates->stop();
    if (folders) folders->stop();
    if (callbacks) callbacks->stop();
    if (redrives) redrives->stop();
    scheduler.stop();
    broker.stop();
    if (peers) peers->stop();
    if (exporter) exporter->stop();
  }

  const NodeOptions options;
  const StoreLocation location;
  const Clock& clock;
  Log& log;
  SystemRandom random;
  std::function<void(const Error&)> fatal;
  std::unique_ptr<Exporter> exporter;
  std::unique_ptr<JobTraces> traces;
  Broker broker;
  std::unique_ptr<GateWatch> gates;
  Scheduler scheduler;
  std::unique_ptr<ClusterPeers> peers;
  std::unique_ptr<CallbackKeys> callback_keys;
  std::unique_ptr<Callbacks> callbacks;
  std::unique_ptr<Redrives> redrives;
  std::unique_ptr<FolderWatcher> folders;

  Result<void> open_callbacks(Registry& registry);
  Result<void> open_traces(Registry& registry);
};

// Reads an operator's key file at once, so that an error in it is reported at the start. The
// store's own key is created when the first callback needs it.
Result<void> Node::Impl::open_callbacks(Registry& registry) {
  callback_keys =
      std::make_unique<CallbackKeys>(CallbackKeyPlace{.file = options.callback_key_file,
                                                      .directory = options.sqlite.directory,
                                                      .postgres = options.postgres},
                                     clock, random);
  if (!options.callback_key_file.empty()) MS_TRY(callback_keys->get());
  MS_TRY_ASSIGN(callbacks, Callbacks::open(
                               *options.callbacks, broker, [this] { return callback_keys->get(); },
                               clock, random, log, registry));
  return {};
}

Result<void> Node::Impl::open_traces(Registry& registry) {
  MS_TRY_ASSIGN(exporter, Exporter::open(*options.traces, clock, log, registry));
  std::string salt = process_name();  // HOST:PID
  salt.resize(salt.find(':'));
  for (const auto& [name, value] : options.traces->resource) salt += " " + name + "=" + value;
  traces = std::make_unique<JobTraces>(options.traces->sampler, std::move(salt), *exporter, random,
                                       options.traces->server);
  broker.trace(*traces);
  gates = std::make_unique<GateWatch>(*traces, broker, clock);
  return {};
}

Result<Node::StoreLocation> Node::open_store_location(NodeOptions& options, const Clock& clock,
                                                      Log& log) {
  StoreLocation location;
  if (!options.postgres) {
    MS_TRY_ASSIGN(location.store, open_sqlite_store(options.sqlite, clock.now(), log));
    return location;
  }
  options.postgres->incarnation = options.scheduler.incarnation;
  location.database_clock = std::make_unique<DatabaseClock>(clock);
  MS_TRY_ASSIGN(auto shared, open_postgres_store(*options.postgres, clock.now(), log,
                                                 location.database_clock.get()));
  PostgresOptions by_writer = *options.postgres;
  by_writer.joins = false;
  MS_TRY_ASSIGN(location.enqueues,
                open_postgres_store(by_writer, clock.now(), log, location.database_clock.get()));
  MS_TRY_ASSIGN(location.completions,
                open_postgres_store(by_writer, clock.now(), log, location.database_clock.get()));
  location.shared = shared.get();
  location.store = std::move(shared);
  return location;
}

Result<std::unique_ptr<Node>> Node::open(NodeOptions options, const Clock& clock, Log& log,
                                         Registry& registry) {
  if (auto errors = options.validate(); !errors.empty()) return errors.front();
  options.scheduler.incarnation = SystemRandom().hex128();
  if (options.broker.standstill == kForever)
    options.broker.standstill = options.postgres ? kSharedStandstill : kStandstill;
  MS_TRY_ASSIGN(StoreLocation location, open_store_location(options, clock, log));
  auto impl = std::make_unique<Impl>(std::move(options), clock, log, registry, std::move(location));
  if (SharedStore* shared = impl->location.shared) {
    impl->broker.add_writer(*impl->location.enqueues, Broker::WriterFor::enqueues);
    impl->broker.add_writer(*impl->location.completions, Broker::WriterFor::completions);
    MS_TRY_ASSIGN(impl->peers,
                  ClusterPeers::open(impl->options.peers, *impl->options.postgres, *shared,
                                     impl->broker, clock, impl->random, log, registry));
  }
  if (impl->options.traces) MS_TRY(impl->open_traces(registry));
  if (impl->options.callbacks) MS_TRY(impl->open_callbacks(registry));
  if (impl->options.redrive_slots > 0) {
    impl->redrives = std::make_unique<Redrives>(impl->options.redrive_slots, impl->broker,
                                                impl->clock, impl->random, log);
  }
  if (!impl->options.broker.watch_roots.empty()) {
    const std::string host = process_name();
    std::function<std::int64_t()> commits;
    if (!impl->options.postgres) {
      commits = [node = impl.get()] { return node->location.store->commits(); };
    }
    impl->folders = std::make_unique<FolderWatcher>(
        impl->broker, impl->clock, log, registry,
        FolderWatcher::Options{
            .host = host.substr(0, host.find(':')),
            .leads = [node =
                          impl.get()] { return node->scheduler.leads(node->clock.now().instant); },
            .commits = commits});
  }
  return std::unique_ptr<Node>(new Node(std::move(impl)));
}

Node::Node(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Node::~Node() = default;

void Node::on_fatal(std::function<void(const Error&)> fatal) {
  impl_->fatal = std::move(fatal);
}

void Node::start() {
  if (impl_->peers) impl_->peers->start();
  impl_->broker.start();
  impl_->scheduler.start();
  if (impl_->gates) impl_->gates->start();
  if (impl_->folders) impl_->folders->start();
}

void Node::stop_workers() {
  if (impl_->callbacks) impl_->callbacks->stop();
  if (impl_->redrives) impl_->redrives->stop();
}

void Node::stop() {
  impl_->stop();
}

Store& Node::store() {
  return *impl_->location.store;
}
Broker& Node::broker() {
  return impl_->broker;
}
Scheduler& Node::scheduler() {
  return impl_->scheduler;
}
const Clock& Node::clock() const {
  return impl_->clock;
}
ClusterPeers* Node::peers() {
  return impl_->peers.get();
}
Callbacks* Node::callbacks() {
  return impl_->callbacks.get();
}
Redrives* Node::redrives() {
  return impl_->redrives.get();
}
const NodeOptions& Node::options() const {
  return impl_->options;
}

}  // namespace mainspring
