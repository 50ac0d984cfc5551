// Whose turn it is in a session, and who waits for it; and sessions in and out of memory.
//
//   sessions.turn    one job: available, running, scheduled, retryable; or `waiting`, while the
//                    session is held and nothing but the holder's claim is missing
//   session_lines_   the others, all `waiting`; in memory only: their rows are what says it
//
// An operation changes sessions in memory; their rows are written once for all, before the commit.
// Those that a batch was about stay in memory behind it, up to a bound.
// Jobs that it ended leave their sessions behind it (settle_sessions), so that of many that end at
// once none is begun that ends too.
#include <fmt/format.h>

#include "base/assert.h"
#include "base/mutant.h"
#include "store_sqlite/store_impl.h"

namespace mainspring::sqlite {

#define MS_SESSION_COLUMNS                                                                   \
  "SELECT id, queue, key, jobs, turn, stop, stopped_by, worker, token, lease, state_bytes, " \
  "changed_at FROM sessions "

SessionStatements::SessionStatements(Database& db)
    : by_key(db, MS_SESSION_COLUMNS "WHERE queue = ? AND key = ?"),
      by_id(db, MS_SESSION_COLUMNS "WHERE id = ?"),
      insert(db,
             "INSERT INTO sessions (id, queue, key, jobs, turn, stop, stopped_by, worker, token, "
             "lease, state_bytes, changed_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"),
      update(db,
             "UPDATE sessions SET jobs = ?2, turn = ?3, stop = ?4, stopped_by = ?5, worker = ?6, "
             "token = ?7, lease = ?8, state_bytes = ?9, changed_at = ?10 WHERE id = ?1"),
      remove(db, "DELETE FROM sessions WHERE id = ?"),
      state(db, "SELECT state FROM session_states WHERE session = ?"),
      upsert_state(db, "INSERT OR REPLACE INTO session_states (session, state) VALUES (?, ?)"),
      delete_state(db, "DELETE FROM session_states WHERE session = ?"),
      forgotten(db,
                "SELECT id FROM sessions WHERE jobs = 0 AND token = 0 AND stop = 0 AND changed_at "
                "<= ? ORDER BY changed_at LIMIT ?"),
      first_forgotten(db,
                      "SELECT changed_at FROM sessions WHERE jobs = 0 AND token = 0 AND stop = 0 "
                      "ORDER BY changed_at LIMIT 1"),
      key_of_job(db, "SELECT session FROM bodies WHERE id = ?"),
      of_waiting(db,
                 "SELECT s.id FROM bodies b CROSS JOIN sessions s ON s.queue = ?2 AND s.key = "
                 "b.session WHERE b.id = ?1 AND s.turn <> ?1") {}

// -- sessions in memory ---------------------------------------------------------------------------

Session& SqliteStore::keep_session(std::unique_ptr<Session> session) {
  Session& kept = *session;
  sessions_by_key_.emplace(std::pair(kept.queue->id, std::string_view(kept.key)), &kept);
  sessions_.emplace(kept.id, std::move(session));
  list_session(kept);
  return kept;
}

void SqliteStore::list_session(Session& session) {
  if (session.listed) return;
  session.listed = true;
  batch_sessions_.push_back(&session);
}

void SqliteStore::change_session(Session& session) {
  begin_write();
  session.changed = true;
  session.changed_at = now_.wall;
  sessions_touched_ = true;
  list_session(session);
}

// The row that the statement finds; nullptr = none.
Session* SqliteStore::load_session(Statement& row, QueueState* queue) {
  if (!row.step()) return nullptr;
  auto session = std::make_unique<Session>();
  session->id = row.integer(0);
  session->queue = queue != nullptr ? queue : &queue_by_id(row.integer(1));
  session->key = row.text(2);
  session->jobs = row.integer(3);
  session->turn = row.integer(4);
  session->stop = static_cast<SessionStop>(row.integer(5));
  session->stopped_by = row.integer(6);
  session->worker = row.text(7);
  session->token = row.integer(8);
  session->lease = session->kept = Duration(row.integer(9));
  session->state_bytes = row.integer(10);
  session->changed_at = WallTime::from_us(row.integer(11));
  session->stored = true;
  return &keep_session(std::move(session));
}

Session* SqliteStore::find_session(QueueState& queue, std::string_view key) {
  const auto found = sessions_by_key_.find({queue.id, key});
  if (found != sessions_by_key_.end()) {
    found->second->used = true;
    return found->second->lives() ? found->second : nullptr;
  }
  Statement& row = session_sql_->by_key.bind(queue.id, key);
  ResetGuard guard(row);
  return load_session(row, &queue);
}

Session* SqliteStore::find_session(const SessionKey& key) {
  QueueState* queue = find_queue(key.queue);
  return queue == nullptr ? nullptr : find_session(*queue, key.key);
}

Session& SqliteStore::session_of(QueueState& queue, std::string_view key) {
  if (Session* session = find_session(queue, key)) return *session;
  const auto gone = sessions_by_key_.find({queue.id, key});  // in this batch: it comes back
  if (gone != sessions_by_key_.end()) return *gone->second;
  auto session = std::make_unique<Session>();
  session->id = next_session_++;
  marks_touched_ = true;
  session->queue = &queue;
  session->key = key;
  return keep_session(std::move(session));
}

Session& SqliteStore::session_by_id(std::int64_t id) {
  const auto found = sessions_.find(id);
  if (found != sessions_.end()) return *found->second;
  Statement& row = session_sql_->by_id.bind(id);
  ResetGuard guard(row);
  Session* session = load_session(row, nullptr);
  if (session != nullptr) return *session;
  throw SqlError{SQLITE_CORRUPT, fmt::format("the store is damaged: session {} is not there", id)};
}

std::string SqliteStore::session_key_of_job(JobId id) {
  Statement& row = session_sql_->key_of_job.bind(id);
  ResetGuard guard(row);
  return row.step() ? std::string(row.text(0)) : "";
}

Session& SqliteStore::session_of_job(JobId id, QueueState& queue) {
  if (Session* session = find_session(queue, session_key_of_job(id))) return *session;
  throw SqlError{SQLITE_CORRUPT,
                 fmt::format("the store is damaged: the session of job {} is not there", id)};
}

void SqliteStore::write_sessions() {
  for (Session* session : batch_sessions_) {
    if (!session->changed) continue;
    session->changed = false;
    const Session& s = *session;
    const auto worker = Statement::text_or_null(s.worker);
    if (!s.lives()) {
      if (s.stored) session_sql_->remove.bind(s.id).run();
    } else if (s.stored) {
      session_sql_->update
          .bind(s.id, s.jobs, s.turn, static_cast<int>(s.stop), s.stopped_by, worker, s.token,
                s.kept.count(), s.state_bytes, s.changed_at.us())
          .run();
    } else {
      session_sql_->insert
          .bind(s.id, s.queue->id, s.key, s.jobs, s.turn, static_cast<int>(s.stop), s.stopped_by,
                worker, s.token, s.kept.count(), s.state_bytes, s.changed_at.us())
          .run();
    }
    session->stored = s.lives();
  }
}

void SqliteStore::forget_sessions() {
  for (Session* session : batch_sessions_) {
    session->listed = session->gained = false;
    if (!session->lives()) {
      forget_session(*session);
    } else if (!session->kept_in_memory) {
      session->kept_in_memory = true;
      kept_sessions_.push_back(session->id);
    }
  }
  batch_sessions_.clear();
  // The longest in memory goes first, unless it was used since it was last looked at.
  while (kept_sessions_.size() > options_.kept_sessions) {
    const auto found = sessions_.find(kept_sessions_.front());
    kept_sessions_.pop_front();
    if (found == sessions_.end()) continue;
    Session& session = *found->second;
    if (std::exchange(session.used, false)) {
      kept_sessions_.push_back(session.id);
    } else if (session.held() && !MS_MUTANT(held_session_forgotten)) {
      session.kept_in_memory = false;  // it stays, and comes back here when it is let go
    } else {
      forget_session(session);
    }
  }
}

void SqliteStore::forget_session(const Session& session) {
  sessions_by_key_.erase({session.queue->id, session.key});
  sessions_.erase(session.id);
}

// Those that are held; each lease begins anew.
void SqliteStore::load_sessions(Instant now) {
  sessions_by_key_.clear();
  sessions_.clear();
  hold_ends_.clear();
  batch_sessions_.clear();
  kept_sessions_.clear();
  {
    Statement rows(*db_, MS_SESSION_COLUMNS "WHERE token <> 0");
    while (load_session(rows, nullptr) != nullptr) {
    }
  }
  for (Session* session : batch_sessions_) {
    session->ends = now + session->kept;
    hold_ends_.emplace(session->ends, session->id);
    if (session->turn == 0 || leases_.contains(session->turn)) continue;
    const auto hot = load_hot(session->turn);
    session->ready = hot && hot->state == JobState::waiting;
  }
  forget_sessions();
}

// -- turns ----------------------------------------------------------------------------------------

JobState SqliteStore::state_in_turn(Session& session, JobState wanted) {
  session.ready = false;
  const bool open = !session.held() || MS_MUTANT(held_session_open_to_all);
  if (wanted != JobState::available || open) return wanted;
  session.ready = session.gained = true;
  list_session(session);
  return JobState::waiting;
}

JobState SqliteStore::state_in_session(const HotRow& hot, JobState wanted) {
  if ((hot.flags & kFlagSession) == 0) return wanted;
  Session& session = session_of_job(hot.id, *hot.queue);
  return session.turn == hot.id ? state_in_turn(session, wanted) : JobState::waiting;
}

JobState SqliteStore::join_session(Session& session, JobId id, JobState wanted) {
  change_session(session);
  ++session.jobs;
  const bool unblocks = session.stop == SessionStop::blocked && session.stopped_by == id;
  const bool free = session.turn == 0 && !session.stopped();
  if (!free && !unblocks && !MS_MUTANT(session_two_turns)) {
    std::set<JobId>& line = session_lines_[session.id];
    line.insert(line.end(), id);  // new ones are the last
    return JobState::waiting;
  }
  session.stop = SessionStop::none;
  session.stopped_by = 0;
  session.turn = id;
  return state_in_turn(session, wanted);
}

// 0 = nobody waits.
JobId SqliteStore::first_waiting(const Session& session) {
  const auto line = session_lines_.find(session.id);
  if (line == session_lines_.end()) return 0;
  if (MS_MUTANT(session_order_by_run_at)) {
    const auto run_at = [this](JobId id) { return load_hot(id)->run_at; };
    return *std::min_element(line->second.begin(), line->second.end(),
                             [&](JobId a, JobId b) { return run_at(a) < run_at(b); });
  }
  return *line->second.begin();
}

void SqliteStore::leave_line(const Session& session, JobId id) {
  const auto line = session_lines_.find(session.id);
  const bool first = line != session_lines_.end() && *line->second.begin() == id;
  if (first) line->second.erase(line->second.begin());
  MS_ASSERT(first || (line != session_lines_.end() && line->second.erase(id) == 1),
            "a job without the turn of its session waits for it");
  if (line->second.empty()) session_lines_.erase(line);
}

// At open: a job that waits in a session, or has the turn while somebody holds it.
void SqliteStore::load_waiting(JobId id, const QueueState& queue) {
  if (MS_MUTANT(session_lines_not_read)) return;
  Statement& row = session_sql_->of_waiting.bind(id, queue.id);
  ResetGuard guard(row);
  if (!row.step()) return;
  std::set<JobId>& line = session_lines_[row.integer(0)];
  line.insert(line.end(), id);
}

void SqliteStore::pass_turn(Session& session) {
  if (session.turn != 0 || session.stopped() || session.jobs == 0) return;
  if (MS_MUTANT(session_turn_not_passed)) return;
  const JobId id = first_waiting(session);
  auto hot = id == 0 ? std::nullopt : load_hot(id);
  if (!hot || hot->state != JobState::waiting) {
    throw SqlError{SQLITE_CORRUPT,
                   fmt::format("the store is damaged: nobody waits in session {}", session.id)};
  }
  leave_line(session, id);
  session.turn = id;
  count(*hot->queue, hot->state, hot->flags, -1);
  hot->state =
      state_in_turn(session, hot->run_at > now_.wall ? JobState::scheduled : JobState::available);
  ++hot->version;
  save_hot(*hot);
  enter(*hot);
  count(*hot->queue, hot->state, hot->flags, 1);
}

void SqliteStore::settle_sessions() {
  if (left_sessions_.empty()) return;
  std::vector<Session*> left;
  left.reserve(left_sessions_.size());
  for (const EndedInSession& job : left_sessions_) {
    Session& session =
        job.session != 0 ? session_by_id(job.session) : session_of_job(job.id, *job.queue);
    change_session(session);
    --session.jobs;
    left.push_back(&session);
    if (session.turn != job.id) {
      leave_line(session, job.id);
      continue;
    }
    session.turn = 0;
    session.ready = false;
    const bool stops = job.state == JobState::dead && (job.flags & (kFlagBlocks | kFlagParks)) != 0;
    if (!stops || MS_MUTANT(dead_job_stops_nothing)) continue;
    session.stop = (job.flags & kFlagBlocks) != 0 ? SessionStop::blocked : SessionStop::parked;
    session.stopped_by = job.id;
  }
  left_sessions_.clear();
  for (Session* session : left) pass_turn(*session);
}

// The job with the turn, from the one state into the other.
void SqliteStore::move_turn(Session& session, JobState from, JobState to) {
  if (session.turn == 0 || leases_.contains(session.turn)) return;
  auto hot = load_hot(session.turn);
  if (!hot || hot->state != from) return;
  begin_write();
  leave(*hot);
  count(*hot->queue, hot->state, hot->flags, -1);
  hot->state = to;
  ++hot->version;
  save_hot(*hot);
  enter(*hot);
  count(*hot->queue, hot->state, hot->flags, 1);
}

// -- lines ----------------------------------------------------------------------------------------

void SqliteStore::name_lines(Effects& effects) {
  for (const Session* session : batch_sessions_) {
    if (session->gained && session->held() && session->ready && !session->queue->is_closed())
      effects.available.push_back(session_line({session->queue->name, session->key}));
  }
}

bool SqliteStore::line_has_available(std::string_view line) const {
  const QueueState* queue = find_queue(queue_of_line(line));
  if (queue == nullptr || queue->is_closed()) return false;
  const auto key = parse_session_line(line);
  if (!key) return !queue->ready_sessions.empty();
  const auto found = sessions_by_key_.find({queue->id, key->key});
  return found != sessions_by_key_.end() && found->second->held() && found->second->ready;
}

}  // namespace mainspring::sqlite
