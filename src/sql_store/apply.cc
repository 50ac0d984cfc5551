// Applies a batch: one transaction, one durable commit, and recovery from disk errors.
#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"
#include "base/mutant.h"
#include "sql_store/store_impl.h"

namespace mainspring::sql {
namespace {
// How often a store without writes checks whether it was moved.
constexpr Duration kLookForMove = std::chrono::seconds(1);

Error busy_error(const DiskError& error) {
  return {.code = ErrorCode::unavailable, .message = error.message, .retry_after_ms = 1000};
}

}  // namespace

Result<BatchReport> SqlStore::apply(std::span<const Operation> batch, Now now) {
  MutexLock lock(sessions_mutex_);
  auto report = apply_locked(batch, now);
  offered_.reset();
  return report;
}

Result<BatchReport> SqlStore::apply_locked(std::span<const Operation> batch, Now now) {
  if (failed_) {
    return Error{.code = ErrorCode::io_error,
                 .message = "the store failed to write and accepts no more changes"};
  }
  if (!loaded_) MS_TRY(reload(now.instant));
  if (moved_to_.empty() && options_.may_move && now.instant >= look_for_move_at_) {
    look_for_move_at_ = now.instant + kLookForMove;
    try {
      look_for_move();
    } catch (const Moved& moved) {
      note_moved(moved.place);
    } catch (const DiskError&) {
      // The next write reports it.
    }
  }
  if (!moved_to_.empty()) return moved_error();
  auto report = apply_once(batch, now, disk_->refuses_new_jobs(now.instant));
  // Operations that free space or finish jobs may use the reserve; new jobs wait for space.
  while (!report && report.error().code == ErrorCode::storage_full) {
    try {
      if (!disk_->find_space()) break;
    } catch (const DiskError& error) {
      failed_ = true;
      return to_error(error);
    }
    report = apply_once(batch, now, true);
  }
  return report;
}

Result<BatchReport> SqlStore::apply_once(std::span<const Operation> batch, Now now,
                                         bool refuse_enqueues) {
  now_ = now;
  refuse_enqueues_ = refuse_enqueues;
  try {
    BatchReport report;
    report.results.reserve(batch.size());  // about_ points into it
    about_ = nullptr;
    open_keys();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      look_before(batch, i);
      report.results.push_back(
          std::visit([this](const auto& op) { return (*this)(op); }, batch[i]));
      settle();
      about_ = std::holds_alternative<Audit>(batch[i]) ? nullptr : &report.results.back();
    }
    fire_ends();
    commit_batch(report);
    return report;
  } catch (const Moved& moved) {
    roll_back();
    note_moved(moved.place);
    return moved_error();
  } catch (const DiskError& error) {
    const bool busy = error.fault == DiskFault::busy;
    if (error.fault != DiskFault::full) {
      log_.debug("a transaction failed", {{"path", disk_->place()}, {"why", error.detail}});
      if (!busy) failed_ = true;
    }
    if (failed_) {
      return Error{.code = ErrorCode::io_error, .message = error.message};
    }
    MS_TRY(reload(now.instant));
    return busy ? busy_error(error) : to_error(error);
  }
}

// After a batch that failed. The disk may be out of reach: then the next batch tries again.
Result<void> SqlStore::reload(Instant now) {
  try {
    roll_back();
    if (!MS_MUTANT(memory_not_read_again)) load(now), doubt_keys();
    return {};
  } catch (const DiskError& error) {
    if (error.fault == DiskFault::busy) return busy_error(error);
    failed_ = true;
    return Error{.code = ErrorCode::io_error, .message = error.message};
  } catch (const Error& error) {
    failed_ = true;
    return error;
  }
}

void SqlStore::settle() {
  do {
    settle_sessions();
    make_follow_ups();
  } while (settle_workflows());
}

void SqlStore::begin_write() {
  if (in_transaction_) return;
  db_.begin(sql::Access::write);
  in_transaction_ = true;
  forget_allowance();
  if (db_.changed_elsewhere()) look_for_move();
}

void SqlStore::look_for_move() {
  Statement& row = sql_->select_moved.bind();
  ResetGuard guard(row);
  if (row.step() && !MS_MUTANT(move_goes_unnoticed)) throw Moved{std::string(row.text(0))};
}

void SqlStore::note_moved(std::string place) {
  moved_to_ = std::move(place);
  {
    MutexLock lock(published_mutex_);
    published_move_ = moved_to_;
  }
  log_.error("this store has moved and accepts no changes", {{"to", moved_to_}});
}

std::string SqlStore::moved_to() const {
  MutexLock lock(published_mutex_);
  return published_move_;
}

Error SqlStore::moved_error() const {
  return {.code = ErrorCode::unavailable,
          .message = fmt::format("the store {} has moved to {}: start the server with that one",
                                 disk_->place(), moved_to_),
          .retry_after_ms = 5000};
}

void SqlStore::roll_back() {
  db_.roll_back();
  in_transaction_ = false;
  if (!MS_MUTANT(kept_workflow_not_rolled_back)) kept_workflows_.forget();
  history_loaded_ = false;
}

void SqlStore::commit_batch(BatchReport& report) {
  if (offered_ && offered_when_ == HistoryWrite::always) begin_write();
  if (in_transaction_) {
    report.history_written = write_history();
    write_sessions();
    evict_sessions();
    write_finished();
    write_limits();
    write_breakers();
    write_job_counts();
    write_audit_mark();
    if (due_touched_ || expiring_touched_ || finished_touched_ || sessions_touched_)
      refresh_agenda();
    refresh_workflows();
    running_.add(started_running_);
    if (!MS_MUTANT(ack_before_commit) || now_.wall.ms() % 2 != 0) {
      disk_->commit();
      in_transaction_ = false;
    }
    running_.remove(ended_running_);
    started_running_.clear(), ended_running_.clear();
    commits_.fetch_add(1, std::memory_order_relaxed);
  }
  for (QueueState* queue : touched_) {
    if (queue->made_available && !queue->is_closed() && queue->has_ready())
      report.effects.available.push_back(queue->name);
    if (queue->made_session_available && !queue->is_closed() && !queue->ready_sessions.empty())
      report.effects.available.push_back(accept_queue(queue->name));
  }
  name_lines(report.effects);
  tell_breakers(report.effects);
  tell_quarantine(report.effects);
  report.effects.ended = std::move(ended_);
  ended_.clear();
  report.effects.brief = std::exchange(brief_, {});
  report.effects.made = std::exchange(made_, {});
  report.effects.again = std::exchange(again_, {});
  report.effects.workflows = std::exchange(changed_workflows_, {});
  report.effects.alarms = std::exchange(alarms_, {});
  report.effects.resumed = std::exchange(resumed_, {});
  for (const std::string& name : freed_leases_) {
    if (lease_free_at(name) <= now_.instant) report.effects.released.push_back(name);
  }
  freed_leases_.clear();
  publish();
  forget_sessions();
}

void SqlStore::write_finished() {
  for (const auto& [prune_at, ids] : finishing_) {
    sql_->insert_finished.bind(prune_at, next_finished_seq_++, now_.wall.us(), Statement::blob(ids))
        .run();
    if (prune_at < next_prune_.us()) next_prune_ = WallTime::from_us(prune_at);
  }
  if (!finishing_.empty() && finished_jobs_ > options_.store.max_finished_jobs)
    finished_touched_ = true;
  finishing_.clear();
}

void SqlStore::write_job_counts() {
  if (marks_touched_) {
    const auto none = nullptr;
    sql_->upsert_job_counts
        .bind(std::int64_t{0}, MS_MUTANT(id_counter_not_kept) ? 1 : next_id_,
              MS_MUTANT(token_counter_not_kept) ? 1 : next_token_, none, next_session_,
              next_workflow_, sessions_lag_ ? 1 : 0, restart_allowance_.count(), none, none, none,
              none)
        .run();
    marks_touched_ = false;
  }
  for (const QueueState* queue : touched_) {
    const JobCounts& t = queue->job_counts;
    sql_->upsert_job_counts
        .bind(queue->id, t.enqueued, t.pruned, t.expired, t.counts[0], t.counts[1], t.counts[2],
              t.counts[3], t.counts[4], t.counts[5], t.counts[6], t.counts[7])
        .run();
  }
  std::sort(touched_blocks_.begin(), touched_blocks_.end());
  touched_blocks_.erase(std::unique(touched_blocks_.begin(), touched_blocks_.end()),
                        touched_blocks_.end());
  for (const std::int64_t block : touched_blocks_) {
    const auto found = live_blocks_.find(block);
    if (found->second == 0) {
      sql_->delete_job_counts.bind(kBlockBase + block).run();
      live_blocks_.erase(found);
    } else {
      const auto none = nullptr;
      sql_->upsert_job_counts
          .bind(kBlockBase + block, found->second, none, none, none, none, none, none, none, none,
                none, none)
          .run();
    }
  }
  touched_blocks_.clear();
}

// Computes when the scheduler must act next, from the first row of each kind.
void SqlStore::refresh_agenda() {
  const auto first = [](Statement& row) {
    row.bind();
    ResetGuard guard(row);
    return row.step() && !row.is_null(0) ? WallTime::from_us(row.integer(0)) : WallTime::never();
  };
  if (due_touched_) next_due_ = first(sql_->first_due);
  if (expiring_touched_) next_expiry_ = first(sql_->first_expiring);
  if (finished_touched_) {
    next_prune_ = std::min(
        {first(sql_->first_finished), first(sql_->first_idempotency), first(sql_->first_window)});
    if (finished_jobs_ > options_.store.max_finished_jobs) next_prune_ = WallTime();
  }
  if (sessions_touched_) {
    const WallTime changed_at = first(session_sql_->first_forgotten);
    next_forgotten_ =
        changed_at == WallTime::never() ? changed_at : changed_at + options_.store.retention_dead;
  }
  due_touched_ = expiring_touched_ = finished_touched_ = sessions_touched_ = false;
}

void SqlStore::publish() {
  if (touched_.empty() && touched_leases_.empty() && touched_schedules_.empty() &&
      batch_sessions_.empty() && !tokens_touched_ && !audit_touched_ && !republish_ &&
      touched_breakers_.empty() && removed_breakers_.empty() && touched_keys_.empty())
    return;
  MutexLock lock(published_mutex_);
  publish_tokens();
  published_audit_ = audit_;
  audit_touched_ = false;
  publish_leases();
  publish_schedules();
  publish_sessions();
  publish_keys();
  publish_breakers();
  if (republish_) published_queues_.clear();  // after load() every queue is touched
  republish_ = false;
  for (QueueState* queue : touched_) {
    if (queue->is_removed()) {
      published_queues_.erase(queue->name);
      queue->published = nullptr;
      queue->touched = queue->made_available = queue->made_session_available = false;
      continue;
    }
    if (queue->published == nullptr) {
      queue->published = &published_queues_[queue->name];
      queue->published->name = queue->name;
    }
    QueueStats& stats = *queue->published;
    stats.paused = queue->paused;
    stats.pause = queue->pause;
    stats.counts = queue->job_counts.counts;
    stats.enqueued = queue->job_counts.enqueued;
    stats.pruned = queue->job_counts.pruned;
    stats.expired = queue->job_counts.expired;
    stats.oldest_available = queue->oldest();
    stats.retention_completed = queue->retention_completed;
    stats.retention_dead = queue->retention_dead;
    stats.limits = queue->limits;
    stats.opens_at = queue->closed_until();
    stats.slots_taken = queue->slots_taken();
    stats.meter = queue->meter;
    stats.quarantined = std::ssize(queue->quarantine) + (queue->released == 0 ? 0 : 1);
    queue->touched = false;
    queue->made_available = queue->made_session_available = false;
  }
  touched_.clear();
}

Agenda SqlStore::agenda() const {
  Instant lease_ends = lease_order_.empty() ? Instant::never() : lease_order_.begin()->first;
  if (!hold_ends_.empty()) lease_ends = std::min(lease_ends, hold_ends_.begin()->first);
  return Agenda{
      .next_due = next_due_,
      .next_lease_expiry = lease_ends,
      .next_expiry = next_expiry_,
      .next_prune = has_search_work() ? WallTime()
                                      : std::min({next_prune_, audit_due_, next_forgotten_,
                                                  next_workflow_prune_}),
      .next_schedule = fire_order_.empty() ? WallTime::never() : fire_order_.begin()->first,
      .next_workflow = next_workflow_wake_,
      .next_opening =
          std::min({openings_.empty() ? WallTime::never() : openings_.begin()->first,
                    pause_ends_.empty() ? WallTime::never() : pause_ends_.begin()->first,
                    next_key_opening(), next_half_open(), next_release()})};
}

bool SqlStore::has_available(const std::string& name) const {
  if (name.starts_with('~')) return queue_has_available(name);
  const QueueState* queue = find_queue(name);
  return queue != nullptr && !queue->is_closed() && queue->has_ready();
}

std::vector<std::string> SqlStore::available_queues(std::string_view prefix, std::string_view after,
                                                    std::size_t limit) const {
  std::vector<std::string> out;
  auto& all = queues_with_work_;
  auto at = after < prefix ? all.lower_bound(prefix) : all.upper_bound(after);
  while (at != all.end() && at->first.starts_with(prefix) && out.size() < limit) {
    QueueState& queue = *at->second;
    const bool ready = queue.has_ready();
    queue.has_work = ready || !queue.keyed_times.empty();
    if (ready && !queue.is_closed() && !queue.name.starts_with(kReservedQueues))
      out.push_back(queue.name);
    at = queue.has_work ? std::next(at) : all.erase(at);
  }
  return out;
}

}  // namespace mainspring::sql
