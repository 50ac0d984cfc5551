// Client: Jobs, Workflows and the other interfaces of a remote server, over its HTTP API.
//
// Connections are kept alive and pooled. Concurrent calls use separate connections, so a parked
// claim delays no other call. While the server is unreachable, calls are repeated with growing
// random pauses if that is safe: enqueue sends an idempotency key (a random one if the caller gave
// none), the others are idempotent. claim, renew and finish are not repeated here: the worker that
// makes them decides.
//
// The URL may list several servers of one store. Calls use the first until it is unreachable, then
// the next, and so on: see Client::Impl::once.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "base/secret.h"
#include "broker/breakers.h"
#include "broker/jobs.h"
#include "broker/marks.h"
#include "broker/questions.h"
#include "broker/triggers.h"
#include "broker/workflows.h"
#include "env/random.h"
#include "model/trace_context.h"

namespace mainspring {

inline constexpr Duration kCertificateEndsSoon = std::chrono::hours(24 * 7);

struct ClientOptions {
  // http://HOST:PORT, https://HOST:PORT (also with a path before /v1) or unix:PATH. Several servers
  // of one store are separated by commas.
  std::string url;
  // Sent with each request; empty = none. Over plain HTTP only on this machine.
  Secret token;
  // For https; PEM files, read again at a new connection if they were replaced. The server must
  // always present a certificate for HOST.
  std::string ca_file;           // the CA of the server's certificate; "" = the system's CAs
  std::string certificate_file;  // the client's own, "" = none
  std::string key_file;          // of that certificate; mode 0600 or stricter
  Duration connect_timeout = std::chrono::seconds(5);  // at most 1 s if there are several servers
  // Maximum time without a byte of the answer; claims and waits add their own waiting time. Raise
  // for huge batches on slow disks.
  Duration read_timeout = std::chrono::seconds(30);
  // How long a call is repeated while the server is unreachable or overloaded. 0 = never.
  Duration retry_for = std::chrono::seconds(15);
  // Trace of jobs that are enqueued outside handlers; empty = none.
  TraceHeaders trace{};
  // Called by a call, once a day, while the client's certificate ends within kCertificateEndsSoon,
  // or new files cannot be used; empty = not.
  std::function<void(const std::string&)> warn{};
  // Idle connections kept open. Further ones are opened as needed, and closed after use.
  std::size_t max_idle_connections = 64;

  std::vector<Error> validate() const;
};

class Client final : public Jobs,
                     public Workflows,
                     public Triggers,
                     public Breakers,
                     public Marks,
                     public Questions {
 public:
  // Does not connect yet. `random` outlives it. Errors: invalid_argument (the URL, options, files;
  // a token that would be sent over plain HTTP to another machine).
  static Result<std::unique_ptr<Client>> open(ClientOptions options, Random& random);
  ~Client() override;

  // Checks that the server is reachable and ready: GET /readyz. Errors: unavailable.
  Result<void> ready();
  // Sends any request of the API; returns the body of a 2xx answer. `path` starts with "/v1/".
  // Errors: the server's, unavailable, timeout. Not repeated.
  Result<std::string> request(std::string_view method, std::string_view path,
                              std::string_view body);
  // The same with a body that is not JSON. `file_name` goes into Content-Disposition; "" = none.
  Result<std::string> upload(std::string_view method, std::string_view path, std::string body,
                             std::string_view content_type, std::string_view file_name);

  // GET of a stream: `sink` gets its pieces, on this thread, until the server ends the stream or
  // `sink` returns false. Errors: the server's; unavailable (it broke, or was stopped), timeout (no
  // data for read_timeout).
  Result<void> stream(std::string_view path, const std::function<bool(std::string_view)>& sink,
                      std::stop_token stop);

  Result<EnqueueResult> enqueue(Enqueue request) override;
  Result<ClaimResult> claim(Claim request, Duration wait, std::stop_token stop) override;
  Result<RenewResult> renew(Renew request) override;
  Result<FinishResult> finish(Finish request) override;
  Result<CancelResult> cancel(Cancel request) override;
  Result<RetryResult> retry(RetryJob request) override;
  Result<EditResult> edit(EditJob request) override;
  Result<void> delete_job(DeleteJob request) override;
  Result<EnqueuedJob> clone(CloneJob request) override;
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
  // The same, and returns the secret that the server generates for a new http trigger without one.
  Result<PutTriggerAnswer> put_trigger(const PutTriggerRequest& request);
  Result<void> remove_trigger(const std::string& name) override;
  Result<void> pause_trigger(PauseTrigger request) override;
  Result<TriggerFired> fire_trigger(const std::string& name,
                                    const FireTriggerRequest& event) override;
  Result<TriggerInfo> get_trigger(const std::string& name) override;
  Result<std::vector<TriggerInfo>> triggers(const std::string& after, int limit) override;
  Result<TriggerEventPage> trigger_events(const std::string& name, int limit,
                                          std::int64_t before) override;
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
  Result<Upcoming> upcoming(Duration within, int limit) override;
  Result<ScheduleChanges> pause_schedules(PauseSchedules request) override;
  Result<Job> get(JobId id) override;
  Result<MemoPage> memos(JobId id, const std::string& from, int limit) override;
  Result<Job> wait(JobId id, Duration wait, std::stop_token stop) override;
  Result<JobPage> list(const JobFilter& filter, int limit, JobId before) override;
  Result<std::vector<QueueStats>> queues() override;
  Result<std::vector<WorkerInfo>> workers() override;
  Result<WorkerInfo> command_worker(CommandWorker request) override;
  Result<Why> why(JobId id) override;
  Result<DeadGroups> dead_groups(const DeadFilter& filter, WallTime since) override;
  Result<History> history(const HistoryFilter& filter) override;
  Result<RedriveStarted> start_redrive(const DeadFilter& filter, const RedrivePace& pace) override;
  Result<BulkCount> count_bulk(const BulkOrder& order) override;
  Result<BulkInfo> start_bulk(const BulkOrder& order) override;
  Result<std::vector<BulkInfo>> bulks() override;
  Result<BulkInfo> get_bulk(JobId id) override;
  Result<BulkInfo> stop_bulk(JobId id) override;
  Result<BulkInfo> continue_bulk(JobId id) override;
  Result<void> follow(const EventFilter& filter, const EventSink& sink,
                      std::stop_token stop) override;

  // Connections made since open, for tests and bench.
  std::int64_t connections_made() const;

 private:
  struct Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainspring
