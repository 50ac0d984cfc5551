// Writes the changes of loaded jobs to the database, with arrays and without waiting.
#include <algorithm>

#include "base/mutant.h"
#include "store_postgres/columns.h"
#include "store_postgres/store_impl.h"

namespace mainspring::pg {
namespace {

bool waits_for_its_time(const JobRow& row) {
  return (row.state == JobState::scheduled || row.state == JobState::retryable) &&
         !waits_in_quarantine(row);
}

bool can_expire(const JobRow& row) {
  return row.expires_at != 0 && row.started_at == 0 && !is_terminal(row.state);
}

// The key of a row in `ready`.
struct Place {
  int queue = 0, priority = 0, kind = 0;
  std::int64_t run_at = 0, id = 0, expires_at = 0;
  friend bool operator==(const Place&, const Place&) = default;
};
std::optional<Place> place_of(const JobRow& row) {
  if (row.state != JobState::available) return std::nullopt;
  return Place{.queue = row.queue,
               .priority = row.priority,
               .kind = row.kind,
               .run_at = row.run_at,
               .id = row.id,
               .expires_at = row.started_at == 0 ? row.expires_at : 0};
}

void note_deferred(const LoadedJob& job, Ints& deferred, Ints& not_deferred) {
  const bool was = job.was && job.was->deferred;
  const bool is = !job.removed && job.row.deferred;
  if (was != is) (is ? deferred : not_deferred).push_back(job.row.id);
}

}  // namespace

std::string PostgresStore::join_tags(const std::vector<std::string>& tags) {
  std::string out;
  for (const std::string& tag : tags) {
    if (!out.empty()) out += '\x1f';
    out += storable(tag);
  }
  return out;
}

void PostgresStore::flush() {
  if (!any_touched_) return;
  any_touched_ = false;
  std::vector<LoadedJob*> touched, fresh, changed;
  for (auto& [id, job] : loaded_) {
    if (!job.touched) continue;
    touched.push_back(&job);
    if (job.removed) continue;
    (job.was ? changed : fresh).push_back(&job);
  }
  flush_sessions();
  if (!fresh.empty()) flush_bodies(fresh);
  if (!changed.empty()) {
    flush_replaced(changed);
    flush_rows(changed);
  }
  flush_ready(touched);
  flush_times(touched);
  flush_ends(touched);
  Ints deferred, not_deferred;
  for (const LoadedJob* job : touched) note_deferred(*job, deferred, not_deferred);
  if (!not_deferred.empty()) write(sql_.delete_deferred, params(not_deferred));
  if (!deferred.empty()) write(sql_.insert_deferred, params(deferred));
  flush_quarantine(touched);
  flush_removed(touched);
  if (!new_errors_.empty()) {
    Ints jobs, seqs, attempts, ats, ran;
    Texts workers, messages, ends;
    for (const NewError& e : new_errors_) {
      jobs.push_back(e.job), seqs.push_back(e.seq), attempts.push_back(e.attempt);
      ats.push_back(e.at), ran.push_back(e.ran_for);
      workers.emplace_back(e.worker), messages.emplace_back(e.message);
      ends.push_back(text_or_null(e.program_end));
    }
    write(sql_.insert_errors, params(jobs, seqs, attempts, ats, ran, workers, messages, ends));
    new_errors_.clear();
  }
  for (LoadedJob* job : touched) {
    if (job->was) count(*job->was, -1);
    if (!job->removed) count(job->row, 1);
    job->was = job->row;
    job->touched = job->edited = false;
    job->prune_at = 0;
    job->fingerprint = 0;
    job->body.reset();
  }
}

void PostgresStore::flush_bodies(const std::vector<LoadedJob*>& fresh) {
  Ints id, state, flags, priority, max_attempts, run_at, expires_at, timeout, schedule, queue, kind,
      budget, depth;
  Texts key, correlation, reply, tags, headers, args, follow_ups, session, reply_session, limit_key;
  std::vector<std::string> joined(fresh.size()), then(fresh.size());
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    const JobRow& row = fresh[i]->row;
    const NewJob& body = *fresh[i]->body;
    id.push_back(row.id), state.push_back(static_cast<int>(row.state)), flags.push_back(row.flags);
    priority.push_back(row.priority), max_attempts.push_back(row.max_attempts);
    run_at.push_back(row.run_at), expires_at.push_back(row.expires_at);
    timeout.push_back(row.timeout), schedule.push_back(row.schedule), queue.push_back(row.queue);
    kind.push_back(row.kind), budget.push_back(row.budget);
    key.push_back(text_or_null(row.unique_key));
    correlation.push_back(text_or_null(body.correlation_id));
    reply.push_back(text_or_null(body.reply_to));
    joined[i] = join_tags(body.tags);
    tags.push_back(text_or_null(joined[i]));
    headers.push_back(text_or_null(body.headers)), args.emplace_back(body.args);
    then[i] = encode_follow_ups(body.follow_ups);
    follow_ups.push_back(text_or_null(then[i]));
    session.push_back(text_or_null(row.session));
    reply_session.push_back(text_or_null(body.reply_session));
    depth.push_back(row.trigger_depth);
    limit_key.push_back(text_or_null(body.limit_key));
  }
  Params p = params(id);
  for (const Ints* numbers : {&state, &flags, &priority, &max_attempts, &run_at, &expires_at,
                              &timeout, &schedule, &queue, &kind, &budget, &depth})
    p.column(*numbers);
  for (const Texts* texts : {&key, &correlation, &reply, &tags, &headers, &args, &follow_ups,
                             &session, &reply_session, &limit_key})
    p.column(*texts);
  write(sql_.insert_jobs, p.add(wall()));
  // A new job that was changed after its insert is written again, with its other columns.
  std::vector<LoadedJob*> changed;
  for (LoadedJob* job : fresh) {
    if (job->row.version != 1) changed.push_back(job);
  }
  if (!changed.empty()) flush_rows(changed);
}

void PostgresStore::flush_rows(const std::vector<LoadedJob*>& changed) {
  std::array<Ints, 16> c;
  Texts worker;
  for (const LoadedJob* job : changed) {
    const JobRow& r = job->row;
    const std::array<std::int64_t, 16> values = {r.id,          static_cast<std::int64_t>(r.state),
                                                 r.flags,       r.priority,
                                                 r.attempt,     r.max_attempts,
                                                 r.version,     r.token,
                                                 r.lease_until, r.lease,
                                                 r.claimed_at,  r.run_at,
                                                 r.started_at,  r.finished_at,
                                                 r.expires_at,  r.kept};
    for (std::size_t i = 0; i < values.size(); ++i) c[i].push_back(values[i]);
    worker.push_back(text_or_null(r.worker));
  }
  write(sql_.update_jobs, rows_of(c).column(worker));
}

void PostgresStore::flush_replaced(const std::vector<LoadedJob*>& changed) {
  for (const LoadedJob* job : changed) {
    if (!job->body) continue;
    const NewJob& body = *job->body;
    const std::string tags = join_tags(body.tags);
    const std::string follow_ups = encode_follow_ups(body.follow_ups);
    write(sql_.replace_bodies,
          params(job->row.id, std::int64_t{job->row.kind}, std::int64_t{job->row.budget},
                 job->row.timeout, text_or_null(body.correlation_id), text_or_null(body.reply_to),
                 text_or_null(tags), text_or_null(body.headers), body.args,
                 text_or_null(follow_ups), text_or_null(body.reply_session),
                 std::int64_t{job->row.trigger_depth}, text_or_null(body.limit_key)));
  }
}

void PostgresStore::flush_ready(const std::vector<LoadedJob*>& all) {
  std::array<Ints, 4> gone;
  std::array<Ints, 7> come;
  for (const LoadedJob* job : all) {
    const std::optional<JobRow> now = job->removed ? std::nullopt : std::optional(job->row);
    const auto before = job->was ? place_of(*job->was) : std::nullopt;
    const auto after = now ? place_of(*now) : std::nullopt;
    // An edited job may be held back: writing it again removes that row too.
    const bool moved = before != after || (before && (job->body || job->edited));
    if (before && moved) {
      gone[0].push_back(before->id), gone[1].push_back(before->queue);
      gone[2].push_back(before->priority), gone[3].push_back(before->run_at);
      if (!job->row.session.empty()) --after_.heads[before->queue];
    }
    if (after && moved) {
      come[0].push_back(after->id), come[1].push_back(after->queue);
      come[2].push_back(after->priority), come[3].push_back(after->kind);
      come[4].push_back(after->run_at), come[5].push_back(after->expires_at);
      come[6].push_back(session_id(job->row));
      if (come[6].back() != 0) {
        ++after_.heads[after->queue];
        if (!before) gain_queue(accept_queue(queue_name(after->queue)));
      }
      auto& first = hints_[after->queue].first[static_cast<std::size_t>(after->priority)];
      first = std::min(first, after->run_at);
    }
  }
  if (!gone[0].empty()) write(sql_.delete_ready, rows_of(gone));
  if (!come[0].empty()) write(sql_.insert_ready, rows_of(come));
}

void PostgresStore::flush_times(const std::vector<LoadedJob*>& all) {
  std::array<Ints, 2> not_due, due, not_expiring, expiring;
  for (const LoadedJob* job : all) {
    const std::optional<JobRow> now = job->removed ? std::nullopt : std::optional(job->row);
    const bool was_due = job->was && waits_for_its_time(*job->was);
    const bool is_due = now && waits_for_its_time(*now);
    if (was_due && !(is_due && now->run_at == job->was->run_at)) {
      not_due[0].push_back(job->was->run_at), not_due[1].push_back(job->was->id);
      after_.look_due = true;
    }
    if (is_due && !(was_due && now->run_at == job->was->run_at)) {
      due[0].push_back(now->run_at), due[1].push_back(now->id);
      after_.next_due = std::min(after_.next_due, WallTime::from_us(now->run_at));
    }
    const std::int64_t expired = job->was && can_expire(*job->was) ? job->was->expires_at : 0;
    const std::int64_t expires = now && can_expire(*now) ? now->expires_at : 0;
    if (expired != 0 && expired != expires) {
      not_expiring[0].push_back(expired), not_expiring[1].push_back(job->row.id);
      after_.look_expiry = true;
    }
    if (expires != 0 && expired != expires) {
      expiring[0].push_back(expires), expiring[1].push_back(job->row.id);
      after_.next_expiry = std::min(after_.next_expiry, WallTime::from_us(expires));
    }
  }
  if (!not_due[0].empty()) write(sql_.delete_due, params(not_due[0], not_due[1]));
  if (!due[0].empty()) write(sql_.insert_due, params(due[0], due[1]));
  if (!not_expiring[0].empty())
    write(sql_.delete_expiring, params(not_expiring[0], not_expiring[1]));
  if (!expiring[0].empty()) write(sql_.insert_expiring, params(expiring[0], expiring[1]));
}

void PostgresStore::flush_ends(const std::vector<LoadedJob*>& all) {
  Ints not_dead;
  std::array<Ints, 5> dead;
  std::map<std::int64_t, Ints> finished;  // by prune_at
  for (const LoadedJob* job : all) {
    const std::optional<JobRow> now = job->removed ? std::nullopt : std::optional(job->row);
    const bool was_dead = job->was && job->was->state == JobState::dead;
    const bool is_dead = now && now->state == JobState::dead;
    const bool died = is_dead && (!was_dead || job->fingerprint != 0);
    if (died) {
      dead[0].push_back(now->id), dead[1].push_back(now->queue), dead[2].push_back(now->kind);
      dead[3].push_back(job->fingerprint), dead[4].push_back(now->finished_at);
    }
    if (was_dead && now && (!is_dead || died)) not_dead.push_back(now->id);
    if (now && job->prune_at != 0 && is_terminal(now->state))
      finished[job->prune_at].push_back(now->id);
  }
  if (!not_dead.empty()) write(sql_.delete_dead, params(not_dead));
  if (!dead[0].empty())
    write(sql_.insert_dead, params(dead[0], dead[1], dead[2], dead[3], dead[4]));
  for (const auto& [prune_at, ids] : finished) {
    write(sql_.insert_finished, params(prune_at, wall(), ids));
    after_.next_prune = std::min(after_.next_prune, WallTime::from_us(prune_at));
  }
}

void PostgresStore::flush_removed(const std::vector<LoadedJob*>& all) {
  Ints ids, extras, errors, dead, memos, key_queues, key_ids, key_states, keyed;
  Texts keys;
  for (const LoadedJob* job : all) {
    if (!job->removed || !job->was) continue;
    const JobRow& row = *job->was;
    ids.push_back(row.id);
    if ((row.flags & kFlagExtras) != 0) extras.push_back(row.id);
    if ((row.flags & kFlagErrors) != 0) errors.push_back(row.id);
    if ((row.flags & kFlagMemos) != 0) memos.push_back(row.id);
    const auto queue = queues_by_id_.find(row.queue);
    const bool noted = queue != queues_by_id_.end() &&
                       (queue->second->limits.per_key.fair || !queue->second->limits.costs.empty());
    if (noted || (row.flags & kFlagLimitKey) != 0) keyed.push_back(row.id);
    if (row.state == JobState::dead) dead.push_back(row.id);
    if (!row.unique_key.empty()) {
      key_queues.push_back(row.queue), key_ids.push_back(row.id);
      keys.emplace_back(row.unique_key);
      key_states.push_back(static_cast<std::int64_t>(row.state));
    }
    ++job_counts_[row.queue].pruned;
  }
  if (ids.empty()) return;
  write(sql_.delete_jobs, params(ids, extras, errors, dead));
  if (!memos.empty()) write(memo_sql_.remove, params(memos));
  if (!keyed.empty()) write(key_sql_.forget_jobs, params(keyed));
  // Kept until their windows end: prune_uniques.
  if (!keys.empty())
    write(sql_.let_unique_go, params(key_queues, keys, key_ids, key_states, wall()));
}

void PostgresStore::count(const JobRow& row, int delta) {
  JobCountsChange& job_counts = job_counts_[row.queue];
  if (row.state == JobState::cancelled && (row.flags & kFlagExpired) != 0) {
    job_counts.expired += delta;
  } else {
    job_counts.counts[static_cast<std::size_t>(row.state)] += delta;
  }
  if (is_terminal(row.state)) after_.finished += delta;
  if (row.state == JobState::available) after_.available[row.queue] += delta;
  if (row.state == JobState::available && delta < 0) heavy_left(row);
  if (row.state != JobState::running) return;
  after_.running[row.queue] += delta;
  const auto queue = queues_by_id_.find(row.queue);
  if (queue == queues_by_id_.end() || delta > 0) return;
  const QueueLimits& limits = queue->second->limits;
  if (limits.concurrency && !MS_MUTANT(end_opens_nothing)) opened_.insert(row.queue);
  if (!limits.breaker.empty()) touch_breaker_of(*queue->second);
  const bool of_key = limits.per_key.concurrency && (row.flags & kFlagLimitKey) != 0;
  if (of_key && !MS_MUTANT(end_leaves_key_closed)) after_.gained.insert(row.queue);
}

void PostgresStore::flush_job_counts() {
  std::array<Ints, 12> c;
  for (const auto& [queue, t] : job_counts_) {
    const bool same = t.enqueued == 0 && t.pruned == 0 && t.expired == 0 &&
                      std::all_of(t.counts.begin(), t.counts.end(), [](auto n) { return n == 0; });
    if (same) continue;
    c[0].push_back(queue), c[1].push_back(t.enqueued), c[2].push_back(t.pruned);
    c[3].push_back(t.expired);
    for (std::size_t i = 0; i < t.counts.size(); ++i) c[4 + i].push_back(t.counts[i]);
  }
  job_counts_.clear();
  if (c[0].empty()) return;
  marked_ = true;
  write(sql_.insert_job_counts, params(node_, batch_, wall(), c[0], c[1], c[2], c[3], c[4], c[5],
                                       c[6], c[7], c[8], c[9], c[10], c[11], session_));
}

}  // namespace mainspring::pg
