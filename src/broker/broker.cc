// The broker's batches: which operations go into the next commit, and how callers are answered.
// Waiting claims are in parked.cc.
#include "broker/broker.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "api/step_key.h"
#include "api/workflow_shapes.h"
#include "base/assert.h"
#include "base/mutant.h"
#include "tracing/job_traces.h"

namespace mainspring {
namespace {

using Answers = std::vector<std::function<void()>>;

constexpr std::size_t kEveryone = std::numeric_limits<std::size_t>::max();
// If a commit takes longer, the claim's answer has a lease that is shorter by that time. Less than
// the margin that workers keep of the shortest lease, a sixth of kMinLease.
constexpr Duration kSlowCommit = std::chrono::milliseconds(100);
constexpr std::size_t kMaxReportedCancels = 1000;
constexpr std::size_t kMaxKnownWorkers = 50'000;
constexpr Duration kNothingLeft = std::chrono::milliseconds(1);  // of a lease; 0 = not known

// What an operation counts towards the limits of a batch.
struct Size {
  std::size_t jobs = 1;
  std::size_t bytes = 256;
};

Size size_of(const Operation& operation) {
  Size size;
  if (const auto* enqueue = std::get_if<Enqueue>(&operation)) {
    size.jobs = enqueue->jobs.size();
    for (const NewJob& job : enqueue->jobs)
      size.bytes += job.args.size() + job.headers.size() + 256;
  } else if (const auto* finish = std::get_if<Finish>(&operation)) {
    size.jobs = finish->results.size();
    for (const JobOutcome& result : finish->results) {
      const auto* complete = std::get_if<Complete>(&result.outcome);
      size.bytes += 64 + (complete == nullptr ? 64 : complete->result.size());
      if (complete != nullptr) {
        size.jobs += complete->next.size();
        for (const NewJob& job : complete->next)
          size.bytes += job.args.size() + job.headers.size() + 256;
      }
      if (result.session_state) size.bytes += result.session_state->size();
    }
  } else if (const auto* renew = std::get_if<Renew>(&operation)) {
    for (const Renewal& lease : renew->leases) {
      if (lease.checkpoint) size.bytes += lease.checkpoint->size();
      if (lease.checkpoint || lease.progress || lease.warning) ++size.jobs;
      for (const std::string& message : lease.messages) size.bytes += message.size() + 256;
      size.jobs += lease.messages.size() + lease.memos.size();
      for (const Memo& memo : lease.memos) size.bytes += memo.result.size() + 256;
    }
  } else if (const auto* put = std::get_if<PutSessionState>(&operation)) {
    size.bytes += put->state.size();
  } else if (const auto* audit = std::get_if<Audit>(&operation)) {
    size.bytes += audit->before.size() + audit->after.size();
  } else if (const auto* claim = std::get_if<Claim>(&operation)) {
    size.jobs = static_cast<std::size_t>(claim->max);
  } else if (const auto* start = std::get_if<StartWorkflow>(&operation)) {
    size.bytes += start->spec.input.size();
    (void)for_each_step(start->spec, [&](const std::string&, const StepSpec& step) -> Result<void> {
      ++size.jobs;
      size.bytes += 512 + (step.job ? step.job->args.size() : 0) +
                    (step.workflow ? step.workflow->input.size() : 0);
      return {};
    });
  } else if (const auto* fork = std::get_if<ForkWorkflow>(&operation)) {
    size.bytes += fork->input ? fork->input->size() : 0;
  } else if (const auto* fire = std::get_if<FireSchedule>(&operation)) {
    size.jobs = std::max<std::size_t>(1, fire->ticks.size());
  } else if (const auto* event = std::get_if<FireTrigger>(&operation)) {
    size.bytes += event->args.size();
  }
  return size;
}

Error stopping() {
  return Error{
      .code = ErrorCode::unavailable, .message = "the engine is stopping", .retry_after_ms = 1000};
}

// The store measures a lease from the start of the commit; the worker measures it from the answer.
void measure_from_answer(OperationResult& result, Duration took) {
  if (took <= kSlowCommit || MS_MUTANT(claim_measured_from_answer)) return;
  const auto shorten = [took](Duration& lease) { lease = std::max(lease - took, kNothingLeft); };
  if (auto* claimed = std::get_if<ClaimResult>(&result)) {
    for (ClaimedJob& job : claimed->jobs) shorten(job.lease);
    if (claimed->session) shorten(claimed->session->lease);
  } else if (auto* grant = std::get_if<SessionGrant>(&result)) {
    shorten(grant->lease);
  }
}

// Operations that make no new promise to a caller, or keep an earlier promise.
bool goes_on_while_held(const Operation& operation) {
  if (const auto* fire = std::get_if<FireSchedule>(&operation)) return !fire->fence.lease.empty();
  if (const auto* acquire = std::get_if<AcquireLease>(&operation))
    return acquire->name == kLeadershipLease;
  if (const auto* release = std::get_if<ReleaseLease>(&operation))
    return release->name == kLeadershipLease;
  if (const auto* renew = std::get_if<Renew>(&operation)) return !sends_messages(renew->leases);
  return std::holds_alternative<RenewLease>(operation) ||
         std::holds_alternative<RenewSession>(operation) ||
         std::holds_alternative<MoveDue>(operation) ||
         std::holds_alternative<RescueExpired>(operation) ||
         std::holds_alternative<ExpireJobs>(operation) ||
         std::holds_alternative<PruneJobs>(operation) ||
         std::holds_alternative<WakeWorkflows>(operation) ||
         std::holds_alternative<Audit>(operation);
}

}  // namespace

Broker::Broker(Store& store, const Clock& clock, Log& log, Registry& registry,
               BrokerOptions options)
    : store_(store),
      clock_(clock),
      log_(log),
      options_(options),
      commit_seconds_(registry.histogram("mainspring_commit_seconds",
                                         "Time from the start of a batch to its durable commit.",
                                         duration_buckets())),
      commit_operations_(registry.histogram("mainspring_commit_operations",
                                            "Operations per commit.", size_buckets())),
      enqueued_total_(registry.counter("mainspring_jobs_enqueued_total", "Enqueued jobs.")),
      claimed_total_(registry.counter("mainspring_jobs_claimed_total", "Claimed jobs.")),
      alarms_total_(registry.counter("mainspring_workflow_alarms_total",
                                     "Steps that parked their workflow.")),
      standstills_total_(
          registry.counter("mainspring_standstills_total",
                           "Standstills of the server after which leases were extended.")),
      job_metrics_(registry, history_),
      events_(store, clock, registry, options.events),
      registry_(registry),
      housekeeping_(log, registry) {
  register_gauges();
  register_breaker_gauges();
}

Broker::~Broker() {
  stop();
  drop_gauges();
}

// -- entry points --------------------------------------------------------------------------------

std::optional<Error> Broker::refuse(const Operation& operation, std::size_t jobs,
                                    std::size_t bytes) const {
  if (stopped_) return stopping();
  if (failed_) {
    return Error{.code = ErrorCode::io_error,
                 .message = "the store failed: nothing can be changed until a restart"};
  }
  if (!held_.empty() && !goes_on_while_held(operation))
    return Error{.code = ErrorCode::unavailable, .message = held_, .retry_after_ms = 1000};
  const auto full = [](std::string_view what, std::size_t bound) {
    return Error{.code = ErrorCode::overloaded,
                 .message = fmt::format("{} wait for the disk: must be at most {}; try again soon",
                                        what, bound),
                 .retry_after_ms = 1000};
  };
  if (std::holds_alternative<Enqueue>(operation) || MS_MUTANT(no_reserved_room)) {
    // A single operation over the limit is accepted when nothing else waits.
    if (waiting_jobs_ != 0 && waiting_jobs_ + jobs > options_.max_waiting_jobs) {
      return full(fmt::format("{} jobs", waiting_jobs_), options_.max_waiting_jobs);
    }
    if (waiting_bytes_ != 0 && waiting_bytes_ + bytes > options_.max_waiting_bytes) {
      return full(fmt::format("{} bytes of jobs", waiting_bytes_), options_.max_waiting_bytes);
    }
  } else if (std::holds_alternative<Claim>(operation)) {
    if (claims_stopped_) return stopping();
    const std::size_t parked = parked_.size() + claims_.size() + lease_waiters_.size();
    if (parked >= options_.max_parked_claims)
      return full(fmt::format("{} claims", parked), options_.max_parked_claims);
  } else if (urgent_.size() + completions_.size() >= options_.max_waiting_urgent) {
    return full(fmt::format("{} operations", urgent_.size() + completions_.size()),
                options_.max_waiting_urgent);
  }
  return std::nullopt;
}

void Broker::push(Pending pending, std::deque<Pending>& line) {
  if (std::holds_alternative<Enqueue>(pending.operation)) {
    waiting_jobs_ += pending.jobs;
    waiting_bytes_ += pending.bytes;
  }
  line.push_back(std::move(pending));
}

Broker::Pending Broker::to_submit(Submission submission) {
  Operation& operation = submission.operation;
  drop_step_keys(operation);
  std::shared_ptr<const TraceSends> sends;
  if (traces_ != nullptr) {
    if (auto* enqueue = std::get_if<Enqueue>(&operation))
      sends = traces_->sending(*enqueue, clock_.now().wall);
    if (auto* finish = std::get_if<Finish>(&operation)) traces_->finishing(*finish);
  }
  const Size size = size_of(operation);
  return {.operation = std::move(operation),
          .answer = std::move(submission.answer),
          .jobs = size.jobs,
          .bytes = size.bytes,
          .audit = std::move(submission.audit),
          .sends = std::move(sends)};
}

Broker::Pending Broker::to_submit(Claim claim, Duration wait, Submission submission) {
  if (claim.job != 0) wait = Duration(0);
  Pending pending{.operation = std::move(claim),
                  .answer = std::move(submission.answer),
                  .deadline = clock_.now().instant + std::min(wait, kMaxClaimWait),
                  .audit = std::move(submission.audit)};
  const Size size = size_of(pending.operation);
  pending.jobs = size.jobs;
  pending.bytes = size.bytes;
  return pending;
}

std::optional<OperationResult> Broker::enter(Pending& pending) {
  if (auto refused = refuse(pending.operation, pending.jobs, pending.bytes))
    return std::move(*refused);
  if (!pending.audit) {
    if (auto known = answer_without_store(pending.operation)) return std::move(*known);
  }
  auto& line = line_of(pending.operation, pending.audit.has_value());
  push(std::move(pending), line);
  wake_writers();
  return std::nullopt;
}

std::optional<OperationResult> Broker::enter_claim(Pending& pending) {
  pending.park_id = next_handle_++;
  if (auto refused = refuse(pending.operation, pending.jobs, pending.bytes))
    return std::move(*refused);
  push(std::move(pending), claims_);
  return std::nullopt;
}

void Broker::submit(Submission submission, Wake whom) {
  Pending pending = to_submit(std::move(submission));
  std::optional<OperationResult> now;
  bool wake = false;
  {
    MutexLock lock(mutex_);
    now = enter(pending);
    wake = !now && whom == Wake::commit_loop && commit_loop_is_late();
  }
  if (now) return pending.answer(std::move(*now));
  if (wake) work_.notify_one();
}

Broker::ParkId Broker::submit_claim(Claim claim, Duration wait, Answer answer,
                                    std::optional<Audit> audit) {
  return submit_with_claim(std::nullopt, std::move(claim), wait,
                           {.answer = std::move(answer), .audit = std::move(audit)});
}

Broker::ParkId Broker::submit_with_claim(std::optional<Submission> before, Claim claim,
                                         Duration wait, Submission claimed) {
  std::optional<Pending> first;
  if (before) first = to_submit(std::move(*before));
  Pending pending = to_submit(std::move(claim), wait, std::move(claimed));
  std::optional<OperationResult> first_now;
  std::optional<OperationResult> now;
  bool wake = false;
  ParkId id = 0;
  {
    MutexLock lock(mutex_);
    if (first) first_now = enter(*first);
    id = next_handle_;
    now = enter_claim(pending);
    wake = commit_loop_is_late();
  }
  if (wake) work_.notify_one();
  if (first_now) first->answer(std::move(*first_now));
  if (now) pending.answer(std::move(*now));
  return id;
}

Broker::WatchId Broker::watch(JobId id, std::function<void()> changed) {
  MutexLock lock(mutex_);
  const WatchId handle = next_handle_++;
  watches_[id].emplace_back(handle, std::move(changed));
  watch_jobs_.emplace(handle, id);
  if (waits_) waits_();
  if (shared_ != nullptr && loop_waiting_) work_.notify_one();  // its job may end on another node
  return handle;
}

void Broker::unwatch(WatchId id) {
  MutexLock lock(mutex_);
  const auto found = watch_jobs_.find(id);
  if (found == watch_jobs_.end()) return;
  auto& line = watches_[found->second];
  std::erase_if(line, [&](const auto& entry) { return entry.first == id; });
  if (line.empty()) watches_.erase(found->second);
  watch_jobs_.erase(found);
}

std::size_t Broker::watches() const {
  MutexLock lock(mutex_);
  return watch_jobs_.size();
}

Agenda Broker::agenda() const {
  MutexLock lock(step_mutex_);
  return store_.agenda();
}

// -- one batch -----------------------------------------------------------------------------------

bool Broker::has_work() const {
  return !urgent_.empty() || !claims_.empty() || !abandoned_.empty() || !ready_.empty() ||
         !heard_.empty() || !pings_.empty() || !commanded_.empty() ||
         (!enqueues_.empty() && !leaves_to_writer(WriterFor::enqueues)) ||
         (!completions_.empty() && !leaves_to_writer(WriterFor::completions));
}

Instant Broker::step(Now now) {
  MutexLock lock(step_mutex_);
  return step_locked(now);
}

Instant Broker::step_locked(Now now) {
  Batch batch;
  Answers answers;
  const Agenda before = store_.agenda();
  const bool polls = shared_ != nullptr && now.instant >= next_poll_ && !shared_->away();
  if (shared_ != nullptr) listen(answers, now);
  {
    MutexLock lock(mutex_);
    gather(batch, answers, now);
    for (auto& turned : pings_) answers.push_back(std::move(turned));
    pings_.clear();
    committing_ = !batch.operations.empty();
    wake_writers();
  }
  // Before lost jobs are rescued, and before a renewal is refused as late.
  const std::optional<Error> refused = end_standstill(!batch.operations.empty(), now);
  if (!batch.operations.empty()) {
    refused ? fail(batch, *refused, answers, now) : commit(batch, answers, now);
  } else if (polls) {
    write_history(now);  // like the poll: other nodes see the counts of this node
  }
  for (auto& answer : answers) answer();
  events_.tell();
  if (before != store_.agenda()) tell_listeners();
  MutexLock lock(mutex_);
  wake_writers();  // the claims that made the commit loop do their work may be gone
  if (has_work()) return now.instant;
  const Instant claims = deadlines_.empty() ? Instant::never() : deadlines_.begin()->first.first;
  return std::min({claims, lease_waiters_.next(), next_poll_, next_look_, writers_late_at(),
                   next_tick(now), next_version_mark()});
}

void Broker::log_batch(const Batch& batch, Duration took) {
  if (!options_.log_batches) return;
  log_.debug("batch", {{"operations", fmt::to_string(batch.operations.size())},
                       {"took", format_duration(took)}});
}

void Broker::commit(Batch& batch, Answers& answers, Now now) {
  const std::int64_t commits = store_.commits();
  const bool offered = offer_history(HistoryWrite::with_batch, now);
  auto report = store_.apply(batch.operations, now);
  {
    MutexLock lock(mutex_);
    committing_ = false;
    if (offered) note_history(report, now);
  }
  const bool committed = store_.commits() != commits;
  if (committed) {
    const Duration took = clock_.now().instant - now.instant;
    commit_seconds_.observe(static_cast<double>(took.count()) / 1e6);
    commit_operations_.observe(static_cast<double>(batch.operations.size()));
    log_batch(batch, took);
  }
  if (report) {
    if (!report->effects.brief.empty()) keep_ends(report->effects.brief, now);
    {
      MutexLock lock(mutex_);
      if (committed) committed_at_ = now.instant;
      distribute(batch, *report, answers, now);
    }
    if (shared_ != nullptr) tell_others(report->effects);
    stepped_at_ = std::max(stepped_at_, now.instant);
    return;
  }
  if (shared_ != nullptr && shared_->blocked() && !MS_MUTANT(blocked_batch_refused)) {
    std::vector<Batch> parts = apart(batch);
    for (Batch& part : parts) {
      parts.size() == 1 ? fail(part, report.error(), answers, now)
                        : commit(part, answers, clock_.now());
      for (auto& answer : std::exchange(answers, {})) answer();
    }
    return;
  }
  fail(batch, report.error(), answers, now);
}

std::vector<Broker::Batch> Broker::apart(Batch& batch) {
  std::vector<Batch> parts;
  for (std::size_t i = 0; i < batch.operations.size(); ++i) {
    const bool record = std::holds_alternative<Audit>(batch.operations[i]);
    if (!record || parts.empty()) parts.emplace_back();
    parts.back().operations.push_back(std::move(batch.operations[i]));
    parts.back().callers.push_back(std::move(batch.callers[i]));
  }
  return parts;
}

void Broker::fail(Batch& batch, const Error& error, Answers& answers, Now now) {
  const bool fatal = error.code == ErrorCode::io_error || error.code == ErrorCode::internal;
  const bool away = error.code == ErrorCode::unavailable || error.code == ErrorCode::timeout;
  if (!away) stepped_at_ = std::max(stepped_at_, now.instant);
  {
    MutexLock lock(mutex_);
    if (fatal) failed_ = true;
    committing_ = false;
    give_back(batch, error, answers, now);
  }
  for (auto& answer : std::exchange(answers, {})) answer();
  if (fatal && fatal_) fatal_(error);
}

void Broker::Batch::add(Pending pending) {
  std::optional<Audit> audit = std::exchange(pending.audit, std::nullopt);
  jobs += pending.jobs;
  bytes += pending.bytes;
  operations.push_back(std::move(pending.operation));
  callers.push_back(std::move(pending));
  if (!audit) return;
  operations.emplace_back(std::move(*audit));
  callers.push_back({.answer = [](const OperationResult&) {}});
}

void Broker::gather_pending(std::deque<Pending>& line, Batch& batch) {
  while (!line.empty() && (batch.operations.empty() || batch.has_room(options_))) {
    Pending& next = line.front();
    if (!batch.operations.empty() && batch.jobs + next.jobs > options_.max_batch_jobs) break;
    if (std::holds_alternative<Enqueue>(next.operation)) {
      waiting_jobs_ -= next.jobs;
      waiting_bytes_ -= next.bytes;
    }
    batch.add(std::move(next));
    line.pop_front();
  }
}

void Broker::gather(Batch& batch, Answers& answers, Now now) {
  for (const ParkId id : abandoned_) abandon_now(id, answers);
  abandoned_.clear();
  obey_commands(answers);
  expire_parked(answers, now);
  gather_pending(urgent_, batch);
  if (!leaves_to_writer(WriterFor::completions)) gather_pending(completions_, batch);
  wake_acquires(batch, answers, now);
  if (!leaves_to_writer(WriterFor::enqueues)) gather_pending(enqueues_, batch);
  gather_new_claims(batch, answers, now);
  add_version_mark(batch, now);
  if (!held_.empty()) {
    ready_.clear();  // they are offered again when hold() ends
    return forget_workers(now);
  }
  wake_ready(batch);
  if (!MS_MUTANT(parked_claim_not_woken)) {
    wake_parked_for_enqueues(batch, now);
    wake_parked_for_due(batch, now);
  }
  forget_workers(now);
}

// -- answers -------------------------------------------------------------------------------------

void Broker::distribute(Batch& batch, BatchReport& report, Answers& answers, Now now) {
  MS_ASSERT(report.results.size() == batch.operations.size(), "a store answers every operation");
  const Duration took = clock_.now().instant - now.instant;
  if (applied_) applied_(batch.operations, report, now);
  if (events_.wanted(now.instant))
    events_.record(batch.operations, report.results, report.effects, now);
  count(batch, report, now);
  for (const std::string& lease : report.effects.released)
    lease_waiters_.retry_at(lease, now.instant);
  for (std::size_t i = 0; i < batch.operations.size(); ++i) {
    Pending& caller = batch.callers[i];
    OperationResult& result = report.results[i];
    if (traces_ != nullptr) note_traces(caller, batch.operations[i], result, now);
    note_worker(batch.operations[i], result, now);
    add_command(batch.operations[i], result);
    if (const auto* cancelled = std::get_if<CancelResult>(&result)) {
      const JobId id = std::get<Cancel>(batch.operations[i]).id;
      if (cancelled->cancel_requested && !MS_MUTANT(cancel_not_reported)) {
        tell_cancel(cancelled->worker, id, answers);
        if (shared_ != nullptr && cancels_to_tell_.size() < kMaxReportedCancels)
          cancels_to_tell_.push_back({id, cancelled->worker});
      }
    }
    if (park_acquire(caller, batch.operations[i], result, now)) continue;
    measure_from_answer(result, took);
    const auto* claimed = std::get_if<ClaimResult>(&result);
    const bool nothing = claimed != nullptr && claimed->jobs.empty() && !claimed->session &&
                         claimed->command == WorkerCommand::none;
    if (nothing && !caller.asked.empty() && !caller.last_try && !claims_stopped_) {
      caller.last_try = true;
      claims_.push_front(std::move(take_back(batch, i)));
      continue;
    }
    if (nothing && caller.park_id != 0 && caller.deadline > now.instant && !claims_stopped_) {
      park_again(batch, i);
      continue;
    }
    answers.push_back([answer = std::move(caller.answer), result = std::move(result)]() mutable {
      answer(std::move(result));
    });
  }
  // After the claims that this batch woke in vain, so that jobs of triggers come after them.
  for (const std::string& queue : report.effects.available) {
    if (!lines_of(queue).empty() && !MS_MUTANT(parked_claim_not_woken))
      ready_[queue] = {.up_to = next_order_ - 1, .burst = kEveryone};
  }
  if (traces_ != nullptr) traces_->ended(report.effects.ended, now.wall);
  note_breakers(report.effects.breakers);
  tell_ended(report.effects.ended, answers);
  tell_workflows(report.effects, answers);
}

void Broker::tell_ended(const std::vector<JobId>& ended, Answers& answers) {
  for (const JobId id : ended) {
    if (MS_MUTANT(watcher_not_reported)) break;
    const auto watched = watches_.find(id);
    if (watched == watches_.end()) continue;
    for (auto& [handle, changed] : watched->second) {
      watch_jobs_.erase(handle);
      answers.push_back(std::move(changed));
    }
    watches_.erase(watched);
  }
}

// Notifies the worker of a cancelled running job: through a parked claim, else with its next claim
// or renewal.
void Broker::tell_cancel(const std::string& who, JobId id, Answers& answers) {
  const auto parked = std::find_if(parked_.begin(), parked_.end(), [&](const auto& entry) {
    return entry.second->claim.worker == who;
  });
  if (parked != parked_.end()) {
    answers.push_back(
        [answer = unpark(*parked->second).answer, id] { answer(ClaimResult{.cancel = {id}}); });
    return;
  }
  const auto worker = workers_.find(who);
  if (worker != workers_.end() && worker->second.cancels.size() < kMaxReportedCancels) {
    worker->second.cancels.push_back(id);
  }
}

Broker::Worker& Broker::worker_of(const std::string& name) {
  const auto found = workers_.find(name);
  if (found != workers_.end()) return found->second;
  if (workers_.size() < kMaxKnownWorkers) return workers_[name];
  return unknown_worker_ = {};
}

void Broker::note_worker(const Operation& operation, const OperationResult& result, Now now) {
  if (const auto* claimed = std::get_if<ClaimResult>(&result)) {
    claimed_total_.add(static_cast<std::int64_t>(claimed->jobs.size()));
    Worker& worker = worker_of(std::get<Claim>(operation).worker);
    worker.last_seen = now.instant;
    worker.running += static_cast<int>(claimed->jobs.size());
    if (!claimed->jobs.empty()) {
      worker.renewed = now.instant;
      worker.lease = std::get<Claim>(operation).lease;
    }
  } else if (const auto* accept = std::get_if<AcceptSession>(&operation)) {
    if (std::holds_alternative<Error>(result)) return;
    Worker& worker = worker_of(accept->worker);
    worker.last_seen = now.instant;
    worker.add_queues({accept->session.queue});
  } else if (const auto* enqueued = std::get_if<EnqueueResult>(&result)) {
    const auto fresh = std::count_if(enqueued->jobs.begin(), enqueued->jobs.end(),
                                     [](const EnqueuedJob& job) { return !job.duplicate; });
    enqueued_total_.add(fresh);
  } else if (const auto* finished = std::get_if<FinishResult>(&result)) {
    const Finish& finish = std::get<Finish>(operation);
    Worker& worker = worker_of(finish.worker);
    worker.last_seen = now.instant;
    const auto ended = std::count_if(finished->results.begin(), finished->results.end(),
                                     [](FinishStatus s) { return s != FinishStatus::not_found; });
    worker.running = std::max(0, worker.running - static_cast<int>(ended));
  } else if (const auto* renewed = std::get_if<RenewResult>(&result)) {
    const Renew& renew = std::get<Renew>(operation);
    job_metrics_.renewed(renew, *renewed);
    Worker& worker = worker_of(renew.worker);
    worker.last_seen = worker.renewed = now.instant;
    commands_.seen(renew.worker, nullptr, now.instant);
    if (renew.lease > Duration(0)) worker.lease = renew.lease;
    if (renew.stuck) worker.set_stuck(*renew.stuck);
    worker.running -= static_cast<int>(renewed->lost.size());
    worker.running = std::max(worker.running, static_cast<int>(renewed->renewed.size()));
    renewed_.notify_all();
    std::erase_if(worker.cancels, [&](JobId id) {
      return std::find(renewed->cancel.begin(), renewed->cancel.end(), id) != renewed->cancel.end();
    });
  }
}

void Broker::note_traces(const Pending& caller, const Operation& operation, OperationResult& result,
                         Now now) {
  if (const auto* enqueued = std::get_if<EnqueueResult>(&result)) {
    if (caller.sends) traces_->sent(*caller.sends, *enqueued, now);
  } else if (auto* claimed = std::get_if<ClaimResult>(&result)) {
    traces_->claimed(std::get<Claim>(operation).worker, *claimed, now.wall);
  } else if (const auto* finished = std::get_if<FinishResult>(&result)) {
    traces_->finished(std::get<Finish>(operation), *finished, now);
  }
}

void Broker::forget_workers(Now now) {
  if (now.instant < workers_checked_ + options_.worker_memory / 10) return;
  workers_checked_ = now.instant;
  commands_.forget(now.instant, options_.worker_memory);
  std::erase_if(workers_, [&](const auto& entry) {
    const Worker& worker = entry.second;
    // Its jobs may need no renewal for hours.
    if (worker.running > 0 && now.instant < worker.renewed + worker.lease) return false;
    return worker.last_seen + options_.worker_memory < now.instant;
  });
}

}  // namespace mainspring
