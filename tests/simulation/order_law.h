// PRIO and FAIR: in which order a queue gives its jobs.
//
//   PRIO-1  nothing of a lower class is given while a higher one could be; what has waited counts
//           as one better for each `ageing` of its queue
//   PRIO-2  within a class they are given in the order of run_at and id, where keys are not fair
//   FAIR-1  over any time in which two keys both have jobs, what each gets is in proportion to its
//           weight, give or take one turn of each; so a key that comes late is served within a
//           round
//
// Only jobs are judged that could be given all through the batch of the claim.
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

// Whose jobs have priorities; and whose keys take turns, all of one priority.
inline const std::string kAgedQueue = "aged", kFairQueue = "fair";

class OrderLaw {
 public:
  // Behind each batch of `store`; without a report nobody knows whether it happened. "" = the law
  // holds.
  std::string applied(std::span<const Operation> batch, const BatchReport* report,
                      const Store& store, WallTime now);
  std::int64_t judged() const { return judged_; }      // jobs, against one that stayed behind
  std::int64_t overtook() const { return overtook_; }  // one of a better priority, by their age
  std::int64_t turns() const { return turns_; }        // of keys in competition

 private:
  struct Waiting {
    int priority = 0;
    WallTime run_at;
    std::string key;
  };
  struct Queue {
    QueueLimits limits;
    bool known = false;                // limits
    std::map<JobId, Waiting> waiting;  // as it was when it was last looked at
  };
  // What two keys got since both have jobs.
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
