// CONC-6: a job that does not fit waits at the head of its line, and what is behind it waits too:
// of a limit key the jobs of that key, of the queue all, as far as a claim wants their kinds.
//
//   a claim gives   1  2        5            of the line   1  2  3  4  5
//   is right if     3 and 4 wait for their limit key, and 5 has another, or none
//
// Only jobs are judged that could be given all through the batch of the claim, of queues that give
// in the order of priority, run_at and id. What a key has room for cannot be told from outside
// where it has a rate, or where something of the batch has ended: such keys may be full.
#pragma once

#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "store/store.h"

namespace mainspring::simulation {

// Whose jobs have costs, and whose keys have rates.
inline const std::vector<std::string> kHeavyQueues = {"renders", "scans"};

class HeadLaw {
 public:
  explicit HeadLaw(std::string queue) : queue_(std::move(queue)) {}
  // Behind each batch of `store`; without a report nobody knows whether it happened. "" = the law
  // holds.
  std::string applied(std::span<const Operation> batch, const BatchReport* report,
                      const Store& store, WallTime now);
  std::int64_t judged() const { return judged_; }  // claims
  std::int64_t waited() const { return waited_; }  // heavy jobs that a claim passed over, each time

 private:
  using Place = std::tuple<int, WallTime, JobId>;
  struct Waiting {
    std::string kind, key;
    bool stayed = false;              // all through the batch
    std::optional<WallTime> over_at;  // if it has not begun by then, it is given to nobody
  };
  struct Seen;  // what of the batch and behind it says who could begin

  bool touched(std::span<const Operation> batch) const;
  std::string judge(const Claim& claim, const std::vector<ClaimedJob>& given, const Seen& seen,
                    const Store& store, WallTime now);
  bool may_be_full(const Waiting& job, const Seen& seen) const;

  const std::string queue_;
  std::map<Place, Waiting> waiting_;  // as it was when it was last looked at
  std::int64_t judged_ = 0, waited_ = 0;
};

}  // namespace mainspring::simulation
