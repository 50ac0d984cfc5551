// RES: what is read of a job that is there, was there, or ended well.
//
//   RES-3  from the answer of its completion on a job reads as completed, with that result, until
//          it is pruned
//   RES-4  a job that was enqueued is never `not_found`; once its retention has ended, and not
//          before, it is `expired`, and stays so
#pragma once

#include <map>
#include <optional>
#include <string>

#include "mainspring/job.h"
#include "mainspring/result.h"

namespace mainspring::simulation {

class ReadLaw {
 public:
  // `retention` of the completed; nullopt = nobody can tell, for somebody sets the wall clock.
  explicit ReadLaw(std::optional<Duration> retention) : retention_(retention) {}
  void enqueued(JobId id) { known_.try_emplace(id); }
  // Was answered for; the completion was sent first at this time.
  void completed(JobId id, std::string result, Duration sent);
  // What a read says now. "" = the law holds.
  std::string read(JobId id, const Result<Job>& job, Duration now);
  std::int64_t reads() const { return reads_; }      // of the completed
  std::int64_t expired() const { return expired_; }  // that said so

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
