// Jobs of sessions in plain batches: many that come, and completions that pass the turn on, as one
// statement each, behind one that locks all their sessions in order. What is not simple is left to
// the rows in hand (sessions_in_hand.cc): jobs that fail or that something follows, and sessions
// that have a holder or are stopped.
#include "store_postgres/plain_sessions.h"

#include <algorithm>

#include "base/mutant.h"
#include "store_postgres/plain.h"

namespace mainspring::pg {

namespace {
// So long completions of jobs of sessions go by rows in hand where the statement did none of a
// queue: it has limits, say, or somebody waits for the ends of its jobs.
constexpr Duration kByHand = std::chrono::seconds(10);
}  // namespace

// Before anything else of the batch: see locks.cc.
void PostgresStore::lock_plain_sessions(std::span<const Operation> batch) {
  SessionsNamed named;
  for (const Operation& operation : batch) name_sessions(operation, named);
  std::set<SessionName> all = named.entered;
  all.insert(named.ending.begin(), named.ending.end());
  if (all.empty()) return;
  const NameColumns names(all);
  if (MS_MUTANT(held_before_locks)) hold();
  const bool all_there = named.entered.empty();
  if (!all_there || !MS_MUTANT(plain_sessions_not_locked)) {
    tell(all_there ? plain_session_sql_.lock_there : session_sql_.lock,
         params(names.queues, names.keys));
  }
  // Behind the lock: while it is waited for, the batch can still be given up.
  hold();
  entered_ = std::move(named.entered);
  if (all_there) return;
  // Those of jobs that ended elsewhere may have been gone, and were made by that.
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
  later(plain_session_sql_.enqueue, p.add(wall()).add(node_).add(batch_),
        [this, open = open_](const Rows& rows) { note_entered(*open, rows); });
  const NameColumns left(left_over_);
  if (!left.keys.empty() && !MS_MUTANT(left_over_sessions_kept))
    tell(plain_session_sql_.drop_empty, params(left.queues, left.keys));
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
    for (const std::string& key : rows.texts(i, 5)) gain_line(session_line({name, key}));
    if (rows.integer(i, 6) != 0) after_.passed_over.insert(accept_line(name));
    if (const auto due = rows.maybe(i, 7))
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
  const Instant by_hand_until = begun_ + kByHand;
  for (const std::int64_t queue : run.turns.queues) {
    QueueHint& hint = hints_[static_cast<int>(queue)];
    hint.turns_from.fill(QueueHint::kNoTurns);
    hint.by_hand_until = by_hand_until;
  }
  for (int i = 0; i < rows.size(); ++i) {
    const int queue = static_cast<int>(rows.integer(i, 0));
    QueueHint& hint = hints_[queue];
    if (!rows.is_null(i, 1)) hint.by_hand_until = Instant();
    if (rows.integer(i, 6) != 0) {  // a state, and nothing else: it goes in time
      const WallTime at = now_.wall + options_.store.retention_dead;
      after_.next_prune = std::min(after_.next_prune, at);
    }
    if (rows.is_null(i, 2)) continue;
    note_heads(queue, rows.integer(i, 3), rows.integer(i, 3));
    const auto priority = static_cast<std::size_t>(rows.integer(i, 2));
    if (const auto first = rows.maybe(i, 4)) {
      hint.turns_from[priority] = *first;
      hint.first[priority] = std::min(hint.first[priority], *first);
      turns_.try_emplace({queue, rows.integer(i, 2)}, *first);
    }
    if (const auto due = rows.maybe(i, 5))
      after_.next_due = std::min(after_.next_due, WallTime::from_us(*due));
  }
}

// Their answer was lost with the connection, and not what it was about: the ids are known.
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
  const Rows rows = ask(plain_session_sql_.states, params(ids));
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

// As note_entered() would have.
void PostgresStore::note_state(const NewJob& job, JobState state, WallTime run_at) {
  const bool of_session = !job.session.empty();
  if (state == JobState::available) note_heads(queue_of(job.queue).id, 1, of_session ? 1 : 0);
  if (state == JobState::scheduled) after_.next_due = std::min(after_.next_due, run_at);
  if (state == JobState::waiting && of_session) gain_line(session_line({job.queue, job.session}));
}

// Who got the turn by completions whose answer was lost is not known.
void PostgresStore::note_lost_turns(const Completing& run) {
  if (run.answered || MS_MUTANT(lost_turns_not_told)) return;
  for (const std::int64_t id : run.turns.queues) {
    const int queue = static_cast<int>(id);
    hints_[queue].uncertain = hints_[queue].heads_uncertain = true;
    after_.gained.insert(queue);
    gain_line(accept_line(queue_by_id(queue).name));
  }
}

}  // namespace mainspring::pg
