// Counts the jobs made by ends of jobs.
#include "simulation/end_invariant.h"

#include <fmt/format.h>

#include "simulation/follow_invariant.h"

namespace mainspring::simulation {

PutTrigger EndInvariant::definition(const std::string& queue) {
  PutTrigger put{.trigger = {.name = kEndTrigger}, .secret = ""};
  put.trigger.ended = EndedSource{.queue = queue, .kind = kWatchedKind};
  put.trigger.job = NewJob{.queue = queue, .kind = "after"};
  put.trigger.job.args = R"({"after":{"$ref":"job.id"},"how":{"$ref":"job.outcome"}})";
  return put;
}

void EndInvariant::add(const Job& job) {
  if (job.kind == kWatchedKind) watched_[job.id] = job.state;
  const std::int64_t after = number_after(job.args, "\"after\":", 0);
  if (job.kind != "after" || after == 0) return;
  for (const JobState end : {JobState::completed, JobState::cancelled, JobState::dead}) {
    const std::string how(to_string(end));
    if (job.args.find('"' + how + '"') != std::string::npos) ++made_[{after, how}];
  }
}

EndInvariant::Verdict EndInvariant::check() const {
  Verdict verdict;
  for (const auto& [end, jobs] : made_) {
    ++verdict.ends;
    if (jobs != 1 || !watched_.contains(end.first))
      verdict.broken = fmt::format("TRIG-5: job {} ({}) made {} jobs", end.first, end.second, jobs);
  }
  for (const auto& [id, state] : watched_) {
    if (is_terminal(state) && !made_.contains({id, std::string(to_string(state))}))
      verdict.broken = fmt::format("TRIG-5: job {} is {}, and made none", id, to_string(state));
  }
  return verdict;
}

}  // namespace mainspring::simulation
