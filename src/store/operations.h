// Operations: every change of a store, as plain values. A batch of them is one transaction.
//
// Store::apply(batch, now) runs them in order, each seeing the effects of those before it, and
// answers each. An operation that is refused (bad input, stale token) changes nothing; the others
// stand.
//
// `within` restricts to the queues that a caller may touch, in the transaction itself: a job of
// another queue, or a schedule of jobs for one, is not there for it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "mainspring/backlog.h"
#include "mainspring/job.h"
#include "mainspring/limits.h"
#include "model/job_query.h"
#include "model/rate.h"
#include "store/access_operations.h"
#include "store/breaker_operations.h"
#include "store/lease_operations.h"
#include "store/mark_operations.h"
#include "store/schedule_operations.h"
#include "store/session_operations.h"
#include "store/trigger_operations.h"
#include "store/workflow_operations.h"

namespace mainspring {

// -- what callers do
// ---------------------------------------------------------------------------------

// All jobs or none. The jobs have been validated.
struct Enqueue {
  std::vector<NewJob> jobs;
  std::string idempotency_key;  // "" = none; remembered for kIdempotencyWindow
  std::string
      fingerprint;  // digest of the request body; the same key with another one is `conflict`
  Fence fence;
};
struct EnqueuedJob {
  JobId id = 0;
  JobState state = JobState::available;  // now
  bool duplicate = false;                // unique or the idempotency key found it
};
struct EnqueueResult {
  std::vector<EnqueuedJob> jobs;  // in request order
  bool replayed = false;          // the idempotency key had been seen
};

// What a worker reports about its process. "" and 0: not reported.
struct WorkerFacts {
  std::string host;      // machine or container; up to kMaxHostBytes
  std::int64_t pid = 0;  // up to kMaxPid
  std::string version;   // of the worker's program, as its deployment names it
  std::string language;  // with its runtime: "C++", "Python 3.11.2"
  int slots = 0;         // jobs that it runs at once; up to kMaxWorkerSlots
  friend bool operator==(const WorkerFacts&, const WorkerFacts&) = default;
};
inline constexpr std::size_t kMaxHostBytes = 255;
inline constexpr std::size_t kMaxFactBytes = 100;  // version, language
inline constexpr std::int64_t kMaxPid = UINT32_MAX;
inline constexpr int kMaxWorkerSlots = 1'000'000;
// A host, version or language: UTF-8 without control characters.
Result<void> check_fact(std::string_view field, std::string_view text, std::size_t max_bytes);

// Up to `max` available jobs of `queues`, lowest (priority, run_at, id) first over all of them;
// with costs so many that these fit into `max`, where none takes more than that.
struct Claim {
  std::string worker;               // incarnation
  std::vector<std::string> queues;  // not empty
  std::vector<std::string> kinds;   // empty = every kind
  int max = 1;
  Duration lease = kDefaultLease;
  // With `queues` = {accept_line(queue)}: the next free session that has an available job is
  // accepted, for `lease`, and gives that job; kinds and max do not matter. With {session_line()}:
  // the job whose turn it is, if it can begin; this is the holder's token. Error: lease_lost.
  Token session_token = 0;
  // This job alone, deferred, available, scheduled or retryable; 0 = whichever come first. Its
  // queue is among `queues`; kinds and max do not matter, and nothing waits. Errors: not_found
  // (also in another queue), expired (pruned), conflict: it runs, has ended, waits for its
  // schedule, is of a session, is over its expires_at, its queue is paused or has no room for it,
  // or it is in quarantine while another one is released.
  JobId job = 0;
  // Shown by the list of workers; null = what the worker reported before.
  std::shared_ptr<const WorkerFacts> facts{};
};
struct ClaimResult {
  std::vector<ClaimedJob> jobs;
  std::optional<SessionGrant> session;  // that was accepted
  std::vector<JobId>
      cancel;  // running jobs of this worker that somebody wants stopped (filled by the broker)
};

// The result of a step of a job, kept for its later attempts.
struct Memo {
  std::string name;    // as check_memo_name
  std::string result;  // JSON, up to kMaxMemoBytes
  friend bool operator==(const Memo&, const Memo&) = default;
};

struct Renewal {
  JobId id = 0;
  Token token = 0;
  // Another one than the job's last makes its follow-ups on kProgress, before those of messages and
  // whatever bounds there are for new jobs; the same again makes none.
  std::optional<Progress> progress;
  std::optional<std::string> checkpoint;
  // JSON, up to kMaxMessages of up to kMaxMessageBytes: each makes the job's follow-ups on kMessage
  // and a "message" for its reply_to, in order, behind its progress. A job without any makes none.
  std::vector<std::string> messages{};
  // Of the first of them; the others count up. Grows over the messages of one claim, so that those
  // of a renewal that is repeated can be told from new ones: they are made again. 0 = not numbered.
  std::int64_t first_seq = 0;
  // Up to kMaxRenewalMemos, kept in the transaction of the renewal, in order. A name that is there
  // keeps the result that it has. They go when the job is completed, when a `replace` gives it
  // other args, and when it is pruned: retries, rescues and redrives find them.
  std::vector<Memo> memos{};
  std::optional<IgnoredRemarks> warning{};  // its text becomes the job's warning
};
inline bool sends_messages(const std::vector<Renewal>& leases) {
  for (const Renewal& renewal : leases) {
    if (!renewal.messages.empty()) return true;
  }
  return false;
}
// Extends leases to now + lease, but never more than kTimeoutGrace past the job's own time limit.
// A renewal without progress, checkpoint, memos and warning writes nothing to disk, unless it is
// for longer than any before: after a restart every lease starts again, for the longest that was
// asked for. With messages it is refused as an Enqueue is (overloaded, storage_full; by a broker
// that takes no changes for now, unavailable): renew without, send later.
struct Renew {
  std::string worker;
  std::vector<Renewal> leases;
  Duration lease = kDefaultLease;  // 0 = each as long as it was claimed (or last renewed) for
  Within within{};                 // those outside are lost
};
struct Renewed {
  JobId id = 0;
  Duration lease{0};  // from now
};
// Why one part of a request was refused. The rest of the request was done.
struct RefusedPart {
  JobId id = 0;
  Error error;
};
struct RenewResult {
  std::vector<Renewed> renewed;
  std::vector<JobId> lost;    // not (or no longer) this token's: stop working on them
  std::vector<JobId> cancel;  // among the renewed: somebody wants them stopped
  // Among the renewed: not all of their memos were kept, for they have kMaxMemos.
  std::vector<JobId> memos_full{};
  std::vector<RefusedPart> refused{};  // reports over a limit: not kept, the lease is renewed
};

struct JobOutcome {
  JobId id = 0;
  Token token = 0;
  Outcome outcome;
  // The state of its session from now on, JSON, "" = none; nullopt = as it is. Without a session it
  // goes nowhere.
  std::optional<std::string> session_state{};
};
struct Finish {
  std::string worker;
  std::vector<JobOutcome> results;
  Within within{};  // those outside are not_found
};
// conflict, and nothing of the request is done: it defers a job of a session that is its own.
// ok also for a repeated request: the same token says again that a job is complete which it
// completed. stale: the job is there, and the token is not its present lease; or it completes a
// step whose deadline is over, and then the job is cancelled. not_found: no such job, or pruned.
// refused: the server did not hand it to the store, because it breaks a limit of its own.
enum class FinishStatus : std::uint8_t { ok, stale, not_found, refused };
struct FinishResult {
  std::vector<FinishStatus> results;   // in request order
  std::vector<RefusedPart> refused{};  // one for each that is `refused`, in their order
};

// A job that is not running is cancelled; of a running one the wish is noted and its worker told.
// Errors: not_found, expired, conflict (completed or dead). Cancelling a cancelled job is ok.
struct Cancel {
  JobId id = 0;
  std::string reason;
  Within within{};
  std::int64_t version = 0;  // that the job must have, else conflict; 0 = any
};
struct CancelResult {
  JobState state = JobState::cancelled;  // cancelled, or running
  bool cancel_requested = false;
  std::string worker;  // its holder while running
};

// An operator's retry: dead, cancelled, retryable, scheduled and deferred become available now, and
// one in quarantine leaves it;
// dead and cancelled ones get their max_attempts anew on top of those used. Available is ok: one
// whose last attempt was lost, or that a quarantine released, begins its count anew too, and
// nothing happens to others. Errors: not_found, expired, conflict (running or completed; another
// live job has its unique key now; it is of a workflow, and not deferred).
struct RetryJob {
  JobId id = 0;
  Within within{};
  std::int64_t version = 0;  // as of Cancel
};
struct RetryResult {
  JobState state = JobState::available;
};

// Changes a job that is not running and has not ended. Other args drop its checkpoint and its saved
// step results. Fields that are not given stay. Errors: not_found, expired, conflict (it runs or
// has ended; it is a step of a workflow, deferred or in quarantine and the field must not change;
// see store/job_edits.h).
struct EditJob {
  JobId id = 0;
  std::optional<std::string> args{};  // JSON
  std::optional<int> priority{};
  std::optional<WallTime> run_at{};
  std::optional<std::vector<std::string>> tags{};
  std::int64_t version = 0;  // as of Cancel
  Within within{};
};
struct EditResult {
  JobState state = JobState::available;
};
// Removes a job that has ended, as PruneJobs does when its retention is over. Answers Done. Errors:
// not_found, expired, conflict (it has not ended).
struct DeleteJob {
  JobId id = 0;
  std::int64_t version = 0;  // as of Cancel
  Within within{};
};

// What to redrive or list. Empty fields do not restrict.
struct JobFilter {
  std::string queue;
  std::string kind;
  std::string tag;
  std::optional<JobState> state;
  Within within{};  // those outside are passed over
  bool quarantined = false;  // those alone that are in quarantine, also the released
  bool whole_args = false;   // else a list leaves out args above kListedArgsBytes
  // -- of a search
  JobStates states = 0;                        // any of these; 0 = any
  std::optional<WallTime> from{}, to{};        // from <= created_at < to
  std::optional<std::vector<JobId>> ids{};     // only these, the newest first
  std::shared_ptr<const JobQuery> query = {};  // a list looks at its record terms only

  bool wants(JobState s) const {
    return (!state || *state == s) && (states == 0 || (states & states_of(s)) != 0);
  }
  bool is_created_within(WallTime at) const { return (!from || at >= *from) && (!to || at < *to); }
};
// A page of a list and the answer to a claim end with the job that reaches this size.
inline constexpr std::size_t kPageBytes = 8 << 20;
inline constexpr std::size_t kListedArgsBytes = 64 << 10;
// RetryJob for up to `limit` dead jobs that match, oldest id first, beginning after `after`. Those
// outside, by the filter's `within` or its own, count against the limit and are passed over.
struct Redrive {
  JobFilter filter;
  int limit = 1000;
  JobId after = 0;
  Within within{};
};
struct RedriveResult {
  int redriven = 0;
  std::optional<JobId> next;  // where to go on; nullopt = all seen
  std::vector<JobId> ids{};   // of the redriven, in order
};

inline constexpr std::size_t kMaxPauseReasonBytes = 1024;
inline constexpr Duration kMaxPause = std::chrono::hours(24 * 366);
// A pause of a paused queue replaces reason, author and end.
struct PauseQueue {
  std::string queue;
  bool paused = true;
  bool create = true;  // a queue that does not exist; false: not_found
  std::string reason{};
  std::string by{};
  std::optional<WallTime> until{};
};
// Errors: invalid_argument (the field is reason or until).
Result<void> check_pause(const PauseQueue& pause, WallTime now);
// How long terminal jobs of a queue stay readable. nullopt = the store's default. For jobs that
// finish later.
struct SetRetention {
  std::string queue;
  std::optional<Duration> completed;  // also cancelled
  std::optional<Duration> dead;
  bool create = true;  // as for PauseQueue
};
// In place of those it had; none = without limits. What has begun under a rate that stays as it is
// still counts.
//
// A claim gives no job of a queue beyond its limits, by whichever line it came; jobs that run
// already are left alone, and those whose lease expired count until they are rescued. A queue whose
// rate is used up is closed until `opens_at`; then OpenQueues opens it. Jobs whose limit_key is at
// its bound are passed over, in whichever order they stand; those behind them are given.
//
// A job whose cost does not fit into what is free waits, and so do those behind it, of its limit
// key or of its queue, as far as the claim wants their kinds. What runs counts by the costs as they
// are now. Errors: invalid_argument (there is no such breaker).
struct SetQueueLimits {
  std::string queue;
  QueueLimits limits;
  bool create = true;  // as for PauseQueue
};
// The answer to these three if `create` is false and there is no such queue: not_found.
Error no_queue(std::string_view name);
// Removes an empty queue with its pause, retention and limits. A later enqueue creates it again.
// Errors: not_found, conflict (it has jobs, finished ones included).
struct RemoveQueue {
  std::string queue;
};
struct Done {};  // the answer of operations that have nothing to say

// -- what the scheduler does, each in a bounded step
// -------------------------------------------------

struct MoveDue {  // scheduled and retryable with run_at <= now become available, in due order
  int limit = 1000;
  Fence fence;
};
// Running with an expired lease: a failed attempt (retryable, dead, or cancelled if asked), and a
// lost one. When as many were lost one behind the other as QueueLimits::quarantine_after says, the
// job goes into the quarantine of its queue, or back into it: `retryable`, and MoveDue leaves it
// alone. Any outcome, any end and an operator's retry begin the count anew, and take it out of
// there. An enqueue with its unique key leaves a quarantined job as it is.
struct RescueExpired {
  int limit = 1000;
  Fence fence;
};
struct ExpireJobs {  // not started by expires_at: cancelled, or dead, with reason "expired"
  int limit = 1000;
  Fence fence;
};
struct PruneJobs {  // terminal jobs past their retention or over the cap, old idempotency keys,
                    // audit records, sessions and workflows: removed
  int limit = 1000;
  Fence fence;
};
// Queues whose pause is over (QueuePause::until) are resumed. Also opened: queues whose rate lets
// begin what it did not (QueueStats::opens_at, and with costs whenever it is
// enough for the next of them); breakers with open_until <= now become half
// open; and of each queue's quarantine, while none of it is released, the first by (priority,
// run_at, id) with run_at <= now is: it becomes available.
struct OpenQueues {
  int limit = 1000;
  Fence fence;
};
// Removes queues that have been empty and without settings for `idle`, as RemoveQueue does. Each
// call looks at all queues and notes which are empty, so the time starts with the first call that
// finds a queue empty. A call that changes nothing does not write.
struct ForgetQueues {
  Duration idle = std::chrono::hours(24 * 7);
  int limit = 1000;
  Fence fence;
};
// A durable commit of nothing: it shows that the store can be written. Answers Done.
struct WriteProbe {};
struct StepResult {
  int changed = 0;    // jobs; of PruneJobs those alone; queues; workflows
  bool more = false;  // the limit was reached: call again
};

using OperationVariant = std::variant<
    Enqueue, Claim, Renew, Finish, Cancel, RetryJob, Redrive, PauseQueue, SetRetention, MoveDue,
    RescueExpired, ExpireJobs, PruneJobs, AcquireLease, RenewLease, ReleaseLease, AcceptSession,
    RenewSession, ReleaseSession, PutSessionState, ResumeSession, PutSchedule, RemoveSchedule,
    PauseSchedule, SetTimer, FireSchedule, CreateToken, RevokeToken, Audit, StartWorkflow,
    SignalWorkflow, CancelWorkflow, PauseWorkflow, RetryWorkflow, WakeWorkflows, PutTrigger,
    RemoveTrigger, PauseTrigger, FireTrigger, SetQueueLimits, OpenQueues, ForkWorkflow, PutBreaker,
    RemoveBreaker, OpenBreaker, CloseBreaker, ExtendLeases, AllowRestart, RemoveQueue, ForgetQueues,
    WriteProbe, EditJob, DeleteJob, AddMark, RemoveMark, PutView, RemoveView>;
using OperationResultVariant =
    std::variant<Error, EnqueueResult, ClaimResult, RenewResult, FinishResult, CancelResult,
                 RetryResult, RedriveResult, Done, StepResult, LeaseGrant, SessionGrant,
                 PutScheduleResult, FireResult, WorkflowStarted, WorkflowInfo, PutTriggerResult,
                 TriggerFired, EditResult, Mark, SavedView>;

// One change of a store. Copied, moved and destroyed in operations.cc: each unit that did it by
// itself would compile that for every alternative.
struct Operation : OperationVariant {
  using OperationVariant::OperationVariant;
  Operation();
  Operation(const Operation& other);
  Operation(Operation&& other) noexcept;
  Operation& operator=(const Operation& other);
  Operation& operator=(Operation&& other) noexcept;
  ~Operation();
};
// The answer to an operation.
struct OperationResult : OperationResultVariant {
  using OperationResultVariant::OperationResultVariant;
  OperationResult();
  OperationResult(const OperationResult& other);
  OperationResult(OperationResult&& other) noexcept;
  OperationResult& operator=(const OperationResult& other);
  OperationResult& operator=(OperationResult&& other) noexcept;
  ~OperationResult();
};

inline constexpr Duration kIdempotencyWindow = std::chrono::hours(24);
inline constexpr Duration kTimeoutGrace = std::chrono::seconds(30);

// -- what reads answer
// -------------------------------------------------------------------------------------

// Counters of one queue. Kept with every batch, never counted by scanning.
struct QueueStats {
  std::string name;
  bool paused = false;
  std::array<std::int64_t, kJobStateCount>
      counts{};               // jobs kept now, by state; cancelled without the expired
  std::int64_t enqueued = 0;  // ever
  std::int64_t pruned = 0;    // ever
  std::int64_t expired = 0;   // kept now: cancelled with reason "expired"
  std::optional<WallTime> oldest_available;  // run_at of the oldest available job
  std::optional<Duration> retention_completed;
  std::optional<Duration> retention_dead;
  QueueLimits limits;
  std::optional<WallTime> opens_at;  // closed by its rate until then
  std::int64_t quarantined = 0;      // jobs in quarantine now, with the one that is released
  std::int64_t slots_taken = 0;      // of its concurrency, by what runs
  RateMeter meter{};                 // of limits.rate
  std::optional<QueuePause> pause{};      // while it is paused
  std::optional<QueueBacklog> backlog{};  // not set by stores
};

struct JobPage {
  std::vector<Job> jobs;      // newest id first; without errors, result, checkpoint
  std::optional<JobId> next;  // pass as `before` for the next page; nullopt = no more
  std::int64_t examined = 0;  // records that were read for this page
  std::int64_t of = 0;        // jobs in the queues and states of the filter; filled by a search
};

struct MemoPage {
  std::vector<Memo> memos;          // by name
  std::optional<std::string> next;  // pass as `from` for the next page; nullopt = no more
};
// A page ends behind the memo with which it has so many bytes of results.
inline constexpr std::size_t kMemoPageBytes = 1 << 20;

struct VerifyReport {
  std::int64_t jobs = 0;              // examined
  std::vector<std::string> problems;  // empty = sound
};

// A worker as the server knows it.
struct WorkerInfo {
  std::string id;                   // incarnation
  std::vector<std::string> queues;  // of its last claim
  int running = 0;                  // jobs it holds
  Duration last_seen{0};            // ago
  bool parked = false;              // a claim of it is waiting for work
  WorkerFacts facts{};
};

}  // namespace mainspring
