// Leases of jobs: start, renew, finish, and rescue after expiry.
#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "base/mutant.h"
#include "sql_store/store_impl.h"

namespace mainspring::sql {
namespace {

// Whether the end of this lease does not count: see kMaxUnstartedLosses.
bool goes_back(const Lease& lease, Instant now) {
  const bool often = (lease.flags & kUnstartedFlags) == kUnstartedFlags;
  return lease.is_unstarted() && !lease.over_limit(now) &&
         (!often || MS_MUTANT(unstarted_losses_never_count)) &&
         (lease.flags & kFlagQuarantined) == 0 && !lease.cancel_requested;
}

}  // namespace

std::unique_ptr<Grant> SqlStore::new_grant(Token first, const std::string& worker, Now now) {
  return std::make_unique<Grant>(
      Grant{.token = first,
            .worker = worker,
            .claimed_at = now.wall,
            .claimed_instant = now.instant,
            .shown = std::make_shared<RunningGrant>(RunningGrant{worker, now.wall})});
}

void SqlStore::keep_grant(std::unique_ptr<Grant> grant, Duration lease,
                          const std::vector<ClaimedJob>& jobs) {
  std::string ids = "[";
  for (const ClaimedJob& job : jobs) {
    fmt::format_int text(job.id);
    ids.append(text.data(), text.size()) += ',';
  }
  ids.back() = ']';
  sql_->insert_grant.bind(grant->token, grant->worker, now_.wall.us(), lease.count(), ids).run();
  const Token token = grant->token;
  grants_.emplace(token, std::move(grant));
}

bool SqlStore::claim_one(const ReadyKey& key, QueueState& queue, std::int32_t kind, const Claim& op,
                         Grant& grant, std::vector<ClaimedJob>& out) {
  const JobId id = key.id();
  Lease lease;
  ClaimedJob& job = out.emplace_back();
  lease.queue = &queue;
  if (!read_claim(key, lease, job)) {
    out.pop_back();
    return false;
  }
  if ((lease.flags & kFlagSession) != 0) queue.ready_sessions.erase(key);
  lease.token = MS_MUTANT(token_not_bumped) ? next_token_ : next_token_++;
  marks_touched_ = true;
  lease.grant = &grant;
  ++grant.remaining;
  lease.length = op.lease;
  lease.priority = key.priority();
  lease.run_at = key.run_at();
  lease.kind = kind;
  lease.expires_at = now_.instant + op.lease;
  if ((lease.flags & kFlagLimitKey) != 0) begin_of_key(key, lease);

  job.id = id;
  job.token = lease.token;
  job.attempt = lease.attempt;
  job.max_attempts = lease.max_attempts;
  job.queue = queue.name;
  job.kind = kind_names_[static_cast<std::size_t>(kind)];
  job.priority = lease.priority;
  job.run_at = lease.run_at;
  job.timeout = lease.timeout;
  job.lease = op.lease;

  count(queue, JobState::available, 0, -1);
  count(queue, JobState::running, 0, 1);
  job.cost = cost_of(queue, kind);
  queue.extra += extra_of_queue(queue, job.cost);
  count_started(queue, job.cost);
  begin_under_breaker(queue, {id, lease.token});
  lease_order_.emplace_hint(lease_order_.end(), lease.expires_at, id);
  started_running_.push_back({id, lease.token, queue.id, kind, grant.shown});
  leases_.emplace(id, std::move(lease));
  return true;
}

namespace {

void take_body(BodyCache::Body&& body, Lease& lease, ClaimedJob& job) {
  lease.max_attempts = body.max_attempts;
  lease.attempt = 1;
  lease.version = 2;
  lease.timeout = body.timeout;
  job.args = std::move(body.args);
  job.headers = std::move(body.headers);
  job.tags = split_tags(body.tags);
  job.correlation_id = std::move(body.correlation_id);
  job.reply_to = std::move(body.reply_to);
}

}  // namespace

// Reads the job's rows; false if the job expired before it could start.
bool SqlStore::read_claim(const ReadyKey& key, Lease& lease, ClaimedJob& job) {
  if (key.fresh()) {
    if (auto body = bodies_.take(key.id())) {
      take_body(std::move(*body), lease, job);
      return true;
    }
  }
  Statement& row = key.fresh() ? sql_->select_fresh : sql_->select_claim;
  row.bind(key.id());
  ResetGuard guard(row);
  MS_ASSERT(row.step(), "an available job has its record");
  lease.max_attempts = static_cast<int>(row.integer(6));
  lease.attempt = 1;
  lease.version = 2;
  if (!key.fresh()) {
    const bool expired = !row.is_null(11) && row.is_null(10) && row.integer(11) <= now_.wall.us();
    if (expired && !MS_MUTANT(expired_job_runs)) return false;
    lease.attempt = static_cast<int>(row.integer(7)) + 1;
    lease.version = row.integer(8) + 1;
    lease.flags = static_cast<int>(row.integer(9));
    if ((lease.flags & kFlagExtras) != 0) {
      Statement& checkpoint = sql_->select_checkpoint;
      checkpoint.bind(key.id());
      ResetGuard checkpoint_guard(checkpoint);
      if (checkpoint.step()) job.checkpoint = checkpoint.text(0);
    }
    job.has_memos = (lease.flags & kFlagMemos) != 0 && !MS_MUTANT(memos_not_reported);
    if ((lease.flags & kFlagSession) != 0) read_session(row.text(12), *lease.queue, lease, job);
  }
  lease.timeout = row.is_null(0) ? kForever : Duration(row.integer(0));
  job.args = row.text(1);
  if (!row.is_null(2)) job.headers = row.text(2);
  if (!row.is_null(3)) job.tags = split_tags(row.text(3));
  if (!row.is_null(4)) job.correlation_id = row.text(4);
  if (!row.is_null(5)) job.reply_to = row.text(5);
  return true;
}

// Writes the state of a running job that its row does not contain.
void SqlStore::note_lease(JobId id, Lease& lease) {
  lease.noted = true;
  sql_->upsert_note
      .bind(id, ++lease.version, lease.length.count(),
            lease.cancel_requested && !MS_MUTANT(cancel_wish_not_kept) ? 1 : 0,
            Statement::text_or_null(lease.cancel_reason), lease.kept.count())
      .run();
}

void SqlStore::end_grant(Grant& grant) {
  sql_->delete_grant.bind(grant.token).run();
  grants_.erase(grant.token);
}

void SqlStore::set_lease_expiry(JobId id, Lease& lease, Instant expires_at) {
  if (MS_MUTANT(renewal_extends_nothing)) return;
  lease_order_.erase({lease.expires_at, id});
  lease.expires_at = expires_at;
  lease_order_.emplace(expires_at, id);
}

// A lease that already lasts longer keeps its end.
Instant SqlStore::lease_limit(const Lease& lease) const {
  const Instant limit = lease.grant->claimed_instant + lease.timeout + kTimeoutGrace;
  return std::max(limit, lease.expires_at);
}

OperationResult SqlStore::operator()(const Renew& op) {
  const bool refused = MS_MUTANT(full_store_refuses_progress) && op.leases[0].progress;
  if ((sends_messages(op.leases) || refused) && !MS_MUTANT(full_store_takes_messages)) {
    if (auto full = no_room(1)) return std::move(*full);
  }
  RenewResult result;
  for (const Renewal& renewal : op.leases) {
    const auto found = leases_.find(renewal.id);
    if (found == leases_.end() ||
        (found->second.token != renewal.token && !MS_MUTANT(renew_takes_any_token) &&
         !(MS_MUTANT(stale_memo_taken) && !renewal.memos.empty()))) {
      result.lost.push_back(renewal.id);
      continue;
    }
    Lease& lease = found->second;
    // Too late: the job may be rescued at any moment.
    if (lease.expires_at <= now_.instant || !op.within.has(lease.queue->name)) {
      result.lost.push_back(renewal.id);
      continue;
    }
    const Duration length = op.lease > Duration(0) ? op.lease : lease.length;
    set_lease_expiry(renewal.id, lease, std::min(end_of(length), lease_limit(lease)));
    // A restart must not shorten a reported lease, which an allowance may have lengthened.
    const Duration reported = std::max(length, lease.expires_at - now_.instant);
    const bool longer = reported > lease.longest() && !MS_MUTANT(longer_lease_not_kept);
    lease.kept = longer ? reported : lease.longest();
    if (longer) lease.length = std::max(lease.length, length);
    const bool kept = keep_memos(renewal, lease, result);
    const bool news = renewal.progress || !renewal.messages.empty();
    const bool tells = news && (lease.flags & kFlagFollowed) != 0;
    const auto last = tells ? read_progress(renewal.id) : std::nullopt;
    if (longer || renewal.progress || renewal.checkpoint || renewal.warning || kept) {
      begin_write();
      if (renewal.progress) {
        sql_->upsert_progress.bind(renewal.id, renewal.progress->value, renewal.progress->text)
            .run();
      }
      const bool beside = kept && MS_MUTANT(checkpoint_lost_beside_memo);
      if (renewal.checkpoint && !beside && !MS_MUTANT(checkpoint_lost)) {
        sql_->upsert_checkpoint.bind(renewal.id, Statement::text_or_null(*renewal.checkpoint))
            .run();
      }
      if (renewal.warning) {
        sql_->upsert_warning.bind(renewal.id, renewal.warning->text).run();
      }
      if (renewal.progress || renewal.checkpoint || renewal.warning) lease.flags |= kFlagExtras;
      note_lease(renewal.id, lease);
    }
    const bool missed = renewal.progress && MS_MUTANT(message_dropped_with_progress);
    if (tells && !missed) make_news(renewal, lease, last);
    result.renewed.push_back({renewal.id, lease.expires_at - now_.instant});
    if (lease.cancel_requested) result.cancel.push_back(renewal.id);
  }
  return result;
}

OperationResult SqlStore::operator()(const Finish& op) {
  if (auto refused = cannot_defer_all(op)) return std::move(*refused);
  FinishResult result;
  result.results.reserve(op.results.size());
  for (const JobOutcome& job : op.results) {
    const auto found = leases_.find(job.id);
    if (found == leases_.end() ||
        (found->second.token != job.token && !MS_MUTANT(finish_takes_any_token))) {
      const FinishStatus status = status_without_lease(job, op.within);
      if (status == FinishStatus::ok && MS_MUTANT(next_posted_again)) post(job.outcome, 0);
      if (status == FinishStatus::stale && MS_MUTANT(next_of_stale_posted)) post(job.outcome, 0);
      result.results.push_back(status);
      continue;
    }
    if (!op.within.has(found->second.queue->name) && !MS_MUTANT(within_ignored_on_finish)) {
      result.results.push_back(FinishStatus::not_found);
      continue;
    }
    begin_write();
    if (is_late(job, found->second)) {
      finish_lease(job.id, found->second, CancelJob{});
      result.results.push_back(FinishStatus::stale);
      continue;
    }
    const std::int64_t session = found->second.session;
    if (session != 0 && job.session_state && !MS_MUTANT(session_state_lost))
      set_state(session_by_id(session), *job.session_state);
    const int flags = found->second.flags;
    finish_lease(job.id, found->second, job.outcome);
    post(job.outcome, flags);
    result.results.push_back(FinishStatus::ok);
  }
  return result;
}

// Whether this completes a job of a step that its workflow no longer waits for.
bool SqlStore::is_late(const JobOutcome& result, const Lease& lease) {
  return (lease.flags & kFlagStep) != 0 && lease.cancel_requested &&
         std::holds_alternative<Complete>(result.outcome) && !workflow_rows_.hears(result.id) &&
         !MS_MUTANT(late_answer_taken);
}

FinishStatus SqlStore::status_without_lease(const JobOutcome& result, const Within& within) {
  const auto lease = leases_.find(result.id);
  if (lease != leases_.end()) {
    return within.has(lease->second.queue->name) ? FinishStatus::stale : FinishStatus::not_found;
  }
  const auto hot = load_hot(result.id);
  if (!hot || !within.has(hot->queue->name)) return FinishStatus::not_found;
  const bool repeated = hot->state == JobState::completed && hot->token == result.token &&
                        std::holds_alternative<Complete>(result.outcome);
  return repeated ? FinishStatus::ok : FinishStatus::stale;
}

void SqlStore::finish_lease(JobId id, Lease& lease, const Outcome& outcome) {
  end_under_breaker(id, lease, end_for_breaker(outcome), open_breaker_for(outcome));
  leave_quarantine(id, *lease.queue, lease.flags);
  if (const auto* complete = std::get_if<Complete>(&outcome)) {
    if (!complete->result.empty()) {
      sql_->upsert_result.bind(id, complete->result).run();
      lease.flags |= kFlagExtras;
    }
    drop_memos(id, lease.flags);
    end_attempt(id, lease, JobState::completed, lease.run_at, lease.attempt);
    if (!ended_steps_.empty() && ended_steps_.back().job == id)
      ended_steps_.back().result = complete->result;
  } else if (const auto* retry = std::get_if<Retry>(&outcome)) {
    if (MS_MUTANT(memos_forgotten_by_retry)) drop_memos(id, lease.flags);
    fail_attempt(id, lease, retry->error, retry->after, retry->program);
  } else if (const auto* snooze = std::get_if<Snooze>(&outcome)) {
    if (lease.cancel_requested) return end_cancelled(id, lease, lease.cancel_reason);
    const WallTime run_at = now_.wall + snooze->after;
    const JobState state = snooze->after > Duration(0) ? JobState::scheduled : JobState::available;
    end_attempt(id, lease, state, run_at,
                lease.attempt - (MS_MUTANT(snooze_burns_attempt) ? 0 : 1));
  } else if (const auto* defer = std::get_if<Defer>(&outcome)) {
    defer_attempt(id, lease, *defer);
  } else if (const auto* cancel = std::get_if<CancelJob>(&outcome)) {
    end_cancelled(id, lease, cancel->reason.empty() ? lease.cancel_reason : cancel->reason);
  } else {
    const Dead& dead = std::get<Dead>(outcome);
    add_error(id, lease, dead.description.empty() ? dead.reason : dead.description, dead.program);
    set_reason(id, lease.flags, dead.reason, dead.description);
    end_attempt(id, lease, JobState::dead, lease.run_at, lease.attempt);
  }
}

void SqlStore::add_error(JobId id, Lease& lease, std::string_view message,
                         const ProgramEnd& program) {
  const Duration ran_for = std::max(now_.instant - lease.grant->claimed_instant, Duration(0));
  const std::string end = encode_program_end(program);
  const bool known = !end.empty() && !MS_MUTANT(program_end_not_kept);
  sql_->insert_error
      .bind(id, lease.attempt, now_.wall.us(), lease.grant->worker, message, ran_for.count(),
            known ? std::optional<std::string_view>(end) : std::nullopt)
      .run();
  lease.flags |= kFlagErrors;
}

void SqlStore::fail_attempt(JobId id, Lease& lease, std::string_view message,
                            std::optional<Duration> after, const ProgramEnd& program) {
  add_error(id, lease, message, program);
  if (lease.cancel_requested && !MS_MUTANT(cancel_wish_ignored))
    return end_cancelled(id, lease, lease.cancel_reason);
  if (lease.attempt >= lease.max_attempts) {
    if (MS_MUTANT(dead_letter_drops_errors)) sql_->delete_errors.bind(id).run();
    set_reason(id, lease.flags, "max_attempts", message);
    return end_attempt(id, lease, JobState::dead, lease.run_at, lease.attempt);
  }
  const Duration wait = MS_MUTANT(back_off_ignored)
                            ? Duration(0)
                            : after.value_or(default_back_off(id, lease.attempt));
  const JobState state = wait > Duration(0) ? JobState::retryable : JobState::available;
  end_attempt(id, lease, state, now_.wall + wait, lease.attempt);
}

void SqlStore::end_cancelled(JobId id, Lease& lease, std::string_view reason) {
  lease.flags |= (lease.flags & kFlagStep) != 0 ? kFlagUnknown : 0;
  set_reason(id, lease.flags, reason, "");
  end_attempt(id, lease, JobState::cancelled, lease.run_at, lease.attempt);
}

// Writes the job's new state and removes its lease; `lease` is invalid afterwards.
void SqlStore::end_attempt(JobId id, Lease& lease, JobState state, WallTime run_at, int attempt) {
  const bool terminal = is_terminal(state);
  if (terminal) leave_quarantine(id, *lease.queue, lease.flags);
  if (!terminal && lease.session != 0) state = state_as_head(session_by_id(lease.session), state);
  const std::optional<std::int64_t> finished_at =
      terminal ? std::optional<std::int64_t>(now_.wall.us()) : std::nullopt;
  sql_->finish_job
      .bind(id, static_cast<int>(state), run_at.us(), attempt, lease.token, lease.version + 1,
            lease.flags, lease.grant->claimed_at.us(), finished_at)
      .run();
  if (lease.noted) sql_->delete_note.bind(id).run();
  QueueState& queue = *lease.queue;
  count(queue, JobState::running, 0, -1);
  queue.extra -= extra_of_queue(queue, cost_of(queue, lease.kind));
  if (queue.limits.concurrency && !MS_MUTANT(end_opens_nothing)) open_queue(queue);
  if (lease.limit_key != nullptr) end_of_key(lease);
  // A probe that ended without an outcome.
  end_under_breaker(id, lease, BreakerMeter::End::neither, std::nullopt);
  count(queue, state, 0, 1);
  if (terminal) {
    end_job(id, queue, state, lease.flags, lease.session);
  } else {
    HotRow hot;
    hot.id = id;
    hot.queue = &queue;
    hot.kind = lease.kind;
    hot.state = state;
    hot.priority = lease.priority;
    hot.run_at = run_at;
    hot.version = lease.version + 1;
    hot.flags = lease.flags;
    enter(hot);
  }
  lease_order_.erase({lease.expires_at, id});
  ended_running_.emplace_back(id, lease.token);
  if (--lease.grant->remaining == 0) end_grant(*lease.grant);
  leases_.erase(id);
}

OperationResult SqlStore::operator()(const RescueExpired& op) {
  if (auto lost = fenced(op.fence)) return std::move(*lost);
  StepResult result;
  result.more = end_holds();
  while (!MS_MUTANT(leases_never_expire) && !lease_order_.empty() &&
         lease_order_.begin()->first <= now_.instant) {
    if (result.changed == op.limit) {
      result.more = true;
      break;
    }
    const JobId id = lease_order_.begin()->second;
    Lease& lease = leases_.at(id);
    if (MS_MUTANT(rescue_burns_no_attempt)) --lease.attempt;
    begin_write();
    if (goes_back(lease, now_.instant)) {
      if ((lease.flags & kUnstartedFlags) != kUnstartedFlags) lease.flags += kUnstartedUnit;
      lease.flags |= (lease.flags & kFlagStep) != 0 ? kFlagUnknown : 0;
      end_attempt(id, lease, JobState::available, now_.wall, lease.attempt - 1);
      again_.push_back(id);
      ++result.changed;
      continue;
    }
    const std::string message =
        lease.over_limit(now_.instant)
            ? fmt::format("over its time limit of {}: the worker did not end it",
                          format_duration(lease.timeout))
            : fmt::format("lease expired: worker {} sent no renewal for {}", lease.grant->worker,
                          format_duration(lease.longest()));
    const bool noted = (lease.flags & kFlagStep) != 0 && !MS_MUTANT(lost_step_taken_as_failed);
    lease.flags |= noted ? kFlagUnknown : 0;
    if (MS_MUTANT(memos_forgotten_by_rescue)) drop_memos(id, lease.flags);
    lose_attempt(id, lease);
    fail_attempt(id, lease, message, std::nullopt, {});
    if (ended_.empty() || ended_.back() != id) again_.push_back(id);
    ++result.changed;
  }
  return result;
}

}  // namespace mainspring::sql
