// TRIG-5: each end of a job fires the trigger on it once, however the job ends, and nothing else
// does.
//
// Only jobs are watched whose enqueue was sent when the trigger's definition was acknowledged.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "mainspring/job.h"
#include "store/trigger_operations.h"

namespace mainspring::simulation {

inline const std::string kEndTrigger = "ends", kWatchedKind = "watched";

class EndInvariant {
 public:
  static PutTrigger definition(const std::string& queue);
  bool defined = false;  // the definition was acknowledged

  // Called for each job of the store at the end, and for each pruned job in its last state.
  void add(const Job& job);
  struct Verdict {
    std::int64_t ends = 0;
    std::string broken;  // "" = the invariant holds
  };
  Verdict check() const;

 private:
  std::map<JobId, JobState> watched_;
  std::map<std::pair<JobId, std::string>, int> made_;  // by the job that ended, and how
};

}  // namespace mainspring::simulation
