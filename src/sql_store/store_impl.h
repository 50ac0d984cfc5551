// SqlStore: declarations shared by its .cc files. apply.cc runs a batch; the other files
// implement its operations.
#pragma once

#include <deque>
#include <list>
#include <set>
#include <vector>

#include "api/audit_images.h"
#include "api/follow_ups.h"
#include "api/program_end.h"
#include "base/mutex.h"
#include "model/named_claim.h"
#include "sql_store/disk.h"
#include "sql_store/memory.h"
#include "sql_store/more_statements.h"
#include "sql_store/running_jobs.h"
#include "sql_store/sql_store.h"
#include "sql_store/trigger_rows.h"
#include "sql_store/workflow_parts.h"
#include "store/bounds.h"
#include "store/transfer.h"
#include "trigger/rules.h"
#include "workflow/rules.h"

namespace mainspring::sql {

inline constexpr std::int64_t kBlockIds = 4096;        // ids per row of live counts
inline constexpr std::int64_t kBlockBase = 1LL << 32;  // start of those rows in `job_counts`
// Bits of jobs.flags: sql/sqlite/0001_schema.sql explains each.
inline constexpr int kFlagExtras = 1, kFlagExpired = 2, kFlagUnique = 4, kFlagErrors = 8;
inline constexpr int kFlagStep = 4096;                     // of a workflow
inline constexpr int kFlagUnknown = 8192;                  // an attempt ended without a report
inline constexpr int kFlagFollowed = 32;                   // its end makes something
inline constexpr int kFlagSession = 64;                    // of a session
inline constexpr int kFlagBlocks = 256, kFlagParks = 512;  // what its death does to the session
inline constexpr int kFlagDiesOfExpiry = 1024;             // dead instead of cancelled
inline constexpr int kFlagMemos = 16384;                   // has, or had, saved step results
inline constexpr int kDepthUnit = 65536, kDepthFlags = 31 * kDepthUnit;  // a counter
inline constexpr int kFlagLimitKey = 2048;                               // has a limit_key
inline constexpr int kFlagDeferred = 32768;                              // until a claim names it
inline constexpr int kFlagQuarantined = 1073741824;
inline constexpr char kTagSeparator = '\x1f';

// See claim.h.
struct ClaimStream;
struct ClaimWalk;
class FairFronts;

// The mutable half of a job's row in `jobs`.
struct HotRow {
  JobId id = 0;
  QueueState* queue = nullptr;
  std::int32_t kind = 0;
  JobState state = JobState::available;
  int priority = 5;
  WallTime run_at;
  int attempt = 0;
  int max_attempts = 20;
  Token token = 0;
  std::int64_t version = 1;
  int flags = 0;
  std::optional<std::int64_t> started_at, finished_at, expires_at;
};

// The row `what` of moves; nullopt = none.
std::optional<TransferPlace> read_move(Connection& db, std::string_view what);

// Thrown by a write to a store that has moved.
struct Moved {
  std::string place;
};

// The statements of the writer, prepared once.
struct Statements {
  explicit Statements(Connection& db);
  Statement insert_job, insert_body, update_body, edit_body, select_body, select_ended,
      select_progress, insert_grant, delete_grant, upsert_note, delete_note, update_job, finish_job,
      select_hot, select_claim, select_fresh, select_checkpoint, insert_error, upsert_result,
      upsert_reason, upsert_progress, upsert_checkpoint, forget_extras, upsert_warning, insert_due,
      delete_due, select_due, due_jobs, first_due, insert_expiring, delete_expiring,
      select_expiring, first_expiring, insert_finished, first_finished, delete_finished,
      update_finished, insert_dead, death, delete_dead, select_dead, select_unique, upsert_unique,
      delete_unique, keep_unique, first_window, select_windows, select_idempotency,
      insert_idempotency, delete_idempotency, first_idempotency, insert_queue, update_queue,
      select_limit_key, upsert_key_meter, delete_key_meter, drop_key_meters, update_limits,
      update_fair_keys, upsert_fair_keys, forget_fair_keys, drop_fair_keys, insert_kind,
      upsert_job_counts, delete_job_counts, delete_job, delete_body, delete_extras, delete_errors,
      insert_quarantined, delete_quarantined, upsert_lease, delete_lease, select_moved;
};

struct WorkflowStatements {
  explicit WorkflowStatements(Connection& db);
  Statement load, by_key, insert, update;
  WorkflowRowStatements rows, texts;
  Statement put_job, job, remove_job, first_wake, due, first_finished, finished, let_children_go,
      prune;
};

// Problems of the audit records in a snapshot. `known`: the newest record committed before the
// snapshot.
void verify_audit(Connection& db, const AuditMark& known, std::vector<std::string>& problems);

// Store::verify of a store that need not be open. `known`: the newest record before the call.
Result<VerifyReport> verify_store(const Disk& disk, const AuditMark& known,
                                  const VerifyProgress& progress);

// Checks that the index of searchable paths has what the args of the jobs say.
void verify_search(Connection& db, std::vector<std::string>& problems);

// NewJob::trigger_depth as bits of a job's flags.
int depth_flags(int depth);
int depth_of(int flags);
// The number of attempts lost in a row, as bits of a job's flags.
int lost_flags(int lost);
int lost_of(int flags);
bool waits_in_quarantine(JobState state, int flags);
int on_dead_flags(OnDead policy);
OnDead on_dead_of(int flags);
int on_expiry_flag(OnExpiry policy);
OnExpiry on_expiry_of(int flags);

// Splits the tags in a body: text with kTagSeparator before, between and after the tags.
std::vector<std::string> split_tags(std::string_view joined);
std::string join_tags(const std::vector<std::string>& tags);  // "" for none

// A connection for reads, with its statements.
struct Reader {
  explicit Reader(std::unique_ptr<Connection> connection);
  std::unique_ptr<Connection> db;
  Statement get_job, get_errors, created_from, line_before, quarantined_before, key_before,
      list_jobs, list_dead, list_quarantined, next_token, live_job, next_id, below, queue_id,
      kind_id, schedule_id, ledger, due_by_hour;
  AuditStatements audit;
  SessionReads sessions;
  WorkflowReads workflows;
  TriggerReads triggers;
  MemoReads memos;
  HistoryReads history;
  MarkReads marks;
  SearchReads search;
};

class SqlStore final : public Store {
 public:
  SqlStore(SqlStoreOptions options, std::unique_ptr<Disk> disk, Log& log);
  ~SqlStore() override;
  // Loads; throws DiskError or Error.
  void open(Now now);
  std::string shortage() const override { return disk_->shortage(); }

  Result<BatchReport> apply(std::span<const Operation> batch, Now now) override;
  Agenda agenda() const override;
  bool has_available(const std::string& queue) const override;
  std::vector<std::string> available_queues(std::string_view prefix, std::string_view after,
                                            std::size_t limit) const override;
  std::vector<std::pair<std::string, int>> due_queues(WallTime now, int limit) const override;
  Instant lease_free_at(const std::string& name) const override;
  Result<ScheduleInfo> schedule(const std::string& name) const override;
  Result<std::vector<ScheduleInfo>> schedules(const std::string& after, int limit) const override;
  Result<std::vector<ScheduleInfo>> due_schedules(WallTime now, int limit) const override;
  Result<DueHours> due_by_hour(WallTime from, WallTime to, const Within& within) const override;
  Result<LedgerPage> ledger(const std::string& name, int limit, std::int64_t before) const override;
  Result<LeaseInfo> lease(const std::string& name, Instant now) const override;
  Result<std::vector<LeaseInfo>> leases(const std::string& after, int limit,
                                        Instant now) const override;
  Result<Job> get(JobId id) const override;
  Result<JobPage> list(const JobFilter& filter, int limit, JobId before) const override;
  Result<std::optional<IndexPage>> indexed(const IndexRead& read) const override;
  Result<DeadCounts> dead_counts(const std::string& queue, std::int64_t limit, const Within& within,
                                 WallTime since) const override;
  Result<std::vector<QueueStats>> queues() const override;
  Result<SessionInfo> session(const SessionKey& session, Instant now) const override;
  Result<SessionPage> sessions(const std::string& queue, const SessionKey& after, int limit,
                               Instant now) const override;
  Result<WorkflowInfo> workflow(WorkflowId id) const override;
  Result<WorkflowPage> workflows(const WorkflowFilter& filter, int limit,
                                 WorkflowId before) const override;
  Result<WorkflowStepPage> workflow_steps(WorkflowId id, int after, int limit) const override;
  Result<TriggerInfo> trigger(const std::string& name) const override;
  Result<std::vector<TriggerInfo>> triggers(const std::string& after, int limit) const override;
  Result<TriggerEventPage> trigger_events(const std::string& name, int limit,
                                          std::int64_t before) const override;
  Result<std::int64_t> ahead(const Job& job, std::int64_t limit) const override;
  Result<std::int64_t> ahead_of_key(const Job& job, std::int64_t limit) const override;
  Result<LimitKeyInfo> limit_key(const std::string& queue, const std::string& key) const override;
  Result<std::vector<BreakerInfo>> breakers(WallTime now) const override;
  Result<MemoPage> memos(JobId id, const std::string& from, int limit) const override;
  std::shared_ptr<const Tokens> tokens() const override;
  std::int64_t tokens_version() const override {
    return tokens_version_.load(std::memory_order_acquire);
  }
  Result<AuditPage> audit(const AuditFilter& filter, AuditOrder order, int limit,
                          std::int64_t from) const override;
  AuditState audit_state() const override;
  void offer_history(HistoryRowsPtr rows, HistoryWrite when) override;
  Result<std::vector<HistoryCounts>> history(const HistoryRead& read, WallTime now) const override;
  Result<RecentCounts> recent(WallTime from) const override;
  Result<MarkPage> marks(const MarkFilter& filter) const override;
  Result<std::vector<SavedView>> views() const override;
  HistoryKept history_kept() const override { return options_.store.history; }
  Result<std::vector<JobFact>> facts(const std::vector<JobId>& ids) const override;
  Result<VerifyReport> verify() const override { return verify_showing({}); }
  Result<VerifyReport> verify_showing(const VerifyProgress& progress) const override;
  Result<void> backup(const std::string& directory) const override {
    return disk_->backup(directory);
  }
  std::string moved_to() const override;
  std::int64_t commits() const override { return commits_.load(); }
  std::int64_t reads() const override { return reads_.load(); }

 private:
  friend class SqlWorkflowRows;
  friend class SqlTriggerRows;

  // -- batches (apply.cc)
  void settle();  // after each operation: handles the ends it caused
  Result<BatchReport> apply_locked(std::span<const Operation> batch, Now now)
      MS_REQUIRES(sessions_mutex_);
  Result<BatchReport> apply_once(std::span<const Operation> batch, Now now, bool refuse_enqueues);
  void begin_write();  // starts a transaction, unless one is open
  // Checks whether another process has marked this store as moved. Before a write this uses
  // SQLite's count of other processes' commits, which costs nothing; without writes it runs
  // periodically.
  void look_for_move();  // throws Moved
  void note_moved(std::string place);
  Result<void> reload(Instant now);
  Error moved_error() const;
  void commit_batch(BatchReport& report);
  void write_job_counts();
  void write_finished();
  // -- the history (history.cc)
  bool write_history();  // true if there was any
  void put_history(const HistoryEntry& entry);
  void prune_history();
  void publish();
  void load(Instant now);  // memory from the database
  void adopt_copy();
  void check_place();  // throws Error: moved, or an unfinished copy
  void load_queues();
  void load_live_jobs();
  void load_leases(Instant now);
  void refresh_agenda();
  void roll_back();

  // -- operations; each checks everything before it writes
  OperationResult operator()(const Enqueue& op);
  OperationResult operator()(const Claim& op);
  OperationResult operator()(const Renew& op);
  OperationResult operator()(const Finish& op);
  OperationResult operator()(const Cancel& op);
  OperationResult operator()(const RetryJob& op);
  OperationResult operator()(const EditJob& op);
  OperationResult operator()(const DeleteJob& op);
  OperationResult operator()(const Redrive& op);
  OperationResult operator()(const PauseQueue& op);
  OperationResult operator()(const SetRetention& op);
  OperationResult operator()(const RemoveQueue& op);
  OperationResult operator()(const ForgetQueues& op);
  void save_queue(const QueueState& queue);
  void forget_queue(QueueState& queue, bool removed);
  OperationResult operator()(const MoveDue& op);
  OperationResult operator()(const RescueExpired& op);
  OperationResult operator()(const ExtendLeases& op);
  OperationResult operator()(const AllowRestart& op);
  OperationResult operator()(const ExpireJobs& op);
  OperationResult operator()(const PruneJobs& op);
  OperationResult operator()(const AcquireLease& op);
  OperationResult operator()(const RenewLease& op);
  OperationResult operator()(const ReleaseLease& op);
  OperationResult operator()(const AcceptSession& op);
  OperationResult operator()(const RenewSession& op);
  OperationResult operator()(const ReleaseSession& op);
  OperationResult operator()(const PutSessionState& op);
  OperationResult operator()(const ResumeSession& op);
  OperationResult operator()(const PutSchedule& op);
  OperationResult operator()(const RemoveSchedule& op);
  OperationResult operator()(const PauseSchedule& op);
  OperationResult operator()(const SetTimer& op);
  OperationResult operator()(const FireSchedule& op);
  OperationResult operator()(const CreateToken& op);
  OperationResult operator()(const RevokeToken& op);
  OperationResult operator()(const Audit& op);
  OperationResult operator()(const StartWorkflow& op);
  OperationResult operator()(const SignalWorkflow& op);
  OperationResult operator()(const CancelWorkflow& op);
  OperationResult operator()(const PauseWorkflow& op);
  OperationResult operator()(const RetryWorkflow& op);
  OperationResult operator()(const ForkWorkflow& op);
  OperationResult operator()(const WakeWorkflows& op);
  OperationResult operator()(const PutTrigger& op);
  OperationResult operator()(const RemoveTrigger& op);
  OperationResult operator()(const PauseTrigger& op);
  OperationResult operator()(const FireTrigger& op);
  OperationResult operator()(const SetQueueLimits& op);
  OperationResult operator()(const OpenQueues& op);
  OperationResult operator()(const WriteProbe& op);
  OperationResult operator()(const PutBreaker& op);
  OperationResult operator()(const RemoveBreaker& op);
  OperationResult operator()(const OpenBreaker& op);
  OperationResult operator()(const CloseBreaker& op);
  OperationResult operator()(const AddMark& op);
  OperationResult operator()(const RemoveMark& op);
  OperationResult operator()(const PutView& op);
  OperationResult operator()(const RemoveView& op);

  // -- enqueue.cc
  std::optional<Error> no_room(std::size_t jobs, std::int64_t reserved = 0) const;
  std::optional<OperationResult> replay_idempotent(const Enqueue& op);
  EnqueuedJob enqueue_one(const NewJob& job);
  // `schedule` = 0: no schedule. In a session the job may have to wait: the answer says so.
  EnqueuedJob make_job(const NewJob& job, WallTime run_at, JobState state, std::int64_t schedule,
                       int flags = 0);
  std::optional<EnqueuedJob> enqueue_unique(const NewJob& job, QueueState& queue, WallTime run_at);
  void replace_job(HotRow& hot, const NewJob& job, WallTime run_at);
  void postpone_job(HotRow& hot, const NewJob& job, WallTime run_at);
  void set_expiry(HotRow& hot, std::optional<WallTime> at);
  WallTime run_at_of(const NewJob& job) const;

  // -- follow_ups.cc Collects what a completion posts, to be made after the operation.
  void post(const Outcome& outcome, int flags);
  // After each operation: makes what it posted, and the follow-ups of the jobs that it ended.
  void make_follow_ups();
  EndedJob read_ended(JobId id);
  std::optional<Progress> read_progress(JobId id);
  void make_news(const Renewal& renewal, const Lease& lease, const std::optional<Progress>& last);

  // -- lease.cc
  // Fills in the job and its lease, or returns false if it must not start any more.
  bool claim_one(const ReadyKey& key, QueueState& queue, std::int32_t kind, const Claim& op,
                 Grant& grant, std::vector<ClaimedJob>& out);
  bool read_claim(const ReadyKey& key, Lease& lease, ClaimedJob& job);
  void note_lease(JobId id, Lease& lease);
  void end_grant(Grant& grant);
  void finish_lease(JobId id, Lease& lease, const Outcome& outcome);
  bool is_late(const JobOutcome& result, const Lease& lease);
  void end_attempt(JobId id, Lease& lease, JobState state, WallTime run_at, int attempt);
  void end_cancelled(JobId id, Lease& lease, std::string_view reason);
  void add_error(JobId id, Lease& lease, std::string_view message, const ProgramEnd& program);
  void set_reason(JobId id, int& flags, std::string_view reason, std::string_view description);
  void fail_attempt(JobId id, Lease& lease, std::string_view message, std::optional<Duration> after,
                    const ProgramEnd& program);
  void set_lease_expiry(JobId id, Lease& lease, Instant expires_at);
  Instant lease_limit(const Lease& lease) const;  // by the job's own time limit
  // -- standstill.cc
  template <class ForJob, class ForNamed, class ForSession>
  void for_each_lease(ForJob job, ForNamed named, ForSession session);
  // The end of a lease that is renewed now for `length`.
  Instant end_of(Duration length) const { return std::max(now_.instant + length, allowed_until_); }
  void load_allowance(Instant now);
  void forget_allowance();
  // -- defer.cc
  std::optional<Error> cannot_defer_all(const Finish& op);
  void defer_attempt(JobId id, Lease& lease, const Defer& defer);
  void undefer(HotRow& hot);
  OperationResult claim_named(const Claim& op);
  // -- edits.cc
  // The error if the job is there and its version is another one; 0 = any will do.
  std::optional<Error> has_another_version(JobId id, std::int64_t version);
  void forget_attempts(HotRow& hot, std::optional<int> max_attempts);  // nullopt = as enqueued
  void edit_hot(HotRow& hot, const EditJob& op);
  RoomForNamed room_for(const HotRow& hot);

  // -- quarantine.cc
  void note_quarantine(QueueState& queue);
  void lose_attempt(JobId id, Lease& lease);
  void leave_quarantine(JobId id, QueueState& queue, int& flags);
  int release_quarantined(int limit);
  WallTime next_release() const;
  void load_quarantine();
  void tell_quarantine(Effects& effects);
  ClaimResult give_named(const Claim& op, HotRow& hot);

  FinishStatus status_without_lease(const JobOutcome& result, const Within& within);

  void keep_grant(std::unique_ptr<Grant> grant, Duration lease,
                  const std::vector<ClaimedJob>& jobs);
  static std::unique_ptr<Grant> new_grant(Token first, const std::string& worker, Now now);

  // -- limits.cc
  Room room(const QueueState& queue) const;  // free capacity now
  void count_started(QueueState& queue, int cost);
  void note_rate(QueueState& queue);
  void open_queue(QueueState& queue);
  void write_limits();
  void load_limits();
  // -- search_index.cc
  void load_search_paths();
  bool has_room_for_searchable(const QueueState& queue, const QueueLimits& limits) const;
  void set_searchable(QueueState& queue, const std::vector<std::string>& paths);
  void refresh_search_paths(QueueState& queue);
  void index_args(const QueueState& queue, JobId id, const std::string& args);
  void unindex_args(const QueueState& queue, JobId id);  // by the args that it has
  bool has_search_work() const;
  bool step_search(int limit);  // true: there is more to do
  void build_search_path(SearchPath& path, int limit);
  void list_dead(JobId id, const QueueState& queue);
  // -- costs.cc
  int cost_of(const QueueState& queue, std::int32_t kind) const;
  static int extra_of_key(const LimitKey& key, int cost);  // slots beyond one
  static int extra_of_queue(const QueueState& queue, int cost);
  void count_costs(QueueState& queue);  // recounts all running jobs
  bool is_over(JobId id);
  Waits who_waits(ClaimWalk& claim, const ClaimStream& first);
  static void pass_waiting(ClaimStream& first);
  void heavy_left(QueueState& queue, std::int32_t kind);
  // -- breakers.cc
  Breaker* find_breaker(const std::string& name);
  void touch(Breaker& breaker);                                  // call before a change
  void set_breaker(QueueState& queue, const std::string& name);  // an existing one, or ""
  void step_breaker(Breaker& breaker);
  void step_breaker_of(const std::string& queue);
  void begin_under_breaker(QueueState& queue, BreakerMeter::Probe attempt);
  // An attempt of a queue with a breaker has ended; its lease still exists.
  void end_under_breaker(JobId id, const Lease& lease, BreakerMeter::End how,
                         std::optional<Duration> open_for);
  void open_queues_of(Breaker& breaker);
  WallTime next_half_open() const;
  void write_breakers();
  void tell_breakers(Effects& effects);
  void load_breakers();
  void settle_probes();
  void publish_breakers() MS_REQUIRES(published_mutex_);
  // -- limit_keys.cc
  LimitKey& limit_key_of(QueueState& queue, std::string_view key);  // creates a missing one
  std::string limit_key_of(JobId id);                               // of a job that has one
  void enter_key(const HotRow& hot, const ReadyKey& at);
  void add_to_key(LimitKey& key, std::int32_t kind, const ReadyKey& at);
  LimitKey& take_from_key(const ReadyKey& at, std::int32_t kind);
  LimitKey* key_of_ready(const QueueState& queue, JobId id) const;
  void leave_key(const HotRow& hot, const ReadyKey& at);
  void begin_of_key(const ReadyKey& at, Lease& lease);
  void end_of_key(Lease& lease);
  void settle_key(LimitKey& key);
  void settle_keys(QueueState& queue, const std::vector<std::string>& keys);
  void settle_all_keys(QueueState& queue);
  void publish_keys() MS_REQUIRES(published_mutex_);
  void publish_key(const LimitKey& key) MS_REQUIRES(published_mutex_);
  // -- key_rates.cc
  void count_started(LimitKey& key, int cost);
  void note_key_rate(LimitKey& key);  // updates the opening from its meter
  void note_opening(LimitKey& key);   // updates whether a claim waits for it
  void open_keys();                   // opens keys that are due: before each batch
  void tell_of_keys();                // notifies claims that wait for them
  void doubt_keys();
  WallTime next_key_opening() const;
  void drop_key_meters(QueueState& queue);
  void write_key_meters();
  void load_key_meters();
  // -- claim.cc, fair_keys.cc
  void add_streams(ClaimWalk& claim, QueueState& queue);
  void take_first(ClaimWalk& claim, ClaimStream& first);
  void take_fair(ClaimWalk& claim, FairFronts& fronts);
  void skip_idle(ClaimWalk& claim, ClaimStream& stream);
  void count_fair(QueueState& queue, std::string_view key, int cost);
  void drop_fair_keys(QueueState& queue);
  void write_fair_keys(QueueState& queue);
  void load_fair_keys();
  // -- memos.cc
  bool keep_memos(const Renewal& renewal, Lease& lease, RenewResult& result);  // true: any is new
  void drop_memos(JobId id, int& flags);

  // -- session_claims.cc
  static bool is_of_queue(const Claim& op);
  OperationResult claim_next_session(const Claim& op, QueueState* queue);
  OperationResult claim_of_session(const Claim& op, const SessionKey& key);
  void read_session(std::string_view key, QueueState& queue, Lease& lease, ClaimedJob& job);

  // -- sessions.cc
  SessionGrant grant_of(Session& session, bool held);
  Session* find_held(const SessionKey& key, Token token);
  void hold(Session& session, const std::string& worker, Duration lease, Token token);
  void end_hold(Session& session);
  void extend_hold(Session& session, Duration lease);
  void set_hold_end(Session& session, Instant ends);
  bool end_holds();  // true: more may have ended
  static Error session_lost(const SessionKey& key);
  static Error too_many_held();
  std::string state_of(const Session& session);
  void set_state(Session& session, std::string_view state);
  bool prune_sessions(int limit);  // true: the limit was reached

  // -- session_rows.cc
  Session* find_session(QueueState& queue, std::string_view key);  // nullptr = not found
  Session* find_session(const SessionKey& key);
  Session& session_of(QueueState& queue, std::string_view key);  // creates a missing one
  Session& session_by_id(std::int64_t id);                       // must exist
  Session& session_of_job(JobId id, QueueState& queue);          // must exist
  std::string session_key_of_job(JobId id);
  Session* load_session(Statement& row, QueueState* queue);
  Session& keep_session(std::unique_ptr<Session> session);
  void list_session(Session& session);
  void change_session(Session& session);
  void write_session(Session& session);
  void write_sessions();   // rows of changed sessions that must be up to date
  void evict_sessions();   // from memory, above the limit
  void forget_sessions();  // the sessions of the last batch
  void close_sessions();
  void load_lagging_sessions();
  void forget_session(const Session& session);
  void load_sessions(Instant now);

  // -- session_heads.cc
  // A job comes to the session: the state in which it begins there, instead of `wanted`.
  JobState join_session(Session& session, JobId id, JobState wanted);
  // The state that its session allows for a job that is not running and wants the state `wanted`.
  JobState state_in_session(const HotRow& hot, JobState wanted);
  JobState state_as_head(Session& session, JobState wanted);
  void pass_head(Session& session);
  JobId first_waiting(const Session& session);
  void leave_ready_queue(const Session& session, JobId id);
  void load_waiting(JobId id, const QueueState& queue);
  void move_head(Session& session, JobState from, JobState to);  // changes the state of the head
  // After each operation: ended jobs leave their sessions.
  void settle_sessions();
  void name_lines(Effects& effects);
  bool queue_has_available(std::string_view line) const;
  void publish_sessions() MS_REQUIRES(published_mutex_);

  // -- workflows.cc
  bool settle_workflows();  // true: it has ended or made jobs
  void write_workflows(WorkflowRules& rules);
  template <class F>
  OperationResult run_workflow(F&& what);
  template <class F>
  auto read_workflows(F&& what) const -> decltype(what(std::declval<Reader&>()));
  bool prune_workflows(int limit);  // true: the limit was reached
  void refresh_workflows();

  // -- triggers.cc
  template <class Op>
  OperationResult run_trigger(const Op& op);
  void load_watches();
  bool is_watched(std::string_view queue, JobState end) const;  // for any kind
  void note_end(const EndedJob& ended);
  void fire_ends();  // after the last operation of a batch
  template <class F>
  auto read_triggers(F&& what) const -> decltype(what(std::declval<TriggerReads&>()));

  // -- named_leases.cc
  std::optional<Error> fenced(const Fence& fence) const;  // nullopt: the fence holds
  LeaseGrant grant_lease(const AcquireLease& op);
  NamedLease* find_held(const std::string& name, const std::string& holder, Token token);
  void extend_lease(const std::string& name, NamedLease& lease, Duration ttl);
  void set_lease_end(const std::string& name, NamedLease& lease, Instant ends);
  LeaseGrant grant_of(const NamedLease& lease, bool held) const;
  void save_lease(const std::string& name, const NamedLease& lease);
  void drop_lease(const std::string& name);
  void sweep_leases(std::size_t limit);
  bool make_room_for_lease();
  void load_named_leases(Instant now);
  void publish_leases() MS_REQUIRES(published_mutex_);

  // -- schedules.cc
  OperationResult create_schedule(const PutSchedule& op);
  OperationResult replace_schedule(ScheduleState& state, const PutSchedule& op);
  ScheduleState* find_schedule(const std::string& name);
  ScheduleState* find_schedule(const std::string& name, const Within& within);
  void set_paused(ScheduleState& state, bool paused, std::string reason);
  void save_schedule(const ScheduleState& state);
  // Call before and after each change of paused or next_fire.
  void unlist(const ScheduleState& state);
  void list(const ScheduleState& state);
  void load_schedules();
  void load_links();
  void publish_schedules() MS_REQUIRES(published_mutex_);

  // -- firing.cc
  std::optional<Error> check_fire(const FireSchedule& op, const ScheduleInfo& info) const;
  JobId decide(ScheduleState& state, const FireSchedule& op, const Tick& tick);
  // Why a tick does not fire, or "" and the state in which its job starts.
  JobId fired_as(const ScheduleState& state, WallTime nominal, std::optional<std::int64_t> version);
  std::string refuse_tick(ScheduleState& state, const FireSchedule& op, WallTime nominal,
                          JobState& begins);
  void stop_others(ScheduleState& state, Overlap policy);
  JobId fire_tick(ScheduleState& state, const FireSchedule& op, const Tick& tick, JobState begins);
  void add_row(ScheduleState& state, const LedgerRow& row);
  void link_to_schedule(JobId id, ScheduleState& state, JobState job);
  void set_live(JobId id, ScheduleState& state, bool lives);
  void end_link(JobId id, JobState state);
  void relink(JobId id, std::int64_t schedule);  // links a job retried by an operator
  void begin_waiting(JobId id, ScheduleState& state);

  // -- access.cc
  void save_token(const TokenRecord& token);
  void load_tokens();
  void publish_tokens() MS_REQUIRES(published_mutex_);

  // -- audit.cc
  std::string image_of(const AuditObject& object);  // "" = not found
  std::string image_of_job(JobId id);               // the same
  // Saves the image of the object of an Audit that follows the operation `at`.
  void look_before(std::span<const Operation> batch, std::size_t at);
  void append_audit(AuditRecord record);
  // nullopt: the queue is not paused.
  void set_pause(QueueState& queue, std::optional<QueuePause> pause);
  void load_pause(QueueState& queue, std::string_view text);
  // Resumes up to `limit` queues whose pause has ended; returns how many.
  int resume_queues(int limit);
  void write_audit_mark();
  bool prune_audit(int limit);  // true: the limit was reached
  void note_oldest_audit();
  void load_audit();

  // -- shared by the operations (rows.cc)
  std::optional<HotRow> load_hot(JobId id);
  void save_hot(const HotRow& hot);
  Error missing(JobId id) const;                   // not_found or expired
  static Error no_job(JobId id);                   // not_found
  JobState state_of(JobId id);                     // with leases; completed when pruned
  QueueState& queue_of(std::string_view name);     // creates a missing one
  QueueState& queue_by_id(std::int64_t id) const;  // must exist
  QueueState* find_queue(std::string_view name) const;
  bool has_queue(std::string_view name) const;  // and is not removed
  std::int32_t kind_of(std::string_view name);  // creates a missing one
  void touch(QueueState& queue);                // marks its counters to be written
  void count(QueueState& queue, JobState state, int flags, int delta);
  void add_live(JobId id, int delta);
  void enter(HotRow& hot);  // into ready or due, by hot.state
  void leave(const HotRow& hot);
  void note_work(QueueState& queue);
  void make_ready(QueueState& queue, std::int32_t kind, const ReadyKey& key, int flags);
  // Bookkeeping of a terminal state; the caller has written the row and the records of its end.
  // `session` = the session's row, 0 = find it by the flags.
  void end_job(JobId id, QueueState& queue, JobState state, int flags, std::int64_t session = 0);
  void request_cancel(JobId id, Lease& lease, const std::string& reason);
  void cancel_hot(HotRow& hot, std::string_view reason);
  // Ends a job that is not running.
  void end_hot(HotRow& hot, JobState state, std::string_view reason, int flags);
  void retry_hot(HotRow& hot);
  // Takes the job's unique key again; false if another live job has it.
  OperationResult take_back(const RetryJob& op, Lease& lease);
  bool take_unique_key(const HotRow& hot);
  bool prune_one(JobId id, std::int64_t finished_at);
  void let_key_go(const HotRow& hot, std::string_view key);
  bool prune_windows(int limit);  // true: the limit was reached

  // -- reads (read.cc, verify.cc)
  static std::map<JobId, Job> read_live(Reader& reader, const RunningJobs::View& view,
                                        const std::vector<JobId>& ids);
  static JobPage list_running(Reader& reader, const RunningJobs::View& view,
                              const JobFilter& filter, int limit, JobId before);
  static IdRange ids_of_list(Reader& reader, const JobFilter& filter, JobId before);
  static JobPage list_ids(Reader& reader, const RunningJobs::View& view, const JobFilter& filter,
                          int limit, JobId before);
  static JobPage list_window(Reader& reader, const RunningJobs::View& view, const JobFilter& filter,
                             int limit, JobId before);
  static LedgerPage read_ledger(Reader& reader, const RunningJobs::View& view,
                                std::int64_t schedule, int limit, std::int64_t before);
  void read_sessions(SessionReads& reads, const std::string& queue, std::string key,
                     std::size_t limit, Instant now, SessionPage& page) const;
  std::optional<SessionInfo> read_info(const Statement& row, Instant now) const
      MS_REQUIRES(sessions_mutex_);
  std::unique_ptr<Reader> take_reader() const;
  Result<std::int64_t> count_before(const Job& job, std::int64_t limit, bool of_key) const;
  void give_back(std::unique_ptr<Reader> reader) const;

  const SqlStoreOptions options_;
  Log& log_;
  const std::unique_ptr<Disk> disk_;
  Connection& db_;  // of the writer
  std::unique_ptr<Statements> sql_;
  std::unique_ptr<ScheduleStatements> schedule_sql_;
  std::unique_ptr<AccessStatements> access_sql_;
  std::unique_ptr<SessionStatements> session_sql_;
  std::unique_ptr<WorkflowStatements> workflow_sql_;
  SqlWorkflowRows workflow_rows_{*this};
  workflow::KeptWorkflows kept_workflows_;
  std::unique_ptr<TriggerStatements> trigger_sql_;
  SqlTriggerRows trigger_rows_{*this};
  std::unique_ptr<MemoStatements> memo_sql_;
  std::unique_ptr<HistoryStatements> history_sql_;
  std::unique_ptr<MarkStatements> mark_sql_;
  std::unique_ptr<SearchStatements> search_sql_;
  HistoryNames history_names_;
  bool history_loaded_ = false;  // history_names_ matches the store
  HistoryRowsPtr offered_;       // for the next batch
  HistoryWrite offered_when_ = HistoryWrite::with_batch;
  WallTime history_pruned_;  // the minute of the last removal of old rows
  bool in_transaction_ = false;
  bool failed_ = false;   // a write failed in an untrusted way: write nothing more
  std::string moved_to_;  // "" = it has not moved
  Instant look_for_move_at_;
  std::atomic<std::int64_t> commits_{0};
  mutable std::atomic<std::int64_t> reads_{0};

  // derived state
  Now now_{};  // of the current batch
  JobId next_id_ = 1;
  Token next_token_ = 1;
  std::int64_t next_finished_seq_ = 1, next_session_ = 1;
  bool marks_touched_ = false;
  Instant allowed_until_;          // see AllowRestart; for this process
  Duration restart_allowance_{0};  // on disk; 0 = none
  Instant allowance_over_;         // then it is removed from the disk
  bool refuse_enqueues_ = false;   // in this batch
  std::deque<QueueState> queue_states_;
  std::list<SearchPath> search_paths_;
  std::set<std::pair<WallTime, std::string_view>> openings_;    // queues closed by their rates
  std::set<std::pair<WallTime, std::string_view>> pause_ends_;  // see QueuePause::until
  std::map<std::string_view, QueueState*> quarantines_;         // with jobs in them
  std::map<std::string, Breaker> breakers_;
  std::vector<Breaker*> touched_breakers_;
  std::set<std::string> removed_breakers_;  // in this batch
  std::map<std::string_view, QueueState*> queues_by_name_;
  mutable std::map<std::string_view, QueueState*> queues_with_work_;  // see note_work()
  std::unordered_map<std::int64_t, QueueState*> queues_by_id_;
  std::unordered_map<std::string, std::int32_t> kinds_by_name_;
  std::vector<std::string> kind_names_;  // by id
  std::unordered_map<JobId, Lease> leases_;
  std::vector<RunningJob> started_running_;  // in this batch: see RunningJobs
  std::vector<std::pair<JobId, Token>> ended_running_;
  std::unordered_map<Token, std::unique_ptr<Grant>> grants_;  // by the token of the first job
  std::set<std::pair<Instant, JobId>> lease_order_;
  std::unordered_map<std::int64_t, std::int64_t> live_blocks_;
  std::int64_t live_jobs_ = 0, finished_jobs_ = 0;  // the second: stored
  std::vector<QueueState*> touched_;
  std::vector<std::int64_t> touched_blocks_;
  std::unordered_map<JobId, LimitKey*> keyed_;  // available jobs that have a limit_key
  std::vector<std::pair<QueueState*, std::string>> touched_keys_;  // their running count changed
  std::set<std::pair<QueueState*, std::string>> touched_meters_;   // to be written with this batch
  // Keys with waiting jobs that are closed by their rates, by opening time; and keys whose meters
  // are not new, by the time when they are dropped.
  std::set<std::pair<WallTime, LimitKey*>> key_openings_, key_ends_;
  std::map<std::string, WallTime> opened_keys_;       // queues of such keys, until reported
  WallTime latest_wall_;                              // latest time read from the clock,
  bool clock_is_back_ = false;                        // whether the clock was set back since
  std::map<std::int64_t, std::string> finishing_;     // prune_at → ids, of this batch
  std::vector<JobId> ended_, brief_, made_, again_;   // see Effects
  std::vector<JobId> quarantined_, left_quarantine_;  // as in Effects; the second includes ended
                                                      // jobs
  std::vector<JobId> followed_;                       // ended by the current operation
  std::vector<NewJob> posted_;                        // by the completions of the current operation
  std::vector<JobId> watched_;                        // ended by the current operation
  std::vector<EndedJob> ends_;                        // of the batch, watched by triggers
  std::vector<TriggerWatch> watches_;                 // by name
  std::unordered_map<std::string, NamedLease> named_leases_;
  std::set<std::pair<Instant, std::string>> lease_ends_;  // of held and of dropped ones
  std::size_t released_leases_ = 0;                       // without a value
  std::set<std::string> touched_leases_;
  std::vector<std::string> freed_leases_;                                // in this batch
  std::vector<EndedInSession> left_sessions_;                            // by the current operation
  std::unordered_map<std::int64_t, std::unique_ptr<Session>> sessions_;  // by id
  std::unordered_map<SessionPlace, Session*, HashSessionPlace> sessions_by_key_;
  std::unordered_map<std::int64_t, std::set<JobId>> session_queues_;  // by id; no empty ones
  std::deque<std::int64_t> kept_sessions_;  // in memory but not held: eviction order
  std::vector<Session*> batch_sessions_;    // used by this batch
  std::set<std::pair<Instant, std::int64_t>> hold_ends_;
  bool sessions_touched_ = true;
  bool sessions_lag_ = false;  // some rows are out of date; marked in the store
  bool loaded_ = false;        // memory matches the database
  // Locked by each batch, and by readers that need session data that is not in rows.
  mutable Mutex sessions_mutex_;
  WallTime next_forgotten_ = WallTime::never();
  std::vector<EndedStep> ended_steps_;         // by the current operation
  std::vector<WorkflowId> changed_workflows_;  // see Effects
  std::vector<std::string> resumed_;           // see Effects
  std::vector<std::string> alarms_;
  WorkflowId next_workflow_ = 1;
  bool workflows_touched_ = true;
  WallTime next_workflow_wake_ = WallTime::never(), next_workflow_prune_ = WallTime::never();
  std::map<std::string, ScheduleState> schedules_;
  std::unordered_map<std::int64_t, ScheduleState*> schedules_by_id_;
  std::unordered_map<JobId, ScheduleState*> linked_jobs_;   // live jobs of schedules
  std::set<std::pair<WallTime, std::int64_t>> fire_order_;  // schedules not paused: next_fire, id
  std::map<std::string, TouchedSchedule> touched_schedules_;
  Tokens tokens_;
  AuditState audit_;
  bool tokens_touched_ = true, audit_touched_ = false;
  BodyCache bodies_;
  WallTime audit_due_ = WallTime::never();  // when the oldest record must be pruned
  const OperationResult* about_ = nullptr;  // of this batch: the object of the next Audit,
  std::string image_before_;                // and its image before the operation
  bool republish_ = true;                   // publish everything again
  bool due_touched_ = true, expiring_touched_ = true, finished_touched_ = true;
  WallTime next_due_ = WallTime::never(), next_expiry_ = WallTime::never(),
           next_prune_ = WallTime::never();

  // published state
  RunningJobs running_;
  mutable Mutex published_mutex_;
  std::map<std::string, QueueStats> published_queues_ MS_GUARDED_BY(published_mutex_);
  std::map<std::string, NamedLease> published_leases_ MS_GUARDED_BY(published_mutex_);
  std::map<std::string, PublishedSchedule> published_schedules_ MS_GUARDED_BY(published_mutex_);
  std::set<std::pair<WallTime, std::string>> published_due_ MS_GUARDED_BY(published_mutex_);
  std::shared_ptr<const Tokens> published_tokens_ MS_GUARDED_BY(published_mutex_);
  AuditState published_audit_ MS_GUARDED_BY(published_mutex_);
  std::unordered_map<std::int64_t, Instant> published_holds_ MS_GUARDED_BY(published_mutex_);
  std::map<std::pair<std::string, std::string>, LimitKeyInfo> published_keys_
      MS_GUARDED_BY(published_mutex_);
  std::map<std::string, PublishedBreaker> published_breakers_ MS_GUARDED_BY(published_mutex_);
  std::string published_move_ MS_GUARDED_BY(published_mutex_);
  std::atomic<std::int64_t> tokens_version_{0};
  mutable Mutex readers_mutex_;
  mutable std::vector<std::unique_ptr<Reader>> readers_ MS_GUARDED_BY(readers_mutex_);
};

}  // namespace mainspring::sql
