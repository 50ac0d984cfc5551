// EO-1: an end is followed once. What the simulated producers ask to be made when their jobs end is
// there when all has come to rest: of each entry one for each end that it is on, and no other.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "blackbox/history.h"
#include "mainspring/job.h"

namespace mainspring::simulation {

inline const std::string kFollowQueue = "followed";

// The `entry`-th follow-up of a job of the producers: its data says which one it is.
FollowUp follow_up(int entry, std::uint8_t on);

// Did the job end in a way that is among these?
bool is_on(const Job& job, std::uint8_t on);

// The number behind the last `name` in a text; `none` if it is not in it.
std::int64_t number_behind(const std::string& text, const std::string& name, std::int64_t none);
inline constexpr int kReply = -1;  // the entry that reply_to stands for

class FollowLaw {
 public:
  // Each job that is there in the end, and each as it was when it was pruned.
  void add(const Job& job);
  struct Verdict {
    std::int64_t ends = 0;  // that were followed
    std::string broken;     // "" = the law holds
  };
  // A job that an operator retried may have ended more than once.
  Verdict check(const std::vector<blackbox::RetryEvent>& retries) const;

 private:
  std::map<JobId, Job> followed_;
  std::map<std::pair<JobId, int>, std::int64_t> made_;  // by job and entry; the reply is -1
};

}  // namespace mainspring::simulation
