// Several nodes over one schema, each a thread with its own store. They enqueue, claim, renew,
// finish and rescue while the nemesis breaks the server, and record a history for the checks of
// tests/blackbox.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "blackbox/history.h"
#include "blackbox/random.h"
#include "env/clock.h"
#include "postgres/fleet_flows.h"
#include "store_postgres/postgres_store.h"

namespace mainspring::pg_testing {

// The system's time, which can be moved forward for all nodes at once.
class JumpingClock final : public Clock {
 public:
  Now now() const override {
    const Duration ahead(ahead_us_.load());
    Now n = system_.now();
    n.wall = n.wall + ahead;
    n.instant = n.instant + ahead;
    return n;
  }
  void jump(Duration by) { ahead_us_ += by.count(); }

 private:
  SystemClock system_;
  std::atomic<std::int64_t> ahead_us_{0};
};

// The shared state of the nodes.
class Board {
 public:
  enum class Phase {
    storm,  // new work, and mistakes: leases that run out, old tokens
    drain,  // all jobs are brought to their end
    stop,
  };
  explicit Board(int nodes) : mail_(static_cast<std::size_t>(nodes)) {}
  const JumpingClock& clock() const { return clock_; }
  JumpingClock& clock() { return clock_; }
  Phase phase() const { return phase_; }
  void set(Phase phase) { phase_ = phase; }
  std::int64_t new_nonce() { return ++nonces_; }
  // To all nodes but `from`.
  void post(int from, const ChangeHints& news);
  ChangeHints take_mail(int node);
  void note_job(JobId id);
  JobId some_job(std::uint64_t dice) const;  // 0 = none yet
  // Roughly the number of live jobs, and of requests still to be repeated.
  std::int64_t live() const { return live_; }
  void count_live(std::int64_t more) { live_ += more; }
  std::int64_t unsent() const { return unsent_; }
  Flows& flows() { return flows_; }
  void count_unsent(std::int64_t more) { unsent_ += more; }

 private:
  JumpingClock clock_;
  Flows flows_;
  std::atomic<Phase> phase_{Phase::storm};
  std::atomic<std::int64_t> nonces_{0}, live_{0}, unsent_{0};
  mutable Mutex mutex_;
  std::vector<ChangeHints> mail_ MS_GUARDED_BY(mutex_);
  std::vector<JobId> jobs_ MS_GUARDED_BY(mutex_);  // the newest ones, in a ring
  std::size_t next_job_ MS_GUARDED_BY(mutex_) = 0;
};

// The actions of a node, and its violations.
struct NodeReport {
  blackbox::History history;
  std::int64_t batches = 0, unavailable = 0, refreshes = 0, reopened = 0;
  std::int64_t quarantined = 0;  // jobs that went into quarantine
  Duration longest_call{0};
  std::map<std::string, int> refusals;  // errors of apply(), and how often
  std::vector<std::string> broken;      // violations; the first few
};

class FleetNode {
 public:
  // Opens its store when it runs. `board` outlives it.
  FleetNode(Board& board, int number, PostgresOptions options, std::uint64_t seed);
  ~FleetNode();  // ends when the board stops it
  void start();
  // Asks it to close its store and to open another one, as a new process would.
  void restart() { restart_ = true; }
  NodeReport join();

 private:
  struct Body;
  std::unique_ptr<Body> body_;
  std::atomic<bool> restart_{false};
  std::thread thread_;
};

// The number in the args of a job of the fleet.
std::int64_t nonce_of(const std::string& args);

// All data of the store at the end except jobs of workflows, read through `store`.
void read_back(const Store& store, blackbox::History& history);

}  // namespace mainspring::pg_testing
