// Operations on schedules. A store has no calendar: the operation brings the due ticks and the time
// of the next tick. The store decides what depends on the current state of jobs (overlap, remaining
// runs). It writes ledger rows, jobs and the next time in one transaction.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mainspring/schedule.h"
#include "model/access.h"
#include "model/tick.h"
#include "store/lease_operations.h"

namespace mainspring {

// Creates a schedule or replaces its definition. An identical definition changes nothing (except
// `paused`, if it is given and differs). Undecided ticks of the old version whose time has come get
// one row "replaced": `until` now, count 0. max_runs counts the runs of all versions, and an `at`
// that has run does not run again, unless the runs are restarted. Answers PutScheduleResult.
// Errors: overloaded (kMaxSchedules), forbidden (the existing schedule makes jobs outside of
// `within`; the caller checks the queue of the new one).
struct PutSchedule {
  Schedule schedule;  // has passed validate()
  WallTime next;      // its first tick after now, with the fire time; never = none
  WallTime next_fire;
  std::optional<bool> paused;  // nullopt = unchanged; false for a new schedule
  Within within{};
  RunCount runs = RunCount::keep;  // restart makes a new version of an identical definition too
};
// Gives a schedule its next version. `has_run`: a run of op.schedule.at has fired before.
void redefine(ScheduleInfo& info, const PutSchedule& op, bool has_run, WallTime now);
enum class PutOutcome : std::uint8_t { created, replaced, unchanged };
struct PutScheduleResult {
  std::int64_t version = 1;
  PutOutcome outcome = PutOutcome::created;
};

// Removes the definition, the ledger and the links to its jobs. Its jobs stay, and jobs that waited
// for other jobs of the schedule start. Answers Done. Errors: not_found.
struct RemoveSchedule {
  std::string name;
  Within within{};
};

// Pausing a paused schedule changes nothing. On resume, undecided ticks before now become "paused"
// (skip_before). Answers Done. Errors: not_found.
struct PauseSchedule {
  std::string name;
  bool paused = true;
  std::string reason;  // kept while it is paused
  Within within{};
};

// Answers Done. Errors: not_found, conflict (it is not continuous).
struct SetTimer {
  std::string name;
  Duration timeout{0};  // 0 = the schedule's own
  Within within{};
};

// Decides ticks. Each tick gets a ledger row. A tick that fires also makes a job from the template,
// with tick_headers() and run_at = its fire time, never later than now (from source schedule with
// jitter, from other sources now). A tick does not fire if
//   - the overlap policy prevents it: skipped, "overlap: job N has not ended" (skip),
//     "overlap: job N already waits" (buffer_one), "overlap: N jobs wait" (buffer_all);
//   - no runs remain: skipped, "no runs remain". The last run sets next to never;
//   - the tick of this nominal time has fired, by the clock or a backfill: skipped, "has run as job
//     N". Only ticks of this version count; for a backfill, ticks of any version;
//   - it is a wake and the schedule is paused ("paused"), or two of its jobs are live ("a standby
//     is there").
// By source:
//   schedule  refused with conflict, changing nothing, unless the schedule is at `version`, not
//             paused, and its next is `expected_next`. Refused with unavailable if a tick is later
//             than now by the store's clock: a scheduler's clock may be ahead. Sets next and
//             next_fire.
//   trigger, wake, backfill
//             ignore version and expected_next, and leave next unchanged. A tick with nominal 0
//             gets the present time. They fire also while the schedule is paused (except wakes). A
//             wake overlaps at most one live job.
// Waiting jobs (state `waiting`) start in the order of their ticks, when no other job of the
// schedule is live: in the transaction that ends the last one. An operator's retry of a waiting job
// starts it now. A retry of a dead or cancelled job makes it live again. Answers FireResult.
// Errors: not_found, conflict, lease_lost, too_large (kMaxFireTicks), storage_full. max_live_jobs
// refuses no tick: policies other than `allow` limit their own jobs.
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
