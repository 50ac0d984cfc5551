// Operations: every change of a store, as plain values. A batch of operations is one transaction.
//
// Store::apply(batch, now) runs the operations in order and answers each. Each operation sees the
// effects of the operations before it. A refused operation (bad input, stale token) changes nothing
// and does not affect the other operations.
//
// `within` restricts an operation to the queues that the caller may use. The check is part of the
// transaction. A job of another queue, or a schedule that makes jobs for another queue, counts as
// not found.
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
#include "mainspring/workers.h"
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

// -- operations of clients
// ---------------------------------------------------------------------------------

// Adds all jobs or none. The jobs have been validated.
struct Enqueue {
  std::vector<NewJob> jobs;
  std::string idempotency_key;  // "" = none; remembered for kIdempotencyWindow
  std::string
      fingerprint;  // digest of the request body; the same key with another digest is `conflict`
  Fence fence;
};
struct EnqueuedJob {
  JobId id = 0;
  JobState state = JobState::available;  // current state
  bool duplicate = false;                // an existing job with the same unique or idempotency key
};
struct EnqueueResult {
  std::vector<EnqueuedJob> jobs;  // in request order
  bool replayed = false;          // the idempotency key was already used
};

// Checks a host, version or language: UTF-8 without control characters.
Result<void> check_fact(std::string_view field, std::string_view text, std::size_t max_bytes);

// Returns up to `max` available jobs of `queues`, ordered by (priority, run_at, id) over all
// queues. With costs: as long as the sum of the costs is at most `max`; a job's cost counts as at
// most `max`.
struct Claim {
  std::string worker;               // incarnation
  std::vector<std::string> queues;  // not empty
  std::vector<std::string> kinds;   // empty = every kind
  int max = 1;
  Duration lease = kDefaultLease;
  // With `queues` = {accept_queue(queue)}: accepts the next free session that has an available job,
  // for `lease`, and returns that job; kinds and max are ignored. With {session_queue()}: returns
  // the head of the session if it can start; this is the holder's token. Error: lease_lost.
  Token session_token = 0;
  // Claim this job alone: a deferred, available, scheduled or retryable job. 0 = no particular job.
  // Its queue must be in `queues`; kinds and max are ignored, and the claim does not wait. Errors:
  // not_found (also for another queue), expired (pruned), conflict: the job is running, has ended,
  // waits for its schedule, belongs to a session or is past expires_at; its queue is paused or has
  // no capacity; or it is in quarantine while another quarantined job is released.
  JobId job = 0;
  // Shown in the list of workers; null = keep what the worker reported before.
  std::shared_ptr<const WorkerFacts> facts{};
};
struct ClaimResult {
  std::vector<ClaimedJob> jobs;
  std::optional<SessionGrant> session;  // the accepted session
  std::vector<JobId>
      cancel;  // running jobs of this worker with a cancel request (set by the broker)
  WorkerCommand command = WorkerCommand::none;  // set by the broker
};

// The saved result of a step of a job, for later attempts of the job.
struct Memo {
  std::string name;    // as check_memo_name
  std::string result;  // JSON, up to kMaxMemoBytes
  friend bool operator==(const Memo&, const Memo&) = default;
};

struct Renewal {
  JobId id = 0;
  Token token = 0;
  // A value different from the job's last progress makes the job's follow-ups on kProgress, before
  // the follow-ups of messages and regardless of limits for new jobs. The same value makes none.
  std::optional<Progress> progress;
  std::optional<std::string> checkpoint;
  // JSON, up to kMaxMessages of up to kMaxMessageBytes. Each message makes the job's follow-ups on
  // kMessage and a "message" for its reply_to, in order, after those of the progress. A job without
  // follow-ups or reply_to makes none.
  std::vector<std::string> messages{};
  // Number of the first message; the others count up. Numbers grow over the messages of one claim.
  // They tell a message of a repeated renewal, which is made again, from a new one. 0 = not
  // numbered.
  std::int64_t first_seq = 0;
  // Up to kMaxRenewalMemos, saved in order in the transaction of the renewal. An existing name
  // keeps its result. Saved step results survive retries, rescues and redrives. They are removed
  // when the job is completed, when a `replace` changes its args, and when the job is pruned.
  std::vector<Memo> memos{};
  std::optional<IgnoredRemarks> warning{};  // its text becomes the job's warning
};
inline bool sends_messages(const std::vector<Renewal>& leases) {
  for (const Renewal& renewal : leases) {
    if (!renewal.messages.empty()) return true;
  }
  return false;
}
// Extends leases to now + lease, but at most to kTimeoutGrace past the job's time limit. A renewal
// without progress, checkpoint, memos and warning does not write to disk, unless it asks for a
// longer lease than any before: after a restart every lease starts again with the longest length
// that was asked for or returned. A renewal with messages can be refused like an Enqueue
// (overloaded, storage_full; by a broker that accepts no changes, unavailable). The worker then
// renews without messages and sends them later.
struct Renew {
  std::string worker;
  std::vector<Renewal> leases;
  Duration lease = kDefaultLease;  // 0 = the longest that each job's worker asked for
  Within within{};                 // those outside are lost
  std::optional<int> stuck{};      // see WorkerFacts; nullopt = as reported before
};
struct Renewed {
  JobId id = 0;
  Duration lease{0};  // from now
};
// Why one part of a request was refused. The rest of the request was applied.
struct RefusedPart {
  JobId id = 0;
  Error error;
};
struct RenewResult {
  std::vector<Renewed> renewed;
  std::vector<JobId> lost;    // not, or no longer, held with this token: stop working on them
  std::vector<JobId> cancel;  // renewed jobs with a cancel request
  // Renewed jobs that already have kMaxMemos memos, so that some memos were not saved.
  std::vector<JobId> memos_full{};
  std::vector<RefusedPart> refused{};  // reports over a limit: not saved, the lease is renewed
  WorkerCommand command = WorkerCommand::none;  // set by the broker
};

struct JobOutcome {
  JobId id = 0;
  Token token = 0;
  Outcome outcome;
  // The new state of the job's session, JSON, "" = none; nullopt = unchanged. Ignored for a job
  // without a session.
  std::optional<std::string> session_state{};
};
struct Finish {
  std::string worker;
  std::vector<JobOutcome> results;
  Within within{};  // those outside are not_found
};
// ok         also for a repeat: the same token completes a job that it already completed.
// stale      the job exists and the token is not its current lease; or the job is a step whose
//            deadline has passed, and is now cancelled.
// not_found  no such job, or pruned.
// refused    the request breaks a limit of the server, which did not pass it to the store.
// The whole request is refused with `conflict` if it defers a job of a session.
enum class FinishStatus : std::uint8_t { ok, stale, not_found, refused };
struct FinishResult {
  std::vector<FinishStatus> results;   // in request order
  std::vector<RefusedPart> refused{};  // one for each `refused` item, in order
};

// The end of a lease that was never renewed takes the job back without counting the attempt, which
// may never have started. A job that ends its worker at once looks the same, so this happens at
// most this often in a row; any outcome, and the loss of a renewed lease, start again from 0.
inline constexpr int kMaxUnstartedLosses = 3;

// Cancels a job that is not running. For a running job, records the request and informs its worker.
// Errors: not_found, expired, conflict (completed or dead). Cancelling a cancelled job is ok.
struct Cancel {
  JobId id = 0;
  std::string reason;
  Within within{};
  std::int64_t version = 0;  // required version of the job, else conflict; 0 = any
};
struct CancelResult {
  JobState state = JobState::cancelled;  // cancelled, or running
  bool cancel_requested = false;
  std::string worker;  // its holder while running
};

// An operator's retry. Dead, cancelled, retryable, scheduled and deferred jobs become available
// now; a job in quarantine leaves it. Dead and cancelled jobs get max_attempts further attempts. An
// available job is ok: the retry resets its lost count if its last attempt was lost or if it was
// released from quarantine, and otherwise changes nothing. Errors: not_found, expired, conflict
// (running or completed; another live job has its unique key; it belongs to a workflow and is not
// deferred).
//
// With take_back it is instead for a running job, and a conflict for any other: its lease ends, its
// token is stale, and it is available again without counting the attempt, as if its worker had
// released it. With a cancel request it is cancelled.
struct RetryJob {
  JobId id = 0;
  Within within{};
  std::int64_t version = 0;  // as in Cancel
  bool take_back = false;
};
Error not_to_take_back(JobId id, JobState state);
struct RetryResult {
  JobState state = JobState::available;
};

// Changes a job that is neither running nor ended. New args drop its checkpoint and its saved step
// results. Fields that are not given stay. Errors: not_found, expired, conflict (it is running or
// has ended; it is a workflow step, deferred or in quarantine and the field must not change; see
// store/job_edits.h).
struct EditJob {
  JobId id = 0;
  std::optional<std::string> args{};  // JSON
  std::optional<int> priority{};
  std::optional<WallTime> run_at{};
  std::optional<std::vector<std::string>> tags{};
  std::int64_t version = 0;  // as in Cancel
  Within within{};
};
struct EditResult {
  JobState state = JobState::available;
};
// Removes an ended job, as PruneJobs does after its retention. Answers Done. Errors: not_found,
// expired, conflict (it has not ended).
struct DeleteJob {
  JobId id = 0;
  std::int64_t version = 0;  // as in Cancel
  Within within{};
};

// Which jobs to redrive or list. Empty fields do not restrict.
struct JobFilter {
  std::string queue;
  std::string kind;
  std::string tag;
  std::optional<JobState> state;
  Within within{};           // jobs of other queues are skipped
  bool quarantined = false;  // only jobs in quarantine, including the released job
  bool whole_args = false;   // false: a list omits args above kListedArgsBytes
  // -- of a search
  JobStates states = 0;                        // any of these; 0 = any
  std::optional<WallTime> from{}, to{};        // from <= created_at < to
  std::optional<std::vector<JobId>> ids{};     // only these, newest first
  std::shared_ptr<const JobQuery> query = {};  // a list evaluates only terms on the job record

  bool wants(JobState s) const {
    return (!state || *state == s) && (states == 0 || (states & states_of(s)) != 0);
  }
  bool is_created_within(WallTime at) const { return (!from || at >= *from) && (!to || at < *to); }
};
// A page of a list, and the answer to a claim, ends with the job that reaches this size.
inline constexpr std::size_t kPageBytes = 8 << 20;
inline constexpr std::size_t kListedArgsBytes = 64 << 10;
// Retries up to `limit` matching dead jobs, in order of id, starting after `after`. Jobs outside of
// `within`, the filter's or the operation's own, count against the limit and are skipped.
struct Redrive {
  JobFilter filter;
  int limit = 1000;
  JobId after = 0;
  Within within{};
};
struct RedriveResult {
  int redriven = 0;
  std::optional<JobId> next;  // where to continue; nullopt = done
  std::vector<JobId> ids{};   // redriven jobs, in order
};

inline constexpr std::size_t kMaxPauseReasonBytes = 1024;
inline constexpr Duration kMaxPause = std::chrono::hours(24 * 366);
// Pausing a paused queue replaces reason, author and end.
struct PauseQueue {
  std::string queue;
  bool paused = true;
  bool create = true;  // create a missing queue; false: not_found
  std::string reason{};
  std::string by{};
  std::optional<WallTime> until{};
};
// Errors: invalid_argument (the field is reason or until).
Result<void> check_pause(const PauseQueue& pause, WallTime now);
// How long terminal jobs of a queue stay readable; nullopt = the store's default. Applies to jobs
// that finish later.
struct SetRetention {
  std::string queue;
  std::optional<Duration> completed;  // also cancelled
  std::optional<Duration> dead;
  bool create = true;  // as for PauseQueue
};
// Replaces the limits of a queue; none = unlimited. If the rate does not change, jobs that already
// started still count against it.
//
// A claim never exceeds a queue's limits, whichever ready queue it uses. Running jobs are left
// alone; jobs with an expired lease count until they are rescued. A queue with a used-up rate is
// closed until `opens_at`; then OpenQueues opens it. Jobs whose limit_key is at its limit are
// skipped in any order, and the jobs after them are claimed.
//
// A job whose cost exceeds the free capacity waits. Jobs after it wait too: those of its limit key,
// or of its queue, as far as the claim accepts their kinds. Running jobs count with their current
// costs. Errors: invalid_argument (unknown breaker).
struct SetQueueLimits {
  std::string queue;
  QueueLimits limits;
  bool create = true;  // as for PauseQueue
};
// The error if `create` is false and the queue does not exist: not_found.
Error no_queue(std::string_view name);
// The error of a job whose record is gone: expired.
Error removed_job(JobId id);
// Removes an empty queue with its pause, retention and limits. A later enqueue creates it again.
// Errors: not_found, conflict (it still has jobs, including finished ones).
struct RemoveQueue {
  std::string queue;
};
struct Done {};  // answer without content

// -- scheduler steps, each bounded
// -------------------------------------------------

struct MoveDue {  // scheduled and retryable jobs with run_at <= now become available, in due order
  int limit = 1000;
  Fence fence;
};
// Ends running jobs with an expired lease: a failed attempt (the job becomes retryable, dead, or
// cancelled if requested) that counts as lost. After QueueLimits::quarantine_after lost attempts in
// a row the job enters, or returns to, its queue's quarantine: it is `retryable`, and MoveDue skips
// it. Any other outcome, an end of the job and an operator's retry reset the count and release the
// job from quarantine. An enqueue with the job's unique key does not change a quarantined job.
struct RescueExpired {
  int limit = 1000;
  Fence fence;
};
struct ExpireJobs {  // jobs not started by expires_at: cancelled, or dead, with reason "expired"
  int limit = 1000;
  Fence fence;
};
struct PruneJobs {  // Removes terminal jobs past their retention or over the cap, old idempotency
                    // keys, audit records, sessions and workflows.
  int limit = 1000;
  Fence fence;
};
// Resumes queues whose pause has ended (QueuePause::until). Opens queues whose rate admits jobs
// again (QueueStats::opens_at; with costs, whenever the next job fits). Breakers with open_until <=
// now become half open. In each queue's quarantine without a released job, releases the first job
// by (priority, run_at, id) with run_at <= now: it becomes available.
struct OpenQueues {
  int limit = 1000;
  Fence fence;
};
// Removes queues that have been empty and without settings for `idle`, like RemoveQueue. Each call
// scans all queues and notes the empty ones. So the idle time starts with the first call that finds
// a queue empty. A call that changes nothing does not write.
struct ForgetQueues {
  Duration idle = std::chrono::hours(24 * 7);
  int limit = 1000;
  Fence fence;
};
// A durable commit without changes. Shows that the store can write. Answers Done.
struct WriteProbe {};
struct StepResult {
  int changed = 0;    // jobs (PruneJobs counts only jobs), queues or workflows
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

// One change of a store. Its copy, move and destructor are defined in operations.cc: otherwise each
// translation unit that uses them would compile them for every alternative.
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

// -- results of reads
// -------------------------------------------------------------------------------------

// Counters of one queue. Updated with every batch, never computed by a scan.
struct QueueStats {
  std::string name;
  bool paused = false;
  std::array<std::int64_t, kJobStateCount>
      counts{};                              // stored jobs by state; cancelled without the expired
  std::int64_t enqueued = 0;                 // ever
  std::int64_t pruned = 0;                   // ever
  std::int64_t expired = 0;                  // stored, cancelled with reason "expired"
  std::optional<WallTime> oldest_available;  // run_at of the oldest available job
  std::optional<Duration> retention_completed;
  std::optional<Duration> retention_dead;
  QueueLimits limits;
  std::optional<WallTime> opens_at;       // closed by its rate until this time
  std::int64_t quarantined = 0;           // jobs in quarantine, including the released job
  std::int64_t slots_taken = 0;           // concurrency slots used by running jobs
  RateMeter meter{};                      // of limits.rate
  std::optional<QueuePause> pause{};      // while it is paused
  std::optional<QueueBacklog> backlog{};  // not set by stores
};

struct JobPage {
  std::vector<Job> jobs;      // newest id first; without errors, result, checkpoint
  std::optional<JobId> next;  // pass as `before` for the next page; nullopt = last page
  std::int64_t examined = 0;  // records read for this page
  std::int64_t of = 0;        // number of jobs in the filter's queues and states; set by a search
};

struct MemoPage {
  std::vector<Memo> memos;          // by name
  std::optional<std::string> next;  // pass as `from` for the next page; nullopt = last page
};
// A page ends with the memo that reaches this size of results.
inline constexpr std::size_t kMemoPageBytes = 1 << 20;

struct VerifyReport {
  std::int64_t jobs = 0;              // examined
  std::vector<std::string> problems;  // empty = sound
};

// Not an operation of the store: the broker keeps commands in memory.
struct CommandWorker {
  std::string worker;
  WorkerCommand command = WorkerCommand::none;  // none = resume
  Within within = {};                           // it must have all queues that the worker claimed
};

}  // namespace mainspring
