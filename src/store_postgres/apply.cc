// Applies a batch: one transaction with as few round trips as its operations allow, and recovery
// when the connection is lost.

#include <algorithm>

#include "base/assert.h"
#include "store_postgres/fast_path.h"

namespace mainspring::pg {

namespace {
constexpr int kMaxTries = 10;  // of a batch that conflicts with batches of other nodes
constexpr int kLockTries = 2;  // of an operation that is alone
constexpr std::string_view kLockTimeout = "55P03";
constexpr Duration kClockInterval = std::chrono::milliseconds(500);

// An operation, with its audit record.
bool is_one(std::span<const Operation> batch) {
  return std::all_of(batch.begin() + (batch.empty() ? 0 : 1), batch.end(),
                     [](const Operation& op) { return std::holds_alternative<Audit>(op); });
}

Error held_by_others(const PgError& why) {
  Error error = to_error(why);
  error.message =
      "another client's open transaction holds what the operation needs; retry: " + error.message;
  return error;
}

Error cannot_reach(const PgError& why) {
  Error error = to_error(why);
  error.message = "the store is unreachable: " + error.message;
  return error;
}
// Adds to the batch's own effects: see close().
template <class After>
void add_effects(const After& after, bool any_brief, Effects& to) {
  const auto add = [](auto& all, const auto& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  add(to.ended, after.ended);
  add(to.made, after.made);
  add(to.again, after.again);
  add(to.quarantined, after.quarantined);
  add(to.quarantine_left, after.quarantine_left);
  add(to.workflows, after.changed_workflows);
  add(to.alarms, after.alarms);
  add(to.resumed, after.resumed);
  add(to.breakers, after.breakers);
  const auto over = [&to](JobId id) {
    return std::find(to.ended.begin(), to.ended.end(), id) != to.ended.end();
  };
  std::erase_if(to.quarantined, over);
  std::erase_if(to.quarantine_left, over);
  if (any_brief) to.brief = to.ended;
}
}  // namespace

Result<BatchReport> PostgresStore::apply(std::span<const Operation> batch, Now now) {
  auto report = apply_batch(batch, now);
  offered_.reset();
  return report;
}

Result<BatchReport> PostgresStore::apply_batch(std::span<const Operation> batch, Now now) {
  begin_at(now);
  const bool writes_history = offered_ && offered_when_ == HistoryWrite::always;
  if (batch.empty() && !writes_history) return BatchReport{};
  if (!moved_to_.empty()) return moved_error();
  const Instant until = steady_.now().instant + options_.patience;
  PgError last{"", "no try was made", true};
  make_first_.clear();
  blocked_ = false;
  int locked = 0;
  for (int tries = 0; tries < kMaxTries; ++tries) {
    BatchReport report;
    try {
      ensure_connected(until);
      if (!moved_to_.empty()) return moved_error();
      ++batch_;
      auto done = try_batch(batch);
      if (away_.exchange(false)) log_.info("the store is reachable again", {});
      return done;
    } catch (const PgError& error) {
      last = error;
      const bool unknown = commit_sent_ && error.lost;
      if (!unknown) {
        const bool elsewhere = error.lost || error.read_only();
        if (elsewhere) connection_.reset();
        roll_back();
        copies_stale_ = true;
        if (error.is(kMovedState)) continue;  // the reloaded copies contain the new place
        if (error.is(kLockTimeout) && ++locked >= (is_one(batch) ? kLockTries : 1)) {
          blocked_ = true;
          return held_by_others(error);
        }
        if (!elsewhere && !error.passing()) {
          log_.error("a batch failed", {{"sqlstate", error.sqlstate}, {"message", error.message}});
          return to_error(error);
        }
        log_.debug("retrying a batch", {{"sqlstate", error.sqlstate}, {"message", error.message}});
        if (elsewhere && steady_.now().instant >= until) break;
        if (error.read_only()) pause_before_reconnect();
        continue;
      }
      connection_.reset();
      return Error{.code = ErrorCode::timeout,
                   .message =
                       "the connection to the store was lost during the commit: the outcome is "
                       "unknown; look it up, or repeat with the same key",
                   .retry_after_ms = 1000};
    }
  }
  if (!away_.exchange(true)) log_.warn("the store is unreachable", {{"message", last.message}});
  return cannot_reach(last);
}

Result<BatchReport> PostgresStore::try_batch(std::span<const Operation> batch) {
  clear_batch();
  fast_path_ = !batch.empty() && knows_history() && takes_fast_path(batch);
  BatchReport report;
  report.results.resize(batch.size());  // about_ points into it
  try {
    run_batch(batch, report);
    commit(report);
  } catch (const PgError& error) {
    if (!commit_sent_ || !error.lost) throw;
    if (!was_committed(batch, report)) {
      commit_sent_ = false;
      throw;
    }
  }
  history_loaded_ = history_loaded_ || report.history_written;
  offered_.reset();  // open claims are committed separately
  remember(report);
  if (fast_path_ || !open_->claims.empty()) close(report);
  return report;
}

void PostgresStore::run_batch(std::span<const Operation> batch, BatchReport& report) {
  std::vector<OperationResult>& results = report.results;
  about_ = nullptr;
  fast_path_ ? lock_fast_path_sessions(batch) : look_ahead(batch);
  for (std::size_t i = 0; i < batch.size(); settle_batch()) {
    const auto rest = batch.subspan(i);
    std::vector<OperationResult> folded;
    std::size_t done = enqueue_run(rest, results, batch.size() == rest.size());
    if (done == 0) done = finish_run(rest, results);
    if (done == 0) done = claim_run(rest, results);
    if (done != 0) {
      i += done;
      about_ = nullptr;
      continue;
    }
    if (std::holds_alternative<Audit>(batch[i])) settle();
    look_before(batch, i);
    results[i] = std::visit([this](const auto& op) { return (*this)(op); }, batch[i]);
    about_ = std::holds_alternative<Audit>(batch[i]) ? nullptr : &results[i];
    ++i;
  }
}

// After each operation: processes what follows from the ends it caused.
void PostgresStore::settle_batch() {
  do {
    settle_sessions();
    make_follow_ups();
    settle_links();
  } while (settle_workflows());
}

// -- statements -----------------------------------------------------------------------------------

void PostgresStore::later(const Statement& statement, const Params& params,
                          std::function<void(Rows)> then) {
  begin();
  connection_->queue(statement, params);
  waiting_.push_back(std::move(then));
}

void PostgresStore::tell(const Statement& statement, const Params& params) {
  later(statement, params, nullptr);
}

Rows PostgresStore::ask(const Statement& statement, const Params& params) {
  Rows answer;
  later(statement, params, [&](Rows rows) { answer = std::move(rows); });
  settle();
  return answer;
}

void PostgresStore::settle() {
  MS_ASSERT(!fast_path_ || commit_sent_, "a fast-path batch reads nothing before its commit");
  while (!waiting_.empty()) {
    Rows rows = connection_->next();
    const auto then = std::move(waiting_.front());
    waiting_.pop_front();
    if (then) then(std::move(rows));
  }
}

void PostgresStore::hold() {
  if (held_) return;
  held_ = true;
  tell(sql_.hold, params(node_, batch_, session_));
}

void PostgresStore::write(const Statement& statement, const Params& params, bool durably) {
  tell(statement, params);
  wrote(durably);
}

void PostgresStore::wrote(bool durably) {
  wrote_ = true;
  durable_ = durable_ || durably;
}

void PostgresStore::begin() {
  if (in_transaction_) return;
  in_transaction_ = true;
  if (!fast_path_) {
    connection_->queue(sql_.begin);
    waiting_.push_back(nullptr);
  }
  if (!options_.prepared) {
    connection_->queue(sql_.plan_by_keys);
    waiting_.push_back(nullptr);
  }
  const Now sent = steady_.now();
  if (database_clock_ == nullptr || sent.instant < clock_asked_ + kClockInterval) return;
  clock_asked_ = sent.instant;
  connection_->queue(sql_.clock);
  waiting_.push_back([this, sent](const Rows& rows) {
    database_clock_->note(WallTime::from_us(rows.integer(0, 0)), sent, steady_.now());
  });
}

void PostgresStore::commit(BatchReport& report) {
  if (fast_path_) {
    // Claims alone may find nothing: then nothing is committed.
    if (in_transaction_ && open_->claims.size() < report.results.size()) write_history(report);
    return commit_fast_path();
  }
  if (must_look_) settle();
  settle_batch();
  fire_ends();
  flush();
  settle_breakers();
  settle_openings();
  workflows_.flush();
  if (offered_ && offered_when_ == HistoryWrite::always) wrote();
  if (!wrote_) {
    refresh_agenda();  // a step that found nothing has read the first entries
    if (in_transaction_) tell(sql_.roll_back, {});
    settle();
    in_transaction_ = false;
    return;
  }
  drop_empty_sessions();
  if (durable_) write_history(report);
  flush_job_counts();
  if (durable_ && !marked_) tell(sql_.mark_batch, params(node_, batch_, wall(), session_));
  refresh_agenda();
  if (!durable_) tell(sql_.begin_quietly, {});
  tell(sql_.commit, {});
  commit_sent_ = true;
  settle();
  commit_sent_ = false;
  in_transaction_ = false;
  if (durable_) commits_.fetch_add(1, std::memory_order_relaxed);
}

// Without BEGIN, everything sent up to the sync is one transaction, and the sync commits it. The
// answers show whether there was anything to commit, and what else follows.
void PostgresStore::commit_fast_path() {
  if (!in_transaction_) return;
  commit_sent_ = true;
  settle();
  connection_->finish();
  commit_sent_ = false;
  in_transaction_ = false;
  if (durable_) commits_.fetch_add(1, std::memory_order_relaxed);
}

void PostgresStore::roll_back() noexcept {
  waiting_.clear();
  commit_sent_ = false;
  const bool open = std::exchange(in_transaction_, false) && !fast_path_;
  if (connection_ && connection_->handle() == nullptr) connection_.reset();  // it was lost
  if (!connection_) return;
  try {
    connection_->forget();
    if (open) connection_->run(sql_.roll_back);
  } catch (const PgError&) {
    connection_.reset();
  }
}

void PostgresStore::clear_batch() {
  loaded_.clear();
  no_session_.clear();
  not_there_.clear();
  waiting_.clear();
  job_counts_.clear();
  new_errors_.clear();
  followed_.clear();
  posted_.clear();
  watches_.reset();
  ends_.clear();
  opened_.clear();
  loaded_breakers_.clear();
  touched_breakers_.clear();
  breaker_notes_.clear();
  sessions_.clear();
  entered_.clear(), left_over_.clear();
  heads_.clear();
  joined_.clear();
  left_.clear();
  ended_heads_.clear();
  follow_up_news_.clear();
  ended_steps_.clear();
  workflows_.clear();
  after_ = {};
  open_ = std::make_shared<Open>();
  any_touched_ = wrote_ = durable_ = held_ = marked_ = must_look_ = fast_path_ = false;
  watches_asked_ = false;
  next_id_ = ids_end_ = 0;
}

// -- the connection -------------------------------------------------------------------------------

void PostgresStore::reconnect() {
  connection_ = connect(true);
  copies_stale_ = true;
  workflows_.starts().forget();
}

void PostgresStore::ensure_connected(Instant until) {
  while (!connection_) {
    try {
      reconnect();
    } catch (const PgError&) {
      if (steady_.now().instant >= until) throw;
      pause_before_reconnect();
    }
  }
  if (!copies_stale_) return;
  try {
    reload_copies();
  } catch (const PgError&) {
    roll_back();
    throw;
  }
  copies_stale_ = false;
}

bool PostgresStore::was_committed(std::span<const Operation> batch, BatchReport& report) {
  waiting_.clear();
  in_transaction_ = false;
  connection_.reset();
  ++session_;
  const Instant until = steady_.now().instant + options_.statement_timeout;
  for (;;) {
    try {
      while (!connection_) reconnect();
      // Gives up the part of the batch that has not reached its commit, whether it is still in the
      // network or waits for a lock. A batch that is committing holds the batch lock.
      connection_->run(sql_.give_up, params(node_, session_, wall()));
      connection_->run(sql_.await_batch, params(node_, batch_));
      const Rows rows = connection_->run(sql_.find_batch, params(node_, batch_));
      if (rows.empty()) return false;
      // The batch may not have reached the standbys that commits wait for. A further commit waits
      // for them.
      connection_->run(sql_.give_up, params(node_, session_, wall()));
      const std::vector<std::int64_t> ids = rows.ints(0, 0);
      std::size_t next = 0;
      for (std::size_t i = 0; i < batch.size(); ++i) {
        auto* enqueued = std::get_if<EnqueueResult>(&report.results[i]);
        if (enqueued == nullptr || ids.empty()) continue;
        for (EnqueuedJob& job : enqueued->jobs) {
          if (next < ids.size()) job.id = ids[next++];
        }
      }
      commits_.fetch_add(1, std::memory_order_relaxed);
      commit_sent_ = false;
      return true;
    } catch (const PgError&) {
      connection_.reset();
      if (steady_.now().instant >= until) throw;
      pause_before_reconnect();
    }
  }
}

// -- memory ---------------------------------------------------------------------------------------

void PostgresStore::refresh_agenda() {
  const auto first = [this](const Statement& statement, WallTime& into) {
    later(statement, {}, [&into](const Rows& rows) {
      into = rows.empty() || rows.is_null(0, 0) ? WallTime::never()
                                                : WallTime::from_us(rows.integer(0, 0));
    });
  };
  // Runs after the batch's own changes: the answer is the state that will be committed.
  if (after_.look_due) first(sql_.first_due, after_.next_due);
  if (after_.look_expiry) first(sql_.first_expiring, after_.next_expiry);
  if (after_.look_prune) {
    first(sql_.first_prune, after_.next_prune);
    later(workflow_sql_.first_finished, retentions(), [this](const Rows& rows) {
      if (!rows.empty() && !rows.is_null(0, 0))
        after_.next_prune = std::min(after_.next_prune, WallTime::from_us(rows.integer(0, 0)));
    });
  }
  if (after_.look_workflow) first(workflow_sql_.first_wake, after_.next_workflow);
  if (after_.look_quarantine) look_for_releases();
  if (after_.look_leases) {
    later(sql_.first_leased, params(node_), [this](const Rows& rows) {
      after_.foreign_lease = rows.empty() ? 0 : rows.integer(0, 0);
    });
  }
}

void PostgresStore::remember(BatchReport& report) {
  const auto merge = [](bool known, WallTime found, WallTime& kept) {
    kept = known ? found : std::min(kept, found);
  };
  remember_leases();
  remember_schedules();
  remember_breakers();
  const WallTime due = next_due_, wake = next_workflow_;
  merge(after_.look_workflow, after_.next_workflow, next_workflow_);
  merge(after_.look_quarantine, after_.next_release, next_release_);
  merge(after_.look_due, after_.next_due, next_due_);
  merge(after_.look_expiry, after_.next_expiry, next_expiry_);
  merge(after_.look_prune, after_.next_prune, next_prune_);
  live_jobs_ += after_.live;
  finished_jobs_ += after_.finished;
  if (finished_jobs_ > options_.store.max_finished_jobs) next_prune_ = WallTime();
  remember_lines();
  for (const JobId id : after_.unleased) drop_lease(id);
  if (after_.look_leases) {
    foreign_lease_ = after_.foreign_lease;
    // This node's leases that have expired were processed, here or by another node.
    std::vector<JobId> over;
    for (const auto& [until, id] : lease_order_) {
      if (until > lease_now()) break;
      if (!after_.still_expired.contains(id)) over.push_back(id);
    }
    for (const JobId id : over) drop_lease(id);
  }
  for (const auto& [id, lease] : after_.leased) {
    drop_lease(id);
    own_leases_[id] = lease;
    lease_order_.emplace(lease.until, id);
  }
  remember_given();
  for (const int id : after_.gained) {
    const QueueInfo& queue = queue_by_id(id);
    if (!has_available(queue.name)) continue;
    report.effects.available.push_back(queue.name);
    news_.queues.push_back(queue.name);
  }
  for (const std::string& line : after_.gained_queues) {
    if (!has_available(line)) continue;
    report.effects.available.push_back(line);
    news_.queues.push_back(line);
  }
  news_.queues.insert(news_.queues.end(), after_.lost_lines.begin(), after_.lost_lines.end());
  news_.queues.insert(news_.queues.end(), after_.passed_over.begin(), after_.passed_over.end());
  if (next_due_ < due) news_.next_due = std::min(news_.next_due, next_due_);
  if (next_workflow_ < wake) news_.next_due = std::min(news_.next_due, next_workflow_);
  add_effects(after_, any_brief_, report.effects);
  for (const std::string& name : after_.freed) {
    if (lease_free_at(name) <= now_.instant) report.effects.released.push_back(name);
  }
  remember_access();
  if (after_.queues || after_.schedules || after_.tokens) news_.catalog = true;
}

// Updates which ready queues have jobs left, as far as this node knows. A queue wrongly considered
// empty would keep claims waiting; a queue wrongly considered non-empty costs one claim without a
// job.
void PostgresStore::remember_lines() {
  for (const auto& [queue, delta] : after_.available) hints_[queue].available += delta;
  for (const auto& [queue, count] : after_.running_is) {
    hints_[queue].running = count;
    hints_[queue].running_uncertain = false;
  }
  for (const auto& [queue, delta] : after_.running) hints_[queue].running += delta;
  for (const int queue : after_.dry) {
    QueueHint& hint = hints_[queue];
    hint.dry = true;
    if (!hint.uncertain) continue;
    hint.uncertain = false;
    hint.available = 0;
    hint.drifts = true;
  }
  remember_session_lines();
  for (const int queue : after_.gained) {
    QueueHint& hint = hints_[queue];
    hint.dry = false;
    if (hint.drifts && hint.available <= 0) hint.uncertain = true;
  }
}

void PostgresStore::drop_lease(JobId id) {
  const auto found = own_leases_.find(id);
  if (found == own_leases_.end()) return;
  lease_order_.erase({found->second.until, id});
  own_leases_.erase(found);
}

Instant PostgresStore::to_instant(std::int64_t us) const {
  return now_.instant + Duration(us - lease_now());
}

Agenda PostgresStore::agenda() const {
  std::int64_t lease = foreign_lease_;
  if (!lease_order_.empty() && (lease == 0 || lease_order_.begin()->first < lease))
    lease = lease_order_.begin()->first;
  return Agenda{.next_due = next_due_,
                .next_lease_expiry = lease == 0 ? Instant::never() : to_instant(lease),
                .next_expiry = next_expiry_,
                .next_prune = std::min(next_prune_, audit_due_),
                .next_schedule = next_schedule(),
                .next_workflow = next_workflow_,
                .next_opening = next_opening()};
}

bool PostgresStore::has_available(const std::string& name) const {
  const std::string queue(base_queue_of(name));
  const auto found = queues_by_name_.find(queue);
  if (found == queues_by_name_.end()) return unknown_queues_.contains(queue);
  if (is_closed(*found->second)) return false;
  if (queue != name) return queue_has_available(*found->second, name);
  const QueueHint& hint = hints_[found->second->id];
  return !hint.dry && (hint.available > 0 || hint.uncertain);
}

std::vector<std::string> PostgresStore::available_queues(std::string_view prefix,
                                                         std::string_view after,
                                                         std::size_t limit) const {
  std::vector<std::string> out =
      available_of(queues_by_name_, prefix, after, limit,
                   [this](const std::string& name) { return has_available(name); });
  for (const std::string& name : unknown_queues_) {
    const bool fits = name.starts_with(prefix) && !name.starts_with(kReservedQueues);
    if (fits && name > after) out.push_back(name);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  out.resize(std::min(out.size(), limit));
  return out;
}

}  // namespace mainspring::pg
