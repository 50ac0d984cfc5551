// Whose turn it is in a session, and who waits for it.
//
//   Session::turn    one job: available, running, scheduled, retryable; or `waiting`, while the
//                    session is held and nothing but the holder's claim is missing
//   session_lines_   the others, all `waiting`; in memory only: their rows are what says it
//
// Jobs that an operation ended leave their sessions behind it (settle_sessions), so that of many
// that end at once none is begun that ends too.
#include <fmt/format.h>

#include "base/assert.h"
#include "base/mutant.h"
#include "store_sqlite/store_impl.h"

namespace mainspring::sqlite {

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
