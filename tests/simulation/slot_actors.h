// The clients of the world of slots: jobs that cost more than one slot, some more than there are,
// limits that change all the time, and workers that take all kinds or light ones alone.
#pragma once

#include <deque>
#include <vector>

#include "simulation/claim_loop.h"
#include "simulation/line_actors.h"
#include "simulation/world.h"

namespace mainspring::simulation {

// Sends the jobs of kHeavyQueues, cancels some, and changes one limit of a queue after the other.
class SlotOperator {
 public:
  explicit SlotOperator(World& world);
  void start();
  void stop();
  JobId some_job() const;  // that was enqueued; 0 = none was

 private:
  void send_jobs();
  void change();
  void cancel();
  void draw(QueueLimits& limits, std::uint64_t which);
  std::optional<RateLimit> some_rate();

  World& world_;
  LineActor jobs_, changes_, cancels_;
  std::vector<QueueLimits> limits_;
  std::deque<JobId> known_;
};

// Claims one queue or both; sometimes it claims a job by its id.
class SlotWorker {
 public:
  SlotWorker(World& world, const SlotOperator& jobs, int number);
  void start();

 private:
  void finish(const ClaimedJob& job);
  void ask_by_id();

  World& world_;
  const SlotOperator& jobs_;
  ClaimLoop loop_;
  LineActor asks_;
};

}  // namespace mainspring::simulation
