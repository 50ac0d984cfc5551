// Schedules: jobs that are made by the clock, and the ledger that says what became of every tick.
//
//   nominal times   03:30   03:30   03:30 …        (cron, every, at)
//        │ + jitter, the same for every tick of a schedule
//        ▼
//   decided once:  fired (with its job)  or  skipped (with the reason)  → one row of the ledger
//
// The row, the job and the next nominal time are one transaction: a tick is neither lost nor
// doubled.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mainspring/job.h"

namespace mainspring {

// What happens to ticks whose time passed while nobody could fire them: no process was running, or
// the wall clock was set forward. A tick that is up to kMisfireGrace late is not missed.
enum class Misfire : std::uint8_t {
  skip,  // none of them fires
  once,  // the last of them fires, marked past due, for all of them
  all,   // each fires, marked past due; the last `misfire_cap` of them
};
// What happens to a tick when jobs of earlier ticks have not ended.
enum class Overlap : std::uint8_t {
  skip,             // it does not fire
  buffer_one,       // its job waits for their end; further ticks are skipped until it has begun
  buffer_all,       // its job waits for its turn; up to kMaxBuffered
  cancel_other,     // they are asked to stop, and its job waits for their end
  terminate_other,  // their leases end now (what they still say is refused), and its job begins
  allow,            // side by side
};
std::string_view to_string(Misfire policy);
std::optional<Misfire> parse_misfire(std::string_view text);
std::string_view to_string(Overlap policy);
std::optional<Overlap> parse_overlap(std::string_view text);

// A timer that runs almost continuously: its job handles batch after batch until `timeout` less
// `margin`, and hands over to a twin that was started `handoff` before that.
struct Continuous {
  Duration timeout = std::chrono::minutes(20);
  Duration margin = std::chrono::seconds(60);   // no batch begins in the last `margin` of a run
  Duration handoff = std::chrono::seconds(30);  // the twin is started so long before that; 0 = no
                                                // twin: it is started at the end
  friend bool operator==(const Continuous&, const Continuous&) = default;
};

// What a user defines. To define the same again changes nothing; another definition of the name is
// its next version.
struct Schedule {
  std::string name;  // as check_name
  // Exactly one of the three. A continuous timer's is its fallback: it starts the timer again if
  // it has died.
  std::string cron;               // 5 fields, or 6 with seconds first; see docs/guides/schedules.md
  Duration every{0};              // at multiples of it since 1970, or since start_at; at least 1 s
  std::optional<WallTime> at;     // once
  std::string time_zone = "UTC";  // IANA name; for cron
  NewJob job;                     // without run_at, delay, unique
  Misfire misfire = Misfire::once;
  Duration misfire_window = std::chrono::hours(24);  // what is later than that never fires
  int misfire_cap = 100;                             // of `all`: 1 to kMaxMisfires
  Overlap overlap = Overlap::skip;
  Duration jitter{0};                // each tick fires later by one fixed part of this, by name
  std::optional<WallTime> start_at;  // no tick before
  std::optional<WallTime> end_at;    // no tick at or after
  std::int64_t max_runs = 0;         // ends after so many jobs; 0 = no limit
  bool pause_on_failure = false;     // pauses when a job of it is dead
  std::optional<Continuous> continuous;
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// A schedule as the store keeps it.
struct ScheduleInfo {
  Schedule schedule;
  std::int64_t version = 1;  // never used twice for a name, also not after a removal
  bool paused = false;       // of a continuous timer: its kill switch
  std::string paused_reason;
  WallTime next = WallTime::never();       // nominal time of the first undecided tick; never = none
  WallTime next_fire = WallTime::never();  // when it is decided: with the jitter
  // Undecided ticks before this time are to be skipped with this reason: they passed while the
  // schedule was paused.
  WallTime skip_before = WallTime::from_us(0);
  std::string skip_reason;
  std::optional<std::int64_t> remaining;  // jobs it may still make; nullopt = no limit
  std::int64_t fired = 0;                 // jobs made, ever
  std::optional<WallTime> last_fired;     // nominal time of the last tick that fired
  JobId last_job = 0;
  std::vector<JobId> live;                   // its jobs that have not ended and do not wait
  int buffered = 0;                          // its jobs that wait for the end of others
  std::optional<Duration> timeout_override;  // of a continuous timer: instead of its timeout
  WallTime created_at, updated_at;
};

enum class TickSource : std::uint8_t {
  schedule,  // its time came
  trigger,   // somebody asked for a run now
  backfill,  // somebody asked for the ticks of a time that has passed
  wake,      // a continuous timer started its twin or itself again
};
std::string_view to_string(TickSource source);
std::optional<TickSource> parse_tick_source(std::string_view text);

enum class TickState : std::uint8_t { fired, skipped };
std::string_view to_string(TickState state);
std::optional<TickState> parse_tick_state(std::string_view text);

// One row of the ledger: a tick, or a run of consecutive ticks that had one fate.
struct LedgerRow {
  std::int64_t seq = 0;  // grows; newest rows have the largest
  std::int64_t version = 1;
  WallTime nominal;               // of the first tick
  std::optional<WallTime> until;  // of the last tick, where the row stands for several
  std::int64_t count = 1;         // ticks; 0 = too many to count
  TickSource source = TickSource::schedule;
  TickState state = TickState::fired;
  bool past_due = false;
  JobId job = 0;                      // 0 = none
  std::optional<JobState> job_state;  // now; nullopt = none, or pruned
  std::string reason;                 // of skipped: "paused", "overlap: …", "missed: …", …
  std::string note;                   // of the time: "shifted: 02:30 does not exist"
  WallTime decided_at;
};
struct LedgerPage {
  std::vector<LedgerRow> rows;       // newest first
  std::optional<std::int64_t> next;  // pass as `before`; nullopt = no more
};

// A tick to come, for people.
struct PreviewTick {
  WallTime nominal;
  WallTime fires_at;  // with the jitter
  std::string note;   // "" or how a clock change moves or merges it
};

inline constexpr Duration kMisfireGrace = std::chrono::seconds(60);
inline constexpr int kMaxMisfires = 1000;
inline constexpr int kMaxBuffered = 1000;
inline constexpr Duration kMinEvery = std::chrono::seconds(1);
inline constexpr Duration kMaxEvery = std::chrono::hours(24 * 3660);
inline constexpr Duration kMaxJitter = std::chrono::hours(24);
inline constexpr std::int64_t kLedgerRows = 10'000;  // kept per schedule; older ones go
inline constexpr int kMaxPreview = 1000;
inline constexpr int kMaxSchedules = 100'000;

// What the next hours bring.
struct UpcomingTick {
  std::string schedule;
  WallTime nominal;
  std::string note;  // as in PreviewTick
};
struct DueJobs {
  WallTime at;            // a full hour, UTC; jobs that are overdue count in the first one
  std::int64_t jobs = 0;  // scheduled and retryable ones with run_at in this hour
  friend bool operator==(const DueJobs&, const DueJobs&) = default;
};
struct Upcoming {
  WallTime from, to;
  std::vector<UpcomingTick> ticks;  // in order of time
  bool truncated = false;           // there are more ticks, or more due jobs
  std::vector<std::string> cut;     // schedules with more ticks than are shown of them
  std::vector<DueJobs> due;         // hours with due jobs
};
inline constexpr Duration kMaxUpcoming = std::chrono::hours(24 * 7);
inline constexpr int kMaxUpcomingTicks = 10'000;
// Of one schedule at most so many, so that a frequent one does not hide the others.
inline constexpr int kMaxTicksOfOne = 100;

// Which schedules pause_all() and resume_all() change.
struct ScheduleSet {
  std::vector<std::string> names;     // up to 1000; or
  std::optional<std::string> prefix;  // those whose names begin so; "" = all
};
struct ScheduleChanges {
  std::vector<std::string> changed, unchanged, missing;  // names
};

}  // namespace mainspring
