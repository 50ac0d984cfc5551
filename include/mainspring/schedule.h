// Schedules: jobs created by the clock, and a ledger with the outcome of every tick.
//
//   nominal times   03:30   03:30   03:30 …        (cron, every, at)
//        │ + jitter, the same for every tick of a schedule
//        ▼
//   decided once:  fired (with its job)  or  skipped (with the reason)  → one row of the ledger
//
// The row, the job and the next nominal time are written in one transaction: a tick is neither lost
// nor doubled.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mainspring/job.h"

namespace mainspring {

// What happens to missed ticks: no process was running to fire them, or the wall clock was set
// forward. A tick up to kMisfireGrace late is not missed.
enum class Misfire : std::uint8_t {
  skip,  // none of them fires
  once,  // only the last one fires, marked past due
  all,   // each fires, marked past due; the last `misfire_cap` of them
};
// What happens to a tick while jobs of earlier ticks have not ended.
enum class Overlap : std::uint8_t {
  skip,             // it does not fire
  buffer_one,       // its job waits for their end; further ticks are skipped until it has started
  buffer_all,       // its job waits until all earlier ones have ended; up to kMaxBuffered
  cancel_other,     // the earlier jobs are cancelled, and its job waits for their end
  terminate_other,  // their leases end now (later reports are refused), and its job starts
  allow,            // in parallel
};
// How often a fixed wall time runs that comes twice because the clock was set back.
enum class RepeatedHour : std::uint8_t {
  once,   // the first time
  twice,  // both times
};
std::string_view to_string(RepeatedHour rule);
std::optional<RepeatedHour> parse_repeated_hour(std::string_view text);
std::string_view to_string(Misfire policy);
std::optional<Misfire> parse_misfire(std::string_view text);
std::string_view to_string(Overlap policy);
std::optional<Overlap> parse_overlap(std::string_view text);

// A timer that runs almost continuously: its job processes batch after batch until `timeout` less
// `margin`. Then it hands over to a standby that was started `handoff` earlier.
struct Continuous {
  Duration timeout = std::chrono::minutes(20);
  Duration margin = std::chrono::seconds(60);   // no batch starts in the last `margin` of a run
  Duration handoff = std::chrono::seconds(30);  // how long before that the standby starts; 0 = no
                                                // standby: the next run starts at the end
  friend bool operator==(const Continuous&, const Continuous&) = default;
};

// A user's definition. Defining the same again changes nothing; a different definition of the name
// becomes its next version.
struct Schedule {
  std::string name;  // see check_name
  // Exactly one of cron, every, at. For a continuous timer it is the fallback: it restarts the
  // timer after the timer's job has died.
  std::string cron;            // 5 fields, or 6 with seconds first; see docs/guides/schedules.md
  Duration every{0};           // at multiples of it since 1970, or since start_at; at least 100 ms
  std::optional<WallTime> at;  // once
  std::string time_zone = "UTC";                    // IANA name; for cron
  RepeatedHour repeated_hour = RepeatedHour::once;  // for cron
  NewJob job;                                       // without run_at, delay, unique
  Misfire misfire = Misfire::once;
  Duration misfire_window = std::chrono::hours(24);  // ticks later than this never fire
  int misfire_cap = 100;                             // for `all`: 1 to kMaxMisfires
  Overlap overlap = Overlap::skip;
  Duration jitter{0};                // delays each tick by a part of this, fixed by the name
  std::optional<WallTime> start_at;  // no tick before
  std::optional<WallTime> end_at;    // no tick at or after
  std::int64_t max_runs = 0;         // ends after this many jobs; 0 = no limit
  bool pause_on_failure = false;     // pauses when one of its jobs is dead
  std::optional<Continuous> continuous;
  friend bool operator==(const Schedule&, const Schedule&) = default;
};

// What a new definition of a schedule does with the runs so far.
enum class RunCount : std::uint8_t {
  keep,     // max_runs counts them, and an instant `at` that has run does not run again
  restart,  // they no longer count
};

// A schedule as the store keeps it.
struct ScheduleInfo {
  Schedule schedule;
  std::int64_t version = 1;  // never used twice for a name, even after a removal
  bool paused = false;       // the kill switch of a continuous timer
  std::string paused_reason;
  // Why the server cannot compute its ticks, so that none fires: its time zone is unknown there;
  // "" = it can. Filled in by the server for readers; never stored.
  std::string problem;
  WallTime next = WallTime::never();       // nominal time of the first undecided tick; never = none
  WallTime next_fire = WallTime::never();  // when that tick is decided: with the jitter
  // Undecided ticks before this time are skipped with skip_reason: they passed while the schedule
  // was paused.
  WallTime skip_before = WallTime::from_us(0);
  std::string skip_reason;
  std::optional<std::int64_t> remaining;  // jobs it may still create; nullopt = no limit
  std::int64_t fired = 0;                 // jobs created so far
  std::optional<WallTime> last_fired;     // nominal time of the last tick that fired
  JobId last_job = 0;
  std::vector<JobId> live;                   // its jobs that have not ended and do not wait
  int buffered = 0;                          // its jobs that wait for others to end
  std::optional<Duration> timeout_override;  // of a continuous timer: replaces its timeout
  WallTime created_at, updated_at;
};

enum class TickSource : std::uint8_t {
  schedule,  // it was due
  trigger,   // a request for a run now
  backfill,  // a request for the ticks of a past period
  wake,      // a continuous timer started its standby or restarted itself
};
std::string_view to_string(TickSource source);
std::optional<TickSource> parse_tick_source(std::string_view text);

enum class TickState : std::uint8_t { fired, skipped };
std::string_view to_string(TickState state);
std::optional<TickState> parse_tick_state(std::string_view text);

// One row of the ledger: a tick, or consecutive ticks with the same outcome.
struct LedgerRow {
  std::int64_t seq = 0;  // grows; newest rows have the largest
  std::int64_t version = 1;
  WallTime nominal;               // of the first tick
  std::optional<WallTime> until;  // of the last tick, if the row covers several
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

// A future tick.
struct PreviewTick {
  WallTime nominal;
  WallTime fires_at;  // with the jitter
  std::string note;   // "" or how a clock change moves or merges it
};

inline constexpr Duration kMisfireGrace = std::chrono::seconds(60);
inline constexpr int kMaxMisfires = 1000;
inline constexpr int kMaxBuffered = 1000;
inline constexpr Duration kMinEvery = std::chrono::milliseconds(100);
inline constexpr Duration kMaxEvery = std::chrono::hours(24 * 3660);
inline constexpr Duration kMaxJitter = std::chrono::hours(24);
inline constexpr std::int64_t kLedgerRows = 10'000;  // kept per schedule; older ones are removed
inline constexpr int kMaxPreview = 1000;
inline constexpr int kMaxSchedules = 100'000;

// Ticks and due jobs of the next hours.
struct UpcomingTick {
  std::string schedule;
  WallTime nominal;
  std::string note;  // as in PreviewTick
};
struct DueJobs {
  WallTime at;            // a full hour, UTC; overdue jobs count in the first one
  std::int64_t jobs = 0;  // scheduled and retryable ones with run_at in this hour
  friend bool operator==(const DueJobs&, const DueJobs&) = default;
};
struct Upcoming {
  WallTime from, to;
  // Those that fire in [from, to), in the order of their nominal times. With jitter, a nominal time
  // may be before `from`.
  std::vector<UpcomingTick> ticks;
  bool truncated = false;        // there are more ticks, or more due jobs
  std::vector<std::string> cut;  // schedules with more ticks than kMaxTicksOfOne
  std::vector<DueJobs> due;      // hours with due jobs
};
inline constexpr Duration kMaxUpcoming = std::chrono::hours(24 * 7);
inline constexpr int kMaxUpcomingTicks = 10'000;
// Limit per schedule, so that a frequent one does not hide the others.
inline constexpr int kMaxTicksOfOne = 300;

// Which schedules pause_all() and resume_all() change.
struct ScheduleSet {
  std::vector<std::string> names;     // up to 1000; or
  std::optional<std::string> prefix;  // all names with this prefix; "" = all
};
struct ScheduleChanges {
  std::vector<std::string> changed, unchanged, missing;  // names
};

}  // namespace mainspring
