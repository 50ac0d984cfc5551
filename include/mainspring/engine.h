// Start here: a job engine in your program.
//
//   struct Thumbnail {
//     static constexpr std::string_view kind = "thumbnail";
//     std::string path;
//     int width = 200;
//   };
//   BOOST_DESCRIBE_STRUCT(Thumbnail, (), (path, width))
//
//   auto engine = mainspring::Engine::open("/var/lib/myapp/jobs");    // or "http://127.0.0.1:8080"
//   engine->on<Thumbnail>([](const Thumbnail& job, mainspring::Context& context) {
//     make_thumbnail(job.path, job.width);       // throw, or return an error, to try again later
//   });
//   engine->start();
//   engine->enqueue(Thumbnail{.path = "a.jpg"});
//
// A directory opens an engine inside this process; https://HOST:PORT (http:// on this machine,
// unix:/PATH) works for a server elsewhere, with the same calls. All calls are safe from every
// thread. Guides: docs/guides/cpp.md.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "mainspring/breakers.h"
#include "mainspring/bulk.h"
#include "mainspring/context.h"
#include "mainspring/dead_letter.h"
#include "mainspring/event.h"
#include "mainspring/held_job.h"
#include "mainspring/history.h"
#include "mainspring/job.h"
#include "mainspring/lease.h"
#include "mainspring/marks.h"
#include "mainspring/quarantine.h"
#include "mainspring/queues.h"
#include "mainspring/reflect.h"
#include "mainspring/schedules.h"
#include "mainspring/search.h"
#include "mainspring/sessions.h"
#include "mainspring/slot.h"
#include "mainspring/timer.h"
#include "mainspring/triggers.h"
#include "mainspring/why.h"
#include "mainspring/worker.h"
#include "mainspring/workflows.h"

namespace mainspring {

struct EngineOptions {
  // Of the handlers. `queues` need not be filled in: those of on() are added.
  WorkerOptions worker{};
  // Where log lines go: level ("info", "warn", "error") and text. Empty = warnings and errors to
  // standard error.
  std::function<void(std::string_view level, std::string_view text)> log{};

  // Of a server only:
  // What says who you are; "" = none. Over plain http:// it goes to this machine only.
  std::string token{};
  // Of https://, files in PEM. Who may have signed the server's certificate; "" = whom the system
  // trusts. And a certificate of one's own with its key, for servers that ask for one.
  std::string ca_file{};
  std::string certificate_file{};
  std::string key_file{};
  // How long a request waits for the server. Claims and waits add their own waiting time.
  Duration request_timeout = std::chrono::seconds(30);
  // How long a call is repeated while the server is away or overloaded; 0 = never repeated.
  Duration retry_for = std::chrono::seconds(15);

  // Of a directory only:
  // How long ended jobs stay readable.
  Duration retention_completed = std::chrono::hours(24);
  Duration retention_dead = std::chrono::hours(24 * 30);
  // The store failed and can no longer be trusted to write: end the process. Called once, on a
  // thread of the engine. Empty = abort.
  std::function<void(const Error&)> on_fatal{};

  // Of a directory or a database: signed requests for jobs with a callback_to() among their
  // follow-ups (docs/guides/callbacks.md).
  // Posts at once by this engine, each a thread. 0 = none: they wait for an engine or server on
  // this store that has some.
  int callback_slots = 0;
  Duration callback_timeout = std::chrono::seconds(15);  // of one post
  // Networks and names inside your own network that may be posted to, as "10.1.0.0/16".
  std::vector<std::string> outgoing_allow{};
  std::string callback_key_file{};  // "" = the store has one of its own
};

// What follows a job by a request to a URL: by default however it ends. Only one for each job.
FollowUp callback_to(std::string_view url, std::uint8_t on = FollowUp::kEveryEnd);

// Makes an enqueue depend on a lease. The enqueue is refused with lease_lost, and makes no job,
// unless the lease is held with this token. A default-constructed one is no condition.
struct LeaseFence {
  LeaseFence() = default;
  LeaseFence(std::string lease_, Token token_) : lease(std::move(lease_)), token(token_) {}
  LeaseFence(const AutoRenewLease& held) : LeaseFence(held.name(), held.token()) {}
  std::string lease{};
  Token token = 0;
};

// How a job is to be run; defaults as in NewJob.
struct EnqueueOptions {
  std::string queue{};  // "" = the type's own (T::queue), else "default"
  int priority = 5;     // 0 (first) to 9
  std::optional<WallTime> run_at{};
  std::optional<Duration> delay{};
  int max_attempts = 20;
  std::optional<Unique> unique{};
  std::optional<Duration> expires_in{};
  OnExpiry on_expiry = OnExpiry::cancel;        // what becomes of it if it has not started by then
  Duration timeout = std::chrono::minutes(15);  // of one attempt; kForever = none
  std::vector<std::string> tags{};
  std::string headers{};  // a JSON object of strings
  std::string correlation_id{};
  std::string reply_to{};
  std::string reply_session{};  // of that queue, for the replies
  // Jobs of a queue with the same session run one at a time, in the order of their enqueue; "" =
  // none. Guide: docs/guides/sessions.md.
  std::string session{};
  OnDead on_dead = OnDead::skip;  // what becomes of the session when this job dies
  // What the limits per key of the queue count it under, for example a customer; "" = none. Guide:
  // docs/guides/limits.md.
  std::string limit_key{};
  std::vector<FollowUp> follow_ups{};
  // The same key within 24 h gives the same job. "" = none for a directory, a random one for a
  // server, so that a broken connection cannot double the job.
  std::string idempotency_key{};
  // Enqueue only while this lease is held.
  LeaseFence fence{};
};

struct Enqueued {
  JobId id = 0;
  JobState state = JobState::available;
  bool duplicate = false;  // unique or the idempotency key found it
};

struct HandlerOptions {
  std::string queue{};  // "" = the type's own (T::queue), else "default"
  // As in KindOptions.
  int concurrency = 0;
  Duration timeout{0};
  RetryPolicy retry{};
  std::string singleton{};
};

namespace reflect {

template <class T>
std::string queue_of(const std::string& chosen) {
  if (!chosen.empty()) return chosen;
  if constexpr (requires { std::string_view(T::queue); }) {
    return std::string(T::queue);
  } else {
    return "default";
  }
}

template <class T>
struct IsResult : std::false_type {};
template <class T>
struct IsResult<Result<T>> : std::true_type {};

// What a handler returned, as an outcome.
template <class R>
HandlerResult outcome_of(R&& returned) {
  using T = std::remove_cvref_t<R>;
  if constexpr (IsResult<T>::value) {
    if (!returned) return std::move(returned.error());
    if constexpr (std::is_void_v<typename T::value_type>) {
      return Outcome(Complete{});
    } else {
      return outcome_of(std::move(*returned));
    }
  } else if constexpr (std::is_same_v<T, Error>) {
    return std::forward<R>(returned);
  } else if constexpr (std::is_convertible_v<R&&, Outcome> && !std::is_arithmetic_v<T>) {
    return Outcome(std::forward<R>(returned));
  } else {
    return Outcome(Complete{to_json(returned)});
  }
}

template <class T, class F>
HandlerResult call(F& handler, const T& value, Context& context) {
  constexpr bool kWithContext = std::is_invocable_v<F&, const T&, Context&>;
  static_assert(kWithContext || std::is_invocable_v<F&, const T&>,
                "a handler takes (const T&) or (const T&, Context&)");
  if constexpr (kWithContext) {
    if constexpr (std::is_void_v<std::invoke_result_t<F&, const T&, Context&>>) {
      std::invoke(handler, value, context);
      return Outcome(Complete{});
    } else {
      return outcome_of(std::invoke(handler, value, context));
    }
  } else if constexpr (std::is_void_v<std::invoke_result_t<F&, const T&>>) {
    std::invoke(handler, value);
    return Outcome(Complete{});
  } else {
    return outcome_of(std::invoke(handler, value));
  }
}

}  // namespace reflect

class Engine {
 public:
  // Opens the store in the directory (made if it is new; one process at a time), or prepares to
  // talk to a server, which need not be there yet. Errors: invalid_argument (the URL, an option),
  // conflict (another process has the directory open), io_error, storage_full.
  static Result<Engine> open(std::string directory_or_url, EngineOptions options = {});
  // Stops.
  ~Engine();
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;

  // -- running jobs ------------------------------------------------------------------------------

  // What to do with jobs of type T. The handler takes (const T&) or (const T&, Context&) and
  // returns nothing, a result (any type to_json takes; kept with the job), a Result of one, or an
  // Outcome. Errors and exceptions are failed attempts, args that are no T too. Before start().
  template <class T, class F>
  void on(F handler, HandlerOptions options = {}) {
    const std::string queue = reflect::queue_of<T>(options.queue);
    on_kind(std::string(kind_of<T>()),
            [shared = std::make_shared<F>(std::move(handler))](const ClaimedJob& job,
                                                               Context& context) -> HandlerResult {
              auto value = from_json<T>(job.args);
              if (!value) {
                value.error().message = "args: " + value.error().message;
                return std::move(value.error());
              }
              return reflect::call<T>(*shared, *value, context);
            },
            {.queue = queue,
             .concurrency = options.concurrency,
             .timeout = options.timeout,
             .retry = options.retry,
             .singleton = options.singleton});
  }
  // The same for a kind by name, with args as JSON in job.args. Handlers run on several threads at
  // once. Before start().
  void on_kind(std::string kind, Handler handler, HandlerOptions options = {});

  // Runs of continuous timers whose schedules make jobs of this kind; guide: docs/guides/timers.md.
  // A run holds one of worker.slots, its twin a second one. Before start(), which refuses options
  // that break a rule.
  void on_timer(std::string kind, ProcessBatch process, TimerOptions options = {});

  // Starts running jobs: of the kinds that have a handler, from their queues. Errors:
  // invalid_argument (options, no handler), conflict (it was started before).
  Result<void> start();
  // Claims nothing more, lets handlers end within graceful_stop, gives other jobs back. May be
  // called twice, and before start.
  void stop();
  WorkerStats stats() const;
  // Instead of start(): runs jobs one after the other inside a time slot, with the handlers of
  // on(), and returns at its end. For programs that are started every minute; guide:
  // docs/guides/slots.md. Errors: invalid_argument (options, no handler), unavailable.
  Result<SlotSummary> run_slot(SlotOptions slot = {}, std::stop_token stop = {});

  // -- making jobs -------------------------------------------------------------------------------

  // On disk when it returns. Errors: invalid_argument, too_large, conflict (the idempotency key was
  // used for another job), lease_lost (the fence), overloaded, storage_full, unavailable (it was
  // not made), timeout (the server did not answer: it may have been made).
  template <class T>
  requires(!std::is_same_v<T, NewJob>) Result<Enqueued> enqueue(const T& job,
                                                                EnqueueOptions options = {}) {
    std::string key = std::move(options.idempotency_key);
    return enqueue(reflect_job(job, options), std::move(key), std::move(options.fence));
  }
  // A job that a handler enqueues carries the trace of the handler's job (header "traceparent"),
  // unless it has its own.
  Result<Enqueued> enqueue(NewJob job, std::string idempotency_key = "", LeaseFence fence = {});
  // All or none, up to kMaxEnqueueJobs, answered in their order. No jobs are no request.
  template <class T>
  requires(!std::is_same_v<T, NewJob>) Result<std::vector<Enqueued>> enqueue_many(
      const std::vector<T>& jobs, EnqueueOptions options = {}) {
    std::vector<NewJob> list;
    list.reserve(jobs.size());
    for (const T& job : jobs) list.push_back(reflect_job(job, options));
    return enqueue_many(std::move(list), std::move(options.idempotency_key),
                        std::move(options.fence));
  }
  Result<std::vector<Enqueued>> enqueue_many(std::vector<NewJob> jobs,
                                             std::string idempotency_key = "",
                                             LeaseFence fence = {});

  // -- looking after jobs ------------------------------------------------------------------------

  // Errors: not_found, expired (its retention has ended), unavailable.
  Result<Job> get(JobId id);
  // The job when it has ended, or as it is after `limit`.
  Result<Job> wait(JobId id, Duration limit = kForever, std::stop_token stop = {});
  // What the handler of a completed job returned. Errors: conflict (it has not completed; the
  // message says what became of it), invalid_argument (the result is no R).
  template <class R>
  static Result<R> result(const Job& job) {
    MS_TRY(check_completed(job));
    return from_json<R>(job.result);
  }
  // A running job's handler is told to stop. Errors: not_found, expired, conflict (it has ended).
  Result<JobState> cancel(JobId id, std::string reason = "");
  // A dead or cancelled job begins again, a deferred, scheduled or retryable one now; one in
  // quarantine leaves it. Errors: not_found, expired, conflict (it runs, is completed, is of a
  // workflow, or another live job has its unique key).
  Result<JobState> retry(JobId id);
  // Changes a job that is not running and has not ended. Errors: invalid_argument (with the field),
  // not_found, expired, conflict (it runs or has ended, or a rule in docs/guides/search.md).
  Result<JobState> edit(JobId id, JobEdit changes);
  // Removes a job that has ended. Errors: not_found, expired, conflict (it has not ended).
  Result<void> remove(JobId id);
  // A new job like this one, with some fields changed and without its unique key and expiry.
  // Errors: not_found, expired, and those of enqueue().
  Result<Enqueued> clone(JobId id, JobClone changes = {});
  // A page of up to `limit`, 1 to 1000, of those with an id below `before`; 0 = from the newest. It
  // may be short, even empty, with `next` set: the work of one call is bounded. Errors:
  // invalid_argument (with the field), unavailable.
  Result<FoundJobs> search(const JobSearch& search, int limit = 100, JobId before = 0);
  // Which gate holds it back now, or that none does. Errors: not_found, expired.
  Result<Why> why(JobId id);
  // This job alone, in this program's hands: one that its handler deferred, or that waits for its
  // time or in its line. The engine outlives what it answers. Errors: conflict (it runs, has ended,
  // is of a session, or its queue holds it back), not_found, expired, invalid_argument.
  Result<HeldJob> claim(JobId id, ClaimOptions options = {});
  // Tells of what becomes of jobs and queues from now on, on a thread of its own, one event at a
  // time, in order; the function may take its time: what it misses is a gap. The engine outlives
  // the subscription. A directory or a database tells what this engine did, and the ends of jobs
  // that others on the database told it of. Errors: invalid_argument (with the field), overloaded
  // (100 follow in this process, or as many as a server lets), unavailable.
  Result<EventSubscription> follow(EventFilter filter,
                                   std::function<void(const EngineEvent&)> on_event);

  // Counts, wait and run times of jobs per minute, hour or day. Errors: invalid_argument (with the
  // field), unavailable.
  Result<History> history(HistoryFilter filter = {});
  // Marks a moment on all charts, for example a deploy; nullopt = now. Errors: invalid_argument.
  Result<Mark> mark(std::string text, std::optional<WallTime> at = std::nullopt);
  Result<MarkPage> marks(MarkFilter filter = {});
  Result<void> remove_mark(std::int64_t id);  // errors: not_found
  // Saves a view of the dashboard for everyone, by its name. Errors: invalid_argument, overloaded.
  Result<SavedView> save_view(SavedView view);
  Result<std::vector<SavedView>> views();             // all, by name
  Result<void> remove_view(const std::string& name);  // errors: not_found

  // -- one in the whole system; guide: docs/guides/leases.md --------------------------------------

  // Holds the lease `name` until the object ends; the engine outlives it. Errors: lease_held (after
  // options.wait), invalid_argument, overloaded, unavailable.
  Result<AutoRenewLease> acquire_lease(std::string name, LeaseOptions options = {});
  // Sees to it that the action has been done once in the whole system, ever: runs it under the
  // lease `name`, or waits while another process does. An action that fails, or dies with its
  // process, leaves it undone for the next caller. What the action wrote and could not be recorded
  // (the lease was lost meanwhile) is done again: let it write with lease.token(). Errors: the
  // action's; lease_held (after options.wait, or at a stop), lease_lost, unavailable, conflict (the
  // lease's value is another program's).
  Result<Once> do_once(std::string name, const LeaseAction& action,
                       LeaseOptions options = {.wait = kForever});
  // Runs the action every `interval` in the whole system, until options.stop is requested: one
  // process does under the lease `name`, others wait to take over. Counted from the beginning of
  // the last run that succeeded, in whichever process, also after restarts. An error of the action
  // ends it and is returned. Errors: as do_once.
  Result<void> do_every(std::string name, Duration interval, const LeaseAction& action,
                        LeaseOptions options = {.wait = kForever});

  // -- what looks after the rest: small objects that borrow this engine
  // -----------------------------

  EngineQueues queues();          // counters, limits, pauses
  EngineBreakers breakers();      // what queues depend on
  EngineQuarantine quarantine();  // jobs that took their workers down
  EngineDead dead();              // the dead letter
  EngineBulk bulk();              // one change for all jobs that match a search
  EngineSchedules schedules();    // jobs by the clock, and continuous timers
  EngineSessions sessions();      // jobs of one key, in order
  EngineWorkflows workflows();    // steps that are all done, or undone
  EngineTriggers triggers();      // jobs that events make

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  static Result<void> check_completed(const Job& job);
  static NewJob new_job(std::string_view kind, std::string queue, std::string args,
                        const EnqueueOptions& options);
  template <class T>
  static NewJob reflect_job(const T& job, const EnqueueOptions& options) {
    return new_job(kind_of<T>(), reflect::queue_of<T>(options.queue), to_json(job), options);
  }
  std::unique_ptr<Impl> impl_;
};

}  // namespace mainspring
