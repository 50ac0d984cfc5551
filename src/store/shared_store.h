// SharedStore: a store that other nodes change too, and what they say to each other about it.
//
// All that is heard is a hint. To hear nothing is always right, only slower: refresh() finds the
// same by asking.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/store.h"

namespace mainspring {

// A cancellation was requested for a running job. Its worker learns of it with its next claim, or
// its next renewal if this is lost.
struct CancelNotice {
  JobId job = 0;
  std::string worker;
  friend auto operator<=>(const CancelNotice&, const CancelNotice&) = default;
};

// What a change of another node (or of a client by SQL) made possible here.
struct Heard {
  std::vector<std::string> queues;        // may have work
  std::vector<std::string> released;      // leases that became free
  std::vector<CancelNotice> cancels;      // of running jobs
  std::vector<JobId> ended;               // jobs that became terminal
  std::vector<JobId> ended_told;          // such ones whose events come by themselves
  WallTime next_due = WallTime::never();  // something becomes due or fires then
  bool catalog = false;                   // queues, schedules or tokens changed
  // More than can be said, or than is known (somebody was away): all of the above may have changed.
  // The next refresh() compares, however soon it comes.
  bool everything = false;

  bool empty() const {
    return queues.empty() && released.empty() && cancels.empty() && ended.empty() &&
           ended_told.empty() && next_due == WallTime::never() && !catalog && !everything;
  }
};

// The durability that the database gives now.
struct Durability {
  std::string synchronous_commit;  // as the server says: on, remote_apply, local, off, …
  int synchronous_standbys = 0;    // that a commit waits for now
  bool read_only = false;          // a standby, or told to be
};

// What makes a database slow while nothing is wrong with any job.
struct StoreHealth {
  // How long the oldest transaction or prepared transaction of the whole server, or a replication
  // slot, has kept dead rows from being removed; 0 = nothing does.
  Duration oldest_snapshot{0};
  std::int64_t dead_rows = 0;  // of the store's tables, as the server estimates
  // How far the slowest standby lags; nullopt = there is none, or the user may not see it.
  std::optional<Duration> standby_lag{};
};

// What a node said of itself.
struct Said {
  std::string what;  // as it gave it to say(), with members that the store added
  Duration ago{0};
};

// Of a batch that lost its connection while it committed, apply() answers `timeout` if it cannot
// learn whether it was done. An operation of a batch that was committed may be answered `timeout`
// too: whether that one was done is not known, the others stand.
class SharedStore : public Store {
 public:
  // Notes what others changed. Like apply(), from one thread at a time. Cheap; asks nothing.
  virtual void heard(const Heard& what) = 0;
  // Claims of this store that another connection of the same node has completed.
  virtual void let_go(const std::vector<std::pair<JobId, Token>>& completed) { (void)completed; }
  // What this store's own last batch changed that others should hear of; emptied. Leases and ended
  // jobs need not be in it: the report of the batch has them.
  virtual Heard take_news() = 0;
  // Compares the copies in memory with the database, if it is time; like apply().
  virtual Result<Heard> refresh(Now now) = 0;
  // What this node tells the others of itself, a JSON object; goes with a refresh(). Like apply().
  virtual void say(std::string what) { (void)what; }
  // What the other nodes that live said last. From any thread. Errors: unavailable.
  virtual Result<std::vector<Said>> others_say() const { return std::vector<Said>(); }
  // One more number for each node that opens; never given twice.
  virtual std::int64_t node_number() const = 0;
  // From any thread. Errors: unavailable.
  virtual Result<Durability> durability() const = 0;
  // From any thread. Errors: unavailable.
  virtual Result<StoreHealth> health() const { return StoreHealth{}; }
  // True while the last try to reach the database failed.
  virtual bool away() const = 0;
};

}  // namespace mainspring
