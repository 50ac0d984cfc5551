// The part of a simulated world that depends on the clock: operators of schedules, workers of their
// jobs, holders of leases that pause and continue, and their invariants.
//
//   SCHED-1  per schedule and version a nominal time has at most one job
//   SCHED-2  the ledger covers every nominal time between the first and the next, without a gap
//   SCHED-3  no tick is decided before its time
//   LEASE    while a holder may rely on its lease, no other holder is granted it
//   FENCE    tokens grow; a write with an older token than one seen before is refused
#pragma once

#include <map>
#include <string>
#include <vector>

#include "mainspring/schedule.h"
#include "simulation/claim_loop.h"
#include "simulation/world.h"

namespace mainspring::simulation {

inline const std::string kTickQueue = "ticks";     // jobs of schedules
inline const std::string kFencedQueue = "fenced";  // jobs that lease holders enqueue

// Puts, edits, pauses, triggers and backfills some schedules of its own.
class ScheduleOperator {
 public:
  ScheduleOperator(World& world, int number);
  void start();
  // No more changes; pauses all of its schedules.
  void stop();
  void check();

 private:
  void next();
  void put(bool same);
  void pause(const std::string& name, bool paused, World::Delivery delivery);
  void trigger(const std::string& name);
  void backfill(const std::string& name);
  Schedule draw(const std::string& name);
  void check_one(const std::string& name);
  void check_coverage(const std::string& name, const Schedule& schedule,
                      const std::vector<LedgerRow>& rows, WallTime next);

  World& world_;
  std::vector<std::string> names_;
  std::map<std::string, Schedule> last_;  // as put last
  std::map<std::pair<std::string, std::int64_t>, Schedule> versions_;
  bool stopped_ = false;
};

// Claims jobs of kTickQueue and kFencedQueue and ends them, sometimes by dying.
class TickWorker {
 public:
  TickWorker(World& world, int number);
  void start() { loop_.start(); }

 private:
  void finish(const ClaimedJob& job);

  World& world_;
  ClaimLoop loop_;
};

// All grants and writes under one lease name.
struct LeaseHistory {
  struct Grant {
    std::string holder;
    Token token = 0;
    Duration invoke{0}, ret{0};
    Duration valid_until{0};  // as the holder knew
  };
  struct Write {
    Token token = 0;
    Duration invoke{0};
    bool ok = false;
  };
  std::vector<Grant> grants;
  std::vector<Write> writes;
  void check(World& world) const;
};

// Acquires, renews, writes fenced jobs, releases; pauses longer than its lease and then continues
// as if nothing had happened.
class LeaseHolder {
 public:
  LeaseHolder(World& world, LeaseHistory& history, int number)
      : world_(world), history_(history), number_(number) {}
  void start();
  void stop() { stopped_ = true; }

 private:
  void acquire();
  void granted(const LeaseGrant& grant, Duration invoke);
  void hold();
  void renew();
  void write();
  void release();
  void later(Duration delay, std::function<void()> action);

  World& world_;
  LeaseHistory& history_;
  const int number_;
  int holdings_ = 0;
  std::string holder_;
  Token token_ = 0;        // 0 = it believes that it holds none
  std::size_t grant_ = 0;  // its place in the history
  Duration paused_until_{0};
  bool stopped_ = false;
};

}  // namespace mainspring::simulation
