// SharedStore: a store that other nodes change too, and the hints that nodes exchange about
// changes.
//
// All hints may be lost: the node then detects the change later, by refresh().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/store.h"

namespace mainspring {

// A cancel request for a running job. Its worker receives it with its next claim, or with its next
// renewal if this hint is lost.
struct CancelNotice {
  JobId job = 0;
  std::string worker;
  friend auto operator<=>(const CancelNotice&, const CancelNotice&) = default;
};

// What an operator asked a worker to do; none = resume. Lost if this is lost.
struct CommandNotice {
  std::string worker;
  WorkerCommand command = WorkerCommand::none;
  friend bool operator==(const CommandNotice&, const CommandNotice&) = default;
};

// What a change of another node (or of an SQL client) made possible here.
struct ChangeHints {
  std::vector<std::string> queues;        // may have work
  std::vector<std::string> released;      // leases that became free
  std::vector<CancelNotice> cancels;      // of running jobs
  std::vector<CommandNotice> commands{};  // for workers
  std::vector<JobId> ended;               // jobs that became terminal
  std::vector<JobId> ended_reported;      // ended jobs whose events arrive separately
  WallTime next_due = WallTime::never();  // something becomes due or fires then
  bool catalog = false;                   // queues, schedules or tokens changed
  // More changes than fit or are known (a connection was down): all of the above may have changed.
  // The next refresh() compares everything, however early it is called.
  bool everything = false;
  // Of refresh(): why the counters could not be folded, which changed nothing else; "" = they were.
  std::string fold_failed{};

  bool empty() const {
    return queues.empty() && released.empty() && cancels.empty() && commands.empty() &&
           ended.empty() && ended_reported.empty() && next_due == WallTime::never() && !catalog &&
           !everything;
  }
};

// The durability that the database currently gives.
struct Durability {
  std::string synchronous_commit;  // the server's setting: on, remote_apply, local, off, …
  int synchronous_standbys = 0;    // standbys that a commit waits for
  bool read_only = false;          // a standby, or set read-only
};

// Conditions outside the store that slow a database down.
struct StoreHealth {
  // How long the oldest transaction or prepared transaction of the whole server, or a replication
  // slot, has kept dead rows from being removed; 0 = none does.
  Duration oldest_snapshot{0};
  std::int64_t dead_rows = 0;  // in the store's tables, estimated by the server
  // How far the slowest standby lags; nullopt = no standby, or the user may not see it.
  std::optional<Duration> standby_lag{};
};

// A node's published description of itself.
struct Said {
  std::string what;  // as given to say(), with members that the store added
  Duration ago{0};
};

// If the connection is lost during a commit and the outcome cannot be determined, apply() returns
// `timeout`. In a committed batch, a single operation can also be answered `timeout`: its outcome
// is unknown, and the other operations are applied.
class SharedStore : public Store {
 public:
  // Notes changes of other nodes. Same thread as apply(). Cheap: runs no query.
  virtual void heard(const ChangeHints& what) = 0;
  // Drops claims of this store that another connection of the same node has completed.
  virtual void forget_claims(const std::vector<std::pair<JobId, Token>>& completed) {
    (void)completed;
  }
  // Returns and clears what this store's own last batch changed for other nodes. Leases and ended
  // jobs can be missing: the report of the batch has them.
  virtual ChangeHints take_news() = 0;
  // Compares the in-memory copies with the database, if it is time. Same thread as apply().
  virtual Result<ChangeHints> refresh(Now now) = 0;
  // Sets this node's description, a JSON object; refresh() publishes it. Same thread as apply().
  virtual void say(std::string what) { (void)what; }
  // The descriptions of the other live nodes. From any thread. Errors: unavailable.
  virtual Result<std::vector<Said>> others_say() const { return std::vector<Said>(); }
  // A number for each node that opens the store; increasing, never reused.
  virtual std::int64_t node_number() const = 0;
  // From any thread. Errors: unavailable.
  virtual Result<Durability> durability() const = 0;
  // From any thread. Errors: unavailable.
  virtual Result<StoreHealth> health() const { return StoreHealth{}; }
  // True if the last attempt to reach the database failed.
  virtual bool away() const = 0;
  // True if the last apply() failed because a transaction of another client holds a lock that an
  // operation of the batch needs. Same thread as apply().
  virtual bool blocked() const { return false; }
};

}  // namespace mainspring
