// Leases of jobs: renew, finish, and rescue after expiry.
#include <fmt/format.h>

#include <algorithm>

#include "base/mutant.h"
#include "store_postgres/store_impl.h"

namespace mainspring::pg {

OperationResult PostgresStore::operator()(const Finish& op) {
  FinishResult result;
  if (!options_.joins) {  // the node's first connection does this
    result.results.assign(op.results.size(), FinishStatus::stale);
    return result;
  }
  std::vector<JobId> ids;
  for (const JobOutcome& r : op.results) ids.push_back(r.id);
  jobs_by_id(ids);
  if (auto refused = cannot_defer_all(op)) return std::move(*refused);
  for (const JobOutcome& r : op.results) {
    LoadedJob* held = job(r.id);
    if (held == nullptr || !op.within.has(queue_name(held->row.queue))) {
      result.results.push_back(FinishStatus::not_found);
      continue;
    }
    if (held->row.token == r.token && held->row.state == JobState::running) {
      if (workflows_.is_late(held->row, r.outcome)) {
        note_for_breaker(held->row, CancelJob{});
        finish_one(*held, CancelJob{});
        result.results.push_back(FinishStatus::stale);
        continue;
      }
      if (r.session_state && (held->row.flags & kFlagSession) != 0)
        set_session_state(session_of(held->row), *r.session_state);
      note_for_breaker(held->row, r.outcome);
      finish_one(*held, r.outcome);
      if (const auto* complete = std::get_if<Complete>(&r.outcome)) {
        for (const NewJob& next : complete->next)
          posted_.emplace_back(next).trigger_depth = held->row.trigger_depth;
      }
      result.results.push_back(FinishStatus::ok);
      continue;
    }
    const bool repeated = held->row.state == JobState::completed && held->row.token == r.token &&
                          std::holds_alternative<Complete>(r.outcome);
    result.results.push_back(repeated ? FinishStatus::ok : FinishStatus::stale);
  }
  return result;
}

void PostgresStore::finish_one(LoadedJob& job, const Outcome& outcome) {
  const bool asked_to_stop = (job.row.flags & kFlagCancel) != 0;
  leave_quarantine(job.row);
  if (const auto* complete = std::get_if<Complete>(&outcome)) {
    if (!complete->result.empty()) {
      write(sql_.upsert_results, params(Ints{job.row.id}, Texts{complete->result}));
      job.row.flags |= kFlagExtras;
    }
    drop_memos(job.row);
    end_job(job, JobState::completed, "", "", complete->result);
  } else if (const auto* retry = std::get_if<Retry>(&outcome)) {
    fail_attempt(job, retry->error, retry->after, retry->program);
  } else if (const auto* snooze = std::get_if<Snooze>(&outcome)) {
    if (asked_to_stop) return end_job(job, JobState::cancelled, cancel_reason(job.row.id), "");
    --job.row.attempt;
    const WallTime at = now_.wall + snooze->after;
    begin_again(job, at > now_.wall ? JobState::scheduled : JobState::available, at.us());
  } else if (const auto* defer = std::get_if<Defer>(&outcome)) {
    defer_attempt(job, *defer);
  } else if (const auto* cancel = std::get_if<CancelJob>(&outcome)) {
    std::string reason = cancel->reason;
    if (reason.empty() && asked_to_stop) reason = cancel_reason(job.row.id);
    end_job(job, JobState::cancelled, reason, "");
  } else if (const auto* dead = std::get_if<Dead>(&outcome)) {
    add_error(job.row, dead->description.empty() ? dead->reason : dead->description, dead->program);
    job.row.flags |= kFlagErrors;
    end_job(job, JobState::dead, dead->reason, dead->description);
  }
}

OperationResult PostgresStore::operator()(const Renew& op) {
  RenewResult result;
  std::vector<JobId> ids;
  for (const Renewal& r : op.leases) ids.push_back(r.id);
  if (sends_messages(op.leases) && !has_room(1)) return too_many();
  flush();  // renewals by arrays follow earlier changes
  jobs_by_id(ids);
  std::map<JobId, Progress> last = read_progress(op.leases);
  KnownMemos known = read_memos(op.leases);
  for (const Renewal& renewal : op.leases) {
    LoadedJob* held = job(renewal.id);
    const bool holds = held != nullptr && held->row.state == JobState::running &&
                       held->row.token == renewal.token && held->row.lease_until > lease_now() &&
                       op.within.has(queue_name(held->row.queue));
    if (!holds) {
      result.lost.push_back(renewal.id);
      continue;
    }
    const Duration length = op.lease > Duration(0) ? op.lease : Duration(held->row.lease);
    const bool kept = keep_memos(held->row, renewal, known, result);
    renew_one(*held, renewal, length, kept, result);
    note_news(held->row, renewal, last);
  }
  return result;
}

void PostgresStore::renew_one(LoadedJob& job, const Renewal& renewal, Duration length, bool kept,
                              RenewResult& result) {
  JobRow& row = job.row;
  const std::int64_t before = row.lease_until;
  const Instant claimed = Instant::from_us(row.claimed_at);
  const std::int64_t limit = (claimed + Duration(row.timeout) + kTimeoutGrace).us();
  const std::int64_t until = std::min(end_of(length.count()), std::max(limit, row.lease_until));
  // A restart must not shorten a reported lease, which an allowance may have lengthened.
  const std::int64_t reported = std::max<std::int64_t>(length.count(), until - lease_now());
  const std::int64_t longest = std::max(row.lease, row.kept);
  const bool longer = reported > longest;
  row.lease_until = until;
  row.lease = std::max(row.lease, length.count());
  row.kept = std::max(longest, reported);
  if (renewal.progress) {
    write(sql_.upsert_progress,
          params(Ints{row.id}, Reals{renewal.progress->value}, Texts{renewal.progress->text}));
  }
  if (renewal.checkpoint) {
    const auto text = renewal.checkpoint->empty()
                          ? std::nullopt
                          : std::optional<std::string_view>(*renewal.checkpoint);
    write(sql_.upsert_checkpoints, params(Ints{row.id}, Texts{text}));
  }
  if (renewal.warning) {
    write(sql_.upsert_warnings, params(Ints{row.id}, Texts{renewal.warning->text}));
  }
  const bool extras = renewal.progress || renewal.checkpoint || renewal.warning;
  if (extras) row.flags |= kFlagExtras;
  if (longer || extras || kept) {
    touch(job);
  } else {
    // Need not survive a crash of the server: after a crash every lease starts again.
    write(sql_.renew_simple, params(Ints{row.id}, Ints{row.token}, Ints{until}), false);
    if (job.was) job.was->lease_until = until, job.was->kept = row.kept;
  }
  if (until < before) {
    tell(sql_.insert_leased, params(until, node_, Ints{row.id}));
    wrote(false);
  }
  const auto was = own_leases_.find(row.id);
  LeaseOfJob lease{.token = row.token,
                   .until = until,
                   .flags = row.flags,
                   .queue = row.queue,
                   .simple = ends_simply(row.schedule, row.flags) &&
                             (was == own_leases_.end() || was->second.simple),
                   .session = row.session};
  after_.leased.emplace_back(row.id, lease);
  result.renewed.push_back({.id = row.id, .lease = Duration(until - lease_now())});
  if ((row.flags & kFlagCancel) != 0) result.cancel.push_back(row.id);
}

void PostgresStore::look_later(const Ints& ids, std::int64_t at) {
  Ints own, others;
  for (const JobId id : ids) {
    (own_leases_.contains(id) ? own : others).push_back(id);
    note_end_of_lease(id, at);
  }
  if (!own.empty()) tell(sql_.insert_leased, params(at, node_, own));
  if (!others.empty()) tell(sql_.insert_leased, params(at, std::int64_t{0}, others));
}

// A claim that was never renewed may not have started: it costs no attempt, a few times.
bool PostgresStore::give_back_unstarted(LoadedJob& held) {
  JobRow& row = held.row;
  if (row.unstarted >= kMaxUnstartedLosses || row.quarantined != 0 ||
      (row.flags & kFlagCancel) != 0) {
    return false;
  }
  ++row.unstarted, --row.attempt;
  if ((row.flags & kFlagStep) != 0) row.flags |= kFlagUnknown;
  begin_again(held, JobState::available, wall());
  after_.again.push_back(row.id);
  return true;
}

OperationResult PostgresStore::operator()(const RescueExpired& op) {
  if (auto lost = fenced(op.fence)) return std::move(*lost);
  flush();
  // A pooler keeps its client connections open when the server crashes.
  if (ask(sql_.nothing_lost, {}).empty()) reset_after_crash();
  forget_allowance();
  constexpr std::int64_t kClaims = 10'000;  // per query
  const Rows rows = ask(sql_.leased_rows, params(lease_now(), kClaims));
  StepResult result;
  const bool more_sessions = rescue_sessions();
  std::vector<JobId> expired;
  std::map<std::int64_t, Ints> later_on;  // by time of the next check
  // Leases that end within the same second share a row.
  constexpr std::int64_t kTogether = 1'000'000;
  for (int i = 0; i < rows.size(); ++i) {
    const JobId id = rows.integer(i, 0);
    const std::int64_t until = rows.integer(i, 1);
    if (until <= lease_now() && static_cast<int>(expired.size()) < op.limit) {
      expired.push_back(id);
    } else {
      if (until <= lease_now()) after_.still_expired.insert(id);
      auto at = later_on.lower_bound(until - kTogether);
      if (at == later_on.end() || at->first > until) at = later_on.emplace(until, Ints{}).first;
      at->second.push_back(id);
    }
  }
  const std::unordered_set<JobId> busy = free_jobs_by_id(expired, Ends::maybe);
  for (const JobId id : expired) {
    if (busy.contains(id)) {  // another transaction ends it or renews its lease
      after_.still_expired.insert(id);
      later_on[lease_now() + kTogether].push_back(id);
      continue;
    }
    LoadedJob* held = loaded(id);
    if (held == nullptr || held->row.state != JobState::running) continue;
    if (held->row.lease_until > lease_now()) {  // renewed since
      later_on[held->row.lease_until].push_back(id);
      continue;
    }
    ++result.changed;
    const bool unstarted = is_unstarted(held->row);
    const bool over_limit = is_over_limit(held->row, lease_now());
    if (unstarted && !over_limit && give_back_unstarted(*held)) continue;
    const std::string message =
        over_limit
            ? fmt::format("over its time limit of {}: the worker did not end it",
                          format_duration(Duration(held->row.timeout)))
            : fmt::format("lease expired: worker {} sent no renewal for {}", held->row.worker,
                          format_duration(Duration(std::max(held->row.lease, held->row.kept))));
    const bool noted = (held->row.flags & kFlagStep) != 0 && !MS_MUTANT(lost_step_taken_as_failed);
    if (noted) held->row.flags |= kFlagUnknown;
    const int lost = held->row.lost;
    const int kept = unstarted ? held->row.unstarted : 0;
    const std::int64_t since = std::exchange(held->row.quarantined, 0);
    fail_attempt(*held, message, std::nullopt, {});
    lose_attempt(*held, lost, since);
    if (is_terminal(held->row.state)) continue;
    held->row.unstarted = kept;
    after_.again.push_back(id);
  }
  // Commit even if nothing expired, because the examined rows are deleted. The commit may be lost
  // with the server: then the rows are back.
  for (const auto& [at, ids] : later_on) look_later(ids, at);
  wrote(false);
  after_.look_leases = true;
  result.more = static_cast<int>(expired.size()) >= op.limit || more_sessions;
  return result;
}

}  // namespace mainspring::pg
