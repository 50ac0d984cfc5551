// Sessions: who holds them, what they remember, and reads of them.
#include <fmt/format.h>

#include <algorithm>

#include "base/mutant.h"
#include "store_postgres/plain.h"
#include "store_postgres/reader.h"

namespace mainspring::pg {
namespace {

// So many are accepted between two counts: nodes together may exceed the bound by so many each.
constexpr std::int64_t kAcceptedPerCount = 1000;
// Sessions whose job somebody else took at the same time.
constexpr int kMaxAcceptTries = 32;
constexpr std::int64_t kLookAgain = 1'000'000;  // microseconds
// Sessions whose holders were not heard of, by one step: its limit is one of jobs.
constexpr std::int64_t kRescuedAtOnce = 1000;

Error lost_session(const SessionKey& session) {
  return {.code = ErrorCode::lease_lost,
          .message = fmt::format("session \"{}\" of queue {}: is not, or no longer, held with that "
                                 "token",
                                 session.key, session.queue)};
}

Error too_many_held() {
  return {.code = ErrorCode::overloaded,
          .message = fmt::format("{} sessions are held: must be at most that", kMaxHeldSessions),
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
  info.turn = rows.integer(row, 3);
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

bool PostgresStore::holds(const SessionInHand& session, Token token) const {
  return token != 0 && session.row.token == token && session.row.lease_until > lease_now();
}

SessionInHand* PostgresStore::find_session(const SessionKey& key) {
  const QueueInfo* queue = find_queue(key.queue);
  return queue == nullptr ? nullptr : &take_session({queue->id, key.key});
}

SessionGrant PostgresStore::grant(const SessionKey& key, SessionInHand& session, bool held) {
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

void PostgresStore::hold_session(SessionInHand& session, Token token, const std::string& worker,
                                 Duration lease) {
  SessionRow& row = touch(session);
  row.token = token;
  row.worker = worker;
  row.lease = row.kept = lease.count();
  row.lease_until = row.look_at = lease_now() + row.lease;
  foreign_lease_ = foreign_lease_ == 0 ? row.look_at : std::min(foreign_lease_, row.look_at);
}

// Of a session that is held from now on: nobody else claims the job that has the turn.
void PostgresStore::stop_turn(SessionInHand& session) {
  const std::string line = session_line({queue_name(session.name.queue), session.name.key});
  JobInHand* held = session.row.turn == 0 ? nullptr : job(session.row.turn);
  if (held != nullptr && held->row.state == JobState::available)
    set_waiting(*held, JobState::waiting, held->row.run_at);
  const bool waits = held != nullptr && held->row.state == JobState::waiting;
  waits ? gain_line(line) : dry_line(line);
}

// A length beyond any before is kept on disk, for the time when no node lives.
void PostgresStore::renew_hold(SessionInHand& session, Duration lease) {
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

void PostgresStore::end_hold(SessionInHand& session) {
  SessionRow& row = touch(session);
  row.token = row.lease = row.kept = row.lease_until = row.look_at = 0;
  row.worker.clear();
  // Whoever waits for it is told that it is not his any more.
  const std::string line = session_line({queue_name(session.name.queue), session.name.key});
  after_.gained_lines.erase(line);
  after_.lost_lines.insert(line);
  JobInHand* held = row.turn == 0 ? nullptr : job(row.turn);
  if (held != nullptr && held->row.state == JobState::waiting)
    set_waiting(*held, JobState::available, held->row.run_at);
}

void PostgresStore::set_session_state(SessionInHand& session, const std::string& state) {
  if (MS_MUTANT(session_state_lost)) return;
  touch(session).state_bytes = std::ssize(state);
  session.state = state;
}

// -- operations -----------------------------------------------------------------------------------

OperationResult PostgresStore::operator()(const AcceptSession& op) {
  SessionInHand& session = take_session({queue_of(op.session.queue).id, op.session.key});
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
  stop_turn(session);
  return grant(op.session, session, false);
}

OperationResult PostgresStore::operator()(const RenewSession& op) {
  SessionInHand* session = find_session(op.session);
  if (session == nullptr || !holds(*session, op.token)) return lost_session(op.session);
  renew_hold(*session, op.lease > Duration(0) ? op.lease : Duration(session->row.lease));
  return grant(op.session, *session, true);
}

OperationResult PostgresStore::operator()(const ReleaseSession& op) {
  SessionInHand* session = find_session(op.session);
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
  SessionInHand* session = find_session(op.session);
  if (session == nullptr) return lost_session(op.session);
  bool may = holds(*session, op.token);
  if (!may && session->row.turn != 0) {
    const JobInHand* held = job(session->row.turn);
    may = held != nullptr && held->row.state == JobState::running && held->row.token == op.token;
  }
  if (!may) return lost_session(op.session);
  set_session_state(*session, op.state);
  return Done{};
}

// A queue goes on: what its lines can give.
void PostgresStore::gain_lines_of(const QueueInfo& queue) {
  gain_line(accept_line(queue.name));
  flush();
  const Rows rows = ask(session_sql_.held_turns, params(std::int64_t{queue.id}));
  for (int i = 0; i < rows.size(); ++i) gain_line(session_line({queue.name, rows.string(i, 0)}));
}

OperationResult PostgresStore::operator()(const ResumeSession& op) {
  if (!op.within.has(op.session.queue)) return unknown_session(op.session);
  SessionInHand* session = find_session(op.session);
  if (session == nullptr || (session->row.nothing_lives() && session->row.state_bytes == 0))
    return unknown_session(op.session);
  if (session->row.stop == SessionStop::none) return Done{};
  SessionRow& row = touch(*session);
  row.stop = SessionStop::none;
  row.stopped_by = 0;
  pass_turns({session->name});
  return Done{};
}

// -- claims of their lines ------------------------------------------------------------------------

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

// Its job has begun.
void PostgresStore::count_of_session(QueueInfo& queue, const ClaimResult& given) {
  note_costs(given.jobs);
  if (queue.limits.rate) count_begun(queue, begins_of(given.jobs[0].cost, *queue.limits.rate));
}

// The job whose turn it is, for the holder.
OperationResult PostgresStore::claim_turn(const Claim& op, const SessionKey& key) {
  SessionInHand* session = find_session(key);
  if (session == nullptr || !holds(*session, op.session_token)) return lost_session(key);
  ClaimResult result;
  const QueueInfo* queue = &queue_by_id(session->name.queue);
  const Room free = room(*queue);
  const bool fits = session->row.turn != 0 && free.jobs() > 0 &&
                    free.fits(cost_of_job(*queue, session->row.turn));
  if (fits) {
    flush();
    hold();
    const std::int64_t until = lease_now() + op.lease.count();
    Params all = claim_params(op, session->row.turn, until);
    all.add(queue->limits.any());
    const Rows rows = ask(session_sql_.claim_turn, all);
    if (take_one_claimed(op, rows, until, result)) {  // it was not among the available
      ++after_.available[session->name.queue];
      ++after_.heads[session->name.queue];
      count_of_session(*queues_by_id_.at(queue->id), result);
    }
  }
  dry_line(op.queues[0]);  // there is one job at a time
  return result;
}

// The first free session that has an available job, and that job.
OperationResult PostgresStore::accept_next(const Claim& op, const std::string& name) {
  const QueueInfo* queue = find_queue(name);
  ClaimResult result;
  if (queue == nullptr) return result;
  const Room free = room(*queue);
  if (free.jobs() == 0 || queue->paused) return result;
  flush();
  if (!has_room_for_hold()) return too_many_held();
  Ints tried;
  Token token = 0;  // of the holder: given before that of the job
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
    SessionInHand& session = sessions_.at(taken);
    if (session.row.turn != id || session.row.token != 0) continue;
    hold();
    if (token == 0) token = new_session_token();
    const std::int64_t until = lease_now() + op.lease.count();
    Params all = claim_params(op, id, until);
    all.add(found.integer(0, 0)).add(found.integer(0, 3)).add(found.integer(0, 4));
    if (!take_one_claimed(op, ask(session_sql_.claim_head, all), until, result)) continue;
    count_of_session(*queues_by_id_.at(queue->id), result);
    hold_session(session, token, op.worker, op.lease);
    dry_line(session_line({name, taken.key}));
    result.session = grant({name, taken.key}, session, false);
    break;
  }
  return result;
}

// -- what the scheduler does ----------------------------------------------------------------------

// Holders that were not heard of.
bool PostgresStore::rescue_sessions() {
  const Rows rows = ask(session_sql_.ended_leases, params(lease_now(), kRescuedAtOnce));
  if (rows.empty()) return false;
  std::set<SessionName> names;
  for (int i = 0; i < rows.size(); ++i)
    names.insert({static_cast<int>(rows.integer(i, 0)), rows.string(i, 1)});
  read_locked_sessions(names);
  std::vector<JobId> turns;
  for (const SessionName& name : names) {
    const SessionRow& row = sessions_.at(name).row;
    if (row.lease_until <= lease_now() && row.turn != 0) turns.push_back(row.turn);
  }
  const std::unordered_set<JobId> busy = free_jobs_by_id(turns, Ends::no);
  for (const SessionName& name : names) {
    SessionInHand& session = sessions_.at(name);
    SessionRow& row = session.row;
    const bool over = row.lease_until <= lease_now() && !MS_MUTANT(dead_holder_keeps_session);
    if (over && !busy.contains(row.turn)) {
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
