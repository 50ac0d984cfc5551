// TRIG-5: each end of a job fires the trigger on it once, whoever ends the job, and nothing else
// does.
//
// Only jobs are watched that were asked for when the trigger's definition was known to be kept.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "mainspring/job.h"
#include "store/trigger_operations.h"

namespace mainspring::simulation {

inline const std::string kEndTrigger = "ends", kWatchedKind = "watched";

class EndLaw {
 public:
  static PutTrigger definition(const std::string& queue);
  bool defined = false;  // the definition was answered

  // Each job that is there in the end, and each as it was when it was pruned.
  void add(const Job& job);
  struct Verdict {
    std::int64_t ends = 0;
    std::string broken;  // "" = the law holds
  };
  Verdict check() const;

 private:
  std::map<JobId, JobState> watched_;
  std::map<std::pair<JobId, std::string>, int> made_;  // by the job that ended, and how
};

}  // namespace mainspring::simulation
