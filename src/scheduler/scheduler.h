// Scheduler: the duties of the leader. Moves due jobs, fires schedules, rescues expired leases,
// expires and prunes; each as bounded operations through the broker, fenced by the leader's term.
//
// It sleeps until the next instant in the store's agenda, not for a fixed period: an idle system
// has no ticks. step() submits what is due and returns when to call it next; the broker's agenda
// listener reports when that is out of date.
//
// The duties are supervised. If something has been due for longer than `duty_bound` without one
// answer of that duty, the leader renews its lease but does not work. So it resigns and pauses, to
// let another node lead.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "scheduler/leader.h"
#include "scheduler/replanner.h"
#include "store/mark_operations.h"

namespace mainspring {

class Broker;

struct SchedulerOptions {
  std::string incarnation = "scheduler";  // random, new for each process start
  int batch = 1000;                       // jobs per operation: bounds how long one commit takes
  int schedules = 500;                    // schedules fired at once
  Duration max_sleep =
      std::chrono::seconds(60);  // checks again after this time, in case the wall clock was set
  Duration prune_interval =
      std::chrono::seconds(10);  // least time between prunes unless there is a backlog
  Duration forget_queues = std::chrono::hours(24 * 7);  // see ForgetQueues
  Duration leadership = std::chrono::seconds(10);       // see LeaderOptions
  Duration leadership_renew = std::chrono::seconds(3);  // see LeaderOptions
  Duration duty_bound = std::chrono::seconds(20);       // raise for disks that stall for longer
  // The next mark after this time and text, which the leader adds when its time comes. Called on
  // the scheduler's thread; empty = no marks. A new leader begins an hour back: the store keeps one
  // mark per text.
  std::function<std::optional<AddMark>(WallTime after, const std::string& text)> next_mark{};
};

class Scheduler {
 public:
  // `broker`, `clock`, `log` outlive it.
  Scheduler(Broker& broker, const Clock& clock, Log& log, Registry& registry,
            SchedulerOptions options = {});
  ~Scheduler();

  // Submits the due operations, unless the last ones are still in progress. Returns when to call
  // again.
  Instant step(Now now);
  // The wall clock was moved: operations may be due now. Thread-safe.
  void clock_moved() { wake(); }
  // Returns whether this node leads.
  bool leads(Instant now) const { return leader_->term(now).has_value(); }

  // The thread that steps. May be called twice, in any order; stop blocks, and releases the
  // leadership.
  void start();
  void stop();

 private:
  enum Which : std::uint8_t {
    rescue,
    move,
    fire,
    expire,
    prune,
    wake_up,
    open,
    forget,
    note,
    kDuties
  };
  // One kind of duty.
  struct Duty {
    int under_way = 0;  // operations in progress
    bool more = false;
    Instant not_before;
    Instant waits_since = Instant::never();  // since when it is due or in progress without answer
  };
  struct Due {
    std::array<bool, kDuties> duty{};
    std::array<bool, kDuties> stalled{};
    Instant next;
  };
  Due look(const Agenda& agenda, Now now) MS_EXCLUDES(mutex_);
  // Marks the duty as in progress and returns true if it is due `until` from now; else records when
  // it will be.
  // Checks for empty queues a few times in `forget_queues`, at most once a second.
  Duration until_forget(Now now) MS_REQUIRES(mutex_);
  bool is_due(Which which, Duration until, Now now, Instant& next) MS_REQUIRES(mutex_);
  void submit(Which which, Token term, Operation operation) MS_EXCLUDES(mutex_);
  void answered(Which which, Token term, const OperationResult& result) MS_EXCLUDES(mutex_);
  void fire_due(Token term, Now now) MS_EXCLUDES(mutex_);
  // When the next mark is to be added.
  WallTime mark_at(WallTime now) MS_REQUIRES(mutex_);
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
  std::optional<AddMark> mark_ MS_GUARDED_BY(mutex_);          // the next one
  std::optional<AddMark> marked_ MS_GUARDED_BY(mutex_);        // the last one
  WallTime look_for_mark_ MS_GUARDED_BY(mutex_) = WallTime();  // while there is none
  std::unique_ptr<Leader> leader_;
  Replanner replanner_;
  std::uint64_t listener_ = 0;
  std::jthread runner_;
  std::array<Counter*, kDuties> totals_{};
  Counter& skipped_total_;
  Histogram& lateness_;
  Registry& registry_;
};

}  // namespace mainspring
