// The scheduler's operations, each in bounded steps: move due jobs, expire, prune.
#include <algorithm>

#include "store_postgres/store_impl.h"

namespace mainspring::pg {

OperationResult PostgresStore::operator()(const MoveDue& op) {
  if (auto lost = fenced(op.fence)) return std::move(*lost);
  flush();
  const Rows rows = ask(sql_.due_jobs, params(wall(), std::int64_t{op.limit}));
  StepResult result;
  if (rows.empty()) {
    after_.look_due = true;
    return result;
  }
  std::vector<JobId> ids;
  for (int i = 0; i < rows.size(); ++i) ids.push_back(rows.integer(i, 1));
  const std::unordered_set<JobId> busy = free_jobs_by_id(ids, Ends::no);
  for (int i = 0; i < rows.size(); ++i) {
    if (busy.contains(rows.integer(i, 1))) continue;
    LoadedJob* held = loaded(rows.integer(i, 1));
    const bool due =
        held != nullptr && held->row.run_at == rows.integer(i, 0) &&
        (held->row.state == JobState::scheduled || held->row.state == JobState::retryable) &&
        !waits_in_quarantine(held->row);
    if (!due) {  // an entry that does not match its job's state would block the queue
      write(sql_.delete_due, params(Ints{rows.integer(i, 0)}, Ints{rows.integer(i, 1)}));
      continue;
    }
    begin_again(*held, JobState::available, held->row.run_at);
    ++result.changed;
  }
  after_.look_due = true;
  result.more = rows.size() == op.limit;
  return result;
}

std::vector<std::pair<std::string, int>> PostgresStore::due_queues(WallTime now, int limit) const {
  std::vector<std::pair<std::string, int>> out;
  if (next_due_ > now || !connection_) return out;
  try {
    const Rows rows = connection_->run(sql_.due_queues, params(now.us(), std::int64_t{limit}));
    for (int i = 0; i < rows.size(); ++i) {
      const auto found = queues_by_id_.find(static_cast<int>(rows.integer(i, 0)));
      if (found != queues_by_id_.end())
        out.emplace_back(found->second->name, static_cast<int>(rows.integer(i, 1)));
    }
  } catch (const PgError&) {
    out.clear();  // only a hint: the operation itself reports the error
  }
  return out;
}

OperationResult PostgresStore::operator()(const ExpireJobs& op) {
  if (auto lost = fenced(op.fence)) return std::move(*lost);
  flush();
  const Rows rows = ask(sql_.expiring_jobs, params(wall(), std::int64_t{op.limit}));
  after_.look_expiry = true;
  StepResult result;
  if (rows.empty()) return result;
  std::vector<std::pair<std::int64_t, JobId>> over;
  std::vector<JobId> ids;
  for (int i = 0; i < rows.size(); ++i) {
    over.emplace_back(rows.integer(i, 0), rows.integer(i, 1));
    ids.push_back(rows.integer(i, 1));
  }
  const std::unordered_set<JobId> busy = free_jobs_by_id(ids, Ends::maybe);
  std::erase_if(over, [&](const auto& entry) { return busy.contains(entry.second); });
  Ints gone_at, gone;
  for (const auto& [expires_at, id] : over) gone_at.push_back(expires_at), gone.push_back(id);
  if (!over.empty()) write(sql_.delete_expiring, params(gone_at, gone));
  for (const auto& [expires_at, id] : over) {
    LoadedJob* held = loaded(id);
    if (held == nullptr) continue;
    const JobRow& row = held->row;
    // A started job cannot expire.
    if (is_terminal(row.state) || row.started_at != 0 || row.expires_at != expires_at) continue;
    // It may have waited for a job before it in this step: then it starts first, and expires all
    // the same.
    if (row.state == JobState::waiting) settle_links();
    if (on_expiry_of(row.flags) == OnExpiry::dead) {
      end_job(*held, JobState::dead, "expired", "");
    } else {
      end_job(*held, JobState::cancelled, "expired", "");
      held->row.flags |= kFlagExpired;
    }
    ++result.changed;
  }
  result.more = rows.size() == op.limit;
  return result;
}

OperationResult PostgresStore::operator()(const PruneJobs& op) {
  if (auto lost = fenced(op.fence)) return std::move(*lost);
  flush();
  StepResult result;
  int examined = 0;
  std::int64_t removed = 0;  // not counted yet
  const auto over_cap = [&] {
    return finished_jobs_ + after_.finished - removed > options_.store.max_finished_jobs;
  };
  after_.look_prune = true;
  // A row may represent one job or thousands, and the rows read are locked: read few at first.
  constexpr std::int64_t kMaxRows = 256;
  std::int64_t at_once = 4;
  bool done = false;
  while (!done && examined < op.limit) {
    const std::int64_t upto = over_cap() ? WallTime::never().us() : wall();
    const Rows rows = ask(sql_.finished_rows, params(upto, at_once));
    at_once = std::min(at_once * 2, kMaxRows);
    if (rows.empty()) break;
    wrote();
    Ints gone_at, gone_seq;
    for (int i = 0; i < rows.size() && !done && examined < op.limit; ++i) {
      const std::int64_t prune_at = rows.integer(i, 0), seq = rows.integer(i, 1),
                         at = rows.integer(i, 2);
      std::vector<JobId> ids = rows.ints(i, 3);
      const auto most = std::min<std::ptrdiff_t>(std::ssize(ids), op.limit - examined);
      jobs_by_id({ids.begin(), ids.begin() + most});
      std::size_t used = 0;
      for (; used < ids.size() && examined < op.limit; ++used, ++examined) {
        if (prune_at > wall() && !over_cap()) break;
        if (prune_one(ids[used], at)) ++result.changed, ++removed;
      }
      if (used >= ids.size()) {
        gone_at.push_back(prune_at), gone_seq.push_back(seq);
        continue;
      }
      ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(used));
      write(sql_.update_finished, params(prune_at, seq, Ints(ids.begin(), ids.end())));
      done = true;  // the count is within the cap, or the limit is reached
    }
    if (!gone_at.empty()) write(sql_.delete_finished, params(gone_at, gone_seq));
    flush();
    removed = 0;
  }
  result.more = examined >= op.limit;
  const Rows keys = ask(sql_.delete_idempotency, params(wall(), std::int64_t{op.limit}));
  if (keys.affected() > 0) wrote();
  if (keys.affected() >= op.limit) result.more = true;
  const Rows windows = ask(sql_.prune_uniques, params(wall(), std::int64_t{op.limit}));
  if (windows.affected() > 0) wrote();
  if (windows.affected() >= op.limit) result.more = true;
  if (step_search(op.limit)) result.more = true;
  if (prune_audit(op.limit)) result.more = true;
  if (prune_sessions(op.limit)) result.more = true;
  if (prune_workflows(op.limit)) result.more = true;
  return result;
}

// Removes the job if it is still the noted terminal one; a job retried since then has another
// finished_at or none.
bool PostgresStore::prune_one(JobId id, std::int64_t finished_at) {
  LoadedJob* held = job(id);
  if (held == nullptr || !is_terminal(held->row.state) || held->row.finished_at != finished_at)
    return false;
  held->removed = held->touched = true;
  any_touched_ = true;
  wrote();
  return true;
}

}  // namespace mainspring::pg
