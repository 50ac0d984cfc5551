// Completes jobs that this node gave out and whose end has no further effects: one statement for
// many requests, without reading the rows first. Jobs that the statement does not find are read
// then.
#include <algorithm>

#include "base/mutant.h"
#include "store_postgres/fast_path.h"

namespace mainspring::pg {
namespace {

bool posts_nothing(const Outcome& outcome) {
  const auto* complete = std::get_if<Complete>(&outcome);
  return complete != nullptr && complete->next.empty();
}

}  // namespace

bool PostgresStore::completes_simply(const Finish& op) const {
  return completes_simply(op, {}, false);
}

bool PostgresStore::completes_simply(const Finish& op, const Completing& run,
                                     bool of_sessions) const {
  std::unordered_set<JobId> own;
  if (!options_.joins) {  // this connection does not know the claims: the statement checks
    return op.within.scopes == nullptr &&
           std::all_of(op.results.begin(), op.results.end(), [&](const JobOutcome& r) {
             return posts_nothing(r.outcome) && !run.seen.contains(r.id) && own.insert(r.id).second;
           });
  }
  return std::all_of(op.results.begin(), op.results.end(), [&](const JobOutcome& r) {
    const auto lease = own_leases_.find(r.id);
    if (!posts_nothing(r.outcome) || lease == own_leases_.end() || !lease->second.simple ||
        lease->second.token != r.token || loaded_.contains(r.id) || run.seen.contains(r.id) ||
        !own.insert(r.id).second)
      return false;
    if (!lease->second.session.empty()) {
      if (!of_sessions || r.session_state) return false;
      if (batch_start_ < hints_[lease->second.queue].by_hand_until) return false;
    }
    const auto queue = queues_by_id_.find(lease->second.queue);
    return queue != queues_by_id_.end() && op.within.has(queue->second->name);
  });
}

void PostgresStore::take_completions(const Finish& op, Completing& run) const {
  for (const JobOutcome& r : op.results) {
    run.seen.insert(r.id);
    const auto result = text_or_null(std::get<Complete>(r.outcome).result);
    const auto lease = own_leases_.find(r.id);
    if (lease == own_leases_.end() || lease->second.session.empty()) {
      run.ids.push_back(r.id), run.tokens.push_back(r.token), run.results.push_back(result);
      continue;
    }
    Completing::Heads& t = run.heads;
    const LeaseOfJob& known = lease->second;
    const bool keep = entered_.contains({known.queue, known.session}) &&
                      !MS_MUTANT(session_dropped_before_entered);
    t.ids.push_back(r.id), t.tokens.push_back(r.token), t.queues.push_back(known.queue);
    t.keep.push_back(keep ? 1 : 0), t.keys.emplace_back(known.session);
    t.results.push_back(result);
  }
}

std::size_t PostgresStore::finish_run(std::span<const Operation> rest,
                                      std::vector<OperationResult>& results) {
  const auto run = std::make_shared<Completing>();
  std::size_t size = 0;
  for (; size < rest.size(); ++size) {
    const auto* op = std::get_if<Finish>(&rest[size]);
    if (op == nullptr || !(fast_path_ || completes_simply(*op, *run, false))) break;
    // An operation followed by its audit record is applied on its own.
    if (size + 1 < rest.size() && std::holds_alternative<Audit>(rest[size + 1])) break;
    take_completions(*op, *run);
  }
  if (size == 0) return 0;
  run->operations = rest.first(size);
  run->answers = std::span(results).subspan(results.size() - rest.size(), size);
  run->answered = run->seen.empty();
  if (!run->seen.empty()) hold();
  // Two statements, but one lock order.
  if (!run->ids.empty() && !run->heads.ids.empty() && !MS_MUTANT(two_orders_of_locks)) {
    Ints all(run->seen.begin(), run->seen.end());
    tell(fast_path_session_sql_.lock_jobs, params(all));
  }
  if (!run->ids.empty()) send_completions(run);
  if (!run->heads.ids.empty()) send_heads(run);
  if (fast_path_) {
    open_->completions.push_back(run);
  } else {
    settle();
    answer_completions(*run);
  }
  return size;
}

void PostgresStore::send_completions(const std::shared_ptr<Completing>& run) {
  const bool none = std::none_of(run->results.begin(), run->results.end(),
                                 [](const auto& result) { return result; });
  Params p = params(run->ids, run->tokens, wall());
  if (none) {
    p.null(Params::kTextArray);
  } else {
    p.add(run->results);
  }
  p.add(node_).add(batch_).add(options_.store.retention_completed.count());
  later(sql_.complete_simple, p, [this, run](const Rows& rows) { note_completed(*run, rows); });
}

void PostgresStore::note_completed(Completing& run, const Rows& rows) {
  run.answered = run.heads.ids.empty() || run.ids.empty() || run.first_answered;
  run.first_answered = true;
  if (rows.empty()) return;
  wrote();
  marked_ = true;
  std::set<int> queues;
  std::int64_t ended = 0;
  for (int i = 0; i < rows.size(); ++i) {
    if (rows.is_null(i, 1)) continue;  // the new heads
    const auto queue = static_cast<int>(rows.integer(i, 0));
    const Ints ids = rows.ints(i, 1);
    queues.insert(queue);
    run.done.insert(ids.begin(), ids.end());
    after_.ended.insert(after_.ended.end(), ids.begin(), ids.end());
    after_.unleased.insert(after_.unleased.end(), ids.begin(), ids.end());
    after_.running[queue] -= std::ssize(ids);
    ended += std::ssize(ids);
  }
  after_.live -= ended, after_.finished += ended;
  after_.live_counted -= ended, after_.finished_counted += ended;
  for (const int queue : queues) {
    if (!options_.joins) break;  // it has no agenda, and may not know the queue
    const auto keep =
        queue_by_id(queue).retention_completed.value_or(options_.store.retention_completed.count());
    after_.next_prune = std::min(after_.next_prune, WallTime::from_us(wall() + keep));
  }
}

// Reads the jobs that the statement did not find.
void PostgresStore::answer_completions(Completing& run) {
  std::vector<JobId> missing;
  for (const JobId id : run.seen) {
    if (!run.done.contains(id)) missing.push_back(id);
  }
  if (!missing.empty() && options_.joins) jobs_by_id(missing);  // in lock order
  for (std::size_t i = 0; i < run.operations.size(); ++i) {
    FinishResult answer;
    for (const JobOutcome& r : std::get<Finish>(run.operations[i]).results) {
      if (run.done.contains(r.id)) {
        answer.results.push_back(FinishStatus::ok);
        continue;
      }
      after_.unleased.push_back(r.id);  // no longer this node's lease, or soon not
      const OperationResult looked_at = (*this)(Finish{.worker = "", .results = {r}});
      answer.results.push_back(std::get<FinishResult>(looked_at).results[0]);
      // The completion was done, and only the answer was lost.
      if (!run.answered && answer.results.back() == FinishStatus::ok) after_.ended.push_back(r.id);
    }
    run.answers[i] = std::move(answer);
  }
}

}  // namespace mainspring::pg
