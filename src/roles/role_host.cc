// Threads, pauses, freezing and stopping of roles.
#include "roles/role_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "mainspring/job.h"

namespace mainspring::roles {
namespace {

// The part of stop_limit after which on_stop is called even if a run() has not returned.
constexpr int kPatienceNumerator = 4, kPatienceDenominator = 5;

// The only place that catches a role's exceptions: "" = `call` returned.
template <class F>
std::string failure_of(const char* what, F call) {
  try {
    call();
    return "";
  } catch (const std::exception& error) {
    return fmt::format("{} threw: {}", what, error.what());
  } catch (...) {
    return fmt::format("{} threw an exception that is not a std::exception", what);
  }
}

LogLevel level_of(std::string_view name) {
  if (name == "debug") return LogLevel::debug;
  if (name == "warn") return LogLevel::warn;
  if (name == "error") return LogLevel::error;
  return LogLevel::info;
}

}  // namespace

struct RoleHost::Impl {
  // A role, its context, and its state.
  struct Slot final : RoleContext {
    Slot(Impl& its_host, Role& its_role) : host(its_host), role(its_role) {
      view.name = role.name();
    }
    Engine& engine() override;
    std::string config(std::string_view name, std::string_view fallback) const override;
    void set_metric(std::string_view name, double value) override;
    void log(std::string_view level, std::string_view text) override;
    std::stop_token stop_token() const override { return host.stop_source.get_token(); }

    Impl& host;
    Role& role;
    std::thread thread;
    // Guarded by host.mutex.
    RoleView view;
    bool on_stop_due = false;  // on_start has returned true
    bool ended = false;        // its thread has finished
    std::map<std::string, double> metrics;
    bool too_many_metrics = false;
  };
  // A startup task with its own thread, which may outlive the host.
  struct TaskThread {
    StartupTask::Kind kind;
    std::string name;
    std::shared_ptr<bool> done;  // guarded by the shared mutex
    std::thread thread;
  };
  // State of threads that may outlive the host.
  struct Shared {
    Mutex mutex;
    CondVar changed;
  };

  Impl(RoleOptions given, Engine* its_engine, const Clock& its_clock, Log& its_log)
      : options(std::move(given)), engine(its_engine), clock(its_clock), log(its_log) {}

  const RoleOptions options;
  Engine* const engine;
  const Clock& clock;
  Log& log;
  std::vector<std::unique_ptr<Slot>> slots;
  std::stop_source stop_source;

  const std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  Mutex& mutex = shared->mutex;
  CondVar& changed = shared->changed;
  Settings settings MS_GUARDED_BY(mutex);
  std::function<void(const Error&)> fatal MS_GUARDED_BY(mutex);
  std::vector<TaskThread> tasks MS_GUARDED_BY(mutex);
  enum class Phase { idle, started, stopping, stopped };
  Phase phase MS_GUARDED_BY(mutex) = Phase::idle;
  enum class EngineState { idle, starting, started };
  EngineState engine_state MS_GUARDED_BY(mutex) = EngineState::idle;
  bool engine_tried MS_GUARDED_BY(mutex) = false;  // started, or there was no handler

  void register_metrics(Registry& registry);
  Result<void> check() const;
  Result<void> run_tasks();
  Result<void> run_task(const StartupTask& task);
  bool stopping() const MS_REQUIRES(mutex) { return phase >= Phase::stopping; }
  bool all_ready() const MS_REQUIRES(mutex);
  void start_engine() MS_EXCLUDES(mutex);
  void supervise(Slot& slot) MS_EXCLUDES(mutex);
  bool wait_until_thawed(Slot& slot, int& in_row) MS_EXCLUDES(mutex);
  std::string attempt(Slot& slot, Duration& ran) MS_EXCLUDES(mutex);
  void pause(Slot& slot, const std::string& why, int in_row) MS_EXCLUDES(mutex);
  Duration pause_after(int in_row) const;
  void finish(Instant patience) MS_EXCLUDES(mutex);
  bool busy() const MS_REQUIRES(mutex);  // a run() or a foreground task is active
  std::vector<std::string> unfinished() const MS_REQUIRES(mutex);
  static Log::Fields named(const Slot& slot) { return {{"role", slot.view.name}}; }
  void join_all() MS_EXCLUDES(mutex);
};

// -- what a role is given

Engine& RoleHost::Impl::Slot::engine() {
  if (host.engine == nullptr) {
    throw std::runtime_error(
        "this program has no engine: start it with --engine DIR or --engine "
        "http://HOST:PORT");
  }
  bool late = false;
  {
    MutexLock lock(host.mutex);
    late = host.engine_state == EngineState::started && !on_stop_due;
  }
  if (late) {
    host.log.warn(
        "the engine started before this role was ready: its handlers run no jobs until the program "
        "restarts",
        {{"role", view.name}});
  }
  return *host.engine;
}

std::string RoleHost::Impl::Slot::config(std::string_view name, std::string_view fallback) const {
  MutexLock lock(host.mutex);
  return host.settings.value(name).value_or(std::string(fallback));
}

void RoleHost::Impl::Slot::set_metric(std::string_view name, double value) {
  {
    MutexLock lock(host.mutex);
    const auto found = metrics.find(std::string(name));
    if (found != metrics.end()) {
      found->second = value;
      return;
    }
    if (metrics.size() < kMaxMetrics) {
      metrics.emplace(name, value);
      return;
    }
    if (std::exchange(too_many_metrics, true)) return;
  }
  host.log.warn("a role sets more metrics than are kept",
                {{"role", view.name}, {"limit", fmt::to_string(kMaxMetrics)}});
}

void RoleHost::Impl::Slot::log(std::string_view level, std::string_view text) {
  host.log.write(level_of(level), text, {{"role", view.name}});
}

void RoleHost::Impl::register_metrics(Registry& registry) {
  const auto gauges = [&](const char* name, const char* help,
                          std::function<void(const Slot&, Registry::Samples&)> add) {
    registry.gauges(name, help, [this, add = std::move(add)] {
      Registry::Samples samples;
      MutexLock lock(mutex);
      for (const auto& slot : slots) add(*slot, samples);
      return samples;
    });
  };
  gauges("mainspring_role_running", "1 while the role runs.",
         [](const Slot& slot, Registry::Samples& out) {
           out.push_back(
               {{{"role", slot.view.name}}, slot.view.state == RoleState::running ? 1.0 : 0.0});
         });
  gauges("mainspring_role_frozen", "1 while the role is frozen.",
         [](const Slot& slot, Registry::Samples& out) {
           out.push_back(
               {{{"role", slot.view.name}}, slot.view.state == RoleState::frozen ? 1.0 : 0.0});
         });
  gauges("mainspring_role_starts", "Starts of the role.",
         [](const Slot& slot, Registry::Samples& out) {
           out.push_back({{{"role", slot.view.name}}, static_cast<double>(slot.view.starts)});
         });
  gauges("mainspring_role_failures", "Failed starts and unexpected ends of the role.",
         [](const Slot& slot, Registry::Samples& out) {
           out.push_back({{{"role", slot.view.name}}, static_cast<double>(slot.view.failures)});
         });
  gauges("mainspring_role_value", "Values that a role sets.",
         [](const Slot& slot, Registry::Samples& out) {
           for (const auto& [name, value] : slot.metrics) {
             out.push_back({{{"role", slot.view.name}, {"name", name}}, value});
           }
         });
}

// -- the life of a role

bool RoleHost::Impl::all_ready() const {
  return std::all_of(slots.begin(), slots.end(), [](const auto& slot) {
    return slot->view.state == RoleState::running ||
           (slot->view.freeze && slot->view.state != RoleState::stopping);
  });
}

// Starts the handlers when the last role is ready.
void RoleHost::Impl::start_engine() {
  {
    MutexLock lock(mutex);
    if (engine == nullptr || engine_state != EngineState::idle) return;
    if (phase != Phase::started || !all_ready()) return;
    engine_state = EngineState::starting;
  }
  const Result<void> started = engine->start();
  // No role has registered a handler: a role that is thawed later may do so.
  const bool no_handler = !started && started.error().field == "handlers";
  std::function<void(const Error&)> tell;
  {
    MutexLock lock(mutex);
    engine_state = no_handler ? EngineState::idle : EngineState::started;
    engine_tried = started || no_handler;
    if (!started && !no_handler) tell = fatal;
  }
  changed.notify_all();
  if (started) log.info("all roles are ready; handlers take jobs");
  if (tell) tell(started.error());
}

// Returns false if the program stops.
bool RoleHost::Impl::wait_until_thawed(Slot& slot, int& in_row) {
  bool slept = false;
  for (;;) {
    {
      MutexLock lock(mutex);
      if (stopping()) return false;
      if (!slot.view.freeze) break;
      slot.view.state = RoleState::frozen;
      changed.notify_all();
    }
    if (!slept) log.warn("the role is frozen: it sleeps until it is thawed", named(slot));
    slept = true;
    start_engine();  // no longer waits for this role
    MutexLock lock(mutex);
    while (slot.view.freeze && !stopping()) changed.wait(mutex);
  }
  if (slept) {
    in_row = 0;
    log.info("the role is thawed", named(slot));
  }
  return true;
}

// Runs on_start and run() once. Returns why they ended.
std::string RoleHost::Impl::attempt(Slot& slot, Duration& ran) {
  ran = Duration(0);
  {
    MutexLock lock(mutex);
    if (stopping()) return "";
    slot.view.state = RoleState::starting;
    ++slot.view.starts;
  }
  bool ready = false;
  std::string why = failure_of("on_start", [&] { ready = slot.role.on_start(slot); });
  if (!why.empty()) return why;
  if (!ready) return "on_start returned false";
  {
    MutexLock lock(mutex);
    slot.on_stop_due = true;
    if (stopping()) return "";
    slot.view.state = RoleState::running;
  }
  changed.notify_all();
  log.info("the role is ready", named(slot));
  start_engine();
  const Instant begin = clock.now().instant;
  why = failure_of("run", [&] { slot.role.run(stop_source.get_token()); });
  ran = clock.now().instant - begin;
  return why.empty() ? "run returned" : why;
}

Duration RoleHost::Impl::pause_after(int in_row) const {
  Duration pause = options.first_pause;
  for (int i = 1; i < in_row && pause < options.longest_pause; ++i) {
    pause = pause > options.longest_pause / 2 ? options.longest_pause : pause * 2;
  }
  return std::min(pause, options.longest_pause);
}

void RoleHost::Impl::pause(Slot& slot, const std::string& why, int in_row) {
  const Duration length = pause_after(in_row);
  const Instant end = clock.now().instant + length;
  bool freeze = false;
  {
    MutexLock lock(mutex);
    if (stopping()) return;
    slot.view.state = RoleState::pausing;
    ++slot.view.failures;
    slot.view.last_failure = why;
    freeze = slot.view.freeze;
  }
  changed.notify_all();
  if (freeze) {
    log.warn("the role ended", {{"role", slot.view.name}, {"why", why}});
    return;
  }
  log.warn("the role ended; it is started again",
           {{"role", slot.view.name}, {"why", why}, {"in", format_duration(length)}});
  MutexLock lock(mutex);
  while (!stopping() && !slot.view.freeze) {
    const Instant now = clock.now().instant;
    if (now >= end) return;
    changed.wait_for(mutex, end - now);
  }
}

void RoleHost::Impl::supervise(Slot& slot) {
  int in_row = 0;
  while (wait_until_thawed(slot, in_row)) {
    Duration ran{0};
    const std::string why = attempt(slot, ran);
    if (ran >= options.healthy) in_row = 0;
    pause(slot, why, ++in_row);
  }
  MutexLock lock(mutex);
  slot.ended = true;
  changed.notify_all();
}

// -- startup tasks

Result<void> RoleHost::Impl::run_task(const StartupTask& task) {
  Result<void> result;
  const std::string why = failure_of("it", [&] { result = task.task(); });
  if (why.empty() && result) return {};
  return Error{ErrorCode::internal, fmt::format("startup task \"{}\": {}", task.name,
                                                why.empty() ? result.error().message : why)};
}

Result<void> RoleHost::Impl::run_tasks() {
  for (const StartupTask& task : options.startup_tasks) {
    if (task.kind == StartupTask::Kind::simple) {
      MS_TRY(run_task(task));
      continue;
    }
    // Copies of all: a background task may outlive this object. `done` is set when the host is
    // gone; then the task does not use the log.
    auto done = std::make_shared<bool>(false);
    std::thread thread([task, done, shared = shared, &log = log] {
      Result<void> result;
      const std::string why = failure_of("it", [&] { result = task.task(); });
      const std::string failed = why.empty() && !result ? result.error().message : why;
      MutexLock lock(shared->mutex);
      if (!failed.empty() && !*done) {
        log.error("a startup task failed", {{"task", task.name}, {"why", failed}});
      }
      *done = true;
      shared->changed.notify_all();
    });
    MutexLock lock(mutex);
    tasks.push_back({task.kind, task.name, done, std::move(thread)});
  }
  return {};
}

// -- the end

std::vector<std::string> RoleHost::Impl::unfinished() const {
  std::vector<std::string> names;
  for (const auto& slot : slots) {
    if (!slot->ended || slot->on_stop_due) names.push_back(slot->view.name);
  }
  for (const TaskThread& task : tasks) {
    if (task.kind == StartupTask::Kind::foreground && !*task.done) names.push_back(task.name);
  }
  return names;
}

bool RoleHost::Impl::busy() const {
  return std::any_of(slots.begin(), slots.end(), [](const auto& slot) { return !slot->ended; }) ||
         std::any_of(tasks.begin(), tasks.end(), [](const TaskThread& task) {
           return task.kind == StartupTask::Kind::foreground && !*task.done;
         });
}

// Stops handlers, run() and foreground tasks, then calls on_stop from the last role to the first.
// At `patience` it stops waiting for a run() that has not returned.
void RoleHost::Impl::finish(Instant patience) {
  if (engine != nullptr) engine->stop();
  {
    MutexLock lock(mutex);
    for (;;) {
      const Instant now = clock.now().instant;
      if (!busy() || now >= patience) break;
      changed.wait_for(mutex, patience - now);
    }
  }
  for (auto slot = slots.rbegin(); slot != slots.rend(); ++slot) {
    bool due = false;
    {
      MutexLock lock(mutex);
      due = (*slot)->on_stop_due;
    }
    std::string why;
    if (due) why = failure_of("on_stop", [&] { (*slot)->role.on_stop(); });
    if (!why.empty())
      log.error("a role did not stop cleanly", {{"role", (*slot)->view.name}, {"why", why}});
    MutexLock lock(mutex);
    (*slot)->on_stop_due = false;
    if ((*slot)->ended) (*slot)->view.state = RoleState::stopped;
    changed.notify_all();
  }
  MutexLock lock(mutex);
  while (busy()) changed.wait(mutex);
  for (const auto& slot : slots) slot->view.state = RoleState::stopped;
  phase = Phase::stopped;
  changed.notify_all();
}

void RoleHost::Impl::join_all() {
  for (const auto& slot : slots) {
    if (slot->thread.joinable()) slot->thread.join();
  }
  std::vector<TaskThread> all;
  {
    MutexLock lock(mutex);
    all.swap(tasks);
  }
  for (TaskThread& task : all) {
    bool done = false;
    {
      MutexLock lock(mutex);
      done = std::exchange(*task.done, true);  // true = it logs nothing more
    }
    if (done) {
      task.thread.join();
    } else {
      task.thread.detach();
    }
  }
}

// -- the face

RoleHost::RoleHost(std::vector<Role*> roles, RoleOptions options, Engine* engine,
                   const Clock& clock, Log& log, Registry& registry)
    : impl_(std::make_unique<Impl>(std::move(options), engine, clock, log)) {
  for (Role* role : roles) impl_->slots.push_back(std::make_unique<Impl::Slot>(*impl_, *role));
  impl_->register_metrics(registry);
}

RoleHost::~RoleHost() {
  stop([](const std::vector<std::string>&) {});
}

Result<void> RoleHost::configure(Settings settings) {
  std::set<std::string> named = settings.freeze_flags;
  named.insert(settings.file.freeze.begin(), settings.file.freeze.end());
  for (const auto& slot : impl_->slots) named.erase(slot->view.name);
  if (!named.empty()) {
    return invalid("freeze", fmt::format("freeze \"{}\": there is no such role", *named.begin()));
  }
  {
    MutexLock lock(impl_->mutex);
    impl_->settings = std::move(settings);
    for (const auto& slot : impl_->slots) {
      slot->view.freeze = impl_->settings.frozen(slot->view.name);
    }
    impl_->changed.notify_all();
  }
  impl_->start_engine();
  return {};
}

void RoleHost::on_fatal(std::function<void(const Error&)> fatal) {
  MutexLock lock(impl_->mutex);
  impl_->fatal = std::move(fatal);
}

Result<void> RoleHost::Impl::check() const {
  if (const std::vector<Error> errors = options.validate(); !errors.empty()) return errors.front();
  if (slots.empty()) return invalid("roles", "roles: there must be at least one");
  std::set<std::string> names;
  for (const auto& slot : slots) {
    MS_TRY(check_name("role", slot->view.name));
    if (!names.insert(slot->view.name).second) {
      return invalid("role", fmt::format("role \"{}\": two roles have this name", slot->view.name));
    }
  }
  return {};
}

Result<void> RoleHost::start() {
  MS_TRY(impl_->check());
  MS_TRY(impl_->run_tasks());
  MutexLock lock(impl_->mutex);
  if (impl_->phase != Impl::Phase::idle) {
    return Error{ErrorCode::conflict, "roles: have already been started"};
  }
  impl_->phase = Impl::Phase::started;
  for (const auto& slot : impl_->slots) {
    slot->thread = std::thread([this, one = slot.get()] { impl_->supervise(*one); });
  }
  return {};
}

void RoleHost::stop(const std::function<void(const std::vector<std::string>&)>& overdue) {
  Impl& host = *impl_;
  {
    MutexLock lock(host.mutex);
    if (host.phase >= Impl::Phase::stopping) {
      while (host.phase != Impl::Phase::stopped) host.changed.wait(host.mutex);
      return;
    }
    const bool started = host.phase == Impl::Phase::started;
    host.phase = Impl::Phase::stopping;
    for (const auto& slot : host.slots) {
      slot->view.state = RoleState::stopping;
      if (!started) slot->ended = true;
    }
    host.changed.notify_all();
  }
  const Instant now = host.clock.now().instant;
  host.stop_source.request_stop();
  const Instant deadline = now + host.options.stop_limit;
  const Duration patience = host.options.stop_limit / kPatienceDenominator * kPatienceNumerator;
  std::thread finisher([&host, at = now + patience] { host.finish(at); });
  std::vector<std::string> late;
  {
    MutexLock lock(host.mutex);
    while (host.phase != Impl::Phase::stopped) {
      const Instant at = host.clock.now().instant;
      if (at >= deadline) {
        late = host.unfinished();
        if (late.empty()) late.push_back("handlers");
        break;
      }
      host.changed.wait_for(host.mutex, deadline - at);
    }
  }
  if (!late.empty()) overdue(late);
  finisher.join();
  host.join_all();
}

void RoleHost::wake() {
  MutexLock lock(impl_->mutex);
  impl_->changed.notify_all();
}

bool RoleHost::ready() const {
  MutexLock lock(impl_->mutex);
  if (impl_->phase != Impl::Phase::started) return false;
  return impl_->all_ready() && (impl_->engine == nullptr || impl_->engine_tried);
}

std::vector<RoleView> RoleHost::view() const {
  MutexLock lock(impl_->mutex);
  std::vector<RoleView> views;
  for (const auto& slot : impl_->slots) views.push_back(slot->view);
  return views;
}

}  // namespace mainspring::roles
