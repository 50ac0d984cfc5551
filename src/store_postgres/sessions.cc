// Holders and states of sessions, and reads of sessions.
#include <fmt/format.h>

#include <algorithm>

#include "base/mutant.h"
#include "store_postgres/fast_path.h"
#include "store_postgres/reader.h"

namespace mainspring::pg {
namespace {

// Accepts between two counts: each node may exceed the limit by this number.
constexpr std::int64_t kAcceptedPerCount = 1000;
// Sessions whose job another claim took at the same time.
constexpr int kMaxAcceptTries = 32;
constexpr std::int64_t kLookAgain = 1'000'000;  // microseconds
// Expired holds that one step ends; the step's limit counts jobs.
constexpr std::int64_t kRescuedAtOnce = 1000;

Error lost_session(const SessionKey& session) {
  return {.code = ErrorCode::lease_lost,
          .message = fmt::format("session \"{}\" of queue {}: is not, or no longer, held with that "
                                 "token",
                                 session.key, session.queue)};
}

Error too_many_held() {
  return {.code = ErrorCode::overloaded,
          .message = fmt::format("{} sessions are held, which is the limit", kMaxHeldSessions),
          .retry_after_ms = 1000};
}

Error unknown_session(const SessionKey& session) {
  return {.code = ErrorCode::not_found,
          .message = fmt::format("session \"{}\" of queue {}: there is no such session",
                                 session.key, session.queue)};
}

SessionInfo shown_session(const Rows& rows, int row) {
  SessionInfo info{.session = {rows.string(row, 0), rows.string(row, 1)}};
  info.jobs = rows.integer(row, 2);
  info.head = rows.integer(row, 3);
  info.stop = static_cast<SessionStop>(rows.integer(row, 4));
  info.stopped_by = rows.integer(row, 5);
  info.worker = rows.string(row, 6);
  info.token = rows.integer(row, 7);
  info.expires_in = Duration(rows.integer(row, 8));
  info.state_bytes = static_cast<std::size_t>(rows.integer(row, 9));
  info.changed_at = WallTime::from_us(rows.integer(row, 10));
  return info;
}

}  // namespace

bool PostgresStore::holds(const LoadedSession& session, Token token) const {
  return token != 0 && session.row.token == token && session.row.lease_until > lease_now();
}

LoadedSession* PostgresStore::find_session(const SessionKey& key) {
  const QueueInfo* queue = find_queue(key.queue);
  return queue == nullptr ? nullptr : &take_session({queue->id, key.key});
}

SessionGrant PostgresStore::grant(const SessionKey& key, LoadedSession& session, bool held) {
  SessionGrant out{.session = key,
                   .token = session.row.token,
                   .lease = Duration(session.row.lease_until - lease_now()),
                   .state = session.state.value_or(""),
                   .held = held};
  if (session.state || session.row.state_bytes == 0) return out;
  const Rows rows = ask(session_sql_.read_state, params(session.id));
  if (!rows.empty()) out.state = rows.string(0, 0);
  return out;
}

bool PostgresStore::has_room_for_hold() {
  if (hold_room_ > 0) {
    --hold_room_;
    return true;
  }
  flush();
  constexpr auto kMost = static_cast<std::int64_t>(kMaxHeldSessions);
  const std::int64_t held = ask(session_sql_.count_held, {}).integer(0, 0);
  if (held >= kMost) return false;
  hold_room_ = std::min(kAcceptedPerCount, kMost - held) - 1;
  return true;
}

Token PostgresStore::new_session_token() {
  return ask(session_sql_.next_token, {}).integer(0, 0);
}

void PostgresStore::hold_session(LoadedSession& session, Token token, const std::string& worker,
                                 Duration lease) {
  SessionRow& row = touch(session);
  row.token = token;
  row.worker = worker;
  row.lease = row.kept = lease.count();
  row.lease_until = row.look_at = lease_now() + row.lease;
  foreign_lease_ = foreign_lease_ == 0 ? row.look_at : std::min(foreign_lease_, row.look_at);
}

// For a session that becomes held: no other worker claims its head.
void PostgresStore::stop_head(LoadedSession& session) {
  const std::string line = session_queue({queue_name(session.name.queue), session.name.key});
  LoadedJob* held = session.row.head == 0 ? nullptr : job(session.row.head);
  if (held != nullptr && held->row.state == JobState::available)
    set_waiting(*held, JobState::waiting, held->row.run_at);
  const bool waits = held != nullptr && held->row.state == JobState::waiting;
  waits ? gain_queue(line) : dry_line(line);
}

// A length longer than any before is committed durably, for the time when no node is running.
void PostgresStore::renew_hold(LoadedSession& session, Duration lease) {
  SessionRow& row = session.row;
  const bool longer = lease.count() > row.kept;
  row.lease = lease.count();
  row.kept = std::max(row.kept, row.lease);
  row.lease_until = end_of(row.lease);
  row.look_at = std::min(row.look_at, row.lease_until);
  foreign_lease_ = foreign_lease_ == 0 ? row.look_at : std::min(foreign_lease_, row.look_at);
  write(session_sql_.renew, params(session.id, row.lease, row.kept, row.lease_until, row.look_at),
        longer);
}

void PostgresStore::end_hold(LoadedSession& session) {
  SessionRow& row = touch(session);
  row.token = row.lease = row.kept = row.lease_until = row.look_at = 0;
  row.worker.clear();
  // Notifies claims of the former holder that it lost the session.
  const std::string line = session_queue({queue_name(session.name.queue), session.name.key});
  after_.gained_queues.erase(line);
  after_.lost_lines.insert(line);
  LoadedJob* held = row.head == 0 ? nullptr : job(row.head);
  if (held != nullptr && held->row.state == JobState::waiting)
    set_waiting(*held, JobState::available, held->row.run_at);
}

void PostgresStore::set_session_state(LoadedSession& session, const std::string& state) {
  if (MS_MUTANT(session_state_lost)) return;
  touch(session).state_bytes = std::ssize(state);
  session.state = state;
}

// -- operations -----------------------------------------------------------------------------------

OperationResult PostgresStore::operator()(const AcceptSession& op) {
  LoadedSession& session = take_session({queue_of(op.session.queue).id, op.session.key});
  const SessionRow& row = session.row;
  if (row.token != 0 && row.lease_until > lease_now()) {
    if (row.worker == op.worker) {
      renew_hold(session, op.lease);
      return grant(op.session, session, true);
    }
    const std::int64_t wait_ms = (row.lease_until - lease_now()) / 1000 + 1;
    return Error{.code = ErrorCode::lease_held,
                 .message = fmt::format("session \"{}\" of queue {}: {} holds it for another {} ms",
                                        op.session.key, op.session.queue, row.worker, wait_ms),
                 .retry_after_ms = static_cast<int>(std::min<std::int64_t>(wait_ms, INT32_MAX))};
  }
  if (!has_room_for_hold()) return too_many_held();
  hold_session(session, new_session_token(), op.worker, op.lease);
  stop_head(session);
  return grant(op.session, session, false);
}

OperationResult PostgresStore::operator()(const RenewSession& op) {
  LoadedSession* session = find_session(op.session);
  if (session == nullptr || !holds(*session, op.token)) return lost_session(op.session);
  renew_hold(*session, op.lease > Duration(0) ? op.lease : Duration(session->row.lease));
  return grant(op.session, *session, true);
}

OperationResult PostgresStore::operator()(const ReleaseSession& op) {
  LoadedSession* session = find_session(op.session);
  if (session == nullptr || !holds(*session, op.token)) return lost_session(op.session);
  end_hold(*session);
  return Done{};
}

OperationResult PostgresStore::operator()(const PutSessionState& op) {
  if (op.state.size() > kMaxSessionStateBytes) {
    return Error{.code = ErrorCode::too_large,
                 .message = fmt::format("state has {} bytes: must be at most {}", op.state.size(),
                                        kMaxSessionStateBytes),
                 .field = "state"};
  }
  LoadedSession* session = find_session(op.session);
  if (session == nullptr) return lost_session(op.session);
  bool may = holds(*session, op.token);
  if (!may && session->row.head != 0) {
    const LoadedJob* held = job(session->row.head);
    may = held != nullptr && held->row.state == JobState::running && held->row.token == op.token;
  }
  if (!may) return lost_session(op.session);
  set_session_state(*session, op.state);
  return Done{};
}

// A queue was resumed: its sessions may give jobs.
void PostgresStore::gain_lines_of(const QueueInfo& queue) {
  gain_queue(accept_queue(queue.name));
  flush();
  const Rows rows = ask(session_sql_.held_heads, params(std::int64_t{queue.id}));
  for (int i = 0; i < rows.size(); ++i) gain_queue(session_queue({queue.name, rows.string(i, 0)}));
}

OperationResult PostgresStore::operator()(const ResumeSession& op) {
  if (!op.within.has(op.session.queue)) return unknown_session(op.session);
  LoadedSession* session = find_session(op.session);
  if (session == nullptr || (session->row.nothing_lives() && session->row.state_bytes == 0))
    return unknown_session(op.session);
  if (session->row.stop == SessionStop::none) return Done{};
  SessionRow& row = touch(*session);
  row.stop = SessionStop::none;
  row.stopped_by = 0;
  pass_heads({session->name});
  return Done{};
}

// -- claims of sessions ---------------------------------------------------------------------------

Params PostgresStore::claim_params(const Claim& op, JobId id, std::int64_t until) const {
  return params(id, op.worker, op.lease.count(), until, wall(), lease_now(), node_, batch_);
}

bool PostgresStore::take_one_claimed(const Claim& op, const Rows& rows, std::int64_t until,
                                     ClaimResult& into) {
  if (rows.empty()) return false;
  wrote();
  marked_ = true;
  ClaimedJob job = read_claimed(rows, 0, op, until);
  after_.given.push_back({.look_at = until, .seq = rows.integer(0, 18), .ids = {job.id}});
  if ((rows.integer(0, 7) & kFlagExtras) != 0) {
    const Rows extras = ask(sql_.checkpoints, params(Ints{job.id}));
    if (!extras.empty()) job.checkpoint = extras.string(0, 1);
  }
  into.jobs.push_back(std::move(job));
  return true;
}

// Counts the start of the session's job.
void PostgresStore::count_of_session(QueueInfo& queue, const ClaimResult& given) {
  note_costs(given.jobs);
  if (queue.limits.rate) count_started(queue, begins_of(given.jobs[0].cost, *queue.limits.rate));
}

// Claims the head for the holder.
OperationResult PostgresStore::claim_head(const Claim& op, const SessionKey& key) {
  LoadedSession* session = find_session(key);
  if (session == nullptr || !holds(*session, op.session_token)) return lost_session(key);
  ClaimResult result;
  const QueueInfo* queue = &queue_by_id(session->name.queue);
  const Room free = room(*queue);
  const bool fits = session->row.head != 0 && free.jobs() > 0 &&
                    free.fits(cost_of_job(*queue, session->row.head));
  if (fits) {
    flush();
    hold();
    const std::int64_t until = lease_now() + op.lease.count();
    Params all = claim_params(op, session->row.head, until);
    all.add(queue->limits.any());
    const Rows rows = ask(session_sql_.claim_held, all);
    if (take_one_claimed(op, rows, until, result)) {  // it was not among the available jobs
      ++after_.available[session->name.queue];
      ++after_.heads[session->name.queue];
      count_of_session(*queues_by_id_.at(queue->id), result);
    }
  }
  dry_line(op.queues[0]);  // a session gives one job at a time
  return result;
}

// Accepts the first free session that has an available job, and claims that job.
OperationResult PostgresStore::accept_next(const Claim& op, const std::string& name) {
  const QueueInfo* queue = find_queue(name);
  ClaimResult result;
  if (queue == nullptr) return result;
  const Room free = room(*queue);
  if (free.jobs() == 0 || queue->paused) return result;
  flush();
  if (!has_room_for_hold()) return too_many_held();
  Ints tried;
  Token token = 0;  // of the holder: given before the job's token
  while (std::ssize(tried) < kMaxAcceptTries) {
    const Rows found = ask(session_sql_.next_free,
                           params(std::int64_t{queue->id}, wall(), tried, queue->limits.any()));
    if (found.empty()) {
      dry_line(op.queues[0]);
      break;
    }
    const JobId id = found.integer(0, 2);
    tried.push_back(id);
    if (!free.fits(cost_of_job(*queue, id))) {
      dry_line(op.queues[0]);
      break;
    }
    const SessionName taken{queue->id, found.string(0, 1)};
    read_locked_sessions({taken});
    LoadedSession& session = sessions_.at(taken);
    if (session.row.head != id || session.row.token != 0) continue;
    hold();
    if (token == 0) token = new_session_token();
    const std::int64_t until = lease_now() + op.lease.count();
    Params all = claim_params(op, id, until);
    all.add(found.integer(0, 0)).add(found.integer(0, 3)).add(found.integer(0, 4));
    if (!take_one_claimed(op, ask(session_sql_.claim_head, all), until, result)) continue;
    count_of_session(*queues_by_id_.at(queue->id), result);
    hold_session(session, token, op.worker, op.lease);
    dry_line(session_queue({name, taken.key}));
    result.session = grant({name, taken.key}, session, false);
    break;
  }
  return result;
}

// -- scheduler steps ------------------------------------------------------------------------------

// Ends holds whose leases have expired.
bool PostgresStore::rescue_sessions() {
  const Rows rows = ask(session_sql_.ended_leases, params(lease_now(), kRescuedAtOnce));
  if (rows.empty()) return false;
  std::set<SessionName> names;
  for (int i = 0; i < rows.size(); ++i)
    names.insert({static_cast<int>(rows.integer(i, 0)), rows.string(i, 1)});
  read_locked_sessions(names);
  std::vector<JobId> heads;
  for (const SessionName& name : names) {
    const SessionRow& row = sessions_.at(name).row;
    if (row.lease_until <= lease_now() && row.head != 0) heads.push_back(row.head);
  }
  const std::unordered_set<JobId> busy = free_jobs_by_id(heads, Ends::no);
  for (const SessionName& name : names) {
    LoadedSession& session = sessions_.at(name);
    SessionRow& row = session.row;
    const bool over = row.lease_until <= lease_now() && !MS_MUTANT(dead_holder_keeps_session);
    if (over && !busy.contains(row.head)) {
      end_hold(session);
      continue;
    }
    row.look_at = over ? lease_now() + kLookAgain : row.lease_until;
    write(session_sql_.renew, params(session.id, row.lease, row.kept, row.lease_until, row.look_at),
          false);
  }
  return rows.size() >= kRescuedAtOnce;
}

bool PostgresStore::prune_sessions(int limit) {
  flush();
  const Rows rows = ask(session_sql_.prune, params(wall(), std::int64_t{limit}));
  if (rows.empty()) return false;
  wrote();
  for (int i = 0; i < rows.size(); ++i)
    sessions_.erase({static_cast<int>(rows.integer(i, 0)), rows.string(i, 1)});
  return rows.size() >= limit;
}

// -- reads ----------------------------------------------------------------------------------------

Result<SessionInfo> PostgresStore::session(const SessionKey& key, Instant now) const {
  MS_TRY_ASSIGN(const Rows rows, with_reader([&](Connection& connection) {
                  return connection.run(session_sql_.show,
                                        params(read_at(now), key.queue, key.key));
                }));
  if (rows.empty()) return unknown_session(key);
  SessionInfo info = shown_session(rows, 0);
  info.state = rows.string(0, 11);
  return info;
}

Result<SessionPage> PostgresStore::sessions(const std::string& queue, const SessionKey& after,
                                            int limit, Instant now) const {
  MS_TRY_ASSIGN(const Rows rows, with_reader([&](Connection& connection) {
                  return connection.run(
                      session_sql_.list,
                      params(read_at(now), queue, after.queue, after.key, std::int64_t{limit} + 1));
                }));
  SessionPage page;
  for (int i = 0; i < std::min(rows.size(), limit); ++i)
    page.sessions.push_back(shown_session(rows, i));
  if (rows.size() > limit && !page.sessions.empty()) page.next = page.sessions.back().session;
  return page;
}

}  // namespace mainspring::pg
