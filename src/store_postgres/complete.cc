// Completions of jobs that this node gave out and that nothing waits for: one statement for many
// requests, without looking at the rows first. Those that it does not find are looked at.
#include <algorithm>

#include "store_postgres/store_impl.h"

namespace mainspring::pg {

struct PostgresStore::Completing {
  Ints ids, tokens, flags, result_ids;
  Texts results;
  std::unordered_set<JobId> seen;
};

bool PostgresStore::completes_plainly(const Finish& op) const {
  return completes_plainly(op, {});
}

bool PostgresStore::completes_plainly(const Finish& op, const Completing& run) const {
  std::unordered_set<JobId> own;
  return !op.results.empty() &&
         std::all_of(op.results.begin(), op.results.end(), [&](const JobOutcome& r) {
           const auto lease = own_leases_.find(r.id);
           if (!std::holds_alternative<Complete>(r.outcome) || lease == own_leases_.end() ||
               !lease->second.plain || lease->second.token != r.token || in_hand_.contains(r.id) ||
               run.seen.contains(r.id) || !own.insert(r.id).second)
             return false;
           const auto queue = queues_by_id_.find(lease->second.queue);
           return queue != queues_by_id_.end() && op.within.has(queue->second->name);
         });
}

void PostgresStore::take_completions(const Finish& op, Completing& run) {
  for (const JobOutcome& r : op.results) {
    const auto& complete = std::get<Complete>(r.outcome);
    run.seen.insert(r.id);
    run.ids.push_back(r.id), run.tokens.push_back(r.token);
    run.flags.push_back(complete.result.empty() ? 0 : kFlagExtras);
    if (complete.result.empty()) continue;
    run.result_ids.push_back(r.id), run.results.emplace_back(complete.result);
  }
}

std::size_t PostgresStore::finish_run(std::span<const Operation> rest,
                                      std::vector<OperationResult>& results) {
  const std::size_t first = results.size() - rest.size();
  Completing run;
  std::size_t size = 0;
  for (; size < rest.size(); ++size) {
    const auto* op = std::get_if<Finish>(&rest[size]);
    if (op == nullptr || !completes_plainly(*op, run)) break;
    // The record of who asked stands behind it: that goes one by one.
    if (size + 1 < rest.size() && std::holds_alternative<Audit>(rest[size + 1])) break;
    take_completions(*op, run);
  }
  if (size == 0) return 0;
  const Rows rows = ask(sql_.complete_plain, params(run.ids, run.tokens, wall(), run.flags));
  std::unordered_set<JobId> done;
  for (int i = 0; i < rows.size(); ++i) done.insert(rows.integer(i, 0));
  note_completed(run, done);
  for (std::size_t i = 0; i < size; ++i) {
    FinishResult answer;
    for (const JobOutcome& r : std::get<Finish>(rest[i]).results) {
      if (done.contains(r.id)) {
        answer.results.push_back(FinishStatus::ok);
        continue;
      }
      after_.unleased.push_back(r.id);  // it is not this node's any more, or soon will not be
      const OperationResult looked_at = (*this)(Finish{.worker = "", .results = {r}});
      answer.results.push_back(std::get<FinishResult>(looked_at).results[0]);
    }
    results[first + i] = std::move(answer);
  }
  return size;
}

void PostgresStore::note_completed(const Completing& run, const std::unordered_set<JobId>& done) {
  if (done.empty()) return;
  wrote();
  std::map<std::int64_t, Ints> finished;  // by when they may go
  for (const JobId id : run.ids) {
    if (!done.contains(id)) continue;
    const int queue = own_leases_.find(id)->second.queue;
    TallyChange& tally = tally_[queue];
    --tally.counts[static_cast<std::size_t>(JobState::running)];
    ++tally.counts[static_cast<std::size_t>(JobState::completed)];
    --after_.live, ++after_.finished;
    after_.ended.push_back(id);
    after_.unleased.push_back(id);
    const auto keep =
        queue_by_id(queue).retention_completed.value_or(options_.store.retention_completed.count());
    finished[wall() + keep].push_back(id);
  }
  for (const auto& [prune_at, all] : finished) {
    write(sql_.insert_finished, params(prune_at, wall(), all));
    after_.next_prune = std::min(after_.next_prune, WallTime::from_us(prune_at));
  }
  Ints ids;
  Texts kept;
  for (std::size_t i = 0; i < run.result_ids.size(); ++i) {
    if (!done.contains(run.result_ids[i])) continue;
    ids.push_back(run.result_ids[i]), kept.push_back(run.results[i]);
  }
  if (!ids.empty()) write(sql_.upsert_results, params(ids, kept));
}

}  // namespace mainspring::pg
