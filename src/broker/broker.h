// Broker: all changes of the store go through it. It combines concurrent requests into one commit.
// Claims that find no job wait (they are parked), and get a job in the commit that makes it
// available.
//
//   callers ──submit──▶ [urgent │ enqueue │ claim]  ──step──▶ one batch ─▶ Store::apply ─▶ answers
//                        bounded queues                 ▲                       │
//                                              parked claims ◀── found nothing ─┘
//
// Requests that arrive during a commit wait for the next one. So under load one fdatasync serves
// hundreds of callers, and a lone caller waits for one. No timer adds delay. When a queue with a
// parked claim gets a job, the claim is appended to the same batch, so enqueue and claim share the
// commit. Renew, finish and cancel are "urgent" and have a bounded queue of their own, so that a
// full system can always be emptied.
//
// Threads: submit() and the Jobs calls are thread-safe. step() runs on one thread at a time. It
// calls answers without a lock held; an answer must not block and must not call step().
#pragma once

#include <atomic>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <thread>
#include <unordered_map>

#include "base/mutex.h"
#include "broker/breakers.h"
#include "broker/broker_options.h"
#include "broker/events.h"
#include "broker/housekeeping.h"
#include "broker/job_metrics.h"
#include "broker/jobs.h"
#include "broker/lease_waiters.h"
#include "broker/marks.h"
#include "broker/pace.h"
#include "broker/questions.h"
#include "broker/queue_labels.h"
#include "broker/service_times.h"
#include "broker/triggers.h"
#include "broker/version_marks.h"
#include "broker/worker_commands.h"
#include "broker/workflows.h"
#include "env/clock.h"
#include "env/random.h"
#include "store/change_hint_set.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace mainspring {

class JobTraces;
struct TraceSends;

class Broker final : public Jobs,
                     public Workflows,
                     public Triggers,
                     public Breakers,
                     public Marks,
                     public Questions {
 public:
  using Answer = std::function<void(OperationResult)>;
  // `store`, `clock`, `log` outlive the broker. Metrics are registered in `registry`.
  Broker(Store& store, const Clock& clock, Log& log, Registry& registry,
         BrokerOptions options = {});
  ~Broker() override;

  // Submits without blocking. The answer is called exactly once: from step(), or from submit()
  // itself if the operation is refused.
  void submit(Operation operation, Answer answer) MS_EXCLUDES(mutex_) {
    submit(std::move(operation), std::move(answer), std::nullopt);
  }
  // With an audit record: it is written in the same commit, after the operation (see Audit). An
  // Audit that is `alone` is submitted as an operation.
  void submit(Operation operation, Answer answer, std::optional<Audit> audit) MS_EXCLUDES(mutex_) {
    submit({std::move(operation), std::move(answer), std::move(audit)}, Wake::commit_loop);
  }
  // A claim that may wait up to `wait` from now. Returns a handle for abandon().
  using ParkId = std::uint64_t;
  ParkId submit_claim(Claim claim, Duration wait, Answer answer,
                      std::optional<Audit> audit = std::nullopt) MS_EXCLUDES(mutex_);
  struct Submission {
    Operation operation{};  // submit_with_claim(): not used for the claim
    Answer answer;
    std::optional<Audit> audit = std::nullopt;
  };
  // submit() and submit_claim() at once: one batch takes both, the claim last, unless a writer
  // connection takes the operation.
  ParkId submit_with_claim(std::optional<Submission> before, Claim claim, Duration wait,
                           Submission claimed) MS_EXCLUDES(mutex_);
  // An acquire that may wait up to `wait` (at most kMaxClaimWait) while another holder has the
  // lease. Answered with LeaseGrant, or with lease_held after `wait` or abandon().
  ParkId submit_acquire(AcquireLease request, Duration wait, Answer answer) MS_EXCLUDES(mutex_);
  // The caller of a claim or an acquire has disconnected: answers it with an empty result, unless
  // it is answered already.
  void abandon(ParkId id) MS_EXCLUDES(mutex_);
  // Calls back once when the job is terminal, at the latest with the first change after that. For
  // GET ?wait=. The caller reads the job again. Returns a handle for unwatch().
  using WatchId = std::uint64_t;
  WatchId watch(JobId id, std::function<void()> changed) MS_EXCLUDES(mutex_);
  void unwatch(WatchId id) MS_EXCLUDES(mutex_);
  // As Store::get(), for callers that watched the job: also returns a job that ended while it was
  // watched and that was pruned since, because its retention is short.
  Result<Job> get_watched(JobId id) MS_EXCLUDES(mutex_);
  // The number under which a workflow is watched, as if it were a job. Called back with every
  // change of its state.
  static JobId watch_of(WorkflowId id) { return -id; }

  // Runs one batch, if there is work. Returns when to call again at the latest; Instant::never() =
  // when an operation is submitted. Extra calls are harmless.
  Instant step(Now now) MS_EXCLUDES(mutex_, step_mutex_);

  // Called (from step) after a batch that may have changed the agenda, until it is removed. After
  // remove_agenda_listener() returns it does not run, unless it made that call itself.
  using ListenerId = std::uint64_t;
  ListenerId add_agenda_listener(std::function<void()> changed) MS_EXCLUDES(listeners_mutex_);
  void remove_agenda_listener(ListenerId id) MS_EXCLUDES(listeners_mutex_);
  // Called (from step) when the store can no longer be trusted; set before start().
  void on_fatal(std::function<void(const Error&)> fatal) { fatal_ = std::move(fatal); }
  // Called with each applied batch, before its answers, with a lock held: it must not block or call
  // the broker. Set before start(). For test servers.
  using Applied = std::function<void(std::span<const Operation>, const BatchReport&, Now)>;
  void on_applied(Applied applied) { applied_ = std::move(applied); }
  Agenda agenda() const MS_EXCLUDES(step_mutex_);
  // Turns on tracing of jobs. Before start(); `traces` outlives the broker.
  void trace(JobTraces& traces) { traces_ = &traces; }
  JobTraces* traces() const { return traces_; }  // nullptr = none

  // -- a store shared with other nodes (other_nodes.cc)
  // `store` is the store of the constructor. `tell` is called (from step) with hints for other
  // nodes about each batch; it must not block. `random` spreads the polls of many nodes. Both
  // outlive the broker. Before start().
  void share(SharedStore& store, Random& random, std::function<void(const ChangeHints&)> tell);
  // Called when a caller starts to wait for a change that other nodes may make, with a lock held;
  // it must not block. Called from every thread.
  void on_wait(std::function<void()> waits);
  // True if a caller waits: for a job, a job's end, a lease or events. Thread-safe.
  bool waits_for_news() MS_EXCLUDES(mutex_);
  // Adds a connection to the same store for enqueues or completions that arrive while the commit
  // loop commits (see writer_connections.cc). It outlives the broker. One for each; before start().
  enum class WriterFor : std::uint8_t { enqueues, completions };
  void add_writer(SharedStore& store, WriterFor what) MS_EXCLUDES(mutex_);
  // Refuses changes by callers as unavailable, with `why` as the reason, until `why` is "" again.
  // Renewals without messages and the scheduler continue. Parked claims wait. Thread-safe.
  void hold(std::string why) MS_EXCLUDES(mutex_);

  // -- a planned restart (standstill.cc)
  // See AllowRestart. Errors: those of the store.
  Result<void> allow_restart(Duration allowance) MS_EXCLUDES(mutex_, step_mutex_);
  // Waits until every worker that runs jobs has renewed its leases after allow_restart(), so that
  // it knows the allowance; at most until `until`. Does not wait for workers with overdue renewals.
  void wait_for_renewals(Instant until) MS_EXCLUDES(mutex_);
  // Answers the waiting claims of a worker that takes no more jobs. Returns their number. Claims of
  // queues outside `within` are left alone.
  std::size_t end_claims(const std::string& worker, const Within& within) MS_EXCLUDES(mutex_);
  // A hint of another node that there may be work here. Thread-safe.
  void hear(const ChangeHints& what) MS_EXCLUDES(mutex_);

  // Events of jobs and queues. Thread-safe.
  Events& events() { return events_; }

  // See Store::due_schedules. Thread-safe.
  Result<std::vector<ScheduleInfo>> due_schedules(WallTime now, int limit) const {
    return store_.due_schedules(now, limit);
  }

  // Start and stop the commit loop, a thread that calls step(). Both may be called twice, in any
  // order; stop waits for the thread. After stop_claims() parked claims are answered empty and
  // later ones are refused as unavailable; after stop() all operations are refused.
  void start() MS_EXCLUDES(mutex_);
  void stop_claims() MS_EXCLUDES(mutex_);
  void stop() MS_EXCLUDES(mutex_);

  // Calls `turned` from the commit loop, after the current batch. For health checks: a loop that
  // hangs does not call. Does not access the store. Thread-safe, while the loop runs.
  void ping(std::function<void()> turned) MS_EXCLUDES(mutex_);

  std::size_t parked_claims() const MS_EXCLUDES(mutex_);    // of callers, not the engine's own
  std::size_t parked_acquires() const MS_EXCLUDES(mutex_);  // of leases
  std::size_t watches() const MS_EXCLUDES(mutex_);          // see watch()

  // -- Jobs ---------------------------------------------------------------------------------------
  LeasesEnd leases_end() const override {
    return shared_ == nullptr ? LeasesEnd::here : LeasesEnd::here_too;
  }
  Result<EnqueueResult> enqueue(Enqueue request) override;
  Result<ClaimResult> claim(Claim request, Duration wait, std::stop_token stop) override;
  Result<RenewResult> renew(Renew request) override;
  Result<FinishResult> finish(Finish request) override;
  Result<CancelResult> cancel(Cancel request) override;
  Result<RetryResult> retry(RetryJob request) override;
  Result<EditResult> edit(EditJob request) override;
  Result<void> delete_job(DeleteJob request) override;
  Result<EnqueuedJob> clone(CloneJob request) override;
  std::vector<Result<void>> change(std::vector<JobChange> changes) override;
  Result<RedriveResult> redrive(Redrive request) override;
  Result<void> pause_queue(PauseQueue request) override;
  Result<void> set_retention(SetRetention request) override;
  Result<void> remove_queue(const std::string& name) override;
  Result<void> set_queue_limits(SetQueueLimits request) override;
  Result<LeaseGrant> acquire_lease(AcquireLease request, Duration wait,
                                   std::stop_token stop) override;
  Result<LeaseGrant> renew_lease(RenewLease request) override;
  Result<void> release_lease(ReleaseLease request) override;
  Result<LeaseInfo> get_lease(const std::string& name) override;
  Result<std::vector<LeaseInfo>> leases(const std::string& after, int limit) override;
  Result<SessionGrant> accept_session(AcceptSession request) override;
  Result<SessionGrant> renew_session(RenewSession request) override;
  Result<void> release_session(ReleaseSession request) override;
  Result<void> put_session_state(PutSessionState request) override;
  Result<void> resume_session(ResumeSession request) override;
  Result<SessionInfo> get_session(const SessionKey& session) override;
  Result<SessionPage> sessions(const std::string& queue, const std::string& after,
                               int limit) override;
  Result<WorkflowStarted> start_workflow(WorkflowSpec spec) override;
  Result<void> signal_workflow(SignalWorkflow request) override;
  Result<WorkflowInfo> cancel_workflow(CancelWorkflow request) override;
  Result<WorkflowInfo> pause_workflow(PauseWorkflow request) override;
  Result<WorkflowInfo> retry_workflow(RetryWorkflow request) override;
  Result<WorkflowStarted> fork_workflow(ForkWorkflow request) override;
  Result<WorkflowInfo> get_workflow(WorkflowId id) override;
  Result<WorkflowInfo> wait_workflow(WorkflowId id, Duration wait, std::stop_token stop) override;
  Result<WorkflowPage> workflows(const WorkflowFilter& filter, int limit,
                                 WorkflowId before) override;
  Result<WorkflowStepPage> workflow_steps(WorkflowId id, int after, int limit) override;
  Result<void> put_breaker(PutBreaker request) override;
  Result<void> remove_breaker(const std::string& name) override;
  Result<void> open_breaker(OpenBreaker request) override;
  Result<void> close_breaker(const std::string& name) override;
  Result<BreakerInfo> get_breaker(const std::string& name) override;
  Result<std::vector<BreakerInfo>> breakers() override;
  Result<Mark> add_mark(AddMark request) override;
  Result<MarkPage> marks(const MarkFilter& filter) override;
  Result<void> remove_mark(std::int64_t id) override;
  Result<SavedView> put_view(PutView request) override;
  Result<std::vector<SavedView>> views() override;
  Result<void> remove_view(const std::string& name) override;
  Result<PutTriggerResult> put_trigger(Trigger trigger, const std::string& secret,
                                       std::optional<bool> paused) override;
  Result<void> remove_trigger(const std::string& name) override;
  Result<void> pause_trigger(PauseTrigger request) override;
  Result<TriggerFired> fire_trigger(const std::string& name,
                                    const FireTriggerRequest& event) override;
  Result<TriggerInfo> get_trigger(const std::string& name) override;
  Result<std::vector<TriggerInfo>> triggers(const std::string& after, int limit) override;
  Result<TriggerEventPage> trigger_events(const std::string& name, int limit,
                                          std::int64_t before) override;
  Result<TriggerFired> fire(FireTrigger request);
  Result<TriggerInfo> store_trigger(const std::string& name) const;  // including its secret
  const std::vector<std::string>& watch_roots() const { return options_.watch_roots; }
  Result<PutScheduleResult> put_schedule(Schedule schedule, std::optional<bool> paused,
                                         RunCount runs = RunCount::keep) override;
  Result<void> remove_schedule(const std::string& name) override;
  Result<void> pause_schedule(PauseSchedule request) override;
  Result<void> set_timer(SetTimer request) override;
  Result<FireResult> trigger_schedule(const std::string& name, TickSource source,
                                      std::optional<Overlap> overlap) override;
  Result<BackfillResult> backfill_schedule(Backfill request) override;
  Result<ScheduleInfo> get_schedule(const std::string& name) override;
  Result<std::vector<ScheduleInfo>> schedules(const std::string& after, int limit) override;
  Result<LedgerPage> ledger(const std::string& name, int limit, std::int64_t before) override;
  Result<std::vector<PreviewTick>> preview_schedule(const std::string& name,
                                                    std::optional<WallTime> from,
                                                    int count) override;
  Result<Upcoming> upcoming(Duration within, int limit) override {
    return upcoming(within, limit, {});
  }
  Result<ScheduleChanges> pause_schedules(PauseSchedules request) override {
    return pause_schedules(std::move(request), {});
  }
  // Limited to what `visible` lets the caller see.
  Result<Upcoming> upcoming(Duration within, int limit, const Within& visible);
  // `audit` creates the audit record of each name; empty = no records.
  Result<ScheduleChanges> pause_schedules(PauseSchedules request,
                                          const std::function<Audit(const std::string&)>& audit);
  // Makes a durable commit without content; waits for it.
  Result<void> probe_write();
  // When the last batch was committed; Instant() if none was.
  Instant last_commit() const MS_EXCLUDES(mutex_);
  // Of this node: the scheduler's duties too. Any thread.
  Housekeeping& housekeeping() { return housekeeping_; }
  Result<Job> get(JobId id) override;
  Result<MemoPage> memos(JobId id, const std::string& from, int limit) override;
  Result<Job> wait(JobId id, Duration wait, std::stop_token stop) override;
  Result<JobPage> list(const JobFilter& filter, int limit, JobId before) override;
  Result<std::vector<QueueStats>> queues() override;
  Result<std::vector<WorkerInfo>> workers() override;
  Result<WorkerInfo> command_worker(CommandWorker request) override;
  // Whether the caller may use the name of a worker. While the worker is known, its name belongs to
  // the first caller that claimed or renewed by it. Another caller with the right to all its queues
  // takes the name over.
  bool takes_worker_name(const std::string& worker, const std::string& caller, const Within& within)
      MS_EXCLUDES(mutex_);
  Result<Why> why(JobId id) override;
  Result<DeadGroups> dead_groups(const DeadFilter& filter, WallTime since) override;
  Result<RedriveStarted> start_redrive(const DeadFilter& filter, const RedrivePace& pace) override;
  Result<BulkCount> count_bulk(const BulkOrder& order) override;
  Result<BulkInfo> start_bulk(const BulkOrder& order) override;
  Result<std::vector<BulkInfo>> bulks() override;
  Result<BulkInfo> get_bulk(JobId id) override;
  Result<BulkInfo> stop_bulk(JobId id) override;
  Result<BulkInfo> continue_bulk(JobId id) override;
  // The same for a caller that an audit record names.
  Result<BulkInfo> start_bulk(const BulkOrder& order, std::string by, std::optional<Audit> audit);
  Result<BulkInfo> stop_bulk(JobId id, std::optional<Audit> audit);
  Result<BulkInfo> continue_bulk(JobId id, std::optional<Audit> audit);
  Result<History> history(const HistoryFilter& filter) override;
  Result<History> history(const HistoryFilter& filter, const Within& within);
  Result<void> follow(const EventFilter& filter, const EventSink& sink,
                      std::stop_token stop) override;
  // The completion rates of queues. Readers of queue counters pass the counters to it.
  Pace& pace() { return pace_; }
  // How long attempts of a queue run. See ServiceTimes.
  Result<ServiceTime> service_time(const std::string& queue) MS_EXCLUDES(mutex_, recent_mutex_);

 private:
  struct Pending {
    Operation operation;
    Answer answer;
    ParkId park_id = 0;    // claims and acquires: their handle
    Instant deadline;      // claims and acquires: how long they may wait
    bool waited = false;   // acquires: it has been parked before
    std::size_t jobs = 0;  // counts against max_batch_jobs
    std::size_t bytes = 0;
    std::optional<Audit> audit;  // follows the operation
    std::shared_ptr<const TraceSends> sends{};
    // Claims with patterns: their queues. The operation names the queues of this try.
    std::vector<std::string> asked{};
    bool last_try = false;
  };
  struct Parked;
  using QueueLine = std::list<Parked*>;  // parked claims of one queue, oldest first
  struct Parked {
    ParkId id = 0;
    Claim claim;
    Answer answer;
    Instant deadline;
    std::uint64_t order = 0;  // when it was parked: see ready_
    std::optional<Audit> audit;
    std::vector<std::pair<std::string, QueueLine::iterator>> lines;
  };
  struct Batch {
    std::vector<Operation> operations;
    std::vector<Pending> callers;  // same order; callers[i].operation has been moved from; an Audit
                                   // has an empty one
    std::size_t jobs = 0;
    std::size_t bytes = 0;
    // Adds the operation, its caller, and its audit record.
    void add(Pending pending);
    bool has_room(const BrokerOptions& o) const {
      return jobs < o.max_batch_jobs && bytes < o.max_batch_bytes;
    }
  };
  // Each operation, with its audit record, as a batch of its own. For a batch that waits for a lock
  // of another client: only the operations that need it are refused.
  static std::vector<Batch> apart(Batch& batch);
  struct Worker {
    void add_queues(std::vector<std::string> more);
    void set_stuck(int stuck);
    std::vector<std::string> queues;           // of all its claims
    std::string caller;                        // that its name belongs to; "" = none yet
    std::shared_ptr<const Scopes> scopes;      // of that caller; null = all
    std::shared_ptr<const WorkerFacts> facts;  // null: it reported none
    Instant last_seen;
    Instant renewed;  // when a claim or a renewal last set the leases of its jobs
    Duration lease = kDefaultLease;
    int running = 0;
    std::vector<JobId> cancels;  // to report with its next claim
    Instant by_loop_until;       // a writer connection could not do its completions
  };
  // A queue with work that has not been offered to its parked claims yet: to those parked up to
  // `up_to`, at most `burst` of them in the next batch.
  struct Ready {
    std::uint64_t up_to = 0;
    std::size_t burst = 0;
  };
  struct SyncCall;

  // none: the caller steps itself.
  enum class Wake : std::uint8_t { commit_loop, none };
  void submit(Submission submission, Wake wake) MS_EXCLUDES(mutex_);
  Pending to_submit(Submission submission);
  Pending to_submit(Claim claim, Duration wait, Submission submission);
  // Puts it into its line, or returns its answer if it needs no commit.
  std::optional<OperationResult> enter(Pending& pending) MS_REQUIRES(mutex_);
  std::optional<OperationResult> enter_claim(Pending& pending) MS_REQUIRES(mutex_);
  bool has_work() const MS_REQUIRES(mutex_);
  // Steps once; the caller holds step_mutex_.
  Instant step_locked(Now now) MS_REQUIRES(step_mutex_) MS_EXCLUDES(mutex_);
  void log_batch(const Batch& batch, Duration took);
  void commit(Batch& batch, std::vector<std::function<void()>>& answers, Now now)
      MS_REQUIRES(step_mutex_) MS_EXCLUDES(mutex_);
  // -- standstill.cc
  // Extends leases if the server stood still until now. Returns the error with which the store
  // refused. `commits`: this step has a batch.
  std::optional<Error> end_standstill(bool commits, Now now) MS_REQUIRES(step_mutex_)
      MS_EXCLUDES(mutex_);
  // When to step at the latest, so that a standstill is noticed.
  Instant next_tick(Now now) const MS_REQUIRES(step_mutex_);
  Instant renewals_due() const MS_REQUIRES(mutex_);
  void gather(Batch& batch, std::vector<std::function<void()>>& answers, Now now)
      MS_REQUIRES(step_mutex_, mutex_);
  void gather_pending(std::deque<Pending>& line, Batch& batch) MS_REQUIRES(mutex_);
  void gather_new_claims(Batch& batch, std::vector<std::function<void()>>& answers, Now now)
      MS_REQUIRES(step_mutex_, mutex_);
  void wake_parked_for_enqueues(Batch& batch, Now now) MS_REQUIRES(mutex_);
  void wake_parked_for_due(Batch& batch, Now now) MS_REQUIRES(step_mutex_, mutex_);
  void wake_claims_of(Batch& batch, const std::string& queue, std::size_t jobs) MS_REQUIRES(mutex_);
  void wake_ready(Batch& batch) MS_REQUIRES(step_mutex_, mutex_);
  void abandon_now(ParkId id, std::vector<std::function<void()>>& answers) MS_REQUIRES(mutex_);
  // -- history_calls.cc
  void count(const Batch& batch, const BatchReport& report, Now now) MS_REQUIRES(mutex_);
  // Reads unknown jobs from the store.
  void look_up_history() MS_EXCLUDES(mutex_);
  // Returns whether rows were offered to the next apply(); if so, note_history() must follow it.
  bool offer_history(HistoryWrite when, Now now) MS_REQUIRES(step_mutex_) MS_EXCLUDES(mutex_);
  void note_history(const Result<BatchReport>& report, Now now) MS_REQUIRES(mutex_);
  void write_history(Now now) MS_REQUIRES(step_mutex_) MS_EXCLUDES(mutex_);
  // Calls `read` with the unwritten rows; again if a write happened meanwhile.
  Result<void> read_with_unwritten(const std::function<Result<void>(const HistoryRows&)>& read)
      MS_EXCLUDES(mutex_);
  // -- backlog.cc
  Result<std::shared_ptr<const RecentCounts>> recent_counts() MS_EXCLUDES(mutex_, recent_mutex_);
  void add_backlogs(std::vector<QueueStats>& queues) MS_EXCLUDES(mutex_, recent_mutex_);
  // -- leases.cc
  void wake_acquires(Batch& batch, std::vector<std::function<void()>>& answers, Now now)
      MS_REQUIRES(step_mutex_, mutex_);
  bool add_waiter(Batch& batch, const std::string& lease) MS_REQUIRES(mutex_);
  // Returns true if it keeps waiting instead of being answered.
  bool park_acquire(Pending& caller, Operation& operation, const OperationResult& result, Now now)
      MS_REQUIRES(step_mutex_, mutex_);
  void tell_listeners() MS_EXCLUDES(listeners_mutex_);
  // -- other_nodes.cc
  // Turns hints of other nodes, and what a poll finds, into work.
  void listen(std::vector<std::function<void()>>& answers, Now now) MS_REQUIRES(step_mutex_)
      MS_EXCLUDES(mutex_);
  // Workers that claim from this node, without reading the store.
  std::vector<WorkerInfo> own_workers() MS_EXCLUDES(mutex_);
  // Reads the database, if a poll is due.
  std::optional<ChangeHints> poll(bool soon, Now now) MS_REQUIRES(step_mutex_) MS_EXCLUDES(mutex_);
  void take_up(const ChangeHints& heard, std::vector<std::function<void()>>& answers, Now now)
      MS_REQUIRES(step_mutex_, mutex_);
  void offer(const std::string& queue) MS_REQUIRES(step_mutex_, mutex_);
  // Reads the watched jobs of `ended`, before a later commit can prune them.
  void keep_ends(const std::vector<JobId>& ended, Now now) MS_EXCLUDES(mutex_);
  void tell_ended(const std::vector<JobId>& ended, std::vector<std::function<void()>>& answers)
      MS_REQUIRES(mutex_);
  void tell_workflows(const Effects& effects, std::vector<std::function<void()>>& answers)
      MS_REQUIRES(mutex_);
  // Waits until `done` returns true, for at most `wait`. Calls `done` at first and whenever the
  // watched job or workflow may have ended.
  void wait_until(JobId watched, Duration wait, std::stop_token stop,
                  const std::function<bool()>& done) MS_EXCLUDES(mutex_, step_mutex_);
  // Watched jobs that have ended on other nodes.
  std::vector<JobId> ended_elsewhere(Now now) MS_REQUIRES(step_mutex_) MS_EXCLUDES(mutex_);
  void tell_others(const Effects& effects) MS_REQUIRES(step_mutex_) MS_EXCLUDES(mutex_);
  // The batch failed: callers that may wait keep waiting, all others get the error.
  void fail(Batch& batch, const Error& error, std::vector<std::function<void()>>& answers, Now now)
      MS_REQUIRES(step_mutex_) MS_EXCLUDES(mutex_);
  void give_back(Batch& batch, const Error& error, std::vector<std::function<void()>>& answers,
                 Now now) MS_REQUIRES(step_mutex_, mutex_);
  Duration spread(Duration about);
  void add_parked(Batch& batch, Parked& parked, const std::string& queue) MS_REQUIRES(mutex_);
  // The parked claims that take jobs of the queue: of its name, then of its patterns.
  std::vector<const QueueLine*> lines_of(const std::string& queue) const MS_REQUIRES(mutex_);
  bool choose_queues(Pending& pending) MS_REQUIRES(step_mutex_, mutex_);
  std::vector<std::string> next_queues(const std::vector<std::string>& asked, std::size_t most)
      MS_REQUIRES(step_mutex_, mutex_);
  // A withheld claim is offered no jobs.
  enum class Parking : std::uint8_t { for_jobs, withheld };
  void park(Pending pending, Parking parking = Parking::for_jobs) MS_REQUIRES(mutex_);
  Pending unpark(Parked& parked) MS_REQUIRES(mutex_);
  void expire_parked(std::vector<std::function<void()>>& answers, Now now) MS_REQUIRES(mutex_);
  void distribute(Batch& batch, BatchReport& report, std::vector<std::function<void()>>& answers,
                  Now now) MS_REQUIRES(step_mutex_, mutex_);
  // The worker's entry, created if it is new. Beyond kMaxKnownWorkers one that is not kept.
  Worker& worker_of(const std::string& name) MS_REQUIRES(mutex_);
  void note_worker(const Operation& operation, const OperationResult& result, Now now)
      MS_REQUIRES(mutex_);
  void note_traces(const Pending& caller, const Operation& operation, OperationResult& result,
                   Now now);
  // -- worker_commands.cc
  bool set_command(const std::string& worker, WorkerCommand command) MS_REQUIRES(mutex_);
  void obey_commands(std::vector<std::function<void()>>& answers) MS_REQUIRES(mutex_);
  bool withhold(Pending& pending, std::vector<std::function<void()>>& answers, Now now)
      MS_REQUIRES(mutex_);
  void add_command(const Operation& operation, OperationResult& result) const MS_REQUIRES(mutex_);
  std::optional<RenewResult> answer_without_store(const Operation& operation) MS_REQUIRES(mutex_);
  // -- mark_calls.cc
  void add_version_mark(Batch& batch, Now now) MS_REQUIRES(mutex_);
  Instant next_version_mark() const MS_REQUIRES(mutex_);
  // Parks a claim of the batch again instead of answering it.
  void park_again(Batch& batch, std::size_t i) MS_REQUIRES(mutex_);
  static Pending& take_back(Batch& batch, std::size_t i);
  void tell_cancel(const std::string& who, JobId id, std::vector<std::function<void()>>& answers)
      MS_REQUIRES(mutex_);
  void forget_workers(Now now) MS_REQUIRES(mutex_);
  void push(Pending pending, std::deque<Pending>& line) MS_REQUIRES(mutex_);
  // The reason to refuse an operation now, if any.
  std::optional<Error> refuse(const Operation& operation, std::size_t jobs, std::size_t bytes) const
      MS_REQUIRES(mutex_);
  void register_gauges();
  void drop_gauges();  // they call into this broker
  void register_breaker_gauges();
  void register_backlog_gauges();
  void register_worker_gauge();
  void note_breakers(const std::vector<BreakerInfo>& changed);
  // If there is work, or a deadline earlier than the commit loop knows.
  void wake_commit_loop(Instant next) MS_EXCLUDES(mutex_);
  void run(std::stop_token stop);
  // -- writer_connections.cc
  struct WriterConnection {
    SharedStore* store = nullptr;
    WriterFor what = WriterFor::enqueues;
    CondVar work;
    bool waiting = false;
    Instant took_at;  // when it took its last batch
    std::jthread thread;
  };
  std::deque<Pending>& line_of(const Operation& operation, bool audited) MS_REQUIRES(mutex_);
  const std::deque<Pending>& line_of(const WriterConnection& writer) const MS_REQUIRES(mutex_);
  Instant writers_late_at() const MS_REQUIRES(mutex_);
  // The commit loop sleeps, and would sleep past the time of its work.
  bool commit_loop_is_late() const MS_REQUIRES(mutex_);
  const WriterConnection* writer_for(WriterFor what) const MS_REQUIRES(mutex_);
  // Enough operations wait for this writer that it takes them, whatever the commit loop does.
  bool is_worth(const WriterConnection& writer) const MS_REQUIRES(mutex_);
  // The commit loop must leave the waiting operations of this kind to the writer connection now.
  bool leaves_to_writer(WriterFor what) const MS_REQUIRES(mutex_);
  bool has_work_for(const WriterConnection& writer) const MS_REQUIRES(mutex_);
  void gather_for(WriterConnection& writer, Batch& batch) MS_REQUIRES(mutex_);
  void run_writer(WriterConnection& writer, std::stop_token stop) MS_EXCLUDES(mutex_);
  void commit_by_writer(WriterConnection& writer, Batch& batch) MS_EXCLUDES(mutex_);
  void distribute_of_writer(Batch& batch, BatchReport& report,
                            std::vector<std::function<void()>>& answers, Now now)
      MS_REQUIRES(mutex_);
  bool note_completed(const Operation& operation, const OperationResult& result)
      MS_REQUIRES(mutex_);
  void wake_writers() MS_REQUIRES(mutex_);
  void start_writers() MS_REQUIRES(mutex_);
  void stop_writers() MS_EXCLUDES(mutex_);
  template <class T>
  Result<T> call(Operation operation) MS_EXCLUDES(mutex_);
  void wait_for(SyncCall& sync) MS_EXCLUDES(mutex_);

  Store& store_;
  const Clock& clock_;
  Log& log_;
  const BrokerOptions options_;
  std::function<void(const Error&)> fatal_;
  JobTraces* traces_ = nullptr;  // nullptr = jobs are not traced
  Applied applied_;
  SharedStore* shared_ = nullptr;  // store_, if other nodes change it too
  Random* random_ = nullptr;
  std::function<void(const ChangeHints&)> tell_;
  std::function<void()> waits_ MS_GUARDED_BY(mutex_);
  mutable Mutex listeners_mutex_;  // held while they are called
  std::map<ListenerId, std::function<void()>> listeners_ MS_GUARDED_BY(listeners_mutex_);
  ListenerId next_listener_ MS_GUARDED_BY(listeners_mutex_) = 1;

  mutable Mutex step_mutex_;  // held while a batch is built, committed and answered
  // The last step, without steps whose commit did not reach the store.
  Instant stepped_at_ MS_GUARDED_BY(step_mutex_) = Instant::never();
  Instant next_poll_ MS_GUARDED_BY(step_mutex_) = Instant::never();
  Instant last_poll_ MS_GUARDED_BY(step_mutex_);
  Instant next_look_ MS_GUARDED_BY(step_mutex_) = Instant::never();  // for watched jobs
  WatchId last_looked_ MS_GUARDED_BY(step_mutex_) = 0;
  // For other nodes, from the last batch: cancelled jobs that run, and their workers.
  std::vector<CancelNotice> cancels_to_tell_ MS_GUARDED_BY(step_mutex_);
  // The database could not be reached since the last poll: waiting callers may have missed changes.
  bool missed_ MS_GUARDED_BY(step_mutex_) = false;
  mutable Mutex mutex_;
  CondVar work_;
  ChangeHintSet heard_ MS_GUARDED_BY(mutex_);
  bool loop_waiting_ MS_GUARDED_BY(mutex_) = false;
  Instant loop_until_ MS_GUARDED_BY(mutex_);
  std::deque<Pending> urgent_ MS_GUARDED_BY(mutex_);
  std::deque<Pending> completions_ MS_GUARDED_BY(mutex_);  // for the writer connection, if any
  std::deque<Pending> enqueues_ MS_GUARDED_BY(mutex_);
  std::deque<Pending> claims_ MS_GUARDED_BY(mutex_);
  std::size_t waiting_jobs_ MS_GUARDED_BY(mutex_) = 0;
  std::size_t waiting_bytes_ MS_GUARDED_BY(mutex_) = 0;
  std::unordered_map<ParkId, std::unique_ptr<Parked>> parked_ MS_GUARDED_BY(mutex_);
  std::size_t own_parked_ MS_GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::string, QueueLine> lines_ MS_GUARDED_BY(mutex_);  // also of patterns
  std::size_t parked_patterns_ MS_GUARDED_BY(mutex_) = 0;
  // The queue that was served last, by the hash of a claim's patterns.
  std::map<std::size_t, std::string> turns_ MS_GUARDED_BY(mutex_);
  std::map<std::pair<Instant, ParkId>, Parked*> deadlines_ MS_GUARDED_BY(mutex_);
  std::map<std::string, Ready> ready_ MS_GUARDED_BY(mutex_);
  std::vector<ParkId> abandoned_ MS_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> pings_ MS_GUARDED_BY(mutex_);
  LeaseWaiters lease_waiters_ MS_GUARDED_BY(mutex_);
  std::unordered_map<std::string, Worker> workers_ MS_GUARDED_BY(mutex_);
  Worker unknown_worker_ MS_GUARDED_BY(mutex_);  // see worker_of()
  WorkerCommands commands_ MS_GUARDED_BY(mutex_);
  std::vector<std::string> commanded_ MS_GUARDED_BY(mutex_);  // workers whose command changed
  std::vector<CommandNotice> commands_to_tell_ MS_GUARDED_BY(mutex_);
  VersionMarks version_marks_ MS_GUARDED_BY(mutex_);
  Instant committed_at_ MS_GUARDED_BY(mutex_);  // when the last batch was committed
  std::unordered_map<JobId, std::vector<std::pair<WatchId, std::function<void()>>>> watches_
      MS_GUARDED_BY(mutex_);
  std::map<WatchId, JobId> watch_jobs_ MS_GUARDED_BY(mutex_);
  QueueLabels queue_labels_;
  // See get_watched(): oldest first, limited in time and size.
  struct KeptEnd {
    Instant at;
    std::shared_ptr<const Job> job;
  };
  std::deque<KeptEnd> kept_ends_ MS_GUARDED_BY(mutex_);
  std::unordered_map<JobId, std::shared_ptr<const Job>> kept_ends_by_id_ MS_GUARDED_BY(mutex_);
  std::size_t kept_ends_bytes_ MS_GUARDED_BY(mutex_) = 0;
  std::uint64_t next_handle_ MS_GUARDED_BY(mutex_) = 1;
  std::uint64_t next_order_ MS_GUARDED_BY(mutex_) = 1;
  Instant workers_checked_ MS_GUARDED_BY(mutex_);
  Instant allowed_at_ MS_GUARDED_BY(mutex_) = Instant::never();  // last allow_restart()
  CondVar renewed_;                                              // a worker renewed
  bool claims_stopped_ MS_GUARDED_BY(mutex_) = false;
  bool stopped_ MS_GUARDED_BY(mutex_) = false;
  bool failed_ MS_GUARDED_BY(mutex_) = false;
  std::string held_ MS_GUARDED_BY(mutex_);  // why changes are refused; "" = they are accepted
  std::jthread commit_loop_;
  std::list<WriterConnection> writers_ MS_GUARDED_BY(mutex_);
  bool committing_ MS_GUARDED_BY(mutex_) = false;  // the commit loop, or a caller that steps
  // Completed by a writer connection; the commit loop's store must forget these jobs.
  std::vector<std::pair<JobId, Token>> completed_elsewhere_ MS_GUARDED_BY(mutex_);

  Histogram& commit_seconds_;
  Histogram& commit_operations_;
  Counter& enqueued_total_;
  Counter& claimed_total_;
  Counter& alarms_total_;
  Counter& standstills_total_;
  HistoryCounter history_ MS_GUARDED_BY(mutex_);
  CondVar history_settled_;  // rows on their way to the store were written or returned
  JobMetrics job_metrics_ MS_GUARDED_BY(mutex_);
  Events events_;
  Registry& registry_;
  Housekeeping housekeeping_;
  Pace pace_;
  // Counts of all queues, shared by callers for kRecentFor.
  static constexpr Duration kRecentFor = std::chrono::seconds(2);
  Mutex recent_mutex_;
  std::shared_ptr<const RecentCounts> recent_ MS_GUARDED_BY(recent_mutex_);
  Instant recent_at_ MS_GUARDED_BY(recent_mutex_);
  std::int64_t recent_commits_ MS_GUARDED_BY(recent_mutex_) = -1;  // of the store, before the read
  ServiceTimes service_times_;
};

}  // namespace mainspring
