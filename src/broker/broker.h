// Broker: the only door to the store for changes. Folds concurrent requests into one commit, parks
// claims that find nothing, and hands them work in the very commit that makes it available.
//
//   callers ──submit──▶ [urgent │ enqueue │ claim]  ──step──▶ one batch ─▶ Store::apply ─▶ answers
//                        bounded queues                 ▲                       │
//                                              parked claims ◀── found nothing ─┘
//
// While one commit runs, whatever arrives waits for the next: under load one fdatasync serves
// hundreds of callers; a lone caller waits for one. No timer delays anybody. A parked claim whose
// queue gets a job in a batch is appended to that batch, so enqueue and hand-over share the commit.
// Renew, finish and cancel ("urgent") have room of their own: a full system can always be emptied.
//
// Threads: submit() and the Jobs calls from every thread. step() from one at a time; answers are
// called by it, without a lock held; they must not block and not call step().
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
#include "broker/job_metrics.h"
#include "broker/jobs.h"
#include "broker/lease_waiters.h"
#include "broker/marks.h"
#include "broker/pace.h"
#include "broker/questions.h"
#include "broker/queue_labels.h"
#include "broker/triggers.h"
#include "broker/workflows.h"
#include "env/clock.h"
#include "env/random.h"
#include "store/heard_set.h"
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

  // Asynchronous door. The answer comes exactly once, from step() or, when refused, from submit()
  // itself.
  void submit(Operation operation, Answer answer) MS_EXCLUDES(mutex_) {
    submit(std::move(operation), std::move(answer), std::nullopt);
  }
  // With the record of who asked: in the same commit, behind the operation (see Audit). An Audit
  // that is `alone` is an operation like others.
  void submit(Operation operation, Answer answer, std::optional<Audit> audit) MS_EXCLUDES(mutex_) {
    submit(std::move(operation), std::move(answer), std::move(audit), Wake::runner);
  }
  // A claim that may park up to `wait` from now. Returns a handle for abandon().
  using ParkId = std::uint64_t;
  ParkId submit_claim(Claim claim, Duration wait, Answer answer,
                      std::optional<Audit> audit = std::nullopt) MS_EXCLUDES(mutex_);
  // An acquire that may wait up to `wait` (at most kMaxClaimWait) while somebody else has the
  // lease. Answered with LeaseGrant, or lease_held when the time is over or the handle was
  // abandoned.
  ParkId submit_acquire(AcquireLease request, Duration wait, Answer answer) MS_EXCLUDES(mutex_);
  // The caller of a claim or an acquire went away: answers it empty unless it has been, or is
  // being, answered.
  void abandon(ParkId id) MS_EXCLUDES(mutex_);
  // Calls back once when the job is terminal, at the latest with the first change after it. For GET
  // ?wait=. The caller re-reads the job. Returns a handle for unwatch().
  using WatchId = std::uint64_t;
  WatchId watch(JobId id, std::function<void()> changed) MS_EXCLUDES(mutex_);
  void unwatch(WatchId id) MS_EXCLUDES(mutex_);
  // As Store::get(), for callers that watched the job: one that ended while it was watched is also
  // answered when its retention was so short that it is gone by now.
  Result<Job> get_watched(JobId id) MS_EXCLUDES(mutex_);
  // A workflow is watched as if it were the job with this number: called back with every change of
  // its state.
  static JobId watch_of(WorkflowId id) { return -id; }

  // One batch, if there is anything to do; then says when to call again at the latest:
  // Instant::never() = when something is submitted. Calling it early or often is harmless.
  Instant step(Now now) MS_EXCLUDES(mutex_, step_mutex_);

  // Called (from step) after a batch that may have changed the agenda, until it is removed; when
  // remove_agenda_listener() returns it is not running, unless it is the caller.
  using ListenerId = std::uint64_t;
  ListenerId add_agenda_listener(std::function<void()> changed) MS_EXCLUDES(listeners_mutex_);
  void remove_agenda_listener(ListenerId id) MS_EXCLUDES(listeners_mutex_);
  // Called (from step) when the store can no longer be trusted; set before start().
  void on_fatal(std::function<void(const Error&)> fatal) { fatal_ = std::move(fatal); }
  // Called with each batch that the store has applied, before its answers, with a lock held: it
  // must neither block nor call the broker. Set before start(). For test servers.
  using Applied = std::function<void(std::span<const Operation>, const BatchReport&, Now)>;
  void on_applied(Applied applied) { applied_ = std::move(applied); }
  Agenda agenda() const MS_EXCLUDES(step_mutex_);
  // Jobs are traced from now on. Before start(); `traces` outlives the broker.
  void trace(JobTraces& traces) { traces_ = &traces; }
  JobTraces* traces() const { return traces_; }  // nullptr = none

  // -- a store that other nodes change too (others.cc)
  // `store` is the one of the constructor. `tell` is called (from step) with what a batch may have
  // made possible on other nodes; it must not block. `random` spreads the polls of many nodes. Both
  // outlive the broker. Before start().
  void share(SharedStore& store, Random& random, std::function<void(const Heard&)> tell);
  // Called when somebody begins to wait who may be waiting for others, with a lock held; it must
  // not block. From every thread.
  void on_wait(std::function<void()> waits);
  // Whether somebody does: for a job, the end of one, a lease, events. From every thread.
  bool waits_for_news() MS_EXCLUDES(mutex_);
  // Another connection to the same store, for enqueues or completions that arrive while the runner
  // commits (see lane.cc). It outlives the broker. One for each; before start().
  enum class LaneFor : std::uint8_t { enqueues, completions };
  void add_lane(SharedStore& store, LaneFor what) MS_EXCLUDES(mutex_);
  // Changes of callers are refused as unavailable, with this as the reason, until it is "" again.
  // Renewals without messages go on, and what the scheduler does. Parked claims wait. Every thread.
  void hold(std::string why) MS_EXCLUDES(mutex_);

  // -- a planned restart (standstill.cc)
  // See AllowRestart. Errors: those of the store.
  Result<void> allow_restart(Duration allowance) MS_EXCLUDES(mutex_, step_mutex_);
  // Waits until every worker that runs jobs has renewed its leases since, so that it knows of the
  // allowance; at most until `until`. A worker whose renewal is overdue is not waited for.
  void wait_for_renewals(Instant until) MS_EXCLUDES(mutex_);
  // A worker takes no more jobs: its waiting claims are answered. How many those are; claims of
  // queues outside are left alone.
  std::size_t end_claims(const std::string& worker, const Within& within) MS_EXCLUDES(mutex_);
  // What another node's change may have made possible here. From every thread; a hint.
  void hear(const Heard& what) MS_EXCLUDES(mutex_);

  // What becomes of jobs, for those who listen. From every thread.
  Events& events() { return events_; }

  // See Store::due_schedules. From every thread.
  Result<std::vector<ScheduleInfo>> due_schedules(WallTime now, int limit) const {
    return store_.due_schedules(now, limit);
  }

  // The thread that steps. Start and stop may be called twice, in any order; stop waits. After
  // stop_claims() parked claims are answered empty and later ones are refused as unavailable; after
  // stop() everything is.
  void start() MS_EXCLUDES(mutex_);
  void stop_claims() MS_EXCLUDES(mutex_);
  void stop() MS_EXCLUDES(mutex_);

  // Calls `turned` from the commit loop, after the batch that is in progress. For health checks: a
  // loop that hangs does not call. Touches no store. From every thread, while the loop runs.
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
  Result<TriggerInfo> store_trigger(const std::string& name) const;  // with its secret
  const std::vector<std::string>& watch_roots() const { return options_.watch_roots; }
  Result<PutScheduleResult> put_schedule(Schedule schedule, std::optional<bool> paused) override;
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
  // As far as `visible` lets the caller see.
  Result<Upcoming> upcoming(Duration within, int limit, const Within& visible);
  // Each with the record that `audit` makes of its name; empty = without records.
  Result<ScheduleChanges> pause_schedules(PauseSchedules request,
                                          const std::function<Audit(const std::string&)>& audit);
  // A durable commit of nothing; waits for it.
  Result<void> probe_write();
  // When a batch was last committed; the past = none was.
  Instant last_commit() const MS_EXCLUDES(mutex_);
  Result<Job> get(JobId id) override;
  Result<MemoPage> memos(JobId id, const std::string& from, int limit) override;
  Result<Job> wait(JobId id, Duration wait, std::stop_token stop) override;
  Result<JobPage> list(const JobFilter& filter, int limit, JobId before) override;
  Result<std::vector<QueueStats>> queues() override;
  Result<std::vector<WorkerInfo>> workers() override;
  Result<Why> why(JobId id) override;
  Result<DeadGroups> dead_groups(const DeadFilter& filter) override;
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
  // What is known of how fast queues are worked off. Whoever reads their counters tells it.
  Pace& pace() { return pace_; }

 private:
  struct Pending {
    Operation operation;
    Answer answer;
    ParkId park_id = 0;    // claims and acquires: their handle
    Instant deadline;      // claims and acquires: until when they may park
    bool waited = false;   // acquires: it has been parked before
    std::size_t jobs = 0;  // what it counts against max_batch_jobs
    std::size_t bytes = 0;
    std::optional<Audit> audit;  // goes behind the operation
    std::shared_ptr<const TraceSends> sends{};
  };
  struct Parked;
  using QueueLine = std::list<Parked*>;  // parked claims of one queue, first come first
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
    std::vector<Pending> callers;  // same order; callers[i].operation has been moved from; of an
                                   // Audit nobody's
    std::size_t jobs = 0;
    std::size_t bytes = 0;
    // The operation, its caller, and its audit.
    void add(Pending pending);
    bool has_room(const BrokerOptions& o) const {
      return jobs < o.max_batch_jobs && bytes < o.max_batch_bytes;
    }
  };
  struct Worker {
    std::vector<std::string> queues;
    std::shared_ptr<const WorkerFacts> facts;  // null: it reported none
    Instant last_seen;
    Instant renewed;  // the leases of its jobs, by a claim or a renewal
    Duration lease = kDefaultLease;
    int running = 0;
    std::vector<JobId> cancels;  // to be told with its next claim
    Instant by_runner_until;     // a lane could not do its completions
  };
  // A queue that got work which its parked claims have not been offered yet: those parked up to
  // `up_to`, at most `burst` of them in the next batch.
  struct Ready {
    std::uint64_t up_to = 0;
    std::size_t burst = 0;
  };
  struct SyncCall;

  // Nobody is woken for an operation whose caller steps itself if no one else does.
  enum class Wake : std::uint8_t { runner, nobody };
  void submit(Operation operation, Answer answer, std::optional<Audit> audit, Wake wake)
      MS_EXCLUDES(mutex_);
  bool has_work() const MS_REQUIRES(mutex_);
  // Steps once; the caller holds step_mutex_.
  Instant step_locked(Now now) MS_REQUIRES(step_mutex_) MS_EXCLUDES(mutex_);
  void commit(Batch& batch, std::vector<std::function<void()>>& answers, Now now)
      MS_REQUIRES(step_mutex_) MS_EXCLUDES(mutex_);
  // -- standstill.cc
  // Extends leases if the server stood still until now. The error with which the store refused.
  // `commits`: this step has a batch.
  std::optional<Error> end_standstill(bool commits, Now now) MS_REQUIRES(step_mutex_)
      MS_EXCLUDES(mutex_);
  // When to step at the latest, so that a standstill is noticed.
  Instant next_tick(Now now) const MS_REQUIRES(step_mutex_);
  Instant renewals_due() const MS_REQUIRES(mutex_);
  void gather(Batch& batch, std::vector<std::function<void()>>& answers, Now now)
      MS_REQUIRES(step_mutex_, mutex_);
  void gather_line(std::deque<Pending>& line, Batch& batch) MS_REQUIRES(mutex_);
  void gather_new_claims(Batch& batch, std::vector<std::function<void()>>& answers, Now now)
      MS_REQUIRES(step_mutex_, mutex_);
  void wake_parked_for_enqueues(Batch& batch, Now now) MS_REQUIRES(mutex_);
  void wake_parked_for_due(Batch& batch, Now now) MS_REQUIRES(step_mutex_, mutex_);
  void wake_line(Batch& batch, const std::string& queue, std::size_t jobs) MS_REQUIRES(mutex_);
  void wake_ready(Batch& batch) MS_REQUIRES(step_mutex_, mutex_);
  void abandon_now(ParkId id, std::vector<std::function<void()>>& answers) MS_REQUIRES(mutex_);
  // -- history_calls.cc
  void count(const Batch& batch, const BatchReport& report, Now now) MS_REQUIRES(mutex_);
  // Asks the store about jobs that are not known here.
  void look_up_history() MS_EXCLUDES(mutex_);
  // Whether rows were offered to the next apply(); if so, note_history() must follow it.
  bool offer_history(HistoryWrite when, Now now) MS_REQUIRES(step_mutex_) MS_EXCLUDES(mutex_);
  void note_history(const Result<BatchReport>& report, Now now) MS_REQUIRES(mutex_);
  void write_history(Now now) MS_REQUIRES(step_mutex_) MS_EXCLUDES(mutex_);
  // Calls `read` with what is not written yet; again if a write came between that and its end.
  Result<void> read_with_unwritten(const std::function<Result<void>(const HistoryRows&)>& read)
      MS_EXCLUDES(mutex_);
  // -- backlog.cc
  Result<std::shared_ptr<const RecentCounts>> recent_counts() MS_EXCLUDES(mutex_, recent_mutex_);
  void add_backlogs(std::vector<QueueStats>& queues) MS_EXCLUDES(mutex_, recent_mutex_);
  // -- leases.cc
  void wake_acquires(Batch& batch, std::vector<std::function<void()>>& answers, Now now)
      MS_REQUIRES(step_mutex_, mutex_);
  bool add_waiter(Batch& batch, const std::string& lease) MS_REQUIRES(mutex_);
  // True if it waits on instead of being answered.
  bool park_acquire(Pending& caller, Operation& operation, const OperationResult& result, Now now)
      MS_REQUIRES(step_mutex_, mutex_);
  void tell_listeners() MS_EXCLUDES(listeners_mutex_);
  // -- others.cc
  // What was heard, and what a poll finds, becomes work.
  void listen(std::vector<std::function<void()>>& answers, Now now) MS_REQUIRES(step_mutex_)
      MS_EXCLUDES(mutex_);
  // Those that ask this node, without asking the store.
  std::vector<WorkerInfo> own_workers() MS_EXCLUDES(mutex_);
  // Asks the database, if it is time.
  std::optional<Heard> poll(bool soon, Now now) MS_REQUIRES(step_mutex_) MS_EXCLUDES(mutex_);
  void take_up(const Heard& heard, std::vector<std::function<void()>>& answers, Now now)
      MS_REQUIRES(step_mutex_, mutex_);
  void offer(const std::string& queue) MS_REQUIRES(step_mutex_, mutex_);
  // Reads those of `ended` that are watched, before a later commit can prune them.
  void keep_ends(const std::vector<JobId>& ended, Now now) MS_EXCLUDES(mutex_);
  void tell_ended(const std::vector<JobId>& ended, std::vector<std::function<void()>>& answers)
      MS_REQUIRES(mutex_);
  void tell_workflows(const Effects& effects, std::vector<std::function<void()>>& answers)
      MS_REQUIRES(mutex_);
  // Until `done` says so, asked at first and when the watched one may have ended; for at most
  // `wait`.
  void wait_until(JobId watched, Duration wait, std::stop_token stop,
                  const std::function<bool()>& done) MS_EXCLUDES(mutex_, step_mutex_);
  // Watched jobs that have ended on other nodes.
  std::vector<JobId> ended_elsewhere(Now now) MS_REQUIRES(step_mutex_) MS_EXCLUDES(mutex_);
  void tell_others(const Effects& effects) MS_REQUIRES(step_mutex_) MS_EXCLUDES(mutex_);
  // The batch came to nothing: those who may wait wait on, all others are told.
  void fail(Batch& batch, const Error& error, std::vector<std::function<void()>>& answers, Now now)
      MS_REQUIRES(step_mutex_) MS_EXCLUDES(mutex_);
  void give_back(Batch& batch, const Error& error, std::vector<std::function<void()>>& answers,
                 Now now) MS_REQUIRES(step_mutex_, mutex_);
  Duration spread(Duration about);
  void add_parked(Batch& batch, Parked& parked) MS_REQUIRES(mutex_);
  void park(Pending pending) MS_REQUIRES(mutex_);
  Pending unpark(Parked& parked) MS_REQUIRES(mutex_);
  void expire_parked(std::vector<std::function<void()>>& answers, Now now) MS_REQUIRES(mutex_);
  void distribute(Batch& batch, BatchReport& report, std::vector<std::function<void()>>& answers,
                  Now now) MS_REQUIRES(step_mutex_, mutex_);
  // The worker's entry, made if there is none. Beyond kMaxKnownWorkers one that is not kept.
  Worker& worker_of(const std::string& name) MS_REQUIRES(mutex_);
  void note_worker(const Operation& operation, const OperationResult& result, Now now)
      MS_REQUIRES(mutex_);
  void note_traces(const Pending& caller, const Operation& operation, OperationResult& result,
                   Now now);
  // A claim of the batch that waits on instead of being answered.
  void park_again(Batch& batch, std::size_t i) MS_REQUIRES(mutex_);
  void tell_cancel(const std::string& who, JobId id, std::vector<std::function<void()>>& answers)
      MS_REQUIRES(mutex_);
  void forget_workers(Now now) MS_REQUIRES(mutex_);
  void push(Pending pending, std::deque<Pending>& line) MS_REQUIRES(mutex_);
  // The reason to refuse an operation now, if there is one.
  std::optional<Error> refuse(const Operation& operation, std::size_t jobs, std::size_t bytes) const
      MS_REQUIRES(mutex_);
  void register_gauges();
  void drop_gauges();  // they lead here
  void register_breaker_gauges();
  void register_backlog_gauges();
  void note_breakers(const std::vector<BreakerInfo>& changed);
  // If there is work, or a deadline earlier than the runner knows.
  void wake_runner(Instant next) MS_EXCLUDES(mutex_);
  void run(std::stop_token stop);
  // -- lane.cc
  struct Lane {
    SharedStore* store = nullptr;
    LaneFor what = LaneFor::enqueues;
    CondVar work;
    bool waiting = false;
    Instant took_at;  // its last batch
    std::jthread runner;
  };
  std::deque<Pending>& line_of(const Operation& operation, bool audited) MS_REQUIRES(mutex_);
  const std::deque<Pending>& line_of(const Lane& lane) const MS_REQUIRES(mutex_);
  Instant lanes_late_at() const MS_REQUIRES(mutex_);
  // It sleeps, and would sleep past its work.
  bool runner_is_late() const MS_REQUIRES(mutex_);
  const Lane* lane_for(LaneFor what) const MS_REQUIRES(mutex_);
  // So much waits in its line that it goes to the lane whatever the runner does.
  bool is_worth(const Lane& lane) const MS_REQUIRES(mutex_);
  // What waits there is not the runner's to take now.
  bool leaves_to_lane(LaneFor what) const MS_REQUIRES(mutex_);
  bool has_work_for(const Lane& lane) const MS_REQUIRES(mutex_);
  void gather_for(Lane& lane, Batch& batch) MS_REQUIRES(mutex_);
  void run_lane(Lane& lane, std::stop_token stop) MS_EXCLUDES(mutex_);
  void commit_by_lane(Lane& lane, Batch& batch) MS_EXCLUDES(mutex_);
  void distribute_of_lane(Batch& batch, BatchReport& report,
                          std::vector<std::function<void()>>& answers, Now now) MS_REQUIRES(mutex_);
  bool note_completed(const Operation& operation, const OperationResult& result)
      MS_REQUIRES(mutex_);
  void wake_lanes() MS_REQUIRES(mutex_);
  void start_lanes() MS_REQUIRES(mutex_);
  void stop_lanes() MS_EXCLUDES(mutex_);
  template <class T>
  Result<T> call(Operation operation) MS_EXCLUDES(mutex_);
  void wait_for(SyncCall& sync) MS_EXCLUDES(mutex_);

  Store& store_;
  const Clock& clock_;
  Log& log_;
  const BrokerOptions options_;
  std::function<void(const Error&)> fatal_;
  JobTraces* traces_ = nullptr;    // nullptr = jobs are not traced
  Applied applied_;
  SharedStore* shared_ = nullptr;  // store_, if other nodes change it too
  Random* random_ = nullptr;
  std::function<void(const Heard&)> tell_;
  std::function<void()> waits_ MS_GUARDED_BY(mutex_);
  mutable Mutex listeners_mutex_;  // held while they are called
  std::map<ListenerId, std::function<void()>> listeners_ MS_GUARDED_BY(listeners_mutex_);
  ListenerId next_listener_ MS_GUARDED_BY(listeners_mutex_) = 1;

  mutable Mutex step_mutex_;  // held while a batch is put together, committed and answered
  // The last step, less those whose commit did not reach the store.
  Instant stepped_at_ MS_GUARDED_BY(step_mutex_) = Instant::never();
  Instant next_poll_ MS_GUARDED_BY(step_mutex_) = Instant::never();
  Instant last_poll_ MS_GUARDED_BY(step_mutex_);
  Instant next_look_ MS_GUARDED_BY(step_mutex_) = Instant::never();  // for watched jobs
  WatchId last_looked_ MS_GUARDED_BY(step_mutex_) = 0;
  // Of the last batch, for the other nodes: running jobs that somebody wants stopped, and who has
  // them.
  std::vector<CancelNotice> cancels_to_tell_ MS_GUARDED_BY(step_mutex_);
  // The database could not be reached since: whoever waits may have missed something.
  bool missed_ MS_GUARDED_BY(step_mutex_) = false;
  mutable Mutex mutex_;
  CondVar work_;
  HeardSet heard_ MS_GUARDED_BY(mutex_);
  bool runner_waiting_ MS_GUARDED_BY(mutex_) = false;
  Instant runner_until_ MS_GUARDED_BY(mutex_);
  std::deque<Pending> urgent_ MS_GUARDED_BY(mutex_);
  std::deque<Pending> completions_ MS_GUARDED_BY(mutex_);  // that a lane can do, if there is one
  std::deque<Pending> enqueues_ MS_GUARDED_BY(mutex_);
  std::deque<Pending> claims_ MS_GUARDED_BY(mutex_);
  std::size_t waiting_jobs_ MS_GUARDED_BY(mutex_) = 0;
  std::size_t waiting_bytes_ MS_GUARDED_BY(mutex_) = 0;
  std::unordered_map<ParkId, std::unique_ptr<Parked>> parked_ MS_GUARDED_BY(mutex_);
  std::size_t own_parked_ MS_GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::string, QueueLine> lines_ MS_GUARDED_BY(mutex_);
  std::map<std::pair<Instant, ParkId>, Parked*> deadlines_ MS_GUARDED_BY(mutex_);
  std::map<std::string, Ready> ready_ MS_GUARDED_BY(mutex_);
  std::vector<ParkId> abandoned_ MS_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> pings_ MS_GUARDED_BY(mutex_);
  LeaseWaiters lease_waiters_ MS_GUARDED_BY(mutex_);
  std::unordered_map<std::string, Worker> workers_ MS_GUARDED_BY(mutex_);
  Worker unknown_worker_ MS_GUARDED_BY(mutex_);  // see worker_of()
  Instant committed_at_ MS_GUARDED_BY(mutex_);   // the last batch that was
  std::unordered_map<JobId, std::vector<std::pair<WatchId, std::function<void()>>>> watches_
      MS_GUARDED_BY(mutex_);
  std::map<WatchId, JobId> watch_jobs_ MS_GUARDED_BY(mutex_);
  QueueLabels queue_labels_;
  // See get_watched(): oldest first, for a time and up to a size.
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
  Instant allowed_at_ MS_GUARDED_BY(mutex_) = Instant::never();  // a restart
  CondVar renewed_;                                              // with that
  bool claims_stopped_ MS_GUARDED_BY(mutex_) = false;
  bool stopped_ MS_GUARDED_BY(mutex_) = false;
  bool failed_ MS_GUARDED_BY(mutex_) = false;
  std::string held_ MS_GUARDED_BY(mutex_);  // why changes are refused; "" = they are not
  std::jthread runner_;
  std::list<Lane> lanes_ MS_GUARDED_BY(mutex_);
  bool committing_ MS_GUARDED_BY(mutex_) = false;  // the runner, or who steps in its place
  // Completed by a lane; what the runner's store remembers of them is to go.
  std::vector<std::pair<JobId, Token>> let_go_ MS_GUARDED_BY(mutex_);

  Histogram& commit_seconds_;
  Histogram& commit_operations_;
  Counter& enqueued_total_;
  Counter& claimed_total_;
  Counter& alarms_total_;
  Counter& standstills_total_;
  HistoryCounter history_ MS_GUARDED_BY(mutex_);
  CondVar history_settled_;  // what was on its way to the store has come there, or back
  JobMetrics job_metrics_ MS_GUARDED_BY(mutex_);
  Events events_;
  Registry& registry_;
  Pace pace_;
  // Counts of all queues, shared by callers for kRecentFor.
  static constexpr Duration kRecentFor = std::chrono::seconds(2);
  Mutex recent_mutex_;
  std::shared_ptr<const RecentCounts> recent_ MS_GUARDED_BY(recent_mutex_);
  Instant recent_at_ MS_GUARDED_BY(recent_mutex_);
};

}  // namespace mainspring
