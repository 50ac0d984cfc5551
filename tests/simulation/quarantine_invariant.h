// QUAR: a job that kills its workers never runs in parallel with another such job.
//
//   QUAR-1  of the jobs of a queue whose last kDefaultQuarantineAfter or more attempts were lost,
//           one at a time runs
//   QUAR-2  such a job starts as released from quarantine
//   QUAR-3  no other job does: a job whose worker was heard of since is not in quarantine
//
//   QUAR-4  at most kMaxUnstartedLosses losses in a row do not count
//
// An attempt is lost if the job is given again and no request of its worker was accepted between.
// If the job is given as the same attempt, the loss did not count.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "store/store.h"

namespace mainspring::simulation {

inline const std::string kPoisonQueue = "poison";

class QuarantineInvariant {
 public:
  // Called after each batch of `store`; without a report its outcome is unknown. "" = the
  // invariant holds.
  std::string applied(std::span<const Operation> batch, const BatchReport* report,
                      const Store& store);
  std::int64_t apart() const { return apart_; }  // attempts of jobs in quarantine

 private:
  struct Seen {
    int lost = 0;
    int uncounted = 0;  // losses
    int attempt = 0;
    bool runs = false;
    bool all = true;  // it was lost no more often, as far as is known
  };
  void see(const Operation& operation, const OperationResult& result);
  void doubt(const Operation& operation);
  void given(const ClaimResult& result);
  std::string check(const Store& store);

  std::map<JobId, Seen> jobs_;
  std::vector<JobId> given_;  // by the batch
  bool doubts_ = false;       // whether the grants are known
  std::int64_t apart_ = 0;
};

}  // namespace mainspring::simulation
