// Holders and states of sessions, and reads of sessions.
#include "model/session.h"

#include <fmt/format.h>

#include "base/mutant.h"
#include "queries_data.h"  // generated from sql/queries
#include "sql_store/store_impl.h"

namespace mainspring::sql {
namespace {

// Expired holds that one RescueExpired ends.
constexpr int kMaxEndedHolds = 1000;
// Rows that a list of sessions reads while batches are blocked.
constexpr int kSessionRows = 201;

Error no_session(const SessionKey& key) {
  return {.code = ErrorCode::not_found,
          .message = fmt::format("session \"{}\" of queue {}: there is no such session", key.key,
                                 key.queue)};
}

}  // namespace

Error SqlStore::session_lost(const SessionKey& key) {
  return {
      .code = ErrorCode::lease_lost,
      .message = fmt::format(
          "session \"{}\" of queue {}: is not, or no longer, held with this token: accept it again",
          key.key, key.queue)};
}

Error SqlStore::too_many_held() {
  return {.code = ErrorCode::overloaded,
          .message = fmt::format("{} sessions are held: must be at most {}", kMaxHeldSessions,
                                 kMaxHeldSessions),
          .retry_after_ms = 1000};
}

// -- holding --------------------------------------------------------------------------------------

SessionGrant SqlStore::grant_of(Session& session, bool held) {
  return {.session = {session.queue->name, session.key},
          .token = session.token,
          .lease = session.ends - now_.instant,
          .state = state_of(session),
          .held = held};
}

Session* SqlStore::find_held(const SessionKey& key, Token token) {
  const QueueState* queue = find_queue(key.queue);
  if (queue == nullptr) return nullptr;
  const auto found = sessions_by_key_.find({queue->id, key.key});
  if (found == sessions_by_key_.end()) return nullptr;
  Session& session = *found->second;
  const bool holds = session.held() && session.token == token && session.ends > now_.instant;
  return holds ? &session : nullptr;
}

// The session may still be marked as held by a holder whose lease has ended.
void SqlStore::hold(Session& session, const std::string& worker, Duration lease, Token token) {
  hold_ends_.erase({session.ends, session.id});
  session.worker = worker;
  session.token = token;
  marks_touched_ = true;
  session.lease = session.kept = lease;
  session.ends = now_.instant + lease;
  hold_ends_.emplace(session.ends, session.id);
  change_session(session);
  if (!session.ready && session.head != 0 && !leases_.contains(session.head)) {
    const auto hot = load_hot(session.head);
    session.ready = hot && hot->state == JobState::available;
    if (session.ready) move_head(session, JobState::available, JobState::waiting);
  }
  session.gained = session.ready;
}

void SqlStore::end_hold(Session& session) {
  hold_ends_.erase({session.ends, session.id});
  session.worker.clear();
  session.token = 0;
  session.kept = session.lease = Duration(0);
  change_session(session);
  if (session.ready) move_head(session, JobState::waiting, JobState::available);
  session.ready = false;
}

void SqlStore::set_hold_end(Session& session, Instant ends) {
  hold_ends_.erase({session.ends, session.id});
  session.ends = ends;
  hold_ends_.emplace(session.ends, session.id);
  list_session(session);
}

void SqlStore::extend_hold(Session& session, Duration lease) {
  session.lease = lease;
  set_hold_end(session, end_of(lease));
  if (lease <= session.kept) return;
  begin_write();  // a restart must not shorten the lease
  session.kept = lease;
  session.changed = true;
}

bool SqlStore::end_holds() {
  for (int n = 0; n < kMaxEndedHolds; ++n) {
    if (hold_ends_.empty() || hold_ends_.begin()->first > now_.instant) return false;
    if (MS_MUTANT(dead_holder_keeps_session)) return false;
    end_hold(*sessions_.at(hold_ends_.begin()->second));
  }
  return true;
}

OperationResult SqlStore::operator()(const AcceptSession& op) {
  Session* session = find_session(op.session);
  if (session != nullptr && session->held() && session->ends > now_.instant) {
    if (session->worker != op.worker) {
      const std::int64_t wait_ms = (session->ends - now_.instant).count() / 1000 + 1;
      return Error{.code = ErrorCode::lease_held,
                   .message = fmt::format("session \"{}\" of queue {}: {} holds it", op.session.key,
                                          op.session.queue, session->worker),
                   .retry_after_ms = static_cast<int>(wait_ms)};
    }
    extend_hold(*session, op.lease);
    return grant_of(*session, true);
  }
  const bool one_more = session == nullptr || !session->held();
  if (one_more && hold_ends_.size() >= kMaxHeldSessions) return too_many_held();
  if (session == nullptr) session = &session_of(queue_of(op.session.queue), op.session.key);
  hold(*session, op.worker, op.lease, next_token_++);
  return grant_of(*session, false);
}

OperationResult SqlStore::operator()(const RenewSession& op) {
  Session* session = find_held(op.session, op.token);
  if (session == nullptr) return session_lost(op.session);
  extend_hold(*session, op.lease > Duration(0) ? op.lease : session->lease);
  return grant_of(*session, true);
}

OperationResult SqlStore::operator()(const ReleaseSession& op) {
  Session* session = find_held(op.session, op.token);
  if (session == nullptr) return session_lost(op.session);
  end_hold(*session);
  return Done{};
}

OperationResult SqlStore::operator()(const ResumeSession& op) {
  Session* session = op.within.has(op.session.queue) ? find_session(op.session) : nullptr;
  if (session == nullptr) return no_session(op.session);
  if (!session->stopped()) return Done{};
  change_session(*session);
  session->stop = SessionStop::none;
  session->stopped_by = 0;
  pass_head(*session);
  return Done{};
}

// -- the state ------------------------------------------------------------------------------------

OperationResult SqlStore::operator()(const PutSessionState& op) {
  if (op.state.size() > kMaxSessionStateBytes) {
    return Error{.code = ErrorCode::too_large,
                 .message = fmt::format("state has {} bytes: must be at most {}", op.state.size(),
                                        kMaxSessionStateBytes),
                 .field = "state"};
  }
  Session* session = find_session(op.session);
  if (session == nullptr) return session_lost(op.session);
  const auto lease = leases_.find(session->head);
  const bool runs = lease != leases_.end() && lease->second.token == op.token;
  if (!runs && find_held(op.session, op.token) == nullptr) return session_lost(op.session);
  set_state(*session, op.state);
  return Done{};
}

std::string SqlStore::state_of(const Session& session) {
  if (session.state_bytes == 0) return "";
  Statement& row = session_sql_->state.bind(session.id);
  ResetGuard guard(row);
  return row.step() ? std::string(row.text(0)) : "";
}

void SqlStore::set_state(Session& session, std::string_view state) {
  change_session(session);
  if (!state.empty()) {
    session_sql_->upsert_state.bind(session.id, state).run();
  } else if (session.state_bytes > 0) {
    session_sql_->delete_state.bind(session.id).run();
  }
  session.state_bytes = static_cast<std::int64_t>(state.size());
}

// Sessions with a state and nothing else.
bool SqlStore::prune_sessions(int limit) {
  write_sessions();  // so that the index contains the changes of this batch
  std::vector<std::int64_t> ids;
  {
    Statement& rows =
        session_sql_->forgotten.bind((now_.wall - options_.store.retention_dead).us(), limit);
    ResetGuard guard(rows);
    while (rows.step()) ids.push_back(rows.integer(0));
  }
  for (const std::int64_t id : ids) set_state(session_by_id(id), "");
  return static_cast<int>(ids.size()) >= limit;
}

// -- reads ----------------------------------------------------------------------------------------

SessionReads::SessionReads(Connection& db)
    : one(db, queries::sessions::one),
      of_queue(db, queries::sessions::of_queue),
      queues(db, queries::queues::names) {}

void SqlStore::publish_sessions() {
  if (republish_) {
    published_holds_.clear();
    for (const auto& [ends, id] : hold_ends_) published_holds_[id] = ends;
  }
  for (const Session* session : batch_sessions_) {
    if (session->held()) {
      published_holds_[session->id] = session->ends;
    } else {
      published_holds_.erase(session->id);
    }
  }
}

// nullopt = nothing but the row is left.
std::optional<SessionInfo> SqlStore::read_info(const Statement& row, Instant now) const {
  if (failed_) throw DiskError{DiskFault::failed, "the store failed to write before"};
  SessionInfo info{.session = {std::string(row.text(0)), std::string(row.text(1))},
                   .jobs = row.integer(2),
                   .head = row.integer(3),
                   .stop = row.one_of(4, SessionStop::parked),
                   .stopped_by = row.integer(5),
                   .worker = {},
                   .state = {},
                   .state_bytes = static_cast<std::size_t>(row.integer(9)),
                   .changed_at = WallTime::from_us(row.integer(10))};
  const auto kept = sessions_.find(row.integer(11));
  if (kept != sessions_.end() && !MS_MUTANT(lagging_session_shown)) {
    if (!kept->second->lives()) return std::nullopt;
    info.jobs = kept->second->jobs;
    info.head = kept->second->head;
    info.changed_at = kept->second->changed_at;
  }
  if (row.integer(7) == 0) return info;
  Duration left(row.integer(8));  // accepted just now and not published yet
  {
    MutexLock lock(published_mutex_);
    const auto found = published_holds_.find(row.integer(11));
    if (found != published_holds_.end()) left = found->second - now;
  }
  if (left <= Duration(0)) return info;
  info.worker = row.text(6);
  info.token = row.integer(7);
  info.expires_in = left;
  return info;
}

Result<SessionInfo> SqlStore::session(const SessionKey& session, Instant now) const {
  try {
    auto reader = take_reader();
    std::optional<SessionInfo> info;
    {
      MutexLock lock(sessions_mutex_);
      Statement& row = reader->sessions.one.bind(session.queue, session.key);
      ResetGuard guard(row);
      if (row.step()) info = read_info(row, now);
      if (info) info->state = row.text(12);
    }
    give_back(std::move(reader));
    if (info) return std::move(*info);
    return no_session(session);
  } catch (const DiskError& error) {
    return to_error(error);
  }
}

// Adds the sessions of a queue after `key`, in order. Rows of empty sessions are skipped, a bounded
// number at a time, so that batches need not wait for all of them.
void SqlStore::read_sessions(SessionReads& reads, const std::string& queue, std::string key,
                             std::size_t limit, Instant now, SessionPage& page) const {
  for (int rows = kSessionRows; rows == kSessionRows;) {
    MutexLock lock(sessions_mutex_);
    const std::string after = std::exchange(key, "");
    Statement& row = reads.of_queue.bind(queue, after, kSessionRows);
    ResetGuard guard(row);
    for (rows = 0; row.step(); ++rows) {
      auto info = read_info(row, now);
      key = row.text(1);
      if (!info) continue;
      if (page.sessions.size() == limit) {
        page.next = page.sessions.back().session;
        return;
      }
      page.sessions.push_back(*std::move(info));
    }
  }
}

Result<SessionPage> SqlStore::sessions(const std::string& queue, const SessionKey& after, int limit,
                                       Instant now) const {
  try {
    auto reader = take_reader();
    SessionPage page;
    std::vector<std::string> names{queue};
    if (queue.empty()) {
      names.clear();
      Statement& rows = reader->sessions.queues.bind(after.queue);
      ResetGuard guard(rows);
      while (rows.step()) names.emplace_back(rows.text(0));
    }
    for (const std::string& name : names) {
      if (page.next || name < after.queue) continue;
      read_sessions(reader->sessions, name, name == after.queue ? after.key : "",
                    static_cast<std::size_t>(limit), now, page);
    }
    give_back(std::move(reader));
    return page;
  } catch (const DiskError& error) {
    return to_error(error);
  }
}

}  // namespace mainspring::sql
