// The head of each session, and the jobs that wait for it.
//
//   Session::head    one job: available, running, scheduled, retryable; or `waiting`, while the
//                    session is held and the job only lacks the holder's claim
//   session_queues_   the other jobs, all `waiting`; in memory only, derived from the jobs' rows
//
// Jobs that an operation ended leave their sessions after the operation (settle_sessions). So if
// one operation ends several jobs of a session, none of them is started in between.
#include <fmt/format.h>

#include "base/assert.h"
#include "base/mutant.h"
#include "sql_store/store_impl.h"

namespace mainspring::sql {

// -- heads ----------------------------------------------------------------------------------------

JobState SqlStore::state_as_head(Session& session, JobState wanted) {
  session.ready = false;
  const bool open = !session.held() || MS_MUTANT(held_session_open_to_all);
  if (wanted != JobState::available || open) return wanted;
  session.ready = session.gained = true;
  list_session(session);
  return JobState::waiting;
}

JobState SqlStore::state_in_session(const HotRow& hot, JobState wanted) {
  if ((hot.flags & kFlagSession) == 0) return wanted;
  Session& session = session_of_job(hot.id, *hot.queue);
  return session.head == hot.id ? state_as_head(session, wanted) : JobState::waiting;
}

JobState SqlStore::join_session(Session& session, JobId id, JobState wanted) {
  change_session(session);
  ++session.jobs;
  const bool unblocks = session.stop == SessionStop::blocked && session.stopped_by == id;
  const bool free = session.head == 0 && !session.stopped();
  if (!free && !unblocks && !MS_MUTANT(session_two_heads)) {
    std::set<JobId>& waiting = session_queues_[session.id];
    waiting.insert(waiting.end(), id);  // new ones are the last
    return JobState::waiting;
  }
  session.stop = SessionStop::none;
  session.stopped_by = 0;
  session.head = id;
  return state_as_head(session, wanted);
}

// 0 = no job waits.
JobId SqlStore::first_waiting(const Session& session) {
  const auto waiting = session_queues_.find(session.id);
  if (waiting == session_queues_.end()) return 0;
  if (MS_MUTANT(session_order_by_run_at)) {
    const auto run_at = [this](JobId id) { return load_hot(id)->run_at; };
    return *std::min_element(waiting->second.begin(), waiting->second.end(),
                             [&](JobId a, JobId b) { return run_at(a) < run_at(b); });
  }
  return *waiting->second.begin();
}

void SqlStore::leave_ready_queue(const Session& session, JobId id) {
  const auto waiting = session_queues_.find(session.id);
  const bool first = waiting != session_queues_.end() && *waiting->second.begin() == id;
  if (first) waiting->second.erase(waiting->second.begin());
  MS_ASSERT(first || (waiting != session_queues_.end() && waiting->second.erase(id) == 1),
            "a job that is not the head of its session waits in it");
  if (waiting->second.empty()) session_queues_.erase(waiting);
}

// At open: a job that waits in a session, or is the head of a held session.
void SqlStore::load_waiting(JobId id, const QueueState& queue) {
  if (MS_MUTANT(session_lines_not_read)) return;
  Statement& row = session_sql_->of_waiting.bind(id, queue.id);
  ResetGuard guard(row);
  if (!row.step()) return;
  std::set<JobId>& waiting = session_queues_[row.integer(0)];
  waiting.insert(waiting.end(), id);
}

void SqlStore::pass_head(Session& session) {
  if (session.head != 0 || session.stopped() || session.jobs == 0) return;
  if (MS_MUTANT(session_head_not_passed)) return;
  const JobId id = first_waiting(session);
  auto hot = id == 0 ? std::nullopt : load_hot(id);
  if (!hot || hot->state != JobState::waiting) {
    throw damaged(fmt::format("the store is damaged: no job waits in session {}", session.id));
  }
  leave_ready_queue(session, id);
  session.head = id;
  count(*hot->queue, hot->state, hot->flags, -1);
  hot->state =
      state_as_head(session, hot->run_at > now_.wall ? JobState::scheduled : JobState::available);
  ++hot->version;
  save_hot(*hot);
  enter(*hot);
  count(*hot->queue, hot->state, hot->flags, 1);
}

void SqlStore::settle_sessions() {
  if (left_sessions_.empty()) return;
  std::vector<Session*> left;
  left.reserve(left_sessions_.size());
  for (const EndedInSession& job : left_sessions_) {
    Session& session =
        job.session != 0 ? session_by_id(job.session) : session_of_job(job.id, *job.queue);
    change_session(session);
    --session.jobs;
    left.push_back(&session);
    if (session.head != job.id) {
      leave_ready_queue(session, job.id);
      continue;
    }
    session.head = 0;
    session.ready = false;
    const bool stops = job.state == JobState::dead && (job.flags & (kFlagBlocks | kFlagParks)) != 0;
    if (!stops || MS_MUTANT(dead_job_stops_nothing)) continue;
    session.stop = (job.flags & kFlagBlocks) != 0 ? SessionStop::blocked : SessionStop::parked;
    session.stopped_by = job.id;
  }
  left_sessions_.clear();
  for (Session* session : left) pass_head(*session);
}

// Moves the head from one state to the other.
void SqlStore::move_head(Session& session, JobState from, JobState to) {
  if (session.head == 0 || leases_.contains(session.head)) return;
  auto hot = load_hot(session.head);
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

// -- waiting jobs ---------------------------------------------------------------------------------

void SqlStore::name_lines(Effects& effects) {
  for (const Session* session : batch_sessions_) {
    if (session->gained && session->held() && session->ready && !session->queue->is_closed())
      effects.available.push_back(session_queue({session->queue->name, session->key}));
  }
}

bool SqlStore::queue_has_available(std::string_view line) const {
  const QueueState* queue = find_queue(base_queue_of(line));
  if (queue == nullptr || queue->is_closed()) return false;
  const auto key = parse_session_queue(line);
  if (!key) return !queue->ready_sessions.empty();
  const auto found = sessions_by_key_.find({queue->id, key->key});
  return found != sessions_by_key_.end() && found->second->held() && found->second->ready;
}

}  // namespace mainspring::sql
