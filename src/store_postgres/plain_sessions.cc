// Jobs of sessions in plain batches: many that come, and completions that pass the turn on, as one
// statement each, behind one that locks all their sessions in order. What is not simple is left to
// the rows in hand (sessions_in_hand.cc): jobs that fail or that something follows, sessions that
// somebody holds or that are stopped, and those whose turn a program that knew no sessions left
// with a job that has ended.
#include "store_postgres/plain_sessions.h"

#include <algorithm>

#include "base/mutant.h"
#include "store_postgres/plain.h"

namespace mainspring::pg {

// Before anything else of the batch: see locks.cc.
void PostgresStore::lock_plain_sessions(std::span<const Operation> batch) {
  SessionsNamed named;
  for (const Operation& operation : batch) name_sessions(operation, named);
  std::set<SessionName> all = named.entered;
  all.insert(named.ending.begin(), named.ending.end());
  if (all.empty()) return;
  const NameColumns names(all);
  hold();
  const bool all_there = named.entered.empty();
  if (!all_there || !MS_MUTANT(plain_sessions_not_locked)) {
    tell(all_there ? plain_session_sql_.lock_there : session_sql_.lock,
         params(names.queues, names.keys));
  }
  entered_ = std::move(named.entered);
}

void PostgresStore::send_into_sessions(const Columns& c, std::span<OperationResult> answers) {
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
  open_->entering = {.answers = answers};
  later(plain_session_sql_.enqueue, p.add(wall()).add(node_).add(batch_),
        [this, open = open_](const Rows& rows) { note_entered(*open, rows); });
}

void PostgresStore::note_entered(Open& open, const Rows& rows) {
  const Ints ids = rows.ints(0, 0), states = rows.ints(0, 1);
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
    for (const std::string& key : rows.texts(i, 5)) gain_line(session_line({name, key}));
    for (const std::string& key : rows.texts(i, 6)) open.over.insert({queue, key});
    if (rows.integer(i, 7) != 0) after_.passed_over.insert(accept_line(name));
    if (const auto due = rows.maybe(i, 8))
      after_.next_due = std::min(after_.next_due, WallTime::from_us(*due));
  }
}

// So many of a queue may be claimed now, so many of them as the first of their session.
void PostgresStore::note_heads(int queue, std::int64_t available, std::int64_t heads) {
  if (available == 0) return;
  after_.available[queue] += available;
  after_.gained.insert(queue);
  if (heads == 0) return;
  after_.heads[queue] += heads;
  gain_line(accept_line(queue_by_id(queue).name));
}

void PostgresStore::send_turns(const std::shared_ptr<Completing>& run) {
  const Completing::Turns& t = run->turns;
  // A claim behind it in the batch has to find those that get the turn: they may have waited for
  // longer than what stands in the line.
  for (const std::int64_t queue : t.queues) {
    QueueHint& hint = hints_[static_cast<int>(queue)];
    for (std::size_t i = 0; i < hint.first.size(); ++i)
      hint.first[i] = std::min(hint.first[i], hint.turns_from[i]);
  }
  Params p = params(t.ids);
  p.column(t.tokens).column(t.queues).column(t.keep).column(t.keys).column(t.results);
  p.add(wall()).add(node_).add(batch_);
  p.add(options_.store.retention_completed.count()).add(options_.store.retention_dead.count());
  later(plain_session_sql_.complete, p, [this, run](const Rows& rows) { note_turns(*run, rows); });
}

void PostgresStore::note_turns(Completing& run, const Rows& rows) {
  note_completed(run, rows);
  for (const std::int64_t queue : run.turns.queues)
    hints_[static_cast<int>(queue)].turns_from.fill(QueueHint::kNoTurns);
  for (int i = 0; i < rows.size(); ++i) {
    if (rows.is_null(i, 2)) continue;
    const int queue = static_cast<int>(rows.integer(i, 0));
    QueueHint& hint = hints_[queue];
    note_heads(queue, rows.integer(i, 3), rows.integer(i, 3));
    const auto priority = static_cast<std::size_t>(rows.integer(i, 2));
    if (const auto first = rows.maybe(i, 4)) {
      hint.turns_from[priority] = *first;
      hint.first[priority] = std::min(hint.first[priority], *first);
    }
    if (const auto due = rows.maybe(i, 5))
      after_.next_due = std::min(after_.next_due, WallTime::from_us(*due));
  }
}

// Their answer was lost with the connection, and not what it was about: the ids are known.
void PostgresStore::look_at_entered(std::span<OperationResult> answers) {
  std::vector<JobId> ids;
  for (const OperationResult& answer : answers) {
    const auto* enqueued = std::get_if<EnqueueResult>(&answer);
    if (enqueued == nullptr) continue;
    for (const EnqueuedJob& job : enqueued->jobs) ids.push_back(job.id);
  }
  jobs_by_id(ids);
  for (OperationResult& answer : answers) {
    auto* enqueued = std::get_if<EnqueueResult>(&answer);
    if (enqueued == nullptr) continue;
    for (EnqueuedJob& job : enqueued->jobs) job.state = state_of(job.id);
  }
}

}  // namespace mainspring::pg
