// Scheduler: what only the leader does. Moves due jobs, fires schedules, rescues expired leases,
// expires and prunes; each as bounded operations through the broker, fenced by the leader's term.
//
// It sleeps until the next instant at which the store's agenda has something, not for a period: an
// idle system has no ticks. step() submits what is due and says when to call next; the broker's
// agenda listener says when that is out of date.
//
// The duties are supervised: a leader in whose term something has been due for longer than
// `duty_bound` without one answer of that duty renews, but does not work; it resigns, and stands
// back so that another node leads.
#pragma once

#include <array>
#include <memory>
#include <thread>

#include "scheduler/leader.h"

namespace mainspring {

class Broker;

struct SchedulerOptions {
  std::string incarnation = "scheduler";  // random, new for each process start
  int batch = 1000;                       // jobs per operation: bounds how long one commit takes
  int schedules = 500;                    // schedules fired at once
  Duration max_sleep =
      std::chrono::seconds(60);  // look again at the latest, in case the wall clock was set
  Duration prune_interval =
      std::chrono::seconds(10);  // prune at most so often unless there is a backlog
  Duration forget_queues = std::chrono::hours(24 * 7);  // see ForgetQueues
  Duration leadership = std::chrono::seconds(10);       // see LeaderOptions
  Duration leadership_renew = std::chrono::seconds(3);  // see LeaderOptions
  Duration duty_bound = std::chrono::seconds(20);       // raise for disks that stall for longer
};

class Scheduler {
 public:
  // `broker`, `clock`, `log` outlive it.
  Scheduler(Broker& broker, const Clock& clock, Log& log, Registry& registry,
            SchedulerOptions options = {});
  ~Scheduler();

  // Submits the operations that are due, unless the last ones are still under way. Returns when to
  // call again.
  Instant step(Now now);
  // The wall clock was moved: something may be due now. From any thread.
  void clock_moved() { wake(); }
  // Does this node lead?
  bool leads(Instant now) const { return leader_->term(now).has_value(); }

  // The thread that steps. May be called twice, in any order; stop waits, and gives the leadership
  // back.
  void start();
  void stop();

 private:
  enum Which : std::uint8_t { rescue, move, fire, expire, prune, wake_up, open, forget, kDuties };
  // One kind of duty: its operations are under way, or none is.
  struct Duty {
    int under_way = 0;  // operations
    bool more = false;
    Instant not_before;
    Instant waits_since = Instant::never();  // due, or under way, and not answered since then
  };
  struct Due {
    std::array<bool, kDuties> duty{};
    std::array<bool, kDuties> stalled{};
    Instant next;
  };
  Due look(const Agenda& agenda, Now now) MS_EXCLUDES(mutex_);
  // Marks the duty as under way and returns true if it is due `until` from now; else notes when it
  // will be.
  // Looks for empty queues a few times in `forget_queues`, at most once in a second.
  Duration until_forget(Now now) MS_REQUIRES(mutex_);
  bool is_due(Which which, Duration until, Now now, Instant& next) MS_REQUIRES(mutex_);
  void submit(Which which, Token term, Operation operation) MS_EXCLUDES(mutex_);
  void answered(Which which, Token term, const OperationResult& result) MS_EXCLUDES(mutex_);
  void fire_due(Token term, Now now) MS_EXCLUDES(mutex_);
  void supervise(const Due& due, Now now);
  void wake() MS_EXCLUDES(mutex_);
  void run(std::stop_token stop);

  Broker& broker_;
  const Clock& clock_;
  Log& log_;
  const SchedulerOptions options_;
  Mutex mutex_;
  CondVar changed_;
  bool dirty_ MS_GUARDED_BY(mutex_) = true;
  std::array<Duty, kDuties> duties_ MS_GUARDED_BY(mutex_);
  Instant forget_at_ MS_GUARDED_BY(mutex_) = Instant::never();
  std::unique_ptr<Leader> leader_;
  std::uint64_t listener_ = 0;
  std::jthread runner_;
  std::array<Counter*, kDuties> totals_{};
  Counter& skipped_total_;
  Histogram& lateness_;
  Registry& registry_;
};

}  // namespace mainspring
