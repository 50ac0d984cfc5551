// Operations on schedules. A store knows no calendar: which ticks are due, and when the next one
// is, comes with the operation; it decides what needs the present state of jobs (overlap,
// remaining runs), and makes the ledger's rows, the jobs and the next time one transaction.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mainspring/schedule.h"
#include "model/access.h"
#include "model/tick.h"
#include "store/lease_operations.h"

namespace mainspring {

// Creates the schedule, or replaces its definition. The same definition changes nothing (except
// `paused`, where it is given and differs). Undecided ticks of the old version whose time has come
// get one row "replaced": `until` now, count 0. max_runs counts anew for each version. Answers
// PutScheduleResult. Errors: overloaded (kMaxSchedules), forbidden (the schedule that is there is
// of jobs outside of `within`; the queue of the new one is the caller's to check).
struct PutSchedule {
  Schedule schedule;  // has passed validate()
  WallTime next;      // its first tick after now, with its fire time; never = none
  WallTime next_fire;
  std::optional<bool> paused;  // nullopt = as it is; false for a new one
  Within within{};
};
enum class PutOutcome : std::uint8_t { created, replaced, unchanged };
struct PutScheduleResult {
  std::int64_t version = 1;
  PutOutcome outcome = PutOutcome::created;
};

// The definition, the ledger and the ties to its jobs go; its jobs stay, and those that waited for
// the end of others begin. Answers Done. Errors: not_found.
struct RemoveSchedule {
  std::string name;
  Within within{};
};

// Pausing what is paused changes nothing. On resuming, undecided ticks before now become
// "paused" (skip_before). Answers Done. Errors: not_found.
struct PauseSchedule {
  std::string name;
  bool paused = true;
  std::string reason;  // kept while it is paused
  Within within{};
};

// Answers Done. Errors: not_found, conflict (it is not continuous).
struct SetTimer {
  std::string name;
  Duration timeout{0};  // 0 = its own again
  Within within{};
};

// Decides ticks. Each gets a ledger row; one that fires also a job made from the template, with
// run_at its fire time (never later than now; of source schedule with the jitter, of the others
// now) and tick_headers(); unless
//   - the overlap policy keeps it from firing: skipped, "overlap: job N has not ended" (skip),
//     "overlap: job N waits already" (buffer_one), "overlap: N jobs wait" (buffer_all);
//   - no runs remain: skipped, "no runs remain". With the last run, next becomes never;
//   - the tick of this nominal time has fired, by the clock or a backfill: skipped, "has run as job
//     N". Of this version; for a backfill, of any version;
//   - it is a wake and the schedule is paused ("paused"), or two of its jobs live already ("a twin
//     is there").
// By source:
//   schedule  refused with conflict, changing nothing, unless the schedule is at `version`, not
//             paused, and its next is `expected_next`; with unavailable, if a tick is later than
//             now by the store's clock: a scheduler's may be ahead. Sets next and next_fire.
//   trigger, wake, backfill
//             version and expected_next do not matter, next stays. A tick with nominal 0 gets the
//             present time. They fire also while the schedule is paused (but for wakes). A wake
//             overlaps one living job and no more.
// Jobs that wait (state `waiting`) begin, in the order of their ticks, when no other of the
// schedule's jobs lives: in the transaction that ends the last one. An operator's retry of one that
// waits begins it now; of one that is dead or cancelled makes it live again. Answers FireResult.
// Errors: not_found, conflict, lease_lost, too_large (kMaxFireTicks), storage_full. max_live_jobs
// refuses no tick: what a policy other than `allow` lets through is bounded by itself.
struct FireSchedule {
  std::string name;
  std::int64_t version = 0;
  TickSource source = TickSource::schedule;
  WallTime expected_next;
  std::vector<Tick> ticks;  // up to kMaxFireTicks, oldest first
  WallTime next = WallTime::never();
  WallTime next_fire = WallTime::never();
  std::optional<Overlap> overlap;  // instead of the schedule's own
  Fence fence;
  Within within{};
};
struct FireResult {
  int fired = 0;
  int skipped = 0;          // rows
  std::vector<JobId> jobs;  // one per tick; 0 = it was skipped
};
inline constexpr std::size_t kMaxFireTicks = 2 * kMaxMisfires;

}  // namespace mainspring
