// The dead letter: jobs that failed for good, grouped by cause.
//
// Jobs that died of the same cause have the same fingerprint, even if their messages contain
// different numbers and names. Guide: docs/concepts/retries.md.
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
  std::string fingerprint{};  // as in DeadGroup
};

// Dead jobs with one fingerprint.
struct DeadGroup {
  std::string fingerprint;  // 16 hex digits: of kind, reason and description
  std::string kind, reason;
  std::int64_t count = 0;
  JobId first = 0, last = 0;   // the oldest and the newest
  WallTime first_at, last_at;  // of the earliest and the latest death, perhaps of other jobs
  std::string message;  // description of the newest job, truncated
  bool masked = false;  // the caller may not read the message: it is ""
};
struct DeadGroups {
  std::vector<DeadGroup> groups;  // the largest first
  std::int64_t jobs = 0;          // examined: the newest ones
  bool cut = false;               // there are more jobs or groups
};
// How a paced redrive works. A job of the engine's own does it.
struct RedrivePace {
  static constexpr std::int64_t kMaxRedriven = 1'000'000;
  std::string rate{};  // at most this fast: "20/s", "10/m", "5/h"; "" = one after another
  // Redrives 1 job, then 10, then the rest, each group after the previous one has ended. Stops when
  // one of the jobs fails of a cause that any of them had died of.
  bool canary = false;
  std::int64_t limit = kMaxRedriven;  // 1 to kMaxRedriven; the oldest first
};
struct RedriveStarted {
  JobId job = 0;           // of the queue "mainspring.redrives"
  bool duplicate = false;  // a redrive with the same filter is running; this is its job
};

inline constexpr std::size_t kMaxDeadLooked = 20'000;     // by tag or fingerprint; the newest
inline constexpr std::int64_t kMaxDeadCounted = 200'000;  // counted for groups; the newest
inline constexpr std::size_t kMaxDeadGroups = 1000;

}  // namespace mainspring
