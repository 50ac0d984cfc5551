// Backlog: how many jobs of a queue wait, and how long they take at the recent completion rate.
#pragma once

#include <cstdint>
#include <optional>

#include "mainspring/time.h"

namespace mainspring {

// Rates are averages over kBacklogWindow, or less if the queue was idle at its start. They are zero
// for queues beyond the 1,000 that the history keeps.
struct QueueBacklog {
  std::int64_t jobs = 0;              // available
  double arrivals_per_second = 0;     // enqueued
  double completions_per_second = 0;  // jobs that completed or became dead
  std::optional<Duration> service{};  // median run time of attempts; nullopt = none ended
  // How long the available jobs take at completions_per_second; zero = no job is available. nullopt
  // = unknown: the queue is paused, or no job completed in the window.
  std::optional<Duration> drain{};
  std::optional<Duration> oldest{};  // since the oldest available job was due; nullopt = none
  friend bool operator==(const QueueBacklog&, const QueueBacklog&) = default;
};

inline constexpr Duration kBacklogWindow = std::chrono::minutes(5);

}  // namespace mainspring
