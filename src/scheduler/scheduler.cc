// The scheduler's duties, driven by the store's agenda.
#include "scheduler/scheduler.h"

#include <algorithm>

#include "base/mutant.h"

namespace mainspring {
namespace {

constexpr Duration kRefusedPause = std::chrono::seconds(1);  // after an operation was refused

}  // namespace

Scheduler::Scheduler(Broker& broker, const Clock& clock, Registry& registry,
                     SchedulerOptions options)
    : broker_(broker),
      clock_(clock),
      options_(options),
      moved_total_(registry.counter("mainspring_jobs_moved_total",
                                    "Scheduled and retryable jobs made available.")),
      rescued_total_(
          registry.counter("mainspring_jobs_rescued_total", "Jobs whose lease expired.")),
      expired_total_(registry.counter("mainspring_jobs_expired_total",
                                      "Jobs that expired before they started.")),
      pruned_total_(
          registry.counter("mainspring_jobs_pruned_total", "Terminal jobs removed by retention.")) {
  listener_ = broker_.add_agenda_listener([this] {
    MutexLock lock(mutex_);
    dirty_ = true;
    changed_.notify_one();
  });
}

Scheduler::~Scheduler() {
  stop();
  broker_.remove_agenda_listener(listener_);
}

// The answer may come inside of submit(), so mutex_ is not held here; the duty was marked as under
// way before.
void Scheduler::submit(Duty Scheduler::*which, Counter& total, Operation operation) {
  broker_.submit(std::move(operation), [this, which, &total](OperationResult result) {
    MutexLock lock(mutex_);
    Duty& duty = this->*which;
    if (MS_MUTANT(duty_ends_at_refusal) && std::holds_alternative<Error>(result)) return;
    duty.under_way = false;
    if (const auto* done = std::get_if<StepResult>(&result)) {
      total.add(done->changed);
      duty.more = done->more;
    } else {
      duty.not_before = clock_.now().instant + kRefusedPause;
    }
    dirty_ = true;
    changed_.notify_one();
  });
}

bool Scheduler::is_due(Duty& duty, Duration until, Now now, Instant& next) {
  if (duty.under_way) return false;  // its answer sets dirty_
  if (!duty.more) {
    if (now.instant < duty.not_before) until = std::max(until, duty.not_before - now.instant);
    if (until > Duration(0)) {
      next = std::min(next, now.instant + until);
      return false;
    }
    if (&duty == &prune_) duty.not_before = now.instant + options_.prune_interval;
  }
  duty.under_way = true;
  duty.more = false;
  return true;
}

Instant Scheduler::step(Now now) {
  {
    MutexLock lock(mutex_);
    dirty_ = false;  // before the agenda is read: a change after it is not missed
  }
  const Agenda agenda = broker_.agenda();
  const auto until = [&](WallTime t) { return t == WallTime::never() ? kForever : t - now.wall; };
  const Duration until_rescue = agenda.next_lease_expiry == Instant::never()
                                    ? kForever
                                    : agenda.next_lease_expiry - now.instant;
  Instant next = now.instant + options_.max_sleep;
  bool rescue = false, move = false, expire = false, prune = false;
  {
    MutexLock lock(mutex_);
    rescue = is_due(rescue_, until_rescue, now, next);
    move = is_due(move_, until(agenda.next_due), now, next);
    expire = is_due(expire_, until(agenda.next_expiry), now, next);
    prune = is_due(prune_, until(agenda.next_prune), now, next);
  }
  if (rescue && !MS_MUTANT(scheduler_never_rescues))
    submit(&Scheduler::rescue_, rescued_total_, RescueExpired{.limit = options_.batch});
  if (move) submit(&Scheduler::move_, moved_total_, MoveDue{.limit = options_.batch});
  if (expire) submit(&Scheduler::expire_, expired_total_, ExpireJobs{.limit = options_.batch});
  if (prune) submit(&Scheduler::prune_, pruned_total_, PruneJobs{.limit = options_.batch});
  return next;
}

void Scheduler::start() {
  if (runner_.joinable()) return;
  runner_ = std::jthread([this](std::stop_token stop) { run(stop); });
}

void Scheduler::run(std::stop_token stop) {
  while (!stop.stop_requested()) {
    const Instant next = step(clock_.now());
    const Instant now = clock_.now().instant;
    MutexLock lock(mutex_);
    if (dirty_ || stop.stop_requested() || next <= now) continue;
    changed_.wait_for(mutex_, next - now);
  }
}

void Scheduler::stop() {
  {
    MutexLock lock(mutex_);
    runner_.request_stop();
    changed_.notify_one();
  }
  if (runner_.joinable()) runner_.join();
}

}  // namespace mainspring
