// The nouns of a job: what is enqueued, what a worker gets, what is kept.
//
//   enqueue ─▶ scheduled ─(run_at)─▶ available ─(claim)─▶ running ─▶ completed
//                                        ▲                  │  ├───▶ cancelled
//                                        └──(run_at)── retryable ◀┤ └───▶ dead (dead letter)
//
// Payloads (args, result, checkpoint, headers) are JSON text, kept byte for byte as they came.
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
  waiting,    // for its session, an earlier run of its schedule, or deferred
  scheduled,  // run_at is ahead
  available,  // can be claimed
  running,    // a worker holds its lease
  completed,  // terminal: done
  retryable,  // failed; run_at says when it is tried again
  cancelled,  // terminal: somebody said stop, or it expired before it started
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
// enqueue, also when its record has been pruned.
struct Unique {
  std::string key;
  Duration window{0};  // 0 = only while the first is not terminal; at most 365 days
  OnConflict on_conflict = OnConflict::keep;
  friend bool operator==(const Unique&, const Unique&) = default;
};

// A job that is made when another one ends, in the transaction that ends it: a reply, a callback,
// the next step ("then" in JSON). There is one for each end that it is `on`; a job that an operator
// retries may end, and be followed, again.
//
// Its args are a JSON object: "job", "queue", "kind", "state", "attempt" of the one that ended, its
// "result" (null if there is none), "reason" and "description" of cancelled and dead ones, "tags"
// if it has any, and "data": what the follow-up was asked with. Its correlation_id is that of the
// one that ended, or else its id in decimal; its headers are the same.
struct FollowUp {
  static constexpr std::uint8_t kCompleted = 1, kCancelled = 2, kDead = 4, kEveryEnd = 7;
  // Also, or only, for each message that the job's worker sends while it runs (Renewal::messages):
  // then "state" is "running", "result" is null, "progress" is the job's last one, "message" is
  // what was sent, "token" that of the claim, and "seq" its number in that claim (null: the worker
  // gave none). A message may come twice, with the same token and seq: both grow.
  static constexpr std::uint8_t kMessage = 8, kEndsAndMessages = 15;
  // Also, or only, for each renewal that brings another progress than the job's last one: "state",
  // "result" and "token" as for messages, "progress" the new one. What a worker reports between two
  // renewals comes once, the last of it.
  static constexpr std::uint8_t kProgress = 16, kEverything = 31;
  std::string queue;
  std::string kind;
  std::uint8_t on = kEveryEnd;  // not 0, of these bits; expired jobs are cancelled or dead
  int priority = 5;
  std::string session{};  // of its queue, that the follow-up belongs to; "" = none
  std::string data;       // JSON, up to 64 KiB; "" = null
  friend bool operator==(const FollowUp&, const FollowUp&) = default;
};
inline constexpr std::size_t kMaxFollowUps = 8;
inline constexpr std::size_t kMaxFollowUpDataBytes = 64 << 10;

// What becomes of a session when a job of it dies.
enum class OnDead : std::uint8_t {
  skip,   // the next job gets its turn
  block,  // nothing of it runs until the dead job is retried, or the session resumed
  park,   // nothing of it runs until the session is resumed
};
std::string_view to_string(OnDead policy);
std::optional<OnDead> parse_on_dead(std::string_view text);

// What becomes of a job that has not started when it expires. Its reason is "expired" in any case.
enum class OnExpiry : std::uint8_t {
  cancel,  // it is cancelled, and counted as expired
  dead,    // it is dead: in the dead letter, like one that failed
};
std::string_view to_string(OnExpiry policy);
std::optional<OnExpiry> parse_on_expiry(std::string_view text);

// A job as a caller asks for it. Defaults are those of docs/reference.
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
      expires_in;  // if it has not started by then it ends with reason "expired": see on_expiry
  Duration timeout = std::chrono::minutes(15);  // for one attempt; kForever = none
  std::vector<std::string> tags;                // up to 16, each up to 64 bytes
  std::string headers;                          // JSON object of strings, "" = none
  std::string correlation_id;                   // "" = none
  // A queue name; "" = none. It gets a job of kind "reply" when this one ends, and one of kind
  // "message" for each message: a follow-up on every end and message, without data. For its
  // progress too, add a follow-up to that queue.
  std::string reply_to;
  std::string reply_session;         // of that queue, for those replies; only with reply_to
  std::vector<FollowUp> follow_ups;  // up to kMaxFollowUps
  // Jobs of a queue with the same session run one at a time, in the order of their enqueue
  // (store/session_operations.h has the rules); "" = none. Not with unique.on_conflict other than
  // keep, and not in schedules.
  std::string session;
  OnDead on_dead = OnDead::skip;          // "session_on_dead"
  OnExpiry on_expiry = OnExpiry::cancel;  // dead only with expires_in
  // The engine's: how many triggers on the ends of jobs have fired one behind the other up to this
  // job (trigger.h). Of a job that somebody asks for it is 0.
  int trigger_depth = 0;
  // What the limits per key of its queue count it under; "" = no limit per key is for it. Not
  // together with session.
  std::string limit_key;
  friend bool operator==(const NewJob&, const NewJob&) = default;
};

struct Progress {
  double value = 0;  // 0 to 1
  std::string text;
  friend bool operator==(const Progress&, const Progress&) = default;
};

// What was wrong with something that a worker's program said about its job beside the outcome.
enum class RemarkFault : std::uint8_t {
  progress,       // not a number from 0 to 1 with a text
  checkpoint,     // too large
  message,        // too large
  session_state,  // the job has no session
  step,           // not a question about a step, or its answer was not read
  outcome,        // a field of the outcome has the wrong type or breaks its rule
  unknown_field,  // a name that is not known
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

// How the program that made an attempt ended, as far as its worker knows.
struct ProgramEnd {
  std::optional<int> exit_code{};  // 0 to kMaxExitCode; not with a signal
  int signal = 0;                  // that ended it, of <signal.h>; 0 = none did, or it is not known
  bool oom = false;                // some of it was killed because no more memory was to be had
  // Bytes that it had at once, as the worker measures that; 0 to kMaxPeakMemoryBytes.
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
  ProgramEnd program{};  // empty where no program is known of
  friend bool operator==(const AttemptError&, const AttemptError&) = default;
};

// Of a job that is in quarantine: its last attempts were all lost, none ended with a word of its
// worker. It is `retryable`, and no time moves it: of the quarantined jobs of a queue one is
// released at a time, once its run_at has come. Whatever its attempt reports then takes it out of
// quarantine; one that is lost again goes back.
struct Quarantine {
  WallTime since;
  int lost = 0;           // attempts one behind the other; counted up to kMaxLost
  bool released = false;  // its turn has come: it may begin, or runs
  friend bool operator==(const Quarantine&, const Quarantine&) = default;
};
inline constexpr int kMaxLost = 511;

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
  bool deferred = false;  // waiting, by the outcome Defer
  std::optional<Quarantine> quarantined{};
  Duration timeout = kForever;
  std::optional<WallTime> expires_at;
  WallTime created_at;
  std::optional<WallTime> started_at;   // of the last attempt
  std::optional<WallTime> finished_at;  // terminal
  std::optional<Progress> progress;
  std::string warning;     // what its worker last ignored: see IgnoredRemarks; "" = nothing
  std::string checkpoint;  // JSON, "" = none
  std::string result;      // JSON, "" = none
  std::string reason;      // of cancelled and dead, a short word: "max_attempts", "expired", or the
                           // caller's; of a deferred one what its worker said
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
  Duration lease{0};       // how long from the claim's answer until it must be renewed
  std::string checkpoint;  // of the attempt before, "" = none
  std::string headers;
  std::vector<std::string> tags;
  std::string correlation_id;
  std::string reply_to;
  std::string session;        // "" = none
  std::string session_state;  // JSON, as the last job or holder left it; "" = none
  bool has_memos = false;     // earlier attempts left results of steps: Context::step finds them
  bool deferred = false;      // it was until now: who gives it back unused defers it again
  int cost = 1;               // slots of its worker that it takes: see limits.h
};

// The six outcomes of an attempt.
struct Complete {
  std::string result;  // JSON up to 1 MiB, "" = none
  // Jobs that are made with the completion, in its transaction: all of them if it counts, none if
  // the attempt is not the job's any more, and none again if it is repeated. As with follow-ups no
  // bound of new jobs is asked. Up to kMaxNextJobs and kMaxNextBytes, without `unique`.
  std::vector<NewJob> next{};
};
struct Retry {
  std::string error;
  std::optional<Duration> after;  // nullopt = the default back-off
  // Opens the breaker of the job's queue for so long at least, as a Retry-After asks for:
  // kMinBreakerTime to kMaxBreakerTime; nullopt = it counts as one failure. Nothing without one.
  std::optional<Duration> open_breaker_for{};
  ProgramEnd program{};  // kept with the error
};
struct Snooze {  // not a failure: the attempt is refunded. Also what a worker sends when it shuts
                 // down (after 0).
  Duration after{0};
  std::optional<Duration> open_breaker_for{};  // as that of Retry
};
struct CancelJob {
  std::string reason;
};
struct Dead {
  std::string reason;
  std::string description;
  ProgramEnd program{};  // kept with the error
};
// Put aside, not a failure: the attempt is refunded, what it left (checkpoint, progress, results of
// steps) stays. The job is `waiting` and no time ends that: it goes on when a claim names its id
// (Claim::job), when an operator retries it, or it is cancelled. Enqueues with its unique key leave
// it as it is. A job of a session cannot be deferred: those behind it would wait too.
struct Defer {
  std::string reason;  // for people; "" = none
};
using Outcome = std::variant<Complete, Retry, Snooze, CancelJob, Dead, Defer>;

// For a job that its worker has not begun.
inline Outcome given_back(const ClaimedJob& job) {
  if (job.deferred) return Defer{};
  return Snooze{};
}

// The named bounds of the model; the door refuses what exceeds them.
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

// min(attempt^4 + 2 s, 6 h) ± 20 %, the jitter a fixed function of (id, attempt) so that a replay
// agrees. Saturates for any attempt.
Duration default_back_off(JobId id, int attempt);

// Queue, kind and worker names: 1 to 128 of [A-Za-z0-9._:/-], beginning with a letter or a digit.
// Errors: invalid_argument with `field` as the field.
Result<void> check_name(std::string_view field, std::string_view name);
// The name of a memo: 1 to 64 of [A-Za-z0-9_-].
Result<void> check_memo_name(std::string_view field, std::string_view name);
// Every rule of NewJob that needs no store. `prefix` is put before the field, for example
// "jobs[3].".
Result<void> validate(const NewJob& job, std::string_view prefix = "");
// Every rule of Complete::next; the fields are "next[3].kind" behind `prefix`.
Result<void> validate_next(const std::vector<NewJob>& next, std::string_view prefix = "");

}  // namespace mainspring
