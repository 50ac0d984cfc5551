// Jobs of sessions in fast-path batches: many new jobs, and completions that make the next job the
// head. Each is one statement, after a statement that locks all their sessions in order. Other
// cases use loaded rows (loaded_sessions.cc): jobs that fail or have follow-ups, and sessions that
// are held or stopped.
#include "store_postgres/fast_path_sessions.h"

#include <algorithm>

#include "base/mutant.h"
#include "store_postgres/fast_path.h"

namespace mainspring::pg {

namespace {
// If the statement completed no job of a queue, completions of the queue's session jobs use loaded
// rows for this long: the queue may have limits, or something may wait for the ends of its jobs.
constexpr Duration kByHand = std::chrono::seconds(10);
}  // namespace

// Runs before anything else of the batch: see locks.cc.
void PostgresStore::lock_fast_path_sessions(std::span<const Operation> batch) {
  SessionsNamed named;
  for (const Operation& operation : batch) name_sessions(operation, named);
  std::set<SessionName> all = named.entered;
  all.insert(named.ending.begin(), named.ending.end());
  if (all.empty()) return;
  const NameColumns names(all);
  if (MS_MUTANT(held_before_locks)) hold();
  const bool all_there = named.entered.empty();
  if (!all_there || !MS_MUTANT(fast_path_sessions_not_locked)) {
    tell(all_there ? fast_path_session_sql_.lock_there : session_sql_.lock,
         params(names.queues, names.keys));
  }
  // Call after the lock: while the lock is waited for, the batch can still be given up.
  hold();
  entered_ = std::move(named.entered);
  if (all_there) return;
  // Sessions of jobs that ended elsewhere may have been removed, and were made by that statement.
  for (const SessionName& name : named.ending) {
    if (!entered_.contains(name)) left_over_.insert(name);
  }
}

void PostgresStore::send_into_sessions(const Columns& c, std::span<const Operation> operations,
                                       std::span<OperationResult> answers) {
  Ints n, first;
  std::set<std::pair<std::int64_t, std::string_view>> seen;
  for (std::size_t i = 0; i < c.state.size(); ++i) {
    n.push_back(static_cast<std::int64_t>(i));
    first.push_back(c.session[i] && seen.emplace(c.queue[i], *c.session[i]).second ? 1 : 0);
  }
  Params p = params(n);
  for (const Ints* numbers :
       {&c.state, &c.flags, &c.priority, &c.run_at, &c.queue, &c.kind, &c.max_attempts, &c.timeout})
    p.column(*numbers);
  p.column(first);
  for (const Texts* texts : {&c.args, &c.headers, &c.tags, &c.correlation, &c.reply, &c.session})
    p.column(*texts);
  marked_ = true;
  after_.live_counted += std::ssize(c.state);
  wrote();
  open_->entering = {.operations = operations, .answers = answers};
  later(fast_path_session_sql_.enqueue, p.add(wall()).add(node_).add(batch_),
        [this, open = open_](const Rows& rows) { note_entered(*open, rows); });
  const NameColumns left(left_over_);
  if (!left.keys.empty() && !MS_MUTANT(left_over_sessions_kept))
    tell(fast_path_session_sql_.drop_empty, params(left.queues, left.keys));
}

void PostgresStore::note_entered(Open& open, const Rows& rows) {
  Ints ids, states;
  for (int i = 0; i < rows.size(); ++i) {
    if (rows.is_null(i, 0)) continue;  // in one of them
    ids = rows.ints(i, 0);
    states = rows.ints(i, 1);
  }
  std::size_t next = 0;
  for (OperationResult& answer : open.entering.answers) {
    auto* enqueued = std::get_if<EnqueueResult>(&answer);
    if (enqueued == nullptr) continue;
    for (EnqueuedJob& job : enqueued->jobs) {
      job.id = ids.at(next);
      job.state = static_cast<JobState>(states.at(next++));
    }
  }
  open.entering.answers = {};
  for (int i = 0; i < rows.size(); ++i) {
    const int queue = static_cast<int>(rows.integer(i, 2));
    const std::string& name = queue_by_id(queue).name;
    note_heads(queue, rows.integer(i, 3), rows.integer(i, 4));
    for (const std::string& key : rows.texts(i, 5)) gain_queue(session_queue({name, key}));
    if (rows.integer(i, 6) != 0) after_.passed_over.insert(accept_queue(name));
    if (const auto due = rows.maybe(i, 7))
      after_.next_due = std::min(after_.next_due, WallTime::from_us(*due));
  }
}

// Updates the hint: this many jobs of a queue became available; `heads` of them are heads of
// sessions.
void PostgresStore::note_heads(int queue, std::int64_t available, std::int64_t heads) {
  if (available == 0) return;
  after_.available[queue] += available;
  after_.gained.insert(queue);
  if (heads == 0) return;
  after_.heads[queue] += heads;
  gain_queue(accept_queue(queue_by_id(queue).name));
}

void PostgresStore::send_heads(const std::shared_ptr<Completing>& run) {
  const Completing::Heads& t = run->heads;
  // A later claim of the batch must find the new heads: they may have waited for longer than the
  // jobs at the front of the ready queue.
  for (const std::int64_t queue : t.queues) {
    QueueHint& hint = hints_[static_cast<int>(queue)];
    for (std::size_t i = 0; i < hint.first.size(); ++i)
      hint.first[i] = std::min(hint.first[i], hint.heads_from[i]);
  }
  Params p = params(t.ids);
  p.column(t.tokens).column(t.queues).column(t.keep).column(t.keys).column(t.results);
  p.add(wall()).add(node_).add(batch_);
  p.add(options_.store.retention_completed.count()).add(options_.store.retention_dead.count());
  later(fast_path_session_sql_.complete, p,
        [this, run](const Rows& rows) { note_heads(*run, rows); });
}

void PostgresStore::note_heads(Completing& run, const Rows& rows) {
  note_completed(run, rows);
  const Instant by_hand_until = batch_start_ + kByHand;
  for (const std::int64_t queue : run.heads.queues) {
    QueueHint& hint = hints_[static_cast<int>(queue)];
    hint.heads_from.fill(QueueHint::kNoHeads);
    hint.by_hand_until = by_hand_until;
  }
  for (int i = 0; i < rows.size(); ++i) {
    const int queue = static_cast<int>(rows.integer(i, 0));
    QueueHint& hint = hints_[queue];
    if (!rows.is_null(i, 1)) hint.by_hand_until = Instant();
    if (rows.integer(i, 6) != 0) {  // a state and nothing else: it is removed in time
      const WallTime at = now_.wall + options_.store.retention_dead;
      after_.next_prune = std::min(after_.next_prune, at);
    }
    if (rows.is_null(i, 2)) continue;
    note_heads(queue, rows.integer(i, 3), rows.integer(i, 3));
    const auto priority = static_cast<std::size_t>(rows.integer(i, 2));
    if (const auto first = rows.maybe(i, 4)) {
      hint.heads_from[priority] = *first;
      hint.first[priority] = std::min(hint.first[priority], *first);
      heads_.try_emplace({queue, rows.integer(i, 2)}, *first);
    }
    if (const auto due = rows.maybe(i, 5))
      after_.next_due = std::min(after_.next_due, WallTime::from_us(*due));
  }
}

// The answers were lost with the connection, but the jobs' ids are known.
void PostgresStore::look_at_entered(std::span<const Operation> operations,
                                    std::span<OperationResult> answers) {
  Ints ids;
  for (const OperationResult& answer : answers) {
    const auto* enqueued = std::get_if<EnqueueResult>(&answer);
    if (enqueued == nullptr) continue;
    for (const EnqueuedJob& job : enqueued->jobs) ids.push_back(job.id);
  }
  if (ids.empty()) return;
  std::map<JobId, std::pair<JobState, WallTime>> found;
  const Rows rows = ask(fast_path_session_sql_.states, params(ids));
  for (int i = 0; i < rows.size(); ++i) {
    found[rows.integer(i, 0)] = {static_cast<JobState>(rows.integer(i, 1)),
                                 WallTime::from_us(rows.integer(i, 2))};
  }
  for (std::size_t i = 0; i < answers.size(); ++i) {
    auto* enqueued = std::get_if<EnqueueResult>(&answers[i]);
    if (enqueued == nullptr) continue;
    const auto& jobs = std::get<Enqueue>(operations[i]).jobs;
    for (std::size_t n = 0; n < jobs.size(); ++n) {
      const auto is = found.find(enqueued->jobs[n].id);
      const bool there = is != found.end();
      enqueued->jobs[n].state = there ? is->second.first : JobState::completed;
      if (there) note_state(jobs[n], is->second.first, is->second.second);
    }
  }
}

// Does what note_entered() would have done.
void PostgresStore::note_state(const NewJob& job, JobState state, WallTime run_at) {
  const bool of_session = !job.session.empty();
  if (state == JobState::available) note_heads(queue_of(job.queue).id, 1, of_session ? 1 : 0);
  if (state == JobState::scheduled) after_.next_due = std::min(after_.next_due, run_at);
  if (state == JobState::waiting && of_session) gain_queue(session_queue({job.queue, job.session}));
}

// The new heads of completions whose answer was lost are not known.
void PostgresStore::note_lost_heads(const Completing& run) {
  if (run.answered || MS_MUTANT(lost_heads_not_reported)) return;
  for (const std::int64_t id : run.heads.queues) {
    const int queue = static_cast<int>(id);
    hints_[queue].uncertain = hints_[queue].heads_uncertain = true;
    after_.gained.insert(queue);
    gain_queue(accept_queue(queue_by_id(queue).name));
  }
}

}  // namespace mainspring::pg
