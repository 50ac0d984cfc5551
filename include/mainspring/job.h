// The types of a job: what you enqueue, what a worker gets, what the store keeps.
//
//   enqueue ─▶ scheduled ─(run_at)─▶ available ─(claim)─▶ running ─▶ completed
//                                        ▲                  │  ├───▶ cancelled
//                                        └──(run_at)── retryable ◀┤ └───▶ dead (dead letter)
//
// Payloads (args, result, checkpoint, headers) are JSON text and are kept byte for byte.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "mainspring/time.h"

namespace mainspring {

using JobId = std::int64_t;  // assigned by the store, from 1, never reused
using Token = std::int64_t;  // fencing token: grows with every claim in a store, never repeats

enum class JobState : std::uint8_t {
  waiting,    // for its session or an earlier run of its schedule; or deferred
  scheduled,  // run_at is ahead
  available,  // can be claimed
  running,    // a worker holds its lease
  completed,  // terminal: done
  retryable,  // failed; the next attempt is at run_at
  cancelled,  // terminal: cancelled by a request, or expired before it started
  dead,       // terminal: in the dead letter, with reason and description
};
inline constexpr int kJobStateCount = 8;

std::string_view to_string(JobState state);
std::optional<JobState> parse_job_state(std::string_view text);
constexpr bool is_terminal(JobState s) {
  return s == JobState::completed || s == JobState::cancelled || s == JobState::dead;
}

enum class OnConflict : std::uint8_t {
  keep,      // the old job stays as it is
  replace,   // the old job takes the new args, priority, run_at, …, unless it is running or has
             // ended
  postpone,  // the old job takes the new run_at, unless it is running or has ended (debounce)
};
std::string_view to_string(OnConflict policy);
std::optional<OnConflict> parse_on_conflict(std::string_view text);

// One job per key and queue: while the first is not terminal, and in any case for `window` from its
// enqueue, even after its record is pruned.
struct Unique {
  std::string key;
  Duration window{0};  // 0 = only while the first is not terminal; at most 365 days
  OnConflict on_conflict = OnConflict::keep;
  friend bool operator==(const Unique&, const Unique&) = default;
};

// A follow-up: a job that is created when another job ends, in the same transaction. For example a
// reply, a callback or the next step ("then" in JSON). Each end listed in `on` creates one. A job
// that an operator retries can end again and create another.
//
// Its args are a JSON object: "job", "queue", "kind", "state", "attempt" of the ended job, its
// "result" (null if there is none), "reason" and "description" if cancelled or dead, "tags" if it
// has any, and "data" of this follow-up. Its correlation_id is that of the ended job, or else the
// ended job's id in decimal. Its headers are those of the ended job.
struct FollowUp {
  static constexpr std::uint8_t kCompleted = 1, kCancelled = 2, kDead = 4, kEveryEnd = 7;
  // For each message that the job's worker sends while the job runs (Renewal::messages), alone or
  // with other bits. "state" is "running", "result" is null, "progress" is the job's last progress,
  // "message" is the message, "token" is the claim's token, and "seq" is the message's number in
  // that claim (null: the worker sent none). A message may arrive twice with the same token and
  // seq. Both numbers only grow.
  static constexpr std::uint8_t kMessage = 8, kEndsAndMessages = 15;
  // For each renewal that changes the job's progress, alone or with other bits. "state", "result"
  // and "token" as for messages; "progress" is the new value. Of several reports between two
  // renewals, only the last arrives.
  static constexpr std::uint8_t kProgress = 16, kEverything = 31;
  std::string queue;
  std::string kind;
  std::uint8_t on = kEveryEnd;  // a combination of these bits, not 0; expired jobs are cancelled or
                                // dead
  int priority = 5;
  std::string session{};                 // session of the follow-up in its queue; "" = none
  std::string data;                      // JSON, up to 64 KiB; "" = null
  std::optional<Duration> expires_in{};  // of the follow-up, from its creation
  friend bool operator==(const FollowUp&, const FollowUp&) = default;
};
inline constexpr std::size_t kMaxFollowUps = 8;
inline constexpr std::size_t kMaxFollowUpDataBytes = 64 << 10;

// What happens to a session when one of its jobs dies.
enum class OnDead : std::uint8_t {
  skip,   // the next job runs
  block,  // no job runs until the dead job is retried or the session is resumed
  park,   // no job runs until the session is resumed
};
std::string_view to_string(OnDead policy);
std::optional<OnDead> parse_on_dead(std::string_view text);

// What happens to a job that has not started when it expires. Its reason is "expired".
enum class OnExpiry : std::uint8_t {
  cancel,  // it is cancelled, and counted as expired
  dead,    // it is dead: in the dead letter, like one that failed
};
std::string_view to_string(OnExpiry policy);
std::optional<OnExpiry> parse_on_expiry(std::string_view text);

// A job as a caller asks for it. The defaults are documented in docs/reference.
struct NewJob {
  std::string queue = "default";
  std::string kind;
  std::string args = "{}";         // JSON, up to 1 MiB
  int priority = 5;                // 0 (first) to 9
  std::optional<WallTime> run_at;  // not before; at most one of run_at and delay
  std::optional<Duration> delay;   // not before now + delay
  int max_attempts = 20;           // 1 to 1000
  std::optional<Unique> unique;
  std::optional<Duration>
      expires_in;  // if it has not started by then, it ends with reason "expired": see on_expiry
  Duration timeout = std::chrono::minutes(15);  // for one attempt; kForever = none
  std::vector<std::string> tags;                // up to 16, each up to 64 bytes
  std::string headers;                          // JSON object of strings, "" = none
  std::string correlation_id;                   // "" = none
  // A queue name; "" = none. The queue gets a job of kind "reply" when this job ends, and one of
  // kind "message" for each message: a follow-up on every end and message, without data. For
  // progress reports, add a follow-up to that queue. These jobs expire after the store's
  // retention_replies; a follow-up of the same queue and kind replaces them.
  std::string reply_to;
  std::string reply_session;         // session of those replies in that queue; only with reply_to
  std::vector<FollowUp> follow_ups;  // up to kMaxFollowUps
  // Jobs of a queue with the same session run one at a time, in enqueue order (rules:
  // store/session_operations.h); "" = none. Not with unique.on_conflict other than keep, and not in
  // schedules.
  std::string session;
  OnDead on_dead = OnDead::skip;          // "session_on_dead"
  OnExpiry on_expiry = OnExpiry::cancel;  // dead only with expires_in
  // Set by the engine: the number of triggers on job ends in the chain that led to this job
  // (trigger.h). 0 for a job that a caller enqueues.
  int trigger_depth = 0;
  // The key for the queue's limits per key; "" = no limit per key applies. Not together with
  // session.
  std::string limit_key;
  friend bool operator==(const NewJob&, const NewJob&) = default;
};

struct Progress {
  double value = 0;  // 0 to 1
  std::string text;
  friend bool operator==(const Progress&, const Progress&) = default;
};

// What is wrong with a remark: a statement of a worker's program about its job, other than the
// outcome.
enum class RemarkFault : std::uint8_t {
  progress,       // not a number from 0 to 1 with a text
  checkpoint,     // too large
  message,        // too large
  session_state,  // the job has no session
  step,           // not a question about a step, or the program did not read the answer
  outcome,        // a field of the outcome has the wrong type or breaks its rule
  unknown_field,  // an unknown name
  not_json,       // not a JSON object
  too_long,       // a line over the limit
  unasked,        // about no job, or about another job
};
inline constexpr std::size_t kRemarkFaults = 10;
std::string_view to_string(RemarkFault fault);
std::optional<RemarkFault> parse_remark_fault(std::string_view text);

// Remarks that a worker ignored. None of them changes the outcome of the attempt.
struct IgnoredRemarks {
  std::string text;  // for people: the first one of the attempt; cut at kMaxWarningBytes
  std::array<std::int64_t, kRemarkFaults> counts{};  // by RemarkFault, since the last report
  friend bool operator==(const IgnoredRemarks&, const IgnoredRemarks&) = default;
};
inline constexpr std::size_t kMaxWarningBytes = 1 << 10;

// How the program of an attempt ended, as far as its worker knows.
struct ProgramEnd {
  std::optional<int> exit_code{};  // 0 to kMaxExitCode; not with a signal
  int signal = 0;                  // of <signal.h>, that ended it; 0 = none, or not known
  bool oom = false;                // the kernel killed one of its processes for lack of memory
  // Peak memory in bytes, as measured by the worker; 0 to kMaxPeakMemoryBytes.
  std::optional<std::int64_t> peak_memory{};
  bool empty() const { return *this == ProgramEnd(); }
  friend bool operator==(const ProgramEnd&, const ProgramEnd&) = default;
};
inline constexpr int kMaxExitCode = 255;
inline constexpr std::int64_t kMaxPeakMemoryBytes = std::int64_t{1} << 53;

// Why one attempt failed.
struct AttemptError {
  int attempt = 0;
  WallTime at;         // when it ended
  std::string worker;  // incarnation
  std::string message;
  Duration ran_for{0};   // from claim to the error
  ProgramEnd program{};  // empty = no program is known
  friend bool operator==(const AttemptError&, const AttemptError&) = default;
};

// A job in quarantine: its last attempts were all lost without a report from the worker. Its state
// is `retryable`, but its run_at alone does not release it: of the quarantined jobs of a queue one
// at a time is released, once its run_at is due. Any outcome that the released attempt reports ends
// the quarantine. If the attempt is lost again, the job goes back into quarantine.
struct Quarantine {
  WallTime since;
  int lost = 0;           // consecutive lost attempts; counted up to kMaxLost
  bool released = false;  // it may start, or runs
  friend bool operator==(const Quarantine&, const Quarantine&) = default;
};
inline constexpr int kMaxLost = 127;

// A job as the store keeps it.
struct Job {
  JobId id = 0;
  std::string queue;
  std::string kind;
  JobState state = JobState::available;
  std::string args;
  std::size_t args_omitted = 0;  // bytes of args that a list left out; `args` is "" then
  int priority = 5;
  WallTime run_at;
  int attempt = 0;  // attempts started and not refunded
  int max_attempts = 20;
  Token token = 0;           // of the last claim; 0 = never claimed
  std::int64_t version = 1;  // grows with every change
  std::string worker;        // holder while running, "" otherwise
  bool cancel_requested = false;
  std::string unique_key;
  std::string headers;
  std::vector<std::string> tags;
  std::string correlation_id;
  std::string reply_to;
  std::string reply_session;
  std::vector<FollowUp> follow_ups;
  std::string session;
  OnDead on_dead = OnDead::skip;
  OnExpiry on_expiry = OnExpiry::cancel;
  int trigger_depth = 0;
  std::string limit_key;
  bool deferred = false;  // waiting, because of the outcome Defer
  std::optional<Quarantine> quarantined{};
  Duration timeout = kForever;
  std::optional<WallTime> expires_at;
  WallTime created_at;
  std::optional<WallTime> started_at;   // of the last attempt
  std::optional<WallTime> finished_at;  // terminal
  std::optional<Progress> progress;
  std::string warning;     // what its worker ignored last: see IgnoredRemarks; "" = nothing
  std::string checkpoint;  // JSON, "" = none
  std::string result;      // JSON, "" = none
  std::string reason;      // of cancelled and dead, a short word: "max_attempts", "expired", or the
                           // caller's; of a deferred job what its worker gave
  std::string description;  // of dead: the long text
  std::vector<AttemptError> errors;
};

// A job as a worker gets it.
struct ClaimedJob {
  JobId id = 0;
  Token token = 0;
  int attempt = 1;
  int max_attempts = 20;
  std::string queue;
  std::string kind;
  std::string args;
  int priority = 5;
  WallTime run_at;
  Duration timeout = kForever;
  Duration lease{0};       // time from the claim's answer until the lease must be renewed
  std::string checkpoint;  // of the previous attempt, "" = none
  std::string headers;
  std::vector<std::string> tags;
  std::string correlation_id;
  std::string reply_to;
  std::string session;        // "" = none
  std::string session_state;  // JSON, set by the last job or holder; "" = none
  bool has_memos = false;     // earlier attempts saved step results: Context::step finds them
  bool deferred = false;      // it was deferred until this claim; given_back() defers it again
  int cost = 1;               // slots of its worker that it takes: see limits.h
};

// The six outcomes of an attempt.
struct Complete {
  std::string result;  // JSON up to 1 MiB, "" = none
  // Jobs that are created in the transaction of the completion. All are created if the completion
  // counts; none if the attempt has lost the job, and none again if the completion is repeated. As
  // for follow-ups, limits on the number of open jobs do not apply. Up to kMaxNextJobs and
  // kMaxNextBytes, without `unique`.
  std::vector<NewJob> next{};
};
struct Retry {
  std::string error;
  std::optional<Duration> after;  // nullopt = the default back-off
  // Opens the breaker of the job's queue for at least this long, as a Retry-After asks:
  // kMinBreakerTime to kMaxBreakerTime; nullopt = it counts as one failure. Ignored if the queue
  // has no breaker.
  std::optional<Duration> open_breaker_for{};
  ProgramEnd program{};  // kept with the error
};
struct Snooze {  // not a failure: the attempt is not counted. Also sent by a worker that shuts down
                 // (after 0).
  Duration after{0};
  std::optional<Duration> open_breaker_for{};  // as in Retry
};
struct CancelJob {
  std::string reason;
};
struct Dead {
  std::string reason;
  std::string description;
  ProgramEnd program{};  // kept with the error
};
// Deferred: not a failure. The attempt is not counted; checkpoint, progress and saved step results
// stay. The job is `waiting` without an end time. It continues when a claim names its id
// (Claim::job) or an operator retries it, and ends when it is cancelled. Enqueues with its unique
// key leave it as it is. A job of a session cannot be deferred: later jobs would wait too.
struct Defer {
  std::string reason;  // for people; "" = none
};
using Outcome = std::variant<Complete, Retry, Snooze, CancelJob, Dead, Defer>;

// The outcome for a job that its worker has not started.
inline Outcome given_back(const ClaimedJob& job) {
  if (job.deferred) return Defer{};
  return Snooze{};
}

// The limits of the model. The API refuses what exceeds them.
inline constexpr std::size_t kMaxArgsBytes = 1 << 20;
inline constexpr std::size_t kMaxResultBytes = 1 << 20;
inline constexpr std::size_t kMaxCheckpointBytes = 256 << 10;
inline constexpr std::size_t kMaxHeadersBytes = 16 << 10;
inline constexpr std::size_t kMaxTextBytes =
    16 << 10;  // error messages, reasons, descriptions: cut, not refused
inline constexpr std::size_t kMaxProgressTextBytes = 1 << 10;
inline constexpr std::size_t kMaxNameBytes = 128;  // queue, kind
inline constexpr std::size_t kMaxKeyBytes =
    512;  // unique key, idempotency key, correlation_id, worker, session, limit key
inline constexpr std::size_t kMaxMessages = 16;  // of one renewal of one job
inline constexpr std::size_t kMaxMessageBytes = 64 << 10;
inline constexpr std::size_t kMaxMemos = 1000;  // of one job
inline constexpr std::size_t kMaxMemoBytes = 64 << 10;
inline constexpr std::size_t kMaxMemoNameBytes = 64;
inline constexpr std::size_t kMaxRenewalMemos = 16;  // of one renewal of one job
inline constexpr std::size_t kMaxTags = 16;
inline constexpr std::size_t kMaxTagBytes = 64;
inline constexpr std::size_t kMaxNextJobs = 1000;      // of one completion
inline constexpr std::size_t kMaxNextBytes = 4 << 20;  // of their args and headers together
inline constexpr int kMaxMaxAttempts = 1000;
inline constexpr int kLowestPriority = 9;
inline constexpr std::size_t kMaxEnqueueJobs = 10'000;
inline constexpr int kMaxClaimJobs = 1000;
inline constexpr std::size_t kMaxClaimQueues = 1000;
inline constexpr std::size_t kMaxFinishResults = 10'000;
inline constexpr std::size_t kMaxRenewLeases = 10'000;
inline constexpr Duration kDefaultLease = std::chrono::seconds(30);
inline constexpr Duration kMinLease = std::chrono::seconds(1);
inline constexpr Duration kMaxLease = std::chrono::hours(12);
inline constexpr Duration kMaxClaimWait = std::chrono::seconds(60);

// min(attempt^4 + 2 s, 6 h) ± 20 %. The jitter is a fixed function of (id, attempt), so that a
// replay gives the same value. Saturates for any attempt.
Duration default_back_off(JobId id, int attempt);

// Queue, kind and worker names: 1 to 128 of [A-Za-z0-9._:/-], beginning with a letter or a digit.
// Errors: invalid_argument with `field` as the field.
Result<void> check_name(std::string_view field, std::string_view name);
// The name of a saved step result: 1 to 64 of [A-Za-z0-9_-].
Result<void> check_memo_name(std::string_view field, std::string_view name);
// Checks every rule of NewJob that needs no store. `prefix` precedes the field in errors, for
// example "jobs[3].".
Result<void> validate(const NewJob& job, std::string_view prefix = "");
// Refuses a job whose run_at is at its expiry or later: it would never start. Errors:
// invalid_argument with the field expires_in.
Result<void> check_starts(const NewJob& job, WallTime now, std::string_view prefix = "");
// Checks every rule of Complete::next; the fields are "next[3].kind" after `prefix`.
Result<void> validate_next(const std::vector<NewJob>& next, std::string_view prefix = "");

}  // namespace mainspring
