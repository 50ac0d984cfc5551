// Loads and writes sessions: the rows with data that cannot be derived from jobs.
//
// An operation changes sessions in memory. The row of a held or stopped session, or of one with a
// state, is written before the commit, once for all operations. For any other session the row only
// records its existence and id. Its number of live jobs and its head also follow from the jobs'
// rows (session_rows.h), so this row may be out of date until the session is evicted or the store
// closes. Sessions that a batch used stay in memory up to a limit. The row of an empty session is
// removed when it is evicted.
#include "sql_store/session_rows.h"

#include <fmt/format.h>

#include "base/assert.h"
#include "base/mutant.h"
#include "queries_data.h"  // generated from sql/queries
#include "sql_store/store_impl.h"

namespace mainspring::sql {

SessionStatements::SessionStatements(Connection& db)
    : by_key(db, queries::sessions::by_key),
      by_id(db, queries::sessions::by_id),
      insert(db, queries::sessions::insert),
      update(db, queries::sessions::update),
      remove(db, queries::sessions::remove),
      state(db, queries::sessions::state),
      upsert_state(db, queries::sessions::upsert_state),
      delete_state(db, queries::sessions::delete_state),
      forgotten(db, queries::sessions::forgotten),
      first_forgotten(db, queries::sessions::first_forgotten),
      key_of_job(db, queries::jobs::select_session),
      of_waiting(db, queries::sessions::of_waiting) {}

// -- in memory ------------------------------------------------------------------------------------

Session& SqlStore::keep_session(std::unique_ptr<Session> session) {
  Session& kept = *session;
  sessions_by_key_.emplace(std::pair(kept.queue->id, std::string_view(kept.key)), &kept);
  sessions_.emplace(kept.id, std::move(session));
  list_session(kept);
  return kept;
}

void SqlStore::list_session(Session& session) {
  if (session.listed) return;
  session.listed = true;
  batch_sessions_.push_back(&session);
}

void SqlStore::change_session(Session& session) {
  begin_write();
  session.changed = true;
  session.changed_at = now_.wall;
  sessions_touched_ = true;
  list_session(session);
}

// The session that the statement finds; nullptr = none.
Session* SqlStore::load_session(Statement& row, QueueState* queue) {
  if (!row.step()) return nullptr;
  auto session = std::make_unique<Session>();
  session->id = row.integer(0);
  session->queue = queue != nullptr ? queue : &queue_by_id(row.integer(1));
  session->key = row.text(2);
  session->jobs = row.integer(3);
  session->head = row.integer(4);
  session->stop = row.one_of(5, SessionStop::parked);
  session->stopped_by = row.integer(6);
  session->worker = row.text(7);
  session->token = row.integer(8);
  session->lease = session->kept = Duration(row.integer(9));
  session->state_bytes = row.integer(10);
  session->changed_at = WallTime::from_us(row.integer(11));
  session->stored = true;
  session->row_adds_nothing = session->adds_nothing();
  return &keep_session(std::move(session));
}

Session* SqlStore::find_session(QueueState& queue, std::string_view key) {
  const auto found = sessions_by_key_.find({queue.id, key});
  if (found != sessions_by_key_.end()) {
    found->second->used = true;
    return found->second->lives() ? found->second : nullptr;
  }
  Statement& row = session_sql_->by_key.bind(queue.id, key);
  ResetGuard guard(row);
  return load_session(row, &queue);
}

Session* SqlStore::find_session(const SessionKey& key) {
  QueueState* queue = find_queue(key.queue);
  return queue == nullptr ? nullptr : find_session(*queue, key.key);
}

Session& SqlStore::session_of(QueueState& queue, std::string_view key) {
  if (Session* session = find_session(queue, key)) return *session;
  const auto gone = sessions_by_key_.find({queue.id, key});  // removed in this batch: reuse its
                                                             // object
  if (gone != sessions_by_key_.end()) return *gone->second;
  auto session = std::make_unique<Session>();
  session->id = next_session_++;
  marks_touched_ = true;
  session->queue = &queue;
  session->key = key;
  return keep_session(std::move(session));
}

Session& SqlStore::session_by_id(std::int64_t id) {
  const auto found = sessions_.find(id);
  if (found != sessions_.end()) return *found->second;
  Statement& row = session_sql_->by_id.bind(id);
  ResetGuard guard(row);
  Session* session = load_session(row, nullptr);
  if (session != nullptr) return *session;
  throw damaged(fmt::format("the store is damaged: session {} is missing", id));
}

std::string SqlStore::session_key_of_job(JobId id) {
  Statement& row = session_sql_->key_of_job.bind(id);
  ResetGuard guard(row);
  return row.step() ? std::string(row.text(0)) : "";
}

Session& SqlStore::session_of_job(JobId id, QueueState& queue) {
  if (Session* session = find_session(queue, session_key_of_job(id))) return *session;
  throw damaged(fmt::format("the store is damaged: the session of job {} is missing", id));
}

void SqlStore::forget_session(const Session& session) {
  sessions_by_key_.erase({session.queue->id, session.key});
  sessions_.erase(session.id);
}

// -- their rows -----------------------------------------------------------------------------------

void SqlStore::write_session(Session& session) {
  const Session& s = session;
  const auto worker = Statement::text_or_null(s.worker);
  if (!s.lives()) {
    if (s.stored) session_sql_->remove.bind(s.id).run();
  } else if (s.stored) {
    session_sql_->update
        .bind(s.id, s.jobs, s.head, static_cast<int>(s.stop), s.stopped_by, worker, s.token,
              s.kept.count(), s.state_bytes, s.changed_at.us())
        .run();
  } else {
    session_sql_->insert
        .bind(s.id, s.queue->id, s.key, s.jobs, s.head, static_cast<int>(s.stop), s.stopped_by,
              worker, s.token, s.kept.count(), s.state_bytes, s.changed_at.us())
        .run();
  }
  session.stored = s.lives();
  session.row_adds_nothing = s.adds_nothing();
  session.lags = false;
}

void SqlStore::write_sessions() {
  for (Session* session : batch_sessions_) {
    if (!std::exchange(session->changed, false)) continue;
    if (!session->stored || !session->row_adds_nothing || !session->adds_nothing()) {
      write_session(*session);
      continue;
    }
    session->lags = true;
    if (std::exchange(sessions_lag_, true)) continue;
    if (!MS_MUTANT(lag_of_sessions_not_marked)) marks_touched_ = true;
  }
}

// Evicts the oldest sessions in memory, except those used since the last scan.
void SqlStore::evict_sessions() {
  for (auto looks = kept_sessions_.size(); looks > 0; --looks) {
    if (kept_sessions_.size() <= options_.kept_sessions) return;
    const auto found = sessions_.find(kept_sessions_.front());
    kept_sessions_.pop_front();
    if (found == sessions_.end()) continue;
    Session& session = *found->second;
    if (session.listed || std::exchange(session.used, false)) {
      kept_sessions_.push_back(session.id);
    } else if (session.held() && !MS_MUTANT(held_session_forgotten)) {
      session.kept_in_memory = false;  // it stays, and returns here after its release
    } else {
      if (session.lags && !MS_MUTANT(evicted_session_not_written)) write_session(session);
      forget_session(session);
    }
  }
}

// Called after a batch.
void SqlStore::forget_sessions() {
  for (Session* session : batch_sessions_) {
    session->listed = session->gained = false;
    if (!session->lives() && !session->stored) {
      forget_session(*session);
    } else if (!session->kept_in_memory) {
      session->kept_in_memory = true;
      kept_sessions_.push_back(session->id);
    }
  }
  batch_sessions_.clear();
}

// So that the next start need not read the jobs. If this fails, the next start reads them.
void SqlStore::close_sessions() {
  const bool loaded = loaded_ || MS_MUTANT(unread_sessions_written);
  const bool known = loaded && !failed_ && moved_to_.empty();
  if (!sessions_lag_ || !known || !options_.close_in_order) return;
  try {
    begin_write();
    for (const auto& [id, session] : sessions_) {
      if (session->lags) write_session(*session);
    }
    sessions_lag_ = false;
    marks_touched_ = true;
    write_job_counts();
    disk_->commit();
  } catch (const Moved&) {
  } catch (const DiskError& error) {
    log_.info("sessions are read from their jobs at the next start", {{"error", error.message}});
  }
}

// Loads held sessions; each lease starts again. Also loads sessions whose rows are out of date.
void SqlStore::load_sessions(Instant now) {
  sessions_by_key_.clear();
  sessions_.clear();
  hold_ends_.clear();
  batch_sessions_.clear();
  kept_sessions_.clear();
  {
    Statement rows(db_, queries::sessions::load_held);
    while (load_session(rows, nullptr) != nullptr) {
    }
  }
  for (Session* session : batch_sessions_) {
    session->ends = now + std::max(session->kept, restart_allowance_);
    hold_ends_.emplace(session->ends, session->id);
    if (session->head == 0 || leases_.contains(session->head)) continue;
    const auto hot = load_hot(session->head);
    session->ready = hot && hot->state == JobState::waiting;
  }
  sessions_lag_ = rows_of_sessions_lag(db_);
  if (sessions_lag_) load_lagging_sessions();
  forget_sessions();
}

void SqlStore::load_lagging_sessions() {
  const auto jobs = sessions_by_jobs(db_);
  std::vector<std::pair<std::int64_t, JobsOfSession>> lagging;
  {
    Statement rows(db_, queries::sessions::load_unheld);
    while (rows.step()) {
      const auto found = jobs.find(rows.integer(0));
      const JobsOfSession real = found == jobs.end() ? JobsOfSession{} : found->second;
      if (real.jobs != rows.integer(1) || real.head != rows.integer(2))
        lagging.emplace_back(rows.integer(0), real);
    }
  }
  for (const auto& [id, real] : lagging) {
    Session& session = session_by_id(id);
    session.jobs = real.jobs;
    session.head = real.head;
    session.lags = true;
  }
}

// -- data derived from jobs -----------------------------------------------------------------------

bool rows_of_sessions_lag(Connection& db) {
  return db.query_int(queries::sessions::rows_lag) != 0;
}

std::unordered_map<std::int64_t, JobsOfSession> sessions_by_jobs(Connection& db) {
  std::unordered_map<std::int64_t, JobsOfSession> out;
  Statement rows(db, queries::sessions::live_jobs);
  rows.bind(kBlockBase, kBlockIds);
  while (rows.step()) {
    JobsOfSession& session = out[rows.integer(0)];
    ++session.jobs;
    const bool waits = rows.integer(2) == static_cast<int>(JobState::waiting);
    if (!waits) session.head = rows.integer(1);
  }
  return out;
}

void show_sessions_by_jobs(Connection& db) {
  Statement(db, queries::sessions::hide_real).run();
  if (!rows_of_sessions_lag(db)) return;
  Statement(db, queries::sessions::make_jobs_of).run();
  Statement(db, queries::sessions::delete_jobs_of).run();
  {
    Statement insert(db, queries::sessions::insert_jobs_of);
    for (const auto& [id, real] : sessions_by_jobs(db)) insert.bind(id, real.jobs, real.head).run();
  }
  Statement(db, queries::sessions::show_real).run();
}

}  // namespace mainspring::sql
