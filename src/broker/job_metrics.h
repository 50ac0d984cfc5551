// JobMetrics: what became of the jobs that this broker handed out, per queue and outcome.
//
// A finish names ids only, so the queue and the time of the claim are remembered from claim to end:
// one small entry per running job. What was claimed before this process started is counted under
// the queue "unknown".
#pragma once

#include <array>
#include <string>
#include <unordered_map>

#include "store/store.h"
#include "telemetry/metrics.h"

namespace mainspring {

// Not thread-safe: the broker calls it under its mutex.
class JobMetrics {
 public:
  explicit JobMetrics(Registry& registry);
  void claimed(const ClaimResult& result, Instant now);
  void finished(const Finish& finish, const FinishResult& result, Instant now);
  void renewed(const Renew& renew, const RenewResult& result);
  // Jobs that ended in whatever way: nothing is remembered of them.
  void ended(const std::vector<JobId>& ids);

 private:
  static constexpr std::size_t kOutcomes = std::variant_size_v<Outcome>;
  struct Queue {
    std::array<Counter*, kOutcomes> total{};
    std::array<Histogram*, kOutcomes> seconds{};
  };
  struct Running {
    Queue* queue = nullptr;
    Instant since;
  };
  Queue& queue_of(const std::string& name);

  Registry& registry_;
  std::array<Counter*, kRemarkFaults> ignored_{};
  std::unordered_map<std::string, Queue> queues_;
  std::unordered_map<JobId, Running> running_;
};

}  // namespace mainspring
