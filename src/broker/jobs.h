// Jobs: the interface of a job engine, in this process or on a server.
//
// Broker (an engine in this process) and Client (a server) both implement it, so workers, the
// command line and user programs are written once. All calls block and are thread-safe.
#pragma once

#include <functional>
#include <stop_token>

#include "store/job_edits.h"
#include "store/store.h"

namespace mainspring {

// A request for the ticks of a past period.
struct Backfill {
  std::string name;
  WallTime from;
  WallTime to;
  std::optional<Overlap> overlap;  // nullopt = buffer_all: one after another
  Within within = {};
};
struct BackfillResult {
  int fired = 0;
  int skipped = 0;               // had run before, or no runs remained
  std::optional<WallTime> next;  // continue from here; nullopt = all done
};

struct PauseSchedules {
  ScheduleSet which;
  bool paused = true;
  std::string reason;
  Within within = {};  // names outside it are reported missing, and a prefix does not match them
};
inline constexpr std::size_t kMaxPausedAtOnce = 1000;  // names
using JobChange = std::variant<Cancel, RetryJob, EditJob, DeleteJob>;

// Which process decides that a lease has ended.
enum class LeasesEnd : std::uint8_t {
  elsewhere,  // a server: a holder that gets no answer must stop in time
  here_too,   // this process or other nodes of its store
  here,       // this process alone: a holder can always ask, however late
};

class Jobs {
 public:
  virtual ~Jobs() = default;

  virtual LeasesEnd leases_end() const { return LeasesEnd::elsewhere; }

  // Errors: invalid_argument, too_large, conflict (idempotency key with another body), overloaded,
  // storage_full, unavailable. Durable when it returns. A remote enqueue without an idempotency key
  // gets one, so that it can be repeated safely when the connection breaks.
  virtual Result<EnqueueResult> enqueue(Enqueue request) = 0;
  // Waits up to `wait` for the first job; empty if there was none, or when `stop` is requested.
  virtual Result<ClaimResult> claim(Claim request, Duration wait, std::stop_token stop) = 0;
  virtual Result<RenewResult> renew(Renew request) = 0;
  virtual Result<FinishResult> finish(Finish request) = 0;
  virtual Result<CancelResult> cancel(Cancel request) = 0;
  virtual Result<RetryResult> retry(RetryJob request) = 0;
  virtual Result<EditResult> edit(EditJob request) = 0;
  virtual Result<void> delete_job(DeleteJob request) = 0;
  // Errors: not_found, expired, invalid_argument, and those of enqueue().
  virtual Result<EnqueuedJob> clone(CloneJob request) = 0;
  // Makes many changes; results in the same order. A refused change does not stop the others.
  virtual std::vector<Result<void>> change(std::vector<JobChange> changes) {
    std::vector<Result<void>> answers;
    answers.reserve(changes.size());
    for (JobChange& one : changes)
      answers.push_back(std::visit([this](auto& request) { return change_one(request); }, one));
    return answers;
  }
  virtual Result<RedriveResult> redrive(Redrive request) = 0;
  virtual Result<void> pause_queue(PauseQueue request) = 0;
  virtual Result<void> set_retention(SetRetention request) = 0;
  // See RemoveQueue.
  virtual Result<void> remove_queue(const std::string& name) = 0;
  virtual Result<void> set_queue_limits(SetQueueLimits request) = 0;

  // -- named leases
  // Waits up to `wait` while another holder has it. Errors: lease_held, invalid_argument (also for
  // reserved names), overloaded, unavailable.
  virtual Result<LeaseGrant> acquire_lease(AcquireLease request, Duration wait,
                                           std::stop_token stop) = 0;
  virtual Result<LeaseGrant> renew_lease(RenewLease request) = 0;
  virtual Result<void> release_lease(ReleaseLease request) = 0;
  virtual Result<LeaseInfo> get_lease(const std::string& name) = 0;
  virtual Result<std::vector<LeaseInfo>> leases(const std::string& after, int limit) = 0;

  // -- sessions; to accept the next free session of a queue, claim from its accept_queue
  // Errors of these: invalid_argument, lease_held (accept), lease_lost (calls by a holder),
  // too_large, not_found (get, resume), overloaded, unavailable.
  virtual Result<SessionGrant> accept_session(AcceptSession request) = 0;
  virtual Result<SessionGrant> renew_session(RenewSession request) = 0;
  virtual Result<void> release_session(ReleaseSession request) = 0;
  virtual Result<void> put_session_state(PutSessionState request) = 0;
  virtual Result<void> resume_session(ResumeSession request) = 0;
  virtual Result<SessionInfo> get_session(const SessionKey& session) = 0;
  // Sessions of one queue, by key, after `after` ("" = from the first).
  virtual Result<SessionPage> sessions(const std::string& queue, const std::string& after,
                                       int limit) = 0;

  // -- schedules
  // Errors: invalid_argument, overloaded.
  virtual Result<PutScheduleResult> put_schedule(Schedule schedule, std::optional<bool> paused,
                                                 RunCount runs = RunCount::keep) = 0;
  virtual Result<void> remove_schedule(const std::string& name) = 0;
  virtual Result<void> pause_schedule(PauseSchedule request) = 0;
  virtual Result<void> set_timer(SetTimer request) = 0;
  // Runs it now, with the given overlap policy or the schedule's own. `source`: trigger or wake.
  virtual Result<FireResult> trigger_schedule(const std::string& name, TickSource source,
                                              std::optional<Overlap> overlap) = 0;
  // The ticks in [from, to), up to kMaxMisfires in one call: continue from `next`.
  virtual Result<BackfillResult> backfill_schedule(Backfill request) = 0;
  virtual Result<ScheduleInfo> get_schedule(const std::string& name) = 0;
  virtual Result<std::vector<ScheduleInfo>> schedules(const std::string& after, int limit) = 0;
  virtual Result<LedgerPage> ledger(const std::string& name, int limit, std::int64_t before) = 0;
  // The next `count` ticks after `from` (nullopt = now), 1 to kMaxPreview.
  virtual Result<std::vector<PreviewTick>> preview_schedule(const std::string& name,
                                                            std::optional<WallTime> from,
                                                            int count) = 0;
  // Ticks of schedules that are not paused, and due jobs, up to `within` from now. Errors:
  // invalid_argument (within: more than kMaxUpcoming).
  virtual Result<Upcoming> upcoming(Duration within, int limit) = 0;
  // One after another, each with its own audit record. Errors: invalid_argument (names and prefix,
  // or neither; too many names), and those of pause_schedule except not_found.
  virtual Result<ScheduleChanges> pause_schedules(PauseSchedules request) = 0;

  virtual Result<Job> get(JobId id) = 0;
  // The job's saved step results, by name, from `from` on ("" = the first). Errors: as get().
  virtual Result<MemoPage> memos(JobId id, const std::string& from, int limit) = 0;
  // The job once it is terminal, or as it is when `wait` has passed or `stop` is requested.
  virtual Result<Job> wait(JobId id, Duration wait, std::stop_token stop) = 0;
  virtual Result<JobPage> list(const JobFilter& filter, int limit, JobId before) = 0;
  virtual Result<std::vector<QueueStats>> queues() = 0;
  virtual Result<std::vector<WorkerInfo>> workers() = 0;
  // The worker as it is then. A worker that stops stays so. Errors: not_found, conflict (resume of
  // a worker that stops), forbidden, overloaded.
  virtual Result<WorkerInfo> command_worker(CommandWorker request) = 0;

 private:
  template <class T>
  static Result<void> without_answer(const Result<T>& result) {
    if (!result) return result.error();
    return {};
  }
  Result<void> change_one(Cancel& request) { return without_answer(cancel(std::move(request))); }
  Result<void> change_one(RetryJob& request) { return without_answer(retry(std::move(request))); }
  Result<void> change_one(EditJob& request) { return without_answer(edit(std::move(request))); }
  Result<void> change_one(DeleteJob& request) { return delete_job(std::move(request)); }
};

}  // namespace mainspring
