// Enqueue: all jobs or none, with unique keys and idempotency keys.
#include <fmt/format.h>

#include <cstring>

#include "base/mutant.h"
#include "sql_store/store_impl.h"
#include "store/bounds.h"
#include "store/job_edits.h"

namespace mainspring::sql {
namespace {

std::optional<std::int64_t> timeout_us(Duration timeout) {
  return timeout == kForever ? std::nullopt : std::optional<std::int64_t>(timeout.count());
}

}  // namespace

WallTime SqlStore::run_at_of(const NewJob& job) const {
  if (job.run_at) return *job.run_at;
  return job.delay ? now_.wall + *job.delay : now_.wall;
}

// Why this number of new jobs is refused; nullopt = accepted.
std::optional<Error> SqlStore::no_room(std::size_t jobs, std::int64_t reserved) const {
  if (refuse_enqueues_ && reserved == 0) {
    return Error{.code = ErrorCode::storage_full,
                 .message =
                     "the disk of the store is full: new jobs are refused until there is space; "
                     "finishing still "
                     "works",
                 .retry_after_ms = 5000};
  }
  if (live_jobs_ + static_cast<std::int64_t>(jobs) > options_.store.max_live_jobs + reserved) {
    return Error{
        .code = ErrorCode::overloaded,
        .message = fmt::format("the store holds {} live jobs: must be at most max_live_jobs {}",
                               live_jobs_, options_.store.max_live_jobs),
        .retry_after_ms = 5000};
  }
  return std::nullopt;
}

OperationResult SqlStore::operator()(const Enqueue& op) {
  if (auto lost = fenced(op.fence)) return std::move(*lost);
  if (!op.idempotency_key.empty()) {
    if (auto replayed = replay_idempotent(op)) return std::move(*replayed);
  }
  if (auto full = no_room(op.jobs.size(), reserved_for(op))) return std::move(*full);
  begin_write();
  EnqueueResult result;
  result.jobs.reserve(op.jobs.size());
  for (const NewJob& job : op.jobs) result.jobs.push_back(enqueue_one(job));
  if (!op.idempotency_key.empty() && !MS_MUTANT(idempotency_forgotten)) {
    std::string ids;
    for (const EnqueuedJob& job : result.jobs)
      ids.append(reinterpret_cast<const char*>(&job.id), sizeof job.id);
    const std::string key = scoped_idempotency_key(op);
    sql_->insert_idempotency
        .bind(
            key, op.fingerprint, Statement::blob(ids),
            (now_.wall + kIdempotencyWindow / (MS_MUTANT(short_idempotency_window) ? 100 : 1)).us())
        .run();
    finished_touched_ = true;
  }
  return result;
}

std::optional<OperationResult> SqlStore::replay_idempotent(const Enqueue& op) {
  std::string ids;
  {
    const std::string key = scoped_idempotency_key(op);
    Statement& row = sql_->select_idempotency;
    row.bind(key);
    ResetGuard guard(row);
    if (!row.step() || row.integer(2) <= now_.wall.us()) return std::nullopt;
    if (row.text(0) != op.fingerprint && !MS_MUTANT(fingerprint_ignored)) {
      return Error{
          .code = ErrorCode::conflict,
          .message = fmt::format(
              "idempotency key \"{}\": was used with another request body in the last 24 h",
              op.idempotency_key),
          .field = "Idempotency-Key"};
    }
    ids = row.text(1);
  }
  EnqueueResult result;
  result.replayed = true;
  for (std::size_t i = 0; i + sizeof(JobId) <= ids.size(); i += sizeof(JobId)) {
    EnqueuedJob job{.duplicate = true};
    std::memcpy(&job.id, ids.data() + i, sizeof job.id);
    job.state = state_of(job.id);
    result.jobs.push_back(job);
  }
  return result;
}

EnqueuedJob SqlStore::enqueue_one(const NewJob& job) {
  QueueState& queue = queue_of(job.queue);
  const WallTime run_at = run_at_of(job);
  if (job.unique && !MS_MUTANT(unique_ignored)) {
    if (auto duplicate = enqueue_unique(job, queue, run_at)) return *duplicate;
  }
  const JobState state =
      run_at > now_.wall && !MS_MUTANT(run_at_ignored) ? JobState::scheduled : JobState::available;
  return make_job(job, run_at, state, 0);
}

EnqueuedJob SqlStore::make_job(const NewJob& job, WallTime run_at, JobState state,
                               std::int64_t schedule, int flags) {
  QueueState& queue = queue_of(job.queue);
  HotRow hot;
  hot.id = next_id_++;
  marks_touched_ = true;
  hot.queue = &queue;
  hot.kind = kind_of(job.kind);
  hot.state = state;
  hot.priority = MS_MUTANT(priority_ignored) ? 5 : job.priority;
  hot.run_at = run_at;
  hot.flags = flags | (job.unique ? kFlagUnique : 0) | (is_followed(job) ? kFlagFollowed : 0) |
              on_expiry_flag(job.on_expiry) | depth_flags(job.trigger_depth);
  if (!job.session.empty()) {
    hot.flags |= kFlagSession | on_dead_flags(job.on_dead);
    hot.state = join_session(session_of(queue, job.session), hot.id, state);
  }
  if (!job.limit_key.empty()) hot.flags |= kFlagLimitKey;
  if (job.expires_in) hot.expires_at = (now_.wall + *job.expires_in).us();
  sql_->insert_job
      .bind(hot.id, queue.id, hot.kind, static_cast<int>(hot.state), hot.priority, run_at.us(),
            job.max_attempts, hot.flags, hot.expires_at)
      .run();
  const std::string tags = join_tags(job.tags);
  const std::string follow_ups = encode_follow_ups(job.follow_ups);
  sql_->insert_body
      .bind(hot.id, now_.wall.us(), job.args, job.max_attempts, timeout_us(job.timeout),
            Statement::text_or_null(tags), Statement::text_or_null(job.headers),
            Statement::text_or_null(job.correlation_id), Statement::text_or_null(job.reply_to),
            Statement::text_or_null(job.unique ? job.unique->key : ""),
            schedule != 0 ? std::optional<std::int64_t>(schedule) : std::nullopt,
            Statement::text_or_null(MS_MUTANT(follow_ups_not_kept) ? "" : follow_ups),
            Statement::text_or_null(job.session), Statement::text_or_null(job.reply_session),
            Statement::text_or_null(job.limit_key))
      .run();
  bodies_.add(hot.id, job, tags);
  index_args(queue, hot.id, job.args);
  if (job.unique) {
    // Without a window the key is free when the job ends, regardless of the wall clock.
    const Duration window = job.unique->window;
    const std::int64_t until = window > Duration(0) ? (now_.wall + window).us() : 0;
    sql_->upsert_unique.bind(queue.id, job.unique->key, hot.id, until).run();
  }
  if (hot.expires_at) {
    sql_->insert_expiring.bind(*hot.expires_at, hot.id).run();
    expiring_touched_ = true;
  }
  enter(hot);
  ++queue.job_counts.enqueued;
  count(queue, hot.state, hot.flags, 1);
  add_live(hot.id, 1);
  return {.id = hot.id, .state = hot.state};
}

std::optional<EnqueuedJob> SqlStore::enqueue_unique(const NewJob& job, QueueState& queue,
                                                    WallTime run_at) {
  JobId id = 0;
  WallTime until;
  std::optional<JobState> ended;  // the state of a pruned job
  {
    Statement& row = sql_->select_unique;
    row.bind(queue.id, job.unique->key);
    ResetGuard guard(row);
    if (!row.step()) return std::nullopt;
    id = row.integer(0);
    until = WallTime::from_us(row.integer(1));
    if (!row.is_null(2)) ended = row.one_of(2, JobState::dead);
  }
  if (ended) {
    if (now_.wall < until) return EnqueuedJob{.id = id, .state = *ended, .duplicate = true};
    finished_touched_ = true;  // the key was taken over before the job was pruned
    return std::nullopt;
  }
  if (leases_.contains(id))
    return EnqueuedJob{.id = id, .state = JobState::running, .duplicate = true};
  auto hot = load_hot(id);
  if (!hot) return std::nullopt;
  if (is_terminal(hot->state)) {
    if (now_.wall >= until) return std::nullopt;
    return EnqueuedJob{.id = id, .state = hot->state, .duplicate = true};
  }
  const bool deferred_or_quarantined = (hot->flags & (kFlagDeferred | kFlagQuarantined)) != 0;
  if (deferred_or_quarantined && !MS_MUTANT(deferred_replaced))
    return EnqueuedJob{.id = id, .state = hot->state, .duplicate = true};
  switch (job.unique->on_conflict) {
    case OnConflict::keep:
      break;
    case OnConflict::replace:
      replace_job(*hot, job, run_at);
      break;
    case OnConflict::postpone:
      postpone_job(*hot, job, run_at);
      break;
  }
  return EnqueuedJob{.id = id, .state = hot->state, .duplicate = true};
}

void SqlStore::replace_job(HotRow& hot, const NewJob& job, WallTime run_at) {
  leave(hot);
  count(*hot.queue, hot.state, hot.flags, -1);
  hot.kind = kind_of(job.kind);
  hot.priority = job.priority;
  hot.run_at = run_at;
  hot.state = state_in_session(hot, run_at > now_.wall ? JobState::scheduled : JobState::available);
  forget_attempts(hot, job.max_attempts);
  hot.started_at.reset();
  set_expiry(hot, job.expires_in ? std::optional(now_.wall + *job.expires_in) : std::nullopt);
  ++hot.version;
  const int depth = std::max(job.trigger_depth, depth_of(hot.flags));
  hot.flags = (hot.flags & ~(kFlagFollowed | kFlagDiesOfExpiry | kDepthFlags | kFlagLimitKey)) |
              (is_followed(job) ? kFlagFollowed : 0) | on_expiry_flag(job.on_expiry) |
              depth_flags(depth) | (job.limit_key.empty() ? 0 : kFlagLimitKey);
  const std::string tags = join_tags(job.tags);
  const std::string follow_ups = encode_follow_ups(job.follow_ups);
  unindex_args(*hot.queue, hot.id);
  sql_->update_body
      .bind(hot.id, job.args, job.max_attempts, timeout_us(job.timeout),
            Statement::text_or_null(tags), Statement::text_or_null(job.headers),
            Statement::text_or_null(job.correlation_id), Statement::text_or_null(job.reply_to),
            Statement::text_or_null(follow_ups), Statement::text_or_null(job.reply_session),
            Statement::text_or_null(job.limit_key))
      .run();
  bodies_.drop(hot.id);
  index_args(*hot.queue, hot.id, job.args);
  save_hot(hot);
  enter(hot);
  count(*hot.queue, hot.state, hot.flags, 1);
}

void SqlStore::postpone_job(HotRow& hot, const NewJob& job, WallTime run_at) {
  leave(hot);
  count(*hot.queue, hot.state, hot.flags, -1);
  if (!MS_MUTANT(expiry_not_postponed)) {
    const auto expires_at =
        hot.expires_at ? std::optional(WallTime::from_us(*hot.expires_at)) : std::nullopt;
    set_expiry(hot, postponed_expiry(job, {.run_at = hot.run_at, .expires_at = expires_at}, run_at,
                                     now_.wall));
    if (job.expires_in)
      hot.flags = (hot.flags & ~kFlagDiesOfExpiry) | on_expiry_flag(job.on_expiry);
  }
  hot.run_at = run_at;
  hot.state = state_in_session(hot, run_at > now_.wall ? JobState::scheduled : JobState::available);
  ++hot.version;
  save_hot(hot);
  enter(hot);
  count(*hot.queue, hot.state, hot.flags, 1);
}

void SqlStore::set_expiry(HotRow& hot, std::optional<WallTime> at) {
  if (hot.expires_at) sql_->delete_expiring.bind(*hot.expires_at, hot.id).run();
  hot.expires_at.reset();
  if (at) hot.expires_at = at->us();
  if (at && !hot.started_at) sql_->insert_expiring.bind(at->us(), hot.id).run();
  expiring_touched_ = true;
}

}  // namespace mainspring::sql
