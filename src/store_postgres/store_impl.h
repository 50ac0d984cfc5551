// PostgresStore: declarations shared by its .cc files; its data is in store_state.h. apply.cc runs
// a batch; jobs.cc and flush.cc handle the rows of jobs that a transaction has loaded; the other
// files implement the operations.
//
// An operation loads rows of jobs with job() or jobs_by_id(), which lock them, and changes them in
// memory. flush() writes the differences to all tables that depend on them (ready, due, expiring,
// finished, dead_letter, job_counts), with arrays and without waiting. Before an operation selects
// rows by a condition in the database, it calls flush().
#pragma once

#include <functional>
#include <map>
#include <set>
#include <unordered_set>

#include "api/audit_images.h"
#include "api/program_end.h"
#include "model/named_claim.h"
#include "store_postgres/store_state.h"
#include "store_postgres/trigger_rows.h"
#include "store_postgres/workflow_rows.h"

namespace mainspring::pg {

class PostgresStore final : public SharedStore, private StoreState {
  friend class PostgresWorkflowRows;
  friend class PostgresTriggerRows;

 public:
  PostgresStore(PostgresOptions options, Log& log, DatabaseClock* clock);
  ~PostgresStore() override;
  void open(Now now);  // throws PgError or Error

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
  Result<std::vector<Job>> whole(const std::vector<JobId>& ids) const override;
  void offer_history(HistoryRowsPtr rows, HistoryWrite when) override;
  Result<std::vector<HistoryCounts>> history(const HistoryRead& read, WallTime now) const override;
  Result<RecentCounts> recent(WallTime from) const override;
  Result<MarkPage> marks(const MarkFilter& filter) const override;
  Result<std::vector<SavedView>> views() const override;
  HistoryKept history_kept() const override { return options_.store.history; }
  Result<std::vector<JobFact>> facts(const std::vector<JobId>& ids) const override;
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
  std::int64_t tokens_version() const override { return tokens_version_.load(); }
  Result<AuditPage> audit(const AuditFilter& filter, AuditOrder order, int limit,
                          std::int64_t from) const override;
  AuditState audit_state() const override;
  Result<VerifyReport> verify() const override { return verify_showing({}); }
  Result<VerifyReport> verify_showing(const VerifyProgress& progress) const override;
  Result<void> backup(const std::string& directory) const override;
  std::string moved_to() const override;
  std::int64_t commits() const override { return commits_.load(); }
  std::int64_t reads() const override { return reads_.load(); }

  void heard(const ChangeHints& what) override;
  void forget_claims(const std::vector<std::pair<JobId, Token>>& completed) override;
  ChangeHints take_news() override;
  Result<ChangeHints> refresh(Now now) override;
  void say(std::string what) override { says_ = std::move(what); }
  Result<std::vector<Said>> others_say() const override;
  std::int64_t node_number() const override { return node_; }
  Result<Durability> durability() const override;
  Result<StoreHealth> health() const override;
  bool away() const override { return away_.load(); }
  bool blocked() const override { return blocked_; }

 private:
  // -- batches (apply.cc)
  Result<BatchReport> apply_batch(std::span<const Operation> batch, Now now);
  Result<BatchReport> try_batch(std::span<const Operation> batch);
  void run_batch(std::span<const Operation> batch, BatchReport& report);
  void hold();  // from here on, a lost commit of the batch is looked up by its number
  void ensure_connected(Instant until);
  void reconnect();                                          // throws PgError
  std::unique_ptr<Connection> connect(bool writable) const;  // throws PgError
  void pause_before_reconnect() const;
  void join();        // registers this node
  void start_over();  // resets every lease, as after a restart
  // The same while nodes are running, if the server has lost answered changes: outside of a
  // transaction, and within a batch's transaction.
  void look_for_losses();
  void reset_after_crash();
  void reload_copies();  // queues, kinds, totals, agenda: outside of a transaction
  // Checks whether this store has moved, outside of a transaction: after a statement was refused
  // with kMovedState, or when its versions show it. Records the new place.
  void look_for_move();
  void check_place();  // throws Error: moved, or an unfinished copy
  Error moved_error() const;
  void begin();  // a transaction, unless one is open; no round trip
  void commit(BatchReport& report);
  void commit_fast_path();
  // -- the history (history.cc)
  bool knows_history() const;  // all names in the offered history are known
  void write_history(BatchReport& report);
  void load_history_names();
  void prune_history();
  void roll_back() noexcept;
  void clear_batch();
  void settle_batch();
  // Whether this batch was committed. Fills in the answers that were lost.
  bool was_committed(std::span<const Operation> batch, BatchReport& report);
  void remember(BatchReport& report);  // applies after_ to memory
  void remember_lines();
  void drop_lease(JobId id);  // from memory
  void refresh_agenda();      // reads what after_ marks as unknown
  // Runs a statement of the transaction and waits for its rows, and for those of all earlier ones.
  Rows ask(const Statement& statement, const Params& params);
  // Queues a statement without using its answer; an error surfaces at the next wait.
  void tell(const Statement& statement, const Params& params);
  // Queues a statement; `then` receives the rows at the next wait.
  void later(const Statement& statement, const Params& params, std::function<void(Rows)> then);
  void settle();  // waits for all queued statements
  // Like tell(), and marks the batch as having something to commit. Not `durably`: the change may
  // be lost with the server, and is not counted in commits().
  void write(const Statement& statement, const Params& params, bool durably = true);
  void wrote(bool durably = true);

  // -- time
  std::int64_t wall() const { return now_.wall.us(); }
  void begin_at(Now now) { now_ = now, batch_start_ = steady_.now().instant; }
  std::int64_t lease_now() const { return lease_time(now_); }
  std::int64_t lease_time(Now now) const {
    return options_.lease_clock == PostgresOptions::LeaseClock::wall ? now.wall.us()
                                                                     : now.instant.us();
  }
  // Converts a time of the lease clock to this process's steady time.
  Instant to_instant(std::int64_t lease_time_us) const;

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
  OperationResult operator()(const MoveDue& op);
  OperationResult operator()(const RescueExpired& op);
  void look_later(const Ints& ids, std::int64_t at);  // notes when to check whether their leases
                                                      // have ended
  // -- standstill.cc
  OperationResult operator()(const ExtendLeases& op);
  OperationResult operator()(const AllowRestart& op);
  void note_extended(const Rows& rows);
  void note_end_of_lease(JobId id, std::int64_t until);
  // The end of a lease that is renewed now for `length`.
  std::int64_t end_of(std::int64_t length) const {
    return std::max(lease_now() + length, allowed_until_);
  }
  std::int64_t end_of_lease(const std::string& name, Duration ttl) const;  // by name
  std::int64_t restart_allowance();  // initial length of leases if no other node is alive
  void forget_allowance();
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

  struct Claiming;
  // -- limits.cc
  bool is_closed(const QueueInfo& queue) const;
  static bool is_limited(const Claiming& claiming);
  using Rooms = std::map<int, Room>;  // capacity by queue id
  Rooms rooms(const std::vector<const QueueInfo*>& queues);
  void note_dry(const Claiming& claiming);
  void begin_claim(const std::shared_ptr<Claiming>& claiming);
  void lock_limited(const std::vector<std::shared_ptr<Claiming>>& run);
  bool may_close_later(const std::vector<std::shared_ptr<Claiming>>& run, bool is_last) const;
  void claim_limited(const std::shared_ptr<Claiming>& claiming);

  // -- search_index.cc
  bool has_room_for_searchable(const QueueInfo& queue, const QueueLimits& limits);
  void set_searchable(const QueueInfo& queue, const std::vector<std::string>& paths);
  bool step_search(int limit);  // true: there is more to do

  // -- deferred.cc
  std::optional<Error> cannot_defer_all(const Finish& op);
  void defer_attempt(LoadedJob& job, const Defer& defer);
  void undefer(LoadedJob& job);
  OperationResult claim_named(const Claim& op);
  // -- edits.cc
  // The error if the job's version is another one; 0 = any will do.
  static std::optional<Error> has_another_version(const JobRow& row, std::int64_t version);
  void edit_job(LoadedJob& held, const EditJob& op);
  void forget_attempts(JobRow& row, int max_attempts);
  ClaimResult give_named(const Claim& op, LoadedJob& job, std::string key, Rooms rooms);

  // -- costs.cc
  int cost_of(const QueueInfo& queue, std::int64_t kind);
  int cost_of_job(const QueueInfo& queue, JobId id);
  std::map<int, std::int64_t> extra_of_queues(const Ints& ids);
  std::map<std::string, std::int64_t> taken_by_keys(const QueueInfo& queue, const Texts& keys);
  void note_costs(const std::vector<ClaimedJob>& jobs);
  void heavy_left(const JobRow& row);
  void change_costs(const QueueInfo& queue, const QueueLimits& limits);

  // -- quarantine.cc
  void lose_attempt(LoadedJob& job, int lost, std::int64_t since);
  static void leave_quarantine(JobRow& row);
  void flush_quarantine(const std::vector<LoadedJob*>& touched);
  bool quarantine_is_taken(int queue);
  int release_quarantined(int limit);
  void look_for_releases();
  void load_next_release();

  void count_started(QueueInfo& queue, int begins);
  void note_rate(QueueInfo& queue);
  Room room(const QueueInfo& queue);
  void settle_openings();
  void open_queue(const QueueInfo& queue);
  WallTime next_opening() const;
  bool keys_open_now(const QueueInfo& queue) const;

  // -- breakers.cc
  enum class BreakerLock : std::uint8_t { waits, if_free };
  void take_breakers(const std::set<std::string>& wanted, BreakerLock lock);
  void fold_breakers(const std::set<std::string>& wanted);
  void take_breakers_of(const std::vector<const QueueInfo*>& queues);
  LoadedBreaker* take_breaker(const std::string& name);
  void change_breaker(const QueueInfo& queue, const std::string& name);
  int room_under_breaker(const QueueInfo& queue) const;
  std::map<std::string, int> shared_rooms(const Claiming& claiming) const;
  void begin_under_breaker(int queue, BreakerMeter::Probe attempt);
  void note_for_breaker(const JobRow& row, const Outcome& outcome);
  void touch_breaker_of(const QueueInfo& queue);
  void flush_breaker_notes();
  void settle_breakers();
  void open_queues_of(const std::string& breaker);
  void load_breakers();
  void remember_breakers();
  bool is_held_by_breaker(const QueueInfo& queue) const;
  void doubt_breaker_of(const QueueInfo& queue);
  WallTime next_half_open() const;
  int step_breakers(int limit);

  // -- limit_keys.cc
  using KeyRooms = std::map<std::string, Room>;  // capacity by limit key
  void room_of_keys(const QueueInfo& queue, const std::set<std::string>& keys, KeyRooms& rooms);
  Picked pick_keyed(const QueueInfo& queue, std::vector<KeyedJob> jobs, int most, KeyRooms rooms,
                    Room room);
  std::vector<KeyedJob> look_at_keys(const QueueInfo& queue, const std::optional<Ints>& kinds,
                                     int most, bool& more);
  void look_at_keys(Claiming& claiming, const std::optional<Ints>& kinds);
  void note_keys(const Claiming& claiming);
  void drop_held(const QueueInfo& queue, const std::vector<KeyedJob>& void_rows);
  void move_held(const QueueInfo& queue, const std::vector<KeyedJob>& picked,
                 std::vector<KeyedJob> passed);
  void change_key_limits(const QueueInfo& queue, const QueueLimits& limits);

  // -- key_rates.cc
  KeyMeters meters_of(const QueueInfo& queue, const std::vector<std::string>& keys);
  void count_started(const QueueInfo& queue, const std::map<std::string, int>& keys);
  void note_opening(const QueueInfo& queue, std::optional<WallTime> at);  // of a key
  bool open_for_costs(const QueueInfo& queue);
  bool open_keys();  // true: there are more

  // -- order.cc
  bool has_order(const Claiming& claiming) const;
  int priority_now(const QueueInfo& queue, const KeyedJob& job) const;
  std::vector<KeyedJob> fronts(const QueueInfo& queue, const std::optional<Ints>& kinds,
                               std::int64_t most, std::optional<KeyedJob>& seen_to);
  Rows held_lines(const QueueInfo& queue, const std::optional<Ints>& kinds, KeyRooms& rooms);
  std::vector<KeyedJob> held_in_order(const QueueInfo& queue, const Rows& lines, int depth,
                                      const KeyRooms& rooms, bool& unfinished);
  bool pick_fair(const QueueInfo& queue, std::vector<KeyedJob> jobs, int most,
                 const KeyRooms& rooms, Room room, FairKeys fair_keys, Picked& picked);
  std::vector<KeyedJob> look_in_fair(const QueueInfo& queue, const std::optional<Ints>& kinds,
                                     int most, const Room& room, const FairKeys& fair_keys,
                                     bool& more);
  std::vector<KeyedJob> look_at_aged_keys(const QueueInfo& queue, const std::optional<Ints>& kinds,
                                          int most, const Room& room, bool& more);
  void take_while_fits(const QueueInfo& queue, Room room, std::vector<KeyedJob>& jobs);
  void look_in_order(Claiming& claiming, const std::optional<Ints>& kinds);
  FairKeys fair_keys_of(const QueueInfo& queue);
  void note_fair_keys(Claiming& claiming);

  // -- loaded jobs (jobs.cc)
  LoadedJob* job(JobId id);                        // nullptr = not found
  LoadedJob* loaded(JobId id);                     // like job(), only for already loaded ones
  void jobs_by_id(const std::vector<JobId>& ids);  // loads and locks them in one round trip
  void lock_jobs(Ints ids);                        // the same, for jobs not yet loaded
  void load_unit(const Rows& rows);
  std::int64_t new_ids(std::size_t count);  // reserves; next_id() returns them
  // Loads and locks them with the next answers; then calls `then`.
  void later_lock_jobs(Ints ids, std::function<void()> then);
  void later_new_ids(std::size_t count);  // in the next round trip
  void take_new_ids(const Rows& rows, int first = 0);
  JobId next_id();
  LoadedJob& add_job(const NewJob& job, WallTime run_at, JobState state, std::int64_t schedule,
                     int flags = 0);
  void request_cancel(LoadedJob& job, std::string_view reason);  // for a running job
  JobRow& touch(LoadedJob& job);                                 // increments its version
  void set_waiting(LoadedJob& job, JobState state, std::int64_t run_at);
  void begin_again(LoadedJob& job, JobState state, std::int64_t run_at);
  bool give_back_unstarted(LoadedJob& held);
  // Ends a job with all effects: retention, ended, the schedule that waits for it.
  void end_job(LoadedJob& job, JobState state, std::string_view reason,
               std::string_view description, std::string_view result = "");
  void leave_worker(LoadedJob& job, JobState state);
  void fail_attempt(LoadedJob& job, std::string_view message, std::optional<Duration> after,
                    const ProgramEnd& program);
  void add_error(const JobRow& job, std::string_view message, const ProgramEnd& program);
  void set_reason(LoadedJob& job, std::string_view reason, std::string_view description);
  std::string cancel_reason(JobId id);  // of the cancel request
  static JobRow read_row(const Rows& rows, int row);
  Error missing(JobId id);
  static Error no_job(JobId id);
  OperationResult take_back(LoadedJob& held);
  bool take_unique_key(LoadedJob& job);
  void revive(LoadedJob& job);

  // -- in which order they are locked (locks.cc)
  // As jobs_by_id(), without waiting; those that others have locked.
  enum class Ends : bool { no, maybe };
  std::unordered_set<JobId> free_jobs_by_id(const std::vector<JobId>& ids, Ends ends);
  void make_kinds(std::span<const Operation> batch);
  void lock_named_jobs(std::span<const Operation> batch);

  // -- loaded_sessions.cc. A transaction that changes the head or the waiting jobs of a session
  // locks the session's row, before any job.
  void lock_sessions(std::span<const Operation> batch);
  void name_sessions(const Operation& operation, SessionsNamed& named);
  std::vector<SessionOfJob> sessions_of(const Ints& jobs);
  std::vector<JobId> jobs_of_sessions() const;  // that may change with the locked sessions
  // Loads sessions, and creates missing ones, in one round trip. `lines`: with their first waiting
  // jobs.
  void take_sessions(const std::set<SessionName>& names, bool lines = true);
  // Like take_sessions(), without waiting, and only existing ones.
  void take_free_sessions(const std::set<SessionName>& names);
  std::unordered_set<JobId> take_sessions_of_free(const Ints& jobs, Ends ends);
  void read_locked_sessions(const std::set<SessionName>& names);
  void keep_sessions(const Rows& rows);
  LoadedSession& take_session(const SessionName& name);
  LoadedSession& session_of(const JobRow& row) { return take_session({row.queue, row.session}); }
  SessionRow& touch(LoadedSession& session);
  // Adds a new or revived job; returns its first state, which is `begins` if it can start.
  JobState enter_session(LoadedSession& session, JobId id, JobState begins);
  // The state of the head that would otherwise be in `state`.
  JobState state_of_head(const LoadedSession& session, JobState state);
  void join_line(LoadedSession& session, JobId id);
  void leave_ready_queue(LoadedSession& session, JobId id);
  // After each operation: chooses new heads for ended ones.
  void settle_sessions();
  void end_head(const EndedHead& ended);
  void pass_heads(std::set<SessionName> open);
  bool give_fair(LoadedSession& session, JobId id);
  void flush_sessions();
  void drop_empty_sessions();
  std::int64_t session_id(const JobRow& row);
  void remember_session_lines();
  void load_dry_lines();  // at open
  void hear_line(const std::string& line);
  bool queue_has_available(const QueueInfo& queue, const std::string& line) const;
  void gain_queue(const std::string& line);
  void dry_line(const std::string& line);

  // -- sessions.cc
  bool holds(const LoadedSession& session, Token token) const;
  LoadedSession* find_session(const SessionKey& key);  // nullptr = the queue does not exist
  SessionGrant grant(const SessionKey& key, LoadedSession& session, bool held);
  Token new_session_token();
  void hold_session(LoadedSession& session, Token token, const std::string& worker, Duration lease);
  void renew_hold(LoadedSession& session, Duration lease);
  void end_hold(LoadedSession& session);
  void stop_head(LoadedSession& session);
  void gain_lines_of(const QueueInfo& queue);
  void set_session_state(LoadedSession& session, const std::string& state);
  bool has_room_for_hold();
  bool rescue_sessions();          // true = there may be more
  bool prune_sessions(int limit);  // true: the limit was reached
  OperationResult claim_head(const Claim& op, const SessionKey& key);
  OperationResult accept_next(const Claim& op, const std::string& queue);
  bool take_one_claimed(const Claim& op, const Rows& rows, std::int64_t until, ClaimResult& into);
  void count_of_session(QueueInfo& queue, const ClaimResult& given);
  Params claim_params(const Claim& op, JobId id, std::int64_t until) const;
  // Checks the sessions that this node considers empty, and adds those that are not.
  void ask_lines(ChangeHints& heard);

  // -- follow_ups.cc After each operation: makes what it posted, and the follow-ups of the jobs
  // that it ended.
  void make_follow_ups();
  void read_followed(std::vector<EndedJob>& ended);
  // For loaded jobs that have news and follow-ups.
  std::map<JobId, Progress> read_progress(const std::vector<Renewal>& leases);
  void note_news(const JobRow& row, const Renewal& renewal, std::map<JobId, Progress>& last);
  std::vector<NewJob> follow_all_news();

  // -- workflows.cc. A transaction that changes a workflow locks its row, after the jobs that
  // ended. After each operation: processes the ends of steps; true if there were any.
  bool settle_workflows();
  void write_workflows(WorkflowRules& rules);
  template <class F>
  OperationResult run_workflow(F&& what);
  void lock_workflows(std::span<const Operation> batch);  // that several operations affect
  bool ends_step(const Operation& operation) const;
  bool prune_workflows(int limit);  // true: the limit was reached
  Params retentions() const;

  // -- triggers.cc
  template <class Op>
  OperationResult run_trigger(const Op& op);
  void lock_triggers(std::span<const Operation> batch);
  // Triggers on ends of jobs. Loaded for a batch that may end jobs, after its locks.
  void look_for_watches(std::span<const Operation> batch);
  void ask_watches();
  const std::vector<TriggerWatch>& watches();
  OperationResult forget_watches(OperationResult result);
  void note_end(const LoadedJob& job, const QueueInfo& queue, std::string_view result,
                std::string_view reason, std::string_view description);
  void fire_ends();  // after the last operation of a batch

  // -- their differences, into the tables (flush.cc)
  void flush();
  // For string_to_array(…, E'\\x1f').
  static std::string join_tags(const std::vector<std::string>& tags);
  void flush_bodies(const std::vector<LoadedJob*>& fresh);
  void flush_rows(const std::vector<LoadedJob*>& changed);
  void flush_replaced(const std::vector<LoadedJob*>& changed);
  void flush_ready(const std::vector<LoadedJob*>& all);
  void flush_times(const std::vector<LoadedJob*>& all);  // due, expiring
  void flush_ends(const std::vector<LoadedJob*>& all);   // dead letter, finished
  void flush_removed(const std::vector<LoadedJob*>& all);
  void count(const JobRow& row, int delta);
  void flush_job_counts();

  // -- fast_path.cc: batches of only simple operations: one round trip with the commit
  struct Open;  // what a fast-path batch left open at its commit
  struct Completing;
  bool takes_fast_path(std::span<const Operation> batch);
  bool knows_queues(const Claim& op) const;
  bool knows_all_of(const Enqueue& op) const;
  void close(BatchReport& report);
  void close_ends(Open& rest, BatchReport& report);
  void close_claims(Open& rest, BatchReport& report);
  static void answer_what_is_known(Completing& run);
  void leave_open(const PgError& error);
  static Error not_known();

  // -- fast_path_sessions.cc: those of jobs of sessions
  struct Columns;
  void lock_fast_path_sessions(std::span<const Operation> batch);
  void send_into_sessions(const Columns& columns, std::span<const Operation> operations,
                          std::span<OperationResult> answers);
  void note_entered(Open& open, const Rows& rows);
  void note_heads(int queue, std::int64_t available, std::int64_t heads);
  void send_heads(const std::shared_ptr<Completing>& run);
  void note_heads(Completing& run, const Rows& rows);
  void look_at_entered(std::span<const Operation> operations, std::span<OperationResult> answers);
  void note_state(const NewJob& job, JobState state, WallTime run_at);
  void note_lost_heads(const Completing& run);

  // -- enqueue.cc
  // As many of the operations as can be folded into one statement; 0 = none.
  std::size_t enqueue_run(std::span<const Operation> rest, std::vector<OperationResult>& results,
                          bool nothing_else);
  EnqueueResult take_columns(const Enqueue& op, Columns& columns);
  void send_columns(const Columns& columns, bool packs, bool keep_ids,
                    std::function<void(Rows)> then);

  // -- changes without hints (shared.cc)
  Ints quiet_queues() const;
  void hear_waiting(const Ints& quiet, const Rows& waiting, ChangeHints& heard);
  std::string fold_counts();  // why it failed; "" = it did not

  // -- jobs that were enqueued together (packs.cc)
  bool may_pack(const Columns& columns, std::size_t requests) const;
  bool may_hold_packs(const Claiming& claiming) const;
  void hold_packs_of(const Ints& jobs);  // so that no claim takes jobs from them
  void undo_packs(const std::shared_ptr<Claiming>& claiming, std::int64_t jobs,
                  const std::optional<Ints>& kinds, bool from_beginning);
  // Call before a claim under limits reads the ready queue.
  void give_entries(const std::shared_ptr<Claiming>& claiming, const std::optional<Ints>& kinds);
  std::int64_t note_packs(Claiming& claiming, const Rows& rows);
  static ClaimResult take_result(Claiming& claiming);
  bool has_room(std::int64_t jobs, std::int64_t reserved = 0);
  Error too_many() const;  // the error if there is no capacity
  static bool has_sessions(const Enqueue& op);
  static bool is_simple(const Enqueue& op);
  static bool is_simple_but_for_sessions(const Enqueue& op);
  std::optional<OperationResult> replay_idempotent(const Enqueue& op);
  EnqueuedJob enqueue_one(const NewJob& job);
  // The key's row (id, until, state of a removed job), locked and created if needed; id 0 = free.
  std::optional<Error> key_in_use(const Enqueue& op);
  Rows lock_unique_key(std::int64_t queue, std::string_view key);
  std::optional<EnqueuedJob> enqueue_unique(const NewJob& job, WallTime run_at);
  void replace_job(LoadedJob& held, const NewJob& job);
  void postpone_expiry(JobRow& row, const NewJob& job, WallTime run_at);
  WallTime run_at_of(const NewJob& job) const;

  // -- claim.cc
  void send_claim(const std::shared_ptr<Claiming>& claiming, bool from_the_beginning);
  void take_claimed(Claiming& claiming, const Rows& rows, bool of_packs = false);
  void keep_heads_in_sight(const Claiming& claiming, QueueHint& hint) const;
  bool wants_more(const Claiming& claiming);
  void look_again(const std::shared_ptr<Claiming>& claiming);
  void read_checkpoints(Claiming& claiming);
  void find_claimed(Claiming& claiming, std::unordered_set<JobId>& given);
  std::vector<const QueueInfo*> queues_named(const Claim& op);
  std::optional<Ints> kinds_named(const Claim& op);  // nullopt = every kind
  bool may_look(const Claiming& claiming);           // from the beginning of the ready queue
  bool must_look(const Claiming& claiming);
  std::size_t claim_run(std::span<const Operation> rest, std::vector<OperationResult>& results);
  ClaimedJob read_claimed(const Rows& rows, int row, const Claim& op, std::int64_t until);
  void forget_given(std::size_t claims);  // examines this many; deletes the rows of ended ones
  void remember_given();                  // applies after_.given after the commit

  // -- complete.cc
  bool completes_simply(const Finish& op, const Completing& run, bool of_sessions) const;
  bool completes_simply(const Finish& op) const;  // as the first of a run
  void take_completions(const Finish& op, Completing& run) const;
  void send_completions(const std::shared_ptr<Completing>& run);
  void note_completed(Completing& run, const Rows& rows);
  void answer_completions(Completing& run);

  // -- finish.cc
  std::size_t finish_run(std::span<const Operation> rest, std::vector<OperationResult>& results);
  void renew_one(LoadedJob& job, const Renewal& renewal, Duration length, bool kept,
                 RenewResult& result);
  KnownMemos read_memos(const std::vector<Renewal>& leases);
  // True: at least one is new.
  bool keep_memos(JobRow& row, const Renewal& renewal, KnownMemos& known, RenewResult& result);
  void drop_memos(JobRow& row);
  void finish_one(LoadedJob& job, const Outcome& outcome);

  // -- steps.cc
  bool prune_one(JobId id, std::int64_t finished_at);

  // -- catalog.cc: queues and kinds
  const QueueInfo* find_queue(const std::string& name);  // nullptr = not found
  const QueueInfo& queue_of(const std::string& name);    // creates a missing one
  void note_brief(const QueueInfo& queue);
  bool has_queue(const std::string& name);           // queries the database
  QueueInfo& locked_queue(const std::string& name);  // created if needed; as in the database
  const QueueInfo& queue_by_id(int id);
  const std::string& queue_name(int id) { return queue_by_id(id).name; }
  int kind_of(const std::string& name);  // creates a missing one
  const std::string& kind_name(int id);
  void load_queues();
  void load_kinds();
  void look_up_kinds();  // within a transaction: another node may have made some
  void take_kinds(const Rows& rows);
  void changed_queue(const QueueInfo& queue);  // writes it, and notifies other nodes

  // -- named_leases.cc
  std::optional<Error> fenced(const Fence& fence);             // nullopt: the fence holds
  void reset_leases(std::int64_t at, std::int64_t allowance);  // no worker could renew
  void load_named_leases();                                    // the copy for lease_free_at()
  void remember_leases();  // applies after_.leases after the batch
  enum class LeaseLock : std::uint8_t { shared, exclusive };
  void take_leases(const std::vector<std::string>& names, LeaseLock lock);  // in one round trip
  LoadedLease& take_lease(const std::string& name, LeaseLock lock);
  LoadedLease* find_held(const std::string& name, const std::string& holder, Token token);
  std::optional<LeaseGrant> grant_lease(const AcquireLease& op, LoadedLease& lease);
  LeaseGrant extend_lease(const std::string& name, LoadedLease& lease, Duration ttl);
  void save_lease(const std::string& name, const LoadedLease& lease);
  void end_lease_at(LoadedLease& lease, std::int64_t ends);
  bool make_room_for_lease();
  // For reads; nullopt = use the database's clock, the only reliable one for a reader.
  std::optional<std::int64_t> read_at(Instant now) const;
  void sweep_leases();

  // Locks what several operations of a batch on leases or schedules need, in few round trips.
  void look_ahead(std::span<const Operation> batch);

  // -- schedules.cc. An operation that decides about a schedule locks its row.
  void take_schedules(const std::vector<std::string>& names);  // in one round trip
  void take_schedules(const Ints& ids);                        // and their jobs
  static LoadedSchedule read_schedule(const Rows& rows, int row);
  void keep_schedules(const Rows& rows);
  LoadedSchedule& take_schedule(const std::string& name);
  LoadedSchedule* take_schedule(const std::string& name, const Within& within);
  // Loads the live jobs of these loaded schedules.
  void know_links(const std::vector<LoadedSchedule*>& schedules);
  std::optional<OperationResult> create_schedule(const PutSchedule& op);
  OperationResult replace_schedule(LoadedSchedule& schedule, const PutSchedule& op);
  void set_paused(LoadedSchedule& schedule, bool paused, std::string reason);
  void save_schedule(const LoadedSchedule& schedule);
  void add_ledger_rows(LoadedSchedule& schedule, const std::vector<LedgerRow>& rows);

  // -- firing.cc
  struct Firing;
  void know_others(const std::vector<std::string>& names);
  static bool minds_others(const FireSchedule& op, const LoadedSchedule& schedule);
  bool ends_others(const FireSchedule& op) const;
  void add_unknown_ticks(const FireSchedule& op, LoadedSchedule& schedule, Ints& ids,
                         Ints& nominals) const;
  void ask_fired(const Ints& ids, const Ints& nominals);
  JobId decide(Firing& firing, const Tick& planned);
  std::string refuse_tick(Firing& firing, WallTime nominal, JobState& begins);
  static JobId has_run(const Firing& firing, WallTime nominal);
  std::size_t sure_to_fire(const Firing& firing) const;
  void reserve_for(std::span<const Operation> batch);
  void stop_others(LoadedSchedule& schedule, Overlap policy);
  JobId fire_tick(Firing& firing, const Tick& tick, JobState begins);
  void write_new_links(LoadedSchedule& schedule);

  // -- schedule_links.cc: the jobs of schedules that have not ended
  // Of a job that a schedule made (row.schedule != 0):
  void schedule_job_ended(LoadedJob& job);    // waiting jobs start in settle_links()
  void schedule_job_revived(LoadedJob& job);  // an operator's retry made it live again
  // Runs after each operation, and before any question about what can be claimed.
  void settle_links();
  void settle_link(LoadedSchedule& schedule, const EndedLink& ended);
  LoadedSchedule* known_schedule(std::int64_t id);
  void begin_next_waiting(LoadedSchedule& schedule);
  void begin_waiting(LoadedSchedule& schedule, JobId id);
  void guard_waiting(LoadedSchedule& schedule);

  // -- schedule_copies.cc: what reads answer from
  bool load_schedules();           // false: it was up to date
  void remember_schedules();       // applies after_ after the commit
  WallTime next_schedule() const;  // the earliest next_fire of schedules not paused
  void publish_schedule(const std::string& name, std::int64_t id, ScheduleInfo info)
      MS_REQUIRES(published_mutex_);
  void unpublish_schedule(const std::string& name) MS_REQUIRES(published_mutex_);
  void publish_link(const LinkChange& change) MS_REQUIRES(published_mutex_);
  void load_links(bool all);

  // -- access.cc, audit.cc
  void load_tokens();  // the copy for tokens()
  Tokens& loaded_tokens();
  void save_token(const TokenRecord& token);
  void publish_tokens(std::shared_ptr<const Tokens> all);
  void remember_access();  // applies the tokens and audit of after_
  // Saves the image of the object of an Audit that follows the operation `at`.
  void look_before(std::span<const Operation> batch, std::size_t at);
  enum class ImageLock { created, taken, left_alone };  // of the object's row
  static ImageLock lock_for(const Operation& operation);
  std::string image_of(const AuditObject& object, ImageLock lock);  // "" = not found
  std::string image_of_queue(const std::string& name, ImageLock lock);
  std::string image_of_job(JobId id);
  void append_audit(AuditRecord record);
  WallTime next_resume() const;
  // Resumes up to `limit` queues whose pause has ended; returns how many.
  int resume_queues(int limit);
  AuditState& loaded_chain();
  bool prune_audit(int limit);  // true: the limit was reached
  void load_audit();

  // -- reads (read.cc): connections of their own
  struct Reader;
  std::unique_ptr<Reader> take_reader() const;  // throws PgError
  void give_back(std::unique_ptr<Reader> reader) const;
  void drop_readers(std::unique_ptr<Reader> failed) const;
  // Calls `read(Connection&)`; tries once more on a new connection if the old one was lost. Defined
  // in reader.h.
  template <class Read>
  auto with_reader(Read read) const -> Result<decltype(read(std::declval<Connection&>()))>;

  PostgresWorkflowRows workflows_{*this};
  PostgresTriggerRows trigger_rows_{*this};
  std::shared_ptr<Open> open_;
  mutable Mutex readers_mutex_;
  mutable CondVar reader_back_;
  mutable std::vector<std::unique_ptr<Reader>> readers_ MS_GUARDED_BY(readers_mutex_);  // idle
  mutable int readers_made_ MS_GUARDED_BY(readers_mutex_) = 0;  // idle and in use
};

}  // namespace mainspring::pg
