// Start here: runs a job engine in your program, or connects to a server.
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
// A directory opens an engine inside this process. https://HOST:PORT (also http:// on this machine,
// and unix:/PATH) connects to a server, with the same calls; of several URLs, separated by commas,
// the next is used while one is unreachable. All calls are thread-safe.
// Guide: docs/guides/cpp.md.
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
#include "mainspring/workers.h"
#include "mainspring/workflows.h"

namespace mainspring {

struct EngineOptions {
  // For the handlers. You can leave `queues` empty: the queues of on() are added.
  WorkerOptions worker{};
  // Where log lines go: level ("info", "warn", "error") and text. Empty = warnings and errors to
  // standard error.
  std::function<void(std::string_view level, std::string_view text)> log{};

  // For servers only:
  // Access token; "" = none. Over plain http:// it is only sent to this machine.
  std::string token{};
  // For https://, PEM files. The CA that signed the server's certificate; "" = the system's CAs.
  // A client certificate and its key, for servers that require one.
  std::string ca_file{};
  std::string certificate_file{};
  std::string key_file{};
  // How long a request waits for the server. Claims and waits add their own waiting time.
  Duration request_timeout = std::chrono::seconds(30);
  // How long a call is retried while the server is unreachable or overloaded; 0 = no retry.
  Duration retry_for = std::chrono::seconds(15);

  // For a directory only:
  // How long finished jobs stay readable.
  Duration retention_completed = std::chrono::hours(24);
  Duration retention_dead = std::chrono::hours(24 * 30);
  // Called when the store has failed and can no longer be trusted to write: end the process. Called
  // once, on a thread of the engine. Empty = abort.
  std::function<void(const Error&)> on_fatal{};

  // For a directory or a database: signed HTTP requests for jobs that have a callback_to() among
  // their follow-ups (docs/guides/callbacks.md).
  // Concurrent requests of this engine, one thread each. 0 = this engine sends none; another engine
  // or server on the same store sends them.
  int callback_slots = 0;
  Duration callback_timeout = std::chrono::seconds(15);  // per request
  // Networks and host names inside your own network that requests may go to: "10.1.0.0/16".
  std::vector<std::string> outgoing_allow{};
  std::string callback_key_file{};  // "" = the key that the store generated
};

// A follow-up that sends a request to `url` when the job ends, by default on every outcome. At most
// one per job.
FollowUp callback_to(std::string_view url, std::uint8_t on = FollowUp::kEveryEnd);

// Makes an enqueue depend on a lease. The enqueue fails with lease_lost, and creates no job, unless
// the lease is held with this token. A default-constructed fence sets no condition.
struct LeaseFence {
  LeaseFence() = default;
  LeaseFence(std::string lease_, Token token_) : lease(std::move(lease_)), token(token_) {}
  LeaseFence(const AutoRenewLease& held) : LeaseFence(held.name(), held.token()) {}
  std::string lease{};
  Token token = 0;
};

// How to run a job; defaults as in NewJob.
struct EnqueueOptions {
  std::string queue{};  // "" = the type's own (T::queue), else its name: "thumbnail"
  int priority = 5;     // 0 (first) to 9
  std::optional<WallTime> run_at{};
  std::optional<Duration> delay{};
  int max_attempts = 20;
  std::optional<Unique> unique{};
  std::optional<Duration> expires_in{};
  OnExpiry on_expiry = OnExpiry::cancel;        // outcome if it has not started by then
  Duration timeout = std::chrono::minutes(15);  // of one attempt; kForever = none
  std::vector<std::string> tags{};
  std::string headers{};  // a JSON object of strings
  std::string correlation_id{};
  std::string reply_to{};
  std::string reply_session{};  // session of the replies in that queue
  // Jobs of a queue with the same session run one at a time, in enqueue order; "" = no session.
  // Guide: docs/guides/sessions.md.
  std::string session{};
  OnDead on_dead = OnDead::skip;  // effect on the session when this job dies
  // The key for the queue's limits per key, for example a customer; "" = none. Guide:
  // docs/guides/limits.md.
  std::string limit_key{};
  std::vector<FollowUp> follow_ups{};
  // The same key within 24 h returns the same job. "" = no key for a directory, a random key for a
  // server, so that a retry after a broken connection cannot create the job twice.
  std::string idempotency_key{};
  // Enqueue only while this lease is held.
  LeaseFence fence{};
};

struct Enqueued {
  JobId id = 0;
  JobState state = JobState::available;
  bool duplicate = false;  // an existing job, found by its unique or idempotency key
};

struct HandlerOptions {
  std::string queue{};  // "" = as in EnqueueOptions; of on_kind(): "default"
  // As in KindOptions.
  int concurrency = 0;
  Duration timeout{0};
  RetryPolicy retry{};
  std::string singleton{};
};

namespace reflect {

// The queue of jobs of type T: the chosen one, else T::queue, else the type's own name in lower
// case.
template <class T>
std::string queue_of(const std::string& chosen) {
  if (!chosen.empty()) return chosen;
  if constexpr (requires { std::string_view(T::queue); }) {
    return std::string(T::queue);
  } else {
    std::string name(type_name<T>());
    for (char& c : name) {
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
      if ((c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_') c = '-';
    }
    return name;
  }
}

template <class T>
struct IsResult : std::false_type {};
template <class T>
struct IsResult<Result<T>> : std::true_type {};

// Converts what a handler returned into an outcome.
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
  // Opens the store in the directory (created if new; one process at a time), or prepares a
  // connection to a server. The server need not be up yet. Errors: invalid_argument (the URL, an
  // option), conflict (another process has the directory open), io_error, storage_full.
  static Result<Engine> open(std::string directory_or_url, EngineOptions options = {});
  // Stops.
  ~Engine();
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;

  // -- running jobs ------------------------------------------------------------------------------

  // Sets the handler for jobs of type T. The handler takes (const T&) or (const T&, Context&). It
  // returns nothing, a result (any type that to_json takes; stored with the job), a Result of one,
  // or an Outcome. Errors, exceptions and args that do not parse as T are failed attempts. Call
  // before start().
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
  // Like on(), for a kind given by name, with args as JSON in job.args. Handlers run on several
  // threads concurrently. Call before start().
  void on_kind(std::string kind, Handler handler, HandlerOptions options = {});

  // Sets the handler for continuous timers whose schedules create jobs of this kind; guide:
  // docs/guides/timers.md. A run takes one of worker.slots, its standby a second one. Call before
  // start(), which refuses invalid options.
  void on_timer(std::string kind, ProcessBatch process, TimerOptions options = {});

  // Starts to run jobs of the kinds that have a handler, from their queues. Errors:
  // invalid_argument (options, no handler), conflict (already started).
  Result<void> start();
  // Stops claiming, lets handlers finish within graceful_stop, returns other jobs to the queue. May
  // be called twice, and before start().
  void stop();
  WorkerStats stats() const;
  // Instead of start(): runs jobs one after another inside a time slot, with the handlers of on(),
  // and returns when the slot ends. For programs that are started every minute; guide:
  // docs/guides/slots.md. Errors: invalid_argument (options, no handler), unavailable.
  Result<SlotSummary> run_slot(SlotOptions slot = {}, std::stop_token stop = {});

  // -- making jobs -------------------------------------------------------------------------------

  // The job is durable when it returns. Errors: invalid_argument, too_large, conflict (the
  // idempotency key was used for a different job), lease_lost (the fence), overloaded,
  // storage_full, unavailable (not enqueued), timeout (no answer: the job may be enqueued).
  template <class T>
  requires(!std::is_same_v<T, NewJob>) Result<Enqueued> enqueue(const T& job,
                                                                EnqueueOptions options = {}) {
    std::string key = std::move(options.idempotency_key);
    return enqueue(reflect_job(job, options), std::move(key), std::move(options.fence));
  }
  // A job that a handler enqueues carries the trace of the handler's job (header "traceparent"),
  // unless the new job sets its own.
  Result<Enqueued> enqueue(NewJob job, std::string idempotency_key = "", LeaseFence fence = {});
  // Enqueues all or none, up to kMaxEnqueueJobs; results in the same order. An empty list sends no
  // request.
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

  // -- managing jobs ------------------------------------------------------------------------------

  // Errors: not_found, expired (its retention has ended), unavailable.
  Result<Job> get(JobId id);
  // Waits for the job to end. Returns it then, or as it is after `limit`.
  Result<Job> wait(JobId id, Duration limit = kForever, std::stop_token stop = {});
  // The result of a completed job. Errors: conflict (not completed; the message has the outcome),
  // invalid_argument (the result does not parse as R).
  template <class R>
  static Result<R> result(const Job& job) {
    MS_TRY(check_completed(job));
    return from_json<R>(job.result);
  }
  // Asks the handler of a running job to stop. Errors: not_found, expired, conflict (it has ended).
  Result<JobState> cancel(JobId id, std::string reason = "");
  // Restarts a dead or cancelled job. Makes a deferred, scheduled or retryable one available now.
  // Takes a job out of quarantine. Errors: not_found, expired, conflict (it runs, is completed,
  // belongs to a workflow, or another live job has its unique key).
  Result<JobState> retry(JobId id);
  // Changes a job that is not running and has not ended. Errors: invalid_argument (with the field),
  // not_found, expired, conflict (it runs or has ended, or a rule in docs/guides/search.md).
  Result<JobState> edit(JobId id, JobEdit changes);
  // Removes a job that has ended. Errors: not_found, expired, conflict (it has not ended).
  Result<void> remove(JobId id);
  // Enqueues a copy of this job with some fields changed, without its unique key and expiry.
  // Errors: not_found, expired, and the errors of enqueue().
  Result<Enqueued> clone(JobId id, JobClone changes = {});
  // A page of up to `limit`, 1 to 1000, jobs with an id below `before`; 0 = from the newest. A page
  // may be short, even empty, with `next` set: the work of one call is bounded. Errors:
  // invalid_argument (with the field), unavailable.
  Result<FoundJobs> jobs(const JobSearch& search, int limit = 100, JobId before = 0);
  // The gate that holds the job back now, if any. Errors: not_found, expired.
  Result<Why> why(JobId id);
  // Claims one job by its id: a deferred one, or one that waits for its time or in its ready queue.
  // The engine must outlive the returned HeldJob. Errors: conflict (it runs, has ended, belongs to
  // a session, or its queue holds it back), not_found, expired, invalid_argument.
  Result<HeldJob> claim(JobId id, ClaimOptions options = {});
  // Streams events of jobs and queues from now on. Calls `on_event` on a thread of its own, one
  // event at a time, in order. A slow function loses events and gets a gap event instead. The
  // engine must outlive the subscription. An engine on a directory or database reports its own
  // events, and the ends of jobs that its peers on the database report to it. Errors:
  // invalid_argument (with the field), overloaded (100 subscriptions in this process, or the
  // server's limit), unavailable.
  Result<EventSubscription> events(EventFilter filter,
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

  // -- locks and leases; guide: docs/guides/leases.md ---------------------------------------------

  // Acquires the lease `name`. The returned object releases it when it ends. The engine must
  // outlive the object. Errors: lease_held (after options.wait), invalid_argument, overloaded,
  // unavailable.
  Result<AutoRenewLease> lock(std::string name, LeaseOptions options = {});
  // Runs the action once, ever, in the whole system: under the lease `name`, or waits while another
  // process runs it. If the action fails, or its process dies, the next caller runs it again. The
  // action also runs again if the lease is lost before the completion is recorded: let it write
  // with lease.token(), so that stale writes are refused. Errors: the action's error; lease_held
  // (after options.wait, or when stopped), lease_lost, unavailable, conflict (the lease has a value
  // of another program).
  Result<Once> do_once(std::string name, const LeaseAction& action,
                       LeaseOptions options = {.wait = kForever});
  // Runs the action every `interval` in the whole system, until options.stop is requested. One
  // process runs it under the lease `name`; others wait to take over. The interval is measured from
  // the start of the last successful run in any process, also across restarts. An error of the
  // action ends the loop and is returned. Errors: as do_once.
  Result<void> do_every(std::string name, Duration interval, const LeaseAction& action,
                        LeaseOptions options = {.wait = kForever});

  // -- small objects that borrow this engine, by subject ------------------------------------------

  EngineQueues queues();          // counters, limits, pauses
  EngineBreakers breakers();      // what queues depend on
  EngineQuarantine quarantine();  // jobs whose workers were lost
  EngineDead dead();              // the dead letter
  EngineBulk bulk();              // one change for all jobs that match a search
  EngineSchedules schedules();    // jobs by the clock, and continuous timers
  EngineSessions sessions();      // jobs of one key, in order
  EngineWorkflows workflows();    // steps that are completed or undone together
  EngineTriggers triggers();      // jobs created by events
  EngineWorkers workers();        // list, quiet, stop and resume them

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
