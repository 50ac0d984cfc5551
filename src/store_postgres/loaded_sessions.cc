// Loaded sessions: rows that the transaction has locked, with their heads and waiting jobs.
#include <algorithm>
#include <utility>

#include "base/mutant.h"
#include "store_postgres/columns.h"
#include "store_postgres/store_impl.h"

namespace mainspring::pg {
namespace {

constexpr std::int64_t kMaxDryLines = 200'000;

}  // namespace

// -- sessions of the batch ------------------------------------------------------------------------

// Locks all sessions of the batch at once, before anything else: see locks.cc.
void PostgresStore::lock_sessions(std::span<const Operation> batch) {
  SessionsNamed named;
  for (const Operation& operation : batch) name_sessions(operation, named);
  std::set<SessionName> all;
  no_session_.insert(named.unknown.begin(), named.unknown.end());
  for (const SessionOfJob& of : sessions_of(named.unknown))
    (of.own ? named.ending : named.entered).insert(of.name);
  for (const SessionOfJob& of : sessions_of(named.telling)) {
    if (!of.own) named.entered.insert(of.name);
  }
  for (const auto* names : {&named.entered, &named.held, &named.ending})
    all.insert(names->begin(), names->end());
  all.insert(make_first_.begin(), make_first_.end());
  if (all.empty()) return;
  take_sessions(all, !named.ending.empty() || !named.held.empty());
  for (const SessionName& name : named.ending) sessions_.at(name).ends = true;
  for (const SessionName& name : named.held) sessions_.at(name).held = true;
}

void PostgresStore::name_sessions(const Operation& operation, SessionsNamed& named) {
  const auto add = [this](const SessionKey& key, std::set<SessionName>& to) {
    if (const QueueInfo* queue = find_queue(key.queue)) to.insert({queue->id, key.key});
  };
  const auto add_job = [&](JobId id) {
    const auto lease = own_leases_.find(id);
    if (lease == own_leases_.end()) return named.unknown.push_back(id);
    const LeaseOfJob& known = lease->second;
    if ((known.flags & kFlagSession) != 0) named.ending.insert({known.queue, known.session});
    if ((known.flags & kFlagIntoSession) != 0) named.unknown.push_back(id);
  };
  if (const auto* enqueue = std::get_if<Enqueue>(&operation)) {
    for (const NewJob& job : enqueue->jobs) {
      if (!job.session.empty()) add({job.queue, job.session}, named.entered);
    }
  } else if (const auto* finish = std::get_if<Finish>(&operation)) {
    for (const JobOutcome& result : finish->results) {
      add_job(result.id);
      const auto* complete = std::get_if<Complete>(&result.outcome);
      if (complete == nullptr) continue;
      for (const NewJob& job : complete->next) {
        if (!job.session.empty()) add({job.queue, job.session}, named.entered);
      }
    }
  } else if (const auto* renew = std::get_if<Renew>(&operation)) {
    for (const Renewal& renewal : renew->leases) {
      if (renewal.messages.empty() && !renewal.progress) continue;
      const auto lease = own_leases_.find(renewal.id);
      const bool known = lease != own_leases_.end();
      if (!known || (lease->second.flags & kFlagIntoSession) != 0)
        named.telling.push_back(renewal.id);
    }
  } else if (const auto* cancel = std::get_if<Cancel>(&operation)) {
    add_job(cancel->id);
  } else if (const auto* retry = std::get_if<RetryJob>(&operation)) {
    add_job(retry->id);
  } else if (const auto* edit = std::get_if<EditJob>(&operation)) {
    add_job(edit->id);
  } else if (const auto* claim = std::get_if<Claim>(&operation)) {
    if (claim->queues.size() != 1) return;
    if (const auto key = parse_session_queue(claim->queues[0])) add(*key, named.held);
  } else if (const auto* accept = std::get_if<AcceptSession>(&operation)) {
    add(accept->session, named.held);
  } else if (const auto* longer = std::get_if<RenewSession>(&operation)) {
    add(longer->session, named.entered);
  } else if (const auto* release = std::get_if<ReleaseSession>(&operation)) {
    add(release->session, named.held);
  } else if (const auto* put = std::get_if<PutSessionState>(&operation)) {
    add(put->session, named.held);
  } else if (const auto* resume = std::get_if<ResumeSession>(&operation)) {
    add(resume->session, named.ending);
  }
}

std::vector<SessionOfJob> PostgresStore::sessions_of(const Ints& jobs) {
  std::vector<SessionOfJob> all;
  if (jobs.empty()) return all;
  const Rows rows = ask(session_sql_.of_jobs, params(jobs));
  for (int i = 0; i < rows.size(); ++i) {
    const JobId id = rows.integer(i, 6);
    no_session_.erase(id);
    const auto add = [&](const std::string& queue, const std::string& key) {
      const QueueInfo* found = key.empty() ? nullptr : find_queue(queue);
      if (found != nullptr) all.push_back({id, false, {found->id, key}});
    };
    const std::int64_t flags = rows.integer(i, 2);
    if ((flags & kFlagSession) != 0)
      all.push_back({id, true, {static_cast<int>(rows.integer(i, 0)), rows.string(i, 1)}});
    if ((flags & kFlagIntoSession) == 0) continue;
    add(rows.string(i, 3), rows.string(i, 4));
    const auto follow_ups = decode_follow_ups(rows.string(i, 5));
    if (!follow_ups) continue;  // the code that makes follow-ups adds these
    for (const FollowUp& next : *follow_ups) add(next.queue, next.session);
  }
  return all;
}

// Jobs that may become head or lose it are locked with the jobs that the batch names.
std::vector<JobId> PostgresStore::jobs_of_sessions() const {
  std::vector<JobId> ids;
  for (const auto& [name, session] : sessions_) {
    if (session.held && session.row.head != 0) ids.push_back(session.row.head);
    if (session.ends && session.next.value_or(0) != 0) ids.push_back(*session.next);
  }
  return ids;
}

// -- rows -----------------------------------------------------------------------------------------

void PostgresStore::take_sessions(const std::set<SessionName>& names, bool lines) {
  std::set<SessionName> wanted;
  for (const SessionName& name : names) {
    if (!sessions_.contains(name)) wanted.insert(name);
  }
  if (wanted.empty()) return;
  const NameColumns columns(wanted);
  tell(session_sql_.lock, params(columns.queues, columns.keys));
  keep_sessions(ask(session_sql_.read, params(columns.queues, columns.keys, lines)));
}

void PostgresStore::take_free_sessions(const std::set<SessionName>& names) {
  std::set<SessionName> wanted, locked;
  for (const SessionName& name : names) {
    if (!sessions_.contains(name)) wanted.insert(name);
  }
  if (wanted.empty()) return;
  const NameColumns columns(wanted);
  const Rows rows = ask(session_sql_.lock_free, params(columns.queues, columns.keys));
  for (int i = 0; i < rows.size(); ++i)
    locked.insert({static_cast<int>(rows.integer(i, 0)), rows.string(i, 1)});
  read_locked_sessions(locked);
}

// For jobs that were locked without waiting. Locking their sessions afterwards is safe, because it
// does not wait either. Returns the jobs whose session another transaction has locked.
std::unordered_set<JobId> PostgresStore::take_sessions_of_free(const Ints& jobs, Ends ends) {
  std::map<JobId, std::set<SessionName>> needs;
  std::set<SessionName> all;
  Ints into_others;
  for (const JobId id : jobs) {
    const auto held = loaded_.find(id);
    if (held == loaded_.end()) continue;
    const JobRow& row = held->second.row;
    if (!row.session.empty()) needs[id].insert({row.queue, row.session});
    if (ends == Ends::maybe && (row.flags & kFlagIntoSession) != 0) into_others.push_back(id);
  }
  for (const SessionOfJob& of : sessions_of(into_others)) needs[of.job].insert(of.name);
  for (const auto& [id, names] : needs) all.insert(names.begin(), names.end());
  if (all.empty()) return {};
  take_free_sessions(all);
  std::erase_if(all, [this](const SessionName& name) { return sessions_.contains(name); });
  if (!all.empty()) {
    const NameColumns columns(all);
    const Rows locked = ask(session_sql_.read, params(columns.queues, columns.keys, false));
    for (int i = 0; i < locked.size(); ++i)
      all.erase({static_cast<int>(locked.integer(i, 0)), locked.string(i, 1)});
    if (!all.empty()) {  // new sessions: another node may be making them; this waits for it
      make_first_.insert(all.begin(), all.end());
      throw PgError{.sqlstate = "40001", .message = "a session has to be made first"};
    }
  }
  std::unordered_set<JobId> busy;
  for (const auto& [id, names] : needs) {
    if (!std::all_of(names.begin(), names.end(),
                     [this](const SessionName& name) { return sessions_.contains(name); }))
      busy.insert(id);
  }
  return busy;
}

void PostgresStore::read_locked_sessions(const std::set<SessionName>& names) {
  std::set<SessionName> wanted;
  for (const SessionName& name : names) {
    if (!sessions_.contains(name)) wanted.insert(name);
  }
  if (wanted.empty()) return;
  const NameColumns columns(wanted);
  keep_sessions(ask(session_sql_.read, params(columns.queues, columns.keys, true)));
}

void PostgresStore::keep_sessions(const Rows& rows) {
  next_id_ = ids_end_ = 0;  // reserved ids may be lower than ids that others added meanwhile
  for (int i = 0; i < rows.size(); ++i) {
    LoadedSession session;
    int column = 0;
    const auto next = [&] { return rows.integer(i, column++); };
    session.name.queue = static_cast<int>(next());
    session.name.key = rows.string(i, column++);
    session.id = next();
    SessionRow& row = session.row;
    row.head = next();
    row.first = next();
    row.jobs = next();
    row.stop = static_cast<SessionStop>(next());
    row.stopped_by = next();
    row.token = next();
    row.lease = next();
    row.kept = next();
    row.lease_until = next();
    row.look_at = next();
    row.prune_at = next();
    row.changed_at = next();
    row.state_bytes = next();
    row.worker = rows.text(i, column++);
    session.next = rows.maybe(i, column++);
    const auto state = static_cast<JobState>(next());
    // A node that tried to accept the session may have skipped it because it was locked.
    if (row.head != 0 && state == JobState::available && row.token == 0)
      after_.passed_over.insert(accept_queue(queue_name(session.name.queue)));
    const SessionName name = session.name;
    sessions_.emplace(name, std::move(session));
  }
}

LoadedSession& PostgresStore::take_session(const SessionName& name) {
  take_sessions({name});
  return sessions_.at(name);
}

SessionRow& PostgresStore::touch(LoadedSession& session) {
  session.touched = true;
  session.row.changed_at = wall();
  any_touched_ = true;
  wrote();
  return session.row;
}

std::int64_t PostgresStore::session_id(const JobRow& row) {
  return row.session.empty() ? 0 : session_of(row).id;
}

void PostgresStore::flush_sessions() {
  std::array<Ints, 14> c;
  Texts workers, states;
  Ints with_state;
  std::vector<LoadedSession*> written;
  for (auto& [name, session] : sessions_) {
    if (!session.touched) continue;
    session.touched = false;
    SessionRow& r = session.row;
    const bool only_state = r.nothing_lives() && r.state_bytes != 0;
    r.prune_at = only_state ? r.changed_at + options_.store.retention_dead.count() : 0;
    if (only_state) after_.next_prune = std::min(after_.next_prune, WallTime::from_us(r.prune_at));
    if (r.nothing_lives() && !only_state) continue;  // this batch removes the row
    const std::array<std::int64_t, 14> values = {
        session.id,   r.head,     r.first,      r.jobs,       static_cast<std::int64_t>(r.stop),
        r.stopped_by, r.token,    r.lease,      r.kept,       r.lease_until,
        r.look_at,    r.prune_at, r.changed_at, r.state_bytes};
    for (std::size_t i = 0; i < values.size(); ++i) c[i].push_back(values[i]);
    workers.push_back(text_or_null(r.worker));
    if (!session.state) continue;
    with_state.push_back(session.id);
    states.push_back(text_or_null(*session.state));
    written.push_back(&session);
  }
  if (!c[0].empty()) {
    write(session_sql_.update, rows_of(c).column(workers));
  }
  if (!with_state.empty()) write(session_sql_.save_state, params(with_state, states));
  for (LoadedSession* session : written) session->state.reset();
  const auto write_waiting = [this](const Statement& statement, auto& changes) {
    if (changes.empty()) return;
    Ints sessions, jobs;
    for (const auto& [session, job] : changes) sessions.push_back(session), jobs.push_back(job);
    write(statement, params(sessions, jobs));
    changes.clear();
  };
  write_waiting(session_sql_.delete_line, left_);
  write_waiting(session_sql_.insert_line, joined_);
}

// Runs after all operations: an emptied session may get jobs again in the same batch.
void PostgresStore::drop_empty_sessions() {
  Ints gone;
  for (const auto& [name, session] : sessions_) {
    if (session.row.nothing_lives() && session.row.state_bytes == 0) gone.push_back(session.id);
  }
  if (!gone.empty()) tell(session_sql_.remove, params(gone));
}

// -- heads of sessions ----------------------------------------------------------------------------

JobState PostgresStore::enter_session(LoadedSession& session, JobId id, JobState begins) {
  SessionRow& row = touch(session);
  ++row.jobs;
  if (row.stop == SessionStop::blocked && row.stopped_by == id) {
    row.stop = SessionStop::none;
    row.stopped_by = 0;
  }
  const bool free = row.head == 0 && row.stop == SessionStop::none;
  if (free || MS_MUTANT(session_two_heads)) {
    row.head = id;
    return state_of_head(session, begins);
  }
  join_line(session, id);
  return JobState::waiting;
}

JobState PostgresStore::state_of_head(const LoadedSession& session, JobState state) {
  if (state != JobState::available || session.row.token == 0 || MS_MUTANT(held_session_open_to_all))
    return state;
  gain_queue(session_queue({queue_name(session.name.queue), session.name.key}));
  return JobState::waiting;
}

void PostgresStore::join_line(LoadedSession& session, JobId id) {
  session.row.first = std::min(session.row.first, id);
  if (left_.erase({session.id, id}) == 0) joined_.insert({session.id, id});
  if (session.next) session.next = *session.next == 0 ? id : std::min(*session.next, id);
}

void PostgresStore::leave_ready_queue(LoadedSession& session, JobId id) {
  if (joined_.erase({session.id, id}) == 0) left_.insert({session.id, id});
  if (session.next == id) session.next.reset();
}

void PostgresStore::settle_sessions() {
  if (ended_heads_.empty()) return;
  std::set<SessionName> names;
  for (const EndedHead& ended : ended_heads_) names.insert(ended.session);
  take_sessions(names);
  std::set<JobId> seen;
  for (const EndedHead& ended : std::exchange(ended_heads_, {})) {
    if (seen.insert(ended.job).second) end_head(ended);
  }
  if (!MS_MUTANT(session_head_not_passed)) pass_heads(std::move(names));
}

void PostgresStore::end_head(const EndedHead& ended) {
  LoadedSession& session = sessions_.at(ended.session);
  SessionRow& row = touch(session);
  --row.jobs;
  if (row.head != ended.job) return leave_ready_queue(session, ended.job);
  row.head = 0;
  if (!ended.dead || ended.on_dead == OnDead::skip || MS_MUTANT(dead_job_stops_nothing)) return;
  row.stop = ended.on_dead == OnDead::park ? SessionStop::parked : SessionStop::blocked;
  row.stopped_by = ended.job;
}

// For sessions of `open` without a head that are not stopped: the first waiting job becomes head.
void PostgresStore::pass_heads(std::set<SessionName> open) {
  std::erase_if(open, [this](const SessionName& name) {
    const SessionRow& row = sessions_.at(name).row;
    return row.head != 0 || row.stop != SessionStop::none;
  });
  while (!open.empty()) {
    Ints unknown;
    for (const SessionName& name : open) {
      if (!sessions_.at(name).next) unknown.push_back(sessions_.at(name).id);
    }
    if (!unknown.empty()) {
      flush();
      const Rows rows = ask(session_sql_.next_in_line, params(unknown));
      for (int i = 0; i < rows.size(); ++i) {
        const SessionName name{static_cast<int>(rows.integer(i, 0)), rows.string(i, 1)};
        sessions_.at(name).next = rows.integer(i, 2);
      }
    }
    std::erase_if(
        open, [this](const SessionName& name) { return sessions_.at(name).next.value_or(0) == 0; });
    std::vector<JobId> jobs;
    for (const SessionName& name : open) jobs.push_back(*sessions_.at(name).next);
    jobs_by_id(jobs);
    std::erase_if(open, [this](const SessionName& name) {
      LoadedSession& session = sessions_.at(name);
      return give_fair(session, *session.next);
    });
  }
}

// False: the job has ended.
bool PostgresStore::give_fair(LoadedSession& session, JobId id) {
  leave_ready_queue(session, id);
  SessionRow& row = touch(session);
  row.first = id + 1;
  LoadedJob* held = job(id);
  if (held == nullptr || is_terminal(held->row.state)) {
    --row.jobs;
    return false;
  }
  row.head = id;
  if (held->row.state != JobState::waiting) return true;
  const bool ahead = held->row.run_at > wall();
  const JobState state = ahead ? JobState::scheduled : state_of_head(session, JobState::available);
  if (state != JobState::waiting) set_waiting(*held, state, held->row.run_at);
  return true;
}

// -- hints for claims of sessions -----------------------------------------------------------------

void PostgresStore::gain_queue(const std::string& line) {
  after_.dry_lines.erase(line);
  after_.gained_queues.insert(line);
}

void PostgresStore::dry_line(const std::string& line) {
  after_.gained_queues.erase(line);
  after_.dry_lines.insert(line);
}

// Like remember_lines() for queues.
void PostgresStore::remember_session_lines() {
  for (const std::string& line : after_.lost_lines) hear_line(line);
  for (const auto& [queue, delta] : after_.heads) hints_[queue].heads += delta;
  for (const std::string& line : after_.dry_lines) {
    const QueueInfo* queue = find_queue(std::string(base_queue_of(line)));
    if (parse_session_queue(line)) {
      if (std::ssize(dry_queues_) >= kMaxDryLines) dry_queues_.clear();  // each costs one claim
      dry_queues_.insert(line);
    } else if (queue != nullptr) {
      // Heads that can no longer be claimed are still counted.
      QueueHint& hint = hints_[queue->id];
      hint.heads_dry = true;
      if (!std::exchange(hint.heads_uncertain, false)) continue;
      hint.heads = 0;
      hint.heads_drift = true;
    }
  }
  for (const std::string& line : after_.gained_queues) {
    dry_queues_.erase(line);
    const QueueInfo* queue = find_queue(std::string(base_queue_of(line)));
    if (queue == nullptr || parse_session_queue(line)) continue;
    QueueHint& hint = hints_[queue->id];
    hint.heads_dry = false;
    if (hint.heads_drift && hint.heads <= 0) hint.heads_uncertain = true;
  }
}

void PostgresStore::load_dry_lines() {
  const Rows rows = connection_->run(session_sql_.idle_sessions, params(kMaxDryLines));
  for (int i = 0; i < rows.size(); ++i)
    dry_queues_.insert(session_queue({rows.string(i, 0), rows.string(i, 1)}));
}

void PostgresStore::hear_line(const std::string& line) {
  dry_queues_.erase(line);
  const QueueInfo* queue = find_queue(std::string(base_queue_of(line)));
  if (queue == nullptr || parse_session_queue(line)) return;
  QueueHint& hint = hints_[queue->id];
  hint.heads_uncertain = hint.heads_drift = true;
  hint.heads_dry = false;
}

bool PostgresStore::queue_has_available(const QueueInfo& queue, const std::string& line) const {
  if (parse_session_queue(line)) return !dry_queues_.contains(line);
  const QueueHint& hint = hints_[queue.id];
  return !hint.heads_dry && (hint.heads > 0 || hint.heads_uncertain);
}

// A bounded number of them, in rotation.
void PostgresStore::ask_lines(ChangeHints& heard) {
  constexpr std::size_t kMaxAsked = 1000;
  Ints queues, of_sessions;
  Texts keys;
  std::deque<std::string> kept;
  for (const auto& [id, queue] : queues_by_id_) {
    if (!queue->paused && !queue_has_available(*queue, accept_queue(queue->name)))
      queues.push_back(id);
  }
  auto line = dry_queues_.upper_bound(last_line_asked_);
  for (std::size_t i = 0; i < std::min(kMaxAsked, dry_queues_.size()); ++i, ++line) {
    if (line == dry_queues_.end()) line = dry_queues_.begin();
    last_line_asked_ = *line;
    const QueueInfo* queue = find_queue(std::string(base_queue_of(*line)));
    if (queue == nullptr) continue;
    of_sessions.push_back(queue->id);
    keys.emplace_back(kept.emplace_back(std::move(parse_session_queue(*line)->key)));
  }
  if (!queues.empty()) {
    const Rows rows = connection_->run(session_sql_.waiting_lines, params(queues));
    for (int i = 0; i < rows.size(); ++i) heard.queues.push_back(accept_queue(rows.string(i, 0)));
  }
  if (of_sessions.empty()) return;
  const Rows rows = connection_->run(session_sql_.waiting_sessions, params(of_sessions, keys));
  for (int i = 0; i < rows.size(); ++i)
    heard.queues.push_back(session_queue({rows.string(i, 0), rows.string(i, 1)}));
}

}  // namespace mainspring::pg
