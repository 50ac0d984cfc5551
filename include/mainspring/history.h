// History: jobs enqueued, started and finished in a queue per minute or hour, with wait and run
// times.
//
//   auto day = engine.history({.queue = "mails", .step = 1h});
//   for (const HistoryPoint& hour : day->points) print(hour.at, hour.completed, hour.wait.p95);
//
// Reference: docs/reference/http.md#history.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mainspring/time.h"

namespace mainspring {

inline constexpr std::int64_t kMaxHistoryPoints = 2000;
inline constexpr Duration kMaxHistoryStep = std::chrono::hours(24 * 30);

// Which part of the history. Empty fields do not restrict.
struct HistoryFilter {
  std::string queue{};
  std::string kind{};
  std::optional<WallTime> from{};  // nullopt = 24 h before `to`
  std::optional<WallTime> to{};    // nullopt = now
  // Whole minutes below an hour, else whole hours, up to kMaxHistoryStep. Zero = the shortest of
  // 1m, 5m, 15m, 1h, 6h, 1d, 7d and 30d that gives at most 32 points.
  Duration step{0};
};

// Percentiles are at most 10 % off.
struct HistoryTimes {
  std::int64_t count = 0;  // samples
  Duration p50{0}, p95{0}, p99{0};
  friend bool operator==(const HistoryTimes&, const HistoryTimes&) = default;
};

struct HistoryPoint {
  WallTime at;                 // start of the step
  std::int64_t enqueued = 0;   // jobs created, in any way
  std::int64_t started = 0;    // attempts
  std::int64_t completed = 0;  // jobs
  std::int64_t failed = 0;     // attempts: an error, or a lost worker
  std::int64_t dead = 0;       // jobs
  std::int64_t cancelled = 0;  // jobs, with those that expired
  HistoryTimes wait;           // of started attempts: from run_at to the claim
  HistoryTimes run;            // of completed and failed attempts: from the claim to the outcome
};

struct History {
  std::string queue, kind;  // as asked for
  WallTime from, to;        // multiples of `step`; `from` is not before the oldest kept step
  Duration step{0};
  std::vector<HistoryPoint> points;  // one per step, oldest first
  HistoryPoint total;                // of all points
};

}  // namespace mainspring
