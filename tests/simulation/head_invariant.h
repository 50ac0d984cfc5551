// CONC-6: a job that does not fit waits at the head of its ready queue, and later jobs wait too:
// the jobs of the same limit key, or all jobs of the queue whose kinds the claim wants.
//
//   a claim gives   1  2        5            of the ready queue   1  2  3  4  5
//   is right if     3 and 4 wait for their limit key, and 5 has another, or none
//
// Only jobs are judged that could be given during the whole batch of the claim, of queues that give
// in the order of priority, run_at and id. The free slots of a key are unknown where it has a rate
// or where a job ended in the batch: such keys may be full.
#pragma once

#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "store/store.h"

namespace mainspring::simulation {

// Queues with costs, and with rates per key.
inline const std::vector<std::string> kHeavyQueues = {"renders", "scans"};

class HeadInvariant {
 public:
  explicit HeadInvariant(std::string queue) : queue_(std::move(queue)) {}
  // Called after each batch of `store`; without a report its outcome is unknown. "" = the
  // invariant holds.
  std::string applied(std::span<const Operation> batch, const BatchReport* report,
                      const Store& store, WallTime now);
  std::int64_t judged() const { return judged_; }  // claims
  std::int64_t waited() const { return waited_; }  // heavy jobs that a claim skipped, each time

 private:
  using Place = std::tuple<int, WallTime, JobId>;
  struct Waiting {
    std::string kind, key;
    bool stayed = false;              // all through the batch
    std::optional<WallTime> over_at;  // if it has not started by then, it is never given
  };
  struct Seen;  // the state of the batch and after it that decides which jobs could start

  bool touched(std::span<const Operation> batch) const;
  std::string judge(const Claim& claim, const std::vector<ClaimedJob>& given, const Seen& seen,
                    const Store& store, WallTime now);
  bool may_be_full(const Waiting& job, const Seen& seen) const;

  const std::string queue_;
  std::map<Place, Waiting> waiting_;  // as it was at the last read
  std::int64_t judged_ = 0, waited_ = 0;
};

}  // namespace mainspring::simulation
