// PostgresStore: the pieces that its .cc files share; what it knows is in store_state.h. apply.cc
// is the frame of a batch; jobs.cc and flush.cc are the rows of jobs that a transaction has in
// hand; the other files are the operations.
//
// An operation takes rows of jobs in hand with job() or jobs_by_id(), which lock them, and changes
// them in memory; flush() writes the differences to every table that follows from them (ready, due,
// expiring, finished, dead_letter, tallies), all with arrays, without waiting. What an operation
// selects by a condition it asks the database for, behind a flush().
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
  Result<VerifyReport> verify() const override;
  Result<void> backup(const std::string& directory) const override;
  std::string moved_to() const override;
  std::int64_t commits() const override { return commits_.load(); }
  std::int64_t reads() const override { return reads_.load(); }

  void heard(const Heard& what) override;
  void let_go(const std::vector<std::pair<JobId, Token>>& completed) override;
  Heard take_news() override;
  Result<Heard> refresh(Now now) override;
  void say(std::string what) override { says_ = std::move(what); }
  Result<std::vector<Said>> others_say() const override;
  std::int64_t node_number() const override { return node_; }
  Result<Durability> durability() const override;
  Result<StoreHealth> health() const override;
  bool away() const override { return away_.load(); }

 private:
  // -- the frame (apply.cc)
  Result<BatchReport> apply_batch(std::span<const Operation> batch, Now now);
  Result<BatchReport> try_batch(std::span<const Operation> batch);
  void run_batch(std::span<const Operation> batch, BatchReport& report);
  void hold();  // the batch has a name that a lost commit is looked up by, from here on
  void ensure_connected(Instant until);
  void reconnect();                                          // throws PgError
  std::unique_ptr<Connection> connect(bool writable) const;  // throws PgError
  void pause_before_reconnect() const;
  void join();        // as a node
  void begin_anew();  // every lease, as after a restart
  // The same where nodes live and the server has lost what they had been answered: outside of a
  // transaction, and within one of a batch.
  void look_for_losses();
  void begin_anew_behind_crash();
  void reload_copies();  // queues, kinds, totals, agenda: outside of a transaction
  // Whether this store goes on elsewhere, outside of a transaction: asked where a statement was
  // refused for it (kMovedState), and where its versions say so. Notes it.
  void look_for_move();
  void check_place();  // throws Error: it has moved, or is an unfinished copy
  Error moved_error() const;
  void begin();  // a transaction, unless one is open; costs no round trip
  void commit(BatchReport& report);
  void commit_plain();
  // -- the history (history.cc)
  bool knows_history() const;  // what is offered needs no look at the names
  void write_history(BatchReport& report);
  void load_history_names();
  void prune_history();
  void roll_back() noexcept;
  void clear_batch();
  void settle_batch();
  // Was this batch committed? Fills in what its answer said, if that was lost.
  bool was_committed(std::span<const Operation> batch, BatchReport& report);
  void remember(BatchReport& report);  // after_ into memory
  void remember_lines();
  void drop_lease(JobId id);  // from memory
  void refresh_agenda();      // asks for what after_ says is not known any more
  // Runs a statement of the transaction and waits for its rows, and for those of all before it.
  Rows ask(const Statement& statement, const Params& params);
  // Queues one whose answer nobody needs; an error of it surfaces with the next wait.
  void tell(const Statement& statement, const Params& params);
  // Queues one; `then` gets the rows with the next wait.
  void later(const Statement& statement, const Params& params, std::function<void(Rows)> then);
  void settle();  // waits for all that was queued
  // As tell(), and the batch has something to commit. Not `durably`: it may be lost with the
  // server, and is not counted in commits().
  void write(const Statement& statement, const Params& params, bool durably = true);
  void wrote(bool durably = true);

  // -- time
  std::int64_t wall() const { return now_.wall.us(); }
  void begin_at(Now now) { now_ = now, begun_ = steady_.now().instant; }
  std::int64_t lease_now() const { return lease_time(now_); }
  std::int64_t lease_time(Now now) const {
    return options_.lease_clock == PostgresOptions::LeaseClock::wall ? now.wall.us()
                                                                     : now.instant.us();
  }
  // A time of the lease clock as this process's steady time.
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
  void look_later(const Ints& ids, std::int64_t at);  // whether their leases have ended
  // -- standstill.cc
  OperationResult operator()(const ExtendLeases& op);
  OperationResult operator()(const AllowRestart& op);
  void note_extended(const Rows& rows);
  void note_end_of_lease(JobId id, std::int64_t until);
  // When a lease ends that is renewed now for `length`.
  std::int64_t end_of(std::int64_t length) const {
    return std::max(lease_now() + length, allowed_until_);
  }
  std::int64_t end_of_lease(const std::string& name, Duration ttl) const;  // by name
  std::int64_t restart_allowance();  // with which leases start when no other node lives
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
  using Rooms = std::map<int, Room>;  // what may begin, of queues
  Rooms rooms(const std::vector<const QueueInfo*>& queues);
  void note_dry(const Claiming& claiming);
  void begin_claim(const std::shared_ptr<Claiming>& claiming);
  void lock_limited(const std::vector<std::shared_ptr<Claiming>>& run);
  bool may_close_later(const std::vector<std::shared_ptr<Claiming>>& run, bool is_last) const;
  void claim_limited(const std::shared_ptr<Claiming>& claiming);

  // -- deferred.cc
  std::optional<Error> cannot_defer_all(const Finish& op);
  void defer_attempt(JobInHand& job, const Defer& defer);
  void undefer(JobInHand& job);
  OperationResult claim_named(const Claim& op);
  // -- edits.cc
  // The error if the job's version is another one; 0 = any will do.
  static std::optional<Error> has_another_version(const JobRow& row, std::int64_t version);
  void edit_job(JobInHand& held, const EditJob& op);
  ClaimResult give_named(const Claim& op, JobInHand& job, std::string key, Rooms rooms);

  // -- costs.cc
  int cost_of(const QueueInfo& queue, std::int64_t kind);
  int cost_of_job(const QueueInfo& queue, JobId id);
  std::map<int, std::int64_t> extra_of_queues(const Ints& ids);
  std::map<std::string, std::int64_t> taken_by_keys(const QueueInfo& queue, const Texts& keys);
  void note_costs(const std::vector<ClaimedJob>& jobs);
  void heavy_left(const JobRow& row);
  void change_costs(const QueueInfo& queue, const QueueLimits& limits);

  // -- quarantine.cc
  void lose_attempt(JobInHand& job, int lost, std::int64_t since);
  static void leave_quarantine(JobRow& row);
  void flush_quarantine(const std::vector<JobInHand*>& touched);
  bool quarantine_is_taken(int queue);
  int release_quarantined(int limit);
  void look_for_releases();
  void load_next_release();

  void count_begun(QueueInfo& queue, int begins);
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
  BreakerInHand* take_breaker(const std::string& name);
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
  using KeyRooms = std::map<std::string, Room>;  // what may begin, of keys
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
  void count_begun(const QueueInfo& queue, const std::map<std::string, int>& keys);
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
  bool pick_turns(const QueueInfo& queue, std::vector<KeyedJob> jobs, int most,
                  const KeyRooms& rooms, Room room, KeyTurns turns, Picked& picked);
  std::vector<KeyedJob> look_in_turns(const QueueInfo& queue, const std::optional<Ints>& kinds,
                                      int most, const Room& room, const KeyTurns& turns,
                                      bool& more);
  std::vector<KeyedJob> look_at_aged_keys(const QueueInfo& queue, const std::optional<Ints>& kinds,
                                          int most, const Room& room, bool& more);
  void take_while_fits(const QueueInfo& queue, Room room, std::vector<KeyedJob>& jobs);
  void look_in_order(Claiming& claiming, const std::optional<Ints>& kinds);
  KeyTurns turns_of(const QueueInfo& queue);
  void note_turns(Claiming& claiming);

  // -- jobs in hand (jobs.cc)
  JobInHand* job(JobId id);                        // nullptr = there is none
  JobInHand* in_hand(JobId id);                    // the same of those taken before
  void jobs_by_id(const std::vector<JobId>& ids);  // takes them in hand, in one round trip
  void lock_jobs(Ints ids);                        // the same, of those that are not in hand
  void take_in_hand(const Rows& rows);
  std::int64_t new_ids(std::size_t count);  // reserves; next_id() gives them
  // Theirs come with the next answers; then `then` is called.
  void later_lock_jobs(Ints ids, std::function<void()> then);
  void later_new_ids(std::size_t count);  // in the next round trip
  void take_new_ids(const Rows& rows, int first = 0);
  JobId next_id();
  JobInHand& add_job(const NewJob& job, WallTime run_at, JobState state, std::int64_t schedule,
                     int flags = 0);
  void wish_cancel(JobInHand& job, std::string_view reason);  // of a running one
  JobRow& touch(JobInHand& job);                              // its version grows
  void set_waiting(JobInHand& job, JobState state, std::int64_t run_at);
  void begin_again(JobInHand& job, JobState state, std::int64_t run_at);
  // Terminal, with all that follows: retention, ended, the schedule that waits for it.
  void end_job(JobInHand& job, JobState state, std::string_view reason,
               std::string_view description, std::string_view result = "");
  void leave_worker(JobInHand& job, JobState state);
  void fail_attempt(JobInHand& job, std::string_view message, std::optional<Duration> after,
                    const ProgramEnd& program);
  void add_error(const JobRow& job, std::string_view message, const ProgramEnd& program);
  void set_reason(JobInHand& job, std::string_view reason, std::string_view description);
  std::string cancel_reason(JobId id);  // of the wish
  static JobRow read_row(const Rows& rows, int row);
  Error missing(JobId id);
  static Error no_job(JobId id);
  JobState state_of(JobId id);  // completed when pruned
  bool take_unique_key(JobInHand& job);
  void revive(JobInHand& job);

  // -- in which order they are locked (locks.cc)
  // As jobs_by_id(), without waiting; those that others have locked.
  enum class Ends : bool { no, maybe };
  std::unordered_set<JobId> free_jobs_by_id(const std::vector<JobId>& ids, Ends ends);
  void make_kinds(std::span<const Operation> batch);
  void lock_named_jobs(std::span<const Operation> batch);

  // -- sessions_in_hand.cc. A session's row is locked by whoever changes who has the turn, or who
  // waits for it; before any job.
  void lock_sessions(std::span<const Operation> batch);
  void name_sessions(const Operation& operation, SessionsNamed& named);
  std::vector<SessionOfJob> sessions_of(const Ints& jobs);
  std::vector<JobId> jobs_of_sessions() const;  // that may change with those locked
  // Made if new; in one round trip, with who is first in their `lines`.
  void take_sessions(const std::set<SessionName>& names, bool lines = true);
  // As take_sessions(), without waiting, and only those that are there.
  void take_free_sessions(const std::set<SessionName>& names);
  std::unordered_set<JobId> take_sessions_of_free(const Ints& jobs, Ends ends);
  void read_locked_sessions(const std::set<SessionName>& names);
  void keep_sessions(const Rows& rows);
  SessionInHand& take_session(const SessionName& name);
  SessionInHand& session_of(const JobRow& row) { return take_session({row.queue, row.session}); }
  SessionRow& touch(SessionInHand& session);
  // A new or revived job: the state in which it begins, where it would begin in `begins`.
  JobState enter_session(SessionInHand& session, JobId id, JobState begins);
  // The state of the job with the turn where it would be in `state`.
  JobState state_of_turn(const SessionInHand& session, JobState state);
  void join_line(SessionInHand& session, JobId id);
  void leave_line(SessionInHand& session, JobId id);
  // Behind each operation: those that ended pass the turn on.
  void settle_sessions();
  void end_turn(const EndedTurn& ended);
  void pass_turns(std::set<SessionName> open);
  bool give_turn(SessionInHand& session, JobId id);
  void flush_sessions();
  void drop_empty_sessions();
  std::int64_t session_id(const JobRow& row);
  void remember_session_lines();
  void load_dry_lines();  // at open
  void hear_line(const std::string& line);
  bool line_has_available(const QueueInfo& queue, const std::string& line) const;
  void gain_line(const std::string& line);
  void dry_line(const std::string& line);

  // -- sessions.cc
  bool holds(const SessionInHand& session, Token token) const;
  SessionInHand* find_session(const SessionKey& key);  // nullptr = there is no such queue
  SessionGrant grant(const SessionKey& key, SessionInHand& session, bool held);
  Token new_session_token();
  void hold_session(SessionInHand& session, Token token, const std::string& worker, Duration lease);
  void renew_hold(SessionInHand& session, Duration lease);
  void end_hold(SessionInHand& session);
  void stop_turn(SessionInHand& session);
  void gain_lines_of(const QueueInfo& queue);
  void set_session_state(SessionInHand& session, const std::string& state);
  bool has_room_for_hold();
  bool rescue_sessions();          // true = there may be more
  bool prune_sessions(int limit);  // true: the limit was reached
  OperationResult claim_turn(const Claim& op, const SessionKey& key);
  OperationResult accept_next(const Claim& op, const std::string& queue);
  bool take_one_claimed(const Claim& op, const Rows& rows, std::int64_t until, ClaimResult& into);
  void count_of_session(QueueInfo& queue, const ClaimResult& given);
  Params claim_params(const Claim& op, JobId id, std::int64_t until) const;
  // Of the lines that this node believes dry: those that are not.
  void ask_lines(Heard& heard);

  // -- follow_ups.cc
  // Behind each operation: makes what it posted, and what the jobs that it ended are followed by.
  void make_follow_ups();
  void read_followed(std::vector<EndedJob>& ended);
  // Of the jobs in hand that have news and are followed.
  std::map<JobId, Progress> read_progress(const std::vector<Renewal>& leases);
  void note_news(const JobRow& row, const Renewal& renewal, std::map<JobId, Progress>& last);
  std::vector<NewJob> follow_all_news();

  // -- workflows.cc. A workflow's row is locked by whoever changes anything of it; behind the jobs
  // that ended.
  // Behind each operation: what follows from the ends of steps; true if there were any.
  bool settle_workflows();
  void write_workflows(WorkflowRules& rules);
  template <class F>
  OperationResult run_workflow(F&& what);
  void lock_workflows(std::span<const Operation> batch);  // that several operations are about
  bool ends_step(const Operation& operation) const;
  bool prune_workflows(int limit);  // true: the limit was reached
  Params retentions() const;

  // -- triggers.cc
  template <class Op>
  OperationResult run_trigger(const Op& op);
  void lock_triggers(std::span<const Operation> batch);
  // Those on ends of jobs. Asked for where a batch may end jobs, behind its locks.
  void look_for_watches(std::span<const Operation> batch);
  void ask_watches();
  const std::vector<TriggerWatch>& watches();
  OperationResult forget_watches(OperationResult result);
  void note_end(const JobInHand& job, const QueueInfo& queue, std::string_view result,
                std::string_view reason, std::string_view description);
  void fire_ends();  // behind the last operation of a batch

  // -- their differences, into the tables (flush.cc)
  void flush();
  // For string_to_array(…, E'\\x1f').
  static std::string join_tags(const std::vector<std::string>& tags);
  void flush_bodies(const std::vector<JobInHand*>& fresh);
  void flush_rows(const std::vector<JobInHand*>& changed);
  void flush_replaced(const std::vector<JobInHand*>& changed);
  void flush_lines(const std::vector<JobInHand*>& all);
  void flush_removed(const std::vector<JobInHand*>& all);
  void count(const JobRow& row, int delta);
  void flush_tallies();

  // -- plain.cc: batches of nothing but plain operations are one round trip, commit and all
  struct Open;  // what such a batch left open when it was committed
  struct Completing;
  bool is_plain_batch(std::span<const Operation> batch);
  bool knows_queues(const Claim& op) const;
  bool knows_all_of(const Enqueue& op) const;
  void close(BatchReport& report);
  void close_ends(Open& rest, BatchReport& report);
  void close_claims(Open& rest, BatchReport& report);
  static void answer_what_is_known(Completing& run);
  void leave_open(const PgError& error);
  static Error not_known();

  // -- plain_sessions.cc: those of jobs of sessions
  struct Columns;
  void lock_plain_sessions(std::span<const Operation> batch);
  void send_into_sessions(const Columns& columns, std::span<const Operation> operations,
                          std::span<OperationResult> answers);
  void note_entered(Open& open, const Rows& rows);
  void note_heads(int queue, std::int64_t available, std::int64_t heads);
  void send_turns(const std::shared_ptr<Completing>& run);
  void note_turns(Completing& run, const Rows& rows);
  void look_at_entered(std::span<const Operation> operations, std::span<OperationResult> answers);
  void note_state(const NewJob& job, JobState state, WallTime run_at);
  void note_lost_turns(const Completing& run);

  // -- enqueue.cc
  // As many of the operations as can be folded into one statement; 0 = none.
  std::size_t enqueue_run(std::span<const Operation> rest, std::vector<OperationResult>& results,
                          bool nothing_else);
  EnqueueResult take_columns(const Enqueue& op, Columns& columns);
  void send_columns(const Columns& columns, bool bundles, bool keep_ids,
                    std::function<void(Rows)> then);

  // -- what nobody told of (shared.cc)
  Ints quiet_queues() const;
  void hear_waiting(const Ints& quiet, const Rows& waiting, Heard& heard);

  // -- jobs that were enqueued together (bundles.cc)
  bool may_bundle(const Columns& columns, std::size_t requests) const;
  bool may_hold_bundles(const Claiming& claiming) const;
  void hold_bundles_of(const Ints& jobs);  // so that nobody takes those from them meanwhile
  void undo_bundles(const std::shared_ptr<Claiming>& claiming, std::int64_t jobs,
                    const std::optional<Ints>& kinds, bool from_beginning);
  // Before a claim under limits looks at the line.
  void give_entries(const std::shared_ptr<Claiming>& claiming, const std::optional<Ints>& kinds);
  std::int64_t note_bundles(Claiming& claiming, const Rows& rows);
  static ClaimResult take_result(Claiming& claiming);
  bool has_room(std::int64_t jobs);
  Error too_many() const;  // what is said where there is none
  static bool has_sessions(const Enqueue& op);
  static bool is_plain(const Enqueue& op);
  static bool is_plain_but_for_sessions(const Enqueue& op);
  std::optional<OperationResult> replay_idempotent(const Enqueue& op);
  EnqueuedJob enqueue_one(const NewJob& job);
  // Its row (id, until, state of one that is gone), locked and made if need be; id 0 = it is free.
  Rows lock_unique_key(std::int64_t queue, std::string_view key);
  std::optional<EnqueuedJob> enqueue_unique(const NewJob& job, WallTime run_at);
  void replace_job(JobInHand& held, const NewJob& job, WallTime run_at);
  WallTime run_at_of(const NewJob& job) const;

  // -- claim.cc
  void send_claim(const std::shared_ptr<Claiming>& claiming, bool from_the_beginning);
  void take_claimed(Claiming& claiming, const Rows& rows, bool of_bundles = false);
  void keep_turns_in_sight(const Claiming& claiming, QueueHint& hint) const;
  bool wants_more(const Claiming& claiming);
  void look_again(const std::shared_ptr<Claiming>& claiming);
  void read_checkpoints(Claiming& claiming);
  void find_claimed(Claiming& claiming, std::unordered_set<JobId>& given);
  std::vector<const QueueInfo*> queues_named(const Claim& op);
  std::optional<Ints> kinds_named(const Claim& op);  // nullopt = every kind
  bool may_look(const Claiming& claiming);           // from the beginning of the line
  bool must_look(const Claiming& claiming);
  std::size_t claim_run(std::span<const Operation> rest, std::vector<OperationResult>& results);
  ClaimedJob read_claimed(const Rows& rows, int row, const Claim& op, std::int64_t until);
  void forget_given(std::size_t claims);  // looks at so many; deletes the rows of those that ended
  void remember_given();                  // after_.given, once committed

  // -- complete.cc
  bool completes_plainly(const Finish& op, const Completing& run, bool of_sessions) const;
  bool completes_plainly(const Finish& op) const;  // as the first of a run
  void take_completions(const Finish& op, Completing& run) const;
  void send_completions(const std::shared_ptr<Completing>& run);
  void note_completed(Completing& run, const Rows& rows);
  void answer_completions(Completing& run);

  // -- finish.cc
  std::size_t finish_run(std::span<const Operation> rest, std::vector<OperationResult>& results);
  void renew_one(JobInHand& job, const Renewal& renewal, Duration length, bool kept,
                 RenewResult& result);
  KnownMemos read_memos(const std::vector<Renewal>& leases);
  // True: any is new.
  bool keep_memos(JobRow& row, const Renewal& renewal, KnownMemos& known, RenewResult& result);
  void drop_memos(JobRow& row);
  void finish_one(JobInHand& job, const Outcome& outcome);

  // -- steps.cc
  bool prune_one(JobId id, std::int64_t finished_at);

  // -- catalog.cc: queues and kinds
  const QueueInfo* find_queue(const std::string& name);  // nullptr = there is none
  const QueueInfo& queue_of(const std::string& name);    // made if new
  void note_brief(const QueueInfo& queue);
  bool has_queue(const std::string& name);               // as the database has it
  QueueInfo& locked_queue(const std::string& name);      // made if new; as the database has it
  const QueueInfo& queue_by_id(int id);
  const std::string& queue_name(int id) { return queue_by_id(id).name; }
  int kind_of(const std::string& name);  // made if new
  const std::string& kind_name(int id);
  void load_queues();
  void load_kinds();
  void look_up_kinds();  // within a transaction: another node may have made some
  void take_kinds(const Rows& rows);
  void changed_queue(const QueueInfo& queue);  // writes it, and tells the others

  // -- named_leases.cc
  std::optional<Error> fenced(const Fence& fence);  // the error, or nothing: it holds
  void begin_leases_anew(std::int64_t at, std::int64_t allowance);  // no worker could renew
  void load_named_leases();                         // what lease_free_at() answers from
  void remember_leases();                           // after_.leases, once committed or in vain
  enum class LeaseLock : std::uint8_t { shared, exclusive };
  void take_leases(const std::vector<std::string>& names, LeaseLock lock);  // in one round trip
  LeaseInHand& take_lease(const std::string& name, LeaseLock lock);
  LeaseInHand* find_held(const std::string& name, const std::string& holder, Token token);
  std::optional<LeaseGrant> grant_lease(const AcquireLease& op, LeaseInHand& lease);
  LeaseGrant extend_lease(const std::string& name, LeaseInHand& lease, Duration ttl);
  void save_lease(const std::string& name, const LeaseInHand& lease);
  void end_lease_at(LeaseInHand& lease, std::int64_t ends);
  bool make_room_for_lease();
  // For reads; nullopt = the database's own clock, the only one that a reader can trust.
  std::optional<std::int64_t> read_at(Instant now) const;
  void sweep_leases();

  // Locks what a batch of several operations on leases or schedules is about, in few round trips.
  void look_ahead(std::span<const Operation> batch);

  // -- schedules.cc. A schedule's row is locked by whoever decides about it.
  void take_schedules(const std::vector<std::string>& names);  // in one round trip
  void take_schedules(const Ints& ids);                        // and their jobs
  static ScheduleInHand read_schedule(const Rows& rows, int row);
  void keep_schedules(const Rows& rows);
  ScheduleInHand& take_schedule(const std::string& name);
  ScheduleInHand* take_schedule(const std::string& name, const Within& within);
  // The jobs of these schedules in hand that have not ended.
  void know_ties(const std::vector<ScheduleInHand*>& schedules);
  std::optional<OperationResult> create_schedule(const PutSchedule& op);
  OperationResult replace_schedule(ScheduleInHand& schedule, const PutSchedule& op);
  void set_paused(ScheduleInHand& schedule, bool paused, std::string reason);
  void save_schedule(const ScheduleInHand& schedule);
  void add_ledger_rows(ScheduleInHand& schedule, const std::vector<LedgerRow>& rows);

  // -- firing.cc
  struct Firing;
  std::optional<Error> check_fire(const FireSchedule& op, const ScheduleInHand& schedule) const;
  void know_others(const std::vector<std::string>& names);
  static bool minds_others(const FireSchedule& op, const ScheduleInHand& schedule);
  bool ends_others(const FireSchedule& op) const;
  void add_unknown_ticks(const FireSchedule& op, ScheduleInHand& schedule, Ints& ids,
                         Ints& nominals) const;
  void ask_fired(const Ints& ids, const Ints& nominals);
  JobId decide(Firing& firing, const Tick& planned);
  std::string refuse_tick(Firing& firing, WallTime nominal, JobState& begins);
  std::string overlap(Firing& firing, Overlap policy, JobState& begins);
  static JobId has_run(const Firing& firing, WallTime nominal);
  std::size_t sure_to_fire(const Firing& firing) const;
  void reserve_for(std::span<const Operation> batch);
  void stop_others(ScheduleInHand& schedule, Overlap policy);
  JobId fire_tick(Firing& firing, const Tick& tick, JobState begins);
  void write_new_ties(ScheduleInHand& schedule);

  // -- ties.cc: the jobs of schedules that have not ended
  // Of a job that a schedule made (row.schedule != 0):
  void schedule_job_ended(JobInHand& job);    // others that waited begin with settle_ties()
  void schedule_job_revived(JobInHand& job);  // an operator's retry made it live again
  // Behind each operation, and before anybody asks what can be claimed.
  void settle_ties();
  void settle_tie(ScheduleInHand& schedule, const EndedTie& ended);
  ScheduleInHand* known_schedule(std::int64_t id);
  void begin_next_waiting(ScheduleInHand& schedule);
  void begin_waiting(ScheduleInHand& schedule, JobId id);
  void guard_waiting(ScheduleInHand& schedule);

  // -- schedule_copies.cc: what reads answer from
  bool load_schedules();           // false: it was up to date
  void remember_schedules();       // after_, once committed
  WallTime next_schedule() const;  // the earliest next_fire of those not paused
  void publish_schedule(const std::string& name, std::int64_t id, ScheduleInfo info)
      MS_REQUIRES(published_mutex_);
  void unpublish_schedule(const std::string& name) MS_REQUIRES(published_mutex_);
  void publish_tie(const TieChange& change) MS_REQUIRES(published_mutex_);
  void load_ties(bool anew);

  // -- access.cc, audit.cc
  void load_tokens();  // the copy that tokens() answers
  Tokens& tokens_in_hand();
  bool drop_oldest_token();
  void save_token(const TokenRecord& token);
  void publish_tokens(std::shared_ptr<const Tokens> all);
  void remember_access();  // of after_, what is theirs
  // Keeps the image of what an Audit behind the operation `at` is about.
  void look_before(std::span<const Operation> batch, std::size_t at);
  enum class ImageLock { taken, left_alone };                       // of the object's row
  std::string image_of(const AuditObject& object, ImageLock lock);  // "" = it is not there
  std::string image_of_queue(const std::string& name, ImageLock lock);
  void append_audit(AuditRecord record);
  WallTime next_resume() const;
  // Resumes the queues whose pause is over, at most `limit`; answers how many.
  int resume_queues(int limit);
  AuditState& chain_in_hand();
  bool prune_audit(int limit);  // true: the limit was reached
  void load_audit();

  // -- reads (read.cc): connections of their own
  struct Reader;
  std::unique_ptr<Reader> take_reader() const;  // throws PgError
  void give_back(std::unique_ptr<Reader> reader) const;
  void drop_readers(std::unique_ptr<Reader> failed) const;
  // Calls `read(Connection&)`; tries once more on a new connection if the old one was lost. In
  // reader.h.
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
