// Compares results and posted jobs, which carry the number of their completion.
#include "simulation/next_invariant.h"

#include <fmt/format.h>

#include "simulation/follow_invariant.h"

namespace mainspring::simulation {

std::int64_t NextInvariant::next(JobId job, int posts) {
  completions_.push_back({.job = job, .posts = posts});
  return std::ssize(completions_) - 1;
}

std::string NextInvariant::result(std::int64_t number) {
  return fmt::format("{{\"set\":{}}}", number);
}

std::string NextInvariant::args(std::int64_t number, int post) {
  return fmt::format("{{\"set\":{},\"post\":{}}}", number, post);
}

// Stale after a lost answer: then the lost request had no effect either.
void NextInvariant::told(std::int64_t number, Fate fate) {
  Completion& one = completions_.at(static_cast<std::size_t>(number));
  if (one.fate == Fate::unknown) one.fate = fate;
}

void NextInvariant::add(const Job& job) {
  if (job.queue == kOrderQueue && job.state == JobState::completed)
    results_[job.id] = number_after(job.result, "\"set\":", -1);
  const std::int64_t number = number_after(job.args, "\"set\":", -1);
  if (job.queue == kPostedQueue && number >= 0)
    ++made_[{number, static_cast<int>(number_after(job.args, "\"post\":", -1))}];
}

NextInvariant::Verdict NextInvariant::check() const {
  Verdict verdict;
  for (std::size_t i = 0; i < completions_.size(); ++i) {
    const Completion& one = completions_[i];
    const auto number = static_cast<std::int64_t>(i);
    const auto result = results_.find(one.job);
    const bool counts = result != results_.end() && result->second == number;
    if (one.fate != Fate::unknown && counts != (one.fate == Fate::made)) {
      verdict.broken =
          fmt::format("EO-5: completion {} of job {} was {}, and its result is {}", number, one.job,
                      counts ? "refused" : "acknowledged", counts ? "the job's" : "not the job's");
    }
    verdict.refused += counts ? 0 : 1;
    for (int post = 0; post < one.posts; ++post) {
      const auto found = made_.find({number, post});
      const int made = found == made_.end() ? 0 : found->second;
      verdict.posted += made;
      if (made == (counts ? 1 : 0)) continue;
      verdict.broken =
          fmt::format("EO-5: completion {} of job {} {}, and its post {} was made {} times", number,
                      one.job, counts ? "took effect" : "did not count", post, made);
    }
  }
  return verdict;
}

}  // namespace mainspring::simulation
