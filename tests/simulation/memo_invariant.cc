// Records the acknowledged results and compares the results that attempts find.
#include "simulation/memo_invariant.h"

#include <fmt/format.h>

#include <algorithm>

namespace mainspring::simulation {

void MemoInvariant::given(JobId id, Token token) {
  last_[id] = std::max(last_[id], token);
}

Memo MemoInvariant::next(int step) {
  return {.name = fmt::format("s{}", step), .result = fmt::format("{{\"n\":{}}}", ++results_)};
}

std::string MemoInvariant::checkpoint(std::size_t results) {
  return results == 0 ? "" : fmt::format("[{}]", results);
}

std::string MemoInvariant::told(JobId id, const Memo& memo, Fate fate, bool late) {
  if (fate == Fate::unknown) return "";
  if (fate == Fate::not_made) {
    lost_.insert(memo.result);
    ++refused_;
    return "";
  }
  if (late) {
    return fmt::format("EO-3c: result {} of step {} of job {} was taken from a lease that is lost",
                       memo.result, memo.name, id);
  }
  const auto [at, first] = acknowledged_.try_emplace({id, memo.name}, memo.result);
  kept_ += first ? 1 : 0;
  if (at->second == memo.result) return "";
  return fmt::format("EO-3b: step {} of job {} was acknowledged as {} and as {}", memo.name, id,
                     at->second, memo.result);
}

std::string MemoInvariant::found(JobId id, const std::vector<Memo>& memos) {
  for (const Memo& memo : memos) {
    ++recalled_;
    const auto [at, first] = seen_.try_emplace({id, memo.name}, memo.result);
    if (at->second != memo.result) {
      return fmt::format("EO-3b: step {} of job {} was {}, and is {}", memo.name, id, at->second,
                         memo.result);
    }
    if (lost_.contains(memo.result))
      return fmt::format("EO-3c: job {} has result {}, which was refused", id, memo.result);
  }
  for (auto at = acknowledged_.lower_bound({id, ""});
       at != acknowledged_.end() && at->first.first == id; ++at) {
    const Memo wanted{.name = at->first.second, .result = at->second};
    if (std::find(memos.begin(), memos.end(), wanted) == memos.end()) {
      return fmt::format("EO-3a: step {} of job {} was acknowledged as {}, and is not found",
                         wanted.name, id, wanted.result);
    }
  }
  return "";
}

std::string MemoInvariant::check(const Job& job, const std::vector<Memo>& memos) {
  if (job.state != JobState::completed) return found(job.id, memos);
  if (memos.empty()) return "";
  return fmt::format("EO-3e: job {} is completed, and has {} results of steps", job.id,
                     memos.size());
}

}  // namespace mainspring::simulation
