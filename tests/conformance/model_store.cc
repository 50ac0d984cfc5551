// The model store: each operation is a few lines over a map of jobs.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "conformance/model_deferred.h"
#include "conformance/model_edits.h"
#include "conformance/model_empty.h"
#include "conformance/model_follows.h"
#include "conformance/model_keys.h"
#include "conformance/model_limits.h"
#include "conformance/model_marks.h"
#include "conformance/model_memos.h"
#include "conformance/model_pauses.h"
#include "conformance/model_quarantine.h"
#include "conformance/model_reads.h"
#include "conformance/model_retry.h"
#include "conformance/model_standstill.h"

namespace mainspring {
namespace {

class ModelStore final : public ModelReads, private ModelJobs {
 public:
  ModelStore(std::shared_ptr<ModelDisk> disk, StoreOptions options, std::optional<Now> now,
             ModelOpening how)
      : ModelReads({&leases_, &sessions_, &schedules_, &workflows_, &access_, &triggers_, &limits_},
                   *disk),
        disk_(std::move(disk)),
        options_(options),
        leases_(*disk_),
        sessions_(*disk_, gained_),
        schedules_(*disk_, *this),
        workflows_(*disk_, {.make =
                                [this](const NewJob& n) {
                                  return add_record(n, now_.wall, JobState::available);
                                },
                            .cancel =
                                [this](JobId id, const std::string& reason) {
                                  (void)run(Cancel{id, reason});
                                }}),
        access_(*disk_),
        triggers_(*disk_, {.enqueue = [this](const NewJob& n) { return run(Enqueue{.jobs = {n}}); },
                           .add = [this](const NewJob& n) { return add(n); }}),
        limits_(*disk_, now ? now->wall : WallTime()),
        quarantine_(*disk_),
        breakers_(*disk_, [this](const std::string& queue) { opened(queue); }) {
    kept_ = options_.history;
    if (!now) return;
    leases_.start_over(now->instant, how);
    sessions_.start_over(now->instant);
    reset_jobs(*disk_, now->instant);
  }

  Result<BatchReport> apply(std::span<const Operation> batch, Now now) override {
    now_ = now;
    sessions_.begin_batch(now);
    workflows_.begin_batch(now);
    dirty_ = false;
    gained_.clear(), limits_.advance(now.wall);
    ended_.clear(), followed_.clear(), posted_.clear();
    BatchReport report;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      access_.look_before(batch, i);
      report.results.push_back(run_one(batch[i]));
      settle();
      access_.look_after(batch[i], report.results.back());
    }
    triggers_.fire_ends(now);
    settle();
    for (const std::string& line : gained_) {
      if (has_available(line)) report.effects.available.push_back(line);
    }
    report.effects.ended = ended_;
    report.effects.released = leases_.take_released(now.instant);
    report.effects.workflows = workflows_.take_changed();
    report.effects.alarms = workflows_.take_alarms();
    report.effects.breakers = breakers_.take_changed(now.wall);
    report.effects.resumed = std::exchange(resumed_, {});
    quarantine_.tell(report.effects);
    for (const bool wrote : {workflows_.take_wrote(), triggers_.take_wrote(), access_.take_wrote(),
                             schedules_.take_wrote()})
      dirty_ = wrote || dirty_;
    if (add_history(dirty_, report, now, *disk_)) ++commits_;
    return report;
  }

  Agenda agenda() const override {
    Agenda a;
    std::int64_t finished = 0;
    for (const auto& [id, r] : disk_->jobs) {
      const Job& j = r.job;
      if ((j.state == JobState::scheduled || j.state == JobState::retryable) &&
          !ModelQuarantine::waits(j))
        a.next_due = std::min(a.next_due, j.run_at);
      if (j.state == JobState::running)
        a.next_lease_expiry = std::min(a.next_lease_expiry, r.lease_expiry);
      if (can_expire(r)) a.next_expiry = std::min(a.next_expiry, *j.expires_at);
      if (is_terminal(j.state)) {
        ++finished;
        a.next_prune = std::min(a.next_prune, *j.finished_at + r.retention);
      }
    }
    a.next_prune = std::min(a.next_prune, next_key_prune(*disk_));
    if (!disk_->audit.empty())
      a.next_prune = std::min(a.next_prune, disk_->audit[0].at + options_.audit_retention);
    if (finished > options_.max_finished_jobs) a.next_prune = WallTime();
    a.next_schedule = schedules_.next_fire();
    a.next_lease_expiry = std::min(a.next_lease_expiry, sessions_.next_end());
    a.next_prune = std::min(a.next_prune, sessions_.next_prune(options_.retention_dead));
    a.next_workflow = workflows_.next_wake();
    a.next_opening = std::min({limits_.next_opening(), breakers_.next_half_open(),
                               quarantine_.next_release(), next_resume(*disk_)});
    a.next_prune = std::min(a.next_prune, workflows_.next_prune(options_));
    return a;
  }

  bool has_available(const std::string& queue) const override {
    if (queue.starts_with('~')) return sessions_.has_available(queue);
    if (limits_.is_closed(queue)) return false;
    return std::any_of(disk_->jobs.begin(), disk_->jobs.end(), [&](const auto& entry) {
      const Job& j = entry.second.job;
      return j.queue == queue && j.state == JobState::available && limits_.has_room(j);
    });
  }

  Instant lease_free_at(const std::string& name) const override {
    return leases_.free_at(name, now_.instant);
  }
  Result<Job> get(JobId id) const override {
    const auto found = disk_->jobs.find(id);
    if (found != disk_->jobs.end()) return found->second.job;
    return missing(*disk_, id);
  }

  Result<VerifyReport> verify() const override {  // the model has no redundant data
    return VerifyReport{.jobs = static_cast<std::int64_t>(disk_->jobs.size()), .problems = {}};
  }

  Result<void> backup(const std::string& directory) const override {
    return Error{.code = ErrorCode::conflict, .message = directory + ": a model has no files"};
  }

  std::int64_t commits() const override { return commits_; }
  std::int64_t reads() const override { return 0; }

 private:
  OperationResult run(const LeaseOperation auto& op) { return note(leases_.run(op, now_)); }
  template <class Answer>
  OperationResult note(Answer answer) {
    dirty_ = dirty_ || answer.wrote;
    return std::move(answer.result);
  }
  OperationResult run(const AcceptSession& op) {
    queue(op.session.queue);
    return note(sessions_.run(op));
  }
  OperationResult run(const OperationOnSession auto& op) { return note(sessions_.run(op)); }
  OperationResult run(const RemoveSchedule& op) { return schedules_.run(op); }
  OperationResult run(const ScheduleOperation auto& op) { return schedules_.run(op, now_); }
  OperationResult run(const FireSchedule& op) {
    if (!leases_.holds(op.fence, now_.instant)) return leases_.lost();
    return schedules_.run(op, now_);
  }

  OperationResult run(const WorkflowMaker auto& op) {
    if (!has_room(static_cast<std::size_t>(workflows_.steps_of(op)))) return too_many();
    return workflows_.run(op);
  }
  OperationResult run(const OperationOnWorkflow auto& op) { return workflows_.run(op); }
  OperationResult run(const WakeWorkflows& op) {
    if (!leases_.holds(op.fence, now_.instant)) return leases_.lost();
    return workflows_.run(op);
  }
  OperationResult run(const TriggerOperation auto& op) { return triggers_.run(op, now_); }
  OperationResult run(const BreakerOperation auto& op) {
    dirty_ = true;
    return breakers_.run(op, now_.wall);
  }
  OperationResult run(const AccessOperation auto& op) { return access_.run(op, now_); }
  OperationResult run(const MarkOperation auto& op) {
    return note(run_mark(*disk_, op, now_.wall));
  }

  JobId make(const NewJob& n, WallTime at, JobState state, std::int64_t schedule) override {
    const JobId id = add_record(n, at, state);
    disk_->jobs[id].schedule = schedule;
    return id;
  }
  void ask_to_stop(Record& r, const std::string& reason) override {
    (void)run(Cancel{r.job.id, reason});
  }
  void end_now(Record& r, const std::string& reason) override {
    set_terminal(r, JobState::cancelled, reason, "");
  }
  void begin(Record& r) override { set_waiting(r, JobState::available, r.job.run_at); }

  QueueStats& queue(const std::string& name) { return disk_->queues[name]; }

  void touch(Record& r) {
    ++r.job.version;
    dirty_ = true;
  }

  void leave_worker(Record& r, JobState state) {
    const bool ran = r.job.state == JobState::running;
    const bool left = limits_.leaves_line(r.job);
    undefer(r.job);
    r.job.state = state;
    r.job.worker.clear(), r.cancel_reason.clear(), r.job.cancel_requested = false;
    r.lease_expiry = Instant::never();
    touch(r);
    if (ran) breakers_.ended(r.job, BreakerMeter::End::neither, std::nullopt, now_.wall);
    if (ran && queue(r.job.queue).limits.concurrency) opened(r.job.queue);
    if (left || (ran && limits_.counts(r.job))) gained_.insert(r.job.queue);
  }

  void set_waiting(Record& r, JobState state, WallTime run_at) {
    leave_worker(r, state);
    r.job.run_at = run_at;
    if (!r.job.session.empty()) return sessions_.place(r);
    if (state == JobState::available) gained_.insert(r.job.queue);
  }

  void set_terminal(Record& r, JobState state, std::string reason, std::string description) {
    const QueueStats& q = queue(r.job.queue);
    if (state == JobState::cancelled && r.job.state == JobState::running) r.unknown = r.step;
    leave_worker(r, state);
    ModelQuarantine::forget(r);
    r.job.reason = std::move(reason);
    r.job.description = std::move(description);
    r.job.finished_at = now_.wall;
    r.retention = state == JobState::dead
                      ? q.retention_dead.value_or(options_.retention_dead)
                      : q.retention_completed.value_or(options_.retention_completed);
    ended_.push_back(r.job.id);
    followed_.push_back(r.job.id);
    schedules_.job_ended(r, now_);
    if (!r.job.session.empty()) sessions_.ended(r);
    workflows_.ended(r);
  }

  // After each operation.
  void settle() {
    do {
      sessions_.settle();
      make_follow_ups();
    } while (workflows_.settle());
  }

  void make_follow_ups() {
    for (const NewJob& n : std::exchange(posted_, {})) add(n);
    for (const JobId id : std::exchange(followed_, {})) {
      const EndedJob ended = as_seen(disk_->jobs.at(id).job, options_.retention_replies);
      triggers_.note_end(ended);
      for (const NewJob& n : follow(ended)) add_record(n, now_.wall, JobState::available);
    }
  }

  bool has_room(std::size_t jobs, std::int64_t reserved = 0) const {
    return live_jobs(*disk_) + static_cast<std::int64_t>(jobs) <= options_.max_live_jobs + reserved;
  }
  // -- enqueue ------------------------------------------------------------------------------------

  void fill(Record& r, const NewJob& n) {
    if (limits_.leaves_line(r.job)) gained_.insert(r.job.queue);
    fill_record(r, n, now_.wall);
  }

  WallTime run_at(const NewJob& n) const {
    return n.run_at ? *n.run_at : now_.wall + n.delay.value_or(Duration(0));
  }

  JobState state_at(WallTime run_at) const {
    return run_at > now_.wall ? JobState::scheduled : JobState::available;
  }

  void resolve(Record& r, const NewJob& n) {
    if (r.job.state == JobState::running || !live(r)) return;
    if (r.job.deferred || r.job.quarantined) return;
    if (n.unique->on_conflict == OnConflict::keep) return;
    const WallTime at = run_at(n);
    if (n.unique->on_conflict == OnConflict::replace) {
      fill(r, n);
    } else {
      postpone_expiry(r.job, n, at, now_.wall);
    }
    set_waiting(r, state_at(at), at);
  }

  EnqueuedJob add(const NewJob& n) {
    if (Record* holder = unique_holder(*disk_, n, now_.wall)) {
      resolve(*holder, n);
      return {.id = holder->job.id, .state = holder->job.state, .duplicate = true};
    }
    if (const WindowRecord* open = open_window(*disk_, n, now_.wall))
      return {.id = open->id, .state = open->ended, .duplicate = true};
    take_key(*disk_, n);
    const WallTime at = run_at(n);
    const JobId id = add_record(n, at, state_at(at));
    return {.id = id, .state = disk_->jobs.at(id).job.state};
  }

  JobId add_record(const NewJob& n, WallTime at, JobState state) {
    const JobId id = ++disk_->last_id;
    Record& r = disk_->jobs[id];
    r.job.id = id;
    r.job.created_at = now_.wall;
    r.job.session = n.session;
    r.job.on_dead = n.on_dead;
    fill(r, n);
    if (n.unique && n.unique->window > Duration(0)) r.unique_until = now_.wall + n.unique->window;
    set_waiting(r, state, at);
    r.job.version = 1;
    ++queue(n.queue).enqueued;
    return id;
  }
  OperationResult run(const Enqueue& op) {
    if (!leases_.holds(op.fence, now_.instant)) return leases_.lost();
    if (const KeyRecord* key = known_key(*disk_, op, now_.wall)) return replay(*disk_, *key, op);
    if (!has_room(op.jobs.size(), reserved_for(op))) return too_many();
    EnqueueResult result;
    KeyRecord key{op.fingerprint, {}, now_.wall + kIdempotencyWindow};
    for (const NewJob& n : op.jobs) {
      result.jobs.push_back(add(n));
      key.ids.push_back(result.jobs.back().id);
    }
    if (remember_key(*disk_, op, key)) dirty_ = true;
    return result;
  }

  // -- claim, renew, finish -----------------------------------------------------------------------

  OperationResult run(const Claim& op) {
    ClaimResult result;
    if (op.job != 0) return claim_named(op);
    if (sessions_.may_claim(op)) breakers_.claimed_from(op.queues, now_.wall);
    if (ModelSessions::is_of_queue(op)) {
      const auto picked = sessions_.pick(op, result.session);
      if (!picked) return picked.error();
      if (*picked != nullptr) result.jobs.push_back(start(**picked, op));
      return result;
    }
    const std::vector<Record*> found = claimable(*disk_, op, now_.wall);
    std::size_t bytes = 0;
    for (int slots = 0; slots < op.max && bytes < kPageBytes;) {
      Record* next = limits_.next(found, now_.wall);
      if (next != nullptr) slots += std::min(limits_.cost(next->job), op.max);
      if (next == nullptr || slots > op.max) break;
      result.jobs.push_back(start(*next, op));
      bytes += claimed_bytes(result.jobs.back());
      limits_.count_fair(next->job);
    }
    return result;
  }

  OperationResult claim_named(const Claim& op) {
    const auto found = disk_->jobs.find(op.job);
    if (found == disk_->jobs.end()) return missing(*disk_, op.job);
    Record& r = found->second;
    if (std::find(op.queues.begin(), op.queues.end(), r.job.queue) == op.queues.end())
      return outside();
    const NamedJob named = named_of(r);
    if (auto may = check_named(named, now_.wall); !may) return may.error();
    breakers_.claimed_from({r.job.queue}, now_.wall);
    if (auto may = may_begin(named, r.job, limits_, quarantine_, now_.wall); !may)
      return may.error();
    const bool deferred = r.job.deferred;
    ClaimResult result{.jobs = {start(r, op)}};
    result.jobs[0].deferred = deferred;
    return result;
  }

  ClaimedJob start(Record& r, const Claim& op) {
    Job& j = r.job;
    undefer(j);
    if (j.quarantined) j.quarantined->released = true;
    j.state = JobState::running;
    j.token = ++disk_->last_token;
    ++j.attempt;
    j.worker = op.worker;
    j.started_at = now_.wall;
    r.lease = op.lease;
    r.kept = Duration(0);
    r.claimed = now_.instant;
    r.lease_expiry = now_.instant + op.lease;
    touch(r);
    if (limits_.started(j, now_.wall)) opened(j.queue);
    breakers_.started(j);
    return as_claimed(r, op.lease, sessions_.state_of(j), limits_.cost(j));
  }

  Record* held(JobId id, Token token) {
    const auto found = disk_->jobs.find(id);
    if (found == disk_->jobs.end()) return nullptr;
    Record& r = found->second;
    return r.job.state == JobState::running && r.job.token == token ? &r : nullptr;
  }
  OperationResult run(const Renew& op) {
    if (sends_messages(op.leases) && !has_room(1)) return too_many();
    RenewResult result;
    for (const Renewal& renewal : op.leases) {
      Record* r = held(renewal.id, renewal.token);
      if (r == nullptr || r->lease_expiry <= now_.instant || !op.within.has(r->job.queue)) {
        result.lost.push_back(renewal.id);
        continue;
      }
      const Duration length = op.lease > Duration(0) ? op.lease : r->lease;
      const bool longer = renew_lease(*r, length, disk_->allowed_until, now_.instant);
      if (renewal.checkpoint) r->job.checkpoint = *renewal.checkpoint;
      const bool kept = keep_memos(*r, renewal, result);
      if (renewal.warning) r->job.warning = renewal.warning->text;
      const bool extras = renewal.progress || renewal.checkpoint || renewal.warning;
      if (extras || kept || longer) touch(*r);
      for (const NewJob& n : follow_renewal(r->job, renewal, options_.retention_replies))
        add_record(n, now_.wall, JobState::available);
      result.renewed.push_back({.id = renewal.id, .lease = r->lease_expiry - now_.instant});
      if (r->job.cancel_requested) result.cancel.push_back(renewal.id);
    }
    return result;
  }

  void add_error(Record& r, std::string message, const ProgramEnd& program) {
    r.job.errors.push_back(error_of(r, std::move(message), program, now_));
  }

  // A failed attempt: retried, dead, or cancelled if that was requested.
  void fail(Record& r, const std::string& message, std::optional<Duration> after,
            const ProgramEnd& program) {
    add_error(r, message, program);
    if (r.job.cancel_requested)
      return set_terminal(r, JobState::cancelled, std::string(r.cancel_reason), "");
    if (r.job.attempt >= r.job.max_attempts)
      return set_terminal(r, JobState::dead, "max_attempts", message);
    const Duration wait = after.value_or(default_back_off(r.job.id, r.job.attempt));
    const bool at_once = wait == Duration(0);
    set_waiting(r, at_once ? JobState::available : JobState::retryable, now_.wall + wait);
  }

  void end(Record& r, const Complete& outcome) {
    r.job.result = outcome.result;
    r.memos.clear();
    set_terminal(r, JobState::completed, "", "");
  }
  void end(Record& r, const Retry& o) { fail(r, o.error, o.after, o.program); }
  void end(Record& r, const Snooze& outcome) {
    if (r.job.cancel_requested)
      return set_terminal(r, JobState::cancelled, std::string(r.cancel_reason), "");
    --r.job.attempt;
    set_waiting(r, state_at(now_.wall + outcome.after), now_.wall + outcome.after);
  }
  void end(Record& r, const Defer& outcome) {
    if (r.job.cancel_requested)
      return set_terminal(r, JobState::cancelled, std::string(r.cancel_reason), "");
    --r.job.attempt;
    leave_worker(r, JobState::waiting);
    r.job.deferred = true;
    r.job.reason = outcome.reason;
  }
  void end(Record& r, const CancelJob& outcome) {
    set_terminal(r, JobState::cancelled, outcome.reason.empty() ? r.cancel_reason : outcome.reason,
                 "");
  }
  void end(Record& r, const Dead& outcome) {
    add_error(r, outcome.description.empty() ? outcome.reason : outcome.description,
              outcome.program);
    set_terminal(r, JobState::dead, outcome.reason, outcome.description);
  }
  OperationResult run(const Finish& op) {
    for (const JobOutcome& o : op.results) {
      const Record* r = held(o.id, o.token);
      const bool own = r != nullptr && op.within.has(r->job.queue) && !r->job.session.empty();
      if (own && std::holds_alternative<Defer>(o.outcome))
        return cannot_defer(o.id, r->job.session);
    }
    FinishResult result;
    for (const JobOutcome& o : op.results) {
      Record* r = held(o.id, o.token);
      const auto found = disk_->jobs.find(o.id);
      if (found != disk_->jobs.end() && !op.within.has(found->second.job.queue)) {
        result.results.push_back(FinishStatus::not_found);
      } else if (r != nullptr) {
        const bool late = workflows_.is_late(*r, o.outcome);
        const Outcome outcome = late ? CancelJob{} : o.outcome;
        if (o.session_state && !late) sessions_.put_state(*r, *o.session_state);
        breakers_.ended(r->job, end_for_breaker(outcome), open_breaker_for(outcome), now_.wall);
        ModelQuarantine::forget(*r);
        std::visit([&](const auto& how) { end(*r, how); }, outcome);
        keep_next(outcome, r->job.trigger_depth, posted_);
        result.results.push_back(late ? FinishStatus::stale : FinishStatus::ok);
      } else {
        result.results.push_back(status_without_lease(*disk_, o));
      }
    }
    return result;
  }

  // -- cancel, retry, redrive, queues -------------------------------------------------------------

  OperationResult run(const Cancel& op) {
    const auto found = find_record(*disk_, op.id, op.within);
    if (!found) return found.error();
    Record& r = **found;
    if (auto good = check_version(op.version, changed_job(r)); !good) return good.error();
    switch (r.job.state) {
      case JobState::completed:
      case JobState::dead:
        return Error{.code = ErrorCode::conflict, .message = "it has ended"};
      case JobState::running:
        if (!r.job.cancel_requested) {
          r.job.cancel_requested = true;
          r.cancel_reason = op.reason;
          touch(r);
        }
        return CancelResult{JobState::running, true, r.job.worker};
      case JobState::cancelled:
        return CancelResult{};
      default:
        set_terminal(r, JobState::cancelled, op.reason, "");
        return CancelResult{};
    }
  }

  void revive(Record& r) {
    if (!live(r)) {
      take_key_back(*disk_, r);
      r.job.max_attempts = r.job.attempt + r.budget;
      r.job.finished_at.reset();
      r.job.reason.clear(), r.job.description.clear();
      r.expired = false;
    }
    ModelQuarantine::forget(r);
    r.job.expires_at.reset();
    const auto told = gained_;
    const bool known = r.job.state == JobState::available;
    set_waiting(r, JobState::available, now_.wall);
    if (known) gained_ = told;  // waiting claims know of it already
  }
  OperationResult run(const RetryJob& op) {
    const auto found = find_record(*disk_, op.id, op.within);
    if (!found) return found.error();
    Record& r = **found;
    if (auto good = check_version(op.version, changed_job(r)); !good) return good.error();
    if (op.take_back) {
      if (r.job.state != JobState::running) return not_to_take_back(op.id, r.job.state);
      r.unknown = r.unknown || r.step;
      (void)run(Finish{.worker = {}, .results = {{op.id, r.job.token, Snooze{}}}});
      return RetryResult{r.job.state};
    }
    if (auto refused = may_retry(*disk_, r)) return std::move(*refused);
    if (r.job.state != JobState::available || r.lost != 0 || r.job.quarantined) revive(r);
    return RetryResult{r.job.state};
  }

  OperationResult run(const EditJob& op) {
    if (auto good = validate(op); !good) return good.error();
    const auto found = find_record(*disk_, op.id, op.within);
    if (!found) return found.error();
    Record& r = **found;
    if (auto good = check_edit(op, changed_job(r)); !good) return good.error();
    edit_record(r, op);
    const WallTime at = op.run_at.value_or(r.job.run_at);
    op.run_at ? set_waiting(r, state_after_edit(r.job.state, at, now_.wall), at) : touch(r);
    return EditResult{r.job.state};
  }

  OperationResult run(const DeleteJob& op) {
    const auto found = find_record(*disk_, op.id, op.within);
    if (!found) return found.error();
    if (auto good = check_delete(op, changed_job(**found)); !good) return good.error();
    remove(**found);
    return Done{};
  }

  void remove(Record& r) {
    remove_record(*disk_, r, now_.wall);
    dirty_ = true;
  }

  OperationResult run(const Redrive& op) {
    RedriveResult result;
    int seen = 0;
    JobId last = op.after;
    for (auto it = disk_->jobs.upper_bound(op.after); it != disk_->jobs.end(); ++it) {
      Record& r = it->second;
      JobFilter whole = op.filter;
      whole.within = {};
      if (r.job.state != JobState::dead || !matches(whole, r.job)) continue;
      if (seen == op.limit) {
        result.next = last;
        break;
      }
      ++seen;
      last = it->first;
      if (!op.within.has(r.job.queue) || !op.filter.within.has(r.job.queue)) continue;
      if (key_taken(*disk_, r) || r.step) continue;
      revive(r);
      ++result.redriven;
      result.ids.push_back(it->first);
    }
    return result;
  }

  OperationResult run(const PauseQueue& op) {
    const bool is_new = !disk_->has_queue(op.queue);
    QueueStats& q = disk_->queue_to_set(op.queue);
    const bool resumes = q.paused && !op.paused;
    if (set_pause(q, op, is_new, now_.wall)) dirty_ = true;
    if (resumes) opened(op.queue);
    return Done{};
  }

  OperationResult run(const WriteProbe&) { return dirty_ = true, Done{}; }

  // The queue may give jobs again.
  void opened(const std::string& name) {
    gained_.insert(name);
    sessions_.queue_opened(name);
  }

  OperationResult run(const SetQueueLimits& op) {
    if (!op.limits.breaker.empty() && !breakers_.has(op.limits.breaker))
      return unknown_breaker(op.limits.breaker);
    if (!has_room_for_searchable(*disk_, op)) return too_many_searchable(op.queue);
    breakers_.leave(op, now_.wall);
    disk_->queue_to_set(op.queue);
    limits_.set(op, now_.wall);
    opened(op.queue);
    dirty_ = true;
    return Done{};
  }

  OperationResult run(const OpenQueues& op) {
    if (!leases_.holds(op.fence, now_.instant)) return leases_.lost();
    StepResult result;
    for (const auto& [name, at] : limits_.open_keys()) opened(name);
    for (const std::string& name : limits_.open(op.limit, now_.wall))
      opened(name), ++result.changed;
    for (const std::string& name : resume_queues(*disk_, access_, now_, op.limit - result.changed))
      opened(name), resumed_.push_back(name), ++result.changed;
    result.changed += breakers_.step_all(op.limit - result.changed, now_.wall);
    for (Record* r : quarantine_.next(now_.wall)) {
      if (result.changed == op.limit) break;
      r->job.quarantined->released = true;
      set_waiting(*r, JobState::available, r->job.run_at);
      ++result.changed;
    }
    dirty_ = dirty_ || result.changed > 0;
    result.more = result.changed == op.limit;
    return result;
  }

  OperationResult run(const SetRetention& op) {
    QueueStats& q = disk_->queue_to_set(op.queue);
    q.retention_completed = op.completed, q.retention_dead = op.dead;
    dirty_ = true;
    return Done{};
  }

  OperationResult run(const RemoveQueue& op) {
    if (auto refused = may_remove(*disk_, op.queue)) return std::move(*refused);
    run(SetQueueLimits{.queue = op.queue, .limits = {}});
    remove_queue(*disk_, op.queue, now_.wall);
    dirty_ = true;
    return Done{};
  }

  OperationResult run(const ForgetQueues& op) {
    if (!leases_.holds(op.fence, now_.instant)) return leases_.lost();
    return forget_queues(*disk_, op, now_.wall, dirty_);
  }

  // -- the scheduler's steps ----------------------------------------------------------------------

  // Runs `change` on at most `limit` of the records that `wanted` picks, in the order of `key`.
  template <class Wanted, class Key, class Change>
  StepResult step(int limit, Wanted wanted, Key key, Change change) {
    std::vector<Record*> found;
    for (auto& [id, r] : disk_->jobs) {
      if (wanted(r)) found.push_back(&r);
    }
    std::stable_sort(found.begin(), found.end(),
                     [&](const Record* a, const Record* b) { return key(*a) < key(*b); });
    StepResult result;
    result.more = found.size() >= static_cast<std::size_t>(limit);
    if (result.more) found.resize(static_cast<std::size_t>(limit));
    for (Record* r : found) change(*r);
    result.changed = static_cast<int>(found.size());
    return result;
  }

  OperationResult run(const MoveDue& op) {
    if (!leases_.holds(op.fence, now_.instant)) return leases_.lost();
    return step(
        op.limit,
        [&](const Record& r) {
          return (r.job.state == JobState::scheduled || r.job.state == JobState::retryable) &&
                 r.job.run_at <= now_.wall && !ModelQuarantine::waits(r.job);
        },
        [](const Record& r) { return r.job.run_at; },
        [&](Record& r) { set_waiting(r, JobState::available, r.job.run_at); });
  }

  OperationResult run(const StandstillOperation auto& op) {
    return note(run_model(op, *disk_, now_));
  }
  OperationResult run(const RescueExpired& op) {
    if (!leases_.holds(op.fence, now_.instant)) return leases_.lost();
    forget_allowance(*disk_, now_.instant);
    if (sessions_.rescue()) dirty_ = true;
    return step(
        op.limit,
        [&](const Record& r) {
          return r.job.state == JobState::running && r.lease_expiry <= now_.instant;
        },
        [](const Record& r) { return r.lease_expiry; },
        [&](Record& r) {
          r.unknown = r.step;
          const bool back = ModelQuarantine::goes_back(r, now_.instant);
          if (back) return set_waiting(r, JobState::available, now_.wall);
          fail(r, "lease expired", std::nullopt, {});
          if (live(r)) quarantine_.lost(r, now_.wall);
        });
  }

  OperationResult run(const ExpireJobs& op) {
    if (!leases_.holds(op.fence, now_.instant)) return leases_.lost();
    return step(
        op.limit, [&](const Record& r) { return can_expire(r) && *r.job.expires_at <= now_.wall; },
        [](const Record& r) { return *r.job.expires_at; },
        [&](Record& r) {
          r.expired = r.job.on_expiry == OnExpiry::cancel;
          set_terminal(r, r.expired ? JobState::cancelled : JobState::dead, "expired", "");
        });
  }

  OperationResult run(const PruneJobs& op) {
    if (!leases_.holds(op.fence, now_.instant)) return leases_.lost();
    if (prune_keys(*disk_, now_.wall)) dirty_ = true;
    const int windows = prune_windows(*disk_, op.limit, now_.wall);
    dirty_ = dirty_ || windows > 0;
    const auto prune = [this](Record& r) { remove(r); };
    if (sessions_.prune(options_.retention_dead)) dirty_ = true;
    workflows_.prune(options_);
    StepResult result = step(
        op.limit,
        [&](const Record& r) { return !live(r) && *r.job.finished_at + r.retention <= now_.wall; },
        [](const Record& r) { return *r.job.finished_at + r.retention; }, prune);
    const auto over = std::ssize(disk_->jobs) - live_jobs(*disk_) - options_.max_finished_jobs;
    const std::int64_t room = std::min<std::int64_t>(op.limit - result.changed, over);
    if (room > 0) {
      step(
          static_cast<int>(room), [](const Record& r) { return !live(r); },
          [](const Record& r) { return *r.job.finished_at; }, prune);
      result.changed += static_cast<int>(room);
    }
    result.more = result.changed >= op.limit || windows >= op.limit;
    if (access_.prune(op.limit, options_.audit_retention, now_)) result.more = true;
    return result;
  }

  std::shared_ptr<ModelDisk> disk_;
  StoreOptions options_;
  std::set<std::string> gained_;  // lines
  std::vector<std::string> resumed_;
  ModelLeases leases_;
  ModelSessions sessions_;
  ModelSchedules schedules_;
  ModelWorkflows workflows_;
  ModelAccess access_;
  ModelTriggers triggers_;
  ModelLimits limits_;
  ModelQuarantine quarantine_;
  ModelBreakers breakers_;
  OperationResult run_one(const Operation& one);  // after the class: clang 14 finds run() there
  Now now_{};
  bool dirty_ = false;
  std::vector<JobId> ended_, followed_;  // by the current operation
  std::vector<NewJob> posted_;           // by its completions
  std::int64_t commits_ = 0;
};

OperationResult ModelStore::run_one(const Operation& one) {
  if (const auto problem = misses_queue(*disk_, one)) return *problem;
  return std::visit([this](const auto& op) { return run(op); }, one);
}

}  // namespace

std::unique_ptr<Store> open_model_store(std::shared_ptr<ModelDisk> disk, StoreOptions options,
                                        std::optional<Now> now, ModelOpening how) {
  return std::make_unique<ModelStore>(std::move(disk), options, now, how);
}

}  // namespace mainspring
