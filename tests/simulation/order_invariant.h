// PRIO and FAIR: the order in which a queue gives its jobs.
//
//   PRIO-1  no job of a lower priority is given while a higher one could be; a waiting job gains
//           one level per `ageing` of its queue
//   PRIO-2  within a level jobs are given in the order of run_at and id, unless keys are fair
//   FAIR-1  over any time in which two keys both have jobs, their shares are in proportion to their
//           weights, within one job of each; so a new key is served within a round
//
// Only jobs are judged that could be given during the whole batch of the claim.
//
// Source of FAIR-1: Goyal, Vin, Cheng, Start-time Fair Queueing, SIGCOMM 1996, theorem 1.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "store/store.h"

namespace mainspring::simulation {

// A queue with priorities, and a queue with fair keys and one priority.
inline const std::string kAgedQueue = "aged", kFairQueue = "fair";

class OrderInvariant {
 public:
  // Called after each batch of `store`; without a report its outcome is unknown. "" = the
  // invariant holds.
  std::string applied(std::span<const Operation> batch, const BatchReport* report,
                      const Store& store, WallTime now);
  std::int64_t judged() const { return judged_; }      // jobs, against one that was not given
  std::int64_t overtook() const { return overtook_; }  // a job of a higher priority, by their age
  std::int64_t turns() const { return turns_; }        // jobs of competing keys

 private:
  struct Waiting {
    int priority = 0;
    WallTime run_at;
    std::string key;
  };
  struct Queue {
    QueueLimits limits;
    bool known = false;                // limits
    std::map<JobId, Waiting> waiting;  // as it was at the last read
  };
  // The shares of two keys since both have jobs.
  struct Race {
    std::int64_t first = 0, second = 0;
  };

  std::string look(const std::string& name, const std::vector<ClaimedJob>& given,
                   const Store& store, WallTime now);
  std::string judge(const std::string& name, const std::vector<ClaimedJob>& given,
                    const std::map<JobId, Waiting>& stayed, WallTime now);
  std::string judge_races(const std::vector<ClaimedJob>& given,
                          const std::map<JobId, Waiting>& stayed, const Store& store);
  double turn(const std::string& key) const;  // of the fair queue
  void learn(const std::string& name, const Store& store);
  void forget(Queue& queue);

  std::map<std::string, Queue> queues_ = {{kAgedQueue, {}}, {kFairQueue, {}}};
  std::map<std::pair<std::string, std::string>, Race> races_;
  double slack_ = 0;  // a key may be ahead by a turn of a weight that it had
  std::int64_t judged_ = 0, overtook_ = 0, turns_ = 0;
};

}  // namespace mainspring::simulation
