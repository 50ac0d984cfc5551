// EO-5: a completion takes effect once and as a whole: its result is the job's result, and each job
// that it posts exists once. A completion that was refused, lost or second has no effect.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "simulation/message_invariant.h"

namespace mainspring::simulation {

inline const std::string kOrderQueue = "orders", kPostedQueue = "posted";

class NextInvariant {
 public:
  using Fate = MessageInvariant::Fate;

  // A completion of the job that posts `posts` jobs: its number is in its result and in their args.
  std::int64_t next(JobId job, int posts);
  static std::string result(std::int64_t number);
  static std::string args(std::int64_t number, int post);
  void told(std::int64_t number, Fate fate);

  // Called for each job of the store at the end, and for each pruned job in its last state.
  void add(const Job& job);
  struct Verdict {
    std::int64_t posted = 0;   // jobs
    std::int64_t refused = 0;  // completions without any effect
    std::string broken;        // "" = the invariant holds
  };
  Verdict check() const;

 private:
  struct Completion {
    JobId job = 0;
    int posts = 0;
    Fate fate = Fate::unknown;
  };
  std::vector<Completion> completions_;    // by number
  std::map<JobId, std::int64_t> results_;  // of completed jobs: the number in the result
  std::map<std::pair<std::int64_t, int>, int> made_;
};

}  // namespace mainspring::simulation
