// EO-1: an end makes its follow-ups once. In the end each follow-up entry of the simulated
// producers' jobs has exactly one job per matching end.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "blackbox/history.h"
#include "mainspring/job.h"

namespace mainspring::simulation {

inline const std::string kFollowQueue = "followed";

// The `entry`-th follow-up of a job of the producers; its data has the number.
FollowUp follow_up(int entry, std::uint8_t on);

// True if the job's end is one of these.
bool is_on(const Job& job, std::uint8_t on);

// The number after the last `name` in a text; `none` if the text does not have it.
std::int64_t number_after(const std::string& text, const std::string& name, std::int64_t none);
inline constexpr int kReply = -1;  // the entry that reply_to stands for

class FollowInvariant {
 public:
  // Called for each job of the store at the end, and for each pruned job in its last state.
  void add(const Job& job);
  struct Verdict {
    std::int64_t ends = 0;  // with follow-ups
    std::string broken;     // "" = the invariant holds
  };
  // A job that an operator retried may have ended more than once.
  Verdict check(const std::vector<blackbox::RetryEvent>& retries) const;

 private:
  std::map<JobId, Job> followed_;
  std::map<std::pair<JobId, int>, std::int64_t> made_;  // by job and entry; the reply is -1
};

}  // namespace mainspring::simulation
