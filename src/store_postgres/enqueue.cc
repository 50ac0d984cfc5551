// Enqueue: all jobs or none, with unique keys and idempotency keys. Simple jobs of many requests
// are inserted by one statement.
#include <fmt/format.h>

#include <algorithm>

#include "base/mutant.h"
#include "store/bounds.h"
#include "store/job_edits.h"
#include "store_postgres/fast_path.h"

namespace mainspring::pg {

Error PostgresStore::too_many() const {
  return {.code = ErrorCode::overloaded,
          .message = fmt::format("the store holds {} live jobs: must be at most max_live_jobs {}",
                                 live_jobs_ + after_.live, options_.store.max_live_jobs),
          .retry_after_ms = 5000};
}

WallTime PostgresStore::run_at_of(const NewJob& job) const {
  if (job.run_at) return *job.run_at;
  return job.delay ? now_.wall + *job.delay : now_.wall;
}

// Other nodes add and end jobs too: the counters are reloaded from time to time, and before a
// refusal.
bool PostgresStore::has_room(std::int64_t jobs, std::int64_t reserved) {
  constexpr Duration kAskEvery = std::chrono::seconds(1);
  const auto fits = [&] {
    return live_jobs_ + after_.live + jobs <= options_.store.max_live_jobs + reserved;
  };
  const Instant now = steady_.now().instant;
  if (fits() || now < counted_at_ + kAskEvery) return fits();
  counted_at_ = now;
  const Rows totals = ask(sql_.totals, {});
  live_jobs_ = totals.integer(0, 0) - after_.live_counted;
  finished_jobs_ = totals.integer(0, 1) - after_.finished_counted;
  return fits();
}

bool PostgresStore::has_sessions(const Enqueue& op) {
  return std::any_of(op.jobs.begin(), op.jobs.end(),
                     [](const NewJob& job) { return !job.session.empty(); });
}

bool PostgresStore::is_simple(const Enqueue& op) {
  return is_simple_but_for_sessions(op) && !has_sessions(op);
}

bool PostgresStore::is_simple_but_for_sessions(const Enqueue& op) {
  return op.idempotency_key.empty() && op.fence.lease.empty() && !op.jobs.empty() &&
         std::all_of(op.jobs.begin(), op.jobs.end(), [](const NewJob& job) {
           return !job.unique && !job.expires_in && !is_followed(job) && job.limit_key.empty();
         });
}

EnqueueResult PostgresStore::take_columns(const Enqueue& op, Columns& c) {
  EnqueueResult answer;
  answer.jobs.reserve(op.jobs.size());
  for (const NewJob& job : op.jobs) {
    const WallTime at = run_at_of(job);
    const JobState begins = at > now_.wall ? JobState::scheduled : JobState::available;
    const int id = queue_of(job.queue).id;
    answer.jobs.push_back({.state = begins});
    c.state.push_back(static_cast<int>(begins)), c.priority.push_back(job.priority);
    c.run_at.push_back(at.us()), c.queue.push_back(id), c.kind.push_back(kind_of(job.kind));
    c.max_attempts.push_back(job.max_attempts), c.timeout.push_back(job.timeout.count());
    c.args.emplace_back(job.args), c.headers.push_back(text_or_null(job.headers));
    c.joined.push_back(join_tags(job.tags));
    c.tags.push_back(text_or_null(c.joined.back()));
    c.correlation.push_back(text_or_null(job.correlation_id));
    c.reply.push_back(text_or_null(job.reply_to));
    if (c.into_sessions) {
      c.flags.push_back(flags_of(job));
      c.session.push_back(text_or_null(job.session));
    }
    JobCountsChange& job_counts = c.job_counts[id];
    ++job_counts.enqueued;
    ++job_counts.counts[static_cast<std::size_t>(begins)];
    if (begins == JobState::available) {
      if (!c.into_sessions) note_heads(id, 1, 0);  // else it may have to wait in its session
      auto& begin = hints_[id].first[static_cast<std::size_t>(job.priority)];
      begin = std::min(begin, at.us());
    } else {
      c.some_wait = true;
      if (!c.into_sessions) after_.next_due = std::min(after_.next_due, at);
    }
  }
  after_.live += static_cast<std::int64_t>(op.jobs.size());
  return answer;
}

// Each array costs the server time per row: a column with the same value in all rows is passed as
// one value, and an empty column is omitted.
void PostgresStore::send_columns(const Columns& c, bool packs, bool keep_ids,
                                 std::function<void(Rows)> then) {
  const auto same = [](const Ints& column) {
    return std::all_of(column.begin(), column.end(),
                       [&](std::int64_t value) { return value == column.front(); });
  };
  Params p;
  const std::array<const Ints*, 7> numbers = {&c.state, &c.priority,     &c.run_at, &c.queue,
                                              &c.kind,  &c.max_attempts, &c.timeout};
  std::array<std::optional<std::int64_t>, 7> values;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (same(*numbers[i])) {
      values[i] = numbers[i]->front();
      p.null(Params::kInt8Array);
    } else {
      p.add(*numbers[i]);
    }
  }
  p.add(c.args);
  for (const Texts* column : {&c.headers, &c.tags, &c.correlation, &c.reply}) {
    if (std::none_of(column->begin(), column->end(), [](const auto& text) { return text; })) {
      p.null(Params::kTextArray);
    } else {
      p.add(*column);
    }
  }
  Ints queues, enqueued, available;
  for (const auto& [queue, job_counts] : c.job_counts) {
    queues.push_back(queue), enqueued.push_back(job_counts.enqueued);
    available.push_back(job_counts.counts[static_cast<std::size_t>(JobState::available)]);
  }
  p.add(wall()).add(node_).add(batch_).add(keep_ids).add(queues).add(enqueued).add(available);
  p.add(!held_).add(session_);
  for (const auto& value : values) p.add(value);
  if (packs) {
    p.add(options_.most_of_pack);
    for (const auto& [queue, job_counts] : c.job_counts)
      hints_[static_cast<int>(queue)].packs = true;
  }
  held_ = marked_ = true;
  after_.live_counted += std::ssize(c.state);
  wrote();
  const Statement& rest = c.some_wait ? sql_.enqueue_simple : sql_.enqueue_available;
  later(packs ? sql_.enqueue_packs : rest, p, std::move(then));
}

std::size_t PostgresStore::enqueue_run(std::span<const Operation> rest,
                                       std::vector<OperationResult>& results, bool from_start) {
  std::size_t run = 0;
  const std::size_t first = results.size() - rest.size();
  Columns columns;
  columns.into_sessions = !entered_.empty();
  std::size_t requests = 0;
  for (; run < rest.size(); ++run) {
    const auto* op = std::get_if<Enqueue>(&rest[run]);
    if (op == nullptr || !(fast_path_ || is_simple(*op))) break;
    // An operation followed by its audit record is applied on its own.
    if (run + 1 < rest.size() && std::holds_alternative<Audit>(rest[run + 1])) break;
    if (!has_room(static_cast<std::int64_t>(op->jobs.size()), reserved_for(*op))) {
      results[first + run] = too_many();
      continue;
    }
    results[first + run] = take_columns(*op, columns);
    ++requests;
  }
  if (columns.state.empty()) return run;
  const std::span<OperationResult> answers = std::span(results).subspan(first, run);
  if (columns.into_sessions) {
    send_into_sessions(columns, rest.first(run), answers);
    return run;
  }
  flush();  // in the order of the batch
  // Then the batch's mark keeps the ids, in case the answer to the commit is lost. Otherwise the
  // ids must arrive before the commit.
  const bool keep_ids = fast_path_ || (from_start && run == rest.size());
  must_look_ = must_look_ || !keep_ids;
  send_columns(columns, may_pack(columns, requests), keep_ids,
               [&results, first, run](const Rows& rows) {
                 const Ints ids = rows.ints(0, 0);
                 std::size_t next = 0;
                 for (std::size_t i = first; i < first + run; ++i) {
                   auto* answer = std::get_if<EnqueueResult>(&results[i]);
                   if (answer == nullptr) continue;
                   for (EnqueuedJob& job : answer->jobs) job.id = ids.at(next++);
                 }
               });
  return run;
}

// enqueue() of an application locks its key until its transaction ends. Waiting for it would stop
// the batch.
std::optional<Error> PostgresStore::key_in_use(const Enqueue& op) {
  Texts queues, keys;
  for (const NewJob& job : op.jobs) {
    if (job.unique) queues.emplace_back(job.queue), keys.emplace_back(job.unique->key);
  }
  if (keys.empty() || MS_MUTANT(keys_of_applications_awaited)) return std::nullopt;
  const Rows used = ask(sql_.key_in_use, params(queues, keys));
  if (used.empty()) return std::nullopt;
  return Error{
      .code = ErrorCode::unavailable,
      .message = fmt::format("unique key \"{}\": an open transaction of an application has "
                             "it; retry",
                             used.text(0, 0)),
      .retry_after_ms = 1000};
}

OperationResult PostgresStore::operator()(const Enqueue& op) {
  if (auto lost = fenced(op.fence)) return std::move(*lost);
  if (auto used = key_in_use(op)) return std::move(*used);
  if (!op.idempotency_key.empty()) {
    if (auto replayed = replay_idempotent(op)) return std::move(*replayed);
  }
  if (!has_room(static_cast<std::int64_t>(op.jobs.size()), reserved_for(op))) {
    if (!op.idempotency_key.empty())
      tell(sql_.drop_idempotency, params(scoped_idempotency_key(op)));
    return too_many();
  }
  std::set<SessionName> sessions;
  for (const NewJob& job : op.jobs) {
    if (!job.session.empty()) sessions.insert({queue_of(job.queue).id, job.session});
  }
  if (!sessions.empty()) take_sessions(sessions);
  std::size_t fresh = 0;
  for (const NewJob& job : op.jobs) fresh += job.unique ? 0 : 1;
  if (fresh > 1) new_ids(fresh);
  EnqueueResult result;
  result.jobs.reserve(op.jobs.size());
  Ints ids;
  for (const NewJob& job : op.jobs) {
    result.jobs.push_back(enqueue_one(job));
    ids.push_back(result.jobs.back().id);
  }
  if (!op.idempotency_key.empty()) {
    const WallTime until = now_.wall + kIdempotencyWindow;
    write(sql_.insert_idempotency,
          params(scoped_idempotency_key(op), until.us(), op.fingerprint, ids));
    after_.next_prune = std::min(after_.next_prune, until);
  }
  return result;
}

std::optional<OperationResult> PostgresStore::replay_idempotent(const Enqueue& op) {
  // If two nodes use the same key, the second waits here until the first has committed.
  tell(sql_.claim_idempotency, params(scoped_idempotency_key(op)));
  const Rows row = ask(sql_.select_idempotency, params(scoped_idempotency_key(op)));
  if (row.empty() || row.integer(0, 2) <= wall()) return std::nullopt;
  if (row.text(0, 0) != op.fingerprint) {
    return Error{.code = ErrorCode::conflict,
                 .message = fmt::format("idempotency key \"{}\": was used with another request "
                                        "body in the last 24 h",
                                        op.idempotency_key),
                 .field = "Idempotency-Key"};
  }
  EnqueueResult result{.jobs = {}, .replayed = true};
  const std::vector<JobId> ids = row.ints(0, 1);
  jobs_by_id(ids);
  for (const JobId id : ids) {
    const auto held = loaded_.find(id);
    const bool there = held != loaded_.end() && !held->second.removed;
    result.jobs.push_back({.id = id,
                           .state = there ? held->second.row.state : JobState::completed,
                           .duplicate = true});
  }
  return result;
}

EnqueuedJob PostgresStore::enqueue_one(const NewJob& job) {
  const WallTime run_at = run_at_of(job);
  if (job.unique) {
    if (auto duplicate = enqueue_unique(job, run_at)) return *duplicate;
  }
  const JobState state = run_at > now_.wall ? JobState::scheduled : JobState::available;
  const LoadedJob& made = add_job(job, run_at, state, 0);
  if (job.unique) {
    // Without a window the key is free when the job ends, regardless of the wall clock.
    const Duration window = job.unique->window;
    const std::int64_t until = window > Duration(0) ? (now_.wall + window).us() : 0;
    write(sql_.set_unique,
          params(std::int64_t{made.row.queue}, job.unique->key, made.row.id, until));
  }
  return {.id = made.row.id, .state = made.row.state};
}

Rows PostgresStore::lock_unique_key(std::int64_t queue, std::string_view key) {
  // An existing row may be removed while this waits for it: then it is inserted.
  constexpr int kMaxTries = 10;
  for (int tries = 0; tries < kMaxTries; ++tries) {
    tell(sql_.claim_unique, params(queue, key));
    Rows row = ask(sql_.take_unique, params(queue, key));
    if (!row.empty()) return row;
  }
  throw PgError{.sqlstate = "40001", .message = "unique key is heavily contended; retry"};
}

std::optional<EnqueuedJob> PostgresStore::enqueue_unique(const NewJob& job, WallTime run_at) {
  const Rows row = lock_unique_key(queue_of(job.queue).id, job.unique->key);
  const JobId id = row.integer(0, 0);
  if (id == 0) return std::nullopt;
  LoadedJob* held = this->job(id);
  if (held == nullptr) {
    if (row.is_null(0, 2) || wall() >= row.integer(0, 1)) return std::nullopt;
    const auto ended = static_cast<JobState>(row.integer(0, 2));
    return EnqueuedJob{.id = id, .state = ended, .duplicate = true};
  }
  const JobRow& found = held->row;
  if (is_terminal(found.state)) {
    if (wall() >= row.integer(0, 1)) return std::nullopt;
    return EnqueuedJob{.id = id, .state = found.state, .duplicate = true};
  }
  const bool stays = found.state == JobState::running || found.deferred || found.quarantined != 0;
  if (stays || job.unique->on_conflict == OnConflict::keep)
    return EnqueuedJob{.id = id, .state = found.state, .duplicate = true};
  job.unique->on_conflict == OnConflict::replace ? replace_job(*held, job)
                                                 : postpone_expiry(held->row, job, run_at);
  JobState begins = run_at > now_.wall ? JobState::scheduled : JobState::available;
  if ((found.flags & kFlagSession) != 0) {  // it keeps its position, and stays the head if it is
    LoadedSession& session = session_of(found);
    begins = session.row.head == id ? state_of_head(session, begins) : JobState::waiting;
  }
  set_waiting(*held, begins, run_at.us());
  return EnqueuedJob{.id = id, .state = held->row.state, .duplicate = true};
}

void PostgresStore::postpone_expiry(JobRow& row, const NewJob& job, WallTime run_at) {
  const auto expires_at =
      row.expires_at != 0 ? std::optional(WallTime::from_us(row.expires_at)) : std::nullopt;
  const auto moved = postponed_expiry(
      job, {.run_at = WallTime::from_us(row.run_at), .expires_at = expires_at}, run_at, now_.wall);
  row.expires_at = moved ? moved->us() : 0;
  if (job.expires_in)
    row.flags = (row.flags & ~kFlagDiesOfExpiry) | (flags_of(job) & kFlagDiesOfExpiry);
}

void PostgresStore::replace_job(LoadedJob& held, const NewJob& job) {
  JobRow& row = held.row;
  row.kind = kind_of(job.kind);
  row.priority = job.priority;
  forget_attempts(row, job.max_attempts);
  row.started_at = 0;
  row.budget = job.max_attempts;
  row.timeout = job.timeout.count();
  row.expires_at = job.expires_in ? (now_.wall + *job.expires_in).us() : 0;
  constexpr int kReplaced = kFlagFollowed | kFlagIntoSession | kFlagDiesOfExpiry | kFlagLimitKey;
  row.flags = (row.flags & ~kReplaced) | (flags_of(job) & kReplaced);
  row.trigger_depth = std::max(row.trigger_depth, job.trigger_depth);
  held.body = job;
}

}  // namespace mainspring::pg
