// The scheduler's duties, driven by the store's agenda.
#include "scheduler/scheduler.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/mutant.h"
#include "broker/broker.h"
#include "model/schedule.h"

namespace mainspring {
namespace {

constexpr Duration kRefusedPause = std::chrono::seconds(1);  // after an operation was refused
constexpr std::array<std::string_view, 9> kDutyNames = {
    "rescue", "move", "fire", "expire", "prune", "wake", "open", "forget", "mark"};
constexpr Duration kMarksRepeated = std::chrono::hours(1);  // by a new leader
constexpr Duration kLookForMark = std::chrono::minutes(10);
constexpr Duration kForgetEvery = std::chrono::hours(1);
constexpr Duration kFirstForget = std::chrono::minutes(5);  // after the start

}  // namespace

Scheduler::Scheduler(Broker& broker, const Clock& clock, Log& log, Registry& registry,
                     SchedulerOptions options)
    : broker_(broker),
      clock_(clock),
      log_(log),
      options_(std::move(options)),
      replanner_(broker, log, registry),
      skipped_total_(
          registry.counter("mainspring_ticks_skipped_total", "Ledger rows of skipped ticks.")),
      lateness_(registry.histogram("mainspring_tick_lateness_seconds",
                                   "Delay from the time of a tick, with jitter, to its firing.",
                                   job_duration_buckets())),
      registry_(registry) {
  totals_[rescue] = &registry.counter("mainspring_jobs_rescued_total",
                                      "Jobs with an expired "
                                      "lease.");
  totals_[move] = &registry.counter("mainspring_jobs_moved_total",
                                    "Scheduled and retryable jobs made available.");
  totals_[fire] = &registry.counter("mainspring_ticks_fired_total", "Jobs created by schedules.");
  totals_[expire] =
      &registry.counter("mainspring_jobs_expired_total", "Jobs that expired before they started.");
  totals_[prune] =
      &registry.counter("mainspring_jobs_pruned_total", "Ended jobs removed by retention.");
  totals_[wake_up] = &registry.counter("mainspring_workflows_woken_total",
                                       "Workflows with a due timer or deadline.");
  totals_[open] = &registry.counter(
      "mainspring_queues_opened_total",
      "Queues reopened after a rate limit, breakers that became half open, and jobs released from "
      "quarantine.");
  totals_[forget] = &registry.counter("mainspring_queues_forgotten_total", "Empty queues removed.");
  leader_ = std::make_unique<Leader>(broker_, clock_, log_,
                                     LeaderOptions{.incarnation = options_.incarnation,
                                                   .lease = options_.leadership,
                                                   .renew = options_.leadership_renew},
                                     [this] { wake(); });
  registry_.gauge("mainspring_leader", "1 while this node runs the scheduler's duties.",
                  [this] { return leads(clock_.now().instant) ? 1.0 : 0.0; });
  listener_ = broker_.add_agenda_listener([this] { wake(); });
}

Scheduler::~Scheduler() {
  stop();
  registry_.gauge("mainspring_leader", "1 while this node runs the scheduler's duties.",
                  [] { return 0.0; });
  broker_.remove_agenda_listener(listener_);
}

void Scheduler::wake() {
  MutexLock lock(mutex_);
  dirty_ = true;
  changed_.notify_one();
}

// The answer may arrive inside submit(), so mutex_ is not held here; the duty was marked as in
// progress before.
void Scheduler::submit(Which which, Token term, Operation operation) {
  if (MS_MUTANT(leader_duties_hang)) return;
  broker_.submit(std::move(operation), [this, which, term](const OperationResult& result) {
    answered(which, term, result);
  });
}

void Scheduler::answered(Which which, Token term, const OperationResult& result) {
  const auto* error = std::get_if<Error>(&result);
  if (MS_MUTANT(duty_ends_at_refusal) && error != nullptr) return;
  const bool lost = error != nullptr && error->code == ErrorCode::lease_lost;
  if (lost) leader_->lost(term);
  // Of these two: a schedule has changed or was removed; check again.
  const bool changed = error != nullptr &&
                       (error->code == ErrorCode::conflict || error->code == ErrorCode::not_found);
  if (!lost && !changed) broker_.housekeeping().note(std::string(kDutyNames[which]), error);
  MutexLock lock(mutex_);
  Duty& duty = duties_[which];
  --duty.under_way;
  duty.waits_since = Instant::never();
  if (const auto* done = std::get_if<StepResult>(&result)) {
    totals_[which]->add(done->changed);
    duty.more = done->more;
  } else if (const auto* fired = std::get_if<FireResult>(&result)) {
    totals_[which]->add(fired->fired);
    skipped_total_.add(fired->skipped);
  } else if (const auto* mark = std::get_if<Mark>(&result)) {
    marked_ = AddMark{.text = mark->text, .at = mark->at, .by = ""};
    mark_.reset();
    look_for_mark_ = WallTime();
  } else if (!changed) {
    duty.not_before = clock_.now().instant + kRefusedPause;
  }
  dirty_ = true;
  changed_.notify_one();
}

Duration Scheduler::until_forget(Now now) {
  const Duration every =
      std::clamp<Duration>(options_.forget_queues / 4, std::chrono::seconds(1), kForgetEvery);
  if (forget_at_ == Instant::never()) forget_at_ = now.instant + std::min(every, kFirstForget);
  if (forget_at_ > now.instant) return forget_at_ - now.instant;
  forget_at_ = now.instant + every;
  return Duration(0);
}

WallTime Scheduler::mark_at(WallTime now) {
  if (!options_.next_mark) return WallTime::never();
  if (!marked_) marked_ = AddMark{.text = "", .at = now - kMarksRepeated, .by = ""};
  if (!mark_ && now >= look_for_mark_) {
    mark_ = options_.next_mark(*marked_->at, marked_->text);
    look_for_mark_ = now + kLookForMark;
  }
  return mark_ ? *mark_->at : WallTime::never();
}

bool Scheduler::is_due(Which which, Duration until, Now now, Instant& next) {
  Duty& duty = duties_[which];
  if (duty.under_way > 0) return false;  // its answer sets dirty_
  if (!duty.more) {
    if (now.instant < duty.not_before) until = std::max(until, duty.not_before - now.instant);
    if (until > Duration(0)) {
      next = std::min(next, now.instant + until);
      return false;
    }
    if (which == prune) duty.not_before = now.instant + options_.prune_interval;
  }
  duty.under_way = 1;
  duty.more = false;
  return true;
}

Scheduler::Due Scheduler::look(const Agenda& agenda, Now now) {
  const auto wall = [&](WallTime t) { return t == WallTime::never() ? kForever : t - now.wall; };
  std::array<Duration, kDuties> until{};
  until[rescue] = agenda.next_lease_expiry == Instant::never()
                      ? kForever
                      : agenda.next_lease_expiry - now.instant;
  until[move] = wall(agenda.next_due);
  until[fire] = wall(agenda.next_schedule);
  until[expire] = wall(agenda.next_expiry);
  until[prune] = wall(agenda.next_prune);
  until[wake_up] = wall(agenda.next_workflow);
  until[open] = wall(agenda.next_opening);
  Due due{.next = now.instant + options_.max_sleep};
  const Instant since = leader_->leading_since(now.instant);
  MutexLock lock(mutex_);
  until[forget] = until_forget(now);
  until[note] = wall(mark_at(now.wall));
  for (int i = 0; i < kDuties; ++i) {
    const auto which = static_cast<Which>(i);
    Duty& duty = duties_[which];
    const bool waits = until[which] <= Duration(0) || duty.under_way > 0;
    if (!waits || since == Instant::never() || now.instant < duty.not_before) {
      duty.waits_since = Instant::never();
    } else {
      if (duty.waits_since == Instant::never()) duty.waits_since = now.instant;
      const Instant bound = std::max(since, duty.waits_since) + options_.duty_bound;
      due.stalled[which] = now.instant >= bound;
      if (now.instant < bound) due.next = std::min(due.next, bound);
    }
    due.duty[which] = is_due(which, until[which], now, due.next);
  }
  return due;
}

Instant Scheduler::step(Now now) {
  {
    MutexLock lock(mutex_);
    dirty_ = false;  // before the agenda is read, so that a later change is not missed
  }
  const Instant look_at = replanner_.look(now);
  const Instant next = std::min(leader_->step(now), look_at);
  const auto term = leader_->term(now.instant);
  replanner_.step(now, term);
  if (!term) return next;
  const Due due = look(broker_.agenda(), now);
  supervise(due, now);
  const Fence fence{.lease = std::string(kLeadershipLease), .token = *term};
  if (due.duty[rescue] && !MS_MUTANT(scheduler_never_rescues))
    submit(rescue, *term, RescueExpired{.limit = options_.batch, .fence = fence});
  if (due.duty[move]) submit(move, *term, MoveDue{.limit = options_.batch, .fence = fence});
  if (due.duty[fire]) fire_due(*term, now);
  if (due.duty[expire]) submit(expire, *term, ExpireJobs{.limit = options_.batch, .fence = fence});
  if (due.duty[prune]) submit(prune, *term, PruneJobs{.limit = options_.batch, .fence = fence});
  if (due.duty[wake_up])
    submit(wake_up, *term, WakeWorkflows{.limit = options_.batch, .fence = fence});
  if (due.duty[forget]) {
    submit(forget, *term,
           ForgetQueues{.idle = options_.forget_queues, .limit = options_.batch, .fence = fence});
  }
  if (due.duty[open]) submit(open, *term, OpenQueues{.limit = options_.batch, .fence = fence});
  if (due.duty[note]) {
    const AddMark mark = [&] {
      MutexLock lock(mutex_);
      return *mark_;
    }();
    submit(note, *term, mark);
  }
  return std::min(next, due.next);
}

// One operation per schedule: the broker combines them in a commit.
void Scheduler::fire_due(Token term, Now now) {
  auto due = broker_.due_schedules(now.wall, options_.schedules);
  const std::size_t count = due ? due->size() : 0;
  {
    MutexLock lock(mutex_);
    Duty& duty = duties_[fire];
    duty.under_way += static_cast<int>(count) - 1;
    duty.more = count == static_cast<std::size_t>(options_.schedules);
    if (!due) duty.not_before = now.instant + kRefusedPause;
    if (count == 0) duty.waits_since = Instant::never();
  }
  if (!due) return;
  for (const ScheduleInfo& info : *due) {
    FiringPlan plan = plan_firing(info, now.wall);
    if (plan.ticks.empty() && !plan.next.note.empty())
      log_.error("cannot plan a schedule",
                 {{"schedule", info.schedule.name}, {"why", plan.next.note}});
    lateness_.observe(static_cast<double>((now.wall - info.next_fire).count()) / 1e6);
    submit(fire, term,
           FireSchedule{.name = info.schedule.name,
                        .version = info.version,
                        .source = TickSource::schedule,
                        .expected_next = info.next,
                        .ticks = std::move(plan.ticks),
                        .next = plan.next.nominal,
                        .next_fire = plan.next.fires_at,
                        .fence = {.lease = std::string(kLeadershipLease), .token = term}});
  }
}

void Scheduler::supervise(const Due& due, Now now) {
  for (std::size_t i = 0; i < kDuties; ++i) {
    if (!due.stalled[i] || MS_MUTANT(duties_not_supervised)) continue;
    leader_->resign(fmt::format("{} is due for {} without an answer", kDutyNames[i],
                                format_duration(options_.duty_bound)),
                    2 * options_.leadership, now.instant);
    return;
  }
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
    changed_.wait_for(mutex_, next == Instant::never() ? kForever : next - now);
  }
}

void Scheduler::stop() {
  {
    MutexLock lock(mutex_);
    runner_.request_stop();
    changed_.notify_one();
  }
  if (runner_.joinable()) runner_.join();
  leader_->stop();
}

}  // namespace mainspring
