// Loaded jobs: rows that the transaction has locked or will insert, and changes that operations
// share.
#include <fmt/format.h>

#include <algorithm>

#include "base/mutant.h"
#include "model/fingerprint.h"
#include "store_postgres/store_impl.h"

namespace mainspring::pg {

JobRow PostgresStore::read_row(const Rows& rows, int row) {
  JobRow job;
  int column = 0;
  const auto next = [&] { return rows.integer(row, column++); };
  job.id = next();
  job.state = static_cast<JobState>(next());
  job.flags = static_cast<int>(next());
  job.priority = static_cast<int>(next());
  job.attempt = static_cast<int>(next());
  job.max_attempts = static_cast<int>(next());
  job.version = next();
  job.token = next();
  job.lease_until = next();
  job.lease = next();
  job.claimed_at = next();
  job.run_at = next();
  job.started_at = next();
  job.finished_at = next();
  job.expires_at = next();
  job.created_at = next();
  job.timeout = next();
  job.schedule = next();
  job.queue = static_cast<int>(next());
  job.kind = static_cast<int>(next());
  job.budget = static_cast<int>(next());
  job.worker = rows.text(row, column++);
  job.unique_key = rows.text(row, column++);
  job.session = rows.text(row, column++);
  job.trigger_depth = static_cast<int>(next());
  job.deferred = next() != 0;
  const int lost = static_cast<int>(next());
  job.lost = lost % kUnstartedUnit, job.unstarted = lost / kUnstartedUnit;
  job.quarantined = next();
  job.kept = next();
  return job;
}

int flags_of(const NewJob& job) {
  int flags = (job.unique ? kFlagUnique : 0) | (is_followed(job) ? kFlagFollowed : 0);
  const bool into_session =
      !job.reply_session.empty() ||
      std::any_of(job.follow_ups.begin(), job.follow_ups.end(),
                  [](const FollowUp& followed) { return !followed.session.empty(); });
  if (into_session) flags |= kFlagIntoSession;
  if (job.on_expiry == OnExpiry::dead) flags |= kFlagDiesOfExpiry;
  if (!job.limit_key.empty()) flags |= kFlagLimitKey;
  if (job.session.empty()) return flags;
  flags |= kFlagSession;
  if (job.on_dead == OnDead::block) flags |= kFlagBlocks;
  if (job.on_dead == OnDead::park) flags |= kFlagParks;
  return flags;
}

OnDead on_dead_of(int flags) {
  if ((flags & kFlagBlocks) != 0) return OnDead::block;
  return (flags & kFlagParks) != 0 ? OnDead::park : OnDead::skip;
}

OnExpiry on_expiry_of(int flags) {
  return (flags & kFlagDiesOfExpiry) != 0 ? OnExpiry::dead : OnExpiry::cancel;
}

// The batch is retried, and loads the job in advance.
PgError made_meanwhile() {
  return {.sqlstate = "40001", .message = "a job that the batch names was made meanwhile"};
}

void PostgresStore::jobs_by_id(const std::vector<JobId>& ids) {
  Ints wanted, late;
  for (const JobId id : ids) {
    if (!loaded_.contains(id)) (not_there_.contains(id) ? late : wanted).push_back(id);
  }
  if (!late.empty() && !free_jobs_by_id(late, Ends::maybe).empty()) throw made_meanwhile();
  if (wanted.empty()) return;
  std::sort(wanted.begin(), wanted.end());
  lock_jobs(std::move(wanted));
}

void PostgresStore::lock_jobs(Ints ids) {
  later_lock_jobs(std::move(ids), nullptr);
  settle();
}

void PostgresStore::later_lock_jobs(Ints ids, std::function<void()> then) {
  const Params wanted = params(ids);
  locks_asked_ = true;
  later(sql_.take_jobs, wanted,
        [this, ids = std::move(ids), then = std::move(then)](const Rows& rows) {
          load_unit(rows);
          for (const JobId id : ids) {
            const LoadedJob* held = no_session_.contains(id) ? loaded(id) : nullptr;
            constexpr int kSessions = kFlagSession | kFlagIntoSession;
            if (held != nullptr && (held->row.flags & kSessions) != 0) throw made_meanwhile();
          }
          if (then) then();
        });
}

void PostgresStore::load_unit(const Rows& rows) {
  for (int i = 0; i < rows.size(); ++i) {
    LoadedJob held{.row = read_row(rows, i)};
    held.was = held.row;
    loaded_.emplace(held.row.id, std::move(held));
  }
}

LoadedJob* PostgresStore::job(JobId id) {
  if (!loaded_.contains(id)) jobs_by_id({id});
  return loaded(id);
}

LoadedJob* PostgresStore::loaded(JobId id) {
  const auto found = loaded_.find(id);
  return found == loaded_.end() || found->second.removed ? nullptr : &found->second;
}

std::int64_t PostgresStore::new_ids(std::size_t count) {
  take_new_ids(ask(sql_.new_ids, params(static_cast<std::int64_t>(count))));
  return next_id_;
}

void PostgresStore::later_new_ids(std::size_t count) {
  later(sql_.new_ids, params(static_cast<std::int64_t>(count)),
        [this](const Rows& rows) { take_new_ids(rows); });
}

void PostgresStore::take_new_ids(const Rows& rows, int first) {
  // Another node may have taken numbers in between: then only the part up to the gap is used.
  next_id_ = rows.integer(first, 0);
  ids_end_ = next_id_ + 1;
  for (int i = first + 1; i < rows.size() && rows.integer(i, 0) == ids_end_; ++i) ++ids_end_;
}

JobId PostgresStore::next_id() {
  if (next_id_ >= ids_end_) new_ids(1);
  return next_id_++;
}

LoadedJob& PostgresStore::add_job(const NewJob& job, WallTime run_at, JobState state,
                                  std::int64_t schedule, int flags) {
  JobRow row;
  row.queue = queue_of(job.queue).id;
  row.session = job.session;
  // Lock the session before the job gets an id: ids grow in the order in which jobs enter a
  // session.
  LoadedSession* session = job.session.empty() ? nullptr : &session_of(row);
  row.id = next_id();
  row.state = session == nullptr ? state : enter_session(*session, row.id, state);
  row.flags = flags | flags_of(job);
  row.priority = job.priority;
  row.max_attempts = row.budget = job.max_attempts;
  row.run_at = run_at.us();
  if (job.expires_in) row.expires_at = (now_.wall + *job.expires_in).us();
  row.created_at = wall();
  row.timeout = job.timeout.count();
  row.schedule = schedule;
  row.kind = kind_of(job.kind);
  row.trigger_depth = job.trigger_depth;
  if (job.unique) row.unique_key = job.unique->key;
  LoadedJob& held = loaded_[row.id];
  held.row = row;
  held.was.reset();
  held.touched = true;
  held.body = job;
  any_touched_ = true;
  wrote();
  if (row.state == JobState::available) after_.gained.insert(row.queue);
  ++job_counts_[row.queue].enqueued;
  ++after_.live;
  return held;
}

JobRow& PostgresStore::touch(LoadedJob& job) {
  ++job.row.version;
  job.touched = true;
  any_touched_ = true;
  wrote();
  return job.row;
}

void PostgresStore::leave_worker(LoadedJob& job, JobState state) {
  JobRow& row = touch(job);
  if (row.state == JobState::running) after_.unleased.push_back(row.id);
  undefer(job);
  row.state = state;
  row.worker.clear();
  row.flags &= ~kFlagCancel;
  row.lease_until = 0;
}

void PostgresStore::set_waiting(LoadedJob& job, JobState state, std::int64_t run_at) {
  leave_worker(job, state);
  job.row.run_at = run_at;
  if (state == JobState::available) after_.gained.insert(job.row.queue);
}

void PostgresStore::end_job(LoadedJob& job, JobState state, std::string_view reason,
                            std::string_view description, std::string_view result) {
  const bool ran = job.row.state == JobState::running;
  leave_worker(job, state);
  leave_quarantine(job.row);
  job.row.finished_at = wall();
  const QueueInfo& queue = queue_by_id(job.row.queue);
  const bool dead = state == JobState::dead;
  const auto& own = dead ? queue.retention_dead : queue.retention_completed;
  const Duration keep(own.value_or(
      (dead ? options_.store.retention_dead : options_.store.retention_completed).count()));
  job.prune_at = (now_.wall + keep).us();
  if (dead) {
    job.fingerprint = fingerprint_number(fingerprint_of({.kind = kind_name(job.row.kind),
                                                         .reason = std::string(reason),
                                                         .description = std::string(description)}));
  }
  if (!reason.empty() || !description.empty()) set_reason(job, reason, description);
  after_.ended.push_back(job.row.id);
  --after_.live;
  if ((job.row.flags & kFlagFollowed) != 0) {
    followed_.push_back({.id = job.row.id,
                         .queue = queue.name,
                         .kind = kind_name(job.row.kind),
                         .state = state,
                         .attempt = job.row.attempt,
                         .trigger_depth = job.row.trigger_depth,
                         .result = std::string(result),
                         .reason = std::string(reason),
                         .description = std::string(description)});
  }
  note_end(job, queue, result, reason, description);
  if (job.row.schedule != 0) schedule_job_ended(job);
  if ((job.row.flags & kFlagStep) != 0 && !MS_MUTANT(end_of_step_not_heard)) {
    if (ran && state == JobState::cancelled) job.row.flags |= kFlagUnknown;
    ended_steps_.push_back({.job = job.row.id,
                            .state = state,
                            .result = std::string(result),
                            .reason = std::string(reason),
                            .description = std::string(description),
                            .unknown = (job.row.flags & kFlagUnknown) != 0});
  }
  if ((job.row.flags & kFlagSession) != 0) {
    ended_heads_.push_back({.job = job.row.id,
                            .session = {job.row.queue, job.row.session},
                            .dead = dead,
                            .on_dead = on_dead_of(job.row.flags)});
  }
}

void PostgresStore::set_reason(LoadedJob& job, std::string_view reason,
                               std::string_view description) {
  const auto text = [](std::string_view t) {
    return t.empty() ? std::nullopt : std::optional<std::string_view>(t);
  };
  write(sql_.upsert_reasons,
        params(Ints{job.row.id}, Texts{text(reason)}, Texts{text(description)}));
  job.row.flags |= kFlagExtras;
}

std::string PostgresStore::cancel_reason(JobId id) {
  const Rows rows = ask(sql_.select_wish, params(id));
  return rows.empty() ? "" : rows.string(0, 0);
}

void PostgresStore::add_error(const JobRow& job, std::string_view message,
                              const ProgramEnd& program) {
  new_errors_.push_back({.job = job.id,
                         .seq = job.token,
                         .attempt = job.attempt,
                         .at = wall(),
                         .ran_for = lease_now() - job.claimed_at,
                         .worker = job.worker,
                         .message = std::string(message),
                         .program_end = encode_program_end(program)});
}

// Ends a failed attempt: retry, dead, or cancelled if requested.
void PostgresStore::fail_attempt(LoadedJob& job, std::string_view message,
                                 std::optional<Duration> after, const ProgramEnd& program) {
  add_error(job.row, message, program);
  job.row.flags |= kFlagErrors;
  if ((job.row.flags & kFlagCancel) != 0)
    return end_job(job, JobState::cancelled, cancel_reason(job.row.id), "");
  if (job.row.attempt >= job.row.max_attempts)
    return end_job(job, JobState::dead, "max_attempts", message);
  const Duration wait = after.value_or(default_back_off(job.row.id, job.row.attempt));
  const bool at_once = wait == Duration(0);
  begin_again(job, at_once ? JobState::available : JobState::retryable, (now_.wall + wait).us());
}

// A job that is the head of its session stays the head.
void PostgresStore::begin_again(LoadedJob& job, JobState state, std::int64_t run_at) {
  if ((job.row.flags & kFlagSession) != 0) state = state_of_head(session_of(job.row), state);
  set_waiting(job, state, run_at);
}

Error PostgresStore::no_job(JobId id) {
  return Error{.code = ErrorCode::not_found,
               .message = fmt::format("job {}: there is no such job", id)};
}

Error PostgresStore::missing(JobId id) {
  const Rows last = ask(sql_.last_id, {});
  const bool given = id > 0 && last.integer(0, 1) != 0 && id <= last.integer(0, 0);
  if (!given) return no_job(id);
  return removed_job(id);
}

// Takes the unique key of an ended job again; false if another live job has it.
bool PostgresStore::take_unique_key(LoadedJob& held) {
  if (held.row.unique_key.empty() || !is_terminal(held.row.state)) return true;
  const JobId id = held.row.id;
  const int queue = held.row.queue;
  const Rows row = lock_unique_key(queue, held.row.unique_key);
  const JobId holder = row.integer(0, 0);
  if (holder == id) return true;
  const LoadedJob* other = holder == 0 ? nullptr : job(holder);
  if (other != nullptr && !is_terminal(other->row.state)) return false;
  write(sql_.set_unique, params(std::int64_t{queue}, held.row.unique_key, id, row.integer(0, 1)));
  return true;
}

// An operator's retry of a job that is not running, completed or available.
void PostgresStore::revive(LoadedJob& job) {
  const bool ended = is_terminal(job.row.state);
  after_.again.push_back(job.row.id);
  if (ended) {
    job.row.max_attempts = job.row.attempt + job.row.budget;
    job.row.finished_at = 0;
    set_reason(job, "", "");
    ++after_.live;
  }
  leave_quarantine(job.row);
  job.row.flags &= ~kFlagExpired;
  job.row.expires_at = 0;
  JobState begins = JobState::available;
  if ((job.row.flags & kFlagSession) != 0) {
    LoadedSession& session = session_of(job.row);
    begins = ended ? enter_session(session, job.row.id, begins) : state_of_head(session, begins);
  }
  set_waiting(job, begins, wall());
  if (job.row.schedule != 0) schedule_job_revived(job);
}

}  // namespace mainspring::pg
