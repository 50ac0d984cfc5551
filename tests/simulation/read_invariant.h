// RES: reads of existing, expired and completed jobs.
//
//   RES-3  after the answer to its completion a job reads as completed, with that result, until it
//          is pruned
//   RES-4  a job that was enqueued is never `not_found`; once its retention has ended, and not
//          before, it is `expired`, and stays so
#pragma once

#include <map>
#include <optional>
#include <string>

#include "mainspring/job.h"
#include "mainspring/result.h"

namespace mainspring::simulation {

class ReadInvariant {
 public:
  // `retention` of completed jobs; nullopt = unknown, because the wall clock is set.
  explicit ReadInvariant(std::optional<Duration> retention) : retention_(retention) {}
  void enqueued(JobId id) { known_.try_emplace(id); }
  // The completion was acknowledged; it was first sent at `sent`.
  void completed(JobId id, std::string result, Duration sent);
  // The answer of a read now. "" = the invariant holds.
  std::string read(JobId id, const Result<Job>& job, Duration now);
  std::int64_t reads() const { return reads_; }      // of the completed
  std::int64_t expired() const { return expired_; }  // reads as expired

 private:
  struct Known {
    std::optional<Duration> completed;
    std::string result;
    bool expired = false;
  };
  const std::optional<Duration> retention_;
  std::map<JobId, Known> known_;
  std::int64_t reads_ = 0, expired_ = 0;
};

}  // namespace mainspring::simulation
