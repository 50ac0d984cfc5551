// Node: a store, its broker and its scheduler, started and stopped in order. `serve` adds HTTP to a
// node; an embedded Engine uses a node directly.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "broker/broker_options.h"
#include "callbacks/callbacks.h"
#include "disk_sqlite/sqlite_store.h"
#include "engine/cluster_peers.h"
#include "env/clock.h"
#include "redrive/redrives.h"
#include "scheduler/scheduler.h"
#include "store_postgres/postgres_store.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"
#include "tracing/settings.h"

namespace mainspring {

class Broker;

struct NodeOptions {
  // The store: a directory, or a database shared by any number of nodes.
  SqliteOptions sqlite;  // sqlite.directory must be given
  std::optional<PostgresOptions> postgres;
  ClusterPeersOptions peers;  // with postgres
  BrokerOptions broker;
  SchedulerOptions scheduler;
  std::optional<CallbackOptions> callbacks;  // nullopt: no callbacks; their jobs wait
  std::string callback_key_file;             // "" = the store's own key; read at open
  std::optional<TraceSettings> traces;       // nullopt: traces are not exported
  int redrive_slots = 0;                     // redrives that run at once; 0 = none

  // All errors; empty = valid.
  std::vector<Error> validate() const;
};

class Node {
 public:
  // Opens the store (see open_sqlite_store, open_postgres_store) and connects broker and scheduler,
  // which do not run yet. `clock`, `log`, `registry` must outlive the node. Errors:
  // invalid_argument (the first of validate()), and those of opening.
  static Result<std::unique_ptr<Node>> open(NodeOptions options, const Clock& clock, Log& log,
                                            Registry& registry);
  ~Node();  // stops
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // Sets the function that ends the process when the store can no longer be trusted. It is called
  // once, on a thread of the broker. Set it before start(). Without it the node logs the error and
  // aborts.
  void on_fatal(std::function<void(const Error&)> fatal);

  // Starts the broker, then the scheduler. Can be called twice; not again after stop().
  void start();
  // Stops the engine's own workers: callbacks and redrives. Call before claims are refused.
  void stop_workers();
  // Stops callbacks, redrives, scheduler, then the broker (accepted requests are committed and
  // answered). The store stays readable until the node is destroyed. Can be called twice, and
  // before start(). Waits.
  void stop();

  Store& store();
  Broker& broker();
  Scheduler& scheduler();
  // The clock of the store: the database's for a shared store, else `clock` of open().
  const Clock& clock() const;
  // nullptr = the store is not shared.
  ClusterPeers* peers();
  // nullptr = no options for callbacks. The owner of the node starts them after its own start: a
  // node that cannot serve should not send callbacks.
  Callbacks* callbacks();
  // Like callbacks(); nullptr = redrive_slots is 0.
  Redrives* redrives();
  const NodeOptions& options() const;

 private:
  struct Impl;
  struct StoreLocation;
  static Result<StoreLocation> open_store_location(NodeOptions& options, const Clock& clock,
                                                   Log& log);
  explicit Node(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainspring
