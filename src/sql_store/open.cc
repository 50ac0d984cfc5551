// Loads the in-memory state from the disk.
#include "sql_store/sql_store.h"

#include <fmt/format.h>

#include "base/assert.h"
#include "base/mutant.h"
#include "queries_data.h"  // generated from sql/queries
#include "sql_store/store_impl.h"

namespace mainspring::sql {
namespace {

// Throws an error for data read at open, which may come from a damaged disk. After the open, the
// same condition is an assertion.
void must(bool condition, std::string_view invariant) {
  if (condition) return;
  throw Error{.code = ErrorCode::io_error,
              .message = fmt::format("the store is damaged, it breaks the invariant \"{}\": take a "
                                     "backup, and run `mainspring store check`",
                                     invariant)};
}

}  // namespace

std::optional<TransferPlace> read_move(Connection& db, std::string_view what) {
  Statement row(db, queries::transfer::load_moves);
  row.bind(what);
  if (!row.step()) return std::nullopt;
  return TransferPlace{std::string(row.text(0)), std::string(row.text(1))};
}

SqlStore::SqlStore(SqlStoreOptions options, std::unique_ptr<Disk> disk, Log& log)
    : options_(std::move(options)),
      log_(log),
      disk_(std::move(disk)),
      db_(disk_->writer()),
      bodies_(options_.cached_body_bytes) {}

SqlStore::~SqlStore() {
  if (sql_ != nullptr) close_sessions();
}

void SqlStore::open(Now now) {
  check_place();
  sql_ = std::make_unique<Statements>(db_);
  schedule_sql_ = std::make_unique<ScheduleStatements>(db_);
  access_sql_ = std::make_unique<AccessStatements>(db_);
  session_sql_ = std::make_unique<SessionStatements>(db_);
  workflow_sql_ = std::make_unique<WorkflowStatements>(db_);
  trigger_sql_ = std::make_unique<TriggerStatements>(db_);
  memo_sql_ = std::make_unique<MemoStatements>(db_);
  history_sql_ = std::make_unique<HistoryStatements>(db_);
  mark_sql_ = std::make_unique<MarkStatements>(db_);
  search_sql_ = std::make_unique<SearchStatements>(db_);
  now_ = now;
  // The disk's lock proves that the former leader is gone.
  if (!MS_MUTANT(leadership_outlives_its_process) && moved_to_.empty())
    disk_->with_reserve([&] { sql_->delete_lease.bind(kLeadershipLease).run(); });
  disk_->with_reserve([&] { load(now.instant); });
  (void)db_.changed_elsewhere();
}

// Refuses to serve a store that has moved or is an unfinished copy.
void SqlStore::check_place() {
  if (const auto from = read_move(db_, "copying")) {
    throw Error{.code = ErrorCode::conflict,
                .message = fmt::format("{} is an unfinished copy of {}: run `mainspring store "
                                       "copy` again to continue, or remove it",
                                       disk_->place(), from->place)};
  }
  const auto to = read_move(db_, "moved");
  if (!to) return;
  moved_to_ = to->place;
  if (options_.if_moved == IfMoved::open) return;
  Error error = moved_error();
  error.code = ErrorCode::conflict;  // permanent
  throw error;
}

// Readers see no change before publish(): they keep the last committed state until the new one is
// complete.
void SqlStore::load(Instant now) {
  loaded_ = false;
  queue_states_.clear();
  queues_by_name_.clear();
  queues_with_work_.clear();
  queues_by_id_.clear();
  kinds_by_name_.clear();
  kind_names_.assign(1, "");
  leases_.clear();
  lease_order_.clear(), grants_.clear();
  live_blocks_.clear();
  touched_.clear();
  touched_blocks_.clear();
  finishing_.clear();
  ended_.clear(), brief_.clear();
  started_running_.clear(), ended_running_.clear();
  made_.clear(), again_.clear();
  quarantined_.clear(), left_quarantine_.clear();
  followed_.clear(), posted_.clear();
  watched_.clear(), ends_.clear();
  quarantines_.clear();
  keyed_.clear();
  touched_keys_.clear();
  left_sessions_.clear();
  ended_steps_.clear();
  changed_workflows_.clear();
  alarms_.clear();
  resumed_.clear();
  workflows_touched_ = true;
  marks_touched_ = false;
  bodies_.clear();
  freed_leases_.clear();
  republish_ = true;
  next_id_ = db_.query_int(queries::queues::next_id);
  next_token_ = db_.query_int(queries::queues::next_token);
  next_session_ = db_.query_int(queries::queues::next_session);
  next_workflow_ = db_.query_int(queries::queues::next_workflow);
  adopt_copy();
  next_finished_seq_ = db_.query_int(queries::jobs::next_finished_seq);
  must(next_id_ > db_.query_int(queries::jobs::last_id), "ids are never given twice");
  must(next_token_ > db_.query_int(queries::leases::last_token), "tokens are never given twice");
  must(next_session_ > db_.query_int(queries::sessions::last_id),
       "ids of sessions are never given twice");
  load_queues();
  load_limits();
  load_search_paths();
  load_fair_keys();
  load_watches();
  load_leases(now);
  settle_probes();
  load_named_leases(now);
  load_schedules();
  load_links();
  load_live_jobs();
  load_quarantine();
  load_sessions(now);
  load_tokens();
  load_audit();
  due_touched_ = expiring_touched_ = finished_touched_ = sessions_touched_ = true;
  refresh_agenda();
  refresh_workflows();
  for (QueueState& queue : queue_states_) touch(queue);
  publish();
  loaded_ = true;
}

// The first open of a backup: ids and tokens given after the backup are unknown here, so both
// continue far ahead.
void SqlStore::adopt_copy() {
  if (db_.query_int(queries::queues::reset_point) == 0) return;
  const TransferNumbers numbers = numbers_of_copy({.next_id = next_id_, .next_token = next_token_},
                                                  SourceGoesOn::yes, now_.wall);
  next_id_ = numbers.next_id;
  next_token_ = numbers.next_token;
  Statement(db_, queries::transfer::new_identity).run();
  Statement(db_, queries::queues::start_copy).bind(next_id_, next_token_).run();
}

void SqlStore::load_queues() {
  Statement kinds(db_, queries::queues::load_kinds);
  while (kinds.step()) {
    must(kinds.integer(0) == static_cast<std::int64_t>(kind_names_.size()),
         "kinds are numbered without gaps");
    kind_names_.emplace_back(kinds.text(1));
    kinds_by_name_.emplace(kinds.text(1), static_cast<std::int32_t>(kinds.integer(0)));
  }
  Statement rows(db_, queries::queues::load_queues);
  finished_jobs_ = 0;
  constexpr int kPause = 11 + kJobStateCount;
  pause_ends_.clear();
  while (rows.step()) {
    QueueState& queue = queue_states_.emplace_back();
    queue.id = rows.integer(0);
    must(queue.id == static_cast<std::int64_t>(queue_states_.size()),
         "queues are numbered without gaps");
    queue.name = rows.text(1);
    queue.paused = rows.integer(2) != 0;
    load_pause(queue, rows.text(kPause));
    if (!rows.is_null(3)) queue.retention_completed = Duration(rows.integer(3));
    if (!rows.is_null(4)) queue.retention_dead = Duration(rows.integer(4));
    queue.job_counts.enqueued = rows.integer(5);
    queue.job_counts.pruned = rows.integer(6);
    queue.job_counts.expired = rows.integer(7);
    for (int i = 0; i < kJobStateCount; ++i)
      queue.job_counts.counts[static_cast<std::size_t>(i)] = rows.integer(8 + i);
    constexpr int kEmpty = 8 + kJobStateCount;
    if (!rows.is_null(kEmpty)) queue.empty_since = WallTime::from_us(rows.integer(kEmpty));
    queue.empty_at = rows.integer(kEmpty + 1);
    queue.removed = rows.integer(kEmpty + 2) != 0;
    for (const JobState s : {JobState::completed, JobState::cancelled, JobState::dead})
      finished_jobs_ += queue.job_counts[s];
    finished_jobs_ += queue.job_counts.expired;
    queues_by_name_.emplace(queue.name, &queue);
    queues_by_id_.emplace(queue.id, &queue);
  }
}

// Every lease starts again: while no server was running, no worker could renew.
void SqlStore::load_leases(Instant now) {
  load_allowance(now);
  {
    Statement rows(db_, queries::leases::load_grants);
    while (rows.step()) {
      grants_.emplace(rows.integer(0), std::make_unique<Grant>(
                                           Grant{.token = rows.integer(0),
                                                 .worker = std::string(rows.text(1)),
                                                 .claimed_at = WallTime::from_us(rows.integer(2)),
                                                 .claimed_instant = now}));
      Grant& grant = *grants_.at(rows.integer(0));
      grant.shown = std::make_shared<RunningGrant>(RunningGrant{grant.worker, grant.claimed_at});
    }
  }
  std::vector<RunningJob> running;
  Statement rows(db_, queries::leases::load_running);
  while (rows.step()) {
    const JobId id = rows.integer(0);
    Lease lease;
    lease.token = rows.integer(1);
    lease.grant = grants_.at(rows.integer(2)).get();
    ++lease.grant->remaining;
    lease.length = Duration(rows.integer(3));
    // Renewals are not on disk, so every lease counts as renewed.
    lease.kept = std::max(lease.length, Duration(rows.integer(20)));
    lease.expires_at = now + lease.kept;
    lease.version = rows.integer(4);
    lease.cancel_requested = rows.integer(5) != 0;
    lease.cancel_reason = rows.text(6);
    lease.noted = rows.integer(7) != 0;
    lease.queue = &queue_by_id(rows.integer(8));
    lease.kind = static_cast<std::int32_t>(rows.integer(9));
    lease.priority = static_cast<int>(rows.integer(10));
    lease.run_at = WallTime::from_us(rows.integer(11));
    lease.attempt = static_cast<int>(rows.integer(12)) + 1;
    lease.max_attempts = static_cast<int>(rows.integer(13));
    // Extras written under a lease are recorded in the job's row only when the lease ends.
    lease.flags = static_cast<int>(rows.integer(14)) | (rows.integer(16) != 0 ? kFlagExtras : 0) |
                  (rows.integer(18) != 0 ? kFlagMemos : 0);
    lease.timeout = rows.is_null(15) ? kForever : Duration(rows.integer(15));
    lease.session = rows.integer(17);
    if (!rows.is_null(19) && !MS_MUTANT(running_keys_not_kept)) {
      lease.limit_key = &limit_key_of(*lease.queue, rows.text(19));
      ++lease.limit_key->running;
    }
    must((lease.session != 0) == ((lease.flags & kFlagSession) != 0),
         "the session of a running job is there");
    lease_order_.emplace(lease.expires_at, id);
    running.push_back({id, lease.token, lease.queue->id, lease.kind, lease.grant->shown});
    must(leases_.emplace(id, std::move(lease)).second, "a job has at most one lease");
  }
  running_.replace(std::move(running));
  for (QueueState& queue : queue_states_) {
    if (!queue.limits.costs.empty() && !MS_MUTANT(costs_not_kept)) count_costs(queue);
  }
}

// Loads the available jobs, and the jobs that wait in sessions. Reads only blocks of ids with live
// jobs, so that a long history costs nothing.
void SqlStore::load_live_jobs() {
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;  // of blocks, half open
  live_jobs_ = 0;
  session_queues_.clear();
  {
    Statement blocks(db_, queries::queues::live_blocks);
    while (blocks.step()) {
      const std::int64_t block = blocks.integer(0);
      live_blocks_.emplace(block, blocks.integer(1));
      live_jobs_ += blocks.integer(1);
      if (!ranges.empty() && ranges.back().second == block) {
        ++ranges.back().second;
      } else {
        ranges.emplace_back(block, block + 1);
      }
    }
  }
  Statement jobs(db_, queries::jobs::load_waiting);
  for (const auto& [first, last] : ranges) {
    jobs.bind(first * kBlockIds, last * kBlockIds);
    while (jobs.step()) {
      const JobId id = jobs.integer(0);
      if (leases_.contains(id)) continue;
      QueueState& queue = queue_by_id(jobs.integer(1));
      if (jobs.integer(8) == 0) {
        load_waiting(id, queue);
        continue;
      }
      const auto kind = static_cast<std::int32_t>(jobs.integer(2));
      ReadyKey key(static_cast<int>(jobs.integer(3)), WallTime::from_us(jobs.integer(4)), id);
      if (!jobs.is_null(7)) {
        add_to_key(limit_key_of(queue, jobs.text(7)), kind, key);
        continue;
      }
      note_work(queue);
      ReadyQueue& line = queue.ready[kind];
      line.emplace_hint(line.end(), key.set_fresh(jobs.integer(5) != 0));
      if ((jobs.integer(6) & kFlagSession) != 0) queue.ready_sessions.emplace(key, kind);
    }
  }
}

}  // namespace mainspring::sql

namespace mainspring {

std::unique_ptr<Store> open_sql_store(SqlStoreOptions options, std::unique_ptr<sql::Disk> disk,
                                      Now now, Log& log) {
  auto store = std::make_unique<sql::SqlStore>(std::move(options), std::move(disk), log);
  store->open(now);
  return store;
}

}  // namespace mainspring
