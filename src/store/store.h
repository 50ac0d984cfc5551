// Store: where jobs are stored. apply() changes the store; the other functions read.
//
// Threads: call apply(), agenda(), has_available(), due_queues() and lease_free_at() from one
// thread at a time (the broker's). Reads are allowed from any thread, also while apply() runs, and
// never block it. A read sees every batch whose apply() returned before the read started, and only
// whole batches.
//
// Durability: when apply() returns a report, the batch is on disk. If apply() returns an error,
// nothing of the batch was applied; on `io_error` the store can no longer be trusted to write: stop
// the process and open the store again.
//
// Invariants of every store (tests/conformance): an acknowledged job is never lost and reaches
// exactly one terminal state; ids and tokens never repeat; every operation under a lease is fenced
// by its token; per queue enqueued = live + completed + cancelled + dead + pruned + expired.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/callback.h"
#include "model/rate.h"
#include "store/history.h"
#include "store/operations.h"

namespace mainspring {

// The effects of a batch, for the broker and the scheduler.
struct Effects {
  // Queues that may now give a job that they could not give before.
  std::vector<std::string> available;
  std::vector<JobId> ended;  // jobs that became terminal
  // The jobs in `ended` that may be pruned within kBriefRetention.
  std::vector<JobId> brief;
  // Jobs that no operation and no result names. `made`: new follow-ups. `again`: rescued jobs and
  // jobs that an operator made live again.
  std::vector<JobId> made, again;
  // Jobs that entered quarantine, and jobs that left it and are still live. For a job that ended,
  // `ended` implies that it left.
  std::vector<JobId> quarantined, quarantine_left;
  std::vector<std::string> released;  // leases that became free
  std::vector<WorkflowId> workflows;  // started, or changed state
  std::vector<std::string> alarms;    // what parked a workflow, as text for people
  std::vector<BreakerInfo> breakers;  // changed state; without `queues`
  std::vector<std::string> resumed;   // queues whose pause ended, ordered by its end
};

inline constexpr Duration kBriefRetention = std::chrono::minutes(1);

struct BatchReport {
  std::vector<OperationResult> results;  // one per operation, in order
  Effects effects;
  bool history_written = false;  // see offer_history()
};

// When the scheduler must act next. never() = not until something changes.
struct Agenda {
  WallTime next_due = WallTime::never();         // MoveDue
  Instant next_lease_expiry = Instant::never();  // RescueExpired
  WallTime next_expiry = WallTime::never();      // ExpireJobs
  WallTime next_prune = WallTime::never();       // PruneJobs
  WallTime next_schedule = WallTime::never();    // earliest next_fire of schedules that are not
                                                 // paused
  WallTime next_workflow = WallTime::never();    // WakeWorkflows
  WallTime next_opening = WallTime::never();     // OpenQueues
  friend bool operator==(const Agenda&, const Agenda&) = default;
};

// A limit_key of a queue.
struct LimitKeyInfo {
  std::int64_t running = 0;            // of its jobs
  std::optional<WallTime> opens_at{};  // closed by its rate until this time
  std::int64_t slots_taken = 0;        // concurrency slots used by running jobs
  RateMeter meter{};                   // of its rate
  friend bool operator==(const LimitKeyInfo&, const LimitKeyInfo&) = default;
};

struct DueHours {
  std::vector<DueJobs> hours;  // hours with jobs, earliest first
  bool truncated = false;      // later hours were not counted
};
inline constexpr int kMaxDueCounted = 100'000;
// Sums the jobs that due_by_hour() examines.
class DueCounter {
 public:
  // `hour` is counted from 1970. Examined jobs with `counts` false (of other queues) are included
  // in `examined` only.
  void add(std::int64_t hour, std::int64_t examined, bool counts);
  DueHours hours() const;

 private:
  std::map<std::int64_t, std::int64_t> hours_;
  std::int64_t examined_ = 0;
};

// Progress of a verification: `done` of its `of` checks.
using VerifyProgress = std::function<void(int done, int of)>;

// Which jobs have a value at a searchable path of their queue.
struct IndexRead {
  std::string queue, path;
  std::string value;  // as a search writes it
  JobId before = 0;   // 0 = from the newest
  int limit = 1;
};
struct IndexPage {
  std::vector<JobId> ids;   // newest first. Their args may have another value
  JobId complete_from = 0;  // every job with this id or a higher one is in the index
};

// Answers SetQueueLimits that gives one queue too many searchable paths.
Error too_many_searchable(std::string_view queue);

// Dead jobs of one queue and kind that died of the same error.
struct DeadCount {
  std::string queue, kind, fingerprint;
  std::int64_t count = 0;
  JobId first = 0, last = 0;
  WallTime first_at, last_at;  // of the earliest and the latest death, perhaps of other jobs
};
struct DeadCounts {
  std::vector<DeadCount> counts;
  std::int64_t examined = 0;  // dead jobs, also outside of `within` and before `since`
  bool cut = false;           // there are more
};

// For Store::available_queues, from an ordered map by name.
template <class Map, class HasAvailable>
std::vector<std::string> available_of(const Map& by_name, std::string_view prefix,
                                      std::string_view after, std::size_t limit,
                                      HasAvailable has_available) {
  std::vector<std::string> out;
  auto at = after < prefix ? by_name.lower_bound(prefix) : by_name.upper_bound(after);
  for (; at != by_name.end() && at->first.starts_with(prefix) && out.size() < limit; ++at) {
    const std::string name(at->first);
    if (!name.starts_with(kReservedQueues) && has_available(name)) out.push_back(name);
  }
  return out;
}

class Store {
 public:
  virtual ~Store() = default;

  // One transaction, one durable commit. Batches that change nothing do not touch the disk.
  virtual Result<BatchReport> apply(std::span<const Operation> batch, Now now) = 0;
  virtual Agenda agenda() const = 0;
  // Whether a claim of this queue would find a job. False for a paused or unknown queue, and for a
  // queue at its concurrency or closed by its rate or breaker. If all jobs of a queue wait for
  // their limit_key or its rate, this may return true until a claim has found none.
  virtual bool has_available(const std::string& queue) const = 0;
  // Queues with has_available() whose name begins with `prefix` and is greater than `after`, in
  // order, without the engine's own; at most `limit`.
  virtual std::vector<std::string> available_queues(std::string_view prefix, std::string_view after,
                                                    std::size_t limit) const {
    (void)prefix, (void)after, (void)limit;
    return {};
  }
  // A hint for the broker: the queues of the first `limit` jobs that MoveDue would move now, with
  // the number of jobs of each. An empty answer is always allowed.
  virtual std::vector<std::pair<std::string, int>> due_queues(WallTime now, int limit) const {
    (void)now, (void)limit;
    return {};
  }
  // When another client can acquire the lease; a time in the past = it is free.
  virtual Instant lease_free_at(const std::string& name) const = 0;

  // Errors: not_found (never existed), expired (its retention has ended).
  virtual Result<Job> get(JobId id) const = 0;
  // At most `limit` jobs with id < before (0 = from the newest). A page can be short or empty with
  // `next` set: each call examines a bounded number of records.
  virtual Result<JobPage> list(const JobFilter& filter, int limit, JobId before) const = 0;
  // The complete records of the jobs that exist, in any order.
  virtual Result<std::vector<Job>> whole(const std::vector<JobId>& ids) const;
  // The number of jobs in the filter's queues and states, from the counters.
  virtual Result<std::int64_t> count_jobs(const JobFilter& filter) const;
  // nullopt: the queue does not declare the path, or the index cannot have the value: read the
  // jobs.
  virtual Result<std::optional<IndexPage>> indexed(const IndexRead& read) const {
    (void)read;
    return std::optional<IndexPage>();
  }
  // The newest `limit` dead jobs of `queue` ("" = all), by queue, kind and fingerprint. Counts only
  // those that died at `since` or later.
  virtual Result<DeadCounts> dead_counts(const std::string& queue, std::int64_t limit,
                                         const Within& within, WallTime since) const;
  // A job's memos with name >= `from` ("" = from the first), at most `limit`. Errors: as get().
  virtual Result<MemoPage> memos(JobId id, const std::string& from, int limit) const = 0;
  virtual Result<std::vector<QueueStats>> queues() const = 0;
  // How many available jobs of its queue precede an available job, by priority, run_at and id.
  // Counts up to `limit`, and examines a bounded number of jobs before and after it. For a job
  // waiting in quarantine: how many jobs of its queue's quarantine are released or precede it.
  virtual Result<std::int64_t> ahead(const Job& job, std::int64_t limit) const = 0;
  // Like ahead(), counting only jobs with the same limit_key.
  virtual Result<std::int64_t> ahead_of_key(const Job& job, std::int64_t limit) const = 0;
  // The state of one limit_key of a queue with limits per key.
  virtual Result<LimitKeyInfo> limit_key(const std::string& queue,
                                         const std::string& key) const = 0;
  // All breakers by name, as of `now`.
  virtual Result<std::vector<BreakerInfo>> breakers(WallTime now) const = 0;
  // Errors: not_found.
  virtual Result<ScheduleInfo> schedule(const std::string& name) const = 0;
  // By name, starting after `after` ("" = the first), at most `limit`.
  virtual Result<std::vector<ScheduleInfo>> schedules(const std::string& after,
                                                      int limit) const = 0;
  // Schedules that are not paused with next_fire <= now, earliest first; `live` is not filled.
  virtual Result<std::vector<ScheduleInfo>> due_schedules(WallTime now, int limit) const = 0;
  // Rows with seq < before (0 = from the newest). Errors: not_found (no such schedule).
  virtual Result<LedgerPage> ledger(const std::string& name, int limit,
                                    std::int64_t before) const = 0;
  // Scheduled and retryable jobs of the queues in `within` with run_at < to, by hour. Jobs overdue
  // at `from` count in its hour. Examines at most kMaxDueCounted jobs, then omits the last hour.
  virtual Result<DueHours> due_by_hour(WallTime from, WallTime to, const Within& within) const = 0;
  // `expires_in` is measured from `now`. Errors: not_found (never acquired, or removed).
  virtual Result<LeaseInfo> lease(const std::string& name, Instant now) const = 0;
  // Held leases and leases with a value, by name, including reserved ones.
  virtual Result<std::vector<LeaseInfo>> leases(const std::string& after, int limit,
                                                Instant now) const = 0;
  // Errors: not_found.
  virtual Result<SessionInfo> session(const SessionKey& session, Instant now) const = 0;
  // Of one queue, or of all ("").
  virtual Result<SessionPage> sessions(const std::string& queue, const SessionKey& after, int limit,
                                       Instant now) const = 0;
  // Errors: not_found (never started, or its retention has ended).
  virtual Result<WorkflowInfo> workflow(WorkflowId id) const = 0;
  // Newest first, with id < before (0 = from the newest). A page can be short, as in list().
  virtual Result<WorkflowPage> workflows(const WorkflowFilter& filter, int limit,
                                         WorkflowId before) const = 0;
  // By number, starting after `after` (0 = the first). Errors: not_found.
  virtual Result<WorkflowStepPage> workflow_steps(WorkflowId id, int after, int limit) const = 0;
  // With its secret. Errors: not_found.
  virtual Result<TriggerInfo> trigger(const std::string& name) const = 0;
  // By name, starting after `after` ("" = the first), at most `limit`; with their secrets.
  virtual Result<std::vector<TriggerInfo>> triggers(const std::string& after, int limit) const = 0;
  // Rows with seq < before (0 = from the newest). Errors: not_found (no such trigger).
  virtual Result<TriggerEventPage> trigger_events(const std::string& name, int limit,
                                                  std::int64_t before) const = 0;
  // -- the history (history.h)
  // The next apply() adds these rows, in its transaction: its report says whether. Like apply().
  virtual void offer_history(HistoryRowsPtr rows, HistoryWrite when) { (void)rows, (void)when; }
  // One entry for each step. Rows older than history_kept() are not included. Errors:
  // invalid_argument (too many rows).
  virtual Result<std::vector<HistoryCounts>> history(const HistoryRead& read, WallTime now) const {
    (void)now;
    return std::vector<HistoryCounts>(read.points());
  }
  virtual HistoryKept history_kept() const { return {}; }
  // Facts of the jobs that exist, in any order.
  virtual Result<std::vector<JobFact>> facts(const std::vector<JobId>& ids) const {
    (void)ids;
    return std::vector<JobFact>();
  }

  // Counts of each queue since `from`, which is the start of a minute.
  virtual Result<RecentCounts> recent(WallTime from) const {
    (void)from;
    return RecentCounts();
  }

  // -- marks and saved views
  virtual Result<MarkPage> marks(const MarkFilter& filter) const {
    (void)filter;
    return MarkPage{};
  }
  virtual Result<std::vector<SavedView>> views() const {  // all, by name
    return std::vector<SavedView>();
  }

  // All tokens, including revoked and expired ones, as an immutable snapshot. From any thread.
  // Cheap: a pointer that is replaced when tokens change.
  virtual std::shared_ptr<const Tokens> tokens() const = 0;
  // Changes after each committed change of tokens. Cheap enough to check for every request. If read
  // before tokens(), it is never newer than the snapshot that tokens() returns.
  virtual std::int64_t tokens_version() const = 0;
  // At most `limit` matching records, with seq >= from (oldest first) or <= from (newest first; 0 =
  // from the newest). A page can be short or empty with `next` set, as in list().
  virtual Result<AuditPage> audit(const AuditFilter& filter, AuditOrder order, int limit,
                                  std::int64_t from) const = 0;
  virtual AuditState audit_state() const = 0;
  // Recounts everything, compares the result with the counters and the invariants, and checks the
  // chain of audit records. Slow; reads only.
  virtual Result<VerifyReport> verify() const = 0;
  // As verify(); calls `progress` after each check.
  virtual Result<VerifyReport> verify_showing(const VerifyProgress& progress) const {
    (void)progress;
    return verify();
  }
  // Writes a consistent copy to a new directory while the store is running. Errors: conflict (the
  // directory exists), storage_full, io_error.
  virtual Result<void> backup(const std::string& directory) const = 0;

  // The store that replaces this one, once apply() has seen the move; "" = not moved. Any thread.
  virtual std::string moved_to() const { return {}; }
  // Why the working store refuses new jobs, and until when; "" = new jobs are accepted.
  virtual std::string shortage() const { return {}; }

  // Committed transactions plus database reads since open. An idle system must not increase it.
  virtual std::int64_t commits() const = 0;
  virtual std::int64_t reads() const = 0;
};

// How to open a store that was moved (see transfer.h). apply() refuses in either case.
enum class IfMoved : std::uint8_t { refuse, open };

// Settings common to all stores.
struct StoreOptions {
  Duration retention_completed = std::chrono::hours(24);  // completed and cancelled
  Duration retention_dead = std::chrono::hours(24 * 30);
  std::int64_t max_finished_jobs = 10'000'000;          // cap by count; the oldest are removed
                                                        // first
  std::int64_t max_live_jobs = 20'000'000;              // enqueue beyond is `overloaded`
  Duration retention_replies = std::chrono::hours(24);  // of jobs for reply_to that nothing starts
  Duration audit_retention = std::chrono::hours(24 * 365);  // of audit records
  HistoryKept history{};
};

}  // namespace mainspring
