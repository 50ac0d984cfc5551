// The dead letter: jobs that failed for good, and what they died of.
//
// Jobs that died of the same thing have the same fingerprint, whatever numbers and names their
// messages carry. Guide: docs/concepts/retries.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mainspring/job.h"

namespace mainspring {

// Which dead jobs. Empty fields do not restrict.
struct DeadFilter {
  std::string queue{};
  std::string kind{};
  std::string tag{};
  std::string fingerprint{};  // as DeadGroup has it
};

// Dead jobs with one fingerprint.
struct DeadGroup {
  std::string fingerprint;  // 16 hex digits: of kind, reason and description
  std::string kind, reason;
  std::int64_t count = 0;
  JobId first = 0, last = 0;  // the oldest and the newest
  WallTime first_at, last_at;
  std::string message;  // of the newest: its description, cut
  bool masked = false;  // whoever asks may not see that: it is ""
};
struct DeadGroups {
  std::vector<DeadGroup> groups;  // the largest first
  std::int64_t jobs = 0;          // looked at: the newest
  bool cut = false;               // there are more jobs, or groups
};
// How a redrive goes about it that takes its time: a job of the engine's own does it.
struct RedrivePace {
  static constexpr std::int64_t kMaxRedriven = 1'000'000;
  std::string rate{};  // at most so fast: "20/s", "10/m", "5/h"; "" = one after the other
  // 1 job, then 10, then the rest, each when those before have ended; no more of them once one
  // fails of what any of them had died of.
  bool canary = false;
  std::int64_t limit = kMaxRedriven;  // 1 to that; the oldest
};
struct RedriveStarted {
  JobId job = 0;           // of the queue "mainspring.redrives"
  bool duplicate = false;  // one for the same filter is under way: it is that one
};

inline constexpr std::size_t kMaxDeadLooked = 20'000;  // for groups; the newest
inline constexpr std::size_t kMaxDeadGroups = 1000;

}  // namespace mainspring
