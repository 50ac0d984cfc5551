// Store: where jobs live. Two halves: apply() changes, the rest reads.
//
// Threads: apply(), agenda(), has_available(), due_queues() and lease_free_at() from one thread at
// a time (the broker's); the reads from any thread, also while apply() runs, which they never
// block. A read sees every batch whose apply() returned before it began, whole batches only.
//
// Durability: when apply() returns a report, the batch is on disk. If it returns an error nothing
// of the batch happened, or, for `io_error`, the store can no longer be trusted to write: stop the
// process and open anew.
//
// Laws that every store keeps (tests/conformance): an acknowledged job is never lost and reaches
// exactly one terminal state; ids and tokens never repeat; every operation of a lease is fenced by
// its token; per queue enqueued = live + completed + cancelled + dead + pruned + expired.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/rate.h"
#include "store/history.h"
#include "store/operations.h"

namespace mainspring {

// What a batch made possible, for the broker and the scheduler.
struct Effects {
  // Queues that may now give a job which they could not give before.
  std::vector<std::string> available;
  std::vector<JobId> ended;  // jobs that became terminal
  // Of `ended`, those that may be pruned within kBriefRetention.
  std::vector<JobId> brief;
  // Jobs that no operation and no result names: follow-ups that were made; and those that live on,
  // rescued or by an operator.
  std::vector<JobId> made, again;
  // Jobs that went into quarantine, and those that left it and live on: the end of one says the
  // same.
  std::vector<JobId> quarantined, quarantine_left;
  std::vector<std::string> released;  // leases that became free
  std::vector<WorkflowId> workflows;  // that began, or came to another state
  std::vector<std::string> alarms;    // what parked a workflow: for people to read
  std::vector<BreakerInfo> breakers;  // that came to another state, without `queues`
  std::vector<std::string> resumed;   // queues whose pause was over, in order of its end
};

inline constexpr Duration kBriefRetention = std::chrono::minutes(1);

struct BatchReport {
  std::vector<OperationResult> results;  // one per operation, in order
  Effects effects;
  bool history_written = false;  // see offer_history()
};

// When the scheduler is next needed. never() = not until something changes.
struct Agenda {
  WallTime next_due = WallTime::never();         // MoveDue
  Instant next_lease_expiry = Instant::never();  // RescueExpired
  WallTime next_expiry = WallTime::never();      // ExpireJobs
  WallTime next_prune = WallTime::never();       // PruneJobs
  WallTime next_schedule = WallTime::never();    // FireSchedule: the earliest next_fire not paused
  WallTime next_workflow = WallTime::never();    // WakeWorkflows
  WallTime next_opening = WallTime::never();     // OpenQueues
  friend bool operator==(const Agenda&, const Agenda&) = default;
};

// A limit_key of a queue.
struct LimitKeyInfo {
  std::int64_t running = 0;            // of its jobs
  std::optional<WallTime> opens_at{};  // closed by its rate until then
  std::int64_t slots_taken = 0;        // of its concurrency, by what runs
  RateMeter meter{};                   // of its rate
  friend bool operator==(const LimitKeyInfo&, const LimitKeyInfo&) = default;
};

struct DueHours {
  std::vector<DueJobs> hours;  // those with jobs, earliest first
  bool truncated = false;      // later hours were not counted
};
inline constexpr int kMaxDueCounted = 100'000;
// Adds up what due_by_hour() examines.
class DueCounter {
 public:
  // `hour` is counted from 1970. Jobs that do not count, of other queues, are examined too.
  void add(std::int64_t hour, std::int64_t examined, bool counts);
  DueHours hours() const;

 private:
  std::map<std::int64_t, std::int64_t> hours_;
  std::int64_t examined_ = 0;
};

class Store {
 public:
  virtual ~Store() = default;

  // One transaction, one durable commit; batches that change nothing do not touch the disk.
  virtual Result<BatchReport> apply(std::span<const Operation> batch, Now now) = 0;
  virtual Agenda agenda() const = 0;
  // Would a claim of this queue find a job? False for a paused or unknown queue, for one that runs
  // as many jobs as it may or is held back by its rate or breaker. Of a queue whose jobs all wait
  // for room of their limit_key, or for its rate, it may say true, until a claim has found none.
  virtual bool has_available(const std::string& queue) const = 0;
  // A hint for the broker: queues of the first `limit` jobs that MoveDue would move now, with how
  // many of each. To know none is always right.
  virtual std::vector<std::pair<std::string, int>> due_queues(WallTime now, int limit) const {
    (void)now, (void)limit;
    return {};
  }
  // From when on somebody else could acquire the lease; the past = it is free.
  virtual Instant lease_free_at(const std::string& name) const = 0;

  // Errors: not_found (never existed), expired (its retention has ended).
  virtual Result<Job> get(JobId id) const = 0;
  // At most `limit` jobs with id < before (0 = from the newest). A page may be short, even empty,
  // with `next` set: each call examines a bounded number of records.
  virtual Result<JobPage> list(const JobFilter& filter, int limit, JobId before) const = 0;
  // The whole records of those that exist, in any order.
  virtual Result<std::vector<Job>> whole(const std::vector<JobId>& ids) const;
  // How many jobs the counters say are in the queue and in the states of the filter.
  virtual Result<std::int64_t> count_jobs(const JobFilter& filter) const;
  // Of a job, those with a name >= `from` ("" = from the first), at most `limit`. Errors: as get().
  virtual Result<MemoPage> memos(JobId id, const std::string& from, int limit) const = 0;
  virtual Result<std::vector<QueueStats>> queues() const = 0;
  // How many available jobs of its queue stand before an available job, by priority, run_at and id;
  // counts no further than `limit`, and may look at a bounded number of jobs on either side of it.
  // Of one that waits in quarantine: how many of its queue's are released, or stand before it
  // there.
  virtual Result<std::int64_t> ahead(const Job& job, std::int64_t limit) const = 0;
  // The same of the jobs with its limit_key alone.
  virtual Result<std::int64_t> ahead_of_key(const Job& job, std::int64_t limit) const = 0;
  // What a queue with limits per key knows of this one.
  virtual Result<LimitKeyInfo> limit_key(const std::string& queue,
                                         const std::string& key) const = 0;
  // All, by name; as of `now`.
  virtual Result<std::vector<BreakerInfo>> breakers(WallTime now) const = 0;
  // Errors: not_found.
  virtual Result<ScheduleInfo> schedule(const std::string& name) const = 0;
  // By name, beginning after `after` ("" = the first), at most `limit`.
  virtual Result<std::vector<ScheduleInfo>> schedules(const std::string& after,
                                                      int limit) const = 0;
  // Those not paused with next_fire <= now, earliest next_fire first; without `live`.
  virtual Result<std::vector<ScheduleInfo>> due_schedules(WallTime now, int limit) const = 0;
  // Rows with seq < before (0 = from the newest). Errors: not_found (no such schedule).
  virtual Result<LedgerPage> ledger(const std::string& name, int limit,
                                    std::int64_t before) const = 0;
  // Scheduled and retryable jobs of the queues `within` with run_at < to, by hour; those overdue at
  // `from` count in its hour. Examines at most kMaxDueCounted jobs; then the last hour is left out.
  virtual Result<DueHours> due_by_hour(WallTime from, WallTime to, const Within& within) const = 0;
  // `now` is what expires_in is reckoned from. Errors: not_found (never acquired, or nothing is
  // left of it).
  virtual Result<LeaseInfo> lease(const std::string& name, Instant now) const = 0;
  // Held ones and those with a value, by name, the reserved ones too.
  virtual Result<std::vector<LeaseInfo>> leases(const std::string& after, int limit,
                                                Instant now) const = 0;
  // Errors: not_found.
  virtual Result<SessionInfo> session(const SessionKey& session, Instant now) const = 0;
  // Of one queue, or of all ("").
  virtual Result<SessionPage> sessions(const std::string& queue, const SessionKey& after, int limit,
                                       Instant now) const = 0;
  // Errors: not_found (never started, or its retention has ended).
  virtual Result<WorkflowInfo> workflow(WorkflowId id) const = 0;
  // Newest first, with id < before (0 = from the newest). A page may be short, as of list().
  virtual Result<WorkflowPage> workflows(const WorkflowFilter& filter, int limit,
                                         WorkflowId before) const = 0;
  // By number, beginning after `after` (0 = the first). Errors: not_found.
  virtual Result<WorkflowStepPage> workflow_steps(WorkflowId id, int after, int limit) const = 0;
  // With its secret. Errors: not_found.
  virtual Result<TriggerInfo> trigger(const std::string& name) const = 0;
  // By name, beginning after `after` ("" = the first), at most `limit`; with their secrets.
  virtual Result<std::vector<TriggerInfo>> triggers(const std::string& after, int limit) const = 0;
  // Rows with seq < before (0 = from the newest). Errors: not_found (no such trigger).
  virtual Result<TriggerEventPage> trigger_events(const std::string& name, int limit,
                                                  std::int64_t before) const = 0;
  // -- the history (history.h)
  // The next apply() adds these rows, in its transaction: its report says whether. Like apply().
  virtual void offer_history(HistoryRowsPtr rows, HistoryWrite when) { (void)rows, (void)when; }
  // One entry for each step. Rows older than history_kept() are not added. Errors:
  // invalid_argument (too many rows).
  virtual Result<std::vector<HistoryCounts>> history(const HistoryRead& read, WallTime now) const {
    (void)now;
    return std::vector<HistoryCounts>(read.points());
  }
  virtual HistoryKept history_kept() const { return {}; }
  // Of those jobs that are there, in any order.
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

  // Every token, revoked and expired ones too; a snapshot. From every thread; cheap: a pointer that
  // is exchanged when tokens change.
  virtual std::shared_ptr<const Tokens> tokens() const = 0;
  // Another number after each committed change of tokens; cheap enough to ask with every request.
  // Asked before tokens(), it is never newer than what that answers.
  virtual std::int64_t tokens_version() const = 0;
  // At most `limit` records that match, with seq >= from (oldest first) or <= from (newest first; 0
  // = from the newest). A page may be short, even empty, with `next` set, as of list().
  virtual Result<AuditPage> audit(const AuditFilter& filter, AuditOrder order, int limit,
                                  std::int64_t from) const = 0;
  virtual AuditState audit_state() const = 0;
  // Recounts everything, checks it against the counters and the laws, and follows the chain of
  // audit records. Slow; reads only.
  virtual Result<VerifyReport> verify() const = 0;
  // A consistent copy while running, in a new directory. Errors: conflict (it exists),
  // storage_full, io_error.
  virtual Result<void> backup(const std::string& directory) const = 0;

  // Where it goes on, if apply() has seen that it was moved; "" = it has not. From any thread.
  virtual std::string moved_to() const { return {}; }
  // Why new jobs are refused although the store works, and until when; "" = they are accepted.
  virtual std::string shortage() const { return {}; }

  // Transactions committed, and reads made of the database, since open: what an idle system must
  // not do.
  virtual std::int64_t commits() const = 0;
  virtual std::int64_t reads() const = 0;
};

// What opening does with a store that was moved (see transfer.h): apply() refuses in any case.
enum class IfMoved : std::uint8_t { refuse, open };

// Settings that every store has.
struct StoreOptions {
  Duration retention_completed = std::chrono::hours(24);  // completed and cancelled
  Duration retention_dead = std::chrono::hours(24 * 30);
  std::int64_t max_finished_jobs = 10'000'000;              // cap by count; oldest go first
  std::int64_t max_live_jobs = 20'000'000;                  // enqueue beyond is `overloaded`
  Duration audit_retention = std::chrono::hours(24 * 365);  // of audit records
  HistoryKept history{};
};

}  // namespace mainspring
