// SlotRunner: a WorkerRuntime with one slot whose claims pass a gate. SlotPlan decides in the gate.
//
//   WorkerRuntime ──claim──▶ Gate ──▶ SlotPlan: take, sleep, stop?
//        ▲  │                 │
//        │  └─ handler ───────┤ how long it took
//        └──── one job ◀──────┴──▶ Jobs: claim; give back what does not fit
//
// So leases, time limits, cancels and outcomes work as in every other worker.

#include <algorithm>

#include "base/mutex.h"
#include "mainspring/slot.h"
#include "worker/auto_renew_lease.h"
#include "worker/slot_plan.h"
#include "worker/start_failure.h"
#include "worker/worker.h"

namespace mainspring {
namespace {

// How often to check for a job that was claimed and never ran (it was lost first).
constexpr Duration kLook = std::chrono::seconds(1);

class Gate {
 public:
  Gate(Jobs& jobs, const Clock& clock, SlotPlan plan)
      : jobs_(jobs), clock_(clock), plan_(std::move(plan)) {}

  void watch(const WorkerRuntime& runtime) { runtime_ = &runtime; }
  Result<ClaimResult> claim(Claim claim, std::stop_token stop) MS_EXCLUDES(mutex_);
  void began() MS_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    began_ = clock_.now().instant;
  }
  void handled(const std::string& kind) MS_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    plan_.handled(kind, clock_.now().instant - began_);
    outstanding_ = false;
    changed_.notify_all();
  }
  // Takes no further jobs. The first reason stays.
  void end(SlotEnd why) MS_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      set_end(why);
    }
    taking_.request_stop();
  }
  // Waits until the slot is over and no job runs.
  SlotEnd wait() MS_EXCLUDES(mutex_);
  SlotPlan plan() MS_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return plan_;
  }

 private:
  void set_end(SlotEnd why) MS_REQUIRES(mutex_) {
    if (end_ == SlotEnd::none) end_ = why;
    changed_.notify_all();
  }
  void pause(Duration limit, const std::stop_token& stop) MS_REQUIRES(mutex_) {
    const Instant until = clock_.now().instant + limit;
    for (Instant now;
         !stop.stop_requested() && end_ == SlotEnd::none && (now = clock_.now().instant) < until;) {
      changed_.wait_for(mutex_, until - now);
    }
  }
  void wait_for_handler(const std::stop_token& stop) MS_EXCLUDES(mutex_);
  Result<ClaimResult> take(Claim claim, Duration wait) MS_EXCLUDES(mutex_);

  Jobs& jobs_;
  const Clock& clock_;
  const WorkerRuntime* runtime_ = nullptr;
  std::stop_source taking_;
  Mutex mutex_;
  CondVar changed_;
  SlotPlan plan_ MS_GUARDED_BY(mutex_);
  bool outstanding_ MS_GUARDED_BY(mutex_) = false;  // a job is out
  Instant began_ MS_GUARDED_BY(mutex_);
  SlotEnd end_ MS_GUARDED_BY(mutex_) = SlotEnd::none;
};

void Gate::wait_for_handler(const std::stop_token& stop) {
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (!outstanding_ || stop.stop_requested()) return;
      changed_.wait_for(mutex_, kLook);
      if (!outstanding_) return;
    }
    const WorkerStats stats = runtime_->stats();
    if (stats.running > 0 || stats.waiting > 0) continue;
    MutexLock lock(mutex_);
    outstanding_ = false;
  }
}

// Takes one job, and returns it to the queue if it does not fit.
Result<ClaimResult> Gate::take(Claim claim, Duration wait) {
  claim.max = 1;
  const std::string worker = claim.worker;
  MS_TRY_ASSIGN(ClaimResult result, jobs_.claim(std::move(claim), wait, taking_.get_token()));
  if (result.jobs.empty()) return result;
  const ClaimedJob& job = result.jobs.front();
  {
    MutexLock lock(mutex_);
    if (end_ == SlotEnd::none && plan_.admit(job.kind, clock_.now().instant)) {
      outstanding_ = true;
      return result;
    }
  }
  // If this is lost, its lease ends soon enough.
  (void)jobs_.finish({.worker = worker, .results = {{job.id, job.token, Snooze{}}}});
  result.jobs.clear();
  return result;
}

Result<ClaimResult> Gate::claim(Claim claim, std::stop_token stop) {
  const std::stop_callback on_stop(stop, [this] {
    taking_.request_stop();
    MutexLock lock(mutex_);
    changed_.notify_all();
  });
  wait_for_handler(stop);
  while (!stop.stop_requested()) {
    SlotPlan::Step step;
    {
      MutexLock lock(mutex_);
      if (end_ == SlotEnd::none) step = plan_.next(clock_.now().instant);
      if (step.action == SlotPlan::Step::Action::stop) {
        set_end(step.why);
        while (!stop.stop_requested()) changed_.wait_for(mutex_, kLook);
        break;
      }
    }
    Claim request = claim;
    if (!step.kinds.empty()) request.kinds = step.kinds;
    MS_TRY_ASSIGN(ClaimResult result, take(std::move(request), step.wait));
    const bool commanded = !result.cancel.empty() || result.command != WorkerCommand::none;
    if (!result.jobs.empty() || commanded) return result;
    MutexLock lock(mutex_);
    if (end_ != SlotEnd::none) continue;
    step = plan_.nothing(clock_.now().instant);
    if (step.action == SlotPlan::Step::Action::stop) set_end(step.why);
    if (step.action == SlotPlan::Step::Action::sleep) pause(step.wait, stop);
  }
  return ClaimResult{};
}

SlotEnd Gate::wait() {
  MutexLock lock(mutex_);
  while (end_ == SlotEnd::none || (outstanding_ && end_ != SlotEnd::stopped)) {
    const Instant now = clock_.now().instant;
    // The claimer may be waiting for an unreachable server.
    if (!outstanding_ && now >= plan_.end()) set_end(SlotEnd::full);
    if (end_ == SlotEnd::none || outstanding_) {
      changed_.wait_for(mutex_, now < plan_.end() ? plan_.end() - now : kLook);
    }
  }
  return end_;
}

}  // namespace

struct SlotRunner::State {
  struct Registered {
    std::string kind;  // "" = any
    Handler handler;
    KindOptions options;
  };
  Result<AutoRenewLease> acquire_slot(const std::stop_token& stop, SlotSummary& summary,
                                      std::stop_source& lost);
  Result<void> work(AutoRenewLease& lease, Gate& gate, SlotSummary& summary);

  Jobs& jobs;
  const Clock& clock;
  Random& random;
  Log& log;
  WorkerOptions worker;
  const SlotOptions slot;
  std::vector<Registered> handlers;
};

SlotRunner::SlotRunner(Jobs& jobs, const Clock& clock, Random& random, Log& log,
                       WorkerOptions worker, SlotOptions slot)
    : state_(std::make_unique<State>(
          State{jobs, clock, random, log, std::move(worker), std::move(slot), {}})) {}

SlotRunner::~SlotRunner() = default;

void SlotRunner::on(std::string kind, Handler handler, KindOptions options) {
  state_->handlers.push_back({std::move(kind), std::move(handler), std::move(options)});
}

void SlotRunner::on_any(Handler handler, KindOptions options) {
  on("", std::move(handler), std::move(options));
}

// An error lease_held is not a failure: another instance has the slot.
Result<AutoRenewLease> SlotRunner::State::acquire_slot(const std::stop_token& stop,
                                                       SlotSummary& summary,
                                                       std::stop_source& lost) {
  const Instant start = clock.now().instant;
  const std::string name = "slot/" + slot.name;
  auto lease = acquire(jobs, clock, random, name,
                       {.ttl = std::min(worker.lease, kDefaultNamedLease),
                        .wait = slot.standby ? slot.length : Duration(0),
                        .on_lost = [&lost] { lost.request_stop(); },
                        .stop = stop});
  summary.waited = slot.standby ? clock.now().instant - start : Duration(0);
  if (lease || lease.error().code != ErrorCode::lease_held) return lease;
  summary.end = stop.stop_requested() ? SlotEnd::stopped : SlotEnd::held;
  if (const auto held = jobs.get_lease(name)) summary.holder = held->holder;
  return lease;
}

Result<void> SlotRunner::State::work(AutoRenewLease& lease, Gate& gate, SlotSummary& summary) {
  WorkerOptions options = worker;
  options.slots = 1;
  WorkerRuntime runtime(jobs, clock, random, log, options);
  gate.watch(runtime);
  for (const Registered& one : handlers) {
    const Handler timed = [&gate, &one](const ClaimedJob& job, Context& context) -> HandlerResult {
      struct Timed {
        Gate& gate;
        const std::string& kind;
        ~Timed() { gate.handled(kind); }
      } timing{gate, job.kind};
      gate.began();
      HandlerResult result = one.handler(job, context);
      if (!result && is_start_failure(result.error())) gate.end(SlotEnd::stopped);
      return result;
    };
    if (one.kind.empty()) {
      runtime.on_any(timed, one.options);
    } else {
      runtime.on(one.kind, timed, one.options);
    }
  }
  runtime.claim_with([&gate](Claim claim, Duration, std::stop_token claim_stop) {
    return gate.claim(std::move(claim), std::move(claim_stop));
  });
  MS_TRY(runtime.start());
  summary.end = gate.wait();
  runtime.stop();
  summary.worker = runtime.stats();
  if (slot.rule == SlotRule::predict && !lease.lost()) {
    // If this fails, the next slots learn again.
    (void)lease.set_value(gate.plan().known().to_json());
  }
  (void)lease.release();
  if (auto trouble = runtime.start_failure()) return std::move(*trouble);
  return {};
}

Result<SlotSummary> SlotRunner::run(std::stop_token stop) {
  State& s = *state_;
  if (const auto errors = s.slot.validate(); !errors.empty()) return errors.front();
  const Instant start = s.clock.now().instant;
  SlotSummary summary;
  std::stop_source lost;
  auto lease = s.acquire_slot(stop, summary, lost);
  if (!lease && summary.end == SlotEnd::none) return lease.error();
  if (!lease) return summary;
  SlotPredictor known;
  if (s.slot.rule == SlotRule::predict) {
    if (auto read = SlotPredictor::from_json(lease->value())) {
      known = std::move(*read);
    } else {
      s.log.warn("cannot read the samples of the previous slot; starting from scratch",
                 {{"lease", lease->name()}, {"message", read.error().message}});
    }
  }
  std::vector<std::string> kinds;
  bool any = false;
  for (const auto& one : s.handlers) {
    any = any || one.kind.empty();
    kinds.push_back(one.kind);
  }
  if (any) kinds.clear();
  const Instant begin = s.clock.now().instant;
  Gate gate(s.jobs, s.clock, SlotPlan(s.slot, std::move(kinds), start, std::move(known)));
  // Before any claim: after an early stop no further job may start.
  const std::stop_callback on_stop(stop, [&gate] { gate.end(SlotEnd::stopped); });
  const std::stop_callback on_lost(lost.get_token(), [&gate] { gate.end(SlotEnd::lease_lost); });
  MS_TRY(s.work(*lease, gate, summary));
  const SlotPlan plan = gate.plan();
  const Instant now = s.clock.now().instant;
  summary.handled = plan.handled_count();
  summary.given_back = plan.given_back();
  summary.busy = plan.busy();
  summary.ran = now - begin;
  summary.slack = plan.end() - now;
  return summary;
}

}  // namespace mainspring
