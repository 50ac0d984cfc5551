// The internals of WorkerRuntime: its threads and shared state. Private to the module.
//
// One mutex guards all of it. It is held for short steps only: never during a call of Jobs, a
// handler, or a stop callback (callbacks run on the watcher).
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <set>
#include <thread>
#include <unordered_map>

#include "base/mutex.h"
#include "worker/singletons.h"
#include "worker/worker.h"

namespace mainspring {

// Bodies of finish and renew are kept below the limit of any server (a single larger item is sent
// alone).
inline constexpr std::size_t kMaxCallBytes = 512 << 10;
// Handlers that are faster than this get jobs that were claimed ahead: this much work per slot.
inline constexpr Duration kClaimAhead = std::chrono::milliseconds(2);
inline constexpr Duration kFirstPause = std::chrono::milliseconds(50);
inline constexpr Duration kLongestPause = std::chrono::seconds(5);

struct Kind {
  Handler handler;
  KindOptions options;
  // Guarded by State::mutex.
  int taken = 0;    // jobs of it in ready or running
  int running = 0;  // handlers
  bool full() const { return options.concurrency > 0 && running >= options.concurrency; }
};

// One claim of one job, from the claim to its outcome.
struct Attempt {
  ClaimedJob job;
  Kind* kind = nullptr;
  int slots = 1;  // that it takes: its cost, at most all
  std::stop_source stop;
  std::atomic<StopReason> reason{StopReason::none};  // the first one stays

  std::atomic<bool> confirmed{false};  // lost, confirmed by the server

  // Guarded by State::mutex.
  Instant renew_at;
  Instant lease_end;  // the handler is asked to stop by then; a margin before the server's end
  Instant time_limit = Instant::never();
  Instant stuck_at = Instant::never();
  bool started = false;
  bool lost = false;  // not renewed any more
  std::optional<Progress> progress;
  std::optional<std::string> checkpoint;
  std::optional<IgnoredRemarks> warning;              // counts that the server does not have yet
  std::array<std::int64_t, kRemarkFaults> ignored{};  // of the whole attempt
  std::string warned;                                 // the first of these, with its attempt
  std::optional<std::string> session_state;           // sent with an outcome that is not a failure
  std::optional<Error> refused;  // why the server permanently refuses the last report
  std::uint64_t said = 0;        // counts calls of progress, checkpoint and send
  std::uint64_t stored = 0;      // the value of `said` that the server has stored
  // Messages that the server has not acknowledged, in order, with the value of `said` then.
  struct Message {
    std::uint64_t said = 0;
    std::string json;
  };
  std::deque<Message> messages;
  std::int64_t next_seq = 1;      // of the first of them
  std::optional<Error> not_sent;  // the server refused some permanently: they are dropped
  // Step results that the server has not acknowledged; shared with the callers that wait.
  struct NewMemo {
    Memo memo;
    std::optional<Result<void>> answer;
  };
  std::deque<std::shared_ptr<NewMemo>> memos;
  std::set<std::string, std::less<>> memo_names;  // of this attempt
  bool pending() const { return said != stored; }
};
using AttemptPtr = std::shared_ptr<Attempt>;

// A handler is stuck if it runs on for so long after it was asked to stop.
inline constexpr Duration kStuckAfter = std::chrono::seconds(10);

// Growing random pauses between tries: full jitter, doubling from kFirstPause to kLongestPause.
class Pauses {
 public:
  explicit Pauses(Random& random) : random_(random) {}
  Duration next(const Error& error);
  void reset() { limit_ = kFirstPause; }

 private:
  Random& random_;
  Duration limit_ = kFirstPause;
};

struct WorkerRuntime::State {
  State(Jobs& jobs, const Clock& clock, Random& random, Log& log, WorkerOptions options);

  // -- worker.cc: start and stop
  Result<void> start() MS_EXCLUDES(mutex);
  Result<void> start_threads() MS_EXCLUDES(mutex, stop_mutex);
  void request_stop() MS_EXCLUDES(mutex);
  void stop() MS_EXCLUDES(mutex, stop_mutex);
  WorkerStats snapshot() MS_EXCLUDES(mutex);

  // -- claim.cc: the claimer
  void run_claimer() MS_EXCLUDES(mutex);
  Claim next_claim() MS_REQUIRES(mutex);  // max 0 = nothing to claim for now
  int claim_ahead() const MS_REQUIRES(mutex);
  // A job of `kind` leaves its slot or `ready`.
  void leave(Kind& kind) MS_REQUIRES(mutex);
  void accept(ClaimResult&& result, Instant now) MS_REQUIRES(mutex);
  void admit(ClaimedJob&& job, Instant now) MS_REQUIRES(mutex);
  void tell_refused(const Error& error) MS_EXCLUDES(mutex);
  void pause_claims(const Error& error, Pauses& pauses) MS_REQUIRES(mutex);
  void give_back_ready() MS_REQUIRES(mutex);
  void set_slots(int most) MS_EXCLUDES(mutex);
  // -- operator_commands.cc: what an operator asked for
  void obey(WorkerCommand command) MS_REQUIRES(mutex);
  // Waits while the worker is quiet, and asks the server from time to time whether it still is.
  void stay_quiet() MS_REQUIRES(mutex);
  void stop_on_command() MS_EXCLUDES(mutex);
  // -- start_failure.cc: programs that cannot be started
  void cannot_start(const Error& error) MS_REQUIRES(mutex);
  void program_ended(Instant started_at) MS_REQUIRES(mutex);
  void wait_to_start() MS_REQUIRES(mutex);
  // Until the claim that is on its way has ended: it may bring jobs.
  void await_claim() MS_REQUIRES(mutex);
  std::shared_ptr<const WorkerFacts> new_facts() const MS_REQUIRES(mutex);
  // -- stuck.cc: handlers that do not stop
  void look_for_stuck(Instant now) MS_REQUIRES(mutex);
  // Waits until slots may be free, and reports meanwhile if handlers are stuck.
  void await_room() MS_REQUIRES(mutex);
  // Returns true if the server refused a report of trouble: send it again, now without the report.
  bool leaves_trouble_out(const Error& error) MS_EXCLUDES(mutex);
  Result<RenewResult> ask_for_command() MS_EXCLUDES(mutex);
  // The next job, if it does not fit into the free slots: it waits, and so do the jobs after it.
  const Attempt* waits_for_slots() const MS_REQUIRES(mutex);

  // -- slots.cc: the slots
  void run_slot() MS_EXCLUDES(mutex);
  AttemptPtr take_ready() MS_REQUIRES(mutex);
  void wake_slot() MS_REQUIRES(mutex);
  // The only place where handlers are called and their exceptions caught.
  HandlerResult call_handler(Attempt& attempt) MS_EXCLUDES(mutex);
  // The same, under the singleton lease of its kind.
  HandlerResult call_alone(const AttemptPtr& attempt) MS_EXCLUDES(mutex);
  // nullopt = the server knows that the job is lost: send nothing.
  std::optional<Outcome> weigh(const Attempt& attempt, HandlerResult&& result);
  Outcome failure(const Attempt& attempt, std::string message, std::optional<Duration> after,
                  const ProgramEnd& program);
  void conclude(const AttemptPtr& attempt, std::optional<Outcome> outcome) MS_REQUIRES(mutex);

  // -- leases.cc: renewer and watcher
  void run_renewer() MS_EXCLUDES(mutex);
  Instant renew_due() const MS_REQUIRES(mutex);
  struct Sent {
    AttemptPtr attempt;
    std::uint64_t said = 0;
    std::size_t memos = 0;  // how many of the first memos
    std::optional<IgnoredRemarks> warning{};
  };
  Renew gather_renew(bool all, std::vector<Sent>& sent) MS_REQUIRES(mutex);
  void renewed(const RenewResult& result, const std::vector<Sent>& sent, Instant sent_at)
      MS_REQUIRES(mutex);
  void renew_failed(const Error& error, const std::vector<Sent>& sent) MS_REQUIRES(mutex);
  void lose(const AttemptPtr& attempt, bool confirmed) MS_REQUIRES(mutex);
  void tell(const AttemptPtr& attempt, StopReason reason) MS_REQUIRES(mutex);
  void cancel_wanted(const std::vector<JobId>& ids) MS_REQUIRES(mutex);
  void run_watcher() MS_EXCLUDES(mutex);
  void look(Instant now) MS_REQUIRES(mutex);
  void look_after_standstill(Instant now) MS_REQUIRES(mutex);
  // The server may be about to stop: a renewal at once returns how long leases last then.
  void renew_soon() MS_REQUIRES(mutex);
  void set_lease(Attempt& attempt, Instant from, Duration lease) MS_REQUIRES(mutex);
  void wake_by(Attempt& attempt) MS_REQUIRES(mutex);
  void report(Attempt& attempt) MS_REQUIRES(mutex);
  void ignore(Attempt& attempt, RemarkFault fault, std::string_view text) MS_EXCLUDES(mutex);
  static void forget_warning(Attempt& attempt, const std::optional<IgnoredRemarks>& sent);
  Result<void> flush(Attempt& attempt) MS_EXCLUDES(mutex);
  Result<void> say(Attempt& attempt, std::string json) MS_EXCLUDES(mutex);
  void flush_last(Attempt& attempt, bool complete) MS_EXCLUDES(mutex);
  std::uint64_t take_messages(const Attempt& attempt, Renewal& renewal, std::size_t& bytes)
      MS_REQUIRES(mutex);
  static void drop_messages(Attempt& attempt);  // that the server has stored or refused

  // -- memos.cc: saved step results
  Result<std::optional<std::string>> recall(Attempt& attempt, std::string_view name)
      MS_EXCLUDES(mutex);
  Result<void> remember(Attempt& attempt, Memo memo) MS_EXCLUDES(mutex);
  static std::size_t take_memos(const Attempt& attempt, Renewal& renewal, std::size_t& bytes);
  static void answer_memos(Attempt& attempt, std::size_t count, const Result<void>& answer);

  // -- finish.cc: the finisher
  void run_finisher() MS_EXCLUDES(mutex);
  Finish next_finish() MS_REQUIRES(mutex);
  void send(Finish batch) MS_EXCLUDES(mutex);
  void send_one_by_one(Finish batch) MS_EXCLUDES(mutex);
  bool bury(const JobOutcome& refused, const std::string& message) MS_REQUIRES(mutex);
  void count_outcomes(const Finish& batch, const FinishResult& result) MS_EXCLUDES(mutex);

  Jobs& jobs;
  const Clock& clock;
  Random& random;
  Log& log;
  const WorkerOptions options;
  const std::string incarnation;
  std::map<std::string, Kind, std::less<>> kinds;
  std::optional<Kind> any;
  bool kinds_limited = false;  // some kind has its own concurrency limit
  Singletons singletons;
  ClaimCall claim_call;  // empty = jobs.claim
  // Under the lock while it runs; empty = not set, or called already.
  std::function<void(const Error&)> when_refused;

  Mutex stop_mutex;  // one stop() at a time
  Mutex mutex;
  bool started MS_GUARDED_BY(mutex) = false;
  bool stopping MS_GUARDED_BY(mutex) = false;                  // no more claims
  bool slots_end MS_GUARDED_BY(mutex) = false;                 // threads end when they have no work
  bool finisher_end MS_GUARDED_BY(mutex) = false;              //
  bool leases_end MS_GUARDED_BY(mutex) = false;                //
  Instant tell_at MS_GUARDED_BY(mutex) = Instant::never();     // handlers are asked to stop
  Instant give_up_at MS_GUARDED_BY(mutex) = Instant::never();  // outcomes are no longer sent
  std::stop_source claim_stop MS_GUARDED_BY(mutex);            // of the current claim
  // The current claim leaves out kinds that were full: it ends when one of them has room again.
  bool claim_leaves_out MS_GUARDED_BY(mutex) = false;
  bool claim_ends MS_GUARDED_BY(mutex) = false;  // the watcher ends it

  bool claiming MS_GUARDED_BY(mutex) = false;  // stats.claims counts the claim
  CondVar claimed_cv;                          // it has ended
  CondVar claimer_cv, slots_cv, renewer_cv, watcher_cv, finisher_cv, stored_cv, ended_cv;
  int start_failures MS_GUARDED_BY(mutex) = 0;  // in a row
  std::string start_error MS_GUARDED_BY(mutex);
  std::vector<AttemptPtr> overdue MS_GUARDED_BY(mutex);  // running on after such a reason
  std::atomic<int> stuck = 0;                            // how many of them for long
  int stuck_slots MS_GUARDED_BY(mutex) = 0;              // that they hold
  std::atomic<bool> server_is_older = false;             // it refuses reports of trouble
  Instant stuck_told_at MS_GUARDED_BY(mutex);
  std::shared_ptr<const WorkerFacts> facts MS_GUARDED_BY(mutex);
  Instant start_again_at MS_GUARDED_BY(mutex);    // no claims before
  bool quiet MS_GUARDED_BY(mutex) = false;        // claims nothing until it is resumed
  bool stop_wanted MS_GUARDED_BY(mutex) = false;  // the watcher stops it
  bool stop_obeyed MS_GUARDED_BY(mutex) = false;  // once
  bool claimer_waits MS_GUARDED_BY(mutex) = false;
  bool finisher_waits MS_GUARDED_BY(mutex) = false;
  int idle_slots MS_GUARDED_BY(mutex) = 0;        // threads that wait for a job
  bool slot_waking MS_GUARDED_BY(mutex) = false;  // one of them has been notified of a job
  int running MS_GUARDED_BY(mutex) = 0;
  int slot_limit MS_GUARDED_BY(mutex) = options.slots;  // that claims fill: see set_slots()
  int slots_taken MS_GUARDED_BY(mutex) = 0;             // by running jobs
  int slots_ready MS_GUARDED_BY(mutex) = 0;             // that the jobs in `ready` will take
  double handler_us MS_GUARDED_BY(mutex) = -1;          // moving average; -1 = not known
  bool server_away MS_GUARDED_BY(mutex) = false;

  std::deque<AttemptPtr> ready MS_GUARDED_BY(mutex);
  std::unordered_map<JobId, AttemptPtr> active MS_GUARDED_BY(mutex);  // their leases are renewed
  std::deque<JobOutcome> done MS_GUARDED_BY(mutex);
  std::vector<AttemptPtr> to_tell MS_GUARDED_BY(mutex);  // the watcher asks these to stop
  Instant renewer_wake MS_GUARDED_BY(mutex) = Instant::never();
  Instant watcher_wake MS_GUARDED_BY(mutex) = Instant::never();
  Instant looked_at MS_GUARDED_BY(mutex) = Instant::never();  // by the watcher
  Instant report_at MS_GUARDED_BY(mutex) = Instant::never();  // next renew with reports only
  Instant reported_at MS_GUARDED_BY(mutex);
  int flushing MS_GUARDED_BY(mutex) = 0;
  // The server refused messages or memos for now: the next renewal is sent without them.
  bool hold_messages MS_GUARDED_BY(mutex) = false;
  bool renewing_fails MS_GUARDED_BY(mutex) = false;  // logged once until it succeeds
  bool no_room MS_GUARDED_BY(mutex) = false;  // the server renews leases, but takes no messages
  WorkerStats stats MS_GUARDED_BY(mutex);

  std::thread claimer, renewer, watcher, finisher;
  std::vector<std::thread> slots;
};

}  // namespace mainspring
