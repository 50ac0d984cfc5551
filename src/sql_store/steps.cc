// The scheduler's operations, each in bounded steps: move due jobs, expire, prune.
#include <cstring>

#include "base/mutant.h"
#include "sql_store/store_impl.h"

namespace mainspring::sql {
namespace {

constexpr std::int64_t kLooksPerPruned = 4;  // bounds a step when many noted jobs were retried

// Reads (time, id) rows into memory before anything is changed.
std::vector<std::pair<std::int64_t, JobId>> read_times(Statement& rows, WallTime now, int limit) {
  std::vector<std::pair<std::int64_t, JobId>> out;
  rows.bind(now.us(), limit);
  ResetGuard guard(rows);
  while (rows.step()) out.emplace_back(rows.integer(0), rows.integer(1));
  return out;
}

}  // namespace

OperationResult SqlStore::operator()(const MoveDue& op) {
  if (auto lost = fenced(op.fence)) return std::move(*lost);
  const Duration early = MS_MUTANT(due_too_early) ? std::chrono::seconds(10) : Duration(0);
  const auto due = read_times(sql_->select_due, now_.wall + early, op.limit);
  if (due.empty()) return StepResult{};
  begin_write();
  for (const auto& [run_at, id] : due) {
    auto hot = load_hot(id);
    leave(*hot);
    count(*hot->queue, hot->state, hot->flags, -1);
    hot->state = state_in_session(*hot, JobState::available);
    ++hot->version;
    save_hot(*hot);
    enter(*hot);
    count(*hot->queue, hot->state, hot->flags, 1);
  }
  const int changed = static_cast<int>(due.size());
  return StepResult{.changed = changed, .more = changed == op.limit};
}

std::vector<std::pair<std::string, int>> SqlStore::due_queues(WallTime now, int limit) const {
  std::vector<std::pair<std::string, int>> out;
  if (next_due_ > now || failed_) return out;
  try {
    Statement& rows = sql_->due_jobs;
    rows.bind(now.us(), limit);
    ResetGuard guard(rows);
    while (rows.step())
      out.emplace_back(queue_by_id(rows.integer(0)).name, static_cast<int>(rows.integer(1)));
  } catch (const DiskError&) {
    out.clear();  // only a hint: the operation itself reports the error
  }
  return out;
}

OperationResult SqlStore::operator()(const ExpireJobs& op) {
  if (auto lost = fenced(op.fence)) return std::move(*lost);
  const auto expiring = read_times(sql_->select_expiring, now_.wall, op.limit);
  if (expiring.empty()) return StepResult{};
  begin_write();
  expiring_touched_ = true;
  StepResult result;
  for (const auto& [expires_at, id] : expiring) {
    sql_->delete_expiring.bind(expires_at, id).run();
    if (leases_.contains(id)) continue;  // the job has started, so it cannot expire
    auto hot = load_hot(id);
    if (!hot || is_terminal(hot->state) || hot->started_at || hot->expires_at != expires_at)
      continue;
    if ((hot->flags & kFlagDiesOfExpiry) != 0 && !MS_MUTANT(on_expiry_ignored)) {
      end_hot(*hot, JobState::dead, "expired",
              MS_MUTANT(dead_counted_as_expired) ? kFlagExpired : 0);
    } else {
      end_hot(*hot, JobState::cancelled, "expired", kFlagExpired);
    }
    ++result.changed;
  }
  result.more = static_cast<int>(expiring.size()) == op.limit;
  return result;
}

OperationResult SqlStore::operator()(const PruneJobs& op) {
  if (auto lost = fenced(op.fence)) return std::move(*lost);
  StepResult result;
  std::int64_t examined = 0;  // including jobs retried since they were noted
  const auto enough = [&] {
    return result.changed >= op.limit || examined >= op.limit * kLooksPerPruned;
  };
  while (!enough()) {
    std::int64_t prune_at = 0, seq = 0, at = 0;
    std::string ids;
    {
      Statement& row = sql_->first_finished;
      row.bind();
      ResetGuard guard(row);
      if (!row.step()) break;
      const bool over_cap = finished_jobs_ > options_.store.max_finished_jobs;
      if (row.integer(0) > now_.wall.us() && !over_cap) break;
      prune_at = row.integer(0), seq = row.integer(1), at = row.integer(2);
      ids = row.text(3);
    }
    begin_write();
    finished_touched_ = true;
    std::size_t used = 0;
    for (; used < ids.size() && !enough(); used += sizeof(JobId), ++examined) {
      if (prune_at > now_.wall.us() && finished_jobs_ <= options_.store.max_finished_jobs) break;
      JobId id = 0;
      std::memcpy(&id, ids.data() + used, sizeof id);
      if (prune_one(id, at)) ++result.changed;
    }
    if (used >= ids.size()) {
      sql_->delete_finished.bind(prune_at, seq).run();
    } else {
      sql_->update_finished.bind(prune_at, seq, Statement::blob(std::string_view(ids).substr(used)))
          .run();
      if (!enough()) break;  // within the cap again
    }
  }
  result.more = enough();
  Statement& first = sql_->first_idempotency;
  first.bind();
  const bool old_keys = first.step() && !first.is_null(0) && first.integer(0) <= now_.wall.us();
  first.reset();
  if (old_keys) {
    begin_write();
    finished_touched_ = true;
    sql_->delete_idempotency.bind(now_.wall.us(), op.limit).run();
    if (sql_->delete_idempotency.changes() >= op.limit) result.more = true;
  }
  if (prune_windows(op.limit)) result.more = true;
  if (step_search(op.limit)) result.more = true;
  if (prune_audit(op.limit)) result.more = true;
  if (prune_sessions(op.limit)) result.more = true;
  if (next_workflow_prune_ <= now_.wall && prune_workflows(op.limit)) result.more = true;
  return result;
}

// The unique key of a removed job: while its window is open, the key stays with the job's outcome.
void SqlStore::let_key_go(const HotRow& hot, std::string_view key) {
  const std::int64_t now =
      MS_MUTANT(window_ends_with_the_record) ? WallTime::never().us() : now_.wall.us();
  sql_->delete_unique.bind(hot.queue->id, key, hot.id, now).run();
  if (sql_->delete_unique.changes() == 0)
    sql_->keep_unique.bind(hot.queue->id, key, hot.id, static_cast<int>(hot.state)).run();
}

bool SqlStore::prune_windows(int limit) {
  struct Over {
    std::int64_t queue;
    std::string key;
    JobId id;
  };
  std::vector<Over> over;
  {
    Statement& rows = sql_->select_windows;
    rows.bind(now_.wall.us(), limit);
    ResetGuard guard(rows);
    while (rows.step())
      over.push_back({rows.integer(0), std::string(rows.text(1)), rows.integer(2)});
  }
  if (over.empty() || MS_MUTANT(windows_stay)) return false;
  begin_write();
  finished_touched_ = true;
  for (const Over& o : over) sql_->delete_unique.bind(o.queue, o.key, o.id, now_.wall.us()).run();
  return static_cast<int>(over.size()) >= limit;
}

// Removes the job if it is still the noted terminal one; a job retried since then has another
// finished_at or none.
bool SqlStore::prune_one(JobId id, std::int64_t finished_at) {
  auto hot = load_hot(id);
  const bool noted = hot && is_terminal(hot->state) && hot->finished_at == finished_at;
  if (!hot || leases_.contains(id) || (!noted && !MS_MUTANT(prune_takes_the_retried))) return false;
  if ((hot->flags & kFlagUnique) != 0) {
    std::string key;
    {
      Statement& body = sql_->select_body;
      body.bind(id);
      ResetGuard guard(body);
      if (body.step()) key = body.text(1);
    }
    let_key_go(*hot, key);
  }
  if ((hot->flags & kFlagExtras) != 0) sql_->delete_extras.bind(id).run();
  if ((hot->flags & kFlagErrors) != 0) sql_->delete_errors.bind(id).run();
  drop_memos(id, hot->flags);
  if (hot->state == JobState::dead) sql_->delete_dead.bind(id).run();
  unindex_args(*hot->queue, id);
  sql_->delete_body.bind(id).run();
  bodies_.drop(id);
  sql_->delete_job.bind(id).run();
  count(*hot->queue, hot->state, hot->flags, -1);
  ++hot->queue->job_counts.pruned;
  return true;
}

}  // namespace mainspring::sql
