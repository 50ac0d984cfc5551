// A run of a continuous timer.
#include "worker/continuous_timer.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "api/json.h"
#include "base/mutant.h"
#include "worker/auto_renew_lease.h"
#include "worker/start_failure.h"

namespace mainspring {
namespace {

// How long to wait for a place among this process's timers; then the job is returned for
// kNoPlacePause.
constexpr Duration kPlaceWait = std::chrono::seconds(2);
constexpr Duration kNoPlacePause = std::chrono::seconds(1);
constexpr Duration kTimerTryAgain = std::chrono::milliseconds(500);  // server unreachable
constexpr int kMaxErrorRow = 20;  // counted; the pause is capped before

std::string schedule_of(const ClaimedJob& job) {
  std::string name;
  JsonReader in(job.headers, JsonReader::Unknown::skip);
  in.members([&](std::string_view key) {
    return key == "mainspring-schedule" ? in.string(name) : in.skip();
  });
  return name;
}

// Why a run ends.
enum class RunEnd {
  timeout,    // it is near its timeout
  stopped,    // the kill switch, or the schedule was removed
  cancelled,  // its job was cancelled
  lost,       // the lease was lost
  shutdown,   // the worker stops: another worker continues the job
  error,      // of a batch
};
const char* to_text(RunEnd end) {
  static constexpr const char* kTexts[] = {"timeout", "stopped",  "cancelled",
                                           "lost",    "shutdown", "error"};
  return kTexts[static_cast<int>(end)];
}

class Run final : public TimerContext {
 public:
  Run(Jobs& jobs, const Clock& clock, Random& random, const ProcessBatch& process,
      const TimerOptions& options, const ClaimedJob& job, Context& context, std::string name)
      : jobs_(jobs),
        clock_(clock),
        random_(random),
        process_(process),
        options_(options),
        job_(job),
        context_(context),
        name_(std::move(name)),
        claimed_(clock.now().instant),
        on_context_stop_(context.stop_token(), [this] { stop(); }) {}

  HandlerResult run();

  const std::string& name() const override { return name_; }
  Token token() const override { return lease_->token(); }
  int batch() const override { return batches_ + 1; }
  Duration remaining() const override { return end_at_ - clock_.now().instant; }
  std::stop_token stop_token() const override { return stop_.get_token(); }
  const ClaimedJob& job() const override { return job_; }

 private:
  void stop() {
    stop_.request_stop();
    const MutexLock lock(mutex_);
    wake_.notify_all();
  }
  bool stopped() const { return stop_.stop_requested(); }
  void sleep(Duration limit) {
    const Instant until = clock_.now().instant + limit;
    const MutexLock lock(mutex_);
    for (Instant now; !stopped() && (now = clock_.now().instant) < until;) {
      wake_.wait_for(mutex_, until - now);
    }
  }
  Result<std::optional<Outcome>> wait_for_lease();
  RunEnd process_all();
  std::optional<RunEnd> read_schedule();
  void start_standby();
  void see_to_the_next();
  void wake_next();
  Result<int> one_batch();
  RunEnd why_stopped() const;
  Outcome outcome(RunEnd end);
  void remember_errors(int errors);

  Jobs& jobs_;
  const Clock& clock_;
  Random& random_;
  const ProcessBatch& process_;
  const TimerOptions& options_;
  const ClaimedJob& job_;
  Context& context_;
  const std::string name_;
  const Instant claimed_;
  std::stop_source stop_;
  Mutex mutex_;
  CondVar wake_;
  std::optional<AutoRenewLease> lease_;
  Instant began_;                          // C2: running since
  Instant end_at_;                         // no batch starts after
  Instant standby_at_ = Instant::never();  // C10
  bool standby_tried_ = false;
  std::vector<JobId> live_;           // of the schedule
  JobId standby_ = 0;                 // 0 = none was started
  std::optional<Error> not_started_;  // the program of a batch
  int batches_ = 0;
  std::int64_t handled_ = 0;
  int errors_ = 0;  // consecutive earlier runs that ended with an error
  std::string error_;
  std::stop_callback<std::function<void()>> on_context_stop_;
};

// Returns nothing when this run holds the lease.
Result<std::optional<Outcome>> Run::wait_for_lease() {
  const bool skip_wait = MS_MUTANT(standby_does_not_wait);
  auto lease = acquire(jobs_, clock_, random_,
                       skip_wait ? fmt::format("timer/{}/{}", name_, job_.id) : "timer/" + name_,
                       {.ttl = options_.lease,
                        .wait = kForever,
                        .on_lost = [this] { stop(); },
                        .stop = stop_.get_token()});
  if (lease) {
    lease_.emplace(std::move(*lease));
    return std::optional<Outcome>();
  }
  if (stopped()) return std::optional<Outcome>(outcome(why_stopped()));
  return lease.error();
}

RunEnd Run::why_stopped() const {
  if (lease_ && lease_->lost()) return RunEnd::lost;
  switch (context_.stop_reason()) {
    case StopReason::cancelled:
      return RunEnd::cancelled;
    case StopReason::timeout:
      return RunEnd::timeout;
    case StopReason::lease_lost:
      return RunEnd::lost;
    default:
      return RunEnd::shutdown;
  }
}

// Before every batch: checks the kill switch and the end of the run. Without an answer of the
// server no batch runs.
std::optional<RunEnd> Run::read_schedule() {
  if (MS_MUTANT(kill_switch_read_once) && batches_ > 0) return std::nullopt;
  for (;;) {
    const Result<ScheduleInfo> info = jobs_.get_schedule(name_);
    if (stopped()) return why_stopped();
    if (!info && info.error().code == ErrorCode::not_found) return RunEnd::stopped;
    if (!info) {
      sleep(kTimerTryAgain);
      continue;
    }
    if (info->paused || !info->schedule.continuous) return RunEnd::stopped;  // C4
    const Continuous& rule = *info->schedule.continuous;
    live_ = info->live;
    const Duration timeout = effective_timeout(*info);
    // The job's own time limit counts from its claim.
    const Instant limit = std::min(
        began_ + timeout, job_.timeout == kForever ? Instant::never() : claimed_ + job_.timeout);
    end_at_ = limit - rule.margin;
    standby_at_ = rule.handoff > Duration(0) ? end_at_ - rule.handoff : Instant::never();
    const Duration ran = clock_.now().instant - began_;
    // C3; the first batch always runs, else a short timeout would allow no batch at all.
    if (batches_ > 0 && reaching_timeout(limit - began_, rule.margin, ran)) return RunEnd::timeout;
    return std::nullopt;
  }
}

void Run::start_standby() {
  if (standby_tried_ || clock_.now().instant < standby_at_) return;
  standby_tried_ = true;
  wake_next();
}

// Starts another run of this timer. If there is a killed run that waits for its back-off, that run
// continues now instead.
void Run::wake_next() {
  const auto woken = jobs_.trigger_schedule(name_, TickSource::wake, std::nullopt);
  if (woken && !woken->jobs.empty()) standby_ = woken->jobs.front();
  if (!woken || standby_ != 0) return;
  for (const JobId id : live_) {
    const Result<Job> other = id == job_.id ? Result<Job>(Error{}) : jobs_.get(id);
    if (!other || is_terminal(other->state)) continue;
    if (other->state == JobState::retryable) (void)jobs_.retry({id});
    standby_ = id;
  }
}

// C3, C6, C7: unless the standby exists, the timer wakes itself.
void Run::see_to_the_next() {
  if (standby_ != 0) {
    const Result<Job> standby = jobs_.get(standby_);
    if (standby && !is_terminal(standby->state) && standby->state != JobState::retryable) return;
    standby_ = 0;
  }
  // If this fails, or the server is unreachable, the fallback schedule (C8) starts it.
  if (!MS_MUTANT(timer_does_not_wake)) wake_next();
}

Result<int> Run::one_batch() {
  try {
    return process_(*this, options_.batch);
  } catch (const std::exception& e) {
    return Error{.code = ErrorCode::internal, .message = e.what()};
  } catch (...) {
    return Error{.code = ErrorCode::internal, .message = "the batch threw an unknown exception"};
  }
}

RunEnd Run::process_all() {
  for (;;) {
    if (stopped()) return why_stopped();
    if (const auto end = read_schedule()) return *end;
    start_standby();
    const Result<int> done = one_batch();
    if (!done) {
      if (stopped()) return why_stopped();
      error_ = done.error().message;
      if (is_start_failure(done.error())) not_started_ = done.error();
      return RunEnd::error;
    }
    ++batches_;
    handled_ += *done;
    if (errors_ > 0) remember_errors(errors_ = 0);
    const Duration whole = std::max(end_at_ - began_, Duration(1));
    context_.progress(double((clock_.now().instant - began_).count()) / double(whole.count()),
                      fmt::format("{} batches, {} handled", batches_, handled_));
    if (*done > 0) continue;
    // No work: sleep, but not past the standby's start or the end of the run.
    const Instant now = clock_.now().instant;
    const Instant next = std::min(end_at_, standby_tried_ ? Instant::never() : standby_at_);
    sleep(next > now ? std::min(options_.idle, next - now) : options_.idle);
  }
}

void Run::remember_errors(int errors) {
  (void)lease_->set_value(errors == 0 ? "" : fmt::format("{{\"errors\":{}}}", errors));
}

Outcome Run::outcome(RunEnd end) {
  switch (end) {
    case RunEnd::cancelled:
      return CancelJob{};
    case RunEnd::lost:
    case RunEnd::shutdown:
      return Snooze{};  // another worker continues, or this one waits for the current lease holder
    case RunEnd::error:
      // C6: the run ends, and its error is visible in the dead letter and the ledger.
      return Dead{"batch_failed", fmt::format("batch {}: {}", batches_ + 1, error_)};
    case RunEnd::timeout:
    case RunEnd::stopped:
      break;
  }
  return Complete{fmt::format("{{\"ended\":\"{}\",\"batches\":{},\"handled\":{}}}", to_text(end),
                              batches_, handled_)};
}

HandlerResult Run::run() {
  MS_TRY_ASSIGN(std::optional<Outcome> over, wait_for_lease());
  if (over) return std::move(*over);
  struct {
    int errors = 0;
  } kept;
  if (const std::string value = lease_->value(); !value.empty()) {
    JsonReader in(value, JsonReader::Unknown::skip);
    in.members([&](std::string_view key) {
      return key == "errors" ? in.integer(kept.errors, 0, kMaxErrorRow) : in.skip();
    });
  }
  errors_ = kept.errors;
  began_ = clock_.now().instant;
  const RunEnd end = process_all();
  if (not_started_) {
    (void)lease_->release();
    return std::move(*not_started_);
  }
  if (end == RunEnd::error) {
    remember_errors(std::min(errors_ + 1, kMaxErrorRow));
    sleep(std::min(options_.error_pause * (std::int64_t{1} << errors_), kLongestTimerPause));
  }
  const Outcome out = outcome(end);
  if (end == RunEnd::timeout || end == RunEnd::error) see_to_the_next();
  (void)lease_->release();
  return out;
}

}  // namespace

std::vector<Error> TimerOptions::validate() const {
  std::vector<Error> errors;
  if (batch < 1 || batch > 1'000'000) {
    errors.push_back(invalid("batch", fmt::format("batch {}: must be 1 to 1000000", batch)));
  }
  for (const auto& [field, value] :
       {std::pair("idle", idle), std::pair("error_pause", error_pause)}) {
    if (value <= Duration(0) || value > std::chrono::hours(1)) {
      errors.push_back(invalid(
          field, fmt::format("{} {}: must be more than 0s and at most 1h", field, value.count())));
    }
  }
  if (lease < kMinLease || lease > kMaxLease) {
    errors.push_back(
        invalid("lease", fmt::format("lease {}: must be 1s to 12h", format_duration(lease))));
  }
  if (timer_slots < 1 || timer_slots > kMaxTimerSlots) {
    errors.push_back(
        invalid("timer_slots", fmt::format("timer_slots {}: must be 1 to 1000", timer_slots)));
  }
  return errors;
}

bool reaching_timeout(Duration timeout, Duration margin, Duration ran) {
  return timeout - ran < margin;
}

Duration effective_timeout(const ScheduleInfo& info) {
  if (info.timeout_override && *info.timeout_override > Duration(0)) return *info.timeout_override;
  return info.schedule.continuous ? info.schedule.continuous->timeout : Duration(0);
}

Handler timer_handler(Jobs& jobs, const Clock& clock, Random& random, TimerSlots& slots,
                      ProcessBatch process, TimerOptions options) {
  slots.limit(options.timer_slots);
  return [&jobs, &clock, &random, &slots, process = std::move(process),
          options = std::move(options)](const ClaimedJob& job, Context& context) -> HandlerResult {
    const std::string name = schedule_of(job);
    if (name.empty()) {
      return Outcome(Dead{"no_timer", "the job was not made by a schedule that is continuous"});
    }
    const auto place =
        slots.enter(job.kind, name, job.priority, kPlaceWait, context.stop_token(), clock);
    if (!place) return Outcome(Snooze{context.stop_requested() ? Duration(0) : kNoPlacePause});
    return Run(jobs, clock, random, process, options, job, context, name).run();
  };
}

void TimerSlots::limit(int slots) {
  MutexLock lock(mutex_);
  slots_ = std::min(slots_, slots);
}

bool TimerSlots::may_enter(const std::string& kind, const std::string& name) const {
  const auto it = kinds_.find(kind);
  if (it != kinds_.end()) return it->second.name == name;
  return static_cast<int>(kinds_.size()) < slots_;
}

bool TimerSlots::is_first(const Waiter& waiter) const {
  const auto rank = [](const Waiter& one) {
    return std::pair(MS_MUTANT(timer_priority_ignored) ? 0 : one.priority, one.order);
  };
  for (const Waiter& other : waiters_) {
    const bool before = rank(other) < rank(waiter);
    if (before && may_enter(other.kind, other.name)) return false;
  }
  return true;
}

std::optional<TimerSlots::Place> TimerSlots::enter(const std::string& kind, const std::string& name,
                                                   int priority, Duration wait,
                                                   const std::stop_token& stop,
                                                   const Clock& clock) {
  const std::stop_callback on_stop(stop, [this] {
    MutexLock lock(mutex_);
    changed_.notify_all();
  });
  const Instant until = clock.now().instant + wait;
  MutexLock lock(mutex_);
  const Waiter me{kind, name, priority, ++last_order_};
  waiters_.push_back(me);
  bool in = false;
  for (Instant now; !stop.stop_requested();) {
    in = may_enter(kind, name) && is_first(me);
    if (in || (now = clock.now().instant) >= until) break;
    changed_.wait_for(mutex_, until - now);
  }
  std::erase_if(waiters_, [&](const Waiter& one) { return one.order == me.order; });
  changed_.notify_all();
  if (!in) return std::nullopt;
  Kind& has = kinds_[kind];
  has.name = name;
  ++has.runs;
  return Place(*this, kind);
}

int TimerSlots::waiting() {
  MutexLock lock(mutex_);
  return static_cast<int>(waiters_.size());
}

void TimerSlots::leave(const std::string& kind) {
  MutexLock lock(mutex_);
  const auto it = kinds_.find(kind);
  if (it != kinds_.end() && --it->second.runs == 0) kinds_.erase(it);
  changed_.notify_all();
}

TimerSlots::Place::~Place() {
  if (slots_ != nullptr) slots_->leave(kind_);
}

}  // namespace mainspring
