// The embeddable engine: a node in this process or a client of a server, with workers.
#include "mainspring/engine.h"
#include "broker/broker.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/access_shapes.h"
#include "api/callback_shapes.h"
#include "api/json.h"
#include "api/search_shapes.h"
#include "api/shapes.h"
#include "base/fnv.h"
#include "base/mutex.h"
#include "client/client.h"
#include "engine/checks.h"
#include "engine/node.h"
#include "engine/session_means.h"
#include "engine/subscription.h"
#include "env/clock.h"
#include "env/random.h"
#include "model/callback.h"
#include "model/trace_context.h"
#include "worker/auto_renew_lease.h"
#include "worker/continuous_timer.h"
#include "worker/held_job.h"
#include "worker/worker.h"

namespace mainspring {
namespace {

// Passes log lines to the program's function.
class CallbackLog final : public Log {
 public:
  explicit CallbackLog(std::function<void(std::string_view, std::string_view)> write)
      : write_(std::move(write)) {}
  void write(LogLevel level, std::string_view message, const Fields& fields) override {
    static constexpr std::string_view kNames[] = {"debug", "info", "warn", "error", "off"};
    std::string text(message);
    for (const auto& [name, value] : fields) text += fmt::format(" {}={}", name, value);
    write_(kNames[static_cast<int>(level)], text);
  }

 private:
  std::function<void(std::string_view, std::string_view)> write_;
};

std::unique_ptr<Log> make_log(const EngineOptions& options) {
  if (options.log) return std::make_unique<CallbackLog>(options.log);
  return std::make_unique<StderrLog>(LogLevel::warn);
}

// Distinguishes requests with the same idempotency key: two hashes of the body.
std::string fingerprint_of(const Enqueue& request) {
  std::string body;
  encode_enqueue_request(request, body);
  return fmt::format("{:016x}{:016x}", fnv1a(body), fnv1a(body, kOtherFnvBasis));
}

struct Registration {
  std::string kind;
  Handler handler;
  KindOptions options;
};

}  // namespace

struct Engine::Impl {
  explicit Impl(EngineOptions options_) : options(std::move(options_)), log(make_log(options)) {}
  ~Impl() {
    stop();
    if (node) node->stop();
  }

  Result<void> open(const std::string& target);
  template <class Whole>
  void work_on(Whole& whole);
  Result<void> check_callback(const FollowUp& next, const std::string& prefix);
  Result<void> start() MS_EXCLUDES(mutex);
  void stop() MS_EXCLUDES(mutex);
  void add(std::string kind, const std::string& queue, Handler handler, KindOptions options_of_kind)
      MS_EXCLUDES(mutex);

  EngineOptions options;
  SystemClock clock;
  SystemRandom random;
  Registry registry;
  std::unique_ptr<Log> log;
  std::unique_ptr<Node> node;
  std::unique_ptr<Client> client;
  Jobs* jobs = nullptr;  // one of the two is used
  Workflows* workflows = nullptr;
  Triggers* triggers = nullptr;
  Breakers* breakers = nullptr;
  Marks* marks = nullptr;
  Questions* questions = nullptr;
  std::optional<EngineSessions::Means> sessions;

  TimerSlots timer_slots{kMaxTimerSlots};

  Mutex mutex;
  std::vector<Error> mistakes MS_GUARDED_BY(mutex);  // of on_timer
  std::vector<Registration> handlers MS_GUARDED_BY(mutex);
  std::unique_ptr<WorkerRuntime> worker MS_GUARDED_BY(mutex);
};

// Checks a callback URL. With a server, the server checks it.
Result<void> Engine::Impl::check_callback(const FollowUp& next, const std::string& prefix) {
  if (!node || node->callbacks() == nullptr) return {};
  auto good = node->callbacks()->check(callback_url(next));
  if (!good) good.error().field = prefix + "callback.url";
  return good;
}

FollowUp callback_to(std::string_view url, std::uint8_t on) {
  return make_callback(url, on);
}

template <class Whole>
void Engine::Impl::work_on(Whole& whole) {
  jobs = &whole;
  workflows = &whole;
  triggers = &whole;
  breakers = &whole;
  marks = &whole;
  questions = &whole;
  sessions.emplace(EngineSessions::Means{whole, clock, random});
}

Result<void> Engine::Impl::open(const std::string& target) {
  if (target.starts_with("http://") || target.starts_with("https://") ||
      target.starts_with("unix:")) {
    ClientOptions of_client{.url = target,
                            .token = Secret(options.token),
                            .ca_file = options.ca_file,
                            .certificate_file = options.certificate_file,
                            .key_file = options.key_file,
                            .read_timeout = options.request_timeout,
                            .retry_for = options.retry_for,
                            .warn = [this](const std::string& text) { log->warn(text); }};
    MS_TRY_ASSIGN(client, Client::open(std::move(of_client), random));
    work_on(*client);
    return {};
  }
  const bool postgres = target.starts_with("postgres://") || target.starts_with("postgresql://");
  if (const std::size_t scheme = target.find("://"); scheme != std::string::npos && !postgres) {
    return invalid("url",
                   fmt::format("\"{}\": {} is not supported by this version; give a "
                               "directory, postgres://… of a database, or "
                               "https://HOST:PORT of a server",
                               without_password(target.substr(0, 200)), target.substr(0, scheme)));
  }
  StoreOptions kept{.retention_completed = options.retention_completed,
                    .retention_dead = options.retention_dead};
  NodeOptions node_options;
  if (postgres) {
    node_options.postgres = PostgresOptions{.url = Secret(target), .store = kept};
  } else {
    node_options.sqlite.directory = target;
    node_options.sqlite.store = kept;
  }
  if (options.callback_slots != 0) {
    node_options.callbacks = CallbackOptions{.slots = options.callback_slots,
                                             .timeout = options.callback_timeout,
                                             .outgoing_allow = options.outgoing_allow};
    node_options.callback_key_file = options.callback_key_file;
  }
  node_options.redrive_slots = Redrives::kEmbeddedSlots;
  MS_TRY_ASSIGN(node, Node::open(std::move(node_options), clock, *log, registry));
  if (options.on_fatal) node->on_fatal(options.on_fatal);
  node->start();
  if (node->callbacks() != nullptr) node->callbacks()->start();
  node->redrives()->start();
  work_on(node->broker());
  return {};
}

Result<void> Engine::Impl::start() {
  MutexLock lock(mutex);
  if (worker) {
    return Error{.code = ErrorCode::conflict, .message = "engine: was started before"};
  }
  if (!mistakes.empty()) return mistakes.front();
  if (handlers.empty()) {
    return invalid("handlers", "engine: must have a handler (on<T>()) before it is started");
  }
  auto made = std::make_unique<WorkerRuntime>(*jobs, clock, random, *log, options.worker);
  for (const Registration& one : handlers) made->on(one.kind, one.handler, one.options);
  MS_TRY(made->start());
  worker = std::move(made);
  return {};
}

void Engine::Impl::stop() {
  WorkerRuntime* running = nullptr;
  {
    MutexLock lock(mutex);
    running = worker.get();
  }
  if (running != nullptr) running->stop();
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

Result<Engine> Engine::open(std::string directory_or_url, EngineOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  MS_TRY(impl->open(directory_or_url));
  return Engine(std::move(impl));
}

void Engine::Impl::add(std::string kind, const std::string& queue, Handler handler,
                       KindOptions options_of_kind) {
  const std::string name = queue.empty() ? "default" : queue;
  MutexLock lock(mutex);
  if (auto good = check_not_reserved("queue", name); !good) mistakes.push_back(good.error());
  std::vector<std::string>& queues = options.worker.queues;
  if (std::find(queues.begin(), queues.end(), name) == queues.end()) queues.push_back(name);
  Registration one{std::move(kind), std::move(handler), std::move(options_of_kind)};
  // The last handler of a kind counts. Repeated registration keeps only one.
  const auto same = std::find_if(handlers.begin(), handlers.end(),
                                 [&](const Registration& r) { return r.kind == one.kind; });
  if (same == handlers.end()) {
    handlers.push_back(std::move(one));
  } else {
    *same = std::move(one);
  }
}

void Engine::on_kind(std::string kind, Handler handler, HandlerOptions options) {
  impl_->add(std::move(kind), options.queue, std::move(handler),
             {.concurrency = options.concurrency,
              .timeout = options.timeout,
              .retry = options.retry,
              .singleton = std::move(options.singleton)});
}

void Engine::on_timer(std::string kind, ProcessBatch process, TimerOptions options) {
  const auto errors = options.validate();
  if (!errors.empty()) {
    MutexLock lock(impl_->mutex);
    impl_->mistakes.insert(impl_->mistakes.end(), errors.begin(), errors.end());
    return;
  }
  const std::string queue = options.queue;
  impl_->add(std::move(kind), queue,
             timer_handler(*impl_->jobs, impl_->clock, impl_->random, impl_->timer_slots,
                           std::move(process), std::move(options)),
             {.until_stopped = true});
}

Result<void> Engine::start() {
  return impl_->start();
}

void Engine::stop() {
  impl_->stop();
}

Result<SlotSummary> Engine::run_slot(SlotOptions slot, std::stop_token stop) {
  WorkerOptions worker;
  std::vector<Registration> handlers;
  {
    MutexLock lock(impl_->mutex);
    worker = impl_->options.worker;
    handlers = impl_->handlers;
  }
  SlotRunner runner(*impl_->jobs, impl_->clock, impl_->random, *impl_->log, std::move(worker),
                    std::move(slot));
  for (Registration& one : handlers) {
    runner.on(std::move(one.kind), std::move(one.handler), std::move(one.options));
  }
  return runner.run(std::move(stop));
}

WorkerStats Engine::stats() const {
  MutexLock lock(impl_->mutex);
  return impl_->worker ? impl_->worker->stats() : WorkerStats{};
}

NewJob Engine::new_job(std::string_view kind, std::string queue, std::string args,
                       const EnqueueOptions& options) {
  NewJob job;
  job.queue = std::move(queue);
  job.kind = kind;
  job.args = std::move(args);
  job.priority = options.priority;
  job.run_at = options.run_at;
  job.delay = options.delay;
  job.max_attempts = options.max_attempts;
  job.unique = options.unique;
  job.expires_in = options.expires_in;
  job.on_expiry = options.on_expiry;
  job.timeout = options.timeout;
  job.tags = options.tags;
  job.headers = options.headers;
  job.correlation_id = options.correlation_id;
  job.reply_to = options.reply_to;
  job.reply_session = options.reply_session;
  job.session = options.session;
  job.on_dead = options.on_dead;
  job.limit_key = options.limit_key;
  job.follow_ups = options.follow_ups;
  return job;
}

Result<Enqueued> Engine::enqueue(NewJob job, std::string idempotency_key, LeaseFence fence) {
  std::vector<NewJob> list;
  list.push_back(std::move(job));
  MS_TRY_ASSIGN(const auto done,
                enqueue_many(std::move(list), std::move(idempotency_key), std::move(fence)));
  return done.at(0);
}

Result<std::vector<Enqueued>> Engine::enqueue_many(std::vector<NewJob> jobs,
                                                   std::string idempotency_key, LeaseFence fence) {
  if (jobs.empty()) return std::vector<Enqueued>();
  if (jobs.size() > kMaxEnqueueJobs) {
    return Error{.code = ErrorCode::too_large,
                 .message = fmt::format("jobs has {} elements: must be at most {}", jobs.size(),
                                        kMaxEnqueueJobs),
                 .field = "jobs"};
  }
  if (!fence.lease.empty()) MS_TRY(check_name("fence.lease", fence.lease));
  // The same check as in a server: stored values must be JSON.
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const std::string prefix = jobs.size() == 1 ? "" : fmt::format("jobs[{}].", i);
    MS_TRY(validate(jobs[i], prefix));
    MS_TRY(check_json(prefix + "args", jobs[i].args));
    for (const auto& [field, key] : {std::pair("session", &jobs[i].session),
                                     std::pair("reply_session", &jobs[i].reply_session),
                                     std::pair("limit_key", &jobs[i].limit_key)}) {
      if (!is_utf8(*key)) return invalid(prefix + field, fmt::format("{}: must be UTF-8", field));
    }
    if (!jobs[i].headers.empty()) MS_TRY(check_json(prefix + "headers", jobs[i].headers));
    for (std::size_t n = 0; n < jobs[i].follow_ups.size(); ++n) {
      const FollowUp& next = jobs[i].follow_ups[n];
      const std::string& data = next.data;
      if (!data.empty()) MS_TRY(check_json(fmt::format("{}then[{}].data", prefix, n), data));
      if (is_callback(next)) MS_TRY(impl_->check_callback(next, prefix));
    }
  }
  const std::size_t jobs_asked = jobs.size();
  Enqueue request{.jobs = std::move(jobs),
                  .idempotency_key = std::move(idempotency_key),
                  .fingerprint = {},
                  .fence = {std::move(fence.lease), fence.token}};
  if (!request.idempotency_key.empty()) request.fingerprint = fingerprint_of(request);
  // Added after the fingerprint: a repeated enqueue may come from another attempt. A client of a
  // server sends the trace as a header.
  if (const TraceHeaders* trace = current_trace(); trace != nullptr && impl_->node != nullptr) {
    for (NewJob& job : request.jobs) trace->add_to(job.headers);
  }
  MS_TRY_ASSIGN(const EnqueueResult result, impl_->jobs->enqueue(std::move(request)));
  std::vector<Enqueued> out;
  out.reserve(result.jobs.size());
  if (result.jobs.size() != jobs_asked) {
    return Error{.message =
                     fmt::format("enqueue: {} answers to {} jobs", result.jobs.size(), jobs_asked)};
  }
  for (const EnqueuedJob& one : result.jobs) out.push_back({one.id, one.state, one.duplicate});
  return out;
}

Result<Job> Engine::get(JobId id) {
  return impl_->jobs->get(id);
}

Result<Job> Engine::wait(JobId id, Duration limit, std::stop_token stop) {
  return impl_->jobs->wait(id, limit, std::move(stop));
}

Result<void> Engine::check_completed(const Job& job) {
  if (job.state == JobState::completed) return {};
  std::string why = job.description.empty() ? job.reason : job.description;
  if (why.empty() && !job.errors.empty()) why = job.errors.back().message;
  return Error{.code = ErrorCode::conflict,
               .message = fmt::format("job {} has no result: it is {}{}{}", job.id,
                                      to_string(job.state), why.empty() ? "" : ": ", why)};
}

Result<JobState> Engine::cancel(JobId id, std::string reason) {
  MS_TRY_ASSIGN(const CancelResult result, impl_->jobs->cancel({id, std::move(reason)}));
  return result.state;
}

Result<JobState> Engine::retry(JobId id) {
  MS_TRY_ASSIGN(const RetryResult result, impl_->jobs->retry({id}));
  return result.state;
}

Result<JobState> Engine::edit(JobId id, JobEdit changes) {
  MS_TRY_ASSIGN(const EditResult result, impl_->jobs->edit({.id = id,
                                                            .args = std::move(changes.args),
                                                            .priority = changes.priority,
                                                            .run_at = changes.run_at,
                                                            .tags = std::move(changes.tags)}));
  return result.state;
}

Result<void> Engine::remove(JobId id) {
  return impl_->jobs->delete_job({.id = id});
}

Result<Enqueued> Engine::clone(JobId id, JobClone changes) {
  MS_TRY_ASSIGN(const EnqueuedJob made, impl_->jobs->clone({.id = id,
                                                            .args = std::move(changes.args),
                                                            .queue = std::move(changes.queue),
                                                            .priority = changes.priority,
                                                            .run_at = changes.run_at}));
  return Enqueued{.id = made.id, .state = made.state, .duplicate = made.duplicate};
}

Result<FoundJobs> Engine::jobs(const JobSearch& search, int limit, JobId before) {
  MS_TRY(check_limit(limit));
  MS_TRY(check_position("before", before));
  MS_TRY_ASSIGN(const JobFilter filter, job_filter_of(search, impl_->clock.now().wall));
  MS_TRY_ASSIGN(JobPage page, impl_->jobs->list(filter, limit, before));
  return FoundJobs{std::move(page.jobs), page.next, page.examined, page.of};
}

Result<Why> Engine::why(JobId id) {
  return impl_->questions->why(id);
}

Result<History> Engine::history(HistoryFilter filter) {
  return impl_->questions->history(filter);
}

Result<Mark> Engine::mark(std::string text, std::optional<WallTime> at) {
  return impl_->marks->add_mark(
      {.text = std::move(text), .at = at, .by = std::string(kLocalCaller)});
}

Result<MarkPage> Engine::marks(MarkFilter filter) {
  return impl_->marks->marks(filter);
}

Result<void> Engine::remove_mark(std::int64_t id) {
  return impl_->marks->remove_mark(id);
}

Result<SavedView> Engine::save_view(SavedView view) {
  view.by = kLocalCaller;
  return impl_->marks->put_view({.view = std::move(view)});
}

Result<std::vector<SavedView>> Engine::views() {
  return impl_->marks->views();
}

Result<void> Engine::remove_view(const std::string& name) {
  return impl_->marks->remove_view(name);
}

Result<HeldJob> Engine::claim(JobId id, ClaimOptions options) {
  return hold_job(*impl_->jobs, impl_->clock, impl_->random, id, options);
}

Result<EventSubscription> Engine::events(EventFilter filter,
                                         std::function<void(const EngineEvent&)> on_event) {
  return subscribe(*impl_->questions, std::move(filter), std::move(on_event));
}

Result<AutoRenewLease> Engine::lock(std::string name, LeaseOptions options) {
  return acquire(*impl_->jobs, impl_->clock, impl_->random, std::move(name), std::move(options));
}

Result<Once> Engine::do_once(std::string name, const LeaseAction& action, LeaseOptions options) {
  return mainspring::do_once(*impl_->jobs, impl_->clock, impl_->random, std::move(name), action,
                             std::move(options));
}

Result<void> Engine::do_every(std::string name, Duration interval, const LeaseAction& action,
                              LeaseOptions options) {
  return mainspring::do_every(*impl_->jobs, impl_->clock, impl_->random, std::move(name), interval,
                              action, std::move(options));
}

EngineQueues Engine::queues() {
  return EngineQueues(*impl_->jobs);
}

EngineWorkers Engine::workers() {
  return EngineWorkers(*impl_->jobs);
}

EngineBreakers Engine::breakers() {
  return EngineBreakers(*impl_->breakers);
}

EngineQuarantine Engine::quarantine() {
  return EngineQuarantine(*impl_->jobs);
}

EngineDead Engine::dead() {
  return EngineDead(*impl_->jobs, *impl_->questions);
}

EngineBulk Engine::bulk() {
  return EngineBulk(*impl_->questions);
}

EngineSchedules Engine::schedules() {
  return EngineSchedules(*impl_->jobs);
}

EngineSessions Engine::sessions() {
  return EngineSessions(*impl_->sessions);
}

EngineWorkflows Engine::workflows() {
  return EngineWorkflows(*impl_->workflows);
}

EngineTriggers Engine::triggers() {
  return EngineTriggers(*impl_->triggers);
}

}  // namespace mainspring
