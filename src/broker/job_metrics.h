// JobMetrics: what became of the jobs that this broker handed out, per queue and outcome; and the
// counts of the history, for which every batch is noted.
//
// A finish names ids only, so the queue and the time of the claim are remembered from claim to end:
// one small entry per running job. What was claimed before this process started is counted under
// the queue "unknown".
#pragma once

#include <array>
#include <span>
#include <string>
#include <unordered_map>

#include "broker/history.h"
#include "broker/queue_labels.h"
#include "store/store.h"
#include "telemetry/metrics.h"

namespace mainspring {

// Not thread-safe: the broker calls it under its mutex.
class JobMetrics {
 public:
  JobMetrics(Registry& registry, HistoryCounter& history);
  void renewed(const Renew& renew, const RenewResult& result);
  // Each operation of a batch, in order; then the rest of it.
  void note(const Operation& operation, const OperationResult& result, Now now);
  void end_batch(std::span<const Operation> operations, std::span<const OperationResult> results,
                 const Effects& effects, Now now);

 private:
  static constexpr std::size_t kOutcomes = std::variant_size_v<Outcome>;
  struct Queue {
    std::array<Counter*, kOutcomes> total{};
    std::array<Histogram*, kOutcomes> seconds{};
    Histogram* wait = nullptr;
  };
  static constexpr std::size_t kNoOutcome = kOutcomes;
  struct Running {
    Queue* queue = nullptr;
    Instant since;
    HistoryCounter::SeriesPtr series;
    std::size_t outcome = kNoOutcome;  // in the batch under way
  };
  // Beyond QueueLabels::kMost queues the one of all others.
  Queue& queue_of(const std::string& name);
  void claimed(const ClaimResult& result, Now now);
  void finished(const Finish& finish, const FinishResult& result, Now now);
  void ended(JobId id, HistoryCounter::Lost lost, Now now);
  void note_made(std::vector<JobId> ids, Now now);
  void note_lost(std::span<const Operation> operations, std::span<const OperationResult> results,
                 const std::vector<JobId>& again, Now now);

  Registry& registry_;
  std::array<Counter*, kRemarkFaults> ignored_{};
  HistoryCounter& history_;
  std::unordered_map<std::string, Queue> queues_;
  std::unordered_map<JobId, Running> running_;
  std::vector<JobId> given_back_;  // by the batch under way: attempts are over, jobs live on
  std::vector<JobId> fired_;       // by it: created by schedules
};

}  // namespace mainspring
