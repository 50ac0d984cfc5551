// Node: a store, its broker and its scheduler, started and stopped in order. What `serve` puts HTTP
// in front of, and what an embedded Engine works on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "broker/broker_options.h"
#include "callbacks/callbacks.h"
#include "engine/neighbours.h"
#include "env/clock.h"
#include "redrive/redrives.h"
#include "scheduler/scheduler.h"
#include "store_postgres/postgres_store.h"
#include "store_sqlite/sqlite_store.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"
#include "tracing/settings.h"

namespace mainspring {

class Broker;

struct NodeOptions {
  // One of them: a directory, or a database that any number of nodes share.
  SqliteOptions sqlite;  // sqlite.directory must be given
  std::optional<PostgresOptions> postgres;
  NeighbourOptions neighbours;  // with postgres
  BrokerOptions broker;
  SchedulerOptions scheduler;
  std::optional<CallbackOptions> callbacks;  // nullopt: nothing of them; jobs for them wait
  std::string callback_key_file;             // "" = the store has one; read when it opens
  std::optional<TraceSettings> traces;       // nullopt: traces are not exported
  int redrive_slots = 0;                     // redrives that are worked on at once; 0 = none

  // All mistakes; empty = none.
  std::vector<Error> validate() const;
};

class Node {
 public:
  // Opens the store (see open_sqlite_store, open_postgres_store) and wires broker and scheduler,
  // which do not run yet. `clock`, `log`, `registry` outlive it. Errors: invalid_argument (the
  // first of validate()), and those of opening.
  static Result<std::unique_ptr<Node>> open(NodeOptions options, const Clock& clock, Log& log,
                                            Registry& registry);
  ~Node();  // stops
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // Called once, on a thread of the broker, when the store can no longer be trusted: end the
  // process. Set before start. Without one the node logs it and aborts.
  void on_fatal(std::function<void(const Error&)> fatal);

  // Broker, then scheduler. May be called twice; not again after stop().
  void start();
  // Answers parked claims empty and refuses new ones; all else goes on.
  void stop_claims();
  // Those of the engine itself: callbacks and redrives. Before claims are refused.
  void stop_workers();
  // Callbacks, redrives, scheduler, then broker (what was accepted is committed and answered). The
  // store stays readable until the node is destroyed. May be called twice, before start too; waits.
  void stop();

  Store& store();
  Broker& broker();
  Scheduler& scheduler();
  // The time of the store: the database's, if it is shared; `clock` of open() if not.
  const Clock& clock() const;
  // nullptr = the store is this process's own.
  Neighbours* neighbours();
  // nullptr = without options for them. Their start() is up to the node's owner, after its own: who
  // cannot serve should not post.
  Callbacks* callbacks();
  // The same, without slots for them.
  Redrives* redrives();
  const NodeOptions& options() const;

 private:
  struct Impl;
  struct Ground;
  static Result<Ground> open_ground(NodeOptions& options, const Clock& clock, Log& log);
  explicit Node(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainspring
