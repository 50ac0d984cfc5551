// Changes of other nodes: hints received and sent, and the comparison with the database that finds
// changes without hints.
#include <algorithm>

#include "store_postgres/migrations.h"
#include "store_postgres/reader.h"
#include "store_postgres/store_impl.h"

namespace mainspring::pg {

namespace {
constexpr std::int64_t kAnswered = 60'000'000;      // longer than any caller waits for an answer,
                                                    // in us
constexpr std::int64_t kFoldInterval = 30'000'000;  // of job_counts
constexpr std::size_t kMaxUnknownQueues = 10'000;

WallTime time_of(const Rows& rows) {
  return rows.empty() || rows.is_null(0, 0) ? WallTime::never()
                                            : WallTime::from_us(rows.integer(0, 0));
}

bool differ(std::map<std::string, std::int64_t>& known, const Rows& versions) {
  bool found = false;
  for (int i = 0; i < versions.size(); ++i)
    found = found || known[versions.string(i, 0)] != versions.integer(i, 1);
  return found;
}

}  // namespace

void PostgresStore::heard(const ChangeHints& what) {
  for (const std::string& line : what.queues) {
    const std::string name(base_queue_of(line));
    const auto found = queues_by_name_.find(name);
    if (found != queues_by_name_.end() && name != line) {
      hear_line(line);
      continue;
    }
    if (found != queues_by_name_.end()) {
      QueueHint& hint = hints_[found->second->id];
      hint.uncertain = hint.running_uncertain = hint.packs = true;
      hint.dry = false;
      doubt_breaker_of(*found->second);
    } else if (unknown_queues_.size() < kMaxUnknownQueues) {
      unknown_queues_.insert(name);
      copies_stale_ = true;
    }
  }
  if (what.everything) {
    for (auto& [id, hint] : hints_) {
      hint.uncertain = hint.heads_uncertain = hint.heads_drift = hint.running_uncertain = true;
      hint.packs = true;
      hint.dry = hint.heads_dry = false;
    }
    dry_queues_.clear();
    for (const auto& [id, queue] : queues_by_id_) doubt_breaker_of(*queue);
    refreshed_at_ = Instant();
  }
  if (what.catalog || what.everything) copies_stale_ = true;
  next_due_ = std::min(next_due_, what.next_due);
  next_workflow_ = std::min(next_workflow_, what.next_due);  // may refer to a workflow
  MutexLock lock(published_mutex_);
  for (const std::string& lease : what.released) lease_ends_.erase(lease);
}

// Unless the job has been claimed again since.
void PostgresStore::forget_claims(const std::vector<std::pair<JobId, Token>>& completed) {
  for (const auto& [id, token] : completed) {
    const auto lease = own_leases_.find(id);
    if (lease != own_leases_.end() && lease->second.token == token) drop_lease(id);
  }
  finished_jobs_ += static_cast<std::int64_t>(completed.size());
}

ChangeHints PostgresStore::take_news() {
  return std::exchange(news_, {});
}

// Queues without known available jobs, or not completely read.
Ints PostgresStore::quiet_queues() const {
  Ints quiet;
  for (const auto& [id, queue] : queues_by_id_) {
    const bool held = queue->paused || is_held_by_breaker(*queue);
    if (!held && (hints_[id].passed || !has_available(queue->name))) quiet.push_back(id);
  }
  return quiet;
}

void PostgresStore::hear_waiting(const Ints& quiet, const Rows& waiting, ChangeHints& heard) {
  for (int i = 0; i < waiting.size(); ++i) heard.queues.push_back(waiting.string(i, 0));
  for (const std::int64_t id : quiet) {
    QueueHint& hint = hints_[static_cast<int>(id)];
    if (std::exchange(hint.passed, false)) hint.looking = Duration(0);  // allow an immediate read
  }
}

Result<ChangeHints> PostgresStore::refresh(Now now) {
  constexpr Duration kInterval = std::chrono::milliseconds(3500);
  if (refreshed_at_ != Instant() && now.instant < refreshed_at_ + kInterval) return ChangeHints{};
  begin_at(now);
  if (!moved_to_.empty()) return moved_error();
  try {
    ensure_connected(steady_.now().instant);
    const Ints quiet = quiet_queues();
    Connection& c = *connection_;
    const Now sent = steady_.now();
    // One transaction, so that an idle node costs one; a heartbeat may be lost with it.
    in_transaction_ = true;
    c.queue(sql_.begin);
    c.queue(sql_.begin_quietly);
    c.queue(sql_.node_beats, params(node_, wall(), says_));
    c.queue(sql_.clock);
    c.queue(sql_.versions);
    c.queue(sql_.first_due);
    c.queue(sql_.first_expiring);
    c.queue(sql_.first_prune);
    c.queue(workflow_sql_.first_finished, retentions());
    c.queue(workflow_sql_.first_wake);
    c.queue(sql_.first_leased, params(node_));
    if (!quiet.empty()) c.queue(sql_.waiting_queues, params(quiet));
    for (int i = 0; i < 3; ++i) c.next();
    const Rows time = c.next();
    if (database_clock_ != nullptr)
      database_clock_->note(WallTime::from_us(time.integer(0, 0)), sent, steady_.now());
    ChangeHints heard;
    heard.catalog = differ(versions_, c.next());
    const WallTime due = std::exchange(next_due_, time_of(c.next()));
    next_expiry_ = time_of(c.next());
    next_prune_ = std::min(time_of(c.next()), time_of(c.next()));
    const WallTime wake = std::exchange(next_workflow_, time_of(c.next()));
    const Rows leased = c.next();
    foreign_lease_ = leased.empty() ? 0 : leased.integer(0, 0);
    if (next_due_ < due) heard.next_due = next_due_;
    if (next_workflow_ < wake) heard.next_due = std::min(heard.next_due, next_workflow_);
    if (!quiet.empty()) hear_waiting(quiet, c.next(), heard);
    heard.catalog = load_schedules() || heard.catalog;
    ask_lines(heard);
    c.run(sql_.commit);
    in_transaction_ = false;
    if (heard.catalog) reload_copies();
    this->heard({.queues = heard.queues});
    refreshed_at_ = now.instant;
    heard.fold_failed = fold_counts();
    if (away_.exchange(false)) log_.info("the store is reachable again", {});
    return heard;
  } catch (const PgError& error) {
    const bool elsewhere = error.lost || error.read_only();
    if (elsewhere) connection_.reset();
    roll_back();
    copies_stale_ = true;
    away_ = away_ || elsewhere;
    return to_error(error);
  }
}

// In a transaction of its own: the heartbeat does not fail with it.
std::string PostgresStore::fold_counts() {
  if (commits_ == folded_commits_ || wall() < folded_at_ + kFoldInterval) return {};
  try {
    connection_->run(sql_.fold_job_counts, params(wall() - kAnswered));
    folded_at_ = wall(), folded_commits_ = commits_;
    return {};
  } catch (const PgError& error) {
    if (error.lost || error.is(kMovedState)) throw;
    roll_back();
    return error.message;
  }
}

Result<std::vector<Said>> PostgresStore::others_say() const {
  return with_reader([&](Connection& c) {
    const Rows rows = c.run(sql_.others_say, params(node_, kNodeAlive));
    std::vector<Said> out;
    for (int i = 0; i < rows.size(); ++i) {
      out.push_back(
          {.what = rows.string(i, 0), .ago = std::max(Duration(rows.integer(i, 1)), Duration(0))});
    }
    return out;
  });
}

Result<Durability> PostgresStore::durability() const {
  return with_reader([this](Connection& c) {
    const Rows row = c.run(sql_.durability);
    return Durability{.synchronous_commit = row.string(0, 0),
                      .synchronous_standbys = static_cast<int>(row.integer(0, 1)),
                      .read_only = row.integer(0, 2) != 0};
  });
}

Result<StoreHealth> PostgresStore::health() const {
  return with_reader([this](Connection& c) {
    const Rows row = c.run(sql_.health, params(schema_));
    StoreHealth health{.oldest_snapshot = Duration(row.integer(0, 0)),
                       .dead_rows = row.integer(0, 1)};
    if (const auto lag = row.maybe(0, 2)) health.standby_lag = Duration(*lag);
    return health;
  });
}

}  // namespace mainspring::pg
