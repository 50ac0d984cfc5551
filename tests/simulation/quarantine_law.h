// QUAR: a job that takes its workers down runs beside no other of its kind.
//
//   QUAR-1  of the jobs of a queue whose last attempts were lost, kDefaultQuarantineAfter of them
//           and more, one at a time runs
//   QUAR-2  such a job begins as one that is in quarantine and was released
//   QUAR-3  no other does: who was heard of since is not set apart
//
// An attempt is lost if the job is given again and no word of its worker was accepted between.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "store/store.h"

namespace mainspring::simulation {

inline const std::string kPoisonQueue = "poison";

class QuarantineLaw {
 public:
  // Behind each batch of `store`; without a report nobody knows whether it happened. "" = the law
  // holds.
  std::string applied(std::span<const Operation> batch, const BatchReport* report,
                      const Store& store);
  std::int64_t apart() const { return apart_; }  // attempts of jobs in quarantine

 private:
  struct Seen {
    int lost = 0;
    bool runs = false;
    bool all = true;  // it was lost no more often than that, as far as anybody knows
  };
  void see(const Operation& operation, const OperationResult& result);
  void doubt(const Operation& operation);
  void given(const ClaimResult& result);
  std::string check(const Store& store);

  std::map<JobId, Seen> jobs_;
  std::vector<JobId> given_;  // by the batch
  bool doubts_ = false;       // who was given what
  std::int64_t apart_ = 0;
};

}  // namespace mainspring::simulation
