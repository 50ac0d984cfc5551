// EO-5: what a completion says takes effect once, and as a whole: its result is that of the job,
// and each job that it posts is there once. Of a completion that was refused, lost, or came second
// there is nothing.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "simulation/message_law.h"

namespace mainspring::simulation {

inline const std::string kOrderQueue = "orders", kPostedQueue = "posted";

class NextLaw {
 public:
  using Fate = MessageLaw::Fate;

  // A completion of the job that posts so many: its number is in its result, and in their args.
  std::int64_t next(JobId job, int posts);
  static std::string result(std::int64_t number);
  static std::string args(std::int64_t number, int post);
  void told(std::int64_t number, Fate fate);

  // Each job that is there in the end, and each as it was when it was pruned.
  void add(const Job& job);
  struct Verdict {
    std::int64_t posted = 0;   // jobs
    std::int64_t refused = 0;  // completions of which nothing is there
    std::string broken;        // "" = the law holds
  };
  Verdict check() const;

 private:
  struct Completion {
    JobId job = 0;
    int posts = 0;
    Fate fate = Fate::unknown;
  };
  std::vector<Completion> completions_;    // by number
  std::map<JobId, std::int64_t> results_;  // of the completed: the number in it
  std::map<std::pair<std::int64_t, int>, int> made_;
};

}  // namespace mainspring::simulation
