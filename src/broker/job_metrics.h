// JobMetrics: outcomes of the jobs that this broker gave to workers, per queue; and the counts of
// the history. Every batch is passed to it.
//
// A finish has ids only, so JobMetrics remembers the queue and the claim time from claim to end:
// one small entry per running job. Jobs claimed before this process started are counted under the
// queue "unknown".
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

class JobTraces;

// Not thread-safe: the broker calls it under its mutex.
class JobMetrics {
 public:
  JobMetrics(Registry& registry, HistoryCounter& history);
  void renewed(const Renew& renew, const RenewResult& result);
  // Call it for each operation of a batch, in order; then for the rest of the batch. `traces` says
  // which jobs are traced; nullptr: their headers do.
  void note(const Operation& operation, const OperationResult& result, const JobTraces* traces,
            Now now);
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
    std::size_t outcome = kNoOutcome;  // in the current batch
    std::string trace_id;              // "" = not traced
  };
  // Beyond QueueLabels::kMost queues, the entry of all others.
  Queue& queue_of(const std::string& name);
  void claimed(const ClaimResult& result, const JobTraces* traces, Now now);
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
  std::vector<JobId> given_back_;  // by the current batch: the attempts are over, the jobs are live
  std::vector<JobId> fired_;       // by the current batch: created by schedules
};

}  // namespace mainspring
